"""What do people ask? The command and how it looks."""

import time
from typing import Annotated

import typer

from tarrafa.cli.options import DEFAULT_DATA, Data, Json
from tarrafa.data import DataDirectory


def query_log(
    data: Data = DEFAULT_DATA,
    days: Annotated[int, typer.Option(min=1, max=90, help="How many days back, today included.")] = 30,
    n: Annotated[int, typer.Option("-n", min=1, max=1_000, help="How many of each.")] = 20,
    as_json: Json = False,
) -> None:
    """Show what was searched for most, and what was searched for in vain.

    `tarrafa serve` notes each text by the day, and nothing about whoever asked.
    """
    from tarrafa.cli import show
    from tarrafa.serve.queries import query_report

    directory = DataDirectory(data)
    directory.check_version()
    found = query_report(directory, time.time(), days, n)
    if as_json:
        show.print_json(found)
    else:
        show.print_query_report(found)
