"""Where a request comes from: client address (X-Forwarded-For), another site (Origin), or this machine.

Promises: the address of a client is the one at the other end of the connection. If that is a proxy named by the
operator, it is the last entry of `X-Forwarded-For` that is no named proxy: the proxies wrote that entry and those after
it; entries that a client put before it, and the header of any other peer, are ignored. A whole IPv6 network of 64 bits
is one address: one customer gets that much. A browser says which page sends a form (`Origin`, RFC 6454;
`Sec-Fetch-Site`, W3C Fetch Metadata); forms of other sites are refused.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from urllib.parse import urlsplit

from starlette.datastructures import URL
from starlette.requests import HTTPConnection

from tarrafa.errors import ConfigError
from tarrafa.parse.url import DEFAULT_PORTS
from tarrafa.runtime.listen_address import is_loopback_address, is_loopback_host

FORWARDED_FOR = "x-forwarded-for"
FORWARDED_HEADERS = frozenset({b"forwarded", FORWARDED_FOR.encode(), b"x-real-ip", b"via"})
SAME_SITE_VALUES = frozenset({"same-origin", "none"})  # none: typed into the address bar
UNKNOWN_ADDRESS = "unknown"
HOST_REMEMBERED_BYTES = 100
HOPS_MAX = 10  # entries of X-Forwarded-For that are read, the last ones


@dataclass(frozen=True, slots=True)
class TrustedProxies:
    """The reverse proxies of the operator: addresses and networks. None: clients connect themselves."""

    networks: tuple[IPv4Network | IPv6Network, ...] = ()

    @classmethod
    def parse(cls, names: Iterable[str] | None) -> "TrustedProxies":
        return cls(tuple(map(_network, names or ())))

    def __contains__(self, address: str) -> bool:
        found = _address(address) if self.networks else None
        return found is not None and any(found in network for network in self.networks)

    def __bool__(self) -> bool:
        return bool(self.networks)


NO_PROXIES = TrustedProxies()


def _network(text: str) -> IPv4Network | IPv6Network:
    try:
        return ip_network(text.strip())
    except ValueError as error:
        raise ConfigError(
            f"--behind-proxy: {text[:60]!r}: name an IP address or a network, such as 10.0.0.5 or 10.0.0.0/8 ({error})"
        ) from None


def peer_address(connection: HTTPConnection) -> str:
    """The address at the other end of the connection: a client or a proxy."""
    return connection.client.host if connection.client is not None else ""


def client_address(connection: HTTPConnection, proxies: TrustedProxies) -> str:
    """The client's address, as used for limits."""
    address = peer_address(connection)
    entries = ",".join(connection.headers.getlist(FORWARDED_FOR)).rsplit(",", HOPS_MAX)[-HOPS_MAX:] if proxies else []
    while entries and address in proxies and address_key(entries[-1]):
        address = entries.pop()
    return address_key(address) or UNKNOWN_ADDRESS


def address_key(text: str) -> str:
    """An address without port and zone, an IPv6 one as its network."""
    found = _address(text)
    if isinstance(found, IPv6Address) and not found.is_loopback:
        return str(IPv6Network((found, 64), strict=False))
    return str(found or "")


def _address(text: str) -> IPv4Address | IPv6Address | None:
    """An address that may have a port, a zone, and quotes around it; an IPv4 one also as IPv6 writes it."""
    text = text.strip().strip('"')[:100]
    if text.startswith("["):
        text = text[1:].partition("]")[0]
    elif text.count(":") == 1:
        text = text.partition(":")[0]
    try:
        found = ip_address(text.partition("%")[0])
    except ValueError:
        return None
    return found.ipv4_mapped or found if isinstance(found, IPv6Address) else found


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
    return parts.hostname or "", parts.port or int(DEFAULT_PORTS.get(scheme, 0))


def is_local_request(request: HTTPConnection) -> bool:
    """Whether the request comes from this machine. A request forwarded by a proxy does not; nor does one with another
    Host: a page elsewhere may point its own name here to read what a browser on this machine can (DNS rebinding).
    """
    client = request.client
    if client is None or any(name in FORWARDED_HEADERS for name, _ in request.scope["headers"]):
        return False
    return _is_from_loopback(client.host) and is_loopback_host(_host_of(request))


_is_from_loopback = lru_cache(1_000)(is_loopback_address)


def _host_of(request: HTTPConnection) -> str:
    """The host name that the request is for: `request.url.hostname`, remembered, since it takes 15 us to parse."""
    scope = request.scope
    header = next((value for name, value in scope["headers"] if name == b"host"), b"")
    if not header or len(header) > HOST_REMEMBERED_BYTES or not scope.get("server"):
        return request.url.hostname or ""
    return _host_in(scope["scheme"], tuple(scope["server"]), header)


@lru_cache(1_000)
def _host_in(scheme: str, server: tuple[str, int], header: bytes) -> str:
    scope = {"scheme": scheme, "server": server, "path": "/", "query_string": b"", "headers": [(b"host", header)]}
    return URL(scope=scope).hostname or ""
