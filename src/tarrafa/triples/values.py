"""Values of entities, as they are compared: texts read as numbers and dates.

Knows nothing of entities or the store.
"""

import re
from calendar import isleap, monthrange, timegm
from math import isfinite

NUMBER_CHARS_MAX = DATE_CHARS_MAX = 40
DAY_S = 86_400

_number = re.compile(r"[+-]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d{1,3})?", re.ASCII).fullmatch
_iso = re.compile(
    r"(\d{4})(?:-(\d\d)(?:-(\d\d)(?:[T ](\d\d):(\d\d)(?::(\d\d)(?:[.,]\d{1,9})?)?)?)?)?"
    r"(Z|[+-]\d\d(?::?\d\d)?)?",
    re.ASCII | re.IGNORECASE,
).fullmatch


def parse_number(text: str) -> float | None:
    """A text as a number; None if it is none."""
    if len(text) > NUMBER_CHARS_MAX or not _number(text):
        return None
    found = float(text)
    return found if isfinite(found) else None


def date_range(text: str) -> tuple[float, float] | None:
    """The first second of a date or time (ISO 8601 as pages write it: a year, a month, a day, a minute, a second), and
    the first one after it, since 1970; None if the text is no date. Without a zone it is UTC. Unlike a sitemap's, a
    date may lie before 1970.
    """
    found = _iso(text) if 4 <= len(text) <= DATE_CHARS_MAX else None
    if found is None:
        return None
    year, month, day, hour, minute, second, zone = found.groups()
    if zone and day is None and zone.upper() != "Z":
        return None  # 2026-05 with a zone would be "2026-05-03:00": no page means that
    first = _moment(int(year), int(month or 1), int(day or 1), int(hour or 0), int(minute or 0), int(second or 0))
    if first is None:
        return None
    if second is not None:
        length = 1
    elif minute is not None:
        length = 60
    elif day is not None:
        length = DAY_S
    else:
        days = monthrange(int(year), int(month))[1] if month else 365 + isleap(int(year))
        length = days * DAY_S
    begin = float(first - _offset(zone))
    return begin, begin + length


def _moment(year: int, month: int, day: int, hour: int, minute: int, second: int) -> int | None:
    if not (year >= 1 and 1 <= month <= 12 and hour <= 24 and minute <= 59 and second <= 60):
        return None
    if not 1 <= day <= monthrange(year, month)[1]:
        return None
    return timegm((year, month, day, hour, minute, second))


def _offset(zone: str | None) -> int:
    if not zone or zone.upper() == "Z":
        return 0
    digits = zone[1:].replace(":", "")
    seconds = int(digits[:2]) * 3600 + int(digits[2:] or 0) * 60
    return -seconds if zone[0] == "-" else seconds
