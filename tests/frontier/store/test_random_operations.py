"""Whatever happens to a frontier, in whatever order, its books agree with each other after every step.

A life is a walk of random calls: URLs are found and weighed, workers come, finish, leave and are killed, the clock
moves, the planner plans, the configuration changes, the owner starts again. The invariants read the tables alone, and
say which of them disagree. A life that failed is lived again by its seed, which the message names.
"""

import os
import random
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from tarrafa.frontier.messages import FIRST_HOST, HostReport, PlannedVisit, UrlWeight, VisitReport
from tarrafa.frontier.ordering import SiteStage
from tarrafa.frontier.store.collections import LoadedCollection
from tarrafa.frontier.store.counters import UNKEPT, Bucket
from tarrafa.frontier.store.database import CLOSED, FAVOURED, NEW, OLD, OPEN, OUT, SWEPT, SWEPT_RANK, open_database
from tarrafa.frontier.store.leases import LeaseClock
from tarrafa.frontier.store.revisits import CHOSEN_SHELF, DISMISSED_SHELF, PLANNED, RATE_UNIT, read_history
from tarrafa.frontier.store.runs import has_runs
from tarrafa.frontier.store.sqlite_frontier import FrontierStore
from tarrafa.model import Outcome, Status, UrlRole, UrlState, Visit, unkept_cause
from tarrafa.revisit.change_rate import RateSums
from tarrafa.runtime.process_identity import current_process
from tests.contract.frontier_bodies import SUFFIXES, FalseClock, a_collection, offer
from tests.contract.test_revisits import DAY_S, advance, kept, now

HOSTS = [f"h{n}.br" for n in range(4)]
SISTERS = [f"www.{host}" for host in HOSTS]  # of the same sites
MANY = [f"b{n}.br" for n in range(10)]
STEPS = {
    "discover": 2, "weigh": 1, "join": 1, "lease": 4, "finish": 6, "leave": 1, "kill": 1, "clock": 2, "plan": 1,
    "control": 1, "reconfigure": 1, "restart": 1,
}  # fmt: skip
FAILURES = [
    404, 404, 410, 301, 403, 429, 500, 503, 520, Status.INVALID_RESPONSE, Status.TYPE_NOT_WANTED, Status.ROBOTS,
    Status.TOO_SLOW, Status.SYSTEM_ERROR, Status.OUT_OF_SCOPE, Status.HOSTILE, Status.STARVED,
]  # fmt: skip
NOBODY = 999_999_999  # no process has this number
FOREVER = 1e18


@dataclass(frozen=True)
class Kind:
    """What may happen in a life."""

    policies: tuple[str, ...]
    names: tuple[str, ...] = ("c",)
    exchanges: bool = False
    reconfigures: bool = False
    has_listings: bool = False
    orders: tuple[str, ...] = ("fifo", "backlinks")
    hosts: tuple[str, ...] = tuple(HOSTS)
    has_runs: bool = False

    @property
    def urls(self) -> list[str]:
        return [f"http://{host}/{n}" for host in self.hosts for n in range(6)]


CALENDARS = ("index", "uniform", "proportional", "rateupdate")
KINDS = {
    "one policy": Kind(CALENDARS),
    "exchange": Kind(CALENDARS, exchanges=True),
    "changing configuration": Kind((*CALENDARS, "never"), reconfigures=True),
    "plans": Kind(tuple(sorted(PLANNED)), has_listings=True),
    "everything": Kind((*CALENDARS, *sorted(PLANNED), "never"), ("c", "d"), True, True, True),
    "breadth": Kind(("never", "index"), orders=("breadth",), hosts=(*HOSTS, *SISTERS, *MANY)),
    "changing orders": Kind(
        (*CALENDARS, "never"), ("c", "d"), True, True, True, ("breadth", "breadth", "fifo", "lifo"), (*HOSTS, *SISTERS)
    ),
    "runs": Kind(("never",), has_listings=True, orders=("fifo", "backlinks", "lifo", "random"), has_runs=True),
    "runs of changing collections": Kind(
        ("never", "never", "never", "index"), ("c", "d"), True, True, True, ("fifo", "fifo", "breadth"), has_runs=True
    ),
}


