"""Extracts the requisites of a page, a style, a script or a manifest: the URLs that are needed to show it.

Of HTML: styles, scripts, frames, icons, manifests and preloads; images with every candidate of `srcset` (which one a
reader's screen wants is not known), and the `data-src` from which scripts of many sites load them later; audio, video,
posters and subtitles; embedded objects; sprites of SVG; backgrounds, also in `style`. Of CSS: `@import`, `url()` and
the strings of `image-set()`. Of a script: the modules that it names (`import`, `export … from`, `import("…")`, `new
URL("…", import.meta.url)`). Of a Web app manifest: its images.
Promises: pure; any bytes give URLs, at most as many as the caller wants, each once, without `data:` and other schemes
than http(s). CSS and scripts are read in one pass, in linear time, up to a length. What changes the look of a page most
comes first: styles, scripts, frames, then images.
An HTML page in place of an image, a style or a script, by the extension of its URL, is no frame: it has no requisites.
Known weakness: what a script puts together is not found (`[render]` finds it), nor what an SVG file, a `srcdoc` or an
import map names. A URL in a comment or a string of a script may be found that no browser would ask for.
Knows nothing of hosts, limits of a collection or robots.txt.
"""

import contextlib
import re
from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any

import msgspec
from turbohtml import Document, Element
from turbohtml import parse as parse_html

from tarrafa.parse import charset
from tarrafa.parse.link_extractor import LinkExtractor
from tarrafa.parse.mime_types import HTML_TYPES, mime_types_of
from tarrafa.parse.url import UrlIdentity, base_url_of, canonical, host_name

BODY_BYTES_MAX = 8 << 20  # bytes beyond it are not read
ELEMENTS_MAX = 50_000  # examined, of each kind
REFERENCE_CHARS_MAX = 4_000
SRCSET_CHARS_MAX, CANDIDATES_MAX = 40_000, 100
IMAGE_SET_CHARS_MAX = 2_000
STYLE_CHARS_MAX = 2 << 20  # of all `style` elements and attributes of a page

STYLE_TYPES = frozenset({"text/css"})
SCRIPT_TYPES = frozenset(
    {"text/javascript", "application/javascript", "application/x-javascript", "application/ecmascript"}
)
MANIFEST_TYPES = frozenset({"application/manifest+json"})
READ_TYPES = HTML_TYPES | STYLE_TYPES | SCRIPT_TYPES | MANIFEST_TYPES  # requisites that may have requisites

LINK_RELS = frozenset({
    "stylesheet", "icon", "apple-touch-icon", "apple-touch-icon-precomposed", "mask-icon", "manifest", "preload",
    "modulepreload",
})  # fmt: skip
# Attributes with one URL each, in the order of what matters most.
FIRST_ELEMENTS: dict[str, tuple[str, ...]] = {
    "script": ("src",), "iframe": ("src", "data-src"), "frame": ("src",), "object": ("data",), "embed": ("src",),
}  # fmt: skip
MEDIA_ELEMENTS: dict[str, tuple[str, ...]] = {
    "img": ("src", "data-src"), "source": ("src", "data-src"), "input": ("src",), "image": ("href", "xlink:href"),
    "use": ("href", "xlink:href"), "feimage": ("href", "xlink:href"), "video": ("src", "poster", "data-src"),
    "audio": ("src", "data-src"), "track": ("src",), "body": ("background",), "table": ("background",),
    "td": ("background",), "th": ("background",), "tr": ("background",),
}  # fmt: skip
SRCSET_ELEMENTS = frozenset({"img", "source"})
SRCSETS = ("srcset", "data-srcset")

# A style as far as its URLs go. Every alternative that begins also ends, at the end of the text at the latest, so that
# no part of a hostile style is read again and again. `@namespace` names a URL that no browser asks for.
_css_token = re.compile(
    r"/\*.*?(?:\*/|\Z)"
    r"|@namespace[^;{}]*+"
    r"|@import\s*+(?:\"((?:[^\"\\\n]|\\.)*+)\"?|'((?:[^'\\\n]|\\.)*+)'?)"
    r"|image-set\(([^;{}]{0,2000})"
    r"|(?<![\w-])url\(\s*+(?:\"((?:[^\"\\\n]|\\.)*+)\"?|'((?:[^'\\\n]|\\.)*+)'?"
    r"|((?:[^\"'()\\\s]|\\[0-9a-f]{1,6}[ \t\n\f]?|\\.)*+))"
    r"|\"(?:[^\"\\\n]|\\.)*+\"?|'(?:[^'\\\n]|\\.)*+'?",
    re.IGNORECASE | re.DOTALL,
).finditer
_css_string = re.compile(r"\"((?:[^\"\\\n]|\\.)*+)\"?|'((?:[^'\\\n]|\\.)*+)'?|url\(\s*+([^\"'()\\\s]*+)", re.DOTALL)
_css_escape = re.compile(r"\\(?:([0-9a-f]{1,6})[ \t\n\f]?|\n|(.))", re.IGNORECASE | re.DOTALL).sub
_css_charset = re.compile(rb'@charset "([\w-]{1,40})";').match
_module = re.compile(
    r"(?:(?<![\w$.])(?:from|import)\s*+(?:\(\s*+)?|(?<![\w$.])new\s++URL\(\s*+)"
    r"([\"'])((?:\.{1,2}/|/|https?://)[^\"'\\\s]{1,1000})\1"
).finditer

