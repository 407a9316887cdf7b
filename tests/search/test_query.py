"""Any string is a search or one sentence."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tarrafa.errors import QueryError
from tarrafa.search.query import Filter, parse

CASES = {
    "rede de pesca": (["rede", "de", "pesca"], [], [], []),
    "+rede -pesca mar": (["mar"], ["rede"], ["pesca"], []),
    '"rede de pesca" mar': (["rede de pesca", "mar"], [], [], []),
    '+"a b" -"c d"': ([], ["a b"], ["c d"], []),
    '"nunca fechada': (["nunca fechada"], [], [], []),
    "“aspas curvas”": (["aspas curvas"], [], [], []),
    'meio"de frase"fim': (["meio", "de frase", "fim"], [], [], []),
    "rede site:UFMG.br": (["rede"], [], [], [Filter("site", "ufmg.br")]),
    "rede -host:www.a.br lang:pt-BR": (["rede"], [], [], [Filter("host", "www.a.br", True), Filter("lang", "pt")]),
    "site:https://www.a.br/x/y": ([], [], [], [Filter("site", "www.a.br")]),
    "site:informação.br": ([], [], [], [Filter("site", "xn--informao-xza3b.br")]),
    'SITE:"a.br"': ([], [], [], [Filter("site", "a.br")]),
    "guarda-chuva c++ a+b": (["guarda-chuva", "c++", "a+b"], [], [], []),
    "http://a.br/x": (["http://a.br/x"], [], [], []),
    "+ - mar + -": (["mar"], [], [], []),
    "--mar rede": (["rede"], [], ["-mar"], []),
}


@pytest.mark.parametrize("text", CASES)
def test_what_a_search_says(text):
    query = parse(text)
    assert (query.some, query.must, query.never, query.filters) == CASES[text]


def test_all_words_makes_plain_words_necessary():
    query = parse('rede "de pesca" -mar', all_words=True)
    assert (query.some, query.must, query.never) == ([], ["rede", "de pesca"], ["mar"])


REFUSED = {
    "": "at least one word",
    "  \t": "at least one word",
    "!!! ???": "at least one word",
    '""': "at least one word",
    "-rede": "leave out",
    "-site:a.br": "leave out",
    "rede site:": "site: needs a host name",
    "rede host: x": "host: needs a host name",
    "site:a..b^": "site: needs a host name",
    "lang:português": "lang: needs a language code",
    "x" * 1001: "too long",
    "x " * 51: "too many parts",
}


@pytest.mark.parametrize("text", REFUSED)
def test_what_cannot_be_asked_is_said_in_one_sentence(text):
    with pytest.raises(QueryError, match=REFUSED[text]) as caught:
        parse(text)
    assert "\n" not in str(caught.value)


@given(st.text(), st.booleans())
def test_any_string_is_a_query_or_a_sentence(text, all_words):
    try:
        query = parse(text, all_words)
    except QueryError as error:
        assert str(error).endswith(".")
    else:
        assert query.sought or query.filters
