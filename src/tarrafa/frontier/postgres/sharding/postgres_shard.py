"""PostgreSQL shard: one server of the frontier as the event loop calls it, with back-off while it is unreachable.

Its calls run in a thread of their own. With several servers, one that does not answer is not called for a moment
(`ShardUnreachable`), so that the others are not held up.
"""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Concatenate, NamedTuple, ParamSpec, TypeVar

from tarrafa.clock import Clock, boottime
from tarrafa.errors import ConfigError, Unreachable
from tarrafa.frontier.postgres.database_connection import PATIENCE_S, DatabaseConnection, describe_dsn
from tarrafa.frontier.postgres.database_session import DatabaseSession
from tarrafa.frontier.postgres.operations.lease_calls import LeaseCalls
from tarrafa.frontier.store.leases import LeaseClock
from tarrafa.i18n import Message, message
from tarrafa.model import HostId

RETRY_AFTER_S = 5.0
PATIENCE_OF_ONE_S = 3.0  # of one of several servers
P = ParamSpec("P")
T = TypeVar("T")


class ShardUnreachable(Unreachable):
    """This server does not answer now."""


class ServerSettings(NamedTuple):
    """Settings with which the servers of a frontier are opened."""

    suffix_list: str
    clock: Clock | None = None
    lease_clock: LeaseClock | None = None
    servers: int = 1  # how many there are


class PostgresServer(DatabaseSession):
    """The session of this process with one server, and the leases of its workers there."""

    def __init__(
        self,
        dsn: str,
        suffix_list: str,
        clock: Clock | None = None,
        lease_clock: LeaseClock | None = None,
        servers: int = 1,
    ) -> None:
        connection = DatabaseConnection(dsn, PATIENCE_OF_ONE_S if servers > 1 else PATIENCE_S)
        super().__init__(connection, suffix_list, clock, lease_clock, servers)
        self.leases = LeaseCalls(self)


class PostgresShard:
    """A server by its address, connected at its first use."""

    def __init__(self, dsn: str, settings: ServerSettings) -> None:
        self.where, self._dsn, self._settings = describe_dsn(dsn), dsn, settings
        self._thread = ThreadPoolExecutor(1, "frontier")
        self._away_until = 0.0
        self.trouble: Message | str = ""  # why the last call failed
        self._server: PostgresServer | None = None
        self._expected_id = ""  # empty: not known yet

    @property
    def is_away(self) -> bool:
        return boottime() < self._away_until

    @property
    def is_one_of_several(self) -> bool:
        return self._settings.servers > 1

    def use_suffixes(self, suffix_list: str) -> None:
        self._settings = self._settings._replace(suffix_list=suffix_list)

    def expect_id(self, server_id: str) -> None:
        """Refuse any other database at this address from now on."""
        self._expected_id = server_id

    def connect(self) -> PostgresServer:
        """Connect. Blocks."""
        if self._server is None:
            server = PostgresServer(self._dsn, *self._settings)
            if server.id != (self._expected_id or server.id):
                server.close()
                raise ConfigError(f"{self.where}: is another database than the one that belongs to this frontier")
            self._server = server
        return self._server

    async def call(
        self, work: Callable[Concatenate[PostgresServer, P], T], *positional: P.args, **named: P.kwargs
    ) -> T:
        """Run a call of `operations/` in the server's thread."""
        try:
            return await asyncio.get_running_loop().run_in_executor(
                self._thread, lambda: self.call_blocking(work, *positional, **named)
            )
        except RuntimeError as error:  # its thread has ended: the caller is ending too
            kind = ShardUnreachable if self.is_one_of_several else Unreachable
            raise kind(f"{self.where}: was closed ({error})") from None

    def call_blocking(
        self, work: Callable[Concatenate[PostgresServer, P], T], *positional: P.args, **named: P.kwargs
    ) -> T:
        """Run in the calling thread."""
        if self.is_one_of_several and self.is_away:
            raise ShardUnreachable(message("{server}: is away", server=self.where))
        try:
            result = work(self.connect(), *positional, **named)
        except Unreachable as error:
            if not self.is_one_of_several:
                raise
            self._away_until, self.trouble = boottime() + RETRY_AFTER_S, error.message
            raise ShardUnreachable(error.message) from None
        self.trouble = ""
        return result

    def forget_hosts(self, worker: int, hosts: list[HostId]) -> None:
        """Hosts that the worker gave up while this server was away."""
        if self._server is not None:
            self._server.leases.forget_hosts(worker, hosts)

    async def close(self) -> None:
        await asyncio.to_thread(self._thread.shutdown)
        if self._server is not None:
            self._server.close()
