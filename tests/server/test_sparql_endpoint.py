"""The endpoint by the SPARQL 1.1 Protocol, asked by a client that others wrote (SPARQLWrapper) and by hand."""

import asyncio
import contextlib
import csv
import io
import json
import socket
from collections.abc import Iterator
from http.client import HTTPConnection
from typing import Any, NamedTuple
from urllib.parse import quote, urlencode, urlsplit

import pytest
from pyoxigraph import QueryResultsFormat, QuerySolutions, RdfFormat, parse, parse_query_results
from SPARQLWrapper import (
    CSV,
    GET,
    JSON,
    JSONLD,
    POST,
    POSTDIRECTLY,
    RDFXML,
    TSV,
    TURTLE,
    URLENCODED,
    XML,
    SPARQLWrapper,
)
from SPARQLWrapper.SPARQLExceptions import QueryBadFormed

from tarrafa.runtime.data_dir import DataDirectory
from tarrafa.server import http_server
from tarrafa.server.app import create_app
from tarrafa.server.security_headers import CONTENT_SECURITY_POLICY
from tarrafa.server.sparql_endpoint import BODY_BYTES_MAX, EXAMPLE_QUERIES, GRAPHS, SOLUTIONS, negotiate
from tarrafa.triples.sparql_check import NO_SERVICE
from tarrafa.triples.sparql_pool import SparqlLimits, SparqlPool
from tests.server.conftest import RunningSite
from tests.server.crawler_api_harness import asgi_request
from tests.triples.sample_store import filled, new_data, page_of, small_web

PEOPLE = "PREFIX schema: <https://schema.org/> SELECT ?n { ?p schema:jobTitle ?j ; schema:name ?n } ORDER BY ?n"
NAMES = "PREFIX schema: <https://schema.org/> SELECT ?n { ?s schema:name ?n }"
BUILD = "PREFIX schema: <https://schema.org/> CONSTRUCT { ?s schema:name ?n } WHERE { ?s schema:name ?n }"
ENDLESS = "SELECT (COUNT(*) AS ?x) { ?a ?b ?c . ?d ?e ?f . ?g ?h ?i . ?j ?k ?l }"
PAGES = 30


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> DataDirectory:
    data = new_data(tmp_path_factory.mktemp("sparql") / "data")
    filled(data, small_web(PAGES))
    return data


@pytest.fixture(scope="module")
def endpoint(data: DataDirectory) -> Iterator[RunningSite]:
    with RunningSite(data) as running:
        yield running


class Said(NamedTuple):
    code: int
    headers: dict[str, str]
    text: str

    @property
    def kind(self) -> str:
        return self.headers.get("content-type", "").partition(";")[0]


def say(
    endpoint: RunningSite, method: str, path: str, body: bytes | None = None, client: str = "127.0.0.1", **headers: str
) -> Said:
    connection = HTTPConnection(urlsplit(endpoint.address).netloc, timeout=30, source_address=(client, 0))
    try:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        connection.request(method, path, body, named)
        response = connection.getresponse()
        fields = {name.lower(): value for name, value in response.getheaders()}
        return Said(response.status, fields, response.read().decode())
    finally:
        connection.close()


def get(endpoint: RunningSite, query: str, accept: str = "", client: str = "127.0.0.1", **more: str) -> Said:
    path = f"/sparql?{urlencode({'query': query, **more})}"
    return say(endpoint, "GET", path, client=client, accept=accept or "*/*")


def client(
    endpoint: RunningSite, query: str, form: str = JSON, method: str = GET, way: str = URLENCODED
) -> SPARQLWrapper:
    one = SPARQLWrapper(f"{endpoint.address}sparql")
    one.setQuery(query)
    one.setReturnFormat(form)
    one.setMethod(method)
    one.setRequestMethod(way)
    return one


def names(found: Any) -> list[str]:
    return [row["n"]["value"] for row in found["results"]["bindings"]]


# -- the protocol, section 2.1: the query operation -------------------------------------------------------------------


