"""What every shard promises, in this process or behind a URL, in one part or in several: the answers of one index."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import pytest

from tarrafa.errors import DataError, QueryError
from tarrafa.graph import follower as graph
from tarrafa.index import follower as index
from tarrafa.index import shards
from tarrafa.parse.url import url_id
from tarrafa.runtime.data_dir import write_atomically
from tarrafa.search.request import MATCHES_MAX, ExpansionTerm, SearchRequest, ShardStatistics, Sort
from tarrafa.search.scatter_gather import open_local_shard
from tests.graph.archived_web import a_record, new_data, write
from tests.search.sharded_index import behind_a_url, body, divided

BODIES = ("local 1", "local 2", "local 8", "remote 1", "remote 4")
QUESTIONS = [
    SearchRequest("rede"),
    SearchRequest("rede pesca mar", all_words=True),
    SearchRequest("only7 OR only31"),
    SearchRequest('"veja a página" -intitle:number3'),
    SearchRequest("comum", sort=Sort.LINKS),
    SearchRequest("rede net", sort=Sort.DATE),
    SearchRequest("rede", collection="outra"),
    SearchRequest("pesc* site:br.test", natural=True),
    SearchRequest("espelho", extras=(ExpansionTerm("moldura", 0.5), ExpansionTerm("rede", 0.25))),
    SearchRequest("link:http://h0.br.test/"),
    SearchRequest("inexistente"),
]


@pytest.fixture(scope="module")
def one(tmp_path_factory):
    """The measure: one index of everything, here."""
    return open_local_shard(divided(tmp_path_factory.mktemp("one") / "data", "1"))


@pytest.fixture(scope="module")
def four(tmp_path_factory):
    return open_local_shard(divided(tmp_path_factory.mktemp("four") / "data", "4"))


@pytest.fixture(scope="module", params=BODIES)
def shard(request, tmp_path_factory):
    yield from body(request.param, tmp_path_factory.mktemp("body") / "data")


@pytest.mark.parametrize("question", QUESTIONS, ids=lambda question: question.text)
def test_large_parts_that_are_asked_at_once_answer_as_one_after_the_other(monkeypatch, question, four):
    together = four.statistics(question)
    wanted = four.top_matches(question, together, MATCHES_MAX)
    monkeypatch.setattr("tarrafa.search.scatter_gather.LARGE_PART_DOCUMENTS", 1)
    with ThreadPoolExecutor(8) as people:
        found = list(people.map(lambda _: four.top_matches(question, together, MATCHES_MAX), range(16)))
    assert found == [wanted] * 16


def test_a_large_part_that_is_damaged_is_told(tmp_path, monkeypatch):
    data = divided(tmp_path / "data", "2")
    monkeypatch.setattr("tarrafa.search.scatter_gather.LARGE_PART_DOCUMENTS", 1)
    asked = open_local_shard(data)
    together = asked.statistics(SearchRequest("rede"))
    write_atomically(data.index / "2-of-2" / "text" / "meta.json", b"{")
    with pytest.raises(DataError, match="2-of-2"):
        asked.top_matches(SearchRequest("rede"), together, 10)


def test_it_has_a_name_and_says_how_many_documents_it_holds(shard, one):
    assert shard.name
    assert shard.documents() == one.documents() == 155


@pytest.mark.parametrize("question", QUESTIONS, ids=lambda question: question.text)
def test_it_counts_and_finds_what_one_index_does(shard, one, question):
    together = shard.statistics(question)
    assert together == one.statistics(question)
    found, wanted = (each.top_matches(question, together, MATCHES_MAX) for each in (shard, one))
    assert found.total == wanted.total == len(found.candidates)
    assert {each.id: each.in_links for each in found.candidates} == {
        each.id: each.in_links for each in wanted.candidates
    }
    score = {each.id: each.score for each in wanted.candidates}
    for each in found.candidates:
        assert each.score == pytest.approx(score[each.id], rel=0.1)
    scores = [each.score for each in found.candidates]
    assert scores == sorted(scores, reverse=True)


@pytest.mark.parametrize("question", QUESTIONS[:2], ids=lambda question: question.text)
def test_it_shows_what_one_index_shows(shard, one, question):
    shown = []
    for each in (shard, one):
        block = each.top_matches(question, each.statistics(question), 100)
        places = [candidate.place for candidate in block.candidates]
        assert len(set(places)) == len(places)
        found = each.show(question, block.moment, places)
        shown.append(dict(zip((candidate.id for candidate in block.candidates), found, strict=True)))
    assert shown[0] == shown[1]
    assert len(shown[0]) > 5


def test_places_may_be_shown_in_any_order_and_twice(shard):
    question = SearchRequest("rede")
    block = shard.top_matches(question, shard.statistics(question), 10)
    places = [candidate.place for candidate in block.candidates]
    there = shard.show(question, block.moment, places)
    assert shard.show(question, block.moment, [*reversed(places), places[0]]) == [*reversed(there), there[0]]
    assert shard.show(question, block.moment, []) == []


def test_fewer_matches_are_the_first_of_more(shard):
    question = SearchRequest("rede OR net")
    together = shard.statistics(question)
    whole = shard.top_matches(question, together, 100)
    for limit in (1, 7, 50):
        few = shard.top_matches(question, together, limit)
        assert [each.id for each in few.candidates] == [each.id for each in whole.candidates[:limit]]
        assert few.total == whole.total


def test_it_finds_pages_by_their_ids_in_the_order_asked_for(shard):
    urls = ["http://w3.muitos.br/", "http://nowhere.br/", "http://h1.br.test/p1.html", "http://m2.copias.br/xx"]
    found = shard.find_urls(SearchRequest("qualquer"), [url_id(url) for url in urls])
    assert [one.id for one in found.candidates] == [url_id(url) for url in urls if "nowhere" not in url]
    shown = shard.show(SearchRequest("qualquer"), found.moment, [one.place for one in found.candidates])
    assert [one.url for one in shown] == [url for url in urls if "nowhere" not in url]
    assert shard.find_urls(SearchRequest("rede", collection="outra"), [url_id(urls[0])]).candidates == []


def test_it_tells_why_a_page_has_its_score(shard, one):
    question = SearchRequest("rede comum")
    together = shard.statistics(question)
    told, wanted = (each.explain_score(question, together, "http://w3.muitos.br/") for each in (shard, one))
    assert [(part.kind, part.what) for part in told] == [(part.kind, part.what) for part in wanted]
    assert [part.value for part in told] == pytest.approx([part.value for part in wanted], rel=0.1)
    assert shard.explain_score(question, together, "http://h2.br.test/p2.html") == []


def test_it_completes_words_as_one_index_does(shard, one):
    for beginning, before in (
        ("re", ""),
        ("pesc", ""),
        ("funco", ""),
        ("pes", "rede comum"),
        ("rela", "+funções"),
        ("", ""),
    ):
        assert shard.complete(beginning, before, 9) == one.complete(beginning, before, 9)
    assert shard.complete("funco", "", 9)[0][0] == "funções"
    assert [word for word, _ in shard.complete("redo", "", 1)] == ["redonda"]
    assert shard.complete("re", "palavrainexistente", 9) == []
    with pytest.raises(QueryError):
        shard.complete("re", "-rede", 9)


def test_it_knows_words_that_are_nearly_written_so(shard, one):
    for word in ("rede", "pescadro", "funcoes", "redecomum", "zzzzzz", ""):
        found, wanted = (until_read(partial(each.similar_words, word, 9)) for each in (shard, one))
        assert sorted(one[:2] for one in found) == sorted(one[:2] for one in wanted)
        assert {one for one in found if " " not in one[0]} == {one for one in wanted if " " not in one[0]}
    assert shard.similar_words("rede", 9)[0][:2] == ("rede", 0)
    assert shard.similar_words("pescadro", 9)[0][:2] == ("pescador", 1)
    assert shard.similar_words("redecomum", 9)[0][:2] == ("rede comum", 1)


def until_read(ask: Callable[[], Any]) -> Any:
    """A vocabulary is read in the background; every answer waits for it a little."""
    return next((found for _ in range(200) if (found := ask())), [])


def test_it_tells_the_words_of_the_best_pages(shard, one):
    question = SearchRequest("espelho")
    together = shard.statistics(question)
    told, wanted = (dict(each.expansion_terms(question, together, 3, 100)) for each in (shard, one))
    assert told == wanted
    assert "espelho" in told
    like = SearchRequest("", related="http://m1.copias.br/x")
    assert (
        dict(shard.expansion_terms(like, ShardStatistics(), 3, 100))
        == dict(one.expansion_terms(like, ShardStatistics(), 3, 100))
        != {}
    )
    assert shard.expansion_terms(SearchRequest("", related="http://nowhere.br/"), ShardStatistics(), 3, 100) == []
    assert (
        shard.expansion_terms(SearchRequest("inexistente"), shard.statistics(SearchRequest("inexistente")), 3, 100)
        == []
    )


def test_what_is_not_known_any_more_is_not_taken_for_something_else(shard):
    question = SearchRequest("rede")
    block = shard.top_matches(question, shard.statistics(question), 10)
    for moment in (0, block.moment + 1, block.moment - 1):
        with pytest.raises(QueryError, match="changed in the meantime"):
            shard.show(question, moment, [block.candidates[0].place])


@pytest.mark.parametrize("text", ["", "-rede", "rede " * 300, "type:nobody:x"])
def test_what_cannot_be_asked_is_one_sentence(shard, text):
    with pytest.raises(QueryError) as caught:
        shard.statistics(SearchRequest(text))
    assert "\n" not in str(caught.value)
    with pytest.raises(QueryError):
        shard.top_matches(SearchRequest(text), ShardStatistics(), 10)


@pytest.mark.parametrize("name", ["local 1", "local 2", "remote 1"])
def test_what_was_found_can_be_shown_after_the_next_commit(name, tmp_path):
    question = SearchRequest("rede")
    with_more = body(name, tmp_path / "data")
    shard = next(with_more)
    block = shard.top_matches(question, shard.statistics(question), 10)
    places = [candidate.place for candidate in block.candidates]
    before = shard.show(question, block.moment, places)
    data = new_data(tmp_path / "data")
    write(data, [a_record(f"http://n{n}.br/", text="rede rede rede") for n in range(20)], "w2")
    graph.catch_up(data, lambda name, weights: None)
    index.catch_up(data)
    after = shard.top_matches(question, shard.statistics(question), 10)
    assert after.moment != block.moment
    assert after.total == block.total + 20
    assert shard.show(question, block.moment, places) == before
    assert list(with_more) == []


def test_another_process_does_not_take_an_old_moment_for_its_own(tmp_path):
    question, data = SearchRequest("rede"), divided(tmp_path / "data", "2")
    first, second = open_local_shard(data), open_local_shard(data)
    block = first.top_matches(question, first.statistics(question), 10)
    second.top_matches(question, second.statistics(question), 10)
    with pytest.raises(QueryError, match="changed in the meantime"):
        second.show(question, block.moment, [block.candidates[0].place])


def test_nothing_indexed_yet_is_said(tmp_path):
    data = new_data(tmp_path / "data")
    with behind_a_url(data) as remote:
        for shard in (open_local_shard(data), remote):
            for ask in (shard.documents, lambda shard=shard: shard.statistics(SearchRequest("rede"))):
                with pytest.raises(DataError, match="nothing indexed yet"):
                    ask()


@pytest.mark.parametrize("into", ["1", "3"])
def test_where_nothing_is_indexed_yet_it_may_also_be_an_index_without_documents(tmp_path, into):
    data, nothing = new_data(tmp_path / "data"), ShardStatistics()
    shards.set_layout(data, shards.parse_layout(into, "test"))
    empty, question = open_local_shard(data, or_nothing=True), SearchRequest("rede")
    assert (empty.documents(), empty.statistics(question)) == (0, nothing)
    block = empty.top_matches(question, nothing, 10)
    assert (block.total, block.candidates) == (0, [])
    assert empty.show(question, block.moment, []) == []
    with pytest.raises(QueryError, match="have changed"):
        empty.show(question, block.moment, [(0, 0)])
    assert empty.find_urls(question, [url_id("http://a.test/")]).candidates == []
    assert empty.explain_score(question, nothing, "http://a.test/") == []
    assert (
        empty.complete("re", "", 5),
        empty.similar_words("rede", 5),
        empty.expansion_terms(question, nothing, 3, 5),
    ) == (
        [],
        [],
        [],
    )
    write(data, [a_record("http://a.test/", title="Rede", text="rede")])
    index.catch_up(data)
    assert empty.documents() == 1
    assert empty.top_matches(question, empty.statistics(question), 10).total == 1


def test_an_index_that_is_divided_anew_is_taken_up(tmp_path):
    from tarrafa.index import shards

    data = divided(tmp_path / "data", "1")
    shard = open_local_shard(data)
    assert shard.documents() == 155
    shards.set_layout(data, shards.parse_layout("3", "test"))
    assert index.behind(data) > 0
    with pytest.raises(DataError, match="nothing indexed yet"):
        shard.documents()
    index.catch_up(data)
    assert shard.documents() == 155
    assert not list((data.root / "index").glob("*.sqlite"))
