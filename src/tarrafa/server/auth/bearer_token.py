"""Bearer tokens of applications for programs: checks the token, bounds request bodies, answers errors in one sentence.

Promises: requests without the token are refused, in a time that does not depend on how much of it was right; no body is
read beyond its maximum. Knows nothing of the requests' content.
"""

import hmac
import logging
from collections.abc import Callable
from typing import Any

from starlette.applications import Starlette
from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from tarrafa.errors import TarrafaError
from tarrafa.runtime.token import TOKEN_CHARACTERS_MAX

BEARER = b"bearer "
HEADER_CHARS_MAX = TOKEN_CHARACTERS_MAX + 100
TOKEN_REQUIRED = "the header `Authorization: Bearer TOKEN` is missing, or its token is not ours"  # noqa: S105 (a sentence)

RefusalFactory = Callable[[int, Any], Response]
ErrorStatus = Callable[[Exception], tuple[int, Any] | None]
log = logging.getLogger(__name__)


def create_token_app(routes: list[Route], token: bytes, refuse: RefusalFactory, describe: ErrorStatus) -> Starlette:
    """An application for programs, behind the token if there is one; every error is one sentence.

    `refuse` makes the response to an error; `describe` gives status and sentence of the application's own errors.
    """

    async def error_response(request: Request, error: Exception) -> Response:
        if (known := describe(error)) is not None:
            return refuse(*known)
        if isinstance(error, ClientDisconnect):
            return refuse(400, "the body did not come whole")
        if not isinstance(error, HTTPException):
            log.error("unexpected", exc_info=error)
            return refuse(500, f"something went wrong here: {type(error).__name__}")
        response = refuse(error.status_code, f"{request.method} {request.url.path}: {error.detail}")
        response.headers.update(error.headers or {})
        return response

    kinds: tuple[type[Exception], ...] = (HTTPException, TarrafaError, ClientDisconnect, Exception)
    return Starlette(
        routes=routes,
        middleware=[Middleware(BearerTokenMiddleware, token=token, refuse=refuse)] if token else [],
        exception_handlers=dict.fromkeys(kinds, error_response),
    )


def bearer_token(headers: Headers) -> bytes | None:
    """What a request offers as its token; None: nothing."""
    given = headers.get("authorization", "")[:HEADER_CHARS_MAX].encode("latin-1")
    return given[len(BEARER) :].strip() if given[: len(BEARER)].lower() == BEARER else None


class BearerTokenMiddleware:
    """Refuses requests without the token. `refuse` makes the response in the format of the guarded application."""

    def __init__(self, app: ASGIApp, token: bytes, refuse: RefusalFactory) -> None:
        self._app, self._token, self._refuse = app, token, refuse

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        given = bearer_token(Headers(scope=scope))
        if given is not None and hmac.compare_digest(given, self._token):
            await self._app(scope, receive, send)
            return
        refused = self._refuse(401, TOKEN_REQUIRED)
        refused.headers["WWW-Authenticate"] = "Bearer"
        await refused(scope, receive, send)


async def read_body(request: Request, bytes_max: int) -> bytes | None:
    """The body, read up to its maximum; None: it is longer."""
    announced = request.headers.get("content-length", "")
    parts = bytearray()
    if not (announced.isascii() and announced.isdigit()) or int(announced[:18]) <= bytes_max:
        async for part in request.stream():
            parts += part
            if len(parts) > bytes_max:
                break
        else:
            return bytes(parts)
    return None


async def require_body(request: Request, bytes_max: int) -> bytes:
    """The body; 413 if it is longer than its maximum."""
    body = await read_body(request, bytes_max)
    if body is None:  # the rest of it is not read
        raise HTTPException(413, f"a body holds at most {bytes_max:,} bytes", {"Connection": "close"})
    return body
