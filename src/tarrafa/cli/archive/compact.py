"""Command `compact`: removes what retention rules let go and what is to be erased, and merges small archive files."""

from typing import Annotated

import typer
from rich.markup import escape

from tarrafa.cli.options import DEFAULT_DATA, Data, Json, current_user, existing_data
from tarrafa.cli.output import ProgressBar, console, print_json
from tarrafa.clock import Clock
from tarrafa.crawl.compaction.compaction import Compaction, CompactionResult, compact
from tarrafa.runtime.terminal import counted

SHOWN_MAX = 50


def compact_command(
    data: Data = DEFAULT_DATA,
    is_dry: Annotated[bool, typer.Option("--dry-run", help="List what would go; change nothing.")] = False,
    as_json: Json = False,
) -> None:
    """Remove old versions, erase what is due, merge files.

    Orders to erase (`tarrafa takedown erase`) are carried out when their waiting time is over. Which versions of a page
    stay is said by [archive] retention of its collection: all, unless it says otherwise.

    Stop the crawl first. If killed, run it again: nothing is lost.
    """
    directory = existing_data(data)
    if is_dry:
        result, gone = Compaction(directory, ProgressBar).plan_only(None if as_json else SHOWN_MAX)
    else:
        now = Clock.from_environment().now()
        result, gone = compact(directory, ProgressBar, current_user(), now), []
    if as_json:
        fields = {name: getattr(result, name) for name in result.__struct_fields__}
        print_json(fields | ({"captures": gone} if is_dry else {}))
        return
    for timestamp, url, collection in gone:
        console.print(escape(f"{timestamp}  {collection}  {url}"))
    rest = sum(one.captures for one in result.dropped) - len(gone)
    if is_dry and rest > 0:
        console.print(f"and {counted(rest, 'capture')} more (--json lists all)")
    _print_result(result, is_dry=is_dry)


def _print_result(result: CompactionResult, *, is_dry: bool) -> None:
    for target in result.erased:
        console.print(escape(f"{target}: {'would be erased' if is_dry else 'erased'}"))
    for note in result.notes:
        console.print(escape(note))
    for one in result.dropped:
        what = f"{counted(one.versions, 'version')}, {counted(one.captures, 'capture')}, {counted(one.bytes, 'byte')}"
        fate = "would go" if is_dry else "removed"
        console.print(escape(f"{one.collection} (retention {one.retention}): {what} {fate}"))
    before, size = counted(result.pairs_before, "pair"), counted(result.bytes_before, "byte")
    if not result.rewritten:
        console.print(f"nothing to rewrite: {before} of files, {size}")
        return
    now = "" if result.bytes_after is None else f", now {counted(result.bytes_after, 'byte')}"
    verb = "would become" if is_dry else "became"
    console.print(f"{before} of files {verb} {result.pairs_after:,}: {size}{now}")
