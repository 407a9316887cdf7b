"""Reads DOCX, XLSX and PPTX files (ECMA-376): text, headings, links.

Promises: paragraphs, rows and slides become lines, in document order. Headings are found by style, slide title or sheet
name. Links keep the text under them. Deleted text, comments, speaker's notes and hidden sheets are left out.
Knows nothing of ZIP or URLs.
"""

import posixpath
import re
from collections.abc import Iterable
from dataclasses import dataclass

from tarrafa.i18n import message
from tarrafa.parse.documents import document as limits
from tarrafa.parse.documents.document import DAMAGED, ExtractedDocument, LineBuilder, UnreadableDocument
from tarrafa.parse.documents.zip_xml import XmlPartHandler, ZipXmlPackage, attribute_value

HEADING_LEVEL_MAX = 3  # as in HTML: h1 to h3

_heading_style = re.compile(r"heading\s?(\d)|title$", re.IGNORECASE).match
_hyperlink = re.compile(r'\s*HYPERLINK\s+(?!\\)"?([^"\s]+)', re.IGNORECASE).match
_hyperlink_formula = re.compile(r'HYPERLINK\(\s*"([^"]+)"', re.IGNORECASE).search
_carriage_return = re.compile("_x000[dD]_")


@dataclass(slots=True)
class _Relationship:
    kind: str
    target: str  # a part of the package, or a URL
    is_external: bool


class _Relationships(XmlPartHandler):
    """The .rels part that maps the relationship ids of another part to targets."""

    handled = frozenset({"Relationship"})

    def __init__(self, part: str) -> None:
        self._folder = part.rpartition("/")[0]
        self.by_id: dict[str, _Relationship] = {}

    def start(self, name: str, attributes: dict[str, str]) -> None:
        if len(self.by_id) >= limits.PACKAGE_RELATIONS_MAX:
            return
        target = attributes.get("Target", "")[: limits.HREF_LENGTH_MAX]
        is_external = attributes.get("TargetMode", "") == "External"
        if not is_external:
            target = posixpath.normpath(posixpath.join("/", self._folder, target)).lstrip("/")
        kind = attributes.get("Type", "").rpartition("/")[2]
        self.by_id[attributes.get("Id", "")] = _Relationship(kind, target, is_external)

    def parts(self, kind: str) -> list[str]:
        return [related.target for related in self.by_id.values() if related.kind == kind and not related.is_external]

    def href(self, attributes: dict[str, str]) -> str:
        """The URL of an element's r:id; empty if the id names another part."""
        related = self.by_id.get(_relationship_id(attributes))
        return related.target if related is not None and related.is_external else ""

    def part(self, attributes: dict[str, str]) -> str:
        related = self.by_id.get(_relationship_id(attributes))
        return related.target if related is not None and not related.is_external else ""


def _relationship_id(attributes: dict[str, str]) -> str:
    """The value of r:id, whatever its prefix. A plain `id` is a different attribute."""
    return next((value for name, value in attributes.items() if name.endswith(":id")), "")


def _read_relationships(package: ZipXmlPackage, part: str) -> _Relationships:
    folder, _, name = part.rpartition("/")
    relations = _Relationships(part)
    package.parse_part_leniently(f"{folder}/_rels/{name}.rels".lstrip("/"), relations)
    return relations


def read(package: ZipXmlPackage, document: ExtractedDocument) -> None:
    """Read the package into `document`. The relationships of its main part tell docx, xlsx and pptx apart."""
    top = _read_relationships(package, "")
    main = next((part for part in top.parts("officeDocument") if part in package), "")
    if not main:
        raise UnreadableDocument(DAMAGED, message("no main part"))
    for part in top.parts("core-properties")[:1]:
        document.title, document.language = package.properties(part)
    relations = _read_relationships(package, main)
    if relations.parts("worksheet") or relations.parts("sharedStrings"):
        _read_workbook(package, main, relations, document)
    elif relations.parts("slideMaster") or relations.parts("slide"):
        _read_slides(package, main, relations, document)
    else:
        _read_word_document(package, main, relations, document)


class _ParagraphStyles(XmlPartHandler):
    """Which paragraph styles are headings. The ids depend on Word's language (Ttulo1), the names do not."""

    handled = frozenset({"style", "name", "outlineLvl"})
    skipped = frozenset({"docDefaults", "latentStyles", "tblPr", "rPr"})

    def __init__(self) -> None:
        self.headings: set[str] = set()
        self._id = ""

    def start(self, name: str, attributes: dict[str, str]) -> None:
        if name == "style":
            self._id = attribute_value(attributes, "styleId")
        elif (name == "name" and _is_heading_name(attribute_value(attributes, "val"))) or (
            name == "outlineLvl" and _is_heading_level(attribute_value(attributes, "val"))
        ):
            self.headings.add(self._id)


