"""Sitemaps and feeds: what they list, as the standards have it and as the Web writes it."""

import gzip
import time
import zlib
from html import escape

import msgspec
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tarrafa.model import Listing, ListingEntry
from tarrafa.parse import listing_text
from tarrafa.parse import sitemaps_feeds as limits
from tarrafa.parse.sitemaps_feeds import parse_sitemap_or_feed
from tarrafa.parse.url import URL_LENGTH_MAX, UrlIdentity, canonical

URL = "http://h.test/dir/sitemap.xml"
XMLNS = 'xmlns="http://www.sitemaps.org/schemas/sitemap/0.9"'
NEW_YEAR_2005 = 1_104_537_600.0


def read(text: str | bytes, content_type: str = "", **options: UrlIdentity) -> Listing:
    return parse_sitemap_or_feed(text.encode() if isinstance(text, str) else text, URL, content_type, **options)


def urls(text: str | bytes, content_type: str = "") -> list[str]:
    return [entry.url.removeprefix("http://h.test") for entry in read(text, content_type).entries]


def urlset(*entries: str) -> str:
    return f"<urlset {XMLNS}>{''.join(f'<url>{entry}</url>' for entry in entries)}</urlset>"


# The examples of https://www.sitemaps.org/protocol.html


def test_sitemaps_org_a_sitemap_with_all_tags():
    found = read("""<?xml version="1.0" encoding="UTF-8"?>
        <urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9">
           <url><loc>http://www.example.com/</loc><lastmod>2005-01-01</lastmod>
              <changefreq>monthly</changefreq><priority>0.8</priority></url>
           <url><loc>http://www.example.com/catalog?item=12&amp;desc=vacation_hawaii</loc>
              <changefreq>weekly</changefreq></url>
           <url><loc>http://www.example.com/catalog?item=74&amp;desc=vacation_newfoundland</loc>
              <lastmod>2004-12-23T18:00:15+00:00</lastmod><priority>0.3</priority></url>
        </urlset>""")
    assert found == Listing(
        entries=(
            ListingEntry("http://www.example.com/", NEW_YEAR_2005),
            ListingEntry("http://www.example.com/catalog?item=12&desc=vacation_hawaii"),
            ListingEntry("http://www.example.com/catalog?item=74&desc=vacation_newfoundland", 1_103_824_815.0),
        ),
        kind="sitemap",
    )


def test_sitemaps_org_an_index_lists_sitemaps():
    found = read("""<?xml version="1.0" encoding="UTF-8"?>
        <sitemapindex xmlns="http://www.sitemaps.org/schemas/sitemap/0.9">
           <sitemap><loc>http://www.example.com/sitemap1.xml.gz</loc>
              <lastmod>2004-10-01T18:23:17+00:00</lastmod></sitemap>
           <sitemap><loc>http://www.example.com/sitemap2.xml.gz</loc><lastmod>2005-01-01</lastmod></sitemap>
        </sitemapindex>""")
    assert found == Listing(
        sitemaps=(
            ListingEntry("http://www.example.com/sitemap1.xml.gz", 1_096_654_997.0),
            ListingEntry("http://www.example.com/sitemap2.xml.gz", NEW_YEAR_2005),
        ),
        kind="sitemapindex",
    )


def test_sitemaps_org_a_text_file_has_one_url_a_line():
    found = read("http://www.example.com/catalog?item=1\r\nhttp://www.example.com/catalog?item=11\n\n")
    assert found.kind == "text" and not found.cut
    mixed = "http://h.test/1\nHTTPS://H.test/2\r http://h.test/3 \nno url\n/4\nftp://h.test/5\nhttp://h.test/6"
    assert urls(mixed) == ["/1", "https://h.test/2", "/3", "/6"]


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("http://www.example.com/&#252;mlat.html&amp;q=name", "http://www.example.com/%C3%BCmlat.html&q=name"),
        ("http://www.example.com/%FCmlat.html&amp;q=name", "http://www.example.com/%FCmlat.html&q=name"),
        ("http://www.example.com/%C3%BCmlat.html&amp;q=name", "http://www.example.com/%C3%BCmlat.html&q=name"),
        ("http://h.test/&apos;&quot;&lt;&gt;", "http://h.test/'%22%3C%3E"),
    ],
)
def test_sitemaps_org_urls_are_escaped_for_xml(written, meant):
    assert read(urlset(f"<loc>{written}</loc>")).entries == (ListingEntry(meant),)


