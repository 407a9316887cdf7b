"""One address with several hosts: the primary dies, hangs or accepts no more changes, and its standby is promoted."""

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import psycopg
import pytest

from tarrafa.archive.segment_log.segment import NewSegment, SegmentPart
from tarrafa.clock import boottime
from tarrafa.errors import ConfigError, Unreachable
from tarrafa.frontier.messages import LEASE_S
from tarrafa.frontier.postgres.database_connection import SILENCE_S, DatabaseConnection, describe_dsn
from tarrafa.frontier.postgres.postgres_frontier import PostgresFrontier
from tarrafa.frontier.postgres.segment_manifest import PostgresManifest
from tarrafa.runtime.process_identity import current_process
from tests.contract.frontier_bodies import SUFFIXES, a_collection, done, numbers, offer
from tests.contract.postgres_process import WHY_NOT, Postgres, address_of_all, programs
from tests.ports import reserved_port
from tests.wait import block_until

pytestmark = pytest.mark.skipif(programs() is None, reason=WHY_NOT)
ADD = "INSERT INTO noted VALUES (%s)"


@contextmanager
def a_pair() -> Iterator[tuple[Postgres, Postgres]]:
    """A primary with an empty database `frontier`, and its synchronous standby."""
    primary = Postgres()
    primary.database("frontier")
    standby = Postgres(standby_of=primary)
    try:
        primary.wait_for_standbys()
        yield primary, standby
    finally:
        standby.remove()
        primary.remove()


@pytest.fixture
def pair() -> Iterator[tuple[Postgres, Postgres]]:
    with a_pair() as made:
        yield made


@pytest.mark.parametrize(
    ("dsn", "shown"),
    [
        ("postgresql://u:secret@one:5432,two:5433/urls", "postgresql://u@one:5432,two:5433/urls"),
        ("postgresql://u@one,two:5433/urls", "postgresql://u@one,two:5433/urls"),
        ("postgresql://[::1]:5432,two:5433/urls", "postgresql://[::1]:5432,two:5433/urls"),
        ("postgresql:///urls?host=one,two&port=1,2&password=secret", "postgresql://one:1,two:2/urls"),
        ("postgresql:///urls?host=one,two&port=1", "postgresql://one:1,two:1/urls"),
        ("postgresql:///urls?hostaddr=10.0.0.1,10.0.0.2", "postgresql://10.0.0.1,10.0.0.2/urls"),
        ("postgresql:///urls?host=/run/postgresql", "postgresql:///run/postgresql/urls"),
    ],
)
def test_an_address_is_shown_with_each_host_and_its_port(dsn, shown):
    assert describe_dsn(dsn) == shown


def test_a_wrong_password_is_final_only_when_no_host_may_still_answer():
    server = Postgres(password="right")
    try:
        with reserved_port() as nobody:
            at = f"127.0.0.1:{server.port}"
            with pytest.raises(Unreachable, match=r"password authentication failed.*refused") as told:
                DatabaseConnection(f"postgresql://postgres:wr0ng-secret@{at},127.0.0.1:{nobody}/postgres")
            assert "wr0ng-secret" not in str(told.value)
            with pytest.raises(ConfigError, match="password authentication failed") as refused:
                DatabaseConnection(f"postgresql://postgres:wr0ng-secret@{at},{at}/postgres")
            assert "wr0ng-secret" not in str(refused.value)
            DatabaseConnection(f"postgresql://postgres:right@127.0.0.1:{nobody},{at}/postgres").close()
    finally:
        server.remove()
    with pytest.raises(ConfigError, match="could not match 2 port numbers to 3 hosts"):
        DatabaseConnection("postgresql:///urls?host=a,b,c&port=1,2")


def test_a_standby_is_never_taken_for_the_server(pair):
    primary, standby = pair
    with pytest.raises(Unreachable, match="read-only"):
        DatabaseConnection(standby.address("frontier"))
    database = DatabaseConnection(address_of_all((standby, primary), "frontier"))
    assert database.read("SELECT pg_is_in_recovery()") == [(False,)]
    database.close()


