"""The estimate of a crawl: pages, requests, time and bytes, each as low, likely and high.

Promises: a pure function of the configuration and of what is known of its hosts (`estimate_inputs.py`); every
assumption is a sentence, and so is what bounds the time.

The arithmetic. A host is visited one request after the other: a visit takes the duration of its answer and then the
pause, the longest of `delay`, Crawl-delay and `delay_factor` x that duration. The time of a host is its requests times
that, and the time of the crawl is at least that of its slowest host. Nor can it be faster than all visits side by side
in as many places as there are (workers x `hosts_at_once`), than the bandwidth, or than the workers themselves. Where
`pages_max` ends it sooner, the time is that at which all hosts together have brought so many pages.

*Low* is what politeness alone asks for, with answers that take no time: nothing can be faster. *High* has slow
answers. Known weakness: hosts that share an address wait for each other, which is not known before; failures and
their back-off are not foreseen; the number of pages on unknown hosts is a guess, and the range shows it.
"""

from collections import Counter
from collections.abc import Sequence

import msgspec

from tarrafa.config import Collection
from tarrafa.coordinator.definitions.toml_writer import format_number
from tarrafa.i18n import Message, Value, message
from tarrafa.parse.url import authority_of, host_key, name_and_port

PAGES_OF_UNKNOWN_HOST = (10, 300, 10_000)  # of a host that nobody has visited yet: low, likely, high
PAGES_IN_BREADTH = (1, 3, 10)  # of a site that is walked in breadth
BYTES_PER_PAGE = (8_000, 25_000, 80_000)  # transferred, compressed
KEPT_BYTES_PER_PAGE = 10_000  # index, graph, frontier and text of a page, beside what was transferred
RESPONSE_S = 0.3
SLOW_FACTOR = 3.0  # high: so many times slower
REQUESTS_PER_PAGE = 1.2  # redirects, pages that are gone, sitemaps
WORKER_REQUESTS_PER_S = 100.0  # of one worker, with all followers on the same machine
BISECTIONS = 60
BOUNDS = {
    "host": message("bound by the pauses of the largest host, {host}"),
    "side by side": message("bound by the pauses of its hosts, visited side by side"),
    "places": message("bound by the number of hosts visited at once ({places})"),
    "bandwidth": message("bound by [fetch] bandwidth = {bandwidth} bytes a second"),
    "workers": message("bound by what the workers can do ({workers})"),
}
ASSUMPTIONS = {
    "met": message("known hosts: {met}; pages there: {met_pages}"),
    "unmet": message("unknown hosts: {unmet}; pages of each: {low}, probably {likely}, perhaps {high}"),
    "unmet breadth": message(
        "unknown hosts: {unmet}; pages visited of each site: {low}, probably {likely}, perhaps {high}"
    ),
    "unfinished": message(
        "some of the hosts are not crawled to their end: what waits there is as often a page as what was visited"
    ),
    "narrower": message(
        "the hosts were crawled under another scope: how many of their pages belong to this one is not known"
    ),
    "open": message("more hosts may be in scope than are known; pages_max sets an end"),
    "crawled before": message("these roots and this scope were crawled to their end before: no host is missing"),
    "delay": message("{delay} s between two requests to a host, and {factor} times the duration of an answer"),
    "crawl-delay": message("hosts that ask for a longer pause: {slowed}, up to {longest} s"),
    "answer": message("an answer takes {answer} s, perhaps {slow} times as long"),
    "answer measured": message("an answer takes {answer} s, as measured here; perhaps {slow} times as long"),
    "size": message("a page has {size} bytes when it is transferred ({sizes})"),
    "size measured": message("a page has {size} bytes when it is transferred, as measured here"),
    "kept": message("a page takes {kept} bytes on the disk beside what was transferred: text, index, graph, frontier"),
    "kept measured": message("a page takes {kept} bytes on the disk in all, as measured here"),
    "workers": message("workers: {workers}, each with at most {rate} requests a second; hosts do not share addresses"),
    "fresh": message("this is the first pass: afterwards pages are visited again for as long as it runs"),
    "again": message("this is one run: it is repeated ({every})"),
}


