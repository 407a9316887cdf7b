"""Tables of an archive in Parquet files, which DuckDB, Polars and Spark open as they are.

    DIR/pages/file=NAME/START.parquet      what the archive file NAME has from the offset START on
    DIR/{visits,links,hosts,entities}/...  the same parts
    DIR/manifest.json                      which parts there are, what they hold, and the takedowns they obey

A *part* is a stretch of one archive file, in all tables. Promises: a second run adds only what is new; a part is
written beside its name, and is in the manifest when all of its files are complete and durable, so that a run that was
killed is repeated from its last part. A run removes what was taken down or deleted since the last one: it writes those
parts again that have rows of it, and all parts if a takedown was lifted. Memory is bounded by `PART_VISITS_MAX`,
`PART_BYTES_MAX` and DuckDB's own limit. One run at a time.
DuckDB writes the files: it is one library of 24 MB, which also answers SQL over them (decision 0346).
"""

import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from types import UnionType
from typing import IO, TYPE_CHECKING, Any, get_args, get_origin, get_type_hints

import msgspec

from tarrafa.archive.deletion_log import ArchiveDeletions
from tarrafa.archive.warc_reader import ArchiveEntry, follow, meta_path, read_notes, visit_lengths
from tarrafa.errors import ConfigError, DataError, DiskFull, Locked, write_errors
from tarrafa.export.archive_export import Progress
from tarrafa.export.record_list import plain_text
from tarrafa.export.table_rows import TABLES, RowMaker, TableContents, TableRow
from tarrafa.model import HostNote
from tarrafa.parse.public_suffix import PublicSuffixes
from tarrafa.parse.robots_meta_usage import Use
from tarrafa.runtime.data_dir import DataDirectory, sync_directory, try_lock, write_atomically
from tarrafa.runtime.public_suffix_list import bundled_suffix_list
from tarrafa.takedown import CurrentTakedowns, TakedownSet, TakedownTarget

if TYPE_CHECKING:
    import duckdb

FORMAT = 1
MANIFEST, LOCK, SCRATCH = "manifest.json", "lock", "scratch"
PART_VISITS_MAX, PART_BYTES_MAX = 20_000, 512 << 20  # of rows before they are packed
MEMORY_LIMIT, THREADS = "1GB", 2  # of DuckDB; each thread sets aside two rows of the largest size
ROW_BYTES_MAX = 32 << 20  # of one row; DuckDB sets aside twice as much
ROWS_PER_GROUP, PAGES_PER_GROUP = 122_880, 4_096  # a group is in memory while it is written
URLS_AT_ONCE = 10_000
MANIFEST_BYTES_MAX = 1 << 30
SQL_TYPES = {str: "VARCHAR", int: "BIGINT", float: "DOUBLE", bool: "BOOLEAN", datetime: "TIMESTAMP"}
_encode = msgspec.json.Encoder().encode


class TablePart(msgspec.Struct, frozen=True):
    """A stretch of an archive file, and the rows of each table."""

    start: int
    end: int
    rows: dict[str, int]
    reserved: int = 0  # pages left out, because their publisher reserves the use


class TableManifest(msgspec.Struct):
    """What the tables hold, part by part; `targets` and `deleted`: the takedowns and deletions they obey."""

    use: Use | None
    with_text: bool
    parts: dict[str, list[TablePart]] = {}
    targets: list[tuple[str, str]] = []
    deleted: dict[str, float] = {}
    format: int = FORMAT

    def part_path(self, root: Path, table: str, file: str, start: int) -> Path:
        return root / table / f"file={file}" / f"{start:012d}.parquet"

    def paths(self, root: Path, table: str) -> list[Path]:
        return [self.part_path(root, table, file, part.start) for file, parts in self.parts.items() for part in parts]

    def rows(self) -> dict[str, int]:
        """The number of rows of each table."""
        every = [part for parts in self.parts.values() for part in parts]
        return {table: sum(part.rows[table] for part in every) for table in TABLES}


@dataclass(frozen=True, slots=True)
class TableSummary:
    """What a run has done: rows of each table in all parts, the parts that are new, those that were written again, and
    the pages left out for their use."""

    rows: dict[str, int]
    added: int
    rewritten: int
    reserved: int


def check_duckdb() -> None:
    """Say what is missing before a long computation, not after it."""
    try:
        import duckdb as _  # noqa: F401
    except ImportError:
        raise ConfigError("tables need DuckDB: pip install 'tarrafa[sql]'") from None


