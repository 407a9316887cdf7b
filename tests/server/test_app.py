"""The site: right answers, one sentence for everything wrong, nothing hostile gets through."""

import asyncio
import json
import re
import signal
import socket
import subprocess
import sys
from urllib.parse import quote

import pytest
import tantivy
from starlette.requests import Request

from tarrafa.errors import ConfigError, FrontierError, ListenError
from tarrafa.frontier.messages import CollectionStatus, FrontierOverview
from tarrafa.i18n import ENGLISH
from tarrafa.index import schema
from tarrafa.server.http_server import bind, run, serve
from tarrafa.server.jinja_environment import Pager, status_text
from tarrafa.server.page_responses import PageResponses
from tarrafa.server.search.params import address
from tarrafa.server.security_headers import safe_href
from tests.graph.archived_web import new_data, url_of
from tests.ports import reserved_port
from tests.server.conftest import HOSTILE_URL, RunningSite


def test_the_first_page_has_the_box_and_says_how_much_can_be_searched(site):
    response, text = site.get("/")
    assert response.status == 200
    assert 'name="q"' in text
    assert "281 pages can be searched" in text
    assert "<label" in text


def test_results_show_title_url_snippet_rank_date_time_and_total(site):
    response, text = site.get("/?q=only31")
    assert response.status == 200
    assert f'href="{url_of(31)}" rel="noopener noreferrer nofollow"' in text
    assert "A tarrafa number31" in text
    assert "<mark>only31</mark>" in text
    assert re.search(r"1 page in \d\.\d{3} s", text)
    assert re.search(r'<time datetime="2026-09-22T21:13:20Z">Seen 2026-09-22</time>', text)
    assert "#1<" in text
    assert re.search(r"score \d+\.\d\d", text)
    assert f'href="/page?url={quote(url_of(31), safe="")}"' in text
    assert "page links here" in text or "pages link here" in text


@pytest.mark.parametrize(
    ("word", "english", "portuguese"),
    [
        ("maio", "Published 2009-05-17", "Publicada em 2009-05-17"),
        ("julho", "Changed 2010-07-01", "Alterada em 2010-07-01"),
        ("only31", "Seen 2026-09-22", "Vista em 2026-09-22"),
    ],
)
def test_results_say_what_their_date_is(site, word, english, portuguese):
    assert f">{english}</time>" in site.get(f"/?q={word}")[1]
    assert f">{portuguese}</time>" in site.get(f"/?q={word}&hl=pt")[1]
    (hit,) = json.loads(site.get(f"/search.json?q={word}")[1])["hits"]
    assert f"{hit['date_kind']} {hit['updated'][:10]}" == english.lower()
    assert ("<published>" in site.get(f"/search.atom?q={word}")[1]) == (hit["date_kind"] == "published")


def test_results_come_in_pages_that_follow_each_other(site):
    _, first = site.get("/?q=rede+net")
    _, second = site.get("/?q=rede+net&page=2")
    shown = [re.findall(r'<li value="(\d+)">', text) for text in (first, second)]
    assert shown == [[str(n) for n in range(1, 11)], [str(n) for n in range(11, 21)]]
    assert 'href="/?q=rede+net&amp;page=2"' in first
    assert 'aria-current="page">2<' in second


def test_a_page_beyond_the_last_says_how_many_there_are_and_leads_back(site):
    response, text = site.get("/?q=only1+only2&page=7")
    assert response.status == 200
    assert "There are only 2 results." in text
    assert 'rel="prev" href="/?q=only1+only2"' in text


def test_json_has_the_shape_that_others_read(site):
    response, text = site.get("/search.json?q=rede&n=3&offset=1")
    found = json.loads(text)
    assert response.getheader("content-type") == "application/json"
    assert set(found) == {"query", "total", "time_s", "hits", "suggestion", "shards"}
    assert len(found["hits"]) == 3
    assert list(found["hits"][0]) == [
        "url",
        "title",
        "snippet",
        "score",
        "in_links",
        "updated",
        "language",
        "copies",
        "type",
        "site",
        "pinned",
        "declared",
        "date_kind",
    ]
    everything = json.loads(site.get("/search.json?q=rede&n=4")[1])
    assert found["hits"] == everything["hits"][1:]


