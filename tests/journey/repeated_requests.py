"""Which requests were made again after a kill, and which of them break the promise of ARCHITECTURE.md.

The promise: of each host the last two answers (one page that waits for the parser, one that waits for its commit), and
what was answered within the last half second, may be requested again; nothing else. A commit takes longer where several
processes wait for a processor, and half a second is as many times longer there. In any case, all that is requested
again of one host lies within half a second: the last of it begins so long after the first answer. A worker whose
frontier server was killed notices that within half a second.
"""

import os
import threading
from collections import defaultdict, deque
from collections.abc import Iterable, Sequence
from itertools import pairwise
from pathlib import Path
from statistics import fmean
from types import TracebackType
from typing import NamedTuple, Self

from tarrafa.testweb.http.request_log import LoggedRequest

ANSWERED_S_MAX = NOTICED_S_MAX = UNREPORTED_S_MAX = 0.5
LAST_PER_HOST = 2
SAMPLE_EVERY_S, SAMPLES = 0.05, 40
NO_KILL = -1


class Load(NamedTuple):
    """Threads per processor; at least 1."""

    now: float = 1.0
    lately: float = 1.0


IDLE = Load()


class RunQueue:
    """How many threads share a processor: in the mean of the last two seconds, and of the last minute."""

    def __init__(self) -> None:
        self._ended, self._runnable = threading.Event(), deque[int](maxlen=SAMPLES)
        self._thread = threading.Thread(target=self._sample, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._ended.set()
        self._thread.join()

    def _sample(self) -> None:
        while not self._ended.wait(SAMPLE_EVERY_S):
            self._runnable.append(int(Path("/proc/loadavg").read_text().split()[3].partition("/")[0]) - 1)  # not us

    def load(self) -> Load:
        processors = os.cpu_count() or 1
        now, lately = fmean(self._runnable or [0]) / processors, os.getloadavg()[0] / processors
        return Load(max(1.0, now), max(1.0, lately))


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


def broken_promises(repeated: Iterable[RepeatedRequest], load: Load = IDLE) -> list[str]:
    repeated = list(repeated)
    broken = [f"{one.request.url} was requested twice for no reason" for one in repeated if one.kill == NO_KILL]
    for group in _by_host(repeated).values():
        group.sort(key=lambda one: one.answered_s)
        old = (one for one in group[LAST_PER_HOST:] if one.answered_s > ANSWERED_S_MAX * load.now)
        broken += [f"{one.request.url} was answered {one.answered_s:.2f} s before the kill" for one in old]
        if (span_s := _span_s(group)) > UNREPORTED_S_MAX * load.lately:
            broken.append(f"{group[0].request.host}: a request {span_s:.2f} s after an answer that was not reported")
    return broken


def describe_repeated(repeated: Sequence[RepeatedRequest], kills: int, load: Load = IDLE) -> str:
    groups = _by_host(repeated).values()
    oldest_s = max((one.answered_s for one in repeated), default=0.0)
    return (
        f"{kills} kills: {len(repeated)} requests repeated, at most {max(map(len, groups), default=0)} of a host at one"
        f" kill, within {max(map(_span_s, groups), default=0.0):.2f} s, the oldest answered {max(0.0, oldest_s):.2f} s"
        f" before; {len(broken_promises(repeated, load))} breaches (load {load.now:.1f} now, {load.lately:.1f} lately)"
    )


def _by_host(repeated: Iterable[RepeatedRequest]) -> dict[tuple[int, str], list[RepeatedRequest]]:
    """Those after each kill, of each host."""
    found = defaultdict[tuple[int, str], list[RepeatedRequest]](list)
    for one in repeated:
        if one.kill != NO_KILL:
            found[one.kill, one.request.host].append(one)
    return found


def _span_s(group: Sequence[RepeatedRequest]) -> float:
    """From the first answer to the start of the last request."""
    return max(one.request.start for one in group) - min(one.request.sent for one in group)
