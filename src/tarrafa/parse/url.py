"""Canonicalizes URLs (WHATWG parse, RFC 3986 escapes), computes URL ids, host keys and host ids, and handles domains.

Promises: `canonical` is the WHATWG parse (ada-url) without fragment, credentials and default port, with the escapes of
RFC 3986 section 6.2.2 normalised. It is idempotent, and gives None for a text that is not http(s) or cannot be parsed.
The fast paths give exactly what the slow path gives (a property test in tests/parse/test_url.py checks it).
Knows nothing of collections: a collection passes its two options as a `UrlIdentity`. Knows nothing of public suffixes.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from typing import NamedTuple

import msgspec
from ada_url import join_url
from xxhash import xxh3_64_intdigest, xxh3_128_digest

from tarrafa.model import HostId, UrlId

URL_LENGTH_MAX = 2_048  # characters of a canonical URL, which is ASCII; the sitemap protocol has the same limit
INPUT_LENGTH_MAX = 16_384  # before the fragment; longer ones are not parsed at all
ORIGINS_CACHED_MAX = 20_000
BASES_CACHED_MAX = 512
FOLDERS_REMEMBERED_MAX = 250  # folders whose pages were read last, with the references on those pages
REFERENCES_REMEMBERED_MAX = 200  # of one folder
ABSOLUTE_REMEMBERED_MAX = 20_000  # absolute references of all pages, some 4 MB
REFERENCE_LENGTH_MAX = 256  # of a remembered one, and of its URL
LABELS_MAX = 12  # of a domain, from the right: the index keeps this many of a host
NAME_CHARS_MAX = 253

DEFAULT_PORTS = {"http": "80", "https": "443"}

UNRESERVED = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~"
HEX_DIGITS = "0123456789ABCDEFabcdef"

NO_BASE = "about:blank"  # a base that no relative reference can be joined to: same as no base

# Anything but the characters that WHATWG leaves unchanged both in a path and in a query, and that have no special
# meaning there.
_needs_parser = re.compile(r"[^A-Za-z0-9._~!$&()*+,;=:@/?-]").search
_plain_origin = re.compile(r"https?://[A-Za-z0-9._:\[\]-]+").fullmatch
_escape = re.compile(r"%[0-9A-Fa-f]{2}")
# Escapes that have another normal form: those with lower-case digits, and those of unreserved characters.
_odd_escape = re.compile(
    r"%(?:[0-9A-F][a-f]|[a-f][0-9A-Fa-f]|2[DE]|3[0-9]|4[1-9A-F]|5[0-9AF]|6[1-9A-F]|7[0-9AE])"
).search
_stray_percent = re.compile(r"%(?![0-9A-Fa-f]{2})").search

# References whose URL depends on the folder of the page alone: not `?page=2` or `http:page`, which need its path.
_is_of_folder = re.compile(r"[A-Za-z0-9/._~-][^:]*\Z").match
_UNKNOWN = "?"  # never a URL
_absolute: dict[str, str] = {}  # reference without fragment -> its URL, which no base changes

_typed_domain = re.compile(r"(?:https?://)?([^\s/?#@*:\\]+|\[[0-9a-fA-F:.]+\])/?").fullmatch
_ip_address = re.compile(r"\[.*\]|\d{1,3}(\.\d{1,3}){3}").fullmatch

_NO_PAGES = ("javascript:", "mailto:", "tel:", "data:", "whatsapp:")  # common in links, and never http

_UPPER = {f"%{high}{low}": f"%{high}{low}".upper() for high in HEX_DIGITS for low in HEX_DIGITS}
_DECODED = {escape: chr(int(escape[1:], 16)) for escape in _UPPER if chr(int(escape[1:], 16)) in UNRESERVED}
_NORMAL = _UPPER | _DECODED


def canonical(url: str, base: str | None = None) -> str | None:
    """The canonical form of `url`, resolved against `base`; None if it is no http(s) URL, or too long."""
    if base is not None:
        return base_url_of(base).join(url)
    if "/." not in url and _needs_parser(url) is None and len(url) <= URL_LENGTH_MAX:
        return _with_plain_tail(url) or _parse_with_ada(url, NO_BASE)
    return _parse_with_ada(url, NO_BASE)


@dataclass(frozen=True, slots=True)
class BaseUrl:
    """A page's base URL, split once for all the links on it."""

    href: str
    document: str | None  # its canonical form; None if it has none
    origin: str  # empty if the fast join is not possible: the base is no http(s) URL
    path: str  # up to the query; empty if it is not plain enough for the fast join
    folder: str  # up to the last slash; empty if not plain enough
    remembered: dict[str, str | None] = field(compare=False)  # references without fragment; shared within the folder

    def join(self, url: str) -> str | None:
        """The same as `canonical(url, base)`. Most links are on other pages of the folder, too, and remembered."""
        absolute = _absolute.get(url)
        if absolute is not None and self.origin:
            return absolute
        reference, hash_mark, _ = url.partition("#")
        if hash_mark and reference[-1:] <= " ":  # spaces before `#` are not trailing spaces
            return _parse_with_ada(url, self.href) if reference else self.document
        known = self.remembered.get(reference, _UNKNOWN)
        if known is not _UNKNOWN:
            return known
        joined = self._join_new(url)
        is_short = len(reference) <= REFERENCE_LENGTH_MAX and len(joined or "") <= REFERENCE_LENGTH_MAX
        if is_short and joined and reference.startswith(("http://", "https://")):
            _remember_absolute(reference, joined)
        elif is_short and len(self.remembered) < REFERENCES_REMEMBERED_MAX and _is_of_folder(reference):
            self.remembered[reference] = joined
        return joined

    def _join_new(self, url: str) -> str | None:
        """A link that is not remembered. Most need no parser: a plain path is appended."""
        care = _needs_parser(url)
        if care is None:
            plain = url
        elif url[care.start()] == "#":
            plain = url[: care.start()]
        else:
            return _parse_with_ada(url, self.href)
        joined = self._join_strings(plain) if len(plain) <= URL_LENGTH_MAX else None
        return joined if joined is not None and len(joined) <= URL_LENGTH_MAX else _parse_with_ada(url, self.href)

    def _join_strings(self, plain: str) -> str | None:
        """Base and reference joined as strings; None if that is not possible."""
        if plain.startswith("../"):
            return self._join_parent(plain)
        if not self.origin or "/." in plain:
            return None
        first = plain[:1]
        if first == "/":
            return None if plain.startswith("//") else self.origin + plain
        if first == "?":
            return self.path + plain if self.path else None
        if plain.startswith(("http://", "https://")):
            return _with_plain_tail(plain)
        return None if not first or first == "." or not self.folder or ":" in plain else self.folder + plain

    def _join_parent(self, plain: str) -> str | None:
        folder, root = self.folder, len(self.origin) + 1
        while plain.startswith("../"):
            plain = plain[3:]
            folder = folder[: folder.rfind("/", 0, -1) + 1] if len(folder) > root else folder
        return None if not folder or plain.startswith(".") or "/." in plain else folder + plain


