"""Commands `tarrafa takedown`: take down a URL, host or site; lift a takedown; list takedowns.

Promises: every action is a line of DATA/takedown.jsonl, and holds from the next search on.
"""

import asyncio
from pathlib import Path
from typing import Annotated, Literal

import typer

from tarrafa.cli.options import DEFAULT_DATA, Data, FrontierAddress, Json, TokenFile, current_user
from tarrafa.errors import Unreachable
from tarrafa.runtime.data_dir import DataDirectory

app = typer.Typer(no_args_is_help=True)

What = Annotated[str, typer.Argument(metavar="URL|host:NAME|site:NAME", help="site:NAME includes all hosts below it.")]
Reason = Annotated[str, typer.Option("--reason", help="Reason, for the log.")]
By = Annotated[str | None, typer.Option("--by", help="Who decided it, for the log. Default: the current user.")]


@app.command()
def add(
    what: What,
    reason: Reason = "",
    by: By = None,
    data: Data = DEFAULT_DATA,
    where: FrontierAddress = None,
    token_file: TokenFile = None,
) -> None:
    """Take down a URL, host or site: it is no longer found or fetched.

    It holds from the next search on. The archive keeps its records. Every action is logged in DATA/takedown.jsonl.
    """
    _change_takedown("add", what, reason, by, DataDirectory(data), where, token_file)


@app.command()
def lift(
    what: What,
    reason: Reason = "",
    by: By = None,
    data: Data = DEFAULT_DATA,
    where: FrontierAddress = None,
    token_file: TokenFile = None,
) -> None:
    """Lift a takedown: archived pages are found again.

    Name the target exactly as it was taken down. It is fetched again when its collection is next started.
    """
    _change_takedown("lift", what, reason, by, DataDirectory(data), where, token_file)


@app.command("list")
def list_(
    data: Data = DEFAULT_DATA,
    whole: Annotated[bool, typer.Option("--all", help="Show the whole log, with lifted takedowns.")] = False,
    as_json: Json = False,
) -> None:
    """List the takedowns in force: target, user, time and reason."""
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
            later = "other machines get it when a crawl of this data directory reaches the frontier"
            raise Unreachable(f"{error}; done here, {later}") from None
