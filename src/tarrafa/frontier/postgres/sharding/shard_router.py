"""Shard router: sends each call to the PostgreSQL servers concerned, and keeps messages for unreachable ones in the
outbox.

Promises: whoever goes by an old edition of the atlas is told, reads it and asks again; links for a server that is
away wait in the outbox, and are delivered to whoever keeps their sites when it is back.
"""

import asyncio
import math
import sys
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from tarrafa.clock import boottime
from tarrafa.errors import FrontierError
from tarrafa.frontier.api import DiscoveredUrl, UrlWeight
from tarrafa.frontier.postgres.database_session import StaleShardMap
from tarrafa.frontier.postgres.postgres_server import PostgresServer
from tarrafa.frontier.postgres.sharding.postgres_shard import PostgresShard, ShardUnreachable
from tarrafa.frontier.postgres.sharding.shard_outbox import ShardOutbox
from tarrafa.frontier.postgres.sharding.shard_registry import ShardRegistry

COME_AGAIN_S, PATIENCE_S = 0.25, 60.0  # with what is for sites on their way
WAITING = (
    "weights wait for sites that are on their way to another server; if nobody moves them, run"
    " `tarrafa frontier spread` again"
)
MAP_RELOADS_MAX = 100  # of the atlas, that may come out while one question is asked
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

    async def _ask(self, member: PostgresShard, work: Callable[[PostgresServer], T]) -> T:
        """A question to this very server, whichever sites are where."""
        return await self._with_current_map(lambda edition: member.call(work, edition))

    async def _with_current_map(self, ask: Callable[[int], Awaitable[T]]) -> T:
        """A question that goes by the atlas; again while sites are moved, so it must be harmless to repeat."""
        for _ in range(MAP_RELOADS_MAX):
            edition = self._roster.edition
            try:
                return await ask(edition)
            except StaleShardMap:
                await self._roster.reload(edition)
        raise FrontierError(f"{self._first.where}: the servers do not agree on who keeps which sites; is one away?")

    async def _on_all_shards(
        self, work: Callable[[PostgresServer], T], *, all_of_them: bool = False
    ) -> list[tuple[PostgresShard, T]]:
        """Of those that answer; all by one edition, so that nobody is left out."""

        async def each(edition: int) -> list[tuple[PostgresShard, T]]:
            found: list[tuple[PostgresShard, T]] = []
            for member in list(self._shards):
                try:
                    found.append((member, await member.call(work, edition)))
                except ShardUnreachable:
                    if all_of_them or member is self._first:
                        raise
            return found

        return await self._with_current_map(each)

    def _shard_of(self, host_key: str) -> PostgresShard:
        return self._roster.shard_of(host_key)

    def _by_shard(self, items: Iterable[Any]) -> dict[PostgresShard, list[Any]]:
        parts: defaultdict[PostgresShard, list[Any]] = defaultdict(list)
        for item in items:
            for member in [self._shard_of(item.host_key)] if item.host_key else self._shards:
                parts[member].append(item)
        return parts

    async def _deliver(self, method: str, collection: Any, items: Sequence[Any], edition: int) -> list[Any]:
        """To each server its part, or into the outbox; what they cannot take now."""
        late: list[Any] = []
        for member, part in self._by_shard(items).items():

            def tell(server: PostgresServer, part: list[Any] = part) -> list[Any]:
                return getattr(server, method)(collection, part) or []

            try:
                late += await member.call(tell, edition)
            except ShardUnreachable:
                if self._outbox is None and self._outbox_path is not None:
                    self._outbox = ShardOutbox(self._outbox_path)
                if self._outbox is None:
                    raise
                await asyncio.to_thread(self._outbox.put, member.where, method, (collection, part))
        return late

    async def _send_to_shards(self, method: str, collection: Any, items: Sequence[Any]) -> None:
        """Again if sites were moved meanwhile: delivering twice is harmless. What cannot be taken while its site is on
        the way comes again a little later."""
        began = boottime()
        while items:
            items = await self._with_current_map(lambda edition: self._deliver(method, collection, items, edition))  # noqa: B023
            if items:
                await asyncio.sleep(COME_AGAIN_S)
            if items and boottime() - began > PATIENCE_S:
                began = math.inf
                sys.stderr.write(f"{self._first.where}: {WAITING}\n")
                sys.stderr.flush()

    async def _empty_outbox(self) -> None:
        if self._outbox is None:
            return
        away = {member.where for member in self._shards if member.is_away}
        for place in self._outbox.destinations() - away:  # also of a server that has left, or has another name by now
            for number, method, arguments in self._outbox.pending_messages(place):
                kind: Any = tuple[int, list[DiscoveredUrl]] if method == "discover" else tuple[str, list[UrlWeight]]
                collection, items = msgspec.msgpack.decode(arguments, type=kind)
                if any(member.is_away for member in self._shards if member.where == place):
                    break
                await self._send_to_shards(method, collection, items)  # its sites may have been moved meanwhile
                self._outbox.remove(number)
