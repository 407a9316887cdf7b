"""`?page tarrafa:matches "words"` stands for the pages that a search finds, wherever it stands in a query."""

import json
from typing import Any

import pytest
from pyoxigraph import NamedNode, Quad

from tarrafa.errors import QueryError
from tarrafa.index.shards import shard_number
from tarrafa.runtime.data_dir import DataDirectory
from tarrafa.triples.sparql_matches import HOW_TO_WRITE, MatchingPages, match_patterns, matches_query, with_pages
from tarrafa.triples.sparql_pool import SparqlPool, ask_sparql
from tarrafa.triples.sparql_process import SnapshotCache, SparqlRequest, answer_query
from tests.triples.sample_store import filled, new_data, page_of, small_web

PAGES = [page_of(number) for number in (0, 1, 3, 4, 7)]  # 0 and 3: persons; 1, 4 and 7: events with a performer
ELSEWHERE = "http://other.br.test/only-text"


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> DataDirectory:
    data = new_data(tmp_path_factory.mktemp("matches") / "data")
    filled(data, small_web(30))
    return data


@pytest.fixture(scope="module")
def divided(tmp_path_factory: pytest.TempPathFactory) -> DataDirectory:
    data = new_data(tmp_path_factory.mktemp("divided") / "data", parts=3)
    for number in range(1, 4):
        quads = (quad for quad in small_web(30) if shard_number(_page(quad), 3) == number)
        filled(DataDirectory(data.root, f"{number}-of-3"), quads)
    return data


def _page(quad: Quad) -> str:
    named = quad.graph_name if isinstance(quad.graph_name, NamedNode) else quad.subject
    assert isinstance(named, NamedNode)
    return named.value


def found(data: DataDirectory, query: str, urls: list[str] | None = None, **more: Any) -> list[dict[str, str]]:
    matches = {one.text: PAGES if urls is None else urls for one in match_patterns(query)}
    answer = answer_query(SparqlRequest(query, matches=matches, **more), SnapshotCache(data))
    assert answer.trouble is None, answer.sentence
    rows = json.loads(answer.body)["results"]["bindings"]
    return [{name: term["value"] for name, term in row.items()} for row in rows]


@pytest.mark.parametrize(
    "query",
    [
        'SELECT ?page { ?page tarrafa:matches "rede" }',
        "SELECT ?page { ?page tarrafa:matches 'rede' . }",
        "SELECT ?page WHERE{?page tarrafa:matches '''rede'''}",
        'SELECT ?page { ?page <urn:tarrafa:matches> "rede" }',
        'PREFIX t: <urn:tarrafa:> SELECT ?page { ?page t:matches "r\\u0065de" }',
        'SELECT ?page { ?page tarrafa:matches "rede" ; tarrafa:fetched ?when . }',
        'SELECT ?page { ?page tarrafa:fetched ?when . ?page tarrafa:matches "rede" ; . }',
        'SELECT ?page { FILTER(1 < 2) ?page tarrafa:matches "rede" # a comment\n FILTER(ISIRI(?page)) }',
        'SELECT ?page { { ?page tarrafa:matches "rede" } ?page tarrafa:collection "demo" }',
        'SELECT DISTINCT ?page { GRAPH ?page { ?page tarrafa:matches "rede" . ?s a ?class } }',
        'SELECT DISTINCT $page { GRAPH ?page { ?s a ?class } $page tarrafa:matches "rede" }',
    ],
)
def test_the_pattern_binds_the_pages_that_match(data, divided, query):
    assert [one.text for one in match_patterns(query)] == ["rede"]
    for store in data, divided:
        assert sorted(row["page"] for row in found(store, query)) == sorted(PAGES)
        assert found(store, query, []) == []


def test_full_text_and_statements_are_joined(data, divided):
    query = 'SELECT ?name { ?page tarrafa:matches "rede" GRAPH ?page { ?s a schema:Event ; schema:name ?name } }'
    count = """SELECT (COUNT(*) AS ?n) (COUNT(DISTINCT ?page) AS ?pages)
        { ?page tarrafa:matches "rede" GRAPH ?page { ?s ?p ?o } }"""
    for store in data, divided:
        assert sorted(row["name"] for row in found(store, query)) == ["Festa 1", "Festa 4", "Festa 7"]
        assert found(store, count) == [{"n": "30", "pages": "5"}]


def test_a_page_without_statements_is_found_once_in_several_parts(data, divided):
    query = 'SELECT ?page { ?page tarrafa:matches "rede" }'
    for store in data, divided:
        assert [row["page"] for row in found(store, query, [ELSEWHERE])] == [ELSEWHERE]
    chosen = [found(divided, query, [ELSEWHERE], part=f"{number}-of-3") for number in (1, 2, 3)]
    assert sorted(map(len, chosen)) == [0, 0, 1]


