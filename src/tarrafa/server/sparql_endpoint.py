"""SPARQL 1.1 Protocol endpoint (/sparql): content negotiation, query editor, example queries, service description.

    GET  /sparql?query=…                                          SPARQL 1.1 Protocol, section 2.1.1
    POST /sparql   application/x-www-form-urlencoded: query=…     section 2.1.2
    POST /sparql   application/sparql-query: the query itself     section 2.1.3
    GET  /sparql                                                  the editor for a browser, else the service description

Also `default-graph-uri` and `named-graph-uri` (any number), `format` instead of an `Accept`, `limit`, and `part` of a
store in several parts. Promises: nothing can be changed through it; an error is one sentence in plain text, with its
status; the work for a client that disconnects is stopped; an address has its share of the processes that answer.
"""

import asyncio
from collections.abc import Callable, Coroutine, Iterable
from typing import NamedTuple
from urllib.parse import parse_qsl, quote

from pyoxigraph import RdfFormat, parse, serialize
from starlette.datastructures import QueryParams
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from tarrafa.errors import Busy, DataError, QueryError, QueryLimitExceeded, ShardUnavailable, TarrafaError
from tarrafa.i18n import message
from tarrafa.index.shards import parts
from tarrafa.runtime.data_dir import DataDirectory
from tarrafa.server.auth.bearer_token import read_body
from tarrafa.server.page_responses import PageResponses
from tarrafa.server.search.params import COLLECTION_CHARS_MAX
from tarrafa.server.security_headers import CSP_HEADER, EDITOR_CSP
from tarrafa.triples.snapshots import newest_number
from tarrafa.triples.sparql_check import QUERY_CHARS_MAX
from tarrafa.triples.sparql_matches import PREDICATE, FindPages, matches_query
from tarrafa.triples.sparql_pool import NoAcceptableFormat, SparqlPool
from tarrafa.triples.sparql_process import SparqlRequest, SparqlResponse
from tarrafa.triples.sparql_results import GRAPH_FORMATS, SOLUTION_FORMATS, formats_for

BODY_BYTES_MAX = 8 * QUERY_CHARS_MAX  # every character may need several bytes, and each of them an escape
FIELDS_MAX = 2_000
RETRY_AFTER_S = 5
METHODS = ("GET", "HEAD", "POST", "OPTIONS")
FORM, QUERY, UPDATE = "application/x-www-form-urlencoded", "application/sparql-query", "application/sparql-update"
HEADER_CHARS_MAX = 2_000
SEARCH_CHARS_MAX = 4_000
NO_UPDATE = "this endpoint only answers queries: updates are refused"
SOLUTIONS = {  # media type -> form
    "application/sparql-results+json": "json",
    "application/sparql-results+xml": "xml",
    "text/csv": "csv",
    "text/tab-separated-values": "tsv",
    "application/json": "json",
    "application/xml": "xml",
    "text/xml": "xml",
}
GRAPHS = {
    "text/turtle": "ttl",
    "application/n-triples": "nt",
    "application/rdf+xml": "rdf",
    "application/ld+json": "jsonld",
    "application/json": "jsonld",
    "application/xml": "rdf",
    "text/xml": "rdf",
}
HTML = "text/html"
FORMATS = tuple(dict.fromkeys((*SOLUTIONS.values(), *GRAPHS.values())))
# Other names that clients use (SPARQLWrapper sends a `format` beside its `Accept`); media types are names too.
FORMAT_ALIASES = {
    "turtle": "ttl", "n3": "ttl", "n-triples": "nt", "ntriples": "nt", "rdf+xml": "rdf", "json-ld": "jsonld",
} | GRAPHS | SOLUTIONS  # fmt: skip
ERROR_STATUSES: dict[type[TarrafaError], int] = {
    NoAcceptableFormat: 406,
    QueryError: 400,
    QueryLimitExceeded: 503,
    Busy: 503,
    DataError: 503,
    ShardUnavailable: 503,
}
UTF8_MEDIA_TYPES = ("text/csv", "text/tab-separated-values", "text/turtle")


