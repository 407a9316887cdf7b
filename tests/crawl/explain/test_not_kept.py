"""Why a URL is not kept, by its status and the settings of the collection."""

import pytest

from tarrafa.crawl.explain.graph_lookup import GraphFacts
from tarrafa.crawl.explain.not_kept import not_kept_reason
from tarrafa.crawl.scope.collection_loader import complete_collection
from tarrafa.frontier.messages import UrlFacts
from tarrafa.i18n import PORTUGUESE
from tarrafa.model import Status, SyntaxUse

SCHEMA, OPEN_GRAPH = "https://schema.org/", "http://ogp.me/ns#"
RDFA_ONLY = {"syntaxes": ["rdfa"], "vocabularies": ["schema", "http://a.br/x#"]}


@pytest.mark.parametrize(
    ("scope", "syntaxes", "reason"),
    [
        (
            {},
            (SyntaxUse("rdfa", (OPEN_GRAPH,)),),
            "[scope] keep = structured; syntaxes = rdfa, microdata, jsonld; open_graph = false; the page has rdfa "
            "(og:)",
        ),
        (
            RDFA_ONLY,
            (SyntaxUse("rdfa", (OPEN_GRAPH,)), SyntaxUse("jsonld", (SCHEMA,))),
            "[scope] keep = structured; syntaxes = rdfa; vocabularies = schema:, http://a.br/x#; the page has rdfa "
            "(og:); jsonld (schema:)",
        ),
        (
            {"open_graph": True},
            (),
            "[scope] keep = structured; syntaxes = rdfa, microdata, jsonld; open_graph = true; the page has no "
            "structured data",
        ),
        (
            {"syntaxes": ["jsonld"]},
            None,
            "[scope] keep = structured; syntaxes = jsonld; open_graph = false",
        ),
    ],
)
def test_the_data_of_a_page_and_the_data_that_are_kept_are_named(scope, syntaxes, reason):
    table = {"name": "a", "roots": ["a.br"], "scope": {"keep": "structured", **scope}}
    collection = complete_collection(table, "test")
    known = UrlFacts(
        "a", "http://a.br/x", "dropped", "page", 1, 0, 1, Status.NOT_STRUCTURED, "text/html", 1.0, 2.0, 1, None, None
    )
    said = not_kept_reason(collection, known, GraphFacts(1, syntaxes=syntaxes))
    assert str(said) == reason
    assert PORTUGUESE.render(said).startswith("[scope] keep = structured")
