"""Export and import of hosts on one PostgreSQL server.

The store does the work (store/host_transfer.py); each call here says which rows it needs.
"""

from msgspec.structs import replace

from tarrafa.frontier.messages import CollectionRow
from tarrafa.frontier.postgres.database_session import DatabaseSession, PostgresTransaction, in_transaction
from tarrafa.frontier.store.database import ALL_ROWS
from tarrafa.frontier.transfer.host_export import (
    CollectionExport,
    ExportBatch,
    ExportCatalogue,
    FrontierCursor,
    HostExport,
)
from tarrafa.model import HostId

HOSTS_PER_ALBUM = 50
LAST_URL = (1 << 62, b"\xff" * 16)  # behind all URLs of a host


class TransferCalls:
    """Export and import of hosts, and forgetting one."""

    def __init__(self, session: DatabaseSession) -> None:
        self._session = session

    @in_transaction
    def export_catalogue(self, work: PostgresTransaction) -> ExportCatalogue:
        deleted: dict[str, float] = dict(work.cursor.execute("SELECT name, at FROM deleted").fetchall())
        return replace(work.store.transfer.export_catalogue(), deleted=deleted)

    @in_transaction
    def export_hosts(self, work: PostgresTransaction, after: FrontierCursor, limit: int) -> ExportBatch:
        hosts = work.fetch_host_ids(
            "SELECT id FROM host WHERE id >= %b::bigint ORDER BY id LIMIT %b::bigint",
            after.host,
            HOSTS_PER_ALBUM + 1,
        )
        here = hosts[:HOSTS_PER_ALBUM]
        self._prefetch_hosts(work, here, after, limit)
        album = work.store.transfer.export_hosts(after, limit)
        if album.end is None and len(hosts) > len(here):
            return ExportBatch(album.images, FrontierCursor(here[-1], *LAST_URL))
        return album

    def _prefetch_hosts(
        self, work: PostgresTransaction, hosts: list[HostId], after: FrontierCursor, limit: int
    ) -> None:
        copy = work.copy
        copy.prefetch("host", [(host,) for host in hosts])
        copy.prefetch("robots", copy.rows("SELECT robots_digest FROM host WHERE robots_digest IS NOT NULL"))
        copy.prefetch_first("work", [(host,) for host in hosts], ALL_ROWS)
        copy.prefetch("site", copy.rows("SELECT collection, site FROM work JOIN host ON host.id = work.host"))
        if after.collection and after.host in hosts:
            copy.start_after("url", (after.host,), (after.host, after.collection, after.url))
        copy.prefetch_first("url", [(host,) for host in hosts], limit)
        keys = copy.rows("SELECT host, collection, id FROM url")
        copy.prefetch("page", keys)
        copy.prefetch_first("visit", keys, ALL_ROWS)

    def import_collection(self, image: CollectionExport, number: int | None = None) -> CollectionRow:
        return self._session.transact(lambda work: work.store.collections.import_collection(image, number), alone=True)

    @in_transaction
    def import_hosts(self, work: PostgresTransaction, images: list[HostExport]) -> None:
        copy, find = work.copy, work.store.collections.by_name
        shares = [(image, share, find(share.collection)) for image in images for share in image.shares]
        sites = {image.id: image.site for image in images} | copy.site_names(image.id for image in images)
        for number in work.breadth_collections():
            copy.create_and_lock_sites(
                number, {sites[image.id] for image, _, known in shares if known.row.id == number}
            )
        copy.lock_hosts(image.id for image in images)
        keys = [(image.id, known.row.id, url.id) for image, share, known in shares for url in share.urls]
        copy.prefetch("site", [(known.row.id, image.site) for image, _, known in shares])
        copy.prefetch("url", keys)
        copy.prefetch("page", keys)
        for image, _, known in shares:
            work.store.urls.revisits.prefetch_shelves(known, [image.id])
        work.store.transfer.import_hosts(images)
        last = max((url.sequence for _, share, _ in shares for url in share.urls), default=0)
        work.cursor.execute(
            "INSERT INTO number VALUES ('sequence', %b::bigint) ON CONFLICT (name) DO UPDATE"
            " SET value = greatest(number.value, excluded.value)",
            [last + 1],
        )

    @in_transaction
    def forget_host(self, work: PostgresTransaction, host: HostId) -> None:
        copy = work.copy
        copy.lock_walks(((number, host) for number in work.breadth_collections()), [host])
        for table in ("url", "visit", "pending", "page", "due"):
            copy.prefetch_first(table, [(host,)], ALL_ROWS)
        copy.prefetch_first("shelf", copy.rows("SELECT collection, host FROM work"), ALL_ROWS)
        copy.prefetch("site", copy.rows("SELECT collection, site FROM work JOIN host ON host.id = work.host"))
        work.store.transfer.forget_host(host)
