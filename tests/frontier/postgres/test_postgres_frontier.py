"""Several servers, servers that go away, and many who work at once."""

import asyncio
import contextlib
import multiprocessing
import os
import random
import signal
import time
from pathlib import Path
from typing import Any

import psycopg
import pytest

from tarrafa.clock import Clock
from tarrafa.errors import ConfigError, DataError, FrontierError
from tarrafa.frontier.api import Frontier
from tarrafa.frontier.messages import DiscoveredUrl, Lease, NextVisits, UrlWeight
from tarrafa.frontier.postgres import database_connection
from tarrafa.frontier.postgres.database_session import PostgresTransaction, on_store
from tarrafa.frontier.postgres.postgres_frontier import PostgresFrontier, open_postgres_frontier
from tarrafa.frontier.postgres.schema import SCHEMA_VERSION
from tarrafa.frontier.postgres.sharding.postgres_shard import PostgresServer, ShardUnreachable
from tarrafa.frontier.store.database import open_database
from tarrafa.frontier.store.leases import LeaseClock
from tarrafa.frontier.store.sqlite_frontier import FrontierStore
from tarrafa.model import Outcome
from tarrafa.runtime.process_identity import current_process
from tests.contract.frontier_bodies import SUFFIXES, FalseClock, a_collection, done, numbers, offer
from tests.contract.postgres_process import WHY_NOT, Postgres, a_server, programs
from tests.frontier.store.test_random_operations import broken

pytestmark = pytest.mark.skipif(programs() is None, reason=WHY_NOT)
HOSTS = [f"http://h{number}.br/" for number in range(40)]
SCENE_S = 300.0  # that no scene takes, however busy the machine is


@pytest.fixture(scope="module")
def second():
    """A server that a test may stop."""
    server = Postgres()
    yield server
    server.remove()


@pytest.fixture
def dsns(second):
    FalseClock.shift[0] = 0.0
    return [a_server().database("cluster"), second.database("cluster")]


def opened(dsns: list[str]) -> PostgresFrontier:
    return PostgresFrontier(dsns, SUFFIXES, FalseClock(0, 0), keeps_links=True)


def count(dsn: str, table: str) -> int:
    with psycopg.connect(dsn) as connection:
        row = connection.execute(f"SELECT count(*) FROM {table}".encode()).fetchone()
        assert row is not None
        return int(row[0])


async def test_sites_are_spread_and_each_is_on_one_server(dsns):
    frontier = opened(dsns)
    row = await frontier.open_collection(a_collection(), [offer("http://a.br/")])
    offers = [offer(f"http://{part}.s{n}.br/") for n in range(60) for part in ("www", "blog")]
    await frontier.discover(row.id, offers)
    here, there = count(dsns[0], "url"), count(dsns[1], "url")
    assert here + there == 121
    assert min(here, there) > 30
    for first, other in zip(offers[::2], offers[1::2], strict=True):
        assert await frontier._router.shard_of(first.host_key) is await frontier._router.shard_of(other.host_key)
    assert (await numbers(frontier)).known == 121
    await frontier.close()


async def test_with_a_server_away_the_others_go_on_and_its_links_wait(dsns, second):
    async with asyncio.timeout(SCENE_S):
        frontier = opened(dsns)
        row = await frontier.open_collection(a_collection())
        worker = (await frontier.join("w", current_process())).worker
        await frontier.renew(worker, "")
        second.stop()
        try:
            await frontier.discover(row.id, [offer(url) for url in HOSTS])
            assert (await numbers(frontier)).known == count(dsns[0], "url") > 5
            leases = await frontier.lease(worker, 100)
            assert len(leases) == count(dsns[0], "host")
            answers = await frontier.finish(worker, [done(lease, lease.visits) for lease in leases])
            assert len(answers) == len(leases)
            await frontier.close()
        finally:
            second.start()
        assert count(dsns[0], "outbox") > 0
        frontier = opened(dsns)  # another machine: nothing is left of the one that found the links
        assert not (await frontier.overview()).whole, "nothing is finished while links wait"
        weights = [UrlWeight(url.host, url.id, 7, host_key=url.host_key) for url in map(offer, HOSTS)]
        with pytest.raises(ShardUnreachable):  # they would be ignored: their URLs are not known yet
            await frontier.update_weights(row.name, weights)
        worker = (await frontier.join("w", current_process())).worker
        await frontier.renew(worker, "")
        found: list[Any] = []
        while len(found) + len(leases) < len(HOSTS):
            frontier._maintained_at = 0.0
            found += await frontier.lease(worker, 100)
        status = await numbers(frontier)
        assert (status.known, status.handed_out, status.fetched) == (40, len(found), len(leases))
        assert count(dsns[0], "outbox") == 0
        assert await frontier.update_weights(row.name, weights)
        with psycopg.connect(dsns[1]) as connection:
            assert connection.execute("SELECT DISTINCT in_links FROM url").fetchall() == [(7,)]
        assert (await frontier.overview()).whole
        await frontier.close()