@pytest.mark.parametrize(("limit", "cut"), [(3, False), (2, True)])
def test_sitemaps_org_what_is_beyond_the_number_of_urls_is_cut(monkeypatch, limit, cut):
    monkeypatch.setattr(limits, "SITEMAP_URLS_MAX", limit)
    for text in (urlset(*(f"<loc>/{n}</loc>" for n in range(3))), "http://h.test/0\nhttp://h.test/1\nhttp://h.test/2"):
        found = read(text)
        assert found.entries == tuple(ListingEntry(f"http://h.test/{n}") for n in range(limit))
        assert found.cut == cut


def test_sitemaps_org_what_is_beyond_the_number_of_bytes_is_cut(monkeypatch):
    text = urlset("<loc>/1</loc>", "<loc>/2</loc>").encode()
    for body in (text, gzip.compress(text)):
        monkeypatch.setattr(limits, "SITEMAP_BYTES_MAX", len(text))
        assert read(body).cut is False
        monkeypatch.setattr(limits, "SITEMAP_BYTES_MAX", text.index(b"/2"))
        assert (urls(body), read(body).cut) == (["/1"], True)
    monkeypatch.setattr(limits, "SITEMAP_BYTES_MAX", 20)
    assert (urls("http://h.test/1\nhttp://h.test/2"), read("http://h.test/1\nhttp://h.test/2").cut) == (["/1"], True)


# Namespaces and extensions


def test_the_locations_of_images_videos_news_and_translations_are_no_pages():
    assert urls(f"""<urlset {XMLNS} xmlns:image="http://www.google.com/schemas/sitemap-image/1.1"
        xmlns:video="http://www.google.com/schemas/sitemap-video/1.1" xmlns:xhtml="http://www.w3.org/1999/xhtml"
        xmlns:news="http://www.google.com/schemas/sitemap-news/0.9"><url>
        <image:image><image:loc>/image.jpg</image:loc></image:image><image:loc>/stray.jpg</image:loc>
        <image xmlns="http://www.google.com/schemas/sitemap-image/1.1"><loc>/default.jpg</loc></image>
        <video:video><video:content_loc>/video.mp4</video:content_loc></video:video>
        <xhtml:link rel="alternate" hreflang="de" href="/de"/>
        <news:news><news:publication_date>1999-01-01</news:publication_date></news:news>
        <loc>/page</loc></url></urlset>""") == ["/page"]  # fmt: skip


@pytest.mark.parametrize(
    "markup",
    [
        "<urlset><url><loc>/1</loc></url></urlset>",
        "<urlset xmlns='http://wrong.example/'><url><loc>/1</loc></url></urlset>",
        "<URLSET><Url><LOC>/1</LOC></Url></URLSET>",
        f"<s:urlset {XMLNS.replace('xmlns', 'xmlns:s')}><s:url><s:loc>/1</s:loc></s:url></s:urlset>",
        f"<urlset {XMLNS.replace('xmlns', 'xmlns:s')}><s:url><s:loc>/1</s:loc></s:url></urlset>",
        f"<urlset {XMLNS.replace('=', ':s=').replace('http', 'https')}><s:url><s:loc>/1</s:loc></s:url></urlset>",
        "<undeclared:urlset><undeclared:url><undeclared:loc>/1</undeclared:loc></undeclared:url></undeclared:urlset>",
        "<urlset><url><image:image><image:loc>/2</image:loc></image:image><loc>/1</loc></url></urlset>",
        "<urlset><url><loc><![CDATA[/1]]></loc><loc>/2</loc></url></urlset>",
        "<urlset><url><loc>\n\t/1 \n</loc></url></urlset>",
        "<urlset><url><loc/><loc> </loc><loc>/1</loc></url></urlset>",
        "\n \ufeff<?xml version='1.0'?><urlset><url><loc>/1</loc></url></urlset> and more < & rubbish",
        "<!DOCTYPE urlset><urlset><url><loc>/1</loc></url></urlset>",
        "<!-- <urlset> --><?php ?><urlset><url><!-- <loc>/2</loc> --><loc>/1</loc></url></urlset>",
        "<urlset><url><loc>/\x001\x08</loc></url></urlset>",
    ],
)
def test_lenient_a_sitemap_in_whatever_namespace_is_one(markup):
    assert urls(markup) == ["/1"]
    assert read(markup).kind == "sitemap" and not read(markup).cut


