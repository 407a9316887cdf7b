"""Commands for collections: init, check and estimate a collection file; add, start, pause, resume, stop, delete."""

import asyncio
import json
import re
import shlex
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape

from tarrafa import credentials
from tarrafa.cli.crawl import connected
from tarrafa.cli.options import DEFAULT_DATA, Data, FrontierAddress, Json, Language, TokenFile, current_user
from tarrafa.cli.output import console, new_table, print_json, print_result, print_table
from tarrafa.clock import Clock
from tarrafa.config import Collection, encode_collection
from tarrafa.coordinator.definitions.presets import PresetRequest, preset_titles, preset_toml
from tarrafa.coordinator.node.control_socket import ControlAction, ControlRequest, send_control_request
from tarrafa.crawl.explain.frontier_lookup import resume_command
from tarrafa.crawl.scope.collection_loader import load_collection
from tarrafa.crawl.supervisor.supervisor import submit_collection
from tarrafa.crawl.supervisor.takedown_and_deletion_sync import delete_collection as delete_from_frontier
from tarrafa.crawl.supervisor.watchdog import silent_processes
from tarrafa.errors import ConfigError, Locked, Unreachable, data_error_from_os
from tarrafa.frontier.address import Address, from_command_line, local_address
from tarrafa.frontier.collection_status import set_collection_state
from tarrafa.frontier.store.sqlite_frontier import SqliteFrontier
from tarrafa.i18n import Message, Translator, joined, message, translator
from tarrafa.runtime.data_dir import DataDirectory
from tarrafa.runtime.heartbeat import is_supervised
from tarrafa.runtime.public_suffix_list import bundled_suffix_list
from tarrafa.runtime.terminal import print_line, print_note
from tarrafa.takedown import CurrentTakedowns

if TYPE_CHECKING:
    from tarrafa.coordinator.dry_run.crawl_estimate import CrawlEstimate, EstimateRange

STATE_AFTER: dict[str, str] = {"start": "running", "pause": "paused", "resume": "running", "stop": "stopped"}
LATER = "; running search processes drop its pages within seconds, others at their next start"
COLLECTION_TEMPLATE = """\
# A Tarrafa collection: what to crawl, how deep, how politely.
# `tarrafa crawl {file}` starts it, and resumes it after a stop.
name  = "{name}"
roots = [{root}]            # URLs or host names; or roots_file = "roots.txt", one per line

[scope]
# hosts = ["*.br"]            # default: exactly the hosts of the roots; *.br is everything below br
# include = ["*/news/*"]      # URL patterns: only these
# exclude = ["*/login*"]      # URL patterns: not these
# depth_max = 3               # hops from a root
pages_max = 1000

[politeness]
delay = "1s"                  # between the end of a response and the next request to the same host
contact = {contact}                  # a page or address where webmasters reach you; sent with every request
"""


def init(
    file: Annotated[Path, typer.Argument(help="File to write.")] = Path("collection.toml"),
    root: Annotated[str, typer.Option(help="First root URL.")] = "https://www.example.br/",
    preset: Annotated[str, typer.Option(help="Preset to use; --list shows them.")] = "",
    country: Annotated[
        str, typer.Option(help="Country presets: top-level domain, such as br. Default: the root's.")
    ] = "",
    contact: Annotated[str, typer.Option(help="Page or e-mail address where webmasters reach you.")] = "",
    language: Language = "en",
    listed: Annotated[bool, typer.Option("--list", help="List the presets; write nothing.")] = False,
) -> None:
    """Write a collection file to edit: plain, or from a preset."""
    if listed:
        for one, title in preset_titles(language).items():
            print_line(f"{one:14} {title}")
        return
    if file.exists():
        raise ConfigError(f"{file}: exists already; nothing was changed")
    name = re.sub(r"[^a-z0-9._-]+", "-", file.stem.lower()).strip("-._")[:60] or "collection"
    if preset:
        text = preset_toml(preset, PresetRequest(root, name, country, contact), language, file.name)
    else:
        text = COLLECTION_TEMPLATE.format(file=file.name, name=name, root=json.dumps(root), contact=json.dumps(contact))
    try:
        file.write_text(text, encoding="utf-8")
    except OSError as error:
        raise data_error_from_os(error, file) from None
    print_line(f"{file} written; edit it, then run: tarrafa crawl {shlex.quote(str(file))}")


