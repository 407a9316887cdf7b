"""What do real answers look like? Small ones, of all the kinds that a crawler meets, and the words they are made of."""

import gzip
import zlib

PAGE = """<!DOCTYPE html>
<html lang="pt-BR" prefix="og: https://ogp.me/ns#"><head><meta charset="utf-8"><title>Câmara aprova orçamento</title>
<meta name="robots" content="index, follow, max-image-preview:large"><meta http-equiv="refresh" content="5; url=/novo">
<link rel="canonical" href="https://h.test/orcamento"><link rel="alternate" hreflang="en" href="/en/budget">
<link rel="alternate" type="application/rss+xml" title="Feed" href="/feed/"><base href="/b/">
<meta property="og:title" content="Câmara"><style>p { color: red }</style>
<script type="application/ld+json">{"@context": "https://schema.org", "@type": ["NewsArticle", {"@id": "x"}]}</script>
</head><body vocab="http://schema.org/" typeof="Article"><nav><ul><li><a href="/">Início</a><li><a href="/p?a=1&amp;b=2"
rel="nofollow ugc">Política</a></ul></nav><h1>Câmara <em>aprova</em></h1><p>A votação durou três horas e terminou.</p>
<table><tr><td>Saúde<td><a href=x><img src=y alt="Gráfico"></a></table><form><select><option>a</select></form>
<svg><title>t</title><a href="z"></a></svg><math><mi>x</mi></math><iframe src="/quadro"></iframe><template><a href=q>
</a></template><noscript><a href=n>n</a></noscript><textarea></p></textarea><div itemscope itemtype="http://schema.org/Person">
<!-- comment --><![CDATA[x]]>&nbsp;&eacute;&#233;&#xe9;</div></body></html>"""

PAGES = [
    PAGE.encode(),
    PAGE.replace("utf-8", "iso-8859-1").encode("cp1252", "replace"),
    PAGE.encode("utf-16"),
    '<?xml version="1.0" encoding="shift_jis"?><html><p>日本語のページです</p></html>'.encode("shift_jis"),
    b"<frameset><frame src=a><frame src=b></frameset>",
    b"<p>short<a href=//i.test/x>y",
    "Só texto, sem marcas.\r\n\r\nhttp://h.test/".encode(),
    b"",
]
PAGE_TOKENS = [
    b"<a href=", b"<a href='http://h.test/'>", b"</a>", b"<b>", b"</b>", b"<p>", b"<table>", b"<tr>", b"<td>",
    b"</table>", b"<div>", b"</div>", b"<title>", b"</title>", b"<script>", b"</script>", b"<style>", b"<template>",
    b"</template>", b"<svg>", b"<math>", b"<mtext>", b"<foreignObject>", b"<select>", b"<option>", b"<textarea>",
    b"<noscript>", b"<iframe src=", b"<frameset>", b"<plaintext>", b"<form>", b"<h1>", b"<base href=",
    b"<meta charset=", b"<meta name=robots", b" content=", b"<meta http-equiv=refresh content='0;url=",
    b"<link rel=alternate hreflang=", b" type=application/rss+xml", b"<link rel=canonical href=",
    b"<script type=application/ld+json>", b'{"@context":', b'[{"@type":', b" typeof=", b" vocab=", b" prefix='a: b'",
    b" property=", b" itemtype=", b"<!--", b"-->", b"<![CDATA[", b"]]>", b"<!doctype html>", b"<?xml ", b"&amp;",
    b"&#xD800;", b"&#1114112;", b"&#0;", b"&notin", b"&", b"<", b">", b"/>", b"'", b'"', b"=", b"\xef\xbb\xbf",
    b"\xff\xfe", b"\xfe\xff", b"utf-16", b"windows-1252", b"iso-2022-jp", b"\x1b$B", b"gb18030", b"x-user-defined",
    b"\x00", b"http://", b"//", b"../", b"?", b"#", b"javascript:", b"http://[::1", b"\xc3\xa7", b"\xed\xa0\x80",
]  # fmt: skip

