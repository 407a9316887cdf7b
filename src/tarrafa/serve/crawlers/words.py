"""How do a crawler's words become our nouns, and ours its own?

Pure: no clock, no disk, no network. What cannot be meant is refused with the field's name.
"""

import re

from tarrafa.crawl.brought import Brought
from tarrafa.crawl.messenger import Errand
from tarrafa.crawl.visit import user_agent
from tarrafa.model import Link, Role, UrlId
from tarrafa.parse import robots_meta
from tarrafa.parse.url import canonical, url_id
from tarrafa.serve.crawlers.refusals import Malformed
from tarrafa.serve.crawlers.shapes import REPORTED, TypeAsked, VisitTold

GONE = 410
ERROR_CHARS_MAX = 200
ID = re.compile(r"[0-9a-f]{32}")


def worker_name(crawler: str) -> str:
    """What the frontier, the archive and the graph call it."""
    return f"crawler.{crawler}"


def id_of(text: str, where: str) -> UrlId:
    """A URL, or its id."""
    if ID.fullmatch(text):
        return bytes.fromhex(text)
    url = canonical(text)
    if url is None:
        raise Malformed(f"{where}: neither an http(s) URL nor an id of 32 hex digits: {text[:200]!r}")
    return url_id(url)


def status_of(asked: TypeAsked) -> int:
    """What the crawler may say of a visit."""
    if asked.gone == (asked.status is not None):
        raise Malformed('status: say either what the server answered, or "gone": true')
    if asked.status is None:
        return GONE
    if asked.status >= 200 or asked.status in REPORTED:
        return asked.status
    allowed = ", ".join(str(int(code)) for code in sorted(REPORTED, reverse=True))
    raise Malformed(f"status: {asked.status} is neither an HTTP status of 200 to 599 nor one of {allowed}")


def brought_of(asked: TypeAsked, status: int, links: tuple[Link, ...]) -> Brought:
    """What it says, together with the links that it told before."""
    fields = {
        "content-type": asked.type,
        "etag": asked.etag,
        "last-modified": asked.last_modified,
        "location": asked.location,
        "retry-after": str(int(asked.retry_after_s)) if asked.retry_after_s else "",
    }
    return Brought(
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
        robots_meta.together([robots_meta.from_meta("robots", asked.robots)]),
        tuple(asked.vocabularies),
        asked.canonical,
        asked.digest,
        links,
        worker_name(asked.crawler),
    )


def visit_told(errand: Errand, wait_s: float, in_links: list[UrlId], total: int) -> VisitTold:
    """Everything that it takes to fetch it as politely as we would."""
    collection, request, visit = errand.walk.collection, errand.request, errand.visit
    return VisitTold(
        url=request.url,
        id=errand.key[0].hex(),
        visit=errand.key[1],
        role="robots" if visit is None else Role(visit.role).name.lower(),
        collection=collection.name,
        host=errand.walk.lease.host_key,
        wait_s=rounded(max(0.0, wait_s)),
        delay_s=float(errand.walk.delay_s),
        user_agent=user_agent(collection),
        email=collection.politeness.email,
        etag=visit.etag if visit is not None else None,
        last_modified=visit.last_modified if visit is not None else None,
        connect_to=request.connect_to,
        address=request.address,
        types=list(collection.scope.types) if visit is not None and visit.role == Role.PAGE else [],
        size_max=int(request.size_max),
        time_max_s=float(request.time_max_s),
        depth=visit.depth if visit is not None else 0,
        in_links=[link.hex() for link in in_links],
        in_links_total=total,
    )


def rounded(seconds: float) -> float:
    """To the millisecond."""
    return round(seconds, 3)
