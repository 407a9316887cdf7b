"""Pages: what they say, whatever the bytes."""

import time
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tarrafa.model import Page, RobotsMeta
from tarrafa.parse import page as limits
from tarrafa.parse import text_kernels
from tarrafa.parse.documents.document import UnreadableDocument
from tarrafa.parse.link_extractor import ANCHOR_LENGTH_MAX, LINKS_MAX
from tarrafa.parse.page import PARSER, parse
from tarrafa.parse.text_kernels import TEXT_LENGTH_MAX
from tarrafa.parse.url import URL_LENGTH_MAX, UrlIdentity, canonical

URL = "http://h.test/dir/page.html"

ARTICLE = """<!DOCTYPE html><html lang="pt-BR"><head><meta charset="utf-8"><title>
 Câmara  aprova orçamento </title><meta name="robots" content="noarchive">
<link rel="canonical" href="/orcamento"><style>p { color: red }</style>
<script type="application/ld+json">{"@context": "https://schema.org", "@type": "NewsArticle"}</script></head>
<body><nav><ul><li><a href="/">Início</a><li><a href="/politica">Política</a></ul></nav>
<h1>Câmara <em>aprova</em> orçamento</h1><p>A votação durou   três horas e terminou às dez da noite.</p>
<p>O pre<b>feito</b> disse que<br>vai sancionar a lei.</p><h2>Números</h2><table><tr><td>Saúde<td>40</table>
<noscript>Ligue o JavaScript</noscript><template>molde</template><script>var x = "não";</script></body></html>"""


def html(markup: str | bytes, content_type: str = "text/html", **options: Any) -> Page:
    return parse(markup.encode() if isinstance(markup, str) else markup, URL, content_type, **options)


def test_an_article_is_understood():
    page = html(ARTICLE)
    assert page.url == URL
    assert page.title == "Câmara aprova orçamento"
    assert page.headings == ("Câmara aprova orçamento", "Números")
    assert page.text.split("\n") == [
        "Início", "Política", "Câmara aprova orçamento", "A votação durou três horas e terminou às dez da noite.",
        "O prefeito disse que", "vai sancionar a lei.", "Números", "Saúde 40",
    ]  # fmt: skip
    assert [(link.url, link.anchor) for link in page.links] == [
        ("http://h.test/", "Início"),
        ("http://h.test/politica", "Política"),
    ]
    assert (page.language, page.charset, page.canonical) == ("pt", "utf-8", "http://h.test/orcamento")
    assert page.robots == RobotsMeta(noarchive=True)
    assert page.vocabularies == ("https://schema.org/",)
    assert (len(page.content_id), page.parser, page.refresh) == (32, PARSER, "")
    assert 0 < page.simhash < 1 << 64


@pytest.mark.parametrize("sign", ["¶", "#", "&sect;", "&#xf0c1;", "\u200b", "🔗"])
def test_a_link_from_a_heading_to_itself_is_no_text(sign):
    link = f'<a class="headerlink" href="#install" title="Permalink">{sign}</a>'
    head = f"<title>Install — Docs</title><h1>Install{link}</h1>"
    body = f"{head}<p>Run <a href='#c'>C#</a>.</p><dl><dt>run(){link}<dd>x</dl>"
    page = parse(body.encode(), "http://h.test/", "text/html; charset=utf-8")
    assert (page.headings, page.headline) == (("Install",), "Install")
    assert page.text.split("\n") == ["Install", "Run C#.", "run()", "x"]


def test_a_heading_may_end_with_a_sign():
    page = parse(b"<title>T</title><h1>C#</h1><p><a href='#'>#</a>", "http://h.test/", "text/html")
    assert page.headings == ("C#",)


def test_the_same_words_in_other_markup_have_the_same_content_id():
    plainer = ARTICLE.replace("<b>", "").replace("</b>", "").replace("<h2>", "<p>").replace("às dez", "AS: DEZ")
    assert html(plainer).content_id == html(ARTICLE).content_id != html(ARTICLE.replace("dez", "onze")).content_id


def test_a_new_title_is_a_change():
    assert html("<title>a</title>x").content_id != html("<title>b</title>x").content_id


