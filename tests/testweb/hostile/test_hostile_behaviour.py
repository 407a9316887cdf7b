"""Each corner does what it says."""

import gzip
import io
import re
import zipfile
import zlib
from collections import Counter
from collections.abc import Callable

import brotli
import pypdfium2
import pytest
import zstandard
from protego import Protego

from tarrafa.testweb import HOSTILE_HOSTS
from tarrafa.testweb.hostile import (
    broken_sitemaps,
    charsets_links,
    content_codings,
    expensive_markup,
    tls_failures,
    unwanted_types,
)
from tarrafa.testweb.hostile.unwanted_types import OFFERED_BYTES
from tarrafa.testweb.http.web_response import http_date
from tests.testweb.hostile.recorded_exchange import CLOCK, RecordedExchange, request_hostile_url

CHECKS: dict[str, Callable[[], None]] = {}


def of(*names: str) -> Callable[[Callable[[str], None]], Callable[[str], None]]:
    """Checks these corners; it is handed the beginning of their URLs."""

    def register(check: Callable[[str], None]) -> Callable[[str], None]:
        for name in names:
            whole = name if "." in name else f"{name}.corner.test"
            assert whole not in CHECKS, name
            CHECKS[whole] = lambda whole=whole: check(HOSTILE_HOSTS[whole].origin.replace("*", "www"))  # type: ignore[misc]
        return check

    return register


def test_every_corner_is_looked_at():
    assert set(CHECKS) == set(HOSTILE_HOSTS)


@pytest.mark.parametrize("name", HOSTILE_HOSTS)
def test_a_corner_does_what_it_says(name):
    CHECKS[name]()


def rules(seen: RecordedExchange) -> Protego:
    return Protego.parse(seen.body.decode("utf-8-sig", "replace"))


def codes(url: str, times: int) -> list[int]:
    memory: Counter[str] = Counter()
    return [request_hostile_url(url, memory).code for _ in range(times)]


# --- robots.txt


@of("robots-404", "robots-401", "robots-403", "robots-500")
def robots_refused(base):
    assert f"-{request_hostile_url(f'{base}/robots.txt').code}." in base


@of("robots-html", "robots-binary", "robots-delay", "robots-delay-day")
def robots_without_a_rule(base):
    seen = request_hostile_url(f"{base}/robots.txt")
    assert seen.code == 200
    assert rules(seen).can_fetch(f"{base}/private/secret.html", "Tarrafa")
    delay = rules(seen).crawl_delay("Tarrafa")
    assert delay == (86_400 if "day" in base else 0.2 if "delay" in base else None)
    assert (b"<html" in seen.body) == ("html" in base)
    assert (b"\0" in seen.body) == ("binary" in base)


@of("robots-here", "robots-gzip", "robots-long", "robots-endless", "robots-bom")
def robots_with_rules(base):
    seen = request_hostile_url(f"{base}/robots.txt")
    assert seen.endless == ("endless" in base)
    assert (seen.header("content-encoding") == "gzip") == ("gzip" in base)
    assert (len(seen.body) > 1_900_000) == ("long" in base or "endless" in base)
    assert seen.body.startswith(b"\xef\xbb\xbf") == ("bom" in base)
    told = rules(seen)
    for url, statuses in HOSTILE_HOSTS[base.removeprefix("http://")].expects.statuses.items():
        assert told.can_fetch(url, "Tarrafa") == (200 in statuses and "/late/" not in url), url


@of("robots-503", "robots-503-date")
def robots_later(base):
    times = 1 if "date" in base else 2
    assert codes(f"{base}/robots.txt", 4) == [503] * times + [200] * (4 - times)
    after = request_hostile_url(f"{base}/robots.txt").header("retry-after")
    assert after == (http_date(int(CLOCK.now()) + 1) if "date" in base else "1")


