"""Looks up a URL in the frontier, through its socket or, while nothing runs, in its file.

Promises: asks the frontier at the address that is given; else whoever owns this directory's; else, while nothing
runs, reads its file. Any number of questions over one connection. It asks no other machine.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Protocol

from msgspec.structs import replace

from tarrafa.errors import Unreachable
from tarrafa.frontier.address import Address, OpenFrontier, connect, local_address
from tarrafa.frontier.messages import CollectionRow, UrlLookup
from tarrafa.frontier.store.offline_reads import read_collections, read_url_lookup
from tarrafa.parse.url import host_id, host_key, url_id
from tarrafa.runtime.data_dir import DataDirectory


class FrontierLookup(Protocol):
    """What can be asked."""

    async def facts(self, url: str) -> UrlLookup:
        """Of a canonical URL and of its host."""

    async def collections(self, name: str | None = None) -> list[CollectionRow]:
        """All of them, or that one; with their configurations, which may be large."""

    async def names(self) -> list[str]:
        """Of all collections."""


@asynccontextmanager
async def open_frontier_lookup(data: DataDirectory, address: Address | None = None) -> AsyncIterator[FrontierLookup]:
    """Somebody to ask."""
    if address is None:
        data.check_version()
    try:
        frontier = await connect(address or local_address(data))
    except Unreachable:  # nobody owns the file, so nothing runs
        if address is not None:
            raise
        yield _FileLookup(data)
        return
    try:
        yield _LiveLookup(frontier)
    finally:
        await frontier.close()


class _LiveLookup:
    def __init__(self, frontier: OpenFrontier) -> None:
        self._frontier = frontier

    async def facts(self, url: str) -> UrlLookup:
        return await self._frontier.look_up(host_id(host_key(url)), url_id(url))

    async def collections(self, name: str | None = None) -> list[CollectionRow]:
        if name is None:
            return await self._frontier.collections()
        row = await self._frontier.collection(name)
        return [] if row is None else [row]

    async def names(self) -> list[str]:
        return [one.name for one in await self._frontier.collection_states()]


class _FileLookup:
    def __init__(self, data: DataDirectory) -> None:
        self._data = data

    async def facts(self, url: str) -> UrlLookup:
        return await asyncio.to_thread(read_url_lookup, self._data.frontier, host_id(host_key(url)), url_id(url))

    async def collections(self, name: str | None = None) -> list[CollectionRow]:
        rows = await asyncio.to_thread(read_collections, self._data.frontier)
        return [
            replace(row, state="not running") if row.state == "running" else row
            for row in rows
            if name in (None, row.name)
        ]

    async def names(self) -> list[str]:
        return [row.name for row in await self.collections()]
