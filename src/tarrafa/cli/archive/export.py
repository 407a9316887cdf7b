"""Commands `tarrafa export`: frontier, statements and captures; WARC, WACZ, pages and tables for other programs."""

import asyncio
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Annotated, Literal

import typer

from tarrafa.cli.options import DEFAULT_DATA, CollectionFilter, Data, FrontierAddress, TokenFile, existing_data
from tarrafa.cli.output import EscapedOutput, ProgressBar
from tarrafa.cli.rebuild_export_import import STDOUT, export_captures, export_frontier, export_statements
from tarrafa.errors import ConfigError
from tarrafa.export.archive_export import ArchiveExport, export_wacz, export_warc
from tarrafa.export.page_export import PageExportOptions, PageFormat, export_pages
from tarrafa.export.parquet_export import export_tables
from tarrafa.export.selection import Selection, parse_selection
from tarrafa.export.table_rows import TableContents
from tarrafa.frontier.address import from_command_line
from tarrafa.parse.robots_meta_usage import Use
from tarrafa.runtime.data_dir import DataDirectory, replace_atomically
from tarrafa.runtime.terminal import counted, print_note
from tarrafa.search.searcher import ONE_SEARCH_WAIT_S, Searcher
from tarrafa.triples.nquads_export import compressed

app = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode="markdown",
    help="""Export to files: frontier, WARC, WACZ, pages, tables.

    An export is a snapshot of one moment; the crawl may run meanwhile. Captures, WARC, WACZ, pages and tables are
    without what was taken down, and without the content of pages that ask not to be shown from an archive
    (noarchive).""",
)

Force = Annotated[bool, typer.Option("--force", help="Replace an existing file.")]
Site = Annotated[
    list[str] | None,
    typer.Option("--site", metavar="DOMAIN", help="Only this domain, with all hosts below it (repeatable)."),
]
Prefix = Annotated[
    list[str] | None,
    typer.Option("--prefix", metavar="URL", help="Only URLs that begin with this (repeatable)."),
]
Query = Annotated[
    str, typer.Option("--query", metavar="TEXT", help="Only the pages that a search finds.", show_default=False)
]
Since = Annotated[
    str, typer.Option("--since", metavar="DATE", help="From this date on: 2026, 2026-11-18.", show_default=False)
]
Until = Annotated[
    str, typer.Option("--until", metavar="DATE", help="Up to this date, all of it included.", show_default=False)
]
StatusFilter = Annotated[
    list[str] | None,
    typer.Option("--status", metavar="STATUS", help="Only captures with this status: 200, 3 (3xx) (repeatable)."),
]
UseOption = Annotated[
    Literal["any", "search", "ai-input", "ai-train"],
    typer.Option("--for", help="What the export is for; pages that reserve this use are left out."),
]
OutputFile = Annotated[Path, typer.Argument(help="File to write; -: standard output.")]


@app.command("frontier")
def frontier_command(
    file: Annotated[Path, typer.Argument(help="File to write; -: standard output (jsonl).")],
    data: Data = DEFAULT_DATA,
    collection: CollectionFilter = None,
    form: Annotated[
        Literal["tarrafa", "jsonl"],
        typer.Option("--format", help="tarrafa can be imported again; jsonl has one JSON object per URL."),
    ] = "tarrafa",
    force: Force = False,
    where: FrontierAddress = None,
    token_file: TokenFile = None,
) -> None:
    """Export the frontier: every collection, every host with robots.txt and delays, every URL with state, visits and
    validators.

    With --frontier, stop its workers first.
    """
    address = from_command_line(where, token_file)
    print_note(asyncio.run(export_frontier(DataDirectory(data), file, collection, form, force=force, address=address)))


@app.command("statements")
def statements_command(
    file: OutputFile,
    data: Data = DEFAULT_DATA,
    collection: CollectionFilter = None,
    use: UseOption = "any",
    force: Force = False,
) -> None:
    """Export the structured data of all pages as N-Quads, with the page as graph; the file name ends in .nq, .nq.gz or
    .nq.zst.
    """
    print_note(export_statements(DataDirectory(data), file, collection, _use(use), force=force))


