"""To which servers does a question go, and what if they are not there?

Promises: whoever goes by an old edition of the atlas is told, reads it and asks again; links for a server that is away
wait in the outbox, and are delivered to whoever keeps their sites when it is back.
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
from tarrafa.frontier.protocol import Offer, Weight
from tarrafa.frontier.store.postgres.member import Away, Member
from tarrafa.frontier.store.postgres.outbox import Outbox
from tarrafa.frontier.store.postgres.roster import Roster
from tarrafa.frontier.store.postgres.server import Server
from tarrafa.frontier.store.postgres.session import Moved

COME_AGAIN_S, PATIENCE_S = 0.25, 60.0  # with what is for sites on their way
WAITING = (
    "weights wait for sites that are on their way to another server; if nobody moves them, run"
    " `tarrafa frontier spread` again"
)
EDITIONS_MAX = 100  # of the atlas, that may come out while one question is asked
T = TypeVar("T")


class Routing:
    """The servers of a frontier, and how they are asked."""

    def __init__(self, roster: Roster, outbox: Path | None) -> None:
        self._roster, self._first = roster, roster.first
        self._outbox_path, self._outbox = outbox, None if outbox is None or not outbox.exists() else Outbox(outbox)

    @property
    def _members(self) -> list[Member]:
        return self._roster.members

    async def close(self) -> None:
        await self._roster.close()
        if self._outbox is not None:
            self._outbox.close()

    async def _ask(self, member: Member, work: Callable[[Server], T]) -> T:
        """A question to this very server, whichever sites are where."""
        return await self._steadily(lambda edition: member.call(work, edition))

    async def _steadily(self, ask: Callable[[int], Awaitable[T]]) -> T:
        """A question that goes by the atlas; again while sites are moved, so it must be harmless to repeat."""
        for _ in range(EDITIONS_MAX):
            edition = self._roster.edition
            try:
                return await ask(edition)
            except Moved:
                await self._roster.read_again(edition)
        raise FrontierError(f"{self._first.where}: the servers do not agree on who keeps which sites; is one away?")

    async def _everywhere(self, work: Callable[[Server], T], *, all_of_them: bool = False) -> list[tuple[Member, T]]:
        """Of those that answer; all by one edition, so that nobody is left out."""

        async def each(edition: int) -> list[tuple[Member, T]]:
            found: list[tuple[Member, T]] = []
            for member in list(self._members):
                try:
                    found.append((member, await member.call(work, edition)))
                except Away:
                    if all_of_them or member is self._first:
                        raise
            return found

        return await self._steadily(each)

    def _member_of(self, host_key: str) -> Member:
        return self._roster.member_of(host_key)

    def _parts(self, items: Iterable[Any]) -> dict[Member, list[Any]]:
        parts: defaultdict[Member, list[Any]] = defaultdict(list)
        for item in items:
            for member in [self._member_of(item.host_key)] if item.host_key else self._members:
                parts[member].append(item)
        return parts

    async def _deliver(self, method: str, collection: Any, items: Sequence[Any], edition: int) -> list[Any]:
        """To each server its part, or into the outbox; what they cannot take now."""
        late: list[Any] = []
        for member, part in self._parts(items).items():

            def tell(server: Server, part: list[Any] = part) -> list[Any]:
                return getattr(server, method)(collection, part) or []

            try:
                late += await member.call(tell, edition)
            except Away:
                if self._outbox is None and self._outbox_path is not None:
                    self._outbox = Outbox(self._outbox_path)
                if self._outbox is None:
                    raise
                await asyncio.to_thread(self._outbox.put, member.where, method, (collection, part))
        return late

    async def _routed(self, method: str, collection: Any, items: Sequence[Any]) -> None:
        """Again if sites were moved meanwhile: delivering twice is harmless. What cannot be taken while its site is on
        the way comes again a little later."""
        began = boottime()
        while items:
            items = await self._steadily(lambda edition: self._deliver(method, collection, items, edition))  # noqa: B023
            if items:
                await asyncio.sleep(COME_AGAIN_S)
            if items and boottime() - began > PATIENCE_S:
                began = math.inf
                sys.stderr.write(f"{self._first.where}: {WAITING}\n")
                sys.stderr.flush()

    async def _empty_outbox(self) -> None:
        if self._outbox is None:
            return
        away = {member.where for member in self._members if member.is_away}
        for place in self._outbox.places() - away:  # also of a server that has left, or has another name by now
            for number, method, arguments in self._outbox.waiting(place):
                kind: Any = tuple[int, list[Offer]] if method == "discover" else tuple[str, list[Weight]]
                collection, items = msgspec.msgpack.decode(arguments, type=kind)
                if any(member.is_away for member in self._members if member.where == place):
                    break
                await self._routed(method, collection, items)  # its sites may have been moved meanwhile
                self._outbox.done(number)
