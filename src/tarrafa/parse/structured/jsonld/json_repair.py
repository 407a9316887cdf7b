"""Decodes JSON, and repairs nearly valid JSON as people paste it into pages.

Promises: JSON is decoded as it is. Nearly valid JSON is repaired where there is no doubt: wrapped in a comment or
CDATA, raw line breaks in strings, commas before a closing bracket, escapes that JSON lacks, several values in a row,
quotes written as HTML entities. Anything else is refused. Linear in the length of the text, whatever it holds.
Knows nothing of what the values mean.
"""

import html
import json
import re

import msgspec

VALUES_MAX = 1_000  # several values in a row

_BLANK = " \t\r\n\f\v\ufeff\u200b\xa0"
_WRAPPERS = (("<!--", "-->"), ("<![CDATA[", "]]>"), ("<!--", "-->"))
_BEFORE = ("", "//", "/*")  # hides the first half of a wrapper from scripts
_AFTER = ("", "*/")
_INDENT_MAX = 16

# A string, closed or not, or a trailing comma. No string is scanned twice.
_piece = re.compile(r'"[^"\\]*+(?:\\.[^"\\]*+)*+"?|,(?=\s*+[}\]])', re.DOTALL)
_escape = re.compile(r"\\(u[0-9a-fA-F]{4}|.)", re.DOTALL)
_between = re.compile(r"[\s,;}\]]*").match  # between values in a row; also unmatched closing brackets


def decode_lenient(text: str) -> object:
    """The value, or a list of several values in a row. ValueError if the text is not even nearly JSON."""
    text = text.strip(_BLANK)
    try:
        return msgspec.json.decode(text)
    except RecursionError:
        raise ValueError("nested too deep") from None
    except (msgspec.DecodeError, UnicodeError):
        return _decode_repaired(_unwrapped(text))


def _unwrapped(text: str) -> str:
    """The text without the comment or CDATA section around it, of which exactly one start and one end must be there."""
    for opening, closing in _WRAPPERS:
        start, end = text.find(opening, 0, _INDENT_MAX), text.rfind(closing)
        if start < 0 or end < start or text[:start].strip() not in _BEFORE:
            continue
        inner, rest = text[start + len(opening) : end].strip(_BLANK), text[end + len(closing) :].strip(_BLANK)
        if rest in _AFTER and opening not in inner and closing not in inner:
            text = inner.removeprefix("*/").removesuffix("//").removesuffix("/*").strip(_BLANK)
    return text


def _decode_repaired(text: str) -> object:
    if '"' not in text and "&quot;" in text:
        text = html.unescape(text)
    text = _piece.sub(_repair_piece, text)
    decoder = json.JSONDecoder(strict=False, parse_constant=_null_constant)
    values: list[object] = []
    place = 0
    try:
        while place < len(text):
            value, place = decoder.raw_decode(text, place)
            values.append(value)
            if len(values) > VALUES_MAX:
                raise ValueError("too many values")
            if found := _between(text, place):
                place = found.end()
    except RecursionError:
        raise ValueError("nested too deep") from None
    if not values:
        raise ValueError("nothing there")
    return values[0] if len(values) == 1 else values


def _repair_piece(found: re.Match[str]) -> str:
    piece = found[0]
    if piece == ",":
        return ""
    return _escape.sub(_repair_escape, piece) if "\\" in piece else piece


def _repair_escape(found: re.Match[str]) -> str:
    return found[0] if found[1][0] in '"\\/bfnrt' or len(found[1]) > 1 else found[1]


def _null_constant(_: str) -> None:
    """NaN and Infinity become null."""
