"""Shared counters: counters, sequence numbers and revisit tokens that all workers of one PostgreSQL server change.

All processes count at once, so each process adds to its own part, and the sum is computed when it is read. The numbers
of the order of discovery, and the tokens that pay for revisits, are rows that are changed by differences.
"""

import math
from dataclasses import astuple
from functools import partial

from msgspec.structs import replace

from tarrafa import config
from tarrafa.clock import Clock
from tarrafa.frontier.postgres.row_cache import Cursor, Row
from tarrafa.frontier.store.collections import Collections, LimitUsage, LoadedCollection
from tarrafa.frontier.store.counters import HOT_COUNTERS, CounterKey, Counters, CounterTable
from tarrafa.frontier.store.database import FrontierDatabase
from tarrafa.revisit.budget import Charge, TokenBucket

PARTS = 32
FREE = Charge(-math.inf, 0.0, -math.inf, 0.0)


class SharedCounterTable(CounterTable):
    """The counters of one server: each process adds to its own part."""

    def __init__(self, db: FrontierDatabase, part: int) -> None:
        super().__init__(db)
        self._part = part % PARTS
        self._pg: Cursor | None = None

    def begin(self, cursor: Cursor) -> None:
        self._pg = cursor

    def read_all(self) -> dict[CounterKey, int]:
        """The counters that decisions depend on."""
        if self._pg is None:
            return {}
        numbers = [number for (number,) in self.db.rows("SELECT id FROM collection")]
        zeros = dict.fromkeys(((number, bucket) for number in numbers for bucket in HOT_COUNTERS), 0)
        return zeros | self._read("bucket = ANY(%b::text[])", list(HOT_COUNTERS))

    def read_one(self, collection: int, bucket: str) -> int:
        found = self._read("collection = %b::bigint AND bucket = %b::text", collection, bucket)
        return found.get((collection, bucket), 0)

    def read_prefix(self, collection: int, prefix: str) -> dict[CounterKey, int]:
        return self._read("collection = %b::bigint AND starts_with(bucket, %b::text)", collection, prefix)

    def _read(self, condition: str, *values: object) -> dict[CounterKey, int]:
        assert self._pg is not None
        sql = f"SELECT collection, bucket, sum(value)::bigint FROM counter WHERE {condition} GROUP BY 1, 2"
        return {(number, bucket): value for number, bucket, value in self._pg.execute(sql, values).fetchall()}

    def add(self, rows: list[tuple[int, str, int]]) -> None:
        """Write the differences, sorted, as the last step of a transaction."""
        assert self._pg is not None
        if rows:
            self._pg.execute(
                "INSERT INTO counter SELECT c, b, %b::bigint, v"
                " FROM unnest(%b::bigint[], %b::text[], %b::bigint[]) AS k(c, b, v)"
                " ON CONFLICT (collection, bucket, part) DO UPDATE SET value = counter.value + excluded.value",
                [self._part, *map(list, zip(*rows, strict=True))],
            )

    def delete(self, collection: int) -> None:
        assert self._pg is not None
        self._pg.execute("DELETE FROM counter WHERE collection = %b::bigint", [collection])


class SharedCounters(Counters):
    """The counters of a server, as one process sees and changes them."""

    def __init__(self, db: FrontierDatabase, part: int) -> None:
        self._shared = SharedCounterTable(db, part)
        super().__init__(self._shared)
        self._ever: set[CounterKey] = set()  # buckets counted at least once

    def begin(self, cursor: Cursor) -> None:
        self._shared.begin(cursor)
        self.on_rollback()
        self.refresh()

    def has(self, collection: int, bucket: str) -> bool:
        if (collection, bucket) not in self._ever and super().has(collection, bucket):
            self._ever.add((collection, bucket))
        return (collection, bucket) in self._ever


class SharedCollections(Collections):
    """The collections of a server. Discovery numbers are reserved before a call begins."""

    def __init__(self, db: FrontierDatabase, counters: Counters, clock: Clock, servers: int) -> None:
        super().__init__(db, counters, clock, partial(_decode_share, servers))
        self._next_in_sequence = 0
        self._with_tokens: set[int] = set()  # collections whose bucket is in the table

    def begin(self, cursor: Cursor) -> None:
        self._pg = cursor
        self.reload()
        rows: list[Row] = []
        if any(known.config.revisit.rate is not None for known in self.all()):
            rows = cursor.execute("SELECT collection, saved_from, peak_from FROM token").fetchall()
        stored = {number: TokenBucket(saved_from, peak_from) for number, saved_from, peak_from in rows}
        self._with_tokens = set(stored)
        for known in self.all():
            known.tokens = stored.get(known.row.id) or TokenBucket()

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
        """Charge for the tokens spent: each moves the times when the buckets were empty, as `TokenBucket.spend` does,
        but from where other processes have moved them to. A bucket is stored from its first question on, because its
        tokens come since then."""
        for known in self.all():
            tokens = known.tokens
            is_new = tokens.saved_from is not None and known.row.id not in self._with_tokens
            if is_new or tokens.charge is not None:
                self._pg.execute(
                    "INSERT INTO token VALUES (%b::bigint, %b::float8, %b::float8) ON CONFLICT (collection) DO UPDATE"
                    " SET saved_from = greatest(token.saved_from, %b::float8) + %b::float8,"
                    " peak_from = greatest(token.peak_from, %b::float8) + %b::float8",
                    [known.row.id, tokens.saved_from, tokens.peak_from, *astuple(tokens.charge or FREE)],
                )


def _decode_share(servers: int, content: bytes) -> config.Collection:
    """A configuration with one server's share of the revisits per day and of the site table."""
    collection = config.decode_collection(content)
    if servers == 1:
        return collection
    revisit, strategy = collection.revisit, collection.strategy
    if revisit.rate is not None:
        revisit = replace(revisit, rate=revisit.rate / servers)
    table_max, cycle = (max(1, whole // servers) for whole in (strategy.table_max, strategy.cycle))
    return replace(collection, revisit=revisit, strategy=replace(strategy, table_max=table_max, cycle=cycle))
