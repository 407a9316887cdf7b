"""Detects and reads PDF, RTF and office documents, and holds the limits of all document formats.

Promises: the limits of all document formats are named here. Content beyond a limit is not read. A document that yields
nothing before it passes a limit raises `UnreadableDocument`, and so does an encrypted or damaged one.
Knows nothing of URLs or `Page`: `parse.page` turns an `ExtractedDocument` into a `Page`. The library of a format is
imported when the first document of that format is read.
"""

import re
from dataclasses import dataclass, field

from tarrafa.i18n import Message, joined, message

BODY_BYTES_MAX = 64 << 20  # larger bodies are refused: a cut archive or PDF has lost its table of contents
HEADINGS_MAX = 64
HEADING_LENGTH_MAX = 256
PIECE_LENGTH_MAX = 1 << 16  # characters of one line
HREFS_MAX = 10_000  # distinct hrefs kept; at most `link_extractor.LINKS_MAX` of them become links
HREF_LENGTH_MAX = 4_096
ANCHOR_LENGTH_MAX = 256
ANCHOR_PIECES_MAX = 64
PROPERTY_LENGTH_MAX = 1_024  # title, language

DETAIL_CHARS_MAX = 120  # of an UnreadableDocument
ENCRYPTED, DAMAGED, TOO_MUCH = message("encrypted"), message("damaged"), message("too much")

PDF_PAGES_MAX = 500
PDF_OBJECTS_MAX = 500_000  # text, lines and pictures of all pages together
PDF_ANNOTATIONS_MAX = 20_000  # examined to find links
PDF_BOOKMARKS_MAX = 1_000
PDF_ANCHOR_CHARACTERS_MAX = 20_000_000  # examined to find the text under links

PACKAGE_MEMBERS_MAX = 10_000
PACKAGE_MEMBER_BYTES_MAX = 32 << 20  # unpacked
PACKAGE_BYTES_MAX = 64 << 20  # unpacked, all members together
PACKAGE_PARTS_MAX = 500  # slides, sheets
PACKAGE_RELATIONS_MAX = 20_000  # of one part
XML_DEPTH_MAX = 512
XML_ELEMENTS_MAX = 500_000  # in all parts together
XML_NAMES_MAX = 10_000  # distinct names in one part: expat keeps them all
XML_TOKEN_BYTES_MAX = 1 << 18  # of one tag: expat rescans an unfinished tag with every piece
SHARED_STRINGS_LENGTH_MAX = 4_000_000  # characters of a workbook's table of strings
OPEN_LINKS_MAX = 8  # nested links
FIELDS_DEPTH_MAX = 16
RTF_GROUPS_MAX = 512  # nested groups
RTF_TOKENS_MAX = 1_000_000

_OOXML = "application/vnd.openxmlformats-officedocument."
_ODF = "application/vnd.oasis.opendocument."
_MACROS = ".macroenabled.12"
PDF_TYPES = frozenset({"application/pdf", "application/x-pdf"})
RTF_TYPES = frozenset({"application/rtf", "application/x-rtf", "text/rtf", "text/richtext"})
OFFICE_TYPES = frozenset(
    {f"{_OOXML}wordprocessingml.{kind}" for kind in ("document", "template")}
    | {f"{_OOXML}spreadsheetml.{kind}" for kind in ("sheet", "template")}
    | {f"{_OOXML}presentationml.{kind}" for kind in ("presentation", "slideshow", "template")}
    | {f"application/vnd.ms-word.{kind}{_MACROS}" for kind in ("document", "template")}
    | {f"application/vnd.ms-excel.{kind}{_MACROS}" for kind in ("sheet", "template")}
    | {f"application/vnd.ms-powerpoint.{kind}{_MACROS}" for kind in ("presentation", "slideshow", "template")}
    | {f"{_ODF}{kind}{more}" for kind in ("text", "spreadsheet", "presentation") for more in ("", "-template")}
)
DOCUMENT_KINDS = frozenset({"pdf", "office", "rtf"})
# Content types that are too vague: the first bytes decide. Servers send any Word document as application/msword.
VAGUE_TYPES = frozenset(
    {"", "application/octet-stream", "binary/octet-stream", "application/msword"}
    | {"application/vnd.ms-excel", "application/vnd.ms-powerpoint"}
)

