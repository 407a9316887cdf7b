"""The figures of the crawl benchmark: one run, the table of a workload, and the targets that it meets or misses.

Promises: a ratio is taken between runs of the same round, and its median over the rounds is shown; a missed target has
TOO SLOW beside it; a comparison that could not be made says SKIPPED.
Knows nothing of processes or servers.
"""

from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from statistics import median, quantiles

import msgspec

TARRAFA, FETCH_ONLY, SCRAPY, WGET2 = "Tarrafa", "Tarrafa without followers", "Scrapy", "wget2"

# What must be reached. CPU is in CPU-seconds.
CPU_OF_SCRAPY_MAX = 0.42  # everything on
FETCH_CPU_OF_SCRAPY_MAX = 1 / 5.5  # workers and frontier
PAGES_PER_S_OF_WGET2_MIN = 0.3
ONE_HOST_PAGES_PER_S_MIN = 300.0
TLS_FETCH_CPU_MAX = 2.0  # per 1,000 pages, workers and frontier
LARGE_CPU_PER_MB_MAX = 0.05  # workers and frontier
TAIL_S_MAX = 3.0  # last page to the end of the command, after 12,000 pages
START_S_MAX = 0.8  # command to its first request
FETCH_ROLES = ("workers", "frontier", "sandbox")


class CrawlRun(msgspec.Struct, frozen=True, kw_only=True):
    """One crawl of one crawler."""

    crawler: str
    pages: int
    requests: int
    missing: int  # requests that were answered with 404
    megabytes: float
    seconds: float  # the whole command
    pages_per_s: float  # from the first request to the last page, as the server saw them
    start_s: float  # from the command to its first request
    tail_s: float  # from the last page to the end of the command
    cpu_s: float
    cpu_by_role: dict[str, float]
    peak_mb_by_role: dict[str, tuple[float, float]]  # RSS and PSS of the largest process
    server_cpu_s: float
    disk_kb: dict[str, float] = {}  # by the first part of the path in the data directory; empty for peers
    pauses_ms: tuple[float, float, float] | None = None  # one request at a time: median, 99 %, longest

    def per_1000(self, cpu_s: float) -> float:
        return 1000 * cpu_s / self.pages

    @property
    def cpu(self) -> float:
        """CPU-seconds per 1,000 pages."""
        return self.per_1000(self.cpu_s)

    @property
    def fetch_cpu(self) -> float:
        """CPU-seconds per 1,000 pages of workers and frontier."""
        return self.per_1000(sum(self.cpu_by_role.get(role, 0.0) for role in FETCH_ROLES))


Round = dict[str, CrawlRun]  # each crawler once


class WorkloadFigures(msgspec.Struct):
    """All runs of a workload."""

    name: str
    pages: int
    page_bytes: float
    hosts: int
    server: str
    rounds: list[Round]
    skipped: dict[str, str]  # crawlers, with the reason
    notes: list[str] = []

    def each(self, crawler: str, value: Callable[[CrawlRun], float]) -> float | None:
        """Median over the rounds."""
        found = [value(one[crawler]) for one in self.rounds if crawler in one]
        return median(found) if found else None

    def ratio(self, above: Callable[[CrawlRun], float], peer: str, below: Callable[[CrawlRun], float]) -> float | None:
        """Median over the rounds of a figure of Tarrafa divided by one of a peer."""
        found = [above(one[TARRAFA]) / below(one[peer]) for one in self.rounds if TARRAFA in one and peer in one]
        return median(found) if found else None


class Target(msgspec.Struct, frozen=True):
    """A figure and its limit."""

    label: str
    value: float | None
    limit: float
    is_maximum: bool = True

    @property
    def is_met(self) -> bool | None:
        if self.value is None:
            return None
        return self.value <= self.limit if self.is_maximum else self.value >= self.limit

    def line(self) -> str:
        verdict = {True: "", False: "TOO SLOW", None: "SKIPPED"}[self.is_met]
        value = "-" if self.value is None else f"{self.value:.3g}"
        kind = "at most" if self.is_maximum else "at least"
        return f"  {self.label:<62} {value:>7}  ({kind} {self.limit:.3g})  {verdict}".rstrip()


