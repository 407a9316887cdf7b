"""Live updates of console pages by server-sent events.

A browser's EventSource receives once a second the changed parts of the page, rendered by the same templates. Promises:
no more listeners at once than STREAMS_MAX, none for longer than STREAM_S_MAX (a browser reconnects by itself); a
listener whose rights have ended receives nothing after its next connection.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from typing import Any

import msgspec
from starlette.responses import Response, StreamingResponse

from tarrafa.coordinator.monitoring.snapshot import SystemSnapshot
from tarrafa.errors import NotFound
from tarrafa.i18n import message
from tarrafa.server.auth.role_and_csrf_guard import ConsoleRequest
from tarrafa.server.error_status import RequestRefused

EVERY_S = 1.0
STREAM_S_MAX = 300.0
STREAMS_MAX = 100
RETRY_MS = 2_000
HEADERS = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}

PageParts = Callable[
    [SystemSnapshot], dict[str, tuple[str, dict[str, Any]]]
]  # id in the page -> template and its values


class LiveUpdates:
    """All listeners of a console."""

    def __init__(self, snapshot: Callable[[], SystemSnapshot]) -> None:
        self._snapshot = snapshot
        self._count = 0
        self._ending = asyncio.Event()

    def close(self) -> None:
        """End all streams, so that the server can stop."""
        self._ending.set()

    def stream(
        self, request: ConsoleRequest, parts: PageParts, more: Callable[[SystemSnapshot], dict[str, Any]] | None = None
    ) -> Response:
        if self._count >= STREAMS_MAX:
            raise RequestRefused(
                503, message("too many live pages are open; load the page again for the current state")
            )

        def news() -> bytes:
            snapshot = self._snapshot()
            drawn = {place: render_part(request, file, **values) for place, (file, values) in parts(snapshot).items()}
            return msgspec.json.encode({"parts": drawn, **(more(snapshot) if more is not None else {})})

        return StreamingResponse(self._events(news), media_type="text/event-stream", headers=HEADERS)

    async def _events(self, news: Callable[[], bytes]) -> AsyncIterator[bytes]:
        self._count += 1
        until = time.monotonic() + STREAM_S_MAX
        try:
            yield b"retry: %d\n\n" % RETRY_MS
            while time.monotonic() < until and not self._ending.is_set():
                yield b"data: " + news() + b"\n\n"
                try:
                    async with asyncio.timeout(EVERY_S):
                        await self._ending.wait()
                except TimeoutError:
                    continue
        except NotFound:  # its subject was deleted
            return
        finally:
            self._count -= 1


def render_part(request: ConsoleRequest, template: str, **values: Any) -> str:
    """A piece of a page."""
    return request.pages.render(request.http, template, **(request.template_values() | values))
