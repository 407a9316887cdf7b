"""Database of the frontier: its tables, their schema version and codes, and the connection to the SQLite file.

Keys are clustered by host: one worker's batch touches few places. `url` is everything known; `pending` orders the
pending URLs, per host; `work` counts them; `ready` orders the hosts that have work and that no worker holds; `handed`
has the visits that workers hold, so that they go back after a crash without a scan.

For pages kept fresh, `page` has the history of a page and its shelf, `due` has the shelves of `revisit/policy.py` (the
smallest key of a shelf is its best page), `shelf` counts them, and `work.due` is when the host's earliest head is worth
a visit. `ready` has three kinds of rows: NEW and FAVOURED for hosts with new URLs, OLD for hosts with revisits.
`standing` orders pages by in-links, in collections that replace their least important pages by better ones.

In the order of breadth a site's row has its state (`ordering.py`): its stage, its mentions, the best of its pending
URLs (during a site session: the one that is next or handed out) with its rank and host; the number of pages that the
session has seen, of visits without a page, and of links to other sites on the last page. `work.gate` says whether new
URLs of a host may be handed out: at most one host of a site has a gate that is not closed.

`run` is the run of its collection in which a URL was last found, and the run that `work.visited` counts (`runs.py`);
`part_owner` and `part_node`: see `part_owners.py`.
`shown` is set while a URL is pending, or handed out, whose page is still shown. `deleted` has the deleted collections.
"""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import apsw

from tarrafa.errors import DataError
from tarrafa.i18n import message
from tarrafa.model import HostId, UrlId
from tarrafa.runtime.sqlite import restrict_to_owner

STATEMENTS_KEPT = 400  # we have about a hundred; with apsw's 100, one in four was prepared anew (20 to 50 us each)
# Of the write-ahead log before a checkpoint: 128 MB. Links lead all over the file, and a checkpoint writes a page once
# that many commits have changed. With a million known URLs, a log of 32 MB takes twice the time for checkpoints.
LOG_PAGES = 32_000
LOG_BYTES_KEPT = 192 << 20  # more than LOG_PAGES with their headers: a truncated log is allocated anew
ALL_ROWS = 1 << 30  # more than any range has

SCHEMA_VERSION = 7
NEW, OLD, FAVOURED = 0, 1, 2  # kinds of readiness
UNSHOWN, SHOWN, SWEPT = 0, 1, 2  # pending URLs: no page is shown; the page of an earlier run is; it is to be dismissed
SWEPT_RANK = -1e18  # before every other: a page to be dismissed needs no request
CLOSED, OPEN, OUT = 0, 1, 2  # gates: no new URL may be handed out; one may; one is handed out
UrlKey = tuple[HostId, int, UrlId]  # host, collection, URL: the key of `url`, and of most tables below a host