ODF_CONTENT, OOXML_CONTENT_TYPES = "content.xml", "[content_types].xml"  # the parts by which a package is recognized
_odf_type = re.compile(rb"application/vnd\.oasis\.opendocument\.(?:text|spreadsheet|presentation)").match
_OLE = b"\xd0\xcf\x11\xe0"  # Office 97; an OOXML document with a password is also packed into an OLE file
_ENCRYPTED_OLE = "EncryptedPackage".encode("utf-16-le")
_GENERATOR_PREFIX = re.compile(r"Microsoft (?:Office )?(?:Word|PowerPoint|Excel) - ", re.IGNORECASE)
_PLACEHOLDER_TITLES = frozenset(
    {"untitled", "untitled document", "sem título", "powerpoint presentation", "apresentação do powerpoint"}
    | {"slide 1", "word document", "documento do word", "microsoft word document"}
)
# Characters that no text holds and that JSON and CLD2 refuse: controls, lone surrogates, non-characters.
_unfit = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff\ufdd0-\ufdef\ufffe\uffff]+")


class UnreadableDocument(ValueError):
    """A document that cannot be read. Its message is the reason: `encrypted`, `damaged: no PDF`."""

    def __init__(self, reason: Message, detail: Message | str = "") -> None:
        self.reason, self.message = reason, joined([one for one in (reason, detail) if one], ": ")
        super().__init__(str(self.message))


class LimitReached(Exception):
    """The document has more content than the limits keep, or than they allow to examine."""


@dataclass(slots=True)
class ExtractedDocument:
    """What the reader of a format collects. `chars_left`: how many more characters of text fit."""

    chars_left: int
    title: str = ""
    language: str = ""
    headings: list[str] = field(default_factory=list)
    lines: list[str] = field(default_factory=list)
    hrefs: dict[str, str] = field(default_factory=dict)  # href: text under the link

    def add_line(self, line: str) -> None:
        """Add one or more lines of text."""
        if line and not line.isspace():
            self.lines.append(line[: self.chars_left])
            self.chars_left -= len(line) + 1
            if self.chars_left <= 0:
                raise LimitReached

    def add_heading(self, line: str) -> None:
        """Add a heading. A heading that is part of the text is also added as a line by the caller."""
        if len(self.headings) < HEADINGS_MAX and (heading := one_line(line, HEADING_LENGTH_MAX)):
            self.headings.append(heading)

    def add_link(self, href: str, anchor: str = "") -> None:
        """Add a reference as the document writes it. The first non-empty text under it is kept."""
        href = href.strip()
        if not href or len(href) > HREF_LENGTH_MAX:
            return
        known = self.hrefs.get(href)
        if known or (not anchor if known is not None else len(self.hrefs) >= HREFS_MAX):
            return
        self.hrefs[href] = one_line(anchor, ANCHOR_LENGTH_MAX)

    def best_title(self) -> str:
        """The title, or else the first heading. The name of the authoring program is no title."""
        title = _GENERATOR_PREFIX.sub("", one_line(self.title, PROPERTY_LENGTH_MAX))
        if title and title.lower() not in _PLACEHOLDER_TITLES:
            return title
        return self.headings[0] if self.headings else ""


