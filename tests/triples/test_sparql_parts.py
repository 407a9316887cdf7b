"""The aggregates of the W3C's SPARQL 1.1 test suite, asked of one store and of the same statements in three parts."""

from functools import partial
from pathlib import Path
from typing import NamedTuple

import pytest
from pyoxigraph import QuerySolutions, RdfFormat, Store

from tarrafa.errors import QueryError
from tarrafa.triples.sparql_check import check_query
from tarrafa.triples.sparql_parts import QueryResults, needs_all_parts, query_together
from tests.conformance_data import CONFORMANCE_DIR, requires_data

MANIFEST = "sparql11/aggregates/manifest.ttl"
CASES = """
    PREFIX mf: <http://www.w3.org/2001/sw/DataAccess/tests/test-manifest#>
    PREFIX qt: <http://www.w3.org/2001/sw/DataAccess/tests/test-query#>
    SELECT ?query ?data { ?case mf:action [ qt:query ?query ; qt:data ?data ] } ORDER BY ?query"""


class AggregateCase(NamedTuple):
    query: Path
    data: Path


def aggregate_cases() -> list[AggregateCase]:
    path = CONFORMANCE_DIR / MANIFEST
    if not path.exists():
        return []
    manifest = Store()
    manifest.load(path=str(path), format=RdfFormat.TURTLE, base_iri=path.as_uri())
    found = manifest.query(CASES)
    assert isinstance(found, QuerySolutions)
    return [AggregateCase(*(path.parent / Path(str(term.value)).name for term in row)) for row in found]


def ask(store: Store, query: str) -> QueryResults:
    return store.query(query)


def rows(found: QueryResults) -> list[list[str]]:
    assert isinstance(found, QuerySolutions)
    return sorted([str(term) for term in solution] for solution in found)


@requires_data(MANIFEST)
def test_sparql11_aggregates_of_the_w3c_are_the_same_in_parts_or_refused():
    same, refused = 0, []
    for case in aggregate_cases():
        query, whole, parts = case.query.read_text(), Store(), [Store(), Store(), Store()]
        whole.load(path=str(case.data), format=RdfFormat.TURTLE, base_iri=case.data.as_uri())
        for quad in whole:
            parts[len(str(quad.subject)) % 3].add(quad)
        try:
            needs_all_parts(check_query(query), 3)
        except QueryError:
            refused.append(case.query.stem)
            continue
        try:
            expected = rows(whole.query(query))
        except SyntaxError:  # the suite wants an error, too
            with pytest.raises(SyntaxError):
                query_together(query, [partial(ask, part) for part in parts])
            continue
        assert rows(query_together(query, [partial(ask, part) for part in parts])) == expected, case.query.name
        same += 1
    assert same >= 25
    assert len(refused) <= 6, "queries inside others"