class KnownHost(msgspec.Struct, frozen=True):
    """What is known of a host in scope. `whole`: no URL of it waits. `alike`: it was crawled under the same scope."""

    key: str  # scheme://host:port
    pages: float
    requests: int
    known: int
    whole: bool = False
    alike: bool = False
    asked_s: float = 0.0  # its Crawl-delay


class EstimateInputs(msgspec.Struct, frozen=True):
    """What is known before a crawl. None: nothing was measured."""

    hosts: list[KnownHost] = []
    unmet: list[str] = []  # keys of roots' hosts that were never visited
    again: bool = False  # a collection with these roots and this scope was crawled to its end: no host is missing
    answer_s: float | None = None
    page_bytes: float | None = None
    kept_bytes: float | None = None  # on disk: a page with text, index, graph and frontier
    workers: int = 2


class EstimateRange(msgspec.Struct, frozen=True):
    """Without `high`: it is not known."""

    low: float
    likely: float
    high: float | None


class CrawlEstimate(msgspec.Struct, frozen=True):
    """The estimate. `bound` says what keeps the crawl from being faster."""

    hosts: int
    hosts_met: int
    pages: EstimateRange
    requests: EstimateRange
    seconds: EstimateRange
    transferred_bytes: EstimateRange
    kept_bytes: EstimateRange
    bytes_per_s: float
    bound: Message | str
    assumptions: list[Message | str]


class _HostLoad(msgspec.Struct):
    """What a host takes in one of the three cases. `visit_s`: one visit with its pause."""

    key: str
    pages: float
    requests: float
    visit_s: float
    rules: int  # requests for robots.txt


class _EstimateCase(msgspec.Struct):
    """Low, likely or high."""

    pages: float
    requests: float
    seconds: float
    bound: str  # host, places, bandwidth, workers
    slowest: str = ""


def estimate(collection: Collection, known: EstimateInputs) -> CrawlEstimate:
    answer_s = RESPONSE_S if known.answer_s is None else known.answer_s
    sizes = BYTES_PER_PAGE if known.page_bytes is None else (known.page_bytes,) * 3
    cases = [
        _case(collection, known, _loads(collection, known, number, duration_s), sizes[number])
        for number, duration_s in enumerate((0.0, answer_s, answer_s * SLOW_FACTOR))
    ]
    scope = collection.scope
    is_open = _is_open(collection, known) and scope.pages_max is None and scope.requests_max is None
    kept = [known.kept_bytes or size + KEPT_BYTES_PER_PAGE for size in sizes]
    likely = cases[1]
    return CrawlEstimate(
        hosts=len(known.hosts) + len(known.unmet),
        hosts_met=len(known.hosts),
        pages=_range([round(case.pages) for case in cases], is_open),
        requests=_range([round(case.requests) for case in cases], is_open),
        seconds=_range([case.seconds for case in cases], is_open),
        transferred_bytes=_range([round(case.pages * size) for case, size in zip(cases, sizes, strict=True)], is_open),
        kept_bytes=_range([round(case.pages * size) for case, size in zip(cases, kept, strict=True)], is_open),
        bytes_per_s=likely.pages * sizes[1] / likely.seconds if likely.seconds else 0.0,
        bound=_bound(collection, likely, known),
        assumptions=_assumptions(collection, known),
    )


def _range(values: Sequence[float], is_open: bool) -> EstimateRange:
    low, likely, high = values
    return EstimateRange(min(low, likely), likely, None if is_open else max(high, likely))


def _is_open(collection: Collection, known: EstimateInputs) -> bool:
    """Whether hosts that are not known may belong to the collection."""
    if collection.scope.depth_max == 0 or known.again:
        return False
    return collection.explores_outside_hosts or any(host.startswith("*") for host in collection.scope.hosts or ())


def _filters(collection: Collection) -> bool:
    """Whether the scope leaves out pages that another crawl of the same hosts would have kept."""
    scope = collection.scope
    narrow = scope.include or scope.exclude or scope.languages or scope.depth_max is not None
    return bool(narrow) or scope.keep == "structured"