def test_all_words_is_one_click(site):
    any_word = json.loads(site.get("/search.json?q=only1+only2")[1])
    all_words = json.loads(site.get("/search.json?q=only1+only2&all=1")[1])
    for found in (any_word, all_words):
        assert (found["total"], found["instead"]) == (2, "some"), "no page holds both, and that is said"
    assert "No page holds all of the words: these hold some." in site.get("/?q=only1+only2&all=1")[1]
    assert 'name="all" value="1" form="search" checked' in site.get("/?q=rede&all=1")[1]


def test_copies_are_one_result_with_a_link_to_them(site):
    _, text = site.get("/?q=espelho")
    assert re.search(r"3 pages in \d", text)
    assert text.count("<article>") == 3
    assert 'href="/?q=espelho&amp;like=http%3A%2F%2Fm0.test%2F"' in text
    assert 'aria-label="and 3 copies of A água como espelho &amp; mais"' in text
    assert "and 3 copies</a>" in text
    assert "and 1 copy</a>" in text
    assert 'Pages that say the same are shown as one. <a href="/?q=espelho&amp;copies=1">Show every copy</a>' in text
    assert "are shown as one" not in site.get("/?q=only31")[1]


def test_copies_of_one_page_are_shown_alone_and_lead_back(site):
    _, text = site.get("/?q=espelho&like=http%3A%2F%2Fm0.test%2F")
    assert text.count("<article>") == 4
    assert "Pages that say the same as “http://m0.test/”." in text
    assert '<a href="/?q=espelho">Back to all results</a>' in text
    assert "copies</a>" not in text
    response, text = site.get("/?q=espelho&like=%22%3E%3Cscript%3Ealert(1)%3C/script%3E")
    assert response.status == 200
    assert "<script>alert" not in text


def test_every_copy_is_shown_on_request_page_after_page(site):
    _, text = site.get("/?q=espelho&copies=1")
    assert text.count("<article>") == 7
    assert 'Every copy is shown. <a href="/?q=espelho">Show copies as one</a>' in text
    _, text = site.get("/?q=rede+espelho&copies=1&all=1")
    assert '<a href="/?q=rede+espelho&amp;all=1">Show copies as one</a>' in text
    assert 'href="/?q=rede+net&amp;copies=1&amp;page=2"' in site.get("/?q=rede+net&copies=1")[1]


def test_json_tells_copies_and_shows_them_on_request(site):
    joined = json.loads(site.get("/search.json?q=espelho")[1])
    assert (joined["total"], sorted(hit["copies"] for hit in joined["hits"])) == (3, [0, 1, 3])
    apart = json.loads(site.get("/search.json?q=espelho&copies=1")[1])
    assert (apart["total"], {hit["copies"] for hit in apart["hits"]}) == (7, {0})
    alike = json.loads(site.get("/search.json?q=espelho&like=http://m1.test/moldura")[1])
    assert {hit["url"] for hit in alike["hits"]} == {"http://m0.test/moldura", "http://m1.test/moldura"}


def test_an_index_of_another_version_is_one_sentence(tmp_path):
    data = new_data(tmp_path / "data")
    schema.folder(data).mkdir(parents=True)
    builder = tantivy.SchemaBuilder().add_text_field("all")
    tantivy.Index(builder.build(), path=str(schema.folder(data))).writer(15_000_000, 1).commit()
    with RunningSite(data) as other:
        for path in ("/?q=rede", "/search.json?q=rede"):
            response, text = other.get(path)
            assert (response.status, "tarrafa rebuild index" in text) == (503, True)
        assert other.get("/")[0].status == 200