def pauses_ms(times: Sequence[tuple[float, float]]) -> tuple[float, float, float] | None:
    """Median, 99th percentile and maximum of the pauses between an answer and the next request, in ms."""
    gaps = sorted(after[0] - before[1] for before, after in pairwise(sorted(times)))
    if len(gaps) < 100:
        return None
    return 1000 * median(gaps), 1000 * quantiles(gaps, n=100)[98], 1000 * gaps[-1]


def targets(figures: WorkloadFigures) -> Iterator[Target]:
    """The targets of a workload. Ratios to peers hold for the two workloads of many hosts."""
    if figures.name in ("poor", "real"):
        cpu_ratio = figures.ratio(lambda one: one.cpu, SCRAPY, lambda one: one.cpu)
        yield Target("CPU a page, everything on, of Scrapy's", cpu_ratio, CPU_OF_SCRAPY_MAX)
        fetch_ratio = figures.ratio(lambda one: one.fetch_cpu, SCRAPY, lambda one: one.cpu)
        yield Target("CPU a page, workers and frontier, of Scrapy's", fetch_ratio, FETCH_CPU_OF_SCRAPY_MAX)
        speed_ratio = figures.ratio(lambda one: one.pages_per_s, WGET2, lambda one: one.pages_per_s)
        yield Target("pages a second, everything on, of wget2's", speed_ratio, PAGES_PER_S_OF_WGET2_MIN, False)
        tail_s = figures.each(TARRAFA, lambda one: one.tail_s)
        yield Target("seconds from the last page to the end of the command", tail_s, TAIL_S_MAX)
        start_s = figures.each(TARRAFA, lambda one: one.start_s)
        yield Target("seconds from the command to its first request", start_s, START_S_MAX)
    if figures.name == "tls":
        fetch_cpu = figures.each(TARRAFA, lambda one: one.fetch_cpu)
        yield Target("CPU-s per 1,000 pages over TLS, workers and frontier", fetch_cpu, TLS_FETCH_CPU_MAX)
    if figures.name == "large":
        per_mb = figures.each(TARRAFA, lambda one: one.fetch_cpu * one.pages / 1000 / one.megabytes)
        yield Target("CPU-s per MB, workers and frontier", per_mb, LARGE_CPU_PER_MB_MAX)
    if figures.name == "one-host":
        speed = figures.each(TARRAFA, lambda one: one.pages_per_s)
        yield Target("pages a second, one host, delay 0", speed, ONE_HOST_PAGES_PER_S_MIN, False)


COLUMNS = ("", "CPU-s/1000", "/Scrapy", "/wget2", "pages/s", "/wget2", "whole cmd", "start s", "tail s", "MB peak")


def table(figures: WorkloadFigures) -> Iterator[str]:
    """The lines of a workload: crawlers, Tarrafa's processes, targets."""
    runs = [run for one in figures.rounds for run in one.values()]
    server = median(1000 * run.server_cpu_s / run.requests for run in runs) if runs else 0.0
    yield (
        f"{figures.name}: {figures.pages:,} pages of {figures.page_bytes / 1000:.0f} KB on {figures.hosts:,} hosts;"
        f" rounds: {len(figures.rounds)}; page server in {figures.server}: {server:.3f} CPU-s per 1,000 requests"
    )
    yield from (f"  {note}" for note in figures.notes)
    yield _row(COLUMNS)
    for crawler in (TARRAFA, FETCH_ONLY, SCRAPY, WGET2):
        if crawler in figures.skipped:
            yield f"  {crawler}: SKIPPED: {figures.skipped[crawler]}"
        elif figures.each(crawler, lambda one: one.cpu) is not None:
            yield _row(_cells(figures, crawler))
        if crawler == TARRAFA:
            yield _row(_fetch_cells(figures))
    yield from _processes(figures)
    yield from _disk(figures)
    yield from (target.line() for target in targets(figures))


