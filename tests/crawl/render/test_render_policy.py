"""Which pages a browser renders, and what becomes of the document."""

import subprocess
import sys

import pytest

from tarrafa.config.sections import Collection, RenderConfig
from tarrafa.crawl.render.page_render import RenderedDocument
from tarrafa.crawl.render.render_policy import (
    FRUITLESS_MAX,
    THIN_CHARS,
    RenderedPage,
    _with_base,
    has_gained,
    holds_application,
    merge_fetched,
    reason_to_render,
)
from tarrafa.crawl.worker.host_memory import HostMemory
from tarrafa.crawl.worker.parser_with_sandbox import ParseJobResult
from tarrafa.model import Link, Page, RenderFacts, RobotsMeta
from tarrafa.parse.url import UrlIdentity

HOST = "http://a.br:80"
URL = "http://a.br/x"
SHELL = b'<html><body><div id="app"></div><script src="/a.js"></script></body></html>'
ARTICLE = b"<html><body><p>text</p><script>count()</script></body></html>"


def reason(
    body: bytes = SHELL,
    text: str = "",
    kind: str = "text/html",
    memory: HostMemory | None = None,
    when: str = "auto",
    hosts: tuple[str, ...] | None = None,
) -> str | None:
    render = RenderConfig(when=when, hosts=hosts)  # type: ignore[arg-type]
    why = reason_to_render(
        Collection(name="c", render=render), HOST, kind, body, Page(URL, text=text), memory or HostMemory()
    )
    return None if why is None else str(why)


@pytest.mark.parametrize(
    "markup",
    [
        '<div id="app">',
        "<div class=x id='root'></div>",
        "<main id=__next>",
        '<DIV ID="__nuxt">',
        "<app-root></app-root>",
        '<script type="module" crossorigin src="/assets/index.js"></script>',
        "<noscript>You need to enable JavaScript to run this app.</noscript>",
        "<noscript><p>Ative o JavaScript</p></noscript>",
        '<html ng-app="shop">',
        '<body class="dark">\n  <shop-front theme="a"></shop-front>',
    ],
)
def test_root_of_an_application_is_recognised(markup):
    assert holds_application(markup.encode())


@pytest.mark.parametrize(
    "markup",
    [
        '<div id="content">',
        '<div id="apple">',
        "<p>the app</p>",
        "<script src=/jquery.js></script>",
        "<noscript><img src=/count.gif></noscript>",
        '<a href="#root">root</a>',
        "<body><p>A film: <video-player src=a></video-player>",
    ],
)
def test_ordinary_page_holds_no_application(markup):
    assert not holds_application(markup.encode())


def test_auto_renders_a_thin_page_with_a_root_and_says_why():
    assert reason(text="Loading") == "little text (7 characters) and the root of an application"
    assert reason(text="x" * THIN_CHARS) is None
    assert reason(ARTICLE, "text") is None
    assert reason(kind="text/plain") is None
    assert reason(kind="application/vnd.wap.xhtml+xml") is not None
    assert reason(SHELL.replace(b"script", b"span")) is None


def test_host_where_rendering_helped_is_remembered_across_sessions():
    memory = HostMemory()
    memory.count_rendered_page(has_gained=True)
    content = memory.encode_if_changed(is_leaving=True, is_idle=True)
    assert content is not None
    again = HostMemory(content)
    assert reason(text="x" * THIN_CHARS, memory=again) is not None
    assert reason(ARTICLE, "x" * THIN_CHARS, memory=again) is None


def test_host_where_rendering_never_helped_is_not_tried_again():
    memory = HostMemory()
    for _ in range(FRUITLESS_MAX):
        assert reason(memory=memory) is not None
        memory.count_rendered_page(has_gained=False)
    assert reason(memory=memory) is None
    assert reason(memory=memory, when="always") is not None


def test_always_renders_pages_with_scripts_and_never_renders_nothing():
    assert reason(ARTICLE, "x" * THIN_CHARS, when="always") == "[render] when = always"
    assert reason(b"<p>no program</p>", when="always") is None
    assert reason(when="never") is None


def test_only_the_named_hosts_are_rendered():
    assert reason(hosts=("a.br",)) is not None
    assert reason(hosts=("*.a.br", "b.br")) is None


def test_directives_of_the_fetched_page_hold_for_the_rendered_one():
    fetched = Page(URL, robots=RobotsMeta(noindex=True))
    made = ParseJobResult(page=Page(URL, robots=RobotsMeta(nofollow=True)))
    page = merge_fetched(fetched, made, RenderedPage(RenderFacts("")), UrlIdentity()).page
    assert page is not None
    assert page.robots == RobotsMeta(noindex=True, nofollow=True)


def test_where_scripts_wanted_to_go_is_a_link():
    made = ParseJobResult(page=Page(URL, links=(Link("http://a.br/b"),)))
    targets = ("http://a.br/b", "http://a.br/c#top", "javascript:x()")
    page = merge_fetched(Page(URL), made, RenderedPage(RenderFacts("", moved_to=targets)), UrlIdentity()).page
    assert page is not None
    assert [link.url for link in page.links] == ["http://a.br/b", "http://a.br/c"]


def test_gain_is_text_or_links():
    assert has_gained(Page(URL, text="x"), Page(URL, text="x" * 200))
    assert has_gained(Page(URL), Page(URL, links=(Link("http://a.br/b"),)))
    assert not has_gained(Page(URL, text="x" * 50), Page(URL, text="x" * 60))


@pytest.mark.parametrize(
    ("html", "base", "expected"),
    [
        ("<html><head></head></html>", URL, "<html><head></head></html>"),
        ("<html><head></head></html>", f"{URL}#part", "<html><head></head></html>"),
        ("<html><head></head></html>", 'http://a.br/"y', '<html><head><base href="http://a.br/&quot;y"></head></html>'),
        ('<head><base href="/z">', "http://a.br/z", '<head><base href="/z">'),
        ("<html><head></head></html>", "about:blank", "<html><head></head></html>"),
    ],
)
def test_document_whose_address_scripts_have_changed_says_what_its_links_are_relative_to(html, base, expected):
    assert _with_base(RenderedDocument(html, base), URL) == expected


def test_worker_loads_nothing_of_it_before_a_page_needs_it():
    script = "import sys, tarrafa.crawl.worker.worker; print([name for name in sys.modules if 'crawl.render' in name])"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.stdout.strip() == "[]", done.stderr
