"""Example SPARQL queries shown beside the editor.

Queries that people can begin with, beside the editor and in the documentation: each works on what the demo crawls.
Knows nothing of who answers them.
"""

from typing import NamedTuple

from tarrafa.i18n import Translator, message

SCHEMA = "PREFIX schema: <https://schema.org/>\n"
TARRAFA = "PREFIX tarrafa: <urn:tarrafa:>\n"
XSD = "PREFIX xsd: <http://www.w3.org/2001/XMLSchema#>\n"

EXAMPLE_QUERIES = {
    "people": f"""{SCHEMA}
SELECT ?name ?job ?employer ?page WHERE {{
  GRAPH ?page {{
    ?person a schema:Person ; schema:name ?name .
    OPTIONAL {{ ?person schema:jobTitle ?job }}
    OPTIONAL {{ ?person schema:worksFor/schema:name ?employer }}
  }}
}}
LIMIT 100""",
    "events": f"""{SCHEMA}
SELECT ?start ?event ?performer ?page WHERE {{
  GRAPH ?page {{
    ?it a schema:Event ; schema:name ?event ; schema:startDate ?start .
    OPTIONAL {{ ?it schema:performer/schema:name ?performer }}
  }}
  FILTER (STR(?start) >= "2026-12-01")
}}
ORDER BY STR(?start)
LIMIT 100""",
    "products": f"""{SCHEMA}{XSD}
SELECT ?price ?currency ?product ?page WHERE {{
  GRAPH ?page {{
    ?it a schema:Product ; schema:name ?product ; schema:offers ?offer .
    ?offer schema:price ?asked .
    OPTIONAL {{ ?offer schema:priceCurrency ?currency }}
  }}
  BIND (xsd:decimal(STR(?asked)) AS ?price)
}}
ORDER BY ?price
LIMIT 100""",
    "page": f"""{TARRAFA}
SELECT ?page ?subject ?property ?value WHERE {{
  {{ SELECT ?page WHERE {{ ?page tarrafa:fetched ?when }} ORDER BY DESC(?when) LIMIT 1 }}
  GRAPH ?page {{ ?subject ?property ?value }}
}}""",
    "classes": """SELECT ?class (COUNT(*) AS ?things) (COUNT(DISTINCT ?page) AS ?pages) WHERE {
  GRAPH ?page { ?thing a ?class }
}
GROUP BY ?class
ORDER BY DESC(?things)""",
    "collection": f"""{TARRAFA}
SELECT ?collection ?page ?fetched WHERE {{
  ?page tarrafa:collection ?collection ; tarrafa:fetched ?fetched .
}}
ORDER BY ?collection DESC(?fetched)
LIMIT 100""",
    "graph": f"""{SCHEMA}
CONSTRUCT {{ ?person schema:name ?name ; schema:worksFor ?employer }} WHERE {{
  ?person a schema:Person ; schema:name ?name ; schema:worksFor/schema:name ?employer .
}}""",
}


TITLES = {
    "people": message("People and where they work"),
    "events": message("Events from a date on"),
    "products": message("Products by price"),
    "page": message("All that the newest page says"),
    "classes": message("Kinds of things, and how many"),
    "collection": message("Pages of each collection"),
    "graph": message("Who works where, as a graph"),
}


class SparqlExample(NamedTuple):
    """A query and what it is for."""

    title: str
    query: str


def sparql_examples(_: Translator) -> list[SparqlExample]:
    return [SparqlExample(_.render(TITLES[name]), query) for name, query in EXAMPLE_QUERIES.items()]
