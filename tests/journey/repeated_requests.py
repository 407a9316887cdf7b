"""Which requests were made again after a kill, and which of them break the promise of ARCHITECTURE.md.

The promise: of each host the last two answers (one page that waits for the parser, one that waits for its commit), and
what was answered within the last half second, may be requested again; nothing else. Where several processes share a
processor, half a second is as many times longer. A worker whose frontier server was killed notices that within half a
second.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import NamedTuple

from tarrafa.testweb.http.request_log import LoggedRequest

ANSWERED_S_MAX = NOTICED_S_MAX = 0.5
LAST_PER_HOST = 2
NO_KILL = -1


class Kill(NamedTuple):
    """Boot times: just before the signal, and when the process was gone."""

    at: float
    gone: float


class RepeatedRequest(NamedTuple):
    """A request that was made again later. `answered_s`: how long before the kill; negative: it was in flight."""

    request: LoggedRequest
    kill: int  # the number of the first kill that may be the reason
    answered_s: float


def repeated_requests(requests: Iterable[LoggedRequest], kills: Sequence[Kill]) -> list[RepeatedRequest]:
    """All requests but the last one of each URL."""
    by_url: defaultdict[str, list[LoggedRequest]] = defaultdict(list)
    for request in sorted(requests, key=lambda request: request.start):
        by_url[request.url].append(request)
    found = []
    for group in by_url.values():
        for first, second in pairwise(group):
            reasons = (
                RepeatedRequest(first, number, kill.at - first.sent)
                for number, kill in enumerate(kills)
                if first.start <= kill.gone + NOTICED_S_MAX and kill.at <= second.start
            )
            found.append(
                min(reasons, key=lambda one: abs(one.answered_s), default=RepeatedRequest(first, NO_KILL, 0.0))
            )
    return found


def broken_promises(repeated: Iterable[RepeatedRequest], busy: float = 1.0) -> list[str]:
    """`busy`: how many processes share a processor."""
    broken, by_host = list[str](), defaultdict[tuple[int, str], list[RepeatedRequest]](list)
    for one in repeated:
        if one.kill == NO_KILL:
            broken.append(f"{one.request.url} was requested twice for no reason")
        else:
            by_host[one.kill, one.request.host].append(one)
    for group in by_host.values():
        group.sort(key=lambda one: one.answered_s)
        old = (one for one in group[LAST_PER_HOST:] if one.answered_s > ANSWERED_S_MAX * busy)
        broken += [f"{one.request.url} was answered {one.answered_s:.2f} s before the kill" for one in old]
    return broken


def describe_repeated(repeated: Sequence[RepeatedRequest], kills: int, busy: float = 1.0) -> str:
    of_host = max(Counter((one.kill, one.request.host) for one in repeated).values(), default=0)
    oldest_s = max((one.answered_s for one in repeated), default=0.0)
    broken = len(broken_promises(repeated, busy))
    return (
        f"{kills} kills: {len(repeated)} requests repeated, at most {of_host} of a host at one kill, the oldest"
        f" answered {max(0.0, oldest_s):.2f} s before; {broken} break the promise (busy: {busy:.1f})"
    )
