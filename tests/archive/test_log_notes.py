"""Deletions of collections and takedowns are notes in the segment log: every machine obeys them in their order."""

import asyncio
import multiprocessing
import os
import signal
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import msgspec
import psycopg
import pytest

from tarrafa.archive.deletion_log import ArchiveDeletions
from tarrafa.archive.segment_log import log_mirror, log_notes
from tarrafa.archive.segment_log.log_mirror import LogMirror
from tarrafa.archive.segment_log.log_notes import notes_of
from tarrafa.archive.segment_log.segment import LogIdentity, object_names_of
from tarrafa.archive.warc_reader import read_notes
from tarrafa.clock import Clock
from tarrafa.crawl.supervisor.takedown_and_deletion_sync import DeletionSync, TakedownSync, delete_collection
from tarrafa.errors import DataError
from tarrafa.frontier.api import Frontier
from tarrafa.frontier.postgres import note_segments as appending
from tarrafa.frontier.postgres.postgres_frontier import PostgresFrontier
from tarrafa.frontier.postgres.segment_manifest import PostgresManifest
from tarrafa.index import follower as index
from tarrafa.model import DeletedNote, TakedownNote
from tarrafa.runtime.data_dir import DataDirectory
from tarrafa.takedown import TakedownEntry, parse_target, read_entries, record_action
from tests.archive.log_cluster import Cluster, write
from tests.archive.test_deletion_log import A, B, page, shown
from tests.contract import postgres_process
from tests.contract.frontier_bodies import SUFFIXES, a_collection, offer
from tests.contract.test_takedowns import an_entry

pytestmark = pytest.mark.skipif(postgres_process.programs() is None, reason=postgres_process.WHY_NOT)
CLOCK = Clock.real()


@asynccontextmanager
async def the_frontier(cluster: Cluster) -> AsyncIterator[PostgresFrontier]:
    frontier = PostgresFrontier([cluster.dsn], SUFFIXES)
    try:
        yield frontier
    finally:
        await frontier.close()


async def make(frontier: Frontier, name: str = "c") -> None:
    await frontier.open_collection(a_collection(name), [offer(A), offer(B)], start=False)


async def delete(cluster: Cluster, *names: str) -> None:
    """Create these collections and delete them."""
    async with the_frontier(cluster) as frontier:
        for name in names:
            await make(frontier, name)
            await delete_collection(frontier, None, name)


async def take_down(cluster: Cluster, *entries: TakedownEntry) -> None:
    async with the_frontier(cluster) as frontier:
        await frontier.record_takedowns(list(entries))


def pull(cluster: Cluster, name: str) -> None:
    with cluster.mirror(name) as mirror:
        while mirror.pull():
            pass


def deleted_at(cluster: Cluster, name: str) -> dict[str, float]:
    return ArchiveDeletions(cluster.machine(name).archive).latest()


async def test_a_deletion_stands_between_the_visits_of_a_collection_and_those_of_its_namesake(cluster):
    """However the clocks of workers differ from the frontier's, as far as they may."""
    writer = cluster.writer(1)
    writer.append(page(A, "Ana", 7, CLOCK.now() + 0.9, "c", B), None)  # its clock is ahead
    writer.prepare_commit()()
    async with the_frontier(cluster) as frontier:
        await make(frontier)
        await delete_collection(frontier, None, "c")
        await make(frontier)
    writer = cluster.writer(2)  # the first one's lease is over
    writer.append(page(B, "Bia", 1, CLOCK.now() - 0.9, "c", A), None)  # now it is behind
    writer.prepare_commit()()
    assert [bool(one.note) for one in cluster.manifest.segments(1, 9)] == [False, True, False]
    for name in ("a", "b"):
        pull(cluster, name)
        data = cluster.machine(name)
        index.catch_up(data)
        assert shown(data) == {("c", B, "Bia")}
    (note,) = [one for _, _, one in read_notes(*_meta_of(cluster, "a"))]
    assert isinstance(note, DeletedNote) and note.collection == "c"
    assert deleted_at(cluster, "a") == deleted_at(cluster, "b") == {"c": note.at}


def _meta_of(cluster: Cluster, name: str) -> tuple[Any, int, int]:
    path = cluster.machine(name).archive / f"{cluster.log.file}.meta.warc.gz"
    return path, 0, path.stat().st_size