async def all_leased(frontier: PostgresFrontier) -> tuple[int, list[Lease], list[Lease]]:
    """A worker with the hosts of the first server, and those of the second."""
    row = await frontier.open_collection(a_collection())
    await frontier.discover(row.id, [offer(url + path) for url in HOSTS for path in ("", "x")])
    worker = (await frontier.join("w", current_process())).worker
    await frontier.renew(worker, "")
    leases = await frontier.lease(worker, 100)
    there = [lease for lease in leases if frontier._home[lease.host] is not frontier._first]
    assert len(leases) == len(HOSTS) > len(there) > 0
    return worker, [lease for lease in leases if lease not in there], there


async def test_visits_reported_while_their_server_is_away_are_delivered_and_not_made_again(dsns, second):
    """The lease of the worker goes on meanwhile."""
    async with asyncio.timeout(SCENE_S):
        frontier = opened(dsns)
        worker, _, there = await all_leased(frontier)
        kept, *left = there
        second.stop()
        try:
            answers = await frontier.finish(worker, [done(one, one.visits, keep=False) for one in left])
            assert not any(answer.is_leased for answer in answers)
            (answer,) = await frontier.finish(worker, [done(kept, kept.visits[:1])])
            assert answer == NextVisits(True, []), "it goes on with the visit that it has"
        finally:
            second.start()
        frontier._shards[1]._away_until = 0.0
        await frontier.renew(worker, "")
        assert await frontier.lease(worker, 100) == [], "nothing is left of them"
        assert (await numbers(frontier)).fetched == 2 * len(left)
        (answer,) = await frontier.finish(worker, [done(kept, kept.visits[1:])])
        assert not answer.is_leased, "it has none left"
        status = await numbers(frontier)
        assert (status.fetched, status.pending) == (2 * len(there), 0)
        assert status.handed_out == 2 * (len(HOSTS) - len(there))
        await frontier.close()


async def test_while_a_server_hangs_the_others_go_on(dsns, second, monkeypatch):
    """Its connections stay, and are silent: a stopped process, a machine that hangs."""
    monkeypatch.setattr(database_connection, "SILENCE_S", 1)
    async with asyncio.timeout(SCENE_S):
        frontier = opened(dsns)
        worker, here, there = await all_leased(frontier)
        second.hang()
        try:
            await frontier.finish(worker, [done(lease, lease.visits, keep=False) for lease in there + here])
            assert await frontier.renew(worker, "") > 0
            overview = await frontier.overview()
            assert not overview.whole
            assert "no answer" in str(overview.notes[0])
            assert overview.collections[0].fetched == 2 * len(here)
        finally:
            second.go_on()
        frontier._shards[1]._away_until = 0.0
        assert await frontier.lease(worker, 100) == []
        assert (await numbers(frontier)).fetched == 2 * len(HOSTS)
        await frontier.close()


async def test_a_server_at_work_on_a_long_statement_is_waited_for(dsns, second, monkeypatch):
    monkeypatch.setattr(database_connection, "SILENCE_S", 0)
    frontier = opened(dsns)
    assert await frontier._shards[1].call(lambda server: server.connection.read("SELECT pg_sleep(0.5)")) == [("",)]
    assert not frontier._shards[1].trouble
    await frontier.close()


