"""Erasure in a segment log: nothing of a page is left in the store or on any machine, and all else is where it was."""

import asyncio
import random
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import psycopg
import pytest
from warcio.archiveiterator import ArchiveIterator

from tarrafa.archive.file_rewrite import read_members, record_id_of
from tarrafa.archive.fillers import FILLER, filler, padded_record
from tarrafa.archive.segment_log import merge
from tarrafa.archive.segment_log.object_store import ObjectStore
from tarrafa.archive.segment_log.orphans import remove_retired
from tarrafa.archive.segment_log.push import ArchivePush
from tarrafa.archive.segment_log.segment import object_names_of
from tarrafa.archive.segment_log.snapshot_store import PartOwner, SnapshotStore
from tarrafa.archive.warc_reader import follow
from tarrafa.archive.warc_writer import METADATA, TAKEDOWN_URI, WARCINFO
from tarrafa.crawl.compaction.compaction import compact_log
from tarrafa.crawl.compaction.log_erasure import SharedLog
from tarrafa.crawl.supervisor.takedown_and_deletion_sync import sync_takedowns_once
from tarrafa.crawl.verify.verification import silent
from tarrafa.errors import Locked, Unreachable
from tarrafa.frontier.address import parse_address
from tarrafa.frontier.postgres.segment_manifest import PostgresManifest
from tarrafa.runtime.data_dir import DataDirectory
from tests.archive.log_cluster import Cluster
from tests.contract import postgres_process
from tests.crawl.compaction.killed_process import FAR_FUTURE
from tests.crawl.compaction.test_erasure import PAGE, erases, files_with, order, unpacked
from tests.crawl.compaction.versions import assert_clean, bodies, follow_all, hits, run, set_file_size
from tests.object_store_process import WHY_NOT, a_store, program
from tests.warc_check import check_warc_file

pytestmark = [
    pytest.mark.skipif(postgres_process.programs() is None, reason=postgres_process.WHY_NOT),
    pytest.mark.skipif(program() is None, reason=WHY_NOT),
]
NEEDLE = b"pagina3 revisao"
DATE = "2026-11-19T00:00:00Z"
KILLS, KILLS_LONG = 4, 25


@pytest.fixture
def cluster(imported: DataDirectory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Cluster]:
    """An archive with many versions, pushed into a log in many segments."""
    for name, value in a_store().environment.items():
        monkeypatch.setenv(name, value)
    found = Cluster(tmp_path, f"s3://tests/{tmp_path.name}")
    found.join(1)
    source = DataDirectory(imported.root)
    (source.root / "push.json").unlink(missing_ok=True)
    ArchivePush(source, found.manifest, found.log, 1, lambda: None).run(lambda size: None, piece_bytes=20_000)
    (source.root / "push.json").unlink()
    found.release(1)
    yield found
    found.close()


def mirrored(cluster: Cluster, name: str) -> DataDirectory:
    """A machine that has followed the whole log."""
    data = cluster.machine(name)
    set_file_size(data, 1_000_000)
    with cluster.mirror(name) as mirror:
        while mirror.pull():
            pass
    follow_all(data)
    return data


def erase_in_log(cluster: Cluster, data: DataDirectory) -> list[str]:
    log = SharedLog(data, cluster.new_manifest(), cluster.log)
    return compact_log(log, silent, "ana", FAR_FUTURE)[0]


def in_store(cluster: Cluster, needle: bytes) -> list[str]:
    """The objects in which some bytes are, raw or inflated."""
    store, found, named = ObjectStore(cluster.log.store), [], dict[str, int]()
    for one in cluster.manifest.segments(1, 10_000):
        for name, part in zip(object_names_of(one.name), (one.warc, one.meta), strict=True):
            named[name] = max(named.get(name, 0), part.offset + part.size)
    for name in store.names(""):
        assert name in named, "an object that no row names"
        if any(needle in part for part in unpacked(store.get(name, named[name]))):
            found.append(name)
    return found


