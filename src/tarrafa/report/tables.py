"""Counts the visit rows into the tables of a report: counts, distributions, redirect chains.

Pure: takes the rows of `visit_rows` and returns the tables of the report that need nothing else. Percentiles are exact.

A *document* is a URL that is kept: its newest conclusive visit (not a 304, not a temporary failure) was kept. Sizes,
depths, languages and charsets are those of that visit; sizes are bytes of the body as received, compressed where the
server did so. A *server* is scheme, host and port.
"""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tarrafa.config import Collection
from tarrafa.frontier.ordering import continues_walk
from tarrafa.model import Status, is_inconclusive
from tarrafa.report.schema import (
    Bin,
    BreadthCycle,
    Collector,
    CrawlPause,
    CrawlSummary,
    Distribution,
    LinkDegrees,
    NamedCount,
    RedirectSummary,
    ResponseStatusCount,
    RobotsUse,
    ServerDocuments,
    ServerSummary,
    SoftwareUse,
    Timeline,
)
from tarrafa.report.visit_rows import (
    CUT,
    CUT_TEXT,
    GRACE,
    KEPT,
    LICENSED,
    REQUESTED,
    USE_FLAGS,
    LatestRedirect,
    Rows,
    VisitRows,
    count_names,
)

PAUSE_S = 600.0  # a longer silence is a pause of the crawl
PAUSES_LISTED = 10
FIRST_S = 12 * 3600.0
SERVERS_LISTED = 25
HELD_SHARE = 0.8
HOSTS_COMPARED_MAX = 10_000
LISTED_MAX = 1_000  # rows of any table in the JSON
STEPS_MAX = 120
STEPS_S = (
    0.1, 0.2, 0.5, 1, 2, 5, 10, 30, 60, 120, 300, 600, 1800, 3600, 7200, 21_600, 43_200, 86_400, 172_800, 604_800,
    2_592_000,
)  # fmt: skip
CYCLES_MAX = 1_000
PAGE_NUMBER_MAX = 32  # 2 to that power is more links than a page can have


