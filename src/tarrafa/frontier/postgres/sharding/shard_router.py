"""Shard router: sends each call to the PostgreSQL servers concerned; messages for unreachable ones go to the outbox.

Promises: links for an unreachable server wait in the outbox, and are delivered to the server that keeps their sites
when it is back, or when the frontier has been imported into other servers.
"""

import asyncio
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from operator import attrgetter
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from tarrafa.frontier.messages import DiscoveredUrl, UrlWeight
from tarrafa.frontier.postgres.postgres_server import PostgresServer
from tarrafa.frontier.postgres.sharding.postgres_shard import PostgresShard, ShardUnreachable
from tarrafa.frontier.postgres.sharding.shard_map import ShardMap
from tarrafa.frontier.postgres.sharding.shard_outbox import ShardOutbox

T = TypeVar("T")


class ShardRouter:
    """Calls the servers of a frontier. The first server is `first`."""

    def __init__(self, registry: ShardMap, outbox: Path | None) -> None:
        self._registry, self.first, self.shards = registry, registry.first, registry.members
        self._outbox_path, self._outbox = outbox, None if outbox is None or not outbox.exists() else ShardOutbox(outbox)

    async def close(self) -> None:
        await self._registry.close()
        if self._outbox is not None:
            self._outbox.close()

    async def on_all(
        self, work: Callable[[PostgresServer], T], *, all_of_them: bool = False
    ) -> list[tuple[PostgresShard, T]]:
        """The results of the servers that answer; the first must answer, and with `all_of_them` every one."""
        found: list[tuple[PostgresShard, T]] = []
        for shard in self.shards:
            try:
                found.append((shard, await shard.call(work)))
            except ShardUnreachable:
                if all_of_them or shard is self.first:
                    raise
        return found

    async def tell_sites_apart(self, suffixes: list[str] | None = None) -> None:
        await self._registry.tell_sites_apart(suffixes)

    async def shard_of(self, host_key: str) -> PostgresShard:
        await self.tell_sites_apart()
        return self._registry.shard_of(host_key)

    async def by_shard(
        self, items: Iterable[Any], key: Callable[[Any], str] = attrgetter("host_key")
    ) -> dict[PostgresShard, list[Any]]:
        """The items by server, according to their host keys; an item without a host key goes to all servers."""
        await self.tell_sites_apart()
        parts: defaultdict[PostgresShard, list[Any]] = defaultdict(list)
        for item in items:
            host_key = key(item)
            for shard in [self._registry.shard_of(host_key)] if host_key else self.shards:
                parts[shard].append(item)
        return parts

    async def call_each(
        self,
        items: Iterable[Any],
        work: Callable[[PostgresServer, list[Any]], None],
        key: Callable[[Any], str] = attrgetter("host_key"),
    ) -> None:
        """Call each server with its part of the items."""
        for shard, part in (await self.by_shard(items, key)).items():
            await shard.call(lambda server, part=part: work(server, part))  # type: ignore[misc]

    async def send(self, method: str, collection: Any, items: Sequence[Any]) -> None:
        """Send each server its part (`discover` or `update_weights`), or put it into the outbox."""
        for shard, part in (await self.by_shard(items)).items():

            def deliver(server: PostgresServer, part: list[Any] = part) -> None:
                getattr(server.urls, method)(collection, part)

            try:
                await shard.call(deliver)
            except ShardUnreachable:
                if self._outbox is None and self._outbox_path is not None:
                    self._outbox = ShardOutbox(self._outbox_path)
                if self._outbox is None:
                    raise
                await asyncio.to_thread(self._outbox.put, shard.where, method, (collection, part))

    async def empty_outbox(self) -> None:
        """Deliver the messages that wait, except links of deleted collections."""
        if self._outbox is None:
            return
        rows = await self.first.call(lambda server: server.store_call(lambda store: store.collections.rows)())
        known = {row.id for row in rows}
        away = {shard.where for shard in self.shards if shard.is_away}
        for place in self._outbox.destinations() - away:  # also of servers that the frontier was on before
            for number, method, arguments in self._outbox.pending_messages(place):
                kind: Any = tuple[int, list[DiscoveredUrl]] if method == "discover" else tuple[str, list[UrlWeight]]
                collection, items = msgspec.msgpack.decode(arguments, type=kind)
                if method == "discover" and collection not in known:
                    self._outbox.remove(number)  # its collection was deleted
                    continue
                if any(shard.is_away for shard in self.shards if shard.where == place):
                    break
                await self.send(method, collection, items)  # its sites may be on other servers by now
                self._outbox.remove(number)
