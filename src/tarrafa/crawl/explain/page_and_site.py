"""Details of a page or a site for people: links, rank, visits, words, robots.txt and delays.

Joins what the house keeps about a page or a site: links, ranks and sums from the link graph, visits and estimates from
the frontier, text from the archive.
Promises: exact totals, lists in pages, bounded time however large the graph. If one source does not answer, its part is
left out and the rest is given (`frontier` says why the frontier did not answer).
Knows nothing of HTML or terminals.
"""

import asyncio
import re
import unicodedata
from collections import Counter
from collections.abc import Callable
from contextlib import suppress

import msgspec
from msgspec.structs import replace

from tarrafa import config
from tarrafa.crawl.explain.explain import last_request, status_meaning
from tarrafa.crawl.explain.freshness import ChangeEstimate, estimate_changes
from tarrafa.crawl.explain.frontier_lookup import FrontierLookup, open_frontier_lookup
from tarrafa.crawl.explain.graph_lookup import newest_record
from tarrafa.crawl.scope.collection_loader import HOST_PATTERN, url_identity_of
from tarrafa.errors import ConfigError, DataError, FrontierError, PageTakenDown
from tarrafa.frontier.address import Address
from tarrafa.frontier.messages import HostFacts, PastVisit, UrlFacts
from tarrafa.graph.reader import GraphNode, GraphReader
from tarrafa.graph.sites import HostLinkSummary, LinkedSite, SiteLinkSummary, SitePaging, SiteReader
from tarrafa.i18n import Message, joined, message
from tarrafa.model import REDIRECTS, LinkedPage
from tarrafa.parse.url import canonical
from tarrafa.runtime.data_dir import DataDirectory
from tarrafa.takedown import CurrentTakedowns

WORDS_SHOWN = 100
HOSTS_LOOKED_UP = 10  # hosts of a site, of those shown, that are looked up in the frontier
ROBOTS_CHARS_SHOWN = 20_000
URL_CHARS_MAX = 200  # of a URL quoted in a message
TEXT_CHARS_MAX = 1_000_000  # of a text whose words are counted
WORD_CHARS_MAX = 64
COLLECTIONS_COUNTED = 20  # of those that know a site

CountIndexed = Callable[[str, str, str], int | None]  # "site" or "host", its name, and a collection

_words = re.compile(r"[^\W_]+").findall


class WordCount(msgspec.Struct, frozen=True):
    word: str
    count: int


class PageVisit(msgspec.Struct, frozen=True):
    """One visit. `changed` is None if there is no earlier text to compare with."""

    number: int
    at: float
    status: int
    meaning: str
    bytes: int
    changed: bool | None


class PageDetails(msgspec.Struct, frozen=True, rename={"incoming": "in", "outgoing": "out"}):
    """A URL as the collection that visited it last knows it. Links are collapsed over all collections, unless one is
    named."""

    url: str
    collection: str
    collections: list[str]
    title: str
    status: int | None  # of the newest visit; None: never visited
    meaning: str
    depth: int | None
    rank: float  # N times PageRank, with the mean 1
    in_links: int
    state: str  # in the frontier; empty if the frontier does not know the URL
    first_seen_at: float | None
    visited_at: float | None
    changed_at: float | None  # the last visit that found another text, or the first one
    history: list[PageVisit]  # the newest hundred, in order
    versions: list[float]  # times, among those visits, at which a new text was seen
    changes: ChangeEstimate | None  # of a page that is kept fresh
    incoming: list[LinkedPage]
    in_total: int
    outgoing: list[LinkedPage]
    out_total: int
    out_hosts: list[LinkedSite]
    out_hosts_total: int
    words: list[WordCount]  # the most frequent of its newest archived text
    words_total: int  # number of different words
    text_chars: int
    frontier: Message | str  # why the frontier did not answer, or only its file was read; empty: it did


class HostDetails(msgspec.Struct, frozen=True):
    """A host as the frontier knows it, over all collections."""

    host: str
    delay_s: float
    answered_at: float | None  # None: never visited, or a request may be under way
    next_at: float
    failures: int
    trouble: Message | str
    worker: str
    waiting: int  # URLs
    visits: int
    robots_status: int | None  # None: never fetched
    robots_expires_at: float | None
    robots: str
    under_way_until: float | None = None  # a worker fell silent: its last request may take until then


