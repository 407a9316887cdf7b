"""A frontier is spread over other servers: what is moved, what is refused, and what a crash leaves."""

import asyncio
import contextlib
from typing import Any

import msgspec
import psycopg
import pytest
from msgspec.structs import replace
from typer.testing import CliRunner

from tarrafa.cli.app import app
from tarrafa.errors import ConfigError, DataError, FrontierError, Locked, Unreachable
from tarrafa.frontier.postgres.rebalance.spreading import Spread
from tarrafa.frontier.postgres.schema import SCHEMA_VERSION
from tarrafa.frontier.postgres.sharding.shard_map import BUCKETS, even_out, spread_evenly
from tests.contract.frontier_bodies import SUFFIXES, a_collection, numbers, offer
from tests.contract.postgres_process import WHY_NOT, a_server, programs
from tests.frontier.postgres.test_postgres_frontier import copied, make_older
from tests.frontier.rebalance.spreading import STEPS, Bystander, ask, assert_in_order, found, kept, opened, spread
from tests.frontier.rebalance.test_spread_books import everything

pytestmark = [pytest.mark.skipif(programs() is None, reason=WHY_NOT), pytest.mark.long]


class Crash(BaseException):
    """As if somebody pulled the plug."""


@pytest.fixture
def dsns():
    """Databases of one server: for what has nothing to do with servers that go away."""
    return [a_server().database(f"spread{number}") for number in range(3)]


def free_hosts(dsn: str) -> set[int]:
    """Those that a worker could be given."""
    there = ask(dsn, "SELECT to_regclass('host')::text")
    return {host for (host,) in ask(dsn, "SELECT id FROM host WHERE worker IS NULL")} if there != [(None,)] else set()


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


def test_a_second_mover_is_refused_and_one_that_lost_its_turn_can_do_nothing(dsns, tmp_path, monkeypatch):
    known = found(dsns, tmp_path, hosts=8, urls=2)
    monkeypatch.setattr("tarrafa.frontier.postgres.rebalance.spreading.LOCK_S", 0.0)
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
    make_older(dsns[1])
    with psycopg.connect(dsns[1], autocommit=True) as connection:
        connection.execute("UPDATE meta SET value = 'com' WHERE key = 'suffix_list'")
    assert spread(dsns[:2]).buckets == 2048
    assert ask(dsns[1], "SELECT value FROM meta WHERE key = 'suffix_list'") == [(SUFFIXES,)]
    assert_in_order(dsns[:2], tmp_path, known)


def test_a_server_that_is_not_named_is_emptied_only_on_demand(dsns, tmp_path):
    known = found(dsns, tmp_path, hosts=12, urls=3)
    assert spread(dsns).buckets == 2730
    assert_in_order(dsns, tmp_path, known)
    with pytest.raises(ConfigError, match="is not named; --remove empties it"):
        spread([dsns[0], dsns[2]])
    who = Bystander(dsns, tmp_path)
    kept(who)
    assert all(ask(dsn, "SELECT sum(value) FROM counter WHERE bucket = 'visits'")[0][0] for dsn in dsns)
    counted = who.run(numbers(who.frontier))
    assert (counted.visits, counted.fetched, counted.statuses) == (36, 36, {"200": 36})
    before = everything([copied(dsn, tmp_path / f"b{n}.sqlite") for n, dsn in enumerate(dsns)])
    assert spread([dsns[0], dsns[2]], remove=True).buckets == 1365
    left = [dsns[0], dsns[2]]
    assert everything([copied(dsn, tmp_path / f"a{n}.sqlite") for n, dsn in enumerate(left)]) == before
    assert replace(who.run(numbers(who.frontier)), pages_per_s=0.0) == replace(counted, pages_per_s=0.0)
    who.run(who.frontier.leave(who.worker))
    who.close()
    assert_in_order(left, tmp_path, known)
    assert spread(dsns).buckets == 1365, "and may come back"
    assert_in_order(dsns, tmp_path, known)


def test_while_a_collection_is_imported_nothing_is_moved(dsns, tmp_path):
    found(dsns, tmp_path, hosts=2, urls=1)
    with psycopg.connect(dsns[0], autocommit=True) as connection:
        connection.execute("UPDATE collection SET state = 'importing'")
    with pytest.raises(FrontierError, match="c: is being imported; finish that first"):
        spread(dsns[:2])
