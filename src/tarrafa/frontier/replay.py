"""Replay: rebuilds a lost frontier from recorded configurations, links and visits.

The input is what the archive recorded: configurations, discovered URLs, outcomes of visits. Everything goes through the
same code as during a crawl, in the original order, under a clock that shows the original time.
Promises: a visit that is known already changes nothing; no visit number that may have been given before is given again.

During the replay every visited host is held by worker 0, which does not exist, so that no host enters the ready queue;
`finish` frees them all. Nothing is durable before `finish` has returned: an interrupted replay begins anew.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

from tarrafa.clock import Clock
from tarrafa.frontier.messages import FIRST_HOST, DiscoveredUrl, RobotsCopy, VisitReport
from tarrafa.frontier.store.collections import LoadedCollection
from tarrafa.frontier.store.database import open_database
from tarrafa.frontier.store.leases import MEMORY_BYTES_MAX, LeaseClock
from tarrafa.frontier.store.runs import has_runs, roots_of
from tarrafa.frontier.store.sqlite_frontier import FrontierStore
from tarrafa.i18n import Message
from tarrafa.model import HostId, Outcome, Status, UrlId, UrlRole

HOLDER = 0  # no worker has this number
NUMBERS_SKIPPED = 10  # per life: visits that were handed out and never archived had numbers too
HOSTS_PER_TURN = 500
SAME_MOMENT_S = 0.001


class LastKnownVisit(NamedTuple):
    """What is known of a URL before its next visit is replayed."""

    last: int  # the newest visit that is known
    parent: bytes  # see `Visit`
    payload: str  # the digest of its body as it was last archived


class KnownUrl(NamedTuple):
    """The part of a URL's row that its next visit needs. `visits`: the last number that was given; `fetched`: when."""

    depth: int
    redirects: int
    visits: int
    content_id: str | None
    role: int
    parent: bytes
    payload: str
    archived: float
    fetched: float | None


class FrontierReplay:
    """A frontier that is being rebuilt, or an existing one, `is_live`, that takes in visits made by others: each
    transaction is then durable, and leaves the frontier as a crawl would."""

    def __init__(self, path: str, clock: Clock, suffix_list: str, *, is_live: bool = False) -> None:
        db = open_database(path, suffix_list)
        if not is_live:
            db.connection.pragma("synchronous", "off")
        self.store = FrontierStore(db, clock, LeaseClock())
        self.lives = 1  # of the lost frontier; each may have assigned numbers that were never recorded

    def close(self) -> None:
        """Move everything from the write-ahead log into the file, and close it."""
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
        """Apply a recorded configuration."""
        row = self.store.open_collection(content, roots)
        if revision > row.revision:
            self.store.collections.set_revision(self.store.collections.by_id(row.id), revision)
        return self.store.collections.by_id(row.id)

    def begin_run(self, known: LoadedCollection, run: int) -> None:
        """The following visits belong to this run."""
        if run > known.run and has_runs(known.config):
            self.store.runs.begin(known, "", run, roots_of(known))

    def revision(self, name: str) -> int:
        """Revision of a collection's configuration; 0: there is no such collection."""
        row = self.store.collections.row(name)
        return 0 if row is None else row.revision

    def discover(self, known: LoadedCollection, offers: list[DiscoveredUrl]) -> None:
        self.store.urls.discover(known.row.id, offers)

    def last_known_visit(self, known: LoadedCollection, host: HostId, url: UrlId) -> LastKnownVisit | None:
        """None: the URL is unknown."""
        row = self.store.db.find_url(
            "coalesce((SELECT max(number) FROM visit WHERE visit.host = url.host"
            " AND visit.collection = url.collection AND visit.id = url.id), 0), coalesce(parent, x''), payload",
            (host, known.row.id, url),
        )
        return None if row is None else LastKnownVisit(*row)

    def replay_visit(
        self, known: LoadedCollection, url: DiscoveredUrl, number: int, outcome: Outcome, worker: str
    ) -> bool:
        """Repeat a recorded visit; False: this visit, or a later one, is known."""
        db, key = self.store.db, (url.host, known.row.id, url.id)
        row = db.find_url("depth, redirects, run", key)
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

    def set_host_rules(
        self, known: LoadedCollection, host: HostId, key: str, robots: RobotsCopy | None, delay_s: float
    ) -> None:
        """Store the robots.txt and the delay of a host."""
        self.store.urls.ensure_host_row(host, key, known.config.network.suffixes)
        if robots is not None:
            self.store.hosts.store_robots(host, robots)
        self.store.db.run("UPDATE host SET delay_s = ? WHERE id = ?", (delay_s, host))

    def free_hosts(self) -> None:
        """Free the hosts that were held in this transaction: a live frontier leases them later."""
        db = self.store.db
        for (host,) in db.rows("SELECT id FROM host WHERE worker = ?", (HOLDER,)):
            db.run("UPDATE host SET worker = NULL WHERE id = ?", (host,))
            self.store.ready.add(host)

    def known_url(self, known: LoadedCollection, host: HostId, url: UrlId) -> KnownUrl | None:
        """What a live frontier knows of a URL before a visit to it is recorded; None: nothing."""
        row = self.store.db.find_url(
            "depth, redirects, visits, content_id, role, coalesce(parent, x''), payload, archived, fetched",
            (host, known.row.id, url),
        )
        if row is None:
            return None
        found = KnownUrl(*row)
        return found._replace(role=int(UrlRole.PAGE)) if found.role == UrlRole.NEEDED_PAGE else found

    def has_visit(self, known: LoadedCollection, host: HostId, url: UrlId, at: float, length: int) -> bool:
        """Whether a visit of that moment, with a body of that length, is remembered."""
        found = self.store.db.row(
            "SELECT 1 FROM visit WHERE host = ? AND collection = ? AND id = ? AND abs(at - ?) < ? AND length = ?",
            (host, known.row.id, url, at, SAME_MOMENT_S, length),
        )
        return found is not None

    def host_memory(self, host: HostId) -> bytes:
        return self.store.db.value("SELECT memory FROM host WHERE id = ?", (host,)) or b""

    def set_host_memory(self, host: HostId, memory: bytes) -> None:
        if len(memory) <= MEMORY_BYTES_MAX:
            self.store.db.run("UPDATE host SET memory = ? WHERE id = ?", (memory, host))

    def host_rules(self, host: HostId) -> tuple[float, float] | None:
        """The delay of a host, and until when its robots.txt is valid; None: the host is unknown."""
        row = self.store.db.row("SELECT delay_s, coalesce(robots_expires, 0) FROM host WHERE id = ?", (host,))
        return None if row is None else (row[0], row[1])

    def finish(self, reason: Message | str) -> None:
        """Free all hosts, pause all collections, and continue the numbers of visits well above the known ones."""
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
