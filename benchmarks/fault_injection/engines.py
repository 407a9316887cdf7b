"""Database and store of the journey, and what the journey reads of the frontier."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
from tests.contract.postgres_process import Postgres
from tests.object_store_process import SeaweedFs
from tests.patroni_process import PASSWORD, PatroniCluster
from tests.patroni_process import Machine as DatabaseMachine

from benchmarks.fault_injection.machines import HERE

STORE = "s3://tests/journey"
CONNECT_S = 3


class Engines:
    """PostgreSQL under Patroni, perhaps a second server beside it, and an object store."""

    def __init__(self, servers: int) -> None:
        self.store, self.patroni = SeaweedFs(HERE), PatroniCluster(HERE)
        os.environ.update(self.store.environment)
        os.environ["PGPASSWORD"] = PASSWORD
        self.others = [Postgres(HERE) for _ in range(servers - 1)]
        self.dsns = [self.patroni.database("frontier"), *(one.database("frontier") for one in self.others)]
        self._lost: DatabaseMachine | None = None
        self._is_second_away = False

    def lose_primary(self) -> str:
        self._lost = self.patroni.primary()
        if self._lost is None:
            return "there is none"
        self._lost.kill()
        return self._lost.name

    def bring_back_primary(self) -> None:
        if self._lost is not None:
            self._lost.start()
        self._lost = None

    def stop_second(self) -> bool:
        """Crash the second server, unless it is away already."""
        if self._is_second_away:
            return False
        self.others[0].stop("immediate")
        self._is_second_away = True
        return True

    def start_second(self) -> None:
        self.others[0].start()
        self._is_second_away = False

    def remove(self) -> None:
        self.store.remove()
        self.patroni.remove()
        for one in self.others:
            one.remove()

    def fetch(self, sql: str) -> list[tuple[Any, ...]]:
        """The rows of all servers."""
        found = list[tuple[Any, ...]]()
        for dsn in self.dsns:
            with psycopg.connect(dsn, connect_timeout=CONNECT_S) as connection:
                found += connection.execute(sql.encode()).fetchall()
        return found


@contextmanager
def engines(servers: int) -> Iterator[Engines]:
    made = Engines(servers)
    try:
        yield made
    finally:
        made.remove()
