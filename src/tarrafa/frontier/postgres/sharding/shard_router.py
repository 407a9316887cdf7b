"""Shard router: sends each call to the PostgreSQL servers concerned, and keeps messages for unreachable ones in the
outbox.

Promise: links for a server that is away wait in the outbox, and are delivered to whoever keeps their sites when it is
back, or when the frontier has been imported into other servers.
"""

import asyncio
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from tarrafa.frontier.api import DiscoveredUrl, UrlWeight
from tarrafa.frontier.postgres.postgres_server import PostgresServer
from tarrafa.frontier.postgres.sharding.postgres_shard import PostgresShard, ShardUnreachable
from tarrafa.frontier.postgres.sharding.shard_outbox import ShardOutbox
from tarrafa.frontier.postgres.sharding.shard_registry import ShardRegistry

T = TypeVar("T")


class ShardRouter:
    """The servers of a frontier, and how they are asked."""

    def __init__(self, roster: ShardRegistry, outbox: Path | None) -> None:
        self._roster, self._first = roster, roster.first
        self._outbox_path, self._outbox = outbox, None if outbox is None or not outbox.exists() else ShardOutbox(outbox)

    @property
    def _shards(self) -> list[PostgresShard]:
        return self._roster.members

    async def close(self) -> None:
        await self._roster.close()
        if self._outbox is not None:
            self._outbox.close()

    @staticmethod
    async def _ask(member: PostgresShard, work: Callable[[PostgresServer], T]) -> T:
        return await member.call(work)

    async def _on_all_shards(
        self, work: Callable[[PostgresServer], T], *, all_of_them: bool = False
    ) -> list[tuple[PostgresShard, T]]:
        """Of those that answer."""
        found: list[tuple[PostgresShard, T]] = []
        for member in self._shards:
            try:
                found.append((member, await member.call(work)))
            except ShardUnreachable:
                if all_of_them or member is self._first:
                    raise
        return found

    async def _shard_of(self, host_key: str) -> PostgresShard:
        await self._roster.tell_sites_apart()
        return self._roster.shard_of(host_key)

    async def _by_shard(self, items: Iterable[Any]) -> dict[PostgresShard, list[Any]]:
        """To each server its part; what does not say whose it is, to all of them."""
        await self._roster.tell_sites_apart()
        parts: defaultdict[PostgresShard, list[Any]] = defaultdict(list)
        for item in items:
            for member in [self._roster.shard_of(item.host_key)] if item.host_key else self._shards:
                parts[member].append(item)
        return parts

    async def _send_to_shards(self, method: str, collection: Any, items: Sequence[Any]) -> None:
        """To each server its part, or into the outbox."""
        for member, part in (await self._by_shard(items)).items():

            def tell(server: PostgresServer, part: list[Any] = part) -> None:
                getattr(server, method)(collection, part)

            try:
                await member.call(tell)
            except ShardUnreachable:
                if self._outbox is None and self._outbox_path is not None:
                    self._outbox = ShardOutbox(self._outbox_path)
                if self._outbox is None:
                    raise
                await asyncio.to_thread(self._outbox.put, member.where, method, (collection, part))

    async def _empty_outbox(self) -> None:
        if self._outbox is None:
            return
        known = {row.id for row in await self._ask(self._first, lambda server: server.collections())}
        away = {member.where for member in self._shards if member.is_away}
        for place in self._outbox.destinations() - away:  # also of servers that the frontier was on before
            for number, method, arguments in self._outbox.pending_messages(place):
                kind: Any = tuple[int, list[DiscoveredUrl]] if method == "discover" else tuple[str, list[UrlWeight]]
                collection, items = msgspec.msgpack.decode(arguments, type=kind)
                if method == "discover" and collection not in known:
                    self._outbox.remove(number)  # it was deleted
                    continue
                if any(member.is_away for member in self._shards if member.where == place):
                    break
                await self._send_to_shards(method, collection, items)  # its sites may be elsewhere by now
                self._outbox.remove(number)