async def test_hosts_of_a_server_that_is_away_are_tried_again_later(dsns, second):
    """Neither the claim of an address nor a loan ends the worker."""
    async with asyncio.timeout(SCENE_S):
        frontier = opened(dsns)
        worker, _, there = await all_leased(frontier)
        second.stop()
        try:
            now = (await frontier.time()).now
            assert await frontier.claim_address(worker, there[0].host, "192.0.2.1") > now
            loan = await frontier.borrow_host(worker, there[0].collection, there[0].host, there[0].host_key)
            assert not loan.granted
            assert loan.free_at > now
        finally:
            second.start()
        await frontier.close()


async def test_a_collections_limit_holds_while_a_server_is_away(dsns, second):
    async with asyncio.timeout(SCENE_S):
        frontier = opened(dsns)
        row = await frontier.open_collection(a_collection(scope={"hosts": ["*"], "pages_max": 11}))
        await frontier.discover(row.id, [offer(url) for url in HOSTS])
        worker = (await frontier.join("w", current_process())).worker
        await frontier.renew(worker, "")
        leases = await frontier.lease(worker, 4)
        assert len({frontier._home[lease.host] for lease in leases}) == 2
        await frontier.finish(worker, [done(lease, lease.visits, keep=False) for lease in leases])
        second.stop()
        try:
            assert len(await frontier.lease(worker, 100)) == 7, "the pages of the second server still count"
        finally:
            second.start()
        await frontier.close()


async def test_a_transaction_keeps_its_time_of_leases_while_one_of_another_server_runs(dsns):
    """Their clocks may differ by more than a lease."""
    frontier = await open_postgres_frontier(dsns, suffixes=SUFFIXES)
    one, other = frontier._shards

    def before_and_after(server: PostgresServer) -> tuple[float, float]:
        def change(work: PostgresTransaction) -> tuple[float, float]:
            before = server.lease_clock.now()
            other.call_blocking(on_store(lambda store: store.time))
            return before, server.lease_clock.now()

        return server.transact(change)

    before, after = await one.call(before_and_after)
    assert before == after > 0.0
    await frontier.close()


async def test_a_worker_that_a_server_forgot_before_its_first_renewal_joins_it_again(dsns):
    async with asyncio.timeout(SCENE_S):
        frontier = opened(dsns)
        row = await frontier.open_collection(a_collection())
        await frontier.discover(row.id, [offer(url) for url in HOSTS])
        worker = (await frontier.join("w", current_process())).worker
        with psycopg.connect(dsns[1]) as there:
            there.execute("DELETE FROM worker")  # its lease ended there while the server was away
        await frontier.renew(worker, "")
        frontier._maintained_at = 0.0
        await frontier.lease(worker, 1)
        await frontier.renew(worker, "")
        assert len(await frontier.lease(worker, 100)) + 1 == len(HOSTS)
        await frontier.close()


async def test_nothing_is_noted_as_deleted_while_a_server_is_away_or_has_visits_out(dsns, second):
    async with asyncio.timeout(SCENE_S):
        frontier = opened(dsns)
        row = await frontier.open_collection(a_collection())
        await frontier.discover(row.id, [offer(url) for url in HOSTS])
        worker = (await frontier.join("w", current_process())).worker
        await frontier.renew(worker, "")
        leases = await frontier.lease(worker, 100)
        here = [done(lease, lease.visits, keep=False) for lease in leases
                if frontier._home[lease.host] is frontier._first]  # fmt: skip
        assert 0 < len(here) < len(leases)
        second.stop()
        try:
            await frontier.finish(worker, here)
            await frontier.set_state("c", "stopped", "")
            assert await frontier.delete_collection("c", 0)
            assert not await frontier.record_deletion("c")
            await frontier.close()
        finally:
            second.start()
        frontier = opened(dsns)
        assert not await frontier.record_deletion("c"), "it has not even heard that it was stopped"
        assert await frontier.deletions(0) == []
        await frontier.release_process(current_process())
        assert await frontier.record_deletion("c")
        assert [one.collection for one in await frontier.deletions(0)] == ["c"]
        await frontier.close()


