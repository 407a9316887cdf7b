"""SQLite schema of the link graph; opens, locks and removes its file.

Promises: one process writes, any number read at the same time (WAL); what is half done is never seen. A URL of a
collection is a *node* with a small number, counted upwards and never reused: edges of numbers take a quarter of the
room of edges of 128-bit ids, and are ready for arrays. A node whose newest visit was made by a crawler elsewhere has
that one for its owner, and is stamped with the next number whenever its in-links change: whoever has read up to a
stamp sees by it what has changed since. Stamps of another `incarnation` (the graph was made again) say nothing.
`turned` counts the links that came or went and the nodes that came: what was computed from the graph is new while it
stands. Knows nothing of records or frontiers.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import apsw

from tarrafa.archive.warc_reader import Cursor
from tarrafa.errors import DISK_FULL_ERRNOS, DataError, DiskFull, NotReady, data_error_from_os
from tarrafa.runtime.data_dir import SQLITE_BUSY_TIMEOUT_MS, DataDirectory, open_sqlite_readonly, try_lock

FORMAT = 3
DERIVED_FILES = ("ranks.f32", "told.f32", "sites.sqlite")  # computed from the graph: see survey.py and ranknews.py
CACHE_KIB = 64 << 10
MAPPED_BYTES = 1 << 36  # that may be read without copying; takes no memory of its own

SCHEMA = """
CREATE TABLE collections (collection INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE);
CREATE TABLE nodes (
    node       INTEGER PRIMARY KEY,
    id         BLOB NOT NULL,
    collection INTEGER NOT NULL,
    url        TEXT NOT NULL,
    host       INTEGER NOT NULL,
    depth      INTEGER,                        -- NULL: reached by links that are not walked only
    told       INTEGER,                        -- the depth that the frontier knows
    in_links   INTEGER NOT NULL DEFAULT 0,     -- distinct other URLs that link here
    visit      INTEGER NOT NULL DEFAULT -1,    -- the newest visit applied
    status     INTEGER,
    visited_at REAL,
    title      TEXT,
    owner      INTEGER,                        -- who made that visit; NULL: one of our own workers
    stamp      INTEGER,                        -- of an owned node: when its in-links or its owner changed last
    file       INTEGER,                        -- where the archive has its newest text, and from which byte on
    place      INTEGER
);
CREATE UNIQUE INDEX nodes_by_id ON nodes (id, collection);
CREATE TABLE edges (                           -- n: the link's place on its page
    src INTEGER, n INTEGER, dst INTEGER NOT NULL, anchor TEXT NOT NULL, rel TEXT NOT NULL, hops INTEGER,
    PRIMARY KEY (src, n)
) WITHOUT ROWID;
CREATE TABLE dirty (node INTEGER PRIMARY KEY);   -- the frontier does not know yet
CREATE TABLE falling (node INTEGER PRIMARY KEY); -- its depth fell, its targets do not know yet
CREATE TABLE cursor (file TEXT PRIMARY KEY, offset INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE counters (name TEXT PRIMARY KEY, value INTEGER NOT NULL) WITHOUT ROWID;
INSERT INTO counters VALUES ('edges', 0);
"""
OWNERS_SCHEMA = """
CREATE TABLE owners (owner INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE);
CREATE INDEX nodes_by_owner ON nodes (owner, stamp) WHERE owner IS NOT NULL;
INSERT INTO counters VALUES ('stamp', 0), ('incarnation', abs(random() >> 1));
"""
# With `hops` in the index, all that ranks are made of is read in one pass over it, in the order in which it is needed.
RANKING_SCHEMA = """
CREATE INDEX edges_by_target ON edges (dst, src, hops);
CREATE TABLE files (file INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE);
INSERT INTO counters SELECT 'turned', (SELECT value FROM counters WHERE name = 'edges') + count(*) FROM nodes;
ALTER TABLE collections ADD COLUMN suffixes TEXT NOT NULL DEFAULT '[]'; -- that its configuration adds to the list
"""


def path_of(data: DataDirectory) -> Path:
    return data.graph / "graph.sqlite"


def rows(connection: apsw.Connection, sql: str, bindings: tuple[object, ...] = ()) -> list[tuple[Any, ...]]:
    """All rows of a query; the types are those of the columns above."""
    found: list[tuple[Any, ...]] = connection.execute(sql, bindings).fetchall()
    return found


def read_cursor(connection: apsw.Connection) -> Cursor:
    return dict(rows(connection, "SELECT file, offset FROM cursor"))


@contextmanager
def sqlite_errors(path: Path, connection: apsw.Connection | None = None, what: str = "graph") -> Iterator[None]:
    """What SQLite complains of, as one line that says where and what to do."""
    try:
        yield
    except apsw.Error as error:
        full = isinstance(error, apsw.FullError) or (
            connection is not None and connection.system_errno in DISK_FULL_ERRNOS
        )
        if full:
            raise DiskFull(f"{path}: the disk is full ({error}); free some space and run the command again") from None
        remedy = f"`tarrafa rebuild {what}` makes it again from the archive"
        if isinstance(error, apsw.CorruptError | apsw.NotADBError):
            raise DataError(f"{path}: damaged ({error}); {remedy}") from None
        raise DataError(f"{path}: cannot be used ({error}); {remedy}") from None


def open_writer(data: DataDirectory) -> apsw.Connection:
    """The one connection that writes; the caller holds the lock."""
    path = path_of(data)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise data_error_from_os(error, path.parent) from None
    with sqlite_errors(path):
        connection = apsw.Connection(str(path))
    with sqlite_errors(path, connection):
        connection.set_busy_timeout(SQLITE_BUSY_TIMEOUT_MS)
        found = connection.pragma("user_version")
        if found:
            _check_format(connection, path)
        connection.pragma("journal_mode", "wal")
        connection.pragma("synchronous", "normal")  # the cursor is in the same transaction: a lost one is replayed
        connection.pragma("cache_size", -CACHE_KIB)
        if not found:
            with connection:
                connection.execute(SCHEMA + OWNERS_SCHEMA + RANKING_SCHEMA)
                connection.pragma("user_version", FORMAT)
    return connection


def open_reader(data: DataDirectory) -> apsw.Connection:
    path = path_of(data)
    if not graph_exists(data):
        raise NotReady(f"{path}: no link graph yet; `tarrafa crawl FILE` makes one")
    with sqlite_errors(path):
        connection = open_sqlite_readonly(path)
        connection.pragma("mmap_size", MAPPED_BYTES)
        _check_format(connection, path)
    return connection


def graph_exists(data: DataDirectory) -> bool:
    """Whether there is a graph: its follower may have created the file and not yet its tables."""
    return format_of(data) > 0


def format_of(data: DataDirectory) -> int:
    """The format of the graph that is there; 0: there is none yet."""
    path = path_of(data)
    if not path.exists():
        return 0
    with sqlite_errors(path):
        connection = open_sqlite_readonly(path)
        try:
            return int(connection.pragma("user_version"))
        finally:
            connection.close()


def _check_format(connection: apsw.Connection, path: Path) -> None:
    found = connection.pragma("user_version")
    if found != FORMAT:
        raise DataError(
            f"{path}: written by another Tarrafa (format {found}, this one reads {FORMAT}); nothing was changed."
            " `tarrafa rebuild graph` makes it again from the archive"
        )


@contextmanager
def writer_lock(data: DataDirectory) -> Iterator[None]:
    """One writing process at a time; a second one would count every link twice."""
    data.graph.mkdir(parents=True, exist_ok=True)
    lock = try_lock(data.graph / "lock")
    if lock is None:
        raise DataError(f"{data.graph}: another process is writing the link graph")
    with lock:
        yield


def remove_graph(data: DataDirectory) -> None:
    """Delete the graph; the archive has all that is needed to make it again. The caller holds the lock.

    The file itself goes last: a new one would take an old log for its own, if a kill had left that."""
    for name in (*DERIVED_FILES, "graph.sqlite-wal", "graph.sqlite-shm", "graph.sqlite"):
        (data.graph / name).unlink(missing_ok=True)
