"""Ready queue: orders the hosts that can be leased by the time of their next polite visit.

A host that no worker holds has one row per collection and kind of work: NEW for URLs that were never visited, from the
end of its delay on, or FAVOURED where the collection favours the host; OLD for revisits, from the time when the first
of them is worth it.
Promises: rows are added and removed by their whole key, which follows from `host` and `work` alone; no row is ever
searched for.

While both favoured and other hosts could be visited, the favoured ones get four places of five: they are first, and no
host starves.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from tarrafa.frontier.store.database import FAVOURED, NEW, OLD, OPEN, FrontierDatabase
from tarrafa.model import HostId

FAVOURED_OF_FIVE = 4
NEW_ROWS = (
    f"INTO ready SELECT collection, CASE favoured WHEN 0 THEN {NEW} ELSE {FAVOURED} END, next_at, host"  # noqa: S608
    f" FROM work JOIN host ON host.id = work.host WHERE worker IS NULL AND gate = {OPEN} AND pending > 0"
)


class ReadyQueue:
    """The `ready` rows of one frontier."""

    def __init__(self, db: FrontierDatabase) -> None:
        self._db = db
        self._turn = 0

    def _rows(self, host: HostId) -> list[tuple[int, int, float, int]]:
        found: list[tuple[int, int, float, int]] = []
        for number, pending, due, gate, favoured, next_at in self._db.rows(
            "SELECT collection, pending, due, gate, favoured, next_at FROM work JOIN host ON host.id = work.host"
            " WHERE host = ?",
            (host,),
        ):
            if pending > 0 and gate == OPEN:
                found.append((number, FAVOURED if favoured else NEW, next_at, host))
            if due is not None:
                found.append((number, OLD, max(next_at, due), host))
        return found

    def remove(self, host: HostId) -> None:
        """Called before a host is leased, and before its next time or its work changes."""
        self._db.many(
            "DELETE FROM ready WHERE collection = ? AND kind = ? AND next_at = ? AND host = ?", self._rows(host)
        )

    def add(self, host: HostId) -> None:
        """Called when no worker holds the host any more."""
        self._db.many("INSERT OR IGNORE INTO ready VALUES (?, ?, ?, ?)", self._rows(host))

    @contextmanager
    def suspended(self, host: HostId) -> Iterator[None]:
        """Take a host that no worker holds out of the queue while its next time or its work changes."""
        is_free = self._db.value("SELECT worker FROM host WHERE id = ?", (host,)) is None
        if is_free:
            self.remove(host)
        yield
        if is_free:
            self.add(host)

    def add_new(self, number: int, hosts: Sequence[HostId]) -> None:
        """Add hosts that have new URLs, unless a worker holds them."""
        sql = f"INSERT OR IGNORE {NEW_ROWS} AND host = ? AND collection = ?"
        self._db.many(sql, [(host, number) for host in hosts])

    def rebuild_new(self, number: int) -> None:
        """Called when gates or favours have changed all over a collection. Scans its hosts."""
        self._db.run("DELETE FROM ready WHERE collection = ? AND kind IN (?, ?)", (number, NEW, FAVOURED))
        self._db.run(f"INSERT {NEW_ROWS} AND collection = ?", (number,))

    def rebuild(self) -> None:
        """Called when the times of all hosts have changed. Scans them."""
        self._db.run("DELETE FROM ready")
        self._db.run(f"INSERT {NEW_ROWS}")
        self._db.run(
            "INSERT INTO ready SELECT collection, ?, max(next_at, due), host FROM work JOIN host ON host.id = work.host"
            " WHERE worker IS NULL AND due IS NOT NULL",
            (OLD,),
        )

    def set_due(self, number: int, host: HostId, due: float | None) -> None:
        """Set the time from which one of the host's pages is worth a revisit; None: none is."""
        before, next_at, worker = self._db.required_row(
            "SELECT due, next_at, worker FROM work JOIN host ON host.id = work.host WHERE host = ? AND collection = ?",
            (host, number),
        )
        if before == due:
            return
        self._db.run("UPDATE work SET due = ? WHERE host = ? AND collection = ?", (due, host, number))
        if worker is not None:
            return
        if before is not None:
            self._db.run(
                "DELETE FROM ready WHERE collection = ? AND kind = ? AND next_at = ? AND host = ?",
                (number, OLD, max(next_at, before), host),
            )
        if due is not None:
            self._db.run("INSERT OR IGNORE INTO ready VALUES (?, ?, ?, ?)", (number, OLD, max(next_at, due), host))

    def first(self, number: int, kind: int, now: float, limit: int) -> list[HostId]:
        """Hosts that may be visited now, the longest ready first; with NEW, favoured hosts among the first."""
        if kind == NEW and (favoured := self._first(number, FAVOURED, now, limit)):
            return self._mixed(favoured, self._first(number, NEW, now, limit))[: max(0, limit)]
        return self._first(number, kind, now, limit)

    def count_new(self, number: int, now: float, limit: int) -> int:
        """Count the hosts that have new URLs and may be visited now, up to `limit` of each kind."""
        return sum(len(self._first(number, kind, now, limit)) for kind in (FAVOURED, NEW))

    def _mixed(self, favoured: list[HostId], others: list[HostId]) -> list[HostId]:
        """Four favoured hosts, then another one, and so on; also over several calls for one host each."""
        self._turn = (self._turn + 1) % 5
        found: list[HostId] = []
        one, other = iter(favoured), iter(others)
        for place in range(self._turn, self._turn + 5 * (len(favoured) + len(others))):
            host = next(one if place % 5 < FAVOURED_OF_FIVE else other, None)
            found += [] if host is None else [host]
        return found

    def _first(self, number: int, kind: int, now: float, limit: int) -> list[HostId]:
        self._db.prefetch_first("ready", [(number, kind)], max(0, limit))
        rows = self._db.rows(
            "SELECT host FROM ready WHERE collection = ? AND kind = ? AND next_at <= ? ORDER BY next_at, host LIMIT ?",
            (number, kind, now, max(0, limit)),
        )
        return [host for (host,) in rows]
