"""Transfer of hosts: exports hosts with everything below them, and imports them.

`export_hosts` goes through the hosts in the order of their ids and exports them whole, large ones in parts;
`import_hosts` takes them in.
Promises: existing rows stay as they are, so importing a host twice is harmless; a visit's number only ever rises.
Derived rows (queues, shelves, counters of what is there) are made from the imported rows, by the same code as during a
crawl.
"""

from collections import defaultdict
from itertools import groupby
from typing import Any

import msgspec

from tarrafa.frontier.export_import.export_records import (
    BYTES_MAX,
    URLS_MAX,
    ExportBatch,
    ExportCatalogue,
    FrontierCursor,
    HostCollectionExport,
    HostExport,
    HostRowExport,
    PageExport,
    RobotsExport,
    UrlExport,
    VisitExport,
    check_host_export,
    estimate_bytes,
)
from tarrafa.frontier.store.collections import LoadedCollection, StoreContext
from tarrafa.frontier.store.counters import Bucket
from tarrafa.frontier.store.database import UrlKey
from tarrafa.frontier.store.revisits import DISMISSED_SHELF, PLANNED, read_history
from tarrafa.frontier.store.urls import FrontierUrls, Queued
from tarrafa.model import HostId, UrlId, UrlRole, UrlState

AFTER_PAGE = 3  # fields of `UrlExport` after `page`
URL_COLUMNS = tuple(field.name for field in msgspec.structs.fields(UrlExport) if field.name not in ("history", "page"))
HOST_COLUMNS = tuple(field.name for field in msgspec.structs.fields(HostRowExport))[:-1]
VISIT_COLUMNS = tuple(field.name for field in msgspec.structs.fields(VisitExport))
Rows = list[tuple[Any, ...]]


def _insert_sql(table: str, *columns: str) -> str:
    places = ", ".join("?" * len(columns))
    return f"INSERT OR IGNORE INTO {table} ({', '.join(columns)}) VALUES ({places})"  # noqa: S608 (names of our own)


ROBOTS_COLUMNS = ("robots_status", "robots_digest", "robots_expires")
INSERT_HOST_SQL = _insert_sql("host", "id", "key", "site", *HOST_COLUMNS, *ROBOTS_COLUMNS)
INSERT_URL_SQL = _insert_sql("url", "host", "collection", *URL_COLUMNS)
INSERT_VISIT_SQL = _insert_sql("visit", "host", "collection", "id", *VISIT_COLUMNS)
URLS_SQL = f"SELECT collection, {', '.join(URL_COLUMNS)} FROM url WHERE host = ?"  # noqa: S608
VISITS_SQL = (
    f"SELECT id, {', '.join(VISIT_COLUMNS)} FROM visit WHERE host = ? AND collection = ?"  # noqa: S608
    " AND id BETWEEN ? AND ? ORDER BY id, number"
)
HOST_SQL = f"SELECT {', '.join((*HOST_COLUMNS, 'worker', *ROBOTS_COLUMNS))} FROM host WHERE id = ?"  # noqa: S608


