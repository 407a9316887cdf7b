"""Cache of search results, valid for one commit of the index and at most some seconds.

Promises: the same request on the same commit of the index is searched once and then cached; the results used last are
kept, CACHED_HITS_MAX hits in all; a new commit, a shard more or less, or a changed file of the operator empties the
cache. Other parts of a result (in-links, content of other shards) are at most CACHE_AGE_MAX_S old. Errors are never
cached. For any number of threads. Knows nothing of HTTP or HTML.
"""

import threading
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Hashable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from time import monotonic, perf_counter

import msgspec

from tarrafa.errors import DataError
from tarrafa.index.reader import newest_commit
from tarrafa.index.shards import parts, path_of
from tarrafa.model import SearchResult
from tarrafa.runtime.data_dir import DataDirectory, file_fingerprint
from tarrafa.search.request import SearchRequest

CACHED_HITS_MAX = 10_000  # some 10 MB
CACHE_AGE_MAX_S = 10.0
OPERATOR_FILES = ("search.toml", "takedown.jsonl")  # below DATA

SearchFunction = Callable[[SearchRequest], SearchResult]
AsyncSearchFunction = Callable[[SearchRequest], Awaitable[SearchResult]]
IndexVersionSource = Callable[[], Hashable]  # differs when results may


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
        search: SearchFunction,
        version: IndexVersionSource,
        most: int = CACHED_HITS_MAX,
        now: Callable[[], float] = monotonic,
    ) -> None:
        self._search, self._version, self._most, self._now = search, version, most, now
        self._lock = threading.Lock()
        self._kept: OrderedDict[SearchRequest, _CachedResult] = OrderedDict()
        self._weight = 0
        self._cached_version: Hashable = None

    def search(self, request: SearchRequest) -> SearchResult:
        """The result, cached or new. `time_s` is the time of this call."""
        found, version = self._cached(request)
        if found is not None:
            return found
        return self._store(request, version, self._search(request))

    async def search_by(self, search: AsyncSearchFunction, request: SearchRequest) -> SearchResult:
        """The same for an event loop: what is not cached is searched by `search`."""
        found, version = self._cached(request)
        if found is not None:
            return found
        return self._store(request, version, await search(request))

    def cached(self, request: SearchRequest) -> SearchResult | None:
        """The result if it is cached; nothing is searched."""
        return self._cached(request)[0]

    def _cached(self, request: SearchRequest) -> tuple[SearchResult | None, Hashable]:
        started = perf_counter()
        version = self._version()
        with self._lock:
            if version != self._cached_version:
                self._kept.clear()
                self._cached_version, self._weight = version, 0
            kept = self._kept.get(request)
            if kept is None or kept.until <= self._now():
                return None, version
            self._kept.move_to_end(request)
            return msgspec.structs.replace(kept.result, time_s=round(perf_counter() - started, 6)), version

    def _store(self, request: SearchRequest, version: Hashable, result: SearchResult) -> SearchResult:
        """Cache a complete result, and return it."""
        if any(report.trouble for report in result.shards):
            return result
        new = _CachedResult(result, self._now() + CACHE_AGE_MAX_S)
        with self._lock:
            if version != self._cached_version:  # the index has changed during the search
                return result
            old = self._kept.pop(request, None)
            self._kept[request] = new
            self._weight += new.weight - (old.weight if old is not None else 0)
            while self._weight > self._most:
                _, dropped = self._kept.popitem(last=False)
                self._weight -= dropped.weight
        return result


def index_version(data: DataDirectory) -> Hashable:
    """The newest commit of each part of an index, and the files that may change what is shown of it."""
    layout, *others = _files_of(data)
    try:
        commits = [_commit(part) for part in _parts_at(data, file_fingerprint(layout))]
    except DataError:  # the searcher reports it
        commits = []
    return *commits, *map(file_fingerprint, others)


@lru_cache(16)  # data directories; to make the paths takes longer than to look at the files
def _files_of(data: DataDirectory) -> list[Path]:
    """The file that names the parts of an index, and the operator's files."""
    return [path_of(data), *(data.root / name for name in OPERATOR_FILES)]


@lru_cache(16)  # data directories and their layouts
def _parts_at(data: DataDirectory, layout: tuple[int, ...]) -> list[DataDirectory]:
    """The parts of an index; `layout` identifies the file that names them."""
    return parts(data)


def _commit(part: DataDirectory) -> tuple[int, ...]:
    try:
        return newest_commit(part)
    except DataError:
        return ()
