"""Global limits: keeps a collection's pages_max and requests_max over all PostgreSQL servers.

Near a limit one worker at a time hands out visits, over all servers, and counts those of all servers.
"""

import asyncio
import contextlib
from collections import defaultdict
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import TypeVar

from tarrafa.config import decode_collection
from tarrafa.config.sections import ScopeConfig
from tarrafa.frontier.messages import CollectionRow
from tarrafa.frontier.postgres.operations.limit_calls import NEAR_LIMIT
from tarrafa.frontier.postgres.postgres_server import PostgresServer
from tarrafa.frontier.postgres.sharding.postgres_shard import PostgresShard
from tarrafa.frontier.postgres.sharding.shard_router import ShardRouter
from tarrafa.frontier.store.collections import NO_USAGE, LimitUsage

T = TypeVar("T")


class GlobalLimits:
    """Enforces the limits: every call that hands out visits goes through `call`."""

    def __init__(self, router: ShardRouter) -> None:
        self._router, self._limiting = router, asyncio.Lock()
        self._scopes: dict[int, tuple[int, ScopeConfig]] = {}  # as of a revision

    async def call(self, member: PostgresShard, rows: list[CollectionRow], work: Callable[[PostgresServer], T]) -> T:
        """Run a call that hands out visits of these collections."""
        running = [row for row in rows if row.state == "running"]
        scopes = {row.id: self._scope_of(row) for row in running}
        limits = {number: one for number, one in scopes.items() if one.pages_max or one.requests_max}
        if not limits:
            return await member.call(work)
        async with self._limiting:
            return await self._call_within_limits(member, limits, work)

    def _scope_of(self, row: CollectionRow) -> ScopeConfig:
        """Decoded once for each configuration: every lease asks."""
        known = self._scopes.get(row.id)
        if known is None or known[0] != row.revision:
            known = self._scopes[row.id] = (row.revision, decode_collection(row.config).scope)
        return known[1]

    async def _call_within_limits(
        self, member: PostgresShard, limits: dict[int, ScopeConfig], work: Callable[[PostgresServer], T]
    ) -> T:
        tallies = await self._limit_usages()
        near = NEAR_LIMIT * await self._router.first.call(lambda server: server.limits.workers())
        total = {number: sum((one.get(number, NO_USAGE) for one in tallies.values()), NO_USAGE) for number in limits}
        is_near = any(_remaining(limits[number], total[number]) < near for number in limits)
        async with self._exclusive() if is_near else contextlib.nullcontext():
            await self._share_limits(member, await self._limit_usages() if is_near else tallies)
            return await member.call(work)

    async def _limit_usages(self) -> dict[PostgresShard, dict[int, LimitUsage]]:
        return dict(await self._router.on_all(lambda server: server.limits.limit_usage()))

    async def _share_limits(self, member: PostgresShard, tallies: dict[PostgresShard, dict[int, LimitUsage]]) -> None:
        elsewhere: defaultdict[int, LimitUsage] = defaultdict(LimitUsage)
        for other, tally in tallies.items():
            if other is not member:
                for number, one in tally.items():
                    elsewhere[number] += one
        await member.call(lambda server: server.limits.share_limits(dict(elsewhere)))

    @asynccontextmanager
    async def _exclusive(self) -> AsyncIterator[None]:
        await self._router.first.call(lambda server: server.limits.lock_limits())
        try:
            yield
        finally:
            await self._router.first.call(lambda server: server.limits.unlock_limits())


def _remaining(scope: ScopeConfig, used: LimitUsage) -> int:
    pages = scope.pages_max - used.pages if scope.pages_max is not None else 1 << 30
    requests = scope.requests_max - used.requests if scope.requests_max is not None else 1 << 30
    return min(pages, requests)