@app.command("captures")
def captures_command(file: OutputFile, data: Data = DEFAULT_DATA, force: Force = False) -> None:
    """Export the index of captures as a sorted CDXJ file, with which pywb serves the archive as it lies."""
    print_note(export_captures(DataDirectory(data), file, force=force))


@app.command("warc")
def warc_command(
    file: Annotated[Path, typer.Argument(help="File to write: NAME.warc.gz; -: standard output.")],
    data: Data = DEFAULT_DATA,
    collection: CollectionFilter = None,
    site: Site = None,
    prefix: Prefix = None,
    query: Query = "",
    since: Since = "",
    until: Until = "",
    status: StatusFilter = None,
    force: Force = False,
) -> None:
    """Export the records of a selection as a WARC file; without options, of everything.

    Records are copied as they lie. A record that a selected revisit refers to comes along.
    """
    directory = existing_data(data)
    if file == STDOUT and sys.stdout.isatty():
        raise ConfigError("-: these are bytes: write them to a file (> FILE) or a program (| less)")
    if file != STDOUT and not file.name.endswith(".warc.gz"):
        raise ConfigError(f"{file}: the name must end in .warc.gz: every record is compressed")
    selection = _selection(directory, collection, site, prefix, query, since, until, status)
    with _output(file, force) as output:
        name = "export.warc.gz" if file == STDOUT else file.name
        done = export_warc(directory, selection, output, name, ProgressBar)
    _print_archive_export(file, done)


@app.command("wacz")
def wacz_command(
    file: Annotated[Path, typer.Argument(help="File to write: NAME.wacz.")],
    data: Data = DEFAULT_DATA,
    collection: CollectionFilter = None,
    site: Site = None,
    prefix: Prefix = None,
    query: Query = "",
    since: Since = "",
    until: Until = "",
    status: StatusFilter = None,
    title: Annotated[str, typer.Option("--title", help="Title of the package.", show_default=False)] = "",
    force: Force = False,
) -> None:
    """Export a selection as a WACZ package, which ReplayWeb.page opens; without options, everything."""
    directory = existing_data(data)
    if file.suffix != ".wacz":
        raise ConfigError(f"{file}: the name must end in .wacz (a package cannot be written to standard output)")
    selection = _selection(directory, collection, site, prefix, query, since, until, status)
    with _output(file, force) as output:
        done = export_wacz(directory, selection, output, title, ProgressBar)
    _print_archive_export(file, done)


@app.command("pages")
def pages_command(
    file: Annotated[
        Path, typer.Argument(help="File to write; .gz and .zst are compressed; -: standard output (JSON Lines).")
    ],
    data: Data = DEFAULT_DATA,
    form: Annotated[
        PageFormat, typer.Option("--format", help="JSON Lines with text or Markdown, or |||URL|HTML for each page.")
    ] = "text",
    collection: CollectionFilter = None,
    site: Site = None,
    prefix: Prefix = None,
    query: Query = "",
    since: Since = "",
    until: Until = "",
    use: UseOption = "any",
    content_only: Annotated[
        bool, typer.Option("--content", help="Only the main content, where it is known: without menus.")
    ] = False,
    all_versions: Annotated[bool, typer.Option("--versions", help="Every version, not only the newest.")] = False,
    force: Force = False,
) -> None:
    """Export the pages of a selection as text, Markdown or HTML, for programs that read text.

    If models read it, say for what: --for ai-train, --for ai-input. Pages that reserve this use are left out.
    """
    directory = existing_data(data)
    if file == STDOUT and form == "html":
        raise ConfigError("-: HTML of others is written to a file only")
    if content_only and form == "html":
        raise ConfigError("--content is for text and Markdown; HTML is as it was archived")
    selection = _selection(directory, collection, site, prefix, query, since, until, None)
    wanted = PageExportOptions(form, _use(use), content_only, all_versions)
    with _output(file, force) as output, compressed(output, file.name) as packed:
        done = export_pages(directory, selection, wanted, EscapedOutput() if file == STDOUT else packed, ProgressBar)
    reserved = f"; {counted(done.reserved, 'page')} left out: the publisher reserves {use}" if done.reserved else ""
    unread = f"; {counted(done.unread, 'page')} left out: the bytes cannot be read" if done.unread else ""
    print_note(f"{file}: {counted(done.pages, 'page')}{reserved}{unread}")