def test_a_hung_primary_is_left_for_the_promoted_standby(pair):
    """Another connection to the same address must not count as an answer of the one that hangs."""
    primary, standby = pair
    database = DatabaseConnection(address_of_all((primary, standby), "frontier"))
    database.with_retries(lambda: database.connect().execute("CREATE TABLE noted (number BIGINT PRIMARY KEY)"))
    database.with_retries(lambda: database.connect().execute(ADD, [1]))
    primary.hang()
    standby.promote()
    began = boottime()
    database.with_retries(lambda: database.connect().execute(ADD, [2]))
    assert boottime() - began < LEASE_S, f"silence is noticed after {SILENCE_S} s, and its check takes as long"
    assert database.read("SELECT number FROM noted ORDER BY 1") == [(1,), (2,)]
    assert database.losses == 1
    database.close()


def test_a_server_that_accepts_no_changes_is_waited_for_and_another_one_is_refused():
    server, stranger = Postgres(), Postgres()
    try:
        dsn = address_of_all((server, stranger))
        database, hasty = DatabaseConnection(dsn), DatabaseConnection(server.address(), patience_s=0.1)
        database.with_retries(lambda: database.connect().execute("CREATE TABLE noted (number BIGINT PRIMARY KEY)"))
        set_read_only(server, "on")
        block_until(lambda: database.read("SHOW default_transaction_read_only") == [("on",)])
        with pytest.raises(Unreachable, match="read-only"):
            hasty.with_retries(lambda: hasty.connect().execute(ADD, [1]))
        stranger.stop()
        adding = threading.Thread(target=database.with_retries, args=(lambda: database.connect().execute(ADD, [2]),))
        adding.start()
        block_until(lambda: database.losses == 1)
        set_read_only(server, "off")
        adding.join()
        assert database.read("SELECT number FROM noted") == [(2,)]
        stranger.start()
        server.stop()
        with pytest.raises(ConfigError, match="another server than before answers here"):
            database.read("SELECT number FROM noted")
    finally:
        server.remove()
        stranger.remove()


def set_read_only(server: Postgres, value: str) -> None:
    with psycopg.connect(server.address(), autocommit=True, options="-c default_transaction_read_only=off") as own:
        own.execute(f"ALTER SYSTEM SET default_transaction_read_only = {value}".encode())
        own.execute("SELECT pg_reload_conf()")


async def test_frontier_manifest_and_planner_go_on_with_the_promoted_standby(pair):
    primary, standby = pair
    dsn = address_of_all((primary, standby), "frontier")
    frontier, other = (PostgresFrontier([dsn], SUFFIXES, keeps_links=True) for _ in range(2))
    manifest = PostgresManifest(dsn)
    log = manifest.create("s3://tests/failover")
    row = await frontier.open_collection(a_collection())
    await frontier.discover(row.id, [offer(f"http://h{number}.br/") for number in range(9)])
    worker = (await frontier.join("w", current_process())).worker
    leases = await frontier.lease(worker, 4)
    manifest.append(first := NewSegment(worker, 1, "x", 10, b"w", 20, b"m", 5))
    await frontier.finish(worker, [done(lease, lease.visits) for lease in leases[:2]])
    assert await frontier.may_plan()
    assert not await other.may_plan()
    primary.stop("immediate")
    finishing = asyncio.create_task(frontier.finish(worker, [done(lease, lease.visits) for lease in leases[2:]]))
    await asyncio.to_thread(standby.promote)
    await finishing
    manifest.append(first)  # its answer might have been lost
    manifest.append(NewSegment(worker, 2, "y", 1, b"w", 2, b"m", 2))
    assert manifest.identity() == log
    assert [segment.warc for segment in manifest.segments(1, 9)] == [SegmentPart(0, 10, b"w"), SegmentPart(10, 1, b"w")]
    status = await numbers(frontier)
    assert (status.known, status.fetched, status.handed_out) == (9, 4, 0)
    assert len(await frontier.lease(worker, 9)) == 5
    with pytest.raises(Unreachable):  # its launcher asks again a second later
        await other.may_plan()
    assert await other.may_plan(), "a lock ends with the server that gave it"
    assert not await frontier.may_plan()
    for one in (frontier, other):
        await one.close()
    manifest.close()
