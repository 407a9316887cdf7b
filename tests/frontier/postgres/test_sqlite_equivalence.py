"""The same random lives on a file and on PostgreSQL: every answer and every row is the same.

This is what holds the row cache to its word: a row that a call needed and did not fetch would make a difference.
"""

import os
import random
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from operator import attrgetter
from pathlib import Path
from typing import Any

import psycopg
import pytest

from tarrafa.frontier.postgres import row_cache
from tarrafa.frontier.postgres.database_session import on_store
from tarrafa.frontier.postgres.operations import (
    collection_calls,
    deletion_calls,
    export_import_calls,
    lease_calls,
    planner_calls,
    url_calls,
)
from tarrafa.frontier.postgres.sharding.postgres_shard import PostgresServer
from tests.contract.frontier_bodies import SUFFIXES, FalseClock, FalseDatabaseLeaseClock
from tests.contract.postgres_process import WHY_NOT, a_server, programs
from tests.frontier.store.test_random_operations import KINDS, RandomLife

pytestmark = pytest.mark.skipif(programs() is None, reason=WHY_NOT)
CALLS = (collection_calls, deletion_calls, lease_calls, planner_calls, export_import_calls, url_calls)
APART = {"counter", "meta", "number"}  # kept in another way
BLIND = {
    ("url", "sequence"),
    ("collection", "sequence"),
    ("pending", "rank"),
    ("site", "best"),
    ("worker", "era"),
    ("worker", "deadline"),
}


def call_on(server: PostgresServer, path: str) -> Any:
    """What a server has for a method of the store: a call of its own, or that method as a transaction."""
    name = {"release_worker": "leave"}.get(path.rpartition(".")[2], path.rpartition(".")[2])
    if hasattr(server.leases, name):
        return getattr(server.leases, name)
    for module in CALLS:
        if hasattr(module, name):
            return partial(getattr(module, name), server)
    return partial(on_store(attrgetter(path.removeprefix("."))), server)


class Twin:
    """Looks like a store; whatever is asked of it is asked of both, and the answers must agree."""

    def __init__(self, ours: Any, theirs: Any, path: str = "") -> None:
        self._ours, self._theirs, self._path = ours, theirs, path

    def __getattr__(self, name: str) -> "Twin":
        return Twin(getattr(self._ours, name), self._theirs, f"{self._path}.{name}")

    def __call__(self, *arguments: Any) -> Any:
        found = self._ours(*arguments)
        if self._path == ".db.run":
            self._theirs.connection.connect().execute(arguments[0].replace("?", "%s"), arguments[1])
            return found
        numbers = [getattr(one, "row", one) for one in arguments]
        other = call_on(self._theirs, self._path)(*[getattr(one, "id", one) for one in numbers])
        assert other == found or (self._path == ".update_weights" and other == []), f"{self._path}{arguments}"
        return found


