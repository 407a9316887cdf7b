"""What a query's text holds: no SERVICE gets through in any disguise, and texts that only mention the word do."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyoxigraph import Literal, NamedNode, Quad, Store

from tarrafa.errors import QueryError
from tarrafa.parse.rdf.prefixes import PREFIXES
from tarrafa.triples.sparql_check import (
    NESTING_MAX,
    NO_SERVICE,
    QUERY_CHARS_MAX,
    _safe_prefix,
    check_query,
    mentions_service,
)

OUTSIDE = "<http://127.0.0.1:1/>{}"  # Oxigraph refuses the port, with an OSError, before anything is sent
LONG = '"""'

DISGUISES = [
    f"SELECT * {{ SERVICE {OUTSIDE} }}",
    f"SELECT * {{ sErViCe SILENT {OUTSIDE} }}",
    f"SELECT*{{?s ?p 1SERVICE{OUTSIDE}}}",
    f"SELECT*{{?s ?p trueSERVICE{OUTSIDE}}}",
    f"SELECT*{{?s ?p 1e5SERVICE{OUTSIDE}}}",
    f"SELECT*{{?s ?p 'x'SERVICE{OUTSIDE}}}",
    f"SELECT*{{?s ?p ?o.SERVICE{OUTSIDE}}}",
    f"SELECT*{{?s ?p ?o;SERVICE{OUTSIDE}}}",
    f"SELECT*{{{{}}SERVICE{OUTSIDE}}}",
    f"SELECT*{{#\rSERVICE{OUTSIDE}}}",
    f"SELECT*{{VALUES ?v {{'a\\'b'}} SERVICE{OUTSIDE}}}",
    f"SELECT*{{VALUES ?v {{'''a'''}} SERVICE{OUTSIDE} #'''\n}}",
    f"SELECT*{{FILTER(1<2)SERVICE#>\n{OUTSIDE}}}",
    "SELECT*{FILTER(1<2)SERVICE?x#>\n{}}",
    f"SELECT*{{FILTER(1<2)#> {LONG}\nSERVICE{OUTSIDE}#{LONG}\n}}",
    f"SELECT*{{FILTER(1<2)#'>'\nSERVICE{OUTSIDE}#'\n}}",
    "PREFIX : <http://127.0.0.1:1/> SELECT * { SERVICE:x {} }",
    "PREFIX : <http://127.0.0.1:1/> SELECT * { ?s ?p trueSERVICE:x {} }",
    f"PREFIX ex: <http://a:8> SELECT*{{?s ?p ex:SERVICE{OUTSIDE}}}",
    f"PREFIX ex:#\n<http://a:8> SELECT*{{?s ?p ex:SERVICE{OUTSIDE}}}",
    f"PREFIX ex: <http://a:8> SELECT*{{?s ex:20SERVICE{OUTSIDE}}}",
    "PREFIX ex: <http://>PREFIX : <http://127.0.0.1:1/> SELECT*{?s ?p ex:SERVICE:x{}}",
    "PREFIX ex: <http:\\u002f/>PREFIX : <http://127.0.0.1:1/> SELECT*{?s ?p ex:SERVICE:x{}}",
    f"PREFIX ex: <http://[::1]> SELECT*{{?s ?p ex:SERVICE{OUTSIDE}}}",
    f'SELECT*{{VALUES ?v {{{LONG}a"}}SERVICE{OUTSIDE}}}',
    f'SELECT*{{VALUES ?v {{{LONG}a"}}SERVICE{OUTSIDE}#\\q{LONG}\n}}',
    f"SELECT*{{ser\\u0076ice{OUTSIDE}}}",
    f"SELECT*{{\\U00000053ERVICE{OUTSIDE}}}",
    f"SELECT*{{VALUES ?v {{'\\u0027}}SERVICE{OUTSIDE}#'}}",
]

INNOCENT = [
    "SELECT * { ?s ?p 'SERVICE' }",
    'SELECT * { ?s ?p "a \\" SERVICE" }',
    f'SELECT * {{ ?s ?p {LONG}a SERVICE\n"b" SERVICE{LONG} }}',
    "SELECT * { ?s ?p '''it's a SERVICE''' }",
    "SELECT * { ?s ?p <http://SERVICE/> }",
    "SELECT * { ?s ?p <http://x/service#Thing> }",
    "SELECT * { ?s ?p <urn:service:x> }",
    "SELECT * { ?s ?p ?o } # SERVICE",
    "SELECT ?service $SERVICE { ?s ?p ?service, $SERVICE }",
    "PREFIX : <http://x/> SELECT * { ?s a :SERVICE }",
    "PREFIX schema: <https://schema.org/> SELECT * { ?s a schema:Service ; schema:serviceType ?x }",
    "PREFIX t: <urn:tarrafa:> SELECT * { ?s t:service ?x }",
    "SELECT * { ?s ?p _:service }",
    "SELECT * { ?s ?p ?o FILTER(?o < 5 && ?o > 1) } # service",
    "SELECT * { FILTER(?a<?b&&?c>?d) ?s ?p 'service' }",
]


