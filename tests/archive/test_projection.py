"""The base of the projections, with a target that only writes down what it is called with."""

import threading
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

from tarrafa.archive import projection
from tarrafa.archive.deletion_log import record_deletions
from tarrafa.archive.projection import (
    STATE_SCHEMA,
    TAKEDOWN_SCHEMA,
    VISITS_SCHEMA,
    ArchiveProjection,
    CommitPace,
    ProjectionState,
    cursor_of,
    lock_projection,
    unread_bytes,
    with_each_follower,
)
from tarrafa.archive.warc_reader import ArchiveEntry, visit_lengths
from tarrafa.errors import Locked
from tarrafa.parse.url import url_id
from tarrafa.runtime.data_dir import DataDirectory
from tarrafa.runtime.sqlite import SqliteFile
from tarrafa.takedown import parse_target, record_action
from tests.graph.archived_web import COLLECTION, FIRST_AT, a_record, new_data, write

SCHEMA = STATE_SCHEMA + TAKEDOWN_SCHEMA + VISITS_SCHEMA.format(columns="a REAL, b REAL")
A, B, C = (f"http://{name}.test/" for name in "abc")


class NotingTarget:
    """Notes every call. A URL that is applied is its newest visit, unless it is excluded."""

    def __init__(self, data: DataDirectory) -> None:
        self.file = SqliteFile(data.index / "state.sqlite", 1)
        self.connection = self.file.open(SCHEMA)
        self.calls: list[object] = []
        self.projection = ArchiveProjection(
            data, ProjectionState(self.connection), self.file.errors(self.connection), self, None
        )

    def apply_all(self, entries: Iterable[ArchiveEntry]) -> Iterator[ArchiveEntry]:
        own = self.projection
        for entry in entries:
            record, key = entry.record, url_id(entry.record.url)
            excluded = own.takedowns.covers(record.url) or own.deletions.covers(record)
            if not excluded and record.visit > own.visits.newest(record.collection, key):
                own.state.begin()
                own.visits.record(entry, key, (0.0, None), is_there=True)
                self.calls.append((record.url, record.visit))
            yield entry

    def commit_target(self) -> None:
        self.calls.append("commit")

    def drop_collection(self, name: str, at: float) -> None:
        self.calls.append(f"drop {name}")
        after = b""
        self.projection.state.begin()
        while keys := self.projection.visits.drop_some(name, after, 2):
            after = keys[-1]
        self.projection.state.note_dropped(name, at)
        self.projection.state.commit()

    def take_out(self) -> None:
        self.calls.append(sorted(map(str, self.projection.takedowns.added().targets)))

    def takedowns_applied(self) -> None:
        self.calls.append("applied")

    def read(self) -> list[object]:
        """What is called while everything is read and committed."""
        self.calls.clear()
        self.projection.read(1.0)
        self.projection.commit()
        return self.calls.copy()


@pytest.fixture
def data(tmp_path: Path) -> DataDirectory:
    return new_data(tmp_path / "data")


def test_records_are_applied_once_and_never_back_in_time(data):
    target = NotingTarget(data)
    write(data, [a_record(A, 2), a_record(A, 1), a_record(B)])
    assert target.read() == [(A, 2), (B, 1), "commit"]
    assert target.read() == []
    write(data, [a_record(A, 2), a_record(A, 3)], "w2")
    assert NotingTarget(data).read() == [(A, 3), "commit"], "and neither by another process"


def test_what_was_read_and_not_committed_is_read_again(data):
    write(data, [a_record(A)])
    killed = NotingTarget(data)
    assert killed.projection.read(1.0) == 1
    assert cursor_of(killed.file) == {}
    killed.connection.close()
    assert NotingTarget(data).read() == [(A, 1), "commit"]


def test_the_target_is_committed_before_the_state(data, monkeypatch):
    write(data, [a_record(A)])
    target = NotingTarget(data)
    monkeypatch.setattr(target, "commit_target", lambda: target.calls.append(cursor_of(target.file)))
    assert target.read() == [(A, 1), {}]
    assert cursor_of(target.file) == visit_lengths(data.archive)


