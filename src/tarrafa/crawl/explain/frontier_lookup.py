"""Looks up a URL in the frontier, through its socket or, while nothing runs, in its file.

Promises: the lookup asks the frontier at the given address; without an address, the frontier server of this data
directory; while no server runs, it reads the frontier's file. Any number of lookups share one connection. No other
machine is contacted.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from msgspec.structs import replace

from tarrafa.errors import Unreachable
from tarrafa.frontier.address import Address, connect, local_address
from tarrafa.frontier.api import Frontier
from tarrafa.frontier.messages import CollectionRow, FrontierOverview, UrlLookup
from tarrafa.frontier.store.sqlite_frontier import read_collections, read_overview, read_url_lookup
from tarrafa.parse.url import host_id, host_key, url_id
from tarrafa.runtime.data_dir import DataDirectory


class FrontierLookup:
    """Read-only questions: to an open frontier or, where there is none, to the frontier's file."""

    def __init__(self, data: DataDirectory, frontier: Frontier | None) -> None:
        self._file, self._frontier = data.frontier, frontier

    async def facts(self, url: str) -> UrlLookup:
        """Facts about a canonical URL and its host. Where nothing runs, no worker has it, whatever the file says."""
        host, url_key = host_id(host_key(url)), url_id(url)
        if self._frontier is not None:
            return await self._frontier.look_up(host, url_key)
        found = await asyncio.to_thread(read_url_lookup, self._file, host, url_key)
        return found if found.host is None else replace(found, host=replace(found.host, worker=None))

    async def collections(self, name: str | None = None) -> list[CollectionRow]:
        """All collections, or the named one, with their configurations, which may be large."""
        if self._frontier is None:
            rows = await asyncio.to_thread(read_collections, self._file)
            stopped = [replace(row, state="not running") if row.state == "running" else row for row in rows]
            return [row for row in stopped if name in (None, row.name)]
        if name is None:
            return await self._frontier.collections()
        row = await self._frontier.collection(name)
        return [] if row is None else [row]

    async def overview(self) -> FrontierOverview:
        """The counts of all collections."""
        if self._frontier is not None:
            return await self._frontier.overview()
        return await asyncio.to_thread(read_overview, self._file)

    async def names(self) -> list[str]:
        rows = await (self.collections() if self._frontier is None else self._frontier.collection_states())
        return [row.name for row in rows]


@asynccontextmanager
async def open_frontier_lookup(data: DataDirectory, address: Address | None = None) -> AsyncIterator[FrontierLookup]:
    if address is None:
        data.check_version()
    try:
        frontier = await connect(address or local_address(data))
    except Unreachable:  # no frontier server runs, so the file may be read
        if address is not None:
            raise
        yield FrontierLookup(data, None)
        return
    try:
        yield FrontierLookup(data, frontier)
    finally:
        await frontier.close()