def _row(cells: Sequence[str]) -> str:
    return f"  {cells[0]:<28}" + "".join(f"{cell:>11}" for cell in cells[1:])


def _shown(value: float | None, places: int = 2) -> str:
    return "-" if value is None else f"{value:,.{places}f}"


def _cells(figures: WorkloadFigures, crawler: str) -> list[str]:
    def ratio(peer: str, value: Callable[[CrawlRun], float]) -> str:
        found = [value(one[crawler]) / value(one[peer]) for one in figures.rounds if crawler in one and peer in one]
        return _shown(median(found) if found and crawler != peer else None)

    return [
        crawler,
        _shown(figures.each(crawler, lambda one: one.cpu)),
        ratio(SCRAPY, lambda one: one.cpu),
        ratio(WGET2, lambda one: one.cpu),
        _shown(figures.each(crawler, lambda one: one.pages_per_s), 0),
        ratio(WGET2, lambda one: one.pages_per_s),
        _shown(figures.each(crawler, lambda one: one.pages / one.seconds), 0),
        _shown(figures.each(crawler, lambda one: one.start_s)),
        _shown(figures.each(crawler, lambda one: one.tail_s)),
        _shown(figures.each(crawler, lambda one: max(rss for rss, _ in one.peak_mb_by_role.values())), 0),
    ]


def _fetch_cells(figures: WorkloadFigures) -> list[str]:
    """Workers and frontier of the runs with everything on."""
    cells = ["  its workers and frontier", _shown(figures.each(TARRAFA, lambda one: one.fetch_cpu))]
    cells += [_shown(figures.ratio(lambda one: one.fetch_cpu, peer, lambda one: one.cpu)) for peer in (SCRAPY, WGET2)]
    return cells


def _processes(figures: WorkloadFigures) -> Iterator[str]:
    """CPU and memory of each of Tarrafa's processes."""
    runs = [one[TARRAFA] for one in figures.rounds if TARRAFA in one]
    roles = {role for run in runs for role in run.cpu_by_role}
    costs = {role: median(run.per_1000(run.cpu_by_role.get(role, 0.0)) for run in runs) for role in roles}
    peaks = {role: [run.peak_mb_by_role[role] for run in runs if role in run.peak_mb_by_role] for role in roles}
    shown = []
    for role, cost in sorted(costs.items(), key=lambda item: -item[1]):
        memory = ""
        if peaks[role]:
            memory = f" ({max(rss for rss, _ in peaks[role]):.0f} MB, PSS {max(pss for _, pss in peaks[role]):.0f})"
        shown.append(f"{role} {cost:.2f}{memory}")
    if shown:
        yield f"  Tarrafa by process, CPU-s per 1,000 pages (peak of the largest): {', '.join(shown)}"
    for crawler in (TARRAFA, SCRAPY, WGET2):
        pauses = [one[crawler].pauses_ms for one in figures.rounds if crawler in one]
        if pauses and pauses[-1] is not None:
            middle, high, longest = pauses[-1]
            spread = f"median {middle:.2f} ms, 99 % {high:.1f}, longest {longest:.0f}"
            yield f"  {crawler}, pauses between two requests: {spread}"


def _disk(figures: WorkloadFigures) -> Iterator[str]:
    """What Tarrafa keeps of a page, by folder."""
    runs = [one[TARRAFA] for one in figures.rounds if TARRAFA in one]
    parts = {part for run in runs for part in run.disk_kb}
    found = {part: median(run.disk_kb.get(part, 0.0) / run.pages for run in runs) for part in parts}
    if found:
        shown = (f"{part} {kb:.2f}" for part, kb in sorted(found.items(), key=lambda one: -one[1]) if kb >= 0.005)
        yield f"  Tarrafa on disk, KB a page: {', '.join(shown)}; together {sum(found.values()):.1f}"
