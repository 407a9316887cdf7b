"""Options that many commands share: --data, --json, --collection."""

from pathlib import Path
from typing import Annotated

import typer

Data = Annotated[
    Path, typer.Option("--data", help="Where everything is kept.", envvar="TARRAFA_DATA", show_default=True)
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON, for other programs.")]
CollectionFilter = Annotated[
    str | None, typer.Option("--collection", help="Only this collection; by default all of them.")
]
DEFAULT_DATA = Path("tarrafa-data")
