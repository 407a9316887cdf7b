"""Many clients walk through the sites of one breadth collection at the same moment: whoever comes first, the promises
hold, and nobody waits in a ring."""

import asyncio
import random
import threading
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from pathlib import Path

import psycopg
import pytest

from tarrafa.frontier.messages import Lease, UrlWeight
from tarrafa.frontier.ordering import FRUITLESS_VISITS_MAX, continues_walk
from tarrafa.frontier.postgres.postgres_frontier import PostgresFrontier
from tarrafa.model import HostId, Outcome, Visit
from tarrafa.parse.url import host_name
from tarrafa.runtime.process_identity import current_process
from tests.contract.frontier_bodies import (
    SUFFIXES,
    FalseClock,
    FalseDatabaseLeaseClock,
    a_collection,
    done,
    numbers,
    offer,
)
from tests.contract.postgres_process import WHY_NOT, a_server, programs
from tests.frontier.postgres.test_postgres_frontier import copied
from tests.frontier.store.test_random_operations import broken

pytestmark = pytest.mark.skipif(programs() is None, reason=WHY_NOT)
CLIENTS, SITES, PAGES = 8, 28, 5
NOW = 1_000_000.0
TABLE_MAX, CYCLE = 15, 8


def hosts_of(number: int) -> list[str]:
    """Half of the sites have two hosts, some three."""
    name = f"s{number}.br"
    return [name, f"www.{name}", f"blog.{name}"][: 1 + (number % 2 == 0) + (number % 6 == 0)]


URLS = [f"http://{host}/{'x' * n}" for s in range(SITES) for host in hosts_of(s) for n in range(PAGES)]


def site_of(url: str) -> str:
    return ".".join(host_name(url).split(".")[-2:])


def links(url: str) -> list[str]:
    """Mostly to a few that everybody links to."""
    rng = random.Random(url)
    return [URLS[int(len(URLS) * rng.random() ** 3)] for _ in range(rng.choice([0, 2, 6, 20]))]


def outcome_of(url: str) -> Outcome:
    if random.Random(f"{url} there?").random() < 0.15:
        return Outcome(404, NOW)
    external = {link for link in links(url) if site_of(link) != site_of(url)}
    return Outcome(200, NOW, kept=True, type="text/html", external=len(external))


@dataclass
class Log:
    """What all clients have seen, in one order."""

    lock: threading.Lock = field(default_factory=threading.Lock)
    holders: dict[HostId, int] = field(default_factory=dict)
    offered: set[str] = field(default_factory=set)
    in_links: Counter[str] = field(default_factory=Counter)
    visits: defaultdict[str, list[str]] = field(default_factory=lambda: defaultdict(list))  # by site
    out: set[str] = field(default_factory=set)  # sites with a visit
    known: set[str] = field(default_factory=set)  # for certain: the frontier has said so
    waiting: dict[str, int] = field(default_factory=dict)  # of each site, when its last visit ended
    trouble: list[BaseException] = field(default_factory=list)

    def take(self, client: int, lease: Lease) -> None:
        with self.lock:
            assert lease.host not in self.holders, "a host is with two"
            self.holders[lease.host] = client

    def begin(self, visit: Visit) -> None:
        with self.lock:
            assert site_of(visit.url) not in self.out, "a site has two pages out"
            self.out.add(site_of(visit.url))

    def end(self, visit: Visit) -> None:
        with self.lock:
            site = site_of(visit.url)
            self.visits[site].append(visit.url)
            self.waiting[site] = sum(site_of(url) == site for url in self.known) - len(self.visits[site])
            self.out.remove(site)

    def count(self, targets: list[str]) -> list[UrlWeight]:
        with self.lock:
            self.offered.update(targets)
            self.in_links.update(targets)
            found = [(offer(target), self.in_links[target]) for target in targets]
        return [UrlWeight(one.host, one.id, count) for one, count in found]


