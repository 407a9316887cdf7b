"""Claims of IP addresses by workers on one or several PostgreSQL servers.

One server knows it itself. Of several the first one does (`claim`), for hosts that the others keep, too.
"""

from collections.abc import Iterable

from tarrafa.frontier.postgres.database_session import DatabaseSession, PostgresTransaction
from tarrafa.model import HostId

# Free again when the host's delay has passed; what the time is, and whose, comes first.
RELEASE_SQL = (
    "UPDATE claim SET host = NULL, worker = NULL, next_at = greatest(next_at, %b::float8 + delay_s)"
    " WHERE worker = %b::bigint"
)


class AddressCalls:
    """The addresses that workers have claimed."""

    def __init__(self, session: DatabaseSession) -> None:
        self._session = session

    def claim_address(self, worker: int, host: HostId, address: str) -> float:
        def work(work: PostgresTransaction) -> float:
            work.copy.lock_hosts([host])
            return work.store.hosts.claim_address(worker, host, address)

        return self._session.transact(work)

    def held_delay(self, worker: int, host: HostId) -> float:
        """The delay of a host that is with this worker."""

        def work(work: PostgresTransaction) -> float:
            work.copy.prefetch("host", [(host,)])
            return work.store.hosts.held_delay(worker, host)

        return self._session.transact(work)

    def claim_address_elsewhere(self, worker: int, host: HostId, delay_s: float, address: str) -> float:
        """An address for a host that another server keeps: the first of them knows of all that are taken."""

        def work(work: PostgresTransaction) -> float:
            now = work.store.clock.now()
            row = work.cursor.execute(
                "SELECT host, delay_s, next_at FROM claim WHERE address = %b::text FOR UPDATE", [address]
            ).fetchone() or (None, 0.0, 0.0)
            if row[0] not in {None, host}:
                return float(now + work.store.hosts.claim_wait_s(row[1]))
            if row[0] is None and row[2] > now:
                return float(row[2])
            work.cursor.execute(
                "INSERT INTO claim VALUES (%b::text, %b::bigint, %b::bigint, %b::float8, %b::float8)"
                " ON CONFLICT (address) DO UPDATE SET host = excluded.host, worker = excluded.worker,"
                " delay_s = excluded.delay_s",
                [address, host, worker, float(delay_s), float(row[2])],
            )
            return 0.0

        return self._session.transact(work)

    def release_addresses_elsewhere(self, worker: int, keep: Iterable[HostId]) -> None:
        """The worker's addresses of hosts that it holds no longer."""
        kept = list(keep)

        def work(work: PostgresTransaction) -> None:
            work.cursor.execute(
                f"{RELEASE_SQL} AND NOT host = ANY(%b::bigint[])", [work.store.clock.now(), worker, kept]
            )

        self._session.transact(work)
