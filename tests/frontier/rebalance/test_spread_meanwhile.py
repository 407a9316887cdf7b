"""Sites move to another server while everybody works, and nobody notices but by its notes."""

import asyncio
import random
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psycopg
import pytest

from tarrafa.frontier.api import PlannedVisit, UrlWeight
from tarrafa.frontier.postgres.postgres_frontier import PostgresFrontier
from tarrafa.frontier.postgres.rebalance.spreading import Done, Spread, Stopped
from tarrafa.model import Outcome, UrlState
from tarrafa.runtime.process import current_process
from tests.contract.frontier_bodies import SUFFIXES, a_collection, done, numbers, offer
from tests.contract.postgres_process import WHY_NOT, Postgres, a_server, programs
from tests.frontier.rebalance.spreading import (
    STEPS,
    Bystander,
    ask,
    assert_in_order,
    found,
    kept,
    leased,
    opened,
    report,
    spread,
)

pytestmark = [pytest.mark.skipif(programs() is None, reason=WHY_NOT), pytest.mark.long]


@pytest.fixture
def dsns():
    """Databases of one server: for what has nothing to do with servers that go away."""
    return [a_server().database(f"spread{number}") for number in range(3)]


@dataclass
class Crowd:
    """Clients of one frontier, and what they know of each other: who has which host, which visits there were."""

    dsns: list[str]
    folder: Path
    hosts: int = 30
    urls: int = 200
    holders: dict[int, str] = field(default_factory=dict)
    visits: Counter[tuple[str, int]] = field(default_factory=Counter)
    known: set[str] = field(default_factory=set)
    over: bool = False
    finished: int = 0

    async def work(self, name: str) -> None:
        """Find links, lease, finish; until nothing is left and nobody moves anything any more."""
        rng, frontier = random.Random(name), opened(self.dsns[:1], self.folder, name)
        (row,) = await frontier.collections()
        worker = (await frontier.join(name, current_process())).worker
        idle = 0
        while idle < 5:
            await frontier.renew(worker, "")
            leases = await frontier.lease(worker, rng.randint(1, 8))
            idle = idle + 1 if self.over and not leases else 0
            await self._find(frontier, row.id, rng)
            for lease in leases:
                assert self.holders.setdefault(lease.host, name) == name, "a host is with two"
                self.visits.update((visit.url, visit.number) for visit in lease.visits)
                assert await frontier.claim_address(worker, lease.host, f"192.0.2.{lease.host % 200}") >= 0.0
            await self._finish(frontier, worker, leases, rng)
            await asyncio.sleep(0.0 if leases else 0.02)
        await frontier.leave(worker)
        await frontier.close()

    async def _find(self, frontier: PostgresFrontier, number: int, rng: random.Random) -> None:
        links = [f"http://h{n % self.hosts}.br/{n}" for n in rng.sample(range(self.urls), 20)]
        self.known.update(links)
        offers = [offer(link, rng.randint(1, 4)) for link in links]
        await frontier.discover(number, offers)
        weights = [UrlWeight(one.host, one.id, 7, -1, rng.choice(["", one.host_key])) for one in offers]
        await frontier.update_weights("c", weights)

    async def _finish(self, frontier: PostgresFrontier, worker: int, leases: list[Any], rng: random.Random) -> None:
        now = time.time()
        outcome = Outcome(200, now, kept=True, type="text/html", content_id="c")
        held = {lease.host: (lease, lease.visits) for lease in leases}
        while held:
            batch = []
            for lease, visits in held.values():
                keep = rng.random() < 0.5
                if not keep:
                    del self.holders[lease.host]  # from the question on somebody else may have it
                made = visits[: rng.randint(1, 8)] if not keep else visits
                self.finished += len(made)
                batch.append(done(lease, made, outcome, next_at=now, ended_at=now, delay_s=0.0, keep=keep))
            answers = await frontier.finish(worker, batch)
            held_now = {}
            for told, answer in zip(batch, answers, strict=True):
                assert told.keep or not answer.held
                if answer.held:
                    self.visits.update((visit.url, visit.number) for visit in answer.visits)
                    held_now[told.host] = (held[told.host][0], answer.visits)
                elif told.keep:
                    self.holders.pop(told.host, None)
            held = held_now


