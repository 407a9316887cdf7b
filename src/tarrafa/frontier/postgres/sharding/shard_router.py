"""Shard router: sends each call to the PostgreSQL servers concerned; messages for unreachable ones go to the outbox.

Promises: links and weights for an unreachable server wait in the outbox, a small file of the worker, and are delivered
to the server that keeps their sites when it is back, or when the frontier has been imported into other servers. A
stored message survives a kill and a power cut; it is removed only after its delivery; delivering twice is harmless.
"""

import asyncio
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from operator import attrgetter
from pathlib import Path
from typing import Any, Concatenate, ParamSpec, TypeVar

import msgspec
from msgspec.structs import replace

from tarrafa.errors import write_errors
from tarrafa.frontier.messages import DiscoveredUrl, UrlWeight
from tarrafa.frontier.postgres.database_session import on_store
from tarrafa.frontier.postgres.operations import url_calls
from tarrafa.frontier.postgres.sharding.postgres_shard import PostgresServer, PostgresShard, ShardUnreachable
from tarrafa.frontier.postgres.sharding.shard_map import ShardMap
from tarrafa.runtime.sqlite import SqliteFile

P = ParamSpec("P")
T = TypeVar("T")


class LinkMessage(msgspec.Struct, frozen=True, array_like=True):
    """The arguments of `discover`."""

    collection: int
    items: list[DiscoveredUrl]


class WeightMessage(msgspec.Struct, frozen=True, array_like=True):
    """The arguments of `update_weights`."""

    collection: str
    items: list[UrlWeight]
    epoch: int = 0


ShardMessage = LinkMessage | WeightMessage
MESSAGES: dict[str, type[LinkMessage] | type[WeightMessage]] = {
    "discover": LinkMessage,
    "update_weights": WeightMessage,
}
SCHEMA = """
CREATE TABLE IF NOT EXISTS message (
    id INTEGER PRIMARY KEY, place TEXT NOT NULL, method TEXT NOT NULL, arguments BLOB NOT NULL
);
"""


class ShardOutbox:
    """Messages by server, oldest first."""

    def __init__(self, path: Path) -> None:
        with write_errors(path.parent):
            path.parent.mkdir(parents=True, exist_ok=True)
        file = SqliteFile(path)
        self._db = file.open(SCHEMA, sync="full")
        self._errors = file.errors(self._db)

    def put(self, place: str, message: ShardMessage) -> None:
        method = next(name for name, kind in MESSAGES.items() if isinstance(message, kind))
        with self._errors:
            self._db.execute(
                "INSERT INTO message (place, method, arguments) VALUES (?, ?, ?)",
                (place, method, msgspec.msgpack.encode(message)),
            )

    def destinations(self) -> set[str]:
        """The servers for which messages wait."""
        return {place for (place,) in self._db.execute("SELECT DISTINCT place FROM message")}

    def pending_messages(self, place: str) -> Iterator[tuple[int, ShardMessage]]:
        """The messages of one server; each is removed with `remove` after its delivery."""
        while True:
            row = self._db.execute(
                "SELECT id, method, arguments FROM message WHERE place = ? ORDER BY id LIMIT 1", (place,)
            ).fetchone()
            if row is None:
                return
            yield row[0], msgspec.msgpack.decode(row[2], type=MESSAGES[row[1]])

    def remove(self, number: int) -> None:
        self._db.execute("DELETE FROM message WHERE id = ?", (number,))

    def __len__(self) -> int:
        return len(self._db.execute("SELECT 1 FROM message").fetchall())

    def close(self) -> None:
        self._db.close()


class ShardRouter:
    """Calls the servers of a frontier. The first server is `first`."""

    def __init__(self, shard_map: ShardMap, outbox: Path | None) -> None:
        self._map, self.first, self.shards = shard_map, shard_map.first, shard_map.shards
        self._outbox_path, self._outbox = outbox, None if outbox is None or not outbox.exists() else ShardOutbox(outbox)

    async def close(self) -> None:
        await self._map.close()
        if self._outbox is not None:
            self._outbox.close()

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

    async def send(self, message: ShardMessage) -> bool:
        """Send each server its part, or put it into the outbox. False: a server has refused it."""
        accepted = True
        for shard, items in (await self.by_shard(message.items)).items():
            part = replace(message, items=items)
            try:
                accepted &= await shard.call(_apply, part, is_first=shard is self.first)
            except ShardUnreachable:
                if self._outbox is None and self._outbox_path is not None:
                    self._outbox = ShardOutbox(self._outbox_path)
                if self._outbox is None:
                    raise
                await asyncio.to_thread(self._outbox.put, shard.where, part)
        return accepted

    async def empty_outbox(self) -> None:
        """Deliver the messages that wait, except links of deleted collections."""
        if self._outbox is None:
            return
        known = {row.id for row in await self.first.call(on_store(lambda store: store.collections.rows))}
        away = {shard.where for shard in self.shards if shard.is_away}
        for place in self._outbox.destinations() - away:  # also of servers that the frontier was on before
            for number, message in self._outbox.pending_messages(place):
                if isinstance(message, LinkMessage) and message.collection not in known:
                    self._outbox.remove(number)  # its collection was deleted
                    continue
                if any(shard.is_away for shard in self.shards if shard.where == place):
                    break
                await self.send(message)  # its sites may be on other servers by now
                self._outbox.remove(number)


def _apply(server: PostgresServer, message: ShardMessage, *, is_first: bool) -> bool:
    if isinstance(message, LinkMessage):
        url_calls.discover(server, message.collection, message.items)
        return True
    return url_calls.update_weights(server, message.collection, message.items, message.epoch, is_first=is_first)
