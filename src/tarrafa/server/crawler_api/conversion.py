"""Converts crawler API messages to the crawl's own types and back.

Pure: no clock, no disk, no network. What cannot be meant is refused with the field's name.
"""

import re

from tarrafa.crawl.relay.crawler_result import CrawlerResult
from tarrafa.crawl.relay.remote_fetch import FetchTask
from tarrafa.crawl.worker.outcome import user_agent
from tarrafa.model import Link, UrlId, UrlRole
from tarrafa.parse import robots_meta
from tarrafa.parse.url import canonical, url_id
from tarrafa.server.crawler_api.errors import MalformedCall
from tarrafa.server.crawler_api.messages import REPORTABLE_STATUSES, CrawlerTypeRequest, VisitMessage

GONE = 410
ERROR_CHARS_MAX = 200
ID = re.compile(r"[0-9a-f]{32}")


def worker_name(crawler: str) -> str:
    """What the frontier, the archive and the graph call it."""
    return f"crawler.{crawler}"


def parse_url_id(text: str, where: str) -> UrlId:
    """A URL, or its id."""
    if ID.fullmatch(text):
        return bytes.fromhex(text)
    url = canonical(text)
    if url is None:
        raise MalformedCall(f"{where}: neither an http(s) URL nor an id of 32 hex digits: {text[:200]!r}")
    return url_id(url)


def reported_status(asked: CrawlerTypeRequest) -> int:
    """What the crawler may say of a visit."""
    if asked.gone == (asked.status is not None):
        raise MalformedCall('status: say either what the server answered, or "gone": true')
    if asked.status is None:
        return GONE
    if asked.status >= 200 or asked.status in REPORTABLE_STATUSES:
        return asked.status
    allowed = ", ".join(str(int(code)) for code in sorted(REPORTABLE_STATUSES, reverse=True))
    raise MalformedCall(f"status: {asked.status} is neither an HTTP status of 200 to 599 nor one of {allowed}")


def to_fetch_result(asked: CrawlerTypeRequest, status: int, links: tuple[Link, ...]) -> CrawlerResult:
    """What it says, together with the links that it told before."""
    fields = {
        "content-type": asked.type,
        "etag": asked.etag,
        "last-modified": asked.last_modified,
        "location": asked.location,
        "retry-after": str(int(asked.retry_after_s)) if asked.retry_after_s else "",
    }
    return CrawlerResult(
        status,
        tuple((name, value) for name, value in fields.items() if value),
        asked.length,
        asked.elapsed_s,
        asked.address,
        asked.error[:ERROR_CHARS_MAX],
        asked.text,
        asked.title,
        tuple(asked.headings),
        asked.language,
        robots_meta.combine([robots_meta.from_meta("robots", asked.robots)]),
        tuple(asked.vocabularies),
        asked.canonical,
        asked.digest,
        links,
        worker_name(asked.crawler),
    )


def to_visit_message(task: FetchTask, wait_s: float, in_links: list[UrlId], total: int) -> VisitMessage:
    """Everything that it takes to fetch it as politely as we would."""
    collection, request, visit = task.session.collection, task.request, task.visit
    return VisitMessage(
        url=request.url,
        id=task.key[0].hex(),
        visit=task.key[1],
        role="robots" if visit is None else UrlRole(visit.role).name.lower(),
        collection=collection.name,
        host=task.session.lease.host_key,
        wait_s=round_to_ms(max(0.0, wait_s)),
        delay_s=float(task.session.pacing.delay_s),
        user_agent=user_agent(collection),
        email=collection.politeness.email,
        etag=visit.etag if visit is not None else None,
        last_modified=visit.last_modified if visit is not None else None,
        connect_to=request.connect_to,
        address=request.address,
        types=list(collection.scope.types) if visit is not None and visit.role == UrlRole.PAGE else [],
        size_max=int(request.size_max),
        time_max_s=float(request.time_max_s),
        depth=visit.depth if visit is not None else 0,
        in_links=[link.hex() for link in in_links],
        in_links_total=total,
    )


def round_to_ms(seconds: float) -> float:
    """To the millisecond."""
    return round(seconds, 3)
