"""The index follower of an owned part puts snapshots into the store, and begins with the newest one."""

import threading

import psycopg
import pytest

from tarrafa.archive.deletion_log import record_deletions
from tarrafa.archive.segment_log.log_mirror import remember_log
from tarrafa.clock import Clock
from tarrafa.crawl.supervisor import part_snapshots
from tarrafa.crawl.supervisor.part_ownership import node_id
from tarrafa.crawl.supervisor.part_snapshots import PartSnapshots, snapshots_of
from tarrafa.frontier.address import PostgresServers, child_environment
from tarrafa.index import shards
from tarrafa.index.follower import IndexFollower, cursor
from tarrafa.index.shards import ShardLayout, write_layout
from tarrafa.runtime.data_dir import DataDirectory
from tests.archive.conftest import folder_cluster
from tests.archive.log_cluster import Cluster
from tests.contract import postgres_process
from tests.graph.archived_web import small_web
from tests.index.test_index_follower import contents
from tests.wait import block_until

__all__ = ["folder_cluster"]
pytestmark = pytest.mark.skipif(postgres_process.programs() is None, reason=postgres_process.WHY_NOT)


@pytest.fixture
def cluster(folder_cluster, monkeypatch):
    address = PostgresServers((folder_cluster.dsn,))
    for name, value in child_environment(address, Clock.real()).items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(part_snapshots, "QUIET_S", 0.0)
    monkeypatch.setattr(part_snapshots, "PAUSE_S_MIN", 0.0)
    monkeypatch.setattr(part_snapshots, "DELETIONS_WAIT_S", 0.0)
    writer = folder_cluster.writer(1)
    for record in small_web(40):
        writer.append(record, None)
    writer.prepare_commit()()
    writer.close()
    return folder_cluster


def a_part(cluster: Cluster, name: str) -> DataDirectory:
    """Part 1 of 2, which a machine owns."""
    data = cluster.machine(name)
    remember_log(data, cluster.log)
    write_layout(data, ShardLayout(2, (1,), is_owned=True))
    return shards.parts(data)[0]


def mirrored(cluster: Cluster, part: DataDirectory) -> None:
    with cluster.mirror(part.root.name) as mirror:
        while mirror.pull():
            pass


def own(cluster: Cluster, part: DataDirectory, epoch: int) -> None:
    with psycopg.connect(cluster.dsn, autocommit=True) as connection:
        connection.execute("DELETE FROM part_owner")
        connection.execute("INSERT INTO part_owner VALUES ('index', 1, %s, %s)", (node_id(part), epoch))


def publish(part: DataDirectory, snapshots: PartSnapshots) -> None:
    with IndexFollower(part) as follower:
        follower.read(1.0)
        follower.commit()
        end = sum(cursor(part).values())

        def is_published() -> bool:
            snapshots.consider(follower)
            return snapshots._published_end == end

        block_until(is_published, "a snapshot")


def restore(part: DataDirectory) -> bool:
    with PartSnapshots(part) as snapshots:
        return snapshots.restore(threading.Event())


def test_the_next_owner_begins_with_the_snapshot_before_it_has_the_log(cluster):
    one, two = a_part(cluster, "one"), a_part(cluster, "two")
    assert not restore(one), "there is none yet"
    mirrored(cluster, one)
    own(cluster, one, 5)
    with PartSnapshots(one) as snapshots:
        publish(one, snapshots)
    assert restore(two)
    assert contents(two) == contents(one)
    assert not restore(two), "it has its part"
    own(cluster, two, 6)
    writer = cluster.writer(2)
    for record in small_web(80)[40:]:
        writer.append(record, None)
    writer.prepare_commit()()
    mirrored(cluster, two)
    with PartSnapshots(two) as snapshots:
        publish(two, snapshots)
    three = a_part(cluster, "three")
    assert restore(three)
    assert contents(three) == contents(two) > contents(one)


def test_a_machine_that_does_not_own_the_part_makes_no_snapshot(cluster):
    one, two = a_part(cluster, "one"), a_part(cluster, "two")
    mirrored(cluster, two)
    own(cluster, one, 5)
    with PartSnapshots(two) as snapshots, IndexFollower(two) as follower:
        follower.read(1.0)
        follower.commit()
        snapshots.consider(follower)
        asked = snapshots._owner
        assert asked is not None
        assert asked.result() is None
        snapshots.consider(follower)
        assert snapshots._publication is None
    assert cluster.manifest.part_snapshot("1-of-2") is None


def test_a_snapshot_waits_for_the_deletions_that_it_knows(cluster):
    """Else the deletion, heard of later, would remove what a new collection of the same name has archived since."""
    one, two = a_part(cluster, "one"), a_part(cluster, "two")
    mirrored(cluster, one)
    own(cluster, one, 5)
    record_deletions(one.archive, {"gone": 50.0}, 50.5, 1.0)
    with PartSnapshots(one) as snapshots:
        publish(one, snapshots)
    assert not restore(two)
    record_deletions(two.archive, {"gone": 50.0}, 90.0, 1.0)
    assert restore(two)
    with IndexFollower(two) as follower:
        assert follower.projection.state.dropped == {"gone": 51.0}
        assert follower.projection.deletions.pending() == []


def test_a_damaged_row_is_passed_over(cluster, capsys):
    one = a_part(cluster, "one")
    with psycopg.connect(cluster.dsn, autocommit=True) as connection:
        connection.execute("INSERT INTO part_snapshot VALUES ('1-of-2', 1, 1, %s)", (b"nonsense",))
    assert not restore(one)
    assert "the part is built from the log" in "".join(capsys.readouterr())


def test_only_owned_parts_of_a_log_have_snapshots(cluster):
    part = a_part(cluster, "one")
    assert snapshots_of(part) is not None
    assert snapshots_of(DataDirectory(part.root)) is None
    write_layout(DataDirectory(part.root), ShardLayout(2, (1,)))
    assert snapshots_of(part) is None
