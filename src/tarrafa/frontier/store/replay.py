"""Replay: rebuilds a lost frontier from recorded configurations, links and visits.

From what others wrote down of it: configurations, what visits led to, how they ended. Everything goes through the
same code as in daily life, in the order in which it happened, under a clock that shows when that was. Promises: a
visit that is known already changes nothing; no number of a visit that may have been given to somebody is given again.

While it lasts, every host that was visited is held by nobody real, so that nobody waits in line; `end` frees them
all. Nothing of this is durable before `end` has returned: who is interrupted begins anew.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

from tarrafa.clock import Clock
from tarrafa.frontier.messages import FIRST_HOST, CachedRobots, DiscoveredUrl, UrlWeight, VisitReport
from tarrafa.frontier.store.collections import LoadedCollection
from tarrafa.frontier.store.database import open_database
from tarrafa.frontier.store.frontier_store import FrontierStore
from tarrafa.frontier.store.leases import LeaseClock
from tarrafa.frontier.store.runs import has_runs, roots_of
from tarrafa.i18n import Message
from tarrafa.model import HostId, Outcome, Status, UrlId

HOLDER = 0  # no worker has this number
NUMBERS_SKIPPED = 10  # per life: what was handed out and never archived had numbers too
HOSTS_PER_TURN = 500


class LastKnownVisit(NamedTuple):
    """What is known of a URL before one more of its visits is lived again."""

    last: int  # the newest visit that is known
    parent: bytes  # see `Visit`
    payload: str  # the digest of its body as it was last archived


class FrontierReplay:
    """One frontier that is being made again."""

    def __init__(self, path: str, clock: Clock, suffix_list: str) -> None:
        db = open_database(path, suffix_list)
        db.connection.pragma("synchronous", "off")
        self.store = FrontierStore(db, clock, LeaseClock())
        self.lives = 1  # that it had before; each may have given numbers that nobody wrote down

    def close(self) -> None:
        """With everything in the one file."""
        self.store.db.connection.pragma("wal_checkpoint(truncate)")
        self.store.db.connection.close()

    @contextmanager
    def transaction(self) -> Iterator[None]:
        store = self.store
        store.db.connection.execute("BEGIN IMMEDIATE")
        yield
        store.counters.flush()
        store.collections.flush()
        store.db.connection.execute("COMMIT")
        store.counters.on_commit()

    def open_collection(self, content: bytes, revision: int, roots: list[DiscoveredUrl]) -> LoadedCollection:
        """A collection as it was configured from now on."""
        row = self.store.open_collection(content, roots)
        if revision > row.revision:
            self.store.db.run("UPDATE collection SET revision = ? WHERE id = ?", (revision, row.id))
            self.store.collections.flush()
            self.store.collections.reload()
        return self.store.collections.by_id(row.id)

    def begin_run(self, known: LoadedCollection, run: int) -> None:
        """The visits that follow are those of another run."""
        if run > known.run and has_runs(known.config):
            self.store.runs.begin(known, "", run, roots_of(known))

    def revision(self, name: str) -> int:
        """Of the configuration that holds now; 0: there is no such collection."""
        known = self.store.collections.find(name)
        return 0 if known is None else known.row.revision

    def discover(self, known: LoadedCollection, offers: list[DiscoveredUrl]) -> None:
        self.store.urls.discover(known.row.id, offers)

    def last_known_visit(self, known: LoadedCollection, host: HostId, url: UrlId) -> "LastKnownVisit | None":
        """What is known of a URL so far; None: nothing."""
        row = self.store.db.row(
            "SELECT coalesce((SELECT max(number) FROM visit WHERE visit.host = url.host"
            " AND visit.collection = url.collection AND visit.id = url.id), 0), coalesce(parent, x''), payload FROM url"
            " WHERE host = ? AND collection = ? AND id = ?",
            (host, known.row.id, url),
        )
        return None if row is None else LastKnownVisit(*row)

    def replay_visit(
        self, known: LoadedCollection, url: DiscoveredUrl, number: int, outcome: Outcome, worker: str
    ) -> bool:
        """What became of a visit; False: that, or what came later, is known."""
        db, key = self.store.db, (url.host, known.row.id, url.id)
        row = db.row("SELECT depth, redirects, run FROM url WHERE host = ? AND collection = ? AND id = ?", key)
        if row is not None and outcome.status == Status.NOT_FOUND_AGAIN:
            self.store.runs.dismiss(known, [key])
        elif row is None or (url.depth, url.redirects) < row[:2] or row[2] < known.run:
            self.discover(known, [url])
        self._hold(url.host)
        if not self.store.visits.replay_visit(known, url.host, VisitReport(url.id, number, outcome), worker):
            return False
        if outcome.requested:
            db.run(
                "UPDATE host SET ended_at = max(ended_at, ?1), next_at = max(next_at, ?1 + delay_s) WHERE id = ?2",
                (outcome.at, url.host),
            )
        return True

    def _hold(self, host: HostId) -> None:
        if self.store.db.run("UPDATE host SET worker = ? WHERE id = ? AND worker IS NULL", (HOLDER, host)):
            self.store.ready.remove(host)

    def refetch(self, known: LoadedCollection, host: HostId, url: UrlId) -> None:
        self.store.urls.refetch(known, host, url)

    def set_host_rules(
        self, known: LoadedCollection, host: HostId, key: str, robots: CachedRobots | None, delay_s: float
    ) -> None:
        """What a host asked for."""
        self.store.urls.ensure_host_row(host, key, known.config.network.suffixes)
        if robots is not None:
            self.store.hosts.store_robots(host, robots)
        self.store.db.run("UPDATE host SET delay_s = ? WHERE id = ?", (delay_s, host))

    def update_weights(self, collection: str, weights: list[UrlWeight]) -> None:
        self.store.update_weights(collection, weights)

    def finish(self, reason: Message | str) -> None:
        """All hosts are with nobody, all collections paused, and the numbers of visits go on well above."""
        db, last, skipped = self.store.db, FIRST_HOST, self.lives * NUMBERS_SKIPPED
        while rows := db.rows("SELECT id FROM host WHERE id > ? ORDER BY id LIMIT ?", (last, HOSTS_PER_TURN)):
            with self.transaction():
                for (host,) in rows:
                    db.run("UPDATE url SET visits = visits + ? WHERE host = ?", (skipped, host))
                    if db.run("UPDATE host SET worker = NULL WHERE id = ? AND worker = ?", (host, HOLDER)):
                        self.store.ready.add(host)
            last = rows[-1][0]
        with self.transaction():
            for known in self.store.collections.all():
                self.store.collections.set_state(known.row.name, "paused", reason)
