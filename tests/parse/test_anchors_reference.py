"""Anchors of any markup, broken or not, are those of a plain reading without caches and fast paths."""

from hypothesis import example, given, settings
from hypothesis import strategies as st
from turbohtml import parse as parse_html

from tarrafa.model import Link
from tarrafa.parse import url as urls
from tarrafa.parse.link_extractor import ANCHOR_LENGTH_MAX
from tarrafa.parse.page import parse

PAGE = "http://h.test/dir/page.html"
PIECES = [
    "<a href=x>", "<a href='../y#z' rel=nofollow>", "<a href='#top'>", "<a href=''>", "<a href=?q=1>", "<a>",
    "</a>", "<a href='x#1' rel='nofollow ugc'>", "<a href=//o.test/ rel=x>", "<a href=http:z>", "<a href=' x '>",
    "<a href=x title=d>", "<a href=/ç>", "<area href=x alt=m>", "<area href=w>", "<img alt=foto>", "um ", "dois",
    "<p>", "</p>", "<b>", "</b>", "<table>", "</table>", "<tr>", "<td>", "</td>", "<template>", "</template>",
    "<template shadowrootmode=open>", "<noscript>", "</noscript>", "<svg>", "</svg>", "<math>", "<mi>",
    "<foreignObject>", "<title>", "</title>", "<select>", "<option>", "</select>", "<textarea>", "</textarea>",
    "<base href=/other/>", "<base href='sub/p.html'>", "<script>", "</script>", "<!--", "-->", "<button>",
    "<marquee>", "<div>", "</div>", "<h1>", "</h1>", "<body>", "\0", "<",
]  # fmt: skip


def plain_links(markup: str) -> dict[str, Link]:
    document = parse_html(markup, positions=False)
    for template in list(document.iter_elements("template")):
        template.decompose()
    bases = [href for element in document.iter_elements("base") if (href := element.attr("href"))]
    base = (urls._parse_with_ada(bases[0], PAGE) if bases else None) or PAGE
    found: dict[str, Link] = {}
    for element in document.iter_elements(("a", "area")):
        href = element.attr("href")
        url = urls._parse_with_ada(href, base) if href is not None else None
        if url is None or url == PAGE:
            continue
        text = ""
        if element.find("a") is None:
            image = element.find("img")
            alternatives = (element.attr("alt"), element.attr("title"), image.attr("alt") if image is not None else "")
            text = element.to_text() or next(filter(None, alternatives), "")
        if "\n" in text or len(text) > ANCHOR_LENGTH_MAX:
            text = " ".join(text.split())[:ANCHOR_LENGTH_MAX].rstrip()
        rel = (element.attr("rel") or "").lower().split()
        known = found.get(url, Link(url, "", " ".join(rel)))
        found[url] = Link(url, known.anchor or text, " ".join(token for token in known.rel.split() if token in rel))
    return found


@settings(deadline=None, max_examples=400)
@given(st.lists(st.sampled_from(PIECES), max_size=30).map("".join))
@example("<a href=x><table><a href=y>um</a></table></a><a href=x>dois</a>")
@example("<template><a href=x>um</a><template><a href=y></a></template></template><a href=z>dois</a>")
@example("<svg><a href=x>um<title>t</title></a></svg><math><a href=y>dois</a></math><area href=z>")
@example("<svg><area href=x alt=m><a href=x>")
@example("<a href=x rel=nofollow>um</a><a href=x#1>dois</a><a href=x#2 rel=nofollow></a>")
def test_the_anchors_of_any_markup_are_those_of_a_plain_reading(markup):
    found = parse(markup.encode(), PAGE, "text/html; charset=utf-8").links
    assert list(found) == list(plain_links(markup).values())
