"""The SQLite store of the coordinator: collection versions, lifecycles, runs and samples.

DATA/coordinator.sqlite, written only by the coordinator; other modules keep tables of their own in it (`open_store`).
Promises: when a call returns, its data are on the disk; a lost file costs history, never a crawl.
"""

import contextlib
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import TypeVar

import apsw
import msgspec

from tarrafa.i18n import Message, message
from tarrafa.runtime.data_dir import DataDirectory
from tarrafa.runtime.sqlite import SqliteFile, open_sqlite_readonly

T = TypeVar("T")
SAMPLES_MAX = 2_000  # read at once: more than a screen has points
RUNS_MAX = 1_000
TABLES = """
CREATE TABLE IF NOT EXISTS version (
    name TEXT NOT NULL, number INTEGER NOT NULL, at REAL NOT NULL, who TEXT NOT NULL, config BLOB NOT NULL,
    PRIMARY KEY (name, number)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS life (name TEXT PRIMARY KEY, content BLOB NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS run (
    name TEXT NOT NULL, number INTEGER NOT NULL, began REAL NOT NULL, ended REAL, content BLOB NOT NULL,
    PRIMARY KEY (name, number)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS sample (
    name TEXT NOT NULL, at INTEGER NOT NULL, content BLOB NOT NULL, PRIMARY KEY (name, at)
) WITHOUT ROWID;
"""


class CollectionVersion(msgspec.Struct, frozen=True):
    """A version of a definition. `config` is the frontier's JSON, without long lists: see definitions/versions.py."""

    number: int
    at: float
    who: str
    config: msgspec.Raw


class CollectionLifecycle(msgspec.Struct, frozen=True, omit_defaults=True):
    """What the coordinator stores about a collection, beyond the frontier's state."""

    created: float
    creator: str = ""
    scheduled: float | None = None  # when its schedule was last changed
    held: bool = False  # paused or stopped by a person; the schedule respects it
    acted: float | None = None  # when a person last started, paused, resumed or stopped it
    sowing: bool = False  # its roots are being submitted; after a crash they are submitted again
    left_out: float | None = None  # the last skipped time of its schedule that was logged


class CollectionRun(msgspec.Struct, frozen=True, omit_defaults=True):
    """One run, from the roots on."""

    number: int
    began: float
    ended: float | None = None
    state: str = "running"
    reason: Message | str = ""
    cut: bool = False  # by a deadline
    pages: int = 0
    known: int = 0
    visits: int = 0
    requests: int = 0
    failed: int = 0


class CollectionSample(msgspec.Struct, frozen=True, omit_defaults=True):
    """The numbers of a collection at one moment, for its charts."""

    at: float
    pages: int = 0  # kept
    known: int = 0
    pending: int = 0
    failed: int = 0
    visits: int = 0
    revisits: int = 0
    bytes: int = 0
    pages_per_s: float = 0.0
    bytes_per_s: float = 0.0
    active: int = 0  # hosts
    waiting: int = 0
    backed_off: int = 0
    fresh: float | None = None  # estimated share of kept pages that have not changed since

    @property
    def is_idle(self) -> bool:
        return not (self.active or self.pages_per_s or self.bytes_per_s)


def open_store(data: DataDirectory) -> apsw.Connection:
    """A connection, for modules with tables of their own."""
    return store_file(data.coordinator).open(TABLES, sync="full", owner_only=True)


def store_file(path: Path) -> SqliteFile:
    return SqliteFile(path, remedy=message("move it away; a new one is created, without its history"))


def store_transaction(path: Path, schema: str = "") -> AbstractContextManager[apsw.Connection]:
    """One transaction on tables of another module. Only the owner may read the file: it says who did what."""
    return store_file(path).writing(schema, sync="full", owner_only=True)


def read_store(data: DataDirectory, read: Callable[[apsw.Connection], T]) -> T | None:
    """Read tables from another process than the coordinator's. None: there is no store, it lacks the tables (an older
    version), or it may not be read."""
    path = data.coordinator
    if not path.exists():
        return None
    try:
        with contextlib.closing(open_sqlite_readonly(path)) as connection:
            return read(connection)
    except (apsw.SQLError, apsw.CantOpenError):
        return None
    except apsw.Error as error:
        raise store_file(path).errors().translate(error) from None


