"""Explains a URL: scope rule, robots.txt, visits so far and next visit, for `tarrafa explain` and the console.

Promises: the explanation is what the crawl itself would do, by the same functions, from the frontier's own rows; no
other machine is contacted. Every reason is a message, which the given translator renders: the reader's translator, or
English for programs.
"""

import asyncio
from datetime import UTC, datetime
from typing import Any

import msgspec

from tarrafa import config
from tarrafa.config import Collection
from tarrafa.config.sections import RevisitConfig
from tarrafa.crawl.explain.freshness import ChangeEstimate, estimate_changes, revisit_reason
from tarrafa.crawl.explain.frontier_lookup import FrontierLookup, open_frontier_lookup
from tarrafa.crawl.explain.graph_lookup import GraphFacts, graph_facts
from tarrafa.crawl.explain.not_kept import not_kept_reason
from tarrafa.crawl.explain.render_explanation import RenderExplanation, explain_render
from tarrafa.crawl.explain.scope_explanation import ScopeDecision, ScopeExplainer, ScopeRule
from tarrafa.crawl.scope.collection_loader import HOST_PATTERN, url_identity_of
from tarrafa.crawl.worker.fetcher import user_agent
from tarrafa.errors import ConfigError, DataError
from tarrafa.fetch.robots import parse as parse_robots
from tarrafa.frontier.address import Address
from tarrafa.frontier.messages import CollectionRow, HostCollectionCounts, HostFacts, PastVisit, SiteFacts, UrlFacts
from tarrafa.frontier.ordering import FRUITLESS_VISITS_MAX, continues_walk
from tarrafa.i18n import ENGLISH, Message, Translator, joined, message, messages
from tarrafa.model import (
    ARCHIVED_REQUISITE,
    NO_REQUEST,
    REDIRECTS,
    STATUS_MEANING,
    Status,
    UrlState,
    UsageStatement,
    collection_state,
    status_name,
)
from tarrafa.parse.url import canonical, name_and_port
from tarrafa.runtime.data_dir import DataDirectory
from tarrafa.search.searcher import exact_copies
from tarrafa.takedown import CurrentTakedowns

COPIES_SHOWN = 10
REQUISITES_LOOKED_UP_MAX, LACKING_SHOWN = 200, 20
PASSED_OVER = "passed over"  # in place of pending, where the session with the site is over


def _name(state: UrlState) -> str:
    return state.name.lower().replace("_", " ")


TAKEN_DOWN_REASON = message("not while it is taken down")
WHEN_FOUND = message("when a run of the collection finds a way to it again")
REFUSED = message("not in this run: it was refused without a request (a change of [scope] has it judged again)")
REFUSED_REASONS: dict[int, Message] = {
    Status.TAKEN_DOWN: message("when the collection is started again: it was taken down, and lifted since"),
    Status.NOT_FOUND_AGAIN: WHEN_FOUND,
}
STATE_REASONS = {
    _name(UrlState.ASIDE): WHEN_FOUND,
    _name(UrlState.TOO_DEEP): message("when a shorter way to it is found: it lies beyond depth_max"),
    _name(UrlState.EXCLUDED): message("not in this run: robots.txt forbade it"),
    _name(UrlState.FAILED): message("when the collection is started again: it failed, and is not tried again before"),
}


class RobotsVerdict(msgspec.Struct, frozen=True):
    """What the host's robots.txt, as last fetched, says about a URL."""

    status: int | None
    expires: str
    allowed: bool
    line: str  # the line that decides; empty where no line matches
    crawl_delay_s: float | None
    hints: tuple[str, ...]
    sitemaps: tuple[str, ...]


class ExplainedVisit(msgspec.Struct, frozen=True):
    """One visit, as shown to people."""

    number: int
    at: str
    status: int
    meaning: str
    bytes: int
    changed: bool | None
    worker: str = ""  # the worker or external crawler that made it


class LackingRequisite(msgspec.Struct, frozen=True):
    """A URL that a page needs to be shown, and that is not archived; `why`: its status or state."""

    url: str
    why: str