@pytest.mark.parametrize(
    ("markup", "title"),
    [
        ("<title></title><svg><title>ícone</title></svg>", ""),
        ("<title>a</title><title>b</title>", "a"),
        ("<title>a &amp; b &lt;c></title>", "a & b <c>"),
        ("<body><p>x</p><title>tarde</title>", "tarde"),
    ],
)
def test_the_title_is_the_first_one_of_the_document(markup, title):
    assert html(markup).title == title


@pytest.mark.parametrize(
    ("markup", "text"),
    [
        ("<p>a<p>b", "a\nb"), ("a<br>b", "a\nb"), ("<b>a</b>b", "ab"), ("<div>a</div>b", "a\nb"),
        ("a&nbsp;\n b", "a b"),
        ("<pre>a\n   b\tc</pre>", "a\nb c"), ("<ul><li>a<li>b</ul>", "a\nb"), ("<blockquote>a</blockquote>", "a"),
        ("<select><option>a</select>b<textarea>c</textarea>", "b"), ("<iframe><p>a</iframe>b", "b"),
        ("<style>a</style>b", "b"),
        ("a<!-- b -->c", "ac"), ("\x00a\x00b", "ab"), ("<![CDATA[a]]>b", "b"), ("a<svg><title>i</title></svg>", "a"),
    ],
)  # fmt: skip
def test_the_text_is_what_a_reader_reads(markup, text):
    assert html(markup).text == text


@pytest.mark.parametrize(
    ("markup", "expected"),
    [
        ("<meta http-equiv=Refresh content='5; URL=/next'>", "http://h.test/next"),
        ("<base href=/b/><meta http-equiv=refresh content='0;url=next'>", "http://h.test/b/next"),
        ("<meta http-equiv=refresh content='30'>", ""),
        ("<meta http-equiv=refresh content='0; url=javascript:x'>", ""),
        ("<meta name=refresh content='0; url=/next'>", ""),
        ("<meta http-equiv=refresh content=\" 1.5 ,url = '/next' x\">", "http://h.test/next"),
        ("<meta http-equiv=refresh content='0 /next'>", "http://h.test/next"),
        ("<meta http-equiv=refresh content='0;/next'>", "http://h.test/next"),
        ("<meta http-equiv=refresh content='soon; url=/next'>", ""),
        ("<meta http-equiv=refresh content='0; url=http://[::1'>", ""),
        ("<meta http-equiv=refresh content=3><meta http-equiv=refresh content='3; /next'>", "http://h.test/next"),
    ],
)
def test_a_meta_refresh_is_noted(markup, expected):
    assert html(markup).refresh == expected


@pytest.mark.parametrize("markup", ["<noscript>{}</noscript>", "<body><noscript><p>{}</p></noscript>"])
def test_a_meta_refresh_for_browsers_without_scripts_is_a_link_and_no_redirect(markup):
    page = html(markup.format("<meta http-equiv=refresh content='0; url=/next'>"))
    assert (page.refresh, [link.url for link in page.links]) == ("", ["http://h.test/next"])


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ("5; url=/next", 5.0), ("0;url=/next", 0.0), (" 007 /next", 7.0), ("1.9;/next", 1.0), (".9;/next", 0.0),
        ("30", 0.0), ("30; url=http://[", 0.0), ("9" * 4_000 + ";/next", 999_999_999.0), ("9" * 5_000, 0.0),
        ("-5; url=/next", 0.0), ("٥; url=/next", 0.0),
    ],
)  # fmt: skip
def test_whatwg_a_meta_refresh_waits_for_whole_seconds(content, expected):
    page = html(f"<meta http-equiv=refresh content='{content}'>")
    assert page.refresh_s == expected
    assert page.refresh or not page.refresh_s


def test_the_first_refresh_that_leads_somewhere_tells_when():
    markup = "<meta http-equiv=refresh content=3><meta http-equiv=refresh content='4; /a'>"
    page = html(markup + "<meta http-equiv=refresh content='5; /b'>")
    assert (page.refresh, page.refresh_s) == ("http://h.test/a", 4.0)


