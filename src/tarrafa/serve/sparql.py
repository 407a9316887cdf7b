"""Which answer does a SPARQL query get over HTTP?

    GET  /sparql?query=…                                          SPARQL 1.1 Protocol, section 2.1.1
    POST /sparql   application/x-www-form-urlencoded: query=…     section 2.1.2
    POST /sparql   application/sparql-query: the query itself     section 2.1.3
    GET  /sparql                                                  for a browser the editor, else what is served here
                                                                  (SPARQL 1.1 Service Description)

Also `default-graph-uri` and `named-graph-uri` (any number), `format` instead of an `Accept`, `limit`, and `part` where
the store is kept in several. Promises: nothing is changed through it; what is wrong is one sentence in plain text, with
a status that says whose fault it is; whoever goes away is not worked for any longer.
"""

import asyncio
from collections.abc import Coroutine
from dataclasses import dataclass
from urllib.parse import parse_qsl

from pyoxigraph import RdfFormat, parse, serialize
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from tarrafa.data import DataDirectory
from tarrafa.errors import Busy, DataError, QueryError, TarrafaError, TooCostly
from tarrafa.index.shards import parts
from tarrafa.serve.examples import examples
from tarrafa.serve.guard import body_of
from tarrafa.serve.negotiating import Offer, choose
from tarrafa.serve.replies import Replies
from tarrafa.serve.shields import EDITOR_POLICY, POLICY_NAME
from tarrafa.triples.answering import Answer, Question
from tarrafa.triples.asking import Asking, Unwanted
from tarrafa.triples.publishing import newest
from tarrafa.triples.wording import QUERY_CHARS_MAX
from tarrafa.triples.writing import GRAPH_FORMATS, SOLUTION_FORMATS, forms

BODY_BYTES_MAX = 8 * QUERY_CHARS_MAX  # every character may need several bytes, and each of them an escape
FIELDS_MAX = 2_000
RETRY_AFTER_S = 5
METHODS = ("GET", "HEAD", "POST", "OPTIONS")
FORM, QUERY, UPDATE = "application/x-www-form-urlencoded", "application/sparql-query", "application/sparql-update"
NO_UPDATE = "this endpoint only answers queries: nothing can be changed through it"

SOLUTIONS = (
    Offer("application/sparql-results+json", "json"),
    Offer("application/sparql-results+xml", "xml"),
    Offer("text/csv", "csv"),
    Offer("text/tab-separated-values", "tsv"),
    Offer("application/json", "json"),
    Offer("application/xml", "xml"),
    Offer("text/xml", "xml"),
)
GRAPHS = (
    Offer("text/turtle", "ttl"),
    Offer("application/n-triples", "nt"),
    Offer("application/rdf+xml", "rdf"),
    Offer("application/ld+json", "jsonld"),
    Offer("application/json", "jsonld"),
    Offer("application/xml", "rdf"),
    Offer("text/xml", "rdf"),
)
FORMATS = tuple(dict.fromkeys(offer.form for offer in (*SOLUTIONS, *GRAPHS)))
# What else clients call them (SPARQLWrapper sends a `format` beside its `Accept`); media types are names too.
ALSO = {"turtle": "ttl", "n3": "ttl", "n-triples": "nt", "ntriples": "nt", "rdf+xml": "rdf", "json-ld": "jsonld"}
ALSO |= {offer.media_type: offer.form for offer in (*GRAPHS, *SOLUTIONS)}
PAGE = Offer("text/html", "html")
CODES: dict[type[TarrafaError], int] = {Unwanted: 406, QueryError: 400, TooCostly: 503, Busy: 503, DataError: 503}
IN_UTF8 = ("text/csv", "text/tab-separated-values", "text/turtle")


class _Wrong(Exception):
    """A request that is not answered: a status and a sentence."""

    def __init__(self, code: int, sentence: str, **headers: str) -> None:
        super().__init__(sentence)
        self.code, self.headers = code, {name.replace("_", "-"): value for name, value in headers.items()}