class RequisitesExplanation(msgspec.Struct, frozen=True):
    """What a page needs to be shown: how many URLs, how many of the first ones were looked up, how many of these are
    archived, and the first that are not."""

    total: int
    looked_up: int = 0
    archived: int = 0
    lacking: list[LackingRequisite] = []


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
    because: str = ""  # why it is not kept; also part of `meaning`
    type: str = ""
    discovered: str = ""
    announced: str = ""
    content_id: str = ""
    copies: list[str] = []
    history: list[ExplainedVisit] = []
    next_visit: str = ""
    believed: ChangeEstimate | None = None
    site: SiteFacts | None = None  # state of its site, if the order is breadth
    delay_s: float = 0.0  # between two requests to its host
    delay_rule: str = ""  # the rule that sets the delay
    robots_ignored: bool = False  # by the collection's settings
    usage: list[UsageStatement] = []  # what the publisher says about the use of the page, with its source
    rendered: RenderExplanation | None = None  # of a page that scripts have made
    requisites: RequisitesExplanation | None = None  # of a page of a faithful collection


class HostExplanation(msgspec.Struct, frozen=True):
    host: str
    site: str
    delay_s: float
    no_request_since: str  # empty: never visited, or a request may be under way
    may_be_visited: str
    failures: int
    worker: str
    waiting: int
    visited: int
    trouble: str  # why the host is not visited now
    met_by: list[HostCollectionCounts] = []
    under_way_until: str = ""  # a worker fell silent: its last request may take until then


class Explanation(msgspec.Struct, frozen=True):
    """The answer of `explain --json`."""

    url: str
    host: HostExplanation | None
    collections: list[UrlExplanation]
    notice: str = ""  # why this may be old: the frontier does not answer


async def explain(
    data: DataDirectory,
    url: str,
    collection: str | None,
    now: float,
    address: Address | None = None,
    _: Translator = ENGLISH,
) -> Explanation:
    """Everything known about a URL, collection by collection. `address`: of a frontier on another machine."""
    plain = canonical(f"http://{url}" if HOST_PATTERN.fullmatch(url) else url)
    if plain is None:
        raise ConfigError(message("{url}: not an http(s) URL that can be crawled", url=url[:200]))
    async with open_frontier_lookup(data, address) as lookup:
        rows = await lookup.collections(collection)
        if collection is not None and not rows:
            names = ", ".join(row.name for row in await lookup.collections())
            raise ConfigError(
                message(
                    "no collection is named {name!r} (there are: {names})",
                    name=collection,
                    names=names,
                )
            )
        explained, host = [], None
        for row in rows:
            described = await asyncio.to_thread(config.decode_collection, row.config)
            own = url_identity_of(described).fold(plain)
            facts = await lookup.facts(own)
            host = host or facts.host
            known = next((one for one in facts.urls if one.collection == row.name), None)
            arguments = (data, own, row, described, facts.host, known, now, _)
            one, needs = await asyncio.to_thread(_explain_in_collection, *arguments)
            if needs:
                one = msgspec.structs.replace(one, requisites=await _look_up_requisites(lookup, row.name, needs, _))
            explained.append(one)
        notice = _.render(lookup.notice)
    return Explanation(plain, None if host is None else _host(host, now, _), explained, notice)


