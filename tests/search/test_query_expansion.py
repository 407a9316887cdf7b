"""Words that nobody typed: those of the best pages, and those of one page that others are to be like."""

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tarrafa.errors import QueryError
from tarrafa.graph import follower as graph
from tarrafa.index import follower as index
from tarrafa.index.schema import StoredDocument
from tarrafa.model import SearchResult, VisitRecord
from tarrafa.runtime.data_dir import DataDirectory
from tarrafa.search.local_shard import LocalShard
from tarrafa.search.query_expansion import bo1_weight, choose_terms, feedback_terms, sum_evidence
from tarrafa.search.request import ExpansionTerm, SearchRequest, ShardStatistics, Sort
from tarrafa.search.scatter_gather import open_local_shard
from tarrafa.search.searcher import Searcher, TermMarker
from tests.graph.archived_web import a_record, new_data, write
from tests.search.sample_pages import LONG, Asker, a_page

THREE = {
    "http://one.org/": ("MySQL Tutorial", "DBMS stands for DataBase"),
    "http://two.org/": ("MySQL vs. YourSQL", "in the following database comparison"),
    "http://three.org/": ("Optimizing MySQL", "in this tutorial we will show"),
}


def fill(data: DataDirectory, *records: VisitRecord) -> Asker:
    write(data, records)
    graph.catch_up(data, lambda name, weights: None)
    index.catch_up(data)
    return Asker(data)


def urls(found: SearchResult) -> list[str]:
    return [hit.url for hit in found.hits]


def three(whole: bool = False) -> list[VisitRecord]:
    """The three documents, with titles or in one text."""
    return [
        a_record(url, title="" if whole else title, text=f"{title}: {text}" if whole else text, language="en")
        for url, (title, text) in THREE.items()
    ]


@pytest.mark.parametrize("whole", [False, True])
def test_the_word_database_finds_two_of_three_documents_and_expanded_also_the_third(tmp_path, whole):
    one, two, other = THREE
    ask = fill(new_data(tmp_path / "data"), *three(whole)).search
    plain, expanded = ask("database"), ask("database", expand=True)
    assert (set(urls(plain)), plain.total, plain.expanded) == ({one, two}, 2, [])
    assert set(urls(expanded)[:2]) == {one, two}
    assert (urls(expanded)[2:], expanded.total) == ([other], 3)
    assert "mysql" in expanded.expanded
    assert not {"database", "for", "the", "dbms"} & set(expanded.expanded), "neither typed nor leading anywhere"


def test_they_are_found_over_three_shards_of_one_document_each(tmp_path):
    shards = []
    for number, record in enumerate(three()):
        data = new_data(tmp_path / str(number))
        write(data, [record])
        index.catch_up(data)
        shards.append(open_local_shard(data))
    found = Searcher(shards).search(SearchRequest("database", expand=True))
    assert set(urls(found)) == set(THREE)
    assert "mysql" in found.expanded


def test_why_a_page_was_found_by_an_added_word(tmp_path):
    asker = fill(new_data(tmp_path / "data"), *three())
    question = SearchRequest("database", expand=True)
    parts = asker.searcher.explain_score(question, "http://three.org/")
    assert ("added", "mysql") in {(part.kind, part.what) for part in parts}
    score = next(hit.score for hit in asker.searcher.search(question).hits if "three" in hit.url)
    total = sum(part.value for part in parts if part.kind != "links")
    assert total * next(part.value for part in parts if part.kind == "links") == pytest.approx(score, rel=0.01)


def test_a_snippet_shows_the_added_words_where_the_typed_ones_are_not(tmp_path):
    filler = " ".join(f"enchimento{n}" for n in range(200))
    ask = fill(
        new_data(tmp_path / "data"),
        a_record("http://a.br/", text="tarrafa malha chumbo"),
        a_record("http://b.br/", text="tarrafa malha linha"),
        a_record("http://c.br/", text=f"{filler} malha chumbo {filler}"),
    ).search
    found = {hit.url: hit.snippet for hit in ask("tarrafa", expand=True).hits}
    assert "malha chumbo" in found["http://c.br/"]
    assert found["http://a.br/"].startswith("tarrafa")


