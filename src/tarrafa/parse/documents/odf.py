"""Reads ODT, ODS and ODP files (OpenDocument): text, headings, links.

Promises: paragraphs (in a spreadsheet: rows) become lines, in document order. Headings, slide titles and sheet names
become headings. Links keep the text under them. Deleted text, comments and speaker's notes are left out.
Knows nothing of ZIP or URLs.
"""

import re

from tarrafa.parse.documents import document as limits
from tarrafa.parse.documents.document import ENCRYPTED, ExtractedDocument, LineBuilder, UnreadableDocument
from tarrafa.parse.documents.zip_xml import XmlPartHandler, ZipXmlPackage, attribute_value

HEADING_LEVELS = ("", "1", "2", "3")  # as in HTML: h1 to h3

_hyperlink_formula = re.compile(r'HYPERLINK\(\s*"([^"]+)"', re.IGNORECASE).search
_has_scheme = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:|//").match


def read(package: ZipXmlPackage, document: ExtractedDocument) -> None:
    """Read the package into `document`."""
    document.title, document.language = package.properties("meta.xml")
    manifest = _OdfManifest()
    package.parse_part_leniently("META-INF/manifest.xml", manifest)
    if manifest.is_encrypted:
        raise UnreadableDocument(ENCRYPTED)
    package.parse_part(limits.ODF_CONTENT, _OdfContentReader(document))


class _OdfContentReader(LineBuilder):
    """Reads the body of content.xml. In a spreadsheet a row is a line; elsewhere a paragraph is a line."""

    handled = frozenset(
        {"p", "h", "s", "tab", "line-break", "a", "note", "frame", "spreadsheet", "table", "table-row", "table-cell"}
        | {"style", "table-properties"}
    )
    skipped = frozenset(
        {"annotation", "tracked-changes", "notes", "note-citation", "forms", "font-face-decls", "scripts"}
        | {"ruby-text", "event-listeners", "object", "image"}
    )

    def __init__(self, document: ExtractedDocument) -> None:
        super().__init__(document)
        self._in_spreadsheet = False
        self._style = ""
        self._hidden: set[str] = set()  # styles of hidden sheets
        self._is_hidden = False
        self._in_paragraph = 0
        self._is_title = False  # inside the frame of a slide's title

    def start(self, name: str, attributes: dict[str, str]) -> None:
        if name in ("p", "h"):
            self._in_paragraph += 1
            if not self._in_spreadsheet:
                self.end_line()
                self.is_heading = self._is_title or (
                    name == "h" and attribute_value(attributes, "outline-level") in HEADING_LEVELS
                )
        elif name in ("s", "tab", "line-break"):
            self.add("\n" if name == "line-break" and not self._in_spreadsheet else " ")
        elif name == "a":
            self.open_link(_external_href(attribute_value(attributes, "href")))
        elif name == "note":
            self.interrupt()
        elif name == "frame":
            self._is_title = attribute_value(attributes, "class") == "title"
        elif name == "spreadsheet":
            self._in_spreadsheet = True
        elif self._in_spreadsheet:
            self._start_sheet(name, attributes)
        elif name == "style":
            self._style = attribute_value(attributes, "name")
        elif name == "table-properties" and attribute_value(attributes, "display") == "false":
            self._hidden.add(self._style)

    def _start_sheet(self, name: str, attributes: dict[str, str]) -> None:
        if name == "table":
            self._is_hidden = attribute_value(attributes, "style-name") in self._hidden
            if not self._is_hidden:
                self.document.add_heading(attribute_value(attributes, "name"))
                self.document.add_line(attribute_value(attributes, "name"))
        elif name == "table-cell" and (found := _hyperlink_formula(attribute_value(attributes, "formula"))):
            self.document.add_link(found[1])

    def end(self, name: str) -> None:
        if name in ("p", "h"):
            self._in_paragraph -= 1
            if self._in_spreadsheet:
                self.add(" ")
            else:
                self.end_line()
        elif name == "a":
            self.close_link()
        elif name == "note":
            self.resume()
        elif name == "frame":
            self._is_title = False
        elif name == "table-row" and self._in_spreadsheet:
            self.end_line()

    def text(self, text: str) -> None:
        if self._in_paragraph > 0 and not self._is_hidden:
            self.add(text.replace("\n", " "))


def _external_href(href: str) -> str:
    """The href seen from the document's folder, which is `../` inside the package (ODF part 3 §4.9)."""
    if _has_scheme(href) or href.startswith("/"):
        return href
    return href.removeprefix("../") if href.startswith("../") else ""


class _OdfManifest(XmlPartHandler):
    """Reads the manifest of the package, only to learn whether its parts are encrypted."""

    handled = frozenset({"encryption-data"})

    def __init__(self) -> None:
        self.is_encrypted = False

    def start(self, name: str, attributes: dict[str, str]) -> None:
        self.is_encrypted = True
