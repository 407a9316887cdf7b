"""An index that other machines ask: nobody without the token, nothing that is no question, one line for the rest."""

import asyncio
import json
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tarrafa.errors import DataError
from tarrafa.runtime.data_dir import DataDirectory
from tarrafa.runtime.token import Token
from tarrafa.search.remote_shard import CONTENT_TYPE, METHODS, REQUEST_BYTES_MAX, VERSION, RemoteShard, decode_reason
from tarrafa.search.request import EXPANSION_TERMS_MAX, MATCHES_MAX, ExpansionTerm, SearchRequest, ShardStatistics
from tarrafa.search.scatter_gather import open_local_shard
from tarrafa.search.searcher import Searcher
from tarrafa.server.app import create_app
from tarrafa.server.internal.shard_endpoint import create_shard_app
from tests.server.conftest import RunningSite
from tests.server.crawler_api_harness import AsgiResponse, asgi_request

TOKEN = Token(b"a token of many letters")
BEARER = f"Bearer {TOKEN.secret.decode()}"
encode = msgspec.msgpack.encode


@pytest.fixture(scope="module")
def app(small: DataDirectory) -> Any:
    return create_app(small, shard=create_shard_app(open_local_shard(small), TOKEN))


def post(app: Any, method: str, body: bytes, version: str = VERSION, **headers: str) -> AsgiResponse:
    told = {"authorization": BEARER, "content_type": CONTENT_TYPE} | headers
    return asyncio.run(asgi_request(app, "POST", f"/shard/{version}/{method}", body, **told))


def said(answer: AsgiResponse) -> str:
    """The one line that an answer consists of."""
    assert answer.headers["content-type"] == CONTENT_TYPE
    sentence = str(decode_reason(answer.body))
    assert sentence
    assert "\n" not in sentence
    return sentence


def test_who_knows_the_token_is_answered(app):
    answer = post(app, "documents", encode([]))
    assert (answer.code, msgspec.msgpack.decode(answer.body)) == (200, 281)


@pytest.mark.parametrize("given", ["", "Bearer", "Bearer x", "Basic YTpi", f"Bearer {TOKEN.secret.decode()}x", "\xff"])
def test_who_does_not_know_it_is_not(app, given):
    answer = post(app, "documents", encode([]), authorization=given)
    assert answer.code == 401
    assert "281" not in said(answer)
    assert answer.headers["www-authenticate"] == "Bearer"


def test_where_it_is_not_served_there_is_nothing(small):
    assert post(create_app(small), "documents", encode([])).code == 404


def test_without_a_token_a_browsers_form_gets_no_answer(small):
    app = create_app(small, shard=create_shard_app(open_local_shard(small), Token()))
    assert post(app, "documents", encode([]), authorization="").code == 200
    for kind in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data", ""):
        assert post(app, "documents", encode([]), content_type=kind).code == 404


def test_another_version_is_refused_before_anything_is_read(app):
    answer = post(app, "documents", b"\xc1", version="1234<b>")
    assert answer.code == 409
    assert "another version" in said(answer)


REDE, NOTHING = SearchRequest("rede"), ShardStatistics()
HOSTILE = {
    ("nothing", b""): 404,
    ("__init__", b""): 404,
    ("name", encode([])): 404,
    ("documents", b""): 400,
    ("documents", encode([1])): 400,
    ("statistics", b"\x91" * 100_000): 400,
    ("statistics", encode([{"text": "rede", "n": 10**9}])): 400,
    ("statistics", encode([{"text": "rede", "offset": -5}])): 400,
    ("statistics", encode([{"text": "rede" * 1000}])): 400,
    ("statistics", encode([{"text": b"\xff"}])): 400,
    ("statistics", encode([SearchRequest("rede", extras=(ExpansionTerm("x", 0.5),) * (EXPANSION_TERMS_MAX + 1))])): 400,
    ("statistics", b"x" * (REQUEST_BYTES_MAX + 1)): 413,
    ("top_matches", encode([REDE, NOTHING, 0])): 400,
    ("top_matches", encode([REDE, NOTHING, MATCHES_MAX + 1])): 400,
    ("top_matches", encode([REDE, [-1, {}], 10])): 400,
    ("top_matches", encode([REDE, [5, {"all": {"red": -1}}], 10])): 400,
    ("top_matches", encode([REDE, [5, {"all": {"red": 2.5}}], 10])): 400,
    ("show", encode([REDE, 1, [[0, 0]] * 101])): 400,
    ("show", encode([REDE, 1, [[1 << 40, 0]]])): 400,
    ("show", encode([REDE, 1, [[-1, 0]]])): 400,
    ("show", encode([REDE, 1, [[0, 0]]])): 400,
}


