"""Finds pages whose in-links or rank have changed, so that they are indexed again with new anchors.

A page is indexed seconds after its visit, when few of its in-links are known: it has few anchors and a low link factor.
Promises: pages whose in-links have at least doubled or halved since, or whose link factor has clearly changed, are
found in sweeps over all pages, in steps of bounded time, and are written again from their record in the archive,
without a visit. A sweep runs only if the graph has changed since the last one, and sweeps take at most a tenth of the
time while other work goes on; when there is none, a few seconds settle everything. A page whose in-links double twice
between two sweeps is written once: the number of writes grows with the logarithm of the in-links. Knows nothing of
tantivy: the follower writes.
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
PAGES_PER_READ = 500  # pages per query
IN_LINKS_RATIO = 2  # times
LINK_FACTOR_RATIO = 1.1  # times, of the link factor of a score
PAUSE_S_MIN, PAUSE_TIMES = 0.5, 9.0  # between two sweeps: a multiple of the duration of the last one


def is_stale(then: IndexedStanding, now: IndexedStanding) -> bool:
    """Whether in-links or rank of a page have clearly changed."""
    few, many = sorted((then.in_links, now.in_links))
    weak, strong = sorted((link_factor(then.rank), link_factor(now.rank)))
    return (many > 0 and many >= IN_LINKS_RATIO * few) or strong >= LINK_FACTOR_RATIO * weak


class AnchorRefresher:
    """Sweeps over the pages again and again, whenever the graph has changed."""

    def __init__(self, data: DataDirectory, visits: IndexedVisits) -> None:
        self._archive, self._visits = data.archive, visits
        self._settled = read_links_version(data)
        self._stale: Iterator[IndexedPage] | None = None  # pages of the running sweep
        self._links = ""  # the version of links and ranks of the running sweep
        self._took_s = self._next_at = 0.0

    def is_due(self, graph: GraphReader, now: float, committed: bool) -> bool:
        """Whether a sweep is running, or another one must start: it sees only `committed` pages."""
        if self._stale is None and committed and now >= self._next_at:
            self._took_s, self._next_at = 0.0, now + PAUSE_S_MIN
            with suppress(DataError):  # the graph may be being rebuilt
                self._links = " ".join(graph.version())
                self._stale = self._sweep(graph) if self._links != self._settled else None
        return self._stale is not None

    def next_entry(self) -> ArchiveEntry | None:
        """The archive record of the next page to write again; None at the end of a sweep."""
        assert self._stale is not None
        try:
            for written in self._stale:
                if self._visits.newest(written.collection, written.key) == written.visit:
                    entry = read_entry(self._archive, written.file, written.start)
                    if entry is not None:
                        return entry
        except DataError as error:  # a permanent error is also met and reported by the follower itself
            log.warning("pages are written anew later: %s", error)
            self._links = ""
        return None

    def add_time(self, took_s: float) -> None:
        """Add processor time to this sweep."""
        self._took_s += took_s

    def end(self, now: float) -> None:
        """All pages that were found are written and committed."""
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
    """Whether every page, in every part of the index that is kept here, was written with the present links. (Ranks are
    computed later: search corrects for the difference.)
    """
    try:
        links, _ = GraphReader(data).version()
    except DataError:
        return True
    return all(read_links_version(part).partition(" ")[0] == links for part in shards.parts(data))
