"""Finds the pages that match a watched query, in the index of this data directory.

Promises: the query is that of a search where all words must occur, with the takedowns and the curation in force at that
moment; among given pages, the work grows with their number and not with that of the index.
"""

from collections.abc import Collection

from tarrafa.coordinator.watch.watch_store import WatchSettings
from tarrafa.index import shards
from tarrafa.model import UrlId
from tarrafa.runtime.data_dir import DataDirectory, file_fingerprint
from tarrafa.search.local_shard import LocalShard
from tarrafa.search.query_parser import parse
from tarrafa.search.request import SearchRequest

IDS_AT_ONCE = 1_000


class WatchedQueries:
    """Keeps the parts of the index open."""

    def __init__(self, data: DataDirectory) -> None:
        self._data = data
        self._seen: tuple[int, ...] | None = None
        self._parts: list[LocalShard] = []

    def matching(self, settings: WatchSettings, most: int) -> set[UrlId]:
        """All pages that match, up to a number. Without an index, none."""
        found = set[UrlId]()
        for part in self._open_parts():
            found |= part.matching_ids(_request(settings), most)
        return found

    def matching_among(self, settings: WatchSettings, ids: Collection[UrlId]) -> set[UrlId]:
        """Those of these pages that match."""
        wanted, found = sorted(ids), set[UrlId]()
        for start in range(0, len(wanted), IDS_AT_ONCE):
            some = wanted[start : start + IDS_AT_ONCE]
            for part in self._open_parts():
                found |= part.matching_ids(_request(settings), 2 * IDS_AT_ONCE, some)
        return found & set(ids)

    def _open_parts(self) -> list[LocalShard]:
        seen = file_fingerprint(shards.path_of(self._data))
        if seen != self._seen or not self._parts:
            self._parts = [LocalShard(part) for part in shards.parts(self._data)] if shards.exists(self._data) else []
            self._seen = seen
        return self._parts


def check_query(text: str) -> None:
    """Raise `QueryError` if it is no query."""
    parse(text, all_words=True)


def _request(settings: WatchSettings) -> SearchRequest:
    return SearchRequest(settings.what, collection=settings.collection or None, all_words=True)