class SparqlEndpoint:
    """The endpoint and its editor."""

    def __init__(
        self,
        data: DataDirectory,
        responses: PageResponses,
        pool: SparqlPool,
        client_of: Callable[[Request], str],
        find_pages: FindPages,
    ) -> None:
        self._data, self._responses, self._pool, self._client_of = data, responses, pool, client_of
        self._find_pages = find_pages

    def routes(self) -> list[Route]:
        return [Route("/sparql", self.sparql, methods=list(METHODS))]

    async def sparql(self, request: Request) -> Response:
        try:
            return await self._respond(request)
        except HTTPException as error:
            return PlainTextResponse(f"{error.detail}\n", error.status_code, error.headers)
        except TarrafaError as error:
            code = next((code for kind, code in ERROR_STATUSES.items() if isinstance(error, kind)), 0)
            if not code:
                raise
            headers = {"Retry-After": str(RETRY_AFTER_S)} if isinstance(error, Busy) else None
            return PlainTextResponse(f"{error}\n", code, headers)

    async def _respond(self, request: Request) -> Response:
        if request.method == "OPTIONS":
            return Response(status_code=204, headers={"Allow": ", ".join(METHODS), "Accept-Post": f"{FORM}, {QUERY}"})
        given = await _read_params(request)
        if _single(given, "update") is not None:
            raise HTTPException(403, NO_UPDATE)
        text = _single(given, "query")
        if text is None:
            if request.method == "POST":
                raise HTTPException(400, "there is no parameter `query`")
            return await self._editor_or_description(request, given)
        accept = request.headers.get("accept", "")
        question, media_types = _sparql_request(text, accept, given, self._pool.limits.results)
        asked = self._pool.ask(question, self._client_of(request), self._find_pages)
        return _response(await _until_disconnected(request, asked), media_types)

    async def _editor_or_description(self, request: Request, given: QueryParams) -> Response:
        accept, form = request.headers.get("accept", ""), _format_name(given)
        media_type = _media_type_of(form, GRAPHS) if form else negotiate(accept, (*GRAPHS, HTML))
        if media_type == HTML:
            return await asyncio.to_thread(self._editor, request, given)
        if media_type is None:
            raise HTTPException(406, f"the service description is available in {', '.join(GRAPHS)}")
        body = _service_description(self._responses.site_url(request), GRAPHS[media_type])
        return Response(body, media_type=_with_charset(media_type), headers={"Vary": "Accept"})

    def _editor(self, request: Request, given: QueryParams) -> Response:
        """The editor, with the query for a search if its text is given."""
        _ = self._responses.translator(request)
        searched = " ".join((given.get("matches") or "")[:SEARCH_CHARS_MAX].split())
        response = self._responses.html(
            request,
            "sparql.html",
            examples=[
                {"title": _.render(EXAMPLE_TITLES[name]), "query": text} for name, text in EXAMPLE_QUERIES.items()
            ],
            first=matches_query(searched, (given.get("collection") or "")[:COLLECTION_CHARS_MAX])
            if searched
            else next(iter(EXAMPLE_QUERIES.values())),
            has_triples=any(map(newest_number, parts(self._data))),
            several=[one.part for one in parts(self._data) if one.part],
            limits=self._pool.limits,
        )
        response.headers[CSP_HEADER] = EDITOR_CSP
        response.headers["Vary"] = "Accept, Accept-Language, Cookie"
        return response


async def _read_params(request: Request) -> QueryParams:
    fields = _parse_params(request.scope["query_string"])
    if request.method != "POST":
        return QueryParams(fields)
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind == UPDATE:
        raise HTTPException(403, NO_UPDATE)
    if kind not in (FORM, QUERY):
        raise HTTPException(
            415,
            f"a query is sent as {FORM} or as {QUERY}, not as {kind[:60] or 'an unnamed type'}",
            {"Accept-Post": f"{FORM}, {QUERY}"},
        )
    body = await read_body(request, BODY_BYTES_MAX)
    if body is None:
        raise HTTPException(413, f"the request is too long: at most {BODY_BYTES_MAX:,} bytes are read")
    if kind == FORM:
        return QueryParams(fields + _parse_params(body))
    try:
        return QueryParams([*fields, ("query", body.decode())])
    except UnicodeDecodeError as error:
        raise HTTPException(400, f"the query must be UTF-8; byte {error.start} is not") from None


