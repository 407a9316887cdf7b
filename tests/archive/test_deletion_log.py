"""A collection is deleted: whoever follows the archive drops it, and another of its name begins anew."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tarrafa.archive.deletion_log import ArchiveDeletions, record_deletions
from tarrafa.archive.projection import ProjectionDeletions
from tarrafa.archive.warc_writer import recover_archive
from tarrafa.graph import follower as graph
from tarrafa.graph.reader import GraphReader
from tarrafa.index import follower as index
from tarrafa.model import VisitRecord
from tarrafa.parse.url import url_id
from tarrafa.runtime.data_dir import DataDirectory
from tarrafa.triples import follower as triples
from tests.graph.archived_web import FIRST_AT, new_data, write
from tests.index.test_index_follower import contents as indexed
from tests.triples.sample_statements import a_page, a_person
from tests.triples.sample_statements import contents as stated

A, B = "http://a.test/", "http://b.test/"
DELETED_AT = FIRST_AT + 100.0


@pytest.fixture
def data(tmp_path: Path) -> DataDirectory:
    return new_data(tmp_path / "data")


def page(url: str, name: str, visit: int = 1, at: float = FIRST_AT, collection: str = "c", *links: str) -> VisitRecord:
    return a_page(url, visit, a_person(name), at=at, collection=collection, links=links, title=name)


def follow(data: DataDirectory) -> None:
    graph.catch_up(data, lambda name, weights: None)
    index.catch_up(data)
    triples.catch_up(data)


def shown(data: DataDirectory) -> set[tuple[str, str, str]]:
    return {(one.collection, one.url, one.title) for one in indexed(data)}


def names(data: DataDirectory) -> set[str]:
    return {name for name in ("Ana", "Bia", "Eva") if any(f'"{name}"' in quad for quad in stated(data))}


def in_links(data: DataDirectory, url: str, collection: str) -> int:
    return GraphReader(data).standings([url_id(url)], collection).get(url_id(url), (0, 0.0))[0]


def test_all_that_belongs_to_a_deleted_collection_goes_and_nothing_else(data):
    write(data, [page(A, "Ana", 3, FIRST_AT, "c", B), page(B, "Bia"), page(A, "Eva", 1, FIRST_AT - 1, "d", B)])
    follow(data)
    assert names(data) == {"Ana", "Bia"}  # of two, what was fetched last stands for the page
    assert (in_links(data, B, "c"), in_links(data, B, "d")) == (1, 1)
    record_deletions(data.archive, {"c": DELETED_AT}, DELETED_AT)
    follow(data)
    assert shown(data) == {("d", A, "Eva")}
    assert names(data) == {"Eva"}
    assert (in_links(data, B, "c"), in_links(data, B, "d")) == (0, 1)


def test_another_one_of_the_same_name_begins_anew_and_late_files_bring_nothing_back(data):
    write(data, [page(A, "Ana", 7), page(B, "Bia", 7)])
    follow(data)
    record_deletions(data.archive, {"c": DELETED_AT}, DELETED_AT)
    write(data, [page(A, "Eva", 1, DELETED_AT + 10)], "w2")
    follow(data)
    assert shown(data) == {("c", A, "Eva")}
    write(data, [page(B, "Bia", 8, DELETED_AT - 1)], "w3")
    follow(data)
    assert shown(data) == {("c", A, "Eva")}
    assert names(data) == {"Eva"}
    before = in_links(data, B, "c")
    graph.rebuild(data)
    index.rebuild(data)
    triples.rebuild(data)
    assert shown(data) == {("c", A, "Eva")}
    assert names(data) == {"Eva"}
    assert in_links(data, B, "c") == before == 0


def test_what_follows_nothing_now_drops_it_when_it_is_asked_to(data):
    write(data, [page(A, "Ana")])
    follow(data)
    record_deletions(data.archive, {"c": DELETED_AT}, DELETED_AT)
    assert graph.drop_deleted(data)
    assert index.drop_deleted(data)
    assert triples.drop_deleted(data)
    assert shown(data) == set()
    assert names(data) == set()


@pytest.mark.parametrize("nth", range(3), ids=["graph", "index", "triples"])
def test_what_is_archived_while_somebody_looks_for_deletions_waits_for_the_next_look(data, nth, monkeypatch):
    """A page of the next one of its name, and the note before it, just after the follower has heard of none."""
    write(data, [page(A, "Ana", 7)])
    follow(data)
    pending, looks = ProjectionDeletions.pending, list[object]()

    def look_and_lose_time(self):
        found = pending(self)
        looks.append(self)
        if len(looks) == nth + 1:
            record_deletions(data.archive, {"c": DELETED_AT}, DELETED_AT)
            write(data, [page(A, "Eva", 1, DELETED_AT + 10, "c", B)], "w2")

        return found

    monkeypatch.setattr(ProjectionDeletions, "pending", look_and_lose_time)
    follow(data)
    follow(data)
    assert len(looks) == 6
    assert shown(data) == {("c", A, "Eva")}
    assert names(data) == {"Eva"}
    assert in_links(data, B, "c") == 1


def test_however_many_hear_of_a_deletion_it_is_noted_once(data):
    """And nothing that a killed one has left half done is in the way."""
    (data.archive / "tarrafa-20260101000000-deleted-00001.durable").touch()
    with ThreadPoolExecutor(8) as many:
        heard = [many.submit(record_deletions, data.archive, {"c": 5.0, "d": 6.0}, 7.0) for _ in range(16)]
        assert [one.result() for one in heard] == [None] * 16
    assert len(list(data.archive.glob("*.meta.warc.gz"))) == 1
    record_deletions(data.archive, {"c": 5.0, "d": 8.0}, 9.0)
    assert len(list(data.archive.glob("*.meta.warc.gz"))) == 2
    deletions = ArchiveDeletions(data.archive)
    assert deletions.latest() == {"c": 5.0, "d": 8.0}
    recover_archive(data.archive)
    assert deletions.latest() == {"c": 5.0, "d": 8.0}


@pytest.mark.parametrize(
    ("now", "at"),
    [(100.3, 100.3), (99.5, 100.0), (86_500.0, 101.0)],
    ids=["our clock is ahead", "it is behind", "we were away"],
)
def test_what_a_clock_that_is_ahead_has_dated_later_was_there_before_all_the_same(data, now, at):
    record_deletions(data.archive, {"c": 100.0}, now, apart=1.0)
    deletions = ArchiveDeletions(data.archive)
    assert (deletions.latest(), deletions.by_frontier_clock) == ({"c": at}, {"c": 100.0})
    record_deletions(data.archive, {"c": 100.0}, now + 50.0, apart=1.0)
    assert ArchiveDeletions(data.archive).latest() == {"c": at}, "that is this very deletion"
    record_deletions(data.archive, {"c": 100.2}, now + 50.0, apart=1.0)
    assert ArchiveDeletions(data.archive).latest() == {"c": 101.2}, "and that another"


def test_each_note_is_read_once_and_the_last_one_counts(data):
    deletions = ArchiveDeletions(data.archive)
    assert deletions.latest() == {}
    record_deletions(data.archive, {"c": DELETED_AT}, DELETED_AT)
    record_deletions(data.archive, {"c": DELETED_AT + 5.0}, DELETED_AT + 5.0)
    record_deletions(data.archive, {"d": DELETED_AT}, DELETED_AT)
    assert deletions.latest() == {"c": DELETED_AT + 5.0, "d": DELETED_AT}
    assert deletions.covers(page(A, "Ana", 1, DELETED_AT))
    assert not deletions.covers(page(A, "Ana", 1, DELETED_AT + 6.0))
