"""How many hosts a worker visits at once, and its bandwidth: ordered limits, a full disk, overload, and being offline.

The supervisor writes `ResourceLimits` into `DATA/run/orders.json` (`NodeLimits`), and the workers read the file once a
second (`ResourceShare`): so new limits hold without a restart, and no process waits for another. A missing or
unreadable file limits nothing; a file that cannot be written on a full disk is written again later.
Promises: a crawl in the foreground ends with an error when the disk is full; a node pauses instead, well before
anything fails, and resumes by itself, at a higher threshold than it pauses at. When this machine was too slow (which
`LoopLag` measures), at most once every few seconds, a worker halves the number of its hosts; when that has not happened
for a while, it adds a quarter, until it visits all again. When very many different hosts in a row are unreachable, this
machine counts as offline.
"""

import asyncio
import contextlib
import shutil
from collections import deque
from collections.abc import Callable, Sized
from pathlib import Path

import msgspec
from msgspec.structs import replace

from tarrafa.clock import boottime
from tarrafa.crawl.worker.stats import WorkerNotices
from tarrafa.i18n import Message, joined, message
from tarrafa.model import HostId
from tarrafa.runtime import data_dir
from tarrafa.runtime.data_dir import DataDirectory, file_fingerprint, write_atomically

PAUSED_BY_ORDER = message("paused by order")
OFFLINE_HOSTS = 20
OFFLINE_PAUSE_S = 30.0  # then hosts are leased again
SHARE_MIN, STARVED_PAUSE_S, RECOVERY_S = 0.05, 10.0, 60.0
PAUSE_BELOW, RESUME_ABOVE = 2.0, 3.0  # times the minimum that every command needs
LAG_TICK_S = 0.1
LAG_JITTER_S = 0.05  # every timer is a little late; that is harmless and must not add up
LATE_TICKS_MAX = 10_000


class ResourceLimits(msgspec.Struct, frozen=True, omit_defaults=True):
    """Limits for all workers of a data directory together. None: as much as the collections allow."""

    workers: int = 0  # that share the limits; 0: as many as the command line says
    hosts_at_once: int | None = None
    bandwidth: int | None = None  # bytes a second
    share: float = 1.0  # of the hosts that would be visited otherwise
    paused: bool = False
    why: Message | str = ""  # reason of the pause, for monitoring


UNLIMITED = ResourceLimits()
_decode = msgspec.json.Decoder(ResourceLimits).decode


def limits_path(data: DataDirectory) -> Path:
    return data.run / "orders.json"


def write_limits(data: DataDirectory, limits: ResourceLimits) -> None:
    """Write the limits; the workers apply them at their next look. They replace those of an earlier supervisor."""
    path = limits_path(data)
    if limits == UNLIMITED:
        path.unlink(missing_ok=True)
    else:
        write_atomically(path, msgspec.json.encode(limits), durable=False)


class NodeLimits:
    """`trouble`: why nothing may be fetched now; None if it may."""

    def __init__(self, data: DataDirectory, limits: ResourceLimits, print_line: Callable[[str], None]) -> None:
        self._data, self._limits, self._print_line = data, limits, print_line
        self._written = False
        self.trouble: Message | None = None

    def set(self, limits: ResourceLimits) -> None:
        if limits != self._limits:
            self._limits = limits
            self.write()

    def refresh(self) -> None:
        """Check the disk again, and pause or resume the workers."""
        before, self.trouble = self.trouble, disk_trouble(self._data, self.trouble)
        if before != self.trouble:
            self._written = False
            self._print_line(str(self.trouble) if self.trouble else "there is room on the disk again; going on")
        if not self._written:
            self.write()

    def write(self) -> None:
        ordered = PAUSED_BY_ORDER if self._limits.paused else None
        why = joined([one for one in (ordered, self.trouble) if one is not None])
        try:
            write_limits(self._data, replace(self._limits, paused=bool(why), why=why))
            self._written = True
        except OSError:
            self._written = False


def disk_trouble(data: DataDirectory, before: Message | None) -> Message | None:
    """Why the disk is too full to fetch anything, `before` being the last answer; None if it is not."""
    free = shutil.disk_usage(data.root).free
    needed = data_dir.FREE_BYTES_MIN * (RESUME_ABOVE if before else PAUSE_BELOW)
    if free >= needed:
        return None
    return before or message(
        "paused: the disk is nearly full ({free} MB left, {needed} MB needed)",
        free=str(free >> 20),
        needed=str(int(needed) >> 20),
    )


