"""An index that is made again grows beside the one that is there, and takes its place in one moment."""

import os
import threading
from pathlib import Path

import pytest

from tarrafa.cli import rebuild_export_import
from tarrafa.errors import DataError
from tarrafa.index import follower, index_state, schema, shards
from tarrafa.index.follower import IndexFollower, behind, build_part, catch_up, replacement_parts
from tarrafa.index.parallel_rebuild import rebuild_in_parallel
from tarrafa.model import SearchResult
from tarrafa.runtime.data_dir import DataDirectory, try_lock
from tarrafa.search.request import SearchRequest
from tarrafa.search.searcher import Searcher
from tarrafa.takedown import CurrentTakedowns, parse_target, record_action
from tarrafa.triples import follower as triples
from tarrafa.triples import storage
from tests.graph.archived_web import a_record, new_data, small_web, write
from tests.index.test_index_shards import contents

PAGES = 60
WORDS = SearchRequest("rede mar", n=100, copies=True)


@pytest.fixture
def data(tmp_path: Path) -> DataDirectory:
    data = new_data(tmp_path / "data")
    write(data, small_web(PAGES))
    catch_up(data)
    return data


def _folders(data: DataDirectory) -> set[str]:
    return {path.name for path in (data.root / "index").iterdir() if path.is_dir()}


@pytest.mark.parametrize("into", ["1", "3"])
def test_what_was_there_answers_until_the_new_index_is_whole(data, into, monkeypatch):
    catch_up(data)
    found = Searcher.open(data)
    words = SearchRequest("rede mar", n=100, copies=True)
    before, meanwhile, merge = found.search(words), list[SearchResult](), IndexFollower.merge

    def look(follower: IndexFollower) -> None:
        merge(follower)
        meanwhile.append(found.search(words))

    monkeypatch.setattr(IndexFollower, "merge", look)
    write(data, [a_record(hit.url, 9, status=404) for hit in before.hits], "w3")
    rebuild_in_parallel(data, 1, divided=shards.parse_layout(into, "test"))
    after = found.search(words)
    assert len(meanwhile) == int(into)
    assert before.total > 0
    for one in meanwhile:
        assert (one.total, one.hits) == (before.total, before.hits)
    assert after.total < before.total
    assert not {hit.url for hit in after.hits} & {hit.url for hit in before.hits}
    assert _folders(data) == ({"text"} if into == "1" else {"1-of-3", "2-of-3", "3-of-3"})


@pytest.mark.parametrize("into", ["1", "3"])
def test_an_index_that_cannot_be_made_to_the_end_takes_nobodys_place(data, into, monkeypatch):
    catch_up(data)
    wanted, there = contents(data), _folders(data)

    def stop(follower: IndexFollower) -> None:
        raise DataError("the disk is full")

    monkeypatch.setattr(IndexFollower, "merge", stop)
    with pytest.raises(DataError, match="the disk is full"):
        rebuild_in_parallel(data, 1, divided=shards.parse_layout(into, "test"))
    assert contents(data) == wanted
    assert behind(data) == 0
    assert _folders(data) == there


def test_a_division_that_cannot_be_read_is_replaced_by_the_one_that_is_named(data):
    catch_up(data)
    wanted = contents(data)
    shards.path_of(data).write_text("many\n")
    with pytest.raises(DataError, match="rebuild index --shards N"):
        rebuild_export_import.rebuild_index(data, None)
    rebuild_export_import.rebuild_index(data, "2")
    assert shards.read_layout(data) == shards.ShardLayout(2, (1, 2))
    assert contents(data) == wanted


def test_whoever_asks_all_the_time_is_always_answered_rightly(data, tmp_path):
    for name in ("one", "other"):
        (tmp_path / name).mkdir()
    if not schema.exchange(tmp_path / "one", tmp_path / "other"):
        pytest.skip("this file system cannot exchange two folders at one stroke")
    found, over, answers = Searcher.open(data), threading.Event(), list[object]()
    wanted = found.search(WORDS).total

    def ask() -> None:
        while not over.is_set():
            try:
                answers.append(found.search(WORDS).total)
            except Exception as error:
                answers.append(error)

    asking = threading.Thread(target=ask)
    asking.start()
    try:
        for into in ("1", "1", "3", "3", "2", "1"):
            with replacement_parts(data, shards.parse_layout(into, "test")) as parts:
                for part in parts:
                    build_part(part)
    finally:
        over.set()
        asking.join()
    assert wanted > 0
    assert set(answers) == {wanted}


