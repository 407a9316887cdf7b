"""What the scenes of spreading are made of: a frontier, somebody who works with it, and how it must be afterwards."""

import asyncio
import random
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psycopg

from tarrafa.frontier.postgres.postgres_frontier import PostgresFrontier
from tarrafa.frontier.postgres.rebalance.spreading import Done, Spread
from tarrafa.frontier.postgres.sharding.shard_map import BUCKETS, even_out
from tarrafa.model import Outcome
from tarrafa.runtime.process import current_process
from tests.contract.frontier_bodies import SUFFIXES, a_collection, done, numbers, offer
from tests.frontier.postgres.test_postgres_frontier import copied
from tests.frontier.store.test_random_operations import broken

STEPS = (
    "begun", "settled", "adopted", "enlarged", "frozen", "withheld", "closed", "taken", "uncounted", "switched",
    "announced", "delivered", "forgotten", "moved",
)  # fmt: skip


def opened(dsns: list[str], folder: Path, name: str = "outbox") -> PostgresFrontier:
    return PostgresFrontier(dsns, SUFFIXES, outbox=folder / f"{name}.sqlite")


def spread(dsns: list[str], tell: Callable[[str, int], None] = lambda step, size: None, **more: Any) -> Done:
    with Spread(dsns, SUFFIXES, tell=tell, **more) as moving:
        return moving.run()


def ask(dsn: str, question: str) -> list[tuple[Any, ...]]:
    with psycopg.connect(dsn) as connection:
        return connection.execute(question.encode()).fetchall()


def found(dsns: list[str], folder: Path, hosts: int = 60, urls: int = 5, **sections: Any) -> set[str]:
    """A frontier on the first of them; what it knows."""
    known = {f"http://h{host}.br/{number}" for host in range(hosts) for number in range(urls)}

    async def scene() -> None:
        frontier = opened(dsns[:1], folder)
        row = await frontier.open_collection(a_collection(politeness={"delay": 0}, **sections))
        await frontier.discover(row.id, [offer(url, 5) for url in sorted(known)])
        await frontier.close()

    asyncio.run(scene())
    return known


def assert_in_order(dsns: list[str], folder: Path, known: set[str]) -> None:
    """Each host is on one server, the one that the atlas names; nothing is missing; the books agree."""
    stores = [copied(dsn, folder / f"end{random.random()}.sqlite") for dsn in dsns]
    for store in stores:
        assert broken(store) == {}
        assert store.db.rows("SELECT key FROM host WHERE worker IS NOT NULL") == []
    hosts = [{key for (key,) in store.db.rows("SELECT key FROM host")} for store in stores]
    assert sum(map(len, hosts)) == len(set().union(*hosts)), "no host is on two servers"
    urls = Counter(url for store in stores for (url,) in store.db.rows("SELECT url FROM url"))
    assert set(urls) == known, "all that was found is known"
    assert max(urls.values()) == 1, "once"
    for dsn in dsns:
        assert ask(dsn, "SELECT * FROM moving") == ask(dsn, "SELECT id FROM parcel") == []
    frontier = opened(dsns[:1], folder, "look")
    assert len(frontier._shards) == len(dsns)
    for dsn, some in zip(dsns, hosts, strict=True):
        ((place,),) = ask(dsn, "SELECT value FROM meta WHERE key = 'id'")
        assert all(frontier._shard_of(key).place == place for key in some)
    asyncio.run(frontier.close())


@dataclass
class Bystander:
    """Somebody whose atlas is as old as can be, in a loop of its own."""

    dsns: list[str]
    folder: Path
    runner: asyncio.Runner = field(default_factory=asyncio.Runner)

    def __post_init__(self) -> None:
        self.frontier = opened(self.dsns[:1], self.folder, "bystander")
        (self.row,) = self.run(self.frontier.collections())
        self.worker = self.run(self.frontier.join("bystander", current_process())).worker

    def run(self, question: Any) -> Any:
        return self.runner.run(question)

    def close(self) -> None:
        self.run(self.frontier.close())
        self.runner.close()

    def moves(self, url: str) -> bool:
        """Whether its site is to go to the second server."""
        guide = self.frontier._roster.guide
        assert guide is not None
        return even_out([0] * BUCKETS, 2)[guide.bucket_of(offer(url).host_key)] == 1


def leased(who: Bystander, is_wanted: Callable[[Any], bool]) -> Any:
    """One lease of that kind; the others go back."""
    while True:
        who.frontier._maintained_at = 0.0
        who.run(who.frontier.renew(who.worker, ""))
        leases = who.run(who.frontier.lease(who.worker, 100))
        wanted = next((lease for lease in leases if is_wanted(lease)), None)
        report(who, [lease for lease in leases if lease is not wanted], 0)
        if wanted is not None:
            return wanted


def report(who: Bystander, leases: list[Any], visits: int) -> None:
    now = time.time()
    outcome = Outcome(200, now, kept=True, type="text/html")
    batch = [
        done(lease, lease.visits[:visits], outcome, next_at=now, ended_at=now, delay_s=0.0, keep=False)
        for lease in leases
    ]
    who.run(who.frontier.finish(who.worker, batch))


def kept(who: Bystander) -> None:
    """Everything is fetched, on all servers."""
    while who.run(numbers(who.frontier)).pending:
        who.frontier._maintained_at = 0.0
        who.run(who.frontier.renew(who.worker, ""))
        report(who, who.run(who.frontier.lease(who.worker, 100)), 8)