class RandomLife:
    """A frontier's store, those who work with it, and chance."""

    def __init__(self, kind: Kind, seed: str, folder: Path) -> None:
        self.kind, self.seed, self.rng = kind, seed, random.Random(seed)
        self.ranks = random.Random(seed)  # apart, so that lives are what they were before there were ranks
        self._path = folder / f"{seed.replace('/', '-')}.sqlite"
        FalseClock.shift[0] = 0.0
        self.workers: dict[int, dict[int, tuple[int, list[Visit]]]] = {}  # what each holds: host, collection, visits
        self.store = self._opened()
        for name in kind.names:
            roots = [offer(url) for url in self.rng.sample(kind.urls, 8)]
            with self.transaction() as store:
                store.open_collection(self._config(name), roots)

    def _opened(self) -> FrontierStore:
        store = FrontierStore(open_database(str(self._path), SUFFIXES), FalseClock(0, 0), LeaseClock())
        store.db.connection.pragma("synchronous", "off")
        return store

    def close(self) -> None:
        self.store.db.connection.close()

    @contextmanager
    def transaction(self) -> Iterator[FrontierStore]:
        store = self.store
        store.db.connection.execute("BEGIN IMMEDIATE")
        yield store
        store.counters.flush()
        store.collections.flush()
        store.db.connection.execute("COMMIT")
        store.counters.on_commit()

    def step(self) -> str:
        (name,) = self.rng.choices(list(STEPS), weights=list(STEPS.values()))
        if self.kind.has_runs and self.ranks.random() < 0.25:
            name = self.ranks.choice(["begin_run", "sweep", "sweep", "retry", "find"])
        getattr(self, name)()
        return name

    def _config(self, name: str) -> bytes:
        rng, scope = self.rng, dict[str, object](hosts=["*"])
        revisit: dict[str, object] = {
            "policy": rng.choice(self.kind.policies), "weigh": rng.choice(["links", "equal"]), "grace": "2h",
            "interval_min": rng.choice([0, 600]), "share": rng.choice([0.25, 0.5, 1.0]),
        }  # fmt: skip
        if self.ranks.random() < 0.3:
            revisit["weigh"] = "rank"
        if rng.random() < 0.4:
            revisit["rate"] = rng.choice([24, 500, 1e5])
        if self.kind.exchanges and (not self.kind.reconfigures or rng.random() < 0.8):
            scope["pages_max"] = rng.choice([4, 6, 8, 12])
        if rng.random() < 0.1:
            scope["requests_max"] = rng.choice([20, 60, 500])
        if rng.random() < 0.1:
            scope["host_pages_max"] = rng.choice([3, 5])
        strategy: dict[str, object] = {"order": rng.choice(self.kind.orders)}
        if strategy["order"] == "breadth":
            strategy |= {"table_max": rng.choice([1, 2, 4000]), "cycle": rng.choice([1, 2, 3])}
        if rng.random() < 0.3:
            strategy |= {"favour": ["*.h1.br", "h2.br"], "penalise": ["*/3", "*www*"]}
        return a_collection(name, revisit=revisit, scope=scope, politeness={"delay": 1}, strategy=strategy)

    def _some(self) -> LoadedCollection:
        return self.store.collections.by_name(self.rng.choice(self.kind.names))

    # -- what may happen, where there are runs ----------------------------------------------------------------

    def begin_run(self) -> None:
        known = self._some()
        if has_runs(known.config) and self.ranks.random() < 0.7:
            with self.transaction() as store:
                store.collections.set_state(known.row.name, "stopped", "")
                store.begin_run(known.row.name, "")

    def sweep(self) -> None:
        name, limit = self._some().row.name, self.ranks.choice([1, 3, 100])
        with self.transaction() as store:
            store.sweep(name, limit)

    def retry(self) -> None:
        host = offer(self.ranks.choice(self.kind.urls)).host
        with self.transaction() as store:
            store.retries.retry_host(host)

    def find(self) -> None:
        """Much is found at once, as by a page with many links."""
        number, urls = self._some().row.id, self.ranks.sample(self.kind.urls, 12)
        with self.transaction() as store:
            store.urls.discover(number, [replace(offer(url), depth=self.ranks.randint(0, 3)) for url in urls])

    # -- what may happen --------------------------------------------------------------------------------------

    def discover(self) -> None:
        rng, offers = self.rng, []
        for url in rng.sample(self.kind.urls, rng.randint(1, 5)):
            found = replace(offer(url), depth=rng.randint(0, 3), is_linked=bool(len(url) % 2))
            if rng.random() < 0.3:
                found = replace(found, announced=now() - rng.uniform(-5, 100))
            if self.kind.has_listings and rng.random() < 0.1:
                found = replace(found, role=rng.choice([int(UrlRole.SITEMAP), int(UrlRole.FEED)]))
            offers.append(found)
        if self.kind.has_listings and rng.random() < 0.3:
            offers.append(replace(offer(f"http://{rng.choice(HOSTS)}/sitemap.xml"), role=int(UrlRole.SITEMAP)))
        number = self._some().row.id
        with self.transaction() as store:
            store.urls.discover(number, offers)

    def weigh(self) -> None:
        found = [offer(url) for url in self.rng.sample(self.kind.urls, 5)]
        weights = [UrlWeight(one.host, one.id, self.rng.randint(0, 30)) for one in found]
        weights = [replace(one, rank=self.ranks.choice([0.0, self.ranks.lognormvariate(0, 2)])) for one in weights]
        name = self._some().row.name
        with self.transaction() as store:
            store.update_weights(name, weights)

    def join(self) -> None:
        if len(self.workers) == 3:
            return
        with self.transaction() as store:
            worker = store.join(f"w{self.rng.random()}", current_process()).worker
            store.db.run("UPDATE worker SET deadline = ? WHERE id = ?", (FOREVER, worker))
        self.workers[worker] = {}

    def lease(self) -> None:
        if not self.workers:
            self.join()
        worker, wanted = self.rng.choice(list(self.workers)), self.rng.randint(1, 4)
        with self.transaction() as store:
            leases = store.lease(worker, wanted)
        for lease in leases:
            assert not any(lease.host in held for held in self.workers.values()), "a host is with two"
            self.workers[worker][lease.host] = (lease.collection, list(lease.visits))

    def finish(self) -> None:
        busy = [worker for worker, held in self.workers.items() if held]
        if not busy:
            return self.lease()
        rng, worker = self.rng, self.rng.choice(busy)
        host = rng.choice(list(self.workers[worker]))
        collection, visits = self.workers[worker][host]
        made, keep = rng.choice([len(visits), rng.randint(0, len(visits))]), rng.random() < 0.7
        report = HostReport(
            host,
            collection,
            [VisitReport(visit.id, visit.number, self._outcome(visit)) for visit in visits[:made]],
            next_at=now() + rng.choice([0, 1, 0 if keep else 100]),
            ended_at=now(),
            delay_s=rng.choice([1.0, 1.0, 20.0]),
            keep=keep,
            failures=0 if keep or rng.random() < 0.8 else rng.choice([1, 2, 30]),
        )
        with self.transaction() as store:
            (answer,) = store.hosts.finish(worker, [report])
        if answer.is_leased:
            self.workers[worker][host] = (collection, visits[made:] + list(answer.visits))
        else:
            del self.workers[worker][host]
        return None

    def _outcome(self, visit: Visit) -> Outcome:
        rng, chance = self.rng, self.rng.random()
        if visit.dismissed and rng.random() < 0.95:
            fresh = self.store.collections.by_id(visit.collection).config.keeps_fresh
            status = Status.REPLACED if fresh else Status.NOT_FOUND_AGAIN
            return Outcome(status, now(), requested=False)
        # A listing that turns out to be a page is kept, though a full collection has no place for it: not played there.
        if chance < 0.7 and visit.role and (self.kind.exchanges or rng.random() < 0.8):
            return Outcome(200, now(), type="text/xml", role=visit.role, payload=f"sha1:{rng.randint(0, 3)}")
        if chance < 0.7:
            return replace(kept(rng.choice("abc")), external=rng.choice([0, 1, 2, 4, 9, 40]))
        if chance < 0.8 and (visit.content_id or (visit.role and visit.payload)):
            return Outcome(304, now(), role=visit.role)
        return Outcome(int(rng.choice(FAILURES)), now(), role=visit.role)

    def leave(self) -> None:
        if self.workers and self.rng.random() < 0.3:
            worker, _ = self.workers.popitem()
            with self.transaction() as store:
                store.hosts.release_worker(worker)

    def kill(self) -> None:
        if self.workers and self.rng.random() < 0.3:
            worker, _ = self.workers.popitem()
            with self.transaction() as store:
                store.db.run("UPDATE worker SET pid = ? WHERE id = ?", (NOBODY, worker))
                store.expire()

    def clock(self) -> None:
        advance(self.rng.choice([1, 10, 100, 700, 3700, DAY_S]))

    def control(self) -> None:
        state = self.rng.choice(["paused", *["running"] * 4])
        with self.transaction() as store:
            store.collections.set_state(self.rng.choice(self.kind.names), state, "")

    def reconfigure(self) -> None:
        if self.kind.reconfigures and self.rng.random() < 0.3:
            roots = [offer(url) for url in self.rng.sample(self.kind.urls, self.rng.choice([0, 0, 2]))]
            name = self.rng.choice(self.kind.names)
            content = self._config(name)
            with self.transaction() as store:
                if self.rng.random() < 0.5:
                    store.collections.set_state(name, "finished", "")
                store.open_collection(content, roots)

    def restart(self) -> None:
        if self.rng.random() < 0.1:
            self.close()
            self.store = self._opened()

    def plan(self) -> None:
        known, chance = self._some(), self.rng.random()
        planning, policy = self.store.planning, known.config.revisit.policy
        if policy == "index":
            with self.transaction():
                planning.set_price(known.row.id, self.rng.choice([0.0, 10.0, 1e3, 1e5, 1e6]))
                planning.recompute_due(known.row.id, FIRST_HOST, 100)
        pages = planning.revisit_pages(known.row.id, FIRST_HOST, b"", 100)
        if policy not in PLANNED or not pages:
            return
        name = max(int(now()), known.tuning.plan) + 1
        visits = [PlannedVisit(p.host, p.id, now() + self.rng.uniform(0, 5000)) for p in self.rng.choices(pages, k=5)]
        with self.transaction():
            planning.add_planned_visits(known.row.id, name, visits)
            if chance < 0.7:  # else the planner dies here
                planning.activate_plan(known.row.id, name, now() + 5000)
                planning.recompute_due(known.row.id, FIRST_HOST, 100)
            if chance < 0.5:
                planning.drop_old_plans(known.row.id, 100)


