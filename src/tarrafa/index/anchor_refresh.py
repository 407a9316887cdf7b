"""Finds pages whose in-links or rank have changed, so that they are indexed again with new anchors.

A page is indexed seconds after its visit, when hardly anybody is known to link to it: it has few anchors, and its
links are worth little. Promises: pages whose in-links have at least doubled or halved since, or whose links are worth
clearly more or less, are found in sweeps over all of them, in steps that are bounded in time, and are written anew
from their record in the archive, without a visit. There is a sweep only if the graph has changed since the last one,
and sweeps take a tenth of the time at most while anything else goes on; when nothing does, a few seconds settle
everything. A page that is swept between two of its doublings is written once for both: however many come to link to
it, that is only their logarithm. Knows nothing of tantivy: the follower writes.
"""

import logging
from collections.abc import Iterator
from contextlib import suppress
from itertools import groupby
from operator import attrgetter

from tarrafa.archive.warc_reader import ArchiveEntry, read_entry
from tarrafa.errors import DataError
from tarrafa.graph.reader import GraphReader
from tarrafa.index import shards
from tarrafa.index.document_fields import link_factor
from tarrafa.index.indexed_visits import FIRST, IndexedPage, IndexedStanding, IndexedVisits, PageKey, read_links_version
from tarrafa.runtime.data_dir import DataDirectory

log = logging.getLogger(__name__)
PAGES_PER_READ = 500  # pages that are looked at together
IN_LINKS_RATIO = 2  # times
LINK_FACTOR_RATIO = 1.1  # times, of what links make of a score
PAUSE_S_MIN, PAUSE_TIMES = 0.5, 9.0  # between two sweeps: so many times what the last one took


def is_stale(then: IndexedStanding, now: IndexedStanding) -> bool:
    """Whether a page stands clearly otherwise now."""
    few, many = sorted((then.in_links, now.in_links))
    weak, strong = sorted((link_factor(then.rank), link_factor(now.rank)))
    return (many > 0 and many >= IN_LINKS_RATIO * few) or strong >= LINK_FACTOR_RATIO * weak


class AnchorRefresher:
    """Goes over the pages again and again, as far as there is a reason to."""

    def __init__(self, data: DataDirectory, visits: IndexedVisits) -> None:
        self._archive, self._visits = data.archive, visits
        self._settled = read_links_version(data)
        self._stale: Iterator[IndexedPage] | None = None  # of the sweep under way
        self._links = ""  # and ranks, that it looks at
        self._took_s = self._next_at = 0.0

    def is_due(self, graph: GraphReader, now: float, committed: bool) -> bool:
        """Whether a sweep is under way, or one more is to begin: it sees only what is `committed`."""
        if self._stale is None and committed and now >= self._next_at:
            self._took_s, self._next_at = 0.0, now + PAUSE_S_MIN
            with suppress(DataError):  # it is being made again, perhaps
                self._links = " ".join(graph.version())
                self._stale = self._sweep(graph) if self._links != self._settled else None
        return self._stale is not None

    def next_entry(self) -> ArchiveEntry | None:
        """The record of the next page that is to be written anew; None at the end of a sweep."""
        assert self._stale is not None
        try:
            for written in self._stale:
                if self._visits.newest(written.collection, written.key) == written.visit:
                    entry = read_entry(self._archive, written.file, written.start)
                    if entry is not None:
                        return entry
        except DataError as error:  # what is for certain wrong, whoever follows it meets and says, too
            log.warning("pages are written anew later: %s", error)
            self._links = ""
        return None

    def add_time(self, took_s: float) -> None:
        """So much of a processor's time was spent on this sweep."""
        self._took_s += took_s

    def end(self, now: float) -> None:
        """All that was found is written and committed."""
        self._visits.note_links_version(self._links)
        self._settled, self._stale = self._links, None
        self._next_at = now + max(PAUSE_S_MIN, PAUSE_TIMES * self._took_s)

    def _sweep(self, graph: GraphReader) -> Iterator[IndexedPage]:
        after: PageKey | None = FIRST
        while after is not None:
            several, after = self._visits.shown_pages(after, PAGES_PER_READ)
            by_collection = attrgetter("collection")
            for collection, some in groupby(sorted(several, key=by_collection), by_collection):
                yield from _stale_of(list(some), collection, graph)


def _stale_of(pages: list[IndexedPage], collection: str, graph: GraphReader) -> list[IndexedPage]:
    ids = [page.key for page in pages]
    now = graph.standings(ids, collection)
    return [
        page for page in pages if is_stale(page.standing, IndexedStanding(*now.get(page.key, (0, page.standing.rank))))
    ]


def is_settled(data: DataDirectory) -> bool:
    """Whether every page, in every part of the index that is kept here, was written with the links as they are. (Ranks
    are computed later: search makes up for the difference.)"""
    try:
        links, _ = GraphReader(data).version()
    except DataError:
        return True
    return all(read_links_version(part).partition(" ")[0] == links for part in shards.parts(data))
