"""SURT keys of URLs, by which CDX files are sorted: `http://www.a.br:80/B/` is `br,a)/b`.

Promises: the key is the one that pywb and cdxj-indexer compute with the Python package `surt` and its default
canonicalization (tests/captures compares them): no scheme, no user, no `www`, no default port, no session ids; host,
path and query in lower case, the query's parameters sorted. A text that has no such key is its own key. Pure.
"""

import re
import socket
from contextlib import suppress
from functools import lru_cache
from string import punctuation
from urllib.parse import quote_from_bytes, unquote_to_bytes

from tarrafa.parse.url import DEFAULT_PORTS

HOSTS_CACHED_MAX = 4_096
KEPT_PUNCTUATION = punctuation.translate({ord("#"): None, ord("%"): None})

# A URL as most canonical ones are: nothing in it is escaped, repeated or a number, and a port is not that of the scheme.
_plain = re.compile(
    rb"https?://(?:www\d*\.)?([a-z0-9-]+(?:\.[a-z0-9-]+)*\.[a-z][a-z0-9-]*)((?::(?:[1-9][0-9]{3}|[1-5][0-9]{4}))?)"
    rb"((?:/[A-Za-z0-9_~!$'()*,;:@+-][A-Za-z0-9_~!$'()*,;:@+.-]*)*)/?"
).fullmatch
_parts = re.compile(rb"(?:([A-Za-z][A-Za-z0-9+.-]*):)?(?://([^/?#]*))?([^?#]*)(?:\?([^#]*))?(?:#.*)?", re.S).fullmatch
_scheme = re.compile(rb"[A-Za-z][A-Za-z0-9+.-]*:").match
_repeated_scheme = re.compile(rb"(?:https?://)*(?=https?://)").match
_www = re.compile(rb"www\d*\.").match
_numeric_host = re.compile(rb"[0-9]+(?:\.[0-9]+){0,3}").fullmatch
# ASP.NET's session in the path: `/(S(0123456789abcdefghijklmn))/`, or the 24 signs alone.
SESSION_SEGMENTS = (rb"(?:[a-z]\([0-9a-z]{24}\))+", rb"[0-9a-z]{24}")
_path_sessions = [re.compile(rb"(.*/)\(%s\)/([^?]+\.aspx.*)" % one, re.I | re.S).fullmatch for one in SESSION_SEGMENTS]
SESSION_PARAMETERS = (
    rb"jsessionid=[0-9a-z]{32}",
    rb"phpsessid=[0-9a-z]{32}",
    rb"sid=[0-9a-z]{32}",
    rb"aspsessionid[a-z]{8}=[a-z]{24}",
    rb"cfid=[^&]+&cftoken=[^&]+",
)
_query_sessions = [re.compile(rb"(.*)%s(?:&(.*))?" % one, re.I | re.S).fullmatch for one in SESSION_PARAMETERS]
_may_have_session = re.compile(rb"sid=|sessionid|cfid=", re.I).search


def surt(url: str) -> str:
    """The SURT key of a URL."""
    if not url:
        return "-"
    encoded = url.encode("utf-8", "surrogatepass")
    plain = _plain(encoded)
    if plain is not None and b"(" not in encoded:
        return f"{_plain_host(plain[1])}{plain[2].decode()}){plain[3].decode().lower() or '/'}"
    try:
        return _key(encoded).decode()
    except (ValueError, OSError):  # a port that is no number, a host that has no ASCII form
        return url


@lru_cache(HOSTS_CACHED_MAX)
def _plain_host(host: bytes) -> str:
    return ",".join(reversed(host.decode().split(".")))


