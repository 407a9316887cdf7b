"""Parses ISO 8601 dates and times into ranges of seconds.

Promises: a date or a time as pages write them (ISO 8601: a year, a month, a day, a minute, a second, with or without a
zone) becomes a range of seconds since 1970, from its first second to the first one after it; any other text becomes
None. Without a zone it is UTC. Unlike a sitemap's, a date may lie before 1970. Pure.
"""

import re
from calendar import isleap, monthrange, timegm

DATE_CHARS_MAX = 40
DAY_S = 86_400

_iso = re.compile(
    r"(\d{4})(?:-(\d\d)(?:-(\d\d)(?:[T ](\d\d):(\d\d)(?::(\d\d)(?:[.,]\d{1,9})?)?)?)?)?"
    r"(Z|[+-]\d\d(?::?\d\d)?)?",
    re.ASCII | re.IGNORECASE,
).fullmatch


def date_range(text: str) -> tuple[float, float] | None:
    """The start and the end of a date; None if the text is no date."""
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