@dataclass(frozen=True, slots=True)
class _Given:
    """The parameters of a request, from wherever the protocol lets them be."""

    fields: list[tuple[str, str]]

    def all(self, name: str) -> list[str]:
        return [value for key, value in self.fields if key == name]

    def one(self, name: str) -> str | None:
        values = self.all(name)
        if len(values) > 1:
            raise _Wrong(400, f"there are {len(values)} parameters `{name}`; one is answered")
        return values[0] if values else None


class SparqlPages:
    """The endpoint and its editor."""

    def __init__(self, data: DataDirectory, replies: Replies, asking: Asking) -> None:
        self._data, self._replies, self._asking = data, replies, asking

    def routes(self) -> list[Route]:
        return [Route("/sparql", self.sparql, methods=list(METHODS))]

    async def sparql(self, request: Request) -> Response:
        try:
            return await self._answered(request)
        except _Wrong as wrong:
            return PlainTextResponse(f"{wrong}\n", wrong.code, wrong.headers)
        except TarrafaError as error:
            code = next((code for kind, code in CODES.items() if isinstance(error, kind)), 0)
            if not code:
                raise
            again = {"Retry-After": str(RETRY_AFTER_S)} if isinstance(error, Busy) else None
            return PlainTextResponse(f"{error}\n", code, again)

    async def _answered(self, request: Request) -> Response:
        if request.method == "OPTIONS":
            return Response(status_code=204, headers={"Allow": ", ".join(METHODS), "Accept-Post": f"{FORM}, {QUERY}"})
        given = await _given(request)
        if given.one("update") is not None:
            raise _Wrong(403, NO_UPDATE)
        text = given.one("query")
        if text is None:
            if request.method == "POST":
                raise _Wrong(400, "there is no parameter `query`")
            return await self._without_a_query(request, given)
        question, offers = _question(text, request.headers.get("accept", ""), given, self._asking.limits.results)
        return _response(await _while_heard(request, self._asking.ask(question)), offers)

    async def _without_a_query(self, request: Request, given: _Given) -> Response:
        accept, form = request.headers.get("accept", ""), _form(given)
        offer = _named(form, GRAPHS) if form else choose(accept, (*GRAPHS, PAGE))
        if offer is PAGE:
            return await asyncio.to_thread(self._editor, request)
        if offer is None:
            raise _Wrong(406, f"what is served here can be described in {_listed(GRAPHS)}")
        body = _description(self._replies.base(request), offer.form)
        return Response(body, media_type=_full(offer.media_type), headers={"Vary": "Accept"})

    def _editor(self, request: Request) -> Response:
        several = [one.part for one in parts(self._data) if one.part]
        response = self._replies.html(
            request,
            "sparql.html",
            examples=examples(self._replies.texts(request)),
            has_triples=any(map(newest, parts(self._data))),
            several=several,
            limits=self._asking.limits,
        )
        response.headers[POLICY_NAME] = EDITOR_POLICY
        response.headers["Vary"] = "Accept, Accept-Language, Cookie"
        return response


async def _given(request: Request) -> _Given:
    fields = _decoded(request.scope["query_string"])
    if request.method != "POST":
        return _Given(fields)
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind == UPDATE:
        raise _Wrong(403, NO_UPDATE)
    if kind not in (FORM, QUERY):
        raise _Wrong(415, f"a query is sent as {FORM} or as {QUERY}, not as {kind[:60] or 'nothing in particular'}",
                     Accept_Post=f"{FORM}, {QUERY}")  # fmt: skip
    body = await body_of(request, BODY_BYTES_MAX)
    if body is None:
        raise _Wrong(413, f"the request is too long: at most {BODY_BYTES_MAX:,} bytes are read")
    if kind == FORM:
        return _Given(fields + _decoded(body))
    try:
        return _Given([*fields, ("query", body.decode())])
    except UnicodeDecodeError as error:
        raise _Wrong(400, f"the query must be UTF-8; byte {error.start} is not") from None


def _decoded(text: bytes) -> list[tuple[str, str]]:
    try:
        return parse_qsl(text.decode("ascii"), keep_blank_values=True, errors="strict", max_num_fields=FIELDS_MAX)
    except UnicodeError:
        raise _Wrong(400, "the parameters must be UTF-8, each other byte written as %HH") from None
    except ValueError:
        raise _Wrong(400, f"there are too many parameters: at most {FIELDS_MAX:,} are read") from None


