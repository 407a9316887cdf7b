"""The bodies of the frontier, and what the scenes of the contract are made of."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import ClassVar

from tarrafa import config
from tarrafa.clock import Clock
from tarrafa.frontier.api import Frontier
from tarrafa.frontier.messages import (
    CollectionStatus,
    DiscoveredUrl,
    HostReport,
    Lease,
    RegistrationTerms,
    VisitReport,
)
from tarrafa.frontier.postgres.database_session import DatabaseLeaseClock
from tarrafa.frontier.postgres.postgres_frontier import PostgresFrontier
from tarrafa.frontier.rpc import frontier_client, frontier_server
from tarrafa.frontier.store.leases import LeaseClock
from tarrafa.frontier.store.sqlite_frontier import SqliteFrontier
from tarrafa.model import OLD_CAUSE, Outcome, Visit
from tarrafa.parse.url import host_id, host_key, url_id
from tarrafa.runtime.process_identity import ProcessId
from tarrafa.runtime.token import Token
from tests.contract.postgres_process import a_server

SUFFIXES = "com\nbr\ncom.br\npt\n"


class FalseClock(Clock):
    """A clock that the test moves."""

    shift: ClassVar[list[float]] = [0.0]

    def now(self) -> float:
        return 1_000_000.0 + self.shift[0]


class FalseLeaseClock(LeaseClock):
    """Goes slowly, but for what the test adds: some scenes take longer than a lease, and nobody renews there."""

    shift: ClassVar[list[float]] = [0.0]

    def now(self) -> float:
        return super().now() / 1000.0 + self.shift[0]


class FalseDatabaseLeaseClock(DatabaseLeaseClock):
    """The same of a database."""

    def now(self) -> float:
        return super().now() / 1000.0 + FalseLeaseClock.shift[0]


@asynccontextmanager
async def a_sqlite(path: Path) -> AsyncIterator[Frontier]:
    frontier = SqliteFrontier(path / "frontier.sqlite", FalseClock(0, 0), SUFFIXES, lease_clock=FalseLeaseClock())
    try:
        yield frontier
    finally:
        await frontier.close()


@asynccontextmanager
async def a_remote(path: Path) -> AsyncIterator[Frontier]:
    async with a_sqlite(path) as inner:
        server = await frontier_server.serve_unix(inner, str(path / "f.sock"))
        client = await frontier_client.RemoteFrontier.connect(str(path / "f.sock"))
        try:
            yield client
        finally:
            await client.close()
            server.close()


class ConfirmedPostgresFrontier(PostgresFrontier):
    """Renews at once, as a worker's heartbeat does: of several servers, those count that it renewed with."""

    async def join(self, name: str, process: ProcessId) -> RegistrationTerms:
        terms = await super().join(name, process)
        if terms.lease_s > 0:
            await self.renew(terms.worker, "")
        return terms


@asynccontextmanager
async def a_postgres(path: Path) -> AsyncIterator[Frontier]:
    """The first frontier of a test finds an empty database."""
    server, mark = a_server(), path / "database"
    dsn = server.address("contract") if mark.exists() else server.database("contract")
    mark.touch()
    async with _on([dsn], path) as frontier:
        yield frontier


@asynccontextmanager
async def two_postgres(path: Path) -> AsyncIterator[Frontier]:
    mark, servers = path / "database", (a_server(0), a_server(1))
    dsns = [one.address("contract") if mark.exists() else one.database("contract") for one in servers]
    mark.touch()
    async with _on(dsns, path) as frontier:
        yield frontier


@asynccontextmanager
async def _on(dsns: list[str], path: Path) -> AsyncIterator[Frontier]:
    frontier = ConfirmedPostgresFrontier(dsns, SUFFIXES, FalseClock(0, 0), FalseDatabaseLeaseClock(), keeps_links=True)
    try:
        yield frontier
    finally:
        await frontier.close()


@asynccontextmanager
async def a_tcp(path: Path) -> AsyncIterator[Frontier]:
    token = Token(b"known to both ends only")
    async with a_sqlite(path) as inner:
        server = await frontier_server.serve_tcp(inner, "127.0.0.1", 0, token)
        host, port = server.sockets[0].getsockname()
        client = await frontier_client.RemoteFrontier.connect_tcp(host, port, token)
        try:
            yield client
        finally:
            await client.close()
            server.close()


BODIES = {
    "sqlite": a_sqlite, "remote": a_remote, "tcp": a_tcp, "postgres": a_postgres, "two postgres": two_postgres,
}  # fmt: skip


def a_collection(name: str = "c", **sections: dict[str, object]) -> bytes:
    table = {"name": name, "roots": ["http://a.br/"], "scope": {"hosts": ["*"]}} | sections
    return config.encode_collection(config.collection_from_table(table, "test"))


def offer(url: str, depth: int = 0, redirects: int = 0) -> DiscoveredUrl:
    key = host_key(url)
    return DiscoveredUrl(host_id(key), url_id(url), url, key, depth, redirects)


def urls(leases: list[Lease]) -> list[str]:
    return sorted(visit.url for lease in leases for visit in lease.visits)


def done(lease: Lease | Visit, visits: list[Visit], outcome: Outcome | None = None, **more: object) -> HostReport:
    outcome = outcome or Outcome(200, 1_000_000.0, kept=True, type="text/html")
    reports = [VisitReport(visit.id, visit.number, outcome) for visit in visits]
    settings = {"next_at": 1_000_000.0, "ended_at": 1_000_000.0, "delay_s": 1.0, "keep": True} | more
    return HostReport(lease.host, lease.collection, reports, **settings)  # type: ignore[arg-type]


async def numbers(frontier: Frontier, name: str = "c") -> CollectionStatus:
    overview = await frontier.overview()
    found = next(one for one in overview.collections if one.name == name)
    check_sums(found)
    return found


def check_sums(one: CollectionStatus) -> None:
    """Every known URL is in one place, and every visit has one status."""
    waiting = one.pending + one.handed_out + one.passed_over + one.aside
    settled = one.fetched + one.dropped + one.failed + one.excluded + one.too_deep
    assert one.known == waiting + settled - one.again, one
    assert one.visits == sum(one.statuses.values()) - sum(one.refused.values()), one
    assert sum(one.unkept.values()) == one.dropped + one.failed + one.excluded, one
    assert OLD_CAUSE not in one.unkept, one
    assert all(count > 0 for count in one.unkept.values()), one
