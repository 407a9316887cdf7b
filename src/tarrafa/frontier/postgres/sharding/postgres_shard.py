"""PostgreSQL shard: one server of the frontier as the event loop calls it, with back-off while it is unreachable.

Its calls run in a thread of their own. With several servers, one that does not answer is not called for a moment
(`ShardUnreachable`), so that the others are not held up.
"""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import TypeVar

from tarrafa.clock import Clock, boottime
from tarrafa.errors import ConfigError, Unreachable
from tarrafa.frontier.postgres.database_connection import PATIENCE_S, describe_dsn
from tarrafa.frontier.postgres.postgres_server import PostgresServer
from tarrafa.frontier.store.leases import LeaseClock
from tarrafa.model import HostId

RETRY_AFTER_S = 5.0
PATIENCE_OF_ONE_S = 3.0  # of one of several servers
T = TypeVar("T")


class ShardUnreachable(Unreachable):
    """This server does not answer now."""


@dataclass(frozen=True, slots=True)
class ServerSettings:
    """Settings with which the servers of a frontier are opened."""

    suffix_list: str
    clock: Clock | None = None
    lease_clock: LeaseClock | None = None
    servers: int = 1  # how many there are


class PostgresShard:
    """A server by its address, connected at its first use."""

    def __init__(self, dsn: str, settings: ServerSettings) -> None:
        self.where, self._dsn, self._settings = describe_dsn(dsn), dsn, settings
        self._thread = ThreadPoolExecutor(1, "frontier")
        self._away_until = 0.0
        self.trouble = ""  # why the last call failed
        self.server: PostgresServer | None = None
        self.server_id = ""  # empty: not known yet
        self.keeps: Callable[[str], bool] = lambda host_key: True  # whether a host belongs to this server
        self.joined: set[int] = set()  # our workers that are registered here

    @property
    def is_away(self) -> bool:
        return boottime() < self._away_until

    @property
    def is_one_of_several(self) -> bool:
        return self._settings.servers > 1

    def use_suffixes(self, suffix_list: str) -> None:
        self._settings = replace(self._settings, suffix_list=suffix_list)

    def _keeps_host(self, host_key: str) -> bool:
        return self.keeps(host_key)

    def connect(self) -> PostgresServer:
        """Connect. Blocks."""
        if self.server is None:
            server = PostgresServer(
                self._dsn, self._settings.suffix_list, self._settings.clock, self._settings.lease_clock,
                servers=self._settings.servers, patience_s=PATIENCE_OF_ONE_S if self.is_one_of_several else PATIENCE_S,
                keeps=self._keeps_host,
            )  # fmt: skip
            if server.id != (self.server_id or server.id):
                server.close()
                raise ConfigError(f"{self.where}: is another database than the one that belongs to this frontier")
            self.server = server
        return self.server

    async def call(self, work: Callable[[PostgresServer], T]) -> T:
        try:
            return await asyncio.get_running_loop().run_in_executor(self._thread, self.call_blocking, work)
        except RuntimeError as error:  # its thread has ended: the caller is ending too
            kind = ShardUnreachable if self.is_one_of_several else Unreachable
            raise kind(f"{self.where}: was closed ({error})") from None

    def call_blocking(self, work: Callable[[PostgresServer], T]) -> T:
        """Run in the calling thread."""
        if self.is_one_of_several and self.is_away:
            raise ShardUnreachable(f"{self.where}: is away")
        try:
            result = work(self.connect())
        except Unreachable as error:
            if not self.is_one_of_several:
                raise
            self._away_until, self.trouble = boottime() + RETRY_AFTER_S, str(error)
            raise ShardUnreachable(str(error)) from None
        self.trouble = ""
        return result

    def forget_hosts(self, worker: int, hosts: list[HostId]) -> None:
        """Hosts that the worker gave up while this server was away."""
        if self.server is not None:
            self.server.leases.forget_hosts(worker, hosts)

    async def close(self) -> None:
        await asyncio.to_thread(self._thread.shutdown)
        if self.server is not None:
            self.server.close()
