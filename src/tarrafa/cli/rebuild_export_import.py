"""Commands `rebuild` and `import`; the exports of frontier, statements and captures (commands: `archive/export`)."""

import asyncio
import os
import sys
from collections.abc import AsyncIterator
from contextlib import ExitStack, asynccontextmanager, suppress
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Annotated, Literal

import typer

from tarrafa.archive.warc_reader import bytes_behind, durable_lengths, survey_archive, visit_lengths
from tarrafa.captures import follower as captures
from tarrafa.captures.reader import CapturesReader, KeyRange
from tarrafa.cli.crawl import connected
from tarrafa.cli.options import DEFAULT_DATA, Data, FrontierAddress, TokenFile
from tarrafa.cli.output import EscapedOutput, ProgressBar
from tarrafa.clock import Clock
from tarrafa.crawl.compaction.switch import recover
from tarrafa.crawl.rebuild_frontier import rebuild as rebuild_from_archive
from tarrafa.crawl.scope.collection_loader import load_collection
from tarrafa.errors import ConfigError, DataError, FrontierError
from tarrafa.frontier.address import Address, from_command_line
from tarrafa.frontier.api import Frontier
from tarrafa.frontier.export_import.checkpoint_file import (
    CheckpointContents,
    CheckpointSummary,
    ExportSource,
    fetch_catalogue,
    load_checkpoint,
    verify_checkpoint,
    write_checkpoint,
)
from tarrafa.frontier.export_import.jsonl import url_lines
from tarrafa.frontier.rpc.frontier_client import RemoteFrontier
from tarrafa.frontier.store.sqlite_frontier import FrontierSnapshot, SqliteFrontier
from tarrafa.graph import follower as graph
from tarrafa.graph.graph_writer import graph_exists
from tarrafa.index import shards
from tarrafa.index.parallel_rebuild import rebuild_in_parallel
from tarrafa.parse.robots_meta_usage import Use
from tarrafa.runtime.data_dir import DataDirectory, replace_atomically
from tarrafa.runtime.public_suffix_list import bundled_suffix_list
from tarrafa.runtime.terminal import counted, print_line, print_note
from tarrafa.takedown import TakedownEntry, read_entries
from tarrafa.triples import follower as triples
from tarrafa.triples import storage
from tarrafa.triples.nquads_export import StatementExport, check_file_name, compressed, write_nquads
from tarrafa.triples.status import triples_status

STDOUT = Path("-")
DAMAGED_SHOWN = 20
NAMES_SHOWN = 3  # of workers that prevent an export


def rebuild(
    what: Annotated[
        Literal["graph", "index", "triples", "captures", "frontier", "parse"], typer.Argument(help="What to rebuild.")
    ],
    data: Data = DEFAULT_DATA,
    collections: Annotated[
        list[Path] | None,
        typer.Option("--collection", help="frontier: collection file to use instead of the archived definition."),
    ] = None,
    base: Annotated[
        Path | None, typer.Option("--from", help="frontier: start from this file of `tarrafa export frontier`.")
    ] = None,
    force: Annotated[
        bool, typer.Option("--force", help="frontier: replace a usable frontier; the old one is kept aside.")
    ] = False,
    layout: Annotated[
        str | None,
        typer.Option(
            "--shards", metavar="N", help="index: number of shards; 1,2/4: shards 1 and 2 of 4. Default: as before."
        ),
    ] = None,
) -> None:
    """Rebuild frontier, graph, index, triples or captures.

    Stop the crawl first. The old index answers searches until the new one is complete; the disk must hold both.

    If killed, run it again: frontier and index are unchanged, the others are incomplete until then.

    parse: today's parser reads the archived bodies; graph, index and triples are made from its results. If killed, it
    goes on where it was.
    """
    directory = DataDirectory(data)
    if what == "frontier":
        print_line(rebuild_frontier(directory, collections or [], base, force=force))
        return
    if collections or base or force:
        raise ConfigError(f"--collection, --from and --force are for the frontier only, not for the {what}")
    if layout is not None and what != "index":
        raise ConfigError(f"--shards is for the index only, not for the {what}")
    directory.check_version()
    if what == "parse":
        print_line(rebuild_parse(directory))
        return
    lock = directory.try_lock()
    if lock is None:
        raise ConfigError(f"{directory.root}: a crawl runs here; stop it first")
    with lock:
        recover(directory)
        if what == "captures":
            print_line(f"captures: rebuilt, {counted(rebuild_captures(directory), 'capture')}")
            for name, offset, reason in islice(captures.damaged_records(directory), DAMAGED_SHOWN):
                print_note(f"{name}.warc.gz: damaged: the record at {offset} is left out: {reason}")
            return
        if what == "index":
            count = rebuild_index(directory, layout)
        else:
            count = rebuild_triples(directory) if what == "triples" else graph.rebuild(directory)
    print_line(f"{what}: rebuilt from {counted(count, 'visit')}")


