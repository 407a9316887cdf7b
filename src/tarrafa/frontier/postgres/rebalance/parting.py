"""How do sites leave one server and come into another, while everybody works?

    here    FROZEN   hosts that come home go to nobody any more; those who hold one bring home what they have
    here    CLOSED   all are home: nothing of them changes; links for them are put aside as parcels, weights come
    again
    there   TAKEN    everything is there, in one transaction, and may be visited
    here    GONE     it is no longer counted here
    first            the atlas says where it is; servers tell those who go by an older one
    there            takes the parcels; here it is forgotten

Promises: no host is handed out by two servers, because here it is with nobody from before it is there until it is
forgotten here; nothing that is found meanwhile is lost; each step is one transaction that says how far it has come,
so that whoever goes on after a crash (spreading.py) knows; and a mover that was given up for dead can do no more
harm: its number (`epoch`) is asked for in every step.
"""

from array import array
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

import msgspec
import psycopg
from msgspec.structs import replace

from tarrafa.errors import Locked
from tarrafa.frontier.api import CollectionStatus, DiscoveredUrl, HostReport, PlannedVisit
from tarrafa.frontier.postgres.database_session import CHANGE_LOCK, DatabaseSession, PostgresTransaction
from tarrafa.frontier.postgres.rebalance import freight
from tarrafa.frontier.postgres.sharding import shard_map as atlases
from tarrafa.frontier.postgres.sharding.shard_map import BUCKETS, Passage
from tarrafa.frontier.postgres.working_copy import Cursor, Row, StaleCopy
from tarrafa.frontier.store.leases import WITHHELD
from tarrafa.model import HostId

SHUT = (Passage.CLOSED, Passage.GONE)
LEAVING = (Passage.FROZEN, *SHUT)
HOSTS_AT_ONCE = 500  # in one transaction that others may wait for
SCANNED_AT_ONCE = 10_000
PARCELS_AT_ONCE = 20
SPREAD_LOCK = 0x7A66_0006  # held by the one who moves sites
RAISE_SEQUENCE = (
    "INSERT INTO number VALUES ('sequence', %b::bigint) ON CONFLICT (name) DO UPDATE"
    " SET value = greatest(number.value, excluded.value)"
)
PARCELS: dict[str, Any] = {
    "discover": tuple[int, list[DiscoveredUrl]],
    "seed": tuple[int, list[DiscoveredUrl]],
    "plan": tuple[int, int, list[PlannedVisit]],
}
T = TypeVar("T")


class Parcel(msgspec.Struct, frozen=True):
    """A call that came for sites on their way."""

    id: int
    method: str
    arguments: tuple[Any, ...]


class Load(msgspec.Struct, frozen=True):
    """How much hangs on the buckets of a server: hosts, and URLs roughly (those that wait and those visited)."""

    hosts: list[int]
    urls: list[int]


class Cargo(msgspec.Struct, frozen=True):
    """How much was moved."""

    hosts: int = 0
    urls: int = 0


