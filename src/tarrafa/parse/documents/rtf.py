"""Reads RTF documents: text, headings, links.

Promises: paragraphs become lines, decoded from the code page that the document names or from the Unicode escapes beside
it. Links keep the text under them. Groups that are not text (fonts, styles, pictures, headers, ignorable destinations)
are left out. A truncated document yields the text before the cut.
Knows nothing of URLs.
"""

import codecs
import re
from dataclasses import dataclass

from tarrafa.i18n import message
from tarrafa.parse.documents import document as limits
from tarrafa.parse.documents.document import DAMAGED, ExtractedDocument, LimitReached, LineBuilder, UnreadableDocument

_token_at = re.compile(
    rb"\\([a-zA-Z]{1,32})(-?[0-9]{1,10})? ?|\\'([0-9a-fA-F]{2})|\\([^a-zA-Z])|([{}])|([^\\{}]+)", re.DOTALL
).match
_hyperlink = re.compile(r'\s*HYPERLINK\s+(?!\\)"?([^"\s]+)', re.IGNORECASE).match

_SKIPPED_DESTINATIONS = frozenset(
    b"fonttbl colortbl stylesheet pict object header headerl headerr headerf footer footerl footerr footerf annotation "
    b"info filetbl revtbl listtable listoverridetable rsidtbl themedata colorschememapping datastore latentstyles "
    b"xmlnstbl generator background nonshppict fldtype listtext pntext shprslt".split()
)
_NOT_SKIPPED = frozenset({b"fldinst", b"shppict", b"footnote"})  # read although they follow \\*
_BREAKS = frozenset({b"par", b"sect", b"page", b"row", b"line"})
_CHARACTER_WORDS = {
    b"tab": " ", b"cell": " ", b"emdash": "—", b"endash": "–", b"bullet": "•", b"lquote": "‘", b"rquote": "’",
    b"ldblquote": "“", b"rdblquote": "”", b"emspace": " ", b"enspace": " ",
}  # fmt: skip
_SYMBOLS = {b"~": " ", b"_": "-", b"\\": "\\", b"{": "{", b"}": "}"}
_CODE_PAGES = {65001: "utf-8", 10000: "mac-roman"}


@dataclass(slots=True)
class _RtfGroup:
    """The state that holds until the group's closing brace."""

    role: str = "text"  # or silent, title, field
    fallback_characters: int = 1  # characters after each \\u for readers without Unicode


class _RtfReader(LineBuilder):
    def __init__(self, document: ExtractedDocument) -> None:
        super().__init__(document)
        self.codec = "cp1252"
        self._group = _RtfGroup()
        self._groups: list[_RtfGroup] = []
        self._skip = 0  # fallback characters still to be skipped
        self._may_skip = False  # after \\*
        self._half = ""  # the first surrogate of a character beyond U+FFFF
        self._instruction = ""
        self._links: list[int] = []  # group depths at which links were opened

    def brace(self, brace: bytes) -> None:
        self._skip, self._may_skip = 0, False
        if brace == b"{":
            self._groups.append(self._group)
            if len(self._groups) > limits.RTF_GROUPS_MAX:
                raise LimitReached
            self._group = _RtfGroup(self._group.role, self._group.fallback_characters)
        elif self._groups:
            if self._links and self._links[-1] == len(self._groups):
                self._links.pop()
                self.close_link()
            self._group = self._groups.pop()

    def word(self, word: bytes, number: int | None) -> None:
        if (
            word in _SKIPPED_DESTINATIONS
            or (self._may_skip and word not in _NOT_SKIPPED)
            or (word == b"deleted" and number != 0)
        ):
            self._group.role = "silent"
        elif word in _BREAKS:
            if self._group.role == "text":
                self.end_line()
        elif word in _CHARACTER_WORDS:
            self.add_text(_CHARACTER_WORDS[word])
        elif word == b"u" and number is not None:
            self._unicode(number & 0xFFFF)
        elif word == b"uc" and number is not None:
            self._group.fallback_characters = min(max(number, 0), 16)
        elif word == b"ansicpg" and number is not None:
            self.codec = _codec(number)
        elif word in (b"outlinelevel", b"pard"):
            if self._group.role == "text":
                self.is_heading = word != b"pard" and number in (0, 1, 2)
        else:
            self._destination(word)
        self._may_skip = False

    def _destination(self, word: bytes) -> None:
        if word == b"title" and self._group.role == "silent":
            self._group.role = "title"
        elif word == b"fldinst":
            self._group.role, self._instruction = "field", ""
        elif word == b"fldrslt":
            found = _hyperlink(self._instruction)
            self.open_link(found[1] if found else "")
            self._links.append(len(self._groups))
        elif word in (b"footnote", b"shptxt"):
            self._group.role = "text"
            self.add(" ")

    def _unicode(self, unit: int) -> None:
        self._skip = 0
        if 0xD800 <= unit < 0xDC00:
            self._half = chr(unit)
        else:
            pair, self._half = self._half + chr(unit), ""
            self.add_text(pair.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace"))
        self._skip = self._group.fallback_characters

    def symbol(self, symbol: bytes) -> None:
        if symbol == b"*":
            self._may_skip = True
        elif symbol in (b"\n", b"\r"):
            self.word(b"par", None)
        elif symbol in _SYMBOLS:
            self.add_text(_SYMBOLS[symbol])

    def add_encoded(self, raw: bytes) -> None:
        """Add text in the code page of the document. Line ends in the file have no meaning."""
        if self._group.role != "silent":
            self.add_text(raw.translate(None, b"\r\n\0").decode(self.codec, "replace"))

    def add_text(self, text: str) -> None:
        if self._skip:
            skip = min(self._skip, len(text))
            self._skip -= skip
            text = text[skip:]
        role = self._group.role
        if role == "text":
            self.add(text)
        elif role == "title":
            self.document.title = (self.document.title + text)[: limits.PROPERTY_LENGTH_MAX]
        elif role == "field":
            self._instruction = (self._instruction + text)[: limits.HREF_LENGTH_MAX]


def read(body: bytes, document: ExtractedDocument) -> None:
    """Read an RTF document into `document`."""
    if not body.lstrip()[:5].startswith(b"{\\rtf"):
        raise UnreadableDocument(DAMAGED, message("no RTF"))
    reader = _RtfReader(document)
    place = 0
    for _ in range(limits.RTF_TOKENS_MAX):
        token = _token_at(body, place)
        if token is None:
            break
        place = token.end()
        if token[1]:
            number = int(token[2]) if token[2] else None
            if token[1] == b"bin":
                place += max(0, number or 0)
            reader.word(token[1], number)
        elif token[3]:
            reader.add_encoded(bytes.fromhex(token[3].decode()))
        elif token[4]:
            reader.symbol(token[4])
        elif token[5]:
            reader.brace(token[5])
        else:
            reader.add_encoded(token[6])
    else:
        reader.end_line()
        raise LimitReached
    reader.end_line()


def _codec(page: int) -> str:
    name = _CODE_PAGES.get(page, f"cp{page}")
    try:
        return codecs.lookup(name).name
    except LookupError:
        return "cp1252"
