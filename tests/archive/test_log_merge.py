"""Small segments become large objects; what any machine reads, and where, stays as it is."""

import asyncio
import multiprocessing
import os
import signal
from typing import Any

import psycopg
import pytest

from tarrafa.archive.segment_log import log_mirror, merge
from tarrafa.archive.segment_log.log_mirror import LogMirror
from tarrafa.archive.segment_log.object_store import ObjectStore
from tarrafa.archive.segment_log.orphans import remove_retired
from tarrafa.archive.segment_log.segment import LogIdentity, is_merged, object_names_of
from tarrafa.errors import DataError, Locked, Unreachable
from tarrafa.frontier.postgres.segment_manifest import PostgresManifest
from tarrafa.runtime.data_dir import DataDirectory
from tests.archive.log_cluster import Cluster, all_of, visits, write
from tests.archive.test_log_notes import pull, take_down
from tests.contract import postgres_process
from tests.contract.test_takedowns import an_entry

pytestmark = pytest.mark.skipif(postgres_process.programs() is None, reason=postgres_process.WHY_NOT)
SEGMENTS, MERGED_BYTES = 12, 6_000  # of some 2,200 bytes each


@pytest.fixture(autouse=True)
def the_last_one_only_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(merge, "LAST_KEPT", 1)


def fill(cluster: Cluster) -> None:
    """Segments of two workers, with notes between them."""
    one, other = cluster.writer(1), cluster.writer(2)
    for number in range(SEGMENTS):
        write((one, other)[number % 2], range(number, number + 1))
        if number % 5 == 3:
            asyncio.run(take_down(cluster, an_entry(number)))
            one, other = cluster.writer(10 + number), cluster.writer(50 + number)


def merge_all(cluster: Cluster, name: str) -> int:
    with cluster.mirror(name) as mirror:
        while mirror.pull():
            pass
        return merge.merge_segments(mirror, cluster.manifest, cluster.log, lambda: None, MERGED_BYTES)


def files(data: DataDirectory) -> list[bytes]:
    return [path.read_bytes() for path in sorted(data.archive.glob("*-log-*.warc.gz"))]


def drop_retired(cluster: Cluster) -> int:
    with psycopg.connect(cluster.dsn, autocommit=True) as connection:
        connection.execute("UPDATE retired_segment SET due = 0")
    return remove_retired(cluster.store(), cluster.manifest)


def assert_whole(cluster: Cluster, machine: str) -> None:
    """A new machine reads the same bytes, and no object is there that no row names."""
    drop_retired(cluster)
    named = {name for one in cluster.manifest.segments(1, 999) if not one.note for name in object_names_of(one.name)}
    assert set(cluster.store().names("")) == named
    pull(cluster, machine)
    data = cluster.machine(machine)
    assert visits(data) == all_of(range(SEGMENTS))
    assert files(data) == files(cluster.machine("a"))


def test_a_new_machine_reads_merged_segments_as_if_they_were_not(cluster):
    fill(cluster)
    pull(cluster, "b")
    before = cluster.manifest.segments(1, 999)
    objects = len(list(cluster.store().names("")))
    assert merge_all(cluster, "a") >= SEGMENTS - 4
    after = cluster.manifest.segments(1, 999)
    assert [(one.number, one.lengths, one.rewrite) for one in after] == [(one.number, one.lengths, 0) for one in before]
    assert sum(is_merged(one.name) for one in after) >= SEGMENTS - 4
    assert remove_retired(cluster.store(), cluster.manifest) == 0, "old objects stay for ten minutes"
    pull(cluster, "c")
    assert drop_retired(cluster) > 0
    assert len(list(cluster.store().names(""))) <= objects / 2
    assert_whole(cluster, "d")
    write(cluster.writer(90), range(SEGMENTS, SEGMENTS + 1))
    for name in "bc":
        pull(cluster, name)
        assert visits(cluster.machine(name)) == all_of(range(SEGMENTS + 1))


def test_what_is_merged_is_not_merged_again(folder_cluster):
    fill(folder_cluster)
    merge_all(folder_cluster, "a")
    assert merge_all(folder_cluster, "a") == 0


def test_retired_objects_that_are_gone_already_are_forgotten(cluster):
    """As after a kill between the two."""
    fill(cluster)
    merge_all(cluster, "a")
    with psycopg.connect(cluster.dsn, autocommit=True) as connection:
        connection.execute("UPDATE retired_segment SET due = 0")
    retired = cluster.manifest.retired(999)
    assert retired
    cluster.store().delete([one for name in retired for one in object_names_of(name)])
    assert_whole(cluster, "b")


