"""Links: what a reader could follow, and no more."""

import time
from typing import Any

import pytest

from tarrafa.model import Link
from tarrafa.parse import link_extractor as limits
from tarrafa.parse.link_extractor import encode_query
from tarrafa.parse.page import parse
from tarrafa.parse.url import UrlIdentity

PAGE = "http://h.test/dir/page.html"


def links(markup: str, content_type: str = "text/html; charset=utf-8", codec: str = "utf-8", **more: Any) -> list[Link]:
    return list(parse(markup.encode(codec), PAGE, content_type, **more).links)


@pytest.mark.parametrize(
    ("markup", "expected"),
    [
        ("<a href=a>Um</a>", Link("http://h.test/dir/a", "Um")),
        ("<A HREF=/a>Um</A>", Link("http://h.test/a", "Um")),
        ("<a href='a b'>Um</a>", Link("http://h.test/dir/a%20b", "Um")),
        ("<a href='\n a\t\n'>Um</a>", Link("http://h.test/dir/a", "Um")),
        ("<a href='a?x=1&amp;y=2&copy=3'>Um</a>", Link("http://h.test/dir/a?x=1&y=2&copy=3", "Um")),
        ("<a href=a>  Um\n <b>dois</b>\n</a>", Link("http://h.test/dir/a", "Um dois")),
        ("<div><a href=a><h3>Um</h3><p>dois</p></a></div>", Link("http://h.test/dir/a", "Um dois")),
        ("<a href=a><img src=x alt='Foto de Roma'></a>", Link("http://h.test/dir/a", "Foto de Roma")),
        ("<a href=a title=Dica></a>", Link("http://h.test/dir/a", "Dica")),
        ("<a href=a REL='NoFollow  UGC'>Um</a>", Link("http://h.test/dir/a", "Um", "nofollow ugc")),
        ("<map><area href=a alt=Mapa></map>", Link("http://h.test/dir/a", "Mapa")),
        ("<iframe src=a>fallback</iframe>", Link("http://h.test/dir/a")),
        ("<frameset><frame src=a></frameset>", Link("http://h.test/dir/a")),
        ("<link rel=next href=a>", Link("http://h.test/dir/a", "", "next")),
        ("<link rel=alternate hreflang=en href=/en>", Link("http://h.test/en", "", "alternate")),
        ("<meta http-equiv=refresh content='0; url=a'>", Link("http://h.test/dir/a")),
        ("<noscript><a href=a>Um</a></noscript>", Link("http://h.test/dir/a", "Um")),
        ("<p><a href=a>Um<p><table><a href=a>", Link("http://h.test/dir/a", "Um")),
        ("<base href=/b/><base href=/c/><a href=a>Um</a>", Link("http://h.test/b/a", "Um")),
        ("<a href=a>Um</a><base href=http://i.test/>", Link("http://i.test/a", "Um")),
        ("<base href='javascript:x'><a href=a>Um</a>", Link("http://h.test/dir/a", "Um")),
    ],
)
def test_a_link_is_found(markup, expected):
    assert links(markup) == [expected]


@pytest.mark.parametrize(
    "markup",
    [
        "<a>Um</a>", "<a name=x>Um</a>", "<a href='javascript:void(0)'>x</a>", "<a href='mailto:a@b'>x</a>",
        "<a href='http://'>x</a>",
        "<a href='data:text/html,x'>x</a>", "<a href=''>x</a>", "<a href='#top'>x</a>", "<a href=page.html>x</a>",
        "<form action=a><input type=submit formaction=b></form>", "<img src=a srcset='b 2x'>",
        "<script src=a></script>",
        "<link rel=stylesheet href=a>", "<link rel=icon href=a>", "<link rel='alternate stylesheet' href=a>",
        "<link href=a>",
        "<link rel=alternate type=application/rss+xml href=a>", "<link rel=canonical href=a>",
        "<template><a href=a>x</a></template>",
        "<!-- <a href=a>x</a> -->", "<script>'<a href=a>x</a>'</script>", "<textarea><a href=a>x</a></textarea>",
        "<meta http-equiv=refresh content=30>",
    ],
)  # fmt: skip
def test_what_leads_to_no_other_page_is_no_link(markup):
    assert links(markup) == []


def test_two_links_to_one_page_are_one_with_the_first_words():
    assert links("<a href=a></a><a href=a#x>Um</a><a href=a>Dois</a>") == [Link("http://h.test/dir/a", "Um")]


@pytest.mark.parametrize(
    ("first", "second", "expected"), [("nofollow", "", ""), ("", "nofollow", ""),
    ("nofollow ugc", "ugc nofollow", "nofollow ugc")]
)  # fmt: skip
def test_a_page_is_nofollow_only_if_every_link_to_it_is(first, second, expected):
    assert links(f"<a href=a rel='{first}'>Um</a><a href=a rel='{second}'>Um</a>")[0].rel == expected


