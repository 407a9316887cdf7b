"""Reads PDF documents with PDFium: text, outline, links.

Promises: the text of the first pages, line by line as printed, with words that were hyphenated at a line end joined
again; the outline as headings; link annotations and the URLs that are written in the text. Every handle that PDFium
returns is closed before `read` returns or raises.
Knows nothing of the fonts of this machine: PDFium is started without any, so that the same bytes give the same text
everywhere and nothing touches the disk. PDFium is C++ and reads hostile bytes: the caller runs this in a process that
may be killed. A stream may unpack to 1 GB inside PDFium before any limit here can stop it.
"""

import ctypes
import re
import unicodedata
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache, partial
from typing import Any

from tarrafa.i18n import message
from tarrafa.parse.documents import document as limits
from tarrafa.parse.documents.document import DAMAGED, ENCRYPTED, ExtractedDocument, LimitReached, UnreadableDocument

_LINK_BAND = 0.25  # of a link's height: a band this thin meets its own line of text, and not the neighbouring lines
_URI_ACTION = 3  # fpdf_doc.h

# PDFium marks a hyphen that exists only because the line ended with U+FFFE (U+0002 in older versions).
_cut_word = re.compile("[\ufffe\x02]\\s*")
# TeX's old fonts have no accented letters: "funç˜ao" is printed as a tilde, then an a below it.
_accent_apart = re.compile("([´`ˆ˜¨¸])([aeiouycnAEIOUYCNı])")
_surely_apart = re.compile("[´ˆ˜¨¸][aeiouycnAEIOUYCNı]").search
_COMBINING = {"´": "\u0301", "`": "\u0300", "ˆ": "\u0302", "˜": "\u0303", "¨": "\u0308", "¸": "\u0327"}


@cache
def _library() -> Any:
    """PDFium, started once per process and without any font directory.

    `pypdfium2` itself would start PDFium with the machine's fonts, and its helpers leak the handle of a document
    without pages. So this uses the bare functions of the same wheel.
    """
    import pypdfium2_raw as library  # type: ignore[import-untyped]

    no_fonts = (ctypes.POINTER(ctypes.c_char) * 1)()
    library.FPDF_InitLibraryWithConfig(library.FPDF_LIBRARY_CONFIG(version=2, m_pUserFontPaths=no_fonts))
    return library


def read(body: bytes, document: ExtractedDocument) -> None:
    """Read a PDF into `document`."""
    library = _library()
    with _opened(library, body) as handle:
        document.title = _utf16_string(partial(library.FPDF_GetMetaText, handle, b"Title"))
        document.language = _utf16_string(
            lambda to, size: library.FPDFCatalog_GetLanguage(handle, _as(to, library.FPDF_WCHAR), size)
        )
        _read_outline(library, handle, document)
        left = _PdfBudget()
        pages = range(min(library.FPDF_GetPageCount(handle), limits.PDF_PAGES_MAX))
        if not sum(_read_page(library, handle, number, document, left) for number in pages):
            raise UnreadableDocument(DAMAGED, message("none of its pages can be read"))


class _PdfBudget:
    """How many objects, annotations and characters may still be examined."""

    def __init__(self) -> None:
        self.objects = limits.PDF_OBJECTS_MAX
        self.annotations = limits.PDF_ANNOTATIONS_MAX
        self.characters = limits.PDF_ANCHOR_CHARACTERS_MAX  # to find the text under links


@contextmanager
def _opened(library: Any, body: bytes) -> Iterator[Any]:
    handle = library.FPDF_LoadMemDocument64(body, len(body), None)
    if not handle:
        error = library.FPDF_GetLastError()
        if error in (library.FPDF_ERR_PASSWORD, library.FPDF_ERR_SECURITY):
            raise UnreadableDocument(ENCRYPTED)
        raise UnreadableDocument(
            DAMAGED,
            message("no PDF") if b"%PDF-" not in body[:1024] else message("no table of objects, no pages"),
        )
    try:
        yield handle
    finally:
        library.FPDF_CloseDocument(handle)


@contextmanager
def _closing(handle: Any, close: Callable[[Any], None]) -> Iterator[Any]:
    """Yield a handle that may be NULL, and close it if it is not."""
    try:
        yield handle
    finally:
        if handle:
            close(handle)


def _read_outline(library: Any, handle: Any, document: ExtractedDocument) -> None:
    """Add the outline as headings, in reading order. It may be a loop: no entry is visited twice."""
    waiting = [library.FPDFBookmark_GetFirstChild(handle, None)]
    seen: set[int] = set()
    while waiting and len(document.headings) < limits.HEADINGS_MAX and len(seen) < limits.PDF_BOOKMARKS_MAX:
        mark = waiting.pop()
        if not mark or (address := ctypes.addressof(mark.contents)) in seen:
            continue
        seen.add(address)
        document.add_heading(_utf16_string(partial(library.FPDFBookmark_GetTitle, mark)))
        waiting.append(library.FPDFBookmark_GetNextSibling(handle, mark))
        waiting.append(library.FPDFBookmark_GetFirstChild(handle, mark))