async def test_notes_are_obeyed_where_the_store_is_away_and_what_is_behind_it_cannot_be_read(folder_cluster):
    cluster, writer = folder_cluster, folder_cluster.writer(1)
    write(writer, range(1))
    (segment,) = cluster.manifest.segments(1, 1)
    cluster.store().delete(list(object_names_of(segment.name)))
    await take_down(cluster, an_entry(1))
    await delete(cluster, "gone")
    with cluster.mirror("a") as mirror, pytest.raises(DataError, match="missing"):
        mirror.pull()
    assert read_entries(cluster.machine("a")) == [an_entry(1)]
    assert set(deleted_at(cluster, "a")) == {"gone"}


async def test_a_machine_that_is_far_behind_obeys_every_note_first(folder_cluster, monkeypatch):
    cluster, writer = folder_cluster, folder_cluster.writer(1)
    for number in range(5):
        write(writer, range(number, number + 1))
    await take_down(cluster, an_entry(1), an_entry(2))
    monkeypatch.setattr(log_mirror, "SEGMENTS_PER_PASS", 2)
    with cluster.mirror("a") as mirror:
        assert mirror.pull() < 5
        assert read_entries(cluster.machine("a")) == [an_entry(1), an_entry(2)]


def test_a_note_that_came_after_the_first_look_is_obeyed_before_the_visits_behind_it(folder_cluster, monkeypatch):
    cluster, seen = folder_cluster, list[list[TakedownEntry]]()
    write(cluster.writer(1), range(1))
    with cluster.mirror("a") as mirror:
        fetch, publish = mirror._next_segments, mirror._publish

        def take_down_and_fetch() -> Any:
            asyncio.run(take_down(cluster, an_entry(1)))
            return fetch()

        def look_and_publish() -> None:
            seen.append(read_entries(cluster.machine("a")))
            publish()

        monkeypatch.setattr(mirror, "_next_segments", take_down_and_fetch)
        monkeypatch.setattr(mirror, "_publish", look_and_publish)
        assert mirror.pull() == 2
    assert seen == [[an_entry(1)]]


async def test_every_takedown_is_one_note_however_often_it_is_sent_and_however_many_send(folder_cluster):
    cluster, entries = folder_cluster, [an_entry(number) for number in range(31)]
    writers = [cluster.writer(number) for number in (1, 2)]

    def write_all(writer: Any) -> None:
        for number in range(20):
            write(writer, range(number, number + 1))

    threads = [threading.Thread(target=write_all, args=(writer,)) for writer in writers]
    for thread in threads:
        thread.start()

    async def send(start: int) -> None:
        for at in range(8):
            await take_down(cluster, *entries[start + at : start + at + 4])

    await asyncio.gather(*(send(start) for start in (0, 9, 20)))
    for thread in threads:
        thread.join()
    found = [note for one in cluster.manifest.notes(0, 1_000) for note in notes_of(one)]
    assert sorted(bytes(note.entry) for note in found if isinstance(note, TakedownNote)) == sorted(
        msgspec.json.encode(entry) for entry in entries
    )
    segments = cluster.manifest.segments(1, 1_000)
    assert [one.number for one in segments] == list(range(1, len(segments) + 1))
    ends = [(one.warc.end, one.meta.end) for one in segments[:-1]]
    assert ends == [(one.warc.start, one.meta.start) for one in segments[1:]]
    pull(cluster, "a")
    assert set(read_entries(cluster.machine("a"))) == set(entries)


async def test_what_was_deleted_and_taken_down_before_there_was_a_log_begins_it(tmp_path, monkeypatch):
    monkeypatch.setattr(appending, "NOTES_PER_SEGMENT", 2)
    cluster = Cluster.__new__(Cluster)
    cluster.folder, cluster.dsn = tmp_path, postgres_process.a_server().database(f"notes{os.getpid()}")
    cluster._manifests = []
    await delete(cluster, "a", "b", "c")
    await take_down(cluster, an_entry(1))
    cluster.manifest = cluster.new_manifest()
    assert cluster.manifest.notes(0, 9) == []
    cluster.log = cluster.manifest.create(f"file://{tmp_path}/store", has_archive=True)
    notes = [note for one in cluster.manifest.notes(0, 9) for note in notes_of(one)]
    assert [note.collection for note in notes if isinstance(note, DeletedNote)] == ["a", "b", "c"]
    assert len(notes) == 4
    assert cluster.manifest.create(cluster.log.store) == cluster.log
    assert len(cluster.manifest.notes(0, 9)) == 2
    cluster.close()


