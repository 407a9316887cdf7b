"""Extensions: what a URL's name gives away, and when it gives nothing away."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tarrafa.parse.mime_types import TYPES, mime_types_of


@pytest.mark.parametrize(
    ("url", "first"),
    [
        ("http://h.test/a.jpg", "image/jpeg"), ("http://h.test/a/b.JPEG", "image/jpeg"),
        ("http://h.test/foto%20da%20pra%C3%A7a.png", "image/png"), ("http://h.test/a.svg?v=2", "image/svg+xml"),
        ("http://h.test:8080/a.webp", "image/webp"), ("http://[::1]:80/a.gif", "image/gif"),
        ("http://h.test/a.b.c.mp3", "audio/mpeg"), ("http://h.test/a.mp4?u=http://x/y.html", "video/mp4"),
        ("http://h.test/a.mov", "video/quicktime"), ("http://h.test/a.tar.gz", "application/gzip"),
        ("http://h.test/a.zip", "application/zip"), ("http://h.test/a.7z", "application/x-7z-compressed"),
        ("http://h.test/a.iso", "application/x-iso9660-image"), ("http://h.test/setup.EXE", TYPES["exe"][0]),
        ("http://h.test/a.apk", "application/vnd.android.package-archive"), ("http://h.test/a.woff2", "font/woff2"),
        ("http://h.test/a.css?1", "text/css"), ("http://h.test/a.js", "text/javascript"),
        ("http://h.test/a.json", "application/json"), ("http://h.test/a.pdf", "application/pdf"),
        ("http://h.test/a.doc", "application/msword"), ("http://h.test/a.odt", TYPES["odt"][0]),
        ("http://h.test/a.docx", "application/vnd.openxmlformats-officedocument.wordprocessingml.document"),
        ("http://h.test/a.xlsx", "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet"),
        ("http://h.test/a.txt", "text/plain"), ("http://h.test/a.csv", "text/csv"),
        ("https://upload.wikimedia.test/wikipedia/commons/a/a9/Foo.jpg", "image/jpeg"),
        ("http://h.test/a.jpg?title=a%3Ab", "image/jpeg"),
    ],
)  # fmt: skip
def test_an_extension_says_what_is_behind_it(url, first):
    assert mime_types_of(url)[0] == first


@pytest.mark.parametrize(
    "url",
    [
        "http://h.test/", "http://h.test/a", "http://h.test/a.", "http://h.test/a.html", "http://h.test/a.htm",
        "http://h.test/a.php", "http://h.test/a.asp", "http://h.test/a.aspx", "http://h.test/a.jsp",
        "http://h.test/a.cgi", "http://h.test/a.shtml", "http://h.test/a.xhtml", "http://h.test/a.do",
        "http://h.test/a.xml", "http://h.test/a.rss", "http://h.test/a.atom", "http://h.test/a.rdf",
        "http://h.test/a.unheardof", "http://h.test/v1.2", "http://h.test/Sr.%20Silva",
        "http://h.test/example.com", "http://h.test/whois/example.com.br", "http://h.test/a.app", "http://h.test/a.ai",
        "http://h.test/get.php?file=a.zip", "http://h.test/a.zip/", "http://h.test/a.jpg/view", "http://h.test/.zip",
        "http://h.test/a.jpg;jsessionid=1", "http://site.zip", "http://site.zip/", "http://site.mov?a=b",
        "http://h.test/wiki/File:Foo.jpg", "http://h.test/index.php/Arquivo%3AFoo.jpg", "http://h.test/wiki/Node.js",
        "http://h.test/User:Ana/common.js", "http://h.test/x/y/blob/main/logo.png", "http://h.test/a.jp%67", "", "a",
        "a.zip", "?", "/", "http://", ".",
    ],
)  # fmt: skip
def test_what_is_not_sure_says_nothing(url):
    assert mime_types_of(url) == ()


def test_programs_and_feeds_are_never_in_the_table():
    silent = ["html", "htm", "xhtml", "shtml", "php", "asp", "aspx", "jsp", "cgi", "pl", "xml", "rss", "atom", "com"]
    assert TYPES.keys().isdisjoint(silent)
    assert all(types and all("/" in kind and kind == kind.lower() for kind in types) for types in TYPES.values())


@given(st.text(max_size=60))
def test_any_text_has_an_answer(text):
    for url in (text, f"http://h.test/{text}", f"http://h.test/{text}.jpg"):
        assert mime_types_of(url) in {(), *TYPES.values()}
