"""The database fails over while machines crawl into one archive: its primary dies, a synchronous standby takes over."""

import threading
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import psycopg
import pytest

from tarrafa.clock import boottime
from tarrafa.frontier.collection_status import is_exhausted
from tarrafa.frontier.postgres.database_connection import DatabaseConnection
from tarrafa.testweb.oracle import expected_requests
from tarrafa.testweb.world.hosts import World
from tests.contract.postgres_process import WHY_NOT, Postgres, address_of_all, programs
from tests.journey.cluster import Process, wait_for
from tests.journey.crawl_journey import TYPES, a_journey
from tests.journey.test_postgres import HASTE, PostgresCluster, assert_nothing_repeated_but_what_was_in_flight
from tests.journey.test_postgres import LEASE_S as SHORT_LEASE_S
from tests.journey.test_segment_log import assert_one_system, wait_until_followed
from tests.object_store_process import WHY_NOT as WHY_NO_STORE
from tests.object_store_process import program, store_environment
from tests.patroni_process import PASSWORD, PatroniCluster, is_installed
from tests.patroni_process import WHY_NOT as WHY_NO_PATRONI
from tests.wait import block_until

pytestmark = [
    pytest.mark.skipif(programs() is None, reason=WHY_NOT),
    pytest.mark.skipif(program() is None, reason=WHY_NO_STORE),
]
PATIENCE_S = 120.0
VISITS = "SELECT u.url, v.number FROM visit v JOIN url u USING (host, collection, id)"


@pytest.fixture
def pair() -> Iterator[tuple[Postgres, Postgres]]:
    primary = Postgres()
    primary.database("frontier")
    standby = Postgres(standby_of=primary)
    primary.wait_for_standbys()
    with store_environment():
        yield primary, standby
    standby.remove()
    primary.remove()


@pytest.fixture
def patroni(monkeypatch: pytest.MonkeyPatch) -> Iterator[PatroniCluster]:
    if not is_installed():
        pytest.skip(WHY_NO_PATRONI)
    monkeypatch.setenv("PGPASSWORD", PASSWORD)
    cluster = PatroniCluster()
    with store_environment():
        yield cluster
    cluster.remove()


@dataclass
class Witness:
    """A client that notes one number after another in the database, and which of them were acknowledged, and when."""

    dsn: str
    acknowledged: list[float] = field(default_factory=list)

    def __enter__(self) -> "Witness":
        self._database, self._stop = DatabaseConnection(self.dsn, PATIENCE_S), threading.Event()
        self._change("CREATE TABLE witness (number BIGINT PRIMARY KEY)")
        self._thread = threading.Thread(target=self._note)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()
        self._database.close()

    def _change(self, sql: str) -> None:
        self._database.with_retries(lambda: self._database.connect().execute(sql.encode()))

    def _note(self) -> None:
        while not self._stop.wait(0.05):
            number = len(self.acknowledged)
            self._change(f"INSERT INTO witness VALUES ({number}) ON CONFLICT DO NOTHING")
            self.acknowledged.append(boottime())

    def outage_s(self, since: float) -> float:
        """The longest time without an acknowledgement."""
        times = [at for at in self.acknowledged if at >= since]
        return max(after - before for before, after in zip([since, *times], times, strict=False))

    def lost(self) -> set[int]:
        """Numbers that were acknowledged and are not there."""
        acknowledged = set(range(len(self.acknowledged)))
        with psycopg.connect(self.dsn) as connection:
            return acknowledged - {number for (number,) in connection.execute("TABLE witness").fetchall()}


def a_log_cluster_at(dsn: str, folder: Path, world: World) -> PostgresCluster:
    return PostgresCluster(a_journey(folder, world), {"TARRAFA_STORE": f"s3://tests/{folder.name}"}, dsns=[dsn])


def visits_of(dsn: str) -> set[tuple[str, int]]:
    with psycopg.connect(dsn) as connection:
        return set(connection.execute(VISITS.encode()).fetchall())


def repeated_requests(cluster: PostgresCluster) -> int:
    asked = Counter(entry.url for entry in cluster.journey.requests() if not entry.url.endswith("/robots.txt"))
    return sum(asked.values()) - len(asked)