@pytest.mark.parametrize(
    ("markup", "expected"),
    [
        ("<link rel=alternate hreflang=en href=/en>", (("en", "http://h.test/en"),)),
        ("<LINK REL='Alternate' HREFLANG=' PT-br ' HREF='PT'>", (("pt-br", "http://h.test/dir/PT"),)),
        ("<link rel=alternate hreflang=x-default href=page.html#a>", (("x-default", URL),)),
        ("<link rel='alternate nofollow' hreflang=en type=text/html href=/en>", (("en", "http://h.test/en"),)),
        ("<base href=//i.test><link rel=alternate hreflang=en href=/en>", (("en", "http://i.test/en"),)),
        ("<link rel=alternate hreflang=en href=/en>" * 2, (("en", "http://h.test/en"),)),
        ("<link rel=alternate hreflang=en href=mailto:x>", ()), ("<link rel=alternate hreflang=en>", ()),
        ("<link rel=alternate hreflang='' href=/en>", ()), ("<link rel=next hreflang=en href=/en>", ()),
        ("<link rel=alternate href=/en>", ()), ("<link rel='alternate stylesheet' hreflang=en href=/en>", ()),
        ("<link rel=alternate hreflang=en type=application/rss+xml href=/en>", ()),
        (f"<link rel=alternate hreflang={'x' * 36} href=/en>", ()), ("<a rel=alternate hreflang=en href=/en>x</a>", ()),
    ],
)  # fmt: skip
def test_the_page_in_other_languages_is_noted(markup, expected):
    assert html(markup).alternates == expected


@pytest.mark.parametrize(
    ("markup", "expected"),
    [
        ("<link rel=alternate type=application/rss+xml href=/feed>", ("http://h.test/feed",)),
        ("<link rel='ALTERNATE' type='Application/Atom+XML; charset=utf-8' href=f>", ("http://h.test/dir/f",)),
        ("<link rel=alternate type=application/rss+xml href=/f>" * 2, ("http://h.test/f",)),
        ("<link rel=alternate type=application/json href=/f>", ()), ("<link rel=alternate type=text/xml href=/f>", ()),
        ("<link rel=self type=application/rss+xml href=/f>", ()), ("<link type=application/rss+xml href=/f>", ()),
        ("<link rel=alternate type=application/rss+xml href=feed:x>", ()),
    ],
)  # fmt: skip
def test_the_feeds_that_a_page_announces_are_noted(markup, expected):
    page = html(markup)
    assert (page.feeds, page.links) == (expected, ())


def test_alternates_and_feeds_are_the_first_ones_and_bounded():
    page = html("".join(
        f"<link rel=alternate hreflang=l{n} href=/l{n}><link rel=alternate type=application/rss+xml href=/f{n}>"
        for n in range(200)
    ))  # fmt: skip
    assert page.alternates == tuple((f"l{n}", f"http://h.test/l{n}") for n in range(limits.ALTERNATES_MAX))
    assert page.feeds == tuple(f"http://h.test/f{n}" for n in range(limits.FEEDS_MAX))


def test_alternates_and_feeds_are_what_the_collection_takes_for_the_same():
    markup = "<link rel=alternate hreflang=en href=/A/><link rel=alternate type=application/rss+xml href=/B/>"
    page = html(markup, identity=UrlIdentity(fold_case=True, strip_slash=True))
    assert (page.alternates, page.feeds) == ((("en", "http://h.test/a"),), ("http://h.test/b",))


@pytest.mark.parametrize(
    ("markup", "header", "expected"),
    [
        ("<meta name=robots content=noindex>", "nofollow", RobotsMeta(noindex=True, nofollow=True)),
        ("<meta name=googlebot content=noindex>", "bingbot: none", RobotsMeta()),
        ("<meta name=tarrafa content=none>", "", RobotsMeta(noindex=True, nofollow=True)),
    ],
)
def test_page_and_server_may_both_ask(markup, header, expected):
    assert html(markup, x_robots_tag=header).robots == expected


@pytest.mark.parametrize(
    ("markup", "expected"),
    [("<html lang=es>ok", "es"), ("<html xml:lang=fr>ok", "fr"),
    ("<meta http-equiv=content-language content=de>ok", "de"), ("ok", "")],
)  # fmt: skip
def test_a_page_too_short_to_tell_has_the_language_that_it_claims(markup, expected):
    assert html(markup).language == expected


def test_the_charset_of_the_header_goes_before_that_of_the_page():
    page = html("<meta charset=utf-8><p>ação".encode("cp1252"), "text/html; charset=ISO-8859-1")
    assert (page.text, page.charset) == ("ação", "windows-1252")


def test_xhtml_is_read_as_html():
    body = '<?xml version="1.0"?><html xmlns="http://www.w3.org/1999/xhtml"><body><p>a</p><a href="b"/></body></html>'
    page = html(body, "application/xhtml+xml")
    assert page.text == "a" and page.links[0].url == "http://h.test/dir/b"


