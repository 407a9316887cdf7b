"""Delays logins after wrong passwords, doubling per address and account.

Promises: FREE_ATTEMPTS attempts of an address, or for an account, are free; after the last of them, and after each
further one, there is a wait, twice as long as the one before, up to a maximum; a right password resets address and
account. However many addresses and names are tried, KEPT_MAX of each are remembered: those used last. A waiting client
costs no work. Unknown names are treated as known ones.

The maximum for an account is short, because anyone who knows a name can make its owner wait; for an address it may be
long.
"""

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass

FREE_ATTEMPTS = 4
FIRST_WAIT_S = 1.0
ADDRESS_WAIT_MAX_S, ACCOUNT_WAIT_MAX_S = 900.0, 10.0
FORGOTTEN_AFTER_S = 3_600.0
KEPT_MAX = 10_000


@dataclass(slots=True)
class _LoginAttempts:
    wrong: int
    last: float
    until: float


class LoginThrottle:
    """Attempts and waiting times. `now` never goes back."""

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._tries: dict[str, OrderedDict[str, _LoginAttempts]] = {"address": OrderedDict(), "account": OrderedDict()}

    def wait_s(self, address: str, account: str) -> float:
        """Seconds until the next attempt; 0: it is allowed now."""
        now, until = self._now(), 0.0
        for kind, name in (("address", address), ("account", account)):
            found = self._tries[kind].get(name)
            if found is not None:
                until = max(until, found.until)
        return max(0.0, until - now)

    def record_attempt(self, address: str, account: str) -> None:
        """Count an attempt, before its result is known, so that many parallel ones do not count as one."""
        for kind, name, most in (("address", address, ADDRESS_WAIT_MAX_S), ("account", account, ACCOUNT_WAIT_MAX_S)):
            if name:
                self._count(self._tries[kind], name, most)

    def record_success(self, address: str, account: str) -> None:
        self._tries["address"].pop(address, None)
        self._tries["account"].pop(account, None)

    def _count(self, tries: OrderedDict[str, _LoginAttempts], name: str, wait_max_s: float) -> None:
        now = self._now()
        found = tries.get(name)
        if found is None or now - found.last > FORGOTTEN_AFTER_S:
            found = tries[name] = _LoginAttempts(0, now, 0.0)
        found.wrong, found.last = found.wrong + 1, now
        if found.wrong >= FREE_ATTEMPTS:
            found.until = now + min(FIRST_WAIT_S * 2.0 ** min(found.wrong - FREE_ATTEMPTS, 20), wait_max_s)
        tries.move_to_end(name)
        if len(tries) > KEPT_MAX:
            tries.popitem(last=False)