def test_lenient_an_index_may_hold_pages_and_a_sitemap_may_hold_sitemaps():
    mixed = "<sitemap><loc>/s.xml</loc></sitemap><url><loc>/p</loc></url>"
    for root in ("urlset", "sitemapindex"):
        found = read(f"<{root}>{mixed}</{root}>")
        assert (found.entries, found.sitemaps) == (
            (ListingEntry("http://h.test/p"),),
            (ListingEntry("http://h.test/s.xml"),),
        )


# URLs


def test_each_url_is_listed_once_with_its_latest_change():
    dates = ("<lastmod>2004</lastmod>", "<lastmod>2005</lastmod>", "<lastmod>never</lastmod>", "")
    found = read(urlset(*(f"<loc>http://H.test:80/a/../b#{n}</loc>{date}" for n, date in enumerate(dates))))
    assert found.entries == (ListingEntry("http://h.test/b", NEW_YEAR_2005),)


def test_what_is_no_http_url_and_the_list_itself_are_not_listed():
    locations = ("ftp://h.test/", "mailto:a@b", "http://", "http://[::1", "javascript:x", "", "#", "sitemap.xml", "/1")
    assert urls(urlset(*(f"<loc>{location}</loc>" for location in locations))) == ["/1"]


def test_urls_are_what_the_collection_takes_for_the_same():
    found = read(urlset("<loc>/A/</loc>", "<loc>/a</loc>"), identity=UrlIdentity(fold_case=True, strip_slash=True))
    assert found.entries == (ListingEntry("http://h.test/a"),)


def test_a_change_in_the_future_stands_as_told():
    assert read(urlset("<loc>/1</loc><lastmod>2999-01-01</lastmod>")).entries[0].changed > 3e10


# Feeds


RSS_2 = """<?xml version="1.0"?><rss version="2.0" xmlns:atom="http://www.w3.org/2005/Atom"><channel>
<link>/home</link><atom:link href="/feed" rel="self"/><pubDate>Sat, 01 Jan 2000 00:00:00 GMT</pubDate>
<image><url>/logo.png</url><link>/logo</link></image>
<item><title>A &amp; B</title><link>/1</link><guid>/g</guid><pubDate>Sat, 01 Jan 2005 00:00:00 GMT</pubDate></item>
<item><guid>http://h.test/2</guid></item><item><guid isPermaLink="false">http://h.test/3</guid></item>
<item><guid isPermaLink="true">4</guid><description>&lt;a href="/5"></description></item>
<item><atom:link rel="alternate" href="/6"/><source url="/7">x</source><enclosure url="/8.mp3"/><comments>/9</comments>
<link><![CDATA[ /10?a=1&b=2 ]]></link></item></channel></rss>"""

RSS_1 = """<?xml version="1.0" encoding="ISO-8859-1"?>
<rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#" xmlns="http://purl.org/rss/1.0/"
 xmlns:date="http://purl.org/dc/elements/1.1/"><channel rdf:about="/"><link>/home</link><date:date>2000</date:date>
<items><rdf:Seq><rdf:li rdf:resource="/1"/></rdf:Seq></items></channel>
<item rdf:about="/1"><link>/1</link><date:date>2005-01-01T00:00:00Z</date:date></item>
<item rdf:about="http://h.test/2"><title>x</title></item></rdf:RDF>"""