class UrlStatusCount(msgspec.Struct, frozen=True):
    """How many URLs had this status at their newest visit."""

    status: int
    meaning: str
    urls: int


class SiteCollectionCounts(msgspec.Struct, frozen=True):
    """A site or host in one collection."""

    collection: str
    known: int
    visited: int
    fetched: int  # answered with 200 (or 304) at their newest visit: pages, sitemaps and feeds
    indexed: int | None  # pages that can be searched; of a host: on all its ports. None: unknown


class SiteDetails(msgspec.Struct, frozen=True, rename={"incoming": "in", "outgoing": "out"}):
    """A site or a host (`kind`). All numbers are those of one collection, the one that knows most about it, unless
    another is named; `by_collection` has those of the others, too. `as_of` is the time of the numbers, except
    `indexed`, which is of now."""

    name: str
    kind: str
    site: str
    collection: str
    collections: list[str]
    as_of: float
    known: int
    visited: int
    fetched: int
    indexed: int | None
    rank: float
    statuses: list[UrlStatusCount]  # the most frequent first
    errors: int  # URLs whose newest visit gave neither a page nor a redirect
    hosts: list[HostLinkSummary]
    hosts_total: int
    states: list[HostDetails]
    incoming: list[LinkedSite]
    in_total: int
    outgoing: list[LinkedSite]
    out_total: int
    frontier: Message | str
    by_collection: list[SiteCollectionCounts] = []  # those that know most about it first


class _UrlInFrontier(msgspec.Struct, frozen=True):
    """What the frontier knows about a URL in one collection."""

    facts: UrlFacts | None = None
    changes: ChangeEstimate | None = None
    frontier_error: Message | str = ""


# -- a page -----------------------------------------------------------------------------------------------------------


async def describe_page(
    data: DataDirectory,
    url: str,
    now: float,
    collection: str | None = None,
    paging: SitePaging | None = None,
    address: Address | None = None,
    graph: GraphReader | None = None,
) -> PageDetails:
    """Everything about a URL. `ConfigError` if it is unknown everywhere. `address`: of a frontier on another machine.
    Frequent callers pass an open `graph`."""
    plain = canonical(f"http://{url}" if HOST_PATTERN.fullmatch(url) else url)
    if plain is None:
        raise ConfigError(message("{url}: not an http(s) URL that can be crawled", url=url[:URL_CHARS_MAX]))
    CurrentTakedowns(data).raise_if_taken_down(plain)
    with suppress(DataError):  # no graph yet
        graph = graph or await asyncio.to_thread(GraphReader, data)
    nodes = await asyncio.to_thread(graph.nodes, plain, collection) if graph is not None else []
    known = await _known(data, plain, collection or (nodes[0].collection if nodes else None), now, address)
    if not nodes and known.facts is None:
        unknown = message("{url}: no crawled page is or links to this URL", url=url[:URL_CHARS_MAX])
        raise ConfigError(joined([one for one in (unknown, known.frontier_error) if one]))
    return await asyncio.to_thread(_page, data, graph, plain, collection, nodes, known, paging or SitePaging())


async def _known(
    data: DataDirectory, url: str, collection: str | None, now: float, address: Address | None
) -> _UrlInFrontier:
    try:
        async with open_frontier_lookup(data, address) as lookup:
            found = await _look_up(lookup, url, collection, now)
            return replace(found, frontier_error=lookup.notice)
    except (DataError, FrontierError) as error:
        return _UrlInFrontier(frontier_error=error.message)


