"""PostgreSQL shard: one server of the frontier as the event loop calls it, with back-off while it is unreachable.

Its calls run in a thread of their own. With several servers, one that does not answer is not called for a moment
(`ShardUnreachable`), so that the others are not held up; reports on its hosts wait here, and are delivered in order.
"""

import asyncio
from collections import defaultdict
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Concatenate, NamedTuple, ParamSpec, TypeVar

from msgspec.structs import replace

from tarrafa.clock import Clock, boottime
from tarrafa.errors import ConfigError, Unreachable
from tarrafa.frontier.messages import HostReport, NextVisits
from tarrafa.frontier.postgres.database_connection import PATIENCE_S, DatabaseConnection, describe_dsn
from tarrafa.frontier.postgres.database_session import DatabaseSession
from tarrafa.frontier.postgres.operations.lease_calls import LeaseCalls
from tarrafa.frontier.store.collections import LimitUsage
from tarrafa.frontier.store.leases import LeaseClock
from tarrafa.i18n import Message, message
from tarrafa.model import HostId

RETRY_AFTER_S, RETRY_SLOW_AFTER_S = 2.0, 6.0  # the latter if the failure took longer than a second
P = ParamSpec("P")
T = TypeVar("T")


class ShardUnreachable(Unreachable):
    """This server does not answer now."""


class ServerSettings(NamedTuple):
    """Settings with which the servers of a frontier are opened."""

    suffix_list: str
    clock: Clock | None = None
    lease_clock: LeaseClock | None = None
    servers: int = 1  # how many there are
    patience_s: float = PATIENCE_S  # how long a call waits for an unreachable server


class PostgresServer(DatabaseSession):
    """The session of this process with one server, and the leases of its workers there."""

    def __init__(
        self,
        dsn: str,
        suffix_list: str,
        clock: Clock | None = None,
        lease_clock: LeaseClock | None = None,
        servers: int = 1,
        patience_s: float = PATIENCE_S,
    ) -> None:
        connection = DatabaseConnection(dsn, patience_s)
        super().__init__(connection, suffix_list, clock, lease_clock, servers)
        self.leases = LeaseCalls(self)


class PostgresShard:
    """A server by its address, connected at its first use."""

    def __init__(self, dsn: str, settings: ServerSettings) -> None:
        self.where, self._dsn, self._settings = describe_dsn(dsn), dsn, settings
        self._thread = ThreadPoolExecutor(1, "frontier")
        self._away_until = 0.0
        self.trouble: Message | str = ""  # why the last call failed
        self._server: PostgresServer | None = None
        self._expected_id = ""  # empty: not known yet
        self._late: defaultdict[int, dict[HostId, HostReport]] = defaultdict(dict)  # reports that wait, by worker

    @property
    def is_away(self) -> bool:
        return boottime() < self._away_until

    @property
    def server_id(self) -> str:
        """The id that it must have."""
        return self._expected_id

    @property
    def is_one_of_several(self) -> bool:
        return self._settings.servers > 1

    def use_suffixes(self, suffix_list: str) -> None:
        self._settings = self._settings._replace(suffix_list=suffix_list)

    def expect_id(self, server_id: str) -> None:
        """Refuse any other database at this address from now on."""
        self._expected_id = server_id

    def connect(self) -> PostgresServer:
        """Connect. Blocks."""
        if self._server is None:
            server = PostgresServer(self._dsn, *self._settings)
            if server.id != (self._expected_id or server.id):
                server.close()
                raise ConfigError(f"{self.where}: is another database than the one that belongs to this frontier")
            self._server = server
        return self._server

    async def call(
        self, work: Callable[Concatenate[PostgresServer, P], T], *positional: P.args, **named: P.kwargs
    ) -> T:
        """Run a call of `operations/` in the server's thread."""
        return await self._run(lambda: self.call_blocking(work, *positional, **named))

    async def _run(self, work: Callable[[], T]) -> T:
        try:
            return await asyncio.get_running_loop().run_in_executor(self._thread, work)
        except RuntimeError as error:  # its thread has ended: the caller is ending too
            kind = ShardUnreachable if self.is_one_of_several else Unreachable
            raise kind(f"{self.where}: was closed ({error})") from None

    def call_blocking(
        self, work: Callable[Concatenate[PostgresServer, P], T], *positional: P.args, **named: P.kwargs
    ) -> T:
        """Run in the calling thread."""
        if self.is_one_of_several and self.is_away:
            raise ShardUnreachable(message("{server}: is away", server=self.where))
        began = boottime()
        try:
            result = work(self.connect(), *positional, **named)
        except Unreachable as error:
            if not self.is_one_of_several:
                raise
            now, self.trouble = boottime(), error.message
            self._away_until = now + (RETRY_AFTER_S if now - began < 1.0 else RETRY_SLOW_AFTER_S)
            raise ShardUnreachable(error.message) from None
        self.trouble = ""
        return result

    async def finish(self, worker: int, batch: list[HostReport]) -> list[NextVisits]:
        """Deliver reports, with those that wait. While the server is unreachable the worker goes on with the visits
        that it has, and gets no more: so each host that it keeps is reported once more."""
        return await self._run(lambda: self._finish_blocking(worker, batch))

    async def count_elsewhere(self, usage: dict[int, LimitUsage]) -> None:
        """Let the server count the usage of others. Needs no connection."""
        if self._server is not None:
            await self._run(partial(self._server.collections.count_elsewhere, usage))

    async def deliver_late_reports(self, worker: int) -> None:
        """Deliver the reports that return hosts."""
        if self._late[worker]:
            await self.finish(worker, [])

    def _finish_blocking(self, worker: int, batch: list[HostReport]) -> list[NextVisits]:
        late = self._late[worker]
        late |= {report.host: _join_reports(late.get(report.host), report) for report in batch}
        # A host without visits would be released: only the session that keeps it may report that it has none left.
        here = {report.host for report in batch}
        ready = [report for report in late.values() if report.host in here or not report.keep]
        try:
            answers = self.call_blocking(lambda server: server.leases.finish(worker, ready)) if ready else []
        except ShardUnreachable:
            return [NextVisits(report.keep, []) for report in batch]
        found = {late.pop(report.host).host: answer for report, answer in zip(ready, answers, strict=True)}
        return [found[report.host] for report in batch]

    async def close(self) -> None:
        await asyncio.to_thread(self._thread.shutdown)
        if self._server is not None:
            self._server.close()


def _join_reports(late: HostReport | None, report: HostReport) -> HostReport:
    """One report instead of two on the same host."""
    if late is None:
        return report
    memory = late.memory if report.memory is None else report.memory
    return replace(
        report,
        reports=[*late.reports, *report.reports],
        robots_copy=report.robots_copy or late.robots_copy,
        memory=memory,
    )
