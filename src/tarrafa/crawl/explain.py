"""Why is this URL in or out, what became of it, and when does its turn come?

The tool that a webmaster's complaint is answered with. Promises: it says what the crawl itself would do, by the same
functions, from the frontier's own rows; it asks no other machine.
"""

import re
from datetime import UTC, datetime

import msgspec

from tarrafa import config
from tarrafa.config import Collection, HostMatcher, Revisit, Scope
from tarrafa.crawl.asking import Ask, asking
from tarrafa.crawl.collection import HOST_TEXT, Admission
from tarrafa.crawl.freshness import Believed, believed
from tarrafa.crawl.traps import endless
from tarrafa.crawl.visit import user_agent
from tarrafa.crawl.walking import is_passed_over, turn, why_over
from tarrafa.data import DataDirectory
from tarrafa.errors import ConfigError, DataError
from tarrafa.fetch.robots import parse as parse_robots
from tarrafa.frontier.address import Address
from tarrafa.frontier.protocol import CollectionRow, HostFacts, PastVisit, SiteFacts, UrlFacts
from tarrafa.model import NO_REQUEST, STATUS_MEANING, Status, UrlState
from tarrafa.parse.extensions import types_of
from tarrafa.parse.url import DEFAULT_PORTS, canonical, split
from tarrafa.search.searcher import copies_of
from tarrafa.takedown import TakenDown

COPIES_SHOWN = 10
NEVER_AGAIN = "never: it was taken down"
PASSED_OVER = "passed over"  # in place of pending, where the walk through the site is over


class RobotsSaid(msgspec.Struct, frozen=True):
    """What the host's robots.txt says of a URL, as last seen."""

    status: int | None
    expires: str
    allowed: bool
    line: str  # the one that decides; empty where none speaks of it
    crawl_delay_s: float | None
    hints: tuple[str, ...]
    sitemaps: tuple[str, ...]


class Seen(msgspec.Struct, frozen=True):
    """One visit, for people."""

    number: int
    at: str
    status: int
    meaning: str
    bytes: int
    changed: bool | None


class Told(msgspec.Struct, frozen=True):
    """A URL from the point of view of one collection."""

    collection: str
    canonical: str
    in_scope: bool
    rule: str
    robots: RobotsSaid | None
    known: bool
    state: str = ""
    role: str = ""
    depth: int | None = None
    in_links: int = 0
    rank: float = 0.0
    status: int | None = None
    meaning: str = ""
    type: str = ""
    discovered: str = ""
    announced: str = ""
    content_id: str = ""
    copies: list[str] = []
    history: list[Seen] = []
    next_visit: str = ""
    believed: Believed | None = None
    site: SiteFacts | None = None  # where its site stands, if the order is breadth


class HostTold(msgspec.Struct, frozen=True):
    host: str
    site: str
    delay_s: float
    last_answer: str
    may_be_visited: str
    failures: int
    worker: str
    waiting: int
    visited: int
    trouble: str  # what stands in the way


class Explanation(msgspec.Struct, frozen=True):
    """The answer of `explain --json`."""

    url: str
    host: HostTold | None
    collections: list[Told]


async def explain(
    data: DataDirectory, url: str, collection: str | None, now: float, address: Address | None = None
) -> Explanation:
    """All that there is to say about a URL, collection by collection. `address`: of a frontier that is elsewhere."""
    plain = canonical(f"http://{url}" if HOST_TEXT.fullmatch(url) else url)
    if plain is None:
        raise ConfigError(f"{url[:200]}: not an http(s) URL that can be crawled")
    async with asking(data, address) as ask:
        return await _explain(data, ask, plain, collection, now)


async def _explain(data: DataDirectory, ask: Ask, plain: str, collection: str | None, now: float) -> Explanation:
    rows = (await ask(plain))[1]
    wanted = [row for row in rows if collection in (None, row.name)]
    if collection is not None and not wanted:
        raise ConfigError(f"no collection is named {collection!r} (there are: {', '.join(row.name for row in rows)})")
    told, host = [], None
    for row in wanted:
        described = config.decode(row.config)
        own = Admission(described).identity.fold(plain)
        facts, _ = await ask(own)
        host = host or facts.host
        known = next((one for one in facts.urls if one.collection == row.name), None)
        told.append(_told(data, own, row, described, facts.host, known, now))
    return Explanation(plain, None if host is None else _host(host, now), told)