@pytest.mark.parametrize(("method", "way"), [(GET, URLENCODED), (POST, URLENCODED), (POST, POSTDIRECTLY)])
def test_protocol_2_1_query_via_get_via_post_urlencoded_and_via_post_directly(endpoint, method, way):
    found = names(client(endpoint, PEOPLE, JSON, method, way).query().convert())
    assert len(found) == PAGES // 3
    assert found == sorted(found)
    assert "Ana Silva 0" in found


@pytest.mark.parametrize(("method", "way"), [(GET, URLENCODED), (POST, URLENCODED), (POST, POSTDIRECTLY)])
def test_protocol_2_1_4_default_graph_uri_and_named_graph_uri_are_the_dataset(endpoint, method, way):
    def asked(query: str, **graphs: list[str]) -> int:
        one = client(endpoint, query, JSON, method, way)
        for name, uris in graphs.items():
            for uri in uris:
                one.addParameter(name.replace("_", "-"), uri)
        return len(names(one.query().convert()))

    assert asked(NAMES, default_graph_uri=[page_of(3)]) == 2
    assert asked(NAMES, default_graph_uri=[page_of(3), page_of(2)]) == 3
    assert asked(NAMES, named_graph_uri=[page_of(3)]) == 0
    inside = "SELECT ?n { GRAPH ?g { ?s <https://schema.org/name> ?n } }"
    assert asked(inside, named_graph_uri=[page_of(3), page_of(2)]) == 3
    assert asked(inside, default_graph_uri=[page_of(2)], named_graph_uri=[page_of(3)]) == 2
    other = f"SELECT ?n FROM <{page_of(2)}> {{ ?s <https://schema.org/name> ?n }}"
    assert asked(other) == 1
    assert asked(other, default_graph_uri=[page_of(3)]) == 2, "what the request says counts before FROM"


def test_protocol_2_1_5_each_form_of_solutions_is_negotiated(endpoint):
    query = f"{PEOPLE} LIMIT 2"
    for form, kind in (
        (JSON, "application/sparql-results+json"), (XML, "application/sparql-results+xml"), (CSV, "text/csv"),
        (TSV, "text/tab-separated-values"),
    ):  # fmt: skip
        answered = client(endpoint, query, form).query()
        assert answered.info()["content-type"].partition(";")[0] == kind
        body = answered.response.read()
        if form == CSV:
            assert list(csv.reader(io.StringIO(body.decode())))[1:] == [["Ana Silva 0"], ["Ana Silva 12"]]
        else:
            read = {JSON: QueryResultsFormat.JSON, XML: QueryResultsFormat.XML, TSV: QueryResultsFormat.TSV}[form]
            found = parse_query_results(body, read)
            assert isinstance(found, QuerySolutions)
            assert [row["n"].value for row in found] == ["Ana Silva 0", "Ana Silva 12"]


def test_protocol_2_1_5_each_form_of_statements_is_negotiated(endpoint):
    for form, kind, read in (
        (TURTLE, "text/turtle", RdfFormat.TURTLE),
        (RDFXML, "application/rdf+xml", RdfFormat.RDF_XML),
        (JSONLD, "application/ld+json", RdfFormat.JSON_LD),
    ):
        one = client(endpoint, BUILD, form)
        answered = one.query()
        assert answered.info()["content-type"].partition(";")[0] == kind
        assert len(list(parse(answered.response.read(), read))) == 50
    said = get(endpoint, BUILD, "application/n-triples")
    assert (said.kind, said.text.count("\n")) == ("application/n-triples", 50)


def test_a_yes_or_no_has_every_form_of_solutions_too(endpoint):
    found: Any = client(endpoint, "ASK { ?s ?p ?o }").query().convert()
    assert found["boolean"] is True
    assert "<boolean>true</boolean>" in get(endpoint, "ASK { ?s ?p ?o }", "application/sparql-results+xml").text
    assert get(endpoint, "ASK {}", "text/csv").text.strip() == "true"