def read_manifest(root: Path) -> TableManifest | None:
    """The manifest of a folder with tables; None without one."""
    path = root / MANIFEST
    try:
        with path.open("rb") as file:
            content = file.read(MANIFEST_BYTES_MAX)
        found = msgspec.json.decode(content, type=TableManifest)
    except FileNotFoundError:
        return None
    except (msgspec.MsgspecError, UnicodeDecodeError, OSError) as error:
        raise DataError(f"{path}: cannot be read ({error}); --force makes all tables anew") from None
    if found.format != FORMAT:
        raise DataError(f"{path}: of another version of Tarrafa; --force makes all tables anew")
    return found


def export_tables(
    data: DataDirectory, root: Path, contents: TableContents, progress: Progress, *, force: bool = False
) -> TableSummary:
    """Bring the tables of a folder up to date; `force`: make them anew."""
    check_duckdb()
    with _locked(root, force=force):
        if force:
            _remove_tables(root)
        manifest = read_manifest(root) or TableManifest(contents.use, contents.with_text)
        if (manifest.use, manifest.with_text) != (contents.use, contents.with_text):
            raise ConfigError(
                f"{root}: these tables were made {_described(manifest.use, manifest.with_text)}; give the same options,"
                " another folder, or --force to make them anew"
            )
        (root / SCRATCH).mkdir(exist_ok=True)
        with write_errors(root), _duckdb(root) as connection:
            return _TableRun(data, root, manifest, contents, connection).run(progress)


def _described(use: Use | None, with_text: bool) -> str:
    return f"{f'--for {use}' if use else 'for any use'}, {'with' if with_text else 'without'} texts"


@contextmanager
def _locked(root: Path, *, force: bool) -> Iterator[None]:
    """The folder, for one run at a time; one that has other files in it is refused."""
    with write_errors(root):
        if root.is_dir() and not (root / MANIFEST).exists() and (others := _other_names(root)):
            raise ConfigError(f"{root}: has other files ({sorted(others)[0]}); name a new or an empty folder")
        root.mkdir(parents=True, exist_ok=True)
    lock = try_lock(root / LOCK)
    if lock is None:
        raise Locked(f"{root}: another export is writing these tables; try again later")
    with lock:
        try:
            yield
        finally:
            shutil.rmtree(root / SCRATCH, ignore_errors=True)


def _other_names(root: Path) -> set[str]:
    return {path.name for path in root.iterdir()} - {*TABLES, MANIFEST, f"{MANIFEST}.new", LOCK, SCRATCH}


def _remove_tables(root: Path) -> None:
    (root / MANIFEST).unlink(missing_ok=True)
    for table in TABLES:
        shutil.rmtree(root / table, ignore_errors=True)


