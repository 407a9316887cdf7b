"""How does a frontier get one server more, or one less?

The atlas on the first server is changed in one transaction, and everybody who goes by the old one is told. Promises:
a database that holds anything of its own is never taken in; what was counted on a server that leaves is counted on
the first one from then on; an IP address that somebody holds stays held, wherever that is written down (with one
server `address`, with several `claim`).
"""

from collections.abc import Sequence
from dataclasses import replace

import msgspec

from tarrafa import config
from tarrafa.errors import ConfigError
from tarrafa.frontier.postgres.database_session import PostgresTransaction
from tarrafa.frontier.postgres.rebalance import freight
from tarrafa.frontier.postgres.rebalance.parting import Parting
from tarrafa.frontier.postgres.sharding import shard_map as atlases
from tarrafa.frontier.postgres.sharding.shard_map import ShardMap
from tarrafa.frontier.postgres.working_copy import Cursor
from tarrafa.frontier.store.collections import EVENT_KINDS, EVENTS, SITES_CHOSEN, RevisitTuning

KEPT = ("meta", "number")  # of a database that is taken in empty
TO_CLAIMS = """
INSERT INTO claim SELECT a.address, h.id, h.worker, coalesce(h.delay_s, 0), a.next_at
    FROM address a LEFT JOIN host h ON h.id = a.host AND h.worker > 0
    ON CONFLICT (address) DO UPDATE SET host = excluded.host, worker = excluded.worker, delay_s = excluded.delay_s,
    next_at = greatest(claim.next_at, excluded.next_at)
"""
TO_ADDRESSES = """
INSERT INTO address SELECT c.address, h.id,
    CASE WHEN c.host IS NULL OR h.id IS NOT NULL THEN c.next_at ELSE greatest(c.next_at, %b::float8 + c.delay_s) END
    FROM claim c LEFT JOIN host h ON h.id = c.host AND h.worker = c.worker
    ON CONFLICT (address) DO UPDATE SET host = excluded.host, next_at = greatest(address.next_at, excluded.next_at)
"""


