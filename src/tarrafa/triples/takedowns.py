"""Applies takedowns to the triple store: pages to remove, and lifted pages to write again.

Promises: what is taken down is out of the store with the next commit, and never written while it is; what is lifted
is written again from the archive, as its visits have it. A crash repeats work and changes nothing. Knows nothing of
statements: the follower writes them.
"""

from collections.abc import Iterator

import apsw

from tarrafa.archive.warc_reader import ArchiveEntry, Cursor
from tarrafa.index.takedowns import lifted_entries
from tarrafa.model import UrlId
from tarrafa.runtime.data_dir import DataDirectory
from tarrafa.runtime.sqlite import rows
from tarrafa.takedown import CurrentTakedowns, TakedownSet, TakedownTarget
from tarrafa.triples.page_writer import PageWriter

PAGES_AT_ONCE = 5_000


class TriplesTakedowns:
    """The orders, and what the store has made of them."""

    def __init__(self, data: DataDirectory, connection: apsw.Connection) -> None:
        self._data, self._taken_down, self._connection = data, CurrentTakedowns(data), connection
        self.orders = self._taken_down.now()
        self._settled: TakedownSet | None = None  # what the committed store keeps to, if that is known for certain
        self._before = {
            TakedownTarget(kind, name) for kind, name in rows(connection, "SELECT kind, name FROM withheld")
        }

    def covers(self, url: str) -> bool:
        return self.orders.covers(url)

    def has_changes(self) -> bool:
        """Whether something was taken down or lifted since; the first time, whether there is anything to make sure
        of."""
        self.orders = self._taken_down.now()
        if self._settled is None:
            return bool(self.orders or self._before)
        return self.orders is not self._settled and self.orders.targets != self._settled.targets

    def pages_to_remove(self, pages: PageWriter) -> Iterator[tuple[UrlId, str]]:
        """The pages that are there and must not be. Looks at every page that states something."""
        if not self.orders:
            return
        after = 0
        while some := pages.pages_after(after, PAGES_AT_ONCE):
            after = some[-1][0]
            yield from [(key, url) for _, key, url in some if self.orders.covers(url)]

    def lifted_entries(self, upto: Cursor) -> Iterator[ArchiveEntry]:
        return lifted_entries(self._data, self._before, self.orders, upto)

    def save_targets(self) -> None:
        """The store keeps to the orders, with the commit that follows."""
        self._connection.execute("DELETE FROM withheld")
        self._connection.executemany("INSERT INTO withheld VALUES (?, ?)", sorted(self.orders.targets))

    def mark_applied(self) -> None:
        """The store is committed."""
        self._before, self._settled = set(self.orders.targets), self.orders