@pytest.mark.parametrize(
    "query",
    [
        "SELECT ?page { ?page tarrafa:matches ?text }",
        'SELECT ?page { <http://a.br/> tarrafa:matches "rede" }',
        'SELECT ?page { ?page tarrafa:matches "rede", "mar" }',
        'SELECT ?page { ?page tarrafa:matches "rede"@pt }',
        'SELECT ?page { ?page tarrafa:fetched ?when ; tarrafa:matches "rede" }',
        'SELECT ?page { ?page a/tarrafa:matches "rede" }',
        'SELECT ?page { [] tarrafa:matches "rede" }',
        "SELECT ?page { ?page ?p tarrafa:matches }",
        "tarrafa:matches",
    ],
)
def test_another_form_is_refused_with_the_right_one(query):
    with pytest.raises(QueryError, match="write it as a statement of its own"):
        match_patterns(query)


def test_the_number_of_texts_is_bounded():
    query = "SELECT * { " + " ".join(f'?page tarrafa:matches "{number}" .' for number in range(5)) + " }"
    with pytest.raises(QueryError, match="at most 4 different texts"):
        match_patterns(query)
    assert len(match_patterns(query.replace("4", "3"))) == 5


@pytest.mark.parametrize(
    "query",
    [
        'SELECT * { ?s ?p "?page tarrafa:matches" }',
        "SELECT * { ?s ?p ?o # ?page tarrafa:matches 'x'\n }",
        "PREFIX tarrafa: <http://other/> SELECT * { ?page tarrafa:matches ?o }",
        "SELECT ?matches { ?s schema:matches ?matches }",
    ],
)
def test_what_only_looks_like_it_is_left_alone(query):
    assert match_patterns(query) == []
    assert with_pages(query, {"x": ["http://a.br/"]}) == query


def test_a_page_adds_nothing_but_its_own_address_to_the_query():
    hostile = [
        'http://a.br/> } SERVICE <http://evil.test/> { ?s ?p "',
        "http://a.br/\n}",
        "not an address",
        "http://b.br/é",
    ]
    made = with_pages('SELECT ?page { ?page tarrafa:matches "x" }', {"x": hostile})
    assert made == (
        "SELECT ?page { VALUES ?page { "
        "<http://a.br/%3E%20%7D%20SERVICE%20%3Chttp://evil.test/%3E%20%7B%20?s%20?p%20%22> <http://a.br/%0A%7D> "
        "<http://b.br/é> }  }"
    )


@pytest.mark.parametrize(
    "text", ["rede", 'a "b" c', "\\", '") . ?x SERVICE <http://a/> {} #', "a\\u0022b", "{{x}}", "'''"]
)
def test_the_query_of_a_search_searches_for_its_text_whatever_is_in_it(data, text):
    query = matches_query(text)
    assert [one.text for one in match_patterns(query)] == [text]
    assert {row["class"] for row in found(data, query)} >= {"https://schema.org/Person", "https://schema.org/Event"}
    assert found(data, matches_query(text, 'x"'), PAGES) == [], "of another collection"


def test_an_error_in_such_a_query_has_its_place(data):
    query = 'SELECT ?page { ?page tarrafa:matches "rede" .\n ?page nada:x ?y }'
    answer = answer_query(SparqlRequest(query, matches={"rede": PAGES}), SnapshotCache(data))
    assert answer.sentence == "line 2, column 14: the prefix nada: is not declared (PREFIX name: <IRI>)"


async def test_the_pool_searches_each_text_once_and_says_what_is_missing(data):
    asked = []

    def search(text: str) -> MatchingPages:
        asked.append(text)
        return MatchingPages(PAGES[:2], True, ("far:8080",))

    query = 'SELECT ?page { { ?page tarrafa:matches "a" } UNION { ?page tarrafa:matches "a" } }'
    with SparqlPool(data) as pool:
        answer = await pool.ask(SparqlRequest(query), "", search)
        assert (asked, answer.count, answer.matches_max, answer.missing) == (["a"], 4, 2, ("far:8080",))
        plain = await pool.ask(SparqlRequest("SELECT ?s { ?s a schema:Person }"), "", search)
        assert (asked, plain.matches_max, plain.missing) == (["a"], 0, ())


def test_a_search_that_is_no_query_is_an_error_of_the_query(data):
    def search(text: str) -> MatchingPages:
        raise QueryError("no such operator")

    with pytest.raises(QueryError, match="no such operator"):
        ask_sparql(data, SparqlRequest('SELECT ?p { ?p tarrafa:matches "x" }'), None, search)
    with pytest.raises(QueryError, match=HOW_TO_WRITE[:30]):
        ask_sparql(data, SparqlRequest("SELECT ?p { ?p tarrafa:matches ?x }"), None, search)
