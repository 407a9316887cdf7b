"""How links are spread, and how many are dead."""

from tarrafa.graph import follower
from tarrafa.graph.dead_links_and_inlinks import graph_statistics
from tests.graph.archived_web import COLLECTION, a_record, new_data, write

A, B, GONE, LOST = "http://a.br/", "http://b.br/", "http://a.br/gone", "http://no.such.name/"


def test_links_and_dead_links_of_a_collection_are_counted(tmp_path):
    data = new_data(tmp_path / "d")
    assert graph_statistics(data, COLLECTION) is None
    write(data, [
        a_record(A, links=[B, GONE, LOST, A, B]),
        a_record(B, links=[A, GONE, "http://never.visited/"]),
        a_record(GONE, status=404),
        a_record(LOST, status=-12),
        a_record(A, collection="other", links=[GONE]),
    ])  # fmt: skip
    follower.catch_up(data, lambda name, weights: None)
    found = graph_statistics(data, COLLECTION)
    assert found is not None
    assert (found.urls, found.links, found.links_followed) == (5, 6, 5)
    assert (found.dead_urls, found.dead_links) == (2, 3)
    assert found.in_links == [(1, 2)]
    assert [(one.url, one.links, one.status) for one in found.most_wanted] == [(GONE, 2, 404), (LOST, 1, -12)]
    assert [(one.url, one.links) for one in found.pages_worst] == [(A, 2), (B, 1)]
    other = graph_statistics(data, "other")
    assert other is not None
    assert (other.urls, other.dead_urls) == (2, 0)