async def test_a_collections_limit_holds_over_all_servers(dsns):
    frontier = opened(dsns)
    row = await frontier.open_collection(a_collection(scope={"hosts": ["*"], "pages_max": 11}))
    await frontier.discover(row.id, [offer(url) for url in HOSTS])
    worker = (await frontier.join("w", current_process())).worker
    await frontier.renew(worker, "")
    for _ in range(4):
        for lease in await frontier.lease(worker, 100):
            await frontier.finish(worker, [done(lease, lease.visits, keep=False)])
    assert (await numbers(frontier)).fetched == 11
    await frontier.close()


async def test_of_several_servers_each_has_its_share_of_the_table_and_of_a_cycle(dsns):
    frontier = opened(dsns)
    await frontier.open_collection(
        a_collection(strategy={"order": "breadth", "table_max": 11, "cycle": 6}), [offer(url) for url in HOSTS]
    )
    worker = (await frontier.join("w", current_process())).worker
    await frontier.renew(worker, "")
    leases = await frontier.lease(worker, 100)
    homes = [frontier._home[lease.host] for lease in leases]
    assert [homes.count(member) for member in frontier._shards] == [3, 3]
    status = await numbers(frontier)
    assert (status.sites_chosen, status.table) == (6, 10)
    await frontier.close()


async def a_run(frontier: PostgresFrontier, most: int, roots: list[DiscoveredUrl]) -> list[str]:
    """What is visited until nothing is left, or the limit is reached."""
    scope = {"hosts": ["*"], "pages_max": most}
    await frontier.open_collection(a_collection(scope=scope, strategy={"order": "breadth"}), roots)
    worker = (await frontier.join("w", current_process())).worker
    await frontier.renew(worker, "")
    found: list[str] = []
    while leases := await frontier.lease(worker, 9):
        found += [visit.url for lease in leases for visit in lease.visits]
        await frontier.finish(worker, [done(lease, lease.visits, delay_s=0.0, keep=False) for lease in leases])
    await frontier.leave(worker)
    await frontier.set_state("c", "finished", "")
    return sorted(found)


async def one_site_each(frontier: PostgresFrontier) -> dict[str, str]:
    """By server."""
    return {(await frontier._router.shard_of(offer(url).host_key)).where: url for url in HOSTS}


async def test_a_run_of_breadth_is_over_when_it_is_on_all_servers(dsns):
    frontier = opened(dsns)
    sites = set((await one_site_each(frontier)).values())
    roots = [offer(url + path) for url in sites for path in ("", "x")]
    (first,) = await a_run(frontier, 1, roots)
    (other,) = sites - {first}
    assert await a_run(frontier, 9, roots) == [other], "one server had nothing left, but the run was not over"
    assert await a_run(frontier, 9, roots) == sorted([f"{first}x", f"{other}x"])
    await frontier.close()


@pytest.mark.long
async def test_while_a_server_is_away_no_other_run_of_breadth_begins(dsns, second):
    async with asyncio.timeout(SCENE_S):
        frontier = opened(dsns)
        sites = (await one_site_each(frontier)).values()
        roots = [offer(url + path) for url in sites for path in ("", "x")]
        assert await a_run(frontier, 9, roots) == sorted(sites)
        second.stop()
        try:
            assert await a_run(frontier, 9, []) == [], "who is away cannot say that its part is over"
        finally:
            second.start()
        frontier._shards[1]._away_until = 0.0
        assert await a_run(frontier, 9, roots) == sorted(f"{url}x" for url in sites)
        await frontier.close()


async def test_an_address_is_with_one_host_whichever_server_keeps_it(dsns):
    frontier = opened(dsns)
    row = await frontier.open_collection(a_collection())
    await frontier.discover(row.id, [offer(url) for url in HOSTS])
    worker = (await frontier.join("w", current_process())).worker
    await frontier.renew(worker, "")
    leases = await frontier.lease(worker, 100)
    one = next(lease for lease in leases if frontier._home[lease.host] is frontier._shards[0])
    two = next(lease for lease in leases if frontier._home[lease.host] is frontier._shards[1])
    assert await frontier.claim_address(worker, two.host, "192.0.2.1") == 0.0
    assert await frontier.claim_address(worker, two.host, "192.0.2.1") == 0.0
    assert await frontier.claim_address(worker, one.host, "192.0.2.1") > 1_000_000.0
    await frontier.finish(worker, [done(two, two.visits, keep=False)])
    assert await frontier.claim_address(worker, one.host, "192.0.2.1") == 1_000_001.0, "it rests for the other's delay"
    FalseClock.shift[0] = 2.0
    assert await frontier.claim_address(worker, one.host, "192.0.2.1") == 0.0
    await frontier.close()


