"""What does each order of discovery do to the same Web?

The production frontier (its store, with leases, delays and the weights that the link graph sends back) hands out URLs
of the synthetic Web's real links to a worker that visits a hundred hosts at once, under a false clock and without HTTP:
minutes of crawling take seconds. Prints pages and sites for every order, how well its pages are linked, and how long
breadth takes to fill its table; draws them over time into docs/orders/.
"""

import argparse
import math
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import accumulate
from pathlib import Path
from typing import ClassVar

from tarrafa import config
from tarrafa.clock import Clock
from tarrafa.config import Collection
from tarrafa.crawl.scope.scope_rules import Admission
from tarrafa.frontier.messages import VISITS_OF_NEW_LEASE, DiscoveredUrl, HostReport, Lease, UrlWeight, VisitReport
from tarrafa.frontier.store.counters import Bucket
from tarrafa.frontier.store.database import open_database
from tarrafa.frontier.store.leases import LeaseClock
from tarrafa.frontier.store.sqlite_frontier import FrontierStore
from tarrafa.model import HostId, Outcome, Status, Visit
from tarrafa.runtime.process_identity import current_process
from tarrafa.runtime.public_suffix_list import bundled_suffix_list
from tarrafa.simulate.matplotlib_plots import Series, draw_lines
from tarrafa.testweb.oracle import expected_response as truth_of
from tarrafa.testweb.render.robots_sitemaps import is_allowed
from tarrafa.testweb.world.hosts import World
from tarrafa.testweb.world.page_links import outlinks
from tarrafa.testweb.world.resources import PageRole, Resource, ResourceKind, path_of, redirect_target, role_of

ORDERS = ("breadth", "backlinks", "fifo", "random", "lifo")
TICK_S, WEIGH_EVERY_S, SAMPLE_EVERY_S = 0.2, 1.0, 2.0  # a worker reports and leases, the graph tells, we look
LATENCY_S, DELAY_S = 0.2, 1.0
TURN_VISITS = 50  # as in crawl/worker/host_session.py
DOCS = Path(__file__).parents[1] / "docs" / "orders"


class FalseClock(Clock):
    """A clock that the benchmark moves."""

    moment: ClassVar[list[float]] = [0.0]

    def now(self) -> float:
        return self.moment[0]


@dataclass
class Page:
    """What a visit finds, and where it leads."""

    status: int
    type: str
    ways: list[str]
    location: str = ""


