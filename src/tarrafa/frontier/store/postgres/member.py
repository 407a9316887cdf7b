"""One server of a frontier, as the event loop sees it.

Its calls run in a thread of their own. Where there are several servers, one that does not answer is left alone for a
moment (`Away`), so that the others are not kept waiting.
"""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from tarrafa.clock import Clock, boottime
from tarrafa.errors import Unreachable
from tarrafa.frontier.store.hosts import LeaseClock
from tarrafa.frontier.store.postgres.server import Server
from tarrafa.frontier.store.postgres.session import describe

AWAY_S = 5.0
PATIENCE_S = 3.0  # with one of several
T = TypeVar("T")


class Away(Unreachable):
    """This server does not answer now."""


class Member:
    """A server by its address; connected when it is needed."""

    def __init__(
        self, dsn: str, suffix_list: str, clock: Clock | None, lease_clock: LeaseClock | None, *, of: int
    ) -> None:
        self.where, self._dsn = describe(dsn), dsn
        self._suffix_list, self._clock, self._lease_clock = suffix_list, clock, lease_clock
        self._several, self._of = of > 1, of
        self._thread = ThreadPoolExecutor(1, "frontier")
        self._away_until = 0.0
        self.server: Server | None = None
        self.edition = 0
        self.joined: set[int] = set()  # the workers of ours that take part here

    @property
    def is_away(self) -> bool:
        return boottime() < self._away_until

    def use_suffixes(self, suffix_list: str) -> None:
        self._suffix_list = suffix_list

    def connected(self) -> Server:
        """Blocks."""
        if self.server is None:
            self.server = Server(self._dsn, self._suffix_list, self._clock, self._lease_clock)
            if self._several:
                self.server.patience_s = PATIENCE_S
                self.server.share_rates(self._of)
        self.server.edition = self.edition
        return self.server

    async def call(self, work: Callable[[Server], T]) -> T:
        try:
            return await asyncio.get_running_loop().run_in_executor(self._thread, self.do, work)
        except RuntimeError as error:  # its thread has ended: whoever still asks is ending too
            raise Unreachable(f"{self.where}: was closed ({error})") from None

    def do(self, work: Callable[[Server], T]) -> T:
        """In the calling thread."""
        if self._several and self.is_away:
            raise Away(f"{self.where}: is away")
        try:
            return work(self.connected())
        except Unreachable as error:
            if not self._several:
                raise
            self._away_until = boottime() + AWAY_S
            raise Away(str(error)) from None

    async def close(self) -> None:
        await asyncio.to_thread(self._thread.shutdown)
        if self.server is not None:
            self.server.close()