@lru_cache(maxsize=BASES_CACHED_MAX)
def base_url_of(href: str) -> BaseUrl:
    """The base URL, split; cached for the next link of the same page."""
    normal = canonical(href)
    if normal is None:
        return BaseUrl(href, None, "", "", "", {})
    origin = normal[: normal.index("/", 8)]
    path = normal.partition("?")[0]
    folder = path[: path.rindex("/") + 1]
    remembered = _references_of(folder) if href == normal else {}  # of another spelling, escapes may differ
    if "/." in path or _needs_parser(path.removeprefix(origin)):
        return BaseUrl(href, normal, origin, "", "", remembered)
    return BaseUrl(href, normal, origin, path, folder, remembered)


def _remember_absolute(reference: str, url: str) -> None:
    if len(_absolute) >= ABSOLUTE_REMEMBERED_MAX:
        _absolute.clear()
    _absolute[reference] = reference if url == reference else url  # one string for both, if it can be


@lru_cache(maxsize=FOLDERS_REMEMBERED_MAX)
def _references_of(folder: str) -> dict[str, str | None]:
    """The memory of a folder: the same dictionary for as long as it is cached."""
    return {}


def _with_plain_tail(url: str) -> str | None:
    """The canonical form of an absolute URL with a normal path and query; None if the slow path must decide."""
    slash = url.find("/", 8)
    if slash < 0:
        return None
    prefix = url[:slash]
    origin = _origin(prefix)
    if origin == prefix:
        return url
    return origin + url[slash:] if origin else None


@lru_cache(maxsize=ORIGINS_CACHED_MAX)
def _origin(prefix: str) -> str:
    """The canonical form of scheme://host:port; empty if the prefix holds more than that."""
    href = _parse_with_ada(prefix + "/", NO_BASE) if _plain_origin(prefix) else None
    return href[:-1] if href else ""


def _parse_with_ada(url: str, base: str) -> str | None:
    """The slow path, which is the definition."""
    before, mark, _ = url.partition("#")
    url = before + mark  # the `#` stays, because spaces before it are not trailing spaces
    if len(url) > INPUT_LENGTH_MAX or url.startswith(_NO_PAGES):
        return None
    try:
        href = join_url(base, url)
    except ValueError:
        scalar = _scalar_values(url)
        return _parse_with_ada(scalar, base) if scalar != url else None
    if not href.startswith(("http://", "https://")):
        return None
    href = _without_credentials(href.removesuffix("#"))
    if "%" in href:
        href = _normal_escapes(href)
    return href if len(href) <= URL_LENGTH_MAX else None


