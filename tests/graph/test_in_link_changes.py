"""Whose URL is it, and what has changed in its in-links? Stamps that whoever reads them can go on from."""

from collections.abc import Callable
from pathlib import Path

import apsw
import pytest
from msgspec.structs import replace

from tarrafa.errors import DataError
from tarrafa.graph.follower import behind, catch_up, rebuild
from tarrafa.graph.graph_writer import FORMAT, path_of
from tarrafa.graph.reader import GraphReader
from tarrafa.model import VisitRecord
from tarrafa.parse.url import url_id
from tarrafa.runtime.data_dir import DataDirectory
from tests.graph.archived_web import COLLECTION, a_record, new_data, write

A, B, C, D = (f"http://{name}.test/" for name in "abcd")
ANA, BIA = "crawler.ana", "crawler.bia"


@pytest.fixture
def data(tmp_path: Path) -> DataDirectory:
    return new_data(tmp_path / "data")


@pytest.fixture
def crawl(data: DataDirectory) -> Callable[..., GraphReader]:
    """Archive some visits and follow them into the graph."""

    def visited(*records: VisitRecord) -> GraphReader:
        write(data, records)
        catch_up(data, lambda collection, weights: None)
        return GraphReader(data)

    return visited


def by(worker: str, record: VisitRecord) -> VisitRecord:
    return replace(record, worker=worker)


def news(reader: GraphReader, owner: str, after: int = 0) -> list[tuple[str, int]]:
    return [(one.url, one.in_links) for one in reader.in_link_changes(owner, after, 100)]


def last(reader: GraphReader, owner: str) -> int:
    return reader.in_link_changes(owner, 0, 100)[-1].stamp


def test_a_url_belongs_to_the_crawler_that_visited_it_last_and_to_nobody_after_our_own_workers(crawl):
    reader = crawl(a_record(A, links=[B, C]), by(ANA, a_record(B)), by(BIA, a_record(C)))
    assert (news(reader, ANA), news(reader, BIA)) == ([(B, 1)], [(C, 1)])
    reader = crawl(by(BIA, a_record(B, 2)), by(ANA, a_record(B, 1)), a_record(C, 2))
    assert (news(reader, ANA), news(reader, BIA)) == ([], [(B, 1)]), "the older visit came late"
    assert news(reader, "crawler.nobody") == []


def test_a_new_in_link_and_one_that_vanished_are_news_after_a_stamp_and_nothing_else_is(crawl):
    reader = crawl(by(ANA, a_record(B)), by(ANA, a_record(C)), a_record(D, links=[A]))
    stamp = last(reader, ANA)
    assert news(crawl(a_record(A, links=[B, B, A])), ANA, stamp) == [(B, 1)]
    stamp = last(reader, ANA)
    assert news(crawl(a_record(A, 2, links=[B])), ANA, stamp) == [], "it still links there"
    assert news(crawl(by(ANA, a_record(B, 2, links=[B]))), ANA, stamp) == [], "it is its own already"
    assert news(crawl(a_record(A, 3, links=[C])), ANA, stamp) == [(B, 0), (C, 1)]


def test_without_owners_nothing_is_stamped(crawl, data):
    crawl(a_record(A, links=[B]), a_record(B, links=[A]))
    connection = apsw.Connection(str(path_of(data)))
    assert connection.execute("SELECT count(*) FROM nodes WHERE owner IS NOT NULL OR stamp IS NOT NULL").fetchall() == [
        (0,)
    ]
    assert connection.execute("SELECT value FROM counters WHERE name = 'stamp'").fetchall() == [(0,)]


def test_news_come_in_pieces_and_none_is_skipped(crawl):
    records = [by(ANA, a_record(f"http://x.test/{n}")) for n in range(25)]
    reader = crawl(*records)
    seen, after = [], 0
    while part := reader.in_link_changes(ANA, after, 4):
        after = part[-1].stamp
        seen += [one.url for one in part]
    assert seen == [record.url for record in records]


def test_in_link_ids_are_bounded_and_counted(crawl):
    sources = [f"http://x.test/{n}" for n in range(10)]
    reader = crawl(*(a_record(source, links=[A, A, source]) for source in sources), a_record(A, links=[A]))
    assert reader.in_link_ids(url_id(A), COLLECTION, 100) == ([url_id(source) for source in sources], 10)
    assert reader.in_link_ids(url_id(A), COLLECTION, 3) == ([url_id(source) for source in sources[:3]], 10)
    assert reader.in_link_ids(url_id(A), "another", 3) == ([], 0)
    assert reader.in_link_ids(url_id(D), COLLECTION, 3) == ([], 0)


def test_a_graph_made_again_knows_the_owners_and_has_another_incarnation(crawl, data):
    reader = crawl(by(ANA, a_record(B)), a_record(A, links=[B]))
    before = reader.incarnation()
    assert reader.incarnation() == before
    rebuild(data)
    assert reader.incarnation() != before
    assert news(reader, ANA) == [(B, 1)]


def test_a_graph_of_an_older_format_is_refused_untouched_until_it_is_made_again(crawl, data):
    crawl(by(ANA, a_record(B)), a_record(A, links=[B]))
    connection = apsw.Connection(str(path_of(data)))
    connection.execute(f"PRAGMA user_version = {FORMAT - 1}")
    connection.close()
    before = path_of(data).read_bytes()
    for use in (GraphReader, lambda data: catch_up(data, lambda collection, weights: None)):
        refused = rf"format {FORMAT - 1}, .*reads {FORMAT}.*nothing was changed.*`tarrafa rebuild graph`"
        with pytest.raises(DataError, match=refused):
            use(data)
    assert path_of(data).read_bytes() == before
    assert behind(data) > 0, "whoever waits for it must wait"
    rebuild(data)
    assert news(GraphReader(data), ANA) == [(B, 1)]