@pytest.mark.parametrize(
    ("markup", "title"),
    [
        ("<h2>Site</h2><h1>Notify <i>Owner</i></h1><p>text", "Notify Owner"),
        ("<title> </title><h2>Notify</h2><p>text", "Notify"),
        ("<h1>NAME</h1>\n<p>RT::Scrip - an <b>RT</b> object</p><h1>SYNOPSIS</h1>", "RT::Scrip - an RT object"),
        ("<h1>NAME</h1>", "NAME"),
        ("<p>text", ""),
    ],
)
def test_a_page_without_a_title_is_called_by_its_heading(markup, title):
    assert parse(markup.encode(), "http://a.br/", "text/html").title == title


def test_plain_text_has_a_title_and_no_links():
    page = parse(b"Primeira  linha\r\n\r\nhttp://x.test/ <a href=b>\x00", URL, "text/plain; charset=utf-8")
    assert (page.title, page.text) == ("Primeira linha", "Primeira linha\nhttp://x.test/ <a href=b>")
    assert page.links == () and page.content_id


@pytest.mark.parametrize("content_type", ["image/png", "video/mp4", "text/css", "nonsense"])
def test_of_other_types_only_the_servers_wish_is_known(content_type):
    page = parse(b"<a href=b>x</a>", URL, content_type, x_robots_tag="noindex")
    assert page == Page(url=URL, robots=RobotsMeta(noindex=True), parser=PARSER)


@pytest.mark.parametrize(
    ("body", "text"), [(b" <!doctype html><p>a", "a"), (b"\xef\xbb\xbf<p>a", "a"), (b"a < b", "a < b"),
    (b"\x89PNG\r\n\x1a\n\0", "")]
)  # fmt: skip
def test_a_missing_type_is_sniffed(body, text):
    assert parse(body, URL, "").text == text


@pytest.mark.parametrize(
    "body",
    [
        b"<div>" * 100_000, b"<b>" * 100_000 + b"x", b"<b><a href=x>" * 30_000, b"<table><tr><td><a href=x>y" * 8_000,
        b"".join(b"<a href=%d><table><tr><td>" % number for number in range(8_000)), b"<ul><li>" * 50_000,
        b"<a " + b" ".join(b"a%d=1" % number for number in range(300_000)) + b" href=z>x",
        b"<a href='" + b"x" * 1_000_000,
        b"<template>" * 20_000, b"<svg>" * 50_000, b"<select>" + b"<option>" * 50_000, b"<h1><div>" * 20_000 + b"x",
        b"&amp;" * 200_000, b"<!--" * 100_000, b"\x00" * 1_000_000, b"\xff" * 1_000_000, b"<" * 500_000,
        b"x " * 500_000,
        b"<meta charset=utf-8 " * 50_000, b"<title>" * 100_000, b"<meta name=robots content='" + b"noindex," * 100_000,
        b"<script type=application/ld+json>" * 1_000, b"<p vocab=http://a.b/>" * 30_000, b"<noscript><iframe>" * 20_000,
        b"<link rel=alternate hreflang=a href=b>" * 30_000,
        b"<link rel=alternate type=application/rss+xml href=b>" * 30_000,
        b"<p prefix='" + b"x" * 1_000_000 + b"'>", b"<p prefix='" + b"a: b " * 200_000 + b"'>",
        b"<p prefix='x: y'>" * 30_000,
        b"<p typeof='" + b"a:b " * 200_000 + b"'>", b"<p vocab='http://" + b"x" * 1_000_000 + b"'>",
        b"<p itemtype='" + b"/" * 1_000_000 + b"'>", b"<script type=application/ld+json>" + b"[" * 200_000,
        b"<html lang='" + b"x-" * 500_000 + b"'>", b"<a href='" + b"../" * 300_000 + b"'>x</a>", b"a\n" * 500_000,
        b"<a rel='" + b"x " * 500_000 + b"' href=y>x</a>", b"<a href='?" + b"\xe7" * 16_000 + b"'>x</a>" * 20,
        b"<meta http-equiv=refresh content='" + b"1" * 1_000_000, b"<meta http-equiv=refresh content=1111x>" * 20_000,
    ],
    ids=lambda body: body[:24].decode("latin-1"),
)  # fmt: skip
def test_hostile_html_gives_a_bounded_page_in_bounded_time(body):
    begun = time.process_time()
    page = html(body, "text/html")
    assert time.process_time() - begun < 5
    assert_bounded(page)


