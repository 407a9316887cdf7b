"""JSON Lines export of the frontier: one object per URL and line, for other tools.

Names and dates need no explanation: dates are ISO 8601 in UTC, null is unknown. The format is for reading only: Tarrafa
imports the other one (`frontier/export_import/checkpoint_file.py`).
"""

from collections.abc import AsyncIterator
from datetime import UTC, datetime
from typing import Any

import msgspec

from tarrafa.frontier.export_import.checkpoint_file import ExportSource, iterate_hosts
from tarrafa.frontier.export_import.export_records import HostCollectionExport, HostExport, UrlExport, VisitExport
from tarrafa.model import STATUS_MEANING, UrlRole, UrlState
from tarrafa.revisit.change_rate import DAY_S


async def url_lines(source: ExportSource, only: str | None = None) -> AsyncIterator[bytes]:
    """Every URL, or those of one collection."""
    encode = msgspec.json.Encoder().encode
    async for image in iterate_hosts(source, only):
        for share in image.shares:
            for url in share.urls:
                yield encode(_url_line(image, share, url)) + b"\n"


def _url_line(image: HostExport, share: HostCollectionExport, url: UrlExport) -> dict[str, Any]:
    return {
        "collection": share.collection,
        "url": url.url,
        "host": image.key,
        "site": image.site,
        "state": UrlState(url.state).name.lower().replace("_", " "),
        "role": UrlRole(url.role).name.lower(),
        "depth": url.depth,
        "redirects": url.redirects,
        "in_links": url.in_links,
        "rank": url.pagerank or None,  # N times PageRank
        "status": url.status,
        "meaning": str(STATUS_MEANING[url.status]) if url.status in STATUS_MEANING else None,
        "type": url.type,
        "discovered": _date(url.discovered) or "",
        "fetched": _date(url.fetched),
        "announced": _date(url.announced),
        "attempts": url.attempts,
        "visits": url.visits,  # numbers given to visits so far
        "content_id": url.content_id,
        "etag": url.etag,
        "last_modified": url.last_modified,
        "payload": url.payload or None,
        "changes_per_day": None if url.page is None else round(url.page.history.estimate * DAY_S, 6),
        "history": [_visit(visit) for visit in url.history],
    }


def _visit(visit: VisitExport) -> dict[str, Any]:
    return {
        "number": visit.number,
        "at": _date(visit.at) or "",
        "status": visit.status,
        "bytes": visit.length,
        "changed": None if visit.changed is None else bool(visit.changed),
        "worker": visit.worker,
    }


def _date(at: float | None) -> str | None:
    if at is None:
        return None
    try:
        return datetime.fromtimestamp(at, UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
    except (OverflowError, ValueError, OSError):  # a sitemap may contain any date
        return None
