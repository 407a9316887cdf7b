"""Words that are the same word meet; words that are not, do not."""

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tarrafa.index.text_analysis import (
    ENGLISH,
    OTHER,
    all_entries,
    analyze,
    analyzer_for,
    compose,
    entry_parts,
    fold,
    portuguese_singular,
    primary_language,
    readings,
    readings_in_a_row,
    template_entries,
    vocabulary_entries,
    words,
)

PORTUGUESE_PAIRS = [
    ("função", "funções"),
    ("pão", "pães"),
    ("leão", "leões"),
    ("animal", "animais"),
    ("papel", "papéis"),
    ("lençol", "lençóis"),
    ("fóssil", "fósseis"),
    ("difícil", "difíceis"),
    ("possível", "possíveis"),
    ("fuzil", "fuzis"),
    ("homem", "homens"),
    ("flor", "flores"),
    ("casa", "casas"),
    ("país", "países"),
    ("luz", "luzes"),
    ("mês", "meses"),
    ("Educação", "EDUCACAO"),
    ("pescador", "pescadores"),
]


def strip_language_sign(term: str) -> str:
    return term.rstrip(ENGLISH + OTHER)


@pytest.mark.parametrize(("one", "other"), PORTUGUESE_PAIRS)
def test_portuguese_singular_and_plural_meet(one, other):
    assert analyzer_for("pt-BR")(one) == analyzer_for("pt")(other)


@pytest.mark.parametrize(("one", "other"), [("net", "nets"), ("library", "libraries"), ("Reading", "reads")])
def test_english_singular_and_plural_meet(one, other):
    assert analyzer_for("en")(one) == analyzer_for("en")(other)


@pytest.mark.parametrize("word", ["mais", "pois", "depois", "dois", "leis", "menos", "pais"])
def test_what_only_looks_like_a_plural_stays(word):
    assert portuguese_singular(word) in (word, word.removesuffix("s"))


def test_other_languages_are_folded_only():
    assert analyze("Les Élèves -- çà!", "fr").split() == ["les.", "eleves.", "ca."]
    assert analyze("Straße Ελλάδα", "").split() == ["strasse.", "ελλαδα."]


def test_words_of_two_languages_with_one_stem_are_two_words():
    assert strip_language_sign(analyze("rede", "pt")) == strip_language_sign(analyze("red", "en")) == "red"
    assert analyze("red", "en") not in {term for reading in readings("rede") for term in reading}


def test_accents_written_apart_do_not_cut_words():
    assert words("educac\u0327a\u0303o") == ["educação"]


def test_a_query_word_is_read_in_every_language_once():
    assert readings("funções") == (("funca",), ("funco'",), ("funcoes.",))
    assert readings("luz") == (("luz",), ("luz'",), ("luz.",))
    assert readings("guarda-chuva")[0] == ("guard", "chuv")
    assert readings("!?") == ((),)


@pytest.mark.parametrize("left", ["funções", "C++", "1½", "Straße", "guarda-chuva", "—", "x"])
@pytest.mark.parametrize("right", ["luz", "(mar)", "İstanbul", "de", "!?"])
def test_two_words_are_read_side_by_side_as_one_text_is(left, right):
    assert readings_in_a_row(left, right) == list(readings(f"{left} {right}"))


def test_what_stands_between_spaces_may_hold_several_words_or_none():
    assert analyze("«guarda-chuva», a_b — c", "pt").split() == ["guard", "chuv", "a", "b", "c"]


@pytest.mark.parametrize(
    ("text", "terms"),
    [
        ("C++, C#; F#.", ["c++", "c#", "f#"]),
        ("(C++) libstdc++-doc Notepad++", ["c++", "libstdc++", "doc", "notepad++"]),
        ("a+b x++y c+++ mar#sul ab# C## C#x", ["a", "b", "x", "y", "c", "mar", "sul", "ab", "c", "c", "x"]),
    ],
)
def test_signs_of_a_programming_language_belong_to_its_name(text, terms):
    assert analyze(text, "pt").split() == terms


@pytest.mark.parametrize(
    ("text", "terms"),
    [
        ("安装软件包。", ["安装", "装软", "软件", "件包"]),
        ("設定ファイル、茶", ["設定", "定フ", "ファ", "ァイ", "イル", "茶"]),
        ("Linux入門とC++言語", ["linux", "入門", "門と", "c++", "言語"]),
        ("はば、か\u3099く", ["はば", "がく"]),
        ("𠮷野家 ヶ月", ["𠮷野", "野家", "ヶ月"]),
    ],
)
def test_scripts_without_spaces_have_each_two_letters_as_a_word(text, terms):
    assert strip_language_sign(analyze(text, "ja").replace(". ", " ")).split() == terms


def test_a_text_without_spaces_is_analysed_and_not_remembered():
    text = "palavra." * 20_000
    assert analyze(text, "").split() == ["palavra."] * 20_000


def test_the_region_of_a_language_does_not_matter():
    assert [primary_language(tag) for tag in ("pt", "pt-BR", "PT_br", "")] == ["pt", "pt", "pt", ""]


@given(st.text())
def test_any_text_gives_terms_that_hold_no_space_and_folding_is_idempotent(text):
    for language in ("pt", "en", ""):
        for term in analyze(text, language).split():
            assert strip_language_sign(term).rstrip("+#").isalnum()
            assert len(strip_language_sign(term)) <= 64
    for word in words(text):
        assert fold(fold(word)) == fold(word)


@given(st.text(min_size=1))
def test_a_page_is_found_by_its_own_words_in_any_language(text):
    for language in ("pt", "en", "de"):
        found = tuple(analyze(text, language).split())
        assert found in readings(text)


@given(st.text(), st.text(st.characters(max_codepoint=0xFF), max_size=5), st.integers(0, 100))
def test_letters_are_composed_in_every_text(text, latin, times):
    for one in (text, latin * times, latin * times + text):
        assert compose(one) == unicodedata.normalize("NFC", one)


def test_words_that_only_a_template_has_are_marked_in_the_vocabulary():
    own = vocabulary_entries("Rede e Função")
    marked = template_entries(vocabulary_entries("rede FUNCAO mar ação"), own)
    assert set(marked.split()) == {"funcao~", "mar~", "acao~ação"}
    assert {entry_parts(entry) for entry in marked.split()} == {("funcao", "funcao"), ("mar", "mar"), ("acao", "ação")}
    assert entry_parts("acao|ação") == ("acao", "ação")
    assert all_entries("acao", "ação") == ["acao|ação", "acao~ação"]
    assert all_entries("mar", "mar") == ["mar", "mar~"]