def _explain_in_collection(
    data: DataDirectory,
    url: str,
    row: CollectionRow,
    described: Collection,
    host: HostFacts | None,
    known: UrlFacts | None,
    now: float,
    _: Translator,
) -> tuple[UrlExplanation, tuple[str, ...]]:
    """The explanation, and the requisites of the page, which are not looked up yet."""
    ruling = ScopeExplainer(described, CurrentTakedowns(data).covers).decide(url, known.depth if known else None)
    inside, rule, taken_down = ruling.inside, _.render(ruling.reason), ruling.rule == ScopeRule.TAKEN_DOWN
    robots = _robots(described, url, host)
    delay = _delay(described, url, robots, _)
    graph = GraphFacts() if taken_down else graph_facts(data, url, row.name)
    ignored = described.politeness.robots == "ignore"
    if known is not None and is_passed_over(known):
        known = msgspec.structs.replace(known, state=PASSED_OVER)
    if known is None:
        reason = TAKEN_DOWN_REASON if taken_down else _unknown_reason(ruling, graph.in_links or 0)
        unknown = UrlExplanation(
            row.name, url, inside, rule, robots, known=False, next_visit=_.render(reason), robots_ignored=ignored,
            **delay,
        )  # fmt: skip
        return unknown, ()
    next_visit = TAKEN_DOWN_REASON if taken_down else _next_visit(row, described, host, known, now)
    try:
        copies = exact_copies(data, url, row.name, COPIES_SHOWN)
    except DataError:
        copies = []
    believed = estimate_changes(described, known.freshness, now, _) if known.freshness is not None else None
    because = _.render(not_kept_reason(described, known, graph))
    meaning = _.render(status_name(known.status)) if known.status is not None else ""
    explained = UrlExplanation(
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
        meaning=f"{meaning}{because and ': ' + because}",
        because=because,
        type=known.type or "",
        discovered=format_time(known.discovered),
        announced=format_time(known.announced),
        content_id=known.content_id or "",
        copies=copies,
        history=[_seen(visit, _) for visit in known.history],
        next_visit=_.render(next_visit),
        believed=believed,
        site=known.site,
        robots_ignored=ignored,
        usage=list(graph.usage),
        rendered=explain_render(graph.rendered, _),
        **delay,
    )
    return explained, graph.requisites if known.state == _name(UrlState.FETCHED) else ()


async def _look_up_requisites(
    lookup: FrontierLookup, collection: str, needs: tuple[str, ...], _: Translator
) -> RequisitesExplanation:
    looked_up, archived, lacking = needs[:REQUISITES_LOOKED_UP_MAX], 0, list[LackingRequisite]()
    for url in looked_up:
        known = next((one for one in (await lookup.facts(url)).urls if one.collection == collection), None)
        why = lacking_reason(known)
        archived += not why
        if why and len(lacking) < LACKING_SHOWN:
            lacking.append(LackingRequisite(url, _.render(why)))
    return RequisitesExplanation(len(needs), len(looked_up), archived, lacking)


def lacking_reason(known: UrlFacts | None) -> Message | str:
    """Why the bytes of a requisite are not archived; empty: they are."""
    if known is None:
        return message("excluded, or taken down")
    if known.status is None or known.state in (_name(UrlState.PENDING), _name(UrlState.HANDED_OUT)):
        return known.state
    if known.state == _name(UrlState.FETCHED) or known.status in ARCHIVED_REQUISITE | REDIRECTS:
        return ""
    meaning = status_name(known.status)
    return meaning if known.status < 0 else joined([str(known.status), meaning], " ")


def _delay(collection: Collection, url: str, robots: RobotsVerdict | None, _: Translator) -> dict[str, Any]:
    """The delay between two requests to the host, and the rule that sets it; a slow host gets more time."""
    place = name_and_port(url)
    own, by_robots = collection.delay_for(*place), (robots.crawl_delay_s if robots is not None else None) or 0.0
    by_robots = float(min(by_robots, collection.politeness.delay_max))
    if by_robots > own:
        return {"delay_s": by_robots, "delay_rule": _("its robots.txt")}
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


def _unknown_reason(ruling: ScopeDecision, in_links: int) -> Message:
    """Reason for a URL that the frontier does not know: links to it are not followed, or no link is known."""
    if not ruling.inside and ruling.rule != ScopeRule.BEYOND:
        if not in_links:
            return message("it is out of scope, and links to it are not followed")
        return messages(
            "it is out of scope, so the link of {count} page to it was not followed",
            "it is out of scope, so the links of {count} pages to it were not followed",
            in_links,
        )
    if not in_links:
        return message("no link to it is known here")
    return messages(
        "{count} page links to it, but this link was not followed",
        "{count} pages link to it, but none of these links was followed",
        in_links,
    )