def test_a_full_batch_is_committed_while_it_is_read(data, monkeypatch):
    monkeypatch.setattr(projection, "COMMIT_RECORDS", 2)
    write(data, [a_record(url) for url in (A, B, C)])
    assert NotingTarget(data).read() == [(A, 1), (B, 1), "commit", (C, 1), "commit"]


def test_a_stop_ends_the_reading_after_a_record_and_the_rest_is_read_later(data):
    write(data, [a_record(url) for url in (A, B, C)])
    target, stop = NotingTarget(data), threading.Event()
    stop.set()
    assert target.projection.read(1.0, stop) == 1
    assert target.read() == [(B, 1), (C, 1), "commit"]


def test_deletions_and_takedowns_are_applied_before_records(data):
    target = NotingTarget(data)
    write(data, [a_record(A, 7), a_record(B, 7)])
    target.read()
    record_deletions(data.archive, {COLLECTION: FIRST_AT}, FIRST_AT)
    record_action(data, "add", parse_target(B), "ana", "", 1.0)
    write(data, [a_record(A, 1, at=FIRST_AT + 9), a_record(B, 1, at=FIRST_AT + 9), a_record(C, 8)], "w2")
    assert target.read() == [f"drop {COLLECTION}", [B], "commit", "applied", (A, 1), "commit"]
    assert target.read() == []


def test_what_is_lifted_is_applied_again_from_all_of_its_visits(data):
    target = NotingTarget(data)
    write(data, [a_record(A, 1), a_record(B, 1), a_record(A, 2)])
    record_action(data, "add", parse_target(A), "ana", "", 1.0)
    assert target.read() == [[A], "commit", "applied", (B, 1), "commit"]
    record_action(data, "lift", parse_target(A), "ana", "", 2.0)
    assert target.read() == [[], (A, 1), (A, 2), "commit", "applied"]


def test_a_takedown_that_was_applied_is_made_sure_of_by_the_next_process(data):
    target = NotingTarget(data)
    write(data, [a_record(A)])
    target.read()
    record_action(data, "add", parse_target(A), "ana", "", 1.0)
    assert target.read() == target_after_restart(data) == [[A], "commit", "applied"]
    record_action(data, "lift", parse_target(A), "ana", "", 2.0)
    assert target_after_restart(data) == [[], (A, 1), "commit", "applied"]
    assert target_after_restart(data) == []


def target_after_restart(data: DataDirectory) -> list[object]:
    target = NotingTarget(data)
    try:
        return target.read()
    finally:
        target.connection.close()


def test_when_to_commit():
    pace = CommitPace({"w1": 5})
    assert not pace.is_due(1e9)
    pace.advance({"w1": 5}, 100.0)
    assert not pace.has_uncommitted, "nothing was read"
    pace.advance({"w1": 6}, 100.0)
    assert (pace.is_due(100.1), pace.is_due(100.5)) == (False, True), "nothing more comes"
    pace.touch(109.9, records=1)
    assert (pace.is_due(109.95), pace.is_due(110.0)) == (False, True), "the first has waited long enough"
    pace.mark_committed()
    assert not pace.is_due(1e9)


def test_the_slowest_cursor_counts():
    assert unread_bytes({"w1": 10, "w2": 5}, [{"w1": 10}, {"w1": 4, "w2": 9}]) == 6 + 5


def test_one_process_writes_a_projection(data):
    class Follower:
        def __init__(self, part: DataDirectory) -> None:
            self.lock = lock_projection(part.index, "index")

        def __enter__(self) -> "Follower":
            return self

        def __exit__(self, *_: object) -> None:
            self.lock.close()

    done: list[Follower] = []
    assert not with_each_follower([], Follower, done.append)
    assert with_each_follower([data], Follower, done.append)
    with Follower(data):
        with pytest.raises(Locked, match="another process is writing the index"):
            Follower(data)
        assert not with_each_follower([data], Follower, done.append)
    assert len(done) == 1
