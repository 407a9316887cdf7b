"""What a page needs to be shown, from HTML, CSS, scripts and manifests, also from hostile ones."""

from urllib.parse import urljoin

import pytest

from tarrafa.parse.page import parse
from tarrafa.parse.requisites import (
    CANDIDATES_MAX,
    IMAGE_SET_CHARS_MAX,
    REFERENCE_CHARS_MAX,
    module_references,
    requisites_of,
    srcset_candidates,
    style_references,
)

URL = "http://a.test/folder/page"
HTML, CSS, JS = "text/html; charset=utf-8", "text/css", "text/javascript"
MANIFEST = "application/manifest+json"
BIG = 1 << 20  # a linear reader takes tenths of a second, a quadratic one would never come to an end


def of_page(markup: str, most: int = 500) -> tuple[str, ...]:
    return parse(markup.encode(), URL, HTML, requisites_max=most).requisites


def of_style(text: str) -> list[str]:
    return list(style_references(text))


@pytest.mark.parametrize(
    ("markup", "expected"),
    [
        ('<link rel="stylesheet" href="s.css">', ["s.css"]),
        ('<link rel="Shortcut ICON" href="i.ico">', ["i.ico"]),
        ('<link rel="manifest" href="m.webmanifest">', ["m.webmanifest"]),
        ('<link rel="preload" as="image" href="p.png" imagesrcset="q.png 2x, r.png 3x">', ["p.png", "q.png", "r.png"]),
        ('<link rel="modulepreload" href="m.js">', ["m.js"]),
        ('<link rel="next" href="n"><link rel="prefetch" href="f"><link rel="canonical" href="c">', []),
        ('<script src="s.js"></script>', ["s.js"]),
        ('<script type="module">import x from "./m.js"</script>', ["m.js"]),
        ('<script>import x from "./m.js"</script>', []),  # no module: a syntax error
        ('<img src="a.png" srcset="b.png 1x,c.png 2x">', ["a.png", "b.png", "c.png"]),
        ('<img data-src="lazy.png" data-srcset="lazy2.png 2x">', ["lazy.png", "lazy2.png"]),
        ('<picture><source srcset="a.avif"><img src="a.png"></picture>', ["a.avif", "a.png"]),
        ('<video src="v.webm" poster="p.png"><track src="t.vtt"></video>', ["v.webm", "p.png", "t.vtt"]),
        ('<audio><source src="a.ogg"></audio>', ["a.ogg"]),
        (
            '<iframe src="f.html"></iframe><embed src="e.pdf"><object data="o.svg"></object>',
            ["f.html", "e.pdf", "o.svg"],
        ),
        ('<input type="image" src="go.png"><input type="text" src="no.png">', ["go.png"]),
        ('<svg><image xlink:href="i.png"/><use href="s.svg#one"/><use href="#own"/></svg>', ["i.png", "s.svg"]),
        ('<body background="b.png"><table background="t.png"></table>', ["b.png", "t.png"]),
        ('<p style="background: url(b.png)">x<p style="color: red">', ["b.png"]),
        ('<style>@import "i.css"; p { background: url(b.png) }</style>', ["i.css", "b.png"]),
        ('<template><img src="t.png"></template>', ["t.png"]),  # a script may show it
        ('<a href="page"></a><form action="f"></form>', []),
        ('<img src="data:image/png;base64,AA"><img src="blob:x"><img src="about:blank"><img src="">', []),
        ('<img src="javascript:alert(1)"><img src="ftp://a.test/x.png"><img src="#x">', []),
        ('<img src="page"><img src="/folder/page">', []),  # the page itself
        ('<base href="/other/"><img src="x.png">', ["/other/x.png"]),
        ('<img src="http://b.test/x.png"><img src="//c.test/x.png">', ["http://b.test/x.png", "http://c.test/x.png"]),
    ],
)
def test_requisites_of_html(markup: str, expected: list[str]) -> None:
    assert list(of_page(markup)) == [urljoin(URL, one) for one in expected]


def test_styles_scripts_and_frames_come_before_images_where_a_limit_cuts() -> None:
    markup = (
        "".join(f'<img src="{number}.png">' for number in range(20))
        + '<script src="s.js"></script><iframe src="f"></iframe><link rel="stylesheet" href="s.css">'
    )
    names = [url.rpartition("/")[2] for url in of_page(markup, most=5)]
    assert names == ["s.css", "s.js", "f", "0.png", "1.png"]


