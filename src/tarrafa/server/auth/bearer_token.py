"""Requires a bearer token for an application, and reads request bodies up to a maximum size.

Promises: requests without the token are refused, in a time that does not depend on how much of it was right; no body is
read beyond its maximum. Knows nothing of the requests' content.
"""

import hmac
from collections.abc import Callable

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

BEARER_PREFIX = b"bearer "
TOKEN_REQUIRED = "the header `Authorization: Bearer TOKEN` is missing, or its token is not ours"  # noqa: S105 (a sentence)

RefusalFactory = Callable[[int, str], Response]


class BearerTokenMiddleware:
    """Refuses requests without the token. `refuse` makes the response in the format of the guarded application."""

    def __init__(self, app: ASGIApp, token: bytes, refuse: RefusalFactory) -> None:
        self._app, self._token, self._refuse = app, token, refuse

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        given = dict(scope.get("headers", [])).get(b"authorization", b"")
        right = hmac.compare_digest(given[len(BEARER_PREFIX) :].strip(), self._token)
        if given[: len(BEARER_PREFIX)].lower() == BEARER_PREFIX and right:
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