def _next_visit(
    row: CollectionRow, described: Collection, host: HostFacts | None, known: UrlFacts, now: float
) -> Message:
    if known.state == _name(UrlState.HANDED_OUT) and host is not None and host.worker:
        return message("now: a worker has it")
    waits, fresh = known.state in (_name(UrlState.PENDING), _name(UrlState.HANDED_OUT)), known.freshness
    if not waits and fresh is None:
        return _settled_reason(known, described.revisit)
    if row.state != "running":
        return _not_running_reason(row.state, row.reason)
    if fresh is None:
        return _place_reason(described, known) if known.waits_for_place else _turn(host, known, now)
    return _next_revisit(revisit_reason(described, fresh), fresh.due, host, described.revisit, now)


def _not_running_reason(state: str, reason: Message | str) -> Message:
    if not reason:
        return message("when the collection runs again (it is {state})", state=collection_state(state))
    return message(
        "when the collection runs again (it is {state}: {reason})", state=collection_state(state), reason=reason
    )


def _place_reason(described: Collection, known: UrlFacts) -> Message:
    """Reason for a pending URL of a full collection, which takes in only what is better linked than a kept page."""
    most = described.scope.pages_max or 0
    if known.role != "page":
        return message("not while the collection is full (pages_max = {most:,})", most=most)
    return messages(
        "when it has more in-links than the least linked page that is kept: the collection is full"
        " (pages_max = {most:,}), and it has {count} in-link",
        "when it has more in-links than the least linked page that is kept: the collection is full"
        " (pages_max = {most:,}), and it has {count} in-links",
        known.in_links,
        most=most,
    )


def _settled_reason(known: UrlFacts, revisit: RevisitConfig) -> Message:
    """Reason for a URL that is neither pending nor kept fresh."""
    if known.state == PASSED_OVER and known.site is not None:
        return passed_over_reason(known.site)
    lifted = known.status == Status.TAKEN_DOWN
    if known.state == _name(UrlState.DROPPED) and (lifted or known.status in NO_REQUEST or not known.history):
        return REFUSED_REASONS.get(known.status or 0, REFUSED)
    if known.state in STATE_REASONS:
        return STATE_REASONS[known.state]
    if known.role == "requisite":
        return message("when a page that needs it is found to have changed, or in the next run")
    if revisit.policy != "never":
        return message("not in this run: it was visited and is not kept, or no longer")
    return message("not planned: it was visited, and this collection makes no revisits")


def _next_revisit(
    why: Message, due: float | None, host: HostFacts | None, revisit: RevisitConfig, now: float
) -> Message:
    if due is None:
        return message("not planned: {why}", why=why)
    due = max(due, host.next_at if host is not None else 0.0)
    when = message("now") if due <= now else message("from {at} on", at=format_time(due))
    if revisit.rate is None:
        return message("{when}: {why}", when=when, why=why)
    return message("{when}, as far as the {rate:g} revisits a day reach: {why}", when=when, rate=revisit.rate, why=why)


def _turn(host: HostFacts | None, known: UrlFacts, now: float) -> Message:
    if host is None or host.next_at <= now:
        turn = message("as soon as a worker is free")
    else:
        why = message("its host's delay")
        if host.ended_at > now:
            why = message("a request of a worker that fell silent may take until then")
        elif host.failures:
            why = messages(
                "its host failed {count} time in a row", "its host failed {count} times in a row", host.failures
            )
        turn = message("from {at} on ({why})", at=format_time(host.next_at), why=why)
    if known.place:
        turn = messages(
            "{turn}, after {count} URL of its host that goes before it",
            "{turn}, after {count} URLs of its host that go before it",
            known.place,
            turn=turn,
        )
    return breadth_turn(known, turn)


def _host(host: HostFacts, now: float, _: Translator) -> HostExplanation:
    free = _("now") if host.next_at <= now else format_time(host.next_at)
    since, until = last_request(host, now)
    return HostExplanation(
        host.key, host.site, host.delay_s, format_time(since), free, host.failures, host.worker or "",
        host.waiting, host.visited, _.render(host.trouble), host.met_by, format_time(until),
    )  # fmt: skip


