"""Who may visit which host, from when on?

A host is with one worker or with nobody. A worker's leases all end at one deadline on the store's own clock, which it
renews; when that passes, or when the worker is provably dead, its hosts go back, and what it had not reported waits
again. A worker's number is never given twice, so it is also the epoch that fences late reports.
"""

from collections import deque
from collections.abc import Iterator
from math import ceil

from tarrafa.clock import Clock, boot_id, boottime
from tarrafa.errors import FrontierError, LeaseLost
from tarrafa.frontier.protocol import (
    LEASE_S,
    VISITS_PER_LEASE,
    Continuation,
    HostReport,
    Lease,
    Loan,
    NodeStatus,
    RobotsCopy,
    Terms,
)
from tarrafa.frontier.store.collections import Collections, Known
from tarrafa.frontier.store.ready import Ready
from tarrafa.frontier.store.schema import NEW, OLD, OPEN, Database
from tarrafa.frontier.store.urls import Urls
from tarrafa.frontier.store.visits import Visits
from tarrafa.model import HostId
from tarrafa.process import ProcessId, is_dead

NOTE_MAX = 300
LOAN_WAIT_S = 2.0  # a host that is with somebody is asked for again after so long
MEMORY_BYTES_MAX = 64 << 10
CLAIM_WAIT_MIN_S, CLAIM_WAIT_DELAYS = 0.2, 10  # a refused host comes back no sooner


class LeaseClock:
    """The clock that deadlines are on: this machine's boot clock, which nobody can set. It begins anew at each boot."""

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


