"""Sites move to another server while everybody works, whoever is killed in between."""

import asyncio
import contextlib
import random
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec
import psycopg
import pytest
from typer.testing import CliRunner

from tarrafa.cli.commands import app
from tarrafa.errors import ConfigError, DataError, FrontierError, Locked, Unreachable
from tarrafa.frontier.protocol import PlannedVisit, Weight
from tarrafa.frontier.store.postgres.buckets import BUCKETS, even_out
from tarrafa.frontier.store.postgres.buckets import spread as spread_evenly
from tarrafa.frontier.store.postgres.cluster import PostgresFrontier
from tarrafa.frontier.store.postgres.schema import SCHEMA_VERSION
from tarrafa.frontier.store.postgres.spreading import Done, Spread, Stopped
from tarrafa.model import Outcome, UrlState
from tarrafa.process import myself
from tests.contract.bodies import SUFFIXES, a_collection, done, numbers, offer
from tests.contract.postgres import WHY_NOT, Postgres, a_server, programs
from tests.frontier.test_cluster import copied
from tests.frontier.test_random_life import broken
from tests.frontier.test_spread_books import everything

pytestmark = pytest.mark.skipif(programs() is None, reason=WHY_NOT)
STEPS = (
    "begun", "settled", "adopted", "enlarged", "frozen", "withheld", "closed", "taken", "uncounted", "switched",
    "announced", "delivered", "forgotten", "moved",
)  # fmt: skip


class Crash(BaseException):
    """As if somebody pulled the plug."""


@pytest.fixture
def dsns():
    """Databases of one server: for what has nothing to do with servers that go away."""
    return [a_server().database(f"spread{number}") for number in range(3)]


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
    assert len(frontier._members) == len(dsns)
    for dsn, some in zip(dsns, hosts, strict=True):
        ((place,),) = ask(dsn, "SELECT value FROM meta WHERE key = 'id'")
        assert all(frontier._member_of(key).place == place for key in some)
    asyncio.run(frontier.close())


def free_hosts(dsn: str) -> set[int]:
    """Those that a worker could be given."""
    there = ask(dsn, "SELECT to_regclass('host')::text")
    return {host for (host,) in ask(dsn, "SELECT id FROM host WHERE worker IS NULL")} if there != [(None,)] else set()


# -- pure -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("before", "count", "leaving", "moved", "after"),
    [
        (spread_evenly(1), 2, (), 2048, [2048, 2048]),
        (spread_evenly(1), 3, (), 2730, [1366, 1365, 1365]),
        (spread_evenly(2), 3, (), 1365, [1366, 1365, 1365]),
        (spread_evenly(3), 3, (), 0, [1366, 1365, 1365]),
        (spread_evenly(3), 3, (1,), 1365, [2048, 0, 2048]),
        (spread_evenly(2), 2, (1,), 2048, [4096, 0]),
        (spread_evenly(2), 3, (1,), 2048, [2048, 0, 2048]),
        ([0] * 4000 + [1] * 96, 2, (), 1952, [2048, 2048]),
    ],
)
def test_buckets_are_evened_out_with_the_fewest_moves(before, count, leaving, moved, after):
    mapping = even_out(before, count, frozenset(leaving))
    assert len(mapping) == BUCKETS
    assert [mapping.count(server) for server in range(count)] == after
    assert sum(one != other for one, other in zip(before, mapping, strict=True)) == moved


# -- at rest --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("steps", "weight"), [(("taken",), 250), pytest.param(STEPS, 60, marks=pytest.mark.long)])
def test_whoever_is_killed_after_any_step_leaves_what_another_run_brings_to_its_end(dsns, tmp_path, steps, weight):
    known = found(dsns, tmp_path)
    before = everything([copied(dsns[0], tmp_path / "before.sqlite")])
    made: list[str] = []
    for step in (*steps, None):

        def tell(one: str, size: int, step: str | None = step) -> None:
            made.append(one)
            if one == step:
                raise Crash

        with contextlib.suppress(Crash):
            spread(dsns[:2], tell, group_weight_min=weight)
        free = [free_hosts(dsn) for dsn in dsns[:2]]
        assert not free[0] & free[1], f"after {step} a host could be given out by two servers"
    assert set(made) >= set(STEPS)
    assert everything([copied(dsn, tmp_path / f"after{n}.sqlite") for n, dsn in enumerate(dsns[:2])]) == before
    assert_in_order(dsns[:2], tmp_path, known)
    assert spread(dsns[:2]).buckets == 0


