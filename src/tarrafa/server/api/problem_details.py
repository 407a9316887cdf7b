"""Error responses of the REST API as Problem Details (RFC 9457).

RFC 9457: `application/problem+json` with the code, its name, and one sentence. A browser that requested a page gets the
sentence as plain text where no page can be rendered.
"""

from collections.abc import Mapping
from http import HTTPStatus

import msgspec
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response

from tarrafa.config import Complaint
from tarrafa.i18n import ENGLISH
from tarrafa.server.error_status import API_PATH

MEDIA_TYPE = "application/problem+json"


class Problem(msgspec.Struct, frozen=True):
    """Why there is no result. `detail` is a sentence for people; `complaints` say where a collection is invalid."""

    status: int
    title: str
    detail: str
    type: str = "about:blank"
    complaints: list[Complaint] | msgspec.UnsetType = msgspec.UNSET


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