def _key(url: bytes) -> bytes:
    url = re.sub(rb"[\r\n\t]", b"", url.strip())
    if not url:
        raise ValueError(url)
    if not _scheme(url):
        url = b"http://" + url
    if repeated := _repeated_scheme(url):
        url = url[repeated.end() :]
    parts = _parts(url)
    assert parts is not None  # any bytes match
    scheme, authority, path, query = parts.groups(b"")
    host, port = _host_and_port(authority)
    if scheme.startswith(b"http") and not host and path:
        host, _, path = path.lstrip(b"/").partition(b"/")
        path = b"/" + path
    host = _canonical_host(host, scheme)
    path = _canonical_path(_unescape(path), has_host=bool(host))
    query = _canonical_query(_escape(_unescape(query)))
    start = _host_key(host, port, scheme) if host else scheme + b":"
    return start + (path or (b"/" if query else b"")) + (b"?" + query if query else b"")


def _host_key(host: bytes, port: int | None, scheme: bytes) -> bytes:
    key = b",".join(reversed(host.split(b".")))
    default = DEFAULT_PORTS.get(scheme.lower().decode("latin-1"))
    return b"%s:%d)" % (key, port) if port and str(port) != default else key + b")"


def _host_and_port(authority: bytes) -> tuple[bytes, int | None]:
    """A port that is no number from 0 to 65535 raises."""
    authority = authority.rstrip(b":").rpartition(b"@")[2]
    if b"[" in authority:
        host, _, rest = authority.partition(b"[")[2].partition(b"]")
        port = rest.partition(b":")[2]
    else:
        host, _, port = authority.partition(b":")
    if not port:
        return host, None
    if not port.isdigit() or int(port[:6]) > 65_535:
        raise ValueError(port)
    return host, int(port)


def _canonical_host(host: bytes, scheme: bytes) -> bytes:
    host = _unescape(host)
    if not host.isascii():
        with suppress(UnicodeError):
            host = host.decode("utf-8", "ignore").encode("idna")
    host = host.replace(b"..", b".").strip(b".")
    if address := _ip_address(host):
        return address
    host = _escape(host).lower()
    found = _www(host) if scheme != b"dns" else None
    return host[found.end() :] if found else host


def _ip_address(host: bytes) -> bytes:
    """A host of numbers, as the system reads it: `10.1` is 10.0.0.1. Empty if it is no address."""
    if host.isdigit():
        return socket.inet_ntoa((int(host) & 0xFFFFFFFF).to_bytes(4, "big")).encode()
    if _numeric_host(host) is None:
        return b""
    try:
        return socket.inet_ntoa(socket.inet_aton(host.decode())).encode()
    except OSError:
        return b""


def _canonical_path(path: bytes, *, has_host: bool) -> bytes:
    if has_host:
        path = _without_dots(path)
    path = _escape(path).lower()
    if b".aspx" in path and b"(" in path:
        for match in _path_sessions:
            if found := match(path):
                path = found[1] + found[2]
    return path[:-1] if len(path) > 1 and path.endswith(b"/") else path


def _without_dots(path: bytes) -> bytes:
    """Without `.`, `..` and empty segments; a slash at the end stays."""
    kept: list[bytes] = []
    for segment in path.split(b"/")[1:]:
        if segment == b".." and kept:
            kept.pop()
        elif segment != b".":
            kept.append(segment)
    if not kept:
        return b"/"
    return b"/" + b"".join(segment + b"/" for segment in kept[:-1] if segment) + kept[-1]


def _canonical_query(query: bytes) -> bytes:
    if _may_have_session(query):
        for match in _query_sessions:
            if found := match(query):
                query = found[1] + (found[2] or b"")
    query = query.lower()
    if len(query) <= 1:
        return query
    return b"&".join(b"=".join(pair) for pair in sorted(tuple(one.split(b"=", 1)) for one in query.split(b"&")))


def _unescape(text: bytes) -> bytes:
    """Without escapes, also those that an escape was hiding."""
    while b"%" in text and (plain := unquote_to_bytes(text)) != text:
        text = plain
    return text


def _escape(text: bytes) -> bytes:
    return quote_from_bytes(text, safe=KEPT_PUNCTUATION).encode() if text else text
