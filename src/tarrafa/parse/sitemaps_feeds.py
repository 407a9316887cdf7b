"""Parses sitemaps, sitemap indexes, RSS and Atom feeds: their URLs and `lastmod` dates.

Promises: reads the Sitemaps protocol (sitemap, sitemap index, plain text, each of them gzipped or not), RSS 0.9x, 1.0
and 2.0, and Atom. Any bytes give a `Listing`, in linear time and with a few megabytes of memory beside the result. Each
URL appears once, canonical, with the latest change that its author claims. A file that is not well-formed XML is parsed
strictly up to its fault, and leniently from there; one that declares entities is read no further.
Knows nothing of hosts: the caller decides whether a sitemap may list a URL.

The text streams through expat in pieces, and of its events only the children of an entry matter. Expat rescans an
unfinished token with every piece, and keeps every name that it ever saw: hence the bounds on both.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from html import unescape
from itertools import chain
from xml.parsers import expat

from tarrafa.model import Listing, ListingEntry
from tarrafa.parse.date_formats import parse_date
from tarrafa.parse.listing_text import TextStream
from tarrafa.parse.url import INPUT_LENGTH_MAX, BaseUrl, UrlIdentity, base_url_of, canonical

SITEMAP_BYTES_MAX = 52_428_800  # sitemaps.org: of one file, unpacked
SITEMAP_URLS_MAX = 50_000  # sitemaps.org: of one file; empty and repeated entries count as well
DEPTH_MAX = 256  # of nested elements: Atom may contain whole pages
ELEMENTS_MAX = 2_000_000  # tags, entities or lines processed: 50 MB of images are 1.2 million
NAMES_MAX = 10_000  # distinct names of elements and attributes
TOKEN_BYTES_MAX = 262_144  # of one tag or comment
FIELD_LENGTH_MAX = INPUT_LENGTH_MAX
SNIFFED_LENGTH = 8_192
TAGS_KEPT = 4  # carried over from one piece of broken XML to the next, at most

_PLAIN = UrlIdentity()
_BLANK = "\ufeff \t\r\n"
_CONTROLS = bytes(set(range(32)) - {9, 10, 13})  # invalid in XML, but present in broken feeds
_ALTERNATE = ("alternate", "http://www.iana.org/assignments/relation/alternate")
_DUBLIN_CORE = "http://purl.org/dc/elements/1.1/"


@dataclass(frozen=True, slots=True)
class _ListingFormat:
    """The element names of one family of files, in lower case, without the prefix of the family's namespace."""

    entries: frozenset[str]  # the elements that are entries
    url_fields: tuple[str, ...]  # children of an entry that hold its URL, the best first
    date_fields: tuple[str, ...]  # children of an entry that hold its date of change
    namespaces: frozenset[str]  # without a prefix any other namespace, or none, is accepted: sites write them freely

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
    ("updated", "modified", "published", "issued"),  # the second and the last are from Atom 0.3
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
# A tag that matters and the text after it. Only the CDATA marker may pass a `<`, so the search is linear.
_tag = re.compile(
    rf"<(?=[/\w])(/?)(?:([\w.-]{{1,32}}):)?({_TAGS})((?:[\s/][^<>]*+)?+)>"
    r"(?:\s*+<!\[CDATA\[((?:[^<\]]|\](?!\]>))*+)\]\]>|([^<]*+))",
    re.IGNORECASE | re.ASCII,
)
_attribute = re.compile(r"""\s(href|rel|isPermaLink)\s*=\s*(?:"([^"]*)|'([^']*))""")
_entity = re.compile(r"&#?\w{1,32};")


def parse_sitemap_or_feed(body: bytes, url: str, content_type: str = "", identity: UrlIdentity = _PLAIN) -> Listing:
    """Parse the sitemap or feed at `url`. A body that is itself gzipped, such as `sitemap.xml.gz`, is unpacked here."""
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
    if guess is not None and guess[2].lower() != "html":  # a warning or an invalid prolog precedes the root element
        found.kind, dialect = _ROOTS[guess[2].lower()]
        prefixes = _prefixes(dialect, guess[1] or "", {})
        _read_leniently(chain([first], pieces), found, dialect, prefixes, found.base)


class _ListingLimitReached(Exception):
    """A limit is reached, or the file declares entities. URLs found so far are kept; no more is read."""


