"""The API: what is documented is what is answered, and whatever is sent, nobody hears of a 500."""

import contextlib
import http.client
import socket
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

import pytest

from tarrafa.runtime.data_dir import DataDirectory
from tarrafa.server.api.openapi import openapi_document
from tests.server.console.example_console import TOKEN, ConsoleClient, ExampleSite

jsonschema_rs = pytest.importorskip("jsonschema_rs", reason="schemathesis is not installed")
schemathesis = pytest.importorskip("schemathesis", reason="schemathesis is not installed")
from hypothesis import HealthCheck, Phase, given, settings  # noqa: E402
from hypothesis.errors import Unsatisfiable  # noqa: E402
from schemathesis import GenerationMode  # noqa: E402

BEARER = f"Bearer {TOKEN}"


@pytest.fixture(scope="module")
def program(known: ExampleSite) -> ConsoleClient:
    return known.client(Authorization=BEARER)


@pytest.mark.parametrize(
    ("method", "path", "body", "code", "sentence"),
    [
        ("GET", "/api/v1/notes?n=0", None, 400, "Invalid parameter: Expected `int` >= 1 - at `$.n`."),
        ("GET", "/api/v1/notes?n=x", None, 400, "Invalid parameter: Expected `int`, got `str` - at "
         "`$.n`."),
        ("GET", "/api/v1/notes?m=1", None, 400, "Unknown parameter 'm'; known ones: n, stars."),
        ("GET", "/api/v1/me?x=%00", None, 400, "Unknown parameter 'x'; known ones: none."),
        ("GET", f"/api/v1/notes?n={'9' * 3_000}", None, 400, "Invalid parameter: 3,000 characters, at most 2,000 "
         "are read - at `$.n`."),
        ("GET", f"/api/v1/notes?{'stars=1&' * 101}", None, 400, "Too many fields: the maximum is 100."),
        ("POST", "/api/v1/notes", '{"title": ""}', 400, "Invalid body: Expected `str` of length >= 1 "
         "- at `$.title`."),
        ("POST", "/api/v1/notes", "{}", 400, "Invalid body: Object missing required field `title`."),
        ("POST", "/api/v1/notes", "{", 400, "Invalid body: Input data was truncated."),
        ("POST", "/api/v1/notes", None, 400, "Invalid body: Input data was truncated."),
        ("POST", "/api/v1/notes", "[" * 4_000, 400, None),
        ("POST", "/api/v1/notes", b'{"title": "\xff"}', 400, None),
        ("POST", "/api/v1/notes", "x" * 4_097, 413, "The body is too large: the maximum is 4,096 bytes."),
        ("DELETE", "/api/v1/notes/none", None, 404, "There is no note 'none'."),
        ("DELETE", "/api/v1/notes/%7Bcode%7D", None, 404, "There is no note '{code}'."),
        ("DELETE", "/api/v1/notes/%7B", None, 404, "There is no note '{'."),
        ("DELETE", f"/api/v1/notes/{'x' * 2_001}", None, 404, "There is nothing at this address."),
        ("GET", "/api/v1/none", None, 404, "There is nothing at this address."),
        ("DELETE", "/api/v1/notes/a%0Ab", None, 404, None),
        ("GET", "/api/", None, 404, "There is nothing at this address."),
        ("GET", "/api/v2/notes", None, 404, "There is nothing at this address."),
        ("PUT", "/api/v1/notes", "{}", 405, "This method is not allowed here; see the header Allow."),
        ("GET", "/api/v1/notes/x", None, 405, None),
    ],
)  # fmt: skip
def test_what_is_wrong_is_a_problem_with_a_sentence(program, method, path, body, code, sentence):
    answer = program.ask(method, path, body, Content_Type="application/json")
    assert answer.code == code, answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.json["status"] == code
    assert sentence in (None, answer.json["detail"])
    if code == 405:
        assert set(answer.headers["allow"].split(", ")) in ({"GET", "HEAD", "POST"}, {"DELETE"})


def test_a_body_of_another_type_is_refused(program):
    assert program.ask("POST", "/api/v1/notes", '{"title": "x"}', Content_Type="text/plain").code == 415
    assert (
        program.ask("POST", "/api/v1/notes", '{"title": "x"}', Content_Type="application/json; charset=utf-8").code
        == 201
    )


def test_a_parameter_that_may_be_given_often_is_a_list(program):
    program.send("POST", "/api/v1/notes", {"title": "five", "stars": 5})
    assert [note["title"] for note in program.get("/api/v1/notes?stars=5&stars=4").json] == ["five"]
    assert program.get("/api/v1/notes?stars=4").json == []
    assert program.ask("HEAD", "/api/v1/notes").code == 200


def test_what_nobody_foresaw_is_told_to_the_log_only(data, caplog):
    with ExampleSite(data, broken=True) as site:
        answer = site.client().get("/api/v1/broken")
        assert answer.code == 500
        assert "secret" not in answer.text
        assert "a secret that nobody may read" in caplog.text