ATOM = """<?xml version="1.0" encoding="utf-8"?><feed xmlns="http://www.w3.org/2005/Atom">
<link href="/home"/><link rel="self" href="/feed"/><updated>2000-01-01T00:00:00Z</updated>
<entry><link rel="edit" href="/e"/><link rel="alternate" href="/1"/><link href="/1b"/>
<published>2004-01-01T00:00:00Z</published><updated>2005-01-01T00:00:00Z</updated></entry>
<entry><source><link href="/s"/><updated>1999-01-01T00:00:00Z</updated></source>
<link href="/2"/><content type="xhtml"><div><a href="/a">x</a><link href="/c"/></div></content>
<published>2005-01-01T00:00:00Z</published></entry>
<entry><link rel="http://www.iana.org/assignments/relation/alternate" href=" 3 "/></entry>
<entry><link rel="enclosure" href="/4.mp3"/><id>http://h.test/4</id></entry></feed>"""


@pytest.mark.parametrize(
    ("text", "kind", "expected"),
    [
        (RSS_2, "rss", [("/1", NEW_YEAR_2005), ("/2", 0.0), ("/10?a=1&b=2", 0.0)]),
        (RSS_1, "rss", [("/1", NEW_YEAR_2005), ("/2", 0.0)]),
        (ATOM, "atom", [("/1", NEW_YEAR_2005), ("/2", NEW_YEAR_2005), ("/dir/3", 0.0)]),
    ],
    ids=["RSS 2.0", "RSS 1.0", "RFC 4287"],
)
def test_feeds_list_their_items(text, kind, expected):
    found = read(text)
    assert [(entry.url.removeprefix("http://h.test"), entry.changed) for entry in found.entries] == expected
    assert (found.kind, found.cut, found.sitemaps) == (kind, False, ())


@pytest.mark.parametrize(
    "text",
    [
        '<!DOCTYPE rss PUBLIC "-//Netscape Communications//DTD RSS 0.91//EN" "http://my.netscape.com/rss-0.91.dtd">'
        '<rss version="0.91"><channel><item><title>a&nbsp;b</title><link>/1</link></item></channel></rss>',
        '<rdf:RDF xmlns:rdf="x" xmlns="http://my.netscape.com/rdf/simple/0.9/"><item><link>/1</link></item></rdf:RDF>',
        '<a:feed xmlns:a="http://www.w3.org/2005/Atom"><a:entry><a:link href="/1"/></a:entry></a:feed>',
        '<feed version="0.3" xmlns="http://purl.org/atom/ns#"><entry><link rel="alternate" href="/1"/></entry></feed>',
        '<feed xml:base="http://h.test/x/"><entry xml:base="../y/"><link xml:base="/z/" href="../1"/></entry></feed>',
        '<feed xml:base="http://h.test/x/"><entry><link href="../1"/></entry></feed>',
        '<feed xml:base="nonsense:"><entry xml:base="http://["><link href="/1"/></entry></feed>',
        '<feed><entry><link>/1</link></entry></feed>',
    ],
)  # fmt: skip
def test_feeds_of_all_ages_are_read(text):
    assert (urls(text), read(text).cut) == (["/1"], False)


# Encodings