def test_four_clients_work_on_while_half_of_the_sites_move(dsns, tmp_path):
    found(dsns, tmp_path, hosts=30, urls=1)
    crowd = Crowd(dsns, tmp_path)

    async def scene() -> Done:
        clients = [asyncio.create_task(crowd.work(f"w{number}")) for number in range(4)]
        while crowd.finished < 30 and not any(one.done() for one in clients):
            await asyncio.sleep(0.01)
        moved = await asyncio.to_thread(spread, dsns[:2], group_weight_min=200)
        crowd.over = True
        await asyncio.gather(*clients)
        return moved

    moved = asyncio.run(asyncio.wait_for(scene(), 120))
    assert (moved.buckets, moved.stayed) == (2048, 0)
    known = crowd.known | {f"http://h{host}.br/0" for host in range(30)}
    assert_in_order(dsns[:2], tmp_path, known)
    assert max(crowd.visits.values()) == 1, "a visit's number is never given twice"

    async def look() -> None:
        frontier = opened(dsns[:1], tmp_path)
        status = await numbers(frontier)
        assert (status.known, status.fetched, status.pending, status.handed_out) == (len(known), len(known), 0, 0)
        assert status.hosts == 30
        assert status.statuses == {"200": status.visits}
        await frontier.close()

    asyncio.run(look())
    states = [ask(dsn, f"SELECT count(*) FROM url WHERE state != {int(UrlState.FETCHED)}") for dsn in dsns[:2]]
    assert states == [[(0,)], [(0,)]]
    weights = [row for dsn in dsns[:2] for row in ask(dsn, "SELECT url FROM url WHERE in_links != 7")]
    assert len(weights) == len(known - crowd.known), "whoever was weighed keeps its weight"


def test_what_comes_for_sites_on_their_way_is_not_lost_and_nothing_of_them_is_handed_out(dsns, tmp_path):
    known = found(dsns, tmp_path, hosts=20, urls=2)
    who = Bystander(dsns, tmp_path)
    names = iter(f"http://new{number}.br/" for number in range(10_000))
    told: list[str] = []

    def tell(step: str, size: int) -> None:
        """One link to a host that is known, one to a new one, one root, of sites that move; and hosts are asked for."""
        if step in ("waiting", "begun", "settled", "adopted"):
            return
        told.append(step)
        root, new = (next(url for url in names if who.moves(url)) for _ in range(2))
        old = next(f"{url}{step}" for url in sorted(known) if who.moves(url))
        who.run(who.frontier.discover(who.row.id, [offer(old, 3), offer(new, 3)]))
        who.run(who.frontier.open_collection(who.row.config, [offer(root)]))
        known.update((old, new, root))
        pending = who.run(numbers(who.frontier)).pending
        assert pending == len(known) or step == "taken", "what was put aside waits, too"
        assert pending >= len(known), "for a moment both servers count it, but never neither"
        one = offer(old)
        if step in ("withheld", "closed"):
            assert not who.run(who.frontier.borrow_host(who.worker, who.row.id, one.host, one.host_key)).granted
            leases = who.run(who.frontier.lease(who.worker, 100))
            assert leases
            assert not any(who.moves(lease.visits[0].url) for lease in leases)
            who.run(who.frontier.finish(who.worker, [done(lease, [], delay_s=0.0, keep=False) for lease in leases]))
        known_there = who.run(who.frontier.look_up(one.host, one.id)).urls != []
        assert known_there == (step not in ("closed", "taken", "uncounted")), "else it is put aside"

    moved = spread(dsns[:2], tell)
    assert moved.buckets == 2048
    assert set(told) == {*STEPS, "moved"} - {"begun", "settled", "adopted"}
    assert who.run(numbers(who.frontier)).known == len(known)
    who.run(who.frontier.leave(who.worker))
    who.close()
    assert_in_order(dsns[:2], tmp_path, known)


def test_whoever_holds_a_host_brings_home_what_it_has_before_its_site_goes(dsns, tmp_path):
    known = found(dsns, tmp_path, hosts=8, urls=12)
    who = Bystander(dsns, tmp_path)
    leases = [lease for lease in who.run(who.frontier.lease(who.worker, 100)) if who.moves(lease.visits[0].url)]
    assert len(leases) > 1
    made: list[str] = []

    def tell(step: str, size: int) -> None:
        made.append(step)
        if step != "waiting":
            return
        assert size == len(leases)
        assert not made.count("closed"), "nothing is copied before everybody is home"
        lease = leases.pop()
        half, rest = lease.visits[:3], lease.visits[3:]
        now = time.time()
        outcome = Outcome(200, now, kept=True, type="text/html")
        settings = {"next_at": now, "ended_at": now, "delay_s": 0.0}
        (answer,) = who.run(who.frontier.finish(who.worker, [done(lease, half, outcome, **settings)]))
        assert (answer.held, answer.visits) == (True, []), "it has more in hand, but gets no more"
        (answer,) = who.run(who.frontier.finish(who.worker, [done(lease, rest, outcome, **settings)]))
        assert (answer.held, answer.visits) == (False, [])

    count = len(leases)
    spread(dsns[:2], tell)
    assert made.count("waiting") >= count
    assert who.run(numbers(who.frontier)).fetched == 8 * count
    who.run(who.frontier.leave(who.worker))
    who.close()
    assert_in_order(dsns[:2], tmp_path, known)


