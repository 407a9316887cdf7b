"""Commands init, check, estimate and add: write a collection file, check its scope, estimate it, hand it over.

tarrafa add FILE: a collection for the node that works here, which runs it when it is time.
"""

import asyncio
import json
import re
import shlex
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tarrafa.cli import frontier
from tarrafa.cli import frontier as cluster
from tarrafa.cli.options import DEFAULT_DATA, Data, Json
from tarrafa.errors import ConfigError, Unreachable, data_error_from_os
from tarrafa.runtime.data_dir import DataDirectory

if TYPE_CHECKING:
    from tarrafa.coordinator.dry_run.crawl_estimate import CrawlEstimate, EstimateRange

SIZES = (("TB", 1e12), ("GB", 1e9), ("MB", 1e6), ("KB", 1e3))
COLLECTION_TEMPLATE = """\
# A Tarrafa collection: what to crawl, how deep, how politely.
# `tarrafa crawl {file}` starts it, and goes on after a stop.
name  = "{name}"
roots = [{root}]            # URLs or host names; or roots_file = "roots.txt", one per line

[scope]
# hosts = ["*.br"]            # absent: exactly the roots' hosts; *.br is everything below br
# include = ["*/news/*"]      # URL patterns: only these
# exclude = ["*/login*"]      # URL patterns: not these
# depth_max = 3               # hops from a root
pages_max = 1000

[politeness]
delay = "1s"                  # between the end of an answer and the next request to the same host
contact = {contact}                  # a page or address where webmasters reach you; sent with every request
"""
Language = Annotated[str, typer.Option("--language", help="Of what is written: en or pt.")]


def init(
    file: Annotated[Path, typer.Argument(help="The file to write.")] = Path("collection.toml"),
    root: Annotated[str, typer.Option(help="The first root.")] = "https://www.example.br/",
    preset: Annotated[str, typer.Option(help="Begin with this one; --list names them.")] = "",
    country: Annotated[
        str, typer.Option(help="Of the presets for a country: its domain, such as br. By default the root's.")
    ] = "",
    contact: Annotated[str, typer.Option(help="A page or address where webmasters reach you.")] = "",
    language: Language = "en",
    listed: Annotated[bool, typer.Option("--list", help="Show the presets, and write nothing.")] = False,
) -> None:
    """Write a collection file to begin with: a plain one, or a preset with its reasons."""
    from tarrafa.coordinator.definitions.presets import PresetRequest, preset_titles, preset_toml

    if listed:
        for one, title in preset_titles(language).items():
            typer.echo(f"{one:14} {title}")
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
    typer.echo(f"{file} is written; edit it, then: tarrafa crawl {shlex.quote(str(file))}")


def check(
    file: Annotated[Path, typer.Argument(help="A collection file.")],
    urls: Annotated[
        list[str] | None, typer.Argument(help="URLs; without any, one per line from standard input.")
    ] = None,
    data: Data = DEFAULT_DATA,
    language: Language = "en",
    as_json: Json = False,
) -> None:
    """Say which URLs a collection would take in, and by which rule, before it is started. Nothing is fetched.

    What was taken down in the data directory, if there is one, is out.
    """
    from tarrafa.cli.output import terminal
    from tarrafa.coordinator.dry_run import scope_check
    from tarrafa.coordinator.field_texts.languages import words_of
    from tarrafa.crawl.scope.admission import load_collection
    from tarrafa.runtime.data_dir import DataDirectory
    from tarrafa.takedown import CurrentTakedowns

    collection, words = load_collection(file), words_of(language)
    taken_down, directory = (lambda url: False), DataDirectory(data)
    if directory.version.exists():
        taken_down = CurrentTakedowns(directory).covers
    verdicts = scope_check.check_urls(collection, urls or sys.stdin, taken_down, words)
    notes = scope_check.unknown_before_crawl(collection, words)
    if as_json:
        terminal.print_json({"verdicts": verdicts, "notes": notes})
        return
    for one in verdicts:
        typer.echo(f"{'in ' if one.inside else 'out'}  {one.canonical or one.url}  ({one.sentence})")
    typer.echo(f"{sum(one.inside for one in verdicts):,} in, {sum(not one.inside for one in verdicts):,} out", err=True)
    for note in notes:
        typer.echo(f"note: {note}", err=True)