# -- the invariants: what is written down, and what is true ---------------------------------------------------

Pair = tuple[object, object]
PAGES = "FROM page JOIN url USING (host, collection, id) WHERE collection = ?"


def ask(store: FrontierStore, known: LoadedCollection, sql: str, *values: object) -> list[tuple[Any, ...]]:
    """Rows about one collection, in an order of their own."""
    return sorted(store.db.rows(sql, (known.row.id, *values)))


def count(store: FrontierStore, known: LoadedCollection, sql: str, *values: object) -> int:
    return int(store.db.value(f"SELECT count(*) {sql}", (known.row.id, *values)))


def every_state_is_counted(store: FrontierStore, known: LoadedCollection) -> Pair:
    true = dict(ask(store, known, "SELECT state, count(*) FROM url WHERE collection = ? GROUP BY 1"))
    counted = {int(state): store.counters.value(known.row.id, Bucket.state(state)) for state in UrlState}
    return {state: number for state, number in counted.items() if number}, true


def every_url_that_is_not_kept_is_counted_by_its_cause(store: FrontierStore, known: LoadedCollection) -> Pair:
    true: Counter[str] = Counter()
    sql = "SELECT status, role, count(*) FROM url WHERE collection = ? AND state IN (3, 4, 5) GROUP BY 1, 2"
    for status, role, number in store.db.rows(sql, (known.row.id,)):
        true[unkept_cause(status, role)] += number
    return store.counters.with_prefix(known.row.id, UNKEPT), dict(true)


