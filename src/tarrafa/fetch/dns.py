"""DNS resolver: host names to allowed IP addresses, with a cache.

Asynchronous lookups (c-ares), cached for a minute. The address guard (`address_guard`) is on by default: loopback,
private, link-local, metadata, multicast and reserved addresses are refused, in any spelling, unless the collection sets
`allow_private`. The answer is one address, and the client connects to that address only: a name that resolves elsewhere
a moment later (DNS rebinding) has no effect. Hosts matched by `connect_to` are not resolved here.
"""

import ipaddress
import socket
from collections.abc import Callable
from dataclasses import dataclass

import aiodns
import pycares

from tarrafa.clock import boottime
from tarrafa.fetch.address_guard import is_forbidden_address
from tarrafa.i18n import Message, message

NAMES_CACHED_MAX = 50_000
ADDRESSES_MAX = 64  # of one name
DNS_CACHE_S, DNS_FAILURE_CACHE_S = 60.0, 30.0
NO_DATA, NO_SUCH_NAME = aiodns.error.ARES_ENODATA, aiodns.error.ARES_ENOTFOUND
LOOKUP_TIMEOUT_S = 10.0
LOOPBACK = ("127.0.0.1",)
# Names are looked up literally: `intranet` is not tried as intranet.our-company.example, nor are HOSTALIASES used.
FLAGS = pycares.ARES_FLAG_NOSEARCH | pycares.ARES_FLAG_NOALIASES | pycares.ARES_FLAG_EDNS


@dataclass(frozen=True, slots=True)
class DnsAnswer:
    """The address to connect to; or none, and whether the guard refused it."""

    address: str | None
    refused: bool = False
    error: Message | str = ""
    unsure: bool = False  # no server answered or knew: this does not mean that the name does not exist


class DnsResolver:
    """Resolves names to allowed addresses; one per event loop. `servers` replace the system's, as `address:port`."""

    def __init__(self, servers: list[str] | None = None, clock: Callable[[], float] = boottime) -> None:
        self._clock = clock
        self._resolver = aiodns.DNSResolver(nameservers=servers, timeout=LOOKUP_TIMEOUT_S / 2, tries=2, flags=FLAGS)
        self._cache: dict[str, tuple[float, tuple[str, ...], Message | str, bool]] = {}

    async def resolve(self, name: str, allow_private: bool) -> DnsAnswer:
        """The first allowed address of a name."""
        error: Message | str = ""
        addresses, unsure = _resolve_literal(name), False
        if not addresses:
            addresses, error, unsure = await self._look_up(name)
        for address in addresses:
            if allow_private or not is_forbidden_address(address):
                return DnsAnswer(address)
        if addresses:
            return DnsAnswer(
                None,
                True,
                message(
                    "{name} leads to {address}, which is not on the public Internet", name=name, address=addresses[0]
                ),
            )
        return DnsAnswer(None, False, error, unsure)

    async def _look_up(self, name: str) -> tuple[tuple[str, ...], Message | str, bool]:
        cached, unsure = self._cache.get(name), False
        if cached is not None and cached[0] > self._clock():
            return cached[1:]
        try:
            error: Message | str = ""
            found = await self._resolver.getaddrinfo(name, family=socket.AF_UNSPEC, type=socket.SOCK_STREAM)
            addresses = tuple(dict.fromkeys(_text(node.addr[0]) for node in found.nodes))
            life = DNS_CACHE_S
        except (aiodns.error.DNSError, UnicodeError, ValueError) as failure:
            addresses, life, error = (), DNS_FAILURE_CACHE_S, _reason(name, failure)
            is_certain = failure.args[:1] in ((NO_DATA,), (NO_SUCH_NAME,))
            unsure = isinstance(failure, aiodns.error.DNSError) and not is_certain
        if len(self._cache) >= NAMES_CACHED_MAX:
            self._cache.clear()
        # IPv4 first: the more common path, and one address per host keeps its connection
        addresses = tuple(sorted(addresses, key=lambda address: ":" in address)[:ADDRESSES_MAX])
        self._cache[name] = (self._clock() + life, addresses, error, unsure)
        return addresses, error, unsure

    async def close(self) -> None:
        await self._resolver.close()


def _reason(name: str, failure: Exception) -> Message:
    code = failure.args[0] if isinstance(failure, aiodns.error.DNSError) else None
    if code == NO_SUCH_NAME:
        return message("{name} does not resolve: there is no such name", name=name)
    if code == NO_DATA:
        return message("{name} does not resolve: it has no address", name=name)
    if code is None:
        return message("{name} does not resolve: it is no valid name", name=name)
    return message("{name} does not resolve: no name server answered ({error})", name=name, error=failure.args[-1])


def is_refused_by_name(name: str) -> bool:
    """Whether the address guard refuses a host by its name alone: a literal address, or this machine."""
    addresses = _resolve_literal(name)
    return bool(addresses) and all(map(is_forbidden_address, addresses))


def _resolve_literal(name: str) -> tuple[str, ...]:
    """The addresses of a literal: an IP address, or this machine (RFC 6761 §6.3: never look `localhost` up)."""
    bare = name.removesuffix(".").lower()
    if bare == "localhost" or bare.endswith(".localhost"):
        return LOOPBACK
    literal = bare.removeprefix("[").removesuffix("]")
    try:
        ipaddress.ip_address(literal)
    except ValueError:
        return ()
    return (literal,)


def _text(address: bytes | str) -> str:
    return address.decode() if isinstance(address, bytes) else address