class _TableRun:
    """One run over the archive."""

    def __init__(
        self,
        data: DataDirectory,
        root: Path,
        manifest: TableManifest,
        contents: TableContents,
        connection: "duckdb.DuckDBPyConnection",
    ) -> None:
        self._data, self._root, self._manifest, self._contents = data, root, manifest, contents
        self._connection = connection
        self._orders = CurrentTakedowns(data).now()
        self._deletions = ArchiveDeletions(data.archive)
        self._deleted = dict(self._deletions.latest())
        self._suffixes = PublicSuffixes(bundled_suffix_list())
        self._added = self._rewritten = 0

    def run(self, progress: Progress) -> TableSummary:
        upto = visit_lengths(self._data.archive)
        self._drop_unknown(upto)
        known = {file: parts[-1].end for file, parts in self._manifest.parts.items() if parts}
        stale = list(self._stale_parts(progress))
        total = sum(upto.values()) - sum(known.values()) + sum(part.end - part.start for _, part in stale)
        with progress("writing tables", total) as tell:
            for file, part in stale:
                for again in self._write_parts(file, part.start, part.end, tell):
                    self._replace(file, again)
            self._obey()
            for file, end in upto.items():
                for part in self._write_parts(file, known.get(file, 0), end, tell):
                    self._manifest.parts.setdefault(file, []).append(part)
                    self._save()
                    self._added += 1
        every = [part for parts in self._manifest.parts.values() for part in parts]
        return TableSummary(self._manifest.rows(), self._added, self._rewritten, sum(part.reserved for part in every))

    def _save(self) -> None:
        write_atomically(self._root / MANIFEST, _encode(self._manifest))

    def _obey(self) -> None:
        """Note what all parts now obey."""
        targets: list[tuple[str, str]] = sorted((one.kind, one.name) for one in self._orders.targets)
        is_new = not (self._root / MANIFEST).exists()
        if is_new or self._rewritten or (targets, self._deleted) != (self._manifest.targets, self._manifest.deleted):
            self._manifest.targets, self._manifest.deleted = targets, self._deleted
            self._save()

    # -- what is no longer right -----------------------------------------------------------------------------------

    def _drop_unknown(self, upto: dict[str, int]) -> None:
        """Forget the parts of archive files that are gone or shorter, and delete files that the manifest does not
        name: a run that was killed left them."""
        parts = self._manifest.parts
        gone = [file for file, some in parts.items() if some and some[-1].end > upto.get(file, 0)]
        for file in gone:
            del parts[file]
        if gone:
            self._save()
        for table in TABLES:
            named = set(self._manifest.paths(self._root, table))
            for path in (self._root / table).glob("*/*"):
                if path not in named:
                    path.unlink()

    def _stale_parts(self, progress: Progress) -> Iterator[tuple[str, TablePart]]:
        """The parts with rows that takedowns or deletions since have touched."""
        before = {TakedownTarget(kind, name) for kind, name in self._manifest.targets}  # type: ignore[arg-type]
        added, is_lifted = TakedownSet(self._orders.targets - before), bool(before - self._orders.targets)
        deleted = {name for name, at in self._deleted.items() if at > self._manifest.deleted.get(name, -1.0)}
        if not (added or is_lifted or deleted):
            return
        every = [(file, part) for file, parts in self._manifest.parts.items() for part in parts]
        with progress("looking for what was taken down", len(every)) as tell:
            for file, part in every:
                tell(1)
                if is_lifted or self._has_rows_of(file, part, added, deleted):
                    yield file, part

    def _has_rows_of(self, file: str, part: TablePart, added: TakedownSet, deleted: set[str]) -> bool:
        names = {table: str(self._manifest.part_path(self._root, table, file, part.start)) for table in TABLES}
        sql = "SELECT DISTINCT collection FROM read_parquet(?)"
        if deleted & {name for (name,) in self._connection.execute(sql, [names["visits"]]).fetchall()}:
            return True
        sql = "SELECT url FROM read_parquet(?) UNION SELECT dst FROM read_parquet(?)"
        found = self._connection.execute(sql, [names["visits"], names["links"]])
        while several := found.fetchmany(URLS_AT_ONCE):
            if any(added.covers(url) for (url,) in several):
                return True
        return False

    def _replace(self, file: str, part: TablePart) -> None:
        """Put a part that was written again into the manifest. (It may be several: of an older size.)"""
        parts = [one for one in self._manifest.parts[file] if not part.start <= one.start < part.end]
        self._manifest.parts[file] = sorted([*parts, part], key=lambda one: one.start)
        self._rewritten += 1

    # -- writing ---------------------------------------------------------------------------------------------------

    def _write_parts(self, file: str, start: int, end: int, tell: Callable[[int], None]) -> Iterator[TablePart]:
        """Write the tables of a stretch of an archive file, part by part."""
        entries = follow(self._data.archive, {file: start}, upto={file: end})
        first = next(entries, None)
        while first is not None:
            self._data.check_space()
            targets = {name: self._manifest.part_path(self._root, name, file, start) for name in TABLES}
            with _PartWriter(self._root / SCRATCH, targets, self._connection) as writer:
                maker = RowMaker(self._suffixes, self._orders.covers, self._contents)
                last = first
                for last in self._some(first, entries, writer):
                    tell(last.end - last.start)
                    if not self._deletions.covers(last.record):
                        for table, row in maker.rows(last):
                            writer.add(table, row)
                for _, _, note in read_notes(meta_path(self._data.archive, file), start, last.end):
                    if isinstance(note, HostNote):
                        maker.note(note)
                for row in maker.host_rows():
                    writer.add("hosts", row)
                writer.publish()
                yield TablePart(start, last.end, writer.rows, maker.reserved)
            start, first = last.end, next(entries, None)

    def _some(
        self, first: ArchiveEntry, entries: Iterator[ArchiveEntry], writer: "_PartWriter"
    ) -> Iterator[ArchiveEntry]:
        """As many visits as make a part."""
        yield first
        count = 1
        while count < PART_VISITS_MAX and writer.size < PART_BYTES_MAX and (entry := next(entries, None)) is not None:
            yield entry
            count += 1