class Surroundings:
    """The Web by URL."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._known: dict[str, Resource] = {}

    def _named(self, resource: Resource) -> str:
        url = f"http://{self._world.authority(resource.no)}{path_of(self._world, resource)}"
        self._known[url] = resource
        return url

    def roots(self) -> list[str]:
        return [self._named(Resource(ResourceKind.PAGE, 1, 0))]

    def visit(self, url: str) -> Page:
        world, resource = self._world, self._known[url]
        if not is_allowed(world, resource):
            return Page(Status.ROBOTS, "", [])
        status, kind = truth_of(world, resource)
        if 300 <= status < 400:
            return Page(status, kind, [], self._named(redirect_target(world, resource)[1]))
        silent = (
            resource.kind is ResourceKind.PAGE and role_of(world.host(resource.no), resource.n) is PageRole.DEAD_END
        )
        ways = [] if silent else [self._named(link.to) for link in outlinks(world, resource) if not link.nofollow]
        return Page(status, kind, list(dict.fromkeys(ways)))

    def latency_s(self, url: str) -> float:
        return LATENCY_S * self._world.host(self._known[url].no).pace


class Graph:
    """In-links as the link graph counts them: distinct pages, absolute numbers."""

    def __init__(self) -> None:
        self.in_links: defaultdict[str, int] = defaultdict(int)
        self._news: dict[str, DiscoveredUrl] = {}

    def add(self, source: str, targets: list[DiscoveredUrl]) -> None:
        for target in targets:
            if target.url != source:
                self.in_links[target.url] += 1
                self._news[target.url] = target

    def news(self) -> list[UrlWeight]:
        news, self._news = self._news, {}
        return [UrlWeight(one.host, one.id, self.in_links[url]) for url, one in news.items()]


@dataclass
class Walk:
    """One leased host: as crawl/worker/host_session.py walks it, without the Web."""

    lease: Lease
    queue: list[Visit]
    free_at: float
    ends_at: float = 0.0
    visited: int = 0
    done: list[VisitReport] = field(default_factory=list)


@dataclass
class Course:
    """What became of one order."""

    order: str
    times_s: list[float] = field(default_factory=list)
    pages: list[int] = field(default_factory=list)
    sites: list[int] = field(default_factory=list)
    table: list[int] = field(default_factory=list)
    kept: list[str] = field(default_factory=list)
    in_links: dict[str, int] = field(default_factory=dict)
    cpu_s: float = 0.0

    def importance(self, in_links: dict[str, int]) -> list[float]:
        """Mean in-links of the pages fetched so far."""
        sums = [0, *accumulate(in_links.get(url, 0) for url in self.kept)]
        return [sums[pages] / pages if pages else math.nan for pages in self.pages]

    def when(self, values: list[int], goal: int) -> float | None:
        return next((at for at, value in zip(self.times_s, values, strict=True) if value >= goal), None)


class Crawl:
    """One order, one worker, one Web."""

    def __init__(self, order: str, world: World, places: int, strategy: dict[str, int]) -> None:
        self.web, self.graph, self.clock = Surroundings(world), Graph(), FalseClock(0, 0)
        self.clock.moment[0] = 1_000_000.0
        self._collection = _collection(order, self.web.roots(), strategy)
        self._admission = Admission(self._collection)
        self._store = FrontierStore(open_database(":memory:", bundled_suffix_list()), self.clock, LeaseClock())
        self._places, self._walks, self._met = places, dict[HostId, Walk](), set[HostId]()
        self._offered: set[str] = set()
        self._offers: list[DiscoveredUrl] = []
        self.kept: list[str] = []
        self.sites: set[HostId] = set()
        with self._transaction():
            self._number = self._store.open_collection(
                config.encode_collection(self._collection), list(self._admission.admit_roots())
            ).id
            self._worker = self._store.hosts.join("w", current_process()).worker

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        self._store.db.connection.execute("BEGIN IMMEDIATE")
        yield
        self._store.counters.flush()
        self._store.collections.flush()
        self._store.db.connection.execute("COMMIT")
        self._store.counters.on_commit()

    @property
    def table(self) -> int:
        return self._store.counters.value(self._number, Bucket.TABLE_SITES)

    def tick(self, weigh: bool) -> None:
        """As the worker does a few times a second: links, then reports, then new hosts."""
        self.clock.moment[0] += TICK_S
        for walk in self._walks.values():
            self._go(walk)
        with self._transaction():
            self._store.hosts.renew(self._worker, "")
            offers, self._offers = self._offers, []
            self._store.urls.discover(self._number, offers)
            if weigh:
                self._store.update_weights(self._collection.name, self.graph.news())
            self._report()
            self._lease()

    def _go(self, walk: Walk) -> None:
        """Make the visits for which there was time since the last tick."""
        now = self.clock.now()
        while walk.queue:
            visit = walk.queue[0]
            ends_at = max(walk.free_at, walk.ends_at) + self.web.latency_s(visit.url)
            if ends_at > now:
                return
            del walk.queue[0]
            walk.done.append(VisitReport(visit.id, visit.number, self._outcome(visit, ends_at)))
            walk.ends_at, walk.free_at = ends_at, ends_at + DELAY_S
            walk.visited += 1

    def _outcome(self, visit: Visit, at: float) -> Outcome:
        page = self.web.visit(visit.url)
        if page.location:
            self._learn(visit.url, [page.location], visit.depth)
        if page.status != 200 or not self._collection.wants_type(page.type):
            return Outcome(page.status if page.status != 200 else Status.TYPE_NOT_WANTED, at, location=page.location)
        self._learn(visit.url, page.ways, visit.depth + 1)
        self.kept.append(visit.url)
        self.sites.add(visit.host)
        own = visit.url[: visit.url.index("/", 8)]
        external = sum(not url.startswith(f"{own}/") for url in page.ways)
        return Outcome(200, at, kept=True, type=page.type, external=external)

    def _learn(self, source: str, urls: list[str], depth: int) -> None:
        offers = [found for url in urls if (found := self._admission.admit(url, depth)) is not None]
        self.graph.add(source, offers)
        self._offers += [one for one in offers if one.url not in self._offered]
        self._offered.update(one.url for one in offers)

    def _report(self) -> None:
        crowded = len(self._walks) >= self._places
        for host, walk in list(self._walks.items()):
            if not walk.done:
                continue
            keep = not (crowded and walk.visited >= TURN_VISITS)
            report = HostReport(
                host, self._number, walk.done, walk.free_at, walk.ends_at, DELAY_S, keep, wanted=VISITS_OF_NEW_LEASE
            )
            (answer,) = self._store.hosts.finish(self._worker, [report])
            walk.done = []
            walk.queue += answer.visits
            if not answer.is_leased:
                del self._walks[host]

    def _lease(self) -> None:
        room = self._places - len(self._walks)
        for lease in self._store.hosts.lease(self._worker, room) if room > 0 else []:
            free_at = max(lease.next_at, self.clock.now())
            if lease.host not in self._met:  # robots.txt is a request too
                self._met.add(lease.host)
                free_at += LATENCY_S + DELAY_S
            self._walks[lease.host] = Walk(lease, list(lease.visits), free_at)


def _collection(order: str, roots: list[str], strategy: dict[str, int]) -> Collection:
    table = {
        "name": order, "roots": roots, "scope": {"hosts": ["*"]}, "strategy": {"order": order} | strategy,
        "network": {"suffixes": ["br.test", "pt.test", "com.test"]}, "politeness": {"delay": DELAY_S},
    }  # fmt: skip
    return config.collection_from_table(table, order)


def run(order: str, world: World, places: int, duration_s: float, strategy: dict[str, int]) -> Course:
    crawl, course, began = Crawl(order, world, places, strategy), Course(order), time.process_time()
    weighs = order in ("breadth", "backlinks")  # to the others it makes no difference
    for tick in range(round(duration_s / TICK_S) + 1):
        if tick % round(SAMPLE_EVERY_S / TICK_S) == 0:
            course.times_s.append(round(tick * TICK_S, 1))
            course.pages.append(len(crawl.kept))
            course.sites.append(len(crawl.sites))
            course.table.append(crawl.table)
        crawl.tick(weighs and tick % round(WEIGH_EVERY_S / TICK_S) == 0)
    course.kept, course.in_links = crawl.kept, dict(crawl.graph.in_links)
    course.cpu_s = time.process_time() - began
    return course


def best_known(courses: list[Course]) -> dict[str, int]:
    """In-links as far as any of the crawls got to know them: the same measure for all."""
    found: dict[str, int] = {}
    for course in courses:
        for url, count in course.in_links.items():
            found[url] = max(count, found.get(url, 0))
    return found


def tell(courses: list[Course], goal: int, table_max: int) -> None:
    in_links = best_known(courses)
    print(f"{'order':>10} {'pages':>9} {'sites':>9} {f'{goal:,} sites after':>18} {'mean in-links':>14} {'CPU':>9}")
    for course in courses:
        reached = course.when(course.sites, goal)
        print(
            f"{course.order:>10} {course.pages[-1]:>9,} {course.sites[-1]:>9,}"
            f" {'never' if reached is None else f'{reached:.0f} s':>18} {course.importance(in_links)[-1]:>14.1f}"
            f" {course.cpu_s:>7.1f} s"
        )
        if course.order == "breadth":
            full = course.when(course.table, table_max)
            print(f"{'':>10} its table of {table_max:,} sites is full after", end="")
            print(" more than that" if full is None else f" {full:.0f} s")


def draw(courses: list[Course], folder: Path, table_max: int) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    in_links = best_known(courses)
    figures: list[tuple[str, str, str, list[Sequence[float]]]] = [
        ("sites", "New sites over time", "sites visited", [course.sites for course in courses]),
        ("pages", "Pages over time", "pages fetched", [course.pages for course in courses]),
        ("in-links", "How well the pages are linked", "mean in-links of the pages fetched so far",
         [course.importance(in_links) for course in courses]),
    ]  # fmt: skip
    for name, title, label, values in figures:
        series = [
            Series(course.order, course.times_s, one, markers=False)
            for course, one in zip(courses, values, strict=True)
        ]
        draw_lines(folder / name, series, title, "seconds of crawling", label)
    breadth = next((course for course in courses if course.order == "breadth"), None)
    if breadth is not None:
        curves = [
            Series("in the table", breadth.times_s, breadth.table, markers=False),
            Series("visited", breadth.times_s, breadth.sites, markers=False),
            Series("table_max", breadth.times_s, [table_max] * len(breadth.times_s), bound=True),
        ]
        draw_lines(folder / "table", curves, "The table of breadth fills up", "seconds of crawling", "sites")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--hosts", type=int, default=12_000)
    parser.add_argument("--pages", type=int, default=240_000)
    parser.add_argument("--places", type=int, default=100, help="hosts that the worker visits at once")
    parser.add_argument("--seconds", type=float, default=150.0, help="of crawling")
    parser.add_argument("--table-max", type=int, default=4_000)
    parser.add_argument("--cycle", type=int, default=100)
    parser.add_argument("--orders", nargs="*", default=ORDERS, choices=ORDERS)
    parser.add_argument("--out", type=Path, default=DOCS)
    options = parser.parse_args()
    world = World(hosts=options.hosts, pages=options.pages)
    strategy = {"table_max": options.table_max, "cycle": options.cycle}
    goal = options.hosts // 10
    print(f"{options.hosts:,} sites, {options.pages:,} pages, {options.places} hosts at once, {options.seconds:g} s")
    courses = [run(order, world, options.places, options.seconds, strategy) for order in options.orders]
    tell(courses, goal, options.table_max)
    draw(courses, options.out, options.table_max)


if __name__ == "__main__":
    main()
