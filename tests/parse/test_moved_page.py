"""Which pages only send their readers on, and where small scripts lead."""

import time

import pytest

from tarrafa.model import Page
from tarrafa.parse import moved_page
from tarrafa.parse.moved_page import sends_readers_on
from tarrafa.parse.page import parse

URL = "http://h.test/d/page"
STORY = "O pescador da vila lança a rede ao mar de manhã cedo e volta com os peixes para casa. " * 8
MENU = "".join(f'<li><a href="/m{number}">Uma entrada do menu {number}</a>' for number in range(40))


def page(markup: str, url: str = URL) -> Page:
    return parse(markup.encode(), url, "text/html; charset=utf-8")


def refreshing(body: str, content: str = "0; url=/new", head: str = "") -> str:
    return f'<html><head>{head}<meta http-equiv="refresh" content="{content}"></head><body>{body}</body></html>'


# Shapes of generators and servers, shortened.
MOVED = {
    "hugo": '<!doctype html><html lang="en-us"><head><title>http://h.test/new/</title><link rel="canonical" '
    'href="http://h.test/new/"><meta name="robots" content="noindex"><meta charset="utf-8"><meta http-equiv="refresh" '
    'content="0; url=http://h.test/new/"></head></html>',
    "jekyll-redirect-from": refreshing(
        '<h1>Redirecting&hellip;</h1><a href="/new">Click here if you are not redirected.</a>',
        head="<title>Redirecting&hellip;</title><script>location='/new'</script>",
    ),
    "mkdocs-redirects": refreshing("Redirecting...", head="<title>Redirecting...</title>"),
    "sphinx-reredirects": '<html><head><meta http-equiv="refresh" content="0; url=new.html"></head></html>',
    "docusaurus": '<!DOCTYPE html><html><head><meta charset="UTF-8"><meta http-equiv="refresh" content="0; '
    'url=/docs/a"><link rel="canonical" href="/docs/a"></head><script>window.location.href = '
    '"/docs/a" + window.location.search + '
    "window.location.hash;</script></html>",
    "rustdoc": refreshing('<p>Redirecting to <a href="../a/struct.B.html">../a/struct.B.html</a>...</p>'),
    "wordpress": refreshing("", "1;url=https://www.h.test/blog/"),
    "a phpBB message in a template": refreshing(
        f"<ul>{MENU}</ul><h2>Information</h2><p>You have been logged out. <a href='/'>Return to the index page</a></p>",
        "3;url=./index.php",
    ),
    "a moved site": refreshing(
        "<h1>Mudamos!</h1><p>O nosso sítio tem agora um novo endereço. Por favor, atualize os seus favoritos e avise "
        "os seus amigos. Se o seu navegador não o levar para lá em cinco segundos, <a href='/new'>clique aqui</a>. "
        "Obrigado pela visita, e até já no novo endereço, onde tudo o que estava aqui continua a existir.</p>",
        "4; URL=/new",
    ),
    "a login bounce": refreshing("<p>Please wait, we are signing you in…</p>", "0;url=/login?next=%2Fd%2Fpage"),
    "a splash picture": refreshing('<a href="/home"><img src="splash.jpg"></a>', "3; url=/home"),
}
KEPT = {
    "an article": refreshing(f"<article><h1>Rede</h1><p>{STORY}</p></article>"),
    "a landing page": refreshing(f"<h1>Bem-vindos à vila</h1><p>{STORY}</p><a href=/home>Entrar</a>", "3; url=/home"),
    "a portal that reloads itself": refreshing(f"<p>{STORY}</p>", "2; url=/d/page"),
    "a portal that reloads as another URL": refreshing(f"<ul>{MENU}</ul><p>{STORY}</p>", "1; url=/d/page?reload=1"),
    "a short page that reloads itself": refreshing("<p>12:00</p>", "1; url=http://h.test/d/page"),
    "an article about redirects": refreshing(f"<p>Click here. {STORY}</p>"),
    "time to read": refreshing("<p>Leia com calma.</p>", "5; url=/new"),
    "reload without a target": refreshing("<p>12:00</p>", "0"),
    "for browsers without scripts": '<noscript><meta http-equiv="refresh" content="0; url=/plain"></noscript><p>x</p>',
    "a frameset": '<frameset cols="20%,80%"><frame src="menu.html"><frame src="main.html"></frameset>',
}  # fmt: skip


@pytest.mark.parametrize("shape", MOVED)
def test_a_page_that_only_sends_its_readers_on_is_a_redirect(shape):
    found = page(MOVED[shape])
    assert sends_readers_on(found)
    assert found.refresh in {link.url for link in found.links}


@pytest.mark.parametrize("shape", KEPT)
def test_a_page_with_content_of_its_own_is_kept_and_its_refresh_is_a_link(shape):
    found = page(KEPT[shape])
    assert not sends_readers_on(found)
    assert found.refresh in {link.url for link in found.links} | {"", URL}


@pytest.mark.parametrize(
    ("script", "targets"),
    [
        ('location = "/a"', ["/a"]),
        ("location.href='/a'", ["/a"]),
        ('window.location.href = "http:\\/\\/h.test\\/a\\u0026b\\x3d1";', ["/a&b=1"]),
        ('window.location.replace("/a");', ["/a"]),
        ("self.location.assign('/a')", ["/a"]),
        ('top.location="/a"', ["/a"]),
        ("document.location.href = `/a`", ["/a"]),
        ("if (top != self) { top.location.href = '/a' } else location.replace('/b')", ["/a", "/b"]),
        ("location.href = '/a' + window.location.search + location.hash;", ["/a"]),
        ("location.href = '/a' + language", []),
        ("location.href = `/a/${language}`", []),
        ('if (location.href == "/a") {}', []),
        ('map.location = "/a"; mylocation = "/b"; const location$ = "/c"', []),
        ('location.hash = "#a"', []),
        ('location = "javascript:void(0)"', []),
        ("".join(f'location="/{number}";' for number in range(9)), ["/0", "/1", "/2", "/3"]),
    ],
)
def test_the_literal_target_of_a_small_script_page_is_a_link(script, targets):
    found = page(f"<title>…</title><script>{script}</script>")
    assert [link.url for link in found.links] == [f"http://h.test{target}" for target in targets]
    assert not found.refresh


def test_what_the_body_does_when_it_is_loaded_counts_and_data_in_a_script_does_not():
    assert [link.url for link in page("<body onload=\"location='/a'\">").links] == ["http://h.test/a"]
    for attributes in ('type="application/json"', 'type="text/x-template"', 'src="/app.js"'):
        assert page(f'<script {attributes}>location = "/a"</script>').links == ()


def test_the_scripts_of_a_page_with_text_are_not_read():
    assert page(f'<p>{STORY}</p><script>location = "/a"</script>').links == ()


@pytest.mark.parametrize(
    "script",
    ["location" * 100_000, "location " * 100_000, 'location="' * 100_000, "window." * 100_000 + 'location="/a"',
     "location" + " " * 500_000, 'location="' + "\\" * 500_000, "location='a'+" * 50_000,
     'location="a"' + "+location.hash" * 50_000],
)  # fmt: skip
def test_a_hostile_script_costs_little(script):
    document, began = f"<script>{script}</script>", time.process_time()
    assert len(page(document).links) <= moved_page.TARGETS_MAX
    assert time.process_time() - began < 0.5
