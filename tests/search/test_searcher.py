"""Questions get the right pages in the right order, or one sentence."""

import threading
from time import perf_counter

import msgspec
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tarrafa.errors import DataError, QueryError, TarrafaError
from tarrafa.index import follower as index
from tarrafa.model import Link, SearchResult
from tarrafa.search import query_builder, scatter_gather
from tarrafa.search.query_parser import parse
from tarrafa.search.request import SearchRequest
from tarrafa.search.searcher import TermMarker, search
from tests.graph.archived_web import a_record, new_data, url_of, write
from tests.search.sample_pages import Asker, fill, set_block

A, B, C, D = (f"http://{name}.test/" for name in "abcd")


@pytest.fixture
def data(tmp_path):
    return new_data(tmp_path / "data")


def urls(result: SearchResult) -> list[str]:
    return [hit.url for hit in result.hits]


def test_any_word_all_words_must_not_and_phrase(data):
    ask = fill(
        data,
        a_record(A, text="rede azul no mar"),
        a_record(B, text="rede verde"),
        a_record(C, text="mar de rede"),
        a_record(D, text="nada disso"),
    ).search
    assert set(urls(ask("rede mar"))) == {A, B, C}
    assert set(urls(ask("rede mar", all_words=True))) == {A, C}
    assert set(urls(ask("+rede -mar"))) == {B}
    assert urls(ask('"mar de rede"')) == [C]
    assert urls(ask('"rede mar"')) == []
    assert set(urls(ask('rede -"mar de rede"'))) == {A, B}
    assert urls(ask("+mar azul"))[0] == A
    assert urls(ask("inexistente")) == []
    assert urls(ask("+inexistente rede")) == []
    assert set(urls(ask("inexistente verde"))) == {B}


def test_accents_case_and_plural_do_not_matter_in_the_pages_own_language(data):
    ask = fill(data, a_record(A, text="As funções públicas"), a_record(B, text="Open libraries", language="en")).search
    for question in ("funcao", "FUNÇÃO", "funções", "publicas funcoes", '"função pública"', "+funcao"):
        assert urls(ask(question)) == [A], question
    for question in ("library", '"open library"', "LIBRARIES"):
        assert urls(ask(question)) == [B], question


def test_words_of_two_languages_that_share_a_stem_do_not_find_each_other(data):
    texts = {A: ("uma rede no mar", "pt"), B: ("a red boat", "en"), C: ("de rede", "nl")}
    ask = fill(data, *(a_record(url, text=text, language=language) for url, (text, language) in texts.items())).search
    assert set(urls(ask("rede"))) == {A, C}
    assert urls(ask("redes")) == [A]
    (hit,) = ask("boats").hits
    assert TermMarker("rede")(hit.snippet, hit.language) == [("a red boat", False)]


def test_a_word_with_a_hyphen_is_found_as_written_before_its_halves_apart(data):
    ask = fill(data, a_record(A, text="um guarda-chuva"), a_record(B, text="guarda na chuva, chuva na guarda")).search
    assert urls(ask("guarda-chuva")) == [A, B]
    assert (ask("guarda-chuva").total, ask("guarda-chuva").others) == (1, 1)
    assert urls(ask("+guarda-chuva")) == urls(ask('"guarda-chuva"')) == [A]


def test_site_host_and_language(data):
    ask = fill(
        data,
        a_record("http://www.a.br/", text="rede"),
        a_record("http://b.a.br/", text="rede net", language="en"),
        a_record("http://c.com/", text="rede"),
    ).search
    assert set(urls(ask("rede site:a.br"))) == {"http://www.a.br/", "http://b.a.br/"}
    assert set(urls(ask("rede site:br"))) == {"http://www.a.br/", "http://b.a.br/"}
    assert urls(ask("rede host:a.br")) == []
    assert urls(ask("rede host:b.a.br")) == ["http://b.a.br/"]
    assert urls(ask("rede -site:a.br")) == ["http://c.com/"]
    assert urls(ask("lang:en")) == ["http://b.a.br/"]
    assert set(urls(ask("site:a.br lang:pt"))) == {"http://www.a.br/"}


def test_a_title_weighs_more_than_a_heading_and_a_heading_more_than_the_text(data):
    filler = "palavra " * 30
    ask = fill(
        data,
        a_record(A, title="outra", text=f"tarrafa {filler}", headings=("coisa",)),
        a_record(B, title="outra", text=f"coisa {filler}", headings=("tarrafa",)),
        a_record(C, title="tarrafa", text=f"coisa {filler}", headings=("coisa",)),
    ).search
    assert urls(ask("tarrafa")) == [C, B, A]


