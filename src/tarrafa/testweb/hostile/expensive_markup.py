"""Hostile hosts with HTML that is expensive to parse: deep nesting, unclosed elements, many links, entity bombs.

Promises: pages below the usual 2 MB, each aimed at one step of reading HTML: the tokenizer, the tree builder, the
traversal of the tree, the links. Each ends as a page, or as an abandoned one (HOSTILE), within bounds. robots.txt
forbids everything below /n/, so that the links there are counted and not followed.
Knows nothing of any parser.
"""

from collections.abc import Callable

from tarrafa.model import Status
from tarrafa.testweb.hostile.response_builders import HostileUrl, either, html, kept, lazily, register_site
from tarrafa.testweb.http.web_response import HTML, typed

ATTRIBUTES = 300_000
DEPTH = 100_000
FORMATTING, FORMATTED_BYTES = 500, 200_000
TABLES = 20_000
ANCHORS = 50_000
LINKS = 100_000
LONG_URL = 1_000_000
LONG_TEXT = 1_900_000
LONG_TITLE = 1_000_000
LAUGHS = 10  # levels, each ten times the one before

ROBOTS = b"User-agent: *\nDisallow: /n/\n"
_DIGITS = "0123456789abcdefghijklmnopqrstuvwxyz"


def attributes() -> bytes:
    """The parser must look for duplicates (HTML standard, 13.2.5.33), and there are many attributes to compare."""
    return b"<!DOCTYPE html><title>Atributos</title><p " + " ".join(
        _base36(number) for number in range(ATTRIBUTES)
    ).encode() + b">Um texto."  # fmt: skip


def nested(tag: str, depth: int = DEPTH) -> bytes:
    """A recursive traversal of the tree overflows the stack."""
    return f"<!DOCTYPE html><title>{tag}</title>{f'<{tag}>' * depth}fundo{f'</{tag}>' * depth}".encode()


def formatting() -> bytes:
    """Every paragraph must reopen all elements that were left open before it (13.2.4.3): 500 different ones, times
    50,000 paragraphs.
    """
    opened = "".join(f"<b id={number}>" for number in range(FORMATTING))
    return f"<!DOCTYPE html><title>Negrito</title>{opened}{'<p>x' * (FORMATTED_BYTES // 4)}".encode()


def misnested() -> bytes:
    """The adoption agency algorithm (13.2.6.4.7), triggered again and again."""
    return b"<!DOCTYPE html><title>Cruzados</title>" + b"<a><b><i><u><p></a></b></i></u>texto " * 20_000


def tables() -> bytes:
    return b"<!DOCTYPE html><title>Tabelas</title>" + b"<table><tr><td>" * TABLES + b"fundo"


def anchors() -> bytes:
    """Each anchor closes the one before (13.2.6.4.7), which the tree builder must find first."""
    opened = "".join(f"<div><a href=/n/{number}>" for number in range(ANCHORS))
    return f"<!DOCTYPE html><title>Abertos</title>{opened}".encode()


def links() -> bytes:
    found = "".join(f"<a href=/n/{_base36(number)}>x" for number in range(LINKS))
    return f"<!DOCTYPE html><title>Cem mil</title>{found}".encode()


def _base36(number: int) -> str:
    high, low = divmod(number, 36)
    return (_base36(high) if high else "") + _DIGITS[low]


def long_url() -> bytes:
    return f'<!DOCTYPE html><title>Longo</title><a href="/n/{"a" * LONG_URL}">um endereço longo</a>'.encode()


def long_text() -> bytes:
    return b"<!DOCTYPE html><title>Palavra</title><p>" + b"a" * LONG_TEXT


def long_title() -> bytes:
    return b"<!DOCTYPE html><title>" + b"titulo " * (LONG_TITLE // 7) + b"</title><p>Um texto."


def unclosed(opening: bytes) -> bytes:
    """An unclosed construct swallows the rest of the page, or is read again from its beginning."""
    return b"<!DOCTYPE html><title>Aberto</title><p>Um texto." + opening + b"<!-- <p>" * 100_000


def entities() -> bytes:
    return b"<!DOCTYPE html><title>Entidades</title><p>" + b"&ampamp;&notit;&#x110000;&#0;&CounterClockwise" * 30_000


def laughs(root: str = "html", body: str = "<body><p>&l9;</p></body>") -> bytes:
    """Entities made of entities: ten to the tenth words for a parser that expands them."""
    levels = "".join(f'<!ENTITY l{level} "{f"&l{level - 1};" * 10}">' for level in range(1, LAUGHS))
    space = ' xmlns="http://www.w3.org/1999/xhtml"' if root == "html" else ""
    return (
        f'<?xml version="1.0" encoding="UTF-8"?>\n<!DOCTYPE {root} [<!ENTITY l0 "ha">{levels}]>\n'
        f"<{root}{space}>{body}</{root}>\n"
    ).encode()


def noisy() -> bytes:
    return html("Página com zeros").replace(b"rede de pesca", b"re\0de de\0\0 pesca") + b"\0" * 1000


def _hard(make: Callable[[], bytes], content_type: str = HTML) -> HostileUrl:
    return either(lazily(make, content_type), 200, Status.HOSTILE)


# At most four of them on one host: a crawler may give up a host that is hostile again and again.
register_site(
    "markup-deep", "pages whose elements are nested a hundred thousand deep",
    {
        "/div.html": _hard(lambda: nested("div")),
        "/svg.html": _hard(lambda: b"<svg>" + nested("g")),
        "/math.html": _hard(lambda: b"<math>" + nested("mrow")),
        "/font.html": _hard(lambda: nested("font size=1", DEPTH // 2)),
    },
)  # fmt: skip
register_site(
    "markup-tree", "pages whose elements must be put in order again and again",
    {
        "/formatting.html": _hard(formatting),
        "/misnested.html": _hard(misnested),
        "/tables.html": _hard(tables),
        "/anchors.html": _hard(anchors),
    },
    robots=ROBOTS, never=("/n/",),
)  # fmt: skip
register_site(
    "markup-many", "a page of 300,000 attributes, one of 100,000 links, and entities made of entities",
    {
        "/attributes.html": _hard(attributes),
        "/links.html": _hard(links),
        "/entities.html": _hard(entities),
        "/laughs.html": _hard(laughs, "application/xhtml+xml"),
    },
    robots=ROBOTS, never=("/n/",),
)  # fmt: skip
register_site(
    "markup-long", "pages with an address, a title or a word of a megabyte, and bytes of every kind",
    {
        "/url.html": _hard(long_url),
        "/text.html": _hard(long_text),
        "/title.html": _hard(long_title),
        "/binary.html": _hard(lambda: bytes(range(256)) * 4000),
        "/empty.html": either(typed(200, HTML, b""), 200),
    },
    robots=ROBOTS, never=("/n/",),
)  # fmt: skip
register_site(
    "markup-open", "pages that open what they never close, and NULs",
    {
        "/comment.html": _hard(lambda: unclosed(b"<!--")),
        "/script.html": _hard(lambda: unclosed(b"<script><!--<script>")),
        "/textarea.html": _hard(lambda: unclosed(b"<textarea>")),
        "/nul.html": kept(typed(200, HTML, noisy())),
    },
)  # fmt: skip
