"""Hostile hosts with sitemaps and feeds: valid, broken, looping, endless, and bombs.

Promises: sitemaps and feeds in every form, with orphan pages that are listed only there; also broken, endless and
exploding ones. A bad listing must cost only itself, never the good ones.
Knows nothing of when a crawler requests them.
"""

import gzip

from tarrafa.testweb.hostile import content_codings
from tarrafa.testweb.hostile.expensive_markup import laughs
from tarrafa.testweb.hostile.response_builders import Responder, flood, kept, lazily, page, register_site
from tarrafa.testweb.http.web_response import HTML, PLAIN, WebResponse, typed

XML = "application/xml"
RSS, ATOM = "application/rss+xml", "application/atom+xml"
LISTED_MAX = 50_000  # URLs that one sitemap may list
BIG = 60_000

_XML = '<?xml version="1.0" encoding="UTF-8"?>\n'
_SCHEMA = "http://www.sitemaps.org/schemas/sitemap/0.9"
_NEWS = "http://www.google.com/schemas/sitemap-news/0.9"
_IMAGE = "http://www.google.com/schemas/sitemap-image/1.1"
_MAPS = "http://sitemap.corner.test"
_BIG = "http://sitemap-big.corner.test"
_FEEDS = "http://feeds.corner.test"


def urlset(*entries: str, space: str = "") -> bytes:
    return f'{_XML}<urlset xmlns="{_SCHEMA}"{space}>\n{"".join(entries)}</urlset>\n'.encode()


def entry(url: str, more: str = "") -> str:
    return f"<url><loc>{url}</loc>{more}</url>\n"


def index(*urls: str) -> bytes:
    items = "".join(f"<sitemap><loc>{url}</loc></sitemap>\n" for url in urls)
    return f'{_XML}<sitemapindex xmlns="{_SCHEMA}">\n{items}</sitemapindex>\n'.encode()


def _news() -> bytes:
    news = "<news:news><news:title>Peixe</news:title></news:news><lastmod>2025-06-01T12:00:00Z</lastmod>"
    image = f"<image:image><image:loc>{_MAPS}/not-a-page.html</image:loc></image:image>"
    space = f' xmlns:news="{_NEWS}" xmlns:image="{_IMAGE}"'
    return urlset(entry(f"{_MAPS}/orphan-news.html", news), entry(f"{_MAPS}/orphan-image.html", image), space=space)


def _broken() -> bytes:
    whole = urlset(entry(f"{_MAPS}/before-the-break.html"), entry(f"{_MAPS}/after-the-break.html"))
    return whole.replace(b"</url>\n", b"</url>\n<url><loc>&nada;</url></urlset <<\n", 1)


def _laughing(url: str) -> bytes:
    return laughs("urlset", f"<url><loc>{url}/&l9;</loc></url>")


def big() -> bytes:
    """More URLs than one file may list. robots.txt forbids them all, so that none is requested."""
    listed = "".join(entry(f"{_BIG}/big/{number}.html") for number in range(BIG))
    return gzip.compress(urlset(entry(f"{_BIG}/first.html"), listed), 1, mtime=0)


def _packed(data: bytes) -> WebResponse:
    """A file that is itself gzip, such as .gz: no Content-Encoding."""
    return typed(200, "application/gzip", gzip.compress(data, 6, mtime=0))


_LISTINGS: dict[str, Responder] = {
    "/sitemap-index.xml": typed(200, XML, index(
        *(f"{_MAPS}/{name}" for name in ("pages.xml.gz", "news.xml", "broken.xml", "laughs.xml", "bomb.xml.gz",
                                         "empty.xml", "loop.xml", "page-as-sitemap.xml", "missing.xml")))),
    "/pages.xml.gz": _packed(urlset(entry(f"{_MAPS}/orphan-gz.html"), entry("http://elsewhere.test/not-ours.html"))),
    "/news.xml": typed(200, "text/xml", _news()),
    "/broken.xml": typed(200, XML, _broken()),
    "/laughs.xml": lazily(lambda: _laughing(_MAPS), XML),
    "/bomb.xml.gz": lazily(content_codings.gzip_bomb, "application/gzip", remember=True),
    "/empty.xml": typed(200, XML, b""),
    "/loop.xml": typed(200, XML, index(f"{_MAPS}/sitemap-index.xml", f"{_MAPS}/loop.xml", f"{_MAPS}/loop-back.xml")),
    "/loop-back.xml": typed(200, XML, index(f"{_MAPS}/loop.xml")),
    "/page-as-sitemap.xml": typed(200, HTML, b"<!DOCTYPE html><title>Isto nada lista</title>"),
    "/urls.txt": typed(200, PLAIN, f"\ufeff{_MAPS}/orphan-text.html\r\n\r\nisto nao e nada\r\n".encode()),
    "/orphan-bom.xml": typed(200, XML, b"\xef\xbb\xbf" + urlset(entry(f"{_MAPS}/orphan-bom.html"))),
}  # fmt: skip

