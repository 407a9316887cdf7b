"""Tables and feeds that nothing on the Web can break."""

import csv
import io
from xml.etree import ElementTree

import pytest

from tarrafa.i18n import ENGLISH
from tarrafa.model import Hit, SearchResult
from tarrafa.server.search import feeds

ATOM = {"a": feeds.ATOM, "o": feeds.OPENSEARCH}
HOSTILE = [
    "<script>alert(1)</script>",
    "]]><x/>&amp;&lt;",
    'a" b=\'c\' <![CDATA[',
    "\x00\x08\x1b[31m\ufffe\uffff\x85",
    "=HYPERLINK(\"http://evil.test\",\"x\")",
    "+1+cmd|' /C calc'!A0",
    "-2+3",
    "@SUM(1)",
    "\t=1+1",
    "\r\n=1+1",
    "＝1+1",
    "a,b;c\nd\re\"f",
    "\u202egnp.exe",
    "",
    " " * 50,
    "𝔉" * 300,
]  # fmt: skip


def a_hit(title: str, snippet: str = "texto", url: str = "http://a.test/?a=1&b=2") -> Hit:
    return Hit(url, title, snippet, 1.5, 3, "2026-09-22T21:13:20Z", "pt", 1, "application/pdf", "a.test")


def a_result(hits: list[Hit]) -> SearchResult:
    return SearchResult("rede & <mar>", 321, 0.01, hits, None, [])


def a_feed(hits: list[Hit], title: str = "rede & <mar> – Tarrafa") -> feeds.SearchFeed:
    own = "http://t.test/search.rss?q=rede&n=5"
    return feeds.SearchFeed(a_result(hits), 20, title, "http://t.test/?q=rede", own, 1.8e9)


def rows(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text, newline="")))


def test_rfc4180_a_table_has_a_header_and_a_row_per_hit():
    text = feeds.to_csv(a_result([a_hit("Um, dois"), a_hit('Três "quatro"')]), 10)
    assert text.splitlines()[0] == "rank,url,title,snippet,score,in_links,updated,date_kind,language,type,site,copies"
    assert text.endswith("\r\n")
    found = rows(text)
    assert [row["rank"] for row in found] == ["11", "12"]
    assert [row["title"] for row in found] == ["Um, dois", 'Três "quatro"']
    assert (found[0]["score"], found[0]["in_links"], found[0]["copies"]) == ("1.5", "3", "1")


@pytest.mark.parametrize("text", HOSTILE)
def test_no_cell_is_a_formula(text):
    (row,) = rows(feeds.to_csv(a_result([a_hit(text, text)]), 0))
    for cell in (row["title"], row["snippet"]):
        assert not cell.lstrip().startswith(feeds.FORMULA_SIGNS)
        assert cell.isprintable()
    assert len(row) == len(feeds.CSV_COLUMNS)


def test_rss_2_has_what_the_specification_requires():
    root = ElementTree.fromstring(feeds.to_rss(a_feed([a_hit("Título & <b>")])))
    assert (root.tag, root.get("version")) == ("rss", "2.0")
    channel = root.find("channel")
    assert channel is not None
    assert [channel.findtext(name) for name in ("title", "link")] == ["rede & <mar> – Tarrafa", "http://t.test/?q=rede"]
    assert channel.findtext("description")
    assert channel.findtext("lastBuildDate") == "Tue, 22 Sep 2026 21:13:20 GMT"
    own = channel.find("a:link", ATOM)
    assert own is not None
    assert (own.get("rel"), own.get("href")) == ("self", "http://t.test/search.rss?q=rede&n=5")
    counts = [channel.findtext(f"o:{name}", namespaces=ATOM) for name in ("totalResults", "startIndex", "itemsPerPage")]
    assert counts == ["321", "21", "1"]
    (item,) = channel.findall("item")
    assert item.findtext("title") == "Título & <b>"
    assert item.findtext("link") == item.findtext("guid") == "http://a.test/?a=1&b=2"
    assert item.findtext("pubDate") == "Tue, 22 Sep 2026 21:13:20 GMT"


def test_rfc4287_an_atom_feed_has_what_is_required():
    root = ElementTree.fromstring(feeds.to_atom(a_feed([a_hit("Um"), a_hit("", url="http://b.test/")])))
    assert root.tag == f"{{{feeds.ATOM}}}feed"
    for name in ("title", "id", "updated", "author/a:name"):
        assert root.findtext(f"a:{name}", namespaces=ATOM), name
    links = {link.get("rel"): link.get("href") for link in root.findall("a:link", ATOM)}
    assert links == {"self": "http://t.test/search.rss?q=rede&n=5", "alternate": "http://t.test/?q=rede"}
    entries = root.findall("a:entry", ATOM)
    assert [entry.findtext("a:title", namespaces=ATOM) for entry in entries] == ["Um", "http://b.test/"]
    for entry in entries:
        assert entry.findtext("a:id", namespaces=ATOM)
        assert entry.findtext("a:updated", namespaces=ATOM) == "2026-09-22T21:13:20Z"
        assert entry.find("a:link[@rel='alternate']", ATOM) is not None


@pytest.mark.parametrize("text", HOSTILE)
def test_whatever_pages_say_feeds_stay_well_formed_and_hold_text_only(text):
    feed = a_feed([a_hit(text, text, "javascript:alert(1)")], title=text)
    for made in (feeds.to_rss(feed), feeds.to_atom(feed)):
        root = ElementTree.fromstring(made)
        names = {element.tag.rpartition("}")[2] for element in root.iter()}
        assert not names & {"script", "x", "b"}
        hrefs = [element.get("href") or "" for element in root.iter()]
        hrefs += [element.text or "" for element in root.iter("link")]
        assert not [href for href in hrefs if href.startswith("javascript")]
    summary = ElementTree.fromstring(feeds.to_rss(feed)).findtext("channel/item/description") or ""
    assert "<" not in summary, "readers take it for HTML"


def test_an_empty_feed_is_a_feed():
    for made in (feeds.to_rss(a_feed([])), feeds.to_atom(a_feed([]))):
        assert ElementTree.fromstring(made) is not None
    assert ElementTree.fromstring(feeds.to_atom(a_feed([]))).findtext("a:updated", namespaces=ATOM) == (
        "2027-01-15T08:00:00Z"
    )


def test_opensearch_1_1_tells_a_browser_where_to_ask():
    root = ElementTree.fromstring(feeds.opensearch_description("https://s.test:8443", ENGLISH))
    assert root.tag == f"{{{feeds.OPENSEARCH}}}OpenSearchDescription"
    name = root.findtext("o:ShortName", namespaces=ATOM) or ""
    assert 0 < len(name) <= 16
    assert 0 < len(root.findtext("o:Description", namespaces=ATOM) or "") <= 1024
    urls = {url.get("type"): url.get("template") or "" for url in root.findall("o:Url", ATOM)}
    assert urls["text/html"] == "https://s.test:8443/?q={searchTerms}&page={startPage?}"
    assert urls["application/x-suggestions+json"] == "https://s.test:8443/suggest?q={searchTerms}"
    assert {feeds.RSS_TYPE, feeds.ATOM_TYPE, feeds.OPENSEARCH_TYPE, "application/json"} <= set(urls)
