"""Commands `tarrafa credentials`: add, list and remove headers, cookies and passwords for crawled sites.

Promises: a value is read from a prompt or standard input, never from the command line, and is never printed.
"""

import getpass
import sys
from typing import Annotated, Literal

import typer

from tarrafa import credentials
from tarrafa.cli.options import DEFAULT_DATA, Data, Json, existing_data
from tarrafa.cli.output import print_json
from tarrafa.errors import ConfigError
from tarrafa.runtime.data_dir import DataDirectory
from tarrafa.runtime.terminal import print_line

Kind = Literal["header", "cookie", "basic"]
LINE_CHARS_MAX = 100_000  # what is longer is refused as too long, but need not be read to its end

app = typer.Typer(no_args_is_help=True, help="Manage headers, cookies and passwords for crawled sites.")

Name = Annotated[str, typer.Argument(metavar="NAME", help="Collection that sends it; no other collection does.")]
Header = Annotated[str | None, typer.Option("--header", metavar="NAME", help="HTTP header of this name.")]
Cookie = Annotated[bool, typer.Option("--cookie", help="Cookie header with a fixed value: a=1; b=2.")]
Basic = Annotated[
    str | None, typer.Option("--basic", metavar="USER", help="Password of this user (Basic authentication).")
]


@app.command()
def add(
    name: Name,
    host: Annotated[
        list[str], typer.Option("--host", metavar="PATTERN", help="Host: www.a.br or *.a.br. Can be repeated.")
    ],
    header: Header = None,
    cookie: Cookie = False,
    basic: Basic = None,
    insecure: Annotated[
        bool,
        typer.Option(
            "--insecure", help="Send it also without TLS, or with an invalid certificate. Others may read it."
        ),
    ] = False,
    data: Data = DEFAULT_DATA,
) -> None:
    """Add a header, cookie or password for hosts of a collection.

    The value is asked for, or read from standard input. Running workers use it within two seconds. It is stored in
    DATA/secrets/NAME.json, which only you may read.
    """
    kind, label = _chosen_kind(header, cookie, basic)
    if kind is None:
        raise ConfigError("one of --header NAME, --cookie or --basic USER is missing")
    directory = DataDirectory(data)
    credentials.credentials_path(directory, name)
    given = credentials.check(
        credentials.Credential(tuple(host), kind, label or "", _value(), insecure), "credentials add"
    )
    directory.create()
    replaced = credentials.add(directory, name, given)
    print_line(f"{name}: {given.redacted}{' (replaced)' if replaced else ''}")


@app.command("list")
def list_(name: Name, data: Data = DEFAULT_DATA, as_json: Json = False) -> None:
    """List the credentials of a collection, without their values."""
    found = credentials.list_redacted(existing_data(data), name)
    if as_json:
        print_json(found)
        return
    for one in found:
        print_line(f"{name}: {one}")
    if not found:
        print_line(f"{name}: no credentials")


@app.command()
def remove(
    name: Name,
    host: Annotated[list[str], typer.Option("--host", metavar="PATTERN", help="Host pattern as it was added.")],
    header: Header = None,
    cookie: Cookie = False,
    basic: Basic = None,
    data: Data = DEFAULT_DATA,
) -> None:
    """Remove the credentials of a host, or only those of one kind."""
    kind, label = _chosen_kind(header, cookie, basic)
    directory = existing_data(data)
    counts = {pattern: credentials.remove(directory, name, pattern, kind, label) for pattern in host}
    for pattern, count in counts.items():
        print_line(f"{name}: {pattern}: {count} removed" if count else f"{name}: {pattern}: nothing to remove")


def _chosen_kind(header: str | None, cookie: bool, basic: str | None) -> tuple[Kind | None, str | None]:
    given: list[tuple[Kind, str | None]] = [("cookie", None)] if cookie else []
    given += [("header", header)] if header is not None else []
    given += [("basic", basic)] if basic is not None else []
    if len(given) > 1:
        raise ConfigError("--header, --cookie and --basic exclude each other: one at a time")
    return given[0] if given else (None, None)


def _value() -> str:
    """From a prompt without echo, or the first line of standard input; never from the command line."""
    if sys.stdin.isatty():
        return getpass.getpass("Value (not shown): ")
    return sys.stdin.readline(LINE_CHARS_MAX).rstrip("\r\n")