class _PartWriter:
    """Writes the rows of one part: as lines of JSON first, which DuckDB packs. Use it in a `with`."""

    def __init__(self, scratch: Path, targets: dict[str, Path], connection: "duckdb.DuckDBPyConnection") -> None:
        self._scratch, self._targets, self._connection = scratch, targets, connection
        self.rows, self.size = dict.fromkeys(TABLES, 0), 0
        self._opened, self._lines = ExitStack(), dict[str, IO[bytes]]()

    def __enter__(self) -> "_PartWriter":
        for table in TABLES:
            self._lines[table] = self._opened.enter_context(self._path(table).open("wb"))
        return self

    def __exit__(self, *_: object) -> None:
        self._opened.close()
        for table in TABLES:
            self._path(table).unlink(missing_ok=True)

    def _path(self, table: str) -> Path:
        return self._scratch / f"{table}.jsonl"

    def add(self, table: str, row: TableRow) -> None:
        try:
            line = _encode(row)
        except UnicodeEncodeError:  # a lone surrogate
            line = _encode(_plain(row))
        self.size += self._lines[table].write(line + b"\n")
        self.rows[table] += 1

    def publish(self) -> None:
        """Make the Parquet files, and give them their names when all are complete and durable."""
        self._opened.close()
        made = [(self._pack(table), target) for table, target in self._targets.items()]
        for new, target in made:
            target.parent.mkdir(parents=True, exist_ok=True)
            new.replace(target)
        for _, target in made:
            sync_directory(target.parent)

    def _pack(self, table: str) -> Path:
        new = self._scratch / f"{table}.parquet"
        columns = ", ".join(f"\"{name}\": '{kind}'" for name, kind in columns_of(TABLES[table]).items())
        source = (
            f"read_json({quoted(self._path(table))}, format = 'newline_delimited', columns = {{{columns}}},"
            f" maximum_object_size = {ROW_BYTES_MAX})"
        )
        group = PAGES_PER_GROUP if table == "pages" else ROWS_PER_GROUP
        options = f"FORMAT parquet, COMPRESSION zstd, ROW_GROUP_SIZE {group}"
        self._connection.execute(f"COPY (SELECT * FROM {source}) TO {quoted(new)} ({options})")  # noqa: S608 (ours)
        with new.open("rb") as file:
            os.fsync(file.fileno())
        return new


def columns_of(row: type[TableRow]) -> dict[str, str]:
    """The columns of a table with their SQL types."""
    return {name: _sql_type(kind) for name, kind in get_type_hints(row).items()}


def _sql_type(kind: Any) -> str:
    if get_origin(kind) is UnionType:  # a value or None
        return _sql_type(get_args(kind)[0])
    if get_origin(kind) is list:
        return f"{_sql_type(get_args(kind)[0])}[]"
    if issubclass(kind, msgspec.Struct):
        fields = ", ".join(f'"{name}" {_sql_type(one)}' for name, one in get_type_hints(kind).items())
        return f"STRUCT({fields})"
    return SQL_TYPES[kind]


def _plain(value: Any) -> Any:
    """The same with texts that UTF-8 has."""
    return _without_surrogates(msgspec.to_builtins(value))


def _without_surrogates(value: Any) -> Any:
    if isinstance(value, str):
        return plain_text(value)
    if isinstance(value, list):
        return list(map(_without_surrogates, value))
    if isinstance(value, dict):
        return {name: _without_surrogates(one) for name, one in value.items()}
    return value


def quoted(path: Path) -> str:
    return "'" + str(path).replace("'", "''") + "'"


@contextmanager
def _duckdb(root: Path) -> Iterator["duckdb.DuckDBPyConnection"]:
    """A connection without a file of its own; its errors are ours."""
    import duckdb

    connection = duckdb.connect(":memory:")
    connection.execute(f"SET memory_limit = '{MEMORY_LIMIT}'; SET temp_directory = {quoted(root / SCRATCH)}")
    connection.execute(f"SET threads = {THREADS}")
    try:
        yield connection
    except duckdb.Error as error:
        text = str(error).partition("\n")[0]
        if "No space left" in text:
            raise DiskFull(f"{root}: the disk is full ({text}); free some space and run the command again") from None
        raise DataError(f"{root}: {text}") from None
    finally:
        connection.close()