def _read_page(library: Any, handle: Any, number: int, document: ExtractedDocument, left: _PdfBudget) -> bool:
    """Read the links of one page, then its text. A broken page yields nothing; reading goes on with the next one."""
    with _closing(library.FPDF_LoadPage(handle, number), library.FPDF_ClosePage) as page:
        if not page:
            return False
        left.objects -= library.FPDFPage_CountObjects(page)
        if left.objects < 0:
            raise LimitReached
        with _closing(library.FPDFText_LoadPage(page), library.FPDFText_ClosePage) as text:
            length = max(0, library.FPDFText_CountChars(text)) if text else 0
            _read_annotations(library, handle, page, text, length, document, left)
            if length:
                _read_urls_in_text(library, text, document)
                document.add_line(_text(library, text, min(length, document.chars_left)))
    return True


def _text(library: Any, text: Any, length: int) -> str:
    to = (ctypes.c_ushort * (length + 1))()
    written = library.FPDFText_GetText(text, 0, length, to)
    raw = memoryview(to).cast("B")[: 2 * max(0, written - 1)]
    plain = _cut_word.sub("", bytes(raw).decode("utf-16-le", "ignore").replace("\r\n", "\n"))
    return _accent_apart.sub(_compose_accent, plain) if _surely_apart(plain) else plain


def _compose_accent(found: re.Match[str]) -> str:
    letter = unicodedata.normalize("NFC", found[2].replace("ı", "i") + _COMBINING[found[1]])
    return letter if len(letter) == 1 else found[0]


def _read_annotations(
    library: Any, handle: Any, page: Any, text: Any, length: int, document: ExtractedDocument, left: _PdfBudget
) -> None:
    """Add the link annotations that lead out of the document."""
    position, link = ctypes.c_int(0), library.FPDF_LINK()
    while left.annotations > 0 and library.FPDFLink_Enumerate(page, position, link):
        left.annotations -= 1
        action = library.FPDFLink_GetAction(link)
        if not action or library.FPDFAction_GetType(action) != _URI_ACTION:
            continue
        href = _uri_string(partial(library.FPDFAction_GetURIPath, handle, action))
        if not href or document.hrefs.get(href):
            continue
        anchor = ""
        if length and left.characters >= length:
            left.characters -= length
            anchor = _link_text(library, text, link)
        document.add_link(href, anchor)


def _link_text(library: Any, text: Any, link: Any) -> str:
    box = library.FS_RECTF()
    if not library.FPDFLink_GetAnnotRect(link, box):
        return ""
    low, high = min(box.top, box.bottom), max(box.top, box.bottom)
    middle, band = (low + high) / 2, (high - low) * _LINK_BAND / 2
    room = limits.ANCHOR_LENGTH_MAX
    to = (ctypes.c_ushort * room)()
    written = library.FPDFText_GetBoundedText(text, box.left, middle + band, box.right, middle - band, to, room)
    return bytes(to)[: 2 * max(0, min(written, room))].decode("utf-16-le", "ignore").rstrip("\0")


def _read_urls_in_text(library: Any, text: Any, document: ExtractedDocument) -> None:
    """Add the URLs that are written in the text; every PDF viewer makes them clickable."""
    with _closing(library.FPDFLink_LoadWebLinks(text), library.FPDFLink_CloseWebLinks) as found:
        count = library.FPDFLink_CountWebLinks(found) if found else 0
        for index in range(min(count, limits.HREFS_MAX)):
            size = min(library.FPDFLink_GetURL(found, index, None, 0), limits.HREF_LENGTH_MAX + 2)
            if size > 1:
                to = (ctypes.c_ushort * size)()
                library.FPDFLink_GetURL(found, index, to, size)
                document.add_link(bytes(to).decode("utf-16-le", "ignore").rstrip("\0"))


def _raw(ask: Callable[[Any, int], int], bytes_max: int) -> bytes:
    """Call a PDFium function that returns a length and then the bytes. Empty if longer than `bytes_max`."""
    size = ask(None, 0)
    if not 0 < size <= bytes_max:
        return b""
    to = ctypes.create_string_buffer(size)
    ask(to, size)
    return to.raw


def _utf16_string(ask: Callable[[Any, int], int]) -> str:
    return _raw(ask, 16 * limits.PROPERTY_LENGTH_MAX).decode("utf-16-le", "ignore").rstrip("\0")


def _uri_string(ask: Callable[[Any, int], int]) -> str:
    """A URI as text. It should be ASCII, but PDF producers write UTF-8."""
    raw = _raw(ask, limits.HREF_LENGTH_MAX).rstrip(b"\0")
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return raw.decode("latin-1")


def _as(buffer: Any, kind: Any) -> Any:
    return None if buffer is None else ctypes.cast(buffer, ctypes.POINTER(kind))
