"""Text formats of configuration values: names, host patterns, addresses, e-mail, cron periods, time zones."""

import re
from datetime import datetime, timedelta
from ipaddress import ip_address
from urllib.parse import urlsplit
from zoneinfo import ZoneInfo

from cronsim import CronSim, CronSimError

from tarrafa.config.units import parse_duration

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
CRON_FIELDS = 5
REDACTED = "…"  # replaces the secret part of an address


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