@pytest.mark.parametrize(
    ("codec", "declared", "content_type"),
    [
        ("utf-8", "", ""), ("utf-8-sig", "", ""), ("utf-8-sig", "iso-8859-1", "text/xml; charset=iso-8859-1"),
        ("utf-16", "UTF-16", ""), ("utf-16-le", "UTF-16", ""), ("utf-16-be", "", ""), ("iso-8859-1", "ISO-8859-1", ""),
        ("cp1252", "Windows-1252", ""), ("cp1252", "", "text/xml; charset=windows-1252"), ("utf-8", "utf-16", ""),
        ("cp1252", "utf-8", "application/xml;charset=latin1"), ("cp1251", "windows-1251", ""), ("gb18030", "gbk", ""),
        ("utf-8", "no-such-thing", ""), ("koi8-r", "koi8-r", ""),
    ],
)  # fmt: skip
def test_the_encoding_is_that_of_mark_header_or_declaration(codec, declared, content_type):
    letter = {"cp1251": "ж", "koi8-r": "ж", "gb18030": "汉"}.get(codec, "ç")
    head = f"<?xml version='1.0'{f' encoding={declared!r}' if declared else ''}?>"
    body = (head + urlset(f"<loc>http://h.test/{letter}</loc>")).encode(codec)
    assert read(body, content_type).entries == (ListingEntry(canonical(f"http://h.test/{letter}") or ""),)
    assert read(gzip.compress(body), content_type) == read(body, content_type)


@pytest.mark.parametrize("rubbish", [b"\x1b$bcdefghijklm", b"\x1b$\xcf\xef\xe7\xd9\nht?>tp:t"])
def test_what_breaks_pythons_decoder_is_read_all_the_same(rubbish):
    assert urls(b"http://h.test/1\n" + rubbish, "text/plain; charset=iso-2022-jp") == ["/1"]


def test_text_in_any_encoding_is_read():
    assert urls("http://h.test/ç\nhttp://h.test/2".encode("utf-16")) == ["/%C3%A7", "/2"]
    assert urls("http://h.test/ç".encode("cp1252"), "text/plain; charset=windows-1252") == ["/%C3%A7"]


# Broken files


@pytest.mark.parametrize(
    ("broken", "expected", "cut"),
    [
        ("<loc>/2?a=1&b=2&copy=3&amp;d=4</loc>", "/2?a=1&b=2&copy=3&d=4", False),
        ("<loc>/2</loc><title>a&nbsp;b</title>", "/2", False),
        ("<loc><![CDATA[/2?a[]=1&b]]></loc><x>", "/2?a[]=1&b", False),
        ("<image:loc>/no</image:loc><loc>/2</loc></image:image>", "/2", False),
        ("<loc a=b>/2&nbsp;&#x41;&#233;</loc>", "/2%C2%A0A%C3%A9", False),
        ("<loc>/2</loc ></lastmod>", "/2", False),
    ],
)
def test_lenient_what_is_no_xml_is_read_all_the_same(broken, expected, cut):
    found = read(urlset("<loc>/1</loc>", broken, "<loc>/3</loc><lastmod>2005</lastmod>"))
    assert [entry.url for entry in found.entries] == [f"http://h.test{path}" for path in ("/1", expected, "/3")]
    assert (found.entries[2].changed, found.kind, found.cut) == (NEW_YEAR_2005, "sitemap", cut)


@pytest.mark.parametrize(
    "before",
    ["Warning: x in y.php on line 3\n", "<br />\n<b>Notice</b>: x<br />\n", "<?xml version=1.0?>",
    "<?xml encoding='x'?>"],
)  # fmt: skip
def test_lenient_what_a_program_said_before_the_xml_is_passed_over(before):
    for text in (urlset("<loc>/1</loc>"), "<rss><item><link>/1</link></item></rss>"):
        assert urls(f"{before}<?xml version='1.0'?>{text}") == ["/1"]


def test_lenient_broken_feeds_are_read_all_the_same():
    bad = "<p>&nbsp;</b>"
    assert urls(RSS_2.replace("<channel>", f"<channel>{bad}")) == ["/1", "/2", "/10?a=1&b=2"]
    assert urls(RSS_1.replace("</channel>", f"{bad}</channel>")) == ["/1"]
    broken = read(ATOM.replace("<entry>", f"<entry>{bad}"))
    assert {f"http://h.test{path}" for path in ("/1", "/dir/3")} <= {entry.url for entry in broken.entries}