async def test_a_damaged_note_stops_the_machine_and_names_the_segment(folder_cluster):
    cluster = folder_cluster
    await take_down(cluster, an_entry(1))
    with psycopg.connect(cluster.dsn, autocommit=True) as connection:
        connection.execute("UPDATE segment SET note = set_byte(note, 40, 7)")
    with cluster.mirror("a") as mirror, pytest.raises(DataError, match=r"segment 1 .*damaged"):
        mirror.pull()


class Silent:
    """A frontier that must not be asked for deletions or takedowns."""

    def __init__(self, frontier: Frontier) -> None:
        self.record_takedowns = frontier.record_takedowns


async def test_a_mirror_asks_the_frontier_for_nothing_and_sends_what_is_taken_down_here(folder_cluster):
    cluster = folder_cluster
    pull(cluster, "a")
    data = cluster.machine("a")
    entry = record_action(data, "add", parse_target("site:a.br"), "ana", "", CLOCK.now())
    assert entry is not None
    async with the_frontier(cluster) as frontier:
        silent: Any = Silent(frontier)
        await TakedownSync(data).sync_once(silent)
        await DeletionSync(data, CLOCK).sync_once(silent)
    pull(cluster, "b")
    assert read_entries(cluster.machine("b")) == [entry]
    pull(cluster, "a")
    assert read_entries(data) == [entry]


# -- killed at every step ----------------------------------------------------------------------------------------------


def _killed(what: Callable[..., None], *arguments: Any) -> int | None:
    process = multiprocessing.get_context("spawn").Process(target=what, args=arguments)
    process.start()
    process.join()
    return process.exitcode


def _dying(real: Callable[..., Any], *, before: bool) -> Callable[..., Any]:
    def call(*arguments: Any, **named: Any) -> Any:
        if not before:
            real(*arguments, **named)
        os.kill(os.getpid(), signal.SIGKILL)

    return call


def _pull_and_die(data: DataDirectory, dsn: str, log: LogIdentity, step: str, before: bool) -> None:
    with LogMirror(data, PostgresManifest(dsn), log) as mirror:
        owner: Any = mirror if step == "_publish" else log_mirror if step == "_write_at" else log_notes
        setattr(owner, step, _dying(getattr(owner, step), before=before))
        mirror.pull()


@pytest.mark.parametrize("before", [True, False])
@pytest.mark.parametrize("step", ["record_deletions", "append_entries", "_write_at", "_publish"])
def test_a_mirror_that_is_killed_obeys_each_note_once(folder_cluster, monkeypatch, step, before):
    cluster, writer = folder_cluster, folder_cluster.writer(1)
    write(writer, range(1))
    asyncio.run(delete(cluster, "gone"))
    asyncio.run(take_down(cluster, an_entry(1)))
    assert _killed(_pull_and_die, cluster.machine("a"), cluster.dsn, cluster.log, step, before) == -signal.SIGKILL
    pull(cluster, "a")
    data = cluster.machine("a")
    assert read_entries(data) == [an_entry(1)]
    assert set(deleted_at(cluster, "a")) == {"gone"}
    assert len(list(data.archive.glob("*-deleted-*.durable"))) == 1


def _delete_and_die(dsn: str, before: bool) -> None:
    async def deletion() -> None:
        frontier = PostgresFrontier([dsn], SUFFIXES)
        connections: Any = psycopg.Connection
        connections.execute = _dying_at_append(connections.execute, before=before)
        await delete_collection(frontier, None, "c")

    asyncio.run(deletion())


@pytest.mark.parametrize("before", [True, False])
def test_a_deletion_whose_process_is_killed_is_repeated_and_is_one_note(folder_cluster, before):
    cluster = folder_cluster

    async def deletion() -> None:
        async with the_frontier(cluster) as frontier:
            await delete_collection(frontier, None, "c")

    async def begin() -> None:
        async with the_frontier(cluster) as frontier:
            await make(frontier)

    asyncio.run(begin())
    assert _killed(_delete_and_die, cluster.dsn, before) == -signal.SIGKILL
    assert cluster.manifest.notes(0, 9) == []
    asyncio.run(deletion())
    notes = [note for one in cluster.manifest.notes(0, 9) for note in notes_of(one)]
    assert [note.collection for note in notes if isinstance(note, DeletedNote)] == ["c"]


def _dying_at_append(real: Callable[..., Any], *, before: bool) -> Callable[..., Any]:
    die = _dying(real, before=before)

    def execute(connection: Any, sql: Any, *arguments: Any, **named: Any) -> Any:
        return (die if sql == appending.APPEND_NOTES else real)(connection, sql, *arguments, **named)

    return execute