def _question(text: str, accept: str, given: _Given, most: int) -> tuple[Question, dict[str, Offer]]:
    """What is asked, and under which media type each form is sent."""
    form, limit = _form(given), given.one("limit") or ""
    if form:
        of_solutions, of_graph = forms(form)
        solutions, graph = _named(of_solutions, SOLUTIONS), _named(of_graph, GRAPHS)
        if solutions is None and graph is None:
            raise _Wrong(400, f"format must be one of {', '.join(FORMATS)}, not {form[:40]!r}")
    else:
        solutions, graph = choose(accept, SOLUTIONS), choose(accept, GRAPHS)
    if solutions is None and graph is None:
        raise _Wrong(406, f"answers can be had in {_listed(SOLUTIONS)}; statements in {_listed(GRAPHS)}")
    if limit and not (limit.isascii() and limit.isdigit() and len(limit) < 10):
        raise _Wrong(400, f"limit must be a whole number, not {limit[:20]!r}")
    default, named = given.all("default-graph-uri"), given.all("named-graph-uri")
    chosen = bool(default or named)
    question = Question(
        text,
        solutions.form if solutions else "",
        graph.form if graph else "",
        int(limit) if limit else most,
        default if chosen else None,
        named if chosen else None,
        given.one("part") or "",
    )
    return question, {offer.form: offer for offer in (solutions, graph) if offer is not None}


async def _while_heard(request: Request, asked: Coroutine[None, None, Answer]) -> Answer:
    """The answer, as long as somebody waits for it."""
    working = asyncio.create_task(asked)
    leaving = asyncio.create_task(_gone(request))
    try:
        await asyncio.wait({working, leaving}, return_when=asyncio.FIRST_COMPLETED)
        if not working.done():
            raise _Wrong(499, "nobody waits for the answer")
        return working.result()
    finally:
        working.cancel()
        leaving.cancel()
        await asyncio.gather(working, leaving, return_exceptions=True)


async def _gone(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass


def _response(answer: Answer, offers: dict[str, Offer]) -> Response:
    headers = {"Vary": "Accept"}
    if answer.is_cut:
        headers["X-Tarrafa-Limit"] = str(answer.count)
    return Response(answer.body, media_type=_full(offers[answer.form].media_type), headers=headers)


def _full(media_type: str) -> str:
    return f"{media_type}; charset=utf-8" if media_type in IN_UTF8 else media_type


def _form(given: _Given) -> str:
    """The form that is named; clients name it in several ways at once, in the hope that we know one of them."""
    names = [ALSO.get(name.lower(), name) for name in given.all("format") if name]
    return next((name for name in names if name in FORMATS), names[0] if names else "")


def _named(form: str, offers: tuple[Offer, ...]) -> Offer | None:
    return next((offer for offer in offers if offer.form == form), None)


def _listed(offers: tuple[Offer, ...]) -> str:
    return ", ".join(dict.fromkeys(offer.media_type for offer in offers))


def _description(base: str, form: str) -> bytes:
    """What is served here, for programs."""
    iris = [one.iri for one in SOLUTION_FORMATS.values()] + [one.iri for one in GRAPH_FORMATS.values()]
    formats = " , ".join(f"<{iri}>" for iri in iris)
    text = f"""
        @prefix sd: <http://www.w3.org/ns/sparql-service-description#> .
        <{base}/sparql> a sd:Service ; sd:endpoint <{base}/sparql> ; sd:supportedLanguage sd:SPARQL11Query ;
            sd:feature sd:UnionDefaultGraph ; sd:resultFormat {formats} ;
            sd:defaultDataset [ a sd:Dataset ; sd:defaultGraph [ a sd:Graph ] ] ."""
    triples = [quad.triple for quad in parse(text, RdfFormat.TURTLE)]
    prefixes = {"sd": "http://www.w3.org/ns/sparql-service-description#"}
    return serialize(triples, format=GRAPH_FORMATS[form], prefixes=prefixes) or b""
