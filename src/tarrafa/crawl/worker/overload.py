"""Overload control: halves the number of hosts when this machine is too slow, and detects that it is offline.

Promises: each time that it was too slow, at most every few seconds, it takes half of the hosts; when that has not
happened for a while, a quarter more, until it takes all again. When very many different hosts in a row are out of
reach, it says that it must be us.
"""

from tarrafa.clock import boottime
from tarrafa.model import HostId

OFFLINE_HOSTS = 20
SHARE_MIN, STARVED_PAUSE_S, RECOVERY_S = 0.05, 10.0, 60.0


class OverloadControl:
    """Of one worker."""

    def __init__(self) -> None:
        self.share = 1.0  # of the hosts that the collections allow
        self._starved_at = 0.0
        self._unreached: set[HostId] = set()

    def back_off(self) -> None:
        """A time limit passed because this machine could not keep up."""
        now = boottime()
        if now - self._starved_at > STARVED_PAUSE_S:
            self.share = max(SHARE_MIN, self.share / 2)
            self._starved_at = now

    def recover(self) -> bool:
        """Little by little, as many hosts as before; whether it is so again."""
        if self.share == 1.0 or boottime() - self._starved_at <= RECOVERY_S:
            return False
        self.share, self._starved_at = min(1.0, self.share * 1.25), boottime()
        return self.share == 1.0

    def note_host(self, host: HostId, reached: bool) -> None:
        if reached:
            self._unreached.clear()
        else:
            self._unreached.add(host)

    @property
    def is_offline(self) -> bool:
        return len(self._unreached) >= OFFLINE_HOSTS

    def assume_online(self) -> None:
        """Think of us as online, until as many hosts are out of reach as before."""
        self._unreached.clear()
