"""Global limits: keeps a collection's pages_max and requests_max over all PostgreSQL servers.

Near a limit one worker at a time hands out visits, over all servers, and counts those of all servers.
"""

import asyncio
from collections import defaultdict
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from tarrafa.config import decode_collection
from tarrafa.config.sections import ScopeConfig
from tarrafa.frontier.messages import CollectionRow
from tarrafa.frontier.postgres.operations import lease_calls
from tarrafa.frontier.postgres.operations.lease_calls import NEAR_LIMIT
from tarrafa.frontier.postgres.sharding.postgres_shard import PostgresShard
from tarrafa.frontier.postgres.sharding.shard_router import ShardRouter
from tarrafa.frontier.store.collections import NO_USAGE, LimitUsage


class GlobalLimits:
    """Enforces the limits: every call that hands out visits is made within `within`."""

    def __init__(self, router: ShardRouter) -> None:
        self._router, self._limiting = router, asyncio.Lock()
        self._scopes: dict[int, tuple[int, ScopeConfig]] = {}  # as of a revision
        self._usages: dict[PostgresShard, dict[int, LimitUsage]] = {}

    @asynccontextmanager
    async def within(self, shard: PostgresShard, rows: list[CollectionRow]) -> AsyncIterator[None]:
        """Surrounds a call on one server that hands out visits of these collections."""
        scopes = {row.id: self._scope_of(row) for row in rows if row.state == "running"}
        limits = {number: one for number, one in scopes.items() if one.pages_max or one.requests_max}
        if not limits:
            yield
            return
        async with self._limiting:
            usages = await self._usage_of_all()
            near = NEAR_LIMIT * await self._router.first.call(lease_calls.worker_count)
            total = {number: sum((one.get(number, NO_USAGE) for one in usages.values()), NO_USAGE) for number in limits}
            if not any(_remaining(limits[number], total[number]) < near for number in limits):
                await self._share(shard, usages)
                yield
                return
            async with self._exclusive():
                await self._share(shard, await self._usage_of_all())
                yield

    async def _usage_of_all(self) -> dict[PostgresShard, dict[int, LimitUsage]]:
        """The usage on each server; of an unreachable one, as it was last known."""
        self._usages |= await self._router.on_all(lease_calls.limit_usage)
        return self._usages

    def _scope_of(self, row: CollectionRow) -> ScopeConfig:
        """Decoded once for each configuration: every lease asks."""
        known = self._scopes.get(row.id)
        if known is None or known[0] != row.revision:
            known = self._scopes[row.id] = (row.revision, decode_collection(row.config).scope)
        return known[1]

    @staticmethod
    async def _share(shard: PostgresShard, usages: dict[PostgresShard, dict[int, LimitUsage]]) -> None:
        """Let a server count the usage of the others."""
        elsewhere: defaultdict[int, LimitUsage] = defaultdict(LimitUsage)
        for other, usage in usages.items():
            if other is not shard:
                for number, one in usage.items():
                    elsewhere[number] += one
        await shard.count_elsewhere(dict(elsewhere))

    @asynccontextmanager
    async def _exclusive(self) -> AsyncIterator[None]:
        await self._router.first.call(lease_calls.lock_limits)
        try:
            yield
        finally:
            await self._router.first.call(lease_calls.unlock_limits)


def _remaining(scope: ScopeConfig, used: LimitUsage) -> int:
    pages = scope.pages_max - used.pages if scope.pages_max is not None else 1 << 30
    requests = scope.requests_max - used.requests if scope.requests_max is not None else 1 << 30
    return min(pages, requests)
