"""A server that says exactly what a test tells it to, and remembers exactly what it was sent."""

import asyncio
import socket
import ssl
import struct
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

CERTIFICATES = Path(__file__).parent / "certificates"
AUTHORITY = str(CERTIFICATES / "authority.pem")

Answer = bytes | Callable[[asyncio.StreamWriter], Awaitable[None]]


class RawServer:
    """Answers each request with the next of its answers; then closes, unless `keep`."""

    def __init__(self, *answers: Answer, keep: bool = False) -> None:
        self._answers, self._keep = list(answers), keep
        self.requests: list[bytes] = []
        self.connections = 0
        self.names: list[str | None] = []  # what TLS clients asked for (SNI)
        self.port = 0
        self.host = ""

    @property
    def place(self) -> str:
        """As `connect_to` takes it."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

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
async def a_server(
    *answers: Answer, keep: bool = False, host: str = "127.0.0.1", certificate: str = ""
) -> AsyncIterator[RawServer]:
    """`certificate` names one of those that make.sh makes."""
    raw = RawServer(*answers, keep=keep)
    context = _context(raw, certificate) if certificate else None
    server = await asyncio.start_server(raw._connected, host, 0, ssl=context)
    raw.host, raw.port = host, server.sockets[0].getsockname()[1]
    try:
        yield raw
    finally:
        server.close()


def _context(raw: RawServer, certificate: str) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(CERTIFICATES / f"{certificate}.pem")
    context.sni_callback = lambda _socket, name, _context: raw.names.append(name)
    return context


def reset(writer: asyncio.StreamWriter) -> None:
    """Hang up as a machine does that crashed: RST, not FIN."""
    writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()
