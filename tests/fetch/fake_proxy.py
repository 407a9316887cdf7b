"""Proxies on loopback, by HTTP and by SOCKS, that lead everybody to one place and remember what they were told."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager


class Proxy:
    """`target` is where all connections lead, whatever is asked for."""

    def __init__(self, target: tuple[str, int]) -> None:
        self._target = target
        self.told: list[bytes] = []
        self.port = 0

    async def by_http(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        self.told.append(head)
        there = await asyncio.open_connection(*self._target)
        if head.startswith(b"CONNECT "):
            writer.write(b"HTTP/1.1 200 Connection established\r\nVia: a proxy\r\n\r\n")
        else:
            there[1].write(head)
        await _join((reader, writer), there)

    async def by_socks(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """RFC 1928: version 5, no password, CONNECT to a name."""
        _, methods = await reader.readexactly(2)
        await reader.readexactly(methods)
        writer.write(b"\x05\x00")
        kind = (await reader.readexactly(4))[3]
        length = {1: 4, 4: 16}.get(kind) or (await reader.readexactly(1))[0]
        self.told.append(await reader.readexactly(length))
        await reader.readexactly(2)
        writer.write(b"\x05\x00\x00\x01\x00\x00\x00\x00\x00\x00")
        await _join((reader, writer), await asyncio.open_connection(*self._target))


Line = tuple[asyncio.StreamReader, asyncio.StreamWriter]


async def _join(one: Line, other: Line) -> None:
    async def pour(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
        while part := await source.read(65536):
            sink.write(part)
        sink.close()

    await asyncio.gather(pour(one[0], other[1]), pour(other[0], one[1]), return_exceptions=True)


@asynccontextmanager
async def a_proxy(host: str, port: int, *, socks: bool = False) -> AsyncIterator[Proxy]:
    proxy = Proxy((host, port))
    server = await asyncio.start_server(proxy.by_socks if socks else proxy.by_http, "127.0.0.1", 0)
    proxy.port = server.sockets[0].getsockname()[1]
    try:
        yield proxy
    finally:
        server.close()
