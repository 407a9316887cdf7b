"""The SQLite store of the coordinator: collection versions, lifecycles, runs and samples.

One SQLite file, DATA/coordinator.sqlite, written by whoever coordinates and by nobody else: every version of what
people defined, every run, what a collection looked like minute by minute. Others keep tables of their own in it
(`open_store`). Promises: what a call returned for is on the disk, whatever happens to this process; a lost file
costs history, never a crawl.
"""

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path

import apsw
import msgspec

from tarrafa.i18n import Message
from tarrafa.runtime.data_dir import DataDirectory
from tarrafa.runtime.sqlite import SqliteFile

SAMPLES_MAX = 2_000  # that are read at once: more than a screen has points
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
    """What a collection was to be, from a moment on, and who said so. `config` is the frontier's JSON, without long
    lists: see definitions.py."""

    number: int
    at: float
    who: str
    config: msgspec.Raw


class CollectionLifecycle(msgspec.Struct, frozen=True, omit_defaults=True):
    """What the coordinator remembers of a collection, beyond what the frontier knows."""

    created: float
    creator: str = ""
    scheduled: float | None = None  # when its schedule was last changed
    held: bool = False  # paused or stopped by a person, and the schedule respects that
    acted: float | None = None  # when a person last started, paused, resumed or stopped it
    sowing: bool = False  # its roots are being handed over; who finds it so hands them over again
    left_out: float | None = None  # the last time of its schedule that nothing came of, and that was told


class CollectionRun(msgspec.Struct, frozen=True, omit_defaults=True):
    """One run from the roots on."""

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
    """A collection at one moment, as its curves show it."""

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
    fresh: float | None = None  # estimated share of kept pages that are as we have them

    @property
    def is_idle(self) -> bool:
        return not (self.active or self.pages_per_s or self.bytes_per_s)


def open_store(data: DataDirectory) -> apsw.Connection:
    """The file, for whoever has tables in it."""
    return store_file(store_path(data)).open(TABLES, sync="full", owner_only=True)


def store_path(data: DataDirectory) -> Path:
    return data.root / "coordinator.sqlite"


def store_file(path: Path) -> SqliteFile:
    return SqliteFile(path, remedy="moved away, it is made anew, without its history")


def store_transaction(path: Path, schema: str = "") -> AbstractContextManager[apsw.Connection]:
    """One transaction on tables of another module; only the owner of the file may read who did what."""
    return store_file(path).writing(schema, sync="full", owner_only=True)


@dataclass(slots=True)
class CoordinatorStore:
    """The coordinator's own tables."""

    data: DataDirectory
    _db: apsw.Connection

    @classmethod
    def open(cls, data: DataDirectory) -> "CoordinatorStore":
        return cls(data, open_store(data))

    @property
    def connection(self) -> apsw.Connection:
        return self._db

    def close(self) -> None:
        self._db.close()

    # -- what people defined

    def add_version(self, name: str, config: bytes, at: float, who: str) -> int:
        """Note a version; the number of the one that holds now. The same as before is no new one."""
        last = self._db.execute(
            "SELECT number, config FROM version WHERE name = ? ORDER BY number DESC LIMIT 1", (name,)
        ).fetchone()
        if last is not None and bytes(last[1]) == config:
            return int(last[0])
        number = 1 if last is None else int(last[0]) + 1
        self._execute("INSERT INTO version VALUES (?, ?, ?, ?, ?)", (name, number, at, who, config))
        return number

    def newest_version(self, name: str) -> CollectionVersion | None:
        """The newest."""
        row = self._db.execute(
            "SELECT number, at, who, config FROM version WHERE name = ? ORDER BY number DESC LIMIT 1", (name,)
        ).fetchone()
        return None if row is None else CollectionVersion(row[0], row[1], row[2], msgspec.Raw(row[3]))

    def versions(self, name: str, most: int = -1) -> list[CollectionVersion]:
        """The newest first."""
        rows = self._db.execute(
            "SELECT number, at, who, config FROM version WHERE name = ? ORDER BY number DESC LIMIT ?", (name, most)
        )
        return [CollectionVersion(number, at, who, msgspec.Raw(config)) for number, at, who, config in rows]

    # -- what became of it

    def lifecycle(self, name: str) -> CollectionLifecycle | None:
        row = self._db.execute("SELECT content FROM life WHERE name = ?", (name,)).fetchone()
        return None if row is None else msgspec.json.decode(row[0], type=CollectionLifecycle)

    def put_lifecycle(self, name: str, life: CollectionLifecycle) -> None:
        self._execute("INSERT OR REPLACE INTO life VALUES (?, ?)", (name, msgspec.json.encode(life)))

    def put_run(self, name: str, run: CollectionRun) -> None:
        self._execute(
            "INSERT OR REPLACE INTO run VALUES (?, ?, ?, ?, ?)",
            (name, run.number, run.began, run.ended, msgspec.json.encode(run)),
        )

    def runs(self, name: str) -> list[CollectionRun]:
        """The newest first; of very many, the newest RUNS_MAX."""
        rows = self._db.execute("SELECT content FROM run WHERE name = ? ORDER BY number DESC LIMIT ?", (name, RUNS_MAX))
        return [msgspec.json.decode(content, type=CollectionRun) for (content,) in rows]

    def last_run(self, name: str) -> CollectionRun | None:
        row = self._db.execute(
            "SELECT content FROM run WHERE name = ? ORDER BY number DESC LIMIT 1", (name,)
        ).fetchone()
        return None if row is None else msgspec.json.decode(row[0], type=CollectionRun)

    # -- what it looked like

    def put_sample(self, name: str, sample: CollectionSample) -> None:
        self._execute(
            "INSERT OR REPLACE INTO sample VALUES (?, ?, ?)", (name, int(sample.at), msgspec.json.encode(sample))
        )

    def samples(self, name: str, since: float, until: float) -> list[CollectionSample]:
        """At most SAMPLES_MAX, evenly taken."""
        bounds = (name, int(since), int(until) + 1)
        where = "FROM sample WHERE name = ? AND at >= ? AND at < ?"
        (count,) = self._db.execute(f"SELECT count(*) {where}", bounds).fetchone() or (0,)
        step = max(1, -(-int(count) // SAMPLES_MAX))
        thinned = f"SELECT content FROM (SELECT content, row_number() OVER (ORDER BY at) AS place {where})"  # noqa: S608
        rows = self._db.execute(f"{thinned} WHERE place % ? = 0", (*bounds, step))
        return [msgspec.json.decode(content, type=CollectionSample) for (content,) in rows]

    def execute(self, statement: str, values: tuple[object, ...]) -> None:
        """For those who have tables of their own here."""
        self._execute(statement, values)

    def all_version_configs(self) -> list[bytes]:
        """All versions of all collections."""
        return [bytes(config) for (config,) in self._db.execute("SELECT config FROM version")]

    def delete_collection(self, name: str) -> list[bytes]:
        """A collection was deleted: its name may be somebody else's tomorrow. Its versions, for the last time."""
        versions = [bytes(one.config) for one in self.versions(name)]
        with self._transaction():
            for table in ("version", "life", "run", "sample"):
                self._db.execute(f"DELETE FROM {table} WHERE name = ?", (name,))  # noqa: S608 (ours)
        return versions

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        with store_file(store_path(self.data)).errors(self._db), self._db:
            yield

    def _execute(self, statement: str, values: tuple[object, ...]) -> None:
        with self._transaction():
            self._db.execute(statement, values)