class TwinLife(RandomLife):
    def __init__(self, kind: Any, seed: str, folder: Path) -> None:
        self._dsn = a_server().database("lives")
        self._server = self._connected()
        self._witness = psycopg.connect(self._dsn, autocommit=True)
        super().__init__(kind, seed, folder)

    def _connected(self) -> PostgresServer:
        return PostgresServer(self._dsn, SUFFIXES, FalseClock(0, 0), FalseDatabaseLeaseClock())

    def close(self) -> None:
        super().close()
        self._server.close()

    def end(self) -> None:
        self.close()
        self._witness.close()

    @contextmanager
    def transaction(self) -> Iterator[Any]:
        with super().transaction() as store:
            yield Twin(store, self._server)

    def restart(self) -> None:
        before = self.store
        super().restart()
        if self.store is not before:
            self._server.close()
            self._server = self._connected()
            self._ask("TRUNCATE token")  # a file's tokens are in memory only

    def plan(self) -> None:
        """The planner speaks to both."""
        store = self.store
        self.store = Twin(store, self._server)  # type: ignore[assignment]
        self.store.collections = store.collections
        self.store.planning = _Planning(store, self._server)  # type: ignore[assignment]
        real = self.transaction
        self.transaction = lambda: RandomLife.transaction(self)  # type: ignore[method-assign]
        try:
            self.store.db, self.store.counters = store.db, store.counters
            super().plan()
        finally:
            self.store, self.transaction = store, real  # type: ignore[method-assign]

    def _ask(self, sql: str) -> list[tuple[Any, ...]]:
        cursor = self._witness.execute(sql.encode())
        return cursor.fetchall() if cursor.description else []

    def compare(self) -> None:
        """Row by row; what is numbered otherwise must still be in the same order."""
        for name, table in self._server.db.cache.tables.items():
            if name in APART:
                continue
            columns = [column for column in table.columns if (name, column) not in BLIND]
            question = f"SELECT {', '.join(columns)} FROM {name}"
            ours, theirs = self.store.db.rows(question), self._ask(question)
            assert sorted(map(repr, ours)) == sorted(map(repr, map(tuple, theirs))), name
        order = "SELECT host, collection, id FROM pending ORDER BY host, collection, rank, id"
        assert self.store.db.rows(order) == [tuple(row) for row in self._ask(order)]
        counted = self._ask(
            "SELECT collection, bucket, sum(value)::bigint FROM counter GROUP BY 1, 2 HAVING sum(value) != 0"
        )
        ours = self.store.db.rows("SELECT collection, bucket, value FROM counter WHERE value != 0")
        assert sorted(ours) == sorted(map(tuple, counted))


class _Planning:
    """`planning` of both."""

    def __init__(self, store: Any, server: PostgresServer) -> None:
        self._store, self._server = store, server

    def __getattr__(self, name: str) -> Any:
        def both(collection: int, *arguments: Any) -> Any:
            found = getattr(self._store.planning, name)(collection, *arguments)
            other = call_on(self._server, f"planning.{name}")(collection, *arguments)
            assert other == found or name == "drop_old_plans", name
            while name == "drop_old_plans" and planner_calls.drop_old_plans(self._server, collection, *arguments):
                pass
            return found

        return both


def live(kind: str, seed: str, folder: Path, steps: int) -> None:
    life = TwinLife(KINDS[kind], seed, folder)
    done = ["birth"]
    try:
        for _ in range(steps):
            try:
                done.append(life.step())
                life.compare()
            except Exception as error:
                raise AssertionError(f"seed {seed!r}, step {len(done)}, {done[-5:]}: {error!r}") from error
    finally:
        life.end()


@pytest.mark.parametrize("kind", KINDS)
def test_a_file_and_a_database_live_the_same_life(tmp_path, kind, monkeypatch):
    monkeypatch.setattr(row_cache, "CHUNK", 1)  # ranges are fetched by ones: the more often they must be asked for
    live(kind, "1", tmp_path, 30)


@pytest.mark.long
@pytest.mark.parametrize("kind", KINDS)
def test_a_file_and_a_database_live_many_lives(tmp_path, kind, monkeypatch):
    monkeypatch.setattr(row_cache, "CHUNK", 1)
    seed = os.environ.get("TARRAFA_SEED") or str(random.randrange(10**6))
    for number in range(6):
        live(kind, f"{seed}-{number}", tmp_path, 250)
    print(f"{kind}, seed {seed}: 6 lives of 250 steps, each on a file and on PostgreSQL")


@pytest.mark.long
def test_what_was_spent_without_a_limit_is_no_debt_when_there_is_one(tmp_path, monkeypatch):
    """A life that once told it: the file had counted, the database had not."""
    monkeypatch.setattr(row_cache, "CHUNK", 1)
    live("changing orders", "518992-4", tmp_path, 250)


@pytest.mark.long
def test_a_link_to_a_known_page_counts_the_visits_of_its_host_anew_in_both(tmp_path, monkeypatch):
    """A life that once told it: the database passed known links over, the file began to count."""
    monkeypatch.setattr(row_cache, "CHUNK", 1)
    live("runs of changing collections", "353231-3", tmp_path, 250)