# Apart from the others, because they came later: added where they are missing.
PART_TABLES = """
CREATE TABLE IF NOT EXISTS part_owner (
    projection TEXT NOT NULL, part INTEGER NOT NULL, node TEXT NOT NULL, epoch INTEGER NOT NULL,
    PRIMARY KEY (projection, part)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS part_node (
    projection TEXT NOT NULL, node TEXT NOT NULL, parts INTEGER NOT NULL,
    era TEXT NOT NULL, since REAL NOT NULL, deadline REAL NOT NULL, PRIMARY KEY (projection, node)
) WITHOUT ROWID;
"""
TABLES = (
    """
CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT) WITHOUT ROWID;
CREATE TABLE number (name TEXT PRIMARY KEY, value INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE collection (
    id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE, state TEXT NOT NULL, reason TEXT NOT NULL,
    config BLOB NOT NULL, revision INTEGER NOT NULL DEFAULT 1, created REAL NOT NULL,
    sequence INTEGER NOT NULL DEFAULT 0,
    price REAL NOT NULL DEFAULT 0, plan INTEGER NOT NULL DEFAULT 0, plan_end REAL NOT NULL DEFAULT 0,
    run INTEGER NOT NULL DEFAULT 1, started REAL NOT NULL DEFAULT 0, phase INTEGER NOT NULL DEFAULT 0,
    swept_host INTEGER, swept_url BLOB
);
CREATE TABLE host (
    id INTEGER PRIMARY KEY, key TEXT NOT NULL, site TEXT NOT NULL,
    next_at REAL NOT NULL DEFAULT 0, ended_at REAL NOT NULL DEFAULT 0,
    delay_s REAL NOT NULL DEFAULT 0, failures INTEGER NOT NULL DEFAULT 0,
    worker INTEGER, robots_status INTEGER, robots_digest BLOB, robots_expires REAL, memory BLOB,
    trouble TEXT NOT NULL DEFAULT '',
    modified_right INTEGER NOT NULL DEFAULT 0, modified_wrong INTEGER NOT NULL DEFAULT 0,
    announced_right INTEGER NOT NULL DEFAULT 0, announced_wrong INTEGER NOT NULL DEFAULT 0
);
CREATE INDEX host_worker ON host (worker) WHERE worker IS NOT NULL;
CREATE TABLE address (address TEXT PRIMARY KEY, host INTEGER, next_at REAL NOT NULL) WITHOUT ROWID;
CREATE INDEX address_host ON address (host) WHERE host IS NOT NULL;
CREATE TABLE robots (digest BLOB PRIMARY KEY, text BLOB NOT NULL) WITHOUT ROWID;
CREATE TABLE url (
    host INTEGER NOT NULL, collection INTEGER NOT NULL, id BLOB NOT NULL,
    url TEXT NOT NULL, depth INTEGER NOT NULL, redirects INTEGER NOT NULL, state INTEGER NOT NULL,
    sequence INTEGER NOT NULL, visits INTEGER NOT NULL DEFAULT 0, attempts INTEGER NOT NULL DEFAULT 0,
    in_links INTEGER NOT NULL DEFAULT 0, status INTEGER, type TEXT, discovered REAL NOT NULL, fetched REAL,
    content_id TEXT, etag TEXT, last_modified TEXT, role INTEGER NOT NULL DEFAULT 0, announced REAL, parent BLOB,
    blamed INTEGER NOT NULL DEFAULT 0, payload TEXT NOT NULL DEFAULT '', archived REAL NOT NULL DEFAULT 0,
    pagerank REAL NOT NULL DEFAULT 0, run INTEGER NOT NULL DEFAULT 1, shown INTEGER NOT NULL DEFAULT 0,
    PRIMARY KEY (host, collection, id)
) WITHOUT ROWID;
CREATE TABLE pending (
    host INTEGER NOT NULL, collection INTEGER NOT NULL, rank REAL NOT NULL, id BLOB NOT NULL,
    PRIMARY KEY (host, collection, rank, id)
) WITHOUT ROWID;
CREATE TABLE work (
    host INTEGER NOT NULL, collection INTEGER NOT NULL, pending INTEGER NOT NULL,
    visited INTEGER NOT NULL DEFAULT 0, refused INTEGER NOT NULL DEFAULT 0, due REAL,
    gate INTEGER NOT NULL DEFAULT 1, favoured INTEGER NOT NULL DEFAULT 0, run INTEGER NOT NULL DEFAULT 1,
    PRIMARY KEY (host, collection)
) WITHOUT ROWID;
CREATE TABLE site (
    collection INTEGER NOT NULL, name TEXT NOT NULL, hosts INTEGER NOT NULL,
    pages INTEGER NOT NULL DEFAULT 0, means REAL NOT NULL DEFAULT 0, squares REAL NOT NULL DEFAULT 0,
    stage INTEGER NOT NULL DEFAULT 0, mentions INTEGER NOT NULL DEFAULT 0, best REAL, host INTEGER, url BLOB,
    walked INTEGER NOT NULL DEFAULT 0, vain INTEGER NOT NULL DEFAULT 0, links INTEGER NOT NULL DEFAULT 0,
    PRIMARY KEY (collection, name)
) WITHOUT ROWID;
CREATE TABLE visit (
    host INTEGER NOT NULL, collection INTEGER NOT NULL, id BLOB NOT NULL, number INTEGER NOT NULL,
    at REAL NOT NULL, status INTEGER NOT NULL, length INTEGER NOT NULL, changed INTEGER,
    worker TEXT NOT NULL DEFAULT '', PRIMARY KEY (host, collection, id, number)
) WITHOUT ROWID;
CREATE TABLE handed (
    host INTEGER NOT NULL, collection INTEGER NOT NULL, id BLOB NOT NULL, number INTEGER NOT NULL,
    PRIMARY KEY (host, collection, id)
) WITHOUT ROWID;
CREATE TABLE counter (
    collection INTEGER NOT NULL, bucket TEXT NOT NULL, value INTEGER NOT NULL,
    PRIMARY KEY (collection, bucket)
) WITHOUT ROWID;
CREATE TABLE worker (
    id INTEGER PRIMARY KEY, name TEXT NOT NULL,
    boot TEXT NOT NULL, pid INTEGER NOT NULL, started INTEGER NOT NULL, space TEXT NOT NULL,
    era TEXT NOT NULL, deadline REAL NOT NULL, hosts INTEGER NOT NULL DEFAULT 0, note TEXT NOT NULL DEFAULT ''
);
CREATE TABLE ready (
    collection INTEGER NOT NULL, kind INTEGER NOT NULL, next_at REAL NOT NULL, host INTEGER NOT NULL,
    PRIMARY KEY (collection, kind, next_at, host)
) WITHOUT ROWID;
CREATE TABLE page (
    host INTEGER NOT NULL, collection INTEGER NOT NULL, id BLOB NOT NULL,
    shelf INTEGER NOT NULL, key REAL NOT NULL, gone INTEGER NOT NULL DEFAULT 0, history BLOB NOT NULL,
    PRIMARY KEY (host, collection, id)
) WITHOUT ROWID;
CREATE TABLE due (
    host INTEGER NOT NULL, collection INTEGER NOT NULL, shelf INTEGER NOT NULL, key REAL NOT NULL, id BLOB NOT NULL,
    PRIMARY KEY (host, collection, shelf, key, id)
) WITHOUT ROWID;
CREATE TABLE shelf (
    collection INTEGER NOT NULL, host INTEGER NOT NULL, shelf INTEGER NOT NULL, pages INTEGER NOT NULL,
    PRIMARY KEY (collection, host, shelf)
) WITHOUT ROWID;
CREATE TABLE standing (
    collection INTEGER NOT NULL, kept INTEGER NOT NULL, in_links INTEGER NOT NULL, host INTEGER NOT NULL,
    id BLOB NOT NULL, PRIMARY KEY (collection, kept, in_links, host, id)
) WITHOUT ROWID;
CREATE TABLE deleted (
    name TEXT PRIMARY KEY, collection INTEGER NOT NULL, number INTEGER NOT NULL, at REAL NOT NULL
) WITHOUT ROWID;
CREATE INDEX site_stage ON site (collection, stage, mentions DESC, best);
CREATE INDEX host_site ON host (site);
"""
    + PART_TABLES
)