def _loads(collection: Collection, known: EstimateInputs, number: int, duration_s: float) -> list[_HostLoad]:
    """What each host takes in case `number`: 0 low, 1 likely, 2 high."""
    roots, cap, loads = Counter(map(host_key, collection.roots)), collection.scope.host_pages_max, list[_HostLoad]()
    for host in known.hosts:
        pages, requests = _expected_of_host(collection, host, number, roots[host.key])
        if requests:  # its robots.txt may still hold from the last time
            figures = (min(pages, cap), min(requests, cap), host.asked_s, duration_s)
            loads.append(_load(collection, host.key, *figures, rules=int(number > 0)))
    for key in known.unmet:
        own = roots[key]
        pages = float(own if collection.scope.depth_max == 0 else max(own, _pages_guess(collection)[number]))
        asked = min(pages * (REQUESTS_PER_PAGE if number else 1.0), float(cap))
        loads.append(_load(collection, key, min(pages, cap), asked, 0.0, duration_s, rules=1))
    return loads


def _pages_guess(collection: Collection) -> tuple[int, int, int]:
    return PAGES_IN_BREADTH if collection.strategy.order == "breadth" else PAGES_OF_UNKNOWN_HOST


def _expected_of_host(collection: Collection, host: KnownHost, number: int, roots: int) -> tuple[float, float]:
    """Pages and requests of a known host."""
    per_page = host.requests / host.pages if host.pages else REQUESTS_PER_PAGE
    if collection.scope.depth_max == 0:
        return float(roots), float(roots)
    if collection.strategy.order == "breadth" and not host.alike:
        pages = float(min(PAGES_IN_BREADTH[number], max(1, host.known)))
        return pages, pages * per_page
    rest = 0 if host.whole else max(0, host.known - host.requests)
    if rest and number:
        share = 1.0 if number == 2 else host.pages / max(1, host.requests)
        return host.pages + rest * share, float(host.requests + rest)
    if number == 0 and not host.alike and _filters(collection):
        return float(min(roots, host.pages)), float(min(roots, host.requests))
    return float(host.pages), float(host.requests)


def _load(
    collection: Collection, key: str, pages: float, requests: float, asked_s: float, duration_s: float, rules: int
) -> _HostLoad:
    """`rules`: 1 if robots.txt must be fetched first."""
    politeness = collection.politeness
    obeys = politeness.robots == "obey"
    asked_s = min(asked_s, politeness.delay_max) if obeys else 0.0
    slow_s = min(politeness.delay_factor * duration_s, politeness.delay_max)
    pause_s = max(collection.delay_for(*name_and_port(f"{key}/")), asked_s, slow_s)
    return _HostLoad(key, pages, requests + rules * obeys, pause_s + duration_s, rules * obeys)


def _case(collection: Collection, known: EstimateInputs, loads: list[_HostLoad], page_bytes: float) -> _EstimateCase:
    scope, fetch = collection.scope, collection.fetch
    pages, requests = sum(load.pages for load in loads), sum(load.requests for load in loads)
    share = min(1.0, (scope.pages_max or pages) / pages if pages else 1.0)
    share = min(share, (scope.requests_max or requests) / requests if requests else 1.0)
    slowest = max(loads, key=lambda load: load.requests * load.visit_s, default=None)
    bounds = {
        "host": _seconds_until_pages(loads, share * pages) if share < 1 else _seconds(slowest),
        "places": share * sum(load.requests * load.visit_s for load in loads) / (known.workers * fetch.hosts_at_once),
        "bandwidth": share * pages * page_bytes / fetch.bandwidth if fetch.bandwidth else 0.0,
        "workers": share * requests / (known.workers * WORKER_REQUESTS_PER_S),
    }
    bound = max(bounds, key=lambda name: bounds[name])
    return _EstimateCase(share * pages, share * requests, bounds[bound], bound, slowest.key if slowest else "")


def _seconds(load: _HostLoad | None) -> float:
    """The first request does not wait."""
    return max(0.0, load.requests - 1) * load.visit_s if load is not None else 0.0