def test_the_number_of_links_and_their_texts_are_bounded(monkeypatch):
    monkeypatch.setattr(limits, "LINKS_MAX", 10)
    found = links("".join(f"<a href={number} rel='{'x' * 500}'>{'palavra ' * 500}</a>" for number in range(50)))
    assert len(found) == 10
    assert all(
        len(link.anchor) <= limits.ANCHOR_LENGTH_MAX and len(link.rel) <= limits.REL_LENGTH_MAX for link in found
    )


def test_an_anchor_within_an_anchor_leaves_its_words_to_the_inner_one():
    found = links("<a href=a>Um<table><tr><td><a href=b>Dois</a></table></a>")
    assert found == [Link("http://h.test/dir/a"), Link("http://h.test/dir/b", "Dois")]


def test_links_are_what_the_collection_takes_for_the_same():
    found = links("<a href=A/>x</a><a href=a>y</a><a href=PAGE.html>z</a>", identity=UrlIdentity(True, True))
    assert found == [Link("http://h.test/dir/a", "x")]


def test_whatwg_a_query_is_sent_in_the_encoding_of_its_page():
    found = links("<a href='ç?q=ação–…&lt;&#1078;#ç'>x</a>", "text/html; charset=iso-8859-1", "cp1252")
    assert found == [Link("http://h.test/dir/%C3%A7?q=a%E7%E3o%96%85%3C%26%231078%3B", "x")]
    assert links("<a href='?q=ação'>x</a>")[0].url == "http://h.test/dir/page.html?q=a%C3%A7%C3%A3o"


@pytest.mark.parametrize(
    ("charset", "query", "expected"),
    [
        ("windows-1252", "çжж€", "%E7%26%231078%3B%26%231078%3B%80"), ("windows-1251", "ж", "%E6"),
        ("shift_jis", "ソ表", "%83\\%95\\"), ("gbk", "汉", "%BA%BA"), ("euc-kr", "한ж", "%C7%D1%AC%D8"),
        ("windows-1252", "\ud800\U0001f600", "%26%2355296%3B%26%23128512%3B"), ("euc-jp", "日é", "%C6%FC%8F%AB%B1"),
    ],
)  # fmt: skip
def test_whatwg_a_query_is_percent_encoded_after_encoding(charset, query, expected):
    assert encode_query(f"/ç?{query}#{query}", charset) == f"/ç?{expected}#{query}"


def test_whatwg_long_queries_in_a_legacy_encoding_cost_little():
    markup = "".join(f"<a href='?{'a&#231;ж' * 400}{number}'>x</a>" for number in range(500))
    begun = time.process_time()
    links(markup, "text/html; charset=koi8-r", "koi8-r")
    assert time.process_time() - begun < 2


@pytest.mark.parametrize("href", ["ç", "?q=a", "#?ç", "a?b#ç", "?"])
def test_only_the_query_depends_on_the_encoding(href):
    assert encode_query(href, "windows-1252") == href


def test_an_encoding_that_python_lacks_leaves_the_query_to_utf_8():
    assert encode_query("?ç", "x-unheard-of") == "?ç"


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
    found = parse(f"<title>…</title><script>{script}</script>".encode(), PAGE, "text/html; charset=utf-8")
    assert [link.url for link in found.links] == [f"http://h.test{target}" for target in targets]
    assert not found.refresh


def test_what_the_body_does_when_it_is_loaded_counts_and_data_in_a_script_does_not():
    assert [link.url for link in links("<body onload=\"location='/a'\">")] == ["http://h.test/a"]
    for attributes in ('type="application/json"', 'type="text/x-template"', 'src="/app.js"'):
        assert links(f'<script {attributes}>location = "/a"</script>') == []


def test_the_scripts_of_a_page_with_text_are_not_read():
    text = "O pescador da vila lança a rede ao mar. " * 8
    assert links(f'<p>{text}</p><script>location = "/a"</script>') == []


@pytest.mark.parametrize(
    "script",
    ["location" * 100_000, "location " * 100_000, 'location="' * 100_000, "window." * 100_000 + 'location="/a"',
     "location" + " " * 500_000, 'location="' + "\\" * 500_000, "location='a'+" * 50_000,
     'location="a"' + "+location.hash" * 50_000],
)  # fmt: skip
def test_a_hostile_script_costs_little(script):
    document, began = f"<script>{script}</script>", time.process_time()
    assert len(links(document)) <= limits.TARGETS_MAX
    assert time.process_time() - began < 0.5