def test_the_command_says_what_it_would_do_does_it_and_has_nothing_left_to_do(dsns, tmp_path):
    def say(*more: str) -> Any:
        words = [word for dsn in dsns[:2] for word in ("--frontier", dsn)]
        result = CliRunner().invoke(app, ["frontier", "spread", *words, "--json", *more], catch_exceptions=False)
        assert result.exit_code == 0
        return msgspec.json.decode(result.stdout)

    known = found(dsns, tmp_path, hosts=8, urls=2)
    plan = say("--dry-run")
    assert [(one["buckets"], one["hosts"] > 0) for one in plan["moves"]] == [(2048, True)]
    assert [(one["before"], one["after"]) for one in plan["servers"]] == [(4096, 2048), (0, 2048)]
    assert ask(dsns[1], "SELECT to_regclass('meta')::text") == [(None,)], "nothing was touched"
    done = say()
    assert done["finished"]
    assert (done["buckets"], done["hosts"], done["urls"]) == (2048, plan["moves"][0]["hosts"], 2 * done["hosts"])
    assert say()["moves"] == []
    assert_in_order(dsns[:2], tmp_path, known)


@pytest.mark.parametrize("address", [[], ["tcp://127.0.0.1:8070"], ["unix:data/run/frontier.sock"]])
def test_only_a_frontier_on_postgresql_can_be_spread(address, monkeypatch):
    monkeypatch.delenv("TARRAFA_FRONTIER", raising=False)
    words = [word for one in address for word in ("--frontier", one)]
    with pytest.raises(ConfigError, match="only a frontier on PostgreSQL is spread over servers; name them all"):
        CliRunner().invoke(app, ["frontier", "spread", *words], catch_exceptions=False)


# -- while everybody works ------------------------------------------------------------------------------------


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
        worker = (await frontier.join(name, myself())).worker
        idle = 0
        while idle < 5:
            await frontier.renew(worker, "")
            leases = await frontier.lease(worker, rng.randint(1, 8))
            idle = idle + 1 if self.over and not leases else 0
            await self._find(frontier, row.id, rng)
            for lease in leases:
                assert self.holders.setdefault(lease.host, name) == name, "a host is with two"
                self.visits.update((visit.url, visit.number) for visit in lease.visits)
                assert await frontier.claim(worker, lease.host, f"192.0.2.{lease.host % 200}") >= 0.0
            await self._finish(frontier, worker, leases, rng)
            await asyncio.sleep(0.0 if leases else 0.02)
        await frontier.leave(worker)
        await frontier.close()

    async def _find(self, frontier: PostgresFrontier, number: int, rng: random.Random) -> None:
        links = [f"http://h{n % self.hosts}.br/{n}" for n in rng.sample(range(self.urls), 20)]
        self.known.update(links)
        offers = [offer(link, rng.randint(1, 4)) for link in links]
        await frontier.discover(number, offers)
        weights = [Weight(one.host, one.id, 7, -1, rng.choice(["", one.host_key])) for one in offers]
        await frontier.weigh("c", weights)

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
            for report, answer in zip(batch, answers, strict=True):
                assert report.keep or not answer.held
                if answer.held:
                    self.visits.update((visit.url, visit.number) for visit in answer.visits)
                    held_now[report.host] = (held[report.host][0], answer.visits)
                elif report.keep:
                    self.holders.pop(report.host, None)
            held = held_now


@pytest.mark.long
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


@dataclass
class Bystander:
    """Somebody whose atlas is as old as can be, in a loop of its own."""

    dsns: list[str]
    folder: Path
    runner: asyncio.Runner = field(default_factory=asyncio.Runner)

    def __post_init__(self) -> None:
        self.frontier = opened(self.dsns[:1], self.folder, "bystander")
        (self.row,) = self.run(self.frontier.collections())
        self.worker = self.run(self.frontier.join("bystander", myself())).worker

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
            assert not who.run(who.frontier.borrow(who.worker, who.row.id, one.host, one.host_key)).granted
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