def put_snapshot(cluster: Cluster, data: DataDirectory) -> None:
    """As if the machine owned a part of the index, with all its documents."""
    with psycopg.connect(cluster.dsn, autocommit=True) as connection:
        connection.execute("INSERT INTO part_owner VALUES ('index', 1, 'a', 7) ON CONFLICT DO NOTHING")
    snapshots = SnapshotStore(cluster.new_manifest(), cluster.log, "1-of-2", 1)
    assert snapshots.publish(PartOwner("a", 7), data.index, 1, {}) is not None


def drop_retired(cluster: Cluster) -> int:
    """As if ten minutes were over."""
    with psycopg.connect(cluster.dsn, autocommit=True) as connection:
        connection.execute("UPDATE retired_segment SET due = 0")
    return remove_retired(cluster.store(), cluster.manifest)


def places(data: DataDirectory) -> dict[str, int]:
    """Where each record is."""
    return {
        f"{path.name} {record_id_of(member)}": member.position
        for path in data.archive.glob("*-log-*.warc.gz")
        for member in read_members(path, path.stat().st_size)
        if member.kind not in (FILLER, WARCINFO) and member.url != TAKEDOWN_URI
    }


@pytest.mark.parametrize("merged", [False, True])
@pytest.mark.parametrize("target", [PAGE, "host:www.site.test", "site:site.test"])
def test_nothing_of_what_is_erased_is_left_in_the_store_or_on_any_machine(cluster, monkeypatch, target, merged):
    a, b = mirrored(cluster, "a"), mirrored(cluster, "b")
    if merged:
        monkeypatch.setattr(merge, "LAST_KEPT", 1)
        with cluster.mirror("a") as mirror:
            assert merge.merge_segments(mirror, cluster.manifest, cluster.log, lambda: None, 100_000) > 4
        drop_retired(cluster)
    before, others = places(a), {key: body for key, body in bodies(a).items() if not erases(target, key[0])}
    assert in_store(cluster, NEEDLE)
    order(a, target, "--frontier", cluster.dsn)
    put_snapshot(cluster, a)
    assert erase_in_log(cluster, a) == [target]
    assert in_store(cluster, NEEDLE) == []
    assert not list(cluster.store().names(f"{cluster.log.id}/index/"))
    assert files_with(a, NEEDLE) == []
    assert bodies(a) == others
    assert_clean(a)
    for entry in follow(a.archive, {}):
        assert (entry.record.removed == "erased") == erases(target, entry.record.url)
    assert places(a).items() <= before.items(), "no record moves"
    for path in a.archive.glob("*-log-*.warc.gz"):
        check_warc_file(path)
    asyncio.run(sync_takedowns_once(a, parse_address([cluster.dsn])))
    with cluster.mirror("b") as mirror:
        mirror.pull()
    assert [name for name in files_with(b, NEEDLE) if name.startswith("archive/")] == []
    assert erase_in_log(cluster, b) == [target]
    assert files_with(b, NEEDLE) == []
    assert bodies(b) == others and hits(b) == hits(a)
    assert_clean(b)
    c = mirrored(cluster, "c")  # a new machine
    assert places(c) == places(a) and bodies(c) == others


def test_the_command_erases_in_the_log_and_says_so(cluster):
    data = mirrored(cluster, "a")
    set_file_size(data, 1_000_000, 'erase_wait = "0 s"')
    assert "nothing is due" in run("compact", "--data", data.root, "--frontier", cluster.dsn)
    order(data, PAGE, "--frontier", cluster.dsn)
    assert "would be erased" in run("compact", "--data", data.root, "--dry-run")
    with pytest.raises(AssertionError, match="--frontier"):
        run("compact", "--data", data.root)
    assert f"{PAGE}: erased" in run("compact", "--data", data.root, "--frontier", cluster.dsn)
    assert in_store(cluster, NEEDLE) == []
    assert "nothing is due" in run("compact", "--data", data.root, "--frontier", cluster.dsn)