def import_(
    what: Annotated[Literal["frontier", "warc"], typer.Argument(help="What to import.")],
    files: Annotated[
        list[Path],
        typer.Argument(metavar="FILE...", help="frontier: file written by `tarrafa export`; warc: files and folders."),
    ],
    data: Data = DEFAULT_DATA,
    collection: Annotated[
        str | None,
        typer.Option(
            "--collection", metavar="NAME", help="warc: a collection, a new name, or a collection file (FILE.toml)."
        ),
    ] = None,
    everything: Annotated[
        bool, typer.Option("--all", help="warc: keep everything, whatever the scope of the collection says.")
    ] = False,
    where: FrontierAddress = None,
    token_file: TokenFile = None,
) -> None:
    """Import an exported frontier, or WARC, ARC and WACZ files.

    frontier: its collections are added, paused. A truncated or damaged file, or a collection that exists already, is
    refused before anything changes.

    warc: WARC, ARC and WACZ files, and folders with them, into a collection: parsed, archived, searchable, and known to
    a later crawl. A new name becomes a collection of the hosts found, paused. If killed, run it again.
    """
    if what == "warc":
        if collection is None:
            raise ConfigError("--collection NAME is missing: a collection to import into, or a new name")
        if from_command_line(where, token_file) is not None:
            raise ConfigError("--frontier: WARC files are imported where the frontier's file is")
        import_warc_files(DataDirectory(data), files, collection, everything=everything)
        return
    if collection is not None or everything or len(files) != 1:
        raise ConfigError("import frontier takes one FILE, and neither --collection nor --all")
    address = from_command_line(where, token_file)
    print_note(asyncio.run(import_frontier(DataDirectory(data), files[0], address)))


def import_warc_files(data: DataDirectory, files: list[Path], collection: str, *, everything: bool) -> None:
    """Import web archives, and print what became of them."""
    from tarrafa.crawl.warc_import.import_warc import import_warc

    done = asyncio.run(import_warc(data, files, collection, ProgressBar, everything=everything))
    for name, offset, reason in done.damages:
        print_note(f"{name}: damaged at {offset:,}: {reason}")
    for what, number in sorted(done.tally.items()):
        if what.startswith("skipped"):
            print_note(f"{what}: {number:,}")
    counts, known = done.counts, f" ({done.files_known:,} imported before)" if done.files_known else ""
    older = f", {counted(counts.older, 'older version')}" if counts.older else ""
    recovered = f", {counted(done.recovered, 'visit')} recovered" if done.recovered else ""
    print_line(
        f"{done.collection}: {counted(counts.imported, 'capture')} imported from {counted(done.files, 'file')}{known},"
        f" {counted(counts.kept, 'page')} kept{older}{recovered}, {done.tally.get('damaged', 0):,} damaged"
    )
    if done.is_new:
        print_note(f"{done.collection} is a new collection of the hosts found; it is paused: nothing is fetched")


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
            progress = stack.enter_context(ProgressBar("exporting", total))
            output = sys.stdout.buffer if file == STDOUT else stack.enter_context(replace_atomically(file))
            if form != "jsonl":
                at = Clock.from_environment().now()
                summary = await write_checkpoint(found.source, output, at, archive, only, progress, found.takedowns)
                await found.check()
                return _summary_text(file, summary)
            count = 0
            async for line in url_lines(found.source, only):
                output.write(line)
                progress(1)
                count += 1
            return f"{file}: {counted(count, 'URL')}"


