"""Extracts the links of an HTML page: target, anchor text and `rel`; and finds where small scripts lead.

Promises: the links that a reader could follow, as browsers see them in broken HTML: a, area, those link elements that
lead to a page, and what `page` adds (frame, iframe, meta refresh). Each target appears once, with its first non-empty
anchor text. Forms, srcset, images, style sheets and scripts are not links. But a page with hardly any text whose script
assigns `location` leads to the literal target: that is a link, never a redirect, because the script may ask first (a
language, a screen size). No script is executed; of a page with text nothing is scanned, and of the others at most
SCRIPTS_MAX scripts of SCRIPT_LENGTH_MAX characters.
Known weakness: a target that a script puts together is not found, but for `location.search` and `location.hash` at its
end, which are left out.
Knows nothing of scope, depth or robots: the caller decides which links to follow (`Link.is_followed` in `model`).
"""

import codecs
import re
from collections.abc import Callable, Iterable, Iterator
from itertools import islice

from turbohtml import Document, Element

from tarrafa.model import Link
from tarrafa.parse.charset import PYTHON_CODECS
from tarrafa.parse.mime_types import HTML_TYPES
from tarrafa.parse.url import BaseUrl, UrlIdentity

LINKS_MAX = 5_000  # of one page; the first ones are kept
ELEMENTS_MAX = 50_000  # examined to find links
ANCHOR_LENGTH_MAX = 256
REL_LENGTH_MAX = 64

# Values of rel on link elements that lead to another page for people. `alternate` does, unless it is a style sheet or
# has another type.
NAVIGATION_RELS = frozenset(
    {"alternate", "next", "prev", "previous", "first", "last", "start", "up", "index", "contents", "toc", "chapter"}
    | {"section", "help", "author", "license"}
)
_RESOURCE_RELS = frozenset({"stylesheet", "preload", "prefetch", "icon"})
_PAGE_TYPES = HTML_TYPES | {""}

SCRIPTED_TEXT_MAX = 200  # a page with more text is not scanned for scripts
SCRIPTS_MAX, SCRIPT_LENGTH_MAX = 8, 4_096
TARGETS_MAX, TARGET_LENGTH_MAX = 4, 2_000
_SCRIPT_TYPES = frozenset({"", "text/javascript", "application/javascript", "module"})

_UTF = ("utf-8", "utf-16le", "utf-16be")
_AS_REFERENCES = "tarrafa-references"  # name of the codec error handler for characters that an encoding lacks
_ESCAPES = {byte: f"%{byte:02X}" for byte in range(0x80, 0x100)}

_OWN_WINDOW = r"(?:(?:window|self|top|parent|document|this|globalThis)\s*\.\s*)*"
# `location = "…"`, `location.href = "…"`, `location.replace("…")`, with the string and what follows it.
_assigned = re.compile(
    r"(?<![\w$.])" + _OWN_WINDOW + r"location\s*(?:\.\s*href\s*)?"
    r"(?:=(?!=)\s*|\.\s*(?:replace|assign)\s*\(\s*)"
    r"""(?:"((?:[^"\\\n]|\\.){1,2000})"|'((?:[^'\\\n]|\\.){1,2000})'|`([^`$\\]{1,2000})`)(?=\s*(\+?[^;,)\n]{0,80}))""",
).finditer
_own_query = re.compile(
    r"(?:\+\s*" + _OWN_WINDOW + r"location\s*\.\s*(?:search|hash)\s*)+(?:\+\s*(?:\"\"|'')\s*)?"
).fullmatch
_escape = re.compile(r"\\(?:u([0-9a-fA-F]{4})|x([0-9a-fA-F]{2})|(.))", re.DOTALL).sub