def test_sites_whose_hosts_are_visited_for_too_long_stay_and_the_others_go(dsns, tmp_path, monkeypatch):
    known = found(dsns, tmp_path, hosts=12, urls=2)
    who = Bystander(dsns, tmp_path)
    held = leased(who, lambda lease: who.moves(lease.visits[0].url))
    monkeypatch.setattr("tarrafa.frontier.postgres.rebalance.spreading.HOME_S_MAX", 0.0)
    moved = spread(dsns[:2])
    assert (moved.buckets, moved.stayed) == (2047, 1)
    report(who, [held], 2)
    assert spread(dsns[:2]).buckets == 1
    assert who.run(numbers(who.frontier)).fetched == 2
    who.run(who.frontier.leave(who.worker))
    who.close()
    assert_in_order(dsns[:2], tmp_path, known)


def test_the_hosts_of_a_worker_that_is_gone_move_when_its_lease_is_over(dsns, tmp_path, monkeypatch):
    known = found(dsns, tmp_path, hosts=8, urls=2)

    async def vanish() -> None:
        frontier = opened(dsns[:1], tmp_path, "gone")
        worker = (await frontier.join("gone", current_process())).worker
        assert len(await frontier.lease(worker, 100)) == 8
        await frontier.close()

    asyncio.run(vanish())
    with psycopg.connect(dsns[0]) as connection:
        connection.execute("UPDATE worker SET deadline = 0")
    assert spread(dsns[:2]).stayed == 0
    assert_in_order(dsns[:2], tmp_path, known)
    for dsn in dsns[:2]:
        rests = ask(dsn, "SELECT min(next_at) - extract(epoch FROM clock_timestamp())::float8 FROM host")
        assert rests[0][0] > 500, "its last request may still be out: the host rests, wherever it is"


def test_who_is_asked_to_stop_leaves_everything_in_order(dsns, tmp_path):
    known = found(dsns, tmp_path, hosts=8, urls=2)
    who = Bystander(dsns, tmp_path)
    assert who.run(who.frontier.lease(who.worker, 100))
    with Spread(dsns[:2], SUFFIXES) as moving:

        def tell(step: str, size: int) -> None:
            moving.stopping = moving.stopping or step == "waiting"

        moving._tell = tell
        with pytest.raises(Stopped):
            moving.run()
        assert moving.done().buckets == 0
    who.run(who.frontier.leave(who.worker))
    who.close()
    assert_in_order(dsns[:2], tmp_path, known)
    assert spread(dsns[:2]).buckets == 2048


def test_an_address_that_was_taken_from_one_server_is_taken_when_there_are_two(dsns, tmp_path):
    found(dsns, tmp_path, hosts=12, urls=2)
    who = Bystander(dsns, tmp_path)
    here = leased(who, lambda lease: not who.moves(lease.visits[0].url))
    assert who.run(who.frontier.claim_address(who.worker, here.host, "192.0.2.1")) == 0.0
    spread(dsns[:2])
    there = leased(who, lambda lease: who.moves(lease.visits[0].url))
    assert who.frontier._home[there.host] is who.frontier._shards[1]
    assert who.run(who.frontier.claim_address(who.worker, there.host, "192.0.2.1")) > 0.0, "it is with another host"
    report(who, [here], 1)
    assert who.run(who.frontier.claim_address(who.worker, there.host, "192.0.2.1")) == 0.0
    spread(dsns[:1], lambda step, size: report(who, [there], 1) if step == "withheld" else None, remove=True)
    for host in (here.host, there.host):
        again = leased(who, lambda lease: lease.host == host)  # noqa: B023
        assert who.run(who.frontier.claim_address(who.worker, again.host, "192.0.2.1")) == 0.0, "nobody has it for ever"
        report(who, [again], 0)
    who.close()