async def _look_up(lookup: FrontierLookup, url: str, collection: str | None, now: float) -> _UrlInFrontier:
    """Look up the URL as the collection identifies it: some collections take several URLs for one page."""
    facts = await lookup.facts(url)
    plain = next((one for one in facts.urls if collection in (None, one.collection)), None)
    if plain is not None and plain.freshness is None:  # then the configuration is not needed
        return _UrlInFrontier(plain)
    for row in await lookup.collections(collection):
        described = await asyncio.to_thread(config.decode_collection, row.config)
        own = url_identity_of(described).fold(url)
        if own != url:
            facts = await lookup.facts(own)
        found = next((one for one in facts.urls if one.collection == row.name), None)
        if found is not None:
            fresh = found.freshness
            return _UrlInFrontier(found, None if fresh is None else estimate_changes(described, fresh, now))
    return _UrlInFrontier()


def _page(
    data: DataDirectory,
    graph: GraphReader | None,
    url: str,
    collection: str | None,
    nodes: list[GraphNode],
    known: _UrlInFrontier,
    paging: SitePaging,
) -> PageDetails:
    node, facts = (nodes[0] if nodes else None), known.facts
    incoming, in_total, outgoing, out_total, hosts, hosts_total = _links(graph, url, collection, paging)
    record = newest_record(data, graph, url, collection)
    text = record.page.text if record is not None and record.page is not None else ""
    words, words_total = count_words(text, WORDS_SHOWN)
    history = [_visited(visit) for visit in facts.history] if facts else []
    versions = [one.at for one in history if one.status == 200 and one.changed is not False]
    status = node.status if node else facts.status if facts else None
    return PageDetails(
        url=node.url if node else url,
        collection=node.collection if node else facts.collection if facts else "",
        collections=[one.collection for one in nodes] or [facts.collection for facts in (known.facts,) if facts],
        title=next((one.title for one in nodes if one.title), ""),
        status=status,
        meaning=status_meaning(status),
        depth=min((one.depth for one in nodes if one.depth is not None), default=facts.depth if facts else None),
        rank=max((one.rank for one in nodes), default=1.0),
        in_links=in_total,
        state=facts.state if facts else "",
        first_seen_at=facts.discovered if facts else None,
        visited_at=node.visited_at if node else facts.fetched if facts else None,
        changed_at=max(versions, default=None),
        history=history,
        versions=versions,
        changes=known.changes,
        incoming=incoming,
        in_total=in_total,
        outgoing=outgoing,
        out_total=out_total,
        out_hosts=hosts,
        out_hosts_total=hosts_total,
        words=words,
        words_total=words_total,
        text_chars=len(text),
        frontier=known.frontier_error,
    )


def _links(
    graph: GraphReader | None, url: str, collection: str | None, paging: SitePaging
) -> tuple[list[LinkedPage], int, list[LinkedPage], int, list[LinkedSite], int]:
    if graph is None:
        return [], 0, [], 0, [], 0
    return (
        *graph.incoming(url, collection, paging.limit, paging.in_offset),
        *graph.outgoing(url, collection, paging.limit, paging.out_offset),
        *graph.outgoing_hosts(url, collection, paging.limit, paging.hosts_offset),
    )


def _visited(visit: PastVisit) -> PageVisit:
    return PageVisit(visit.number, visit.at, visit.status, status_meaning(visit.status), visit.length, visit.changed)


# -- a site -----------------------------------------------------------------------------------------------------------


async def describe_site(
    data: DataDirectory,
    name: str,
    now: float,
    collection: str | None = None,
    paging: SitePaging | None = None,
    address: Address | None = None,
    count_indexed: CountIndexed = lambda kind, name, collection: None,
    sites: SiteReader | None = None,
) -> SiteDetails:
    """Everything about a site (`usp.br`) or a host (`www.usp.br`, `https://www.usp.br`)."""
    paging = paging or SitePaging()
    found = await asyncio.to_thread(_surroundings, data, sites or SiteReader(data), name, collection, paging)
    if found is None:
        if collection is None:
            raise ConfigError(message("{name}: no URL is known on such a site or host", name=name[:URL_CHARS_MAX]))
        raise ConfigError(
            message(
                "{name}: no URL of the collection {collection!r} is known on such a site or host",
                name=name[:URL_CHARS_MAX],
                collection=collection,
            )
        )
    hosts = [found.name] if found.kind == "host" else [host.host for host in found.hosts[:HOSTS_LOOKED_UP]]
    states, frontier_error = await _states(data, hosts, now, address)
    statuses = [
        UrlStatusCount(int(status), status_meaning(int(status)), urls) for status, urls in found.statuses.items()
    ]
    counts = await asyncio.to_thread(_count_by_collection, found, count_indexed)
    indexed = next((one.indexed for one in counts if one.collection == found.collection), None)
    names = [one.collection for one in found.collections]
    return SiteDetails(
        found.name, found.kind, found.site, found.collection, names, found.as_of, found.known,
        found.visited, found.fetched, indexed, found.rank,
        sorted(statuses, key=lambda one: (-one.urls, one.status)),
        found.visited - found.fetched - sum(one.urls for one in statuses if one.status in REDIRECTS),
        found.hosts, found.hosts_total, states,
        found.incoming, found.in_total, found.outgoing, found.out_total, frontier_error, counts,
    )  # fmt: skip