def test_relations_of_a_page_fetched_and_of_one_only_linked_to(site):
    response, text = site.get(f"/page?url={quote(url_of(0))}")
    assert response.status == 200
    assert "A tarrafa number0" in text
    assert "200 OK" in text
    assert "mais sobre 0" in text
    assert f'href="/page?url={quote(url_of(1), safe="")}"' in text
    found = json.loads(site.get(f"/page.json?url={quote(url_of(0))}")[1])
    assert {"url", "in", "out", "in_total", "out_total", "title", "status", "depth"} <= set(found)
    assert (found["url"], found["depth"], found["status"]) == (url_of(0), 0, 200)
    assert len(found["in"]) == min(50, found["in_total"]) > 3
    response, text = site.get("/page?url=http://longe.test/1")
    assert response.status == 200
    assert "never visited" in text


def test_relations_come_in_pages_too_each_side_by_itself(site):
    _, text = site.get("/page?url=http://many.test/&in=3&out=2")
    assert len(re.findall("<li>\n<a href", text)) == 20 + 50
    assert "in=2&amp;out=2#in" in text
    assert "in=3&amp;out=3#out" in text


WRONG = {
    "/?q=-rede": (400, "add at least one word"),
    "/?q=site:": (400, "needs a host name"),
    "/?q=%22%22": (400, "at least one word"),
    "/?q=rede&page=500": (400, "first 1,000 results"),
    "/?q=" + "x" * 1500: (400, "too long: 1,500 characters, at most 1,000 are read"),
    "/?q=" + "x" * 60_000: (400, "too long: 60,000 characters, at most 1,000 are read"),
    "/page": (404, "Which page?"),
    "/page?url=javascript:alert(1)": (404, "not known here"),
    "/page?url=http://nowhere.test/": (404, "not known here"),
    "/nothing": (404, "nothing at this address"),
    "/static/../app.py": (404, "nothing at this address"),
    "/static/nothing.css": (404, "nothing at this address"),
}


@pytest.mark.parametrize("path", WRONG)
def test_what_cannot_be_answered_is_one_sentence(site, path):
    code, sentence = WRONG[path]
    response, text = site.get(path)
    assert response.status == code
    assert f'role="alert">{sentence}' in text or sentence in text


@pytest.mark.parametrize(
    ("path", "code"),
    [
        ("/search.json", 400),
        ("/search.json?q=-x", 400),
        ("/search.json?q=rede&n=ten", 400),
        ("/search.json?q=rede&n=0", 400),
        ("/search.json?q=rede&n=101", 400),
        ("/search.json?q=rede&offset=-1", 400),
        ("/search.json?q=rede&offset=99999999999999999999", 400),
        ("/page.json?url=http://nowhere.test/", 404),
        ("/page.json", 404),
        ("/no.json", 404),
    ],
)
def test_json_says_what_is_wrong_as_json(site, path, code):
    response, text = site.get(path)
    assert response.status == code
    assert list(json.loads(text)) == ["error"]


def test_an_address_that_was_typed_leads_to_what_is_known_of_it(site):
    _, text = site.get(f"/?q={quote(url_of(3).upper())}&hl=pt")
    found = re.search('<a href="([^"]*)">O que se sabe deste endereço</a>', text)
    assert found is not None
    path = found[1].replace("&amp;", "&")
    assert path.startswith("/page?url=")
    response, _ = site.get(f"/?q={quote(url_of(3))}")
    assert response.status == 200
    for other in ("rede http://a.br/", "ftp://a.br/", "http://", "http://[", '"http://a.br/"'):
        assert "What is known of this address" not in site.get(f"/?q={quote(other)}&hl=en")[1]