class ResourceShare:
    """One worker's part of the limits; `connections_max` is its number of connections."""

    def __init__(self, data: DataDirectory, workers: int, connections_max: int) -> None:
        self._path, self._workers, self._connections_max = limits_path(data), workers, connections_max
        self._seen: tuple[int, ...] | None = None
        self.current = UNLIMITED
        self.reload()

    def reload(self) -> bool:
        """Read the file again; returns whether the limits changed."""
        seen = file_fingerprint(self._path)
        if seen == self._seen:
            return False
        before, self._seen, self.current = self.current, seen, UNLIMITED
        if seen:
            with contextlib.suppress(OSError, msgspec.MsgspecError):
                self.current = _decode(self._path.read_bytes())
        return before != self.current

    @property
    def workers(self) -> int:
        return max(1, self.current.workers or self._workers)

    def hosts_allowed(self, most: int, share: float) -> int:
        """How many hosts may be visited at once, of `most` that would be visited otherwise."""
        if self.current.paused:
            return 0
        most = min(most, self._connections_max)
        if self.current.hosts_at_once is not None:
            most = min(most, -(-self.current.hosts_at_once // self.workers))
        return max(1, int(most * min(share, self.current.share)))

    @property
    def bandwidth(self) -> float | None:
        return None if self.current.bandwidth is None else max(1.0, self.current.bandwidth / self.workers)


class LoopLag:
    """The lag of this process's event loop, to tell a slow host from an overloaded machine. `run` is a task of that
    loop; `lag_s` may be called at any time.

    A busy machine reads late what arrived long ago, and would blame the host for its own delay. A timer rings ten times
    a second, and how late each tick came is recorded: a loop that was late for its own timer was late for transfers,
    too.
    """

    def __init__(self, clock: Callable[[], float] = boottime) -> None:
        self._clock = clock
        self._late: deque[tuple[float, float]] = deque(maxlen=LATE_TICKS_MAX)  # time of the tick, its lag
        self._due = float("inf")

    async def run(self) -> None:
        """Tick until cancelled."""
        while True:
            self.expect_tick()
            await asyncio.sleep(LAG_TICK_S)
            self.tick()

    def expect_tick(self) -> None:
        """Schedule the next tick."""
        self._due = self._clock() + LAG_TICK_S

    def tick(self) -> None:
        """Record the tick that was due."""
        late = self._clock() - self._due
        if late > LAG_JITTER_S:
            self._late.append((self._clock(), late))
        self._due = float("inf")

    def lag_s(self, since: float) -> float:
        """Seconds by which the loop was late after the boot time `since`; an overdue tick counts as well."""
        total = 0.0
        for rang_at, late in reversed(self._late):
            if rang_at <= since:
                break
            total += min(late, rang_at - since)
        now = self._clock()
        overdue = min(now - self._due, now - since)
        return total + overdue if overdue > LAG_JITTER_S else total


class OverloadControl:
    """Limits how many hosts one worker visits at once. `hosts_max` returns the maximum for a given share of the
    hosts."""

    def __init__(self, sessions: Sized, hosts_max: Callable[[float], int], notices: WorkerNotices) -> None:
        self._sessions, self._hosts_max, self._notices = sessions, hosts_max, notices
        self._share = 1.0  # of the hosts that the collections allow
        self._starved_at = 0.0
        self._unreached: set[HostId] = set()
        self._paused_at = 0.0

    # -- for the worker ----------------------------------------------------------------------------------------

    def hosts_at_once(self) -> int:
        return self._hosts_max(self._share)

    def room(self) -> int:
        """How many more hosts may be visited; negative: the surplus."""
        return self.hosts_at_once() - len(self._sessions)

    def recover(self) -> None:
        """Raise the number of hosts step by step to the former one."""
        if self._share == 1.0 or boottime() - self._starved_at <= RECOVERY_S:
            return
        self._share, self._starved_at = min(1.0, self._share * 1.25), boottime()
        if self._share == 1.0:
            self._notices.set_busy("")

    @property
    def is_offline(self) -> bool:
        return len(self._unreached) >= OFFLINE_HOSTS

    def assume_online(self) -> None:
        """Count this machine as online again, until as many hosts are unreachable as before."""
        self._unreached.clear()

    def is_pausing(self) -> bool:
        """Whether this machine is offline, and its pause, which begins with the first call, has not passed."""
        if not self.is_offline:
            return False
        now = boottime()
        self._paused_at = self._paused_at or now
        if now - self._paused_at > OFFLINE_PAUSE_S:
            self.assume_online()
            self._paused_at = 0.0
        return self.is_offline

    # -- for its host sessions ---------------------------------------------------------------------------------

    def is_place_wanted(self, *, holds_address: bool) -> bool:
        """Whether another host could use a session's place: there is no room for more, or it holds an address."""
        return holds_address or self.room() <= 0

    def note_overload(self) -> None:
        """Visit fewer hosts for a while, with a notice: a time limit passed because this machine was too slow."""
        now = boottime()
        if now - self._starved_at > STARVED_PAUSE_S:
            self._share = max(SHARE_MIN, self._share / 2)
            self._starved_at = now
        hosts = self.hosts_at_once()
        self._notices.set_busy(
            message("this machine is too busy; hosts visited at once: {hosts}; allow fewer", hosts=hosts)
        )

    def note_reachability(self, host: HostId, reached: bool) -> bool:
        """Note whether a host was reached; returns whether so many different hosts in a row were unreachable that this
        machine must be offline."""
        if reached:
            self._unreached.clear()
        else:
            self._unreached.add(host)
        return self.is_offline