def a_host_counts_what_waits_on_it(store: FrontierStore, known: LoadedCollection) -> Pair:
    stored = ask(store, known, "SELECT host, pending FROM work WHERE collection = ? AND pending != 0")
    return stored, ask(store, known, "SELECT host, count(*) FROM pending WHERE collection = ? GROUP BY 1")


def what_waits_is_in_one_queue_once(store: FrontierStore, known: LoadedCollection) -> Pair:
    queued = ask(store, known, "SELECT host, id FROM pending WHERE collection = ?")
    queued += ask(store, known, "SELECT host, id FROM due WHERE collection = ? AND shelf = ?", CHOSEN_SHELF)
    waiting = "SELECT host, id FROM url WHERE collection = ? AND state = ?"
    return sorted(queued), ask(store, known, waiting, int(UrlState.PENDING))


def what_is_out_is_written_down(store: FrontierStore, known: LoadedCollection) -> Pair:
    out = "SELECT host, id FROM url WHERE collection = ? AND state = ?"
    handed = ask(store, known, "SELECT host, id FROM handed WHERE collection = ?")
    return handed, ask(store, known, out, int(UrlState.HANDED_OUT))


def a_shelf_counts_its_pages(store: FrontierStore, known: LoadedCollection) -> Pair:
    stored = ask(store, known, "SELECT host, shelf, pages FROM shelf WHERE collection = ? AND pages != 0")
    return stored, ask(store, known, "SELECT host, shelf, count(*) FROM due WHERE collection = ? GROUP BY 1, 2")


