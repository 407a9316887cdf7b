"""SQLite files: opens them, checks their format, and reports their errors.

Promises: every SQLite file of a data directory is opened here, so that all wait equally long for another writer and
sync as said. A new file gets its tables and its format number in one transaction. A file of another format is refused.
Reading creates no file and changes none. Every `apsw.Error` inside `errors` becomes one `DataError` whose message says
which file, what is wrong and what to do.
Knows nothing of tables.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Literal

import apsw

from tarrafa.errors import DISK_FULL_ERRNOS, DataError, DiskFull, Locked, data_error_from_os
from tarrafa.i18n import Message, joined, message

BUSY_TIMEOUT_MS = 10_000  # how long a process waits for another one that writes
OWNER_ONLY_MODE = 0o600

JournalMode = Literal["wal", "off"]
SyncMode = Literal["normal", "full", "off"]


class SqliteErrors:
    """Turns the errors of SQLite into ours. A `with` statement may enter it again and again, also nested."""

    __slots__ = ("_connection", "_path", "_remedy")

    def __init__(self, path: Path, connection: apsw.Connection | None = None, remedy: Message | str = "") -> None:
        self._path, self._connection, self._remedy = path, connection, remedy

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if isinstance(error, apsw.Error):
            raise self.translate(error) from None

    def translate(self, error: apsw.Error) -> DataError:
        if self._is_disk_full(error):
            return DiskFull(
                message(
                    "{path}: the disk is full ({error}); free some space and run the command again",
                    path=self._path,
                    error=error,
                )
            )
        if isinstance(error, apsw.BusyError | apsw.LockedError):
            return Locked(
                message(
                    "{path}: another process is writing it ({error}); try again later", path=self._path, error=error
                )
            )
        if isinstance(error, apsw.CorruptError | apsw.NotADBError):
            damaged = message("{path}: cannot be used, it is damaged ({error})", path=self._path, error=error)
            return DataError(joined([one for one in (damaged, self._remedy) if one]))
        if isinstance(error, apsw.ReadOnlyError):
            return DataError(
                message(
                    "{path}: cannot be written ({error}); check the permissions of the file",
                    path=self._path,
                    error=error,
                )
            )
        unusable = message("{path}: cannot be used ({error})", path=self._path, error=error)
        return DataError(joined([one for one in (unusable, self._remedy) if one]))

    def _is_disk_full(self, error: apsw.Error) -> bool:
        if isinstance(error, apsw.FullError):
            return True
        return self._connection is not None and self._connection.system_errno in DISK_FULL_ERRNOS


@dataclass(frozen=True, slots=True)
class SqliteFile:
    """One SQLite file. `format` is the number of its layout (`PRAGMA user_version`); 0: the layout has no number.
    `remedy` says in an error message what to do when the file cannot be used."""

    path: Path
    format: int = 0
    remedy: Message | str = ""

    def errors(self, connection: apsw.Connection | None = None) -> SqliteErrors:
        return SqliteErrors(self.path, connection, self.remedy)

    def open(
        self,
        schema: str = "",
        *,
        journal: JournalMode = "wal",
        sync: SyncMode = "normal",
        cache_kib: int = 0,
        owner_only: bool = False,
        busy_timeout_ms: int = BUSY_TIMEOUT_MS,
    ) -> apsw.Connection:
        """A connection that writes; it creates the file and its tables where they are missing."""
        if owner_only:
            restrict_to_owner(self.path)
        with self.errors():
            connection = apsw.Connection(str(self.path))
        try:
            with self.errors(connection):
                connection.set_busy_timeout(busy_timeout_ms)
                if self.format and connection.pragma("user_version"):
                    self.check_format(connection)  # first: a file of another format is left as it is
                connection.pragma("journal_mode", journal)
                connection.pragma("synchronous", sync)
                if cache_kib:
                    connection.pragma("cache_size", -cache_kib)
                self._create_tables(connection, schema)
        except BaseException:
            connection.close()
            raise
        return connection

    def _create_tables(self, connection: apsw.Connection, schema: str) -> None:
        if not self.format:
            connection.execute(schema)
            return
        if connection.pragma("user_version") == 0:
            connection.execute("BEGIN IMMEDIATE")  # after an error, closing the connection rolls it back
            if connection.pragma("user_version") == 0:  # another process may have been faster
                connection.execute(schema)
                connection.pragma("user_version", self.format)
            connection.execute("COMMIT")

    def open_readonly(self) -> apsw.Connection:
        """A connection for reading, beside a process that may be writing."""
        with self.errors():
            connection = open_sqlite_readonly(self.path)
            if self.format:
                self.check_format(connection)
        return connection

    @contextmanager
    def writing(
        self,
        schema: str = "",
        *,
        sync: SyncMode = "normal",
        owner_only: bool = False,
        busy_timeout_ms: int = BUSY_TIMEOUT_MS,
    ) -> Iterator[apsw.Connection]:
        """One write transaction, on a connection of its own."""
        connection = self.open(schema, sync=sync, owner_only=owner_only, busy_timeout_ms=busy_timeout_ms)
        try:
            with self.errors(connection), connection:
                yield connection
        finally:
            connection.close()

    @contextmanager
    def reading(self) -> Iterator[apsw.Connection]:
        """One read transaction."""
        connection = self.open_readonly()
        try:
            with self.errors(connection), connection:
                yield connection
        finally:
            connection.close()

    def check_format(self, connection: apsw.Connection) -> None:
        found = connection.pragma("user_version")
        if found != self.format:
            other = message(
                "{path}: written by another version of Tarrafa (format {found}, this one reads {format});"
                " nothing was changed",
                path=self.path,
                found=str(found),
                format=str(self.format),
            )
            raise DataError(joined([one for one in (other, self.remedy) if one]))

    def found_format(self) -> int:
        """The format of the existing file; 0: there is none, or it has no tables yet."""
        if not self.path.exists():
            return 0
        with self.errors():
            connection = open_sqlite_readonly(self.path)
            try:
                return int(connection.pragma("user_version"))
            finally:
                connection.close()

    def remove(self) -> None:
        """Delete the file and its log. The file goes last: if a kill left an old log, a new file would take it for its
        own.
        """
        for suffix in ("-wal", "-shm", ""):
            self.path.with_name(self.path.name + suffix).unlink(missing_ok=True)


def rows(connection: apsw.Connection, sql: str, bindings: tuple[object, ...] = ()) -> list[tuple[Any, ...]]:
    """All rows of a query; the types are those of its columns."""
    found: list[tuple[Any, ...]] = connection.execute(sql, bindings).fetchall()
    return found


def open_sqlite_readonly(path: Path) -> apsw.Connection:
    """Open for reading a SQLite file that another process may be writing. Nothing can be written through the
    connection. A writer that was killed while the file was new may have left a journal, which a read-only connection
    could not roll back: then the file is opened for writing, and only queried.
    """
    connection = _open(path, apsw.SQLITE_OPEN_READONLY)
    try:
        connection.pragma("schema_version")
    except apsw.ReadOnlyError:
        connection = _open(path, apsw.SQLITE_OPEN_READWRITE)  # only in this case: it would touch a damaged file
        connection.pragma("query_only", True)
    return connection


def _open(path: Path, flags: int) -> apsw.Connection:
    connection = apsw.Connection(str(path), flags=flags)
    connection.set_busy_timeout(BUSY_TIMEOUT_MS)
    return connection


def restrict_to_owner(path: Path) -> None:
    """Make a SQLite file readable by its owner only, before it is opened for writing: create it so if it is new, and
    tighten it if it is ours. The files that SQLite puts beside it later get the same mode.
    """
    try:
        with suppress(FileExistsError):
            os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, OWNER_ONLY_MODE))
        for one in (path, *(path.with_name(path.name + ending) for ending in ("-wal", "-shm", "-journal"))):
            with suppress(FileNotFoundError):
                found = one.stat()
                if found.st_uid == os.geteuid() and found.st_mode & 0o077:
                    one.chmod(OWNER_ONLY_MODE)
    except OSError as error:
        raise data_error_from_os(error, path) from None
