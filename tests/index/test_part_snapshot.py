"""A part of an index that is carried to another machine answers there as here, and follows on."""

import shutil
from math import prod

import pytest

from tarrafa.errors import DataError
from tarrafa.graph import follower as graph
from tarrafa.index import index_state, part_snapshot, schema, shards
from tarrafa.index.follower import IndexFollower, cursor
from tarrafa.runtime.data_dir import DataDirectory
from tarrafa.runtime.sqlite import SqliteFile
from tarrafa.search.request import SearchRequest
from tarrafa.search.scatter_gather import open_local_shard
from tarrafa.search.searcher import Searcher
from tests.graph.archived_web import new_data, small_web, write
from tests.index.test_index_follower import contents


@pytest.fixture
def part(tmp_path):
    data = new_data(tmp_path / "one")
    shards.set_layout(data, shards.parse_layout("2/2", "test"))
    write(data, small_web(40))
    return shards.parts(data)[0]


@pytest.fixture
def elsewhere(tmp_path, part):
    """Another machine with the same archive."""
    data = new_data(tmp_path / "two")
    shards.set_layout(data, shards.parse_layout("2/2", "test"))
    data.archive.rmdir()
    data.archive.symlink_to(part.archive)
    return shards.parts(data)[0]


def carry(part: DataDirectory, to: DataDirectory, dropped: dict[str, float] | None = None) -> None:
    with IndexFollower(part) as follower:
        follower.read(1.0)
        follower.commit()
        staged = part_snapshot.stage(part, follower.projection.state.connection)
        folder = part_snapshot.fetch_folder(to)
        shutil.copytree(staged, folder, dirs_exist_ok=True)
        part_snapshot.unstage(part)
    part_snapshot.place(to, folder, dropped or {})


def test_a_part_is_the_same_elsewhere_and_goes_on(part, elsewhere):
    carry(part, elsewhere)
    assert contents(elsewhere) == contents(part)
    assert cursor(elsewhere) == cursor(part)
    assert not list(part.index.glob("staged*"))
    write(DataDirectory(part.root), small_web(80)[40:], worker="w2")
    for one in (part, elsewhere):
        with IndexFollower(one) as follower:
            assert follower.read(1.0) > 0
            follower.commit()
            follower.merge()
    assert contents(elsewhere) == contents(part)


def test_files_that_were_merged_away_are_removed_from_a_part_that_was_carried(part, elsewhere):
    """So tantivy knows the files that it did not write itself."""
    carry(part, elsewhere)
    before = {path.name for path in schema.folder(elsewhere).glob("*.store")}
    with IndexFollower(elsewhere) as follower:
        follower._writer.delete_all_documents()
        follower._writer.commit()
        follower._writer.garbage_collect_files()
    assert not before & {path.name for path in schema.folder(elsewhere).glob("*.store")}


def test_deletions_are_noted_by_the_time_of_this_machine(part, elsewhere):
    with IndexFollower(part) as follower:
        follower.read(1.0)
        follower.commit()
        state = follower.projection.state
        with state.connection:
            state.note_dropped("gone", 5.0)
            state.note_dropped("other", 6.0)
    carry(part, elsewhere, {"gone": 5.5})
    with IndexFollower(elsewhere) as follower:
        assert follower.projection.state.dropped == {"gone": 5.5, "other": 6.0}


def test_a_part_of_another_version_is_refused(part, elsewhere):
    with IndexFollower(part) as follower:
        follower.read(1.0)
        follower.commit()
        staged = part_snapshot.stage(part, follower.projection.state.connection)
        folder = part_snapshot.fetch_folder(elsewhere)
        shutil.copytree(staged, folder, dirs_exist_ok=True)
    connection = SqliteFile(folder / "followed.sqlite").open()
    connection.pragma("user_version", index_state.FORMAT + 1)
    connection.close()
    with pytest.raises(DataError, match="another version of Tarrafa"):
        part_snapshot.place(elsewhere, folder, {})
    assert not schema.exists(elsewhere)


def test_a_follower_that_is_ahead_of_its_mirror_waits_for_it(part, elsewhere, tmp_path):
    carry(part, elsewhere)
    elsewhere.archive.unlink()
    elsewhere.archive.mkdir()
    with IndexFollower(elsewhere) as follower:
        assert follower.projection.is_ahead
        assert follower.read(1.0) == 0
        follower.commit()
    assert contents(elsewhere) == contents(part)
    assert cursor(elsewhere) == cursor(part)


def test_pages_are_ranked_by_the_index_until_the_link_graph_has_come_as_far(part, elsewhere):
    graph.catch_up(DataDirectory(part.root), lambda name, weights: None)
    carry(part, elsewhere)
    request = SearchRequest("rede OR net", n=20)

    def scores(data: DataDirectory) -> list[float]:
        return [hit.score for hit in Searcher([open_local_shard(data)]).search(request).hits]

    def explained(data: DataDirectory, url: str) -> float:
        return prod(one.value for one in Searcher([open_local_shard(data)]).explain_score(request, url)[-1:])

    wanted, whole = scores(DataDirectory(part.root)), DataDirectory(elsewhere.root)
    assert scores(whole) == wanted, "without a link graph"
    first = Searcher([open_local_shard(whole)]).search(request).hits[0].url
    assert explained(whole, first) == pytest.approx(explained(DataDirectory(part.root), first))
    assert part_snapshot.ahead_marker(elsewhere).exists()
    graph.catch_up(whole, lambda name, weights: None)
    with IndexFollower(elsewhere) as follower:
        follower.refresh(1.0, 0.0)
    assert not part_snapshot.ahead_marker(elsewhere).exists()
    assert scores(whole) == wanted