def last_request(host: HostFacts, now: float) -> tuple[float | None, float | None]:
    """Since when there was no request, or, if a worker fell silent, until when its last one may take. Both are None if
    the host was never visited."""
    return (None, host.ended_at) if host.ended_at > now else (host.ended_at or None, None)


def _seen(visit: PastVisit, _: Translator) -> ExplainedVisit:
    meaning = status_meaning(visit.status, _)
    return ExplainedVisit(
        visit.number, format_time(visit.at), visit.status, meaning, visit.length, visit.changed, visit.worker
    )


def status_meaning(status: int | None, _: Translator = ENGLISH) -> str:
    """Meaning of one of our own statuses; empty for an HTTP status code."""
    return _.render(STATUS_MEANING.get(status, "")) if status is not None else ""


def format_time(at: float | None) -> str:
    """A time as people and programs read it; empty for None."""
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%dT%H:%M:%SZ") if at else ""


# -- the order of breadth ---------------------------------------------------------------------------------------------


def is_passed_over(known: UrlFacts) -> bool:
    """Whether the URL is pending, but is not requested in this run."""
    return known.state == "pending" and known.site is not None and known.site.stage == "over"


def passed_over_reason(site: SiteFacts) -> Message:
    why = _walk_end_reason(site)
    return message("not in this run: the walk through {site} is over: {why}", site=site.name, why=why)


def _walk_end_reason(site: SiteFacts) -> Message:
    """Why the session with a site is over, by the order of breadth (`frontier/ordering.py`)."""
    if site.walked and not continues_walk(site.walked, site.links):
        needed = 2**site.walked
        if site.walked == 1:
            return messages(
                "its only page had {count} link to other sites, {needed} would lead on",
                "its only page had {count} links to other sites, {needed} would lead on",
                site.links,
                needed=needed,
            )
        return messages(
            "the last of its {walked} pages had {count} link to other sites, {needed} would lead on",
            "the last of its {walked} pages had {count} links to other sites, {needed} would lead on",
            site.links,
            walked=site.walked,
            needed=needed,
        )
    if site.vain >= FRUITLESS_VISITS_MAX:
        return messages("{count} visit brought no page", "{count} visits brought no page", site.vain)
    if not site.walked and not site.vain:
        return message("it was visited before the order became breadth, or could not be")
    return messages(
        "after {count} page nothing more of it waited", "after {count} pages nothing more of it waited", site.walked
    )


def breadth_turn(known: UrlFacts, turn: Message) -> Message:
    """When a URL gets its turn by the order of breadth; `turn` is when its host could be asked for it."""
    site = known.site
    if site is None or site.stage == "unheard":
        return turn
    is_best = site.best == known.url
    if site.stage in ("listed", "heard"):
        return _turn_of_site(site, is_best)
    if is_best:
        return message(
            "{turn}: it is page {number} of the walk through {site}", turn=turn, number=site.walked + 1, site=site.name
        )
    return messages(
        "if the walk through {site} gets there: {count} page so far, the next is {best};"
        " it goes on after page i while 2^i links lead to other sites",
        "if the walk through {site} gets there: {count} pages so far, the next is {best};"
        " it goes on after page i while 2^i links lead to other sites",
        site.walked,
        site=site.name,
        best=site.best,
    )


def _turn_of_site(site: SiteFacts, is_best: bool) -> Message:
    """Turn of a URL on a site that was not visited yet."""
    mentioned = messages(
        "{site} was mentioned {count} time", "{site} was mentioned {count} times", site.mentions, site=site.name
    )
    begins = (
        message("the walk then begins with this URL")
        if is_best
        else message("the walk then begins with {best}", best=site.best)
    )
    if site.stage == "listed":
        return messages(
            "when its site is chosen: {mentioned} and waits in the table of {count} site; {begins}",
            "when its site is chosen: {mentioned} and waits in the table of {count} sites; {begins}",
            site.table,
            mentioned=mentioned,
            begins=begins,
        )
    return messages(
        "when its site comes into the table of {count} site and is chosen: {mentioned}; {begins}",
        "when its site comes into the table of {count} sites and is chosen: {mentioned}; {begins}",
        site.table,
        mentioned=mentioned,
        begins=begins,
    )