def _single(given: QueryParams, name: str) -> str | None:
    values = given.getlist(name)
    if len(values) > 1:
        raise HTTPException(400, f"there are {len(values)} parameters `{name}`; one is allowed")
    return values[0] if values else None


def _parse_params(text: bytes) -> list[tuple[str, str]]:
    try:
        return parse_qsl(text.decode("ascii"), keep_blank_values=True, errors="strict", max_num_fields=FIELDS_MAX)
    except UnicodeError:
        raise HTTPException(400, "the parameters must be UTF-8, each other byte written as %HH") from None
    except ValueError:
        raise HTTPException(400, f"there are too many parameters: at most {FIELDS_MAX:,} are read") from None


def _sparql_request(text: str, accept: str, given: QueryParams, most: int) -> tuple[SparqlRequest, dict[str, str]]:
    """The request to the pool, and the media type of each form."""
    form, limit = _format_name(given), _single(given, "limit") or ""
    if form:
        of_solutions, of_graph = formats_for(form)
        solutions, graph = _media_type_of(of_solutions, SOLUTIONS), _media_type_of(of_graph, GRAPHS)
        if solutions is None and graph is None:
            raise HTTPException(400, f"format must be one of {', '.join(FORMATS)}, not {form[:40]!r}")
    else:
        solutions, graph = negotiate(accept, SOLUTIONS), negotiate(accept, GRAPHS)
    if solutions is None and graph is None:
        raise HTTPException(406, f"results are available in {', '.join(SOLUTIONS)}; statements in {', '.join(GRAPHS)}")
    if limit and not (limit.isascii() and limit.isdigit() and len(limit) < 10):
        raise HTTPException(400, f"limit must be a whole number, not {limit[:20]!r}")
    default, named = given.getlist("default-graph-uri"), given.getlist("named-graph-uri")
    chosen = bool(default or named)
    question = SparqlRequest(
        text,
        SOLUTIONS[solutions] if solutions else "",
        GRAPHS[graph] if graph else "",
        int(limit) if limit else most,
        default if chosen else None,
        named if chosen else None,
        _single(given, "part") or "",
    )
    return question, {question.solutions_as: solutions or "", question.graph_as: graph or ""}


async def _until_disconnected(request: Request, query: Coroutine[None, None, SparqlResponse]) -> SparqlResponse:
    """The response, as long as the client is connected."""
    working = asyncio.create_task(query)
    leaving = asyncio.create_task(_wait_for_disconnect(request))
    try:
        await asyncio.wait({working, leaving}, return_when=asyncio.FIRST_COMPLETED)
        if not working.done():
            raise HTTPException(499, "the client has disconnected")
        return working.result()
    finally:
        working.cancel()
        leaving.cancel()
        await asyncio.gather(working, leaving, return_exceptions=True)