def test_lenient_nothing_is_lost_where_two_pieces_meet(monkeypatch):
    entries = [f"<loc><![CDATA[/{n}?a&b]]></loc><lastmod>2005</lastmod>" for n in range(30)]
    text = urlset("<x>&nbsp;</x>", *entries, *(f"<loc>/{n}?c&d</loc>" for n in range(30)))
    whole = read(text)
    assert len(whole.entries) == 60 and not whole.cut
    for size in range(16, 90):
        monkeypatch.setattr(listing_text, "PIECE_BYTES", size)
        assert read(text) == whole
        assert read(text.replace("&nbsp;", "").replace("&d", "").encode("utf-16")).entries[:30] == whole.entries[:30]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("<urlset><url><loc>/1</loc></url><url><loc>/2", ["/1"]),
        ("<urlset><url><loc>/1</loc></url><url><loc>/2</loc><lastm", ["/1", "/2"]),
        ("<urlset>&<url><loc>/1</loc></url><url><loc>/2", ["/1"]),
        ("<urlset>&<url><loc>/1</loc></url><url><loc>/2</loc>", ["/1", "/2"]),
        ("<urlset><url><loc>/1</loc></url><!-- <url><loc>/2</loc></url>", ["/1"]),
    ],
)
def test_a_file_that_ends_too_soon_is_cut(text, expected):
    assert (urls(text), read(text).cut) == (expected, True)


@pytest.mark.parametrize(
    "text",
    [
        "", " \n ", "hello", "hello\nhttp but no url", "<", "<>", "<html><url><loc>/1</loc></url></html>",
        "<!doctype html><title>404</title><link href=/1><feed>", "<opml><item><link>/1</link></item></opml>",
        '{"url": "http://h.test/1"}', "%PDF-1.4\n", "\0" * 100, "\x1f\x8b", "\x89PNG\r\n\x1a\n",
    ],
)  # fmt: skip
def test_what_is_no_listing_lists_nothing(text):
    found = read(text.encode("latin-1"))
    assert (found.entries, found.sitemaps, found.kind) == ((), (), "")


def test_a_base_that_is_no_url_lists_nothing():
    assert parse_sitemap_or_feed(urlset("<loc>http://h.test/1</loc>").encode(), "nonsense").entries == ()


# gzip


def test_a_gzipped_sitemap_of_several_members_and_rubbish_is_read():
    text = urlset("<loc>/1</loc>").encode()
    body = b"".join(gzip.compress(text[at : at + 10]) for at in range(0, len(text), 10))
    assert (urls(body), read(body).cut) == (["/1"], False)
    assert (urls(body + b"\0" * 1_000), read(body + b"rubbish").cut) == (["/1"], False)


