"""Timestamps of captures: the 14 digits of CDX files and replay URLs, HTTP dates, and seconds.

Promises: a shorter timestamp is the beginning of a period, or its end, as pywb and the Wayback Machine read it. Pure.
"""

import calendar
from datetime import UTC, datetime
from email.utils import format_datetime, parsedate_to_datetime

LENGTH = 14
FIRST, LAST = "10000101000000", "29991231235959"


def is_timestamp(text: str) -> bool:
    """Whether it is a timestamp, or the beginning of one."""
    return text.isascii() and text.isdigit() and 0 < len(text) <= LENGTH


def earliest(text: str) -> str:
    """The first moment of a period."""
    return text + FIRST[len(text) :]


def latest(text: str) -> str:
    """The last moment of a period. Of February it may say the 31st: it is for comparison only."""
    return text + LAST[len(text) :]


def seconds(text: str) -> float:
    """Seconds since 1970 of a timestamp, or of the end of a period. Fields out of range become the nearest in range."""
    full = latest(text)
    year, month = max(1, int(full[:4])), min(max(1, int(full[4:6])), 12)
    day = min(max(1, int(full[6:8])), calendar.monthrange(year, month)[1])
    hour, minute, second = (min(int(full[at : at + 2]), most) for at, most in ((8, 23), (10, 59), (12, 59)))
    return datetime(year, month, day, hour, minute, second, tzinfo=UTC).timestamp()


def timestamp_of(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).strftime("%Y%m%d%H%M%S")


def http_date(timestamp: str) -> str:
    """`Thu, 31 May 2007 20:35:00 GMT` (RFC 9110)."""
    return format_datetime(datetime.fromtimestamp(seconds(timestamp), UTC), usegmt=True)


def iso_date(timestamp: str) -> str:
    return datetime.fromtimestamp(seconds(timestamp), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def from_http_date(text: str) -> str | None:
    """The timestamp of an HTTP date; None if it is none."""
    try:
        found = parsedate_to_datetime(text)
        return timestamp_of((found if found.tzinfo else found.replace(tzinfo=UTC)).timestamp())
    except (ValueError, TypeError, OverflowError):
        return None


def from_typed_date(text: str) -> str | None:
    """The timestamp of a date as people type it: 2026, 2026-11, 2026-11-18, 2026-11-18T20:15:00; None if it is none."""
    digits = "".join(letter for letter in text.strip().removesuffix("Z") if letter not in "-:T /")
    return digits if is_timestamp(digits) and len(digits) >= 4 and len(digits) % 2 == 0 else None
