"""Why is this URL in or out, what became of it, and when does its turn come?

The tool that a webmaster's complaint is answered with. Promises: it says what the crawl itself would do, by the same
functions, from the frontier's own rows; it asks no other machine. What it has to say is said by `sayings`, in English
unless another language is asked for.
"""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import msgspec
from msgspec.structs import replace

from tarrafa import config
from tarrafa.config import Collection, Revisit
from tarrafa.crawl.asking import Ask, asking
from tarrafa.crawl.collection import HOST_TEXT, identity_of
from tarrafa.crawl.freshness import Believed, believed
from tarrafa.crawl.ruling import Rule, Rulebook
from tarrafa.crawl.sayings import ENGLISH, Tongue
from tarrafa.crawl.traps import endless
from tarrafa.crawl.visit import user_agent
from tarrafa.crawl.walking import is_passed_over, turn, why_over
from tarrafa.data import DataDirectory
from tarrafa.errors import ConfigError, DataError
from tarrafa.fetch.robots import parse as parse_robots
from tarrafa.frontier.address import Address
from tarrafa.frontier.protocol import Acquaintance, CollectionRow, HostFacts, PastVisit, SiteFacts, UrlFacts
from tarrafa.model import NO_REQUEST, STATUS_MEANING, Status, UrlState
from tarrafa.parse.url import canonical, name_and_port
from tarrafa.search.searcher import copies_of
from tarrafa.takedown import TakenDown

COPIES_SHOWN = 10
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
    because: str = ""  # what a refusal of ours was for; `meaning` has it, too
    type: str = ""
    discovered: str = ""
    announced: str = ""
    content_id: str = ""
    copies: list[str] = []
    history: list[Seen] = []
    next_visit: str = ""
    believed: Believed | None = None
    site: SiteFacts | None = None  # where its site stands, if the order is breadth
    delay_s: float = 0.0  # between two requests to its host
    delay_rule: str = ""  # what says so


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
    met_by: list[Acquaintance] = []


class Explanation(msgspec.Struct, frozen=True):
    """The answer of `explain --json`."""

    url: str
    host: HostTold | None
    collections: list[Told]


@dataclass(frozen=True, slots=True)
class Asked:
    """How an explanation is wanted. `reasons`: why collections stand as they do, where somebody knows better words for
    it than the frontier has."""

    now: float
    say: Tongue
    reasons: Mapping[str, str]


async def explain(
    data: DataDirectory,
    url: str,
    collection: str | None,
    now: float,
    address: Address | None = None,
    say: Tongue = ENGLISH,
    reasons: Mapping[str, str] | None = None,
) -> Explanation:
    """All that there is to say about a URL, collection by collection. `address`: of a frontier that is elsewhere."""
    plain = canonical(f"http://{url}" if HOST_TEXT.fullmatch(url) else url)
    if plain is None:
        raise ConfigError(f"{url[:200]}: not an http(s) URL that can be crawled")
    async with asking(data, address) as ask:
        return await _explain(data, ask, plain, collection, Asked(now, say, reasons or {}))


async def _explain(data: DataDirectory, ask: Ask, plain: str, collection: str | None, asked: Asked) -> Explanation:
    wanted = await ask.collections(collection)
    if collection is not None and not wanted:
        raise ConfigError(f"no collection is named {collection!r} (there are: {', '.join(await ask.names())})")
    told, host = [], None
    for row in wanted:
        described = await asyncio.to_thread(config.decode, row.config)
        own = identity_of(described).fold(plain)
        facts = await ask.facts(own)
        host = host or facts.host
        known = next((one for one in facts.urls if one.collection == row.name), None)
        told.append(await asyncio.to_thread(_told, data, own, row, described, facts.host, known, asked))
    return Explanation(plain, None if host is None else _host(host, asked), told)


def _told(
    data: DataDirectory,
    url: str,
    row: CollectionRow,
    described: Collection,
    host: HostFacts | None,
    known: UrlFacts | None,
    asked: Asked,
) -> Told:
    say, now = asked.say, asked.now
    ruling = Rulebook(described, TakenDown(data).covers, say).ruling(url, known.depth if known else None)
    inside, rule, taken_down = ruling.inside, ruling.sentence, ruling.rule == Rule.TAKEN_DOWN
    robots = _robots(described, url, host)
    delay = _delay(described, url, robots, say)
    if known is not None and is_passed_over(known):
        known = msgspec.structs.replace(known, state=PASSED_OVER)
    if known is None:
        led = "nobody kept links" if described.looks_beyond and not inside else "nobody visited links"
        why = say("taken down for ever" if taken_down else led)
        return replace(Told(row.name, url, inside, rule, robots, known=False, next_visit=why), **delay)
    try:
        copies = copies_of(data, url, row.name, COPIES_SHOWN)
    except DataError:
        copies = []
    told = believed(described, known.freshness, now, say) if known.freshness is not None else None
    because = _because(described, known, say)
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
        meaning=f"{meaning(known.status)}{because and ': ' + because}",
        because=because,
        type=known.type or "",
        discovered=moment(known.discovered),
        announced=moment(known.announced),
        content_id=known.content_id or "",
        copies=copies,
        history=[_seen(visit) for visit in known.history],
        next_visit=say("taken down for ever")
        if taken_down
        else _next_visit(row, host, known, told, described.revisit, asked),
        believed=told,
        site=known.site,
        **delay,
    )


