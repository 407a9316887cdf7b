"""Command `sql`: SQL over the tables that `tarrafa export parquet` makes, as a table, CSV or JSON."""

import csv
import io
from itertools import islice
from pathlib import Path
from typing import Annotated, Any

import msgspec
import typer
from rich.markup import escape

from tarrafa.cli.options import DEFAULT_DATA, Data, Json
from tarrafa.cli.output import console, new_table, print_document, print_table
from tarrafa.errors import ConfigError
from tarrafa.export.sql_query import SqlAnswer, sql_answer
from tarrafa.runtime.data_dir import DataDirectory
from tarrafa.runtime.terminal import print_note

ROWS_SHOWN_MAX, CELL_CHARS_MAX = 1_000, 200  # of a table; CSV and JSON are whole
LIST_COLUMNS = (
    "SELECT table_name AS 'table', column_name AS 'column', data_type AS 'type' FROM duckdb_columns()"
    " WHERE NOT internal ORDER BY table_name, column_index"
)


def sql(
    query: Annotated[
        str | None, typer.Argument(help="One query (DuckDB's SQL). Without it: the tables and their columns.")
    ] = None,
    data: Data = DEFAULT_DATA,
    tables: Annotated[
        Path | None,
        typer.Option(
            "--tables", metavar="DIR", help="Folder with the tables. Default: DATA/tables.", show_default=False
        ),
    ] = None,
    as_json: Json = False,
    as_csv: Annotated[bool, typer.Option("--csv", help="Print CSV, with the names of the columns first.")] = False,
) -> None:
    """Query tables of pages, visits and links with SQL.

    pages, newest_pages, visits, links, hosts, entities: `tarrafa export parquet` makes the tables, and brings them up
    to date. The query can read them, and nothing else.
    """
    if as_json and as_csv:
        raise ConfigError("--json and --csv: one of them")
    directory = DataDirectory(data)
    known = directory if directory.version.exists() else None
    with sql_answer(tables or data / "tables", query or LIST_COLUMNS, known) as answer:
        if as_json:
            _print_json(answer)
        elif as_csv:
            _print_csv(answer)
        else:
            _print_rows(answer)


def _print_json(answer: SqlAnswer) -> None:
    """An array of objects, row by row."""
    before = b"["
    for some in answer.rows:
        lines = [msgspec.json.encode(dict(zip(answer.columns, row, strict=True)), enc_hook=str) for row in some]
        print_document(before + b",\n ".join(lines))
        before = b","
    print_document(b"]" if before == b"," else b"[]")


def _print_csv(answer: SqlAnswer) -> None:
    before: list[Any] = [answer.columns]
    for some in answer.rows:
        print_document(_csv([*before, *some]), can_escape=False)
        before = []
    if before:
        print_document(_csv(before), can_escape=False)


def _csv(rows: list[Any]) -> bytes:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerows([[_text(value) for value in row] for row in rows])
    return text.getvalue().encode("utf-8", "replace")


def _print_rows(answer: SqlAnswer) -> None:
    rows = (row for some in answer.rows for row in some)
    shown = list(islice(rows, ROWS_SHOWN_MAX))
    texts = [
        name
        for place, name in enumerate(answer.columns)
        if not all(isinstance(row[place], int | float) for row in shown)
    ]
    table = new_table(*answer.columns, left=texts)
    for row in shown:
        table.add_row(*(escape(_text(value)[:CELL_CHARS_MAX]) for value in row))
    print_table(table)
    if next(rows, None) is not None:
        print_note(f"only the first {ROWS_SHOWN_MAX:,} rows are shown; --csv and --json print all")
    if not shown:
        console.print("no rows")


def _text(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, str):
        return value
    return (
        str(value) if isinstance(value, int | float) else msgspec.json.encode(value, enc_hook=str).decode().strip('"')
    )