_ORPHANS = ("orphan-gz", "orphan-news", "orphan-image", "orphan-text", "orphan-bom")

register_site(
    "sitemap", "orphans that only sitemaps list: index, gzip, news, images, plain text; and broken ones, a loop, bombs",
    {f"/{name}.html": kept(page(f"Órfã: {name}"), linked=False) for name in _ORPHANS},
    robots=f"User-agent: *\nDisallow:\nSitemap: {_MAPS}/sitemap-index.xml\nsitemap: {_MAPS}/urls.txt\n"
           f"SITEMAP:{_MAPS}/orphan-bom.xml\nSitemap: /relative.xml\nSitemap: nada\n".encode(),
    hidden=_LISTINGS | {f"/{name}-the-break.html": page(f"Talvez: {name}") for name in ("before", "after")},
    may_keep=("/before-the-break.html", "/after-the-break.html", "/page-as-sitemap.xml"),  # the last one is a page
    never=("/not-a-page.html",), requests_more=3,
)  # fmt: skip
register_site(
    "sitemap-big", "a sitemap of 60,000 URLs, all but the first forbidden by robots.txt",
    {"/first.html": kept(page("A primeira de muitas"), linked=False)},
    robots=f"User-agent: *\nDisallow: /big/\nSitemap: {_BIG}/sitemap.xml.gz\n".encode(),
    hidden={"/sitemap.xml.gz": lazily(big, "application/x-gzip", remember=True)}, never=("/big/",),
)  # fmt: skip
register_site(
    "sitemap-endless", "a sitemap without end",
    {},
    robots=b"User-agent: *\nDisallow: /big/\nSitemap: http://sitemap-endless.corner.test/sitemap.xml\n",
    hidden={"/sitemap.xml": flood(
        b"HTTP/1.1 200 OK\r\nContent-Type: application/xml\r\n\r\n" + urlset().removesuffix(b"</urlset>\n"),
        entry("http://sitemap-endless.corner.test/big/page.html").encode() * 1000)},
    never=("/big/",), requests_more=2,
)  # fmt: skip


def _rss(*items: str) -> bytes:
    listed = "".join(f"<item><title>Notícia</title>{item}</item>\n" for item in items)
    return (
        f'{_XML}<rss version="2.0"><channel><title>Notícias</title><link>{_FEEDS}/</link>\n{listed}</channel></rss>\n'
    ).encode()


def _atom(*links: str) -> bytes:
    updated = "<updated>2025-06-01T12:00:00Z</updated>"
    listed = "".join(f"<entry><title>Nota</title>{link}{updated}</entry>\n" for link in links)
    return f'{_XML}<feed xmlns="http://www.w3.org/2005/Atom" xml:base="{_FEEDS}/">{listed}</feed>\n'.encode()


def _announced(path: str, content_type: str) -> str:
    return f'<link rel="alternate" type="{content_type}" title="Notícias" href="{path}">'


_RSS = _rss(
    f"<link>{_FEEDS}/from-rss.html</link><pubDate>Sun, 01 Jun 2025 12:00:00 GMT</pubDate>",
    f"<link><![CDATA[ {_FEEDS}/from-cdata.html?a=1&b=2 ]]></link>",
    f'<guid isPermaLink="true">{_FEEDS}/from-guid.html</guid>',
)
_ATOM = _atom(
    '<link href="/from-atom.html"/>',
    f'<link rel="self" href="{_FEEDS}/atom.xml"/><link rel="alternate" href="{_FEEDS}/from-alternate.html"/>',
)
_BROKEN = _rss(f"<link>{_FEEDS}/from-broken.html</link>").replace(b"</item>", b"</nada><<&x;")

register_site(
    "feeds", "orphans that only an RSS or an Atom feed lists, and feeds that are broken",
    {
        "/from-rss.html": kept(page("Notícia do RSS"), linked=False),
        "/from-cdata.html?a=1&b=2": kept(page("Notícia entre colchetes"), linked=False),
        "/from-atom.html": kept(page("Nota do Atom"), linked=False),
        "/from-alternate.html": kept(page("Outra nota do Atom"), linked=False),
    },
    head=_announced("/rss.xml", RSS) + _announced("/atom.xml", ATOM) + _announced("/broken.xml", RSS)
    + _announced("/laughs.xml", ATOM) + _announced("/empty.xml", RSS),
    hidden={
        "/rss.xml": typed(200, RSS, _RSS),
        "/atom.xml": typed(200, ATOM, _ATOM),
        "/broken.xml": typed(200, RSS, _BROKEN),
        "/laughs.xml": lazily(lambda: laughs("feed", "<entry><link href='&l9;'/></entry>"), ATOM),
        "/empty.xml": typed(200, RSS, b""),
        "/from-broken.html": page("Notícia de uma lista partida"),
        "/from-guid.html": page("Notícia com um nome próprio"),
    },
    may_keep=("/from-broken.html", "/from-guid.html"),
)  # fmt: skip