def _told(
    data: DataDirectory,
    url: str,
    row: CollectionRow,
    described: Collection,
    host: HostFacts | None,
    known: UrlFacts | None,
    now: float,
) -> Told:
    inside, rule = scope_rule(described, url, known.depth if known else None)
    if taken_down := TakenDown(data).covers(url):
        inside, rule = False, "it was taken down (`tarrafa takedown list`)"
    robots = _robots(described, url, host)
    if known is not None and is_passed_over(known):
        known = msgspec.structs.replace(known, state=PASSED_OVER)
    if known is None:
        led = "kept" if described.looks_beyond and not inside else "visited"
        why = NEVER_AGAIN if taken_down else f"no page that was {led} links to it"
        return Told(row.name, url, inside, rule, robots, known=False, next_visit=why)
    try:
        copies = copies_of(data, url, row.name, COPIES_SHOWN)
    except DataError:
        copies = []
    told = believed(described, known.freshness, now) if known.freshness is not None else None
    return Told(
        row.name,
        url,
        inside,
        rule,
        robots,
        known=True,
        state=known.state,
        role=known.role,
        depth=known.depth,
        in_links=known.in_links,
        rank=known.rank,
        status=known.status,
        meaning=f"{meaning(known.status)}{_because(described, known)}",
        type=known.type or "",
        discovered=moment(known.discovered),
        announced=moment(known.announced),
        content_id=known.content_id or "",
        copies=copies,
        history=[_seen(visit) for visit in known.history],
        next_visit=NEVER_AGAIN if taken_down else _next_visit(row, host, known, told, described.revisit, now),
        believed=told,
        site=known.site,
    )


def scope_rule(collection: Collection, url: str, depth: int | None) -> tuple[bool, str]:
    """Whether the collection takes a URL, and the rule that says so."""
    if url in collection.roots:
        return True, "it is a root"
    parts, scope = split(url), collection.scope
    port = "" if parts.port == DEFAULT_PORTS[parts.scheme] else parts.port
    pattern = next((one for one in scope.hosts or () if HostMatcher([one]).matches(parts.host, port)), None)
    outside = f"no pattern of [scope] hosts matches {parts.host}{port and ':' + port}"
    if pattern is None and not collection.looks_beyond:
        return False, outside
    excluded = next((one for one in scope.exclude if _alone(collection, one).match(url)), None)
    if excluded is not None:
        return False, f"[scope] exclude = {excluded!r} matches it"
    if refusal := Admission(collection).refusal(url):
        looks = f"its extension says {', '.join(types_of(url))}, which [scope] types does not name"
        return False, looks if refusal == Status.TYPE_NOT_WANTED else f"it looks like a trap: {endless(url)}"
    if depth is not None and scope.depth_max is not None and depth > scope.depth_max:
        return False, f"its depth {depth} is beyond [scope] depth_max = {scope.depth_max}"
    is_led_to = pattern is not None or depth is not None
    return (
        is_led_to,
        f"[scope] hosts = {pattern!r} matches it" if pattern else f"{outside}; {_beyond(scope, is_led_to)}",
    )


def _beyond(scope: Scope, led_to: bool) -> str:
    fetched = "a kept page led to it, so it is fetched" if led_to else "it is fetched if a kept page links to it"
    return f"{fetched}, and kept if its language is wanted: {', '.join(scope.languages)}"


def _alone(collection: Collection, pattern: str) -> re.Pattern[str]:
    only = msgspec.structs.replace(collection, scope=msgspec.structs.replace(collection.scope, exclude=(pattern,)))
    assert only.excluded is not None
    return only.excluded


def _robots(collection: Collection, url: str, host: HostFacts | None) -> RobotsSaid | None:
    if collection.politeness.robots == "ignore" or host is None or host.robots_status is None:
        return None
    rules, agent = parse_robots(host.robots), user_agent(collection)
    return RobotsSaid(
        host.robots_status,
        moment(host.robots_expires),
        rules.allows(agent, url),
        rules.decides(agent, url) or "",
        rules.crawl_delay(agent),
        rules.hints(agent),
        rules.sitemaps,
    )


