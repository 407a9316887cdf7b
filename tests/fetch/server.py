"""A server that says exactly what a test tells it to, and remembers exactly what it was sent."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

Answer = bytes | Callable[[asyncio.StreamWriter], Awaitable[None]]


class RawServer:
    """Answers each request with the next of its answers; then closes, unless `keep`."""

    def __init__(self, *answers: Answer, keep: bool = False) -> None:
        self._answers, self._keep = list(answers), keep
        self.requests: list[bytes] = []
        self.connections = 0
        self.port = 0

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        try:
            while self._answers:
                self.requests.append(await reader.readuntil(b"\r\n\r\n"))
                answer = self._answers.pop(0)
                if callable(answer):
                    await answer(writer)
                else:
                    writer.write(answer)
                    await writer.drain()
                if not self._keep:
                    break
        except (asyncio.IncompleteReadError, ConnectionError, asyncio.CancelledError):
            pass
        writer.close()


@asynccontextmanager
async def a_server(*answers: Answer, keep: bool = False) -> AsyncIterator[RawServer]:
    raw = RawServer(*answers, keep=keep)
    server = await asyncio.start_server(raw._connected, "127.0.0.1", 0)
    raw.port = server.sockets[0].getsockname()[1]
    try:
        yield raw
    finally:
        server.close()