def test_a_legal_hold_of_another_machine_stops_the_erasure(cluster):
    a, b = mirrored(cluster, "a"), mirrored(cluster, "b")
    order(a, PAGE, "--frontier", cluster.dsn)
    run("takedown", "hold", "host:www.site.test", "--data", b.root, "--frontier", cluster.dsn)
    assert erase_in_log(cluster, a) == []
    assert in_store(cluster, NEEDLE)


def test_a_mirror_that_misses_an_object_reads_its_row_again(cluster, monkeypatch):
    """Between the reading of the rows and the downloads the segments are rewritten, and old objects deleted."""
    a = mirrored(cluster, "a")
    order(a, PAGE, "--frontier", cluster.dsn)
    with cluster.mirror("new") as mirror:
        read = mirror._next_segments

        def read_late():
            monkeypatch.setattr(mirror, "_next_segments", read)
            found = read()
            assert erase_in_log(cluster, a) == [PAGE]
            return found

        monkeypatch.setattr(mirror, "_next_segments", read_late)
        with pytest.raises(Unreachable, match="being rewritten"):
            mirror.pull()
        while mirror.pull():
            pass
    new = cluster.machine("new")
    assert files_with(new, NEEDLE) == []
    assert places(new) == places(a)


# -- killed ------------------------------------------------------------------------------------------------------------


def run_killed(cluster: Cluster, data: DataDirectory, at: int) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-m", "tests.crawl.compaction.test_log_erasure", str(data.root), cluster.dsn, str(at)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def main(root: str, dsn: str, kill_at: int) -> None:
    """Erase, and kill ourselves before the N-th call to store or manifest, or at the N-th write of a mirror."""
    import os

    from tarrafa.archive.segment_log import log_mirror, orphans

    calls = 0

    def dying(real: Any) -> Any:
        def call(*arguments: Any, **named: Any) -> Any:
            nonlocal calls
            calls += 1
            if calls == kill_at:
                os.kill(os.getpid(), signal.SIGKILL)
            return real(*arguments, **named)

        return call

    for owner, name in (
        (ObjectStore, "put"), (ObjectStore, "delete"), (PostgresManifest, "replace"), (PostgresManifest, "announce"),
        (PostgresManifest, "forget_retired"), (log_mirror, "_write_at"), (log_mirror.LogMirror, "_read_last"),
        (orphans, "remove_retired"),
    ):  # fmt: skip
        setattr(owner, name, dying(getattr(owner, name)))
    manifest = PostgresManifest(dsn)
    identity = manifest.identity()
    assert identity is not None
    compact_log(SharedLog(DataDirectory(Path(root)), manifest, identity), silent, "ana", FAR_FUTURE)
    sys.stdout.write(str(calls))


def check_kills(cluster: Cluster, kills: int) -> None:
    a, b = mirrored(cluster, "a"), mirrored(cluster, "b")
    order(a, PAGE, "--frontier", cluster.dsn)
    others = {key: body for key, body in bodies(a).items() if key[0] != PAGE}
    rng, at = random.Random(3), 0
    for _ in range(kills):
        at += rng.randint(1, 2)
        if run_killed(cluster, a, at).returncode != -signal.SIGKILL:
            break
        with cluster.mirror("b") as mirror:
            mirror.pull()
        assert bodies(b).items() >= others.items()
    erase_in_log(cluster, a)
    assert in_store(cluster, NEEDLE) == []
    assert files_with(a, NEEDLE) == []
    assert bodies(a) == others
    assert_clean(a)
    with cluster.mirror("b") as mirror:
        mirror.pull()
    assert places(b) == places(a)


def test_an_erasure_that_is_killed_is_completed(cluster):
    check_kills(cluster, KILLS)


