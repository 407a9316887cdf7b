"""What a worker tells the frontier of what it found: each URL once, and all that is new about it."""

from msgspec.structs import replace

from tarrafa.crawl.worker.committer import LinkCache
from tests.contract.frontier_bodies import offer


def test_a_date_that_a_sitemap_gives_survives_a_shorter_way_in_the_same_breath():
    listed = replace(offer("http://a.br/x", 3), announced=900.0)
    for offers in ([listed, offer("http://a.br/x", 1)], [offer("http://a.br/x", 1), listed]):
        assert LinkCache().filter_new(1, offers) == [replace(offer("http://a.br/x", 1), announced=900.0)]


def test_what_was_told_is_not_told_again_unless_it_is_nearer_or_announced():
    delivered = LinkCache()
    delivered.remember(1, [offer("http://a.br/x", 2)])
    assert delivered.filter_new(1, [offer("http://a.br/x", 2), offer("http://a.br/x", 3)]) == []
    assert delivered.filter_new(2, [offer("http://a.br/x", 2)]) == [offer("http://a.br/x", 2)]
    assert delivered.filter_new(1, [offer("http://a.br/x", 1)]) == [offer("http://a.br/x", 1)]
    announced = replace(offer("http://a.br/x", 2), announced=5.0)
    assert delivered.filter_new(1, [announced]) == [announced]


def test_each_run_is_told_anew_and_a_straggler_of_an_earlier_one_tells_nothing_twice():
    delivered, found = LinkCache(), offer("http://a.br/x", 2)
    delivered.remember(1, [found], 1)
    assert delivered.filter_new(1, [found], 2) == [found]
    delivered.remember(1, [found], 2)
    assert delivered.filter_new(1, [found], 2) == []
    assert delivered.filter_new(1, [found], 1) == []