def test_objects_of_a_range_are_read_by_one_request(folder_cluster, monkeypatch):
    fill(folder_cluster)
    merge_all(folder_cluster, "a")
    requests, real = list[str](), ObjectStore._get

    def counted(store: ObjectStore, name: str, *arguments: Any) -> bytes:
        requests.append(name)
        return real(store, name, *arguments)

    monkeypatch.setattr(ObjectStore, "_get", counted)
    pull(folder_cluster, "b")
    assert len(requests) < 2 * SEGMENTS


def test_a_mirror_between_row_and_object_reads_the_row_again(folder_cluster, monkeypatch):
    cluster = folder_cluster
    fill(cluster)
    with cluster.mirror("b") as mirror:
        read = mirror._next_segments

        def read_early() -> Any:
            monkeypatch.setattr(mirror, "_next_segments", read)
            found = read()
            merge_all(cluster, "a")
            drop_retired(cluster)
            return found

        monkeypatch.setattr(mirror, "_next_segments", read_early)
        with pytest.raises(Unreachable):
            mirror.pull()
        while mirror.pull():
            pass
    assert_whole(cluster, "b")


def test_a_merged_object_that_is_damaged_stops_a_mirror(folder_cluster):
    cluster = folder_cluster
    fill(cluster)
    merge_all(cluster, "a")
    segment = next(one for one in cluster.manifest.segments(2, 999) if one.warc.offset)
    name = object_names_of(segment.name)[0]
    path = cluster.folder / "store" / name
    content = path.read_bytes()
    path.write_bytes(content[: segment.warc.offset + 9] + b"?" + content[segment.warc.offset + 10 :])
    with cluster.mirror("b") as mirror, pytest.raises(DataError, match="damaged"):
        mirror.pull()


def test_of_two_machines_that_merge_at_once_the_second_one_changes_nothing(folder_cluster, monkeypatch):
    cluster = folder_cluster
    fill(cluster)
    pull(cluster, "b")
    replace = PostgresManifest.replace

    def replace_late(manifest: PostgresManifest, *arguments: Any) -> bool:
        monkeypatch.setattr(PostgresManifest, "replace", replace)
        with cluster.mirror("b") as mirror:
            merge.merge_segments(mirror, cluster.new_manifest(), cluster.log, lambda: None, 2 * MERGED_BYTES)
        return replace(manifest, *arguments)

    monkeypatch.setattr(PostgresManifest, "replace", replace_late)
    with pytest.raises(Locked):
        merge_all(cluster, "a")
    assert_whole(cluster, "c")


# -- killed at every step ----------------------------------------------------------------------------------------------


def merge_and_die(data: DataDirectory, dsn: str, log: LogIdentity, kill_at: int) -> None:
    calls = 0

    def dying(real: Any) -> Any:
        def call(*arguments: Any, **named: Any) -> Any:
            nonlocal calls
            calls += 1
            if calls == kill_at:
                os.kill(os.getpid(), signal.SIGKILL)
            return real(*arguments, **named)

        return call

    for owner, name in ((ObjectStore, "put"), (PostgresManifest, "announce"), (PostgresManifest, "replace")):
        setattr(owner, name, dying(getattr(owner, name)))
    merge.LAST_KEPT = 1
    manifest = PostgresManifest(dsn)
    with LogMirror(data, manifest, log) as mirror:
        merge.merge_segments(mirror, manifest, log, lambda: None, MERGED_BYTES)


def test_a_merge_that_is_killed_at_any_step_loses_nothing(folder_cluster):
    cluster = folder_cluster
    fill(cluster)
    pull(cluster, "a")
    data, at = cluster.machine("a"), 0
    for at in range(1, 12):
        arguments = (data, cluster.dsn, cluster.log, 1 + at % 4)
        process = multiprocessing.get_context("spawn").Process(target=merge_and_die, args=arguments)
        process.start()
        process.join()
        if process.exitcode != -signal.SIGKILL:
            break
        pull(cluster, f"m{at}")
        assert files(cluster.machine(f"m{at}")) == files(data)
    assert at > 3
    merge_all(cluster, "a")
    assert_whole(cluster, "b")
    assert log_mirror.mirrored_log(data) is not None
