"""Leases: registers workers, leases hosts to them, expires leases, claims IP addresses and takes host reports.

A host is held by one worker or by none. All leases of a worker end at one deadline on the store's own clock, which the
worker renews. When the deadline passes, or when the worker is provably dead, its hosts go back, and its unreported
visits are pending again. A worker's number is never given twice, so it is also the epoch that fences late reports.
"""

import os
from collections import deque
from collections.abc import Callable, Iterator, Set
from math import ceil

from msgspec.structs import replace

from tarrafa.clock import Clock, boot_id, boottime
from tarrafa.errors import LeaseLost, NameTaken
from tarrafa.frontier.messages import (
    LEASE_S,
    VISITS_PER_LEASE,
    CachedRobots,
    HostLoan,
    HostReport,
    Lease,
    NextVisits,
    WorkerLeaseStatus,
    WorkerRegistration,
)
from tarrafa.frontier.store.collections import Collections, LoadedCollection
from tarrafa.frontier.store.database import NEW, OLD, OPEN, FrontierDatabase
from tarrafa.frontier.store.dispatch import VisitDispatcher
from tarrafa.frontier.store.ready_queue import ReadyQueue
from tarrafa.frontier.store.urls import FrontierUrls
from tarrafa.model import HostId
from tarrafa.parse.url import name_and_port
from tarrafa.runtime.process import ProcessId, is_dead

LEASE_VARIABLE = "TARRAFA_LEASE_S"
NOTE_MAX = 300
LOAN_WAIT_S = 2.0  # a host that is with somebody is asked for again after so long
MEMORY_BYTES_MAX = 64 << 10
CLAIM_WAIT_MIN_S, CLAIM_WAIT_DELAYS = 0.2, 10  # a refused host comes back no sooner


class LeaseClock:
    """The clock of lease deadlines: this machine's boot clock, which cannot be set. It begins anew at each boot.

    `lease_s` is how long a lease lasts by it.
    """

    _length_s: float | None = None

    def __init__(self, lease_s: float | None = None) -> None:
        self._length_s = lease_s

    @classmethod
    def from_environment(cls) -> "LeaseClock":
        """Tests that wait for leases to end make them short."""
        text = os.environ.get(LEASE_VARIABLE)
        return cls(float(text) if text else None)

    @property
    def lease_s(self) -> float:
        return LEASE_S if self._length_s is None else self._length_s

    @property
    def era(self) -> str:
        """Deadlines of another era say nothing."""
        return boot_id()

    def now(self) -> float:
        return boottime()


def _interleave(new: list[HostId], old: list[HostId], share: float) -> Iterator[HostId]:
    """Both in their order; while there are both, `share` of them old ones."""
    first, second, owed = deque(new), deque(old), 0.0
    while first and second:
        owed += share
        if owed >= 1.0:
            owed -= 1.0
            yield second.popleft()
        else:
            yield first.popleft()
    yield from first or second