SITEMAP = """<?xml version="1.0" encoding="UTF-8"?>
<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9" xmlns:image="http://www.google.com/schemas/sitemap-image/1.1">
<url><loc>http://h.test/a?b=1&amp;c=2</loc><lastmod>2024-03-01T12:00:00+00:00</lastmod><priority>0.8</priority>
<image:image><image:loc>http://h.test/a.jpg</image:loc></image:image></url>
<url><loc><![CDATA[http://h.test/ç]]></loc><lastmod>2024</lastmod></url></urlset>"""
INDEX = (
    """<sitemapindex><sitemap><loc>http://h.test/1.xml.gz</loc><lastmod>2005-01-01</lastmod></sitemap></sitemapindex>"""
)
RSS = """<?xml version="1.0"?><!DOCTYPE rss PUBLIC "-//N//DTD RSS 0.91//EN" "http://h.test/rss.dtd">
<rss version="2.0" xmlns:atom="http://www.w3.org/2005/Atom" xmlns:dc="http://purl.org/dc/elements/1.1/"><channel>
<title>x</title><link>http://h.test/</link><item><title>A &amp; B</title><link>http://h.test/1</link>
<guid isPermaLink="false">17</guid><pubDate>Sat, 01 Jan 2005 00:00:00 GMT</pubDate></item>
<item><guid>http://h.test/2</guid><dc:date>2005-01-01T00:00:00Z</dc:date></item></channel></rss>"""
RDF = """<rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#" xmlns="http://purl.org/rss/1.0/">
<item rdf:about="http://h.test/1"><link>http://h.test/1</link></item></rdf:RDF>"""
ATOM = """<feed xmlns="http://www.w3.org/2005/Atom" xml:base="http://h.test/x/"><entry xml:base="y/">
<link rel="alternate" href="../1"/><link rel="self" href="2"/><updated>2005-01-01T00:00:00Z</updated>
<content type="xhtml">
<div xmlns="http://www.w3.org/1999/xhtml"><a href="z">z</a></div></content></entry></feed>"""
BOMB = '<!DOCTYPE x [<!ENTITY a "aa"><!ENTITY b "&a;&a;">]><urlset><url><loc>&b;</loc></url></urlset>'
LISTINGS = [
    *(text.encode() for text in (SITEMAP, INDEX, RSS, RDF, ATOM, BOMB)),
    SITEMAP.replace("&amp;", "&").encode(),
    SITEMAP.replace("UTF-8", "ISO-8859-1").encode("latin-1"),
    RSS.replace("&amp;", "&nbsp;").encode(),
    SITEMAP.encode("utf-16"),
    b"http://h.test/1\nhttp://h.test/2\r\n\nhttps://h.test/3",
    gzip.compress(SITEMAP.encode(), mtime=0),
    gzip.compress(SITEMAP[:200].encode(), mtime=0) + gzip.compress(SITEMAP[200:].encode(), mtime=0),
]
LISTING_TOKENS = [
    b"<urlset>", b"</urlset>", b"<sitemapindex>", b"<sitemap>", b"</sitemap>", b"<url>", b"</url>", b"<loc>",
    b"</loc>", b"<loc/>", b"<lastmod>", b"</lastmod>", b"<image:loc>", b"</image:loc>", b"<rss>", b"</rss>",
    b"<item>", b"</item>", b"<link>", b"</link>", b"<link href='/a'/>", b"<guid>", b"</guid>", b"<pubDate>",
    b"</pubDate>", b"<feed>", b"</feed>", b"<entry>", b"</entry>", b"<updated>", b"</updated>", b" rel=", b" href=",
    b" isPermaLink=", b" xml:base=", b" xmlns:s=", b"s:", b"<![CDATA[", b"]]>", b"]", b"<!--", b"-->", b"<?", b"?>",
    b"<!DOCTYPE ", b" [", b"<!ENTITY a 'b'>", b"]>", b"&amp;", b"&a;", b"&nbsp;", b"&#x41;", b"&#0;", b"&", b"<",
    b">", b"'", b'"', b"/", b"http://h.test/", b"http://[", b"\n", b"2005-01-01", b"T00:00:00Z", b"+99:99",
    b"Sat, 01 Jan 05", b"\x00", b"\xff\xfe", b"\xef\xbb\xbf", b"\xc3", b"\x1f\x8b\x08", b"encoding='utf-16'",
    b"encoding='gbk'", b"<html>",
]  # fmt: skip

ROBOTS = [
    b"""User-agent: *
Disallow: /cgi-bin/ # not here
Disallow: /*.pdf$
Allow: /public/index.html
Crawl-delay: 10
Request-rate: 1/10m
Visit-time: 0600-0845
Host: www.h.test
Clean-param: sid /a/

User-agent: Tarrafa
User-agent: Googlebot/2.1
Disallow:
Allow: /a*b*c$
Sitemap: https://h.test/sitemap.xml
""",
    b"\xef\xbb\xbfuser agent *\r\ndisalow /x\rdisallow: /%7ejoe/%c3%a7\n",
    "User-agent: tarrafa\nDisallow: /ção/\nDisallow: /a?b=c&d=%zz\n".encode(),
    b"<html><body>404</body></html>",
    b"",
]
ROBOTS_TOKENS = [
    b"User-agent:", b"user-agent: *\n", b"User-agent: tarrafa\n", b"Disallow:", b"Disallow: /\n", b"Allow:",
    b"Allow: /", b"Crawl-delay:", b"Crawl-delay: 1e9\n", b"Request-rate: 1/5s\n", b"Visit-time:", b"Host:",
    b"Clean-param:", b"Sitemap: ", b"Sitemap: http://h.test/s\n", b"*", b"**", b"$", b"/", b"/*a*b*c", b"%", b"%41",
    b"%2F", b"%zz", b"?", b"#", b":", b"\n", b"\r", b"\r\n", b" ", b"\t", b"\x00", b"\xff", b"\xc3\xa7", b"\x0b",
    b"\x1c", b"\x85", b"index.html", b"99999999999999999999",
]  # fmt: skip