def _is_heading_name(name: str) -> bool:
    found = _heading_style(name)
    return found is not None and int(found[1] or 1) <= HEADING_LEVEL_MAX


def _is_heading_level(level: str) -> bool:
    """Whether an outline level is a heading level that is kept. Outline levels count from 0."""
    return level in ("0", "1", "2")


class _ParagraphReader(LineBuilder):
    """WordprocessingML, and the DrawingML of slides: paragraphs of runs of text."""

    handled = frozenset(
        {"t", "instrText", "p", "tab", "br", "cr", "ptab", "noBreakHyphen", "pStyle", "outlineLvl", "txbxContent"}
        | {"hyperlink", "hlinkClick", "fldSimple", "fldChar", "ph", "r", "docPr", "cNvPr", "sp"}
    )
    # Fallback repeats the content of the Choice before it for old programs. Moved text is read at its new place.
    skipped = frozenset({"Fallback", "moveFrom", "del", "sectPr", "tblPr", "rubyPr", "rt"})

    def __init__(self, document: ExtractedDocument, relations: _Relationships, headings: Iterable[str] = ()) -> None:
        super().__init__(document)
        self._relations = relations
        self._headings = frozenset(headings)
        self._reads = ""  # the element whose character data is text
        self._is_title = False  # inside the placeholder of a slide's title
        self._run_link = False
        self._fields: list[list[str]] = []  # instructions of open fields, which may be nested

    def start(self, name: str, attributes: dict[str, str]) -> None:
        if name in ("t", "instrText"):
            self._reads = name
        elif name == "p":
            self.end_line()
            self.is_heading = self._is_title
        elif name in ("tab", "br", "cr", "ptab"):
            self.add(" " if name in ("tab", "ptab") else "\n")
        elif name == "noBreakHyphen":
            self.add("-")
        elif name in ("pStyle", "outlineLvl"):
            which = attribute_value(attributes, "val")
            self.is_heading |= which in self._headings if name == "pStyle" else _is_heading_level(which)
        elif name == "txbxContent":
            self.interrupt()
        else:
            self._start_link(name, attributes)

    def _start_link(self, name: str, attributes: dict[str, str]) -> None:
        if name == "hyperlink":
            self.open_link(self._relations.href(attributes))
        elif name == "hlinkClick":
            self._run_link = True
            self.open_link(self._relations.href(attributes))
        elif name == "fldSimple":
            self.open_link(_field_href(attribute_value(attributes, "instr")))
        elif name == "fldChar":
            self._field(attribute_value(attributes, "fldCharType"))
        elif name == "ph":
            self._is_title = attributes.get("type") in ("title", "ctrTitle")

    def _field(self, step: str) -> None:
        if step == "begin" and len(self._fields) < limits.FIELDS_DEPTH_MAX:
            self._fields.append([])
        elif step == "separate" and self._fields and len(self._fields[-1]) < 2:
            href = _field_href("".join(self._fields[-1]))
            self._fields[-1] = ["", href]
            self.open_link(href)
        elif step == "end" and self._fields and len(self._fields.pop()) == 2:
            self.close_link()

    def end(self, name: str) -> None:
        if name == self._reads:
            self._reads = ""
        elif name == "p":
            self.end_line()
        elif name in ("hyperlink", "fldSimple"):
            self.close_link()
        elif name in ("r", "docPr", "cNvPr") and self._run_link:
            self._run_link = False
            self.close_link()
        elif name == "txbxContent":
            self.resume()
        elif name == "sp":
            self._is_title = False

    def text(self, text: str) -> None:
        if self._reads == "t":
            self.add(text.replace("\n", " "))
        elif self._reads and self._fields and len(self._fields[-1]) < 2:
            self._fields[-1] = ["".join([*self._fields[-1], text])[: limits.HREF_LENGTH_MAX]]


def _field_href(instruction: str) -> str:
    """The URL of `HYPERLINK "http://..." \\o "..."`. A field with only switches leads into the same document."""
    found = _hyperlink(instruction)
    return found[1] if found else ""