def _delay(collection: Collection, url: str, robots: RobotsSaid | None, say: Tongue) -> dict[str, Any]:
    """By whose word two requests are how far apart; a slow host is given more time."""
    place = name_and_port(url)
    own, asked = collection.delay_of(*place), (robots.crawl_delay_s if robots is not None else None) or 0.0
    if min(asked, collection.politeness.delay_max) > own:
        return {"delay_s": float(min(asked, collection.politeness.delay_max)), "delay_rule": say("by robots")}
    return {"delay_s": own, "delay_rule": collection.delay_rule(*place)}


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
    row: CollectionRow, host: HostFacts | None, known: UrlFacts, told: Believed | None, fresh: Revisit, asked: Asked
) -> str:
    """When, and why then."""
    say = asked.say
    if known.state == _name(UrlState.HANDED_OUT):
        return say("with a worker")
    waits = known.state == _name(UrlState.PENDING)
    if (waits or told is not None) and row.state != "running":
        reason = asked.reasons.get(row.name, row.reason)
        return say("not running", state=say.state(row.state), reason=f": {reason}" if reason else "")
    if waits or told is not None:
        return _turn(host, known, asked) if told is None else _again(told, host, fresh, asked)
    lifted = known.status == Status.TAKEN_DOWN
    if known.state == _name(UrlState.DROPPED) and (lifted or known.status in NO_REQUEST or not known.history):
        refused = "not found" if known.status == Status.NOT_FOUND_AGAIN else "refused unasked"
        return say("lifted" if lifted else refused)
    if known.state == PASSED_OVER:
        return why_over(known.site, say)
    reasons = {
        _name(UrlState.ASIDE): "not found",
        _name(UrlState.TOO_DEEP): "lies too deep",
        _name(UrlState.EXCLUDED): "forbidden",
        _name(UrlState.FAILED): "failed",
    }
    return say(reasons.get(known.state, "not kept" if fresh.policy != "never" else "no revisits"))


def _again(told: Believed, host: HostFacts | None, revisit: Revisit, asked: Asked) -> str:
    say = asked.say
    if told.due is None:
        return say("not planned", why=told.why)
    due = max(told.due, host.next_at if host is not None else 0.0)
    when = say("now") if due <= asked.now else say("from", at=moment(due))
    if revisit.rate is None:
        return say("again", when=when, why=told.why)
    return say("again by budget", when=when, rate=revisit.rate, why=told.why)


def _because(collection: Collection, known: UrlFacts, say: Tongue) -> str:
    """What a refusal of ours was for, where the word alone does not say it."""
    scope, status = collection.scope, known.status
    if status == Status.TRAP:
        return endless(known.url, say) or say("barren")
    if status == Status.HOST_FULL:
        return f"host_pages_max = {scope.host_pages_max:,}, site_hosts_max = {scope.site_hosts_max:,}"
    if status == Status.LANGUAGE_OUTSIDE:
        return f"[scope] languages = {', '.join(scope.languages)}"
    return say("copies", copies=scope.copies_max, alike=scope.alike_max) if status == Status.COPY else ""


def _turn(host: HostFacts | None, known: UrlFacts, asked: Asked) -> str:
    say = asked.say
    before = say("after others", place=known.place) if known.place else ""
    if host is None or host.next_at <= asked.now:
        return turn(known, say("soon", before=before), say)
    why = say("host failed", failures=host.failures) if host.failures else say("host's delay")
    return turn(known, say("later", at=moment(host.next_at), why=why, before=before), say)


def _host(host: HostFacts, asked: Asked) -> HostTold:
    free = asked.say("now") if host.next_at <= asked.now else moment(host.next_at)
    return HostTold(
        host.key, host.site, host.delay_s, moment(host.ended_at), free, host.failures, host.worker or "",
        host.waiting, host.visited, host.trouble, host.met_by,
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