@pytest.mark.parametrize(
    "path",
    ["/?q=rede&page=abc", "/?q=rede&page=-3", "/?q=%00%ff%fe", "/?q=%F0%9F%90%9F", "/?all=7&q=a+b", "/page?url=http://many.test/&in=x",
     "/page?url=http://many.test/&in=99999", "/?q=rede&collection=nobody", "/?q=%7B%7B7*7%7D%7D", "/?q=%25s%7B0%7D"],
)  # fmt: skip
def test_nothing_that_can_be_typed_is_an_error_of_ours(site, path):
    response, _ = site.get(path)
    assert response.status in {200, 400}


def test_what_the_web_wrote_is_shown_and_never_run(site):
    for path in ("/?q=zaragata", f"/page?url={quote(HOSTILE_URL, safe='')}", "/page?url=http://evil.test/x"):
        response, text = site.get(path)
        assert response.status == 200
        assert "alert" in text, path
        assert "<script>alert" not in text
        assert "<img" not in text
        assert 'onmouseover="' not in text
    _, echoed = site.get("/?q=" + quote('"><script>alert(9)</script>'))
    assert "<script>alert" not in echoed


@pytest.mark.parametrize(
    "path", ["/", "/?q=rede", "/?q=-x", "/nothing", "/search.json?q=rede", "/static/style.css", "/healthz"]
)
def test_every_answer_is_shielded(site, path):
    response, _ = site.get(path)
    policy = response.getheader("content-security-policy") or ""
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert response.getheader("x-content-type-options") == "nosniff"
    assert response.getheader("referrer-policy") == "no-referrer"
    assert response.getheader("server") is None


SCRIPTS = '<script src="/static/autocomplete.js" defer><script src="/static/keyboard.js" defer>'


def test_style_and_scripts_are_asked_for_once_and_anew_when_they_change(site):
    _, text = site.get("/")
    addresses = re.findall(r'(?:href|src)="(/static/[^"]*)"', text)
    assert len(addresses) >= 3
    for one in addresses:
        response, _ = site.get(one)
        assert (response.status, "immutable" in str(response.getheader("cache-control"))) == (200, True)
        for other in (one.partition("?")[0], one[:-1] + "x"):
            assert site.get(other)[0].getheader("cache-control") == "no-cache"
    assert site.get("/static/nothing.css?v=0")[0].status == 404


def test_pages_hold_no_inline_script_or_style(site):
    for path in ("/", "/?q=rede", f"/page?url={quote(url_of(0))}", "/status", "/nothing"):
        _, text = site.get(path)
        assert " style=" not in text
        assert "<style" not in text
        assert re.sub(r"\?v=[0-9a-f]{12}", "", "".join(re.findall(r"<script[^>]*>", text))) == SCRIPTS


def test_status_is_shown_where_somebody_can_tell(site, small):
    assert "1,234" in site.get("/status")[1]
    told = json.loads(site.get("/status.json")[1])
    assert told["collections"][0]["name"] == "small"
    assert '<a href="/status">' in site.get("/")[1]

    async def failed() -> FrontierOverview:
        one = CollectionStatus("small", "finished", "no root", 1, 0, 0, 1, 1, 0.0, statuses={"404": 1})
        return FrontierOverview([one], [])

    with RunningSite(small, failed) as other:
        assert "<td>failed <span" in other.get("/status")[1]

    async def away() -> FrontierOverview:
        raise FrontierError("run/frontier.sock: nobody answers")

    with RunningSite(small, away) as other:
        response, text = other.get("/status")
        assert (response.status, "nobody answers" in text) == (503, True)
    with RunningSite(small) as other:
        assert other.get("/status")[0].status == 404
        assert '<a href="/status">' not in other.get("/")[1]


def test_status_is_told_at_this_machine_only_where_nobody_can_sign_in(site):
    for headers in ({"X-Forwarded-For": "203.0.113.9"}, {"Host": "evil.test"}):
        for path in ("/status", "/status.json"):
            response, text = site.get(path, headers=headers)
            assert (response.status, "shown to local requests" in text) == (403, True)
            assert "small" not in text
        assert 'href="/status"' not in site.get("/", headers=headers)[1]