def check(
    file: Annotated[Path, typer.Argument(help="Collection file (TOML).")],
    urls: Annotated[
        list[str] | None, typer.Argument(help="URLs to check. Default: one per line from standard input.")
    ] = None,
    data: Data = DEFAULT_DATA,
    language: Language = "en",
    as_json: Json = False,
) -> None:
    """Check which URLs are in scope, and show the deciding rule.

    Nothing is fetched. Takedowns of the data directory, if there is one, count as out.
    """
    from tarrafa.coordinator.dry_run import dry_run

    collection = load_collection(file)
    taken_down, directory, _ = (lambda url: False), DataDirectory(data), translator(language)
    if directory.version.exists():
        taken_down = CurrentTakedowns(directory).covers
    verdicts = _.render_all(dry_run.check_urls(collection, urls or sys.stdin, taken_down))
    notes = _.render_all(dry_run.unknown_before_crawl(collection))
    if collection.render.when != "never":
        notes = [*notes, _.render(_browser_note(collection.name))]
    if as_json:
        print_json({"verdicts": verdicts, "notes": notes})
        return
    for one in verdicts:
        print_line(f"{'in ' if one.inside else 'out'}  {one.canonical or one.url}  ({one.sentence})")
    print_note(f"{sum(one.inside for one in verdicts):,} in, {sum(not one.inside for one in verdicts):,} out")
    for note in notes:
        print_note(f"note: {note}")


def _browser_note(name: str) -> Message | str:
    """Whether this machine can render pages, and how the browser is held."""
    from tarrafa.crawl.render.browser import RenderUnavailable, check_browser

    try:
        held = asyncio.run(check_browser(name))
    except RenderUnavailable as error:
        return error.message
    if held == "namespace":
        return message("pages can be rendered here: Chromium runs in its sandbox, in namespaces without a network")
    return message("pages can be rendered here: Chromium runs in its sandbox, behind a proxy that refuses everything")


def estimate(
    file: Annotated[Path, typer.Argument(help="Collection file (TOML).")],
    data: Data = DEFAULT_DATA,
    workers: Annotated[int, typer.Option(min=1, max=10_000, help="Workers that would crawl it, on all machines.")] = 2,
    language: Language = "en",
    as_json: Json = False,
    where: FrontierAddress = None,
    token_file: TokenFile = None,
) -> None:
    """Estimate pages, requests, time and disk space of a crawl.

    The estimate uses what the data directory knows of the hosts, and lists its assumptions. Nothing is fetched.
    """
    from tarrafa.coordinator.dry_run.crawl_estimate import estimate as calculate
    from tarrafa.coordinator.dry_run.estimate_inputs import gather_estimate_inputs

    collection, address = load_collection(file), from_command_line(where, token_file)
    known = asyncio.run(gather_estimate_inputs(DataDirectory(data), collection, workers, address))
    _ = translator(language)
    print_result(_.render_all(calculate(collection, known)), as_json, lambda found: _print_estimate(found, _))


def _print_estimate(found: "CrawlEstimate", _: Translator) -> None:
    table = new_table("", "low", "likely", "high", left=("",), padding=(0, 2))
    rows: list[tuple[str, EstimateRange, Callable[[float], str]]] = [
        ("pages", found.pages, _.number),
        ("requests", found.requests, _.number),
        ("time", found.seconds, _.span),
        ("transferred", found.transferred_bytes, _.size),
        ("on disk", found.kept_bytes, _.size),
    ]
    for name, values, written in rows:
        high = "?" if values.high is None else written(values.high)
        table.add_row(name, written(values.low), written(values.likely), high)
    print_table(table)
    console.print(escape(f"{_.size(found.bytes_per_s)}/s on average; {found.bound}."))
    for assumption in found.assumptions:
        console.print(escape(f"- {assumption}"))


def add(
    file: Annotated[Path, typer.Argument(help="Collection file (TOML); `tarrafa init` writes one.")],
    data: Data = DEFAULT_DATA,
    where: FrontierAddress = None,
    token_file: TokenFile = None,
) -> None:
    """Add a collection file to the running node.

    The collection starts by its schedule, by `tarrafa start` or from the console. A collection that exists already
    takes the new definition and keeps its state; a finished one continues if the definition now allows more URLs.
    """
    collection, directory = load_collection(file), DataDirectory(data)
    address = from_command_line(where, token_file)
    if address is None:
        directory.check_version()

    async def submit() -> tuple[str, str]:
        if address is None:
            request = ControlRequest("add", collection.name, current_user(), encode_collection(collection))
            response = await send_control_request(directory, request)
            if response is not None:
                return response.state, response.reason
        async with connected(address or local_address(directory)) as frontier:
            row = await submit_collection(frontier, collection, start=False)
            return row.state, str(row.reason)

    try:
        state, reason = asyncio.run(submit())
    except Unreachable:
        if address is not None or is_supervised(directory):
            raise
        raise Unreachable(f"{directory.root}: nothing runs here; start `tarrafa node` first") from None
    print_line(f"{collection.name}: added; {_next_step_text(collection, state, reason)}")


def _next_step_text(collection: Collection, state: str, reason: str) -> str:
    schedule = collection.schedule
    if state not in ("ready", "waiting"):
        return f"it is {state}"
    if not (schedule.start or schedule.every):
        return f"start it with `tarrafa start {collection.name}`, or in the console"
    return f"it is {state}: {reason}" if state == "waiting" else "the coordinating node starts it by its schedule"