_PLAIN = UrlIdentity()
_Resolve = Callable[[str], str | None]


class RequisiteList:
    """Collects URLs: each once, up to a number."""

    def __init__(self, resolve: _Resolve, most: int) -> None:
        self._resolve, self._most = resolve, most
        self._found: dict[str, None] = {}

    @property
    def is_full(self) -> bool:
        return len(self._found) >= self._most

    def add(self, reference: str | None) -> None:
        """Add the target of a reference, if it is one that a server can be asked for."""
        if not reference or len(reference) > REFERENCE_CHARS_MAX or self.is_full:
            return
        reference = reference.strip()
        if not reference or reference.startswith("#"):
            return
        url = self._resolve(reference)
        if url is not None:
            self._found[url] = None

    def add_srcset(self, text: str | None) -> None:
        for candidate in srcset_candidates(text or ""):
            self.add(candidate)

    def add_style(self, text: str) -> None:
        for reference in style_references(text):
            if self.is_full:
                return
            self.add(reference)

    def all(self, without: str = "") -> tuple[str, ...]:
        self._found.pop(without, None)
        return tuple(self._found)


# -- each kind of text -------------------------------------------------------------------------------------------------


def style_references(text: str) -> Iterator[str]:
    """The references of a style, as written but unescaped."""
    for token in _css_token(text):
        if token[3] is not None:
            for part in _css_string.finditer(token[3]):
                yield _unescape_css(part[1] or part[2] or part[3] or "")
            continue
        reference = token[1] or token[2] or token[4] or token[5] or token[6]
        if reference:
            yield _unescape_css(reference)


def _unescape_css(reference: str) -> str:
    return _css_escape(_unescaped, reference) if "\\" in reference else reference


def _unescaped(escape: re.Match[str]) -> str:
    if escape[1]:
        code = int(escape[1], 16)
        return chr(code) if 0 < code <= 0x10FFFF and not 0xD800 <= code < 0xE000 else "\ufffd"
    return escape[2] or ""


def srcset_candidates(text: str) -> Iterator[str]:
    """The URLs of a `srcset` (HTML standard, "parse a srcset attribute"): a comma ends a candidate only behind a space
    or a descriptor, so that URLs may hold commas; a comma within the parentheses of a descriptor ends nothing."""
    text, place, found = text[:SRCSET_CHARS_MAX], 0, 0
    while place < len(text) and found < CANDIDATES_MAX:
        while place < len(text) and (text[place].isspace() or text[place] == ","):
            place += 1
        start = place
        while place < len(text) and not text[place].isspace():
            place += 1
        url = text[start:place]
        if not url:
            return
        found += 1
        if url.endswith(","):
            yield url.rstrip(",")
            continue
        yield url
        is_inside = False
        while place < len(text) and (is_inside or text[place] != ","):
            is_inside = text[place] == "(" or (is_inside and text[place] != ")")
            place += 1


def module_references(text: str) -> Iterator[str]:
    """The modules that a script names by a relative path or a whole URL."""
    if "import" in text or "export" in text:
        for found in _module(text):
            yield found[2]


class _ManifestImage(msgspec.Struct):
    src: str = ""


class _ManifestShortcut(msgspec.Struct):
    icons: list[_ManifestImage] = []


class _Manifest(msgspec.Struct):
    icons: list[_ManifestImage] = []
    screenshots: list[_ManifestImage] = []
    shortcuts: list[_ManifestShortcut] = []


def manifest_references(body: bytes) -> Iterator[str]:
    """The images of a Web app manifest; none if it is no valid one."""
    try:
        manifest = msgspec.json.decode(body.removeprefix(b"\xef\xbb\xbf"), type=_Manifest)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return
    images = [*manifest.icons, *manifest.screenshots]
    for shortcut in manifest.shortcuts:
        images += shortcut.icons
    for image in images:
        yield image.src


