"""Resolves a leased host to the address to connect to, and claims that address.

Promises: an address that is forbidden to a collection is never returned; with `per_ip`, an address that another host
holds is not returned before it is free.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from tarrafa.config import Collection
from tarrafa.config.formats import parse_name_server
from tarrafa.fetch.dns import DnsResolver
from tarrafa.fetch.http_message import FetchRequest
from tarrafa.i18n import Message
from tarrafa.model import HostId, Status

ClaimAddress = Callable[[HostId, str], Awaitable[float]]  # 0: the address is ours; else the time from which it may be


@dataclass(frozen=True, slots=True)
class ResolvedHost:
    """The address to connect to; or the reason why there is none, and the time from which to ask again."""

    connect_to: str | None = None
    address: str | None = None
    proxy: str | None = None
    error: int = 0
    free_at: float = 0.0
    why: Message | str = ""
    unsure: bool = False  # no name server answered: perhaps this machine is offline

    @property
    def is_known(self) -> bool:
        return bool(self.connect_to or self.address or self.proxy)

    def apply_to(self, request: FetchRequest) -> None:
        request.connect_to, request.address, request.proxy = self.connect_to, self.address, self.proxy


class HostResolver:
    """Resolves hosts. Collections with the same name servers share one cache."""

    def __init__(self, claim: ClaimAddress) -> None:
        self._claim = claim
        self._resolvers: dict[tuple[str, ...], DnsResolver] = {}

    async def resolve(self, name: str, host: HostId, collection: Collection, beside: str | None = None) -> ResolvedHost:
        """Resolve and claim. `beside` is an address that the caller holds for another host: it needs no claim."""
        target = collection.connect_target(name)
        if target is not None:
            return ResolvedHost(connect_to=target)
        if collection.network.proxy:
            return ResolvedHost(proxy=collection.network.proxy)
        answer = await self._resolver(collection).resolve(name, collection.network.allow_private)
        if answer.address is None:
            status = Status.ADDRESS_REFUSED if answer.refused else Status.NAME_UNKNOWN
            return ResolvedHost(error=status, why=answer.error, unsure=answer.unsure)
        if collection.politeness.per_ip and answer.address != beside:
            free_at = await self._claim(host, answer.address)
            if free_at:
                return ResolvedHost(free_at=free_at)
        return ResolvedHost(address=answer.address)

    def _resolver(self, collection: Collection) -> DnsResolver:
        servers = tuple(filter(None, map(parse_name_server, collection.network.dns)))
        if servers not in self._resolvers:
            self._resolvers[servers] = DnsResolver(list(servers) or None)
        return self._resolvers[servers]

    async def close(self) -> None:
        for resolver in self._resolvers.values():
            await resolver.close()
