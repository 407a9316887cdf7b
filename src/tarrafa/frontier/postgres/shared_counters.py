"""Shared counters: counters, sequence numbers and revisit tokens that all workers of one PostgreSQL server change.

All processes count at once, so each process adds to its own part, and the sum is computed when it is read. The numbers
of the order of discovery, and the tokens that pay for revisits, are rows that are changed by differences.
"""

from collections.abc import Iterable

import psycopg
from msgspec.structs import replace

from tarrafa import config
from tarrafa.clock import Clock
from tarrafa.frontier.store.collections import Collections, LimitUsage, LoadedCollection, TokenBucket
from tarrafa.frontier.store.counters import Bucket, Counters
from tarrafa.frontier.store.database import FrontierDatabase
from tarrafa.model import UrlState

PARTS = 32
HOT_COUNTERS = (
    *map(Bucket.state, UrlState), Bucket.REQUESTS, Bucket.REQUESTS_BEFORE, Bucket.REVISITS, Bucket.RATES,
    Bucket.REVISITS_PAID, Bucket.REVISITS_OUT, Bucket.CHOSEN_WAITING, Bucket.DISMISSED_WAITING, Bucket.WAS_FULL,
    Bucket.TABLE_SITES, Bucket.OLD_PAGES, Bucket.SHOWN_PAGES, Bucket.LEFT_OVER,
)  # fmt: skip


class SharedCounters(Counters):
    """The counters of a server, as one process sees and changes them."""

    def __init__(self, db: FrontierDatabase, part: int) -> None:
        super().__init__(db)
        self._part = part % PARTS
        self._pg: psycopg.Cursor[tuple[object, ...]] | None = None
        self._ever: set[tuple[int, str]] = set()  # buckets counted at least once

    def begin(self, cursor: "psycopg.Cursor[tuple[object, ...]]") -> None:
        self._pg = cursor
        self.on_rollback()
        self.refresh()

    def refresh(self) -> None:
        """Read the counters that decisions depend on."""
        self._values.clear()
        self._values.update(
            dict.fromkeys(((number, bucket) for number in self._numbers() for bucket in HOT_COUNTERS), 0)
        )
        self._read("bucket = ANY(%b::text[])", list(HOT_COUNTERS))

    def _numbers(self) -> Iterable[int]:
        return [number for (number,) in self._db.rows("SELECT id FROM collection")]

    def _read(self, condition: str, *values: object) -> None:
        assert self._pg is not None
        rows = self._pg.execute(
            f"SELECT collection, bucket, sum(value)::bigint FROM counter WHERE {condition} GROUP BY 1, 2",
            values,
        ).fetchall()
        self._values.update({(int(str(number)), str(bucket)): int(str(value)) for number, bucket, value in rows})

    def value(self, collection: int, bucket: str) -> int:
        if (collection, bucket) not in self._values:
            self._values[collection, bucket] = 0
            self._read("collection = %b::bigint AND bucket = %b::text", collection, bucket)
        return super().value(collection, bucket)

    def has(self, collection: int, bucket: str) -> bool:
        if (collection, bucket) not in self._ever and super().has(collection, bucket):
            self._ever.add((collection, bucket))
        return (collection, bucket) in self._ever

    def with_prefix(self, collection: int, prefix: str) -> dict[str, int]:
        self._read("collection = %b::bigint AND starts_with(bucket, %b::text)", collection, prefix)
        return super().with_prefix(collection, prefix)

    def flush(self) -> None:
        """Write the counts, sorted, as the last step of a transaction."""
        assert self._pg is not None
        rows = [(*key, delta) for key, delta in sorted(self._deltas.items()) if delta]
        if rows:
            self._pg.execute(
                "INSERT INTO counter SELECT c, b, %b::bigint, v"
                " FROM unnest(%b::bigint[], %b::text[], %b::bigint[]) AS k(c, b, v)"
                " ON CONFLICT (collection, bucket, part) DO UPDATE SET value = counter.value + excluded.value",
                [self._part, *map(list, zip(*rows, strict=True))],
            )

    def on_commit(self) -> None:
        self._deltas.clear()

    def drop(self, collection: int) -> None:
        assert self._pg is not None
        super().drop(collection)
        self._pg.execute("DELETE FROM counter WHERE collection = %b::bigint", [collection])


class SharedCollections(Collections):
    """The collections of a server. Discovery numbers are reserved before a call begins."""

    def __init__(self, db: FrontierDatabase, counters: Counters, clock: Clock, servers: int) -> None:
        self._next_in_sequence = 0
        self._servers = servers  # that share a collection's revisits per day, and its site table
        super().__init__(db, counters, clock)

    def begin(self, cursor: "psycopg.Cursor[tuple[object, ...]]") -> None:
        self._pg = cursor
        self.reload()
        tokens: dict[int, TokenBucket] = {}
        if any(known.config.revisit.rate is not None for known in self.all()):
            for number, at, count in cursor.execute("SELECT collection, at, count FROM token").fetchall():
                tokens[int(str(number))] = TokenBucket(float(str(at)), float(str(count)))
        for known in self.all():
            known.tokens = tokens.get(known.row.id, TokenBucket())

    def _decode(self, content: bytes) -> config.Collection:
        """A configuration with this server's share of the revisits and of the site table."""
        collection = config.decode_collection(content)
        if self._servers == 1:
            return collection
        revisit, strategy = collection.revisit, collection.strategy
        if revisit.rate is not None:
            revisit = replace(revisit, rate=revisit.rate / self._servers)
        table_max, cycle = (max(1, whole // self._servers) for whole in (strategy.table_max, strategy.cycle))
        return replace(collection, revisit=revisit, strategy=replace(strategy, table_max=table_max, cycle=cycle))

    def reserve_sequence(self, known: LoadedCollection, count: int) -> int:
        self._next_in_sequence += count
        return self._next_in_sequence - count

    def start_sequence(self, first: int) -> None:
        """Use the reserved numbers from `first` on for the next call."""
        self._next_in_sequence = first

    def count_elsewhere(self, usage: dict[int, LimitUsage]) -> None:
        """Take the usage of other servers, which counts towards the limits too."""
        self.elsewhere = usage

    def flush(self) -> None:
        """Subtract the tokens spent, in parallel with other processes, from the present number."""
        for known in self.all():
            tokens = known.tokens
            if tokens.spent and tokens.at is not None:
                self._pg.execute(
                    "INSERT INTO token VALUES (%b::bigint, %b::float8, %b::float8) ON CONFLICT (collection) DO UPDATE"
                    " SET at = greatest(token.at, excluded.at), count = least(%b::float8, token.count"
                    " + greatest(0, excluded.at - token.at) * %b::float8) - %b::bigint",
                    [known.row.id, tokens.at, tokens.count, tokens.most, tokens.per_s, tokens.spent],
                )
