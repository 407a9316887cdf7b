"""Did you mean: other words for those that nobody uses, everything else as it was typed."""

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tarrafa.errors import QueryError
from tarrafa.index import follower as index
from tarrafa.index.text_analysis import fold
from tarrafa.search.query_parser import parse, scoring_spans
from tarrafa.search.searcher import INSTEAD_SOME_WORDS
from tarrafa.search.spelling import FEW_PAGES, edit_cost, merge_similar_words, similar_words
from tarrafa.search.vocabulary import IndexVocabulary
from tests.graph.archived_web import a_record, new_data, write
from tests.search.sample_pages import Asker

TEXTS = (
    *(f"O banco de dados guarda a função {n}" for n in range(8)),
    *(f"A impressora imprime o relatório {n} em papel" for n in range(7)),
    *(f"A rede de pesca e o pescador {n}" for n in range(6)),
    *(f"Um bando de pássaros {n} e o barco" for n in range(3)),
    "hiperlink para o database", "hiperlink de novo, database também", "dados raros", "impresora com erro",
)  # fmt: skip


@pytest.fixture(scope="module")
def ask(tmp_path_factory):
    data = new_data(tmp_path_factory.mktemp("spelling") / "data")
    write(data, [a_record(f"http://h{n}.br/", text=text, title=f"Livro {n}") for n, text in enumerate(TEXTS)])
    index.catch_up(data)
    return Asker(data)


MEANT = {
    "bnaco": "banco",
    "BANCCO": "BANCO",
    "Bnaco de dados": "Banco de dados",
    "bnaco dadso": "banco dados",
    "+bnaco -pesca": "+banco -pesca",
    '"banco de daods"': '"banco de dados"',
    "“banco de daods”": "“banco de dados”",
    "bnaco site:h0.br": "banco site:h0.br",
    "funsão": "função",
    "FUNSAO  pública": "FUNÇÃO  pública",
    "impresora": "impressora",
    "bancodedados": '"banco de dados"',
    "+bancodedados": '+"banco de dados"',
    "data base": "database",
    "hiper link": "hiperlink",
    "intitle:livroo": "intitle:livro",
    "(bnaco OR bancco)": "(banco OR banco)",
    "rede": None,
    "função": None,
    "funcao": None,
    "xyzzyx": None,
    "bna": None,
    "pa": None,
    "h2o bnc3": None,
    "-bnaco rede": None,
    "site:bnaco.br rede": None,
    "bnac*": None,
    "bnaco site:nowhere.br": None,
    "bnaco rede dados": "banco rede dados",
    "bnaco rede site:h15.br": None,
    "relatoroi da impressoar": "relatório da impressora",
}


@pytest.mark.parametrize("text", MEANT)
def test_what_may_have_been_meant(ask, text):
    assert ask.search(text).suggestion == MEANT[text]


@pytest.mark.parametrize("text", [text for text, meant in MEANT.items() if meant])
def test_a_suggestion_finds_more_and_needs_no_other(ask, text):
    first = ask.search(text)
    second = ask.search(first.suggestion)
    assert second.total >= max(1, 0 if first.instead else first.total)
    assert second.suggestion is None
    assert second.instead in ("", INSTEAD_SOME_WORDS)


def test_where_nothing_is_found_the_pages_of_the_other_spelling_are_shown_and_that_is_said(ask):
    found = ask.search("+bnaco")
    assert (found.query, found.suggestion, found.expanded, found.instead) == ("+bnaco", "+banco", ["banco"], "spelling")
    assert found.total == ask.search("+banco").total == 8
    assert all("banco" in hit.snippet for hit in found.hits)
    pages = [hit.url for offset in (0, 3, 6) for hit in ask.search("+bnaco", n=3, offset=offset).hits]
    assert pages == [hit.url for hit in ask.search("+banco").hits]


def test_where_something_is_found_it_is_shown_and_the_other_spelling_only_offered(ask):
    found = ask.search("impresora")
    assert [hit.url for hit in found.hits] == [f"http://h{len(TEXTS) - 1}.br/"]
    assert (found.suggestion, found.expanded, found.instead) == ("impressora", [], "")
    many = ask.search("bnaco rede dados")
    assert many.total >= FEW_PAGES
    assert (many.suggestion, many.instead) == ("banco rede dados", INSTEAD_SOME_WORDS)


def test_of_two_likely_words_the_one_is_meant_that_goes_with_the_others(ask):
    assert ask.search("bando pássaros").suggestion is None
    assert ask.search("banpo pássaros").suggestion == "bando pássaros"
    assert ask.search("banpo dados").suggestion == "banco dados"


def test_what_must_be_there_is_never_given_up_but_all_words_are(ask):
    for text in ('"rede dados"', "+rede +dados", "rede site:nowhere.br"):
        nothing = ask.search(text)
        assert (nothing.total, nothing.hits, nothing.instead) == (0, [], "")
    some = ask.search("rede dados", all_words=True)
    assert (some.instead, some.expanded) == ("some", [])
    assert some.total == ask.search("rede dados").total == 15
    assert ask.search("rede pesca", all_words=True).instead == ""


