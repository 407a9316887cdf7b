"""Shard router: sends each call to the PostgreSQL servers concerned; links for unreachable ones go to the outbox.

Promises: links for an unreachable server wait in the outbox, a table of the first server, and are delivered when it is
back, whatever becomes of the machine that found them (`operations/outbox_calls.py`). Weights do not wait there: the
link graph repeats them.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable
from operator import attrgetter
from typing import Any, Concatenate, ParamSpec, TypeVar

from tarrafa.frontier.messages import DiscoveredUrl, UrlWeight
from tarrafa.frontier.postgres.database_session import on_store
from tarrafa.frontier.postgres.operations import outbox_calls, url_calls
from tarrafa.frontier.postgres.sharding.postgres_shard import PostgresServer, PostgresShard, ShardUnreachable
from tarrafa.frontier.postgres.sharding.shard_map import ShardMap
from tarrafa.i18n import message

P = ParamSpec("P")
T = TypeVar("T")


class ShardRouter:
    """Calls the servers of a frontier. The first server is `first`."""

    def __init__(self, shard_map: ShardMap, *, keeps_links: bool) -> None:
        self._map, self.first, self.shards = shard_map, shard_map.first, shard_map.shards
        self._keeps_links = keeps_links

    async def close(self) -> None:
        await self._map.close()

    async def on_all(
        self, work: Callable[Concatenate[PostgresServer, P], T], *positional: P.args, **named: P.kwargs
    ) -> dict[PostgresShard, T]:
        """The results of the servers that answer; the first must answer."""
        found: dict[PostgresShard, T] = {}
        for shard in self.shards:
            try:
                found[shard] = await shard.call(work, *positional, **named)
            except ShardUnreachable:
                if shard is self.first:
                    raise
        return found

    async def on_every(
        self, work: Callable[Concatenate[PostgresServer, P], T], *positional: P.args, **named: P.kwargs
    ) -> list[T]:
        """The results of all servers: every one must answer."""
        return [await shard.call(work, *positional, **named) for shard in self.shards]

    async def shard_of(self, host_key: str) -> PostgresShard:
        await self._map.load_suffixes()
        return self._map.shard_of(host_key)

    async def by_shard(
        self, items: Iterable[Any], key: Callable[[Any], str] = attrgetter("host_key")
    ) -> dict[PostgresShard, list[Any]]:
        """The items by server, according to their host keys; an item without a host key goes to all servers."""
        await self._map.load_suffixes()
        parts: defaultdict[PostgresShard, list[Any]] = defaultdict(list)
        for item in items:
            host_key = key(item)
            for shard in [self._map.shard_of(host_key)] if host_key else self.shards:
                parts[shard].append(item)
        return parts

    async def discover(self, collection: int, links: list[DiscoveredUrl]) -> None:
        """Send each server its links; those for an unreachable one go to the outbox, if this router keeps them."""
        for shard, items in (await self.by_shard(links)).items():
            try:
                await shard.call(url_calls.discover, collection, items)
            except ShardUnreachable:
                if shard is self.first or not self._keeps_links:
                    raise
                await self.first.call(outbox_calls.put, shard.server_id, collection, items)

    async def update_weights(self, collection: str, weights: list[UrlWeight], epoch: int) -> bool:
        """Send each server its weights, after the links that wait: a server ignores weights of URLs that it does not
        know. False: a server has refused them."""
        waiting = await self.first.call(outbox_calls.server_with_links) if len(self.shards) > 1 else ""
        if waiting:
            late = next((shard.where for shard in self.shards if shard.server_id == waiting), waiting)
            raise ShardUnreachable(message("{server}: is away", server=late))
        return all(
            [
                await shard.call(url_calls.update_weights, collection, items, epoch, is_first=shard is self.first)
                for shard, items in (await self.by_shard(weights)).items()
            ]
        )

    async def empty_outbox(self, taken_s: float = outbox_calls.TAKEN_S) -> None:
        """Deliver the links that wait for servers that answer, except those of deleted collections."""
        known: set[int] | None = None
        while (waiting := await self.first.call(outbox_calls.take, self._away(), taken_s)) is not None:
            if known is None:
                known = {row.id for row in await self.first.call(on_store(lambda store: store.collections.rows))}
            if waiting.collection in known:
                await self.discover(waiting.collection, waiting.links)
            await self.first.call(outbox_calls.remove, waiting.number)

    def _away(self) -> list[str]:
        return [shard.server_id for shard in self.shards if shard.is_away]
