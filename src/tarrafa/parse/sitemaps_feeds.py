"""Parses sitemaps, sitemap indexes, RSS and Atom feeds: their URLs and `lastmod` dates.

Promises: the Sitemaps protocol (sitemap, index of sitemaps, plain text, each of them gzipped or not), RSS 0.9x, 1.0
and 2.0, and Atom. Any bytes give a `Listing`, in linear time and with a few megabytes of memory beside the result;
each URL once, canonical, with the latest change that its author claims. A file that declares entities is read no
further. One that is no well-formed XML is read by the rules up to its fault, and from there as well as can be. Knows
nothing of hosts: whether a sitemap may speak of a URL is decided by who asks.

The text streams through expat in pieces, and of its events only an entry's own children matter. Expat reads an
unfinished token again with every piece, and keeps every name that it ever saw: hence the bounds on both.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from html import unescape
from itertools import chain
from xml.parsers import expat

from tarrafa.model import Listing, ListingEntry
from tarrafa.parse.text.dates import parse_date
from tarrafa.parse.text.text_stream import TextStream
from tarrafa.parse.url import INPUT_LENGTH_MAX, BaseUrl, UrlIdentity, base_url_of, canonical

SITEMAP_BYTES_MAX = 52_428_800  # sitemaps.org: of one file, unpacked
SITEMAP_URLS_MAX = 50_000  # likewise; those that say nothing, or nothing new, count as well
DEPTH_MAX = 256  # of elements in each other: Atom may hold whole pages
ELEMENTS_MAX = 2_000_000  # tags, entities or lines that cost us a step: 50 MB of images are 1.2 million
NAMES_MAX = 10_000  # different ones, of elements and attributes
TOKEN_BYTES_MAX = 262_144  # of one tag or comment
FIELD_LENGTH_MAX = INPUT_LENGTH_MAX
SNIFFED_LENGTH = 8_192
TAGS_KEPT = 4  # from one piece of broken XML to the next, at most

_PLAIN = UrlIdentity()
_BLANK = "\ufeff \t\r\n"
_CONTROLS = bytes(set(range(32)) - {9, 10, 13})  # XML has no place for them, broken feeds do
_ALTERNATE = ("alternate", "http://www.iana.org/assignments/relation/alternate")
_DUBLIN_CORE = "http://purl.org/dc/elements/1.1/"


@dataclass(frozen=True, slots=True)
class _ListingFormat:
    """How one family of files says it. Names are in lower case, without the prefix of the family's own namespace."""

    entries: frozenset[str]  # the elements that are an entry each
    url_fields: tuple[str, ...]  # which of its children say where it is, the best first
    date_fields: tuple[str, ...]  # and when it changed
    namespaces: frozenset[str]  # any other, or none, will do where no prefix stands: the Web writes them as it likes

    @property
    def names(self) -> frozenset[str]:
        return self.entries.union(self.url_fields, self.date_fields)


_SITEMAP = _ListingFormat(
    frozenset({"url", "sitemap"}),
    ("loc",),
    ("lastmod",),
    frozenset({"http://www.sitemaps.org/schemas/sitemap/0.9", "http://www.google.com/schemas/sitemap/0.84"}),
)
_RSS = _ListingFormat(
    frozenset({"item"}),
    ("link", "guid", "rdf:about"),
    ("pubdate", "dc:date", "date"),
    frozenset({"http://purl.org/rss/1.0/", "http://my.netscape.com/rdf/simple/0.9/"}),
)
_ATOM = _ListingFormat(
    frozenset({"entry"}),
    ("link",),
    ("updated", "modified", "published", "issued"),  # the second and the last are of Atom 0.3
    frozenset({"http://www.w3.org/2005/Atom", "http://purl.org/atom/ns#"}),
)
_ROOTS = {
    "urlset": ("sitemap", _SITEMAP),
    "sitemapindex": ("sitemapindex", _SITEMAP),
    "rss": ("rss", _RSS),
    "rdf": ("rss", _RSS),
    "feed": ("atom", _ATOM),
}
_TAGS = "|".join(
    sorted({name.rpartition(":")[2] for name in _ROOTS.keys() | _SITEMAP.names | _RSS.names | _ATOM.names})
)

