"""The full-text predicate of SPARQL, `tarrafa:matches`: binds a variable to the pages that a search finds.

The pattern is no part of SPARQL, and no store has such statements. It is found in the text of the query, its text is
searched (`FindPages`, given by the caller: this room knows nothing of search), and the pattern is replaced by a VALUES
clause with the pages found.
Promises: the rest of the query is left as it is. Only IRIs and a variable of the query stand in place of the pattern,
so a page cannot add anything to the query. A pattern in another form is an error that names the right form, and is
never ignored. The number of texts is bounded.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from pyoxigraph import Literal, RdfFormat, parse

from tarrafa.errors import QueryError
from tarrafa.parse.rdf.nquads import iri, literal
from tarrafa.parse.rdf.prefixes import PREFIXES
from tarrafa.triples.sparql_check import QUERY_CHARS_MAX, SparqlToken, tokens

TEXTS_MAX = 4  # in one query
PREDICATE = f"{PREFIXES['tarrafa']}matches"
HOW_TO_WRITE = (
    "tarrafa:matches: write it as a statement of its own, with a variable and a text, as in "
    '?page tarrafa:matches "words" .'
)


class MatchingPages(NamedTuple):
    """The pages that match a text, the best first; whether there are more, and the shards that did not answer."""

    urls: Sequence[str]
    is_cut: bool = False
    missing: tuple[str, ...] = ()


class MatchPattern(NamedTuple):
    """A pattern in a query: what is replaced by the VALUES clause, and by what it goes on."""

    start: int
    end: int
    variable: str
    text: str
    subject_again: bool  # `; more` followed


FindPages = Callable[[str], MatchingPages]


def match_patterns(query: str) -> list[MatchPattern]:
    """The patterns of a query, in their order. Raises QueryError for one that cannot be answered."""
    if "matches" not in query or len(query) > QUERY_CHARS_MAX:  # a longer query is refused anyway
        return []
    seen = [one for one in tokens(query) if query[one.start] not in " \t\r\n#"]
    prefixes = {**PREFIXES, **_declared(query, seen)}
    names = [place for place, one in enumerate(seen) if _iri_of(query[one.start : one.end], prefixes) == PREDICATE]
    found = [_pattern(query, seen, place) for place in names]
    if len({one.text for one in found}) > TEXTS_MAX:
        raise QueryError(f"tarrafa:matches: a query may search for at most {TEXTS_MAX} different texts")
    return found


def with_pages(query: str, pages: dict[str, list[str]]) -> str:
    """The query with the pages of each text in place of its patterns."""
    for one in reversed(match_patterns(query) if pages else []):
        terms = " ".join(filter(None, map(iri, pages.get(one.text, ()))))
        values = f"VALUES {one.variable} {{ {terms} }}{f' {one.variable}' if one.subject_again else ''}"
        query = f"{query[: one.start]}{values} {query[one.end :]}"
    return query


def matches_query(text: str, collection: str = "") -> str:
    """A query for the entities on the pages that match a text. OPTIONAL stands outside GRAPH: within it, Oxigraph joins
    the names of the whole store before it looks at the pages (3.6 s of 600,000 statements, 0.1 s so)."""
    where = f"\n  ?page tarrafa:collection {literal(collection)} ." if collection else ""
    return f"""PREFIX schema: <{PREFIXES["schema"]}>
PREFIX tarrafa: <{PREFIXES["tarrafa"]}>

SELECT ?page ?class ?name WHERE {{
  ?page tarrafa:matches {literal(text)} .{where}
  GRAPH ?page {{ ?entity a ?class }}
  OPTIONAL {{ GRAPH ?page {{ ?entity schema:name ?name }} }}
}}
LIMIT 100"""


def _declared(query: str, seen: list[SparqlToken]) -> dict[str, str]:
    """The prefixes that the query declares."""
    found = {}
    for place, one in enumerate(seen[:-2]):
        if one.word == "PREFIX":
            name, address = (query[two.start : two.end] for two in seen[place + 1 : place + 3])
            if name.endswith(":") and address.startswith("<"):
                found[name[:-1]] = address[1:-1]
    return found


def _iri_of(token: str, prefixes: dict[str, str]) -> str:
    if token.startswith("<"):
        return token[1:-1]
    prefix, colon, local = token.partition(":")
    return f"{prefixes[prefix]}{local}" if colon and prefix in prefixes else ""


def _pattern(query: str, seen: list[SparqlToken], place: int) -> MatchPattern:
    """The pattern around its predicate."""
    around = seen[max(0, place - 2) : place + 4]
    if place < 2 or len(around) < 5:
        raise QueryError(HOW_TO_WRITE)
    before, subject, _, value, after = around[:5]
    then = around[5].word if len(around) > 5 else ""
    variable, quoted = query[subject.start : subject.end], query[value.start : value.end]
    is_alone = before.word in ("{", "}", ".", ")") and after.word not in (",", "@", "^")
    if not is_alone or variable[0] not in "?$" or len(variable) < 2 or quoted[0] not in "'\"":
        raise QueryError(HOW_TO_WRITE)
    goes_on = after.word == ";"
    end = after.end if goes_on else value.end
    return MatchPattern(subject.start, end, variable, _text(quoted), goes_on and then not in (".", "}"))


def _text(quoted: str) -> str:
    """The value of a string; Turtle writes strings as SPARQL does."""
    try:
        [quad] = parse(f"<a:> <a:> {quoted} .", RdfFormat.TURTLE)
    except (SyntaxError, ValueError):
        raise QueryError(HOW_TO_WRITE) from None
    assert isinstance(quad.object, Literal)
    return quad.object.value
