"""What is taken down or blocked is not found, not counted and not shown; what is lifted is there again."""

from contextlib import suppress
from datetime import UTC, datetime

import pytest

from tarrafa.errors import PageTakenDown as Refusal
from tarrafa.graph import follower as graph
from tarrafa.graph.reader import GraphReader
from tarrafa.index import follower as index
from tarrafa.index.follower import IndexFollower
from tarrafa.index.reader import IndexReader
from tarrafa.model import Link, Status, VisitRecord
from tarrafa.runtime.data_dir import DataDirectory
from tarrafa.search import curation
from tarrafa.search.local_shard import ExclusionFilter
from tarrafa.search.searcher import exact_copies
from tarrafa.takedown import TakedownEntry, append_entries, parse_target, record_action
from tests.graph.archived_web import a_record, new_data, write
from tests.search.sample_pages import LONG, Asker, a_page

A, B, WWW, C = "http://a.test/1", "http://b.test/", "http://www.b.test/2", "http://c.test/"
ALL = {A, B, WWW, C}
NOW = 1_790_000_000.0


@pytest.fixture
def data(tmp_path):
    return new_data(tmp_path / "data")


def fill(data: DataDirectory, *records: VisitRecord, worker: str = "w1") -> None:
    write(data, records, worker)
    graph.catch_up(data, lambda name, weights: None)
    index.catch_up(data)


def four(data: DataDirectory) -> Asker:
    links = [Link(url, f"uma rede em {url}") for url in sorted(ALL)]
    fill(data, *(a_record(url, title=f"rede {url}", text=f"rede {url}", links=links) for url in sorted(ALL)))
    return Asker(data)


def take_down(data: DataDirectory, what: str) -> None:
    assert record_action(data, "add", parse_target(what), "ana", "", NOW) is not None


def lift(data: DataDirectory, what: str) -> None:
    assert record_action(data, "lift", parse_target(what), "ana", "", NOW + 1) is not None


def found(searcher: Asker, query: str = "rede") -> set[str]:
    """All hits; the total says the same."""
    result = searcher.search(query)
    assert result.total == len(result.hits)
    return {hit.url for hit in result.hits}


@pytest.mark.parametrize(
    ("what", "gone"),
    [
        (A, {A}),
        ("http://a.test/2", set()),
        ("host:b.test", {B}),
        ("host:www.b.test", {WWW}),
        ("site:b.test", {B, WWW}),
        ("site:www.b.test", {WWW}),
        ("site:o.test", set()),
    ],
)
def test_it_is_gone_from_the_next_question_on_out_of_the_index_later_and_back_when_it_is_lifted(data, what, gone):
    searcher = four(data)
    assert found(searcher) == ALL
    take_down(data, what)
    assert found(searcher) == ALL - gone, "before the index heard of it"
    assert searcher.searcher.count_urls() == 4
    assert index.apply_takedowns(data)
    assert found(searcher) == ALL - gone
    assert searcher.searcher.count_urls() == 4 - len(gone)
    lift(data, what)
    assert found(searcher) == ALL - gone, "what the index does not hold cannot be shown"
    assert index.apply_takedowns(data)
    assert found(searcher) == ALL
    assert index.rebuild(data) == 4
    assert found(searcher) == ALL


def test_what_is_archived_while_it_is_taken_down_is_found_when_it_is_lifted_and_not_before(data):
    searcher = four(data)
    take_down(data, "site:b.test")
    fill(data, a_record(B, 2, text="rede nova"), a_record("http://x.b.test/", text="rede"), worker="w2")
    fill(data, a_record(WWW, 2, status=404), a_record(B, 3, status=Status.TAKEN_DOWN), worker="w3")
    assert found(searcher) == {A, C}
    assert searcher.searcher.count_urls() == 2
    assert index.rebuild(data) == 8
    assert found(searcher) == {A, C}
    lift(data, "site:b.test")
    index.catch_up(data)
    assert found(searcher) == {A, C, B, "http://x.b.test/"}
    assert found(searcher, "nova") == {B}