_absolute = re.compile(r"https?://", re.IGNORECASE).match
_root = re.compile(
    rf"<(?:([\w.-]{{1,32}}):|!doctype\s{{1,8}})?(html|{'|'.join(_ROOTS)})(?=[\s/>])", re.IGNORECASE | re.ASCII
)
# A tag that matters and the text behind it. Nothing in it but the mark of CDATA passes a `<`: the search is linear.
_tag = re.compile(
    rf"<(?=[/\w])(/?)(?:([\w.-]{{1,32}}):)?({_TAGS})((?:[\s/][^<>]*+)?+)>"
    r"(?:\s*+<!\[CDATA\[((?:[^<\]]|\](?!\]>))*+)\]\]>|([^<]*+))",
    re.IGNORECASE | re.ASCII,
)
_attribute = re.compile(r"""\s(href|rel|isPermaLink)\s*=\s*(?:"([^"]*)|'([^']*))""")
_entity = re.compile(r"&#?\w{1,32};")


def parse_sitemap_or_feed(body: bytes, url: str, content_type: str = "", identity: UrlIdentity = _PLAIN) -> Listing:
    """What the file at `url` lists. A body that is gzipped itself, as `sitemap.xml.gz` is, is unpacked here."""
    stream = TextStream(body, content_type, SITEMAP_BYTES_MAX)
    found = _ListingBuilder(url, identity)
    try:
        _read(stream, found)
    except _ListingLimitReached:
        found.cut = True
    return Listing(
        entries=tuple(ListingEntry(*entry) for entry in found.entries.items()),
        sitemaps=tuple(ListingEntry(*entry) for entry in found.sitemaps.items()),
        kind=found.kind,
        cut=found.cut or stream.cut,
    )


def _read(stream: TextStream, found: "_ListingBuilder") -> None:
    pieces = stream.pieces()
    first = next((piece for piece in pieces if piece.strip(_BLANK)), "").lstrip(_BLANK)
    guess = _root.search(first, 0, SNIFFED_LENGTH)
    if first.startswith("<"):
        xml = _ListingXmlReader(found)
        rest = xml.read(chain([first], pieces))
        if xml.dialect is not None:
            if rest is not None:
                _read_leniently(rest, found, xml.dialect, xml.prefixes, xml.base)
            return
    elif guess is None:
        _read_lines(chain([first], pieces), stream, found)
        return
    if guess is not None and guess[2].lower() != "html":  # a warning stands before it, or a prolog that is none
        found.kind, dialect = _ROOTS[guess[2].lower()]
        prefixes = _prefixes(dialect, guess[1] or "", {})
        _read_leniently(chain([first], pieces), found, dialect, prefixes, found.base)


class _ListingLimitReached(Exception):
    """A limit is reached, or something is asked that nobody may ask of us: what was found stands, no more is read."""


@dataclass(slots=True)
class _ListingEntry:
    """One entry in the making: its element, its base, and the first text of each field that says something."""

    element: str
    base: BaseUrl
    fields: dict[str, str] = field(default_factory=dict)

    def put(self, name: str, attributes: dict[str, str], text: str) -> None:
        if name == "link" and "href" in attributes:
            if attributes.get("rel", "alternate").strip().lower() not in _ALTERNATE:
                return
            text = attributes["href"]
            if "xml:base" in attributes:
                text = _with_xml_base(self.base, attributes).join(text) or ""
        text = text.strip()
        if name == "guid" and (attributes.get("isPermaLink", "").lower() == "false" or not _absolute(text)):
            return
        if text and len(text) <= FIELD_LENGTH_MAX:
            self.fields.setdefault(name, text)


class _ListingBuilder:
    """What is listed so far."""

    def __init__(self, url: str, identity: UrlIdentity) -> None:
        self.base = base_url_of(url)
        self.kind = ""
        self.cut = False
        self.entries: dict[str, float] = {}
        self.sitemaps: dict[str, float] = {}
        self._own = canonical(url)
        self._fold = identity.fold
        self._seen = 0

    def add(self, entry: _ListingEntry, dialect: _ListingFormat) -> None:
        """Note an entry that is complete."""
        said = entry.fields
        place = next((said[name] for name in dialect.url_fields if name in said), "")
        told = next((said[name] for name in dialect.date_fields if name in said), "")
        self.add_url(place, entry.base, told, self.sitemaps if entry.element == "sitemap" else self.entries)

    def add_url(self, reference: str, base: BaseUrl, told: str, into: dict[str, float]) -> None:
        """Note a URL and when it changed. A list that names itself, as an empty reference does, says nothing."""
        self._seen += 1
        if self._seen > SITEMAP_URLS_MAX:
            raise _ListingLimitReached
        url = base.join(reference) if reference else None
        if url is None or url == self._own:
            return
        url = self._fold(url)
        into[url] = max(into.get(url, 0.0), parse_date(told) if told else 0.0)