@pytest.mark.long
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


@pytest.mark.long
def test_the_hosts_of_a_worker_that_is_gone_move_when_its_lease_is_over(dsns, tmp_path, monkeypatch):
    known = found(dsns, tmp_path, hosts=8, urls=2)

    async def vanish() -> None:
        frontier = opened(dsns[:1], tmp_path, "gone")
        worker = (await frontier.join("gone", myself())).worker
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


@pytest.mark.long
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


@pytest.mark.long
def test_an_address_that_was_taken_from_one_server_is_taken_when_there_are_two(dsns, tmp_path):
    found(dsns, tmp_path, hosts=12, urls=2)
    who = Bystander(dsns, tmp_path)
    here = leased(who, lambda lease: not who.moves(lease.visits[0].url))
    assert who.run(who.frontier.claim(who.worker, here.host, "192.0.2.1")) == 0.0
    spread(dsns[:2])
    there = leased(who, lambda lease: who.moves(lease.visits[0].url))
    assert who.frontier._home[there.host] is who.frontier._members[1]
    assert who.run(who.frontier.claim(who.worker, there.host, "192.0.2.1")) > 0.0, "it is with another host"
    report(who, [here], 1)
    assert who.run(who.frontier.claim(who.worker, there.host, "192.0.2.1")) == 0.0
    spread(dsns[:1], lambda step, size: report(who, [there], 1) if step == "withheld" else None, remove=True)
    for host in (here.host, there.host):
        again = leased(who, lambda lease: lease.host == host)  # noqa: B023
        assert who.run(who.frontier.claim(who.worker, again.host, "192.0.2.1")) == 0.0, "nobody has it for ever"
        report(who, [again], 0)
    who.close()


@pytest.mark.long
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


def kept(who: Bystander) -> None:
    """Everything is fetched."""
    while True:
        who.run(who.frontier.renew(who.worker, ""))
        leases = who.run(who.frontier.lease(who.worker, 100))
        report(who, leases, 8)
        if not leases:
            return


@pytest.mark.long
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
        who.run(who.frontier.plan(who.row.id, number, visits))

    spread(dsns[:2], tell)
    for number, at in planned.items():
        rows = ask(dsns[1], f"SELECT host, id FROM due WHERE shelf = {number} AND key = {at}")
        assert {(host, bytes(url)) for host, url in rows} == {(one.host, one.id) for one in moving}, number
    who.run(who.frontier.leave(who.worker))
    who.close()
    assert_in_order(dsns[:2], tmp_path, known)


@pytest.mark.long
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


# -- what is refused ------------------------------------------------------------------------------------------


def test_a_second_mover_is_refused_and_one_that_lost_its_turn_can_do_nothing(dsns, tmp_path, monkeypatch):
    known = found(dsns, tmp_path, hosts=8, urls=2)
    monkeypatch.setattr("tarrafa.frontier.store.postgres.spreading.LOCK_S", 0.0)
    with Spread(dsns[:2], SUFFIXES) as first:

        def tell(step: str, size: int) -> None:
            if step == "frozen":
                with pytest.raises(Locked, match="another `tarrafa frontier spread` is at work"):
                    spread(dsns[:2])
            if step == "closed":  # its connection breaks: nobody holds the turn, and another one begins
                first._first.close()
                assert spread(dsns[:2]).buckets == 2048

        first._tell = tell
        with pytest.raises(Locked, match="another `tarrafa frontier spread` has taken over"):
            first.run()
    assert_in_order(dsns[:2], tmp_path, known)