@of("robots-moved", "robots-loop", "robots-chain5", "robots-chain6")
def robots_redirected(base):
    url, hops = f"{base}/robots.txt", 0
    while (seen := request_hostile_url(url)).code == 302 and hops < 10:
        location = seen.header("location")
        url, hops = location if location.startswith("http") else base + location, hops + 1
    wanted = {"moved": 1, "loop": 10, "chain5": 5, "chain6": 6}
    assert hops == next(count for name, count in wanted.items() if name in base)
    if hops < 10:
        assert not rules(seen).can_fetch(f"{base}/private/", "Tarrafa")


@of("robots-hangs")
def robots_silent(base):
    seen = request_hostile_url(f"{base}/robots.txt")
    assert (seen.data, seen.endless) == (b"", True)


# --- not now


@of("busy-429", "busy-date", "broken")
def not_now(base):
    if "broken" in base:
        assert [codes(f"{base}/{name}.html", 3) for name in ("once", "twice", "always")] == [
            [500, 200, 200], [500, 500, 200], [500, 500, 500]]  # fmt: skip
        return
    first = request_hostile_url(f"{base}/busy.html")
    dated = "date" in base
    assert codes(f"{base}/busy.html", 3) == ([503, 200, 200] if dated else [429, 429, 200])
    assert first.header("retry-after") == (http_date(int(CLOCK.now()) + 2) if dated else "1")


# --- redirects


@of("redirects", "redirects-there", "redirects-chain", "maze")
def redirects(base):
    for url, statuses in HOSTILE_HOSTS[base.removeprefix("http://")].expects.statuses.items():
        assert request_hostile_url(url).code in statuses or statuses[0] == -16, url
    if base.endswith("//redirects.corner.test"):
        inside = {request_hostile_url(f"{base}/inside/{number}").header("location") for number in range(7)}
        assert "http://169.254.169.254/latest/meta-data/" in inside
        assert "http://2130706433/" in inside
        assert request_hostile_url(f"{base}/utf8").header("location").encode("latin-1") == "/informação.html".encode()
        assert request_hostile_url(f"{base}/without").header("location") == ""


@of("refresh")
def refresh(base):
    for path, onward in (("/loop/a.html", "b.html"), ("/loop/b.html", "a.html"), ("/chain/2.html", "3.html")):
        assert f"; url={onward}".encode() in request_hostile_url(base + path).body
    assert b'content="30; url=' in request_hostile_url(f"{base}/slow.html").body


# --- encodings


@of("encodings")
def encodings(base):
    titles = set()
    for url in HOSTILE_HOSTS["encodings.corner.test"].expects.kept:
        found = re.search(rb"<title>(.*?)</title>", request_hostile_url(url).body)
        assert found, url
        titles.add(found[1])
    assert len(titles) == 13
    assert (
        zlib.decompressobj(31).decompress(request_hostile_url(f"{base}/cut.html").data.partition(b"\r\n\r\n")[2])[:9]
        == b"<!DOCTYPE"
    )
    with pytest.raises(OSError, match="Not a gzipped file"):
        _ = request_hostile_url(f"{base}/label.html").body


@of("bombs")
def bombs_are_small_and_become_large(base):
    """Each is unpacked whole, check sums and all, but for the one that is another in a wrapping."""
    packed = {
        url: request_hostile_url(url).data.partition(b"\r\n\r\n")[2]
        for url in HOSTILE_HOSTS["bombs.corner.test"].expects.statuses
    }
    assert all(len(data) < content_codings.PACKED_BYTES_MAX for data in packed.values())
    assert content_codings.BOMB_BYTES > 1e9
    assert gzip.decompress(packed[f"{base}/gzip-gzip.html"]) == packed[f"{base}/gzip.html"]
    inflater, rest, size = zlib.decompressobj(31), packed[f"{base}/gzip.html"], 0
    while rest or not inflater.eof:
        size += len(inflater.decompress(rest, 1 << 18))
        rest = inflater.unconsumed_tail
    assert size == content_codings.BOMB_BYTES
    reader = zstandard.ZstdDecompressor().read_to_iter(packed[f"{base}/zstd.html"], write_size=1 << 20)
    assert sum(map(len, reader)) == content_codings.BOMB_BYTES
    unpacker = brotli.Decompressor()
    size = len(unpacker.process(packed[f"{base}/br.html"], output_buffer_limit=1 << 18))
    while not unpacker.is_finished():
        size += len(unpacker.process(b"", output_buffer_limit=1 << 18))
    assert size == content_codings.BOMB_BYTES