class HostLeases:
    """The host and worker rows of one frontier."""

    def __init__(
        self,
        db: FrontierDatabase,
        collections: Collections,
        urls: FrontierUrls,
        visits: VisitDispatcher,
        ready: ReadyQueue,
        clock: Clock,
        lease_clock: LeaseClock,
    ) -> None:
        self._db, self._collections, self._urls, self._visits = db, collections, urls, visits
        self._ready, self._clock, self._lease_clock = ready, clock, lease_clock
        self._revisits = urls.revisits
        self._turn = 0

    def find_rejoining(self, name: str, process: ProcessId) -> int | None:
        """The same process, if it joined before and did not hear our answer; nobody else may have its name."""
        other = self._db.row("SELECT id, pid, started, boot, space FROM worker WHERE name = ?", (name,))
        if other is None:
            return None
        if other[1:] != (process.pid, process.started, process.boot, process.space):
            raise NameTaken(f"a worker named {name!r} is at work already (process {other[1]}); use another --name")
        return int(other[0])

    def join(self, name: str, process: ProcessId, number: int | None = None) -> WorkerRegistration:
        """Under a number that was never given before, here or (where there are several servers) by the first."""
        if number is None:
            self._db.prefetch("number", [("workers",)])
            self._db.run("INSERT INTO number VALUES ('workers', 1) ON CONFLICT (name) DO UPDATE SET value = value + 1")
            number = int(self._db.value("SELECT value FROM number WHERE name = 'workers'"))
        self._db.run(
            "INSERT INTO worker (id, name, boot, pid, started, space, era, deadline) VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
            (number, name, process.boot, process.pid, process.started, process.space, self._lease_clock.era,
             self._lease_clock.now() + self._lease_clock.lease_s),
        )  # fmt: skip
        return WorkerRegistration(number, self._lease_clock.lease_s)

    def workers_of_process(self, process: ProcessId) -> list[int]:
        """The workers that such a process is, or was."""
        rows = self._db.rows(
            "SELECT id FROM worker WHERE boot = ? AND pid = ? AND started = ? AND space = ?",
            (process.boot, process.pid, process.started, process.space),
        )
        return [worker for (worker,) in rows]

    def renew(self, worker: int, note: str) -> float:
        self._check(worker)
        lease_s = self._lease_clock.lease_s
        deadline = self._lease_clock.now() + lease_s
        self._db.run("UPDATE worker SET deadline = ?, note = ? WHERE id = ?", (deadline, note[:NOTE_MAX], worker))
        return lease_s

    def expired_workers(self) -> list[tuple[int, bool]]:
        """Workers that are dead or silent, and which of the two (True: silent).

        A worker that joined before the last boot of this machine, on this machine, is dead; on another machine, it has
        one more lease to renew.
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
        for host, next_at, delay_s in rows:  # its last request may have gone out just now
            ended_at = self._clock.now() + rest_s(host) * self._clock.scale
            self._release_host(host, max(next_at, ended_at + delay_s))
            self._db.run("UPDATE host SET ended_at = max(ended_at, ?) WHERE id = ?", (ended_at, host))
        self._db.run("DELETE FROM worker WHERE id = ?", (worker,))

    def release_hosts(self, worker: int, hosts: list[HostId], visited: Set[HostId]) -> None:
        """Take back hosts that their holder does not know it holds. Those that it has `visited` rest for their delay:
        its last request may have been sent just now."""
        for host in hosts:
            row = self._db.row("SELECT next_at, delay_s FROM host WHERE id = ? AND worker = ?", (host, worker))
            if row is not None:
                next_at, delay_s = row
                self._release_host(host, max(next_at, self._clock.now() + delay_s) if host in visited else next_at)

    def _check(self, worker: int) -> None:
        deadline = self._db.value("SELECT deadline FROM worker WHERE id = ?", (worker,))
        if deadline is None or deadline < self._lease_clock.now():
            raise LeaseLost(f"worker {worker} has lost its leases: it did not renew them in time")

    def lease(self, worker: int, wanted: int) -> list[Lease]:
        leases: list[Lease] = []
        for known in self.collections_in_turn(worker, wanted):
            if self._visits.needs_sites(known):
                self._urls.breadth.choose_sites(known)
            leases += self.lease_collection(worker, known, wanted - len(leases))
        return leases

    def collections_in_turn(self, worker: int, wanted: int) -> list[LoadedCollection]:
        """The collections that a worker who wants so many hosts is given some of, one after the other."""
        self._check(worker)
        running = self._collections.running()
        if not running or wanted < 1:
            return []
        self._turn = (self._turn + 1) % len(running)  # another collection goes first each time
        return running[self._turn :] + running[: self._turn]

    def lease_collection(self, worker: int, known: LoadedCollection, wanted: int) -> list[Lease]:
        """Hosts of one collection."""
        self._check(worker)
        slots = self._visits.new_url_slots(known)
        if known.is_swept:  # what is to be dismissed counts towards no limit
            slots = max(slots, wanted * VISITS_PER_LEASE)
        hosts = self._leasable_hosts(worker, known, wanted, slots)
        each = min(VISITS_PER_LEASE, max(1, slots // max(1, len(hosts))))
        leases = [self._lease(worker, known, host, each) for host in hosts]
        return [lease for lease in leases if lease is not None and lease.visits]

    def _leasable_hosts(self, worker: int, known: LoadedCollection, wanted: int, slots: int) -> list[HostId]:
        """Hosts that may be visited now and have work, the longest ready first; no worker takes hosts that would leave
        another one idle."""
        workers, held = self._db.required_row("SELECT count(*), coalesce(sum(hosts), 0) FROM worker")
        now = self._clock.now()
        new = self._ready.first(known.row.id, NEW, now, min(wanted * workers, slots))
        old: list[HostId] = []
        if known.config.keeps_fresh and self._collections.requests_left(known):
            old = self._ready.first(
                known.row.id, OLD, now, min(wanted * workers, self._revisits.revisits_allowed(known))
            )
        ready = list(dict.fromkeys(_interleave(new, old, known.config.revisit.share)))
        mine = int(self._db.value("SELECT hosts FROM worker WHERE id = ?", (worker,)))
        share = max(0, min(wanted, ceil((len(ready) + held) / max(1, workers)) - mine))
        return list(self._visits.prefetch_visits(known, self._db.acquire_hosts(ready[:share], known.breadth_id)))

    def _lease(self, worker: int, known: LoadedCollection, host: HostId, count: int) -> Lease | None:
        holder, key, next_at, ended_at, delay_s, failures, status, digest, expires, memory = self._db.required_row(
            "SELECT worker, key, next_at, ended_at, delay_s, failures, robots_status, robots_digest, robots_expires,"
            " coalesce(memory, x'') FROM host WHERE id = ?",
            (host,),
        )
        if holder is not None or next_at > self._clock.now():
            return None  # it was ready when we looked for ready ones
        delay = max(delay_s, known.config.delay_for(*name_and_port(f"{key}/")))
        self._assign(worker, host)
        self._db.run("UPDATE host SET delay_s = ? WHERE id = ?", (delay, host))
        visits = self._visits.hand_out(known, host, count)
        robots = None if status is None else CachedRobots(status, digest, expires)
        moments = (next_at, ended_at, float(delay))
        numbers = (known.row.id, known.row.revision)
        lease = Lease(host, key, *numbers, *moments, failures, robots, visits, memory, known.run)
        if not visits:
            self._release_host(host, next_at)
        return lease

    def _assign(self, worker: int, host: HostId) -> None:
        self._ready.remove(host)
        self._db.run("UPDATE host SET worker = ? WHERE id = ?", (worker, host))
        self._db.run("UPDATE worker SET hosts = hosts + 1 WHERE id = ?", (worker,))

    def held_leases(self, worker: int) -> list[Lease]:
        """The leases of a worker. A host without visits goes back: the reason of its loan is not known any more."""
        self._check(worker)
        leases: list[Lease] = []
        hosts = self._db.rows("SELECT id FROM host WHERE worker = ? ORDER BY id", (worker,))
        for (host,) in hosts:
            key, next_at, ended_at, delay_s, failures, status, digest, expires, memory = self._db.required_row(
                "SELECT key, next_at, ended_at, delay_s, failures, robots_status, robots_digest, robots_expires,"
                " coalesce(memory, x'') FROM host WHERE id = ?",
                (host,),
            )
            number = self._db.value("SELECT min(collection) FROM handed WHERE host = ?", (host,))
            if number is None:
                self._release_host(host, next_at)
                continue
            known = self._collections.by_id(number)
            robots = None if status is None else CachedRobots(status, digest, expires)
            lease = Lease(
                host, key, number, known.row.revision, next_at, ended_at, delay_s, failures, robots, [], memory,
                known.run,
            )  # fmt: skip
            leases.append(replace(lease, visits=self._visits.outstanding_visits(known, host)))
        return leases

    def borrow_host(self, worker: int, collection: int, host: HostId, host_key: str) -> HostLoan:
        """Lend the host, if no worker holds it and its delay has passed; in any case return what is known of its
        robots.txt."""
        self._check(worker)
        self._urls.ensure_host_row(host, host_key, self._collections.by_id(collection).config.network.suffixes)
        holder, next_at, ended_at, delay_s, failures, status, digest, expires = self._db.required_row(
            "SELECT worker, next_at, ended_at, delay_s, failures, robots_status, robots_digest, robots_expires"
            " FROM host WHERE id = ?",
            (host,),
        )
        robots = None if status is None else CachedRobots(status, digest, expires)
        now = self._clock.now()
        if holder is not None or next_at > now:
            free_at = now + LOAN_WAIT_S if holder is not None else next_at
            return HostLoan(False, free_at, ended_at, delay_s, failures, robots)
        self._assign(worker, host)
        return HostLoan(True, next_at, ended_at, delay_s, failures, robots)

    def held_delay(self, worker: int, host: HostId) -> float:
        """The delay of a host that this worker holds."""
        self._check(worker)
        mine = self._db.row("SELECT worker, delay_s FROM host WHERE id = ?", (host,))
        if mine is None or mine[0] != worker:
            raise LeaseLost(f"worker {worker} does not hold the host that it claims an address for")
        return float(mine[1])

    @staticmethod
    def claim_wait_s(delay_s: float) -> float:
        """How long to wait for an address that is with a host of this delay."""
        return max(CLAIM_WAIT_DELAYS * delay_s, CLAIM_WAIT_MIN_S)

    def claim_address(self, worker: int, host: HostId, address: str) -> float:
        """An address is used by one host at a time, whatever the worker, and rests between two of them."""
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
            (report.next_at, report.ended_at, report.delay_s, report.failures, report.trouble[:NOTE_MAX], report.host),
        )
        if report.robots is not None:
            self.store_robots(report.host, report.robots)
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
        if report.keep and held:  # paused: let it bring home what it has
            return NextVisits(True, [])
        self._release_host(report.host, report.next_at)
        return NextVisits(False, [])

    def _others_wait(self, report: HostReport) -> bool:
        """Another running collection has work on this host: after its visits the holder lets go."""
        rows = self._db.rows(
            "SELECT collection FROM work WHERE host = ? AND collection != ? AND (pending > 0 AND gate = ? OR due <= ?)",
            (report.host, report.collection, OPEN, self._clock.now()),
        )
        return any(self._collections.by_id(number).row.state == "running" for (number,) in rows)

    def robots_text(self, digest: bytes) -> bytes:
        self._db.prefetch("robots", [(digest,)])
        text: bytes | None = self._db.value("SELECT text FROM robots WHERE digest = ?", (digest,))
        return text or b""

    def store_robots(self, host: HostId, robots: CachedRobots) -> None:
        self._db.run("INSERT OR IGNORE INTO robots VALUES (?, ?)", (robots.digest, robots.text))
        self._db.run(
            "UPDATE host SET robots_status = ?, robots_digest = ?, robots_expires = ? WHERE id = ?",
            (robots.status, robots.digest, robots.expires, host),
        )

    def _release_host(self, host: HostId, next_at: float) -> None:
        """With nobody from now on; ready again wherever it has work."""
        self._visits.requeue_outstanding(host)
        self._db.run(
            "UPDATE address SET host = NULL, next_at = max(next_at, ? + (SELECT delay_s FROM host WHERE id = ?))"
            " WHERE host = ?",
            (self._clock.now(), host, host),
        )
        self._db.run("UPDATE worker SET hosts = hosts - 1 WHERE id = (SELECT worker FROM host WHERE id = ?)", (host,))
        self._db.run("UPDATE host SET worker = NULL, next_at = ? WHERE id = ?", (next_at, host))
        self._ready.add(host)

    def worker_statuses(self) -> list[WorkerLeaseStatus]:
        now = self._lease_clock.now()
        rows = self._db.rows("SELECT name, pid, hosts, deadline, note FROM worker ORDER BY name")
        return [
            WorkerLeaseStatus(name, pid, hosts, round(until - now, 1), note) for name, pid, hosts, until, note in rows
        ]
