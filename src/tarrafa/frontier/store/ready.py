"""Which hosts could be leased, and from when on?

A host that is with nobody stands here once per collection and kind of work: NEW for URLs that were never visited, from
its next polite moment on; OLD for pages to see again, from when the first of them is worth it. Promise: rows are added
and removed by their whole key, which follows from `host` and `work` alone; nothing is ever looked for.
"""

from tarrafa.frontier.store.schema import NEW, OLD, Database
from tarrafa.model import HostId


class Ready:
    """The `ready` rows of one frontier."""

    def __init__(self, db: Database) -> None:
        self._db = db

    def _rows(self, host: HostId) -> list[tuple[int, int, float, int]]:
        found: list[tuple[int, int, float, int]] = []
        for number, pending, due, next_at in self._db.rows(
            "SELECT collection, pending, due, next_at FROM work JOIN host ON host.id = work.host WHERE host = ?",
            (host,),
        ):
            if pending > 0:
                found.append((number, NEW, next_at, host))
            if due is not None:
                found.append((number, OLD, max(next_at, due), host))
        return found

    def remove(self, host: HostId) -> None:
        """Before it goes to somebody, or before its next moment changes."""
        self._db.many(
            "DELETE FROM ready WHERE collection = ? AND kind = ? AND next_at = ? AND host = ?", self._rows(host)
        )

    def add(self, host: HostId) -> None:
        """Now that it is with nobody."""
        self._db.many("INSERT OR IGNORE INTO ready VALUES (?, ?, ?, ?)", self._rows(host))

    def add_new(self, number: int, host: HostId) -> None:
        """It has new URLs; if it is with somebody, that one will hear of them."""
        self._db.run(
            "INSERT OR IGNORE INTO ready SELECT ?, ?, next_at, id FROM host WHERE id = ? AND worker IS NULL",
            (number, NEW, host),
        )

    def set_due(self, number: int, host: HostId, due: float | None) -> None:
        """From when on one of its pages is worth another visit; None: nothing is."""
        before, next_at, worker = self._db.must(
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
        """Those that may be visited now, the longest ready first."""
        self._db.need_first("ready", [(number, kind)], max(0, limit))
        rows = self._db.rows(
            "SELECT host FROM ready WHERE collection = ? AND kind = ? AND next_at <= ? ORDER BY next_at, host LIMIT ?",
            (number, kind, now, max(0, limit)),
        )
        return [host for (host,) in rows]
