"""Storage of the triple store: paths, SQLite schema, lock, and how it is opened and removed.

    DATA/triples/store/             oxigraph; only the follower opens it
    DATA/triples/followed.sqlite    cursor, newest visits, usage counts, entities
    DATA/triples/published/         snapshots for all other processes

Of several parts (they are those of the index), each has a folder of its own. Promises: a store that another version of
Tarrafa laid out, or an incomplete one, is recognised; a removal that is killed leaves nothing that would count as
complete. An error of oxigraph or SQLite becomes one line that says where it happened and what to do. Knows nothing of
records.
"""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import IO

import apsw
from pyoxigraph import Store

from tarrafa.archive.projection import STATE_SCHEMA, TAKEDOWN_SCHEMA, VISITS_SCHEMA, lock_projection
from tarrafa.errors import DataError, DiskFull, Locked
from tarrafa.i18n import message
from tarrafa.index import shards
from tarrafa.runtime.data_dir import DataDirectory
from tarrafa.runtime.sqlite import SqliteFile
from tarrafa.triples import snapshots

FORMAT = 1
CACHE_KIB = 64 << 10
PAGE_SHIFT = SAID_SHIFT = 12  # bits: for the entities of a page, and for the facts of an entity

SCHEMA = (
    f"{STATE_SCHEMA}{TAKEDOWN_SCHEMA}{VISITS_SCHEMA.format(columns='at REAL, changed REAL')}"
    + """
CREATE TABLE commits (commits INTEGER NOT NULL); -- how many there were: what is published says of which it is
CREATE TABLE ontology (generation INTEGER NOT NULL, content BLOB NOT NULL); -- that is in force
CREATE TABLE names (name INTEGER PRIMARY KEY, iri TEXT NOT NULL UNIQUE, vocabulary INTEGER);
CREATE TABLE pages (                   -- those that state something
    page       INTEGER PRIMARY KEY,
    id         BLOB NOT NULL UNIQUE,
    url        TEXT NOT NULL,
    at         REAL NOT NULL,
    statements INTEGER NOT NULL,
    inferred   INTEGER NOT NULL,
    digest     BLOB NOT NULL,          -- of what it states, and what follows
    ontology   INTEGER NOT NULL,       -- the generation that it was written under
    share      BLOB NOT NULL           -- in what is counted: see `counts`
);
CREATE INDEX pages_by_ontology ON pages (ontology);
CREATE TABLE things (thing INTEGER PRIMARY KEY, key TEXT NOT NULL UNIQUE, pages INTEGER NOT NULL);
CREATE TABLE said (                    -- that a page speaks of a thing: page << 12, and its place there
    said INTEGER PRIMARY KEY, thing INTEGER NOT NULL, label TEXT NOT NULL
);
CREATE INDEX said_by_thing ON said (thing, said);
CREATE TABLE facts (                   -- said << 12, and its place there
    fact     INTEGER PRIMARY KEY,
    property INTEGER NOT NULL,
    term     TEXT NOT NULL,
    number   REAL,
    moment   REAL,
    inferred INTEGER NOT NULL
);
CREATE INDEX facts_by_number ON facts (property, number) WHERE number IS NOT NULL;
CREATE INDEX facts_by_moment ON facts (property, moment) WHERE moment IS NOT NULL;
CREATE VIRTUAL TABLE words USING fts5 (
    text, content = '', contentless_delete = 1, tokenize = 'unicode61 remove_diacritics 2'
);
CREATE TABLE has (                     -- a thing that is of a class, has a property, is told in a vocabulary
    kind INTEGER, name INTEGER, thing INTEGER, pages INTEGER NOT NULL, PRIMARY KEY (kind, name, thing)
) WITHOUT ROWID;
CREATE TABLE counts (
    kind INTEGER, name INTEGER, things INTEGER NOT NULL, pages INTEGER NOT NULL, uses INTEGER NOT NULL,
    PRIMARY KEY (kind, name)
) WITHOUT ROWID;
CREATE TABLE together (                -- a property of things of a class
    class INTEGER, property INTEGER, pages INTEGER NOT NULL, uses INTEGER NOT NULL, PRIMARY KEY (class, property)
) WITHOUT ROWID;
CREATE TABLE totals (name TEXT PRIMARY KEY, value INTEGER NOT NULL) WITHOUT ROWID;
INSERT INTO totals VALUES ('pages', 0), ('statements', 0), ('inferred', 0), ('things', 0);
"""
)