async def test_other_servers_than_a_frontier_was_made_with_are_refused_with_the_way_to_them(dsns):
    await opened(dsns).close()
    await opened(dsns).close()
    third = a_server().database("third")
    for named, told in (
        ([*dsns, third], "was made on 2 servers, and 3 are named; .* `tarrafa export frontier` .* `tarrafa import"),
        (dsns[:1], "was made on 2 servers, and 1 are named; .* `tarrafa export frontier` .* `tarrafa import"),
        ([dsns[0], third], "is not server 2 of this frontier; .* `tarrafa export frontier` .* `tarrafa import"),
        ([dsns[0], dsns[0].replace("127.0.0.1", "localhost")], "is not server 2 of this frontier"),
        (dsns[::-1], "is not the first of its servers"),
        (dsns[1:], "is not the first of its servers"),
        ([third, dsns[1]], "belongs to another frontier"),
        ([third, dsns[0]], "is the first server of another frontier"),
        ([third, third.replace("127.0.0.1", "localhost")], "the same database is named twice"),
    ):
        with pytest.raises(ConfigError, match=told):
            opened(named)
    await opened([third]).close()  # who was refused is as it was


async def test_the_suffixes_of_the_first_collection_tell_sites_apart_for_whoever_was_there_before(dsns):
    """Both opened the frontier while it was empty; and another collection's suffixes come too late."""

    early, other = opened(dsns), opened(dsns)
    await early.update_weights("nobody's", [UrlWeight(1, b"u" * 16, 2, host_key="http://a.private.br:80")])
    row = await other.open_collection(a_collection(network={"suffixes": ["private.br"]}))
    await other.open_collection(a_collection("d", network={"suffixes": ["com.br"]}))
    urls = [f"http://h{number}.private.br/" for number in range(30)]
    await early.discover(row.id, [offer(url) for url in urls])
    assert min(count(dsn, "host") for dsn in dsns) > 5
    await other.discover(row.id, [offer(url, 1) for url in urls])
    assert sum(count(dsn, "host") for dsn in dsns) == 30
    for frontier in (early, other):
        await frontier.close()


async def test_an_older_schema_is_refused_untouched_with_the_command_that_makes_it_again(dsns):
    await opened(dsns[:1]).close()
    with psycopg.connect(dsns[0], autocommit=True) as connection:
        connection.execute("UPDATE meta SET value = '3' WHERE key = 'version'; DROP TABLE takedown")
        before = connection.execute("SELECT * FROM meta ORDER BY key").fetchall()
        with pytest.raises(
            DataError, match=r"older Tarrafa \(schema 3.*nothing was changed.*`tarrafa rebuild frontier`"
        ):
            opened(dsns[:1])
        assert connection.execute("SELECT * FROM meta ORDER BY key").fetchall() == before
        assert connection.execute("SELECT to_regclass('takedown')").fetchone() == (None,)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda dsn: dsn.replace("/cluster", "/nowhere"), 'database "nowhere" does not exist'),
        (lambda dsn: dsn.replace("postgres@", "nobody@"), 'role "nobody" does not exist'),
        (lambda dsn: "postgresql://[1::2/x", "not the address of a PostgreSQL database"),
        (lambda dsn: "postgresql://127.0.0.1:1/x", "no database answers here"),
    ],
)
def test_a_wrong_address_is_told_as_such(dsns, change, words):
    with pytest.raises((ConfigError, FrontierError), match=words):
        opened([change(dsns[0])])


