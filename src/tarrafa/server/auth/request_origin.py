"""Where a request comes from: client address (X-Forwarded-For), another site (Origin), or this machine.

Promises: the address of a client is the one at the other end of the connection or, behind a configured proxy, the last
one in its `X-Forwarded-For`, which the proxy wrote itself; entries that a client put before it are ignored. A whole
IPv6 network of 64 bits is one address: one customer gets that much. A browser says which page sends a form (`Origin`,
RFC 6454; `Sec-Fetch-Site`, W3C Fetch Metadata); forms of other sites are refused.
"""

from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_address
from urllib.parse import urlsplit

from starlette.requests import HTTPConnection

FORWARDED_FOR = "x-forwarded-for"
FORWARDED_HEADERS = ("forwarded", FORWARDED_FOR, "x-real-ip", "via")
SAME_SITE_VALUES = frozenset({"same-origin", "none"})  # none: typed into the address bar
DEFAULT_PORTS = {"http": 80, "https": 443}
UNKNOWN_ADDRESS = "unknown"


def client_address(connection: HTTPConnection, behind_proxy: bool) -> str:
    """The client's address, as used for limits."""
    peer = connection.client.host if connection.client is not None else ""
    said = connection.headers.getlist(FORWARDED_FOR) if behind_proxy else []
    last = said[-1].rpartition(",")[2] if said else ""
    return address_key(last) or address_key(peer) or UNKNOWN_ADDRESS


def address_key(text: str) -> str:
    """An address without port and zone, an IPv6 one as its network."""
    text = text.strip().strip('"')[:100]
    if text.startswith("["):
        text = text[1:].partition("]")[0]
    elif text.count(":") == 1:
        text = text.partition(":")[0]
    try:
        found: IPv4Address | IPv6Address = ip_address(text.partition("%")[0])
    except ValueError:
        return ""
    if isinstance(found, IPv6Address):
        if found.ipv4_mapped is None and not found.is_loopback:
            return str(IPv6Network((found, 64), strict=False))
        found = found.ipv4_mapped or found
    return str(found)


def is_cross_site(connection: HTTPConnection, public: str) -> bool:
    """Whether a page of another site sends this request. Programs that are no browsers send no such header. `public` is
    the public URL of the site, if configured: a proxy may have changed the Host header.
    """
    site = connection.headers.get("sec-fetch-site")
    if site is not None and site not in SAME_SITE_VALUES:
        return True
    origin = connection.headers.get("origin")
    if origin is None:
        return False
    own = [connection.headers.get("host", "").lower(), urlsplit(public).netloc.lower()]
    try:
        parts = urlsplit(origin.lower())
        ours = {_netloc(parts.scheme, name) for name in own if name}
        return not parts.netloc or _netloc(parts.scheme, parts.netloc) not in ours
    except ValueError:
        return True


def _netloc(scheme: str, netloc: str) -> tuple[str, int]:
    """The scheme decides the default port only: whether a proxy speaks TLS is not known here."""
    parts = urlsplit(f"//{netloc}")
    return parts.hostname or "", parts.port or DEFAULT_PORTS.get(scheme, 0)


def is_local_request(request: HTTPConnection) -> bool:
    """Whether the request comes from this machine. A request forwarded by a proxy does not; nor does one with another
    Host: a page elsewhere may point its own name here to read what a browser on this machine can (DNS rebinding).
    """
    if request.client is None or any(name in request.headers for name in FORWARDED_HEADERS):
        return False
    named = request.url.hostname or ""
    return _is_loopback(request.client.host) and (named == "localhost" or _is_loopback(named))


def _is_loopback(address: str) -> bool:
    try:
        return ip_address(address).is_loopback
    except ValueError:
        return False
