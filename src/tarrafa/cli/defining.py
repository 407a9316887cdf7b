"""A collection before it is crawled: write a file, see what it would take in, and what that would cost."""

import json
import re
import shlex
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tarrafa.cli import cluster
from tarrafa.cli.options import DEFAULT_DATA, Data, Json
from tarrafa.errors import ConfigError, data_error_from_os

if TYPE_CHECKING:
    from tarrafa.coordinate.estimating import CrawlEstimate, EstimateRange

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
    from tarrafa.coordinate.presets import PresetRequest, preset_titles, preset_toml

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
    from tarrafa.cli import show
    from tarrafa.coordinate import judging
    from tarrafa.coordinate.words.choosing import words_of
    from tarrafa.crawl.collection import load_collection
    from tarrafa.data import DataDirectory
    from tarrafa.takedown import CurrentTakedowns

    collection, words = load_collection(file), words_of(language)
    taken_down, directory = (lambda url: False), DataDirectory(data)
    if directory.version.exists():
        taken_down = CurrentTakedowns(directory).covers
    verdicts = judging.check_urls(collection, urls or sys.stdin, taken_down, words)
    notes = judging.unknown_before_crawl(collection, words)
    if as_json:
        show.print_json({"verdicts": verdicts, "notes": notes})
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
    where: cluster.FrontierAddress = None,
    token_file: cluster.TokenFile = None,
) -> None:
    """Say how many pages, requests, days and bytes a collection would take, and what that is concluded from.

    What the data directory knows of its hosts is used. Nothing is fetched.
    """
    import asyncio

    from tarrafa.cli import show
    from tarrafa.coordinate.estimating import estimate as calculate
    from tarrafa.coordinate.gathering import gather_estimate_inputs
    from tarrafa.coordinate.words.choosing import words_of
    from tarrafa.crawl.collection import load_collection
    from tarrafa.data import DataDirectory
    from tarrafa.frontier.address import from_command_line

    collection, address = load_collection(file), from_command_line(where, token_file)
    known = asyncio.run(gather_estimate_inputs(DataDirectory(data), collection, workers, address))
    found = calculate(collection, known, words_of(language))
    if as_json:
        show.print_json(found)
    else:
        _print_estimate(found)


def _print_estimate(found: "CrawlEstimate") -> None:
    from rich.markup import escape
    from rich.table import Table

    from tarrafa.cli.progress import format_duration
    from tarrafa.cli.show import console

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
