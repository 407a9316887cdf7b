"""Rebuilds, exports and imports frontier, index and triple store, with a progress bar."""

import os
import sys
from collections.abc import AsyncIterator
from contextlib import ExitStack, asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeRemainingColumn

from tarrafa.archive.warc_reader import bytes_behind, durable_lengths, survey_archive, visit_lengths
from tarrafa.clock import Clock
from tarrafa.crawl.rebuild_frontier import rebuild
from tarrafa.crawl.scope.collection_loader import load_collection as read_collection
from tarrafa.errors import ConfigError, DataError, FrontierError
from tarrafa.fetch.suffix_list import bundled_suffix_list
from tarrafa.frontier.address import Address, connect
from tarrafa.frontier.api import Frontier
from tarrafa.frontier.rpc.frontier_client import RemoteFrontier
from tarrafa.frontier.store.sqlite_frontier import FrontierSnapshot, SqliteFrontier
from tarrafa.frontier.transfer.checkpoint_file import (
    CheckpointContents,
    CheckpointSummary,
    ExportSource,
    fetch_catalogue,
    load_checkpoint,
    verify_checkpoint,
    write_checkpoint,
)
from tarrafa.frontier.transfer.jsonl import url_lines
from tarrafa.graph.follower import mark_all_undelivered
from tarrafa.graph.store import graph_exists
from tarrafa.index import shards
from tarrafa.index.parallel_rebuild import rebuild_in_parallel
from tarrafa.runtime.data_dir import DataDirectory, replace_atomically
from tarrafa.takedown import TakedownEntry, read_entries
from tarrafa.triples import follower, storage
from tarrafa.triples.nquads_export import StatementExport, check_file_name, compressed, write_nquads
from tarrafa.triples.status import triples_status

STDOUT = Path("-")
NAMES_SHOWN = 3  # of workers that stand in the way


class ProgressBar:
    """A progress bar in a terminal, nothing elsewhere. Use it in a `with`; call it with each increment."""

    def __init__(self, what: str, total: int) -> None:
        console = Console(stderr=True)
        columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.percentage:>3.0f} %"))
        self._progress = Progress(*columns, TimeRemainingColumn(), console=console, transient=True)
        self._progress.disable = not console.is_terminal
        self._task: TaskID = self._progress.add_task(what, total=max(1, total))

    def __enter__(self) -> "ProgressBar":
        self._progress.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._progress.stop()

    def __call__(self, more: int) -> None:
        self._progress.advance(self._task, more)


async def export_frontier(
    data: DataDirectory, file: Path, only: str | None, form: str, *, force: bool, address: Address | None = None
) -> str:
    """Export the frontier of a data directory, or the one at an address; the message to print."""
    if file == STDOUT and form != "jsonl":
        raise ConfigError("-: only --format jsonl can be written to standard output")
    if file != STDOUT and file.exists() and not force:
        raise ConfigError(f"{file}: exists already; nothing was changed (--force replaces it)")
    # Before the frontier: what it does not know yet is visited once more, not lost.
    archive = durable_lengths(data.archive) if address is None or data.archive.is_dir() else None
    async with _local_source(data) if address is None else _source_at(address) as found:
        await fetch_catalogue(found.source, only)  # or there is nothing to write
        total = sum(count for name, count in found.known.items() if only in (None, name))
        with ExitStack() as stack:
            tell = stack.enter_context(ProgressBar("exporting", total))
            output = sys.stdout.buffer if file == STDOUT else stack.enter_context(replace_atomically(file))
            if form != "jsonl":
                at = Clock.from_environment().now()
                summary = await write_checkpoint(found.source, output, at, archive, only, tell, found.takedowns)
                await found.check()
                return _summary_text(file, summary)
            count = 0
            async for line in url_lines(found.source, only):
                output.write(line)
                tell(1)
                count += 1
            return f"{file}: {count:,} URLs"


@dataclass(frozen=True, slots=True)
class Exported:
    """A frontier to be read, how many URLs each of its collections has, and what was ever taken down. Elsewhere it is
    read in many transactions: `check` raises if it was changed meanwhile."""

    source: ExportSource
    known: dict[str, int]
    takedowns: list[TakedownEntry]
    at: tuple[Frontier, Address] | None = None

    async def check(self) -> None:
        if self.at is not None and await _at_rest(*self.at) != self.known:
            raise DataError(f"{self.at[1]}: was changed while it was read; nothing was written; export it again")


@asynccontextmanager
async def _local_source(data: DataDirectory) -> AsyncIterator[Exported]:
    """The frontier's file, as of one moment."""
    data.check_version()
    if not data.frontier.exists():
        raise DataError(f"{data.frontier}: no frontier here; `tarrafa rebuild frontier` makes it from the archive")
    with FrontierSnapshot(data.frontier, Clock.from_environment()) as snapshot:
        yield Exported(snapshot, snapshot.count_urls(), read_entries(data))


@asynccontextmanager
async def _source_at(address: Address) -> AsyncIterator[Exported]:
    """A remote frontier, at rest."""
    frontier = await connect(address)
    try:
        known = await _at_rest(frontier, address)
        takedowns, place = list[TakedownEntry](), 0
        while (told := await frontier.takedowns(place)).entries:
            takedowns += told.entries
            place = told.end
        yield Exported(frontier, known, takedowns, (frontier, address))
    finally:
        await frontier.close()


async def _at_rest(frontier: Frontier, address: Address) -> dict[str, int]:
    """How many URLs each collection has, if no worker is there."""
    overview = await frontier.overview()
    if overview.nodes:
        names = ", ".join(node.name for node in overview.nodes[:NAMES_SHOWN])
        raise ConfigError(
            f"{address}: {len(overview.nodes)} workers take part ({names}); stop them first, and wait until the leases"
            " of those that were killed are over; nothing was written"
        )
    return {one.name: one.known for one in overview.collections}