def _count_by_collection(found: SiteLinkSummary, count_indexed: CountIndexed) -> list[SiteCollectionCounts]:
    """The collections that know most of the site, and always the one that the other numbers are of."""
    shown = found.collections[:COLLECTIONS_COUNTED]
    shown += [one for one in found.collections[COLLECTIONS_COUNTED:] if one.collection == found.collection]
    name = _host_name(found.name)
    return [
        SiteCollectionCounts(
            one.collection, one.known, one.visited, one.fetched, count_indexed(found.kind, name, one.collection)
        )
        for one in shown
    ]


def _surroundings(
    data: DataDirectory, reader: SiteReader, name: str, collection: str | None, paging: SitePaging
) -> SiteLinkSummary | None:
    """A name of a domain means the site, if there is one of that name; the host of that name is written with its
    scheme. A name that is taken down is refused; in lists, taken-down entries are counted but not shown."""
    orders = CurrentTakedowns(data).now()
    found = None if "://" in name else reader.site(name, collection, paging)
    found = found or reader.host(name, collection, paging)
    if found is None or not orders:
        return found
    if orders.covers_host(_host_name(found.name)):
        raise PageTakenDown(message("{name}: was taken down", name=name[:URL_CHARS_MAX]))
    return replace(
        found,
        hosts=[one for one in found.hosts if not orders.covers_host(_host_name(one.host))],
        incoming=[one for one in found.incoming if not orders.covers_host(_host_name(one.name))],
        outgoing=[one for one in found.outgoing if not orders.covers_host(_host_name(one.name))],
    )


def _host_name(name: str) -> str:
    """Name of the host, from the name of a site or from a host key."""
    return name.partition("://")[2].rpartition(":")[0] if "://" in name else name


async def _states(
    data: DataDirectory, hosts: list[str], now: float, address: Address | None
) -> tuple[list[HostDetails], Message | str]:
    try:
        async with open_frontier_lookup(data, address) as lookup:
            facts = [(await lookup.facts(f"{host}/")).host for host in hosts]
            return [_state(host, now) for host in facts if host is not None], lookup.notice
    except (DataError, FrontierError) as error:
        return [], error.message


def _state(host: HostFacts, now: float) -> HostDetails:
    answered_at, under_way_until = last_request(host, now)
    return HostDetails(
        host.key, host.delay_s, answered_at, host.next_at, host.failures, host.trouble, host.worker or "",
        host.waiting, host.visited, host.robots_status, host.robots_expires,
        host.robots.decode("utf-8", "replace")[:ROBOTS_CHARS_SHOWN], under_way_until,
    )  # fmt: skip


def count_words(text: str, limit: int) -> tuple[list[WordCount], int]:
    """The most frequent words, equal counts in alphabetical order, and the number of distinct words. A word is a run of
    letters and digits, without case, with accents.
    """
    composed = unicodedata.normalize("NFC", text[:TEXT_CHARS_MAX]).lower()
    counted = Counter(word[:WORD_CHARS_MAX] for word in _words(composed))
    ordered = sorted(counted.items(), key=lambda one: (-one[1], one[0]))
    return [WordCount(*one) for one in ordered[: max(0, limit)]], len(counted)