class HostTransfer:
    """Export and import of one frontier's hosts."""

    def __init__(self, context: StoreContext, urls: FrontierUrls) -> None:
        self._db, self._counters, self._collections = context.db, context.counters, context.collections
        self._ready, self._clock, self._urls = context.ready, context.clock, urls

    def export_catalogue(self) -> ExportCatalogue:
        """Plans are not exported: the importer computes its own."""
        suffixes = str(self._db.value("SELECT value FROM meta WHERE key = 'suffix_list'"))
        images = [
            msgspec.structs.replace(image, plan_end=0.0)
            if self._collections.by_name(image.name).config.revisit.policy in PLANNED
            else image
            for image in self._collections.export_collections()
        ]
        return ExportCatalogue(images, suffixes, dict(self._db.rows("SELECT name, at FROM deleted")))

    # -- export -----------------------------------------------------------------------------------------------

    def export_hosts(self, after: FrontierCursor, limit: int) -> ExportBatch:
        """The hosts after a cursor, with up to `limit` URLs in all; the last host may continue in the next batch."""
        images: list[HostExport] = []
        left, size, place = max(1, min(limit, URLS_MAX)), 0, after
        while True:
            image, place = self.export_host(place, left)
            if image is not None and (image.shares or image.id != after.host):
                images.append(image)
                left, size = left - max(1, image.urls), size + estimate_bytes(image)
            if left <= 0 or size > BYTES_MAX:
                return ExportBatch(images, place)
            host = self._db.value("SELECT min(id) FROM host WHERE id > ?", (place.host,))
            if host is None:
                return ExportBatch(images, None)
            place = FrontierCursor(host)

    def export_host(self, place: FrontierCursor, limit: int) -> tuple[HostExport | None, FrontierCursor]:
        """One host, or its part after a cursor, and the cursor behind it. None: there is no such host."""
        host = place.host
        row = self._db.row("SELECT key, site FROM host WHERE id = ?", (host,))
        if row is None:
            return None, place
        rows = self._db.rows(
            f"{URLS_SQL} AND (collection, id) > (?, ?) ORDER BY collection, id LIMIT ?",
            (host, place.collection, place.url, limit),
        )
        shares = [
            self._export_collection(host, number, list(some)) for number, some in groupby(rows, key=lambda one: one[0])
        ]
        image = HostExport(host, row[0], row[1], None if place.collection else self._export_row(host), shares)
        return image, FrontierCursor(host, *rows[-1][:2]) if rows else place

    def _export_row(self, host: HostId) -> HostRowExport:
        """A worker that holds the host may be sending a request just now: its delay counts from now."""
        *facts, worker, status, digest, expires = self._db.required_row(HOST_SQL, (host,))
        robots = None
        if status is not None:
            text = self._db.value("SELECT text FROM robots WHERE digest = ?", (digest,))
            robots = RobotsExport(status, digest, expires, text or b"")
        row = HostRowExport(*[*facts, robots])
        if worker is not None:
            now = self._clock.now()
            moments = {"next_at": max(row.next_at, now + row.delay_s), "ended_at": max(row.ended_at, now)}
            row = msgspec.structs.replace(row, **moments)
        return row

    def _export_collection(self, host: HostId, number: int, rows: Rows) -> HostCollectionExport:
        visited, refused, run, site_hosts = self._db.required_row(
            "SELECT visited, refused, work.run,"
            " coalesce((SELECT hosts FROM site WHERE site.collection = work.collection"
            " AND name = host.site), 0) FROM work JOIN host ON host.id = work.host WHERE host = ? AND collection = ?",
            (host, number),
        )
        key, (first, last) = (host, number), (rows[0][1], rows[-1][1])
        history: defaultdict[UrlId, list[VisitExport]] = defaultdict(list)
        for url, *visit in self._db.rows(VISITS_SQL, (*key, first, last)):
            history[url].append(VisitExport(*visit))
        pages = {
            url: PageExport(shelf, at, gone, read_history(content))
            for url, shelf, at, gone, content in self._db.rows(
                "SELECT id, shelf, key, gone, history FROM page"
                " WHERE host = ? AND collection = ? AND id BETWEEN ? AND ?",
                (*key, first, last),
            )
        }
        urls = [
            UrlExport(*[*row[1:-AFTER_PAGE], history[row[1]], pages.get(row[1]), *row[-AFTER_PAGE:]]) for row in rows
        ]
        name = self._collections.by_id(number).row.name
        return HostCollectionExport(name, visited, refused, site_hosts, [_not_handed_out(url) for url in urls], run)

    # -- import -----------------------------------------------------------------------------------------------

    def import_hosts(self, images: list[HostExport]) -> None:
        for image in images:
            check_host_export(image)
            with self._ready.suspended(image.id):
                self._import_host(image)
                for share in image.shares:
                    self._import_collection(image.id, image.key, share)

    def _import_host(self, image: HostExport) -> None:
        """An existing row stays, except that politeness counts for both, and that robots.txt and memory may be
        missing."""
        row = image.row
        if row is None:
            self._db.run(
                "INSERT OR IGNORE INTO host (id, key, site) VALUES (?, ?, ?)", (image.id, image.key, image.site)
            )
            return
        robots = row.robots
        if robots is not None:
            self._db.run("INSERT OR IGNORE INTO robots VALUES (?, ?)", (robots.digest, robots.text))
        rules = (robots.status, robots.digest, robots.expires) if robots is not None else (None, None, None)
        facts = [getattr(row, column) for column in HOST_COLUMNS]
        self._db.run(INSERT_HOST_SQL, (image.id, image.key, image.site, *facts, *rules))
        self._db.run(
            "UPDATE host SET next_at = max(next_at, ?), ended_at = max(ended_at, ?), delay_s = max(delay_s, ?),"
            " memory = coalesce(memory, ?) WHERE id = ?",
            (row.next_at, row.ended_at, row.delay_s, row.memory, image.id),
        )
        self._db.run(
            "UPDATE host SET robots_status = ?, robots_digest = ?, robots_expires = ?"
            " WHERE id = ? AND robots_status IS NULL",
            (*rules, image.id),
        )

    def _import_collection(self, host: HostId, key: str, share: HostCollectionExport) -> None:
        known, queued = self._collections.by_name(share.collection), Queued()
        number = known.row.id
        gate = self._urls.gate_of(known, f"{key}/")
        if self._db.run(
            "INSERT OR IGNORE INTO work (host, collection, pending, visited, refused, gate, favoured, run)"
            " VALUES (?, ?, 0, ?, ?, ?, ?, ?)",
            (host, number, share.visited, share.refused, *gate, min(share.run, known.run)),
        ):
            self._counters.add(number, Bucket.HOSTS)
        self._db.run(
            "UPDATE work SET visited = max(visited, ?) WHERE host = ? AND collection = ?", (share.visited, host, number)
        )
        self._db.run(
            "INSERT INTO site (collection, name, hosts) SELECT ?, site, ? FROM host WHERE id = ?"
            " ON CONFLICT DO UPDATE SET hosts = max(hosts, excluded.hosts)",
            (number, share.site_hosts, host),
        )
        mentions = sum(url.in_links for url in share.urls if self._import_url(known, host, url, queued))
        self._urls.breadth.add_mentions(known, {host: mentions})
        self._urls.add_pending(number, queued)
        self._urls.revisits.update_due(known, host)

    def _import_url(self, known: LoadedCollection, host: HostId, url: UrlExport, queued: Queued) -> bool:
        """False: the URL is known here."""
        number, key = known.row.id, (host, known.row.id, url.id)
        url = msgspec.structs.replace(url, run=min(url.run, known.run))
        if not self._db.run(INSERT_URL_SQL, (*key[:2], *(getattr(url, column) for column in URL_COLUMNS))):
            self._db.update_url(key, "visits = max(visits, ?)", url.visits)
            return False
        known.sequence = max(known.sequence, url.sequence + 1)
        self._counters.add(number, Bucket.KNOWN)
        self._counters.add_state(number, url.state, url.role, 1)
        self._counters.count_unkept(number, url.state, url.status, url.role, 1)
        self._counters.add(number, Bucket.OLD_PAGES, int(url.state == UrlState.FETCHED and url.run < known.run))
        self._counters.add(number, Bucket.SHOWN_PAGES, int(url.shown > 0))
        self._db.many(INSERT_VISIT_SQL, [(*key, *msgspec.structs.astuple(visit)) for visit in url.history])
        if url.state == UrlState.PENDING:
            self._urls.requeue_counted(known, key, queued)
        if url.page is not None and known.config.keeps_fresh:
            self._import_page(known, key, url, url.page)
        return True

    def _import_page(self, known: LoadedCollection, key: UrlKey, url: UrlExport, page: PageExport) -> None:
        self._urls.revisits.save_page(key, page.history, (page.shelf, page.key), page.gone)
        self._urls.revisits.update_site_sums(known, key[0], url.role, None, page.history)
        if page.shelf == DISMISSED_SHELF:
            self._counters.add(known.row.id, Bucket.DISMISSED_WAITING)
        else:
            self._urls.page_replacement.add(known, True, url.in_links, key)


def _not_handed_out(url: UrlExport) -> UrlExport:
    """A URL that was handed out is a kept page, or pending again."""
    if url.state != UrlState.HANDED_OUT:
        return url
    kept = UrlState.FETCHED if url.role == UrlRole.PAGE else UrlState.DROPPED
    return msgspec.structs.replace(url, state=int(UrlState.PENDING if url.page is None else kept))
