"""What does this RTF document say? (Microsoft's Rich Text Format 1.9.1, as far as text, headings and links go.)

Promises: paragraphs as lines, in the code page that the document names or as the Unicode that it gives beside it; links
with the words under them. Groups that are no text (fonts, styles, pictures, headers, what a reader may skip) are left
out. A document that is cut says what it said until there.
Knows nothing of URLs.
"""

import codecs
import re
from dataclasses import dataclass

from tarrafa.parse import document as limits
from tarrafa.parse.document import Document, Full, Prose
from tarrafa.parse.refusal import DAMAGED, Unreadable

_token_at = re.compile(
    rb"\\([a-zA-Z]{1,32})(-?[0-9]{1,10})? ?|\\'([0-9a-fA-F]{2})|\\([^a-zA-Z])|([{}])|([^\\{}]+)", re.DOTALL
).match
_hyperlink = re.compile(r'\s*HYPERLINK\s+(?!\\)"?([^"\s]+)', re.IGNORECASE).match

_SILENT = frozenset(
    b"fonttbl colortbl stylesheet pict object header headerl headerr headerf footer footerl footerr footerf annotation "
    b"info filetbl revtbl listtable listoverridetable rsidtbl themedata colorschememapping datastore latentstyles "
    b"xmlnstbl generator background nonshppict fldtype listtext pntext shprslt".split()
)
_NOT_SKIPPED = frozenset({b"fldinst", b"shppict", b"footnote"})  # though they stand behind \\*
_BREAKS = frozenset({b"par", b"sect", b"page", b"row", b"line"})
_SIGNS = {
    b"tab": " ", b"cell": " ", b"emdash": "—", b"endash": "–", b"bullet": "•", b"lquote": "‘", b"rquote": "’",
    b"ldblquote": "“", b"rdblquote": "”", b"emspace": " ", b"enspace": " ",
}  # fmt: skip
_SYMBOLS = {b"~": " ", b"_": "-", b"\\": "\\", b"{": "{", b"}": "}"}
_CODE_PAGES = {65001: "utf-8", 10000: "mac-roman"}


@dataclass(slots=True)
class _Group:
    """What holds until the next brace closes."""

    role: str = "text"  # or silent, title, field
    stand_ins: int = 1  # characters behind each \\u for readers that know no Unicode


class _Reader(Prose):
    def __init__(self, document: Document) -> None:
        super().__init__(document)
        self.codec = "cp1252"
        self._group = _Group()
        self._groups: list[_Group] = []
        self._skip = 0  # stand-ins that are still to come
        self._may_skip = False  # behind \\*
        self._half = ""  # of a character beyond U+FFFF
        self._instruction = ""
        self._links: list[int] = []  # at which depth one was opened

    def brace(self, brace: bytes) -> None:
        self._skip, self._may_skip = 0, False
        if brace == b"{":
            self._groups.append(self._group)
            if len(self._groups) > limits.RTF_GROUPS_MAX:
                raise Full
            self._group = _Group(self._group.role, self._group.stand_ins)
        elif self._groups:
            if self._links and self._links[-1] == len(self._groups):
                self._links.pop()
                self.close_link()
            self._group = self._groups.pop()

    def word(self, word: bytes, number: int | None) -> None:
        if word in _SILENT or (self._may_skip and word not in _NOT_SKIPPED) or (word == b"deleted" and number != 0):
            self._group.role = "silent"
        elif word in _BREAKS:
            if self._group.role == "text":
                self.end_line()
        elif word in _SIGNS:
            self.said(_SIGNS[word])
        elif word == b"u" and number is not None:
            self._unicode(number & 0xFFFF)
        elif word == b"uc" and number is not None:
            self._group.stand_ins = min(max(number, 0), 16)
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
            self.said(pair.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace"))
        self._skip = self._group.stand_ins

    def symbol(self, symbol: bytes) -> None:
        if symbol == b"*":
            self._may_skip = True
        elif symbol in (b"\n", b"\r"):
            self.word(b"par", None)
        elif symbol in _SYMBOLS:
            self.said(_SYMBOLS[symbol])

    def coded(self, raw: bytes) -> None:
        """Text in the code page of the document. Line ends in the file mean nothing."""
        if self._group.role != "silent":
            self.said(raw.translate(None, b"\r\n\0").decode(self.codec, "replace"))

    def said(self, text: str) -> None:
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


def read(body: bytes, document: Document) -> None:
    """Note down what an RTF document says."""
    if not body.lstrip()[:5].startswith(b"{\\rtf"):
        raise Unreadable(DAMAGED, "no RTF")
    reader = _Reader(document)
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
            reader.coded(bytes.fromhex(token[3].decode()))
        elif token[4]:
            reader.symbol(token[4])
        elif token[5]:
            reader.brace(token[5])
        else:
            reader.coded(token[6])
    else:
        reader.end_line()
        raise Full
    reader.end_line()


def _codec(page: int) -> str:
    name = _CODE_PAGES.get(page, f"cp{page}")
    try:
        return codecs.lookup(name).name
    except LookupError:
        return "cp1252"
