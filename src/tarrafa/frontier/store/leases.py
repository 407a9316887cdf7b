"""Leases: orders the hosts that are ready, leases them to workers, expires leases, claims addresses, takes reports.

A host is held by one worker or by none. All leases of a worker end at one deadline on the store's own clock, which the
worker renews. When the deadline passes, or when the worker is provably dead, its hosts go back, and its unreported
visits are pending again. A worker's number is never given twice, so it is also the epoch that fences late reports.

The ready queue (`ReadyQueue`) orders the hosts that can be leased by the time of their next polite visit. A host that
no worker holds has one row per collection and kind of work: NEW for URLs that were never visited, from the end of its
delay on, or FAVOURED where the collection favours the host; OLD for revisits, from the time when the first of them is
worth it. Promises: rows are added and removed by their whole key, which follows from `host` and `work` alone; no row is
ever searched for. While both favoured and other hosts could be visited, the favoured ones get four places of five: they
are first, and no host starves.
"""

import os
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from math import ceil, inf
from typing import NamedTuple

from tarrafa.clock import boot_id, boottime
from tarrafa.errors import LeaseLost, NameTaken
from tarrafa.frontier.messages import (
    LEASE_S,
    VISITS_OF_NEW_LEASE,
    HostLoan,
    HostReport,
    Lease,
    NextVisits,
    RegisteredWorker,
    RegistrationTerms,
    RobotsCopy,
)
from tarrafa.frontier.store.collections import LoadedCollection, StoreContext
from tarrafa.frontier.store.database import FAVOURED, NEW, OLD, OPEN, FrontierDatabase
from tarrafa.frontier.store.dispatch import VisitDispatcher
from tarrafa.frontier.store.urls import FrontierUrls
from tarrafa.i18n import Message, from_text, message, to_text
from tarrafa.model import HostId, Visit
from tarrafa.parse.url import name_and_port
from tarrafa.runtime.process_identity import ProcessId, is_dead

LEASE_VARIABLE = "TARRAFA_LEASE_S"
NOTE_CHARS_MAX = 2_000
LOAN_WAIT_S = 2.0  # after so long a caller may ask again for a host that a worker holds
MEMORY_BYTES_MAX = 64 << 10
AHEAD_HOSTS = 20  # as many are tried for revisits ahead of their time
CLAIM_WAIT_MIN_S, CLAIM_WAIT_DELAYS = 0.2, 10  # a host whose address is refused comes back no sooner
FULL_REST_S = 2.0  # of a host without requisites, in a full collection that has some on other hosts
FAVOURED_OF_FIVE = 4
NEW_ROWS = (
    f"INTO ready SELECT collection, CASE favoured WHEN 0 THEN {NEW} ELSE {FAVOURED} END, next_at, host"  # noqa: S608
    f" FROM work JOIN host ON host.id = work.host WHERE worker IS NULL AND gate = {OPEN} AND pending > 0"
)


# -- the ready queue ---------------------------------------------------------------------------------------------------


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


# -- workers and leases ------------------------------------------------------------------------------------------------


class LeaseClock:
    """The clock of lease deadlines: this machine's boot clock, which cannot be set. It begins anew at each boot."""

    def __init__(self, lease_s: float | None = None) -> None:
        self._lease_s = lease_s

    @classmethod
    def from_environment(cls) -> "LeaseClock":
        """Tests that wait for leases to end make them short."""
        text = os.environ.get(LEASE_VARIABLE)
        return cls(float(text) if text else None)

    @property
    def lease_s(self) -> float:
        """How long a lease lasts."""
        return LEASE_S if self._lease_s is None else self._lease_s

    @property
    def era(self) -> str:
        """Deadlines of another era mean nothing."""
        return boot_id()

    def now(self) -> float:
        return boottime()


def _interleave(new: list[HostId], old: list[HostId], share: float) -> Iterator[HostId]:
    """Both lists in their order; while both last, `share` of the hosts are from `old`."""
    first, second, owed = deque(new), deque(old), 0.0
    while first and second:
        owed += share
        if owed >= 1.0:
            owed -= 1.0
            yield second.popleft()
        else:
            yield first.popleft()
    yield from first or second


