"""While somebody types: what is suggested goes on as was typed, and finds something."""

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tarrafa.index import follower as index
from tarrafa.index.text_analysis import fold
from tarrafa.search import autocomplete
from tarrafa.search.autocomplete import PartialText, merge_completions, partial_text
from tarrafa.search.searcher import Searcher
from tests.graph.archived_web import a_record, new_data, write
from tests.search.sample_pages import PATIENCE_S, Asker

TEXTS = (
    "A função da rede de pesca é pescar.",
    "As funções públicas e o pescador.",
    "O pescador lança a rede; o peixe foge.",
    "Um pé de feijão, dois pés, e as pessoas.",
    "Receita de pão de queijo com guarda-chuva.",
)


@pytest.fixture(scope="module")
def ask(tmp_path_factory):
    data = new_data(tmp_path_factory.mktemp("suggesting") / "data")
    write(data, [a_record(f"http://h{n}.br/", text=text, title=f"Página {n}") for n, text in enumerate(TEXTS)])
    index.catch_up(data)
    return Asker(data)


SUGGESTED = {
    "funca": ["função"],
    "Funç": ["Função", "Funções"],
    "FUNCA": ["função"],
    "peix": ["peixe"],
    "pesca": ["pescador", "pescar"],
    "rede pes": ["rede pesca", "rede pescador", "rede pescar"],
    "feijão pes": ["feijão pessoas", "feijão pés"],
    "feijão pé": ["feijão pés", "feijão pessoas"],
    "queijo pes": [],
    "+rede +pei": ["+rede +peixe"],
    "(rede OR barco) pei": ["(rede OR barco) peixe"],
    '"rede de pes': ['"rede de pesca', '"rede de pescar'],  # of one stem
    "intitle:pág": ["intitle:página"],
    "guarda-ch": ["guarda-chuva"],
    "-rede peix": [],
    "-rede fei": ["-rede feijão"],
    "-pei": [],
    "site:h0.br pes": ["site:h0.br pesca", "site:h0.br pescar"],
    "site:pes": [],
    "pes*": [],
    "pesca ": [],
    "": [],
    "zzz": [],
    "inexistente pes": [],
    "lang:!! pes": [],
}


@pytest.mark.parametrize("text", SUGGESTED)
def test_how_a_text_may_go_on(ask, text):
    assert ask.searcher.suggest(text) == SUGGESTED[text]


@pytest.mark.parametrize("text", [text for text in SUGGESTED if SUGGESTED[text]])
def test_what_is_suggested_finds_something_with_all_its_words(ask, text):
    for said in ask.searcher.suggest(text):
        found = ask.search(said, all_words=True)
        assert found.total > 0
        assert not found.instead


def test_the_most_frequent_comes_first_and_no_more_than_asked_for(ask):
    assert ask.searcher.suggest("re") == ["rede", "receita"]
    assert ask.searcher.suggest("re", 1) == ["rede"]
    assert ask.searcher.suggest("re", 0) == ask.searcher.suggest("re", -1) == []
    assert ask.searcher.suggest("re", 10**9) == ["rede", "receita"]


def test_words_that_stand_in_more_than_half_of_the_documents_come_last(ask):
    assert ask.searcher.suggest("p", 1) == ["pescador"]
    assert "página" in ask.searcher.suggest("p", 50)


def test_short_beginnings_of_large_vocabularies_are_looked_up_in_memory_with_the_same_answers(ask, monkeypatch):
    texts = [text for text in SUGGESTED if SUGGESTED[text]]
    before = [ask.searcher.suggest(text) for text in texts]
    monkeypatch.setattr(autocomplete, "READ_MAX", 0)
    assert [ask.searcher.suggest(text) for text in texts] == before


def test_where_nothing_is_indexed_there_is_nothing_to_suggest(tmp_path):
    assert Searcher.open(new_data(tmp_path / "data")).suggest("rede") == []


def test_blocked_sites_lend_no_words(tmp_path):
    data = new_data(tmp_path / "data")
    write(data, [a_record("http://bom.br/", text="barco"), a_record("http://mau.br/", text="barraca")])
    index.catch_up(data)
    (data.root / "search.toml").write_text('blocked = ["mau.br"]')
    assert Searcher.open(data, patience_s=PATIENCE_S).suggest("bar") == ["barco"]


@settings(max_examples=60, deadline=None)
@given(st.text(st.characters(), max_size=60))
@example("x" * 10_000)
@example("rede " * 2_000 + "pes")
@example("pes" + "\u0301" * 500)
@example("\x00\x01\x1b[31mpes")
@example("🐟🎣 pes")
@example("שלום עולם rede")
@example("\ud800pes")
@example("rede \udfff pes")
@example('"' * 999 + "p")
@example("(" * 500 + "p")
@example("site:\x00 p")
@example("link:http://[::1 p")
@example("a*" * 300 + " p")
def test_any_string_has_suggestions_or_none(ask, text):
    found = ask.searcher.suggest(text)
    assert len(found) <= 8
    assert all(fold(one) and one != text for one in found)


@given(st.text(max_size=40))
def test_a_text_that_can_go_on_is_its_beginning_and_its_last_word(text):
    found = partial_text(text)
    if found is not None:
        assert found.typed
        assert found.typed.isalnum()
        assert len(found.typed) <= 64


def test_what_several_shards_know_is_added_up():
    answers = [[("rede", 3), ("redes", 5)], [("rede", 4), ("réde", 9), ("redonda", 1)]]
    assert merge_completions("re", answers, 9) == [("réde", 16), ("redes", 5), ("redonda", 1)]
    assert merge_completions("ré", answers, 9)[0] == ("réde", 16)
    assert partial_text("um dois") == PartialText("um ", "dois", True)
