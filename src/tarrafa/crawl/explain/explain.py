"""Explains a URL: scope rule, robots.txt, visits so far and next visit, for `tarrafa explain` and the console.

The tool that a webmaster's complaint is answered with. Promises: it says what the crawl itself would do, by the same
functions, from the frontier's own rows; it asks no other machine. What it has to say is said by `sayings`, in English
unless another language is asked for.

What does the order of breadth have in store for a URL?

Words for `explain`, from where the URL's site stands in the frontier (`frontier/ordering/breadth_rules.py`).
"""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import msgspec
from msgspec.structs import replace

from tarrafa import config
from tarrafa.config import Collection, RevisitConfig
from tarrafa.crawl.explain.freshness import ChangeEstimate, estimate_changes
from tarrafa.crawl.explain.frontier_lookup import FrontierLookup, open_frontier_lookup
from tarrafa.crawl.scope.collection_loader import HOST_PATTERN, url_identity_of
from tarrafa.crawl.scope.scope_rules import ScopeRule, ScopeRules
from tarrafa.crawl.scope.traps import trap_reason
from tarrafa.crawl.sentences import ENGLISH, Tongue
from tarrafa.crawl.worker.outcome import user_agent
from tarrafa.errors import ConfigError, DataError
from tarrafa.fetch.robots import parse as parse_robots
from tarrafa.frontier.address import Address
from tarrafa.frontier.api import CollectionRow, HostCollectionCounts, HostFacts, PastVisit, SiteFacts, UrlFacts
from tarrafa.frontier.ordering.breadth_rules import FRUITLESS_VISITS_MAX, continues_walk
from tarrafa.model import NO_REQUEST, STATUS_MEANING, Status, UrlState
from tarrafa.parse.url import canonical, name_and_port
from tarrafa.runtime.data_dir import DataDirectory
from tarrafa.search.searcher import exact_copies
from tarrafa.takedown import CurrentTakedowns

COPIES_SHOWN = 10
PASSED_OVER = "passed over"  # in place of pending, where the walk through the site is over


class RobotsVerdict(msgspec.Struct, frozen=True):
    """What the host's robots.txt says of a URL, as last seen."""

    status: int | None
    expires: str
    allowed: bool
    line: str  # the one that decides; empty where none speaks of it
    crawl_delay_s: float | None
    hints: tuple[str, ...]
    sitemaps: tuple[str, ...]


class ExplainedVisit(msgspec.Struct, frozen=True):
    """One visit, for people."""

    number: int
    at: str
    status: int
    meaning: str
    bytes: int
    changed: bool | None


class UrlExplanation(msgspec.Struct, frozen=True):
    """A URL from the point of view of one collection."""

    collection: str
    canonical: str
    in_scope: bool
    rule: str
    robots: RobotsVerdict | None
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
    history: list[ExplainedVisit] = []
    next_visit: str = ""
    believed: ChangeEstimate | None = None
    site: SiteFacts | None = None  # where its site stands, if the order is breadth
    delay_s: float = 0.0  # between two requests to its host
    delay_rule: str = ""  # what says so


class HostExplanation(msgspec.Struct, frozen=True):
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
    met_by: list[HostCollectionCounts] = []


class Explanation(msgspec.Struct, frozen=True):
    """The answer of `explain --json`."""

    url: str
    host: HostExplanation | None
    collections: list[UrlExplanation]


@dataclass(frozen=True, slots=True)
class ExplainOptions:
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
    plain = canonical(f"http://{url}" if HOST_PATTERN.fullmatch(url) else url)
    if plain is None:
        raise ConfigError(f"{url[:200]}: not an http(s) URL that can be crawled")
    async with open_frontier_lookup(data, address) as ask:
        return await _explain(data, ask, plain, collection, ExplainOptions(now, say, reasons or {}))