async def test_a_wrong_password_is_told_and_never_printed():
    server = Postgres(password="right")
    try:
        good = server.address().replace("postgres@", "postgres:right@")
        await opened([good]).close()
        with pytest.raises(ConfigError, match="password authentication failed") as told:
            opened([good.replace("right", "wr0ng-secret")])
        assert "wr0ng-secret" not in str(told.value)
        with pytest.raises(ConfigError) as told:
            opened(["postgresql://postgres:wr0ng-secret@["])
        assert "wr0ng-secret" not in str(told.value)
    finally:
        server.remove()


async def test_a_newer_schema_is_refused_and_a_strangers_tables_too(dsns):
    await opened(dsns[:1]).close()
    with psycopg.connect(dsns[0], autocommit=True) as connection:
        connection.execute("UPDATE meta SET value = %s WHERE key = 'version'", (str(SCHEMA_VERSION + 1),))
        with pytest.raises(DataError, match=f"newer Tarrafa \\(schema {SCHEMA_VERSION + 1}"):
            opened(dsns[:1])
        connection.execute("DROP SCHEMA public CASCADE; CREATE SCHEMA public; CREATE TABLE meta (key TEXT, value TEXT)")
        with pytest.raises(DataError, match="not Tarrafa's"):
            opened(dsns[:1])


async def test_a_database_that_restarts_is_waited_for(dsns, second):
    async with asyncio.timeout(SCENE_S):
        frontier = opened(dsns[1:])
        row = await frontier.open_collection(a_collection())
        await frontier.discover(row.id, [offer(url) for url in HOSTS])
        worker = (await frontier.join("w", current_process())).worker
        (lease, *_) = await frontier.lease(worker, 10)
        await asyncio.to_thread(second.stop, "immediate")
        finishing = asyncio.create_task(frontier.finish(worker, [done(lease, lease.visits)]))
        await asyncio.to_thread(second.start)
        assert [answer.is_leased for answer in await finishing] == [False]
        assert (await numbers(frontier)).fetched == 1
        assert len(await frontier.lease(worker, 100)) == 30
        await frontier.close()


async def test_a_lease_whose_answer_was_lost_is_no_ones_for_long(dsns):
    frontier = opened(dsns[:1])
    row = await frontier.open_collection(a_collection())
    await frontier.discover(row.id, [offer("http://a.br/"), offer("http://b.br/")])
    worker = (await frontier.join("w", current_process())).worker
    (held,) = await frontier.lease(worker, 1)
    server = frontier._first.connect()
    await frontier._first.call(lambda _: server.transact(lambda work: work.store.hosts.lease(worker, 1)))
    assert await frontier.lease(worker, 5) == []
    server.connection.losses += 1  # the connection broke there
    (again,) = await frontier.lease(worker, 5)
    assert again.host != held.host
    assert again.visits[0].number == 2
    await frontier.close()


# -- many at once ---------------------------------------------------------------------------------------------


def hammer(dsns: list[str], folder: Path, number: int, urls: int) -> None:
    """A worker that finds links to everything, and may be killed at any moment."""
    rng = random.Random()

    async def main() -> None:
        frontier = PostgresFrontier(dsns, SUFFIXES, keeps_links=True)
        (row,) = await frontier.collections()
        worker = (await frontier.join(f"w{number}-{os.getpid()}", current_process())).worker
        idle = 0
        while idle < 20:
            await frontier.renew(worker, "")
            leases = await frontier.lease(worker, rng.randint(1, 12))
            idle = 0 if leases else idle + 1
            await asyncio.sleep(0.0 if leases else 0.05)  # a worker without work pauses before it asks again
            links = [f"http://h{n % 60}.br/{n}" for n in rng.sample(range(urls), 40)]
            await frontier.discover(row.id, [offer(link, rng.randint(1, 4)) for link in links])
            now = time.time()
            outcome = Outcome(200, now, kept=True, type="text/html", content_id="c")
            reports = [
                done(lease, lease.visits[: rng.randint(1, 8)], outcome, next_at=now, ended_at=now, delay_s=0.0,
                     keep=rng.random() < 0.5)
                for lease in leases
            ]  # fmt: skip
            answers = await frontier.finish(worker, reports)
            kept = [lease for lease, answer in zip(leases, answers, strict=True) if answer.is_leased]
            await frontier.finish(worker, [done(lease, [], next_at=now, delay_s=0.0, keep=False) for lease in kept])
        await frontier.leave(worker)
        await frontier.close()

    asyncio.run(main())