def _summary_text(file: Path, found: CheckpointSummary) -> str:
    fresh = f", {found.pages:,} pages kept fresh" if found.pages else ""
    return f"{file}: {found.hosts:,} hosts, {found.urls:,} URLs, {found.visits:,} visits remembered{fresh}"


def export_statements(data: DataDirectory, file: Path, collection: str | None, *, force: bool) -> str:
    """Export the statements of the triple store as N-Quads; the message to print."""
    data.check_version()
    if file != STDOUT:
        check_file_name(file)
        if file.exists() and not force:
            raise ConfigError(f"{file}: exists already; nothing was changed (--force replaces it)")
    state = triples_status(data)
    with StatementExport(data, collection) as statements, ExitStack() as stack:
        tell = stack.enter_context(ProgressBar("exporting", state.pages if state is not None else 0))
        output = sys.stdout.buffer if file == STDOUT else stack.enter_context(replace_atomically(file))
        found = write_nquads(statements, stack.enter_context(compressed(output, file.name)), tell)
    return f"{file}: {found.statements:,} statements of {found.pages:,} pages"


async def import_frontier(data: DataDirectory, file: Path, address: Address | None = None) -> str:
    """Import into the frontier of a data directory, or into the one at an address; the message to print."""
    with ProgressBar("checking", file.stat().st_size if file.is_file() else 0) as tell:
        contents = verify_checkpoint(file, tell)
    if address is None:
        data.create()
    if data.archive.is_dir():
        _check_archive(data, contents)
    async with _open_frontier(data, contents) if address is None else _frontier_at(address, contents) as frontier:
        with ProgressBar("importing", contents.summary.urls) as tell:
            names = await load_checkpoint(frontier, contents, tell)
    with suppress(DataError):  # the follower that writes the graph delivers the in-links
        if graph_exists(data):
            mark_all_undelivered(data)
    return f"{_summary_text(file, contents.summary)}; collections: {', '.join(names) or 'none'}"


def _check_archive(data: DataDirectory, contents: CheckpointContents) -> None:
    """Refuse a file older than the archive: it would reuse visit numbers, and followers would miss these visits."""
    header = contents.header
    if header.archive is None:
        return
    with ProgressBar("looking through the archive", bytes_behind(data.archive, header.archive)) as tell:
        try:
            newer = survey_archive(data.archive, tell, header.archive).visited
        except DataError:  # another machine's file of the same name: nothing in it is known
            newer = survey_archive(data.archive, tell).visited
    if names := sorted(newer & {image.name for image in header.catalogue.collections}):
        raise DataError(
            f"{data.archive}: holds visits of {', '.join(names)} that {contents.path} does not know of; nothing was"
            f" changed (`tarrafa rebuild frontier --from {contents.path}` takes both; what was exported with"
            " --frontier is imported beside the same --data)"
        )


def rebuild_frontier(data: DataDirectory, files: list[Path], base: Path | None, *, force: bool) -> str:
    """Rebuild the frontier; the message to print."""
    made = rebuild(data, [read_collection(file) for file in files], base, ProgressBar, force=force)
    said = [
        f"frontier: rebuilt from {made.visits:,} visits: {made.urls:,} URLs, {made.pages:,} pages,"
        f" {made.waiting:,} waiting"
    ]
    if made.aside is not None:
        said.append(f"the old frontier is kept as {made.aside}")
    return "\n".join([*said, *([made.warning] if made.warning else [])])


@asynccontextmanager
async def _frontier_at(address: Address, contents: CheckpointContents) -> AsyncIterator[Frontier]:
    frontier = await connect(address, suffixes=contents.header.catalogue.suffixes or None)
    try:
        yield frontier
    finally:
        await frontier.close()


@asynccontextmanager
async def _open_frontier(data: DataDirectory, contents: CheckpointContents) -> AsyncIterator[Frontier]:
    """Whoever owns the frontier, else its file; a new one is made with the list that sites were found by."""
    try:
        remote = await RemoteFrontier.connect(data.socket)
    except FrontierError:
        remote = None
    if remote is not None:
        try:
            yield remote
        finally:
            await remote.close()
        return
    lock = data.try_lock()
    if lock is None:
        raise ConfigError(f"{data.root}: another Tarrafa process is starting or ending here; try again")
    with lock:
        suffixes = contents.header.catalogue.suffixes or bundled_suffix_list()
        local = SqliteFrontier(data.frontier, Clock.from_environment(), suffixes)
        try:
            yield local
        finally:
            await local.close()


def rebuild_index(data: DataDirectory, divided: str | None) -> int:
    """Rebuild the index with all processors; the number of visits read. The triple store has the same shards: if its
    layout differs, it is rebuilt, too."""
    wanted = shards.parse_layout(divided, "--shards") if divided is not None else None
    with ProgressBar("indexing", sum(visit_lengths(data.archive).values())) as tell:
        count = rebuild_in_parallel(data, len(os.sched_getaffinity(0)), tell, wanted)
    there, fitting = storage.all_database_paths(data), {storage.database_path(part) for part in shards.parts(data)}
    if there and there != fitting:
        rebuild_triples(data)
    return count


def rebuild_triples(data: DataDirectory) -> int:
    """Rebuild the triple store; the number of visits read."""
    storage.remove_stray_parts(data)
    size = sum(visit_lengths(data.archive).values()) * len(shards.parts(data))
    with ProgressBar("reading statements", size) as tell:
        return follower.rebuild(data, tell)
