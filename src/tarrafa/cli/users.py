"""Commands `tarrafa user`: add, change, list and remove accounts of the console (DATA/accounts.json)."""

import getpass
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Literal

import typer

from tarrafa.cli.options import DEFAULT_DATA, Data, Json, current_user, existing_data
from tarrafa.cli.output import print_result
from tarrafa.clock import Clock
from tarrafa.coordinator.audit import AuditLog
from tarrafa.errors import ConfigError, TarrafaError
from tarrafa.runtime.data_dir import DataDirectory
from tarrafa.runtime.terminal import print_line, print_note
from tarrafa.server.auth.accounts import Accounts, AccountView

app = typer.Typer(no_args_is_help=True, help="Manage the accounts of the console.")

LINE_CHARS_MAX = 4_000
Name = Annotated[str, typer.Argument(metavar="NAME", help="Account name: letters, digits and . _ @ -")]


@app.command()
def add(
    name: Name,
    role: Annotated[
        Literal["admin", "viewer"], typer.Option(help="admin: may change everything; viewer: may only read.")
    ] = "admin",
    data: Data = DEFAULT_DATA,
) -> None:
    """Add an account.

    As soon as there is an account, the console requires a login, also on this machine. The command asks for the
    password; without a terminal, the password is the first line of standard input.
    """
    accounts, now = _accounts(data, create=True)
    first = not accounts
    accounts.add(name, role, _password(f"Password of {name}"), now)
    _audit(data, now, "add a user", name, role)
    print_line(f"{name}: added ({role})")
    if first:
        print_line("the console now requires a login, also on this machine; the search page stays open")


@app.command()
def password(name: Name, data: Data = DEFAULT_DATA) -> None:
    """Change a password. Sessions of this account end."""
    accounts, now = _accounts(data)
    accounts.must_find(name)
    accounts.set_password(name, _password(f"New password of {name}"), now)
    _audit(data, now, "change a password", name)
    print_line(f"{name}: password changed; its sessions have ended")


@app.command()
def remove(name: Name, data: Data = DEFAULT_DATA) -> None:
    """Remove an account. Its sessions end."""
    accounts, now = _accounts(data)
    accounts.remove(name)
    _audit(data, now, "remove a user", name)
    print_line(f"{name}: removed")
    left = accounts.all_accounts()
    if not left:
        print_line("no account is left: without a token, every user of this machine may change everything")
    elif all(one.role == "viewer" for one in left):
        print_line("no admin is left, so nobody may change anything; `tarrafa user add NAME` adds an admin")


@app.command("list")
def list_(data: Data = DEFAULT_DATA, as_json: Json = False) -> None:
    """List the accounts."""
    accounts, _ = _accounts(data)
    print_result(accounts.all_accounts(), as_json, _print_accounts)


def _print_accounts(found: list[AccountView]) -> None:
    if not found:
        print_line("no accounts; `tarrafa user add NAME` adds one")
    for one in found:
        changed = datetime.fromtimestamp(one.changed, UTC)
        print_line(f"{one.name}  {one.role}  password changed {changed:%Y-%m-%d}")


def _accounts(data: Path, create: bool = False) -> tuple[Accounts, float]:
    if create:
        DataDirectory(data).create()
    return Accounts(existing_data(data)), Clock.from_environment().now()


def _password(prompt: str) -> str:
    """Typed twice without echo, or the first line of standard input."""
    if sys.stdin.isatty():
        first = getpass.getpass(f"{prompt}: ")
        if getpass.getpass("Once more: ") != first:
            raise ConfigError("the two passwords differ; nothing was changed")
        return first
    line = sys.stdin.readline(LINE_CHARS_MAX).rstrip("\r\n")
    if not line:
        raise ConfigError("no password given: type it when asked, or send it to standard input as one line")
    return line


def _audit(data: Path, now: float, action: str, subject: str, detail: str = "") -> None:
    """Add a line to the audit log. If that fails, the action stands; print a warning."""
    try:
        AuditLog(DataDirectory(data), lambda: now, lambda line: None).record(current_user(), action, subject, detail)
    except TarrafaError as error:
        print_note(f"the audit log could not be written: {error}")
