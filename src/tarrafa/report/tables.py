"""Counts the visit rows into the tables of a report.

Pure: takes the rows of `visit_rows` and returns the tables of the report that need nothing else.

A *document* is a URL that is kept: its newest conclusive visit (not a 304, not a temporary failure) was kept. Sizes,
depths, languages and charsets are those of that visit; sizes are bytes of the body as received, compressed where the
server did so. A *server* is scheme, host and port.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from tarrafa.config import Collection
from tarrafa.frontier.ordering import continues_walk
from tarrafa.model import Status, is_inconclusive
from tarrafa.report.histograms import distribution, rank_counts, value_counts
from tarrafa.report.schema import (
    BreadthCycle,
    Collector,
    CrawlPause,
    CrawlSummary,
    Distribution,
    LinkDegrees,
    NamedCount,
    ResponseStatusCount,
    RobotsUse,
    ServerDocuments,
    ServerSummary,
    SoftwareUse,
    Timeline,
)
from tarrafa.report.visit_rows import GRACE, KEPT, READ, REQUESTED, Rows, VisitRows, count_names

PAUSE_S = 600.0  # a longer silence is a pause of the crawl
PAUSES_LISTED = 10
FIRST_S = 12 * 3600.0
SERVERS_LISTED = 25
HELD_SHARE = 0.8
HOSTS_COMPARED_MAX = 10_000
LISTED_MAX = 1_000  # rows of any table in the JSON
STEPS_MAX = 120
STEPS_S = (
    0.1,
    0.2,
    0.5,
    1,
    2,
    5,
    10,
    30,
    60,
    120,
    300,
    600,
    1800,
    3600,
    7200,
    21_600,
    43_200,
    86_400,
    172_800,
    604_800,
    2_592_000,
)
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
        weather = np.array(
            [status for status in np.unique(statuses).tolist() if is_inconclusive(status)], statuses.dtype
        )
        said = np.flatnonzero(~np.isin(statuses, weather) & ((self.rows["flags"] & GRACE) == 0))
        last = said[_last_of_each(self.rows["url"][said], self.rows["visit"][said], self.rows["at"][said])]
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
        asked = np.unique(self.rows["host"][self.requested]) if len(self.rows) else np.empty(0, np.int64)
        documents, total = np.bincount(self.documents["host"], minlength=len(hosts)), max(len(self.documents), 1)
        sizes = np.bincount(self.documents["host"], self.documents["bytes"], minlength=len(hosts))
        order = sorted(np.flatnonzero(documents).tolist(), key=lambda n: (-documents[n], hosts[n]))
        reached = np.cumsum(documents[order]) if order else np.empty(0)
        holding = int(np.searchsorted(reached, HELD_SHARE * total - 1e-9) + 1) if order else 0
        return ServerSummary(
            len(asked), len(order), len(np.unique(self.sites[order])) if order else 0,
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
        asked = np.unique(self.rows["host"][self.requested]).tolist()
        told = [self.visits.software[host].text for host in asked if host in self.visits.software]
        return SoftwareUse(
            len(told), len(asked) - len(told),
            rank_counts(_counted(product_name(text) for text in told), limit=LISTED_MAX),
            rank_counts(_counted(told), limit=LISTED_MAX),
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
        """Seconds between the end of a response and the next request to the same server, without pauses of the whole
        crawl.
        """
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

    @property
    def pages_read(self) -> int:
        return int(((self.rows["flags"] & READ) > 0).sum())


def _last_of_each(urls: NDArray[np.uint64], visits: NDArray[np.uint32], at: NDArray[np.float64]) -> NDArray[np.int64]:
    """The index of the newest row of each URL."""
    order = np.lexsort((at, visits, urls))
    return order[np.flatnonzero(np.append(urls[order][1:] != urls[order][:-1], [True] * bool(len(order))))]


def _counted(names: Iterable[str]) -> dict[str, int]:
    found: dict[str, int] = {}
    for name in names:
        found[name] = found.get(name, 0) + 1
    return found


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
