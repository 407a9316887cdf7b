"""Offline reads of the frontier's SQLite file: a consistent snapshot for export, beside a running frontier or without
one.

One read transaction on the file: SQLite shows it as it was when the first row was read, whoever goes on writing. So a
crawl need not stop to be copied exactly. While it lasts, the owner's log of changes (`-wal`) cannot be folded in, and
grows by what is written meanwhile.
"""

from pathlib import Path
from types import TracebackType

import apsw

from tarrafa.clock import Clock
from tarrafa.errors import DataError
from tarrafa.frontier.store.frontier_store import FrontierStore
from tarrafa.frontier.store.leases import LeaseClock
from tarrafa.frontier.store.schema import FrontierDatabase, check_schema
from tarrafa.frontier.transfer.host_export import ExportBatch, ExportCatalogue, FrontierCursor
from tarrafa.runtime.sqlite import open_sqlite_readonly


class FrontierSnapshot:
    """Gives a frontier's images from its file. Use it in a `with`."""

    def __init__(self, path: Path, clock: Clock) -> None:
        self._path = path
        try:
            self._connection = open_sqlite_readonly(path)
            self._connection.config(apsw.SQLITE_DBCONFIG_ENABLE_QPSG, 1)  # see schema.py
            check_schema(FrontierDatabase(self._connection), path)
            self._connection.execute("BEGIN")
            self._store = FrontierStore(FrontierDatabase(self._connection), clock, LeaseClock())
        except apsw.Error as error:
            raise DataError(f"{path}: {error}") from None

    def __enter__(self) -> "FrontierSnapshot":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._connection.close()

    async def export_catalogue(self) -> ExportCatalogue:
        return self._store.transfer.export_catalogue()

    async def export_hosts(self, after: FrontierCursor, limit: int) -> ExportBatch:
        try:
            return self._store.transfer.export_hosts(after, limit)
        except apsw.Error as error:
            raise DataError(f"{self._path}: {error}") from None

    def count_urls(self) -> dict[str, int]:
        """How many URLs each collection has."""
        return {one.name: one.known for one in self._store.collections.status()}
