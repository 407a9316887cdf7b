"""Ranks on their way to the frontier: what matters is told once, and no survey floods anybody."""

from pathlib import Path

import pytest

from tarrafa.frontier.messages import UrlWeight, is_significant_rank_change
from tarrafa.graph import follower, rank_file
from tarrafa.graph.follower import GraphFollower, behind, catch_up, mark_all_undelivered, rebuild
from tarrafa.graph.ranking_process import compute_rankings
from tarrafa.graph.reader import GraphReader
from tarrafa.parse.url import url_id
from tarrafa.runtime.data_dir import DataDirectory
from tests.graph.archived_web import COLLECTION, a_record, new_data, ranks_in, small_web, url_of, write
from tests.graph.test_graph_follower import ReceivedWeights


@pytest.fixture
def data(tmp_path: Path) -> DataDirectory:
    return new_data(tmp_path / "data")


def ranks_told(told: ReceivedWeights) -> dict[bytes, float]:
    return {key: weight.rank for (_, key), weight in told.weights.items() if weight.rank}


def as_they_are(data: DataDirectory) -> dict[bytes, float]:
    ids = [url_id(url_of(number)) for number in range(40)]
    ids += [url_id(f"http://longe.test/{number}") for number in range(11)]
    return ranks_in(GraphReader(data), ids)


def test_after_a_survey_the_frontier_hears_of_the_ranks_that_are_far_from_the_mean_and_only_once(data):
    first, second = ReceivedWeights(), ReceivedWeights()
    write(data, small_web(40))
    catch_up(data, first)
    assert ranks_told(first) == {}, "nobody knows them yet"
    compute_rankings(data)
    catch_up(data, second)
    assert ranks_told(second) == {
        key: rank for key, rank in as_they_are(data).items() if is_significant_rank_change(rank, 0.0)
    }
    assert len(second.weights) == len(ranks_told(second)) > 20, "and of nothing else"
    again = ReceivedWeights()
    compute_rankings(data)
    catch_up(data, again)
    assert again.calls == 0


def test_in_links_that_are_told_bring_the_rank_along(data):
    write(data, small_web(40))
    catch_up(data, ReceivedWeights())
    compute_rankings(data)
    catch_up(data, ReceivedWeights())
    told = ReceivedWeights()
    write(data, [a_record("http://new.test/", links=[url_of(3), "http://newer.test/"])], "w2")
    catch_up(data, told)
    assert told.weights[COLLECTION, url_id(url_of(3))].rank == as_they_are(data)[url_id(url_of(3))]
    assert told.weights[COLLECTION, url_id("http://newer.test/")].rank == 0.0, "no survey has met it"


def test_what_the_frontier_holds_is_never_far_from_the_rank_however_often_things_change(data):
    held: dict[bytes, float] = {}
    for step in range(12):
        write(data, [a_record(f"http://s{step}.test/", links=[url_of(step), url_of(1)])], f"w{step}")
        told = ReceivedWeights()
        catch_up(data, told)
        compute_rankings(data)
        catch_up(data, told)
        for key, rank in ranks_told(told).items():
            if is_significant_rank_change(rank, held.get(key, 0.0)):
                held[key] = rank
        found = as_they_are(data)
        assert not [key for key, rank in found.items() if is_significant_rank_change(rank, held.get(key, 0.0))]


def test_a_frontier_made_anew_and_a_graph_made_again_are_told_everything(data):
    write(data, small_web(40))
    catch_up(data, ReceivedWeights())
    compute_rankings(data)
    catch_up(data, ReceivedWeights())
    for anew in (mark_all_undelivered, rebuild):
        anew(data)
        told = ReceivedWeights()
        catch_up(data, told)
        news = {key: rank for key, rank in as_they_are(data).items() if is_significant_rank_change(rank, 0.0)}
        assert {key: rank for key, rank in ranks_told(told).items() if key in news} == news, anew


def test_ranks_go_in_small_calls_and_nobody_waits_for_them(data, monkeypatch):
    write(data, small_web(40))
    catch_up(data, ReceivedWeights())
    compute_rankings(data)
    monkeypatch.setattr(follower, "RANKS_PER_CALL", 7)
    monkeypatch.setattr(rank_file, "LOOKED_AT_MAX", 10)
    told = ReceivedWeights()
    with GraphFollower(data, told) as steps:
        assert behind(data) == 0, "a crawl may end before they are told"
        counts = []
        while not steps.ranks.is_done:
            counts.append(steps.deliver_ranks())
        assert max(counts) == 7
        assert len(told.weights) == sum(counts)
        steps.ranks.reload()
        assert [steps.deliver_ranks() for _ in range(10)] == [0] * 10


def test_a_delivery_that_fails_is_made_again(data):
    write(data, small_web(40))
    catch_up(data, ReceivedWeights())
    compute_rankings(data)

    def refuse(collection: str, weights: list[UrlWeight]) -> None:
        raise ConnectionError

    with GraphFollower(data, refuse) as steps, pytest.raises(ConnectionError):
        steps.deliver_ranks()
    told = ReceivedWeights()
    catch_up(data, told)
    assert ranks_told(told) == {
        key: rank for key, rank in as_they_are(data).items() if is_significant_rank_change(rank, 0.0)
    }


@pytest.mark.parametrize("content", [b"", b"TARTOLD1", b"x" * 1_000, b"TARTOLD1" + b"\xff" * 300])
def test_a_list_of_what_was_told_that_is_none_of_ours_is_begun_anew(data, content):
    write(data, small_web(40))
    catch_up(data, ReceivedWeights())
    compute_rankings(data)
    rank_file.delivered_path(data).write_bytes(content)
    told = ReceivedWeights()
    catch_up(data, told)
    assert ranks_told(told) == {
        key: rank for key, rank in as_they_are(data).items() if is_significant_rank_change(rank, 0.0)
    }
