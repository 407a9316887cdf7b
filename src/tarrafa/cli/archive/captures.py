"""Commands `versions`, `show` and `diff`: the captures of a URL, one of them, and what changed between two."""

from typing import Annotated

import msgspec
import typer
from rich.markup import escape

from tarrafa.captures.capture_access import CaptureStore, CaptureText
from tarrafa.captures.reader import Capture
from tarrafa.captures.text_diff import DiffLine, TextDiff, compare_texts, to_markdown, with_context
from tarrafa.captures.timestamps import iso_date
from tarrafa.cli.options import DEFAULT_DATA, Data, Json, existing_data
from tarrafa.cli.output import console, new_table, print_bytes, print_json, print_result, print_table
from tarrafa.errors import ConfigError, NotFound
from tarrafa.runtime.terminal import counted, print_line

CONTEXT_LINES = 2
VERSIONS_SHOWN, LINES_SHOWN = 50, 100_000
DIFF_COLOURS = {" ": "", "-": "red", "+": "green"}

Url = Annotated[str, typer.Argument(help="URL of an archived page.")]
Date = Annotated[str, typer.Argument(help="Date, such as 2026 or 2026-11-18: the nearest capture.")]
Versions = Annotated[int, typer.Option("--limit", "-n", min=1, max=100_000, help="Captures to list, the newest ones.")]
Lines = Annotated[int, typer.Option("--limit", "-n", min=1, max=1_000_000, help="Lines to print.")]


class ListedCapture(msgspec.Struct, frozen=True):
    """A capture for people and programs. `note`: revisit, unchanged (a 304), noarchive."""

    timestamp: str
    at: str
    url: str
    status: str
    type: str
    bytes: int  # in the archive
    digest: str
    file: str
    offset: int
    note: str = ""


class CaptureList(msgspec.Struct, frozen=True):
    url: str
    total: int
    captures: list[ListedCapture]


class ShownCapture(msgspec.Struct, frozen=True):
    capture: ListedCapture
    title: str
    language: str
    location: str
    text: str


class ShownDiff(msgspec.Struct, frozen=True, rename={"old": "from", "new": "to"}):
    old: ListedCapture
    new: ListedCapture
    removed: int
    added: int
    cut: bool
    lines: list[str]


def versions(url: Url, data: Data = DEFAULT_DATA, limit: Versions = VERSIONS_SHOWN, as_json: Json = False) -> None:
    """List the archived captures of a URL."""
    store = CaptureStore(existing_data(data))
    store.reader.raise_if_taken_down(url)
    found = store.reader.captures_of(url, with_noarchive=True)
    if not found:
        raise NotFound(f"{url}: no capture of it is in this archive")
    print_result(CaptureList(url, len(found), [_row(one) for one in found[-limit:]]), as_json, _print_versions)


def show(
    url: Url,
    data: Data = DEFAULT_DATA,
    at: Annotated[str, typer.Option("--at", metavar="DATE", help="The nearest capture. Default: the newest.")] = "",
    as_text: Annotated[bool, typer.Option("--text", help="Print the text; so it is without an option.")] = False,
    raw: Annotated[bool, typer.Option("--raw", help="Write the bytes, decoded, to a file or program.")] = False,
    markdown: Annotated[bool, typer.Option("--markdown", help="Print the text as Markdown.")] = False,
    limit: Lines = LINES_SHOWN,
    as_json: Json = False,
) -> None:
    """Show an archived copy of a URL: text, Markdown or bytes."""
    if as_text + raw + markdown > 1 or (raw and as_json):
        raise ConfigError("--text, --raw, --markdown: one of them; --raw has no --json")
    store = CaptureStore(existing_data(data))
    capture = store.find_by_date(url, at)
    if raw:
        print_bytes(store.read(capture).body)
        return
    found = store.read_text(capture)
    text = to_markdown(found) if markdown else found.text
    text = "\n".join(text.split("\n")[:limit])
    if as_json:
        print_json(ShownCapture(_row(capture), found.title, found.language, found.location, text))
    elif markdown:
        print_line(text)
    else:
        _print_text(found, text)


def diff(
    url: Url,
    old: Date,
    new: Date,
    data: Data = DEFAULT_DATA,
    limit: Lines = LINES_SHOWN,
    context: Annotated[int, typer.Option("--context", min=0, max=1_000, help="Lines around a change.")] = CONTEXT_LINES,
    as_json: Json = False,
) -> None:
    """Show what changed in a page between two dates."""
    store = CaptureStore(existing_data(data))
    before, after = (store.read_text(store.find_by_date(url, date)) for date in (old, new))
    found = compare_texts(before.lines, after.lines)
    lines = [_diff_line(line) for line in with_context(found.lines, context)][:limit]
    if as_json:
        shown = ShownDiff(_row(before.capture), _row(after.capture), found.removed, found.added, found.is_cut, lines)
        print_json(shown)
    else:
        _print_diff(before.capture, after.capture, found, lines)


def _row(capture: Capture) -> ListedCapture:
    notes = ((capture.is_revisit, "revisit"), (capture.confirms, "unchanged"), (capture.noarchive, "noarchive"))
    return ListedCapture(
        capture.timestamp,
        iso_date(capture.timestamp),
        capture.url,
        capture.status,
        capture.mime or "",
        capture.length,
        capture.digest,
        capture.filename,
        capture.offset,
        ", ".join(note for holds, note in notes if holds),
    )


def _print_versions(found: CaptureList) -> None:
    console.print(f"[bold]{counted(found.total, 'capture')}[/] of {escape(found.url)}")
    table = new_table("time", "status", "type", "bytes", "digest", "note", left=("time", "type", "digest", "note"))
    for one in found.captures:
        digest = one.digest.removeprefix("sha1:")[:8]
        table.add_row(one.at, one.status, escape(one.type), f"{one.bytes:,}", digest, one.note)
    print_table(table)


def _print_text(found: CaptureText, text: str) -> None:
    console.print(f"[bold]{escape(found.title or found.capture.url)}[/]")
    console.print(f"[dim]{escape(found.capture.url)}, {iso_date(found.capture.timestamp)}[/]\n")
    if found.location:
        console.print(f"redirected to {escape(found.location)}")
    elif not found.text:
        print_line("no text; --raw writes the bytes")
    console.print(escape(text))


def _diff_line(line: DiffLine | None) -> str:
    return "…" if line is None else f"{line.kind} {line.text}"


def _print_diff(before: Capture, after: Capture, found: TextDiff, lines: list[str]) -> None:
    console.print(f"[bold]{escape(after.url)}[/]: {iso_date(before.timestamp)} to {iso_date(after.timestamp)}")
    if found.is_empty:
        print_line("the same text")
        return
    console.print(f"{counted(found.removed, 'line')} removed, {counted(found.added, 'line')} added\n")
    for line in lines:
        colour = DIFF_COLOURS.get(line[:1], "")
        console.print(f"[{colour}]{escape(line)}[/]" if colour else escape(line))
    if found.is_cut:
        print_line("the texts are longer than what was compared")