@pytest.mark.parametrize(("method", "body"), HOSTILE, ids=lambda value: str(value)[:40])
def test_what_cannot_be_asked_is_refused_in_one_line(app, method, body):
    answer = post(app, method, body)
    assert answer.code == HOSTILE[method, body]
    assert said(answer)


def test_a_place_that_there_is_not_is_no_document(app):
    block = msgspec.msgpack.decode(post(app, "top_matches", encode([REDE, NOTHING, 10])).body)
    for place in ((4_000_000_000, 0), (0, 4_000_000_000)):
        answer = post(app, "show", encode([REDE, block[0], [place]]))
        assert answer.code == 503
        assert said(answer)


@given(st.sampled_from(sorted(METHODS)), st.binary(max_size=200) | st.recursive(
    st.none() | st.integers(-(2**63), 2**64 - 1) | st.floats() | st.text(max_size=9) | st.binary(max_size=9),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
).map(encode))  # fmt: skip
@settings(max_examples=150, deadline=None)
def test_junk_never_hurts(app, method, body):
    answer = post(app, method, body)
    assert answer.code in (200, 400, 503)
    if answer.code != 200:
        said(answer)


# -- the page ---------------------------------------------------------------------------------------------------------


def test_the_page_names_a_shard_that_does_not_answer_and_shows_the_rest(small):
    away = RemoteShard("http://127.0.0.1:9/", limit_s=30.0)
    with RunningSite(small, searcher=Searcher([open_local_shard(small), away])) as site:
        _, text = site.get("/?q=only31")
        assert text.count("<article>") == 1
        assert 'href="/page?url=' in text
        assert "Without the pages of http://127.0.0.1:9: no answer (" in text
        for path in ("/search.csv?q=rede", "/search.rss?q=rede", "/search.atom?q=rede"):
            assert site.get(path)[0].getheader("X-Tarrafa-Without") == "http://127.0.0.1:9"
        found = json.loads(site.get("/search.json?q=only31")[1])
        assert [shard["name"] for shard in found["shards"]] == ["here", "http://127.0.0.1:9"]
        assert found["shards"][1]["trouble"].startswith("no answer")
        assert "281 pages can be searched" in site.get("/")[1]
    away.close()


def test_the_page_searches_other_machines_without_an_index_of_its_own(small, tmp_path):
    with RunningSite(small, shard_token=TOKEN) as there:
        shard = RemoteShard(there.address, TOKEN, limit_s=30.0)
        data = DataDirectory(tmp_path / "nothing")
        with RunningSite(data, searcher=Searcher.open(data, [shard])) as site:
            _, text = site.get("/?q=only31")
            assert "A tarrafa number31" in text
            assert "Without the pages" not in text
            assert "/page?" not in text, "nothing is promised that is not here"
            assert "/page?" not in site.get("/why?q=only31&url=http://h0.br.test/")[1]
            assert "281 pages can be searched" in site.get("/")[1]
            assert site.get("/page?url=http://h0.br.test/")[0].status == 503
        shard.close()
    with RunningSite(data, searcher=Searcher.open(data, [RemoteShard("http://127.0.0.1:9")])) as site:
        response, text = site.get("/?q=rede")
        assert response.status == 503
        assert "http://127.0.0.1:9: no answer" in text
        assert "Nothing can be searched yet" in site.get("/")[1]


def test_with_data_of_its_own_an_index_that_is_not_there_yet_is_named(tmp_path, small):
    from tests.graph.archived_web import new_data

    own = new_data(tmp_path / "data")
    with RunningSite(small, shard_token=TOKEN) as there:
        shard = RemoteShard(there.address, TOKEN, limit_s=30.0)
        found = Searcher.open(own, [shard]).search(SearchRequest("only31"))
        assert found.total == 1
        assert "nothing indexed yet" in str(found.shards[0].trouble)
        shard.close()
    with pytest.raises(DataError, match="nothing indexed yet"):
        Searcher.open(own).search(SearchRequest("only31"))