class LineBuilder:
    """Builds lines of text. Text boxes and notes interrupt the line that contains them, and are emitted before it."""

    def __init__(self, document: ExtractedDocument) -> None:
        self.document = document
        self.pieces: list[str] = []
        self.length = 0
        self.is_heading = False
        self._open: list[tuple[str, int]] = []  # open links, and the piece at which their text begins
        self._ignored_links = 0  # nesting depth of links inside ignored links
        self._outer: list[tuple[list[str], int, bool]] = []

    def add(self, text: str) -> None:
        self.pieces.append(text)
        self.length += len(text)
        if self.length > PIECE_LENGTH_MAX:
            self.end_line()

    def end_line(self) -> None:
        line, is_heading = "".join(self.pieces), self.is_heading
        self.pieces, self.length, self.is_heading = [], 0, False
        if self._open:
            self._open = [(href, 0) for href, _ in self._open]
        if is_heading:
            self.document.add_heading(line)
        if line:
            self.document.add_line(line)

    def interrupt(self) -> None:
        self._outer.append((self.pieces, self.length, self.is_heading))
        self.pieces, self.length, self.is_heading = [], 0, False

    def resume(self) -> None:
        self.end_line()
        if self._outer:
            self.pieces, self.length, self.is_heading = self._outer.pop()

    def open_link(self, href: str) -> None:
        """Open a link. Also called without an href, so that every end tag finds its start tag."""
        if len(self._open) < OPEN_LINKS_MAX:
            self._open.append((href, len(self.pieces)))
        else:
            self._ignored_links += 1

    def close_link(self) -> None:
        if self._ignored_links:
            self._ignored_links -= 1
        elif self._open:
            href, begin = self._open.pop()
            if href:
                self.document.add_link(href, "".join(self.pieces[begin : begin + ANCHOR_PIECES_MAX]))


def document_kind(declared: str, body: bytes) -> str:
    """`pdf`, `office`, `rtf` or empty. The first bytes decide where the declared type is too vague."""
    if declared in PDF_TYPES:
        return "pdf"
    if declared in OFFICE_TYPES:
        return "office"
    if declared in RTF_TYPES:
        return "rtf"
    return _sniff(body) if declared in VAGUE_TYPES else ""


def _sniff(body: bytes) -> str:
    if body.startswith(b"%PDF-"):
        return "pdf"
    if body.startswith(b"{\\rtf"):
        return "rtf"
    return "office" if body.startswith(b"PK\x03\x04") and _is_office_document(body) else ""


def _is_office_document(body: bytes) -> bool:
    """Whether a ZIP archive is an OOXML or ODF document."""
    from tarrafa.parse.documents.zip_xml import ZipXmlPackage

    try:
        package = ZipXmlPackage(body)
        return OOXML_CONTENT_TYPES in package or _odf_type(package.first_bytes("mimetype")) is not None
    except (UnreadableDocument, LimitReached):
        return False


def read_document(kind: str, body: bytes, room: int) -> ExtractedDocument:
    """Read a document of this kind, with at most `room` characters of text."""
    if len(body) > BODY_BYTES_MAX:
        raise UnreadableDocument(TOO_MUCH, message("more than {count} MiB", count=BODY_BYTES_MAX >> 20))
    document = ExtractedDocument(room)
    try:
        if kind == "pdf":
            from tarrafa.parse.documents import pdf

            pdf.read(body, document)
        elif kind == "rtf":
            from tarrafa.parse.documents import rtf

            rtf.read(body, document)
        else:
            _read_office_document(body, document)
    except LimitReached:
        if not (document.lines or document.hrefs):
            raise UnreadableDocument(TOO_MUCH, message("its limits passed before its first word")) from None
    return document


def _read_office_document(body: bytes, document: ExtractedDocument) -> None:
    """The parts of the archive tell ODF from OOXML, and a workbook from a letter; the declared type does not."""
    from tarrafa.parse.documents import odf, ooxml
    from tarrafa.parse.documents.zip_xml import ZipXmlPackage

    if body.startswith(_OLE):
        raise (
            UnreadableDocument(ENCRYPTED)
            if _ENCRYPTED_OLE in body
            else UnreadableDocument(DAMAGED, message("of Office 97"))
        )
    package = ZipXmlPackage(body)
    if ODF_CONTENT in package and OOXML_CONTENT_TYPES not in package:
        odf.read(package, document)
    else:
        ooxml.read(package, document)


def replace_invalid_characters(text: str) -> str:
    """The text without characters that no text may hold."""
    return _unfit.sub(" ", text)


def one_line(text: str, length_max: int) -> str:
    """The text in one line, without invalid characters and at most `length_max` long."""
    return " ".join(replace_invalid_characters(text[: 4 * length_max]).split())[:length_max].rstrip()