async def _explain(
    data: DataDirectory, ask: FrontierLookup, plain: str, collection: str | None, asked: ExplainOptions
) -> Explanation:
    wanted = await ask.collections(collection)
    if collection is not None and not wanted:
        raise ConfigError(f"no collection is named {collection!r} (there are: {', '.join(await ask.names())})")
    told, host = [], None
    for row in wanted:
        described = await asyncio.to_thread(config.decode_collection, row.config)
        own = url_identity_of(described).fold(plain)
        facts = await ask.facts(own)
        host = host or facts.host
        known = next((one for one in facts.urls if one.collection == row.name), None)
        told.append(
            await asyncio.to_thread(_explain_in_collection, data, own, row, described, facts.host, known, asked)
        )
    return Explanation(plain, None if host is None else _host(host, asked), told)


def _explain_in_collection(
    data: DataDirectory,
    url: str,
    row: CollectionRow,
    described: Collection,
    host: HostFacts | None,
    known: UrlFacts | None,
    asked: ExplainOptions,
) -> UrlExplanation:
    say, now = asked.say, asked.now
    ruling = ScopeRules(described, CurrentTakedowns(data).covers, say).decide(url, known.depth if known else None)
    inside, rule, taken_down = ruling.inside, ruling.sentence, ruling.rule == ScopeRule.TAKEN_DOWN
    robots = _robots(described, url, host)
    delay = _delay(described, url, robots, say)
    if known is not None and is_passed_over(known):
        known = msgspec.structs.replace(known, state=PASSED_OVER)
    if known is None:
        led = "nobody kept links" if described.explores_outside_hosts and not inside else "nobody visited links"
        why = say("taken down for ever" if taken_down else led)
        return replace(UrlExplanation(row.name, url, inside, rule, robots, known=False, next_visit=why), **delay)
    try:
        copies = exact_copies(data, url, row.name, COPIES_SHOWN)
    except DataError:
        copies = []
    told = estimate_changes(described, known.freshness, now, say) if known.freshness is not None else None
    because = _refusal_detail(described, known, say)
    return UrlExplanation(
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
        meaning=f"{status_meaning(known.status)}{because and ': ' + because}",
        because=because,
        type=known.type or "",
        discovered=format_time(known.discovered),
        announced=format_time(known.announced),
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


def _delay(collection: Collection, url: str, robots: RobotsVerdict | None, say: Tongue) -> dict[str, Any]:
    """By whose word two requests are how far apart; a slow host is given more time."""
    place = name_and_port(url)
    own, asked = collection.delay_for(*place), (robots.crawl_delay_s if robots is not None else None) or 0.0
    if min(asked, collection.politeness.delay_max) > own:
        return {"delay_s": float(min(asked, collection.politeness.delay_max)), "delay_rule": say("by robots")}
    return {"delay_s": own, "delay_rule": collection.delay_rule(*place)}


def _robots(collection: Collection, url: str, host: HostFacts | None) -> RobotsVerdict | None:
    if collection.politeness.robots == "ignore" or host is None or host.robots_status is None:
        return None
    rules, agent = parse_robots(host.robots), user_agent(collection)
    return RobotsVerdict(
        host.robots_status,
        format_time(host.robots_expires),
        rules.allows(agent, url),
        rules.deciding_line(agent, url) or "",
        rules.crawl_delay(agent),
        rules.hints(agent),
        rules.sitemaps,
    )


def _next_visit(
    row: CollectionRow,
    host: HostFacts | None,
    known: UrlFacts,
    told: ChangeEstimate | None,
    fresh: RevisitConfig,
    asked: ExplainOptions,
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
        return _turn_text(host, known, asked) if told is None else _revisit_text(told, host, fresh, asked)
    lifted = known.status == Status.TAKEN_DOWN
    if known.state == _name(UrlState.DROPPED) and (lifted or known.status in NO_REQUEST or not known.history):
        refused = "not found" if known.status == Status.NOT_FOUND_AGAIN else "refused unasked"
        return say("lifted" if lifted else refused)
    if known.state == PASSED_OVER:
        return passed_over_reason(known.site, say)
    reasons = {
        _name(UrlState.ASIDE): "not found",
        _name(UrlState.TOO_DEEP): "lies too deep",
        _name(UrlState.EXCLUDED): "forbidden",
        _name(UrlState.FAILED): "failed",
    }
    return say(reasons.get(known.state, "not kept" if fresh.policy != "never" else "no revisits"))


def _revisit_text(told: ChangeEstimate, host: HostFacts | None, revisit: RevisitConfig, asked: ExplainOptions) -> str:
    say = asked.say
    if told.due is None:
        return say("not planned", why=told.why)
    due = max(told.due, host.next_at if host is not None else 0.0)
    when = say("now") if due <= asked.now else say("from", at=format_time(due))
    if revisit.rate is None:
        return say("again", when=when, why=told.why)
    return say("again by budget", when=when, rate=revisit.rate, why=told.why)


def _refusal_detail(collection: Collection, known: UrlFacts, say: Tongue) -> str:
    """What a refusal of ours was for, where the word alone does not say it."""
    scope, status = collection.scope, known.status
    if status == Status.TRAP:
        return trap_reason(known.url, say) or say("barren")
    if status == Status.HOST_FULL:
        return f"host_pages_max = {scope.host_pages_max:,}, site_hosts_max = {scope.site_hosts_max:,}"
    if status == Status.LANGUAGE_OUTSIDE:
        return f"[scope] languages = {', '.join(scope.languages)}"
    return say("copies", copies=scope.copies_max, alike=scope.alike_max) if status == Status.COPY else ""


def _turn_text(host: HostFacts | None, known: UrlFacts, asked: ExplainOptions) -> str:
    say = asked.say
    before = say("after others", place=known.place) if known.place else ""
    if host is None or host.next_at <= asked.now:
        return breadth_turn_text(known, say("soon", before=before), say)
    why = say("host failed", failures=host.failures) if host.failures else say("host's delay")
    return breadth_turn_text(known, say("later", at=format_time(host.next_at), why=why, before=before), say)


def _host(host: HostFacts, asked: ExplainOptions) -> HostExplanation:
    free = asked.say("now") if host.next_at <= asked.now else format_time(host.next_at)
    return HostExplanation(
        host.key, host.site, host.delay_s, format_time(host.ended_at), free, host.failures, host.worker or "",
        host.waiting, host.visited, host.trouble, host.met_by,
    )  # fmt: skip


def _seen(visit: PastVisit) -> ExplainedVisit:
    return ExplainedVisit(
        visit.number, format_time(visit.at), visit.status, status_meaning(visit.status), visit.length, visit.changed
    )


def _name(state: UrlState) -> str:
    return state.name.lower().replace("_", " ")


def status_meaning(status: int | None) -> str:
    return str(STATUS_MEANING[status]) if status in STATUS_MEANING else ""


def format_time(at: float | None) -> str:
    """A moment as people and programs read it; empty where there was none."""
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%dT%H:%M:%SZ") if at else ""


def is_passed_over(known: UrlFacts) -> bool:
    """It waits, but nobody will ask for it in this run."""
    return known.state == "pending" and known.site is not None and known.site.stage == "over"


def passed_over_reason(site: SiteFacts | None, say: Tongue = ENGLISH) -> str:
    """Why a URL was passed over."""
    return "" if site is None else say("over", site=site.name, why=_walk_end_reason(site, say))


def _walk_end_reason(site: SiteFacts, say: Tongue) -> str:
    """Of a walk."""
    if site.walked and not continues_walk(site.walked, site.links):
        page = "over by the only page" if site.walked == 1 else "over by the last page"
        return say(page, walked=site.walked, links=site.links, needed=2**site.walked)
    if site.vain >= FRUITLESS_VISITS_MAX:
        return say("over in vain", vain=site.vain)
    if not site.walked and not site.vain:
        return say("over before")
    return say("over with nothing left", walked=site.walked)


def breadth_turn_text(known: UrlFacts, soon: str, say: Tongue = ENGLISH) -> str:
    """When a URL's turn comes, `soon` being when its host could be asked for it."""
    site = known.site
    if site is None or site.stage == "unheard":
        return soon
    is_best = site.best == known.url
    if site.stage in ("listed", "heard"):
        mentioned = say("mentioned", site=site.name, mentions=site.mentions)
        begins = say("begins here" if is_best else "begins with", best=site.best)
        return say(site.stage, table=site.table, mentioned=mentioned, begins=begins)
    if is_best:
        return say("next of the walk", soon=soon, number=site.walked + 1, site=site.name)
    return say("if the walk gets there", site=site.name, walked=site.walked, best=site.best)
