"""Cache of search results, valid for one commit of the index and at most some seconds.

Promises: the same request on the same commit of the index is answered once and then cached, the ones used last,
CACHED_HITS_MAX hits in all; a new commit, a shard more or less, or a changed file of the operator empties the cache.
Other sources of a result (present in-links, the content of other shards) are at most CACHE_AGE_MAX_S older than it.
Errors are never cached. For any number of threads. Knows nothing of HTTP or HTML.
"""

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from time import monotonic, perf_counter

import msgspec

from tarrafa.errors import DataError
from tarrafa.index.reader import newest_commit
from tarrafa.index.shards import parts
from tarrafa.model import SearchResult
from tarrafa.runtime.data_dir import DataDirectory, file_fingerprint
from tarrafa.search.request import SearchRequest

CACHED_HITS_MAX = 10_000  # some 10 MB
CACHE_AGE_MAX_S = 10.0
OPERATOR_FILES = ("search.toml", "takedown.jsonl")  # below DATA: what those who run the engine decided

SearchFunction = Callable[[SearchRequest], SearchResult]
IndexVersionSource = Callable[[], Hashable]  # differs when the answers may


@dataclass(frozen=True, slots=True)
class _CachedResult:
    result: SearchResult
    until: float

    @property
    def weight(self) -> int:
        return 1 + len(self.result.hits)


class SearchResultCache:
    """A cache in front of a searcher."""

    def __init__(
        self,
        ask: SearchFunction,
        moment: IndexVersionSource,
        most: int = CACHED_HITS_MAX,
        now: Callable[[], float] = monotonic,
    ) -> None:
        self._ask, self._moment, self._most, self._now = ask, moment, most, now
        self._lock = threading.Lock()
        self._kept: OrderedDict[SearchRequest, _CachedResult] = OrderedDict()
        self._weight = 0
        self._of: Hashable = None

    def search(self, question: SearchRequest) -> SearchResult:
        """The result, cached or new. `time_s` is the time of this call."""
        started = perf_counter()
        moment = self._moment()
        with self._lock:
            if moment != self._of:
                self._kept.clear()
                self._of, self._weight = moment, 0
            kept = self._kept.get(question)
            if kept is not None and kept.until > self._now():
                self._kept.move_to_end(question)
                return msgspec.structs.replace(kept.result, time_s=round(perf_counter() - started, 6))
        result = self._ask(question)
        if not any(report.trouble for report in result.shards):
            self._store(question, moment, _CachedResult(result, self._now() + CACHE_AGE_MAX_S))
        return result

    def _store(self, question: SearchRequest, moment: Hashable, new: _CachedResult) -> None:
        with self._lock:
            if moment != self._of:  # the index has changed during the search
                return
            old = self._kept.pop(question, None)
            self._kept[question] = new
            self._weight += new.weight - (old.weight if old is not None else 0)
            while self._weight > self._most:
                _, dropped = self._kept.popitem(last=False)
                self._weight -= dropped.weight


def index_version(data: DataDirectory) -> Hashable:
    """The newest commit of each part of an index, and the files that may change what is shown of it."""
    try:
        commits = [_commit(part) for part in parts(data)]
    except DataError:  # the searcher reports it
        commits = []
    return *commits, *(file_fingerprint(data.root / name) for name in OPERATOR_FILES)


def _commit(part: DataDirectory) -> tuple[int, ...]:
    try:
        return newest_commit(part)
    except DataError:
        return ()