def the_exchange_is_counted(store: FrontierStore, known: LoadedCollection) -> Pair:
    buckets = (Bucket.CHOSEN_WAITING, Bucket.DISMISSED_WAITING, Bucket.REVISITS_OUT)
    stored = [store.counters.value(known.row.id, bucket) for bucket in buckets]
    return stored, [
        count(store, known, "FROM due WHERE collection = ? AND shelf = ?", CHOSEN_SHELF),
        count(store, known, "FROM page WHERE collection = ? AND shelf = ?", DISMISSED_SHELF),
        count(store, known, f"{PAGES} AND state = ? AND role = 0", int(UrlState.HANDED_OUT)),
    ]


def whatever_is_kept_is_kept_fresh(store: FrontierStore, known: LoadedCollection) -> Pair:
    """Pages, and sitemaps that were read once; nothing else, and nothing where nobody asked for it."""
    columns = "SELECT url.host, url.id, url.state, role"
    pages = ask(store, known, f"{columns} {PAGES} AND state != ?", int(UrlState.HANDED_OUT))
    listings = [
        row for row in pages if row[2:] in ((UrlState.DROPPED, UrlRole.SITEMAP), (UrlState.DROPPED, UrlRole.FEED))
    ]
    fetched = f"{columns} FROM url WHERE collection = ? AND state = ?"
    true = ask(store, known, fetched, int(UrlState.FETCHED)) + listings
    return pages, sorted(true) if known.config.keeps_fresh else []


def a_page_stands_where_it_says_or_is_out(store: FrontierStore, known: LoadedCollection) -> Pair:
    """A plan may name a page as often as it likes; on our own shelves it stands once even so."""
    least = 0 if known.config.revisit.policy in PLANNED else FOREVER
    stands = "SELECT host, shelf, key, id FROM due WHERE collection = ? AND shelf != ? AND shelf < ?"
    says = f"SELECT page.host, shelf, key, page.id {PAGES} AND state != ? AND shelf < ?"
    return ask(store, known, stands, CHOSEN_SHELF, least), ask(store, known, says, int(UrlState.HANDED_OUT), least)


def a_site_knows_its_pages(store: FrontierStore, known: LoadedCollection) -> Pair:
    rates, sites, sums = 0, dict[str, RateSums](), [0, 0, 0]
    if known.config.keeps_fresh:
        site = "(SELECT site FROM host WHERE host.id = page.host)"
        for name, content in ask(store, known, f"SELECT {site}, history {PAGES} AND role = 0"):
            history = read_history(content)
            rates += round(RATE_UNIT * history.rate)
            if history.has_evidence:
                sites[name] = sites.get(name, RateSums()).plus(history.alpha, history.beta)
                own = RateSums().plus(history.alpha, history.beta)
                sums = [
                    sums[0] + 1,
                    *(sum_ + round(RATE_UNIT * one) for sum_, one in zip(sums[1:], own[1:], strict=True)),
                ]
    stored = ask(store, known, "SELECT name, pages, means, squares FROM site WHERE collection = ? AND pages != 0")
    buckets = (Bucket.RATES, Bucket.RATED_PAGES, Bucket.LOG_RATES, Bucket.LOG_RATE_SQUARES)
    told = [(name, pages, round(means, 3), round(squares, 3)) for name, pages, means, squares in stored]
    true = [
        (name, pages, round(means, 3), round(squares, 3)) for name, (pages, means, squares) in sorted(sites.items())
    ]
    return ([store.counters.value(known.row.id, bucket) for bucket in buckets], told), ([rates, *sums], true)


def a_host_is_due_no_later_than_its_first_page(store: FrontierStore, known: LoadedCollection) -> Pair:
    if not known.config.keeps_fresh or known.config.revisit.policy == "uniform":  # whose interval grows with the pages
        return [], []
    policy, first = store.urls.revisits.policy(known), dict[int, float]()
    heads = "SELECT host, shelf, min(key) FROM due WHERE collection = ? GROUP BY 1, 2"
    for host, shelf, key in ask(store, known, heads):
        first[host] = min(first.get(host, FOREVER), key if shelf < 0 else policy.due(shelf, key))
    due = dict(ask(store, known, "SELECT host, due FROM work WHERE collection = ? AND due IS NOT NULL"))
    return [host for host, at in first.items() if at < FOREVER and due.get(host, FOREVER) > at + 1e-6], []