def _next_visit(
    row: CollectionRow, host: HostFacts | None, known: UrlFacts, told: Believed | None, fresh: Revisit, now: float
) -> str:
    """When, and why then."""
    if known.state == _name(UrlState.HANDED_OUT):
        return "now: a worker has it"
    waits = known.state == _name(UrlState.PENDING)
    if (waits or told is not None) and row.state != "running":
        return f"when the collection runs again (it is {row.state}{': ' + row.reason if row.reason else ''})"
    if waits or told is not None:
        return _turn(host, known, now) if told is None else _again(told, host, fresh, now)
    lifted = known.status == Status.TAKEN_DOWN
    if known.state == _name(UrlState.DROPPED) and (lifted or known.status in NO_REQUEST or not known.history):
        again = "when the collection is started again: it was taken down, and lifted since"
        never = "never: it was refused without a request (a change of [scope] has it judged again)"
        return again if lifted else never
    reasons = {
        PASSED_OVER: why_over(known.site),
        _name(UrlState.TOO_DEEP): "never: it lies beyond depth_max",
        _name(UrlState.EXCLUDED): "never: robots.txt forbids it",
        _name(UrlState.FAILED): "when the collection is started again: it failed after its retries",
    }
    if fresh.policy != "never":
        return reasons.get(known.state, "never: it was visited and is not kept, or no longer")
    return reasons.get(known.state, "not planned: it was visited, and this collection makes no revisits")


def _again(told: Believed, host: HostFacts | None, revisit: Revisit, now: float) -> str:
    if told.due is None:
        return f"not planned: {told.why}"
    when = max(told.due, host.next_at if host is not None else 0.0)
    budget = f", as far as the {revisit.rate:g} revisits a day reach" if revisit.rate is not None else ""
    return f"{'now' if when <= now else f'from {moment(when)} on'}{budget}: {told.why}"


def _because(collection: Collection, known: UrlFacts) -> str:
    """What a refusal of ours was for, where the word alone does not say it."""
    scope = collection.scope
    reasons = {
        Status.TRAP: f": {endless(known.url) or 'URLs made like it had nothing new to say for long'}",
        Status.HOST_FULL: f": host_pages_max = {scope.host_pages_max:,}, site_hosts_max = {scope.site_hosts_max:,}",
        Status.LANGUAGE_OUTSIDE: f": [scope] languages = {', '.join(scope.languages)}",
        Status.COPY: f": copies_max = {scope.copies_max:,}, alike_max = {scope.alike_max:,} others said it before",
    }
    return reasons.get(Status(known.status), "") if known.status is not None and known.status < 0 else ""


def _turn(host: HostFacts | None, known: UrlFacts, now: float) -> str:
    before = "" if not known.place else f" after the {known.place:,} of its host's URLs that go before it"
    if host is None or host.next_at <= now:
        return turn(known, f"as soon as a worker is free{before}")
    why = f"its host failed {host.failures} times in a row" if host.failures else "its host's delay"
    return turn(known, f"from {moment(host.next_at)} on ({why}){before}")


def _host(host: HostFacts, now: float) -> HostTold:
    free = "now" if host.next_at <= now else moment(host.next_at)
    return HostTold(
        host.key, host.site, host.delay_s, moment(host.ended_at), free, host.failures, host.worker or "",
        host.waiting, host.visited, host.trouble,
    )  # fmt: skip


def _seen(visit: PastVisit) -> Seen:
    return Seen(visit.number, moment(visit.at), visit.status, meaning(visit.status), visit.length, visit.changed)


def _name(state: UrlState) -> str:
    return state.name.lower().replace("_", " ")


def meaning(status: int | None) -> str:
    return STATUS_MEANING.get(status, "") if status is not None else ""


def moment(at: float | None) -> str:
    """A moment as people and programs read it; empty where there was none."""
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%dT%H:%M:%SZ") if at else ""