def test_what_must_be_there_stays_and_what_is_added_only_orders(tmp_path):
    asker = fill(new_data(tmp_path / "data"), *three())
    for chosen_too in ({"text": "+database"}, {"text": "database", "all_words": True}):
        found = asker.search(**chosen_too, expand=True)
        assert found.total == 2
        assert "mysql" in found.expanded
    assert asker.search("database -optimizing", expand=True).total == 2
    assert asker.search("database site:one.org", expand=True).total == 1


def test_the_best_pages_lend_their_words_whatever_the_order_of_what_is_shown(tmp_path):
    asker = fill(new_data(tmp_path / "data"), *three())
    words = asker.search("database", expand=True).expanded
    for sort in (Sort.DATE, Sort.LINKS):
        assert asker.search("database", expand=True, sort=sort).expanded == words
    pages = [hit.url for offset in range(3) for hit in asker.search("database", n=1, offset=offset, expand=True).hits]
    assert pages == urls(asker.search("database", expand=True))


def test_where_nothing_is_found_nothing_is_added(tmp_path):
    found = fill(new_data(tmp_path / "data"), *three()).search("zzzzzz", expand=True)
    assert (found.total, found.expanded) == (0, [])


# -- pages like one ----------------------------------------------------------------------------------------------------

SEA = "O pescador lança a tarrafa redonda no mar e a maré traz peixes para a rede"
BANK = "O banco de dados guarda tabelas e índices para consultas rápidas em disco"


@pytest.fixture
def like(tmp_path: Path) -> Asker:
    filler = [a_page(f"http://f{n}.br/", f"Um texto {n} sobre coisa nenhuma que se repete") for n in range(12)]
    return fill(
        new_data(tmp_path / "data"),
        a_page("http://mar1.br/", f"{SEA} ontem na praia", "Pesca"),
        a_page("http://mar2.br/", f"{SEA} amanhã cedo", "A tarrafa"),
        a_page("http://mar3.br/", "A tarrafa redonda do pescador e os peixes da maré em grande quantidade", "Maré"),
        a_page("http://banco1.br/", f"{BANK} hoje", "Dados"),
        a_page("http://banco2.br/", f"{BANK} sempre na varanda", "Tabelas"),
        *filler,
    )


def test_pages_like_one_are_found_without_itself(like):
    assert urls(like.search("", related="http://mar1.br/")) == ["http://mar2.br/", "http://mar3.br/"]
    assert urls(like.search("  ", related="http://banco1.br/")) == ["http://banco2.br/"]
    assert urls(like.search("", related="HTTP://MAR1.br")) == ["http://mar2.br/", "http://mar3.br/"]
    found = like.search("", related="http://mar1.br/")
    assert (found.total, found.suggestion, found.expanded, found.instead) == (2, None, [], "")
    assert "tarrafa" in found.hits[0].snippet


def test_words_are_a_further_condition(like):
    assert urls(like.search("cedo", related="http://mar1.br/")) == ["http://mar2.br/"]
    assert urls(like.search("-cedo tarrafa", related="http://mar1.br/")) == ["http://mar3.br/"]
    assert urls(like.search("praia", related="http://mar2.br/")) == ["http://mar1.br/"]
    assert urls(like.search("site:mar3.br", related="http://mar1.br/")) == ["http://mar3.br/"]
    assert urls(like.search("inexistente", related="http://mar1.br/")) == []
    with pytest.raises(QueryError):
        like.search("lang:", related="http://mar1.br/")


@pytest.mark.parametrize("url", ["http://nowhere.br/", "mar1.br", "", "\x00", "é" * 5_000])
def test_a_page_that_is_not_indexed_has_none_like_it(like, url):
    with pytest.raises(QueryError) as caught:
        like.search("", related=url)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 400


@pytest.mark.parametrize("copies", [False, True])
def test_copies_of_a_page_are_not_like_it_they_are_it(tmp_path, copies):
    near = LONG.replace("redonda", "quadrada", 1)
    ask = fill(
        new_data(tmp_path / "data"),
        a_page("http://a.br/", LONG, "Rede"),
        a_page("http://b.br/", LONG, "Rede"),
        a_page("http://c.br/", near, "Rede"),
        a_page("http://d.br/", f"{LONG} e ainda outra coisa, diferente, sobre canoas", "Outro"),
        *(a_page(f"http://f{n}.br/", f"nada disso {n}") for n in range(9)),
    ).search
    found = ask("", related="http://b.br/", copies=copies)
    assert (urls(found), found.total) == (["http://d.br/"], 1)


