"""Text formats of configuration files: durations, sizes, dates, names, host patterns, addresses, cron periods.

Promises: a parsed quantity is finite and at most `NUMBER_MAX`. An invalid one raises a ValueError whose only argument
is a `Message` that tells what is allowed.
"""

import re
from datetime import date, datetime, time, timedelta
from ipaddress import ip_address
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from zoneinfo import ZoneInfo

from cronsim import CronSim, CronSimError

from tarrafa.errors import ConfigError
from tarrafa.i18n import message

NUMBER_MAX = 10**12  # of anything: pages, seconds, bytes
SECONDS_PER_UNIT = {"ms": 0.001, "s": 1, "sec": 1, "min": 60, "m": 60, "h": 3600, "hour": 3600, "hours": 3600}
SECONDS_PER_UNIT |= {"day": 86400, "days": 86400, "d": 86400, "week": 604800, "weeks": 604800}
BYTES_PER_UNIT = {"b": 1, "kb": 1000, "mb": 10**6, "gb": 10**9, "kib": 1 << 10, "mib": 1 << 20, "gib": 1 << 30}
QUANTITY = re.compile(r"\s*([0-9]+(?:\.[0-9]+)?)\s*([A-Za-z]*)\s*")

COLLECTION_NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,62}")
USER_AGENT = re.compile(r"[A-Za-z0-9_-]+(/[!-~]+)?( \([ -~]*\))?")
MIME = re.compile(r"[\w.+-]+/(\*|[\w.+-]+)")
HOST_PATTERN = re.compile(r"\*|(\*\.)?[^\s/*?]+")
ADDRESS_PORT = re.compile(r"(?:\d{1,3}(?:\.\d{1,3}){3}|\[[0-9a-fA-F:]+\]):\d{1,5}")
PROXY = re.compile(r"(?:https?|socks5h)://(?:[A-Za-z0-9.-]{1,253}|\[[0-9a-fA-F:]+\]):[1-9]\d{0,4}/?")
PORT, DNS_PORT = re.compile(r"[1-9]\d{0,4}"), "53"
EMAIL = re.compile(r"[^\s@<>,;:\"]+@[^\s@<>,;:\"]+")
BARE_URL = re.compile(r"[\w-]+(\.[\w-]+)+(:\d+)?([/?#]\S*)?")  # as people write it, without http
SURROUNDING_PUNCTUATION = "<>()[]{}\"'.,;"  # may surround an address in a sentence
RETENTION = re.compile(r"all|last [1-9][0-9]{0,5}|one per (?:day|week|month|year)")
CRON_FIELDS = 5
REDACTED = "…"  # replaces the secret part of an address


class Seconds(float):
    """A duration: `"1.5s"`, `"10 min"`, `"7 days"`, or a plain number of seconds."""


class ByteSize(int):
    """A number of bytes: `"200 KB"`, `"2 MiB"`, or a plain number."""


class LocalDateTime(str):
    """A date and local time, `2026-12-01T03:00:00`; the section names the time zone."""


def read_user_file(path: Path) -> str:
    """The text of a file that the user named."""
    try:
        return path.read_text(encoding="utf-8-sig")
    except FileNotFoundError:
        raise ConfigError(f"{path}: no such file") from None
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: cannot be read: {error}") from None


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
        raise ValueError(message("too large a size: {text}…", text=text[:20])) from None


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
        raise ValueError(message("write the local time without a zone, and the zone as timezone"))
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


def parse_name_server(text: str) -> str | None:
    """`address:port` of a name server; None if the text is no such address."""
    address, colon, port = text, "", ""
    if text.startswith("[") or text.count(":") == 1:
        address, colon, port = text.rpartition(":")
        if text.endswith("]"):
            address, colon, port = text, "", ""
        address = address.removeprefix("[").removesuffix("]")
    try:
        ip = ip_address(address)
    except ValueError:
        return None
    if (colon and not PORT.fullmatch(port)) or not 0 < int(port or DNS_PORT) < 65536:
        return None
    return f"[{ip}]:{port or DNS_PORT}" if ip.version == 6 else f"{ip}:{port or DNS_PORT}"


def is_period(text: str) -> bool:
    """Whether the text is `daily`, `7 days`, or five fields as in cron."""
    if text == "daily":
        return True
    if len(text.split()) == CRON_FIELDS:
        try:
            next(CronSim(text, datetime(2026, 1, 1)))  # a date that never comes is no period
        except (CronSimError, StopIteration):
            return False
        return True
    try:
        return timedelta(minutes=1) <= timedelta(seconds=parse_duration(text)) <= timedelta(days=3_660)
    except (ValueError, OverflowError):
        return False


def is_time_zone(name: str) -> bool:
    try:
        ZoneInfo(name)
    except (ValueError, OSError, LookupError):
        return False
    return True


def is_http_url(text: str) -> bool:
    if text.endswith(REDACTED):  # a redacted address is not the address itself
        return False
    try:
        parts = urlsplit(text)
        return parts.scheme in ("http", "https") and bool(parts.hostname) and text.isprintable() and " " not in text
    except ValueError:
        return False


def has_contact(text: str) -> bool:
    """Whether a word of the text is a Web address or an e-mail address."""
    words = (word.strip(SURROUNDING_PUNCTUATION).removeprefix("mailto:") for word in text.split())
    return any(is_http_url(word) or EMAIL.fullmatch(word) or BARE_URL.fullmatch(word) for word in words)


def is_address_port(text: str) -> bool:
    """Whether the text is like `127.0.0.1:8090` or `[::1]:8090`."""
    address, _, port = text.rpartition(":")
    try:
        ip_address(address.removeprefix("[").removesuffix("]"))
    except ValueError:
        return False
    return ADDRESS_PORT.fullmatch(text) is not None and 0 < int(port) < 65536


def redact_url(address: str) -> str:
    """An address that anyone may see: without user, path and query, which often hold a token."""
    try:
        parts = urlsplit(address)
        place = f"{parts.scheme}://{parts.hostname or ''}" + (f":{parts.port}" if parts.port else "")
        rest = parts.path not in ("", "/") or parts.query or parts.fragment or parts.username or parts.password
    except ValueError:
        return REDACTED
    if not parts.scheme or not parts.hostname:
        return REDACTED if address else ""
    return f"{place}/{REDACTED}" if rest else address