def test_a_gzip_stream_that_ends_too_soon_or_is_damaged_gives_what_was_there():
    lines = "".join(f"http://h.test/{n * 7919 % 10_007}\n" for n in range(5_000)).encode()
    body = gzip.compress(lines)
    whole = urls(lines)
    for broken in (body[: len(body) // 2], body[: len(body) // 2] + b"\xff" * 1_000, body[:-4]):
        found = read(broken)
        listed = [entry.url.removeprefix("http://h.test") for entry in found.entries]
        assert found.cut and listed[:1_000] == whole[:1_000]


# Hostile files. Each must be over in a moment: the times are those of a slow machine that does other things too.


def bomb(start: bytes, megabytes: int) -> bytes:
    """`start` and then blanks, in gzip. After a full flush nothing depends on what was before: a block repeats."""
    zipper = zlib.compressobj(9, wbits=31)
    head = zipper.compress(start) + zipper.flush(zlib.Z_FULL_FLUSH)
    return head + (zipper.compress(b" " * 1_000_000) + zipper.flush(zlib.Z_FULL_FLUSH)) * megabytes


LAUGHS = "".join(f"<!ENTITY a{n} '{f'&a{n - 1};' * 10}'>" for n in range(1, 12))
HOSTILE = {
    "billion laughs": f"<!DOCTYPE a [<!ENTITY a0 'ha'>{LAUGHS}]>{urlset('<loc>&a11;</loc>')}",
    "quadratic blow-up": f"<!DOCTYPE a [<!ENTITY a '{'a' * 50_000}'>]>" + urlset(f"<loc>{'&a;' * 9_000}</loc>"),
    "external entity": f'<!DOCTYPE a [<!ENTITY x SYSTEM "file:///etc/passwd">]>{urlset("<loc>&x;</loc>")}',
    "parameter entity": f'<!DOCTYPE a [<!ENTITY % x SYSTEM "http://h.test/x"> %x;]>{urlset("<loc>/1</loc>")}',
    "100,000 nested": "<urlset>" + "<url>" * 100_000,
    "100,000 nested, closed": "<urlset>" + "<a>" * 100_000 + "</a>" * 100_000 + "</urlset>",
    "100,000 nested, broken": "<urlset>&" + "<url><loc>" * 100_000,
    "endless loc": "<urlset><url><loc>http://h.test/" + "x" * 3_000_000,
    "endless loc, broken": "<urlset>&<url><loc>http://h.test/" + "x" * 3_000_000,
    "endless loc in pieces": "<urlset><url><loc>http://h.test/" + "<![CDATA[x]]>&#65;" * 200_000,
    "endless attribute": "<urlset><url a='" + "x" * 3_000_000,
    "endless comment": "<urlset><!--" + "- " * 1_500_000,
    "endless name": "<" + "x" * 3_000_000,
    "a million names": "<urlset>" + "".join(f"<a{n}/>" for n in range(200_000)),
    "a million attributes": "<urlset>" + "".join(f"<a a{n}=''/>" for n in range(200_000)),
    "a million entries": "<urlset>" + "<url/>" * 500_000,
    "broken tags": "<urlset>&" + "<" * 3_000_000,
    "broken data": "<urlset>&" + "<loc><![CDATA[" * 200_000,
    "broken attributes": "<feed>&<entry>" + ("<link " + " href=" * 3_000 + ">") * 100,
    "broken entities": "<feed>&<entry><updated>" + "&amp;" * 300_000,
    "line without end": "http://h.test/" + "x" * 3_000_000,
    "lines of nothing": "x\n" * 1_500_000,
    "blanks": " " * 3_000_000,
}  # fmt: skip


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_files_list_nothing_and_cost_little(name):
    body = HOSTILE[name].encode()
    begun = time.process_time()
    found = read(body)
    assert time.process_time() - begun < 3
    assert (found.entries, found.sitemaps) == ((), ())


@pytest.mark.parametrize("name", [name for name, text in HOSTILE.items() if "<!ENTITY" in text])
def test_who_declares_entities_is_read_no_further(name):
    assert read(HOSTILE[name]) == Listing(cut=True)
    assert urls("<urlset><url><loc>/1</loc></url></urlset>" + HOSTILE[name]) == ["/1"]


def test_a_gigabyte_in_a_megabyte_costs_no_more_than_fifty():
    body = bomb(urlset("<loc>/1</loc>").removesuffix("</urlset>").encode(), 1_000)
    assert len(body) < 1_100_000
    begun = time.process_time()
    found = read(body)
    assert time.process_time() - begun < 5
    assert (found.entries, found.cut) == ((ListingEntry("http://h.test/1"),), True)


def test_the_largest_sitemap_is_read_in_time():
    other = "<lastmod>2005-01-01T00:00:00Z</lastmod><changefreq>daily</changefreq>"
    entries = (f"<loc>http://h.test/{n}</loc>{other}" for n in range(50_000))
    begun = time.process_time()
    found = read(gzip.compress(urlset(*entries).encode(), 1))
    assert time.process_time() - begun < 10
    assert (len(found.entries), found.cut) == (50_000, False)


# Properties


TOKENS = [
    "<urlset>", "</urlset>", "<sitemapindex>", "<rss>", "<rdf:RDF>", "<feed>", "</feed>", "<url>", "</url>",
    "<sitemap>", "</sitemap>", "<loc>", "</loc>", "<lastmod>", "</lastmod>", "<item>", "</item>", "<entry>",
    "</entry>", "<link>", "</link>", "<link href='/a'/>", "<link rel=alternate href=", "<guid isPermaLink='false'>",
    "</guid>", "<pubDate>", "</pubDate>", "<image:loc>", "</image:loc>", "<![CDATA[", "]]>", "<!--", "-->",
    "<?xml version='1.0'?>", "<!DOCTYPE a>", "<!DOCTYPE a [", "<!ENTITY a 'b'>", "]>", "&amp;", "&nbsp;", "&a;",
    "&#0;", "&#xD800;", "&", "<", ">", "'", '"', "/a", "http://h.test/", "http://[", "2005-01-01",
    "Sat, 01 Jan 2005 00:00:00 GMT", "\x00", "\n", " ", "ç", "\ufffe", "x" * 300, "<s:urlset>", "<s:url>",
    "xml:base='//'", "\ud800",
]  # fmt: skip
tokens = st.lists(st.sampled_from(TOKENS), max_size=40).map("".join)
encoded = st.tuples(tokens, st.sampled_from(["utf-8", "utf-16", "utf-16-le", "cp1252"])).map(
    lambda drawn: drawn[0].encode(drawn[1], "replace")
)
NAMES = ["urlset", "url", "loc", "lastmod", "rss", "item", "link", "feed", "entry", "updated"]
well_formed = st.recursive(
    st.sampled_from(["/a", "/b", "2005", "&amp;", "<![CDATA[x]]>", "<!-- x -->", ""]),
    lambda inner: st.builds(
        lambda name, children: f"<{name}>{''.join(children)}</{name}>", st.sampled_from(NAMES), st.lists(inner)
    ),
    max_leaves=30,
)
content_types = st.one_of(st.text(), st.sampled_from(["text/xml", "text/plain; charset=utf-16", ""]))
bodies = st.one_of(st.binary(max_size=2_000), encoded, well_formed.map(str.encode), encoded.map(gzip.compress))


@settings(deadline=None)
@given(
    bodies,
    st.one_of(st.text(), st.sampled_from(["text/xml", "text/plain; charset=utf-16", ""])),
    st.sampled_from([URL, "", "x"]),
)
@example(b"<urlset>" + b"\xff" * 100, "", URL)
@example(b"\x1f\x8b" + b"\0" * 100, "", URL)
def test_any_bytes_give_a_bounded_listing(body, content_type, url):
    found = parse_sitemap_or_feed(body, url, content_type)
    assert found == parse_sitemap_or_feed(body, url, content_type)
    listed = found.entries + found.sitemaps
    assert all(canonical(entry.url) == entry.url and len(entry.url) <= URL_LENGTH_MAX for entry in listed)
    assert all(entry.changed >= 0 for entry in listed)
    assert len({entry.url for entry in found.entries}) == len(found.entries)
    assert found.kind in ("", "sitemap", "sitemapindex", "text", "rss", "atom")
    assert found.kind or not listed
    assert msgspec.json.decode(msgspec.json.encode(found), type=Listing) == found


@settings(deadline=None)
@given(bodies)
def test_a_listing_that_is_written_down_again_is_the_same(body):
    found = parse_sitemap_or_feed(body, URL)
    again = "".join(
        f"<{tag}><loc>{escape(entry.url)}</loc><lastmod>{date(entry.changed)}</lastmod></{tag}>"
        for tag, entries in (("url", found.entries), ("sitemap", found.sitemaps))
        for entry in entries
    )
    for text in (f"<urlset>{again}</urlset>", f"<urlset>&{again}</urlset>"):
        assert read(text) == Listing(found.entries, found.sitemaps, "sitemap")


def date(changed: float) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(changed)) if changed else ""


@settings(deadline=None, max_examples=50)
@given(encoded, st.integers(16, 200))
def test_the_size_of_the_pieces_makes_no_difference_to_well_formed_files(body, size):
    text = urlset("<loc>/1</loc>").encode() + body
    expected = read(text)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(listing_text, "PIECE_BYTES", size)
        assert read(text) == expected