# --- hardly HTTP


@of("lengths")
def lengths(base):
    said = {name: request_hostile_url(f"{base}/{name}.html") for name in ("long", "short", "negative", "word", "none")}
    assert int(said["long"].header("content-length")) > len(said["long"].body)
    assert int(said["short"].header("content-length")) < len(said["short"].body)
    assert int(said["negative"].header("content-length")) < 0
    assert not said["word"].header("content-length").isdigit()
    assert said["none"].header("content-length") == ""
    assert len(set(re.findall(r"Content-Length: (\d+)", request_hostile_url(f"{base}/two.html").head))) == 2
    assert all(seen.ends == "close" for seen in said.values())


@of("status-lines")
def status_lines(base):
    pattern = re.compile(rb"HTTP/1\.[01] [1-5]\d\d\b")
    wrong = {name for name in ("0.9", "999", "letters", "noise", "ssh", "short")
             if not pattern.match(request_hostile_url(f"{base}/{name}.html").data)}  # fmt: skip
    assert wrong == {"0.9", "999", "letters", "noise", "ssh"}


@of("headers")
def headers(base):
    assert "\r\n\tcharset" in request_hostile_url(f"{base}/folded.html").head
    assert b"\r" not in request_hostile_url(f"{base}/bare.html").data
    assert "\0" in request_hostile_url(f"{base}/nul.html").head
    assert max(map(len, request_hostile_url(f"{base}/line.html").head.split("\r\n"))) > 300_000
    assert request_hostile_url(f"{base}/lines.html").head.count("\r\n") > 100_000
    endless = request_hostile_url(f"{base}/endless.html")
    assert endless.endless and b"\r\n\r\n" not in endless.data


@of("untyped")
def untyped(base):
    assert request_hostile_url(f"{base}/page.html").type == request_hostile_url(f"{base}/noise").type == ""
    assert b"\0" in request_hostile_url(f"{base}/noise").body


@of("unasked")
def unasked(base):
    assert [request_hostile_url(f"{base}/{code}.html").code for code in (204, 206, 304, 100)] == [204, 206, 304, 100]


@of("hints")
def hints(base):
    seen = request_hostile_url(f"{base}/103.html")
    assert seen.endless
    assert seen.data.count(b"HTTP/1.1 103") == seen.data.count(b"HTTP/") > 20


@of("empty")
def empty(base):
    seen = request_hostile_url(f"{base}/empty.html")
    assert (seen.data, seen.ends) == (b"", "close")


@of("reset")
def reset(base):
    seen = request_hostile_url(f"{base}/reset.html")
    assert seen.ends == "abort"
    assert 0 < len(seen.body) < int(seen.header("content-length"))


@of("chunks", "chunk-word", "chunk-negative", "chunk-huge", "chunk-digits")
def chunks(base):
    if base.endswith("//chunks.corner.test"):
        assert not request_hostile_url(f"{base}/cut.html").data.endswith(b"0\r\n\r\n")
        return
    seen = request_hostile_url(f"{base}/chunks.html")
    size = seen.data.partition(b"\r\n\r\n")[2].partition(b"\r\n")[0]
    assert seen.header("transfer-encoding") == "chunked"
    assert not re.fullmatch(rb"[0-9a-fA-F]{1,16}", size)
    assert seen.endless == ("digits" in base)