def test_pages_like_one_follow_each_other(tmp_path):
    many = [a_page(f"http://h{n}.br/", f"{SEA} pela vez {n} e {n * 7} vezes", f"Título {n}") for n in range(30)]
    others = [a_page(f"http://f{n}.br/", f"nada disso {n} aqui") for n in range(60)]
    ask = fill(new_data(tmp_path / "data"), *many, *others).search
    whole = ask("", n=100, related="http://h7.br/", crowded=True)
    pages = [
        url
        for offset in range(0, 40, 10)
        for url in urls(ask("", offset=offset, related="http://h7.br/", crowded=True))
    ]
    assert pages == urls(whole)
    assert len(set(pages)) == whole.total == 29
    assert "http://h7.br/" not in pages


def test_a_page_without_words_has_none_like_it(tmp_path):
    ask = fill(new_data(tmp_path / "data"), a_page("http://a.br/", ""), a_page("http://b.br/", SEA)).search
    assert urls(ask("", related="http://a.br/")) == []


def test_natural_and_other_switches_go_with_it(like):
    for more in ({"natural": True}, {"recent": True}, {"expand": True}, {"sort": Sort.DATE}, {"all_words": True}):
        assert set(urls(like.search("", related="http://mar1.br/", **more))) == {"http://mar2.br/", "http://mar3.br/"}


# -- weights -----------------------------------------------------------------------------------------------------------


def test_a_word_tells_more_the_rarer_it_is_and_the_more_of_the_pages_hold_it():
    assert bo1_weight(1, 1, 1000) > bo1_weight(1, 10, 1000) > bo1_weight(1, 1000, 1000) > 0
    assert bo1_weight(3, 10, 1000) > bo1_weight(2, 10, 1000)
    assert bo1_weight(3, 1000, 1000) < bo1_weight(1, 5, 1000)


def page(text: str, language: str = "pt") -> StoredDocument:
    return StoredDocument("http://a.br/", "", text, language, "", "")


def test_words_are_told_as_they_are_mostly_written_and_short_ones_and_numbers_not_at_all():
    counting = ShardStatistics(10, 10, 0, {"all": {"rede": 1, "funca": 1}})
    found = dict(feedback_terms([page("Redes redes rede, a de 1984 REDES"), page("rede")], counting, 9))
    assert set(found) == {"redes"}
    assert 2 < found["redes"] < 3


def test_of_several_shards_the_evidence_is_added_up_and_typed_words_are_left_out():
    found = sum_evidence([[("rede", 1.0), ("mar", 2.0)], [("rede", 2.0), ("barco", 1.0)]], frozenset({"barc"}))
    assert found == {"rede": 3.0, "mar": 2.0}
    counting = ShardStatistics(100, 100, 0, {"all": {"rede": 3, "mar": 50}})
    assert choose_terms(found, counting, 9, 0.5) == (ExpansionTerm("mar", 0.5),), (
        "a word that no other page holds leads nowhere"
    )


@settings(max_examples=60, deadline=None)
@given(st.lists(st.text(max_size=80), max_size=4), st.sampled_from(["pt", "en", "", "xx"]))
def test_any_texts_tell_words_or_none(texts, language):
    found = feedback_terms([page(text, language) for text in texts], ShardStatistics(10, 10, 0, {}), 7)
    assert len(found) <= 7
    assert all(word and held > 0 for word, held in found)


def test_added_words_are_marked_too():
    assert TermMarker("", ["rede"])("a rede", "pt") == [("a ", False), ("rede", True)]
    assert TermMarker("mar", ["rede"])("rede no mar", "pt")[0] == ("rede", True)


def test_a_shard_tells_of_no_more_pages_than_it_is_asked_for(tmp_path):
    data = new_data(tmp_path / "data")
    write(data, [a_record(f"http://h{n}.br/", text=f"rede {'rede ' * n} palavra{'abcdef'[n]}x") for n in range(6)])
    index.catch_up(data)
    shard, question = LocalShard(data), SearchRequest("rede")
    statistics = shard.statistics(question)
    for pages in (1, 2, 5):
        words = {word for word, _ in shard.expansion_terms(question, statistics, pages, 50)} - {"rede"}
        assert len(words) == pages