@app.command("parquet")
def parquet_command(
    folder: Annotated[
        Path | None,
        typer.Argument(metavar="[DIR]", help="Folder of the tables. Default: DATA/tables.", show_default=False),
    ] = None,
    data: Data = DEFAULT_DATA,
    use: UseOption = "any",
    with_text: Annotated[bool, typer.Option("--text/--no-text", help="With the texts of pages, or without.")] = True,
    force: Annotated[bool, typer.Option("--force", help="Make all tables anew.")] = False,
) -> None:
    """Export tables in Parquet: pages, visits, links, hosts, entities; a second run adds only what is new.

    DuckDB, Polars and Spark open them as they are; `tarrafa sql` queries them. Needs tarrafa[sql].
    """
    directory = existing_data(data)
    root = folder or data / "tables"
    done = export_tables(directory, root, TableContents(_use(use), with_text), ProgressBar, force=force)
    rows = ", ".join(f"{table}: {count:,}" for table, count in done.rows.items())
    again = f", {counted(done.rewritten, 'part')} written again" if done.rewritten else ""
    reserved = f"; {counted(done.reserved, 'page')} left out: the publisher reserves {use}" if done.reserved else ""
    print_note(f"{root}: {counted(done.added, 'new part')}{again}; rows of {rows}{reserved}")


def _use(text: Literal["any", "search", "ai-input", "ai-train"]) -> Use | None:
    return None if text == "any" else text


def _selection(
    data: DataDirectory,
    collection: str | None,
    site: list[str] | None,
    prefix: list[str] | None,
    query: str,
    since: str,
    until: str,
    status: list[str] | None,
) -> Selection:
    selection = parse_selection(collection, site or (), prefix or (), since, until, status or ())
    if not query:
        return selection
    if site or prefix:
        raise ConfigError("--query: write site: and inurl: into the query, instead of --site and --prefix")
    found = Searcher.open(data, patience_s=ONE_SEARCH_WAIT_S).matching_pages(query, collection)
    if found.is_cut:
        print_note(f"--query finds more pages; the first {len(found.urls):,} are exported")
    return selection.of_urls(found.urls)


@contextmanager
def _output(file: Path, force: bool) -> Iterator[IO[bytes]]:
    """A file that takes its name when it is complete, or standard output."""
    if file == STDOUT:
        yield sys.stdout.buffer
        return
    if file.exists() and not force:
        raise ConfigError(f"{file}: exists already; nothing was changed (--force replaces it)")
    with replace_atomically(file) as output:
        yield output


def _print_archive_export(file: Path, done: ArchiveExport) -> None:
    copied = done.copied
    for name, offset, reason in copied.damaged:
        print_note(f"{name}: damaged: the record at {offset} is left out: {reason}")
    pages = f", {counted(done.pages, 'page')}" if done.pages else ""
    notes = (
        (copied.damages, "damaged and left out"),
        (copied.taken_down, "taken down meanwhile and left out"),
        (done.left_out, "left out: the page they confirm asks not to be shown"),
        (done.unresolved, "without the record they refer to: it is not in the archive"),
    )
    text = "".join(f"; {count:,} {what}" for count, what in notes if count)
    size = f"{copied.bytes / (1 << 20):,.1f} MB"
    print_note(f"{file}: {counted(copied.captures, 'capture')}{pages}, {size}{text}")