@dataclass
class ReportTables:
    """All tables over the same rows."""

    visits: VisitRows
    site_of: Callable[[str], str]  # the site of a host's key

    @cached_property
    def rows(self) -> Rows:
        return self.visits.rows

    @cached_property
    def requested(self) -> NDArray[np.bool_]:
        return (self.rows["flags"] & REQUESTED) > 0

    @cached_property
    def documents(self) -> Rows:
        """The newest row of each URL that is kept."""
        statuses = self.rows["status"]
        inconclusive = np.array(
            [status for status in np.unique(statuses).tolist() if is_inconclusive(status)], statuses.dtype
        )
        conclusive = np.flatnonzero(~np.isin(statuses, inconclusive) & ((self.rows["flags"] & GRACE) == 0))
        last = conclusive[
            _last_of_each(self.rows["url"][conclusive], self.rows["visit"][conclusive], self.rows["at"][conclusive])
        ]
        return self.rows[last[(self.rows["flags"][last] & KEPT) > 0]]

    @cached_property
    def first_kept(self) -> NDArray[np.int64]:
        """The rows in which each URL was kept for the first time, in the order of time."""
        kept = np.flatnonzero((self.rows["flags"] & KEPT) > 0)
        kept = kept[np.argsort(self.rows["at"][kept], kind="stable")]
        _, first = np.unique(self.rows["url"][kept], return_index=True)
        return kept[np.sort(first)]

    @cached_property
    def sites(self) -> NDArray[np.int64]:
        """The number of each host's site."""
        numbers: dict[str, int] = {}
        return np.array(
            [numbers.setdefault(self.site_of(host), len(numbers)) for host in self.visits.hosts], dtype=np.int64
        )

    def cut(self) -> tuple[int, int]:
        """The documents with more structured data, and with more text, than is kept of one page."""
        flags = self.documents["flags"]
        return int(((flags & CUT) > 0).sum()), int(((flags & CUT_TEXT) > 0).sum())

    def reserved_uses(self) -> list[NamedCount]:
        """The documents whose publishers reserve a use, or name terms ("licence"), of all documents."""
        flags, total = self.documents["flags"], len(self.documents)
        counts = {use: int(((flags & flag) > 0).sum()) for use, flag in (*USE_FLAGS.items(), ("licence", LICENSED))}
        return [NamedCount(use, count, count / total) for use, count in counts.items() if count]

    def accessed(self) -> int:
        return len(np.unique(self.rows["url"][self.requested]))

    def work(self) -> CrawlSummary:
        rows = self.rows
        if not len(rows):
            return CrawlSummary()
        at = np.sort(rows["at"])
        first = float((rows["at"] - rows["elapsed_s"]).min())
        last, gaps = float(at[-1]), np.diff(at, prepend=first)
        rests = np.flatnonzero(gaps > PAUSE_S)
        longest = rests[np.argsort(-gaps[rests], kind="stable")][:PAUSES_LISTED]
        duration = last - first
        active = max(duration - float(gaps[rests].sum()), 0.0)
        size, documents = int(rows["bytes"].sum(dtype=np.int64)), len(self.documents)
        early = self.rows["at"][self.first_kept] <= first + FIRST_S
        return CrawlSummary(
            first, last, duration, active, len(rests),
            [CrawlPause(float(at[n] - gaps[n]), float(at[n])) for n in np.sort(longest)],
            len(rows), int(self.requested.sum()), documents, int(((rows["flags"] & KEPT) > 0).sum()), size,
            float(self.documents["bytes"].mean(dtype=np.float64)) if documents else 0.0,
            documents / active if active else 0.0, size * 8 / 1000 / active if active else 0.0,
            float(early.mean()) if len(early) else 0.0,
        )  # fmt: skip

    def responses(self) -> list[ResponseStatusCount]:
        statuses, counts = np.unique(self.rows["status"], return_counts=True)
        total = max(len(self.rows), 1)
        found = [
            ResponseStatusCount(status, n, n / total)
            for status, n in zip(statuses.tolist(), counts.tolist(), strict=True)
        ]
        return sorted(found, key=lambda one: (-one.count, one.status))

    def types(self) -> tuple[list[NamedCount], int]:
        """Of all responses, errors included; a missing type has an empty name. And the number of types."""
        counts = count_names(self.rows["type"][self.requested], self.visits.types)
        return rank_counts(counts, limit=LISTED_MAX), len(counts) - ("" in counts)

    def servers(self) -> ServerSummary:
        hosts = self.visits.hosts
        visited = np.unique(self.rows["host"][self.requested])
        documents, total = np.bincount(self.documents["host"], minlength=len(hosts)), max(len(self.documents), 1)
        sizes = np.bincount(self.documents["host"], self.documents["bytes"], minlength=len(hosts))
        order = sorted(np.flatnonzero(documents).tolist(), key=lambda n: (-documents[n], hosts[n]))
        reached = np.cumsum(documents[order]) if order else np.empty(0)
        holding = int(np.searchsorted(reached, HELD_SHARE * total - 1e-9) + 1) if order else 0
        return ServerSummary(
            len(visited), len(order), len(np.unique(self.sites[order])) if order else 0,
            [ServerDocuments(hosts[n], int(documents[n]), int(documents[n]) / total, int(sizes[n]))
             for n in order[:SERVERS_LISTED]],
            holding / len(order) if order else 0.0, holding,
            {hosts[n]: int(documents[n]) for n in order[:HOSTS_COMPARED_MAX]},
        )  # fmt: skip

    def sizes(self) -> Distribution:
        return distribution(self.documents["bytes"], 2.0, 1000.0)

    def depths(self) -> list[NamedCount]:
        total = max(len(self.documents), 1)
        return [NamedCount(str(depth), n, n / total) for depth, n in value_counts(self.documents["depth"])][:LISTED_MAX]

    def languages(self) -> list[NamedCount]:
        return self._named("language", self.visits.languages)

    def charsets(self) -> list[NamedCount]:
        return self._named("charset", self.visits.charsets)

    def _named(self, column: str, names: list[str]) -> list[NamedCount]:
        return rank_counts(
            count_names(self.documents[column], names), self._servers_by(self.documents[column], names), LISTED_MAX
        )

    def _servers_by(self, numbers: NDArray[np.uint16], names: list[str]) -> dict[str, int]:
        pairs = np.unique((numbers.astype(np.int64) << 32) | self.documents["host"])
        return count_names(pairs >> 32, names)

    def domains(self, config: Collection) -> list[NamedCount]:
        """By top-level domain, or by the domains that the collection names or prefers: these come first."""
        named = named_domains(config)
        of_host = [domain_of(host, named) for host in self.visits.hosts]
        documents, servers = dict.fromkeys(of_host, 0), dict.fromkeys(of_host, 0)
        for number, count in enumerate(np.bincount(self.documents["host"], minlength=len(of_host)).tolist()):
            documents[of_host[number]] += count
            servers[of_host[number]] += count > 0
        found = rank_counts({name: count for name, count in documents.items() if count}, servers, LISTED_MAX)
        return sorted(found, key=lambda one: one.name not in named)

    def software(self) -> SoftwareUse:
        visited = np.unique(self.rows["host"][self.requested]).tolist()
        headers = [self.visits.software[host].text for host in visited if host in self.visits.software]
        return SoftwareUse(
            len(headers), len(visited) - len(headers),
            rank_counts(Counter(product_name(text) for text in headers), limit=LISTED_MAX),
            rank_counts(Counter(headers), limit=LISTED_MAX),
        )  # fmt: skip

    def robots(self) -> RobotsUse:
        hosts = [self.visits.hosts[number] for number in np.unique(self.rows["host"]).tolist()]
        present = [host for host in hosts if host in self.visits.rules]
        rules = [self.visits.rules[host] for host in present]
        there = [rule for rule in rules if rule.status == 200]
        delays = [rule.delay_s for rule in there if rule.delay_s > 0]
        absent = sum(400 <= rule.status < 500 for rule in rules)
        return RobotsUse(
            len(rules), len(there), absent, len(rules) - len(there) - absent, sum(rule.forbids for rule in there),
            sum(rule.closed for rule in there), len(delays), sum(delays) / len(delays) if delays else 0.0,
            max(delays, default=0.0), sum(host in self.visits.sitemaps for host in present),
            int((self.rows["status"] == Status.ROBOTS).sum()),
        )  # fmt: skip

    def collectors(self) -> list[Collector]:
        found, met = [], np.zeros(len(self.rows), np.bool_)
        met[self.first_kept] = True
        for number, name in enumerate(self.visits.collectors):
            own = self.rows["collector"] == number
            at = self.rows["at"][own]
            if not len(at):
                continue
            found.append(
                Collector(
                    name, int((own & self.requested).sum()), int((own & met).sum()), float(at.min()), float(at.max())
                )
            )
        return sorted(found, key=lambda one: (one.last, one.name))[:LISTED_MAX]

    def timeline(self) -> Timeline:
        if not len(self.rows):
            return Timeline()
        start, end = float((self.rows["at"] - self.rows["elapsed_s"]).min()), float(self.rows["at"].max())
        step = next((float(step) for step in STEPS_S if (end - start) / step < STEPS_MAX), (end - start) / STEPS_MAX)
        steps = int((end - start) // step) + 1

        def of(rows: NDArray[np.int64]) -> NDArray[np.int64]:
            return np.minimum(((self.rows["at"][rows] - start) // step).astype(np.int64), steps - 1)

        _, entered = np.unique(self.sites[self.rows["host"][self.first_kept]], return_index=True)
        place = of(np.arange(len(self.rows)))
        return Timeline(
            start, step,
            np.cumsum(np.bincount(of(self.first_kept), minlength=steps)).tolist(),
            np.cumsum(np.bincount(of(self.first_kept[entered]), minlength=steps)).tolist(),
            np.bincount(place[self.requested], minlength=steps).tolist(),
            np.bincount(place, self.rows["bytes"], minlength=steps).astype(np.int64).tolist(),
        )  # fmt: skip

    def waits(self) -> Distribution:
        """Seconds between the end of a response and the next request to the same server. Longer gaps than PAUSE_S are
        left out: a pause of the crawl, a back-off, the next revisit."""
        rows = self.rows[self.requested]
        order = np.lexsort((rows["at"], rows["host"]))
        host, at, elapsed = rows["host"][order], rows["at"][order], rows["elapsed_s"][order]
        gap = np.maximum(at[1:] - elapsed[1:] - at[:-1], 0.0)[host[1:] == host[:-1]]
        return distribution(gap[gap <= PAUSE_S], 2.0, 1 / 64)

    def answers(self) -> Distribution:
        """Seconds from the request to the end of its response."""
        return distribution(self.rows["elapsed_s"][self.requested].astype(np.float64), 2.0, 1 / 512)

    def internal_links(self) -> Distribution:
        return distribution(self.documents["internal"])

    def outgoing_links(self) -> Distribution:
        return distribution(self.documents["links"])

    def degrees(self, incoming: list[tuple[int, int]]) -> LinkDegrees:
        return LinkDegrees(incoming, value_counts(self.documents["links"]))

    def cycles(self, per_cycle: int) -> list[BreadthCycle]:
        """Sites in the order of their first visit, a fixed number per cycle. A site's i-th page passes when the walk
        would continue after it: 2^i of its links or more lead to other sites.
        """
        pages = self.rows[self.first_kept]  # in the order of time
        sites = self.sites[pages["host"]]
        if not len(sites):
            return []
        _, first, number = np.unique(sites, return_index=True, return_inverse=True)
        entered = np.argsort(np.argsort(first))[number]  # the place of each page's site among the sites
        order = np.argsort(entered, kind="stable")
        begins = np.flatnonzero(np.diff(entered[order], prepend=-1))
        turn = np.arange(len(order)) - np.repeat(begins, np.diff(begins, append=len(order))) + 1
        turns, external = np.minimum(turn, PAGE_NUMBER_MAX).tolist(), pages["external"][order].tolist()
        passed = np.array([continues_walk(i, links) for i, links in zip(turns, external, strict=True)], np.int64)
        cycle = entered[order] // max(per_cycle, 1)
        total, good = np.bincount(cycle), np.bincount(cycle, passed).astype(np.int64)
        held = np.bincount(np.arange(len(begins)) // max(per_cycle, 1))
        return [
            BreadthCycle(n + 1, sites, pages, ok, pages - ok)
            for n, (sites, pages, ok) in enumerate(zip(held.tolist(), total.tolist(), good.tolist(), strict=True))
        ][:CYCLES_MAX]  # fmt: skip


def _last_of_each(urls: NDArray[np.uint64], visits: NDArray[np.uint32], at: NDArray[np.float64]) -> NDArray[np.int64]:
    """The index of the newest row of each URL."""
    order = np.lexsort((at, visits, urls))
    return order[np.flatnonzero(np.append(urls[order][1:] != urls[order][:-1], [True] * bool(len(order))))]


def product_name(server: str) -> str:
    """`Apache` of `Apache/2.4.62 (Debian)`: the first word, without its version."""
    words = server.split()
    return words[0].partition("/")[0] or server if words else server


def named_domains(config: Collection) -> list[str]:
    """The domains that the collection prefers, names or lists as suffixes, as ends of names: `br` of `*.br`. The
    longest first.
    """
    patterns = [*config.strategy.favour, *(config.scope.hosts or ())]
    ends = [pattern[2:].lower() for pattern in patterns if pattern.startswith("*.") and ":" not in pattern]
    ends += [suffix.strip(".").lower() for suffix in config.network.suffixes]
    return sorted({end for end in ends if end}, key=lambda end: (-end.count("."), end))


def domain_of(key: str, named: list[str]) -> str:
    """The domain under which a server is counted; an IP address counts as such."""
    name = key.partition("://")[2].rpartition(":")[0].rstrip(".")
    last = name.rpartition(".")[2]
    if name.startswith("[") or last.isdigit():
        return "(address)"
    return next((end for end in named if name == end or name.endswith(f".{end}")), last)


DOCUMENT, OTHER_ANSWER, UNVISITED, LOOP = "document", "other", "unvisited", "loop"


def summarize_redirects(visits: VisitRows, documents: Rows) -> RedirectSummary:
    """Chains of the newest redirect of each URL. A page with an immediate meta refresh is a redirect with code 200."""
    moved = visits.moved
    if visits.deleted > -np.inf:  # redirects of a deleted collection of the same name are left out
        ours = set(visits.rows["url"].tolist())
        moved = {url: one for url, one in moved.items() if url in ours}
    codes = Counter(one.code for one in moved.values())
    total = sum(codes.values()) or 1
    loops, looping = _loops(moved)
    targets = {one.target for one in moved.values()}
    lengths: Counter[int] = Counter()
    ends: list[int] = []
    loop_chains = 0
    for begin in moved:
        if begin not in targets:
            length, end = _follow_chain(begin, moved, looping)
            lengths[length] += 1
            if end is None:
                loop_chains += 1
            else:
                ends.append(end)
    return RedirectSummary(
        len(moved),
        [
            ResponseStatusCount(code, count, count / total)
            for code, count in sorted(codes.items(), key=lambda item: (-item[1], item[0]))
        ],
        [Bin(length, length + 1, lengths[length]) for length in sorted(lengths)],
        rank_counts(
            {name: count for name, count in (*_chain_ends(ends, visits, documents), (LOOP, loop_chains)) if count}
        ),
        loops,
        len(looping),
        int((visits.rows["status"] == Status.REDIRECTS_EXCEEDED).sum()),
        visits.moved_whole,
    )


def _loops(moved: dict[int, LatestRedirect]) -> tuple[int, set[int]]:
    """The number of loops, and the URLs in them."""
    loops, looping = 0, set[int]()
    seen: dict[int, int] = {}  # URL -> the walk that met it
    for number, begin in enumerate(moved):
        at, path = begin, []
        while at in moved and at not in seen:
            seen[at] = number
            path.append(at)
            at = moved[at].target
        if seen.get(at) == number and path:
            loops += 1
            looping.update(path[path.index(at) :])
    return loops, looping


def _follow_chain(begin: int, moved: dict[int, LatestRedirect], looping: set[int]) -> tuple[int, int | None]:
    """The number of redirects from there, and the end of the chain; None: a loop."""
    length, at = 0, begin
    while at in moved:
        if at in looping:
            return length, None
        length, at = length + 1, moved[at].target
    return length, at


def _chain_ends(ends: list[int], visits: VisitRows, documents: Rows) -> list[tuple[str, int]]:
    found = np.array(ends, np.uint64)
    kept = np.isin(found, documents["url"])
    seen = np.isin(found, visits.rows["url"])
    return [
        (DOCUMENT, int(kept.sum())), (OTHER_ANSWER, int((seen & ~kept).sum())), (UNVISITED, int((~seen).sum())),
    ]  # fmt: skip


PERCENTILES = (10, 50, 90, 99)
BINS_MAX = 48


def power_edges(values: NDArray[Any], base: float, least: float) -> NDArray[np.float64]:
    """Edges 0, least, least × base, … up to beyond the largest."""
    most = float(values.max()) if len(values) else 0.0
    steps = 1 if most < least else int(np.floor(np.log(most / least) / np.log(base) + 1e-9)) + 2
    return np.concatenate(([0.0], least * base ** np.arange(min(steps, BINS_MAX))))


def distribution(values: NDArray[Any], base: float = 2.0, least: float = 1.0) -> Distribution:
    """The distribution of numbers that are 0 or more; empty, if there are none."""
    if not len(values):
        return Distribution()
    edges = power_edges(values, base, least)
    edges[-1] = max(float(edges[-1]), float(values.max()) * (1 + 1e-9) + 1e-12)
    counts, _ = np.histogram(values, edges)
    bins = zip(edges[:-1].tolist(), edges[1:].tolist(), counts.tolist(), strict=True)
    p10, median, p90, p99 = np.percentile(values, PERCENTILES).tolist()
    return Distribution(
        len(values), float(values.mean(dtype=np.float64)), float(values.min()), p10, median, p90, p99,
        float(values.max()), [Bin(*row) for row in bins],
    )  # fmt: skip


def value_counts(values: NDArray[Any]) -> list[tuple[int, int]]:
    """Each different number and its count."""
    found, counts = np.unique(values, return_counts=True)
    return list(zip(found.tolist(), counts.tolist(), strict=True))


def rank_counts(
    counts: dict[str, int], servers: dict[str, int] | None = None, limit: int | None = None
) -> list[NamedCount]:
    """The most frequent first; shares are of all, those beyond the limit included."""
    total = sum(counts.values()) or 1
    ordered = sorted(counts.items(), key=lambda item: (-item[1], item[0]))[:limit]
    return [NamedCount(name, count, count / total, (servers or {}).get(name, 0)) for name, count in ordered]
