"""An index in several parts: every page in one of them, always the same, and together they are one index."""

from pathlib import Path

import pytest

from tarrafa.errors import ConfigError, DataError
from tarrafa.index import schema, shards
from tarrafa.index.follower import IndexFollower, behind, catch_up, rebuild
from tarrafa.index.shards import SINGLE_SHARD, ShardLayout, shard_number
from tarrafa.runtime.data_dir import DataDirectory
from tests.graph.archived_web import a_record, new_data, small_web, write
from tests.index.test_index_follower import contents as contents_of_one
from tests.index.test_index_follower import follow_killed_at_random_moments, two_archives


@pytest.fixture
def data(tmp_path: Path) -> DataDirectory:
    return new_data(tmp_path / "data")


def contents(data: DataDirectory) -> set[schema.StoredDocument]:
    """What all parts hold; no page is in two of them."""
    found = [contents_of_one(part) for part in shards.parts(data)]
    assert sum(map(len, found)) == len(set().union(*found))
    return set().union(*found)


SAID = {
    "1": SINGLE_SHARD,
    "4": ShardLayout(4, (1, 2, 3, 4)),
    " 64\n": ShardLayout(64, tuple(range(1, 65))),
    "1/1": SINGLE_SHARD,
    "2/4": ShardLayout(4, (2,)),
    "1,3/4": ShardLayout(4, (1, 3)),
    "2-4/8": ShardLayout(8, (2, 3, 4)),
    "5,1-2,2/8": ShardLayout(8, (1, 2, 5)),
    "owned/8": ShardLayout(8, (), is_owned=True),
    "owned/1": ShardLayout(1, (), is_owned=True),
    "owned 1,3?/4\n": ShardLayout(4, (1, 3), is_owned=True, building=(3,)),
    "owned/8x2": ShardLayout(8, (), is_owned=True, replicas=2),
    "owned/8x1": ShardLayout(8, (), is_owned=True),
    "owned 2,3?/4x2": ShardLayout(4, (2, 3), is_owned=True, building=(3,), replicas=2),
}


@pytest.mark.parametrize("text", SAID)
def test_what_may_be_said(text):
    assert shards.parse_layout(text, "--shards") == SAID[text]
    assert shards.parse_layout(str(SAID[text]), "again") == SAID[text]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "0",
        "65",
        "-1",
        "4/",
        "/4",
        "0/4",
        "5/4",
        "3-2/4",
        "1;2/4",
        "a",
        "1e1",
        "²",
        "1,/4",
        "1?/4",
        "owned",
        "owned?/4",
        "owned 5/4",
        "owned/4x3",
        "owned/4x0",
        "owned/4x",
        "owned/x2",
        "4x2",
        "1,2/4x2",
    ],
)
def test_what_may_not(text):
    with pytest.raises(ConfigError, match=r"^--shards: .* must be the number of parts") as caught:
        shards.parse_layout(text, "--shards")
    assert "\n" not in str(caught.value)


def test_a_hosts_part_is_the_same_for_ever():
    """Written down: a change here would scatter the pages of every index that there is."""
    told = {
        "http://www.ufmg.br/": [1, 1, 3, 7],
        "https://www.ufmg.br:8443/x?y": [1, 1, 3, 7],
        "http://127.0.0.1/": [1, 1, 1, 5],
        "http://xn--caf-dma.br/": [1, 1, 3, 3],
    }
    assert {url: [shard_number(url, of) for of in (1, 2, 4, 8)] for url in told} == told


def test_the_parts_are_about_as_large():
    counts = [0] * 8
    for number in range(4000):
        counts[shard_number(f"http://h{number}.br/", 8) - 1] += 1
    assert min(counts) > 400