def _prefixes(dialect: _ListingFormat, of_root: str, attributes: dict[str, str]) -> dict[str, str]:
    """What to put for a prefix: nothing for those of the dialect itself; the unknown ones are those of extensions.

    Only what the root declares is looked at, which is where the Web declares its prefixes, and a prefix that nobody
    declared is no error. So `image:loc` is never taken for `loc`, whatever else is wrong with the file.
    """
    known = {"": "", "dc": "dc:", of_root: ""}
    for name, namespace in attributes.items():
        if name.startswith("xmlns:"):
            if namespace.replace("https:", "http:", 1) in dialect.namespaces:
                known[name[6:]] = ""
            elif namespace == _DUBLIN_CORE:
                known[name[6:]] = "dc:"
    return known


class _ListingXmlReader:
    """Reads XML by the rules. Once `read` returns, `dialect` is that of the root, if it is one that we know."""

    def __init__(self, found: _ListingBuilder) -> None:
        self.dialect: _ListingFormat | None = None
        self.prefixes: dict[str, str] = {}
        self._found = found
        self.base = found.base
        self._names: dict[str, str] = {}  # how the file writes them: what they are to us, if anything
        self._depth = self._elements = 0
        self._entry: _ListingEntry | None = None
        self._entry_depth = self._entry_at = 0
        self._field = ""
        self._attributes: dict[str, str] = {}
        self._texts: list[str] = []
        self._room = 0
        self._parser = expat.ParserCreate("utf-8")
        self._parser.buffer_text = True
        self._parser.StartDoctypeDeclHandler = self._doctype
        self._parser.StartElementHandler = self._start_root
        self._parser.EndElementHandler = self._end

    def read(self, pieces: Iterator[str]) -> Iterator[str] | None:
        """Read to the end, or to the first fault: then what is left, from the tag or the entry that has it."""
        try:
            return self._fed(pieces)
        finally:
            parser = self._parser  # each holds the other: let go
            parser.StartDoctypeDeclHandler = parser.StartElementHandler = None
            parser.EndElementHandler = parser.CharacterDataHandler = None

    def _fed(self, pieces: Iterator[str]) -> Iterator[str] | None:
        parser, fed, before = self._parser, 0, b""
        for piece in pieces:
            data = piece.encode("utf-8", "replace").translate(None, _CONTROLS)
            try:
                parser.Parse(data)
            except expat.ExpatError:
                if self._is_over:
                    return None
                at = parser.ErrorByteIndex if self._entry is None else self._entry_at
                near = before + data
                near = near[max(0, near.rfind(b"<", 0, max(0, at - fed + len(before)) + 1)) :]
                return chain([near.decode("utf-8", "replace")], pieces)
            if self._is_over:
                return None
            fed += len(data)
            before = data
            if fed - parser.CurrentByteIndex > TOKEN_BYTES_MAX or len(parser.intern) > NAMES_MAX:
                raise _ListingLimitReached
        self._found.cut = True  # or the root would have ended
        if self._entry is not None and self.dialect is not None:
            self._found.add(self._entry, self.dialect)
        return None

    @property
    def _is_over(self) -> bool:
        """What follows the root is nothing to us, and nothing is if the root is none that we know."""
        return self._elements > 0 and (self._depth == 0 or self.dialect is None)

    def _doctype(self, name: str, system_id: str | None, public_id: str | None, has_subset: int) -> None:
        """Old RSS names its DTD, which nobody reads. One in the file itself declares entities: bombs and spies."""
        if has_subset:
            raise _ListingLimitReached

    def _start_root(self, name: str, attributes: dict[str, str]) -> None:
        self._depth = self._elements = 1
        self._parser.StartElementHandler = self._start
        prefix, _, local = name.rpartition(":")
        if local.lower() not in _ROOTS:
            self._parser.StartElementHandler = self._parser.EndElementHandler = None
            return
        self._found.kind, self.dialect = _ROOTS[local.lower()]
        self.prefixes = _prefixes(self.dialect, prefix, attributes)
        self.base = _with_xml_base(self.base, attributes)

    def _start(self, name: str, attributes: dict[str, str]) -> None:
        self._depth += 1
        self._elements += 1
        if self._depth > DEPTH_MAX or self._elements > ELEMENTS_MAX:
            raise _ListingLimitReached
        known = self._names.get(name)
        if known is None:
            known = self._names[name] = self._known(name)
        if not known:
            return
        if self._entry is None:
            self._start_entry(known, attributes)
        elif self._depth == self._entry_depth + 1 and known not in self._entry.fields:
            self._field, self._attributes, self._texts, self._room = known, attributes, [], FIELD_LENGTH_MAX
            self._parser.CharacterDataHandler = self._text

    def _start_entry(self, known: str, attributes: dict[str, str]) -> None:
        if self.dialect is None or known not in self.dialect.entries:
            return
        self._entry = _ListingEntry(known, _with_xml_base(self.base, attributes))
        self._entry_depth = self._depth
        self._entry_at = self._parser.CurrentByteIndex
        about = attributes.get("rdf:about", "")
        if _absolute(about):
            self._entry.put("rdf:about", {}, about)

    def _text(self, text: str) -> None:
        self._room -= len(text)
        if self._room >= 0:
            self._texts.append(text)

    def _end(self, name: str) -> None:
        entry = self._entry
        if entry is not None:
            if self._depth == self._entry_depth:
                assert self.dialect is not None
                self._found.add(entry, self.dialect)
                self._entry = None
            elif self._field and self._depth == self._entry_depth + 1:
                self._parser.CharacterDataHandler = None
                entry.put(self._field, self._attributes, "".join(self._texts) if self._room >= 0 else "")
                self._field = ""
        self._depth -= 1

    def _known(self, name: str) -> str:
        """Our own name for an element, or nothing."""
        assert self.dialect is not None
        prefix, _, local = name.rpartition(":")
        of_us = self.prefixes.get(prefix)
        known = "" if of_us is None else of_us + local.lower()
        return known if known in self.dialect.names else ""