@pytest.mark.parametrize("query", DISGUISES)
def test_no_disguise_of_service_gets_through(query: str) -> None:
    with pytest.raises(QueryError) as refused:
        check_query(query)
    assert str(refused.value) == NO_SERVICE


@pytest.mark.parametrize("query", INNOCENT)
def test_who_only_mentions_the_word_is_answered(query: str) -> None:
    check_query(query)
    Store().query(query, prefixes={"ex": "http://x/"})  # it is a query


PIECES = [
    f"SERVICE{OUTSIDE}", "SERVICE", "service", " ", "\n", "\r", "#", ">", "<", "'", '"', "'''", LONG, "\\", "\\'",
    "\\u0027", "\\q", "FILTER(1<2)", "FILTER(1<", "{", "}", "(", ")", ":", "ex:", "ex:a", "a", "_:b", "?x", "?s ?p ?o",
    ".", ";", ",", "true", "1", "1.", "-", "/", "^^", "@en", "VALUES ?v {", "OPTIONAL", "&&", "=", "<http://x/#>",
    "<urn:x#y>", "<urn:x'y>", "<#>", "ex:SERVICE", "ex:20SERVICE", "SERVICE:x", "SERVICE#>", "<<", ">>",
]  # fmt: skip
HEADS = [
    "",
    "PREFIX : <http://127.0.0.1:1/>",
    "PREFIX ex: <http://a:8>",
    "PREFIX ex: <http://x/>",
    "PREFIX ex: <http://>",
]


def a_store() -> Store:
    store = Store()
    store.add(Quad(NamedNode("http://x/s"), NamedNode("http://x/p"), Literal("x")))
    return store


@settings(max_examples=150, deadline=None)
@given(
    st.sampled_from(DISGUISES),
    st.lists(st.tuples(st.integers(0, 120), st.integers(0, 3), st.sampled_from(PIECES)), max_size=3),
)
def test_what_oxigraph_would_ask_others_for_is_never_given_to_it(query, changes):
    """However a disguise is changed: if Oxigraph goes out for it, it is refused before."""
    for place, count, piece in changes:
        query = query[:place] + piece + query[place + count :]
    try:
        found: Any = a_store().query(query)
        for _ in found:
            pass
    except OSError:
        assert mentions_service(query)
    except (SyntaxError, RuntimeError, ValueError, TypeError):
        pass


@settings(max_examples=60, deadline=None)
@given(st.sampled_from(HEADS), st.lists(st.sampled_from(PIECES), max_size=12), st.text(max_size=20))
def test_any_text_is_given_on_or_refused_and_never_an_error(head, pieces, text):
    try:
        check_query(f"{head}SELECT*{{{''.join(pieces)}{text}}}")
        check_query(text)
    except QueryError as error:
        assert str(error)


def test_nesting_and_length_are_bounded():
    check_query("SELECT * { FILTER" + "(" * (NESTING_MAX - 1) + "1" + ")" * (NESTING_MAX - 1) + "}")
    for query, word in (
        ("SELECT * " + "{" * 100_000, "too long"),
        ("SELECT * " + "{" * 50_000, "nested"),
        (" \n", "empty"),
        ("x" * (QUERY_CHARS_MAX + 1), "too long"),
    ):
        with pytest.raises(QueryError, match=word):
            check_query(query)


def test_the_skeleton_has_the_words_and_not_what_is_said():
    skeleton = check_query(
        "PREFIX from: <http://from/> SELECT ?from { ?s from:from 'FROM <x>'@from, <http://x/FROM> } # FROM\nlimit#\n7"
    )
    assert not skeleton.has("FROM")
    assert skeleton.limit == 7
    assert check_query("ASK FROM <http://x/> {}").has("FROM")
    assert check_query("SELECT * {}").limit is None


def test_no_prefix_that_is_known_without_being_declared_can_hide_the_keyword():
    assert all(map(_safe_prefix, PREFIXES.values()))
