"""Whatever is sent to the façade gets one clear answer, and never a 500."""

import asyncio
import json
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tarrafa.server.crawler_api import routes as door
from tests.graph.archived_web import new_data
from tests.server.crawler_api_harness import (
    TOKEN,
    AsgiResponse,
    CrawlerApiHarness,
    Json,
    asgi_request,
    crawler_api_harness,
)

A = "http://a.test/"
AUTHORISED = {"authorization": f"Bearer {TOKEN.decode()}"}
KNOWN = {200, 400, 404, 405, 409, 410, 413}
PATHS = st.sampled_from(["work", "links", "type", "changes", "leave"])
FIELDS = [
    "crawler", "hosts", "from", "to", "visit", "base", "charset", "url", "status", "gone", "type", "length", "etag",
    "elapsed_s", "last_modified", "location", "retry_after_s", "error", "title", "text", "headings", "language",
    "robots", "vocabularies", "syntaxes", "canonical", "digest", "address", "after", "id", "",
]  # fmt: skip
SCALARS = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=20),
    st.sampled_from([A, f"{A}robots.txt", "ana", "00" * 16, "http://[::1", "//", "\x00", "\ud800", "é" * 500]),
    st.sampled_from([200, 1, 0, -11, 404, 1 << 70]),
)  # fmt: skip
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.one_of(
        st.lists(inner, max_size=4), st.dictionaries(st.sampled_from([*FIELDS, "anchor", "rel"]), inner, max_size=4)
    ),
    max_leaves=8,
)
SAID = st.dictionaries(st.sampled_from(FIELDS), VALUES, max_size=8)


class FuzzedCrawlerApi:
    """A façade that stays open while examples are tried on it."""

    def __init__(self, api: CrawlerApiHarness, runner: asyncio.Runner) -> None:
        self._api, self._runner = api, runner

    def ask(self, method: str, path: str, body: bytes = b"", **headers: str) -> AsgiResponse:
        return self._runner.run(asgi_request(self._api.app, method, path, body, **headers))


@pytest.fixture(scope="module")
def fuzzed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FuzzedCrawlerApi]:
    data = new_data(tmp_path_factory.mktemp("junk") / "data")
    with asyncio.Runner() as runner:
        context = crawler_api_harness(data, *(f"{A}{n}" for n in range(20)))
        api = runner.run(context.__aenter__())
        runner.run(api.arrive())
        yield FuzzedCrawlerApi(api, runner)
        runner.run(context.__aexit__(None, None, None))


def assert_clear(answer: AsgiResponse) -> None:
    assert answer.code in KNOWN, (answer.code, answer.body)
    if answer.code != 200:
        assert list(answer.json) == ["error"]
        assert answer.json["error"]


def right(path: str) -> Json:
    questions: dict[str, Json] = {
        "work": {"crawler": "ana", "hosts": 1},
        "links": {"crawler": "ana", "from": f"{A}0", "visit": 1, "to": [{"url": "/x", "anchor": "x", "rel": ""}]},
        "type": {"crawler": "ana", "url": f"{A}0", "visit": 1, "status": 200, "type": "text/html", "text": "x"},
        "changes": {"crawler": "ana", "after": 0},
        "leave": {"crawler": "ana"},
    }
    return questions[path]


def bodies(path: str) -> st.SearchStrategy[bytes]:
    """Bytes that are no JSON, JSON that is no question, and right questions with something wrong in them."""
    values = st.one_of(VALUES, SAID, SAID.map(lambda said: right(path) | said))
    written = values.map(lambda value: json.dumps(value).encode("utf-8", "surrogatepass"))
    return st.one_of(st.binary(max_size=200), written, written, written)


QUESTIONS = PATHS.flatmap(lambda path: st.tuples(st.just(path), bodies(path)))
rarely, often = (
    settings(max_examples=examples, deadline=None, suppress_health_check=list(HealthCheck)) for examples in (50, 5_000)
)


def is_asked(fuzzed: FuzzedCrawlerApi, question: tuple[str, bytes]) -> None:
    assert_clear(fuzzed.ask("POST", f"/crawl/v1/{question[0]}", question[1], **AUTHORISED))