def _with_xml_base(base: BaseUrl, attributes: dict[str, str]) -> BaseUrl:
    if "xml:base" not in attributes:
        return base
    url = canonical(attributes["xml:base"], base.href)
    return base if url is None else base_url_of(url)


def _read_leniently(
    pieces: Iterator[str], found: _ListingBuilder, dialect: _ListingFormat, prefixes: dict[str, str], base: BaseUrl
) -> None:
    """Lenient: read what is no XML (a bare `&`, an entity of HTML, a tag that nobody closed) tag by tag.

    Known weakness: comments and nesting are not seen, so what a comment or an Atom `source` holds is taken too.
    """
    entry: _ListingEntry | None = None
    names, is_over, steps = dialect.names, False, 0
    for tag in _tags(pieces):
        steps += 1 + tag[0].count("&")
        if steps > ELEMENTS_MAX:
            raise _ListingLimitReached
        own = prefixes.get(tag[2] or "")
        name = "" if own is None else own + tag[3].lower()
        if name in dialect.entries:
            if entry is not None:
                found.add(entry, dialect)
            entry = None if tag[1] else _ListingEntry(name, base)
        elif entry is not None and not tag[1] and name in names:
            attributes = {said[1]: _unescaped(said[2] or said[3] or "") for said in _attribute.finditer(tag[4])}
            entry.put(name, attributes, _unescaped(tag[6]) if tag[5] is None else tag[5])
        is_over = bool(tag[1]) and tag[3].lower() in _ROOTS
    if entry is not None:
        found.add(entry, dialect)
    if not is_over:
        found.cut = True


def _tags(pieces: Iterator[str]) -> Iterator[re.Match[str]]:
    """The tags that matter. Text that the file ends in may go on, had it not been cut: it is not given."""
    tail = ""
    for piece in pieces:
        text = tail + piece
        end = len(text)
        for _ in range(TAGS_KEPT):  # back to a tag that is surely no CDATA: the text before it is whole
            end = text.rfind("<", 0, end)
            if end < 0 or text[end + 1 : end + 2] not in ("!", ""):
                break
        end = max(end, 0)
        yield from _tag.finditer(text, 0, end)
        tail = text[end:] if len(text) - end <= TOKEN_BYTES_MAX else ""
    yield from (tag for tag in _tag.finditer(tail) if tag[1] or tag.end() < len(tail))


def _unescaped(text: str) -> str:
    """Only what ends in a semicolon: `?a=1&copy=2` says what it says."""
    return _entity.sub(lambda found: unescape(found[0]), text) if "&" in text else text


def _read_lines(pieces: Iterator[str], stream: TextStream, found: _ListingBuilder) -> None:
    """sitemaps.org: a plain text sitemap has one URL a line, and nothing else; what else it has is passed over."""
    tail, seen = "", 0
    for piece in pieces:
        *lines, tail = (tail + piece).replace("\r", "\n").split("\n")
        seen += len(lines)
        if seen > ELEMENTS_MAX:
            raise _ListingLimitReached
        for line in lines:
            _add_line(line, found)
        tail = tail[: FIELD_LENGTH_MAX + 1]
    if not stream.cut:
        _add_line(tail, found)


def _add_line(line: str, found: _ListingBuilder) -> None:
    line = line.strip()
    if _absolute(line) and len(line) <= FIELD_LENGTH_MAX:
        found.kind = "text"
        found.add_url(line, found.base, "", found.entries)
