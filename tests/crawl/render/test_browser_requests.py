"""What the browser is refused without any request, and what answers are shared."""

from types import SimpleNamespace
from typing import Any, cast

import pytest

from tarrafa.config.sections import Collection, ScopeConfig
from tarrafa.crawl.render import browser_requests
from tarrafa.crawl.render.browser_requests import AnswerCache, BrowserRequests, HostMeans, _headers_for_browser
from tarrafa.crawl.render.page_render import AskedRequest, BrowserAnswer
from tarrafa.fetch.http_message import ResponseHead
from tarrafa.model import Status


def requests_of(scope: ScopeConfig | None = None) -> BrowserRequests:
    """Of a page on a.br, whose robots.txt forbids /private and where /gone is taken down. Nothing can be fetched."""
    collection = Collection(name="c", scope=scope or ScopeConfig())
    means: Any = SimpleNamespace(
        polite_fetcher=SimpleNamespace(collection=collection),
        robots_fetch=SimpleNamespace(allows=lambda url: "/private" not in url),
        admission=lambda: SimpleNamespace(is_taken_down=lambda url: "/gone" in url),
        host_key="http://a.br:80",
    )
    return BrowserRequests(cast(HostMeans, means), AnswerCache(), float("inf"))


@pytest.mark.parametrize(
    ("url", "status", "changes"),
    [
        ("http://a.br/private/x.json", Status.ROBOTS, {}),
        ("http://a.br/gone.json", Status.TAKEN_DOWN, {}),
        ("http://a.br/api", Status.OUT_OF_SCOPE, {"method": "POST"}),
        ("http://a.br/api", Status.OUT_OF_SCOPE, {"method": "DELETE"}),
        ("file:///etc/passwd", Status.OUT_OF_SCOPE, {}),
        ("ftp://a.br/x", Status.OUT_OF_SCOPE, {}),
        ("http://a.br/skipped/x", Status.OUT_OF_SCOPE, {}),
        ("http://a.br/beacon", Status.TYPE_NOT_WANTED, {"kind": "Ping"}),
        ("http://a.br/manifest", Status.TYPE_NOT_WANTED, {"kind": "Manifest"}),
        ("http://a.br/events", Status.TYPE_NOT_WANTED, {"headers": {"accept": "text/event-stream"}}),
        ("http://a.br/next", Status.TYPE_NOT_WANTED, {"headers": {"sec-purpose": "prefetch"}}),
    ],
)
async def test_request_is_refused_without_contact_and_noted(url, status, changes):
    requests = requests_of(ScopeConfig(exclude=("*/skipped/*",)))
    asked = AskedRequest(url, **({"method": "GET", "kind": "XHR", "headers": {}} | changes))
    assert await requests.answer(asked) is None
    assert [(one.url, one.status) for one in requests.asked] == [(url, status)]


async def test_page_does_not_send_us_around_many_hosts(monkeypatch):
    requests = requests_of()
    monkeypatch.setattr(browser_requests, "OTHER_HOSTS_MAX", 0)
    assert await requests.answer(AskedRequest("http://b.br/x", "GET", "Script", {})) is None
    assert [str(one.why) for one in requests.asked] == ["more than 0 other hosts"]


def test_browser_gets_no_cookie_and_no_encoding():
    fields = (
        ("content-type", "text/css"),
        ("set-cookie", "a=1"),
        ("content-encoding", "gzip"),
        ("access-control-allow-origin", "*"),
        ("x-odd", "a\x00b"),
    )
    assert [name for name, _ in _headers_for_browser(ResponseHead(200, fields))] == [
        "content-type",
        "access-control-allow-origin",
    ]


def test_shared_answers_are_bounded_and_belong_to_one_collection(monkeypatch):
    monkeypatch.setattr(browser_requests, "KEPT_BYTES_MAX", 100)
    cache, answer = AnswerCache(), BrowserAnswer(200, (), b"x" * 60)
    cache.keep("c", "http://a.br/1", answer)
    assert cache.get("c", "http://a.br/1") is answer
    assert cache.get("d", "http://a.br/1") is None
    cache.keep("c", "http://a.br/2", answer)
    assert cache.get("c", "http://a.br/1") is None
    assert cache.get("c", "http://a.br/2") is answer
