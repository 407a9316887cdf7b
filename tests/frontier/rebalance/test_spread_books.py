"""What moves from one server to another is what it was, row by row, and both servers' books agree afterwards."""

from contextlib import closing
from pathlib import Path
from typing import Any

import psycopg
import pytest

from tarrafa.frontier.postgres.postgres_server import PostgresServer
from tarrafa.frontier.postgres.rebalance import freight
from tarrafa.frontier.postgres.rebalance.spreading import Done, Spread
from tarrafa.frontier.store.frontier_store import FrontierStore
from tarrafa.frontier.store.schema import open_database
from tests.contract.frontier_bodies import SUFFIXES, FalseClock, FalseDatabaseLeaseClock
from tests.contract.postgres_process import WHY_NOT, a_server, programs
from tests.frontier.postgres.test_postgres_frontier import copied
from tests.frontier.store.test_random_operations import KINDS, a_life, broken, live

pytestmark = pytest.mark.skipif(programs() is None, reason=WHY_NOT)

MOVES = {*freight.WAYS, *freight.SHARED_WAYS}
MADE_ANEW = {"ready", "counter"}
STAYS = {"collection", "worker", "address", "number", "meta", "deleted"}  # each has its own, or the first one has all
LEFT_EMPTY = {"handed"}  # everybody is home


def test_every_table_moves_or_is_made_anew_or_stays(tmp_path):
    db = open_database(str(tmp_path / "f.sqlite"), SUFFIXES)
    tables = {str(name) for (name,) in db.rows("SELECT name FROM sqlite_schema WHERE type = 'table'")}
    assert tables == MOVES | MADE_ANEW | STAYS | LEFT_EMPTY
    db.connection.close()


def spread(dsns: list[str], **more: Any) -> Done:
    with Spread(dsns, SUFFIXES, FalseClock(0, 0), FalseDatabaseLeaseClock(), **more) as moving:
        return moving.run()


def loaded(store: FrontierStore, dsn: str) -> None:
    """A file's tables in a database."""
    PostgresServer(dsn, SUFFIXES).close()
    with psycopg.connect(dsn) as connection:
        for (name,) in store.db.rows("SELECT name FROM sqlite_schema WHERE type = 'table'"):
            if name == "meta":
                continue
            rows, columns = store.db.rows(f"SELECT * FROM {name}"), "collection, bucket, part, value"
            if name == "counter":
                rows = [(number, bucket, 0, value) for number, bucket, value in rows]
            else:
                columns = ", ".join(row[1] for row in store.db.rows(f"PRAGMA table_info({name})"))
            marks = ", ".join(["%s"] * len(columns.split(", ")))
            connection.cursor().executemany(f"INSERT INTO {name} ({columns}) VALUES ({marks})".encode(), rows)


def everything(stores: list[FrontierStore]) -> dict[str, Any]:
    """All that is known, wherever; what was counted, in all."""
    found: dict[str, Any] = {}
    for name in sorted(MOVES | {"ready"}):
        rows = [row for store in stores for row in store.db.rows(f"SELECT * FROM {name}")]
        found[name] = sorted(set(rows), key=repr) if name == "robots" else sorted(rows, key=repr)
    counted: dict[Any, int] = {}
    for store in stores:
        for number, bucket, value in store.db.rows("SELECT collection, bucket, value FROM counter"):
            counted[number, bucket] = counted.get((number, bucket), 0) + value
    found["counter"] = {key: value for key, value in counted.items() if value}
    return found


def stores_of(dsns: list[str], folder: Path, name: str) -> list[FrontierStore]:
    return [copied(dsn, folder / f"{name}-{number}.sqlite") for number, dsn in enumerate(dsns)]


@pytest.mark.long
@pytest.mark.parametrize("kind", KINDS)
def test_a_frontier_on_two_servers_and_back_on_one_is_the_frontier_that_it_was(tmp_path, kind):
    dsns = [a_server().database("one"), a_server().database("other")]
    with a_life(kind, "spread", tmp_path) as life:
        live(life, 60)
        with life.transaction() as store:
            for worker in life.workers:
                store.hosts.release_worker(worker)
        loaded(life.store, dsns[0])
    before = everything(stores_of(dsns[:1], tmp_path, "before"))
    assert spread(dsns, group_weight_min=120).buckets == 2048
    apart = stores_of(dsns, tmp_path, "apart")
    assert min(store.db.value("SELECT count(*) FROM url") for store in apart) > 0
    for store in apart:
        assert broken(store) == {}
    assert everything(apart) == before
    assert spread(dsns[:1], remove=True).buckets == 2048
    (together,) = stores_of(dsns[:1], tmp_path, "together")
    assert broken(together) == {}
    assert everything([together]) == before
    with closing(psycopg.connect(dsns[1])) as left:
        assert left.execute("SELECT count(*) FROM url").fetchone() == (0,)
