"""The segment log: what is appended on one machine is read on all, in one order, and nothing else ever is."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import pairwise

import msgspec
import psycopg
import pytest

from tarrafa.archive.segment_log.log_mirror import LogMirror, detach_mirror, mirrored_log
from tarrafa.archive.segment_log.object_store import CREDENTIAL_VARIABLES, ObjectStore, check_address
from tarrafa.archive.segment_log.orphans import sweep_orphans
from tarrafa.archive.segment_log.push import ArchivePush, PairPosition, cut_pair
from tarrafa.archive.segment_log.segment import LogIdentity, NewSegment, object_names_of
from tarrafa.archive.segment_log.segment_writer import SegmentWriter
from tarrafa.archive.warc_reader import (
    durable_lengths,
    follow,
    meta_path,
    read_entry,
    read_records,
    scan_heads,
    visit_lengths,
)
from tarrafa.archive.warc_writer import METADATA, WarcWriter, read_durable, recover_archive
from tarrafa.errors import ConfigError, DataError, LeaseLost, Unreachable
from tarrafa.frontier.postgres.segment_manifest import PostgresManifest
from tarrafa.model import Listing, ListingNote
from tarrafa.runtime.data_dir import DataDirectory
from tests.archive.log_cluster import all_of, visits, write
from tests.archive.test_warc_files import a_record, an_exchange
from tests.contract import postgres_process
from tests.wait import block_until
from tests.warc_check import check_warc_file

pytestmark = pytest.mark.skipif(postgres_process.programs() is None, reason=postgres_process.WHY_NOT)


def test_every_machine_reads_what_any_machine_wrote_at_the_same_place(cluster):
    one, other = cluster.writer(1), cluster.writer(2)
    write(one, range(3))
    write(other, range(3, 5))
    write(one, range(5, 6))
    places = []
    for name in ("a", "b"):
        with cluster.mirror(name) as mirror:
            assert mirror.pull() == 3
            assert mirror.pull() == 0
        data = cluster.machine(name)
        entries = list(follow(data.archive, {}))
        assert [entry.record.url for entry in entries] == [a_record(number).url for number in range(6)]
        assert entries[0].record == a_record(0)
        read = read_entry(data.archive, entries[4].file, entries[4].start)
        assert read is not None and read.record == a_record(4)
        places.append([(entry.file, entry.start, entry.end) for entry in entries])
    assert places[0] == places[1]


def test_the_files_of_the_log_are_warc_files_that_other_programs_read(cluster):
    write(cluster.writer(1), range(3))
    with cluster.mirror("a") as mirror:
        mirror.pull()
    meta, warc = sorted(cluster.machine("a").archive.glob("*.warc.gz"))
    assert (check_warc_file(meta), check_warc_file(warc)) == (7, 7), "three visits and a description in each"


def test_a_follower_goes_on_where_it_was(cluster):
    writer, data = cluster.writer(1), cluster.machine("a")
    with cluster.mirror("a") as mirror:
        write(writer, range(2))
        mirror.pull()
        cursor = dict(visit_lengths(data.archive))
        write(writer, range(2, 4))
        mirror.pull()
        assert [entry.record for entry in follow(data.archive, cursor)] == [a_record(2), a_record(3)]


def test_a_segment_of_notes_only_moves_no_follower(cluster):
    writer, data = cluster.writer(1), cluster.machine("a")
    write(writer, range(1))
    writer.append_exchange(an_exchange(7))
    writer.prepare_commit()()
    with cluster.mirror("a") as mirror:
        mirror.pull()
        assert mirror.lengths == cluster.manifest.lengths()
        lengths = visit_lengths(data.archive)
        assert list(lengths.values()) == [mirror.lengths.visits_end] and mirror.lengths.visits_end < mirror.lengths.meta


def test_a_worker_that_was_released_appends_nothing(cluster):
    writer = cluster.writer(1)
    write(writer, range(1))
    cluster.release(1)
    with pytest.raises(LeaseLost):
        write(writer, range(1, 2))
    with cluster.mirror("a") as mirror:
        assert mirror.pull() == 1


def test_a_release_waits_for_an_append_and_an_append_for_a_release(folder_cluster):
    """The fence holds whichever comes first: never a row after its worker is gone."""
    cluster = folder_cluster
    cluster.join(1)
    with psycopg.connect(cluster.dsn) as releasing:
        releasing.execute("DELETE FROM worker WHERE id = 1")
        errors: list[Exception] = []

        def append() -> None:
            try:
                cluster.new_manifest().append(NewSegment(1, 1, "x", 1, b"", 1, b"", 0))
            except LeaseLost as error:
                errors.append(error)

        thread = threading.Thread(target=append)
        thread.start()
        waiting = (
            "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()"
        )
        with psycopg.connect(cluster.dsn, autocommit=True) as watching:
            block_until(lambda: (watching.execute(waiting).fetchone() or (0,))[0] > 0)
        releasing.commit()
        thread.join()
    assert len(errors) == 1 and cluster.manifest.segments(1, 9) == []


def test_an_append_that_is_repeated_is_one_segment(folder_cluster):
    cluster, new = folder_cluster, NewSegment(1, 1, "x", 10, b"", 20, b"", 5)
    cluster.join(1)
    for _ in range(3):
        cluster.manifest.append(new)
    assert [segment.number for segment in cluster.manifest.segments(1, 9)] == [1]
    assert cluster.manifest.lengths().meta == 20
    with pytest.raises(DataError, match="another segment"):
        cluster.manifest.append(NewSegment(1, 1, "x", 10, b"other", 20, b"", 5))


def test_segments_of_many_writers_have_no_gap(folder_cluster):
    cluster, each, workers = folder_cluster, 40, range(1, 9)
    for worker in workers:
        cluster.join(worker)
    seen: list[int] = []

    def append(worker: int) -> None:
        manifest = cluster.new_manifest()
        for sequence in range(each):
            manifest.append(
                NewSegment(worker, sequence, f"{worker}-{sequence}", worker, b"", sequence + 1, b"", sequence)
            )
        manifest.close()

    threads = [threading.Thread(target=append, args=(worker,)) for worker in workers]
    for thread in threads:
        thread.start()
    while len(seen) < each * len(workers):  # what a follower sees while they write
        seen += [segment.number for segment in cluster.manifest.segments(len(seen) + 1, 50)]
    for thread in threads:
        thread.join()
    assert seen == list(range(1, each * len(workers) + 1))
    segments = cluster.manifest.segments(1, 1000)
    ends = cluster.manifest.lengths()
    assert all(
        one.warc.end == other.warc.start and one.meta.end == other.meta.start for one, other in pairwise(segments)
    )
    assert (segments[-1].warc.end, segments[-1].meta.end, segments[-1].visits_end) == (
        ends.warc,
        ends.meta,
        ends.visits_end,
    )


@pytest.mark.parametrize("ending", [0, 1])
def test_a_missing_or_damaged_object_stops_the_mirror_before_it(cluster, ending):
    writer, data = cluster.writer(1), cluster.machine("a")
    for number in range(3):
        write(writer, range(number, number + 1))
    name = object_names_of(cluster.manifest.segments(2, 1)[0].name)[ending]
    whole = cluster.store().get(
        name,
        cluster.manifest.segments(2, 1)[0].warc.size if ending == 0 else cluster.manifest.segments(2, 1)[0].meta.size,
    )
    damaged = whole[:50] + bytes([whole[50] ^ 1]) + whole[51:]
    for content, said in ((damaged, "damaged"), (whole[:-1], "length"), (whole + b"x", "length"), (None, "missing")):
        if content is None:
            cluster.store().delete([name])
        else:
            cluster.store().put(name, content)
        with cluster.mirror("a") as mirror, pytest.raises(DataError, match=name.rpartition("/")[2]) as error:
            mirror.pull()
        assert said in str(error.value)
        assert visits(data) == []  # a pass is published as a whole
    cluster.store().put(name, whole)
    with cluster.mirror("a") as mirror:
        mirror.pull()
    assert visits(data) == all_of(range(3))


def test_a_manifest_restored_from_an_older_backup_is_noticed(folder_cluster):
    cluster, writer = folder_cluster, folder_cluster.writer(1)
    write(writer, range(1))
    write(writer, range(1, 2))
    with cluster.mirror("a") as mirror:
        mirror.pull()
        with psycopg.connect(cluster.dsn, autocommit=True) as connection:
            connection.execute("DELETE FROM segment WHERE number = 2")
        with pytest.raises(DataError, match="older backup"):
            mirror.pull()
    assert visits(cluster.machine("a")) == all_of(range(2))


def test_a_mirror_that_lost_its_last_bytes_brings_them_again(cluster):
    writer, data = cluster.writer(1), cluster.machine("a")
    write(writer, range(2))
    with cluster.mirror("a") as mirror:
        mirror.pull()
    write(writer, range(2, 4))
    meta = data.archive / f"{cluster.log.file}.meta.warc.gz"
    with meta.open("ab") as file:
        file.write(b"torn")  # a pass that was killed before its rows
    recover_archive(data.archive)
    with cluster.mirror("a") as mirror:
        mirror.pull()
    assert visits(data) == all_of(range(4))


def test_a_second_mirror_of_a_data_directory_is_refused(folder_cluster):
    with folder_cluster.mirror("a"), pytest.raises(DataError, match="another process"):
        folder_cluster.mirror("a")


def test_a_data_directory_keeps_to_one_log(folder_cluster):
    cluster, data = folder_cluster, folder_cluster.machine("a")
    with cluster.mirror("a"):
        found = mirrored_log(data)
        assert found is not None and found.id == cluster.log.id
    other = LogIdentity("another", cluster.log.store, cluster.log.began)
    with pytest.raises(DataError, match="another frontier"):
        LogMirror(data, cluster.manifest, other)


def test_an_archive_of_its_own_is_no_mirror(folder_cluster):
    data = folder_cluster.machine("a")
    writer = WarcWriter(data.archive, "w", 1_700_000_000.0)
    writer.append(a_record(1), None)
    writer.close()
    with pytest.raises(DataError, match="archive of its own"):
        folder_cluster.mirror("a")


def test_orphans_of_workers_that_are_gone_are_swept_and_of_no_others(cluster):
    gone, living = cluster.writer(1), cluster.writer(2)
    write(gone, range(2))
    write(living, range(2, 4))
    store, log = cluster.store(), cluster.log
    kept = set(store.names(log.id))
    for worker in (1, 2, 77):  # 77: of a manifest that was restored
        for ending in (".warc.gz", ".meta.warc.gz"):
            store.put(f"{log.id}/segment/{worker:010d}/00000099{ending}", b"orphan")
    store.put("other/segment/0000000001/00000001.warc.gz", b"of another log")
    cluster.release(1)
    assert sweep_orphans(store, log, cluster.manifest) == 2
    assert sweep_orphans(store, log, cluster.manifest) == 0
    left = set(store.names(log.id))
    assert kept < left and len(left - kept) == 4 and len(list(store.names("other"))) == 1
    with cluster.mirror("a") as mirror:
        mirror.pull()
    assert visits(cluster.machine("a")) == all_of(range(4))


def test_a_store_that_is_away_is_waited_for_and_nothing_is_lost(folder_cluster):
    class AwayStore(ObjectStore):
        away = 2

        def put(self, name: str, content: bytes | memoryview) -> None:
            if self.away:
                self.away -= 1
                raise Unreachable("the store is away")
            super().put(name, content)

    cluster, said = folder_cluster, list[str]()
    writer = cluster.writer(1, store=AwayStore(cluster.log.store), print_line=said.append)
    write(writer, range(2))
    assert len(said) == 2 and "waiting" in said[0] and "going on" in said[1]
    with cluster.mirror("a") as mirror:
        mirror.pull()
    assert visits(cluster.machine("a")) == all_of(range(2))


def test_a_writer_without_its_leases_does_not_wait_for_the_store(folder_cluster):
    cluster = folder_cluster
    cluster.join(1)
    writer = SegmentWriter(cluster.new_manifest(), cluster.log, 1, lambda: False)
    with pytest.raises(LeaseLost):
        write(writer, range(1))
    assert cluster.manifest.segments(1, 1) == []


def test_a_log_is_created_once_and_only_for_a_new_frontier(folder_cluster):
    cluster = folder_cluster
    assert cluster.manifest.create(cluster.log.store) == cluster.log
    with pytest.raises(ConfigError, match="is in file://"):
        cluster.manifest.create("s3://elsewhere")
    with psycopg.connect(cluster.dsn, autocommit=True) as connection:
        connection.execute("DELETE FROM log_head")
    cluster.join(1)  # it archives on its own machine
    with pytest.raises(ConfigError, match="have no store"):
        cluster.manifest.create(cluster.log.store)


@pytest.mark.parametrize(
    "url",
    [
        "",
        "bucket/x",
        "s3://",
        "s3://key:secret@bucket/x",
        "s3://b/x?key=1",
        "file://host/x",
        "file:///",
        "http://x/y",
        "s3://b/\n",
        "s3://" + "b" * 600,
    ],
)
def test_addresses_that_name_no_store_are_refused(url):
    with pytest.raises(ConfigError, match="store"):
        check_address(url)


def test_keys_are_not_looked_for_where_nobody_named_them(monkeypatch):
    for name in CREDENTIAL_VARIABLES:
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(ConfigError, match="AWS_ACCESS_KEY_ID"):
        ObjectStore("s3://tests/x")


def test_addresses_have_one_form():
    assert check_address("s3://bucket/a/b/") == "s3://bucket/a/b"
    assert check_address(" file:///srv/tarrafa/ ") == "file:///srv/tarrafa"


def test_a_store_without_an_answer_says_so_without_secrets(monkeypatch):
    with port_without_server() as port:
        monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{port}")
        monkeypatch.setenv("AWS_ACCESS_KEY_ID", "key-of-ours")
        monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "very-secret")
        monkeypatch.setattr("tarrafa.archive.segment_log.object_store.RETRIES_S", 0.1)
        with pytest.raises(Unreachable, match="s3://tests/x") as error:
            ObjectStore("s3://tests/x").put("name", b"x")
    assert "very-secret" not in str(error.value) and len(str(error.value)) < 500


@contextmanager
def port_without_server() -> Iterator[int]:
    from tests.ports import reserved_port

    with reserved_port() as port:
        yield port


# -- push and pull -----------------------------------------------------------------------------------------------------


def an_archive(data: DataDirectory, visits: int) -> list[str]:
    """Two pairs of files with visits, of which every third has no exchange; robots.txt and notes between them."""
    for worker in ("w1", "w2"):
        writer = WarcWriter(data.archive, worker, 1_700_000_000.0)
        for number in range(visits):
            record = a_record(number, f"{worker} {number}")
            exchange = an_exchange(number)
            at = record.outcome.at
            writer.append(record, None if number % 3 == 0 else msgspec.structs.replace(exchange, at=at))
            if number % 4 == 0:
                writer.append_exchange(an_exchange(1_000 + number))
            if number % 5 == 0:
                writer.append_note(ListingNote("c", record.url, number, Listing()), at)
            writer.prepare_commit()()
        writer.close()
    return texts_in(data)


def texts_in(data: DataDirectory) -> list[str]:
    return [entry.record.page.text for entry in follow(data.archive, {}) if entry.record.page is not None]


@pytest.mark.parametrize("piece_bytes", [1, 3_000, 1 << 20])
def test_pieces_of_a_pair_hold_whole_visits_with_their_exchanges(tmp_path, piece_bytes):
    data = DataDirectory(tmp_path / "one")
    data.create()
    an_archive(data, 20)
    for file in durable_lengths(data.archive):
        durable = read_durable(data.archive / f"{file}.durable")
        pieces = list(cut_pair(data.archive, file, durable, PairPosition(), piece_bytes))
        assert pieces[0].start == PairPosition() and pieces[-1].end == PairPosition(durable.warc, durable.meta)
        assert all(one.end == other.start for one, other in pairwise(pieces))
        assert piece_bytes > 1 or len(pieces) >= 20
        for piece in pieces:
            exchanges = {head.url for at, _, head in scan_heads(data.archive / f"{file}.warc.gz", durable.warc)
                         if piece.start.warc <= at < piece.end.warc}  # fmt: skip
            for at, head, _ in read_records(meta_path(data.archive, file), piece.start.meta, piece.end.meta):
                number = int(head.url.rpartition("/")[2]) if head.kind == METADATA else 0
                assert number % 3 == 0 or head.url in exchanges, (piece, at)
            left = list(cut_pair(data.archive, file, durable, piece.end, piece_bytes))
            assert left == pieces[pieces.index(piece) + 1 :], "a push goes on with the same pieces"


def test_an_archive_is_pushed_and_pulled_and_is_the_same(cluster):
    data = cluster.machine("one")
    expected = an_archive(data, 12)
    cluster.join(1)
    ArchivePush(data, cluster.manifest, cluster.log, 1, lambda: None).run(lambda size: None, 3_000)
    assert cluster.manifest.head().number > 4
    other = cluster.machine("two")
    with LogMirror(other, cluster.manifest, cluster.log) as mirror:
        while mirror.pull():
            pass
    assert texts_in(other) == expected
    detach_mirror(other)
    assert mirrored_log(other) is None
    writer = WarcWriter(other.archive, "w", 1_800_000_000.0)  # one machine goes on with it
    writer.append(a_record(99, "new"), None)
    writer.close()
    assert sorted(texts_in(other)) == sorted([*expected, "new"])
    assert recover_archive(other.archive) == 0


def test_a_push_that_is_killed_at_any_call_goes_on_without_loss_or_repetition(folder_cluster, monkeypatch):
    class Killed(Exception):
        pass

    cluster, data = folder_cluster, folder_cluster.machine("one")
    expected = an_archive(data, 12)
    calls = [0]
    real_append, real_put = PostgresManifest.append, ObjectStore.put

    def dying(call: Callable[..., None], after: bool) -> Callable[..., None]:
        def wrapped(self: object, *arguments: object) -> None:
            calls[0] += 1
            dies = calls[0] % 3 == 0
            if dies and not after:
                raise Killed
            call(self, *arguments)
            if dies:
                raise Killed

        return wrapped

    worker = 0
    for after in (True, False):
        monkeypatch.setattr(PostgresManifest, "append", dying(real_append, after))
        monkeypatch.setattr(ObjectStore, "put", dying(real_put, after))
        for _ in range(8):
            worker += 1
            cluster.join(worker)
            with pytest.raises(Killed):
                ArchivePush(data, cluster.manifest, cluster.log, worker, lambda: None).run(lambda size: None, 1)
            cluster.release(worker)
    monkeypatch.setattr(PostgresManifest, "append", real_append)
    monkeypatch.setattr(ObjectStore, "put", real_put)
    cluster.join(worker + 1)
    ArchivePush(data, cluster.manifest, cluster.log, worker + 1, lambda: None).run(lambda size: None, 1)
    assert ArchivePush(data, cluster.manifest, cluster.log, worker + 1, lambda: None).run(lambda size: None, 1) == 0
    with cluster.mirror("two") as mirror:
        while mirror.pull():
            pass
    assert texts_in(cluster.machine("two")) == expected


def test_an_archive_is_pushed_into_one_log_only(folder_cluster):
    cluster, data = folder_cluster, folder_cluster.machine("one")
    an_archive(data, 2)
    cluster.join(1)
    ArchivePush(data, cluster.manifest, cluster.log, 1, lambda: None).run(lambda size: None)
    other = LogIdentity("another", cluster.log.store, cluster.log.began)
    with pytest.raises(DataError, match="another log"):
        ArchivePush(data, cluster.manifest, other, 1, lambda: None)
