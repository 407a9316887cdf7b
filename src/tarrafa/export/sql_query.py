"""SQL over the tables of `parquet_export`, answered by DuckDB inside this process.

Promises: one statement that reads is answered, and no other; it sees the tables and nothing else of the file system,
the network or this process, and can change neither tables nor settings. Memory is bounded: what does not fit lies in
a temporary folder, up to `SPILL_MAX`. Tables that do not obey a takedown or deletion yet are refused.
A Ctrl-C ends a query at once.
"""

import tempfile
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from tarrafa.archive.deletion_log import ArchiveDeletions
from tarrafa.errors import DataError, NotReady, QueryError, QueryLimitExceeded
from tarrafa.export.parquet_export import TableManifest, check_duckdb, columns_of, quoted, read_manifest
from tarrafa.export.table_rows import TABLES
from tarrafa.runtime.data_dir import DataDirectory
from tarrafa.takedown import CurrentTakedowns, TakedownTarget

if TYPE_CHECKING:
    import duckdb

MEMORY_LIMIT, SPILL_MAX = "1GB", "20GB"
ROWS_AT_ONCE = 1_000
QUERY_CHARS_MAX = 100_000
SHOWN_CHARS_MAX = 500  # of an error
T = TypeVar("T")
NEWEST_PAGES = (
    "CREATE VIEW newest_pages AS SELECT * FROM pages WHERE (collection, url, visited_at) IN"
    " (SELECT (collection, url, max(visited_at)) FROM pages GROUP BY collection, url)"
)


class SqlAnswer(NamedTuple):
    """The columns of an answer, and its rows, some at a time."""

    columns: list[str]
    rows: Iterator[Sequence[tuple[Any, ...]]]


@contextmanager
def sql_answer(root: Path, sql: str, data: DataDirectory | None = None) -> Iterator[SqlAnswer]:
    """Answer a query over the tables of a folder. `data`: where they come from; its takedowns must be obeyed."""
    check_duckdb()
    import duckdb

    if len(sql) > QUERY_CHARS_MAX:
        raise QueryError(f"the query is too long: {len(sql):,} characters, at most {QUERY_CHARS_MAX:,}")
    manifest = read_manifest(root)
    if manifest is None:
        raise NotReady(f"{root}: no tables here; `tarrafa export parquet` makes them")
    if data is not None:
        _check_obeyed(data, manifest, root)
    with tempfile.TemporaryDirectory(prefix="tarrafa-sql-") as spill, duckdb.connect(":memory:") as connection:
        try:
            _open_tables(connection, manifest, root, spill)
            _check_statement(connection, sql)
            found = _interruptible(connection, lambda: connection.execute(sql))
            yield SqlAnswer([one[0] for one in found.description or ()], _rows(found))
        except duckdb.OutOfMemoryException as error:
            raise QueryLimitExceeded(f"the query needs more than {MEMORY_LIMIT} of memory: {_first(error)}") from None
        except duckdb.IOException as error:
            raise DataError(
                f"{root}: {_first(error)}; `tarrafa export parquet --force` makes the tables anew"
            ) from None
        except duckdb.Error as error:
            raise QueryError(_first(error)) from None


def _first(error: Exception) -> str:
    return " ".join(str(error).split("\n\n")[0].split())[:SHOWN_CHARS_MAX]


def _check_obeyed(data: DataDirectory, manifest: TableManifest, root: Path) -> None:
    known = {TakedownTarget(kind, name) for kind, name in manifest.targets}  # type: ignore[arg-type]
    deleted = ArchiveDeletions(data.archive).latest() if data.archive.is_dir() else {}
    late = [name for name, at in deleted.items() if at > manifest.deleted.get(name, -1.0)]
    if CurrentTakedowns(data).now().targets - known or late:
        raise NotReady(
            f"{root}: something was taken down or deleted since these tables were made; bring them up to date:"
            " `tarrafa export parquet`"
        )


def _open_tables(connection: "duckdb.DuckDBPyConnection", manifest: TableManifest, root: Path, spill: str) -> None:
    """Make the views, then close every way out: the settings cannot be changed after that."""
    run, allowed = connection.execute, list[str]()
    for table, row in TABLES.items():
        paths = [quoted(path) for path in manifest.paths(root, table)]
        allowed += paths
        columns = ", ".join(f'"{name}" {kind}' for name, kind in columns_of(row).items())
        if paths:
            source = f"read_parquet([{', '.join(paths)}], hive_partitioning = true)"
            run(f"CREATE VIEW {table} AS SELECT * FROM {source}")  # noqa: S608 (our own names)
        else:
            run(f"CREATE TABLE {table} ({columns}, file VARCHAR)")
    run(NEWEST_PAGES)
    for setting in (
        "python_enable_replacements = false",
        "autoinstall_known_extensions = false",
        "autoload_known_extensions = false",
        f"memory_limit = '{MEMORY_LIMIT}'",
        f"temp_directory = {quoted(Path(spill))}",
        f"max_temp_directory_size = '{SPILL_MAX}'",
        "enable_progress_bar = false",
        f"allowed_paths = [{', '.join(allowed)}]",
        "enable_external_access = false",
        "lock_configuration = true",
    ):
        run(f"SET {setting}")


def _check_statement(connection: "duckdb.DuckDBPyConnection", sql: str) -> None:
    """Only one statement, which reads."""
    import duckdb

    statements = connection.extract_statements(sql)
    if len(statements) != 1:
        raise QueryError("write one statement" if statements else "the query is empty")
    if statements[0].type not in (duckdb.StatementType.SELECT, duckdb.StatementType.EXPLAIN):
        raise QueryError("only queries are answered: SELECT, WITH, FROM, DESCRIBE, SUMMARIZE, SHOW TABLES, EXPLAIN")


def _rows(found: "duckdb.DuckDBPyConnection") -> Iterator[Sequence[tuple[Any, ...]]]:
    while some := _interruptible(found, lambda: found.fetchmany(ROWS_AT_ONCE)):
        yield some


def _interruptible(connection: "duckdb.DuckDBPyConnection", call: Callable[[], T]) -> T:
    """The result of a call that may take long. DuckDB does not hear a Ctrl-C by itself while it computes."""
    with ThreadPoolExecutor(1) as thread:
        waiting = thread.submit(call)
        try:
            return waiting.result()
        except BaseException:
            connection.interrupt()
            raise
