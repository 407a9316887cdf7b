"""PostgreSQL shard: one server of the frontier as the event loop calls it, with back-off while it is unreachable.

Its calls run in a thread of their own. Where there are several servers, one that does not answer is left alone for a
moment (`Away`), so that the others are not kept waiting. So is one that only the atlas told us of and that will not
have us: its password may be put right while we work.
"""

import asyncio
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from tarrafa.clock import Clock, boottime
from tarrafa.errors import ConfigError, DataError, Unreachable
from tarrafa.frontier.postgres.database_session import PATIENCE_S as PATIENCE_ALONE_S
from tarrafa.frontier.postgres.database_session import describe_dsn
from tarrafa.frontier.postgres.postgres_server import PostgresServer
from tarrafa.frontier.postgres.sharding.shard_map import ShardLocator
from tarrafa.frontier.store.leases import LeaseClock

RETRY_AFTER_S = 5.0
PATIENCE_S = 3.0  # with one of several
T = TypeVar("T")


class ShardUnreachable(Unreachable):
    """This server does not answer now."""


class PostgresShard:
    """A server by its address; connected when it is needed. `learned`: its address is from the atlas."""

    def __init__(
        self,
        dsn: str,
        suffix_list: str,
        clock: Clock | None = None,
        lease_clock: LeaseClock | None = None,
        *,
        place: str = "",
        learned: bool = False,
    ) -> None:
        self.where, self.dsn, self.place, self.learned = describe_dsn(dsn), dsn, place, learned
        self._suffix_list, self._clock, self._lease_clock = suffix_list, clock, lease_clock
        self._servers = 1
        self._thread = ThreadPoolExecutor(1, "frontier")
        self._away_until = 0.0
        self.trouble = ""  # why it did not answer last
        self.server: PostgresServer | None = None
        self.guide: ShardLocator | None = None
        self.joined: set[int] = set()  # the workers of ours that take part here

    @property
    def is_away(self) -> bool:
        return boottime() < self._away_until

    def use_suffixes(self, suffix_list: str) -> None:
        self._suffix_list = suffix_list

    def configure(self, servers: int, guide: ShardLocator | None) -> None:
        """So many servers share the work, as this atlas says."""
        self._servers, self.guide = servers, guide

    def connect(self) -> PostgresServer:
        """Blocks."""
        if self.server is None:
            server = PostgresServer(self.dsn, self._suffix_list, self._clock, self._lease_clock)
            if self.learned and server.meta["id"] != self.place:
                server.close()
                raise ConfigError(f"{self.where}: is another database than the one that belongs to this frontier")
            self.server = server
        self.server.patience_s = PATIENCE_S if self._servers > 1 else PATIENCE_ALONE_S
        if self._servers == 1:
            self.server.share_limits({})
        self.server.share_rates(self._servers)
        self.server.guide = self.guide
        return self.server

    async def call(self, work: Callable[[PostgresServer], T], edition: int = 0) -> T:
        """`edition`: of the atlas by which it was chosen, if it was."""
        try:
            return await asyncio.get_running_loop().run_in_executor(self._thread, self.call_blocking, work, edition)
        except RuntimeError as error:  # its thread has ended: whoever still asks is ending too, or the server has left
            kind = ShardUnreachable if self._servers > 1 else Unreachable
            raise kind(f"{self.where}: was closed ({error})") from None

    def call_blocking(self, work: Callable[[PostgresServer], T], edition: int = 0) -> T:
        """In the calling thread."""
        if self._servers > 1 and self.is_away:
            raise ShardUnreachable(f"{self.where}: is away")
        try:
            server = self._connect_or_explain()
            server.edition = edition
            result = work(server)
        except Unreachable as error:
            if self._servers == 1:
                raise
            self._away_until, self.trouble = boottime() + RETRY_AFTER_S, str(error)
            raise ShardUnreachable(str(error)) from None
        self.trouble = ""
        return result

    def _connect_or_explain(self) -> PostgresServer:
        try:
            return self.connect()
        except (ConfigError, DataError) as error:
            if not self.learned:
                raise
            said = (
                f"{error}; this server was added to the frontier and cannot be used from here: what is for it waits"
                " until its password is in PGPASSWORD or ~/.pgpass, or it is named with --frontier"
            )
            if self.trouble != said:
                sys.stderr.write(f"{said}\n")
                sys.stderr.flush()
            raise Unreachable(said) from None

    async def close(self) -> None:
        await asyncio.to_thread(self._thread.shutdown)
        if self.server is not None:
            self.server.close()