def test_nothing_is_looked_for_unless_it_is_asked_for() -> None:
    assert parse(b'<img src="a.png">', URL, HTML).requisites == ()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a { b: url(x.png) }", ["x.png"]),
        ("a { b: url( 'x y.png' ) url(\"z.png\") }", ["x y.png", "z.png"]),
        ("@import 'a.css'; @import\"b.css\" screen; @import url(c.css) layer(x);", ["a.css", "b.css", "c.css"]),
        ("@IMPORT 'a.css'; a { b: URL(x.png) }", ["a.css", "x.png"]),
        ("@font-face { src: url(a.woff2) format('woff2'), url(a.eot?#iefix) }", ["a.woff2", "a.eot?#iefix"]),
        ("/* url(no.png) @import 'no.css' */ a { b: url(yes.png) }", ["yes.png"]),
        ("a::before { content: 'url(no.png)' } b { c: url(yes.png) }", ["yes.png"]),
        ("@namespace svg url(http://www.w3.org/2000/svg); a { b: url(x.png) }", ["x.png"]),
        ("a { b: image-set('x.png' 1x, url(y.png) 2x) }", ["x.png", "y.png"]),
        (r"a { b: url(x\28 1\29.png) url(a\ b.png) url('c\'d.png') }", ["x(1).png", "a b.png", "c'd.png"]),
        (r"a { b: url(\0.png) url(\110000.png) url(\d800.png) }", ["\ufffd.png"] * 3),
        ("a { b: url() } c { d: url('') }", []),
        ("a { b: myurl(no.png) -url(no.png) }", []),
        ("a { b: url(unclosed.png", ["unclosed.png"]),
        ("a { b: url('unclosed.png\n} c { d: url(next.png) }", ["unclosed.png", "next.png"]),
        ("a { b: 'unclosed\n} c { d: url(next.png) }", ["next.png"]),
        ("/* unclosed url(no.png)", []),
        ("@import", []),
        ("\x00@import 'a.css", ["a.css"]),
    ],
)
def test_references_of_a_style(text: str, expected: list[str]) -> None:
    assert of_style(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a.png", ["a.png"]),
        ("a.png 1x, b.png 2x", ["a.png", "b.png"]),
        ("a.png 1x,b.png 2x", ["a.png", "b.png"]),
        ("a.png, b.png 2x", ["a.png", "b.png"]),
        ("a,b.png 2x, c.png", ["a,b.png", "c.png"]),  # a comma within a URL
        ("data:image/png;base64,AAAA 1x, b.png 2x", ["data:image/png;base64,AAAA", "b.png"]),
        ("a.png 100w (x, y), b.png", ["a.png", "b.png"]),
        (" , ,, a.png ,,", ["a.png"]),
        ("a.png,", ["a.png"]),
        ("a.png bogus words here, b.png -3x", ["a.png", "b.png"]),
        ("a.png (never closed, b.png 2x", ["a.png"]),
        ("", []),
        (",", []),
        ("\n\t", []),
    ],
)
def test_candidates_of_a_srcset(text: str, expected: list[str]) -> None:
    assert list(srcset_candidates(text)) == expected


def test_modules_that_a_script_names() -> None:
    text = (
        'import a from "./a.js";import{b}from"../b.js";import "/c.js";export * from \'https://d.test/d.js\';'
        'const e = () => import("./e.js"), w = new Worker(new URL("./w.js", import.meta.url));'
        'import vue from "vue"; const notes = "from here"; x.import("./no.js"); $import("./no.js")'
    )
    expected = ["./a.js", "../b.js", "/c.js", "https://d.test/d.js", "./e.js", "./w.js"]
    assert list(module_references(text)) == expected


@pytest.mark.parametrize(
    ("body", "kind", "expected"),
    [
        (b'{"icons": [{"src": "i.png", "sizes": "1x1"}], "shortcuts": [{"icons": [{"src": "/s.png"}]}]}', MANIFEST,
         ["http://a.test/folder/i.png", "http://a.test/s.png"]),
        (b'{"icons": "none"}', MANIFEST, []),
        (b"[" * 100_000, MANIFEST, []),
        (b"\xff\xfe", MANIFEST, []),
        ("a { b: url(é.png) }".encode("latin-1"), "text/css; charset=iso-8859-1", ["http://a.test/folder/%C3%A9.png"]),
        ("@charset \"iso-8859-1\"; a { b: url(é.png) }".encode("latin-1"), CSS, ["http://a.test/folder/%C3%A9.png"]),
        (b"a { b: url(x.png) }", "text/css; charset=rot13", ["http://a.test/folder/x.png"]),
        (b"a { b: url(x.png) }", "image/png", []),
        (b'<img src="x.png">', HTML, ["http://a.test/folder/x.png"]),
        (b'<base href="/b/"><img src="x.png">', HTML, ["http://a.test/b/x.png"]),
        (b"\x89PNG", "", []),
    ],
)  # fmt: skip
def test_requisites_of_a_requisite(body: bytes, kind: str, expected: list[str]) -> None:
    assert list(requisites_of(body, URL, kind, 500)) == expected