class _HostRow(NamedTuple):
    worker: int | None
    key: str
    next_at: float
    ended_at: float
    delay_s: float
    failures: int
    robots_status: int | None
    robots_digest: bytes
    robots_expires: float
    memory: bytes | None

    @property
    def robots_copy(self) -> RobotsCopy | None:
        if self.robots_status is None:
            return None
        return RobotsCopy(self.robots_status, self.robots_digest, self.robots_expires)


HOST_COLUMNS = ", ".join(_HostRow._fields)


class HostLeases:
    """The host and worker rows of one frontier."""

    def __init__(
        self, context: StoreContext, urls: FrontierUrls, visits: VisitDispatcher, lease_clock: LeaseClock
    ) -> None:
        self._db, self._collections, self._ready = context.db, context.collections, context.ready
        self._clock, self._lease_clock = context.clock, lease_clock
        self._urls, self._revisits, self._visits = urls, urls.revisits, visits
        self._turn = 0

    def find_rejoining(self, name: str, process: ProcessId) -> int | None:
        """The worker of this name, if the same process joined before and did not receive the answer. No other process
        may use its name."""
        other = self._db.row("SELECT id, pid, started, boot, space FROM worker WHERE name = ?", (name,))
        if other is None:
            return None
        if other[1:] != (process.pid, process.started, process.boot, process.space):
            raise NameTaken(
                message(
                    "a worker named {name!r} is at work already (process {other}); use another --name",
                    name=name,
                    other=str(other[1]),
                )
            )
        return int(other[0])

    def join(self, name: str, process: ProcessId, number: int | None = None) -> RegistrationTerms:
        """Register a worker under a number that was never given before; with several servers, the first assigns it."""
        if number is None:
            self._db.prefetch("number", [("workers",)])
            self._db.run("INSERT INTO number VALUES ('workers', 1) ON CONFLICT (name) DO UPDATE SET value = value + 1")
            number = int(self._db.value("SELECT value FROM number WHERE name = 'workers'"))
        self._db.run(
            "INSERT INTO worker (id, name, boot, pid, started, space, era, deadline) VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
            (number, name, process.boot, process.pid, process.started, process.space, self._lease_clock.era,
             self._lease_clock.now() + self._lease_clock.lease_s),
        )  # fmt: skip
        return RegistrationTerms(number, self._lease_clock.lease_s)

    def workers_of_process(self, process: ProcessId) -> list[int]:
        rows = self._db.rows(
            "SELECT id FROM worker WHERE boot = ? AND pid = ? AND started = ? AND space = ?",
            (process.boot, process.pid, process.started, process.space),
        )
        return [worker for (worker,) in rows]

    def renew(self, worker: int, note: Message | str) -> float:
        self._check(worker)
        lease_s = self._lease_clock.lease_s
        deadline = self._lease_clock.now() + lease_s
        self._db.run(
            "UPDATE worker SET deadline = ?, note = ? WHERE id = ?", (deadline, to_text(note, NOTE_CHARS_MAX), worker)
        )
        return lease_s

    def expired_workers(self) -> list[tuple[int, bool]]:
        """Workers that are dead or silent, and which of the two (True: silent).

        A worker that joined before the last boot of this machine is dead if it ran on this machine; on another machine
        it gets one more lease to renew.
        """
        found: list[tuple[int, bool]] = []
        now, era = self._lease_clock.now(), self._lease_clock.era
        rows = self._db.rows("SELECT id, boot, pid, started, space, era, deadline FROM worker ORDER BY id")
        for worker, boot, pid, started, space, joined, deadline in rows:
            if joined not in (era, boot):
                until = now + self._lease_clock.lease_s
                self._db.run("UPDATE worker SET era = ?, deadline = ? WHERE id = ?", (era, until, worker))
            elif joined != era or is_dead(ProcessId(boot, pid, started, space)):
                found.append((worker, False))
            elif deadline < now:
                found.append((worker, True))
        return found

    def release_worker(self, worker: int) -> None:
        """Take back all hosts of a worker, and remove the worker."""
        self._release_worker(worker, lambda host: 0.0)

    def release_silent_worker(self, worker: int, wait_s_min: float = 0.0) -> None:
        """The same for a worker that may still wait for responses: its hosts rest until none can be under way."""
        self._release_worker(worker, lambda host: max(wait_s_min, self.request_s_max(host)))

    def request_s_max(self, host: HostId) -> float:
        """How long a request to a leased host can take: the time limit of the collections whose visits are handed out
        there; of all that are running, if the host was lent for its robots.txt."""
        handed = self._db.rows("SELECT DISTINCT collection FROM handed WHERE host = ?", (host,))
        known = [self._collections.by_id(number) for (number,) in handed] or self._collections.running()
        return float(max((one.config.fetch.time_max for one in known), default=0.0))

    def _release_worker(self, worker: int, rest_s: Callable[[HostId], float]) -> None:
        rows = self._db.rows("SELECT id, next_at, delay_s FROM host WHERE worker = ?", (worker,))
        for host, next_at, delay_s in rows:  # a request may have been sent just now
            ended_at = self._clock.now() + rest_s(host) * self._clock.scale
            self._release_host(host, max(next_at, ended_at + delay_s))
            self._db.run("UPDATE host SET ended_at = max(ended_at, ?) WHERE id = ?", (ended_at, host))
        self._db.run("DELETE FROM worker WHERE id = ?", (worker,))

    def release_hosts(self, worker: int, hosts: list[HostId]) -> None:
        """Take back hosts that their holder does not know it holds."""
        for host in hosts:
            next_at = self._db.value("SELECT next_at FROM host WHERE id = ? AND worker = ?", (host, worker))
            if next_at is not None:
                self._release_host(host, next_at)

    def _check(self, worker: int) -> None:
        deadline = self._db.value("SELECT deadline FROM worker WHERE id = ?", (worker,))
        if deadline is None or deadline < self._lease_clock.now():
            raise LeaseLost(
                message("worker {worker} has lost its leases: it did not renew them in time", worker=str(worker))
            )

    def lease(self, worker: int, wanted: int) -> list[Lease]:
        leases: list[Lease] = []
        for known in self.collections_in_turn(worker, wanted):
            if self._visits.needs_sites(known):
                self._urls.breadth.choose_sites(known)
            leases += self.lease_collection(worker, known, wanted - len(leases))
        return leases

    def collections_in_turn(self, worker: int, wanted: int) -> list[LoadedCollection]:
        """The running collections, beginning with another one in each call; none if no host is wanted."""
        self._check(worker)
        running = self._collections.running()
        if not running or wanted < 1:
            return []
        self._turn = (self._turn + 1) % len(running)  # another collection goes first each time
        return running[self._turn :] + running[: self._turn]

    def lease_collection(self, worker: int, known: LoadedCollection, wanted: int) -> list[Lease]:
        self._check(worker)
        slots = self._visits.new_url_slots(known)
        # Pages to be dismissed count towards no limit; requisites to none of pages.
        most = wanted * VISITS_OF_NEW_LEASE
        if known.is_swept:
            slots = max(slots, most)
        elif slots < most and self._visits.has_requisites(known):
            slots = max(slots, min(most, self._collections.requests_left(known)))
        hosts = self._leasable_hosts(worker, known, wanted, slots)
        each = min(VISITS_OF_NEW_LEASE, max(1, slots // max(1, len(hosts))))
        leases = [self._lease(worker, known, host, each) for host in hosts]
        return [lease for lease in leases if lease is not None and lease.visits]

    def _leasable_hosts(self, worker: int, known: LoadedCollection, wanted: int, slots: int) -> list[HostId]:
        """Hosts that may be visited now and have work, the longest ready first; a worker gets no more than its share,
        so that no other worker is left idle."""
        workers, held = self._db.required_row("SELECT count(*), coalesce(sum(hosts), 0) FROM worker")
        now = self._clock.now()
        new = self._ready.first(known.row.id, NEW, now, min(wanted * workers, slots))
        old: list[HostId] = []
        if known.config.keeps_fresh and self._collections.requests_left(known):
            most = min(wanted * workers, self._revisits.revisits_allowed(known))
            old = self._ready.first(known.row.id, OLD, now, most)
            if not old:  # some may have to wait for their delay
                most = min(wanted * workers, AHEAD_HOSTS, self._revisits.revisits_ahead(known))
                old = self._ready.first(known.row.id, OLD, inf, most)
        ready = list(dict.fromkeys(_interleave(new, old, known.config.revisit.share)))
        mine = int(self._db.value("SELECT hosts FROM worker WHERE id = ?", (worker,)))
        share = max(0, min(wanted, ceil((len(ready) + held) / max(1, workers)) - mine))
        return list(self._visits.prefetch_visits(known, self._db.acquire_hosts(ready[:share], known.breadth_id)))

    def _host(self, host: HostId) -> _HostRow:
        return _HostRow(*self._db.required_row(f"SELECT {HOST_COLUMNS} FROM host WHERE id = ?", (host,)))  # noqa: S608

    def _lease(self, worker: int, known: LoadedCollection, host: HostId, count: int) -> Lease | None:
        row = self._host(host)
        if row.worker is not None or row.next_at > self._clock.now():
            return None  # it was ready a moment ago
        delay_s = max(row.delay_s, known.config.delay_for(*name_and_port(f"{row.key}/")))
        self._assign(worker, host)
        self._db.run("UPDATE host SET delay_s = ? WHERE id = ?", (delay_s, host))
        visits = self._visits.hand_out(known, host, count, ahead=True)
        if not visits:
            is_for_requisites = not self._collections.free_slots(known) and self._visits.has_requisites(known)
            rests_until = self._clock.now() + FULL_REST_S if is_for_requisites else 0.0  # so that other hosts are tried
            self._release_host(host, max(row.next_at, rests_until))
        return self._describe(known, host, row._replace(delay_s=float(delay_s)), visits)

    @staticmethod
    def _describe(known: LoadedCollection, host: HostId, row: _HostRow, visits: list[Visit]) -> Lease:
        return Lease(
            host, row.key, known.row.id, known.row.revision, row.next_at, row.ended_at, row.delay_s, row.failures,
            row.robots_copy, visits, row.memory or b"", known.run,
        )  # fmt: skip

    def _assign(self, worker: int, host: HostId) -> None:
        self._ready.remove(host)
        self._db.run("UPDATE host SET worker = ? WHERE id = ?", (worker, host))
        self._db.run("UPDATE worker SET hosts = hosts + 1 WHERE id = ?", (worker,))

    def held_leases(self, worker: int) -> list[Lease]:
        """The leases of a worker. A host without visits goes back: the collection of its loan is not stored."""
        self._check(worker)
        leases: list[Lease] = []
        for (host,) in self._db.rows("SELECT id FROM host WHERE worker = ? ORDER BY id", (worker,)):
            row = self._host(host)
            number = self._db.value("SELECT min(collection) FROM handed WHERE host = ?", (host,))
            if number is None:
                self._release_host(host, row.next_at)
            else:
                known = self._collections.by_id(number)
                leases.append(self._describe(known, host, row, self._visits.outstanding_visits(known, host)))
        return leases

    def borrow_host(self, worker: int, collection: int, host: HostId, host_key: str) -> HostLoan:
        """Lend the host, if no worker holds it and its delay has passed; in any case return its robots.txt, if
        known."""
        self._check(worker)
        self._urls.ensure_host_row(host, host_key, self._collections.by_id(collection).config.network.suffixes)
        row, now = self._host(host), self._clock.now()
        is_granted = row.worker is None and row.next_at <= now
        if is_granted:
            self._assign(worker, host)
        free_at = row.next_at if row.worker is None else now + LOAN_WAIT_S
        return HostLoan(is_granted, free_at, row.ended_at, row.delay_s, row.failures, row.robots_copy)

    def held_delay(self, worker: int, host: HostId) -> float:
        """The delay of a host; raises if this worker does not hold it."""
        self._check(worker)
        mine = self._db.row("SELECT worker, delay_s FROM host WHERE id = ?", (host,))
        if mine is None or mine[0] != worker:
            raise LeaseLost(
                message("worker {worker} does not hold the host that it claims an address for", worker=str(worker))
            )
        return float(mine[1])

    @staticmethod
    def claim_wait_s(delay_s: float) -> float:
        """How long to wait for an address that a host with this delay uses."""
        return max(CLAIM_WAIT_DELAYS * delay_s, CLAIM_WAIT_MIN_S)

    def claim_address(self, worker: int, host: HostId, address: str) -> float:
        """An address is used by one host at a time, of any worker, and rests between two hosts."""
        self.held_delay(worker, host)
        now = self._clock.now()
        self._db.prefetch("address", [(address,)])
        holder, next_at = self._db.row("SELECT host, next_at FROM address WHERE address = ?", (address,)) or (None, 0.0)
        if holder not in {None, host}:
            self._db.prefetch("host", [(holder,)])
            delay_s = self._db.value("SELECT delay_s FROM host WHERE id = ?", (holder,))
            return float(now + self.claim_wait_s(delay_s))
        if holder is None and next_at > now:
            return float(next_at)
        self._db.run("INSERT OR REPLACE INTO address VALUES (?, ?, ?)", (address, host, next_at))
        return 0.0

    def finish(self, worker: int, batch: list[HostReport]) -> list[NextVisits]:
        self._check(worker)
        return [self._finish(worker, report) for report in batch]

    def _finish(self, worker: int, report: HostReport) -> NextVisits:
        row = self._db.row("SELECT worker, failures FROM host WHERE id = ?", (report.host,))
        if row is None or row[0] != worker:
            return NextVisits(False, [])
        known = self._collections.by_id(report.collection)
        name = self._db.value("SELECT name FROM worker WHERE id = ?", (worker,))
        self._visits.finish(known, report.host, report.reports, name)
        self._db.run(
            "UPDATE host SET next_at = ?, ended_at = max(ended_at, ?), delay_s = ?, failures = ?, trouble = ?"
            " WHERE id = ?",
            (
                report.next_at,
                report.ended_at,
                report.delay_s,
                report.failures,
                to_text(report.trouble, NOTE_CHARS_MAX),
                report.host,
            ),
        )
        if report.robots_copy is not None:
            self.store_robots(report.host, report.robots_copy)
        if report.memory is not None and len(report.memory) <= MEMORY_BYTES_MAX:
            self._db.run("UPDATE host SET memory = ? WHERE id = ?", (report.memory, report.host))
        if not report.keep and report.failures > row[1] and known.is_given_up(report.failures):
            self._visits.requeue_outstanding(report.host)
            self._visits.give_up_host(known, report.host)
        held = self._db.value("SELECT count(*) FROM handed WHERE host = ?", (report.host,))
        if report.keep and known.row.state == "running" and report.run in (0, known.run):
            more = 0 if self._others_wait(report) else max(0, report.wanted - held)
            visits = self._visits.hand_out(known, report.host, more, held)
            if held or visits:
                return NextVisits(True, visits)
        if report.keep and held:  # paused: the visits that are handed out are still made
            return NextVisits(True, [])
        self._release_host(report.host, report.next_at)
        return NextVisits(False, [])

    def _others_wait(self, report: HostReport) -> bool:
        """Whether another running collection has work on this host: after its visits the holder returns the host."""
        rows = self._db.rows(
            "SELECT collection FROM work WHERE host = ? AND collection != ? AND (pending > 0 AND gate = ? OR due <= ?)",
            (report.host, report.collection, OPEN, self._clock.now()),
        )
        return any(self._collections.by_id(number).row.state == "running" for (number,) in rows)

    def robots_text(self, digest: bytes) -> bytes:
        self._db.prefetch("robots", [(digest,)])
        text: bytes | None = self._db.value("SELECT text FROM robots WHERE digest = ?", (digest,))
        return text or b""

    def store_robots(self, host: HostId, robots: RobotsCopy) -> None:
        self._db.run("INSERT OR IGNORE INTO robots VALUES (?, ?)", (robots.digest, robots.text))
        self._db.run(
            "UPDATE host SET robots_status = ?, robots_digest = ?, robots_expires = ? WHERE id = ?",
            (robots.status, robots.digest, robots.expires, host),
        )

    def _release_host(self, host: HostId, next_at: float) -> None:
        """Take a host from its worker; it is ready again in every collection where it has work."""
        self._visits.requeue_outstanding(host)
        self._db.run(
            "UPDATE address SET host = NULL, next_at = max(next_at, ? + (SELECT delay_s FROM host WHERE id = ?))"
            " WHERE host = ?",
            (self._clock.now(), host, host),
        )
        self._db.run("UPDATE worker SET hosts = hosts - 1 WHERE id = (SELECT worker FROM host WHERE id = ?)", (host,))
        self._db.run("UPDATE host SET worker = NULL, next_at = ? WHERE id = ?", (next_at, host))
        self._ready.add(host)

    def worker_statuses(self) -> list[RegisteredWorker]:
        now = self._lease_clock.now()
        rows = self._db.rows("SELECT name, pid, hosts, deadline, note FROM worker ORDER BY name")
        return [
            RegisteredWorker(name, pid, hosts, round(at - now, 1), from_text(note))
            for name, pid, hosts, at, note in rows
        ]
