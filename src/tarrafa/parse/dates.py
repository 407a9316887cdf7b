"""Reads dates: of sitemaps and feeds (W3C's profile of ISO 8601; RFC 822 and its successors), and as people write them
in Portuguese and English (17 de maio de 2009; May 17, 2009; 17/05/2009).

Promises: `parse_date` gives seconds since 1970, and 0 for anything else or older: zero is the default of many programs.
A written date is a day of the calendar with day, month and four-digit year, not before DATE_MIN; an order of day and
month that cannot be decided is no date. Work is bounded by DATE_LENGTH_MAX, YEARS_MAX and the length of the text.
Knows nothing of pages (`page_dates`) and of the present time: a date in the future is returned as it is.
"""

import re
from calendar import monthrange, timegm
from collections.abc import Iterator
from typing import NamedTuple

DATE_LENGTH_MAX = 64

# Lenient: one digit for two, a space for the T, a zone without its colon, no zone at all (then UTC).
_w3c = re.compile(
    r"(\d{4})(?:-(\d\d?)(?:-(\d\d?)"
    r"(?:[T\s]\s*(\d\d?):(\d\d)(?::(\d\d)((?:[.,]\d+)?))?\s*(Z|UTC|GMT|[+-]\d\d(?::?\d\d)?)?)?)?)?",
    re.ASCII | re.IGNORECASE,
).fullmatch
_rfc822 = re.compile(
    r"(?:[a-z]+[,.]?\s*)?(\d\d?)[\s-]+([a-z]{3})[a-z]*[\s.,-]+(\d{4}|\d\d)"
    r"(?:[,\s]\s*(\d\d?):(\d\d)(?::(\d\d)(?:\.\d+)?)?\s*([+-]\d\d:?\d\d|[a-z]{1,5})?)?",
    re.ASCII | re.IGNORECASE,
).match

_AMERICA = {"edt": -4, "est": -5, "cdt": -5, "cst": -6, "mdt": -6, "mst": -7, "pdt": -7, "pst": -8}

# Dates that people write.
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


def parse_date(text: str) -> float:
    """The moment in a sitemap or feed date, in seconds since 1970; 0 if the text is no date."""
    text = text.strip()
    if len(text) > DATE_LENGTH_MAX:
        return 0.0
    try:
        if found := _w3c(text):
            year, month, day, hour, minute, second, fraction, zone = found.groups("")
            seconds = _seconds(int(year), int(month or 1), int(day or 1), hour, minute, second)
            seconds += float("0." + fraction[1:]) if fraction else 0.0
        elif found := _rfc822(text):
            day, name, year, hour, minute, second, zone = found.groups("")
            seconds = _seconds(_whole_year(year), _MONTH_OF.get(name.lower(), 0), int(day), hour, minute, second)
        else:
            return 0.0
        return max(0.0, seconds - _offset_s(zone))
    except ValueError:
        return 0.0


def _seconds(year: int, month: int, day: int, hour: str, minute: str, second: str) -> float:
    """ISO 8601 has an hour 24, and clocks have a second 60: both mean the beginning of the next hour or minute."""
    time = int(hour or 0), int(minute or 0), int(second or 0)
    if not 1 <= day <= monthrange(year, month)[1] or time > (24, 0, 0) or time[1] > 59 or time[2] > 60:
        raise ValueError(day)
    return float(timegm((year, month, day, *time)))


def _whole_year(year: str) -> int:
    """RFC 5322 §4.3: two-digit years up to 49 belong to this century."""
    return int(year) if len(year) == 4 else int(year) + (2000 if int(year) < 50 else 1900)


def _offset_s(zone: str) -> int:
    """The offset of a zone from UTC. RFC 5322 §4.3: an unknown zone name is UTC."""
    if zone[:1] not in ("+", "-"):
        return 3600 * _AMERICA.get(zone.lower(), 0)
    hours, minutes = int(zone[1:3]), int(zone[3:].removeprefix(":") or 0)
    if hours > 23 or minutes > 59:
        raise ValueError(zone)
    return (3600 * hours + 60 * minutes) * (-1 if zone[0] == "-" else 1)


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