# --- slow


@of("slow", "loris-body", "loris-head", "stall", "mute", "endless")
def slow(base):
    path = {"slow": "/", "stall": "/half.html", "mute": "/mute.html", "endless": "/endless.html"}
    name = base.removeprefix("http://").partition(".")[0]
    seen = request_hostile_url(base + path.get(name, "/slow.html"))
    assert seen.endless == (name != "slow")
    assert bool(seen.sleeps) == (name != "endless")
    assert (b"\r\n\r\n" in seen.data) == (name not in ("loris-head", "mute"))
    if name == "stall":
        assert int(seen.header("content-length")) == 2 * len(seen.body)


# --- types and sizes


@of("image", "large", "files")
def kinds(base):
    if "files" in base:
        assert b'href="/file.mp4"' in request_hostile_url(f"{base}/").body
        return
    paths = ["/"] if "image" in base else ["/large.html", "/image"]
    for seen in (request_hostile_url(base + path) for path in paths):
        assert int(seen.header("content-length")) >= OFFERED_BYTES
        assert seen.endless
    if "large" in base:
        assert request_hostile_url(f"{base}/pdf.html").body.startswith(b"%PDF")


# --- HTML


SIGNS: dict[str, Callable[[bytes], bool]] = {
    "/div.html": lambda body: body.count(b"<div>") == 100_000,
    "/svg.html": lambda body: body.startswith(b"<svg>") and body.count(b"<g>") == 100_000,
    "/math.html": lambda body: body.startswith(b"<math>") and body.count(b"<mrow>") == 100_000,
    "/font.html": lambda body: body.count(b"<font") == 50_000,
    "/formatting.html": lambda body: body.count(b"<b id=") == 500 and body.count(b"<p>") == 50_000,
    "/misnested.html": lambda body: body.count(b"<a>") == body.count(b"</a>") == 20_000,
    "/tables.html": lambda body: body.count(b"<table>") == 20_000 and b"</table>" not in body,
    "/anchors.html": lambda body: body.count(b"<a ") == 50_000 and b"</a>" not in body,
    "/attributes.html": lambda body: (
        len(set(body.split(b"<p ")[1].split(b">")[0].split())) == expensive_markup.ATTRIBUTES
    ),
    "/links.html": lambda body: len(set(re.findall(rb"href=(\S+?)>", body))) == expensive_markup.LINKS,
    "/entities.html": lambda body: body.count(b"&") > 100_000,
    "/laughs.html": lambda body: body.count(b"<!ENTITY") == 10,
    "/url.html": lambda body: len(max(re.findall(rb'href="([^"]*)', body))) > 1_000_000,
    "/text.html": lambda body: len(body) > 1_900_000,
    "/title.html": lambda body: len(re.split(rb"</?title>", body)[1]) > 990_000,
    "/binary.html": lambda body: len(set(body)) == 256,
    "/empty.html": lambda body: not body,
    "/comment.html": lambda body: b"-->" not in body,
    "/script.html": lambda body: b"</script>" not in body,
    "/textarea.html": lambda body: b"</textarea>" not in body,
    "/nul.html": lambda body: b"re\0de" in body,
    "/": lambda body: b"<h1>" in body,
    "/good.html": lambda body: b"<h1>" in body,
}


@of("markup-deep", "markup-tree", "markup-many", "markup-long", "markup-open")
def hard_pages(base):
    for url in HOSTILE_HOSTS[base.removeprefix("http://")].expects.statuses:
        body = request_hostile_url(url).body
        assert len(body) <= 2_000_000, url
        assert SIGNS[url.removeprefix(base)](body), url


