"""Who asks several shards at once?

Promises: any number of questions may ask at the same time; where there is one shard, nobody is started for it.
Knows nothing of questions.
"""

import threading
from concurrent.futures import ThreadPoolExecutor

THREADS_PER_SHARD, THREADS_MAX = 8, 512


class ShardThreads:
    """As many as so many shards need at once, made as they are needed. Those of a pool that has become too small end
    when the last question that has it is answered."""

    def __init__(self) -> None:
        self._lock, self._most = threading.Lock(), 0
        self._pool: ThreadPoolExecutor | None = None

    def pool_for(self, shards: int) -> ThreadPoolExecutor | None:
        """None: one shard is asked by whoever has the question."""
        if shards < 2:
            return None
        wanted = min(THREADS_PER_SHARD * shards, THREADS_MAX)
        with self._lock:
            if self._pool is None or self._most < wanted:
                self._pool, self._most = ThreadPoolExecutor(wanted, thread_name_prefix="asks shards"), wanted
            return self._pool