class CoordinatorStore:
    """The coordinator's own tables."""

    def __init__(self, data: DataDirectory) -> None:
        self.data, self.connection = data, open_store(data)

    def close(self) -> None:
        self.connection.close()

    # -- versions of definitions

    def add_version(self, name: str, config: bytes, at: float, who: str) -> int:
        """Add a version, unless it equals the newest one; the number of the newest."""
        last = self.newest_version(name)
        if last is not None and bytes(last.config) == config:
            return last.number
        number = 1 if last is None else last.number + 1
        self.execute("INSERT INTO version VALUES (?, ?, ?, ?, ?)", (name, number, at, who, config))
        return number

    def newest_version(self, name: str) -> CollectionVersion | None:
        return next(iter(self.versions(name, 1)), None)

    def versions(self, name: str, most: int = -1) -> list[CollectionVersion]:
        """The newest first."""
        rows = self.connection.execute(
            "SELECT number, at, who, config FROM version WHERE name = ? ORDER BY number DESC LIMIT ?", (name, most)
        )
        return [CollectionVersion(number, at, who, msgspec.Raw(config)) for number, at, who, config in rows]

    # -- lifecycles and runs

    def lifecycle(self, name: str) -> CollectionLifecycle | None:
        row = self.connection.execute("SELECT content FROM life WHERE name = ?", (name,)).fetchone()
        return None if row is None else msgspec.json.decode(row[0], type=CollectionLifecycle)

    def put_lifecycle(self, name: str, life: CollectionLifecycle) -> None:
        self.execute("INSERT OR REPLACE INTO life VALUES (?, ?)", (name, msgspec.json.encode(life)))

    def put_run(self, name: str, run: CollectionRun) -> None:
        self.execute(
            "INSERT OR REPLACE INTO run VALUES (?, ?, ?, ?, ?)",
            (name, run.number, run.began, run.ended, msgspec.json.encode(run)),
        )

    def runs(self, name: str) -> list[CollectionRun]:
        """The newest first, at most RUNS_MAX."""
        return self._newest_runs(name, RUNS_MAX)

    def last_run(self, name: str) -> CollectionRun | None:
        return next(iter(self._newest_runs(name, 1)), None)

    def _newest_runs(self, name: str, most: int) -> list[CollectionRun]:
        rows = self.connection.execute(
            "SELECT content FROM run WHERE name = ? ORDER BY number DESC LIMIT ?", (name, most)
        )
        return [msgspec.json.decode(content, type=CollectionRun) for (content,) in rows]

    # -- samples

    def put_sample(self, name: str, sample: CollectionSample) -> None:
        self.execute(
            "INSERT OR REPLACE INTO sample VALUES (?, ?, ?)", (name, int(sample.at), msgspec.json.encode(sample))
        )

    def samples(self, name: str, since: float, until: float) -> list[CollectionSample]:
        """At most SAMPLES_MAX, evenly spread."""
        bounds = (name, int(since), int(until) + 1)
        where = "FROM sample WHERE name = ? AND at >= ? AND at < ?"
        (count,) = self.connection.execute(f"SELECT count(*) {where}", bounds).fetchone() or (0,)
        step = max(1, -(-int(count) // SAMPLES_MAX))
        thinned = f"SELECT content FROM (SELECT content, row_number() OVER (ORDER BY at) AS place {where})"  # noqa: S608
        rows = self.connection.execute(f"{thinned} WHERE place % ? = 0", (*bounds, step))
        return [msgspec.json.decode(content, type=CollectionSample) for (content,) in rows]

    def all_version_configs(self) -> list[bytes]:
        return [bytes(config) for (config,) in self.connection.execute("SELECT config FROM version")]

    def delete_collection(self, name: str) -> list[bytes]:
        """Delete all rows of a collection; the configurations of its versions."""
        versions = [bytes(one.config) for one in self.versions(name)]
        with self._transaction():
            for table in ("version", "life", "run", "sample"):
                self.connection.execute(f"DELETE FROM {table} WHERE name = ?", (name,))  # noqa: S608 (ours)
        return versions

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        with store_file(self.data.coordinator).errors(self.connection), self.connection:
            yield

    def execute(self, statement: str, values: tuple[object, ...]) -> None:
        """Run one statement in a transaction, also on tables of another module."""
        with self._transaction():
            self.connection.execute(statement, values)
