"""SQLite schema of the link graph; opens, locks and removes its file.

Promises: one process writes, any number read at the same time (WAL); incomplete changes are never visible. A URL of a
collection is a *node* with a small number, counted upwards and never reused: edges of numbers take a quarter of the
space of edges of 128-bit ids, and are ready for arrays. A node whose newest visit was made by an external crawler is
owned by that crawler, and gets the next stamp whenever its in-links change: a client that has read up to a stamp finds
all later changes by it. Stamps of another `incarnation` (the graph was rebuilt) are invalid. `turned` counts the links
that came or went, the nodes that came, and their changes of status: results computed from the graph are current while
it is unchanged. Knows nothing of records or frontiers.
"""

from pathlib import Path
from typing import IO

import apsw

from tarrafa.archive.projection import STATE_SCHEMA, lock_projection
from tarrafa.errors import NotReady
from tarrafa.i18n import message
from tarrafa.runtime.data_dir import DataDirectory
from tarrafa.runtime.sqlite import SqliteFile

FORMAT = 5
# computed from the graph: see ranking_process.py and rank_file.py
DERIVED_FILES = ("ranks.f32", "ranks_sent.f32", "sites.sqlite")
CACHE_KIB = 64 << 10
LOG_PAGES = 8_000  # 32 MB of write-ahead log before it is copied into the file: most pages are written again and again
MAPPED_BYTES = 1 << 36  # that may be read without copying; takes no memory of its own

SCHEMA = (
    STATE_SCHEMA
    + """
CREATE TABLE collections (
    collection INTEGER PRIMARY KEY,
    name       TEXT NOT NULL UNIQUE,
    suffixes   TEXT NOT NULL DEFAULT '[]'      -- that its configuration adds to the list
);
CREATE TABLE nodes (
    node       INTEGER PRIMARY KEY,
    id         BLOB NOT NULL,
    collection INTEGER NOT NULL,
    url        TEXT NOT NULL,
    host       INTEGER NOT NULL,
    depth      INTEGER,                        -- NULL: reached by links that are not walked only
    depth_sent INTEGER,                        -- the depth that the frontier knows
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
CREATE TABLE undelivered (                     -- nodes that the frontier does not know yet: 64 bits each
    number INTEGER PRIMARY KEY, collection INTEGER NOT NULL, nodes BLOB NOT NULL
);
CREATE TABLE falling (node INTEGER PRIMARY KEY); -- its depth fell, its targets do not know yet
CREATE TABLE counters (name TEXT PRIMARY KEY, value INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE owners (owner INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE);
CREATE INDEX nodes_by_owner ON nodes (owner, stamp) WHERE owner IS NOT NULL;
-- With `hops` in the index, all that ranks are made of is read in one pass over it, in the order in which it is needed.
CREATE INDEX edges_by_target ON edges (dst, src, hops);
INSERT INTO counters VALUES ('edges', 0), ('stamp', 0), ('turned', 0), ('incarnation', abs(random() >> 1));
"""
)


def path_of(data: DataDirectory) -> Path:
    return data.graph / "graph.sqlite"


def graph_file(data: DataDirectory) -> SqliteFile:
    return SqliteFile(path_of(data), FORMAT, message("`tarrafa rebuild graph` makes it again from the archive"))


def open_writer(data: DataDirectory) -> apsw.Connection:
    """The one connection that writes; the caller holds the lock. The cursor is in the same transaction as the data: a
    transaction that a power cut has lost is replayed.
    """
    connection = graph_file(data).open(SCHEMA, cache_kib=CACHE_KIB)
    connection.pragma("wal_autocheckpoint", LOG_PAGES)
    return connection


def open_reader(data: DataDirectory) -> apsw.Connection:
    if not graph_exists(data):
        raise NotReady(message("{path}: no link graph yet; `tarrafa crawl FILE` makes one", path=path_of(data)))
    connection = graph_file(data).open_readonly()
    connection.pragma("mmap_size", MAPPED_BYTES)
    return connection


def graph_exists(data: DataDirectory) -> bool:
    """Whether there is a graph: the follower may have created the file and not yet its tables."""
    return graph_file(data).found_format() > 0


def graph_is_current(data: DataDirectory) -> bool:
    """Whether there is a graph of the present format."""
    return graph_file(data).found_format() == FORMAT


def writer_lock(data: DataDirectory) -> IO[bytes]:
    """One writing process at a time; a second one would count every link twice."""
    return lock_projection(data.graph, "link graph")


def remove_graph(data: DataDirectory) -> None:
    """Delete the graph; it can be rebuilt from the archive. The caller holds the lock."""
    for name in DERIVED_FILES:
        (data.graph / name).unlink(missing_ok=True)
    graph_file(data).remove()
