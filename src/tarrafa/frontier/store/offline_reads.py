"""Offline reads of the frontier's SQLite file: status, lookups and pages while no process has it open, and a consistent
snapshot for export.

`FrontierSnapshot` is one read transaction on the file: SQLite shows it as it was when the first row was read, whatever
a running frontier writes. So a crawl need not stop to be copied exactly. While it lasts, the owner's log of changes
(`-wal`) cannot be folded in, and grows by what is written meanwhile.
"""

from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import TypeVar

import apsw

from tarrafa.clock import Clock
from tarrafa.errors import DataError
from tarrafa.frontier.messages import (
    FIRST_HOST,
    CollectionRow,
    FrontierOverview,
    RevisitPage,
    UrlLookup,
    UrlStatusFacts,
)
from tarrafa.frontier.store.breadth_sites import BreadthSites
from tarrafa.frontier.store.collections import Collections
from tarrafa.frontier.store.counters import Counters
from tarrafa.frontier.store.database import FrontierDatabase, check_schema
from tarrafa.frontier.store.frontier_store import FrontierStore
from tarrafa.frontier.store.leases import LeaseClock
from tarrafa.frontier.store.lookup import look_up
from tarrafa.frontier.store.ready_queue import ReadyQueue
from tarrafa.frontier.store.retries import status_facts
from tarrafa.frontier.store.revisit_plans import RevisitPlans
from tarrafa.frontier.store.revisit_queue import RevisitQueue
from tarrafa.frontier.transfer.host_export import (
    ExportBatch,
    ExportCatalogue,
    FrontierCursor,
)
from tarrafa.model import HostId, UrlId
from tarrafa.runtime.sqlite import open_sqlite_readonly

PAGES_PER_READ = 5_000
T = TypeVar("T")


class FrontierSnapshot:
    """Gives a frontier's images from its file. Use it in a `with`."""

    def __init__(self, path: Path, clock: Clock) -> None:
        self._path = path
        try:
            self._connection = open_sqlite_readonly(path)
            self._connection.config(apsw.SQLITE_DBCONFIG_ENABLE_QPSG, 1)  # see database.py
            check_schema(FrontierDatabase(self._connection), path)
            self._connection.execute("BEGIN")
            self._store = FrontierStore(FrontierDatabase(self._connection), clock, LeaseClock())
        except apsw.Error as error:
            raise DataError(f"{path}: {error}") from None

    def __enter__(self) -> "FrontierSnapshot":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._connection.close()

    async def export_catalogue(self) -> ExportCatalogue:
        return self._store.transfer.export_catalogue()

    async def export_hosts(self, after: FrontierCursor, limit: int) -> ExportBatch:
        try:
            return self._store.transfer.export_hosts(after, limit)
        except apsw.Error as error:
            raise DataError(f"{self._path}: {error}") from None

    def count_urls(self) -> dict[str, int]:
        """How many URLs each collection has."""
        return {one.name: one.known for one in self._store.collections.status()}


def last_clock_reading(path: Path) -> float:
    """What the frontier's clock showed when its file was last open, to a few seconds; 0 if it never was."""
    if not path.exists():
        return 0.0
    try:
        db = FrontierDatabase(open_sqlite_readonly(path))
        try:
            return float(db.value("SELECT value FROM meta WHERE key = 'clock'") or 0.0)
        finally:
            db.connection.close()
    except apsw.Error:  # whoever opens it for writing says what is wrong
        return 0.0


def read_overview(path: Path) -> FrontierOverview:
    """The frontier's numbers while no process owns it."""
    return _read(path, lambda db: FrontierOverview(Collections(db, Counters(db), Clock.real()).status(), []))


def read_collections(path: Path) -> list[CollectionRow]:
    """The collections while no process owns the frontier."""
    return _read(path, lambda db: Collections(db, Counters(db), Clock.real()).rows())


def read_url_lookup(path: Path, host: HostId, url: UrlId) -> UrlLookup:
    """What is known of a URL while no process owns the frontier."""

    def read(db: FrontierDatabase) -> UrlLookup:
        counters, clock = Counters(db), Clock.real()
        collections, ready = Collections(db, counters, clock), ReadyQueue(db)
        revisits, breadth = RevisitQueue(db, counters, ready, clock), BreadthSites(db, counters, ready, clock)
        return look_up(db, host, url, collections, revisits, breadth)

    return _read(path, read)


def read_status_facts(path: Path, name: str, status: int, clock: Clock) -> UrlStatusFacts:
    """What ended alike, as of the last commit."""

    def read(db: FrontierDatabase) -> UrlStatusFacts:
        known = Collections(db, Counters(db), clock).by_name(name)
        return status_facts(known, status, clock.now(), db.rows)

    return _read(path, read)


def read_revisit_pages(path: Path, name: str) -> tuple[CollectionRow, list[RevisitPage]]:
    """A collection and its pages that are kept fresh, while no process owns the frontier."""

    def read(db: FrontierDatabase) -> tuple[CollectionRow, list[RevisitPage]]:
        counters, clock = Counters(db), Clock.real()
        collections = Collections(db, counters, clock)
        planning = RevisitPlans(db, counters, collections, RevisitQueue(db, counters, ReadyQueue(db), clock), clock)
        known = collections.by_name(name)
        return known.row, planning.revisit_pages(known.row.id, FIRST_HOST, b"", -1)

    return _read(path, read)


def for_each_revisit_page(path: Path, name: str, take: Callable[[list[RevisitPage]], None]) -> None:
    """Show a collection's pages that are kept fresh, some at a time, while no process owns the frontier."""

    def read(db: FrontierDatabase) -> None:
        counters, clock = Counters(db), Clock.real()
        collections = Collections(db, counters, clock)
        planning = RevisitPlans(db, counters, collections, RevisitQueue(db, counters, ReadyQueue(db), clock), clock)
        known, host, url = collections.by_name(name), FIRST_HOST, b""
        while some := planning.revisit_pages(known.row.id, host, url, PAGES_PER_READ):
            take(some)
            host, url = some[-1].host, some[-1].id

    _read(path, read)


def read_statuses_by_host(path: Path, collection: str) -> list[tuple[str, int | None, int]]:
    """How many URLs of each host ended how, while no process owns the frontier. Scans."""
    return _read(
        path,
        lambda db: [
            (str(key), status, int(count))
            for key, status, count in db.rows(
                "SELECT key, url.status, count(*) FROM url JOIN host ON host.id = url.host"
                " WHERE collection = (SELECT id FROM collection WHERE name = ?) GROUP BY 1, 2",
                (collection,),
            )
        ],
    )


def _read(path: Path, question: Callable[[FrontierDatabase], T]) -> T:
    if not path.exists():
        raise DataError(
            f"{path}: is missing; of a frontier that is elsewhere ask with --frontier ADDRESS; if it was here and got"
            " lost, `tarrafa rebuild frontier` makes it again"
        )
    try:
        db = FrontierDatabase(open_sqlite_readonly(path))
        try:
            check_schema(db, path)
            return question(db)
        finally:
            db.connection.close()
    except apsw.Error as error:
        raise translate_error(path, error) from None


def translate_error(path: Path, error: apsw.Error) -> DataError:
    remedy = "`tarrafa rebuild frontier` makes it again from the archive"
    if isinstance(error, apsw.CorruptError | apsw.NotADBError):
        return DataError(f"{path}: damaged ({error}); {remedy}")
    if isinstance(error, apsw.CantOpenError) and not path.exists():
        return DataError(f"{path}: is missing; {remedy}")
    return DataError(f"{path}: {error}")