def test_of_equal_pages_the_one_with_more_links_comes_first(data):
    pages = [a_record(url, text="rede") for url in (A, B, C)]
    sources = [a_record(f"{D}{n}", text="x", links=[Link(B), *([Link(C)] if n else [])]) for n in range(9)]
    result = fill(data, *pages, *sources).search("rede")
    assert [(hit.url, hit.in_links) for hit in result.hits] == [(B, 9), (C, 8), (A, 0)]
    assert result.hits[0].score > result.hits[1].score > result.hits[2].score


def test_a_rare_language_is_not_preferred_for_its_rare_spelling(data):
    records = [a_record(f"{A}{n}", text="informações " + "texto " * 20, title="Informações") for n in range(30)]
    ask = fill(data, *records, a_record(B, text="informações " + "texto " * 20, language="xx")).search
    assert urls(ask("informações", n=31, crowded=True))[-1] == B


def test_collections_are_collapsed_by_url_unless_one_is_named(data):
    ask = fill(
        data, a_record(A, text="rede"), a_record(A, text="rede", collection="outra"), a_record(B, text="rede")
    ).search
    both = ask("rede")
    assert (sorted(urls(both)), both.total) == ([A, B], 2)
    assert urls(ask("rede", collection="outra")) == [A]
    with pytest.raises(QueryError, match="nenhuma"):
        ask("rede", collection="nenhuma")


def test_the_answer_has_the_shape_that_others_read(data):
    asker = fill(data, a_record(A, title="Uma rede", text="a rede no mar", links=[B]), a_record(B, links=[A]))
    began = perf_counter()
    result = asker.search("rede")
    took_s = perf_counter() - began
    told = msgspec.to_builtins(result)
    assert list(told) == ["query", "total", "time_s", "hits", "suggestion", "shards"]
    keys = ["url", "title", "snippet", "score", "in_links", "updated", "language", "copies", "type", "site", "pinned"]
    assert list(told["hits"][0]) == [*keys, "declared", "date_kind"]
    hit = result.hits[0]
    assert (result.query, result.total) == ("rede", 1)
    assert 0 < result.time_s <= took_s + 1e-6, "it is rounded"
    assert (hit.url, hit.title, hit.snippet, hit.in_links) == (A, "Uma rede", "a rede no mar", 1)
    assert (hit.updated, hit.date_kind, hit.language) == ("2026-09-21T14:13:20Z", "seen", "pt")


def test_pages_of_results_follow_each_other_without_gap_or_repetition(crawled, monkeypatch):
    set_block(monkeypatch, 20)
    ask = Asker(crawled).search
    whole = ask("rede net pesca river", n=100)
    pages = [ask("rede net pesca river", n=10, offset=offset) for offset in range(0, 120, 10)]
    joined = [url for page in pages for url in urls(page)]
    assert joined[:100] == urls(whole)
    assert len(joined) == len(set(joined)) == whole.total > 60


def test_the_total_is_exact_and_every_page_is_found_by_its_own_word(crawled):
    ask = Asker(crawled).search
    for number in (0, 7, 31, 119):
        result = ask(f"only{number}")
        assert (urls(result), result.total) == ([url_of(number)], 1)


@pytest.mark.parametrize(("n", "offset"), [(0, 0), (10, -1), (101, 0), (10, 991)])
def test_what_cannot_be_shown_is_said(crawled, n, offset):
    with pytest.raises(QueryError):
        search(crawled, SearchRequest("rede", n, offset))


def test_nothing_indexed_yet_is_said(data):
    with pytest.raises(DataError, match="nothing indexed yet"):
        search(data, SearchRequest("rede"))


def test_an_open_searcher_sees_the_next_commit_and_a_page_that_went_away(data):
    asker = fill(data, a_record(A, text="rede"))
    assert urls(asker.search("rede")) == [A]
    fill(data, a_record(B, text="rede"), a_record(A, 2, status=404), worker="w2")
    assert urls(asker.search("rede")) == [B]


def test_without_a_graph_search_works_and_nobody_links_to_anybody(data):
    write(data, [a_record(A, text="rede")])
    index.catch_up(data)
    assert [(hit.url, hit.in_links) for hit in search(data, SearchRequest("rede")).hits] == [(A, 0)]


