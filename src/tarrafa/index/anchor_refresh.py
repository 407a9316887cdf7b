"""AnchorRefresher: finds pages whose links have changed since they were indexed, so that they are indexed again.

Promises: every page is compared with the newest links in the end; reading takes bounded steps, and goes by positions
that the index has stored. Knows nothing of tantivy or commits: the follower writes, and says when it has committed.
"""

import logging
from collections.abc import Iterator
from contextlib import suppress
from itertools import groupby, islice
from operator import attrgetter

from tarrafa.archive.projection import COMMIT_IDLE_S, PageKey
from tarrafa.archive.warc_reader import ArchiveEntry, read_entry
from tarrafa.clock import boottime
from tarrafa.errors import DataError
from tarrafa.graph.reader import GraphReader, NodeStanding
from tarrafa.index.document_builder import BATCH_RECORDS, link_standings
from tarrafa.index.document_fields import (
    ANCHORS_IN_LINKS_RATIO,
    ENOUGH_ANCHORS_HASH,
    IN_LINKS_RATIO,
    LINK_FACTOR_RATIO,
    LOWER_LINK_FACTOR_RATIO,
    LinkStanding,
    indexed_standing,
    link_factor,
)
from tarrafa.index.index_state import FIRST, IndexedPage, IndexedStanding, IndexedVisits, read_links_version
from tarrafa.model import UrlId
from tarrafa.runtime.data_dir import DataDirectory

log = logging.getLogger(__name__)
PAGES_PER_READ = 500  # pages per query of a sweep
PAUSE_S_MIN, PAUSE_TIMES = 0.5, 9.0  # between two sweeps: a multiple of the duration of the last one
FAST_PAUSE_S = 60.0  # longer by this in a fast crawl, which makes pages stale as quickly as they are written


def is_stale(then: IndexedStanding, now: IndexedStanding) -> bool:
    """Whether in-links, anchors or rank of a page have clearly changed; anchors that are not known may have changed."""
    few, many = sorted((then.in_links, now.in_links))
    before, after = link_factor(then.rank), link_factor(now.rank)
    ranked = after >= LINK_FACTOR_RATIO * before or before >= LOWER_LINK_FACTOR_RATIO * after
    renamed = then.anchors != now.anchors or now.anchors is None
    return ranked or (many > 0 and many >= (ANCHORS_IN_LINKS_RATIO if renamed else IN_LINKS_RATIO) * few)


StalePage = tuple[IndexedPage, LinkStanding]  # a page to be written again, and its present links


class AnchorRefresher:
    """Finds pages whose in-links, anchors or rank have changed, so that they are indexed again.

    A page is indexed seconds after its visit, when few of its in-links are known: it has few anchors and a low link
    factor. Pages are found in sweeps over all pages, in steps of bounded time, and are written again from their record
    in the archive, without a visit: if their in-links are four times as many or few, if they have doubled or halved and
    the anchors are others (most links to a page have the same texts; a page with eight has enough), or if the link
    factor has clearly changed. A sweep runs only if the graph has changed since the last one, and only after a commit:
    while other work goes on, sweeps are rare, and take at most a tenth of the time, in a fast crawl once a minute; when
    there was none for as long as the last sweep took, the next one begins at once and settles everything. A page whose
    in-links double twice between two sweeps is written once: the number of writes grows with the logarithm of the
    in-links.
    """

    def __init__(self, data: DataDirectory, visits: IndexedVisits) -> None:
        self._archive, self._visits = data.archive, visits
        self._settled = read_links_version(data)
        self._stale: Iterator[StalePage] | None = None  # pages of the running sweep
        self.is_written = False  # all pages of the sweep are written, and not committed yet
        self._links = ""  # the version of links and ranks of the running sweep
        self._took_s, self._next_at, self._look_at = 0.0, boottime(), 0.0

    def is_due(self, graph: GraphReader, now: float, idle_s: float, *, is_fast: bool) -> bool:
        """Whether a sweep is running, or another one must start. `idle_s`: since when nothing was to be read."""
        if self._stale is None and self._may_begin(now, idle_s, is_fast):
            self._look_at = now + PAUSE_S_MIN
            with suppress(DataError):  # the graph may be being rebuilt
                self._links = " ".join(graph.version())
                if self._links != self._settled:
                    self._stale, self._took_s = self._sweep(graph), 0.0
        return self._stale is not None and not self.is_written

    @property
    def is_running(self) -> bool:
        return self._stale is not None

    def _may_begin(self, now: float, idle_s: float, is_fast: bool) -> bool:
        is_idle = idle_s >= max(COMMIT_IDLE_S, self._took_s)  # the last records are just committed
        return now >= self._look_at and (is_idle or now >= self._next_at + (FAST_PAUSE_S if is_fast else 0.0))

    def next_entry(self) -> tuple[ArchiveEntry, LinkStanding] | None:
        """The archive record of the next page to write again, with its links; None at the end of a sweep."""
        assert self._stale is not None
        try:
            for page, standing in self._stale:
                if self._visits.newest(page.collection, page.key) == page.visit:
                    entry = read_entry(self._archive, page.file, page.start)
                    if entry is not None:
                        return entry, standing
        except DataError as error:  # a permanent error is also met and reported by the follower itself
            log.warning("pages are written anew later: %s", error)
            self._links = ""
        return None

    def add_time(self, took_s: float) -> None:
        """Add processor time to this sweep."""
        self._took_s += took_s

    def note_committed(self, now: float) -> None:
        """The index is committed: a sweep whose pages are all written has ended."""
        if not self.is_written:
            return
        self._visits.note_links_version(self._links)
        self._settled, self._stale, self.is_written = self._links, None, False
        self._next_at = now + max(PAUSE_S_MIN, PAUSE_TIMES * self._took_s)

    def _sweep(self, graph: GraphReader) -> Iterator[StalePage]:
        after: PageKey | None = FIRST
        by_collection = attrgetter("collection")
        while after is not None:
            pages, after = self._visits.shown_pages(after, PAGES_PER_READ)
            for collection, group in groupby(sorted(pages, key=by_collection), by_collection):
                some = list(group)
                present = graph.standings([page.key for page in some], collection)
                doubtful = (page for page in some if is_stale(page.standing, _without_anchors(page, present)))
                while batch := list(islice(doubtful, BATCH_RECORDS)):
                    standings = link_standings(graph, [page.key for page in batch], collection)
                    for page, standing in zip(batch, standings, strict=True):
                        if is_stale(page.standing, indexed_standing(standing)):
                            yield page, standing


def _without_anchors(page: IndexedPage, present: dict[UrlId, NodeStanding]) -> IndexedStanding:
    """The present standing of a page: its anchors are looked up only if that decides. With more in-links, enough
    anchors are still enough.
    """
    then = page.standing
    in_links, rank = present.get(page.key, (0, then.rank))
    has_enough = then.anchors == ENOUGH_ANCHORS_HASH and in_links >= then.in_links
    return IndexedStanding(in_links, rank, ENOUGH_ANCHORS_HASH if has_enough else None)
