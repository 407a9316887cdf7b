"""Reads the dates of sitemaps, feeds and markup: W3C's profile of ISO 8601; RFC 822 and its successors.

Promises: `parse_date` gives seconds since 1970, and 0 for anything else or older: zero is the default of many programs.
Lenient. Work is bounded by DATE_LENGTH_MAX.
Knows nothing of pages, nor of dates as people write them (`page_dates`), nor of the present time.
"""

import re
from calendar import monthrange, timegm

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

YEAR_MIN = 1990  # no page of the Web is older
DATE_MIN = timegm((YEAR_MIN, 1, 1, 0, 0, 0))

_MONTHS = (
    "january february march april may june july august september october november december",
    "janeiro fevereiro março abril maio junho julho agosto setembro outubro novembro dezembro",
    "jan feb marco apr may jun jul aug sept oct nov dec",
)
MONTH_OF = {  # also abbreviated: "mai", "sept"
    name[:length]: number
    for names in _MONTHS
    for number, name in enumerate(names.split(), 1)
    for length in range(3, len(name) + 1)
}


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
            seconds = _seconds(_whole_year(year), MONTH_OF.get(name.lower(), 0), int(day), hour, minute, second)
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