@pytest.mark.parametrize(
    ("accept", "kind", "graph"),
    [
        ("", "application/sparql-results+json", "text/turtle"),
        ("*/*", "application/sparql-results+json", "text/turtle"),
        ("application/json", "application/json", "application/json"),
        ("application/xml", "application/xml", "application/xml"),
        ("text/*", "text/csv", "text/turtle"),
        ("application/*", "application/sparql-results+json", "application/n-triples"),
        ("text/csv;q=0.2, application/sparql-results+xml;q=0.9", "application/sparql-results+xml", ""),
        ("application/sparql-results+json;q=0, */*;q=0.1", "application/sparql-results+xml", "text/turtle"),
        ("text/csv;q=x, text/tab-separated-values", "text/tab-separated-values", ""),
        ("TEXT/CSV ; charset=utf-8 ; q=0.5", "text/csv", ""),
        ("text/turtle", "", "text/turtle"),
        ("image/png", "", ""),
        (",;,/,q=1", "application/sparql-results+json", "text/turtle"),
        ("text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8", "application/xml", "application/xml"),
    ],
)
def test_rfc9110_weights_choose_the_form(accept, kind, graph):
    for offers, wanted in ((SOLUTIONS, kind), (GRAPHS, graph)):
        chosen = negotiate(accept, offers)
        assert (chosen or "") == wanted


def test_what_no_form_fits_is_406(endpoint):
    for query, accept in (
        (PEOPLE, "image/png"),
        (PEOPLE, "text/turtle"),
        (BUILD, "text/csv"),
        ("ASK {}", "text/turtle"),
    ):
        said = get(endpoint, query, accept)
        assert said.code == 406, (query, accept)
        assert said.kind == "text/plain"
    assert "text/csv" in get(endpoint, PEOPLE, "image/png").text


def test_a_format_can_be_named_instead(endpoint):
    for name, kind in (("json", "application/sparql-results+json"), ("xml", "application/sparql-results+xml"),
                       ("csv", "text/csv"), ("tsv", "text/tab-separated-values")):  # fmt: skip
        assert get(endpoint, PEOPLE, "image/png", format=name).kind == kind
    for name, kind in (("ttl", "text/turtle"), ("nt", "application/n-triples"), ("xml", "application/rdf+xml"),
                       ("json", "application/ld+json")):  # fmt: skip
        assert get(endpoint, BUILD, format=name).kind == kind
    assert get(endpoint, BUILD, format="csv").code == 406
    said = get(endpoint, PEOPLE, format="parquet")
    assert (said.code, "json, xml, csv, tsv" in said.text) == (400, True)


def test_protocol_2_1_6_a_malformed_query_is_400_with_the_parsers_message(endpoint):
    for method, way in ((GET, URLENCODED), (POST, URLENCODED), (POST, POSTDIRECTLY)):
        with pytest.raises(QueryBadFormed):
            client(endpoint, "SELECT * { ?s ?p", JSON, method, way).query()
    said = get(endpoint, "SELECT *\n{ ?s ?p")
    assert (said.code, said.kind) == (400, "text/plain")
    assert said.text.startswith("line 2, column 8: expected")
    for query in ("", " ", "x", "SELECT (1 AS ?x) { SERVICE <http://127.0.0.1:1/> {} }"):
        assert get(endpoint, query).code == 400
    assert get(endpoint, "SELECT * { SERVICE <http://127.0.0.1:1/> {} }").text.strip() == NO_SERVICE


def test_two_queries_at_once_are_400(endpoint):
    twice = urlencode([("query", PEOPLE), ("query", PEOPLE)])
    assert say(endpoint, "GET", f"/sparql?{twice}").code == 400
    form = {"content_type": "application/x-www-form-urlencoded"}
    assert say(endpoint, "POST", "/sparql", twice.encode(), **form).code == 400
    said = say(
        endpoint, "POST", f"/sparql?query={quote(PEOPLE)}", PEOPLE.encode(), content_type="application/sparql-query"
    )
    assert (said.code, said.text) == (400, "there are 2 parameters `query`; one is allowed\n")


def test_updates_are_refused_and_change_nothing(endpoint):
    update = "INSERT DATA { <urn:a> <urn:b> <urn:c> }"
    form = {"content_type": "application/x-www-form-urlencoded"}
    for said in (
        say(endpoint, "POST", "/sparql", urlencode({"update": update}).encode(), **form),
        say(endpoint, "POST", "/sparql", update.encode(), content_type="application/sparql-update"),
        say(endpoint, "GET", f"/sparql?{urlencode({'update': update})}"),
    ):
        assert said.code == 403
        assert "only answers queries" in said.text
    assert get(endpoint, update).code == 400
    assert json.loads(get(endpoint, "ASK { <urn:a> ?p ?o }").text)["boolean"] is False


