"""Which pages only send their readers on, and which have content of their own."""

import pytest

from tarrafa.crawl.worker.outcome import sends_readers_on
from tarrafa.model import Page
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