def end_crawl(cluster: PostgresCluster, *machines: Process) -> None:
    """Wait until everything is fetched and followed, and stop."""
    names = [machine.log.stem for machine in machines]
    cluster.wait_until_exhausted(machines[0])
    wait_until_followed(cluster, machines[0], *names)
    wait_for(lambda: cluster.status().state == "finished", machines[0])
    for machine in machines:
        assert machine.stop() == 130, machine.said()
        assert "Traceback" not in machine.said(), machine.said()
    assert_one_system(cluster, *names)
    assert_nothing_repeated_but_what_was_in_flight(cluster)


def test_a_promoted_standby_has_everything_that_was_finished(tmp_path, pair):
    primary, standby = pair
    world = World(seed=3, hosts=12, pages=60)
    cluster = a_log_cluster_at(address_of_all(pair, "frontier"), tmp_path, world)
    cluster.settings["TARRAFA_LEASE_S"], cluster.journey.sections = str(SHORT_LEASE_S), HASTE
    cluster.journey.delay_s = 0.1
    with cluster.journey.web:
        try:
            a = cluster.node("a")
            wait_for((tmp_path / "a" / "archive" / "log.json").exists, a)
            b = cluster.node("b")
            cluster.submit(cluster.journey.write_collection())
            cluster.wait_until_visited(20, a)
            finished = visits_of(primary.address("frontier"))
            primary.stop("immediate")
            standby.promote()
            cluster.wait_until_visited(len(finished) + 1, a)
            assert finished <= visits_of(standby.address("frontier"))
            cluster.dsns = [standby.address("frontier")]
            end_crawl(cluster, a, b)
        finally:
            cluster.end()


@pytest.mark.long
def test_patroni_fails_over_twice_and_nothing_that_was_finished_is_lost(tmp_path, patroni):
    """With the usual lease of 30 s and the settings of docs/patroni.yml."""
    dsn = patroni.database("frontier")
    world = World(seed=8, hosts=40, pages=500)
    cluster = a_log_cluster_at(dsn, tmp_path, world)
    cluster.journey.delay_s = 1.0
    goal = len(expected_requests(world, [world.root(1)], types=TYPES, sitemaps=True).kept)
    with cluster.journey.web, Witness(dsn) as witness:
        try:
            a = cluster.node("a", "--workers", "2")
            wait_for((tmp_path / "a" / "archive" / "log.json").exists, a)
            b = cluster.node("b", "--workers", "2")
            cluster.submit(cluster.journey.write_collection())
            for part in (1, 2):
                cluster.wait_until_visited(goal * part // 6, a)
                repeated, dead = repeated_requests(cluster), patroni.primary()
                assert dead is not None
                assert not is_exhausted(cluster.status()), "the crawl is under way"
                finished, began = visits_of(dsn), boottime()
                dead.kill()
                cluster.wait_until_visited(len(finished) + 1, a)
                back_s = boottime() - began
                wait_for(lambda: witness.acknowledged[-1] > began, a)  # noqa: B023
                assert finished <= visits_of(dsn), "nothing that was finished is lost"
                dead.start()
                patroni.wait_until_safe()
                print(
                    f"failover {part}: commits again after {witness.outage_s(began):.1f} s, visits finished after"
                    f" {back_s:.1f} s, {repeated_requests(cluster) - repeated} requests repeated"
                )
            end_crawl(cluster, a, b)
            assert witness.lost() == set()
            print(f"{goal:,} pages, {len(witness.acknowledged):,} commits of the witness, none lost")
        finally:
            cluster.end()


@pytest.mark.long
def test_a_primary_whose_patroni_died_acknowledges_nothing_that_is_lost(patroni):
    """Beside the new primary, the old one still works; Patroni stops it when it is started again."""
    with Witness(patroni.database("frontier")) as witness:
        block_until(lambda: len(witness.acknowledged) > 20)
        alone = patroni.primary()
        assert alone is not None
        alone.kill_patroni()
        block_until(lambda: patroni.primary() not in (None, alone))
        alone.start()
        patroni.wait_until_safe()
        began = boottime()
        block_until(lambda: witness.acknowledged[-1] > began)
        assert witness.lost() == set()
