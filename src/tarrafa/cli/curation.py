"""Command `tarrafa curation check`: checks the search curation file DATA/search.toml."""

from pathlib import Path
from typing import Annotated

import typer

from tarrafa.cli.options import DEFAULT_DATA, Data, Json
from tarrafa.runtime.data_dir import DataDirectory

app = typer.Typer(no_args_is_help=True)


@app.callback()
def curation() -> None:
    """Check the search curation file: synonyms, pinned and blocked sites."""


@app.command()
def check(
    data: Data = DEFAULT_DATA,
    file: Annotated[Path | None, typer.Option("--file", help="Check this file instead of DATA/search.toml.")] = None,
    as_json: Json = False,
) -> None:
    """Check the curation file and show its rules; exit status 2 if it is wrong.

    While the file is wrong, the last correct rules stay in force. A correct file holds from the next search on.
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
    typer.echo(f"{path}: {told}" if path.exists() else f"{path}: no such file, so no rules")