def estimate(
    file: Annotated[Path, typer.Argument(help="A collection file.")],
    data: Data = DEFAULT_DATA,
    workers: Annotated[int, typer.Option(min=1, max=10_000, help="How many would crawl it, on all machines.")] = 2,
    language: Language = "en",
    as_json: Json = False,
    where: frontier.FrontierAddress = None,
    token_file: frontier.TokenFile = None,
) -> None:
    """Say how many pages, requests, days and bytes a collection would take, and what that is concluded from.

    What the data directory knows of its hosts is used. Nothing is fetched.
    """
    import asyncio

    from tarrafa.cli.output import terminal
    from tarrafa.coordinator.dry_run.crawl_estimate import estimate as calculate
    from tarrafa.coordinator.dry_run.estimate_inputs import gather_estimate_inputs
    from tarrafa.coordinator.field_texts.languages import words_of
    from tarrafa.crawl.scope.admission import load_collection
    from tarrafa.frontier.address import from_command_line
    from tarrafa.runtime.data_dir import DataDirectory

    collection, address = load_collection(file), from_command_line(where, token_file)
    known = asyncio.run(gather_estimate_inputs(DataDirectory(data), collection, workers, address))
    found = calculate(collection, known, words_of(language))
    if as_json:
        terminal.print_json(found)
    else:
        _print_estimate(found)


def _print_estimate(found: "CrawlEstimate") -> None:
    from rich.markup import escape
    from rich.table import Table

    from tarrafa.cli.crawl import format_duration
    from tarrafa.cli.output.terminal import console

    table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 2))
    for name in ("", "low", "likely", "high"):
        table.add_column(name, justify="right" if name else "left")
    rows: list[tuple[str, EstimateRange, Callable[[float], str]]] = [
        ("pages", found.pages, _count),
        ("requests", found.requests, _count),
        ("time", found.seconds, format_duration),
        ("transferred", found.transferred_bytes, _bytes),
        ("on disk", found.kept_bytes, _bytes),
    ]
    for name, values, written in rows:
        high = "?" if values.high is None else written(values.high)
        table.add_row(name, written(values.low), written(values.likely), high)
    console.print(table)
    console.print(escape(f"{_bytes(found.bytes_per_s)}/s on average; {found.bound}."))
    for said in found.assumptions:
        console.print(escape(f"- {said}"))


def _count(number: float) -> str:
    return f"{number:,.0f}"


def _bytes(number: float) -> str:
    unit, size = next(((unit, size) for unit, size in SIZES if number >= size), SIZES[-1])
    return f"{number / size:,.1f} {unit}"


if TYPE_CHECKING:
    from tarrafa.config import Collection


def add(
    file: Annotated[Path, typer.Argument(help="A collection file (TOML); `tarrafa init` writes one.")],
    data: Data = DEFAULT_DATA,
    where: cluster.FrontierAddress = None,
    token_file: cluster.TokenFile = None,
) -> None:
    """Hand a collection to the node that works in a data directory: it starts when its schedule says so,
    or when somebody starts it.

    One that is there already takes up what the file says, and stays in the state that it is in; but one that was
    finished goes on, if there is more to visit now.
    """
    from tarrafa.cli.curation import current_user
    from tarrafa.config import encode_collection
    from tarrafa.coordinator.node.local_control import ControlRequest, send_control_request
    from tarrafa.crawl.scope.admission import load_collection
    from tarrafa.crawl.supervisor.submission import submit_collection
    from tarrafa.frontier.address import connect, from_command_line, local_address

    collection, directory = load_collection(file), DataDirectory(data)
    address = from_command_line(where, token_file)
    if address is None:
        directory.check_version()

    async def handed_over() -> tuple[str, str]:
        if address is None:
            answer = await send_control_request(
                directory, ControlRequest("add", collection.name, current_user(), encode_collection(collection))
            )
            if answer is not None:
                return answer.state, answer.reason
        frontier = await connect(address or local_address(directory))
        try:
            row = await submit_collection(frontier, collection, start=False)
            return row.state, row.reason
        finally:
            await frontier.close()

    try:
        state, reason = asyncio.run(handed_over())
    except Unreachable:
        if address is not None:
            raise
        raise Unreachable(f"{directory.root}: nobody works here; start `tarrafa node` first") from None
    typer.echo(f"{collection.name}: handed over; {_next_step_text(collection, state, reason)}")


def _next_step_text(collection: "Collection", state: str, reason: str) -> str:
    """What becomes of it."""
    schedule = collection.schedule
    if state not in ("ready", "waiting"):
        return f"it is {state}"
    if not (schedule.start or schedule.every):
        return f"`tarrafa start {collection.name}`, or somebody in the console, starts it"
    return f"it is {state}: {reason}" if state == "waiting" else "the node that coordinates starts it by its schedule"
