"""Which address does this host's name lead to, and may we go there?

Asynchronous look-ups (c-ares), cached for a minute. The guard is on by default: loopback,
private, link-local, metadata, multicast and reserved addresses are refused, in whatever spelling they come, unless
the collection says `allow_private`. Hosts matched by `connect_to` never come here.
"""

import ipaddress
import socket
from dataclasses import dataclass

import aiodns

from tarrafa.clock import boottime

NAMES_CACHED_MAX = 50_000
LIFE_S, LIFE_OF_FAILURE_S = 60.0, 30.0
LOOKUP_TIMEOUT_S = 10.0


@dataclass(frozen=True, slots=True)
class Answer:
    """The address to connect to; or none, and whether it was the guard that refused."""

    address: str | None
    refused: bool = False
    error: str = ""


def forbidden(address: str) -> bool:
    """Not an address of the public Internet; IPv4 inside IPv6 is judged by what is inside."""
    ip = ipaddress.ip_address(address.partition("%")[0])
    if isinstance(ip, ipaddress.IPv6Address):
        inner = ip.ipv4_mapped or ip.sixtofour or (ip.teredo[1] if ip.teredo else None)
        if inner is None and ip in ipaddress.ip_network("64:ff9b::/96"):
            inner = ipaddress.IPv4Address(int(ip) & 0xFFFFFFFF)
        if inner is not None:
            return forbidden(str(inner))
    return not ip.is_global or ip.is_multicast


class Resolver:
    """Names to vetted addresses; one per event loop."""

    def __init__(self, servers: list[str] | None = None) -> None:
        self._resolver = aiodns.DNSResolver(nameservers=servers, timeout=LOOKUP_TIMEOUT_S / 2, tries=2)
        self._cache: dict[str, tuple[float, tuple[str, ...], str]] = {}

    async def resolve(self, name: str, allow_private: bool) -> Answer:
        literal = name.strip("[]")
        try:
            ipaddress.ip_address(literal)
            addresses: tuple[str, ...] = (literal,)
            error = ""
        except ValueError:
            addresses, error = await self._look_up(name)
        for address in addresses:
            if allow_private or not forbidden(address):
                return Answer(address)
        if addresses:
            return Answer(None, True, f"{name} leads to {addresses[0]}, which is not on the public Internet")
        return Answer(None, False, error)

    async def _look_up(self, name: str) -> tuple[tuple[str, ...], str]:
        cached = self._cache.get(name)
        if cached is not None and cached[0] > boottime():
            return cached[1], cached[2]
        try:
            found = await self._resolver.getaddrinfo(name, family=socket.AF_UNSPEC, type=socket.SOCK_STREAM)
            addresses = tuple(dict.fromkeys(_text(node.addr[0]) for node in found.nodes))
            life, error = LIFE_S, ""
        except (aiodns.error.DNSError, UnicodeError, ValueError) as failure:
            addresses, life, error = (), LIFE_OF_FAILURE_S, f"{name} does not resolve: {failure}"
        if len(self._cache) >= NAMES_CACHED_MAX:
            self._cache.clear()
        # IPv4 first: the commoner path, and one address per host keeps its connection
        addresses = tuple(sorted(addresses, key=lambda address: ":" in address))
        self._cache[name] = (boottime() + life, addresses, error)
        return addresses, error

    async def close(self) -> None:
        await self._resolver.close()


def _text(address: bytes | str) -> str:
    return address.decode() if isinstance(address, bytes) else address