class Hosts:
    """The host and worker rows of one frontier."""

    def __init__(
        self,
        db: Database,
        collections: Collections,
        urls: Urls,
        visits: Visits,
        ready: Ready,
        clock: Clock,
        lease_clock: LeaseClock,
    ) -> None:
        self._db, self._collections, self._urls, self._visits = db, collections, urls, visits
        self._ready, self._clock, self._lease_clock = ready, clock, lease_clock
        self._revisits = urls.revisits
        self._turn = 0

    def join(self, name: str, process: ProcessId) -> Terms:
        self.expire()
        other = self._db.value("SELECT pid FROM worker WHERE name = ?", (name,))
        if other is not None:
            raise FrontierError(f"a worker named {name!r} is at work already (process {other}); use another --name")
        self._db.run("INSERT INTO meta VALUES ('workers', 1) ON CONFLICT (key) DO UPDATE SET value = meta.value + 1")
        number = int(self._db.value("SELECT value FROM meta WHERE key = 'workers'"))
        self._db.run(
            "INSERT INTO worker (id, name, boot, pid, started, space, era, deadline) VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
            (number, name, process.boot, process.pid, process.started, process.space, self._lease_clock.era,
             self._lease_clock.now() + LEASE_S),
        )  # fmt: skip
        return Terms(number, LEASE_S)

    def renew(self, worker: int, note: str) -> float:
        self._check(worker)
        deadline = self._lease_clock.now() + LEASE_S
        self._db.run("UPDATE worker SET deadline = ?, note = ? WHERE id = ?", (deadline, note[:NOTE_MAX], worker))
        return LEASE_S

    def leave(self, worker: int) -> None:
        self._free(worker, wait_s=0.0)

    def expire(self) -> None:
        """Take back the hosts of workers that are dead, and of those that went silent.

        A silent one may still be waiting for an answer, so its hosts rest for one more document time limit. Who joined
        before this machine booted last, on this machine, is dead; on another one, it has one more lease to say so.
        """
        now, era = self._lease_clock.now(), self._lease_clock.era
        rows = self._db.rows("SELECT id, boot, pid, started, space, era, deadline FROM worker ORDER BY id")
        for worker, boot, pid, started, space, joined, deadline in rows:
            if joined not in (era, boot):
                self._db.run("UPDATE worker SET era = ?, deadline = ? WHERE id = ?", (era, now + LEASE_S, worker))
            elif joined != era or is_dead(ProcessId(boot, pid, started, space)):
                self._free(worker, wait_s=0.0)
            elif deadline < now:
                limits = [known.config.fetch.time_max for known in self._collections.all()]
                self._free(worker, wait_s=max(limits, default=0.0))

    def _free(self, worker: int, wait_s: float) -> None:
        earliest = self._clock.now() + wait_s * self._clock.scale
        rows = self._db.rows("SELECT id, next_at, delay_s FROM host WHERE worker = ?", (worker,))
        for host, next_at, delay_s in rows:  # its last request may have gone out just now
            self._hand_back(host, max(next_at, earliest + delay_s))
            self._db.run("UPDATE host SET ended_at = max(ended_at, ?) WHERE id = ?", (earliest, host))
        self._db.run("DELETE FROM worker WHERE id = ?", (worker,))

    def _check(self, worker: int) -> None:
        deadline = self._db.value("SELECT deadline FROM worker WHERE id = ?", (worker,))
        if deadline is None or deadline < self._lease_clock.now():
            raise LeaseLost(f"worker {worker} has lost its leases: it did not renew them in time")

    def lease(self, worker: int, wanted: int) -> list[Lease]:
        self.expire()
        self._check(worker)
        running = self._collections.running()
        if not running or wanted < 1:
            return []
        self._turn = (self._turn + 1) % len(running)  # another collection goes first each time
        leases: list[Lease] = []
        for known in running[self._turn :] + running[: self._turn]:
            slots = self._visits.places(known)
            hosts = self._willing(worker, known, wanted - len(leases), slots)
            each = min(VISITS_PER_LEASE, max(1, slots // max(1, len(hosts))))
            leases += [lease for host in hosts if (lease := self._lease(worker, known, host, each)).visits]
        return leases

    def _willing(self, worker: int, known: Known, wanted: int, slots: int) -> list[HostId]:
        """Hosts that may be visited now and have work, the longest ready first; no worker takes what would leave
        another one idle."""
        workers, held = self._db.must("SELECT count(*), coalesce(sum(hosts), 0) FROM worker")
        now = self._clock.now()
        new = self._ready.first(known.row.id, NEW, now, min(wanted * workers, slots))
        old: list[HostId] = []
        if known.config.keeps_fresh and self._collections.requests_left(known):
            old = self._ready.first(known.row.id, OLD, now, min(wanted * workers, self._revisits.allowed(known)))
        ready = list(dict.fromkeys(_interleave(new, old, known.config.revisit.share)))
        mine = int(self._db.value("SELECT hosts FROM worker WHERE id = ?", (worker,)))
        share = min(wanted, ceil((len(ready) + held) / max(1, workers)) - mine)
        return ready[: max(0, share)]

    def _lease(self, worker: int, known: Known, host: HostId, count: int) -> Lease:
        key, next_at, ended_at, delay_s, failures, status, digest, expires, memory = self._db.must(
            "SELECT key, next_at, ended_at, delay_s, failures, robots_status, robots_digest, robots_expires,"
            " coalesce(memory, x'') FROM host WHERE id = ?",
            (host,),
        )
        delay = max(delay_s, known.config.politeness.delay)
        self._take(worker, host)
        self._db.run("UPDATE host SET delay_s = ? WHERE id = ?", (delay, host))
        visits = self._visits.take(known, host, count)
        robots = None if status is None else RobotsCopy(status, digest, expires)
        moments = (next_at, ended_at, float(delay))
        lease = Lease(host, key, known.row.id, known.row.revision, *moments, failures, robots, visits, memory)
        if not visits:
            self._hand_back(host, next_at)
        return lease

    def _take(self, worker: int, host: HostId) -> None:
        self._ready.remove(host)
        self._db.run("UPDATE host SET worker = ? WHERE id = ?", (worker, host))
        self._db.run("UPDATE worker SET hosts = hosts + 1 WHERE id = ?", (worker,))

    def borrow(self, worker: int, collection: int, host: HostId, key: str) -> Loan:
        """The host itself, if it is with nobody and its time has come; in any case what is known of its robots.txt."""
        self._check(worker)
        self._urls.ensure_host_row(host, key, self._collections.by_id(collection).config.network.suffixes)
        holder, next_at, ended_at, delay_s, failures, status, digest, expires = self._db.must(
            "SELECT worker, next_at, ended_at, delay_s, failures, robots_status, robots_digest, robots_expires"
            " FROM host WHERE id = ?",
            (host,),
        )
        robots = None if status is None else RobotsCopy(status, digest, expires)
        now = self._clock.now()
        if holder is not None or next_at > now:
            free_at = now + LOAN_WAIT_S if holder is not None else next_at
            return Loan(False, free_at, ended_at, delay_s, failures, robots)
        self._take(worker, host)
        return Loan(True, next_at, ended_at, delay_s, failures, robots)

    def claim(self, worker: int, host: HostId, address: str) -> float:
        """An address is with one host at a time, whatever the worker, and rests between two of them."""
        self._check(worker)
        mine = self._db.row("SELECT worker FROM host WHERE id = ?", (host,))
        if mine is None or mine[0] != worker:
            raise LeaseLost(f"worker {worker} does not hold the host that it claims {address} for")
        now = self._clock.now()
        holder, next_at = self._db.row("SELECT host, next_at FROM address WHERE address = ?", (address,)) or (None, 0.0)
        if holder not in {None, host}:
            delay_s = self._db.value("SELECT delay_s FROM host WHERE id = ?", (holder,))
            return float(now + max(CLAIM_WAIT_DELAYS * delay_s, CLAIM_WAIT_MIN_S))
        if holder is None and next_at > now:
            return float(next_at)
        self._db.run("INSERT OR REPLACE INTO address VALUES (?, ?, ?)", (address, host, next_at))
        return 0.0

    def finish(self, worker: int, batch: list[HostReport]) -> list[Continuation]:
        self._check(worker)
        return [self._finish(worker, report) for report in batch]

    def _finish(self, worker: int, report: HostReport) -> Continuation:
        row = self._db.row("SELECT worker, failures FROM host WHERE id = ?", (report.host,))
        if row is None or row[0] != worker:
            return Continuation(False, [])
        known = self._collections.by_id(report.collection)
        name = self._db.value("SELECT name FROM worker WHERE id = ?", (worker,))
        self._visits.finish(known, report.host, report.reports, name)
        self._db.run(
            "UPDATE host SET next_at = ?, ended_at = max(ended_at, ?), delay_s = ?, failures = ?, trouble = ?"
            " WHERE id = ?",
            (report.next_at, report.ended_at, report.delay_s, report.failures, report.trouble[:NOTE_MAX], report.host),
        )
        if report.robots is not None:
            self._store_robots(report.host, report.robots)
        if report.memory is not None and len(report.memory) <= MEMORY_BYTES_MAX:
            self._db.run("UPDATE host SET memory = ? WHERE id = ?", (report.memory, report.host))
        if not report.keep and report.failures > max(known.config.fetch.host_failures_max, row[1]):
            self._visits.take_back(report.host)
            self._visits.give_up(known, report.host)
        held = self._db.value("SELECT count(*) FROM handed WHERE host = ?", (report.host,))
        if report.keep and known.row.state == "running":
            more = 0 if self._others_wait(report) else max(0, report.wanted - held)
            visits = self._visits.take(known, report.host, more, held)
            if held or visits:
                return Continuation(True, visits)
        if report.keep and held:  # paused: let it bring home what it has
            return Continuation(True, [])
        self._hand_back(report.host, report.next_at)
        return Continuation(False, [])

    def _others_wait(self, report: HostReport) -> bool:
        """Another running collection has work on this host: after its visits the holder lets go."""
        rows = self._db.rows(
            "SELECT collection FROM work WHERE host = ? AND collection != ? AND (pending > 0 AND gate = ? OR due <= ?)",
            (report.host, report.collection, OPEN, self._clock.now()),
        )
        return any(self._collections.by_id(number).row.state == "running" for (number,) in rows)

    def robots_text(self, digest: bytes) -> bytes:
        text: bytes | None = self._db.value("SELECT text FROM robots WHERE digest = ?", (digest,))
        return text or b""

    def _store_robots(self, host: HostId, robots: RobotsCopy) -> None:
        self._db.run("INSERT OR IGNORE INTO robots VALUES (?, ?)", (robots.digest, robots.text))
        self._db.run(
            "UPDATE host SET robots_status = ?, robots_digest = ?, robots_expires = ? WHERE id = ?",
            (robots.status, robots.digest, robots.expires, host),
        )

    def _hand_back(self, host: HostId, next_at: float) -> None:
        """With nobody from now on; ready again wherever it has work."""
        self._visits.take_back(host)
        self._db.run(
            "UPDATE address SET host = NULL, next_at = max(next_at, ? + (SELECT delay_s FROM host WHERE id = ?))"
            " WHERE host = ?",
            (self._clock.now(), host, host),
        )
        self._db.run("UPDATE worker SET hosts = hosts - 1 WHERE id = (SELECT worker FROM host WHERE id = ?)", (host,))
        self._db.run("UPDATE host SET worker = NULL, next_at = ? WHERE id = ?", (next_at, host))
        self._ready.add(host)

    def nodes(self) -> list[NodeStatus]:
        now = self._lease_clock.now()
        rows = self._db.rows("SELECT name, pid, hosts, deadline, note FROM worker ORDER BY name")
        return [NodeStatus(name, pid, hosts, round(until - now, 1), note) for name, pid, hosts, until, note in rows]