class Parting(DatabaseSession):
    """What a server does about sites that leave and arrive."""

    epoch = 0  # of the mover whom we work for

    # -- what daily life does meanwhile -----------------------------------------------------------------------

    def _put_aside(
        self, work: PostgresTransaction, method: str, collection: int, offers: list[DiscoveredUrl]
    ) -> list[DiscoveredUrl]:
        """Those that can be taken in here and now; the others wait for the server that their sites go to."""
        if not self._moving:
            return offers
        late = [offer for offer in offers if self.passage(offer.host_key) in SHUT]
        if late:
            self._park(work, method, collection, (collection, late), len(late))
        return [offer for offer in offers if self.passage(offer.host_key) not in SHUT]

    @staticmethod
    def _park(work: PostgresTransaction, method: str, collection: int, arguments: tuple[Any, ...], urls: int) -> None:
        work.cursor.execute(
            "INSERT INTO parcel (method, collection, urls, arguments) VALUES (%b::text, %b::bigint, %b::bigint, %b)",
            [method, collection, urls, msgspec.msgpack.encode(arguments)],
        )

    def _shut_hosts(self, work: PostgresTransaction, hosts: Iterable[HostId]) -> dict[HostId, str]:
        """Those of them that nothing may change here, with their keys."""
        if not self._moving:
            return {}
        rows = work.cursor.execute(
            "SELECT id, key FROM host WHERE id = ANY(%b::bigint[])", [sorted(set(hosts))]
        ).fetchall()
        return {host: key for host, key in rows if self.passage(key) in SHUT}

    def _last_ones(self, work: PostgresTransaction, batch: list[HostReport]) -> list[HostReport]:
        """From hosts that leave, reports are taken, and nothing more is handed out."""
        if not self._moving:
            return batch
        keys = dict(work.copy.rows("SELECT id, key FROM host"))
        leaving = {host for host, key in keys.items() if self.passage(key) in LEAVING}
        return [replace(report, wanted=0) if report.host in leaving else report for report in batch]

    @staticmethod
    def _with_parcels(work: PostgresTransaction, statuses: list[CollectionStatus]) -> list[CollectionStatus]:
        """What was put aside waits too: a collection is not over before that is looked at."""
        question = "SELECT collection, sum(urls)::bigint FROM parcel GROUP BY 1"
        waiting: dict[int, int] = dict(work.cursor.execute(question).fetchall())
        names = {known.row.name: known.row.id for known in work.store.collections.all()}
        return [replace(one, pending=one.pending + waiting.get(names[one.name], 0)) for one in statuses]

    def _passage_notes(self, work: PostgresTransaction) -> list[str]:
        count = work.cursor.execute("SELECT count(*) FROM host WHERE worker = %b::bigint", [WITHHELD]).fetchone()
        if count is None or not count[0]:
            return []
        return [
            f"{self.where}: {count[0]:,} hosts wait while they are moved to another server; if nobody does that, run"
            " `tarrafa frontier spread` again"
        ]

    # -- whoever moves sites ----------------------------------------------------------------------------------

    def may_spread(self) -> bool:
        """Whether we are the one who moves sites; until we are gone."""
        with self._direct_connection() as connection:
            row = connection.execute(f"SELECT pg_try_advisory_lock({SPREAD_LOCK})").fetchone()
        return row is not None and bool(row[0])

    def next_epoch(self) -> int:
        """A number that no mover had before. Of the first server."""

        def work(work: PostgresTransaction) -> int:
            row = work.cursor.execute(
                "INSERT INTO number VALUES ('spread', 1) ON CONFLICT (name) DO UPDATE SET value = number.value + 1"
                " RETURNING value"
            ).fetchone()
            assert row is not None
            return int(row[0])

        return self._transact(work)

    def obey(self, epoch: int, *, is_new: bool = False) -> None:
        """From now on only this mover is listened to; a step of another one that is under way is waited for. Whoever is
        new has its number from another life, if any."""
        least = "0" if is_new else "number.value"

        def work(work: PostgresTransaction) -> None:
            work.cursor.execute(
                "INSERT INTO number VALUES ('spread', %b::bigint) ON CONFLICT (name) DO UPDATE"
                f" SET value = greatest({least}, excluded.value)",
                [epoch],
            )
            self._check_epoch(work.cursor, epoch)

        self._transact(work)
        self.epoch = epoch

    def _check_epoch(self, cursor: Cursor, epoch: int) -> None:
        """Locks the number until the transaction ends."""
        row = cursor.execute("SELECT value FROM number WHERE name = 'spread' FOR UPDATE").fetchone()
        if row is None or row[0] != epoch:
            raise Locked(f"{self.where}: another `tarrafa frontier spread` has taken over")

    def _step(self, work: Callable[[PostgresTransaction], T], *, alone: bool = False) -> T:
        def checked(one: PostgresTransaction) -> T:
            self._check_epoch(one.cursor, self.epoch)
            return work(one)

        return self._transact(checked, alone=alone)

    def passages(self) -> dict[int, tuple[Passage, str]]:
        """Which buckets are on their way, how far, and to or from where."""
        rows = self._step(lambda work: work.cursor.execute("SELECT bucket, state, other FROM moving").fetchall())
        return {bucket: (Passage(state), other) for bucket, state, other in rows}

    def load(self) -> Load:
        """Reads all hosts, and changes nothing."""
        hosts, urls = [0] * BUCKETS, [0] * BUCKETS
        question = (
            "SELECT key, coalesce((SELECT sum(pending + visited) FROM work WHERE work.host = host.id), 0)::bigint"
            " FROM host"
        )
        for key, known in self._scan(question):
            bucket = self._bucket(key)
            hosts[bucket] += 1
            urls[bucket] += known
        return Load(hosts, urls)

    def _bucket(self, key: str) -> int:
        assert self.guide is not None
        return self.guide.bucket_of(key)

    def _scan(self, question: str) -> Iterable[tuple[Any, ...]]:
        """A long answer, a piece at a time."""
        with self._direct_connection() as connection, connection.transaction():
            connection.execute("SET LOCAL enable_seqscan = on")
            with connection.cursor("scan", binary=True) as cursor:
                cursor.itersize = SCANNED_AT_ONCE
                cursor.execute(question.encode())
                yield from cursor

    # -- here -------------------------------------------------------------------------------------------------

    def freeze(self, buckets: Sequence[int], other: str) -> None:
        self._step(lambda work: self._set(work.cursor, buckets, Passage.FROZEN, other), alone=True)

    @staticmethod
    def _set(cursor: Cursor, buckets: Sequence[int], state: Passage, other: str) -> None:
        cursor.execute(
            "INSERT INTO moving SELECT b, %b::bigint, %b::text FROM unnest(%b::bigint[]) AS k(b)"
            " ON CONFLICT (bucket) DO UPDATE SET state = excluded.state, other = excluded.other",
            [int(state), other, list(buckets)],
        )
        _renumber(cursor)

    def keep_back(self, buckets: Sequence[int]) -> int:
        """Their hosts that are with nobody go to nobody; how many hosts there are. The rest follow as they come home,
        and those that are new at once (session.py): one look at all hosts is enough."""
        wanted = set(buckets)
        known = self._scan("SELECT id, key FROM host")
        hosts = array("q", (host for host, key in known if self._bucket(key) in wanted))
        self._in_chunks(hosts.tolist(), freight.withhold)
        return len(hosts)

    def out(self, buckets: Iterable[int]) -> Counter[int]:
        """How many of their hosts are still with a worker, by bucket."""
        wanted = set(buckets)
        return self._step(lambda work: self._out(work.cursor, wanted))

    def _out(self, cursor: Cursor, buckets: set[int]) -> Counter[int]:
        rows = cursor.execute("SELECT key FROM host WHERE worker > %b::bigint", [WITHHELD]).fetchall()
        return Counter(bucket for (key,) in rows if (bucket := self._bucket(key)) in buckets)

    def close_buckets(self, buckets: Sequence[int], other: str) -> bool:
        """Nothing of them changes here any more. False: somebody still holds one of their hosts."""

        def work(work: PostgresTransaction) -> bool:
            if self._out(work.cursor, set(buckets)):
                return False
            self._set(work.cursor, buckets, Passage.CLOSED, other)
            return True

        return self._step(work, alone=True)

    def kept_back(self, buckets: Iterable[int]) -> list[HostId]:
        wanted = set(buckets)
        return self._step(lambda work: self._kept_back(work.cursor, wanted))

    def _kept_back(self, cursor: Cursor, buckets: set[int]) -> list[HostId]:
        rows = cursor.execute("SELECT id, key FROM host WHERE worker = %b::bigint", [WITHHELD])
        return [host for host, key in rows if self._bucket(key) in buckets]

    def uncount(self, buckets: Sequence[int]) -> None:
        """They are counted elsewhere. Once only, however often it is asked."""

        def work(work: PostgresTransaction) -> None:
            changed = work.cursor.execute(
                "UPDATE moving SET state = %b::bigint WHERE bucket = ANY(%b::bigint[]) AND state = %b::bigint",
                [int(Passage.GONE), list(buckets), int(Passage.CLOSED)],
            )
            if changed.rowcount:
                _renumber(work.cursor)
                hosts = self._kept_back(work.cursor, set(buckets))
                freight.count(work.cursor, freight.census(work.cursor, hosts), -1)

        self._step(work)

    def forget_buckets(self, buckets: Sequence[int]) -> None:
        """Nothing of them is here any more."""
        self._in_chunks(self.kept_back(buckets), freight.erase)
        self.drop_passage(buckets)

    def drop_passage(self, buckets: Sequence[int]) -> None:
        """They are where they belong."""
        if not buckets:
            return

        def work(work: PostgresTransaction) -> None:
            work.cursor.execute("DELETE FROM moving WHERE bucket = ANY(%b::bigint[])", [list(buckets)])
            _renumber(work.cursor)

        self._step(work, alone=True)

    def let_go(self) -> None:
        """Hosts that were withheld and are on no way (any more) stay, and are ready."""

        def stranded(work: PostgresTransaction) -> list[HostId]:
            return self._kept_back(work.cursor, set(range(BUCKETS)) - set(self._moving))

        self._in_chunks(self._step(stranded), freight.let_go)

    def _in_chunks(self, hosts: list[HostId], change: Callable[[Cursor, list[HostId]], None]) -> None:
        """Some hundreds at a time: others may wait for them."""
        for start in range(0, len(hosts), HOSTS_AT_ONCE):
            chunk = hosts[start : start + HOSTS_AT_ONCE]
            self._step(lambda work, chunk=chunk: change(work.cursor, chunk))  # type: ignore[misc]

    # -- there ------------------------------------------------------------------------------------------------

    def take(self, source: "Parting", buckets: Sequence[int], finally_: Callable[[], None] = lambda: None) -> Cargo:
        """All that hangs on these buckets, in one transaction: when it is committed, their hosts may be visited here.
        Nobody waits for us meanwhile: what others write too goes before, or last. `finally_` is called just before it
        is committed."""
        hosts = source.kept_back(buckets)
        with source._direct_connection() as giving, self._direct_connection() as taking:
            with giving.transaction(), taking.transaction():
                _unhurried(giving, taking)
                freight.select(giving.cursor(binary=True), hosts)
                freight.carry_shared(giving, taking, self._copy.tables["robots"])
                last = giving.execute("SELECT value FROM number WHERE name = 'sequence'").fetchone()
                taking.execute(RAISE_SEQUENCE, [0 if last is None else last[0]])
            with giving.transaction(), taking.transaction():
                giving.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
                _unhurried(giving, taking)
                source._check_epoch(giving.cursor(binary=True), source.epoch)
                self._check_epoch(cursor := taking.cursor(binary=True), self.epoch)
                freight.select(giving.cursor(binary=True), hosts)
                carried = freight.carry(giving, taking, self._copy.tables)
                freight.make_ready(cursor, hosts)
                freight.count(cursor, freight.census(cursor, hosts), +1)
                self._set(cursor, buckets, Passage.TAKEN, source.meta["id"])
                finally_()
                cursor.execute(f"SELECT pg_advisory_xact_lock_shared({CHANGE_LOCK})")
                if _configurations(giving.cursor()) != _configurations(taking.cursor()):
                    raise StaleCopy("a collection's configuration has changed")
        return Cargo(len(hosts), carried["url"])

    # -- parcels ----------------------------------------------------------------------------------------------

    def parcels(self) -> list[Parcel]:
        """Some of what was put aside, the oldest first."""
        rows = self._step(
            lambda work: work.cursor.execute(
                "SELECT id, method, arguments FROM parcel ORDER BY id LIMIT %b::bigint", [PARCELS_AT_ONCE]
            ).fetchall()
        )
        return [
            Parcel(number, method, msgspec.msgpack.decode(arguments, type=PARCELS[method]))
            for number, method, arguments in rows
        ]

    def drop_parcels(self, numbers: list[int]) -> None:
        self._step(lambda work: work.cursor.execute("DELETE FROM parcel WHERE id = ANY(%b::bigint[])", [numbers]))

    def announce(self, edition: int) -> None:
        """Whoever goes by an older atlas is told from now on, and nobody who was not told is still at it."""
        self._step(lambda work: atlases.set_edition(work.cursor.connection, edition), alone=True)


def _unhurried(*connections: "psycopg.Connection[Row]") -> None:
    """Each waits for the other while much is copied; if we go away, both notice."""
    for connection in connections:
        connection.execute("SET LOCAL idle_in_transaction_session_timeout = 0")
        connection.execute("SET LOCAL statement_timeout = 0")


def _configurations(cursor: Cursor) -> set[Row]:
    """By which the rows were made that hang below hosts, and which runs they count in."""
    return set(cursor.execute("SELECT id, config, run FROM collection").fetchall())


def _renumber(cursor: Cursor) -> None:
    """The list of what moves has changed: everybody reads it again."""
    cursor.execute("INSERT INTO number VALUES ('moving', 1) ON CONFLICT (name) DO UPDATE SET value = number.value + 1")
