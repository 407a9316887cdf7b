"""Export and import of hosts on one PostgreSQL server.

The store does the work (`export_import/host_export_import.py`); each call here names the rows that it needs.
"""

from msgspec.structs import replace

from tarrafa.frontier.export_import.export_records import (
    CollectionExport,
    ExportBatch,
    ExportCatalogue,
    FrontierCursor,
    HostExport,
)
from tarrafa.frontier.messages import CollectionRow
from tarrafa.frontier.postgres.database_session import DatabaseSession, PostgresTransaction, in_transaction
from tarrafa.frontier.store.database import ALL_ROWS
from tarrafa.model import HostId

HOSTS_PER_ALBUM = 50
LAST_URL = (1 << 62, b"\xff" * 16)  # after all URLs of a host


@in_transaction
def export_catalogue(work: PostgresTransaction) -> ExportCatalogue:
    deleted: dict[str, float] = dict(work.cursor.execute("SELECT name, at FROM deleted").fetchall())
    return replace(work.store.transfer.export_catalogue(), deleted=deleted)


@in_transaction
def export_hosts(work: PostgresTransaction, after: FrontierCursor, limit: int) -> ExportBatch:
    hosts = work.fetch_host_ids(
        "SELECT id FROM host WHERE id >= %b::bigint ORDER BY id LIMIT %b::bigint",
        after.host,
        HOSTS_PER_ALBUM + 1,
    )
    here = hosts[:HOSTS_PER_ALBUM]
    _prefetch_hosts(work, here, after, limit)
    album = work.store.transfer.export_hosts(after, limit)
    if album.end is None and len(hosts) > len(here):
        return ExportBatch(album.images, FrontierCursor(here[-1], *LAST_URL))
    return album


def _prefetch_hosts(work: PostgresTransaction, hosts: list[HostId], after: FrontierCursor, limit: int) -> None:
    db = work.db
    db.prefetch("host", [(host,) for host in hosts])
    db.prefetch("robots", db.rows("SELECT robots_digest FROM host WHERE robots_digest IS NOT NULL"))
    db.prefetch_first("work", [(host,) for host in hosts], ALL_ROWS)
    db.prefetch("site", db.rows("SELECT collection, site FROM work JOIN host ON host.id = work.host"))
    if after.collection and after.host in hosts:
        db.cache.start_after("url", (after.host,), (after.host, after.collection, after.url))
    db.prefetch_first("url", [(host,) for host in hosts], limit)
    keys = db.rows("SELECT host, collection, id FROM url")
    db.prefetch("page", keys)
    db.prefetch_first("visit", keys, ALL_ROWS)


def import_collection(session: DatabaseSession, image: CollectionExport, number: int | None = None) -> CollectionRow:
    return session.transact(lambda work: work.store.collections.import_collection(image, number), alone=True)


@in_transaction
def import_hosts(work: PostgresTransaction, images: list[HostExport]) -> None:
    db, find = work.db, work.store.collections.by_name
    shares = [(image, share, find(share.collection)) for image in images for share in image.shares]
    sites = {image.id: image.site for image in images} | db.site_names(image.id for image in images)
    for number in work.breadth_collections():
        db.create_and_lock_sites(number, {sites[image.id] for image, _, known in shares if known.row.id == number})
    db.lock_hosts(image.id for image in images)
    keys = [(image.id, known.row.id, url.id) for image, share, known in shares for url in share.urls]
    db.prefetch("site", [(known.row.id, image.site) for image, _, known in shares])
    db.prefetch("url", keys)
    db.prefetch("page", keys)
    for image, _, known in shares:
        work.store.urls.revisits.prefetch_shelves(known, [image.id])
    work.store.transfer.import_hosts(images)
    last = max((url.sequence for _, share, _ in shares for url in share.urls), default=0)
    work.cursor.execute(
        "INSERT INTO number VALUES ('sequence', %b::bigint) ON CONFLICT (name) DO UPDATE"
        " SET value = greatest(number.value, excluded.value)",
        [last + 1],
    )