def test_a_server_that_cannot_be_taken_in_is_refused_and_nothing_changes(dsns, tmp_path):
    known = found(dsns, tmp_path, hosts=4, urls=1)
    before = everything([copied(dsns[0], tmp_path / "before.sqlite")])

    async def begin_another() -> None:
        frontier = opened(dsns[1:], tmp_path, "other")
        await frontier.open_collection(a_collection("other"), [offer("http://x.br/")])
        await frontier.close()

    asyncio.run(begin_another())
    strange = a_server().database("strange")
    with psycopg.connect(strange, autocommit=True) as connection:
        connection.execute("CREATE TABLE meta (name TEXT)")
    newer = a_server().database("newer")
    asyncio.run(opened([newer], tmp_path, "newer").close())
    with psycopg.connect(newer, autocommit=True) as connection:
        connection.execute("UPDATE meta SET value = %s WHERE key = 'version'", (str(SCHEMA_VERSION + 1),))
    cases = [
        (dsns[1], ConfigError, "holds a frontier of its own; name an empty database"),
        (dsns[2], ConfigError, "belongs to another frontier"),
        (strange, DataError, "not Tarrafa's"),
        (newer, DataError, f"newer Tarrafa \\(schema {SCHEMA_VERSION + 1}"),
        (dsns[0].replace("127.0.0.1", "localhost"), ConfigError, "named twice"),
        ("postgresql://127.0.0.1:1/x", Unreachable, "no database answers here"),
        (dsns[0].replace("/spread0", "/nowhere"), ConfigError, 'database "nowhere" does not exist'),
    ]
    for dsn, kind, words in cases:
        with pytest.raises(kind, match=words):
            spread([dsns[0], dsn])
    with pytest.raises(ConfigError, match="is not the first of its servers"):
        spread([dsns[2], dsns[0]])
    assert everything([copied(dsns[0], tmp_path / "after.sqlite")]) == before
    assert_in_order(dsns[:1], tmp_path, known)


def test_a_database_of_an_older_schema_or_with_nothing_in_it_is_taken_in(dsns, tmp_path):
    known = found(dsns, tmp_path, hosts=8, urls=1)
    asyncio.run(opened([dsns[1]], tmp_path, "looked").close())  # somebody looked at it: it has tables, and no more
    with psycopg.connect(dsns[1], autocommit=True) as connection:
        connection.execute("DROP TABLE moving, parcel; UPDATE meta SET value = '1' WHERE key = 'version'")
        connection.execute("UPDATE meta SET value = 'com' WHERE key = 'suffix_list'")
    assert spread(dsns[:2]).buckets == 2048
    assert ask(dsns[1], "SELECT value FROM meta WHERE key = 'suffix_list'") == [(SUFFIXES,)]
    assert_in_order(dsns[:2], tmp_path, known)


@pytest.mark.long
def test_a_server_that_is_not_named_is_emptied_only_on_demand(dsns, tmp_path):
    known = found(dsns, tmp_path, hosts=12, urls=3)
    assert spread(dsns).buckets == 2730
    assert_in_order(dsns, tmp_path, known)
    with pytest.raises(ConfigError, match="is not named; --remove empties it"):
        spread([dsns[0], dsns[2]])
    before = everything([copied(dsn, tmp_path / f"b{n}.sqlite") for n, dsn in enumerate(dsns)])
    assert spread([dsns[0], dsns[2]], remove=True).buckets == 1365
    left = [dsns[0], dsns[2]]
    assert everything([copied(dsn, tmp_path / f"a{n}.sqlite") for n, dsn in enumerate(left)]) == before
    assert_in_order(left, tmp_path, known)
    assert spread(dsns).buckets == 1365, "and may come back"
    assert_in_order(dsns, tmp_path, known)


def test_while_a_collection_is_imported_nothing_is_moved(dsns, tmp_path):
    found(dsns, tmp_path, hosts=2, urls=1)
    with psycopg.connect(dsns[0], autocommit=True) as connection:
        connection.execute("UPDATE collection SET state = 'importing'")
    with pytest.raises(FrontierError, match="c: is being imported; finish that first"):
        spread(dsns[:2])


@pytest.mark.long
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
        who.frontier._members[1]._away_until = 0.0
        assert leased(who, lambda lease: lease.host == offer(url).host), "what waited was delivered"
        status = who.run(who.frontier.overview())
        assert status.whole
        assert status.collections[0].known == len(known) + 1
        who.close()
    finally:
        server.remove()
