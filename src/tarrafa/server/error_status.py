"""HTTP status of each error: one table for pages, console and REST API, and the sentence that people read."""

import logging
from collections.abc import Mapping

from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect

from tarrafa.errors import (
    Busy,
    CaptureNotShown,
    ConfigError,
    DataError,
    FrontierError,
    NotFound,
    PageTakenDown,
    QueryError,
    QueryLimitExceeded,
    ShardUnavailable,
    TarrafaError,
)
from tarrafa.i18n import Message, Translator

log = logging.getLogger(__name__)
API_PATH = "/api"


class UnknownResource(TarrafaError):
    """A resource that is not known here."""


class Forbidden(TarrafaError):
    """A resource that is not public."""


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
    ShardUnavailable: 503,
    PageTakenDown: 451,
    CaptureNotShown: 403,
    ClientDisconnect: 400,
}
RETRY_AFTER_S = 5


def unexpected_error(error: Exception, _: Translator) -> tuple[int, str, dict[str, str]]:
    """The answer to an error that concerns the operator only: the details are in the log."""
    log.error("unexpected", exc_info=error)
    return 500, _("Something went wrong on our side. It was written to the log."), {}


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
        return unexpected_error(error, _)
    if isinstance(error, ClientDisconnect):
        return code, _("The request was not received completely: send it again."), {}
    if isinstance(error, PageTakenDown):
        return code, _("This page was taken down: nothing of it is shown here."), {}
    sentence = _.render(error.message) if isinstance(error, TarrafaError) else str(error)
    return code, sentence, {"Retry-After": str(RETRY_AFTER_S)} if code == 503 else {}