def test_head_and_health(site):
    response, text = site.get("/healthz")
    assert (response.status, text) == (200, "ok\n")
    assert site.get("/?q=rede", "HEAD")[0].status == 200
    assert site.get("/", "POST")[0].status == 405


def test_before_anything_is_indexed_the_pages_say_so(tmp_path):
    with RunningSite(new_data(tmp_path / "empty")) as empty:
        assert "no page has been indexed" in empty.get("/")[1]
        for path in ("/?q=rede", "/page?url=http://a.test/", "/search.json?q=rede"):
            response, text = empty.get(path)
            assert response.status == 503
            assert "indexed yet" in text


def test_a_port_in_use_is_said_before_anything_starts(small):
    with bind(port=0) as taken:
        port = taken.getsockname()[1]
        sentence = f"127.0.0.1:{port}: the port is already in use; choose another with --port"
        with pytest.raises(ListenError) as caught:
            run(small, port=port)
        assert str(caught.value) == sentence
        with pytest.raises(ListenError):
            asyncio.run(serve(small, port=port))


@pytest.mark.parametrize(("host", "port"), [("127.0.0.1", 70_000), ("192.0.2.1", 0), ("no.such.host.invalid", 0)])
def test_where_nobody_can_listen_is_said_too(host, port):
    with pytest.raises(ListenError, match=re.escape(host)):
        bind(host, port)


def test_a_process_that_only_serves_ends_cleanly_on_ctrl_c(small):
    code = f"""
from pathlib import Path
from tarrafa.runtime.data_dir import DataDirectory
from tarrafa.server.http_server import run
run(DataDirectory(Path({str(small.root)!r})), port=0, on_ready=lambda address: print(address, flush=True))
"""
    with subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as child:
        assert child.stdout is not None
        assert child.stdout.readline().startswith("http://127.0.0.1:")
        child.send_signal(signal.SIGINT)
        _, said = child.communicate(timeout=30)
    assert (child.returncode, said) == (0, "")


async def test_serving_in_another_loop_ends_when_cancelled_and_frees_its_port(small):
    with reserved_port() as port, socket.socket() as client:
        ready: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        task = asyncio.create_task(serve(small, port=port, on_ready=ready.set_result))
        assert await ready == f"http://127.0.0.1:{port}/"
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert client.connect_ex(("127.0.0.1", port)) != 0


def test_only_web_addresses_become_links():
    assert safe_href("https://a.test/") == "https://a.test/"
    for bad in ("javascript:alert(1)", "data:text/html,x", "//a.test/", "JAVASCRIPT:x", ""):
        assert safe_href(bad) == "about:blank"


def test_numbers_below_a_list():
    assert list(Pager.of(1, 95, 10).numbers) == list(range(1, 10))
    assert list(Pager.of(10, 95, 10).numbers) == list(range(2, 11))
    assert list(Pager.of(50, 5000, 10, 1000).numbers) == list(range(46, 55))
    assert Pager.of(1, 5000, 10, 1000).last == 100
    assert list(Pager.of(7, 0, 10).numbers) == [1]


def test_addresses_leave_out_what_is_empty_and_escape_the_rest():
    assert address("/", q="a&b=c", all="", page=2) == "/?q=a%26b%3Dc&page=2"
    assert address("/") == "/"


def test_a_status_is_a_number_and_its_meaning():
    assert [status_text(code, ENGLISH) for code in (200, 404, -7, 799, None)] == [
        "200 OK",
        "404 Not Found",
        "-7 excluded by robots.txt",
        "799",
        "never visited",
    ]


async def test_a_fault_in_a_file_of_the_operator_is_not_described_to_visitors(tmp_path):
    pages = PageResponses(new_data(tmp_path / "data"), None)
    request = Request({"type": "http", "method": "GET", "path": "/suggest", "query_string": b"", "headers": []})
    response = await pages.error_response(request, ConfigError("/srv/data/search.toml: not valid TOML"))
    assert response.status_code == 500 and b"search.toml" not in response.body
