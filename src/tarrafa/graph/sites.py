"""Site and host summaries of the last ranking (sites.sqlite), and their reader.

`sites.sqlite` holds the sums of the last ranking, so that no request scans the graph: a row for each host and each site
of each collection, with the lists of linking and linked hosts or sites. Promises: a new file replaces the old one when
it is complete; an answer comes from one ranking, costs a few look-ups whatever the size of the graph, and gives the
time of the ranking. Several collections may know a site: unless one is named, the one with the most URLs of it is used,
and the numbers of the others stand beside its own. Knows nothing of how the sums are computed.
"""

import threading
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from struct import Struct
from typing import Any

import msgspec

from tarrafa.errors import NotReady
from tarrafa.i18n import message
from tarrafa.parse.url import canonical, host_key, host_name
from tarrafa.runtime.data_dir import DataDirectory
from tarrafa.runtime.sqlite import SqliteFile, rows

FORMAT = 1
LISTED_MAX = 1_000  # of each list, per answer
SCHEMA = """
CREATE TABLE survey (at REAL NOT NULL, nodes INTEGER NOT NULL, edges INTEGER NOT NULL);
CREATE TABLE sites (
    number INTEGER PRIMARY KEY, collection TEXT NOT NULL, name TEXT NOT NULL, hosts INTEGER NOT NULL,
    known INTEGER NOT NULL, visited INTEGER NOT NULL, fetched INTEGER NOT NULL, rank REAL NOT NULL,
    statuses TEXT NOT NULL, incoming BLOB NOT NULL, outgoing BLOB NOT NULL
);
CREATE TABLE hosts (
    number INTEGER PRIMARY KEY, collection TEXT NOT NULL, name TEXT NOT NULL, key TEXT NOT NULL, site INTEGER NOT NULL,
    known INTEGER NOT NULL, visited INTEGER NOT NULL, fetched INTEGER NOT NULL, rank REAL NOT NULL,
    statuses TEXT NOT NULL, incoming BLOB NOT NULL, outgoing BLOB NOT NULL
);
"""
INDEXES = """
CREATE INDEX sites_by_name ON sites (name);
CREATE INDEX hosts_by_name ON hosts (name);
CREATE INDEX hosts_by_key ON hosts (key);
CREATE INDEX hosts_by_site ON hosts (site, known DESC);
"""
_pair = Struct("<ii")


class SitePaging(msgspec.Struct, frozen=True):
    """The requested page of each list."""

    limit: int = 50
    in_offset: int = 0
    out_offset: int = 0
    hosts_offset: int = 0


FIRST_PAGE = SitePaging()


class LinkedSite(msgspec.Struct, frozen=True):
    """Another site or host, and the number of linked pairs of pages."""

    name: str
    links: int


class HostLinkSummary(msgspec.Struct, frozen=True):
    """A host of a site in numbers: URLs known, visited, and fetched successfully; the sum of their ranks."""

    host: str
    known: int
    visited: int
    fetched: int
    rank: float


class HostVisitSummary(msgspec.Struct, frozen=True):
    """A host as one collection knew it at the last ranking."""

    collection: str
    host: str
    known: int
    visited: int
    fetched: int
    statuses: dict[str, int]  # of the newest visits


class SiteCounts(msgspec.Struct, frozen=True):
    """A site or host in one collection: URLs known, visited, and answered with 200 at their newest visit."""

    collection: str
    known: int
    visited: int
    fetched: int


class SiteLinkSummary(msgspec.Struct, frozen=True, rename={"incoming": "in", "outgoing": "out"}):
    """A site among sites, or a host among hosts (`kind`), as one collection knew it at the last ranking."""

    name: str
    kind: str
    site: str
    collection: str
    collections: list[SiteCounts]  # all collections that know it
    as_of: float
    known: int
    visited: int
    fetched: int
    rank: float  # the sum of its pages' ranks
    statuses: dict[str, int]  # of the newest visits
    hosts: list[HostLinkSummary]
    hosts_total: int
    incoming: list[LinkedSite]
    in_total: int
    outgoing: list[LinkedSite]
    out_total: int


class SiteRow(msgspec.Struct, frozen=True):
    """The stored row of a site or host. `site` and `key` are set for hosts, `hosts` for sites."""

    collection: str
    name: str
    known: int
    visited: int
    fetched: int
    rank: float
    statuses: dict[int, int]
    incoming: bytes
    outgoing: bytes
    key: str = ""
    site: int = 0
    hosts: int = 0


def path_of(data: DataDirectory) -> Path:
    return data.graph / "sites.sqlite"


def _file(path: Path) -> SqliteFile:
    return SqliteFile(path, FORMAT, message("`tarrafa rebuild graph` makes it again"))


def write_sites(
    path: Path, at: float, nodes: int, edges: int, sites: Iterable[SiteRow], hosts: Iterable[SiteRow]
) -> None:
    """Write a complete new file; the caller moves it into place."""
    path.unlink(missing_ok=True)
    file = _file(path)
    connection = file.open(SCHEMA, journal="off", sync="off")
    try:
        with file.errors(connection), connection:
            connection.execute("INSERT INTO survey VALUES (?, ?, ?)", (at, nodes, edges))
            connection.executemany(
                "INSERT INTO sites VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
                ((n, one.collection, one.name, one.hosts, *_row_values(one)) for n, one in enumerate(sites)),
            )
            connection.executemany(
                "INSERT INTO hosts VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
                ((n, one.collection, one.name, one.key, one.site, *_row_values(one)) for n, one in enumerate(hosts)),
            )
            connection.execute(INDEXES)
    finally:
        connection.close()


