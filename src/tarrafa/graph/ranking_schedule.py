"""Ranking schedule: decides when the ranking process runs, and starts it.

Promises: the follower is never delayed: rankings run in a child process, one at a time. A ranking starts when
the changes since the last one (of nodes, links or statuses) are a tenth of all nodes and links, ten minutes after the
last one ended, or when the follower is idle. Rankings take at most a twentieth of one processor's time, whatever the
size of the graph: after each there is a pause of twenty times its duration, ten seconds at least. Only the ranking at
the follower's end, of a graph so small that it takes no noticeable time, does not wait for that.
"""

import math
import subprocess
from contextlib import suppress

from tarrafa.clock import boottime
from tarrafa.errors import DataError
from tarrafa.graph import rank_file
from tarrafa.runtime.child_process import child_command
from tarrafa.runtime.data_dir import DataDirectory

RANKING_GROWTH = 0.1
RANKING_AGE_S_MAX = 600.0
IDLE_S = 1.0  # without news for this long, the follower is idle
RANKING_PAUSE_S_MIN = 10.0
RANKING_PAUSE_TIMES = 20.0
FAILED_RANKING_TOOK_S = 30.0  # a failed ranking is not repeated soon
SMALL_TURNED_MAX = 500_000  # a smaller graph takes less than a second, most of it for loading numpy


class RankingScheduler:
    """Starts rankings. `turned` is the graph's own count of its changes, `incarnation` identifies its build."""

    def __init__(self, data: DataDirectory, incarnation: int) -> None:
        self._data, self._incarnation = data, incarnation
        self._child: subprocess.Popen[bytes] | None = None
        self._begun, self._ended = boottime(), -math.inf
        self._took_s = 0.0
        self._read_last()

    def _read_last(self) -> None:
        """The state of the graph at the last ranking, by any process."""
        stated = rank_file.read_header(self._data)
        known = stated is not None and stated.incarnation == self._incarnation
        self.covered = stated.turned if stated is not None and known else 0
        self._size = stated.nodes + stated.edges if stated is not None and known else 0
        self._took_s = stated.took_s if stated is not None and known else 0.0

    def is_due(self, turned: int, idle_s: float, now: float) -> bool:
        new = turned - self.covered
        pause_s = max(RANKING_PAUSE_S_MIN, RANKING_PAUSE_TIMES * self._took_s)
        if new <= 0 or now - self._ended < pause_s:
            return False
        if idle_s >= IDLE_S:
            return True
        since_s = now - max(self._begun, self._ended)
        return since_s >= pause_s and (new >= RANKING_GROWTH * self._size or since_s >= RANKING_AGE_S_MAX)

    def poll(self, turned: int, idle_s: float) -> bool:
        """Start a ranking if it is due; whether one has just ended."""
        if self._child is not None:
            return self._has_ended()
        if self.is_due(turned, idle_s, boottime()):
            command = child_command("tarrafa.graph.ranking_process", data=self._data)
            self._child = subprocess.Popen(command, stdin=subprocess.DEVNULL)
        return False

    def _has_ended(self) -> bool:
        assert self._child is not None
        code = self._child.poll()
        if code is None:
            return False
        self._child, self._ended = None, boottime()
        if code:
            self._took_s = max(self._took_s, FAILED_RANKING_TOOK_S)
            return False
        self._read_last()
        return True

    def close(self, turned: int) -> None:
        """The follower ends. A small graph is ranked once more: a search often comes next."""
        if self._child is not None:
            self._child.kill()
            self._child.wait()
            self._child = None
        if turned > self.covered and turned <= SMALL_TURNED_MAX:
            from tarrafa.graph.ranking_process import compute_rankings

            with suppress(DataError):  # such as a full disk: the next follower computes it
                compute_rankings(self._data)
            self._read_last()