def test_other_types_no_query_and_too_much_are_refused_each_by_its_code(endpoint):
    assert say(endpoint, "POST", "/sparql", b"{}", content_type="application/json").code == 415
    assert say(endpoint, "POST", "/sparql", PEOPLE.encode()).code == 415
    form = {"content_type": "application/x-www-form-urlencoded"}
    assert say(endpoint, "POST", "/sparql", b"a=b", **form).code == 400
    assert say(endpoint, "POST", "/sparql", b"x" * (BODY_BYTES_MAX + 1), **form).code == 413
    assert say(endpoint, "POST", "/sparql", b"&a=" * 3_000, **form).code == 400
    assert say(endpoint, "POST", "/sparql", b"SELECT \xff", content_type="application/sparql-query").code == 400
    assert say(endpoint, "POST", "/sparql", b"query=SELECT%20%FF", **form).code == 400
    assert say(endpoint, "GET", "/sparql?query=%FF").code == 400
    assert get(endpoint, PEOPLE, limit="x").code == 400
    assert get(endpoint, PEOPLE, part="7-of-9").code == 400
    assert say(endpoint, "PUT", "/sparql", b"x").code == 405
    assert get(endpoint, NAMES, **{"default-graph-uri": "no iri"}).code == 400


def test_a_body_may_say_its_charset_and_the_query_its_accents(endpoint):
    query = "SELECT ?n { VALUES ?n { 'pão de açúcar' } }"
    said = say(endpoint, "POST", "/sparql", query.encode(), content_type="application/sparql-query; charset=utf-8")
    assert names(json.loads(said.text)) == ["pão de açúcar"]


def test_head_and_options(endpoint):
    said = say(endpoint, "HEAD", f"/sparql?query={quote('ASK {}')}")
    assert (said.code, said.text, said.kind) == (200, "", "application/sparql-results+json")
    said = say(endpoint, "OPTIONS", "/sparql")
    assert (said.code, said.headers["allow"]) == (204, "GET, HEAD, POST, OPTIONS")
    assert "access-control-allow-origin" not in said.headers, "as nothing else here may be read from other sites"


def test_more_results_than_the_limit_are_left_out_and_a_header_says_so(endpoint):
    said = get(endpoint, NAMES, limit="7")
    assert said.headers["x-tarrafa-limit"] == "7"
    assert len(names(json.loads(said.text))) == 7
    assert "x-tarrafa-limit" not in get(endpoint, f"{NAMES} LIMIT 7").headers


def test_without_a_query_a_program_is_told_what_is_served(endpoint):
    for accept, form in (("", RdfFormat.TURTLE), ("application/rdf+xml", RdfFormat.RDF_XML)):
        said = say(endpoint, "GET", "/sparql", accept=accept or "*/*")
        assert said.kind == form.media_type
        told = {(quad.predicate.value.rpartition("#")[2], str(quad.object)) for quad in parse(said.text.encode(), form)}
        sd = "http://www.w3.org/ns/sparql-service-description#"
        assert ("endpoint", f"<{endpoint.address}sparql>") in told
        assert ("supportedLanguage", f"<{sd}SPARQL11Query>") in told
        assert ("feature", f"<{sd}UnionDefaultGraph>") in told
    assert say(endpoint, "GET", "/sparql", accept="image/png").code == 406


def test_without_a_query_a_browser_gets_the_editor_in_its_language(endpoint):
    accept = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"
    said = say(endpoint, "GET", "/sparql", accept=accept)
    assert (said.code, said.kind) == (200, "text/html")
    assert "Ask what pages state" in said.text
    assert "Nothing can be asked yet" not in said.text
    assert "Pergunte" in say(endpoint, "GET", "/sparql?hl=pt", accept=accept).text
    assert 'href="/sparql"' in say(endpoint, "GET", "/", accept=accept).text
    policy = said.headers["content-security-policy"]
    assert policy.replace(policy[policy.index(" 'sha256-") : policy.index("=';") + 2], "") == CONTENT_SECURITY_POLICY
    assert say(endpoint, "GET", "/help", accept=accept).headers["content-security-policy"] == CONTENT_SECURITY_POLICY