async def _wait_for_disconnect(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass


def _response(answer: SparqlResponse, media_types: dict[str, str]) -> Response:
    headers = {"Vary": "Accept"}
    if answer.is_cut:
        headers["X-Tarrafa-Limit"] = str(answer.count)
    if answer.matches_max:
        headers["X-Tarrafa-Matches-Limit"] = str(answer.matches_max)
    if answer.missing:
        headers["X-Tarrafa-Without"] = ", ".join(quote(name, safe=":/[]") for name in answer.missing)
    return Response(answer.body, media_type=_with_charset(media_types[answer.form]), headers=headers)


def _with_charset(media_type: str) -> str:
    return f"{media_type}; charset=utf-8" if media_type in UTF8_MEDIA_TYPES else media_type


def _format_name(given: QueryParams) -> str:
    """The form that the parameters name; some clients name it in several ways at once."""
    names = [FORMAT_ALIASES.get(name.lower(), name) for name in given.getlist("format") if name]
    return next((name for name in names if name in FORMATS), names[0] if names else "")


def _media_type_of(form: str, offers: dict[str, str]) -> str | None:
    return next((media_type for media_type, offered in offers.items() if offered == form), None)


def _service_description(base: str, form: str) -> bytes:
    """The SPARQL 1.1 Service Description."""
    iris = [one.iri for one in SOLUTION_FORMATS.values()] + [one.iri for one in GRAPH_FORMATS.values()]
    formats = " , ".join(f"<{iri}>" for iri in iris)
    text = f"""
        @prefix sd: <http://www.w3.org/ns/sparql-service-description#> .
        <{base}/sparql> a sd:Service ; sd:endpoint <{base}/sparql> ; sd:supportedLanguage sd:SPARQL11Query ;
            sd:feature sd:UnionDefaultGraph ; sd:propertyFeature <{PREDICATE}> ; sd:resultFormat {formats} ;
            sd:defaultDataset [ a sd:Dataset ; sd:defaultGraph [ a sd:Graph ] ] ."""
    triples = [quad.triple for quad in parse(text, RdfFormat.TURTLE)]
    prefixes = {"sd": "http://www.w3.org/ns/sparql-service-description#"}
    return serialize(triples, format=GRAPH_FORMATS[form], prefixes=prefixes) or b""


class _MediaRange(NamedTuple):
    kind: str
    subkind: str
    weight: float

    def exactness(self, media_type: str) -> int:
        """0: the range does not cover this type; 3: it names exactly this type."""
        kind, _, subkind = media_type.partition("/")
        if (self.kind, self.subkind) == (kind, subkind):
            return 3
        if (self.kind, self.subkind) == (kind, "*"):
            return 2
        return int((self.kind, self.subkind) == ("*", "*"))


def negotiate(accept: str, offers: Iterable[str]) -> str | None:
    """The media type with the greatest weight in `Accept`; the most exact range counts (RFC 9110, section 12.5.1).

    Among equals the first one, also without an `Accept`; None: nothing fits. No header is an error.
    """
    ranges = _ranges(accept)
    if not ranges:
        return next(iter(offers))
    best, greatest = None, 0.0
    for offer in offers:
        weight = _weight(ranges, offer)
        if weight > greatest:
            best, greatest = offer, weight
    return best


def _weight(ranges: list[_MediaRange], media_type: str) -> float:
    exactness, weight = max((one.exactness(media_type), one.weight) for one in ranges)
    return weight if exactness else 0.0


def _ranges(accept: str) -> list[_MediaRange]:
    found = []
    for part in accept[:HEADER_CHARS_MAX].split(","):
        name, *parameters = part.split(";")
        kind, slash, subkind = name.strip().lower().partition("/")
        if slash and kind and subkind:
            found.append(_MediaRange(kind, subkind, _quality(parameters)))
    return found


def _quality(parameters: list[str]) -> float:
    for parameter in parameters:
        name, _, value = parameter.partition("=")
        if name.strip().lower() == "q":
            try:
                return min(max(float(value), 0.0), 1.0)
            except ValueError:
                return 0.0
    return 1.0


# -- example queries: each works on the demo ---------------------------------------------------------------------------

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
    "matches": matches_query("pescador rede"),
    "graph": f"""{SCHEMA}
CONSTRUCT {{ ?person schema:name ?name ; schema:worksFor ?employer }} WHERE {{
  ?person a schema:Person ; schema:name ?name ; schema:worksFor/schema:name ?employer .
}}""",
}


EXAMPLE_TITLES = {
    "people": message("People and where they work"),
    "events": message("Events from a date on"),
    "products": message("Products by price"),
    "page": message("All statements of the newest page"),
    "classes": message("Kinds of things, and how many"),
    "collection": message("Pages of each collection"),
    "matches": message("Things on the pages that a search finds"),
    "graph": message("Who works where, as a graph"),
}