def test_a_style_without_a_type_is_known_by_its_extension() -> None:
    assert requisites_of(b"a { b: url(x.png) }", "http://a.test/s.css?v=1", "", 9) == ("http://a.test/x.png",)


@pytest.mark.parametrize("url", ["http://a.test/favicon.ico", "http://a.test/x.png?v=2"])
def test_a_page_in_place_of_an_image_has_no_requisites(url: str) -> None:
    assert requisites_of(b'<img src="x.png">', url, HTML, 9) == ()


def test_an_import_of_itself_is_no_requisite() -> None:
    assert requisites_of(b"@import 's.css'; @import 't.css'", "http://a.test/s.css", CSS, 9) == ("http://a.test/t.css",)


def test_numbers_and_lengths_are_bounded() -> None:
    many = "".join(f"a {{ b: url({number}.png) }}" for number in range(5_000))
    assert len(requisites_of(many.encode(), URL, CSS, 100)) == 100
    assert len(of_page(f"<style>{many}</style>", most=100)) == 100
    assert len(list(srcset_candidates(", ".join(f"{number}.png 1x" for number in range(5_000))))) == CANDIDATES_MAX
    assert requisites_of(f"a {{ b: url({'x' * REFERENCE_CHARS_MAX}y.png) }}".encode(), URL, CSS, 9) == ()


HOSTILE_STYLES = {
    "comments that never end": "/*" * BIG,
    "strings that never end": "'\"" * BIG,
    "urls that never end": "url(" * (BIG // 2),
    "quoted urls that never end": "url('" * (BIG // 2),
    "urls in two quotes": "url(\"a url('b " * (BIG // 8),
    "spaces behind url": "url(" + " " * BIG + "x",
    "spaces behind many urls": ("url(" + " " * 1_000) * (BIG // 1_000),
    "escapes": "url(" + "\\" * BIG,
    "imports": "@import " * (BIG // 4),
    "imports with spaces": ("@import" + " " * 1_000) * (BIG // 1_000),
    "namespaces": "@namespace " * (BIG // 4),
    "image sets": "image-set(" * (BIG // 4),
    "long image sets": ("image-set(" + "x" * (IMAGE_SET_CHARS_MAX - 20)) * (BIG // IMAGE_SET_CHARS_MAX),
    "strings in image sets": "image-set('" * (BIG // 4),
    "a data URL": f"a {{ b: url(data:image/png;base64,{'A' * 4 * BIG}) }}",
}


@pytest.mark.parametrize("text", HOSTILE_STYLES.values(), ids=list(HOSTILE_STYLES))
def test_a_hostile_style_is_read_to_its_end(text: str) -> None:
    assert len(requisites_of(text.encode(), URL, CSS, 500)) <= 500
    assert len(of_page(f"<style>{text[: BIG // 4]}</style>")) <= 500


HOSTILE_SCRIPTS = {
    "imports": "import " * BIG,
    "from": 'from"' * BIG,
    "spaces": ("import" + " " * 1_000) * (BIG // 1_000),
    "new URLs": "new URL( " * (BIG // 4) + "import",
    "quotes": "import './" * (BIG // 4),
}


@pytest.mark.parametrize("text", HOSTILE_SCRIPTS.values(), ids=list(HOSTILE_SCRIPTS))
def test_a_hostile_script_is_read_to_its_end(text: str) -> None:
    assert len(requisites_of(text.encode(), URL, JS, 500)) <= 500


@pytest.mark.parametrize("text", ["," * BIG, " " * BIG, "x" * BIG, "a (" * BIG, "a ," * BIG])
def test_a_hostile_srcset_is_bounded(text: str) -> None:
    assert len(list(srcset_candidates(text))) <= CANDIDATES_MAX
    assert len(of_page(f'<img srcset="{text}">')) <= CANDIDATES_MAX
