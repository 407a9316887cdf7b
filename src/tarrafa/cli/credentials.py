"""Commands `tarrafa credentials`: headers, cookies and passwords for crawled sites.

tarrafa secret add       show a header, a cookie or a password to hosts of one collection
tarrafa secret list      which there are, and for whom; never what they are
tarrafa secret remove    show it no longer
"""

import sys
from typing import Annotated, Literal

import typer

from tarrafa.cli.options import DEFAULT_DATA, Data, Json
from tarrafa.errors import ConfigError
from tarrafa.runtime.data_dir import DataDirectory

Kind = Literal["header", "cookie", "basic"]
LINE_CHARS_MAX = 100_000  # what is longer is refused as too long, but need not be read to its end

app = typer.Typer(help="Headers, cookies and passwords for sites that one may enter.", no_args_is_help=True)

Name = Annotated[str, typer.Argument(metavar="NAME", help="The collection that shows it; no other does.")]
Header = Annotated[str | None, typer.Option("--header", metavar="NAME", help="A header of this name.")]
Cookie = Annotated[bool, typer.Option("--cookie", help="A Cookie header, always the same: a=1; b=2.")]
Basic = Annotated[str | None, typer.Option("--basic", metavar="USER", help="The password of this user.")]


@app.command()
def add(
    name: Name,
    host: Annotated[list[str], typer.Option("--host", metavar="PATTERN", help="www.a.br, *.a.br; several may be.")],
    header: Header = None,
    cookie: Cookie = False,
    basic: Basic = None,
    insecure: Annotated[
        bool, typer.Option("--insecure", help="Without TLS too, and whatever the certificate: it may be overheard.")
    ] = False,
    data: Data = DEFAULT_DATA,
) -> None:
    """Show a secret to some hosts of a collection; it is asked for, or read from standard input.

    Workers that run hear of it within a second or two. It is kept in DATA/secrets/NAME.json, which only you may read.
    """
    from tarrafa import credentials

    kind, label = _chosen_kind(header, cookie, basic)
    if kind is None:
        raise ConfigError("what is shown? --header NAME, --cookie or --basic USER")
    directory = DataDirectory(data)
    credentials.credentials_path(directory, name)
    given = credentials.check(credentials.Credential(tuple(host), kind, label or "", _value(), insecure), "secret add")
    directory.create()
    replaced = credentials.add(directory, name, given)
    typer.echo(f"{name}: {given.redacted}{' (in place of the old one)' if replaced else ''}")


@app.command("list")
def list_(name: Name, data: Data = DEFAULT_DATA, as_json: Json = False) -> None:
    """Say which secrets a collection has, and to whom they are shown. What they are is told to nobody."""
    from tarrafa import credentials
    from tarrafa.cli.output import terminal

    directory = DataDirectory(data)
    directory.check_version()
    found = credentials.list_redacted(directory, name)
    if as_json:
        terminal.print_json(found)
        return
    for one in found:
        typer.echo(f"{name}: {one}")
    if not found:
        typer.echo(f"{name}: has no secrets")


@app.command()
def remove(
    name: Name,
    host: Annotated[list[str], typer.Option("--host", metavar="PATTERN", help="As it was added.")],
    header: Header = None,
    cookie: Cookie = False,
    basic: Basic = None,
    data: Data = DEFAULT_DATA,
) -> None:
    """Show a host no secrets any more, or none of that kind."""
    from tarrafa import credentials

    kind, label = _chosen_kind(header, cookie, basic)
    directory = DataDirectory(data)
    directory.check_version()
    counts = {pattern: credentials.remove(directory, name, pattern, kind, label) for pattern in host}
    for pattern, count in counts.items():
        typer.echo(f"{name}: {pattern} is shown {count} fewer" if count else f"{name}: {pattern} was shown no such")


def _chosen_kind(header: str | None, cookie: bool, basic: str | None) -> tuple[Kind | None, str | None]:
    given: list[tuple[Kind, str | None]] = [("cookie", None)] if cookie else []
    given += [("header", header)] if header is not None else []
    given += [("basic", basic)] if basic is not None else []
    if len(given) > 1:
        raise ConfigError("--header, --cookie and --basic exclude each other: one secret at a time")
    return given[0] if given else (None, None)


def _value() -> str:
    """From a prompt that does not show it, or the first line that a program gives us; never from the command line."""
    if sys.stdin.isatty():
        import getpass

        return getpass.getpass("the secret (it is not shown): ")
    return sys.stdin.readline(LINE_CHARS_MAX).rstrip("\r\n")