class FrontierDatabase:
    """A connection whose methods say what a statement is expected to return.

    `prefetch...` and `acquire...` name the rows that the next statements read or change. On a file, where every row is
    at hand, they do nothing; a row cache (postgres/row_locks.py) fetches and locks the rows.
    """

    is_row_cache = False

    def __init__(self, connection: apsw.Connection) -> None:
        self.connection = connection

    def run(self, sql: str, values: Sequence[Any] = ()) -> int:
        """Run a statement; returns the number of changed rows."""
        self.connection.execute(sql, values)
        return self.connection.changes()

    def many(self, sql: str, values: Iterable[Sequence[Any]]) -> None:
        self.connection.executemany(sql, values)

    def rows(self, sql: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        return self.connection.execute(sql, values).fetchall()

    def many_rows(self, sql: str, values: Iterable[Sequence[Any]]) -> list[tuple[Any, ...]]:
        """The rows that a statement returns for all these values, in their order: half the cost of a call for each."""
        return self.connection.executemany(sql, values).fetchall()

    def row(self, sql: str, values: Sequence[Any] = ()) -> tuple[Any, ...] | None:
        return self.connection.execute(sql, values).fetchone()

    def required_row(self, sql: str, values: Sequence[Any] = ()) -> tuple[Any, ...]:
        row = self.row(sql, values)
        assert row is not None, f"no row: {sql} {values}"
        return row

    def value(self, sql: str, values: Sequence[Any] = ()) -> Any:
        """The first column of the first row, or None."""
        row = self.row(sql, values)
        return None if row is None else row[0]

    def find_url(self, columns: str, key: UrlKey) -> tuple[Any, ...] | None:
        """Columns of a URL's row; None: the URL is unknown."""
        sql = f"SELECT {columns} FROM url WHERE host = ? AND collection = ? AND id = ?"  # noqa: S608 (names of our own)
        return self.connection.execute(sql, key).fetchone()

    def known_urls(self, keys: Iterable[UrlKey]) -> set[UrlId]:
        """Those of the URLs that are known."""
        sql = "SELECT id FROM url WHERE host = ? AND collection = ? AND id = ?"
        return {url for (url,) in self.many_rows(sql, keys)}

    def url(self, columns: str, key: UrlKey) -> tuple[Any, ...]:
        """Columns of the row of a known URL."""
        row = self.find_url(columns, key)
        assert row is not None, f"no URL: {key}"
        return row

    def update_url(self, key: UrlKey, assignments: str, *values: Any) -> int:
        return self.run(
            f"UPDATE url SET {assignments} WHERE host = ? AND collection = ? AND id = ?",  # noqa: S608
            (*values, *key),
        )

    def prefetch(self, table: str, keys: Iterable[Sequence[Any]]) -> None:
        """Fetch the rows with these primary keys."""

    def prefetch_first(self, table: str, prefixes: Iterable[Sequence[Any]], count: int, *, last: bool = False) -> None:
        """Fetch the first (or last) rows whose primary keys begin with each of these prefixes."""

    def acquire_hosts(self, hosts: Sequence[int], walks_of: int | None = None) -> Sequence[int]:
        """Lock hosts with the rows below them; returns the hosts that no other transaction is changing now. With a
        collection, their site sessions are locked too."""
        return hosts

    def acquire_site(self, collection: int, host: int) -> None:
        """Lock the row of a host's site."""

    def acquire_walks(self, collection: int, names: Sequence[str]) -> None:
        """Lock, for sites whose rows are at hand, all hosts with pending URLs or with a gate that is not closed, and
        fetch the head of each queue."""

    def acquire_site_table(self, collection: int, room: int, chosen: int, exchanged: int) -> None:
        """Lock the rows of sites that may enter or leave the site table: as many as there is room for (negative: as
        many as must leave), as many as are to be chosen, and at most `exchanged` to be exchanged."""


def open_database(path: str, suffix_list: str) -> FrontierDatabase:
    """Open the frontier's file for writing, and create its tables; the suffix list is stored once, at creation."""
    restrict_to_owner(Path(path))  # configurations hold the addresses of webhooks
    db = apsw.Connection(path, statementcachesize=STATEMENTS_KEPT)
    db.set_busy_timeout(10_000)
    version = int(db.pragma("user_version"))
    if version:
        check_schema(FrontierDatabase(db), Path(path))
    # Without it, a statement on a table with a partial index is planned anew for each set of values: 10 us, not 3.
    db.config(apsw.SQLITE_DBCONFIG_ENABLE_QPSG, 1)
    db.pragma("journal_mode", "wal")
    db.pragma("synchronous", "full")  # a visit's number must survive a power cut; commits come in groups
    db.pragma("cache_size", -64_000)
    db.pragma("wal_autocheckpoint", LOG_PAGES)
    db.pragma("journal_size_limit", LOG_BYTES_KEPT)
    if not version:
        with db:
            db.execute(TABLES)
            db.execute("INSERT INTO meta VALUES ('suffix_list', ?)", (suffix_list,))
            db.pragma("user_version", SCHEMA_VERSION)
    else:
        db.execute(PART_TABLES)
    return FrontierDatabase(db)


def check_schema(db: FrontierDatabase, path: Path) -> None:
    """Refuse a file of another version before anything is changed: a frontier can be rebuilt from the archive."""
    version = int(db.connection.pragma("user_version"))
    if version > SCHEMA_VERSION:
        raise DataError(
            message(
                "{path}: written by a newer Tarrafa (schema {version}, this one knows {known})",
                path=path,
                version=str(version),
                known=str(SCHEMA_VERSION),
            )
        )
    if version < SCHEMA_VERSION:
        raise DataError(
            message(
                "{path}: written by an older Tarrafa (schema {version}, this one knows {known});"
                " nothing was changed. `tarrafa rebuild frontier` makes it again from the archive, and keeps this one"
                " aside",
                path=path,
                version=str(version),
                known=str(SCHEMA_VERSION),
            )
        )