@rarely
@given(QUESTIONS)
def test_whatever_is_sent_gets_a_clear_answer(fuzzed, question):
    is_asked(fuzzed, question)


@pytest.mark.long
@often
@given(QUESTIONS)
def test_whatever_is_sent_gets_a_clear_answer_for_long(fuzzed, question):
    is_asked(fuzzed, question)


@rarely
@given(
    st.sampled_from(["GET", "PUT", "DELETE", "OPTIONS", "PATCH", "POST"]),
    st.text(alphabet=st.characters(codec="latin-1", exclude_characters="?"), max_size=20),
    st.text(alphabet=st.characters(codec="ascii"), max_size=30),
)
def test_addresses_and_methods_that_nobody_knows(fuzzed, method, path, query):
    answer = fuzzed.ask(method, f"/crawl/v1/{path}?{query}", **AUTHORISED)
    assert answer.code in KNOWN | {307}


@pytest.mark.parametrize(
    "body", [b"[" * 100_000, b'{"to":' * 50_000, b'"' + b"\\ud800" * 1000 + b'"', b"\xff\xfe", b""]
)
def test_bodies_made_to_hurt(fuzzed, body):
    answer = fuzzed.ask("POST", "/crawl/v1/links", body, **AUTHORISED)
    assert answer.code == 400
    assert len(answer.body) < 1_000


@pytest.mark.parametrize("announced", [True, False])
def test_a_body_that_is_too_large_is_not_read_to_its_end(fuzzed, monkeypatch, announced):
    monkeypatch.setattr(door, "BODY_BYTES_MAX", 1_000)
    length = {"content_length": "1001"} if announced else {}
    answer = fuzzed.ask("POST", "/crawl/v1/work", b" " * 1_001, **AUTHORISED, **length)
    assert (answer.code, answer.headers["connection"]) == (413, "close")
    assert "at most 1,000 bytes" in answer.json["error"]
    assert fuzzed.ask("POST", "/crawl/v1/changes", b'{"crawler":"ana"}'.ljust(1_000), **AUTHORISED).code == 200


COMPLAINTS: list[tuple[str, Json, str]] = [
    ("work", {}, "missing required field `crawler`"),
    ("work", {"crawler": "Ana Banana"}, "`$.crawler`"),
    ("work", {"crawler": "ana\n"}, "`$.crawler`"),
    ("work", {"crawler": "ana", "hosts": "2"}, "Expected `int`, got `str` - at `$.hosts`"),
    ("work", {"crawler": "ana", "hosts": 10_000}, "`$.hosts`"),
    ("work", {"crawler": "ana", "host": 1}, "unknown field `host`"),
    (
        "links",
        {"crawler": "ana", "from": "ftp://x/", "visit": 1, "to": []},
        "from: neither an http(s) URL nor an id",
    ),
    ("type", {"crawler": "ana", "url": A, "visit": 1}, 'give either the status of the response, or "gone": true'),
    ("type", {"crawler": "ana", "url": A, "visit": 1, "status": 404, "gone": True}, "give either"),
    ("type", {"crawler": "ana", "url": A, "visit": 1, "status": 100}, "status: 100 is neither"),
    ("type", {"crawler": "ana", "url": A, "visit": 1, "status": -7}, "nor one of -1, -3, -4"),
    ("type", {"crawler": "ana", "url": A, "visit": 1, "status": 200, "etag": "a\r\nX: y"}, "`$.etag`"),
    (
        "type",
        {"crawler": "ana", "url": f"{A}0", "visit": 1, "status": 200},
        "type: a page with status 200 has one",
    ),
    ("changes", {"crawler": "ana", "after": -1}, "`$.after`"),
]


async def test_what_is_wrong_is_said_with_the_name_of_the_field(tmp_path):
    async with crawler_api_harness(new_data(tmp_path / "data"), f"{A}0") as api:
        await api.arrive()
        for path, said, complaint in COMPLAINTS:
            answer = await asgi_request(api.app, "POST", f"/crawl/v1/{path}", json.dumps(said).encode(), **AUTHORISED)
            assert answer.code == 400
            assert complaint in answer.json["error"]