def test_what_is_taken_down_or_lifted_meanwhile_is_so_in_the_new_index(data):
    gone, back, found = "host:h1.br.test", "host:h2.br.test", Searcher.open(data)
    record_action(data, "add", parse_target(back), "ana", "", 1.0)
    follower.apply_takedowns(data)
    both = [found.count_indexed(*what.split(":")) for what in (gone, back)]
    with replacement_parts(data) as parts:
        for part in parts:
            build_part(part)
        record_action(data, "add", parse_target(gone), "ana", "", 2.0)
        record_action(data, "lift", parse_target(back), "ana", "", 3.0)
        follower.apply_takedowns(data)
        meanwhile = [found.count_indexed(*what.split(":")) for what in (gone, back)]
    assert both[0] and not both[1]
    assert meanwhile == [0, found.count_indexed("host", "h2.br.test")]
    assert not meanwhile[0] and meanwhile[1]
    assert index_state.is_applied(data, CurrentTakedowns(data).now()), "search need not leave it out by itself"
    assert found.count_urls() == PAGES - both[0]


def test_whoever_writes_the_old_index_is_waited_for(data, monkeypatch):
    lock, waited = try_lock(data.index / "lock"), list[float]()
    assert lock is not None

    def wait(seconds: float) -> None:
        waited.append(seconds)
        lock.close()

    monkeypatch.setattr("tarrafa.archive.projection.time.sleep", wait)
    assert rebuild_in_parallel(data, 1) == PAGES
    assert len(waited) == 1
    assert len(contents(data)) == PAGES


@pytest.mark.parametrize(
    ("room", "step"),
    [(schema, "replace_with"), (index_state, "replace_visits"), (index_state, "replace_marker")],
)
@pytest.mark.parametrize("before", [True, False])
@pytest.mark.parametrize("into", ["1", "3"])
def test_killed_while_they_change_places_there_is_an_index_at_once_and_a_whole_one_soon(
    data, room, step, before, into, monkeypatch
):
    succeed, found, wanted = getattr(room, step), Searcher.open(data), contents(data)
    child = os.fork()
    if not child:  # nothing is tidied up after it

        def die(part: DataDirectory, successor: DataDirectory) -> None:
            if not before:
                succeed(part, successor)
            os._exit(9)

        setattr(room, step, die)
        rebuild_in_parallel(data, 1, divided=shards.parse_layout(into, "test"))
        os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 9
    assert found.search(WORDS).total > 0
    assert contents(data) == wanted
    shards.remove_stray_parts(data)
    catch_up(data)
    assert contents(data) == wanted
    assert behind(data) == 0
    assert _folders(data) == {"text"}


def test_where_folders_cannot_beexchanged_one_goes_before_the_other_comes(data, monkeypatch):
    monkeypatch.setattr(schema, "exchange", lambda one, other: False)
    wanted = contents(data)
    assert rebuild_in_parallel(data, 1) == PAGES
    assert contents(data) == wanted
    assert _folders(data) == {"text"}
    (data.index / schema.REMOVED_NAME).mkdir()
    shards.remove_stray_parts(data)
    assert _folders(data) == {"text"}, "also what a kill in between left"


def test_an_index_of_another_version_is_left_to_whoever_makes_it_again(data, monkeypatch):
    wanted = contents(data)
    record_action(data, "add", parse_target("site:br.test"), "ana", "", 1.0)
    monkeypatch.setattr(index_state, "FORMAT", index_state.FORMAT + 1)
    assert not follower.apply_takedowns(data)
    assert contents(data) == wanted


@pytest.mark.parametrize("said", ["many", "3", None])
def test_statements_are_divided_as_the_index_is_whatever_was_there(data, said):
    """`3`: somebody was killed between the index and them."""
    triples.catch_up(data)
    if said is not None:
        shards.path_of(data).write_text(f"{said}\n")
    rebuild_export_import.rebuild_index(data, "3")
    assert storage.all_database_paths(data) == {storage.database_path(part) for part in shards.parts(data)}
    assert len(storage.all_database_paths(data)) == 3
