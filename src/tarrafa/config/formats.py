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
SURROUNDING_PUNCTUATION = "<>()[]{}\"'.,;"  # what may stand around an address in a sentence
CRON_FIELDS = 5
REDACTED = "…"  # what stands for the part of an address that is not for everybody


def parse_name_server(text: str) -> str | None:
    """`address:port` of a name server; None if it is none."""
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
    """`daily`, `7 days`, or five fields as cron has them."""
    if text == "daily":
        return True
    if len(text.split()) == CRON_FIELDS:
        try:
            next(CronSim(text, datetime(2026, 1, 1)))  # a day that never comes is no period
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
    if text.endswith(REDACTED):  # what stands for something that was not shown is not what it stands for
        return False
    try:
        parts = urlsplit(text)
        return parts.scheme in ("http", "https") and bool(parts.hostname) and text.isprintable() and " " not in text
    except ValueError:
        return False


def has_contact(text: str) -> bool:
    """Whether a word of it is an address of the Web or of a mailbox."""
    words = (word.strip(SURROUNDING_PUNCTUATION).removeprefix("mailto:") for word in text.split())
    return any(is_http_url(word) or EMAIL.fullmatch(word) or BARE_URL.fullmatch(word) for word in words)


def is_address_port(text: str) -> bool:
    """`127.0.0.1:8090` or `[::1]:8090`."""
    address, _, port = text.rpartition(":")
    try:
        ip_address(address.removeprefix("[").removesuffix("]"))
    except ValueError:
        return False
    return ADDRESS_PORT.fullmatch(text) is not None and 0 < int(port) < 65536
