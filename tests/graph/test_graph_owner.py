"""One of the nodes that follow an archive owns the graph, and it alone delivers weights."""

import threading

import pytest

from tarrafa.errors import LeaseLost
from tarrafa.graph import follower
from tarrafa.graph.follower import GraphFollower, behind, follow, mark_all_undelivered
from tarrafa.graph.graph_writer import open_reader
from tarrafa.parse.url import url_id
from tarrafa.runtime.data_dir import DataDirectory
from tarrafa.runtime.sqlite import rows
from tests.graph.archived_web import COLLECTION, a_record, new_data, write
from tests.graph.test_graph_follower import ReceivedWeights, contents
from tests.wait import block_until

A, B, C = "http://a.br/", "http://b.br/", "http://c.br/"


@pytest.fixture
def data(tmp_path):
    return new_data(tmp_path / "data")


def undelivered(data: DataDirectory) -> int:
    connection = open_reader(data)
    count: int = rows(connection, "SELECT count(*) FROM undelivered")[0][0]
    connection.close()
    return count


def pass_over(data: DataDirectory, deliver: ReceivedWeights | None, epoch: int = 0) -> None:
    """A follower's whole life, until everything is applied, and the weights of three nodes delivered."""
    stop = threading.Event()
    thread = threading.Thread(target=follow, args=(data, deliver, stop, epoch))
    thread.start()
    try:
        block_until(lambda: behind(data) == 0 and (deliver is None or len(deliver.weights) == 3))
    finally:
        stop.set()
        thread.join(30)


def test_a_graph_that_another_node_owns_grows_and_notes_no_weights_to_deliver(data, tmp_path):
    records = [a_record(A, links=[B, C]), a_record(B, links=[C])]
    write(data, records)
    with GraphFollower(data, None) as silent:
        assert silent.read() == 2
        assert not silent.deliver_weights()
        assert not silent.deliver_ranks()
        assert undelivered(data) == 0
    other = new_data(tmp_path / "other")
    write(other, records)
    follower.catch_up(other, ReceivedWeights())
    assert contents(data) == contents(other)


def test_a_new_owner_delivers_everything_once(data):
    write(data, [a_record(A, links=[B, C]), a_record(B, links=[C])])
    pass_over(data, None)
    first, next_epoch = ReceivedWeights(), ReceivedWeights()
    pass_over(data, first, epoch=7)
    assert {key: weight.in_links for key, weight in first.weights.items()} == {
        (COLLECTION, url_id(A)): 0, (COLLECTION, url_id(B)): 1, (COLLECTION, url_id(C)): 2,
    }  # fmt: skip
    assert first.depth(C) == 2
    assert mark_all_undelivered(data, 7) == 0, "its process started again"
    pass_over(data, next_epoch, epoch=9)
    assert next_epoch.weights.keys() == first.weights.keys()


def test_an_owner_that_is_refused_falls_silent_and_goes_on_following(data):
    def refuse(collection: str, weights: object) -> None:
        raise LeaseLost("another node owns the graph")

    write(data, [a_record(A, links=[B])])
    with GraphFollower(data, refuse) as old:
        old.read()
        old.deliver_weights()
        assert not old.deliver_weights()
        write(data, [a_record(B, links=[C])], "w2")
        assert old.read() == 1
        assert not old.deliver_weights()
        assert undelivered(data) == 0
    told = ReceivedWeights()
    pass_over(data, told, epoch=9)
    assert told.in_links(C) == 1