@pytest.mark.parametrize("name", sorted(EXAMPLE_QUERIES.keys() - {"matches"}))  # this one needs an index
def test_each_example_finds_something(endpoint, name):
    said = get(endpoint, EXAMPLE_QUERIES[name], "text/csv, application/n-triples")
    assert said.code == 200, said.text
    assert said.text.count("\n") > 1
    if name == "products":
        prices = [float(row["price"]) for row in csv.DictReader(io.StringIO(said.text))]
        assert prices == sorted(prices)


def test_before_anything_is_crawled_answers_are_empty_and_the_page_says_so(tmp_path):
    with RunningSite(new_data(tmp_path / "data")) as nothing:
        assert json.loads(get(nothing, PEOPLE).text)["results"]["bindings"] == []
        assert "Nothing can be asked yet" in say(nothing, "GET", "/sparql", accept="text/html").text


async def test_a_query_that_takes_too_long_is_503_with_a_sentence_and_one_too_many_comes_again(data):
    with SparqlPool(data, SparqlLimits(time_s=0.5, processes=1, waiting=1, wait_s=0.1)) as asking:
        app = create_app(data, sparql=asking)
        path = f"/sparql?query={quote(ENDLESS)}"
        slow, *others = await asyncio.gather(*(heard(app, path) for _ in range(3)))
        assert slow.code == 503
        assert slow.body == b"the query took more than 0.5 s and was stopped; ask for less, or more exactly\n"
        assert [(other.code, other.headers["retry-after"]) for other in others] == [(503, "5")] * 2


async def heard(app: Any, path: str) -> Any:
    """Asked by somebody who stays until the answer comes."""

    async def staying(scope: Any, receive: Any, send: Any) -> None:
        came = False

        async def once() -> Any:
            nonlocal came
            if came:
                await asyncio.Event().wait()
            came = True
            return await receive()

        await app(scope, once, send)

    return await asgi_request(staying, "GET", path)


def test_whoever_hangs_up_is_not_worked_for(data):
    """The processes are kept busy by people who go away; the next one is answered though the time limit is far off."""
    request = f"GET /sparql?query={quote(ENDLESS)} HTTP/1.1\r\nHost: x\r\n\r\n".encode()
    with RunningSite(data, sparql_limits=SparqlLimits(time_s=600, wait_s=600)) as patient:
        host, port = urlsplit(patient.address).hostname, urlsplit(patient.address).port
        for _ in range(4):
            with socket.create_connection((host, port)) as line:
                line.sendall(request)
        assert get(patient, "ASK {}").code == 200


def test_a_client_with_many_queries_leaves_a_place_for_others(data):
    request = f"GET /sparql?query={quote(ENDLESS)} HTTP/1.1\r\nHost: x\r\n\r\n".encode()
    with RunningSite(data, sparql_limits=SparqlLimits(time_s=600, wait_s=5)) as busy, contextlib.ExitStack() as stack:
        host, port = urlsplit(busy.address).hostname, urlsplit(busy.address).port
        lines = [stack.enter_context(socket.create_connection((host, port))) for _ in range(6)]
        for line in lines:
            line.sendall(request)
        assert lines[-1].recv(12) == b"HTTP/1.1 503", "one is answered, four wait"
        assert get(busy, "ASK {}", client="127.0.0.2").code == 200


def test_when_serving_ends_a_query_under_way_is_told_so(data, monkeypatch):
    monkeypatch.setattr(http_server, "GRACE_S", 30)  # who has no time left says nothing at all
    with RunningSite(data, sparql_limits=SparqlLimits(time_s=60)) as ending:
        line = HTTPConnection(urlsplit(ending.address).netloc, timeout=30)
        line.request("GET", f"/sparql?query={quote(ENDLESS)}")
        assert get(ending, "ASK {}", client="127.0.0.2").code == 200  # it came after, so the other one is under way
    response = line.getresponse()
    assert response.status == 503
    assert b"being stopped" in response.read()
    line.close()


def test_offers_are_chosen_in_their_order():
    assert negotiate("*/*", ["a/b", "a/c"]) == "a/b"