class Places(Parting):
    """What changes the list of servers."""

    # -- the first server -------------------------------------------------------------------------------------

    def _atlas(self, work: PostgresTransaction) -> ShardMap:
        atlas = atlases.read_shard_map(work.cursor.connection)
        assert atlas is not None
        return atlas

    def switch(self, buckets: Sequence[int], server: int) -> int:
        """These buckets are there from now on; the edition that says so."""

        def work(work: PostgresTransaction) -> int:
            atlas = self._atlas(work)
            if all(atlas.servers[bucket] == server for bucket in buckets):
                return atlas.edition  # it said so already
            work.cursor.execute(
                "UPDATE bucket SET server = %b::bigint WHERE number = ANY(%b::bigint[])", [server, list(buckets)]
            )
            atlases.set_edition(work.cursor.connection, atlas.edition + 1)
            return atlas.edition + 1

        return self._step(work)

    def enlarge(self, places: list[str], addresses: list[str]) -> ShardMap:
        """More servers, without any buckets yet. One server alone told sites apart as each collection wished: with
        several, all do as the first collection does."""

        def work(work: PostgresTransaction) -> ShardMap:
            atlas = self._atlas(work)
            if len(atlas.shard_ids) == 1:
                first = min(work.store.collections.rows(), key=lambda row: row.id, default=None)
                if first is not None:
                    suffixes = list(config.decode_collection(first.config).network.suffixes)
                    atlas = msgspec.structs.replace(atlas, suffixes=suffixes)
                work.cursor.execute(TO_CLAIMS)
            atlas = msgspec.structs.replace(
                atlas,
                places=atlas.shard_ids + places,
                addresses=atlas.addresses + addresses,
                edition=atlas.edition + 1,
            )
            atlases.write_shard_map(work.cursor.connection, atlas)
            return atlas

        return self._step(work, alone=True)

    def reduce(self, place: str, events: freight.Counts) -> ShardMap:
        """One server less: it has no buckets any more. `events` is what was counted there."""

        def work(work: PostgresTransaction) -> ShardMap:
            atlas = self._atlas(work)
            gone = atlas.shard_ids.index(place)
            assert gone not in atlas.servers
            freight.count(work.cursor, events, +1)
            atlas = msgspec.structs.replace(
                atlas,
                places=[one for one in atlas.shard_ids if one != place],
                addresses=[one for number, one in enumerate(atlas.addresses) if number != gone],
                servers=[server - (server > gone) for server in atlas.servers],
                edition=atlas.edition + 1,
            )
            if len(atlas.shard_ids) == 1:
                work.cursor.execute(TO_ADDRESSES, [self._clock.now()])
                work.cursor.execute("DELETE FROM claim")
            atlases.write_shard_map(work.cursor.connection, atlas)
            return atlas

        return self._step(work, alone=True)

    def tunings(self) -> dict[int, RevisitTuning]:
        """What the planner has found out."""
        return self._step(lambda work: {known.row.id: known.tuning for known in work.store.collections.all()})

    # -- one that comes, one that leaves ----------------------------------------------------------------------

    def adopt(self, first: str, suffix_list: str) -> None:
        """An empty database becomes one of that frontier's servers; whatever else stood in it did not matter."""

        def work(work: PostgresTransaction) -> None:
            self._check_empty(work.cursor, first)
            rows = work.cursor.execute("SELECT tablename FROM pg_tables WHERE schemaname = current_schema()").fetchall()
            ours = {*work.copy.tables, "token", "claim", "bucket", "moving", "parcel"}
            names = ", ".join(sorted(name for (name,) in rows if name in ours and name not in KEPT))
            work.cursor.execute(f"TRUNCATE {names}")
            work.cursor.execute("DELETE FROM meta WHERE key IN ('places', 'suffixes', 'addresses', 'member')")
            work.cursor.execute("DELETE FROM number WHERE name IN ('edition', 'sequence', 'workers')")
            for key, value in (("member", first), ("suffix_list", suffix_list)):
                work.cursor.execute(
                    "INSERT INTO meta VALUES (%b::text, %b::text) ON CONFLICT (key) DO UPDATE"
                    " SET value = excluded.value",
                    [key, value],
                )

        self._step(work, alone=True)

    def _check_empty(self, cursor: Cursor, first: str) -> None:
        facts: dict[str, str] = dict(cursor.execute("SELECT key, value FROM meta WHERE key IN ('member')").fetchall())
        if facts.get("member", first) != first:
            raise ConfigError(f"{self.where}: belongs to another frontier")
        for table in ("host",) if "member" in facts else ("host", "collection"):
            if cursor.execute(f"SELECT 1 FROM {table} LIMIT 1").fetchone() is not None:
                raise ConfigError(f"{self.where}: holds a frontier of its own; name an empty database")

    def tune(self, tunings: dict[int, RevisitTuning]) -> None:
        """Go on with what the planner has found out elsewhere; how much was spent is counted here from now on."""

        def work(work: PostgresTransaction) -> None:
            now = self._clock.now()
            for number, tuning in tunings.items():
                known = work.collection(number)
                since = now if tuning.priced_at else 0.0
                fresh = replace(tuning, priced_at=since, priced_revisits=0)
                work.store.collections.set_tuning(known, fresh)

        self._step(work)

    def events(self) -> freight.Counts:
        """What was counted here of what happened."""
        rows = self._step(
            lambda work: work.cursor.execute(
                "SELECT collection, bucket, sum(value)::bigint FROM counter GROUP BY 1, 2"
            ).fetchall()
        )
        return {
            (number, bucket): value
            for number, bucket, value in rows
            if bucket in (*EVENTS, SITES_CHOSEN) or bucket.startswith(EVENT_KINDS)
        }