@of("charsets")
def charsets(base):
    codecs = {"header": "windows-1252", "meta": "windows-1252", "both": "utf-8-sig", "none": "windows-1252",
              "utf-16le": "utf-16", "utf-16be": "utf-16", "utf-16-meta": "utf-8", "unknown": "utf-8",
              "quoted": "iso-8859-15"}  # fmt: skip
    for name, codec in codecs.items():
        assert charsets_links.PORTUGUESE in request_hostile_url(f"{base}/{name}.html").body.decode(codec), name
    with pytest.raises(UnicodeDecodeError):
        request_hostile_url(f"{base}/invalid.html").body.decode()


@of("links", "links-there")
def links(base):
    if "there" in base:
        assert request_hostile_url(f"{base}/below.html").code == 200
        return
    body = request_hostile_url(f"{base}/written.html").body.decode()
    assert all(
        f'href="{href}"' in body for href in (*charsets_links.HREF_TARGETS, *charsets_links.HREFS_WITHOUT_TARGET)
    )
    assert all(request_hostile_url(base + target).code == 200 for target in charsets_links.HREF_TARGETS.values())


# --- traps


def hrefs(url: str) -> list[str]:
    return re.findall(r'href="([^"]*)"', request_hostile_url(url).body.decode())


@of("calendar", "session", "soft404", "facets", "babel", "login")
def new_links_for_ever(base):
    met: set[str] = set()
    url = "/"
    for _ in range(30):
        seen = request_hostile_url(base + url)
        found = [seen.header("location")] if seen.code == 302 else re.findall(r'href="([^"]*)"', seen.body.decode())
        fresh = [link.replace("&amp;", "&") for link in found if link not in met]
        assert fresh, url
        met.update(found)
        url = fresh[0]
        assert url.startswith("/") and len(url) < 2000
    bodies = {request_hostile_url(f"{base}/login?next={number}").body for number in range(60)}
    words = {re.sub(rb'href="[^"]*"', b"", body) for body in bodies}
    texts = {"facets": 8, "session": 1, "soft404": 1, "login": 1}
    assert len(words) == next((count for name, count in texts.items() if f"/{name}." in base), 60)


@of("growing", "relative")
def deeper_for_ever(base):
    assert hrefs(f"{base}/a/b/") == (["a/"] if "growing" in base else ["sub/page.html"])
    assert request_hostile_url(f"{base}/a/b/a/b/").body != request_hostile_url(f"{base}/a/b/").body


@of("mirror1", "mirror2", "mirror3")
def mirrors(base):
    assert [request_hostile_url(f"{base}{path}").data for path in ("/", "/3.html")] == [
        request_hostile_url(f"http://mirror1.corner.test{path}").data for path in ("/", "/3.html")
    ]


@of("*.wild.test")
def new_names_for_ever(base):
    names: set[str] = set()
    url = f"{base}/"
    for _ in range(30):
        found = hrefs(url)
        assert len(set(found) - names) == 2
        names.update(found)
        url = found[0]
        assert re.fullmatch(r"http://[a-z]{10}\.wild\.test/", url)


@of("flood", "*.flood.test")
def ten_thousand_hosts(base):
    if base.startswith("http://flood"):
        assert len(set(hrefs(f"{base}/"))) == 10_000
    else:
        assert (
            request_hostile_url("http://h77.flood.test/").code
            == request_hostile_url("http://h77.flood.test/robots.txt").code
            == 404
        )


# --- visitors


@of("cookie", "agents", "validators")
def visitors(base):
    if "cookie" in base:
        first = request_hostile_url(f"{base}/wall.html")
        assert (first.code, first.header("location")) == (302, "/wall.html")
        assert request_hostile_url(f"{base}/wall.html", cookie=first.header("set-cookie").partition(";")[0]).code == 200
    elif "agents" in base:
        assert request_hostile_url(f"{base}/welcome.html", agent="Other/1.0").code == 403
        assert request_hostile_url(f"{base}/welcome.html").code == 200
        assert b"Nobody/7" in request_hostile_url(f"{base}/agent.html", agent="Nobody/7").body
    else:
        assert codes(f"{base}/never.html", 2) == [304, 304]
        assert codes(f"{base}/stubborn.html", 3) == [200, 304, 304]
        memory: Counter[str] = Counter()
        one, other = (request_hostile_url(f"{base}/changing.html", memory) for _ in range(2))
        assert one.body == other.body
        assert one.header("etag") != other.header("etag")