def _row_values(row: SiteRow) -> tuple[Any, ...]:
    statuses = msgspec.json.encode({str(status): count for status, count in sorted(row.statuses.items())}).decode()
    return row.known, row.visited, row.fetched, row.rank, statuses, row.incoming, row.outgoing


class SiteReader:
    """Reads the last ranking; opens the next one automatically. Safe to use from several threads."""

    def __init__(self, data: DataDirectory) -> None:
        self._path = path_of(data)
        self._local = threading.local()

    def site(self, name: str, collection: str | None = None, paging: SitePaging = FIRST_PAGE) -> SiteLinkSummary | None:
        """A site by its domain."""
        url = canonical(f"http://{name}/")
        return None if url is None else self._found("site", "name", host_name(url), collection, paging)

    def host(self, name: str, collection: str | None = None, paging: SitePaging = FIRST_PAGE) -> SiteLinkSummary | None:
        """A host by its key (scheme://host:port) or by its name: then the key with the most known URLs."""
        url = canonical(name if "://" in name else f"http://{name}/")
        if url is None:
            return None
        column, wanted = ("key", host_key(url)) if "://" in name else ("name", host_name(url))
        return self._found("host", column, wanted, collection, paging)

    def hosts(self, limit: int) -> Iterator[HostVisitSummary]:
        """All hosts of all collections, up to a limit. Reads that many rows: for plans, not for pages."""
        with self._reading():
            found = self._rows("SELECT collection, key, known, visited, fetched, statuses FROM hosts LIMIT ?", (limit,))
        for collection, key, known, visited, fetched, statuses in found:
            yield HostVisitSummary(collection, key, known, visited, fetched, msgspec.json.decode(statuses))

    def _found(
        self, kind: str, column: str, name: str, collection: str | None, paging: SitePaging
    ) -> SiteLinkSummary | None:
        with self._reading():
            candidates = self._rows(
                f"SELECT number, collection, known, visited, fetched FROM {kind}s WHERE {column} = ?"  # noqa: S608
                " ORDER BY known DESC, number",
                (name,),
            )
            chosen = next((number for number, held, *_ in candidates if collection in (None, held)), None)
            if chosen is None:
                return None
            first = {held: SiteCounts(held, *counts) for _, held, *counts in reversed(candidates)}
            return self._summary(kind, chosen, list(reversed(first.values())), paging)

    def _summary(self, kind: str, number: int, collections: list[SiteCounts], paging: SitePaging) -> SiteLinkSummary:
        limit = max(0, min(paging.limit, LISTED_MAX))
        own = ("name", "number") if kind == "site" else ("key", "site")
        name, site, collection, known, visited, fetched, rank, statuses = self._rows(
            f"SELECT {', '.join(own)}, collection, known, visited, fetched, rank, statuses FROM {kind}s"  # noqa: S608
            " WHERE number = ?",
            (number,),
        )[0]
        hosts, hosts_total = self._hosts(site, limit, paging.hosts_offset)
        incoming, in_total = self._related(kind, "incoming", number, limit, paging.in_offset)
        outgoing, out_total = self._related(kind, "outgoing", number, limit, paging.out_offset)
        return SiteLinkSummary(
            name, kind, self._rows("SELECT name FROM sites WHERE number = ?", (site,))[0][0], collection, collections,
            self._rows("SELECT at FROM survey")[0][0], known, visited, fetched, rank, msgspec.json.decode(statuses),
            hosts, hosts_total, incoming, in_total, outgoing, out_total,
        )  # fmt: skip

    def _hosts(self, site: int, limit: int, offset: int) -> tuple[list[HostLinkSummary], int]:
        found = self._rows(
            "SELECT key, known, visited, fetched, rank FROM hosts WHERE site = ? ORDER BY known DESC, number"
            " LIMIT ? OFFSET ?",
            (site, limit, _bounded(offset)),
        )
        total = self._rows("SELECT hosts FROM sites WHERE number = ?", (site,))[0][0]
        return [HostLinkSummary(*row) for row in found], total

    def _related(self, kind: str, column: str, number: int, limit: int, offset: int) -> tuple[list[LinkedSite], int]:
        part, length = self._rows(
            f"SELECT substr({column}, ?, ?), length({column}) FROM {kind}s WHERE number = ?",  # noqa: S608
            (1 + _bounded(offset) * _pair.size, limit * _pair.size, number),
        )[0]
        called, pairs = "name" if kind == "site" else "key", list(_pair.iter_unpack(part or b""))
        names = dict(
            self._rows(
                f"SELECT number, {called} FROM {kind}s WHERE number IN ({', '.join(str(n) for n, _ in pairs)})"  # noqa: S608
            )
        )
        return [LinkedSite(names[other], links) for other, links in pairs], length // _pair.size

    def _rows(self, sql: str, bindings: tuple[object, ...] = ()) -> list[tuple[Any, ...]]:
        return rows(self._local.connection, sql, bindings)

    def _reading(self) -> AbstractContextManager[None]:
        """This thread's own connection, opened again after another ranking; SQLite errors become `DataError`."""
        try:
            found = self._path.stat()
        except OSError:
            raise NotReady(
                message("{path}: no ranking of the sites yet; the graph follower starts one", path=self._path)
            ) from None
        identity, file = (found.st_ino, found.st_mtime_ns), _file(self._path)
        if getattr(self._local, "identity", None) != identity:
            self._local.connection = file.open_readonly()
            self._local.identity = identity
        return file.errors(self._local.connection)


def _bounded(offset: int) -> int:
    return max(0, min(offset, 1 << 31))