def test_a_body_that_never_ends_is_not_read_on(known):
    name, port = urlsplit(known.address).netloc.split(":")
    with socket.create_connection((name, int(port)), 10) as line:
        head = "POST /api/v1/notes HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
        line.sendall(f"{head}Authorization: {BEARER}\r\nTransfer-Encoding: chunked\r\n\r\n".encode())
        line.sendall(b"1000\r\n" + b"x" * 4096 + b"\r\n1000\r\n" + b"x" * 4096 + b"\r\n")
        answer = http.client.HTTPResponse(line)
        answer.begin()
        assert answer.status == 413


def test_the_document_names_every_route_with_what_it_needs(known, program):
    told = program.get("/api/openapi.json").json
    assert told["openapi"] == "3.1.0"
    for door in known.console.api.guarded_routes():
        operation = told["paths"][door.path][door.method.lower()]
        assert operation["x-needs"] == door.need.name.lower()
        assert {"token": []} in operation["security"]
    for path in ("/search.json", "/suggest", "/page.json", "/site.json", "/data.json", "/thing.json", "/queries.json",
                 "/status.json", "/healthz"):  # fmt: skip
        assert "get" in told["paths"][path], path
    ids = [operation["operationId"] for at in told["paths"].values() for operation in at.values()]
    assert len(ids) == len(set(ids))
    assert told["components"]["securitySchemes"]["session"]["name"] == known.entry.cookie


def test_the_page_for_people_shows_the_document_in_both_languages(known):
    described = openapi_document(known.console.api, "tarrafa")
    english, portuguese = known.client().get("/api").text, known.client().get("/api?hl=pt").text
    for path in described["paths"]:
        assert path in english
        assert path in portuguese
    schemas = described["components"]["schemas"]
    assert len(schemas) > 10
    for name in schemas:
        assert f'id="schema-{name}"' in english
    assert "For programs" in english
    assert "Para programas" in portuguese
    assert "<script>" not in english
    assert "style=" not in english


def test_a_site_without_a_console_tells_programs_what_can_be_asked_and_nothing_else(site):
    response, body = site.get("/api/openapi.json")
    assert response.status == 200
    assert "/search.json" in body
    assert "/api/v1" not in body.partition('"paths"')[2]
    assert site.get("/api")[0].status == 200
    for path in ("/console", "/console/login", "/api/v1/me"):
        assert site.get(path)[0].status == 404


# -- schemathesis ----------------------------------------------------------------------------------------------------

MANY: dict[str, Any] = {
    "deadline": None,
    "database": None,
    "suppress_health_check": list(HealthCheck),
    "phases": [Phase.explicit, Phase.generate],
}
MODES = (GenerationMode.POSITIVE, GenerationMode.NEGATIVE)


@pytest.fixture(scope="module")
def filled(small: DataDirectory) -> Iterator[ExampleSite]:
    """The example over a small Web that was crawled."""
    with ExampleSite(small, token=TOKEN) as site:
        yield site


def check_as_documented(document: Any, path: str, method: str, answer: Any) -> None:
    """Our own check, with the whole of JSON Schema 2020-12: schemathesis' own reads no `prefixItems` in answers."""
    assert answer.status_code < 500, (method, path, answer.request.url, answer.text)
    told = document["paths"][path][method]["responses"].get(str(answer.status_code))
    if told is None and answer.status_code == 405:  # another method was tried on purpose
        return
    assert told is not None, (answer.status_code, method, answer.request.url, answer.text)
    if "content" in told:
        (kind,) = answer.headers["content-type"]
        assert kind in told["content"], (answer.status_code, method, answer.request.url, answer.text)
        content, value = told["content"][kind], answer.json() if "json" in kind else answer.text
        schema = {**content["schema"], "components": document["components"]}
        errors = [error.message for error in jsonschema_rs.Draft202012Validator(schema).iter_errors(value)]
        assert errors == [], (answer.request.url, answer.text[:500])


def ask_as_the_document_says(site: ExampleSite, cases: int, **more: Any) -> int:
    """Every operation of the document, with what fits it and with what does not; how often it was asked."""
    document = site.client().get("/api/openapi.json").json
    asked = 0
    for found in schemathesis.openapi.from_dict(document).get_all_operations():
        operation = found.ok()
        for mode in MODES:

            @given(case=operation.as_strategy(generation_mode=mode))
            @settings(max_examples=cases, **more, **MANY)
            def ask(case: Any) -> None:
                nonlocal asked
                asked += 1
                answer = case.call(base_url=site.address.rstrip("/"), headers={"Authorization": BEARER}, timeout=60)
                check_as_documented(document, case.path, case.method.lower(), answer)

            with contextlib.suppress(Unsatisfiable):  # there is nothing wrong that could be sent
                ask()
    return asked


def test_whatever_is_sent_there_is_no_500_and_answers_are_as_documented(filled):
    assert ask_as_the_document_says(filled, 3, derandomize=True) > 50


@pytest.mark.long
def test_whatever_is_sent_for_long_there_is_no_500_and_answers_are_as_documented(filled):
    assert ask_as_the_document_says(filled, 150) > 1_000