# --- listings


@of("sitemap", "sitemap-big", "sitemap-endless", "feeds")
def listed(base):
    if base.endswith("//sitemap.corner.test"):
        assert f"{base}/sitemap-index.xml" in list(rules(request_hostile_url(f"{base}/robots.txt")).sitemaps)
        assert b"orphan-gz" in gzip.decompress(request_hostile_url(f"{base}/pages.xml.gz").body)
        assert request_hostile_url(f"{base}/bomb.xml.gz").body == content_codings.gzip_bomb()
        assert b"<!ENTITY" in request_hostile_url(f"{base}/laughs.xml").body
        assert b"/loop.xml" in request_hostile_url(f"{base}/loop-back.xml").body
    elif "big" in base:
        assert gzip.decompress(broken_sitemaps.big()).count(b"/big/") == 60_000 > broken_sitemaps.LISTED_MAX
        assert not rules(request_hostile_url(f"{base}/robots.txt")).can_fetch(f"{base}/big/7.html", "Tarrafa")
    elif "endless" in base:
        assert request_hostile_url(f"{base}/sitemap.xml").endless
    else:
        assert request_hostile_url(f"{base}/rss.xml").body.count(b"<item>") == 3
        assert request_hostile_url(f"{base}/atom.xml").body.count(b"<entry>") == 2
        assert b"application/atom+xml" in request_hostile_url(f"{base}/").body


# --- documents


@of("documents")
def documents_open(base):
    for name in ("docx", "xlsx", "pptx", "odt"):
        whole = b"".join(_members(request_hostile_url(f"{base}/report.{name}").body).values()).decode()
        assert unwanted_types.TEXT in whole, name
        assert f"{base}/from-{name}.html" in whole, name
        assert request_hostile_url(f"{base}/download?id={name}").type == unwanted_types.DOCUMENTS[name][0]
    page = pypdfium2.PdfDocument(request_hostile_url(f"{base}/report.pdf").body)[0]
    assert "pesca artesanal" in page.get_textpage().get_text_bounded()
    assert f"({base}/from-pdf.html)".encode() in request_hostile_url(f"{base}/report.pdf").body
    for name in ("locked", "torn"):
        with pytest.raises(pypdfium2.PdfiumError, match="Incorrect password" if name == "locked" else "Data format"):
            pypdfium2.PdfDocument(request_hostile_url(f"{base}/{name}.pdf").body)
    bomb = zipfile.ZipFile(io.BytesIO(request_hostile_url(f"{base}/bomb.docx").body))
    member = bomb.getinfo("word/document.xml")
    assert member.file_size > content_codings.BOMB_BYTES > 1000 * member.compress_size
    assert bomb.open(member).read(1000) == b" " * 1000


def _members(data: bytes) -> dict[str, bytes]:
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        assert archive.testzip() is None
        return {name: archive.read(name) for name in archive.namelist()}


# --- below HTTP: test_secure.py looks at the handshakes


@of(*(f"{name}.tls.test" for name in ("self-signed", "expired", "wrong", "silent", "reset", "plain", "noise", "good")),
    "www.six.test")  # fmt: skip
def behind_the_door(base):
    name = base.partition("://")[2]
    assert (base.partition(":")[0] == "https") == (
        name
        in {
            *tls_failures.CERTIFICATE_OF_HOST,
            *tls_failures.REPLIES_WITHOUT_TLS,
            tls_failures.SILENT_HOST,
            tls_failures.RESET_HOST,
        }
    )
    assert request_hostile_url(f"{base}/").code == 200