FRAGMENTS = [
    b"<a href=", b"'x y'>", b"<p>", b"</p>", b"<b>", b"</b>", b"<table>", b"<td>", b"<base href=//>", b"<title>",
    b"</title>", b"<script>",
    b"<svg>", b"<math>", b"<template>", b"<select>", b"<meta charset=", b"utf-16>",
    b"<meta http-equiv=refresh content='0;url=", b"'>",
    b"<link rel=canonical href=", b"<iframe src=", b"http://[::1", b"&#xD800;", b"&#0;", b"\x00", b"\xc3",
    b"\xff\xfe", b"<!--", b"-->",
    b"<![CDATA[", b"<plaintext>", b"<frameset>", b"<form>", b"</a>", b">", b'"', b"text ", "ção ".encode(),
    b"<html lang=pt>", b"<h1>",
    b"<link rel=alternate hreflang=en type=application/rss+xml href=", b"<meta name=robots content=none>",
    b"typeof='og:x' prefix='og: ", b"<script type=application/ld+json>{", b"<noscript>", b"<textarea>",
]  # fmt: skip
TYPES = [
    "text/html", "text/plain", "", "text/html; charset=utf-16", "text/html; charset=gb18030", "image/png",
    "application/pdf", "application/octet-stream",
]  # fmt: skip
CHARSETS = [
    "utf-8",
    "replacement",
    "x-user-defined",
    "iso-2022-jp",
    "shift_jis",
    "hz-gb-2312",
    "utf-7",
    "nonsense",
    "'",
]
content_types = st.one_of(
    st.sampled_from(TYPES), st.text(max_size=100), st.sampled_from(CHARSETS).map("text/html; charset={}".format)
)
bodies = st.one_of(st.binary(max_size=2_000), st.lists(st.sampled_from(FRAGMENTS), max_size=60).map(b"".join))


@settings(deadline=None)
@given(
    bodies, content_types, st.one_of(st.sampled_from([URL, "http://[::1]:8080/", "nonsense", ""]), st.text()), st.text()
)
def test_any_bytes_of_any_type_give_a_bounded_page_in_bounded_time(body, content_type, url, x_robots_tag):
    begun = time.process_time()
    try:
        page = parse(body, url.encode("utf-8", "replace").decode(), content_type, x_robots_tag)
    except UnreadableDocument:
        assert not content_type.startswith(("text/html", "text/plain"))
        return
    assert time.process_time() - begun < 2
    assert_bounded(page)
    assert parse(body, page.url, content_type, x_robots_tag) == page


@pytest.mark.parametrize("content_type", ["text/html", "text/plain"])
@pytest.mark.parametrize(("length", "cut"), [(99, False), (100, False), (101, True), (200, True), (201, True)])
def test_a_page_with_more_text_than_is_kept_says_so(monkeypatch, content_type, length, cut):
    for module in (limits, text_kernels):
        monkeypatch.setattr(module, "TEXT_LENGTH_MAX", 100)
    page = parse(b"x" * length, URL, content_type)
    assert (len(page.text), page.cut_text) == (min(length, 100), cut)


def assert_bounded(page: Page) -> None:
    assert len(page.text) <= TEXT_LENGTH_MAX
    assert len(page.title) <= limits.TITLE_LENGTH_MAX
    assert len(page.headings) <= limits.HEADINGS_MAX
    assert all(len(heading) <= limits.HEADING_LENGTH_MAX for heading in page.headings)
    assert len(page.links) <= LINKS_MAX
    assert all(len(link.url) <= URL_LENGTH_MAX and len(link.anchor) <= ANCHOR_LENGTH_MAX for link in page.links)
    assert len(page.alternates) <= limits.ALTERNATES_MAX and len(page.feeds) <= limits.FEEDS_MAX
    assert all(0 < len(language) <= limits.HREFLANG_LENGTH_MAX for language, _ in page.alternates)
    found = [page.refresh, page.canonical, *page.feeds, *(url for _, url in page.alternates)]
    assert all(canonical(url) == url for url in found if url)
    assert 0 <= page.refresh_s < 10**limits.REFRESH_DIGITS_MAX
    assert msgspec.json.decode(msgspec.json.encode(page), type=Page) == page
