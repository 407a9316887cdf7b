"""PostgreSQL server: one database of the frontier, with its blocking calls by subject.

Promises: two processes never hold one host; no two calls wait for each other in a ring (sites that are walked through
are locked first, then hosts, both in order, and rows that belong to no host last).
"""

from collections.abc import Callable
from typing import ParamSpec, TypeVar

from tarrafa.clock import Clock
from tarrafa.frontier.postgres.database_connection import PATIENCE_S, DatabaseConnection
from tarrafa.frontier.postgres.database_session import DatabaseSession
from tarrafa.frontier.postgres.operations.address_claims import AddressCalls
from tarrafa.frontier.postgres.operations.collection_calls import CollectionCalls
from tarrafa.frontier.postgres.operations.lease_calls import LeaseCalls
from tarrafa.frontier.postgres.operations.limit_calls import LimitCalls
from tarrafa.frontier.postgres.operations.planner_calls import PlannerCalls
from tarrafa.frontier.postgres.operations.run_calls import RunCalls
from tarrafa.frontier.postgres.operations.server_list import ServerList
from tarrafa.frontier.postgres.operations.takedown_log import PostgresTakedownLog
from tarrafa.frontier.postgres.operations.transfer_calls import TransferCalls
from tarrafa.frontier.postgres.operations.url_calls import UrlCalls
from tarrafa.frontier.store.frontier_store import FrontierStore
from tarrafa.frontier.store.leases import LeaseClock

P = ParamSpec("P")
T = TypeVar("T")


class PostgresServer:
    """The calls on one database; they block. `keeps` says whether a host is kept here, and not on another server."""

    def __init__(
        self,
        dsn: str,
        suffix_list: str,
        clock: Clock | None = None,
        lease_clock: LeaseClock | None = None,
        *,
        servers: int = 1,
        patience_s: float = PATIENCE_S,
        keeps: Callable[[str], bool] = lambda host_key: True,
    ) -> None:
        connection = DatabaseConnection(dsn, patience_s)
        self.session = session = DatabaseSession(connection, suffix_list, clock, lease_clock, servers)
        self.server_list = ServerList(connection)
        self.takedowns = PostgresTakedownLog(session)
        self.runs = RunCalls(session, keeps)
        self.collections = CollectionCalls(session, self.runs, self.takedowns)
        self.urls = UrlCalls(session)
        self.leases = LeaseCalls(session)
        self.addresses = AddressCalls(session)
        self.limits = LimitCalls(session)
        self.planner = PlannerCalls(session)
        self.transfer = TransferCalls(session)

    def store_call(self, find: Callable[[FrontierStore], Callable[P, T]]) -> Callable[P, T]:
        """A method of the store that needs no rows to be fetched before it, as one transaction."""

        def call(*positional: P.args, **named: P.kwargs) -> T:
            return self.session.transact(lambda work: find(work.store)(*positional, **named))

        return call

    @property
    def id(self) -> str:
        """Of the database, given when its tables were made."""
        return self.session.meta["id"]

    def close(self) -> None:
        self.session.connection.close()
