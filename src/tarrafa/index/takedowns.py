"""Applies takedowns to the index: removes what is taken down and restores what is lifted.

Promises: what is taken down is deleted with the next commit, and never written while it is; what is lifted is written
again from the archive, as its visits have it. Search need not ask the index for what `obeys` says that it has taken
out already: that is said after the commit, and unsaid before the next change. Until then search leaves it out by
itself (`search/exclusion_filter.py`), so nothing shows in between. A crash repeats work and changes nothing. Knows
nothing of documents: the follower writes them.
"""

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import apsw
import tantivy

from tarrafa.archive import warc_reader as archive
from tarrafa.archive.warc_reader import ArchiveEntry, Cursor
from tarrafa.errors import data_error_from_os
from tarrafa.index import schema, shards
from tarrafa.index.document_fields import split_url_id
from tarrafa.model import VisitRecord
from tarrafa.runtime.data_dir import DataDirectory, write_atomically
from tarrafa.runtime.sqlite import SqliteErrors, rows
from tarrafa.takedown import CurrentTakedowns, TakedownSet, TakedownTarget

TABLE = "CREATE TABLE IF NOT EXISTS withheld (kind TEXT, name TEXT, PRIMARY KEY (kind, name)) WITHOUT ROWID"


def _marker_path(data: DataDirectory) -> Path:
    return data.index / "withheld"


def is_applied(data: DataDirectory, orders: TakedownSet) -> bool:
    """Whether nothing of what is taken down is in a snapshot that is taken after this."""
    try:
        return _marker_path(data).read_bytes() == orders.digest
    except OSError:
        return False


def clear_applied(data: DataDirectory) -> None:
    """Nobody can rely on it from now on."""
    try:
        _marker_path(data).unlink(missing_ok=True)
    except OSError as error:
        raise data_error_from_os(error, _marker_path(data)) from None


def replace_with(data: DataDirectory, successor: DataDirectory) -> None:
    """What could be relied on of another index, holds here from now on."""
    with suppress(FileNotFoundError):
        _marker_path(successor).replace(_marker_path(data))


def lifted_entries(
    data: DataDirectory, before: set[TakedownTarget], orders: TakedownSet, upto: Cursor
) -> Iterator[ArchiveEntry]:
    """Every visit, as far as the archive was read, to what was taken down before and is so no longer. Reads all of
    it."""
    gone = TakedownSet(before - orders.targets)
    if not gone:
        return
    ours = shards.url_filter(data)
    wanted = gone.covers if ours is None else lambda url: ours(url) and gone.covers(url)
    for entry in archive.follow(data.archive, {}, wanted=wanted, upto=upto):
        if not orders.covers(entry.record.url):
            yield entry


class IndexTakedowns:
    """The orders, and what the index has made of them; on the connection of its visits."""

    def __init__(self, data: DataDirectory, path: Path, connection: apsw.Connection, errors: SqliteErrors) -> None:
        self._data, self._taken_down = data, CurrentTakedowns(data)
        self._path, self._connection, self._errors = path, connection, errors
        self.orders = self._taken_down.now()
        self._settled: TakedownSet | None = None  # what the committed index keeps to, if that is known for certain
        with errors:
            connection.execute(TABLE)
            self._before = {
                TakedownTarget(kind, name) for kind, name in rows(connection, "SELECT kind, name FROM withheld")
            }

    def covers(self, record: VisitRecord) -> bool:
        return self.orders.covers(record.url)

    def has_changes(self) -> bool:
        """Whether something was taken down or lifted since; the first time, whether there is anything to make sure
        of."""
        self.orders = self._taken_down.now()
        if self._settled is None:
            return bool(self.orders or self._before)
        return self.orders is not self._settled and self.orders.targets != self._settled.targets

    def delete_documents(self, writer: tantivy.IndexWriter) -> None:
        """Take out what was taken down since."""
        clear_applied(self._data)
        added = TakedownSet(self.orders.targets - (self._settled.targets if self._settled is not None else set()))
        with schema.tantivy_errors(self._path):
            for site in added.sites:
                writer.delete_documents_by_term(schema.SITE, site)
            for host in added.hosts:
                for name in (host, f"{host}."):
                    writer.delete_documents_by_term(schema.HOST, name)
            for url in added.urls:
                writer.delete_documents_by_term(schema.ID_HIGH, split_url_id(url)[0])

    def lifted_entries(self, upto: Cursor) -> Iterator[ArchiveEntry]:
        return lifted_entries(self._data, self._before, self.orders, upto)

    def mark_applied(self) -> None:
        """The index is committed, and keeps to the orders."""
        with self._errors, self._connection:
            self._connection.execute("DELETE FROM withheld")
            self._connection.executemany("INSERT INTO withheld VALUES (?, ?)", sorted(self.orders.targets))
        self._before, self._settled = set(self.orders.targets), self.orders
        try:
            write_atomically(_marker_path(self._data), self.orders.digest, durable=False)
        except OSError as error:
            raise data_error_from_os(error, _marker_path(self._data)) from None