@pytest.mark.long
def test_an_erasure_that_is_killed_twenty_five_times_is_completed(cluster):
    check_kills(cluster, KILLS_LONG)


def test_what_was_retired_is_deleted_by_any_machine(cluster):
    a = mirrored(cluster, "a")
    order(a, PAGE, "--frontier", cluster.dsn)
    assert run_killed(cluster, a, 0).returncode == 0
    segment = cluster.manifest.segments(1, 1)[0]
    retired = f"{cluster.log.id}/segment/0000000001/retired"
    for name in object_names_of(retired):
        cluster.store().put(name, b"old")
    with psycopg.connect(cluster.dsn, autocommit=True) as connection:
        connection.execute("INSERT INTO retired_segment VALUES (%s, 0)", (retired,))
    assert remove_retired(cluster.store(), cluster.manifest) == 2
    assert cluster.manifest.retired(9) == []
    assert not {*object_names_of(retired)} & set(cluster.store().names(""))
    assert cluster.manifest.segments(1, 1)[0] == segment


def kinds_read_by_warcio(path: Path) -> list[str]:
    with path.open("rb") as stream:
        return [record.rec_type for record in ArchiveIterator(stream)]


def test_of_two_machines_that_erase_at_once_the_second_one_changes_nothing(cluster, monkeypatch):
    a, b = mirrored(cluster, "a"), mirrored(cluster, "b")
    order(a, PAGE, "--frontier", cluster.dsn)
    order(b, "http://www.site.test/p6.html", "--frontier", cluster.dsn)
    replace = PostgresManifest.replace

    def replace_late(manifest: PostgresManifest, *arguments: Any) -> bool:
        monkeypatch.setattr(PostgresManifest, "replace", replace)
        erase_in_log(cluster, b)
        return replace(manifest, *arguments)

    monkeypatch.setattr(PostgresManifest, "replace", replace_late)
    with pytest.raises(Locked, match="another machine"):
        erase_in_log(cluster, a)
    drop_retired(cluster)  # an hour later
    erase_in_log(cluster, a)
    assert in_store(cluster, NEEDLE) == in_store(cluster, b"pagina6 revisao") == []
    assert_clean(a)


# -- fillers -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("start", [200, 65_500, 130_900])
def test_a_filler_has_any_length_and_every_reader_steps_over_it(tmp_path, start):
    sizes = [size for size in range(start, start + 150) if filler(size, DATE, str(size)) is not None]
    assert len(sizes) >= 145
    content = b"".join(filler(size, DATE, str(size)) or b"" for size in sizes)
    path = tmp_path / "fillers.warc.gz"
    path.write_bytes(content)
    assert [len(one.packed) for one in read_members(path, len(content))] == sizes
    assert {one.kind for one in read_members(path, len(content))} == {FILLER}
    assert kinds_read_by_warcio(path) == [FILLER] * len(sizes)


def test_a_record_is_padded_to_a_length_and_keeps_its_content(tmp_path):
    found, path = list[int](), tmp_path / "padded.warc.gz"
    headers = "WARC-Target-URI: http://a.br/\r\nContent-Type: application/json\r\n"
    for size in range(200, 900):
        packed = padded_record(METADATA, DATE, "<urn:uuid:7b4ddf24-f9ec-4f5d-b8a9-e9ba4ba2e6ea>", headers, b"[1]", size)
        if packed is None:
            assert not found or size < found[0] + 16, "what fits fits in more room, but for a few lengths"
            continue
        assert len(packed) == size
        path.write_bytes(packed)
        first, *rest = read_members(path, size)
        assert (first.kind, first.url, msgspec.json.decode(first.content)) == (METADATA, "http://a.br/", [1])
        assert {one.kind for one in rest} <= {FILLER}
        assert kinds_read_by_warcio(path) == [METADATA, *(one.kind for one in rest)]
        found.append(size)
    assert found[0] < 320


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]))