def database_path(data: DataDirectory) -> Path:
    return data.triples / "followed.sqlite"


def database_file(data: DataDirectory) -> SqliteFile:
    return SqliteFile(database_path(data), FORMAT, message("`tarrafa rebuild triples` makes it again from the archive"))


def all_database_paths(data: DataDirectory) -> set[Path]:
    """The files of all parts, whether they are kept here or not."""
    return set((data.root / "triples").rglob(database_path(data).name))


def store_path(data: DataDirectory) -> Path:
    return data.triples / "store"


def exists(data: DataDirectory) -> bool:
    """Whether there is a store of this format."""
    return format_of(data) == FORMAT


def format_of(data: DataDirectory) -> int:
    """The format of the present SQLite file; 0: there is none yet."""
    return database_file(data).found_format()


def acquire_lock(data: DataDirectory) -> IO[bytes]:
    return lock_projection(data.triples, "triple store")


def remove(data: DataDirectory) -> None:
    """Remove the store; the caller holds the lock. The cursor goes first."""
    database_file(data).remove()
    snapshots.remove_published(data)
    (data.triples / "shown").unlink(missing_ok=True)
    store = store_path(data)
    gone = store.with_name("gone")
    shutil.rmtree(gone, ignore_errors=True)
    with suppress(FileNotFoundError):
        store.rename(gone)
    shutil.rmtree(gone, ignore_errors=True)


def remove_stray_parts(data: DataDirectory) -> None:
    """Remove parts that are not kept here. The caller holds DATA/lock."""
    folder = data.root / "triples"
    if not folder.is_dir():
        return
    kept = {part.part for part in shards.parts(data)}
    there = {path.name for path in folder.iterdir() if shards.PART_NAME.fullmatch(path.name)}
    for name in {"", *there} - kept:
        remove_part(DataDirectory(data.root, name))


def remove_part(part: DataDirectory) -> None:
    """Remove a part that nothing writes."""
    remove(part)
    if part.part:
        shutil.rmtree(part.triples, ignore_errors=True)


def open_database(data: DataDirectory) -> apsw.Connection:
    """The one connection that writes."""
    return database_file(data).open(SCHEMA, cache_kib=CACHE_KIB)


def open_store(data: DataDirectory) -> Store:
    path = store_path(data)
    with oxigraph_errors(path):
        return Store(str(path))


OXIGRAPH_ERRORS = (OSError, RuntimeError)  # the latter for what is damaged
DISK_FULL_MESSAGES = ("No space left", "File too large", "Disk quota exceeded")


@contextmanager
def oxigraph_errors(path: Path) -> Iterator[None]:
    """Turn errors of oxigraph into one line."""
    try:
        yield
    except OXIGRAPH_ERRORS as error:
        what = " ".join(str(error).split())[:200]
        if any(sign in what for sign in DISK_FULL_MESSAGES):
            raise DiskFull(f"{path}: the disk is full ({what}); free some space and run the command again") from None
        if "lock" in what.lower():
            raise Locked(f"{path}: another process is writing the triple store") from None
        raise DataError(
            f"{path}: the triple store cannot be used ({what}); `tarrafa rebuild triples` makes it from the archive"
        ) from None


class StorageErrors:
    """Turns errors of SQLite and oxigraph into `DataError`, at each use."""

    def __init__(self, data: DataDirectory, connection: apsw.Connection) -> None:
        self._store, self._sqlite = store_path(data), database_file(data).errors(connection)

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if isinstance(error, OXIGRAPH_ERRORS):
            with oxigraph_errors(self._store):
                raise error
        self._sqlite.__exit__(kind, error, at)
