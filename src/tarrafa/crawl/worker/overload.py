"""Overload control: halves the number of hosts when this machine is too slow, and detects that it is offline.

Promises: each time that this machine was too slow, at most every few seconds, a worker visits half of the hosts; when
that has not happened for a while, a quarter more, until it visits all again. When very many different hosts in a row
are out of reach, this machine counts as offline.
"""

from collections.abc import Callable, Sized

from tarrafa.clock import boottime
from tarrafa.crawl.worker.stats import WorkerNotices
from tarrafa.model import HostId

OFFLINE_HOSTS = 20
OFFLINE_PAUSE_S = 30.0  # then hosts are leased again
SHARE_MIN, STARVED_PAUSE_S, RECOVERY_S = 0.05, 10.0, 60.0


class OverloadControl:
    """How many hosts one worker visits at once. `hosts_max` says how many that may be, given the share of them that
    this machine keeps up with."""

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
        """How many more hosts may be visited; below 0: so many are too many."""
        return self.hosts_at_once() - len(self._sessions)

    def recover(self) -> None:
        """Little by little, as many hosts as before."""
        if self._share == 1.0 or boottime() - self._starved_at <= RECOVERY_S:
            return
        self._share, self._starved_at = min(1.0, self._share * 1.25), boottime()
        if self._share == 1.0:
            self._notices.set_busy("")

    @property
    def is_offline(self) -> bool:
        return len(self._unreached) >= OFFLINE_HOSTS

    def assume_online(self) -> None:
        """Think of us as online, until as many hosts are out of reach as before."""
        self._unreached.clear()

    def is_pausing(self) -> bool:
        """Whether we are offline, and this was not asked for the first time a pause ago."""
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
        """A time limit passed because this machine could not keep up: visit fewer hosts for a while, and say so."""
        now = boottime()
        if now - self._starved_at > STARVED_PAUSE_S:
            self._share = max(SHARE_MIN, self._share / 2)
            self._starved_at = now
        hosts = self.hosts_at_once()
        self._notices.set_busy(f"this machine is too busy: visiting {hosts} hosts at once; allow fewer")

    def note_reachability(self, host: HostId, reached: bool) -> bool:
        """Whether so many different hosts in a row were out of reach that this machine must be offline."""
        if reached:
            self._unreached.clear()
        else:
            self._unreached.add(host)
        return self.is_offline