def test_every_page_is_in_the_part_of_its_host_and_together_they_are_one_index(data, tmp_path):
    whole = new_data(tmp_path / "whole")
    for target in (data, whole):
        write(target, small_web(100))
    shards.set_layout(data, shards.parse_layout("3", "test"))
    assert behind(data) > 0
    assert catch_up(data) == catch_up(whole) == 100
    assert behind(data) == behind(whole) == 0
    assert contents(data) == contents(whole)
    for number, part in enumerate(shards.parts(data), 1):
        assert part.index == data.root / "index" / f"{number}-of-3"
        assert {shard_number(shown.url, 3) for shown in contents_of_one(part)} <= {number}
    write(data, [a_record(shown.url, 9, status=404) for shown in contents(whole)], "w2")
    catch_up(data)
    assert contents(data) == set()


def test_parts_that_are_elsewhere_are_left_to_others(data, tmp_path):
    other = new_data(tmp_path / "other")
    for target, said in ((data, "1,2/3"), (other, "3/3")):
        write(target, small_web(60))
        shards.set_layout(target, shards.parse_layout(said, "test"))
        catch_up(target)
        assert behind(target) == 0
    assert len(contents(data)) + len(contents(other)) == 60
    assert contents(data).isdisjoint(contents(other))


def test_a_part_without_a_page_is_not_behind(data):
    write(data, [a_record(f"http://a.br/{n}") for n in range(5)])
    shards.set_layout(data, shards.parse_layout("8", "test"))
    catch_up(data)
    assert behind(data) == 0
    assert len(contents(data)) == 5
    assert shards.exists(data)


def test_one_part_that_is_behind_counts(data):
    write(data, small_web(30))
    shards.set_layout(data, shards.parse_layout("2", "test"))
    catch_up(shards.parts(data)[0])
    assert behind(shards.parts(data)[0]) == 0
    assert behind(data) > 0


def test_an_index_without_a_word_about_it_is_one_and_stays_where_it_is(data):
    write(data, small_web(20))
    catch_up(data)
    assert shards.read_layout(data) == SINGLE_SHARD
    assert [part.index for part in shards.parts(data)] == [data.root / "index"]
    shards.remove_stray_parts(data)
    assert len(contents(data)) == 20


def test_divided_anew_nothing_of_the_old_parts_is_left(data):
    write(data, small_web(20))
    for said in ("1", "2", "3", "1"):
        shards.set_layout(data, shards.parse_layout(said, "test"))
        assert not shards.exists(data) or said == "1"
        assert catch_up(data) == 20 or said == "1"
        assert len(contents(data)) == 20
    assert sorted(path.name for path in (data.root / "index").iterdir() if path.is_dir()) == ["text"]


def test_what_a_kill_in_between_left_of_other_parts_is_not_taken_for_ours(data):
    write(data, small_web(20))
    shards.set_layout(data, shards.parse_layout("2", "test"))
    catch_up(data)
    shards.path_of(data).write_text("3\n")  # the first half of choosing
    assert behind(data) > 0
    catch_up(data)
    assert len(contents(data)) == 20
    shards.remove_stray_parts(data)
    names = {path.name for path in (data.root / "index").iterdir()}
    assert {name for name in names if "-of-" in name} == {"1-of-3", "2-of-3", "3-of-3"}


def test_a_file_that_says_nothing_of_the_kind_is_said(data):
    shards.path_of(data).write_text("many\n")
    with pytest.raises(DataError, match="rebuild index --shards N"):
        shards.parts(data)


def test_each_part_has_its_own_writer(data):
    write(data, small_web(10))
    shards.set_layout(data, shards.parse_layout("2", "test"))
    first, second = shards.parts(data)
    with IndexFollower(first), IndexFollower(second), pytest.raises(DataError, match="another process is writing"):
        catch_up(first)


def test_rebuild_makes_every_part_again(data):
    write(data, small_web(40))
    shards.set_layout(data, shards.parse_layout("4", "test"))
    assert rebuild(data) == 40
    assert len(contents(data)) == 40
    assert behind(data) == 0


def test_killed_at_random_moments_all_parts_end_as_those_made_in_one_go(tmp_path):
    data, fresh = two_archives(tmp_path)
    shards.set_layout(data, shards.parse_layout("3", "test"))
    catch_up(fresh)
    follow_killed_at_random_moments(data, 13, 0.08)
    assert behind(data) == 0
    assert contents(data) == contents(fresh)
    assert len(contents(data)) == 120