def copied(dsn: str, path: Path) -> FrontierStore:
    """A server's tables in a file, where the invariants can be asked."""
    db = open_database(str(path), SUFFIXES)
    with psycopg.connect(dsn) as connection:
        for (name,) in db.rows("SELECT name FROM sqlite_schema WHERE type = 'table'"):
            columns = [column for (column,) in db.rows(f"SELECT name FROM pragma_table_info('{name}')")]
            sql = f"SELECT {', '.join(columns)} FROM {name}"
            if name == "counter":
                sql = "SELECT collection, bucket, sum(value)::bigint FROM counter GROUP BY 1, 2"
            db.run(f"DELETE FROM {name}")
            db.many(f"INSERT INTO {name} VALUES ({', '.join('?' * len(columns))})", connection.execute(sql).fetchall())
    return FrontierStore(db, Clock.real(), LeaseClock())


@pytest.mark.parametrize("servers", [1, pytest.param(2, marks=pytest.mark.long)])
def test_many_workers_and_kills_leave_every_book_in_order(dsns, tmp_path, servers):
    urls, dsns = 1_500, dsns[:servers]

    async def begin() -> None:
        frontier = PostgresFrontier(dsns, SUFFIXES, keeps_links=True)
        row = await frontier.open_collection(a_collection(politeness={"delay": 0}))
        await frontier.discover(row.id, [offer(f"http://h{n % 60}.br/{n}", 5) for n in range(urls)])
        await frontier.close()

    asyncio.run(begin())
    context = multiprocessing.get_context("fork")

    def start(number: int) -> Any:
        process = context.Process(target=hammer, args=(dsns, tmp_path, number, urls))
        process.start()
        return process

    workers, killed = {number: start(number) for number in range(4)}, 0
    while any(process.is_alive() for process in workers.values()):
        number, process = random.choice(list(workers.items()))
        if killed < 6 and process.is_alive():
            time.sleep(random.uniform(0.1, 0.6))  # a kill at a random moment is what is tested
            with contextlib.suppress(ProcessLookupError):
                os.kill(process.pid, signal.SIGKILL)
            process.join()
            workers[number], killed = start(number), killed + 1
        process.join(0.2)
    assert all(process.exitcode == 0 for process in workers.values())

    async def end() -> None:
        frontier: Frontier = PostgresFrontier(dsns, SUFFIXES)
        status = await numbers(frontier)
        assert (status.known, status.fetched, status.pending, status.handed_out) == (urls, urls, 0, 0)
        await frontier.close()  # type: ignore[attr-defined]

    asyncio.run(end())
    for number, dsn in enumerate(dsns):
        store = copied(dsn, tmp_path / f"{number}.sqlite")
        assert broken(store) == {}
        store.db.connection.close()


@pytest.mark.parametrize("servers", [1, pytest.param(2, marks=pytest.mark.long)])
def test_many_workers_together_keep_no_more_pages_than_the_limit(dsns, tmp_path, servers):
    dsns, most = dsns[:servers], 90

    async def begin() -> None:
        frontier = PostgresFrontier(dsns, SUFFIXES, keeps_links=True)
        scope = {"hosts": ["*"], "pages_max": most}
        row = await frontier.open_collection(a_collection(politeness={"delay": 0}, scope=scope))
        await frontier.discover(row.id, [offer(f"http://h{n % 60}.br/{n}", 5) for n in range(600)])
        await frontier.close()

    async def end() -> int:
        frontier = PostgresFrontier(dsns, SUFFIXES)
        fetched = (await numbers(frontier)).fetched
        await frontier.close()
        return fetched

    asyncio.run(begin())
    context = multiprocessing.get_context("fork")
    workers = [context.Process(target=hammer, args=(dsns, tmp_path, number, 600)) for number in range(4)]
    for process in workers:
        process.start()
    for process in workers:
        process.join()
    assert asyncio.run(end()) == most