def _seconds_until_pages(loads: list[_HostLoad], goal: float) -> float:
    """When all hosts side by side have brought so many pages."""
    low, high = 0.0, max((_seconds(load) for load in loads), default=0.0)
    for _ in range(BISECTIONS):
        middle = (low + high) / 2
        if sum(_pages_after(load, middle) for load in loads) < goal:
            low = middle
        else:
            high = middle
    return high


def _pages_after(load: _HostLoad, seconds: float) -> float:
    wanted = load.requests - load.rules
    visits = seconds / load.visit_s + 1 - load.rules if load.visit_s else wanted
    return load.pages * min(1.0, max(0.0, visits / wanted)) if wanted else 0.0


# -- messages ----------------------------------------------------------------------------------------------------------


def _bound(collection: Collection, likely: _EstimateCase, known: EstimateInputs) -> Message:
    if not likely.requests:
        return message("there is nothing to visit")
    scope = collection.scope
    limits = (("pages_max", scope.pages_max, likely.pages), ("requests_max", scope.requests_max, likely.requests))
    ends = [f"{key} = {limit:,}" for key, limit, reached in limits if limit is not None and round(reached) >= limit]
    values: dict[str, Value] = {
        "host": authority_of(f"{likely.slowest}/") if likely.slowest else "",
        "places": known.workers * collection.fetch.hosts_at_once,
        "workers": known.workers,
        "bandwidth": collection.fetch.bandwidth or 0,
    }
    bound = _filled(BOUNDS["side by side" if ends and likely.bound == "host" else likely.bound], values)
    return message("{bound}; it ends at {limits}", bound=bound, limits=", ".join(ends)) if ends else bound


def _filled(template: Message, values: dict[str, Value]) -> Message:
    return Message(template.text, {name: value for name, value in values.items() if f"{{{name}}}" in template.text})


def _assumptions(collection: Collection, known: EstimateInputs) -> list[Message | str]:
    is_deep, facts = collection.scope.depth_max != 0, _facts(collection, known)
    keys = [
        ("met", bool(known.hosts)),
        ("unmet breadth" if collection.strategy.order == "breadth" else "unmet", is_deep and bool(known.unmet)),
        ("unfinished", any(not host.whole for host in known.hosts)),
        ("narrower", is_deep and _filters(collection) and any(not host.alike for host in known.hosts)),
        ("open", _is_open(collection, known)),
        ("crawled before", known.again),
        ("delay", True),
        ("crawl-delay", any(host.asked_s > 0 for host in known.hosts) and collection.politeness.robots == "obey"),
        ("answer measured" if known.answer_s is not None else "answer", True),
        ("size measured" if known.page_bytes is not None else "size", True),
        ("kept measured" if known.kept_bytes is not None else "kept", True),
        ("workers", True),
        ("fresh", collection.keeps_fresh),
        ("again", bool(collection.schedule.every)),
    ]
    return [_filled(ASSUMPTIONS[key], facts) for key, holds in keys if holds]


def _facts(collection: Collection, known: EstimateInputs) -> dict[str, Value]:
    guess = _pages_guess(collection)
    return {
        "met": len(known.hosts),
        "met_pages": round(sum(host.pages for host in known.hosts)),
        "unmet": len(known.unmet),
        "low": guess[0], "likely": guess[1], "high": guess[2],
        "delay": format_number(round(collection.politeness.delay, 3)),
        "factor": format_number(round(collection.politeness.delay_factor, 3)),
        "slowed": sum(host.asked_s > 0 for host in known.hosts),
        "longest": format_number(round(max((host.asked_s for host in known.hosts), default=0.0), 3)),
        "answer": format_number(round(RESPONSE_S if known.answer_s is None else known.answer_s, 3)),
        "slow": format_number(SLOW_FACTOR),
        "size": round(BYTES_PER_PAGE[1] if known.page_bytes is None else known.page_bytes),
        "sizes": f"{BYTES_PER_PAGE[0]:,}–{BYTES_PER_PAGE[2]:,}",
        "kept": round(KEPT_BYTES_PER_PAGE if known.kept_bytes is None else known.kept_bytes),
        "workers": known.workers,
        "rate": format_number(WORKER_REQUESTS_PER_S),
        "every": collection.schedule.every,
    }  # fmt: skip
