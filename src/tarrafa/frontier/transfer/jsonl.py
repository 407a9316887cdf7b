"""JSON Lines export of the frontier: one object per URL, for other tools.

One JSON object per line and URL, in words and dates that need no explanation. The format is for reading only: Tarrafa
imports the other one (`frontier/transfer/checkpoint_file.py`).
"""

from collections.abc import AsyncIterator
from datetime import UTC, datetime

import msgspec

from tarrafa.frontier.transfer.checkpoint_file import ExportSource, iterate_hosts
from tarrafa.frontier.transfer.host_export import HostCollectionExport, HostExport, UrlExport
from tarrafa.model import STATUS_MEANING, UrlRole, UrlState
from tarrafa.revisit.change_rate import DAY_S


class VisitLine(msgspec.Struct, frozen=True):
    """One visit."""

    number: int
    at: str
    status: int
    bytes: int
    changed: bool | None
    worker: str


class UrlLine(msgspec.Struct, frozen=True):
    """A URL in one collection. Dates are ISO 8601 in UTC; null is what nobody knows."""

    collection: str
    url: str
    host: str
    site: str
    state: str
    role: str
    depth: int
    redirects: int
    in_links: int
    rank: float | None  # N times PageRank
    status: int | None
    meaning: str | None
    type: str | None
    discovered: str
    fetched: str | None
    announced: str | None
    attempts: int
    visits: int  # numbers given to visits so far
    content_id: str | None
    etag: str | None
    last_modified: str | None
    payload: str | None
    changes_per_day: float | None  # of a page that is kept fresh
    history: list[VisitLine]


async def url_lines(source: ExportSource, only: str | None = None) -> AsyncIterator[bytes]:
    """Every URL, or those of one collection."""
    encode = msgspec.json.Encoder().encode
    async for image in iterate_hosts(source, only):
        for share in image.shares:
            for url in share.urls:
                yield encode(_url_line(image, share, url)) + b"\n"


def _url_line(image: HostExport, share: HostCollectionExport, url: UrlExport) -> UrlLine:
    return UrlLine(
        collection=share.collection,
        url=url.url,
        host=image.key,
        site=image.site,
        state=UrlState(url.state).name.lower().replace("_", " "),
        role=UrlRole(url.role).name.lower(),
        depth=url.depth,
        redirects=url.redirects,
        in_links=url.in_links,
        rank=url.pagerank or None,
        status=url.status,
        meaning=str(STATUS_MEANING[url.status]) if url.status in STATUS_MEANING else None,
        type=url.type,
        discovered=_date(url.discovered) or "",
        fetched=_date(url.fetched),
        announced=_date(url.announced),
        attempts=url.attempts,
        visits=url.visits,
        content_id=url.content_id,
        etag=url.etag,
        last_modified=url.last_modified,
        payload=url.payload or None,
        changes_per_day=None if url.page is None else round(url.page.history.estimate * DAY_S, 6),
        history=[
            VisitLine(
                visit.number,
                _date(visit.at) or "",
                visit.status,
                visit.length,
                None if visit.changed is None else bool(visit.changed),
                visit.worker,
            )
            for visit in url.history
        ],
    )


def _date(at: float | None) -> str | None:
    if at is None:
        return None
    try:
        return datetime.fromtimestamp(at, UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
    except (OverflowError, ValueError, OSError):  # a sitemap may say anything
        return None