def _scalar_values(text: str) -> str:
    """JavaScript's USVString conversion: surrogate pairs become one character, lone surrogates U+FFFD."""
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def _without_credentials(href: str) -> str:
    """The URL without credentials. We never send a password that a link contains, and the page is the same page."""
    slash = href.index("/", 8)
    at = href.rfind("@", 0, slash)
    return href if at < 0 else href[: href.index("//") + 2] + href[at + 1 :]


def _normal_escapes(href: str) -> str:
    """RFC 3986 §6.2.2: escapes in upper case, and no needless ones. (A host has no escapes any more.)

    WHATWG keeps a stray `%`. Next to one nothing is decoded, because `%%34%31` would become `%41`, a new escape.
    """
    if _odd_escape(href) is None:
        return href
    table = _UPPER if _stray_percent(href) else _NORMAL
    return _escape.sub(lambda found: table[found[0]], href)


def url_id(url: str) -> UrlId:
    """The 128-bit id of a canonical URL."""
    digest: bytes = xxh3_128_digest(url.encode())
    return digest


class UrlParts(NamedTuple):
    """A canonical URL, split; `port` is always present, `target` is path and query as sent to the server."""

    scheme: str
    host: str
    port: str
    target: str


def split(url: str) -> UrlParts:
    """Split a canonical URL. IPv6 addresses keep their brackets."""
    slash = url.index("/", 8)
    scheme, host, port, _ = _authority(url[:slash])
    return UrlParts(scheme, host, port, url[slash:])


@lru_cache(maxsize=ORIGINS_CACHED_MAX)
def _authority(origin: str) -> tuple[str, str, str, str]:
    """Scheme, host, port and host key of `scheme://host[:port]`."""
    scheme, _, authority = origin.partition("://")
    host, colon, port = authority.rpartition(":")
    if not colon or port.endswith("]"):
        host, port = authority, DEFAULT_PORTS[scheme]
    return scheme, host, port, f"{scheme}://{host}:{port}"


def host_key(url: str) -> str:
    """`scheme://host:port` of a canonical URL: the unit of politeness."""
    return _authority(url[: url.index("/", 8)])[3]


def host_name(url: str) -> str:
    """The name or address of a canonical URL's host, without the port."""
    return _authority(url[: url.index("/", 8)])[1]


def name_and_port(url: str) -> tuple[str, str]:
    """The host name and port of a canonical URL, as host patterns compare them: the scheme's default port is empty."""
    scheme, host, port, _ = _authority(url[: url.index("/", 8)])
    return host, "" if port == DEFAULT_PORTS[scheme] else port


def authority_of(url: str) -> str:
    """`name[:port]` of a canonical URL: without the scheme's default port."""
    host, port = name_and_port(url)
    return f"{host}:{port}" if port else host


def host_id(key: str) -> HostId:
    """The 64-bit id of a host key, signed as databases store it."""
    number: int = xxh3_64_intdigest(key.encode())
    return number - (1 << 64) if number >> 63 else number


class UrlIdentity(msgspec.Struct, frozen=True):
    """Options that treat more URLs as the same page. Modern servers tell these apart: both are off by default."""

    fold_case: bool = False
    strip_slash: bool = False

    def canonicalize(self, url: str, base: str | None = None) -> str | None:
        """`canonical`, followed by this collection's options."""
        found = canonical(url, base)
        return found if found is None else self.fold(found)

    def fold(self, url: str) -> str:
        """Apply the options to a canonical URL. The query is unchanged: keys and session ids live there."""
        if not (self.fold_case or self.strip_slash):
            return url
        target = split(url).target
        path, mark, query = target.partition("?")
        if self.fold_case:
            path = _escape.sub(lambda found: _UPPER[found[0]], path.lower())
        if self.strip_slash:
            path = path.rstrip("/") or "/"
        return url[: len(url) - len(target)] + path + mark + query


def parse_domain(text: str) -> str | None:
    """The domain in a typed text: `ufmg.br`, `www.UFMG.br.`, `https://ufmg.br/`. None if it has a path or a port."""
    typed = _typed_domain(text.strip())
    url = canonical(f"http://{typed[1]}/") if typed else None
    name = host_name(url).rstrip(".") if url is not None else ""
    return name if 0 < len(name) <= NAME_CHARS_MAX else None


def is_ip_address(name: str) -> bool:
    """Whether the name is an IP address, which has no parent domains."""
    return _ip_address(name) is not None


def domain_and_parents(name: str) -> Iterator[str]:
    """The name itself and every domain above it: www.ufmg.br, ufmg.br, br."""
    name = name.rstrip(".")
    yield name
    if is_ip_address(name):
        return
    labels = name.split(".")
    for start in range(max(1, len(labels) - LABELS_MAX), len(labels)):
        yield ".".join(labels[start:])
