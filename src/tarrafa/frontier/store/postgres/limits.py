"""How does a collection's limit hold over several servers?

Near it one worker at a time hands out visits, over all servers, and counts what all of them have.
"""

import asyncio
import contextlib
from collections import defaultdict
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TypeVar

from tarrafa import config as configuration
from tarrafa.frontier.protocol import CollectionRow
from tarrafa.frontier.store.collections import NOTHING, Tally
from tarrafa.frontier.store.postgres.member import Member
from tarrafa.frontier.store.postgres.roster import Roster
from tarrafa.frontier.store.postgres.routing import Routing
from tarrafa.frontier.store.postgres.server import NEAR_LIMIT, Server

T = TypeVar("T")


class Limiting(Routing):
    """What hands out visits goes through `_within_limits`."""

    def __init__(self, roster: Roster, outbox: Path | None) -> None:
        super().__init__(roster, outbox)
        self._limiting = asyncio.Lock()
        self._scopes: dict[int, tuple[int, configuration.Scope]] = {}  # as of a revision

    async def _within_limits(self, member: Member, rows: list[CollectionRow], work: Callable[[Server], T]) -> T:
        """Something that hands out visits of these collections."""
        running = [row for row in rows if row.state == "running"]
        scopes = {row.id: self._scope_of(row) for row in running}
        limits = {number: one for number, one in scopes.items() if one.pages_max or one.requests_max}
        if not limits:
            return await self._ask(member, work)
        async with self._limiting:
            return await self._steadily(lambda edition: self._counted(member, limits, work, edition))

    def _scope_of(self, row: CollectionRow) -> configuration.Scope:
        """Read once for each configuration: this is asked at every lease."""
        known = self._scopes.get(row.id)
        if known is None or known[0] != row.revision:
            known = self._scopes[row.id] = (row.revision, configuration.decode(row.config).scope)
        return known[1]

    async def _counted(
        self, member: Member, limits: dict[int, configuration.Scope], work: Callable[[Server], T], edition: int
    ) -> T:
        """Whoever is told that sites were moved counts anew: they took their numbers along."""
        tallies = await self._tallies()
        near = NEAR_LIMIT * await self._ask(self._first, lambda server: server.workers())
        total = {number: sum((one.get(number, NOTHING) for one in tallies.values()), NOTHING) for number in limits}
        is_near = any(_left(limits[number], total[number]) < near for number in limits)
        async with self._alone() if is_near else contextlib.nullcontext():
            await self._share_limits(member, await self._tallies() if is_near else tallies)
            return await member.call(work, edition)

    async def _tallies(self) -> dict[Member, dict[int, Tally]]:
        return dict(await self._everywhere(lambda server: server.tally()))

    async def _share_limits(self, member: Member, tallies: dict[Member, dict[int, Tally]]) -> None:
        elsewhere: defaultdict[int, Tally] = defaultdict(Tally)
        for other, tally in tallies.items():
            if other is not member:
                for number, one in tally.items():
                    elsewhere[number] += one
        await member.call(lambda server: server.share_limits(dict(elsewhere)))

    @asynccontextmanager
    async def _alone(self) -> AsyncIterator[None]:
        await self._ask(self._first, lambda server: server.lock_limits())
        try:
            yield
        finally:
            await self._ask(self._first, lambda server: server.unlock_limits())


def _left(scope: configuration.Scope, used: Tally) -> int:
    pages = scope.pages_max - used.pages if scope.pages_max is not None else 1 << 30
    requests = scope.requests_max - used.requests if scope.requests_max is not None else 1 << 30
    return min(pages, requests)
