"""Command `compact`: removes what retention rules let go and what is to be erased, and merges small archive files."""

import asyncio
from typing import Annotated

import typer
from rich.markup import escape

from tarrafa.archive.segment_log.log_mirror import mirrored_log
from tarrafa.cli.options import DEFAULT_DATA, Data, FrontierAddress, Json, current_user, existing_data
from tarrafa.cli.output import ProgressBar, console, print_json
from tarrafa.clock import Clock
from tarrafa.crawl.compaction.compaction import Compaction, CompactionResult, compact, compact_log
from tarrafa.crawl.compaction.erase_orders import due_erasures
from tarrafa.crawl.compaction.log_erasure import SharedLog
from tarrafa.crawl.supervisor.takedown_and_deletion_sync import sync_takedowns_once
from tarrafa.errors import ConfigError
from tarrafa.frontier.address import Address, from_command_line, open_manifest
from tarrafa.runtime.data_dir import DataDirectory
from tarrafa.runtime.terminal import counted, print_line

SHOWN_MAX = 50


def compact_command(
    data: Data = DEFAULT_DATA,
    where: FrontierAddress = None,
    is_dry: Annotated[bool, typer.Option("--dry-run", help="List what would go; change nothing.")] = False,
    as_json: Json = False,
) -> None:
    """Remove old versions, erase what is due, merge files.

    Orders to erase (`tarrafa takedown erase`) are carried out when their waiting time is over. Which versions of a page
    stay is said by [archive] retention of its collection: all, unless it says otherwise.

    Where machines share one archive, what is due is erased in the store and on all machines; --frontier says where the
    log is. Run it on each machine then, for its link graph, index and triple store. Small objects are merged.

    Stop the crawl on this machine first. If killed, run it again: nothing is lost.
    """
    directory = existing_data(data)
    if mirrored_log(directory) is not None:
        _compact_log(directory, from_command_line(where, None), is_dry=is_dry, as_json=as_json)
        return
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


def _compact_log(data: DataDirectory, address: Address | None, *, is_dry: bool, as_json: bool) -> None:
    now, erased, notes = Clock.from_environment().now(), list[str](), list[str]()
    if is_dry:
        erased = [str(one.target) for one in due_erasures(data, now)]
    else:
        opened = None if address is None else open_manifest(address)
        if address is None or opened is None:
            raise ConfigError("--frontier is missing: the log is ordered by a frontier in PostgreSQL")
        manifest, identity = opened
        try:
            erased, notes = compact_log(SharedLog(data, manifest, identity), ProgressBar, current_user(), now)
        finally:
            manifest.close()
        asyncio.run(sync_takedowns_once(data, address))
    if as_json:
        print_json({"erased": erased, "notes": notes})
        return
    _print_erased(erased, notes, is_dry=is_dry)
    if not erased:
        print_line("nothing is due to be erased")


def _print_erased(erased: list[str], notes: list[str], *, is_dry: bool) -> None:
    for target in erased:
        console.print(escape(f"{target}: {'would be erased' if is_dry else 'erased'}"))
    for note in notes:
        console.print(escape(note))


def _print_result(result: CompactionResult, *, is_dry: bool) -> None:
    _print_erased(result.erased, result.notes, is_dry=is_dry)
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