class Client:
    """One worker: it visits, tells what it found, and goes on while there is anything to do."""

    def __init__(self, number: int, frontier: PostgresFrontier, log: Log) -> None:
        self.number, self.frontier, self.log = number, frontier, log
        self.rng = random.Random(number)

    async def live(self, collection: int) -> None:
        worker = (await self.frontier.join(f"w{self.number}", current_process())).worker
        leases: list[Lease] = []
        while leases or not await self._is_over():
            await self.frontier.renew(worker, "")
            leases = await self.frontier.lease(worker, self.rng.randint(1, 6))
            for lease in leases:
                self.log.take(self.number, lease)
            for lease in leases:
                await self._walk(worker, collection, lease)
        await self.frontier.leave(worker)

    async def _is_over(self) -> bool:
        (status,) = (await self.frontier.overview()).collections  # not of one moment: the others go on
        return not status.pending and not status.handed_out

    async def _walk(self, worker: int, collection: int, lease: Lease) -> None:
        visits = list(lease.visits)
        while visits:
            (visit,) = visits
            self.log.begin(visit)
            found = links(visit.url)
            weights = self.log.count(found)
            await self.frontier.discover(collection, [offer(link, 1) for link in found])
            self.log.known.update(found)
            await self.frontier.update_weights("c", weights)
            keep = self.rng.random() < 0.6
            self.log.end(visit)
            if not keep:
                self.log.holders.pop(lease.host)
            report = done(lease, visits, outcome_of(visit.url), delay_s=0.0, keep=keep)
            (answer,) = await self.frontier.finish(worker, [report])
            visits = list(answer.visits)
            if keep and not answer.is_leased:
                self.log.holders.pop(lease.host)


def opened(dsns: list[str]) -> PostgresFrontier:
    """With clocks that stand nearly still: a slow machine loses nobody's lease."""
    return PostgresFrontier(dsns, SUFFIXES, FalseClock(0, 0), FalseDatabaseLeaseClock(), keeps_links=True)


def deadlocks(dsn: str) -> int:
    with psycopg.connect(dsn) as connection:
        row = connection.execute("SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()").fetchone()
        assert row is not None
        return int(row[0])


def assert_walked_as_promised(log: Log) -> None:
    """Each site once, as far as its pages lead elsewhere."""
    for site, urls in log.visits.items():
        assert len(urls) == len(set(urls)), f"{site}: a page was visited twice"
        pages = [url for url in urls if outcome_of(url).kept]
        vain = len(urls) - len(pages)
        assert vain <= FRUITLESS_VISITS_MAX
        led_on = [continues_walk(number, outcome_of(url).external) for number, url in enumerate(pages, 1)]
        assert all(led_on[:-1]), f"{site}: it went on too far: {urls}"
        if pages and not led_on[-1]:
            assert urls[-1] == pages[-1], f"{site}: it went on after its last page: {urls}"
        elif log.waiting[site]:
            assert vain == FRUITLESS_VISITS_MAX, f"{site}: it ended too early: {urls}"


def run(dsns: list[str], folder: Path, log: Log) -> None:
    """All clients in threads of their own, each with connections of its own."""

    def live(number: int) -> None:
        async def main() -> None:
            frontier = opened(dsns)
            try:
                await Client(number, frontier, log).live((await frontier.collections())[0].id)
            finally:
                await frontier.close()

        try:
            asyncio.run(asyncio.wait_for(main(), 300))
        except BaseException as error:
            log.trouble.append(error)

    threads = [threading.Thread(target=live, args=(number,)) for number in range(CLIENTS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


@pytest.mark.parametrize("servers", [1, pytest.param(2, marks=pytest.mark.long)])
def test_eight_clients_walk_every_site_once_and_lose_nothing(tmp_path, servers):
    FalseClock.shift[0] = 0.0
    dsns, roots = [a_server(number).database("walks") for number in range(servers)], URLS[::7]
    log = Log(known=set(roots))
    content = a_collection(
        politeness={"delay": 0}, strategy={"order": "breadth", "table_max": TABLE_MAX, "cycle": CYCLE}
    )

    async def begin() -> None:
        frontier = opened(dsns)
        await frontier.open_collection(content, [offer(url) for url in roots])
        await frontier.close()

    async def end() -> None:
        frontier = opened(dsns)
        status, known = await numbers(frontier), log.offered | set(roots)
        visited = {url for urls in log.visits.values() for url in urls}
        sites = {site_of(url) for url in known}
        assert status.known == len(known), "nothing is lost"
        assert (status.fetched, status.handed_out) == (sum(outcome_of(url).kept for url in visited), 0)
        assert (status.pending, status.passed_over) == (0, len(known - visited))
        assert (status.sites_chosen, status.table) == (len(sites), 0), "each is chosen once, and never again"
        assert set(log.visits) == sites
        assert_walked_as_promised(log)
        await frontier.close()

    asyncio.run(begin())
    run(dsns, tmp_path, log)
    assert log.trouble == []
    asyncio.run(end())
    for number, dsn in enumerate(dsns):
        assert deadlocks(dsn) == 0
        store = copied(dsn, tmp_path / f"{number}.sqlite")
        assert broken(store) == {}
        store.db.connection.close()
