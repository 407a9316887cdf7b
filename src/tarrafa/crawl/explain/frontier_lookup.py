"""Looks up URLs, collections and counts in the frontier, through its socket or, while no server answers, in its file.

Promises: the lookup asks the frontier at the given address; without an address, the frontier server of this data
directory; where no server runs, or the server does not answer within seconds, it reads the frontier's file, and says
so. A collection that was running when its supervisor died is paused (interrupted). Any number of lookups share one
connection. No other machine is contacted.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TypeVar

from msgspec.structs import replace

from tarrafa.crawl.supervisor.watchdog import silent_processes
from tarrafa.errors import Unreachable
from tarrafa.frontier.address import Address, PostgresServers, connect_reader
from tarrafa.frontier.api import Frontier
from tarrafa.frontier.messages import CollectionRow, CollectionStatus, FrontierOverview, UrlLookup
from tarrafa.frontier.store.sqlite_frontier import read_collections, read_overview, read_url_lookup
from tarrafa.i18n import Message, joined, message
from tarrafa.parse.url import host_id, host_key, url_id
from tarrafa.runtime.data_dir import DataDirectory
from tarrafa.runtime.heartbeat import is_supervised

RATE_SAMPLE_S = 1.0  # pages per second are measured between two looks at a frontier that no process keeps open
FRONTIER_STARTS = "the frontier server is being started: this is the state of its file"

T = TypeVar("T")
Row = TypeVar("Row", CollectionRow, CollectionStatus)


class FrontierLookup:
    """Read-only questions: to an open frontier or, where `file` is given and no frontier answers, to that file.
    `notice`: why the answers are from the file of a frontier that runs."""

    def __init__(self, data: DataDirectory, frontier: Frontier | None, file: Path | None) -> None:
        self._data, self._frontier, self._file = data, frontier, file
        self._is_running = frontier is not None or is_supervised(data)
        self.notice: Message | str = FRONTIER_STARTS if frontier is None and self._is_running else ""

    async def facts(self, url: str) -> UrlLookup:
        """Facts about a canonical URL and its host. Where nothing runs, no worker has it, whatever the file says."""
        host, url_key = host_id(host_key(url)), url_id(url)
        found = await self._ask(
            lambda frontier: frontier.look_up(host, url_key), lambda file: read_url_lookup(file, host, url_key)
        )
        if self._is_running or found.host is None:
            return found
        return replace(found, host=replace(found.host, worker=None))

    async def collections(self, name: str | None = None) -> list[CollectionRow]:
        """All collections, or the named one, with their configurations, which may be large."""

        async def ask(frontier: Frontier) -> list[CollectionRow]:
            if name is None:
                return await frontier.collections()
            row = await frontier.collection(name)
            return [] if row is None else [row]

        rows = await self._ask(ask, read_collections)
        return [self._mark_interrupted(row) for row in rows if name in (None, row.name)]

    async def overview(self) -> FrontierOverview:
        """The counts of all collections."""
        found = await self._ask(lambda frontier: frontier.overview(), read_overview)
        return replace(found, collections=[self._mark_interrupted(one) for one in found.collections])

    async def _ask(self, ask: Callable[[Frontier], Awaitable[T]], read: Callable[[Path], T]) -> T:
        if self._frontier is not None:
            try:
                return await ask(self._frontier)
            except Unreachable as error:
                if self._file is None:
                    raise
                self._frontier, self.notice = None, _silence_notice(self._data, error)
        assert self._file is not None
        return await asyncio.to_thread(read, self._file)

    def _mark_interrupted(self, row: Row) -> Row:
        if self._is_running or row.state != "running":
            return row
        command = resume_command(self._data)
        return replace(
            row, state="paused", reason=message("interrupted; {command} goes on where it was", command=command)
        )


def resume_command(data: DataDirectory) -> str:
    """The command that resumes a crawl here: a collection of a node may have no file."""
    return "`tarrafa node`" if data.coordinator.exists() else "`tarrafa crawl FILE`"


async def fetch_overview(data: DataDirectory, address: Address | None = None) -> FrontierOverview:
    """The counts of all collections. The notes name the processes of this data directory that are silent."""
    async with open_frontier_lookup(data, address) as lookup:
        overview = await lookup.overview()
        if isinstance(address, PostgresServers) and any(one.state == "running" for one in overview.collections):
            await asyncio.sleep(RATE_SAMPLE_S)
            overview = await lookup.overview()
        notices = [lookup.notice] if lookup.notice else [one.message for one in silent_processes(data)]
    return replace(overview, notes=[*overview.notes, *notices])


def _silence_notice(data: DataDirectory, error: Unreachable) -> Message | str:
    """Why the file of a running frontier is read, and which processes are silent."""
    why = message("{reason}: this is the state of the frontier's file", reason=error)
    return joined([*(one.message for one in silent_processes(data)), why])


@asynccontextmanager
async def open_frontier_lookup(data: DataDirectory, address: Address | None = None) -> AsyncIterator[FrontierLookup]:
    if address is None:
        data.check_version()
    try:
        frontier = await connect_reader(data, address)
    except Unreachable:  # no frontier server runs, so the file may be read
        if address is not None:
            raise
        yield FrontierLookup(data, None, data.frontier)
        return
    try:
        yield FrontierLookup(data, frontier, data.frontier if address is None else None)
    finally:
        await frontier.close()
