"""Error responses of the REST API as Problem Details (RFC 9457).

RFC 9457: `application/problem+json` with the code, its name, and one sentence. A browser that requested a page gets the
sentence as plain text where no page can be rendered.
"""

import logging
from collections.abc import Mapping
from http import HTTPStatus

import msgspec
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import PlainTextResponse, Response

from tarrafa.config import Complaint
from tarrafa.errors import (
    Busy,
    ConfigError,
    DataError,
    FrontierError,
    NotFound,
    PageTakenDown,
    QueryError,
    QueryLimitExceeded,
    TarrafaError,
)
from tarrafa.i18n import ENGLISH, Message, Translator
from tarrafa.server.page_responses import Forbidden, UnknownResource

log = logging.getLogger(__name__)
MEDIA_TYPE = "application/problem+json"
API_PATH = "/api"


class Problem(msgspec.Struct, frozen=True):
    """Why there is no result. `detail` is a sentence for people; `complaints` say where a collection is invalid."""

    status: int
    title: str
    detail: str
    type: str = "about:blank"
    complaints: list[Complaint] | msgspec.UnsetType = msgspec.UNSET


class RequestRefused(TarrafaError):
    """A refused request: an HTTP status and the reason."""

    def __init__(self, code: int, why: Message, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(why)
        self.code, self.headers = code, dict(headers or {})


ERROR_STATUSES: dict[type[Exception], int] = {
    UnknownResource: 404,
    NotFound: 404,
    Forbidden: 403,
    ConfigError: 400,
    QueryError: 400,
    QueryLimitExceeded: 503,
    Busy: 503,
    DataError: 503,
    FrontierError: 503,
    PageTakenDown: 451,
    ClientDisconnect: 400,
}
RETRY_AFTER_S = 5


def status_and_message(error: Exception, _: Translator) -> tuple[int, str, dict[str, str]]:
    """The status, sentence and headers of an error. Unexpected errors are described in the log only."""
    if isinstance(error, RequestRefused):
        return error.code, _.render(error.message), error.headers
    if isinstance(error, HTTPException):
        known = {
            404: _("There is nothing at this address."),
            405: _("This method is not allowed here; see the header Allow."),
        }
        return error.status_code, known.get(error.status_code, error.detail), dict(error.headers or {})
    code = next((code for kind, code in ERROR_STATUSES.items() if isinstance(error, kind)), 500)
    if code == 500:
        log.error("unexpected", exc_info=error)
        return code, _("Something went wrong on our side. It was written to the log."), {}
    if isinstance(error, ClientDisconnect):
        return code, _("The request was not received completely: send it again."), {}
    if isinstance(error, PageTakenDown):
        return code, _("This page was taken down: nothing of it is shown here."), {}
    sentence = _.render(error.message) if isinstance(error, TarrafaError) else str(error)
    return code, sentence, {"Retry-After": str(RETRY_AFTER_S)} if code == 503 else {}


def problem_response(
    code: int, sentence: str, headers: Mapping[str, str] | None = None, complaints: list[Complaint] | None = None
) -> Response:
    try:
        title = HTTPStatus(code).phrase
    except ValueError:
        title = "Problem"
    body = msgspec.json.encode(
        Problem(code, title, sentence, complaints=ENGLISH.render_all(complaints) or msgspec.UNSET)
    )
    response = Response(body, code, dict(headers or {}), MEDIA_TYPE)
    if code == 413:
        response.headers["Connection"] = "close"  # the rest of the body is not read
    return response


def refusal_response(request: Request, code: int, sentence: str, headers: Mapping[str, str] | None = None) -> Response:
    """As JSON for a program, or in plain text."""
    if wants_json(request):
        return problem_response(code, sentence, headers)
    return PlainTextResponse(f"{sentence}\n", code, headers)


def wants_json(request: Request) -> bool:
    """Whether the client is a program, as far as the request shows."""
    path, accept = request.url.path, request.headers.get("accept", "")
    return path.startswith(f"{API_PATH}/") or path.endswith(".json") or ("json" in accept and "text/html" not in accept)
