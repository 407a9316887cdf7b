"""SQLite schema of the index of captures; opens, locks and removes its file.

Promises: one process writes, any number read at the same time (WAL); incomplete changes are never visible. A capture is
a row, in the order of CDX files: SURT key, then time. A row is keyed by its record's file and offset, too, so that a
record that is read again after a crash replaces itself. `cursor` is how far the meta files are read, `warc_cursor` how
far the files with the captures are. Knows nothing of records or queries.
"""

from typing import IO

import apsw

from tarrafa.archive.projection import STATE_SCHEMA, lock_projection
from tarrafa.errors import NotReady
from tarrafa.i18n import message
from tarrafa.runtime.data_dir import DataDirectory
from tarrafa.runtime.sqlite import SqliteFile

FORMAT = 1
CACHE_KIB = 32 << 10
MAPPED_BYTES = 1 << 36  # that may be read without copying; takes no memory of its own
RESPONSE_KIND, SAME_PAYLOAD_KIND, NOT_MODIFIED_KIND = 0, 1, 2
NO_COLLECTION = 0  # of robots.txt and of what a page's scripts asked for

SCHEMA = (
    STATE_SCHEMA
    + """
CREATE TABLE warc_cursor (file TEXT PRIMARY KEY, offset INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE collections (collection INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE);
CREATE TABLE damaged (file INTEGER, offset INTEGER, reason TEXT NOT NULL, PRIMARY KEY (file, offset)) WITHOUT ROWID;
CREATE TABLE captures (
    urlkey     TEXT NOT NULL,
    timestamp  INTEGER NOT NULL,  -- 14 digits: 20261118201500
    file       INTEGER NOT NULL,
    offset     INTEGER NOT NULL,
    length     INTEGER NOT NULL,  -- of the gzip member
    url        TEXT NOT NULL,
    mime       TEXT,
    status     TEXT NOT NULL,     -- empty: of a resource, which has none
    digest     BLOB NOT NULL,     -- 20 bytes: SHA-1; else the text of the header
    kind       INTEGER NOT NULL,  -- 0: response, 1: revisit with the same payload, 2: revisit that says not modified
    refers     INTEGER,           -- of a revisit: the time of the record with the body
    refers_url TEXT,              -- and its URL, if it is another one
    collection INTEGER NOT NULL,
    meta       INTEGER,           -- where the meta file has the record of its visit
    noarchive  INTEGER NOT NULL,  -- the page asks not to be shown from an archive
    PRIMARY KEY (urlkey, timestamp, file, offset)
) WITHOUT ROWID;
"""
)


def captures_file(data: DataDirectory) -> SqliteFile:
    path = data.captures / "captures.sqlite"
    return SqliteFile(path, FORMAT, message("`tarrafa rebuild captures` makes it again from the archive"))


def open_writer(data: DataDirectory) -> apsw.Connection:
    """The one connection that writes; the caller holds the lock."""
    return captures_file(data).open(SCHEMA, cache_kib=CACHE_KIB)


def open_reader(data: DataDirectory) -> apsw.Connection:
    file = captures_file(data)
    if file.found_format() == 0:
        raise NotReady(message("{path}: no index of captures yet; `tarrafa crawl FILE` makes one", path=file.path))
    connection = file.open_readonly()
    connection.pragma("mmap_size", MAPPED_BYTES)
    return connection


def writer_lock(data: DataDirectory) -> IO[bytes]:
    """One writing process at a time."""
    return lock_projection(data.captures, "index of captures")


def remove_captures(data: DataDirectory) -> None:
    """Delete the index; it can be rebuilt from the archive. The caller holds the lock."""
    captures_file(data).remove()
