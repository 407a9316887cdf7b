"""Claims of IP addresses by workers on one or several PostgreSQL servers.

One server knows it itself. Of several the first one does (`claim`), for hosts that the others keep, too.
"""

from tarrafa.frontier.postgres.database_session import DatabaseSession, PostgresTransaction, in_transaction
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

    @in_transaction
    def claim_address(self, work: PostgresTransaction, worker: int, host: HostId, address: str) -> float:
        work.copy.lock_hosts([host])
        return work.store.hosts.claim_address(worker, host, address)

    @in_transaction
    def held_delay(self, work: PostgresTransaction, worker: int, host: HostId) -> float:
        """The delay of a host that is with this worker."""
        work.copy.prefetch("host", [(host,)])
        return work.store.hosts.held_delay(worker, host)

    @in_transaction
    def claim_address_elsewhere(
        self, work: PostgresTransaction, worker: int, host: HostId, delay_s: float, address: str
    ) -> float:
        """An address for a host that another server keeps: the first of them knows of all that are taken."""
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

    @in_transaction
    def release_addresses_elsewhere(self, work: PostgresTransaction, worker: int, keep: list[HostId]) -> None:
        """The worker's addresses of hosts that it holds no longer."""
        now = work.store.clock.now()
        work.cursor.execute(f"{RELEASE_SQL} AND NOT host = ANY(%b::bigint[])", [now, worker, keep])