@dataclass(frozen=True, slots=True)
class Exported:
    """A frontier to export, the number of URLs of each collection, and all takedowns. A remote frontier is read in many
    transactions: `check` raises if it was changed meanwhile."""

    source: ExportSource
    known: dict[str, int]
    takedowns: list[TakedownEntry]
    at: tuple[Frontier, Address] | None = None

    async def check(self) -> None:
        if self.at is not None and await _count_urls(*self.at) != self.known:
            raise DataError(f"{self.at[1]}: was changed while it was read; nothing was written; export it again")


@asynccontextmanager
async def _local_source(data: DataDirectory) -> AsyncIterator[Exported]:
    """The frontier's file, at one moment."""
    data.check_version()
    if not data.frontier.exists():
        raise DataError(f"{data.frontier}: no frontier here; `tarrafa rebuild frontier` makes it from the archive")
    with FrontierSnapshot(data.frontier, Clock.from_environment()) as snapshot:
        yield Exported(snapshot, snapshot.count_urls(), read_entries(data))


@asynccontextmanager
async def _source_at(address: Address) -> AsyncIterator[Exported]:
    """A remote frontier without workers."""
    async with connected(address) as frontier:
        await frontier.export_catalogue()  # delivers links that wait for a server: they are counted, too
        known = await _count_urls(frontier, address)
        takedowns, place = list[TakedownEntry](), 0
        while (page := await frontier.takedowns(place)).entries:
            takedowns += page.entries
            place = page.end
        yield Exported(frontier, known, takedowns, (frontier, address))


async def _count_urls(frontier: Frontier, address: Address) -> dict[str, int]:
    """The number of URLs of each collection; refused while workers take part."""
    overview = await frontier.overview()
    if overview.nodes:
        names = ", ".join(node.name for node in overview.nodes[:NAMES_SHOWN])
        raise ConfigError(
            f"{address}: workers take part here ({names}): stop them first, and wait until the leases of those that"
            " were killed are over; nothing was written"
        )
    return {one.name: one.known for one in overview.collections}


def _summary_text(file: Path, found: CheckpointSummary) -> str:
    fresh = f", {counted(found.pages, 'page')} kept fresh" if found.pages else ""
    known = f"{counted(found.hosts, 'host')}, {counted(found.urls, 'URL')}"
    return f"{file}: {known}, {counted(found.visits, 'visit')} remembered{fresh}"


def export_statements(
    data: DataDirectory, file: Path, collection: str | None, use: Use | None = None, *, force: bool
) -> str:
    """Export the statements of the triple store as N-Quads; the message to print."""
    data.check_version()
    if file != STDOUT:
        check_file_name(file)
        if file.exists() and not force:
            raise ConfigError(f"{file}: exists already; nothing was changed (--force replaces it)")
    state = triples_status(data)
    with StatementExport(data, collection, use) as statements, ExitStack() as stack:
        progress = stack.enter_context(ProgressBar("exporting", state.pages if state is not None else 0))
        output = EscapedOutput() if file == STDOUT else stack.enter_context(replace_atomically(file))
        found = write_nquads(statements, stack.enter_context(compressed(output, file.name)), progress)
    left_out = f"; {counted(found.reserved, 'page')} left out: the publisher reserves {use}" if found.reserved else ""
    return f"{file}: {counted(found.statements, 'statement')} of {counted(found.pages, 'page')}{left_out}"


def export_captures(data: DataDirectory, file: Path, *, force: bool) -> str:
    """Export the index of captures as CDXJ; the message to print."""
    data.check_version()
    if file != STDOUT and file.exists() and not force:
        raise ConfigError(f"{file}: exists already; nothing was changed (--force replaces it)")
    found, count = CapturesReader(data).scan(KeyRange(), rows_max=None), 0
    with ExitStack() as stack:
        output = sys.stdout.buffer if file == STDOUT else stack.enter_context(replace_atomically(file))
        for count, capture in enumerate(found, 1):  # noqa: B007 (their number)
            output.write(f"{capture.cdxj()}\n".encode())
    return f"{file}: {counted(count, 'capture')}"