def pages_and_those_who_wait_are_ordered_by_links(store: FrontierStore, known: LoadedCollection) -> Pair:
    stored = ask(store, known, "SELECT kept, in_links, host, id FROM standing WHERE collection = ?")
    if not known.config.replaces_pages:
        return stored, []
    columns, queue = "in_links, url.host, url.id", "FROM pending JOIN url USING (host, collection, id)"
    waiting = ask(store, known, f"SELECT 0, {columns} {queue} WHERE collection = ? AND role = 0")
    return stored, waiting + ask(
        store, known, f"SELECT 1, {columns} {PAGES} AND role = 0 AND depth > 0 AND shelf != ?", DISMISSED_SHELF
    )


def no_more_is_kept_than_there_is_room_for(store: FrontierStore, known: LoadedCollection) -> Pair:
    most = known.config.scope.pages_max
    # Whose limit was lowered keeps what it has; and a later run keeps what it finds and cannot reach, beyond its limit.
    if most is None or known.row.revision > 1 or known.run > 1:
        return 0, 0
    fetched, again = Bucket.state(UrlState.FETCHED), Bucket.REVISITS_OUT
    return max(0, store.counters.value(known.row.id, fetched) + store.counters.value(known.row.id, again) - most), 0


def hosts_with_work_are_ready_while_they_are_with_nobody(store: FrontierStore, known: LoadedCollection) -> Pair:
    work = "FROM work JOIN host ON host.id = work.host WHERE collection = ?1 AND worker IS NULL"
    kind = f"CASE favoured WHEN 0 THEN {NEW} ELSE {FAVOURED} END"
    true = ask(store, known, f"SELECT {kind}, next_at, host {work} AND pending > 0 AND gate = ?2", OPEN)
    true += ask(store, known, f"SELECT ?2, max(next_at, due), host {work} AND due IS NOT NULL", OLD)
    return ask(store, known, "SELECT kind, next_at, host FROM ready WHERE collection = ?"), sorted(true)


def favoured_hosts_are_marked(store: FrontierStore, known: LoadedCollection) -> Pair:
    hosts = ask(store, known, "SELECT key, favoured FROM work JOIN host ON id = host WHERE collection = ?")
    return hosts, [(key, int(known.order.favours(f"{key}/"))) for key, _ in hosts]


def mentions_are_the_sum_of_in_links(store: FrontierStore, known: LoadedCollection) -> Pair:
    stored = ask(store, known, "SELECT name, mentions FROM site WHERE collection = ? AND mentions != 0")
    if not known.order.is_breadth:
        return stored, []
    links = "SELECT site, sum(in_links) FROM url JOIN host ON host.id = url.host WHERE collection = ? GROUP BY 1"
    return stored, [row for row in ask(store, known, links) if row[1]]


def the_table_is_counted_and_has_a_maximum(store: FrontierStore, known: LoadedCollection) -> Pair:
    listed = count(store, known, "FROM site WHERE collection = ? AND stage = ?", int(SiteStage.LISTED))
    most = known.config.strategy.table_max
    return (store.counters.value(known.row.id, Bucket.TABLE_SITES), min(listed, most)), (listed, listed)


def a_site_that_waits_knows_its_best_url(store: FrontierStore, known: LoadedCollection) -> Pair:
    """The best of what is queued on any of its hosts; who has nothing queued was not heard of."""
    if not known.order.is_breadth:
        return ask(store, known, "SELECT name, stage FROM site WHERE collection = ? AND stage != 0"), []
    queued = (
        "SELECT site, min(rank) FROM pending JOIN host ON host.id = pending.host WHERE collection = ?1 AND site IN"
        " (SELECT name FROM site WHERE collection = ?1 AND stage < ?2) GROUP BY 1"
    )
    best = (
        "SELECT name, best FROM site JOIN pending p ON p.host = site.host AND p.collection = site.collection"
        " AND p.rank = best AND p.id = site.url WHERE site.collection = ?1 AND stage IN (?2, ?3)"
    )
    stages = (int(SiteStage.HEARD), int(SiteStage.LISTED))
    return ask(store, known, best, *stages), ask(store, known, queued, int(SiteStage.CHOSEN))


