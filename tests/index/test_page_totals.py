"""Every page that a collection keeps is in the index, or is counted with the reason why it is not."""

from pathlib import Path

import pytest
from msgspec.structs import replace

from tarrafa.archive.deletion_log import record_deletions
from tarrafa.index import follower
from tarrafa.index.index_state import PagesByFate
from tarrafa.index.index_status import index_status
from tarrafa.index.reader import IndexReader
from tarrafa.model import RobotsMeta, Status, VisitRecord
from tarrafa.runtime.data_dir import DataDirectory
from tests.graph.archived_web import FIRST_AT, a_record, new_data, write
from tests.search.test_exclusion_filter import lift, take_down

NOINDEX = RobotsMeta(noindex=True)
HOST = "http://a.test"


@pytest.fixture
def data(tmp_path: Path) -> DataDirectory:
    return new_data(tmp_path / "data")


def index(data: DataDirectory, *records: VisitRecord, worker: str = "w1") -> None:
    write(data, list(records), worker)
    follower.catch_up(data)


def totals(data: DataDirectory) -> dict[str, tuple[int, int, int]]:
    """Indexed, noindex and taken down, by collection; the index has as many documents."""
    found = index_status(data)
    assert found is not None
    assert found.documents == IndexReader(data).snapshot().documents == sum(one.indexed for one in found.collections)
    return {one.collection: (one.indexed, one.noindex, one.taken_down) for one in found.collections}


def urls(data: DataDirectory) -> int:
    found = index_status(data)
    assert found is not None
    return found.urls


def test_pages_are_counted_by_what_became_of_them(data):
    pages = [a_record(f"{HOST}/{n}", robots=NOINDEX if n < 3 else None) for n in range(10)]
    index(data, *pages, a_record(f"{HOST}/moved", status=301), a_record(f"{HOST}/gone", status=404))
    assert totals(data) == {"small": (7, 3, 0)}
    index(
        data,
        a_record(f"{HOST}/0", 2),  # may be indexed now
        a_record(f"{HOST}/3", 2, robots=NOINDEX),
        a_record(f"{HOST}/4", 2, status=404),
        a_record(f"{HOST}/5", 2, status=500),  # says nothing about the page
        a_record(f"{HOST}/1", 2, status=410),
        worker="w2",
    )
    assert totals(data) == {"small": (6, 2, 0)}
    follower.rebuild(data)
    assert totals(data) == {"small": (6, 2, 0)}


def test_a_url_in_two_collections_is_two_documents_and_one_url(data):
    index(data, *(a_record(f"{HOST}/{n}", collection="one") for n in range(4)))
    index(data, *(a_record(f"{HOST}/{n}", collection="two") for n in range(2, 5)), worker="w2")
    assert (totals(data), urls(data)) == ({"one": (4, 0, 0), "two": (3, 0, 0)}, 5)
    index(data, a_record(f"{HOST}/2", 2, collection="one", status=404), worker="w3")
    assert (totals(data), urls(data)) == ({"one": (3, 0, 0), "two": (3, 0, 0)}, 5)
    index(data, a_record(f"{HOST}/2", 2, collection="two", robots=NOINDEX), worker="w4")
    assert (totals(data), urls(data)) == ({"one": (3, 0, 0), "two": (2, 1, 0)}, 4)
    record_deletions(data.archive, {"one": FIRST_AT + 1}, FIRST_AT + 1)
    follower.drop_deleted(data)
    assert (totals(data), urls(data)) == ({"two": (2, 1, 0)}, 2)


def test_pages_that_are_taken_down_stay_counted_until_their_collection_drops_them(data):
    for name in ("one", "two"):
        index(data, *(a_record(f"{HOST}/{n}", collection=name) for n in range(4)), worker=name)
    take_down(data, f"{HOST}/0")
    take_down(data, f"{HOST}/1")
    follower.apply_takedowns(data)
    assert (totals(data), urls(data)) == ({"one": (2, 0, 2), "two": (2, 0, 2)}, 2)
    index(data, a_record(f"{HOST}/0", 2, collection="one", status=Status.TAKEN_DOWN, kept=False), worker="w3")
    assert totals(data) == {"one": (2, 0, 1), "two": (2, 0, 2)}
    take_down(data, "host:a.test")
    index(data, a_record(f"{HOST}/new", collection="one"), worker="w4")  # archived before the worker knew
    assert (totals(data), urls(data)) == ({"one": (0, 0, 4), "two": (0, 0, 4)}, 0)
    lift(data, "host:a.test")
    follower.apply_takedowns(data)
    assert (totals(data), urls(data)) == ({"one": (3, 0, 1), "two": (2, 0, 2)}, 3)
    lift(data, f"{HOST}/0")
    lift(data, f"{HOST}/1")
    follower.apply_takedowns(data)
    assert (totals(data), urls(data)) == ({"one": (5, 0, 0), "two": (4, 0, 0)}, 5)


@pytest.mark.parametrize(("flag", "counted"), [("cut_statements", "cut"), ("cut_text", "cut_text")])
def test_pages_with_more_statements_or_text_than_is_kept_are_counted(data, flag, counted):
    pages = [a_record(f"{HOST}/{n}") for n in range(3)]
    cut = [replace(one, page=replace(one.page, **{flag: True})) for one in pages[:2] if one.page is not None]
    index(data, *cut, pages[2])
    found = index_status(data)
    assert found is not None
    assert found.of("small") == PagesByFate("small", indexed=3, **{counted: 2})
    index(data, a_record(f"{HOST}/0", 2), a_record(f"{HOST}/1", 2, status=404), worker="w2")
    found = index_status(data)
    assert found is not None
    assert found.of("small") == PagesByFate("small", indexed=2)
