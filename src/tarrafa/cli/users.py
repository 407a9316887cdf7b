"""Commands `tarrafa user`: console accounts; and the rate limit options of the server.

tarrafa user add NAME        a new account; the password is asked for, or read from stdin
tarrafa user password NAME   another password; whoever is signed in under that name must sign in again
tarrafa user list            who is known
tarrafa user remove NAME     not any more
"""

import getpass
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from tarrafa.cli.options import DEFAULT_DATA, Data, Json
from tarrafa.errors import ConfigError, TarrafaError
from tarrafa.runtime.data_dir import DataDirectory

if TYPE_CHECKING:
    from tarrafa.server.auth.accounts import Accounts
    from tarrafa.server.rate_limit import RateLimit

app = typer.Typer(help="Who may see and change things in the console: DATA/accounts.json.", no_args_is_help=True)

LINE_CHARS_MAX = 4_000
RATE_DEFAULT = "10/s"
Name = Annotated[str, typer.Argument(metavar="NAME", help="Letters, digits and . _ @ -")]
RateLimitOption = Annotated[
    str,
    typer.Option("--rate-limit", metavar="N/s", help="How much each address may ask: 10/s, 90/min; 0: any amount."),
]
RateHere = Annotated[bool, typer.Option("--rate-limit-here", help="Those at this machine may not ask more, either.")]
BehindProxy = Annotated[
    bool,
    typer.Option("--behind-proxy", help="Everybody comes through a proxy, which says whom it speaks for."),
]


def parse_rate_limit(text: str, here: bool, behind_proxy: bool) -> "RateLimit":
    """As the options say."""
    from tarrafa.server.rate_limit import RateLimit

    return RateLimit.parse(text, local=here, behind_proxy=behind_proxy)


@app.callback()
def users() -> None:
    """Who may see and change things in the console: DATA/accounts.json."""


@app.command()
def add(
    name: Name,
    role: Annotated[
        Literal["admin", "viewer"], typer.Option(help="admin: may change everything; viewer: may only look.")
    ] = "admin",
    data: Data = DEFAULT_DATA,
) -> None:
    """Make an account. Once there is one, everybody must sign in to the console, also on this machine.

    The password is asked for; without a terminal, it is the first line of stdin.
    """
    accounts, now = _accounts(data, create=True)
    first = not accounts
    accounts.add(name, role, _password(f"Password of {name}"), now)
    _audit(data, now, "add a user", name, role)
    typer.echo(f"{name}: added ({role})")
    if first:
        typer.echo("from now on everybody must sign in to the console, also on this machine; the search stays open")


@app.command()
def password(name: Name, data: Data = DEFAULT_DATA) -> None:
    """Give another password. Whoever is signed in under that name must sign in again."""
    accounts, now = _accounts(data)
    accounts.must_find(name)
    accounts.set_password(name, _password(f"New password of {name}"), now)
    _audit(data, now, "change a password", name)
    typer.echo(f"{name}: has another password; whoever was signed in under that name is not any more")


@app.command()
def remove(name: Name, data: Data = DEFAULT_DATA) -> None:
    """Take an account away, and whatever is signed in under it."""
    accounts, now = _accounts(data)
    accounts.remove(name)
    _audit(data, now, "remove a user", name)
    typer.echo(f"{name}: removed")
    left = accounts.all_accounts()
    if not left:
        typer.echo(
            "there are no accounts any more: without a token, whoever sits at this machine may change everything"
        )
    elif all(one.role == "viewer" for one in left):
        typer.echo("no one that is left may change anything; `tarrafa user add NAME` makes somebody who may")


@app.command("list")
def list_(data: Data = DEFAULT_DATA, as_json: Json = False) -> None:
    """Show who is known."""
    from datetime import UTC, datetime

    from tarrafa.cli.output import terminal

    accounts, _ = _accounts(data)
    found = accounts.all_accounts()
    if as_json:
        terminal.print_json(found)
        return
    if not found:
        typer.echo("nobody is known; `tarrafa user add NAME` makes an account")
    for one in found:
        changed = datetime.fromtimestamp(one.changed, UTC)
        typer.echo(f"{one.name}  {one.role}  password of {changed:%Y-%m-%d}")


def _accounts(data: Path, create: bool = False) -> "tuple[Accounts, float]":
    from tarrafa.clock import Clock
    from tarrafa.server.auth.accounts import Accounts

    directory = DataDirectory(data)
    if create:
        directory.create()
    directory.check_version()
    return Accounts(directory), Clock.from_environment().now()


def _password(prompt: str) -> str:
    """Typed twice where nobody sees it, or the first line of stdin."""
    if sys.stdin.isatty():
        first = getpass.getpass(f"{prompt}: ")
        if getpass.getpass("Once more: ") != first:
            raise ConfigError("the two passwords differ; nothing was changed")
        return first
    line = sys.stdin.readline(LINE_CHARS_MAX).rstrip("\r\n")
    if not line:
        raise ConfigError("there is no password: type it when asked, or send it to stdin as one line")
    return line


def _audit(data: Path, now: float, action: str, subject: str, detail: str = "") -> None:
    """A line of the audit. What was done is done: without a line it is said, and no more."""
    from tarrafa.cli.curation import current_user
    from tarrafa.coordinator.audit import AuditLog

    try:
        AuditLog(DataDirectory(data), lambda: now, lambda line: None).record(current_user(), action, subject, detail)
    except TarrafaError as error:
        sys.stderr.write(f"the audit could not be written: {error}\n")