def test_who_is_taken_down_twice_stays_away_until_both_are_lifted(data):
    searcher = four(data)
    take_down(data, "site:b.test")
    take_down(data, WWW)
    index.apply_takedowns(data)
    lift(data, "site:b.test")
    index.apply_takedowns(data)
    assert found(searcher) == {A, B, C}
    lift(data, WWW)
    index.apply_takedowns(data)
    assert found(searcher) == ALL


@pytest.mark.parametrize(
    "killed_before", ["tarrafa.archive.projection.ProjectionState.commit", "tarrafa.index.index_state.mark_applied"]
)
def test_an_index_that_is_killed_between_its_commit_and_its_books_does_it_again(data, monkeypatch, killed_before):
    def die(*_: object) -> None:
        raise KeyboardInterrupt

    searcher = four(data)
    for action, wanted in ((take_down, {A, C}), (lift, ALL)):
        action(data, "site:b.test")
        with monkeypatch.context() as patch:
            patch.setattr(killed_before, die)
            for _ in range(2):
                with suppress(KeyboardInterrupt), IndexFollower(data) as follower:
                    follower.projection.apply_takedowns()
        assert found(searcher) == wanted
        assert index.apply_takedowns(data)
        assert found(searcher) == wanted


def test_files_may_be_read_in_any_order_though_the_last_visits_said_nothing(data):
    """A worker's file is open for long: it may hold a later visit than a file that was begun after it."""
    write(data, [a_record(C, text="outra"), a_record(A, 3, status=304)], "w1")
    write(data, [a_record(A, 1, text="rede"), a_record(A, 2, status=503)], "w2")
    graph.catch_up(data, lambda name, weights: None)
    index.catch_up(data)
    assert found(Asker(data)) == {A}


def test_a_site_that_is_blocked_is_not_shown_and_one_that_is_unblocked_is_there_at_once(data):
    searcher = four(data)
    path = curation.path_of(data)
    path.write_text('blocked = ["b.test"]')
    assert found(searcher) == {A, C}
    take_down(data, A)
    assert found(searcher) == {C}
    path.unlink()
    assert found(searcher) == {B, WWW, C}


def test_copies_of_what_is_taken_down_stand_for_themselves(data):
    fill(data, *(a_page(url, f"rede {LONG}", "Rede") for url in (A, B, WWW)))
    searcher = Asker(data)
    assert [(hit.url, hit.copies) for hit in searcher.search("rede").hits] == [(B, 2)]
    assert exact_copies(data, A, None) == [B, WWW]
    take_down(data, B)
    assert [(hit.url, hit.copies) for hit in searcher.search("rede").hits] == [(A, 1)]
    assert [hit.url for hit in searcher.search("rede", like=B).hits] == []
    assert exact_copies(data, A, None) == [WWW]
    assert exact_copies(data, B, None) == []


def test_nobody_is_told_who_links_to_it_where_it_leads_or_that_it_links(data):
    four(data)
    graph_reader = GraphReader(data)
    take_down(data, "site:b.test")
    for ask in (graph_reader.nodes, graph_reader.node, graph_reader.neighbours, graph_reader.outgoing):
        with pytest.raises(Refusal, match=r"http://b\.test/: was taken down"):
            ask(B)
    shown = graph_reader.neighbours(A)
    assert {link.url for link in shown.incoming} == {C}
    assert {link.url for link in shown.outgoing} == {A, C}


def test_a_thousand_orders_are_one_query(data):
    searcher = four(data)
    at = datetime.fromtimestamp(NOW, UTC)
    others = [f"{kind}{number}" for kind in ("site:test.s", "http://a.test/1") for number in range(1, 500)]
    append_entries(data, [TakedownEntry(at, "add", *parse_target(what), "ana") for what in others])
    take_down(data, "host:b.test")
    assert found(searcher) == {A, WWW, C}
    assert IndexReader(data).snapshot().documents == 4
    assert len(ExclusionFilter(data).clauses(frozenset())) == 3
    index.apply_takedowns(data)
    assert IndexReader(data).snapshot().documents == 3
    assert ExclusionFilter(data).clauses(frozenset()) == [], "the index has done it"
    assert found(searcher) == {A, WWW, C}
