"""Commands `tarrafa takedown`: take down a URL, host or site; lift a takedown; list takedowns.

Promises: every action is a line of DATA/takedown.jsonl, and holds from the next search on.
"""

import asyncio
from collections.abc import Callable
from typing import Annotated

import typer
from rich.markup import escape

from tarrafa.cli.options import DEFAULT_DATA, Data, FrontierAddress, Json, TokenFile, current_user, existing_data
from tarrafa.cli.output import console, print_result
from tarrafa.clock import Clock
from tarrafa.crawl.compaction.erase_orders import order_erasure, pending_erasures, raise_if_held
from tarrafa.crawl.supervisor.takedown_and_deletion_sync import sync_takedowns_once
from tarrafa.errors import ConfigError, Unreachable
from tarrafa.frontier.address import Address, from_command_line
from tarrafa.index import follower as index
from tarrafa.runtime.data_dir import DataDirectory
from tarrafa.runtime.terminal import print_line
from tarrafa.takedown import Action, TakedownEntry, in_force, parse_target, read_entries, record_action
from tarrafa.triples import follower as triples

app = typer.Typer(no_args_is_help=True, help="Take down a URL, host or site from crawl and search.")

What = Annotated[str, typer.Argument(metavar="URL|host:NAME|site:NAME", help="site:NAME includes all hosts below it.")]
Reason = Annotated[str, typer.Option("--reason", help="Reason, for the log.")]
ACTIONS: dict[Action, str] = {
    "add": "taken down", "lift": "lifted", "hold": "legal hold", "release": "legal hold lifted",
    "erase": "to be erased", "cancel": "not to be erased", "erased": "erased",
}  # fmt: skip
HOLD_ACTIONS = ("hold", "release")
By = Annotated[str | None, typer.Option("--by", help="Who decided it, for the log. Default: the current user.")]


def _change_command(action: Action, done: str, already: str) -> Callable[..., None]:
    """A command that begins or ends an order, and says so."""

    def change(
        what: What,
        reason: Reason = "",
        by: By = None,
        data: Data = DEFAULT_DATA,
        where: FrontierAddress = None,
        token_file: TokenFile = None,
    ) -> None:
        target, address = parse_target(what, is_hold=action in HOLD_ACTIONS), from_command_line(where, token_file)
        directory = existing_data(data)
        who, now = by or current_user(), Clock.from_environment().now()
        entry = record_action(directory, action, target, who, reason, now)
        print_line(f"{target}: {already if entry is None else done}")
        if action == "lift" and record_action(directory, "cancel", target, who, reason, now) is not None:
            print_line(f"{target}: the order to erase is cancelled")
        _apply(directory, address)

    return change


def _apply(directory: DataDirectory, address: Address | None) -> None:
    """Apply the log to index and triple store (in a running crawl, the follower does it), and send it to the
    frontier."""
    index.apply_takedowns(directory)
    triples.apply_takedowns(directory)
    if address is not None:
        try:
            asyncio.run(sync_takedowns_once(directory, address))
        except Unreachable as error:
            later = "other machines get it when a crawl of this data directory reaches the frontier"
            raise Unreachable(f"{error}; done here, {later}") from None


ADD_HELP = """Take down a URL, host or site: it is no longer found or fetched.

It holds from the next search on. The archive keeps its records. Every action is logged in DATA/takedown.jsonl.
"""
LIFT_HELP = """Lift a takedown: archived pages are found again.

Name the target exactly as it was taken down. It is fetched again when its collection is next started. An order to erase
it is cancelled.
"""
HOLD_HELP = """Set a legal hold: no retention rule and no order to erase removes these bytes.

Also of a whole collection: collection:NAME.
"""
RELEASE_HELP = """Lift a legal hold. Name its target exactly as it was set."""
app.command("add", help=ADD_HELP)(_change_command("add", "taken down", "is taken down already"))
app.command("lift", help=LIFT_HELP)(_change_command("lift", "lifted", "is not taken down"))
app.command("hold", help=HOLD_HELP)(_change_command("hold", "is under a legal hold", "is under a legal hold already"))
app.command("release", help=RELEASE_HELP)(
    _change_command("release", "the legal hold is lifted", "is not under a legal hold")
)


@app.command("erase")
def erase(
    what: What,
    reason: Annotated[str, typer.Option("--reason", help="Reason, for the log. Required.")] = "",
    by: By = None,
    confirmed: Annotated[
        str | None, typer.Option("--confirm", metavar="NAME", help="The target again, instead of typing it.")
    ] = None,
    is_cancel: Annotated[bool, typer.Option("--cancel", help="Cancel the order; it stays taken down.")] = False,
    data: Data = DEFAULT_DATA,
    where: FrontierAddress = None,
    token_file: TokenFile = None,
) -> None:
    """Order to erase a URL, host or site: its bytes are removed from the archive after a waiting time.

    It is taken down at once. When the waiting time is over (7 days; erase_wait in DATA/archive.toml), `tarrafa compact`
    erases it. Until then --cancel or `takedown lift` cancel the order. Refused under a legal hold.
    """
    target, address, directory = parse_target(what), from_command_line(where, token_file), existing_data(data)
    who, now = by or current_user(), Clock.from_environment().now()
    if is_cancel:
        ended = record_action(directory, "cancel", target, who, reason, now)
        print_line(f"{target}: {'no order to erase it' if ended is None else 'the order to erase is cancelled'}")
    else:
        if not reason.strip():
            raise ConfigError("--reason is missing: why is it erased?")
        raise_if_held(directory, [target])
        typed = confirmed if confirmed is not None else typer.prompt(f"Type {target} to have its bytes erased")
        if typed.strip() != str(target):
            raise ConfigError(f"{typed.strip()[:200]!r} is not {target}; nothing was changed")
        entry = order_erasure(directory, target, who, reason, now)
        due = "is ordered already" if entry is None else f"will be erased after {entry.due:%Y-%m-%d %H:%M} UTC"
        print_line(f"{target}: taken down; {due}, by `tarrafa compact`")
    _apply(directory, address)


@app.command("list")
def list_(
    data: Data = DEFAULT_DATA,
    whole: Annotated[bool, typer.Option("--all", help="Show the whole log, with lifted takedowns.")] = False,
    as_json: Json = False,
) -> None:
    """List the takedowns, orders to erase and legal holds in force: target, user, time and reason."""
    directory = existing_data(data)
    found = read_entries(directory)
    orders = [*in_force(found).values(), *pending_erasures(directory), *in_force(found, "hold").values()]
    shown = found if whole else orders
    print_result(shown, as_json, lambda shown: _print_takedowns(shown, whole=whole))


def _print_takedowns(shown: list[TakedownEntry], *, whole: bool) -> None:
    if not shown:
        console.print("Nothing was ever taken down." if whole else "Nothing is taken down.")
        return
    for entry in shown:  # no table: targets must not be shortened
        action = f"{ACTIONS[entry.action]:<24}" if whole or entry.action != "add" else ""
        why = f": {' '.join(entry.reason.split())}" if entry.reason else ""
        console.print(f"{entry.at:%Y-%m-%d %H:%M:%S}  {action}{escape(f'{entry.target}  by {entry.who}{why}')}")