def test_a_rare_word_that_some_page_holds_is_not_taken_for_another_by_itself(ask):
    found = ask.search("impresora pássaros", all_words=True)
    assert (found.instead, found.total) == ("some", 4)
    strict = ask.search("+impresora +pássaros")
    assert (strict.instead, strict.total) == ("", 0)
    assert ask.search("impresora papel", all_words=True).suggestion == "impressora papel"


def test_a_collection_is_kept_to(tmp_path):
    data = new_data(tmp_path / "data")
    records = [a_record("http://a.br/", text="banco"), a_record("http://b.br/", text="rede", collection="outra")]
    write(data, records)
    index.catch_up(data)
    ask = Asker(data).search
    assert ask("bnaco").suggestion == "banco"
    assert ask("bnaco", collection="outra").suggestion is None


def words(**known: int) -> IndexVocabulary:
    return IndexVocabulary([[(word, documents)] for word, documents in sorted(known.items())])


def test_likely_slips_cost_less_than_others_and_the_first_letter_more():
    assert edit_cost("rede", "rede") == 0
    assert edit_cost("reed", "rede") < edit_cost("rehe", "rede")
    assert edit_cost("rwde", "rede") < edit_cost("rpde", "rede")
    assert edit_cost("redde", "rede") < edit_cost("redpe", "rede")
    assert edit_cost("caza", "casa") < edit_cost("capa", "casa")
    assert edit_cost("pede", "rede") > edit_cost("repe", "rede")
    assert edit_cost("bancodedados", "bancodedados", 2) > edit_cost("abc", "abc", 1) > 0


@given(st.text("abcde", max_size=8), st.text("abcde", max_size=8))
def test_no_changes_cost_nothing_and_changes_cost_the_same_both_ways(one, other):
    assert (edit_cost(one, other) == 0) == (one == other)
    assert edit_cost(one, other) == pytest.approx(edit_cost(other, one))


def test_the_word_itself_comes_first_then_the_likeliest():
    known = words(rede=2, rode=1, redes=50, sede=9, mar=3)
    assert similar_words(known, "Réde", 9) == [("rede", 0, 2), ("redes", 1, 50), ("rode", 1, 1), ("sede", 1, 9)]
    assert [word for word, _, _ in similar_words(known, "rexe", 9)] == ["rede"]
    assert similar_words(known, "re", 9) == []
    assert similar_words(known, "ma", 9) == []


def test_words_that_were_written_together_come_apart_where_all_of_them_are_words():
    known = words(banco=10, de=100, dados=20, ban=1, code=1, guarda=5, chuva=5)
    assert similar_words(known, "bancodedados", 3) == [("banco de dados", 2, 10)]
    assert similar_words(known, "guardachuva", 3) == [("guarda chuva", 1, 5)]
    assert similar_words(known, "guardaxchuva", 3) == []
    assert similar_words(words(ab=1, cd=1, muito=100), "abcd", 3) == [], (
        "short pieces must be words that everybody uses"
    )


def test_what_several_shards_know_is_added_up():
    one, other = [("rede", 0, 2), ("redes", 1, 5)], [("rede", 0, 3), ("sede", 1, 500)]
    assert merge_similar_words("rede", [one, other], 9) == [("rede", 0, 5), ("sede", 1, 500), ("redes", 1, 5)]


@given(st.text(max_size=60))
def test_what_speaks_in_a_text_is_where_it_says(text):
    found = scoring_spans(text)
    assert all(0 <= one.start < one.end <= len(text) for one in found)
    assert [one.start for one in found] == sorted(one.start for one in found)
    try:
        query = parse(text)
    except QueryError:
        return
    said = {text[one.start : one.end] for one in found if not one.name}
    assert said >= {one for one in query.texts if one in text and not text.count("*")}


@settings(max_examples=40, deadline=None)
@given(st.text(st.characters(exclude_categories=["Cs"]), max_size=60))
@example("bnaco" * 200)
@example("bnaco " * 60)
@example("x" * 900)
@example("é" * 900)
@example("e\u0301" * 400)
@example("bna\u0000co \x1b[2J")
@example("🐟 bnaco 🎣")
@example("שלום bnaco \u202e ocnab")
@example('"bnaco')
@example("((bnaco")
@example("bnaco OR")
@example("-(bnaco) rede")
@example('intitle:"livroo')
@example("bnaco" + "\u200b" * 100)
def test_any_string_is_answered_or_refused_in_one_sentence(ask, text):
    try:
        found = ask.search(text, natural=True, expand=True)
    except QueryError as error:
        assert "\n" not in str(error)
        return
    if found.suggestion is not None:
        assert fold(found.suggestion) != fold(text)
        assert ask.search(found.suggestion).total > 0