# -- a document --------------------------------------------------------------------------------------------------------


def page_requisites(document: Document, page: str, resolve: _Resolve, most: int) -> tuple[str, ...]:
    """The requisites of an HTML document. `page`: its own URL; `resolve` makes a URL of a reference in it."""
    found = RequisiteList(resolve, most)
    for element in islice(document.iter_elements(("link",)), ELEMENTS_MAX):
        if not LINK_RELS.isdisjoint((element.attr("rel") or "").lower().split()):
            found.add(element.attr("href"))
            found.add_srcset(element.attr("imagesrcset"))
    _add_attributes(found, document, FIRST_ELEMENTS)
    _add_inline_scripts(found, document)
    for text in _inline_styles(document):
        found.add_style(text)
    _add_attributes(found, document, MEDIA_ELEMENTS)
    return found.all(without=page)


def _add_attributes(found: RequisiteList, document: Document, elements: dict[str, tuple[str, ...]]) -> None:
    for element in islice(document.iter_elements(tuple(elements)), ELEMENTS_MAX):
        tag = element.tag
        if tag == "input" and (element.attr("type") or "").lower() != "image":
            continue
        for name in elements[tag]:
            found.add(element.attr(name))
        if tag in SRCSET_ELEMENTS:
            for name in SRCSETS:
                found.add_srcset(element.attr(name))
        if found.is_full:
            return


def _add_inline_scripts(found: RequisiteList, document: Document) -> None:
    for element in islice(document.iter_elements(("script",)), ELEMENTS_MAX):
        if (element.attr("type") or "").strip().lower() == "module" and element.attr("src") is None:
            for reference in module_references(element.text):
                found.add(reference)


def _inline_styles(document: Document) -> Iterator[str]:
    """The texts of `style` elements, then those of `style` attributes that name a URL."""
    left = STYLE_CHARS_MAX
    elements: list[Element] = document.find_all("style")
    texts = (element.text for element in elements)
    attributes = (text for element in document.select("[style]") if "url(" in (text := element.attr("style") or ""))
    for many in (texts, attributes):
        for text in islice(many, ELEMENTS_MAX):
            yield text[:left]
            left -= len(text)
            if left <= 0:
                return


def requisites_of(body: bytes, url: str, content_type: str, most: int) -> tuple[str, ...]:
    """The requisites of a requisite: of a style, a script, a manifest, or of the document in a frame."""
    kind, body = requisite_kind(url, content_type), body[:BODY_BYTES_MAX]
    if kind in HTML_TYPES:
        markup, encoding = charset.decode(body, content_type, host_name(url).rpartition(".")[2])
        document = parse_html(markup, positions=False)
        return document_requisites(document, url, encoding, most)
    found = RequisiteList(base_url_of(url).join, most)
    references: Iterator[Any] = iter(())
    if kind in STYLE_TYPES:
        references = style_references(_decode_style(body, content_type))
    elif kind in SCRIPT_TYPES:
        references = module_references(body.decode("utf-8", "replace"))
    elif kind in MANIFEST_TYPES:
        references = manifest_references(body)
    for reference in references:
        if found.is_full:
            break
        found.add(reference)
    return found.all(without=url)


def document_requisites(document: Document, url: str, encoding: str, most: int) -> tuple[str, ...]:
    """The requisites of a parsed document, with the base that it names."""
    base = document.find("base")
    href = base.attr("href") if base is not None else None
    resolve = LinkExtractor(url, base_url_of((canonical(href, url) if href else None) or url), encoding, _PLAIN).resolve
    return page_requisites(document, url, resolve, most)


def requisite_kind(url: str, content_type: str) -> str:
    """The type by which a requisite is read: as the server says, else by its extension; empty: it has no requisites."""
    kind = content_type.partition(";")[0].strip().lower()
    if url.partition("?")[0].endswith(".webmanifest"):
        return "application/manifest+json"
    if kind in HTML_TYPES and mime_types_of(url):
        return ""  # a page that says that the image is missing: it is no frame
    if kind:
        return kind if kind in READ_TYPES else ""
    return next((one for one in mime_types_of(url) if one in READ_TYPES), "")


def _decode_style(body: bytes, content_type: str) -> str:
    stated = _css_charset(body)
    named = content_type.lower().partition("charset=")[2].partition(";")[0].strip(" \"'")
    for label in (named, stated[1].decode("ascii").lower() if stated else ""):
        if name := charset.LABELS.get(label):
            with contextlib.suppress(LookupError):
                return body.decode(charset.PYTHON_CODECS.get(name, name), "replace")
    return body.removeprefix(b"\xef\xbb\xbf").decode("utf-8", "replace")