def test_many_threads_may_ask_at_once(crawled):
    asker = Asker(crawled)
    answers: list[tuple[str, ...]] = []

    def many() -> None:
        answers.extend(tuple(urls(asker.search(f"rede only{n}"))) for n in range(20))

    threads = [threading.Thread(target=many) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert len(answers) == 80
    assert len(set(answers)) == 20


@given(
    st.text(alphabet=st.sampled_from('rede mar+-"():*~^[]{}\\/ site:lang:host:ç½\u0301日本AND OR NOT'), max_size=60),
    st.booleans(),
)
@example('+"', False)
@example('site:"', False)
@example("-", True)
@example('"a" -"a"', False)
@settings(max_examples=150, deadline=None)
def test_any_string_gives_results_or_one_sentence(crawled, text, all_words):
    try:
        result = Asker(crawled).search(text, all_words=all_words)
    except QueryError as error:
        assert "\n" not in str(error)
    else:
        assert result.total + result.others >= len(result.hits)
        for hit in result.hits:
            TermMarker(text)(hit.snippet, hit.language)


def test_errors_are_ours(crawled):
    with pytest.raises(TarrafaError):
        search(crawled, SearchRequest(""))


def test_marks_follow_the_pages_language_and_markup_stays_text():
    marker = TermMarker('redes -peixe "alto mar" site:a.br')
    pieces = marker("A <b>REDE</b> & o peixe em Alto", "pt")
    assert [piece for piece, is_marked in pieces if is_marked] == ["REDE", "Alto"]
    assert "".join(piece for piece, _ in pieces) == "A <b>REDE</b> & o peixe em Alto"
    assert parse("redes").texts == ["redes"]


def test_function_words_find_no_page_by_themselves_and_are_not_marked(tmp_path):
    data = new_data(tmp_path / "data")
    texts = ["filme de terror", "casa de campo", "o terror do filme", "o que é de quem", "cinema"]
    write(data, [a_record(f"http://h{n}.org/", text=text) for n, text in enumerate(texts)])
    index.catch_up(data)
    asker = Asker(data)
    found = asker.search("filme de terror")
    assert [hit.url for hit in found.hits] == ["http://h0.org/", "http://h2.org/"]
    assert TermMarker("filme de terror")("filme de terror", "pt") == [
        ("filme", True),
        (" de ", False),
        ("terror", True),
    ]
    alone = asker.search("o que é de quem")
    assert (alone.total, alone.others) == (1, 3), "without another word, they are looked for"
    assert TermMarker("o que")("o que", "pt") == [("o", True), (" ", False), ("que", True)]
    assert asker.search("de inexistente").total == 3, "no page has the other word"
    assert asker.search("+de terror").total == 3, "what is required is looked for"


def test_frequent_words_that_never_meet_still_find_pages_with_one_of_them(tmp_path, monkeypatch):
    monkeypatch.setattr(query_builder, "WHOLE_DOCUMENTS_MANY", 2)
    data = new_data(tmp_path / "data")
    texts = ["rede no mar", "network at sea"] * 6
    write(data, [a_record(f"http://h{n}.org/", text=f"{text} {n}") for n, text in enumerate(texts)])
    index.catch_up(data)
    asker = Asker(data)
    found = asker.search("rede network")
    assert (found.total, found.others, found.instead) == (12, 0, "some")
    assert asker.searcher.explain_score(SearchRequest("rede network"), found.hits[0].url)


def test_where_many_pages_have_all_words_only_these_are_searched(tmp_path, monkeypatch):
    monkeypatch.setattr(query_builder, "WHOLE_DOCUMENTS_MANY", 2)
    monkeypatch.setattr(scatter_gather, "WHOLE_PAGES_MIN", 4)
    data = new_data(tmp_path / "data")
    texts = ["rede no mar"] * 6 + ["rede", "mar"]
    write(data, [a_record(f"http://h{n}.org/", text=f"{text} {n}") for n, text in enumerate(texts)])
    index.catch_up(data)
    found = Asker(data).search("rede mar")
    assert (found.total, found.others, len(found.hits)) == (6, 0, 6)


def test_names_of_programming_languages_are_different_words(tmp_path):
    data = new_data(tmp_path / "data")
    texts = ["programar em C++ hoje", "programar em C# hoje", "programar em C hoje"]
    write(data, [a_record(f"http://h{n}.org/", text=f"{text} {'palavra ' * 80}") for n, text in enumerate(texts)])
    index.catch_up(data)
    for query, n, marked in (("c++", 0, "C++"), ("C#", 1, "C#"), ("c", 2, "C")):
        found = Asker(data).search(query)
        assert [hit.url for hit in found.hits] == [f"http://h{n}.org/"]
        assert (marked, True) in TermMarker(query)(found.hits[0].snippet, "pt")