_HTML = b"<p>hello, world</p>" * 20
_CHUNKED = b"64;ext=1\r\n" + _HTML[:100] + b"\r\n118\r\n" + _HTML[100:] + b"\r\n0\r\nX: y\r\n\r\n"
ANSWERS = [
    b"HTTP/1.1 200 OK\r\nServer: x\r\nContent-Type: text/html; charset=utf-8\r\nContent-Length: 380\r\n\r\n" + _HTML,
    b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nTransfer-Encoding: chunked\r\n\r\n" + _CHUNKED,
    b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nX-Robots-Tag: noindex\r\n\r\n" + gzip.compress(_HTML, mtime=0),
    b"HTTP/1.0 200\r\nContent-Encoding: deflate\r\n\r\n" + zlib.compress(_HTML),
    b"HTTP/1.1 200 OK\r\nContent-Encoding: deflate\r\n\r\n" + zlib.compress(_HTML)[2:-4],
    b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip, deflate\r\nTransfer-Encoding: gzip, chunked\r\n\r\n"
    + b"40\r\n" + gzip.compress(zlib.compress(gzip.compress(b"x" * 50_000, mtime=0)), mtime=0) + b"\r\n0\r\n\r\n",
    b"HTTP/1.1 301 Moved Permanently\r\nLocation: /novo\r\nSet-Cookie: a=b\r\n folded: value\r\n\r\n",
    b"HTTP/1.1 503 Busy\r\nRetry-After: Sat, 01 Jan 2005 00:00:00 GMT\r\n\r\n",
    b"HTTP/2 429 \r\nRetry-After: 120\r\nETag: W/\"x\"\r\n\r\n",
    b"HTTP/1.1 200 OK\r\nContent-Encoding: br\r\n\r\n\x8b\x02\x80hello\x03",
    b"HTTP/1.1 200 OK\r\nContent-Encoding: zstd\r\n\r\n\x28\xb5\x2f\xfd\x04\x00\x29\x00\x00hello\x98\x6b\x3d\x39",
    b"ICY 200 OK\r\n\r\n",
]  # fmt: skip
ANSWER_TOKENS = [
    b"HTTP/1.1 ", b"HTTP/", b" 200 OK", b" 999 ", b"\r\n", b"\n", b"\r", b"\r\n\r\n", b"\n\n", b": ", b":", b" ",
    b"\t", b";", b",", b"Content-Type: ", b"text/html", b"Content-Encoding: ", b"Transfer-Encoding: ", b"gzip",
    b"deflate", b"br", b"zstd", b"x-gzip", b"identity", b"chunked", b"Retry-After: ", b"Location: ",
    b"Content-Length: -1", b"99999999999999999999", b"0\r\n\r\n", b"ffffffff\r\n", b"-1\r\n", b"0x10\r\n", b"1_0\r\n",
    b"+5\r\n", b"\x1f\x8b\x08\x00", b"\x78\x9c", b"\x28\xb5\x2f\xfd", b"\x00", b"\xff", b"\xc3\xa7", b"\x85", b"\x1c",
    gzip.compress(b"x" * 5_000, mtime=0), zlib.compress(b"x" * 5_000),
]  # fmt: skip

URLS = [
    b"http://h.test/a/b?c=d#e", b"//i.test/x", b"/abs?q=1&r=2", b"../up/./down/../here", b"?only=query", b"#top", b"",
    b"HTTP://User:Pass@EXAMPLE.com:80/%7Ejoe/%c3%a7", b"http://[::1]:8080/", b"http://0x7f.1/", b"javascript:void(0)",
    "http://São-João.example/ação?é=ü".encode(), b"http://xn--so-joo-3tae.example/", b"mailto:a@b.c", b"http:\\\\h\\a",
    b"  http://h.test/a b\t\n", b"data:text/html,x", b"http://h.test/%%34%31", b"https:relative", b"ftp://h.test/x",
]  # fmt: skip
URL_TOKENS = [
    b"http://", b"https://", b"HTTP:", b"//", b"/", b"\\", b"..", b"/../", b"/./", b"%2e%2e/", b"?", b"#", b"@", b":",
    b":80", b":443", b":65536", b"%", b"%41", b"%7e", b"%zz", b"%00", b"[", b"]", b"[::1]", b"[::ffff:1.2.3.4]",
    b"127.1", b"0x7f", b"4294967296", b"xn--", b"xn--a", "ß".encode(), "。".encode(), "\u200d".encode(),
    "\u00ad".encode(), "İ".encode(), b"\x00", b"\t", b"\n", b" ", b"\xed\xa0\x80", b"\xf0\x9f\x98\x80", b"\xff", b"'",
    b'"', b"<", b"|", b"^", b"{", b"javascript:", b"file:", b"blob:", b"ws:", b".", b"_", b"a.b.c.d.e.f", b"x" * 64,
    b"x" * 2_100,
]  # fmt: skip