@dataclass(slots=True)
class _ListingEntry:
    """One entry being read: its element, its base, and the first non-empty text of each field."""

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
    """The URLs listed so far."""

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
        """Add a complete entry."""
        fields = entry.fields
        reference = next((fields[name] for name in dialect.url_fields if name in fields), "")
        date = next((fields[name] for name in dialect.date_fields if name in fields), "")
        self.add_url(reference, entry.base, date, self.sitemaps if entry.element == "sitemap" else self.entries)

    def add_url(self, reference: str, base: BaseUrl, date: str, into: dict[str, float]) -> None:
        """Add a URL and when it changed. A list that names itself, as an empty reference does, is skipped."""
        self._seen += 1
        if self._seen > SITEMAP_URLS_MAX:
            raise _ListingLimitReached
        url = base.join(reference) if reference else None
        if url is None or url == self._own:
            return
        url = self._fold(url)
        into[url] = max(into.get(url, 0.0), parse_date(date) if date else 0.0)


def _prefixes(dialect: _ListingFormat, of_root: str, attributes: dict[str, str]) -> dict[str, str]:
    """Maps each prefix: the dialect's own prefixes to nothing, all others to those of extensions.

    Only the declarations on the root element are used, because that is where sites declare their prefixes. An
    undeclared prefix is no error. So `image:loc` is never taken for `loc`, whatever else is wrong with the file.
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
    """Reads XML strictly. After `read` returns, `dialect` is that of the root element, if it is a known one."""

    def __init__(self, found: _ListingBuilder) -> None:
        self.dialect: _ListingFormat | None = None
        self.prefixes: dict[str, str] = {}
        self._found = found
        self.base = found.base
        self._names: dict[str, str] = {}  # name as written: our name for it, or empty
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
        """Read to the end, or to the first fault: then return the rest from the faulty tag or entry on."""
        try:
            return self._fed(pieces)
        finally:
            parser = self._parser  # breaks the reference cycle between the two
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
        self._found.cut = True  # otherwise the root element would have ended
        if self._entry is not None and self.dialect is not None:
            self._found.add(self._entry, self.dialect)
        return None

    @property
    def _is_over(self) -> bool:
        """Whether the rest can be ignored: the root element has ended, or is of no known kind."""
        return self._elements > 0 and (self._depth == 0 or self.dialect is None)

    def _doctype(self, name: str, system_id: str | None, public_id: str | None, has_subset: int) -> None:
        """Ignore the DTD that old RSS names. A DTD inside the file declares entities (bombs): stop reading."""
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
        """Our own name for an element, or empty."""
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
    """Lenient: read malformed XML (a bare `&`, an HTML entity, an unclosed tag) tag by tag.

    Known weakness: comments and nesting are not seen, so the content of a comment or an Atom `source` is taken too.
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
            attributes = {found[1]: _unescaped(found[2] or found[3] or "") for found in _attribute.finditer(tag[4])}
            entry.put(name, attributes, _unescaped(tag[6]) if tag[5] is None else tag[5])
        is_over = bool(tag[1]) and tag[3].lower() in _ROOTS
    if entry is not None:
        found.add(entry, dialect)
    if not is_over:
        found.cut = True


def _tags(pieces: Iterator[str]) -> Iterator[re.Match[str]]:
    """The tags that matter. Text at the end of a cut file may be incomplete, so it is not returned."""
    tail = ""
    for piece in pieces:
        text = tail + piece
        end = len(text)
        for _ in range(TAGS_KEPT):  # back to a tag that is certainly not CDATA: the text before it is complete
            end = text.rfind("<", 0, end)
            if end < 0 or text[end + 1 : end + 2] not in ("!", ""):
                break
        end = max(end, 0)
        yield from _tag.finditer(text, 0, end)
        tail = text[end:] if len(text) - end <= TOKEN_BYTES_MAX else ""
    yield from (tag for tag in _tag.finditer(tail) if tag[1] or tag.end() < len(tail))


def _unescaped(text: str) -> str:
    """Replaces only the entities that end in a semicolon, so that `?a=1&copy=2` stays as it is."""
    return _entity.sub(lambda found: unescape(found[0]), text) if "&" in text else text


def _read_lines(pieces: Iterator[str], stream: TextStream, found: _ListingBuilder) -> None:
    """sitemaps.org: a plain text sitemap has one URL per line and nothing else; other lines are skipped."""
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
