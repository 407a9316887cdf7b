"""What does the frontier know of a URL, wherever the frontier is?

Promises: asks the frontier at the address that is given; else whoever owns this directory's; else, while nothing runs,
reads its file. Any number of questions over one connection. It asks no other machine.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Protocol

from msgspec.structs import replace

from tarrafa.data import DataDirectory
from tarrafa.errors import Unreachable
from tarrafa.frontier.address import Address, OpenFrontier, connect, local
from tarrafa.frontier.protocol import CollectionRow, Facts
from tarrafa.frontier.store.sqlite import read_facts, read_rows
from tarrafa.parse.url import host_id, host_key, url_id


class Ask(Protocol):
    """What can be asked."""

    async def facts(self, url: str) -> Facts:
        """Of a canonical URL and of its host."""

    async def collections(self, name: str | None = None) -> list[CollectionRow]:
        """All of them, or that one; with their configurations, which may be large."""

    async def names(self) -> list[str]:
        """Of all collections."""


@asynccontextmanager
async def asking(data: DataDirectory, address: Address | None = None) -> AsyncIterator[Ask]:
    """Somebody to ask."""
    if address is None:
        data.check_version()
    try:
        frontier = await connect(address or local(data))
    except Unreachable:  # nobody owns the file, so nothing runs
        if address is not None:
            raise
        yield _File(data)
        return
    try:
        yield _Living(frontier)
    finally:
        await frontier.close()


class _Living:
    def __init__(self, frontier: OpenFrontier) -> None:
        self._frontier = frontier

    async def facts(self, url: str) -> Facts:
        return await self._frontier.look_up(host_id(host_key(url)), url_id(url))

    async def collections(self, name: str | None = None) -> list[CollectionRow]:
        if name is None:
            return await self._frontier.collections()
        row = await self._frontier.collection(name)
        return [] if row is None else [row]

    async def names(self) -> list[str]:
        return [one.name for one in await self._frontier.standings()]


class _File:
    def __init__(self, data: DataDirectory) -> None:
        self._data = data

    async def facts(self, url: str) -> Facts:
        return await asyncio.to_thread(read_facts, self._data.frontier, host_id(host_key(url)), url_id(url))

    async def collections(self, name: str | None = None) -> list[CollectionRow]:
        rows = await asyncio.to_thread(read_rows, self._data.frontier)
        return [
            replace(row, state="not running") if row.state == "running" else row
            for row in rows
            if name in (None, row.name)
        ]

    async def names(self) -> list[str]:
        return [row.name for row in await self.collections()]
