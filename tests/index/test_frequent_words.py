"""Frequent words: as many in each language, and pairs of them alone."""

import pytest

from tarrafa.errors import DataError
from tarrafa.index import schema
from tarrafa.index.follower import catch_up
from tarrafa.index.text_analysis import (
    FILLER,
    FREQUENT_TERMS_FORMAT,
    PAIR_BOUND,
    analyze,
    frequent_pairs,
    frequent_terms,
    is_function_word,
)
from tests.graph.archived_web import a_record, new_data, write


@pytest.mark.parametrize(("language", "count"), [("pt", 200), ("en", 200), ("fr", 0), ("", 400)])
def test_a_language_has_its_frequent_terms(language, count):
    terms = frequent_terms(language)
    assert len(terms) == count
    assert FILLER not in terms
    assert not any(PAIR_BOUND in term or " " in term for term in terms)


@pytest.mark.parametrize(
    ("text", "language", "pairs"),
    [
        ("", "pt", []),
        ("de", "pt", []),
        ("De que as redes não são de a", "pt", ["de_que", "que_as", "|", "nao_sao", "sao_de", "de_a"]),
        ("de de de", "pt", ["de_de", "de_de"]),
        ("the nets of the sea and of them", "en", ["of'_the'", "|", "and'_of'", "of'_them'"]),
        ("de la mer et de la terre", "fr", []),
    ],
)
def test_frequent_neighbours_are_pairs_with_a_filler_between_runs(text, language, pairs):
    assert frequent_pairs(analyze(text, language).split()) == pairs


def test_an_index_with_other_frequent_words_is_refused(tmp_path):
    data = new_data(tmp_path / "data")
    write(data, [a_record("http://a.test/")])
    catch_up(data)
    meta = schema.folder(data) / "meta.json"
    meta.write_text(meta.read_text().replace(FREQUENT_TERMS_FORMAT, "0" * 8))
    assert schema.is_other_version(data)
    with pytest.raises(DataError, match="another version of Tarrafa; `tarrafa rebuild index`"):
        schema.open_index(data)
    with pytest.raises(DataError, match="`tarrafa rebuild index`"):
        catch_up(data)


@pytest.mark.parametrize("word", ["de", "das", "DE", "à", "uns", "pelas", "the", "Of"])
def test_function_words_in_any_number_and_case(word):
    assert is_function_word(word)


@pytest.mark.parametrize("word", ["entrar", "parar", "sobra", "governo", "dados", "C++", "de a", "rede", ""])
def test_words_with_a_meaning_of_their_own_are_no_function_words(word):
    assert not is_function_word(word)
