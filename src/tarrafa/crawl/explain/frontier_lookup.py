"""Looks up a URL in the frontier, through its socket or, while nothing runs, in its file.

Promises: the lookup asks the frontier at the given address; without an address, the frontier server of this data
directory; while no server runs, it reads the frontier's file. Any number of lookups share one connection. No other
machine is contacted.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Protocol

from msgspec.structs import replace

from tarrafa.errors import Unreachable
from tarrafa.frontier.address import Address, OpenFrontier, connect, local_address
from tarrafa.frontier.messages import CollectionRow, UrlLookup
from tarrafa.frontier.store.sqlite_frontier import read_collections, read_url_lookup
from tarrafa.parse.url import host_id, host_key, url_id
from tarrafa.runtime.data_dir import DataDirectory


class FrontierLookup(Protocol):
    """Read-only questions to a frontier."""

    async def facts(self, url: str) -> UrlLookup:
        """Facts about a canonical URL and its host."""

    async def collections(self, name: str | None = None) -> list[CollectionRow]:
        """All collections, or the named one, with their configurations, which may be large."""

    async def names(self) -> list[str]:
        """Names of all collections."""


@asynccontextmanager
async def open_frontier_lookup(data: DataDirectory, address: Address | None = None) -> AsyncIterator[FrontierLookup]:
    """Open a lookup for the duration of the context."""
    if address is None:
        data.check_version()
    try:
        frontier = await connect(address or local_address(data))
    except Unreachable:  # no frontier server runs, so the file may be read
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