def a_walk_has_one_gate_and_one_page_at_a_time(store: FrontierStore, known: LoadedCollection) -> Pair:
    """Open where its best URL waits, or out with it; all other gates are closed, in other orders none is."""
    gates = "FROM work JOIN host h ON h.id = work.host WHERE collection = ?1"
    if not known.order.is_breadth:
        return ask(store, known, f"SELECT key, gate {gates} AND gate != ?2", OPEN), []
    written = ask(store, known, f"SELECT site, host, gate {gates} AND gate != ?2", CLOSED)
    out = "SELECT 1 FROM handed WHERE handed.host = site.host AND collection = ?1 AND handed.id = site.url"
    true = ask(
        store,
        known,
        f"SELECT name, host, CASE WHEN EXISTS ({out}) THEN ?3 ELSE ?4 END FROM site WHERE collection = ?1"
        " AND stage = ?2",
        int(SiteStage.CHOSEN),
        OUT,
        OPEN,
    )
    queued = {host for (host,) in ask(store, known, "SELECT DISTINCT host FROM pending WHERE collection = ?")}
    stuck = [host for _, host, gate in written if gate == OPEN and host not in queued]
    return (written, stuck), (true, [])


def what_is_passed_over_is_counted(store: FrontierStore, known: LoadedCollection) -> Pair:
    passed = (
        "FROM pending JOIN host h ON h.id = pending.host JOIN site ON site.collection = pending.collection"
        " AND site.name = h.site WHERE pending.collection = ? AND stage = ?"
    )
    return store.counters.value(known.row.id, Bucket.PASSED_OVER), count(store, known, passed, int(SiteStage.OVER))


def what_earlier_runs_left_is_counted(store: FrontierStore, known: LoadedCollection) -> Pair:
    buckets = (Bucket.OLD_PAGES, Bucket.LEFT_OVER, Bucket.SHOWN_PAGES)
    stored = [store.counters.value(known.row.id, bucket) for bucket in buckets]
    old = "FROM url WHERE collection = ? AND run < ? AND state = ?"
    return stored, [
        count(store, known, old, known.run, int(UrlState.FETCHED)),
        count(store, known, old, known.run, int(UrlState.PENDING)),
        count(store, known, "FROM url WHERE collection = ? AND shown > 0"),
    ]


def only_what_waits_or_is_out_is_shown_from_before(store: FrontierStore, known: LoadedCollection) -> Pair:
    """And what is to be taken out stands before all others in its queue."""
    others = "FROM url WHERE collection = ? AND shown > 0 AND state NOT IN (0, 1)"
    swept = ask(store, known, "SELECT host, id FROM pending WHERE collection = ? AND rank = ?", SWEPT_RANK)
    true = ask(store, known, "SELECT host, id FROM url WHERE collection = ? AND shown = ? AND state = 0", SWEPT)
    return (count(store, known, others), swept), (0, true)


def nothing_is_of_a_run_to_come(store: FrontierStore, known: LoadedCollection) -> Pair:
    return count(store, known, "FROM url WHERE collection = ? AND run > ?", known.run), 0


INVARIANTS: list[Callable[[FrontierStore, LoadedCollection], Pair]] = [
    every_url_that_is_not_kept_is_counted_by_its_cause,
    every_state_is_counted,
    a_host_counts_what_waits_on_it,
    what_waits_is_in_one_queue_once,
    what_is_out_is_written_down,
    a_shelf_counts_its_pages,
    the_exchange_is_counted,
    whatever_is_kept_is_kept_fresh,
    a_page_stands_where_it_says_or_is_out,
    a_site_knows_its_pages,
    a_host_is_due_no_later_than_its_first_page,
    pages_and_those_who_wait_are_ordered_by_links,
    no_more_is_kept_than_there_is_room_for,
    hosts_with_work_are_ready_while_they_are_with_nobody,
    favoured_hosts_are_marked,
    mentions_are_the_sum_of_in_links,
    the_table_is_counted_and_has_a_maximum,
    a_site_that_waits_knows_its_best_url,
    a_walk_has_one_gate_and_one_page_at_a_time,
    what_is_passed_over_is_counted,
    what_earlier_runs_left_is_counted,
    only_what_waits_or_is_out_is_shown_from_before,
    nothing_is_of_a_run_to_come,
]


def broken(store: FrontierStore) -> dict[str, Pair]:
    """The invariants that do not hold: what is written down, what is true."""
    pairs = {
        f"{known.row.name}: {rule.__name__}": rule(store, known)
        for known in store.collections.all()
        for rule in INVARIANTS
    }
    return {name: pair for name, pair in pairs.items() if pair[0] != pair[1]}


