"""The commands of those who run a search engine.

tarrafa curate check   is DATA/search.toml right, and what does it say?
"""

from pathlib import Path
from typing import Annotated

import typer

from tarrafa.data import DataDirectory

Data = Annotated[
    Path, typer.Option("--data", help="Where everything is kept.", envvar="TARRAFA_DATA", show_default=True)
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON, for other programs.")]
DEFAULT_DATA = Path("tarrafa-data")

curate = typer.Typer(help="Synonyms, pinned, lowered and blocked sites: DATA/search.toml.", no_args_is_help=True)


@curate.callback()
def curation() -> None:
    """Synonyms, pinned, lowered and blocked sites: DATA/search.toml."""


@curate.command()
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
    from tarrafa.cli import show
    from tarrafa.errors import ConfigError
    from tarrafa.search.curation import path_of, read

    directory = DataDirectory(data)
    if file is None:
        directory.check_version()
    path = file or path_of(directory)
    if file is not None and not file.exists():
        raise ConfigError(f"{file}: no such file")
    found, _ = read(path)
    if as_json:
        show.as_json({"file": str(path), "exists": path.exists(), "rules": found})
        return
    counts = (
        (len(found.groups), "group of synonyms", "groups of synonyms"),
        (sum(map(len, found.pins.values())), "pinned page", "pinned pages"),
        (len(found.lowered), "lowered site", "lowered sites"),
        (len(found.blocked), "blocked site", "blocked sites"),
    )
    told = ", ".join(f"{count:,} {one if count == 1 else many}" for count, one, many in counts)
    typer.echo(f"{path}: {told}" if path.exists() else f"{path}: there is no such file, and so no rules")
