"""What is archived of a collection reaches those who follow, whatever goes on beside it."""

import os
import threading

import pytest

from tarrafa.archive import projection
from tarrafa.archive.warc_reader import visit_lengths
from tarrafa.captures import follower as captures
from tarrafa.crawl.supervisor import followers
from tarrafa.crawl.supervisor.followers import FollowerCatchUp, Followers
from tarrafa.frontier import address
from tarrafa.graph import follower as graph
from tarrafa.index import follower as index
from tarrafa.triples import follower as triples
from tarrafa.triples import status as triples_status
from tests.graph.archived_web import a_record, new_data, write
from tests.wait import block_until

OURS = [a_record("http://a.br/", 1, 0, ["http://a.br/1"], collection="ours")]
OTHERS = [a_record("http://b.br/", 1, 0, ["http://b.br/1"], collection="others")]


@pytest.fixture
def data(tmp_path):
    return new_data(tmp_path)


def tell_nobody(collection: str, weights: object) -> None:
    raise ConnectionError(collection)


def tell_of(wanted: str) -> graph.Deliver:
    def deliver(collection: str, weights: object) -> None:
        if collection != wanted:
            raise ConnectionError(collection)

    return deliver


FOLLOWERS = {
    "graph": lambda data: graph.catch_up(data, lambda collection, weights: None),
    "index": index.catch_up,
    "triples": triples.catch_up,
    "captures": captures.catch_up,
}


@pytest.mark.parametrize("last", FOLLOWERS)
def test_it_is_over_when_everybody_has_it_and_what_comes_later_is_not_waited_for(data, last):
    write(data, OURS, "w1")
    passage = FollowerCatchUp(data, "ours", visit_lengths(data.archive))
    for name in sorted(FOLLOWERS, key=lambda name: name == last):
        assert not passage.is_complete()
        FOLLOWERS[name](data)
    write(data, OTHERS, "w2")
    assert passage.is_complete()
    assert not FollowerCatchUp(data, "others", visit_lengths(data.archive)).is_complete()
    assert graph.behind(data)
    assert index.behind(data)
    assert triples_status.behind(data)
    assert captures.behind(data)


def test_the_frontier_must_have_heard_what_the_graph_says_of_the_collection_and_of_no_other(data):
    write(data, OURS, "w1")
    write(data, OTHERS, "w2")
    index.catch_up(data)
    triples.catch_up(data)
    captures.catch_up(data)
    ours, others = (
        FollowerCatchUp(data, "ours", visit_lengths(data.archive)),
        FollowerCatchUp(data, "others", visit_lengths(data.archive)),
    )
    with pytest.raises(ConnectionError):
        graph.catch_up(data, tell_nobody)
    assert not ours.is_complete()
    with pytest.raises(ConnectionError):
        graph.catch_up(data, tell_of("ours"))
    assert (ours.is_complete(), others.is_complete()) == (True, False)


def test_what_the_triple_store_has_not_published_is_not_over(data):
    write(data, OURS, "w1")
    graph.catch_up(data, lambda collection, weights: None)
    index.catch_up(data)
    captures.catch_up(data)
    passage = FollowerCatchUp(data, "ours", visit_lengths(data.archive))
    with triples.TriplesFollower(data) as follower:
        follower.read(1.0)
        follower.commit()
        assert not passage.is_complete()
        follower.publish(1.0, at_once=True)
        write(data, OTHERS, "w2")
        follower.read(1.0)
        follower.commit()
        assert passage.is_complete(), "though there is a later commit, which is not published"


@pytest.mark.parametrize("module", [index, triples])
def test_what_was_read_is_committed_at_once_when_no_more_records_will_come(data, monkeypatch, module):
    for name in ("COMMIT_IDLE_S", "PROJECTION_COMMIT_S"):
        monkeypatch.setattr(projection, name, 1e9)
    monkeypatch.setattr(index, "YOUNG_WAIT_S", 1e9)
    monkeypatch.setattr(index, "COMMIT_IDLE_S", 1e9)
    write(data, OURS, "w1")
    graph.catch_up(data, lambda collection, weights: None)
    stop, there = threading.Event(), Followers(data, None)
    there.expect_records(are_expected=False)
    thread = threading.Thread(target=module.follow, args=(data, stop))
    thread.start()
    try:
        behind = triples_status.behind if module is triples else index.behind
        block_until(lambda: behind(data) == 0)
    finally:
        stop.set()
        thread.join(30)
    there.expect_records(are_expected=True)
    assert not data.exhausted.exists()


@pytest.mark.parametrize(
    ("role", "is_nice"), [("graph", False), ("index", False), ("triples", True), ("captures", True)]
)
def test_only_triple_store_and_captures_leave_the_processor_to_the_frontier(data, monkeypatch, role, is_nice):
    niceness = list[int]()
    monkeypatch.setattr(os, "nice", niceness.append)
    for follower in (graph, index, triples, captures):
        monkeypatch.setattr(follower, "follow", lambda *arguments: None)
    for name in ("on_sigterm", "send_from_thread"):
        monkeypatch.setattr(followers, name, lambda *arguments: None)
    monkeypatch.setattr(address, "connect_blocking", lambda address: None)
    monkeypatch.setattr(address, "address_from_supervisor", lambda: None)
    followers.main(data, role)
    assert niceness == [followers.NICE] * is_nice