async def import_frontier(data: DataDirectory, file: Path, address: Address | None = None) -> str:
    """Import into the frontier of a data directory, or into the one at an address; the message to print."""
    with ProgressBar("checking", file.stat().st_size if file.is_file() else 0) as progress:
        contents = verify_checkpoint(file, progress)
    if address is None:
        data.create()
    if data.archive.is_dir():
        _check_archive(data, contents)
    suffixes = contents.header.catalogue.suffixes
    opened = _open_frontier(data, suffixes) if address is None else connected(address, suffixes=suffixes or None)
    async with opened as frontier:
        with ProgressBar("importing", contents.summary.urls) as progress:
            names = await load_checkpoint(frontier, contents, progress)
    with suppress(DataError):  # the follower that writes the graph delivers the in-links
        if graph_exists(data):
            graph.mark_all_undelivered(data)
    return f"{_summary_text(file, contents.summary)}; collections: {', '.join(names) or 'none'}"


def _check_archive(data: DataDirectory, contents: CheckpointContents) -> None:
    """Refuse a file older than the archive: it would reuse visit numbers, and followers would miss these visits."""
    header = contents.header
    if header.archive is None:
        return
    with ProgressBar("looking through the archive", bytes_behind(data.archive, header.archive)) as progress:
        try:
            newer = survey_archive(data.archive, progress, header.archive).visited
        except DataError:  # another machine's file of the same name: nothing in it is known
            newer = survey_archive(data.archive, progress).visited
    if names := sorted(newer & {image.name for image in header.catalogue.collections}):
        raise DataError(
            f"{data.archive}: holds visits of {', '.join(names)} that {contents.path} does not know of; nothing was"
            f" changed (`tarrafa rebuild frontier --from {contents.path}` takes both; what was exported with"
            " --frontier is imported beside the same --data)"
        )


def rebuild_frontier(data: DataDirectory, files: list[Path], base: Path | None, *, force: bool) -> str:
    """Rebuild the frontier; the message to print."""
    made = rebuild_from_archive(data, [load_collection(file) for file in files], base, ProgressBar, force=force)
    lines = [
        f"frontier: rebuilt from {counted(made.visits, 'visit')}: {counted(made.urls, 'URL')},"
        f" {counted(made.pages, 'page')}, {made.waiting:,} in the queue"
    ]
    if made.aside is not None:
        lines.append(f"the old frontier is kept as {made.aside}")
    return "\n".join([*lines, *([made.warning] if made.warning else [])])


@asynccontextmanager
async def _open_frontier(data: DataDirectory, suffixes: str) -> AsyncIterator[Frontier]:
    """The running frontier server, else the file; a new file gets the public suffix list of the export."""
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
        local = SqliteFrontier(data.frontier, Clock.from_environment(), suffixes or bundled_suffix_list())
        try:
            yield local
        finally:
            await local.close()


def rebuild_index(data: DataDirectory, divided: str | None) -> int:
    """Rebuild the index with all processors; the number of visits read. The triple store has the same shards: if its
    layout differs, it is rebuilt, too."""
    wanted = shards.parse_layout(divided, "--shards") if divided is not None else None
    with ProgressBar("indexing", sum(visit_lengths(data.archive).values())) as progress:
        count = rebuild_in_parallel(data, len(os.sched_getaffinity(0)), progress, wanted)
    there, fitting = storage.all_database_paths(data), {storage.database_path(part) for part in shards.parts(data)}
    if there and there != fitting:
        rebuild_triples(data)
    return count


def rebuild_parse(data: DataDirectory) -> str:
    """Parse all stored pages again; the message to print."""
    from tarrafa.crawl.compaction.reparse import reparse

    result = reparse(data, ProgressBar)
    for note in result.notes:
        print_note(note)
    kept = f"{result.refused:,} refused and {result.without_body:,} without a body keep their old records"
    return f"parse: {counted(result.parsed, 'page')} parsed again; {kept}"


def rebuild_captures(data: DataDirectory) -> int:
    """Rebuild the index of captures; their number."""
    size = sum(path.stat().st_size for path in captures.response_files(data.archive))
    with ProgressBar("reading captures", size) as progress:
        return captures.rebuild(data, progress)


def rebuild_triples(data: DataDirectory) -> int:
    """Rebuild the triple store; the number of visits read."""
    storage.remove_stray_parts(data)
    size = sum(visit_lengths(data.archive).values()) * len(shards.parts(data))
    with ProgressBar("reading statements", size) as progress:
        return triples.rebuild(data, progress)
