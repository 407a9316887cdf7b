"""Reads dates as people write them, in Portuguese and English: 17 de maio de 2009, May 17, 2009, 17/05/2009.

Promises: every date is a day of the calendar with day, month and four-digit year, not before DATE_MIN; an order of day
and month that cannot be decided is no date. Work is bounded by YEARS_MAX and by the length of the text.
Knows nothing of pages and of the present time.
"""

import re
from calendar import monthrange, timegm
from collections.abc import Iterator
from typing import NamedTuple

from tarrafa.parse.dates import DATE_LENGTH_MAX, parse_date

YEAR_MIN = 1990  # no page of the Web is older
DATE_MIN = timegm((YEAR_MIN, 1, 1, 0, 0, 0))
YEARS_MAX = 20  # four-digit years that are looked at in one text
CHARS_BEFORE_YEAR = 32  # longer than any day and month

_MONTHS = (
    "january february march april may june july august september october november december",
    "janeiro fevereiro março abril maio junho julho agosto setembro outubro novembro dezembro",
    "jan feb marco apr may jun jul aug sept oct nov dec",
)
_MONTH_OF = {  # also abbreviated: "mai", "sept"
    name[:length]: number
    for names in _MONTHS
    for number, name in enumerate(names.split(), 1)
    for length in range(3, len(name) + 1)
}

_year = re.compile(r"(?:19|20)\d\d(?!\d)", re.ASCII).finditer
_ORDINAL = r"(?:\.?[ºª°]|o(?=\s)|st|nd|rd|th)?"
_day_month = re.compile(
    rf"(?<![\d/.-])(\d\d?){_ORDINAL}(?:\s+de\s+|\s+of\s+|[\s/.-]\s*)([a-zç]{{3,9}})(?:\s+de\s+|[\s/.,-]\s*|\.,?\s+)$",
    re.IGNORECASE,
).search
_month_day = re.compile(rf"(?<![a-z])([a-zç]{{3,9}})\.?\s+(\d\d?){_ORDINAL}\s*[,\s]\s*$", re.IGNORECASE).search
_numbers = re.compile(r"(?<![\d/.-])(\d\d?)([/.-])(\d\d?)\2$", re.ASCII).search
_year_first = re.compile(r"(\d{4})([/.-])(\d\d?)\2(\d\d?)(?![\d/])", re.ASCII).match
_compact = re.compile(r"(\d{4})(\d\d)(\d\d)", re.ASCII).fullmatch
_is_whole_w3c = re.compile(
    r"\d{4}-\d\d?-\d\d?(?:[T\s].*)?|[a-z]*[,.]?\s*\d\d?[\s-]+[a-z]{3}.*", re.ASCII | re.IGNORECASE
).fullmatch

_MONTH_FIRST = ("en-us", "en-ph")
_DAY_FIRST = ("en-gb", "en-au", "en-nz", "en-ie", "en-in", "en-za", "en-ng")


class WrittenDate(NamedTuple):
    """A date in a text: first second of its day, or the second; and its place in the text."""

    at: int
    has_time: bool = False
    start: int = 0
    end: int = 0


def is_day_first(language: str, declared: str = "") -> bool | None:
    """The order of day and month by the language of a page, and by the tag that it declares; None: not decidable."""
    if language not in ("", "en"):
        return True
    declared = declared.strip().lower().replace("_", "-")
    return False if declared.startswith(_MONTH_FIRST) else True if declared.startswith(_DAY_FIRST) else None


def read_date(text: str, day_first: bool | None = None) -> WrittenDate | None:
    """The date in a value for machines (`datetime`, `content`), which many sites write as for people."""
    text = text.strip()
    if not text or len(text) > DATE_LENGTH_MAX:
        return None
    if _is_whole_w3c(text) and (at := int(parse_date(text))):
        return WrittenDate(at, ":" in text) if at >= DATE_MIN else None
    if found := _compact(text):
        return _date(int(found[1]), int(found[2]), int(found[3]), 0, len(text))
    return next(find_dates(text, day_first), None)


def find_dates(text: str, day_first: bool | None = None) -> Iterator[WrittenDate]:
    """The dates in a text, in order. A year is found first, which is fast; then the day and month beside it."""
    if "20" not in text and "19" not in text:  # most texts: 20 times as fast as the pattern
        return
    for count, year in enumerate(_year(text)):
        if count >= YEARS_MAX:
            return
        if found := _date_at(text, year.start(), year.end(), day_first):
            yield found


def _date_at(text: str, start: int, end: int, day_first: bool | None) -> WrittenDate | None:
    """The date whose year is at that place."""
    year, first = int(text[start:end]), max(0, start - CHARS_BEFORE_YEAR)
    before = text[first:start]
    if found := _day_month(before):
        return _date(year, _MONTH_OF.get(found[2].lower(), 0), int(found[1]), first + found.start(), end)
    if found := _month_day(before):
        return _date(year, _MONTH_OF.get(found[1].lower(), 0), int(found[2]), first + found.start(), end)
    if found := _numbers(before):
        day, month = _ordered(int(found[1]), int(found[3]), day_first)
        return _date(year, month, day, first + found.start(), end)
    if (found := _year_first(text, start)) and not before[-1:].isdigit():
        return _date(year, int(found[3]), int(found[4]), start, found.end())
    return None


def _ordered(first: int, second: int, day_first: bool | None) -> tuple[int, int]:
    """Day and month of two numbers; zeros if the order is not decidable."""
    if first > 12 or first == second:
        return first, second
    if second > 12:
        return second, first
    if day_first is None:
        return 0, 0
    return (first, second) if day_first else (second, first)


def _date(year: int, month: int, day: int, start: int, end: int) -> WrittenDate | None:
    if year < YEAR_MIN or not 1 <= month <= 12 or not 1 <= day <= monthrange(year, month)[1]:
        return None
    return WrittenDate(timegm((year, month, day, 0, 0, 0)), False, start, end)
