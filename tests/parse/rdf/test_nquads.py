"""Statements are written so that any tool reads them, whatever the page says."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyoxigraph import RdfFormat
from pyoxigraph import parse as parse_rdf

from tarrafa.parse.rdf import nquads
from tarrafa.parse.rdf.nquads import LiteralValue, StatementSet, iri, literal, literal_value, parse_nquads

ANYTHING = st.text(st.characters(exclude_categories=()), max_size=40)


@given(st.lists(st.tuples(ANYTHING, ANYTHING, ANYTHING, ANYTHING, ANYTHING)))
def test_whatever_is_said_any_tool_reads_it_and_we_read_it_again(rows):
    said = StatementSet()
    for subject, predicate, text, language, datatype in rows:
        term = literal(text, language, datatype)
        about, name = iri(f"http://a.br/{subject}"), iri(f"urn:x:{predicate}")
        if term and about and name:
            said.add(about, name, term)
    told = said.to_nquads()
    assert len(list(parse_rdf(told, RdfFormat.N_QUADS))) == len(list(parse_nquads(told))) == len(said)


@given(st.text(st.characters(exclude_categories=("Cs", "Cc", "Cn")), max_size=60))
def test_a_text_is_read_as_it_was_said(text):
    assert literal_value(literal(text) or "") == LiteralValue(text)


IRIS = {
    "http://a.br/x": "<http://a.br/x>",
    "http://a.br/a b": "<http://a.br/a%20b>",
    'http://a.br/> <urn:y> "z" .\n<urn:x': "<http://a.br/%3E%20%3Curn:y%3E%20%22z%22%20.%0A%3Curn:x>",
    "http://a.br/50%": "<http://a.br/50%25>",
    "mailto:a@b.br": "<mailto:a@b.br>",
    "relative/path": None,
    "": None,
    "http://[": None,
    "x" * 3000: None,
}


@pytest.mark.parametrize("text", IRIS)
def test_an_iri_is_escaped_or_refused(text):
    assert iri(text) == IRIS[text]


LITERALS = {
    ("a", "", ""): '"a"',
    ("a", "pt-BR", ""): '"a"@pt-br',
    ("a", "not a language", ""): '"a"',
    ("a", "", "http://www.w3.org/2001/XMLSchema#string"): '"a"',
    ("1", "", "http://www.w3.org/2001/XMLSchema#integer"): '"1"^^<http://www.w3.org/2001/XMLSchema#integer>',
    ("a", "", "http://www.w3.org/1999/02/22-rdf-syntax-ns#langString"): '"a"',
    ("a", "", "http://www.w3.org/1999/02/22-rdf-syntax-ns#dirLangString"): '"a"',
    ('q"\\\n\r', "", ""): '"q\\"\\\\\\n\\r"',
    ("\x00\ud800", "", ""): '"��"',
}


@pytest.mark.parametrize(("said", "written"), LITERALS.items())
def test_a_literal_says_what_was_said(said, written):
    assert literal(*said) == written


def test_a_long_text_is_cut_and_a_long_value_is_dropped(monkeypatch):
    monkeypatch.setattr(nquads, "LITERAL_LENGTH_MAX", 3)
    assert literal("abcdef") == '"abc"'
    assert literal("123456", datatype=f"{nquads.XSD}integer") is None


def test_a_page_states_so_much_and_no_more(monkeypatch):
    monkeypatch.setattr(nquads, "STATEMENTS_MAX", 3)
    said = StatementSet()
    for number in range(10):
        said.add(said.blank_node(), "<urn:p>", f'"{number}"')
        said.add("_:b0", "<urn:p>", '"0"')
    assert said.is_full
    assert said.is_cut
    assert len(said) == len(list(parse_nquads(said.to_nquads()))) == 3


def test_a_page_with_as_many_statements_as_are_kept_is_not_cut(monkeypatch):
    monkeypatch.setattr(nquads, "STATEMENTS_MAX", 3)
    said = StatementSet()
    for number in (0, 1, 2, 0):
        said.add("_:b0", "<urn:p>", f'"{number}"')
    assert said.is_full
    assert not said.is_cut


def test_a_key_has_one_blank_node():
    said = StatementSet()
    assert (
        said.blank_node("a") == said.blank_node("a") != said.blank_node("b") != said.blank_node() != said.blank_node()
    )


def test_what_is_no_statement_is_passed_over():
    assert list(parse_nquads("rubbish\n<urn:a> <urn:b> .\n\n")) == []