def _read_word_document(
    package: ZipXmlPackage, main: str, relations: _Relationships, document: ExtractedDocument
) -> None:
    styles = _ParagraphStyles()
    for part in relations.parts("styles")[:1]:
        package.parse_part_leniently(part, styles)
    package.parse_part(main, _ParagraphReader(document, relations, styles.headings))
    for part in [*relations.parts("footnotes")[:1], *relations.parts("endnotes")[:1]]:
        package.parse_part_leniently(part, _ParagraphReader(document, _read_relationships(package, part)))


class _PartOrder(XmlPartHandler):
    """The order of the parts (slides, sheets) and their names."""

    def __init__(self, element: str, relations: _Relationships) -> None:
        self.handled = frozenset({element})
        self._relations = relations
        self.parts: list[tuple[str, str]] = []

    def start(self, name: str, attributes: dict[str, str]) -> None:
        if attributes.get("state", "visible") == "visible":
            part = self._relations.part(attributes)
            if part and len(self.parts) < limits.PACKAGE_PARTS_MAX:
                self.parts.append((part, attributes.get("name", "")))


def _read_slides(package: ZipXmlPackage, main: str, relations: _Relationships, document: ExtractedDocument) -> None:
    order = _PartOrder("sldId", relations)
    package.parse_part(main, order)
    for part, _ in order.parts:
        package.parse_part_leniently(part, _ParagraphReader(document, _read_relationships(package, part)))


class _SharedStrings(XmlPartHandler):
    """The table of a workbook's strings."""

    handled = frozenset({"t", "si"})
    skipped = frozenset({"rPh"})  # pronunciation guides

    def __init__(self) -> None:
        self.all: list[str] = []
        self._room = limits.SHARED_STRINGS_LENGTH_MAX
        self._pieces: list[str] = []
        self._reads = False

    def start(self, name: str, attributes: dict[str, str]) -> None:
        self._reads = name == "t"

    def end(self, name: str) -> None:
        self._reads = False
        if name == "si":
            string = _cell("".join(self._pieces))
            self._pieces.clear()
            self._room -= len(string)
            self.all.append(string if self._room > 0 else "")

    def text(self, text: str) -> None:
        if self._reads:
            self._pieces.append(text)


def _cell(text: str) -> str:
    if "_x000" in text:
        text = _carriage_return.sub(" ", text)
    return text.replace("\n", " ").strip()


class _WorksheetReader(LineBuilder):
    """Reads a worksheet: one line for each row that is not empty."""

    handled = frozenset({"c", "v", "t", "f", "hyperlink", "row"})
    skipped = frozenset({"rPh", "conditionalFormatting", "dataValidations", "headerFooter"})

    def __init__(self, document: ExtractedDocument, relations: _Relationships, strings: list[str]) -> None:
        super().__init__(document)
        self._relations = relations
        self._strings = strings
        self._type = ""
        self._reads = ""
        self._value: list[str] = []
        self._href = ""

    def start(self, name: str, attributes: dict[str, str]) -> None:
        if name == "c":
            self._type, self._href = attributes.get("t", "n"), ""
            self._value.clear()
        elif name in ("v", "t", "f"):
            self._reads = name
        elif name == "hyperlink":
            self.document.add_link(self._relations.href(attributes), attributes.get("display", ""))

    def end(self, name: str) -> None:
        if name == self._reads:
            self._reads = ""
        elif name == "c":
            cell = self._shown("".join(self._value))
            if self._href:
                self.document.add_link(self._href, cell)
            if cell:
                self.add(f"{cell} ")
        elif name == "row":
            self.end_line()

    def text(self, text: str) -> None:
        if self._reads == "f":
            if found := _hyperlink_formula(text):
                self._href = found[1]
        elif self._reads:
            self._value.append(text)

    def _shown(self, value: str) -> str:
        if self._type == "s":
            number = int(value) if value.isascii() and value.isdigit() and len(value) < 9 else -1
            return self._strings[number] if 0 <= number < len(self._strings) else ""
        return "" if self._type == "e" else _cell(value)


def _read_workbook(package: ZipXmlPackage, main: str, relations: _Relationships, document: ExtractedDocument) -> None:
    strings, order = _SharedStrings(), _PartOrder("sheet", relations)
    for part in relations.parts("sharedStrings")[:1]:
        package.parse_part_leniently(part, strings)
    package.parse_part(main, order)
    for part, name in order.parts:
        document.add_heading(name)
        document.add_line(name)
        package.parse_part_leniently(part, _WorksheetReader(document, _read_relationships(package, part), strings.all))