class LinkExtractor:
    """Collects the links of one page. `page` is its own URL (links to itself are dropped), `base` its base URL."""

    def __init__(self, page: str, base: BaseUrl, charset: str, identity: UrlIdentity) -> None:
        self._page = page
        self._join = base.join
        self._legacy_charset = "" if charset in _UTF else charset
        self._fold = identity.fold if identity != UrlIdentity() else None
        self._found: dict[str, Link] = {}

    def add(self, href: str, anchor: str, rel: str) -> str | None:
        """Add a link, or merge it into a known link to the same target. Returns the target."""
        url = self.resolve(href)
        if url is None or url == self._page:
            return url
        known = self._found.get(url)
        if known is not None:
            self._found[url] = _merge_links(known, anchor, rel)
        elif len(self._found) < LINKS_MAX:
            self._found[url] = Link(url, anchor, rel)
        return url

    def resolve(self, href: str) -> str | None:
        """The canonical URL of a reference on this page."""
        if self._legacy_charset and not href.isascii():
            href = encode_query(href, self._legacy_charset)
        url = self._join(href)
        return url if url is None or self._fold is None else self._fold(url)

    def add_anchors(self, elements: Iterable[Element], *, may_nest: bool = True) -> None:
        """Add a and area elements. `may_nest`: one may contain an `a`."""
        found, page = self._found, self._page
        simple = not self._legacy_charset and self._fold is None
        resolve: Callable[[str], str | None] = self._join if simple else self.resolve
        for element in islice(elements, ELEMENTS_MAX):
            href = element.attr("href")
            if href is None:
                continue
            url = resolve(href)
            if url is None or url == page:
                continue
            known = found.get(url)
            if known is not None and known.anchor and not known.rel:
                continue  # another link adds nothing
            rel = element.attr("rel")
            rel = rel_tokens(rel) if rel else ""
            if known is None:
                if len(found) < LINKS_MAX:
                    text = "" if may_nest else element.to_text()
                    if not text or len(text) > ANCHOR_LENGTH_MAX or "\n" in text:
                        text = anchor_text(element, may_nest=may_nest)
                    found[url] = Link(url, text, rel)
            elif not known.anchor or known.rel != rel:
                found[url] = _merge_links(known, anchor_text(element, may_nest=may_nest), rel)

    def add_link_element(self, href: str, rel: str, type_: str) -> str | None:
        """Add a link element if it leads to a page for people. Returns the target."""
        tokens = rel_tokens(rel)
        kinds = set(tokens.split())
        if kinds & NAVIGATION_RELS and not kinds & _RESOURCE_RELS and type_.strip().lower() in _PAGE_TYPES:
            return self.add(href, "", tokens)
        return None

    def all(self) -> tuple[Link, ...]:
        return tuple(self._found.values())


def _merge_links(known: Link, anchor: str, rel: str) -> Link:
    """Merge two links to one page. One link that may be followed is enough: `nofollow` stays only if both have it."""
    rels = rel.split()
    return Link(known.url, known.anchor or anchor, " ".join(token for token in known.rel.split() if token in rels))


def anchor_text(element: Element, *, may_nest: bool = True) -> str:
    """The text of a link, or the alternative text of its image.

    An `a` that contains another `a` (broken tables do that) has no text of its own: with thousands of them nested, the
    same text would be read over and over.
    """
    if may_nest and element.find("a") is not None:
        return ""
    text = element.to_text() or element.attr("alt") or element.attr("title") or ""
    if not text and (image := element.find("img")) is not None:
        text = image.attr("alt") or ""
    if "\n" in text or len(text) > ANCHOR_LENGTH_MAX:
        text = " ".join(text[: 4 * ANCHOR_LENGTH_MAX].split())[:ANCHOR_LENGTH_MAX].rstrip()
    return text


def rel_tokens(rel: str) -> str:
    """The tokens of a rel attribute in lower case, separated by single spaces."""
    return " ".join(rel[:REL_LENGTH_MAX].lower().split())


def script_targets(document: Document, markup: str, text: str) -> list[str]:
    """The literal targets to which the scripts of a page with hardly any text send its readers, as written."""
    if len(text) > SCRIPTED_TEXT_MAX or "location" not in markup:
        return []
    found: dict[str, None] = {}
    for script in _scripts(document):
        for assigned in _assigned(script[:SCRIPT_LENGTH_MAX]):
            rest = assigned[4].strip()
            target = assigned[1] or assigned[2] or assigned[3]
            if (not rest.startswith("+") or _own_query(rest)) and len(found) < TARGETS_MAX:
                found[_escape(_unescaped, target)[:TARGET_LENGTH_MAX]] = None
    return list(found)


def _scripts(document: Document) -> Iterator[str]:
    """The inline scripts of a page, and what its body does when it is loaded."""
    for element in document.find_all("script")[:SCRIPTS_MAX]:
        if element.attr("src") is None and (element.attr("type") or "").strip().lower() in _SCRIPT_TYPES:
            yield element.text
    for body in document.find_all("body")[:1]:
        yield body.attr("onload") or ""


def _unescaped(escape: re.Match[str]) -> str:
    code = escape[1] or escape[2]
    return chr(int(code, 16)) if code else escape[3]


def encode_query(href: str, charset: str) -> str:
    """Encode the query, and only the query, in the page's legacy encoding, as the WHATWG URL standard requires.

    `?q=ação` on a windows-1252 page means `?q=a%E7%E3o`. Characters that the encoding lacks become `&#8212;`, escaped.
    """
    before, mark, rest = href.partition("?")
    query, hash_mark, fragment = rest.partition("#")
    if not mark or query.isascii() or "#" in before:
        return href
    try:
        encoded = query.encode(PYTHON_CODECS.get(charset, charset), _AS_REFERENCES)
    except LookupError:
        return href
    return f"{before}?{encoded.decode('latin-1').translate(_ESCAPES)}{hash_mark}{fragment}"


def _as_references(error: UnicodeError) -> tuple[bytes, int]:
    assert isinstance(error, UnicodeEncodeError)
    lacking = error.object[error.start : error.end]
    return b"".join(b"%%26%%23%d%%3B" % ord(character) for character in lacking), error.end


codecs.register_error(_AS_REFERENCES, _as_references)
