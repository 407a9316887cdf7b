"""Commands `curation` and `takedown`: check the search curation file; take down URLs, hosts and sites.

tarrafa curate check      is DATA/search.toml right, and what does it say?
tarrafa takedown add      nobody fetches, finds or sees it any more: a URL, host:NAME or site:NAME
tarrafa takedown lift     it is as it was before
tarrafa takedown list     what is taken down, by whom, when and why
"""

import asyncio
import getpass
import os
import socket
from pathlib import Path
from typing import Annotated, Literal

import typer

from tarrafa.cli import frontier
from tarrafa.errors import Unreachable
from tarrafa.runtime.data_dir import DataDirectory

Data = Annotated[
    Path, typer.Option("--data", help="Where everything is kept.", envvar="TARRAFA_DATA", show_default=True)
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON, for other programs.")]
DEFAULT_DATA = Path("tarrafa-data")

curation_app = typer.Typer(help="Synonyms, pinned, lowered and blocked sites: DATA/search.toml.", no_args_is_help=True)


@curation_app.callback()
def curation() -> None:
    """Synonyms, pinned, lowered and blocked sites: DATA/search.toml."""


@curation_app.command()
def check(
    data: Data = DEFAULT_DATA,
    file: Annotated[
        Path | None, typer.Option("--file", help="Another file, before it takes the place of DATA/search.toml.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Say whether the rules are right, and what they are; what is wrong is one line, with exit status 2.

    While the file is wrong, the last good rules hold. A right one counts from the next search on.
    """
    from tarrafa.cli.output import terminal
    from tarrafa.errors import ConfigError
    from tarrafa.search.curation import path_of, read_rules

    directory = DataDirectory(data)
    if file is None:
        directory.check_version()
    path = file or path_of(directory)
    if file is not None and not file.exists():
        raise ConfigError(f"{file}: no such file")
    found, _ = read_rules(path)
    if as_json:
        terminal.print_json({"file": str(path), "exists": path.exists(), "rules": found})
        return
    counts = (
        (len(found.groups), "group of synonyms", "groups of synonyms"),
        (sum(map(len, found.pins.values())), "pinned page", "pinned pages"),
        (len(found.lowered), "lowered site", "lowered sites"),
        (len(found.blocked), "blocked site", "blocked sites"),
    )
    told = ", ".join(f"{count:,} {one if count == 1 else many}" for count, one, many in counts)
    typer.echo(f"{path}: {told}" if path.exists() else f"{path}: there is no such file, and so no rules")


takedown_app = typer.Typer(help="Take a URL, a host or a site down, everywhere at once.", no_args_is_help=True)

What = Annotated[str, typer.Argument(metavar="URL|host:NAME|site:NAME", help="site:NAME is with everything below it.")]
Reason = Annotated[str, typer.Option("--reason", help="Why; it stands in the log.")]
By = Annotated[str | None, typer.Option("--by", help="Who says so; by default the user of this machine.")]


@takedown_app.command()
def add(
    what: What,
    reason: Reason = "",
    by: By = None,
    data: Data = DEFAULT_DATA,
    where: frontier.FrontierAddress = None,
    token_file: frontier.TokenFile = None,
) -> None:
    """Take down a URL, a host or a site: from the next search on it is not found, and it is not fetched any more.

    The archive's files stay as they are. Every action is a line of DATA/takedown.jsonl.
    """
    _change_takedown("add", what, reason, by, DataDirectory(data), where, token_file)


@takedown_app.command()
def lift(
    what: What,
    reason: Reason = "",
    by: By = None,
    data: Data = DEFAULT_DATA,
    where: frontier.FrontierAddress = None,
    token_file: frontier.TokenFile = None,
) -> None:
    """Undo a take-down: what the archive has of it is found again; it is fetched again when its crawl is next started.

    It must be named as it was when it was taken down.
    """
    _change_takedown("lift", what, reason, by, DataDirectory(data), where, token_file)


@takedown_app.command("list")
def list_(
    data: Data = DEFAULT_DATA,
    whole: Annotated[bool, typer.Option("--all", help="The whole log: what was lifted, too.")] = False,
    as_json: Json = False,
) -> None:
    """Show what is taken down, by whom, when and why."""
    from tarrafa.cli.output import terminal
    from tarrafa.takedown import in_force, read_entries

    directory = DataDirectory(data)
    directory.check_version()
    found = read_entries(directory)
    shown = found if whole else list(in_force(found).values())
    if as_json:
        terminal.print_json(shown)
    else:
        terminal.print_takedowns(shown, whole=whole)


def _change_takedown(
    action: Literal["add", "lift"],
    what: str,
    reason: str,
    by: str | None,
    data: DataDirectory,
    where: list[str] | None,
    token_file: Path | None,
) -> None:
    from tarrafa.clock import Clock
    from tarrafa.crawl.supervisor.propagation import sync_takedowns_once
    from tarrafa.frontier.address import from_command_line
    from tarrafa.index.follower import apply_takedowns
    from tarrafa.takedown import parse_target, record_action
    from tarrafa.triples.follower import apply_takedowns as withhold_statements

    target, address = parse_target(what), from_command_line(where, token_file)
    data.check_version()
    entry = record_action(data, action, target, by or current_user(), reason, Clock.from_environment().now())
    if entry is None:
        typer.echo(f"{target}: is taken down already" if action == "add" else f"{target}: is not taken down")
    else:
        typer.echo(f"{target}: taken down" if action == "add" else f"{target}: lifted")
    apply_takedowns(data)  # where a crawl runs, its follower does it
    withhold_statements(data)
    if address is not None:
        try:
            asyncio.run(sync_takedowns_once(data, address))
        except Unreachable as error:
            later = "other machines hear of it when a crawl of this directory reaches the frontier"
            raise Unreachable(f"{error}; here it is done, {later}") from None


def current_user() -> str:
    try:
        name = getpass.getuser()
    except (KeyError, OSError):  # a user without a name
        name = str(os.getuid())
    return f"{name}@{socket.gethostname()}"