def test_a_limit_holds_across_the_move(dsns, tmp_path):
    async def begin() -> None:
        frontier = opened(dsns[:1], tmp_path)
        scope = {"hosts": ["*"], "pages_max": 9}
        row = await frontier.open_collection(a_collection(politeness={"delay": 0}, scope=scope))
        await frontier.discover(row.id, [offer(f"http://h{n}.br/{m}") for n in range(12) for m in range(2)])
        await frontier.close()

    asyncio.run(begin())
    who = Bystander(dsns, tmp_path)
    report(who, who.run(who.frontier.lease(who.worker, 5)), 1)
    spread(dsns[:2])
    assert who.run(numbers(who.frontier)).fetched == 5
    for _ in range(5):
        who.frontier._maintained_at = 0.0
        who.run(who.frontier.renew(who.worker, ""))
        report(who, who.run(who.frontier.lease(who.worker, 100)), 8)
    assert who.run(numbers(who.frontier)).fetched == 9
    assert all(ask(dsn, "SELECT count(*) FROM url WHERE state = 2") != [(0,)] for dsn in dsns[:2])
    who.close()


def test_plans_that_are_made_while_sites_are_on_their_way_hold_where_they_arrive(dsns, tmp_path):
    known = found(dsns, tmp_path, hosts=12, urls=3, revisit={"policy": "psp"})
    who = Bystander(dsns, tmp_path)
    kept(who)
    moving = [offer(url) for url in sorted(known) if who.moves(url)]
    planned: dict[int, float] = {}

    def tell(step: str, size: int) -> None:
        if step in ("waiting", "begun", "settled", "adopted", "enlarged"):
            return
        number = 1_000 + len(planned)
        planned[number] = time.time() + 5_000 + len(planned)
        visits = [PlannedVisit(one.host, one.id, planned[number]) for one in moving]
        who.run(who.frontier.add_planned_visits(who.row.id, number, visits))

    spread(dsns[:2], tell)
    for number, at in planned.items():
        rows = ask(dsns[1], f"SELECT host, id FROM due WHERE shelf = {number} AND key = {at}")
        assert {(host, bytes(url)) for host, url in rows} == {(one.host, one.id) for one in moving}, number
    who.run(who.frontier.leave(who.worker))
    who.close()
    assert_in_order(dsns[:2], tmp_path, known)


@pytest.mark.parametrize("seed", range(4))
def test_a_configuration_that_changes_at_any_step_holds_on_both_servers(dsns, tmp_path, seed):
    rng = random.Random(seed)
    known = found(dsns, tmp_path, hosts=16, urls=4)
    who = Bystander(dsns, tmp_path)
    report(who, who.run(who.frontier.lease(who.worker, 8)), 3)

    def tell(step: str, size: int) -> None:
        settings: dict[str, Any] = {
            "strategy": {"order": rng.choice(["fifo", "lifo", "backlinks", "random"])},
            "scope": {"hosts": ["*"], "depth_max": rng.choice([3, 9]), "pages_max": rng.choice([20, 200])},
            "revisit": {"policy": rng.choice(["never", "index", "uniform"]), "rate": 1000},
        }
        config = a_collection(politeness={"delay": 0}, **settings)
        if rng.random() < 0.7:
            who.run(who.frontier.open_collection(config))

    spread(dsns[:2], tell, group_weight_min=100)
    (row,) = who.run(who.frontier.collections())
    for dsn in dsns[:2]:
        assert ask(dsn, "SELECT config FROM collection") == [(row.config,)]
    who.run(who.frontier.leave(who.worker))
    who.close()
    assert_in_order(dsns[:2], tmp_path, known)


def test_whoever_has_no_password_for_the_new_server_says_so_and_goes_on_when_it_has(dsns, tmp_path, monkeypatch, capfd):
    server = Postgres(password="right")
    try:
        there = server.address().replace("postgres@", "postgres:right@")
        known = found(dsns, tmp_path, hosts=12, urls=2)
        who = Bystander(dsns, tmp_path)
        assert spread([dsns[0], there]).buckets == 2048
        url = next(f"http://new{n}.br/" for n in range(100) if who.moves(f"http://new{n}.br/"))
        for _ in range(2):
            who.run(who.frontier.discover(who.row.id, [offer(url)]))
        overview = who.run(who.frontier.overview())
        assert not overview.whole
        assert "no password supplied" in overview.notes[0]
        assert leased(who, lambda lease: not who.moves(lease.visits[0].url)), "with the first server it goes on"
        said = capfd.readouterr().err
        assert said.count("cannot be used from here") == 1
        assert "PGPASSWORD or ~/.pgpass" in said
        assert "right" not in said
        assert "right" not in str(ask(dsns[0], "SELECT value FROM meta WHERE key = 'addresses'"))
        monkeypatch.setenv("PGPASSWORD", "right")
        who.frontier._shards[1]._away_until = 0.0
        assert leased(who, lambda lease: lease.host == offer(url).host), "what waited was delivered"
        status = who.run(who.frontier.overview())
        assert status.whole
        assert status.collections[0].known == len(known) + 1
        who.close()
    finally:
        server.remove()
