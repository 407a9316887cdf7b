"""Durations, byte sizes and local times as a collection file writes them.

Promises: a parsed value is finite and at most `NUMBER_MAX`. An invalid one raises a ValueError whose only argument is a
`Message` that tells what is allowed.
"""

import re
from datetime import date, datetime, time
from typing import Any

from tarrafa.i18n import message

NUMBER_MAX = 10**12  # of anything: pages, seconds, bytes
SECONDS_PER_UNIT = {
    "ms": 0.001,
    "s": 1,
    "sec": 1,
    "min": 60,
    "m": 60,
    "h": 3600,
    "hour": 3600,
    "hours": 3600,
    "day": 86400,
}
SECONDS_PER_UNIT |= {"days": 86400, "d": 86400, "week": 604800, "weeks": 604800}
BYTES_PER_UNIT = {"b": 1, "kb": 1000, "mb": 10**6, "gb": 10**9, "kib": 1 << 10, "mib": 1 << 20, "gib": 1 << 30}
QUANTITY = re.compile(r"\s*([0-9]+(?:\.[0-9]+)?)\s*([A-Za-z]*)\s*")


class Seconds(float):
    """A duration: `"1.5s"`, `"10 min"`, `"7 days"`, or a plain number of seconds."""


class ByteSize(int):
    """A number of bytes: `"200 KB"`, `"2 MiB"`, or a plain number."""


class LocalDateTime(str):
    """A date and local time, `2026-12-01T03:00:00`; the section names the time zone."""


def parse_duration(text: str) -> float:
    """Seconds in `"10 min"`; the ValueError tells what is allowed."""
    match = QUANTITY.fullmatch(text)
    unit = SECONDS_PER_UNIT.get(match[2].lower() or "s") if match else None
    if match is None or unit is None:
        raise ValueError(
            message("not a duration: {text!r} (write for example 500ms, 1.5s, 10 min, 24h, 7 days)", text=text)
        )
    return float(match[1]) * unit


def parse_size(text: str) -> int:
    """Bytes in `"200 KB"`; the ValueError tells what is allowed."""
    match = QUANTITY.fullmatch(text)
    unit = BYTES_PER_UNIT.get(match[2].lower() or "b") if match else None
    if match is None or unit is None:
        raise ValueError(message("not a size: {text!r} (write for example 200 KB, 2 MB, 1 GiB)", text=text))
    try:
        return int(float(match[1]) * unit)
    except OverflowError:
        raise ValueError(message("not a size that anything could have: {text}…", text=text[:20])) from None


def parse_local_datetime(value: Any) -> LocalDateTime:
    """A date, or a date and time without a zone: as a TOML value, or as text."""
    if isinstance(value, str):
        try:
            value = datetime.fromisoformat(value.strip())
        except ValueError:
            raise ValueError(
                message("not a date: {value!r} (write for example 2026-12-01 or 2026-12-01T03:00)", value=value)
            ) from None
    if isinstance(value, date) and not isinstance(value, datetime):
        value = datetime.combine(value, time())
    if not isinstance(value, datetime):
        raise ValueError(message("expected a date such as 2026-12-01T03:00"))
    if value.tzinfo is not None:
        raise ValueError(message("write the time as the clock on the wall shows it, and its zone as timezone"))
    return LocalDateTime(value.isoformat(timespec="seconds"))


def decode_quantity(kind: type, value: Any) -> Any:
    """Decode our own types, which a file holds as a number or as text."""
    if kind is LocalDateTime:
        return parse_local_datetime(value)
    expected, read = (
        (message("expected a duration such as 1.5s or 10 min"), parse_duration)
        if kind is Seconds
        else (message("expected a size such as 200 KB"), parse_size)
    )
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        raise ValueError(expected)
    amount = read(value) if isinstance(value, str) else value
    if not abs(amount) <= NUMBER_MAX:  # also refuses inf and nan
        raise ValueError(message("{expected}, got {amount}", expected=expected, amount=f"{amount:g}"))
    return kind(amount)


def encode_quantity(kept: Any) -> int | float | str:
    """Encode such a value for JSON: the inverse of `decode_quantity`."""
    if isinstance(kept, LocalDateTime):
        return str(kept)
    return int(kept) if isinstance(kept, ByteSize) else float(kept)