def chosen(store: FrontierStore) -> set[tuple[int, str]]:
    """The sites that are in no table any more."""
    return set(store.db.rows("SELECT collection, name FROM site WHERE stage >= ?", (int(SiteStage.CHOSEN),)))


def live(life: RandomLife, steps: int) -> None:
    done = ["birth"]
    for _ in range(steps):
        found = broken(life.store)
        assert not found, f"seed {life.seed!r}, step {len(done)}, {done[-5:]}: {found}"
        before = chosen(life.store)
        done.append(life.step())
        back = before - chosen(life.store)
        assert not back or done[-1] == "reconfigure", f"seed {life.seed!r}, step {len(done)}: {back} came back"


@contextmanager
def random_life(kind: str, seed: str, folder: Path) -> Iterator[RandomLife]:
    life = RandomLife(KINDS[kind], seed, folder)
    try:
        yield life
    finally:
        life.close()


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("kind", KINDS)
def test_the_books_agree_whatever_happens(tmp_path, kind, seed):
    with random_life(kind, str(seed), tmp_path) as life:
        live(life, 150)


@pytest.mark.long
@pytest.mark.parametrize("kind", KINDS)
def test_the_books_agree_in_many_long_lives(tmp_path, kind):
    seed = os.environ.get("TARRAFA_SEED") or str(random.randrange(10**6))
    for number in range(50):
        with random_life(kind, f"{seed}/{number}", tmp_path) as life:
            live(life, 500)
        for file in tmp_path.iterdir():
            file.unlink()
    print(f"{kind}, seed {seed}: 50 lives of 500 steps")


@pytest.mark.parametrize(
    ("damage", "rule"),
    [
        ("UPDATE site SET mentions = mentions + 1", mentions_are_the_sum_of_in_links),
        ("UPDATE site SET best = best - 1 WHERE stage IN (1, 2)", a_site_that_waits_knows_its_best_url),
        ("UPDATE site SET stage = 1 WHERE stage = 2", the_table_is_counted_and_has_a_maximum),
        ("UPDATE site SET stage = 4 WHERE stage = 3", a_walk_has_one_gate_and_one_page_at_a_time),
        ("UPDATE work SET gate = 1 WHERE gate = 0", a_walk_has_one_gate_and_one_page_at_a_time),
        ("DELETE FROM pending WHERE host IN (SELECT h.id FROM host h JOIN site ON name = site WHERE stage = 4)",
         what_is_passed_over_is_counted),
    ],
)  # fmt: skip
def test_a_site_that_was_tampered_with_is_noticed(tmp_path, damage, rule):
    with random_life("breadth", "1", tmp_path) as life:
        for _ in range(300):
            if life.store.db.run(damage):
                break
            life.step()
        assert f"c: {rule.__name__}" in broken(life.store)


@pytest.mark.parametrize(
    ("damage", "rule"),
    [
        ("DELETE FROM due WHERE shelf >= 0", a_page_stands_where_it_says_or_is_out),
        ("DELETE FROM pending", what_waits_is_in_one_queue_once),
        ("DELETE FROM handed", what_is_out_is_written_down),
        ("DELETE FROM ready", hosts_with_work_are_ready_while_they_are_with_nobody),
        ("DELETE FROM page", whatever_is_kept_is_kept_fresh),
        ("DELETE FROM standing WHERE kept = 1", pages_and_those_who_wait_are_ordered_by_links),
        ("UPDATE shelf SET pages = pages + 1", a_shelf_counts_its_pages),
        ("UPDATE work SET pending = pending + 1", a_host_counts_what_waits_on_it),
        ("UPDATE work SET due = NULL WHERE due IS NOT NULL", a_host_is_due_no_later_than_its_first_page),
        ("UPDATE site SET pages = pages + 1", a_site_knows_its_pages),
        (f"UPDATE page SET shelf = {DISMISSED_SHELF}", the_exchange_is_counted),
        ("UPDATE url SET state = 3 WHERE state = 2", every_state_is_counted),
    ],
)
def test_a_book_that_was_tampered_with_is_noticed(tmp_path, damage, rule):
    with random_life("exchange", "1", tmp_path) as life:
        for _ in range(300):
            if life.store.db.run(damage):
                break
            life.step()
        assert f"c: {rule.__name__}" in broken(life.store)
