"""How do hosts leave one database and come into another?

As store/images.py has it; here is what each of these calls must have at hand.
"""

from typing import Any

from msgspec.structs import replace

from tarrafa.errors import FrontierError
from tarrafa.frontier.images import Album, Catalogue, CollectionImage, HostImage, Place
from tarrafa.frontier.protocol import CollectionRow
from tarrafa.frontier.store.postgres.session import Session, Work
from tarrafa.frontier.store.schema import ALL
from tarrafa.model import HostId

HOSTS_PER_ALBUM = 50
BEYOND = (1 << 62, b"\xff" * 16)  # behind all URLs of a host


class Moves(Session):
    """Export, import, and what moves sites between servers."""

    def catalogue(self) -> Catalogue:
        def work(work: Work) -> Catalogue:
            deleted: dict[str, float] = dict(work.cursor.execute("SELECT name, at FROM deleted").fetchall())
            return replace(work.store.images.catalogue(), deleted=deleted)

        return self._call(work)

    def images(self, after: Place, limit: int) -> Album:
        def work(work: Work) -> Album:
            hosts = work.hosts_after(
                "SELECT id FROM host WHERE id >= %b::bigint ORDER BY id LIMIT %b::bigint",
                after.host,
                HOSTS_PER_ALBUM + 1,
            )
            here = hosts[:HOSTS_PER_ALBUM]
            self._show(work, here, after, limit)
            album = work.store.images.after(after, limit)
            if album.end is None and len(hosts) > len(here):
                return Album(album.images, Place(here[-1], *BEYOND))
            return album

        return self._call(work)

    def _show(self, work: Work, hosts: list[HostId], after: Place, limit: int) -> None:
        copy = work.copy
        copy.need("host", [(host,) for host in hosts])
        copy.need("robots", copy.rows("SELECT robots_digest FROM host WHERE robots_digest IS NOT NULL"))
        copy.need_first("work", [(host,) for host in hosts], ALL)
        copy.need("site", copy.rows("SELECT collection, site FROM work JOIN host ON host.id = work.host"))
        if after.collection and after.host in hosts:
            copy.start_behind("url", (after.host,), (after.host, after.collection, after.url))
        copy.need_first("url", [(host,) for host in hosts], limit)
        keys = copy.rows("SELECT host, collection, id FROM url")
        copy.need("page", keys)
        copy.need_first("visit", keys, ALL)

    def restore_collection(self, image: CollectionImage, number: int | None = None) -> CollectionRow:
        return self._call(lambda work: work.store.catalogue.restore(image, number).row, alone=True)

    def restore(self, images: list[HostImage]) -> None:
        def work(work: Work) -> None:
            copy, find = work.copy, work.store.catalogue.named
            if any(self.passage(image.key) for image in images):
                raise FrontierError(
                    f"{self.where}: sites are on their way to another server; run `tarrafa frontier spread` to its end,"
                    " then this again"
                )
            shares = [(image, share, find(share.collection)) for image in images for share in image.shares]
            sites = {image.id: image.site for image in images} | copy.site_names(image.id for image in images)
            for number in work.walked():
                copy.make_sites(number, {sites[image.id] for image, _, known in shares if known.row.id == number})
            copy.lock_hosts(image.id for image in images)
            keys = [(image.id, known.row.id, url.id) for image, share, known in shares for url in share.urls]
            copy.need("site", [(known.row.id, image.site) for image, _, known in shares])
            copy.need("url", keys)
            copy.need("page", keys)
            for image, _, known in shares:
                work.store.urls.revisits.prepare(known, [image.id])
            work.store.images.restore(images)
            last = max((url.sequence for _, share, _ in shares for url in share.urls), default=0)
            work.cursor.execute(
                "INSERT INTO number VALUES ('sequence', %b::bigint) ON CONFLICT (name) DO UPDATE"
                " SET value = greatest(number.value, excluded.value)",
                [last + 1],
            )

        self._call(work)

    def forget(self, host: HostId) -> None:
        self._call(lambda work: self._forget(work, [host]))

    @staticmethod
    def _forget(work: Work, hosts: list[HostId]) -> None:
        copy = work.copy
        copy.lock_walks(((number, host) for number in work.walked() for host in hosts), hosts)
        for table in ("url", "visit", "pending", "page", "due"):
            copy.need_first(table, [(host,) for host in hosts], ALL)
        rows: list[tuple[Any, ...]] = copy.rows("SELECT collection, host FROM work")
        copy.need_first("shelf", rows, ALL)
        copy.need("site", copy.rows("SELECT collection, site FROM work JOIN host ON host.id = work.host"))
        for host in hosts:
            work.store.images.forget(host)