CollectionName = Annotated[str, typer.Argument(metavar="NAME", help="Collection; `tarrafa status` lists them.")]


def _control_command(action: ControlAction, reason: Message | str, help_text: str) -> Callable[..., None]:
    def command(
        name: CollectionName, data: Data = DEFAULT_DATA, where: FrontierAddress = None, token_file: TokenFile = None
    ) -> None:
        directory, address = DataDirectory(data), from_command_line(where, token_file)
        if address is None:
            directory.check_version()
        print_line(f"{name}: {asyncio.run(control_collection(directory, address, action, name, reason))}")

    command.__doc__ = help_text
    return command


START_HELP = "Start a collection; a finished one is crawled again."
PAUSE_HELP = """Pause a collection. Running fetches finish; nothing new starts.

Between two runs, its schedule is paused.
"""
STOP_HELP = """Stop the crawl of a collection. Nothing is lost.

`tarrafa resume NAME` (with a node) or `tarrafa crawl FILE` continues where it stopped.
"""
start = _control_command("start", message("by `tarrafa start`"), START_HELP)
pause = _control_command("pause", message("by `tarrafa pause`; `tarrafa resume` goes on"), PAUSE_HELP)
resume = _control_command("resume", "", "Resume a paused or stopped collection.")
stop = _control_command("stop", message("by `tarrafa stop`; `tarrafa crawl FILE` goes on"), STOP_HELP)


def delete(
    name: CollectionName,
    data: Data = DEFAULT_DATA,
    where: FrontierAddress = None,
    token_file: TokenFile = None,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask for confirmation.")] = False,
) -> None:
    """Delete a collection and its pages in search. The archive stays.

    The collection must not be running. Its URLs leave the frontier, its pages leave search, link graph and triple
    store. Its name is free afterwards. If interrupted, run the same command again.
    """
    directory, address = DataDirectory(data), from_command_line(where, token_file)
    if not yes:
        typer.confirm(f"Delete collection {name} and all its pages in search?", abort=True)
    print_line(delete_collection(directory, address, name))


async def control_collection(
    data: DataDirectory, address: Address | None, action: ControlAction, name: str, reason: Message | str
) -> str:
    """Act through the node that runs here, else through the frontier, with `reason`; the new state."""
    try:
        if address is None:
            response = await send_control_request(data, ControlRequest(action, name, current_user()))
            if response is not None:
                return response.state
        async with connected(address or local_address(data)) as frontier:
            await set_collection_state(frontier, name, STATE_AFTER[action], reason, again=action == "start")
    except Unreachable as error:
        if address is not None:
            raise
        if is_supervised(data):
            raise Unreachable(joined([*(one.message for one in silent_processes(data)), error.message])) from None
        raise Unreachable(f"{data.root}: nothing runs here; {resume_command(data)} goes on where it was") from None
    return STATE_AFTER[action]


def delete_collection(data: DataDirectory, address: Address | None, name: str) -> str:
    """Delete a collection of the frontier at that address, or of the data directory; the message to print."""
    from tarrafa.captures import follower as captures
    from tarrafa.graph import follower as graph
    from tarrafa.index import follower as index
    from tarrafa.triples import follower as triples

    if address is not None and (data.frontier.exists() or not data.version.exists()):
        # Nothing is archived here, or for another frontier.
        asyncio.run(_delete_through(None, address, name))
        return f"{name}: deleted{LATER}"
    if address is None:
        data.check_version()
    request = ControlRequest("delete", name, current_user())
    try:
        if address is not None or asyncio.run(send_control_request(data, request)) is None:
            asyncio.run(_delete_through(data, address or local_address(data), name))
    except Unreachable:
        if address is not None or not data.frontier.exists():
            raise
        asyncio.run(_delete_offline(data, name))
    credentials.write(data, name, [])  # no collection sends them any more
    followers = tuple(one.drop_deleted(data) for one in (graph, index, triples, captures))
    return f"{name}: deleted{'' if address is None and all(followers) else LATER}"


async def _delete_through(data: DataDirectory | None, address: Address, name: str) -> None:
    async with connected(address) as frontier:
        await delete_from_frontier(frontier, data, name)


async def _delete_offline(data: DataDirectory, name: str) -> None:
    """No process owns the frontier: open its file. A collection that was left running is interrupted."""
    lock = data.try_lock()
    if lock is None:
        raise Locked(f"{data.root}: another Tarrafa process runs here, and does not respond")
    with lock:
        frontier = SqliteFrontier(data.frontier, Clock.from_environment(), bundled_suffix_list())
        try:
            for one in (await frontier.overview()).collections:
                if one.name == name and one.state == "running":
                    await frontier.set_state(name, "stopped", "interrupted")
            await delete_from_frontier(frontier, data, name)
        finally:
            await frontier.close()
