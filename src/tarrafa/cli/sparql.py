"""Command `tarrafa sparql`: asks the triple store and prints the results."""

import json
import sys
from pathlib import Path
from typing import Annotated, Any, Literal

import typer
from rich.text import Text

from tarrafa.cli.options import DEFAULT_DATA, Data, Json, existing_data
from tarrafa.cli.output import new_table, print_document, print_table
from tarrafa.errors import ConfigError, QueryError
from tarrafa.index.shards import parts
from tarrafa.parse.rdf.prefixes import shorten_iri
from tarrafa.runtime.terminal import counted, print_line, print_note
from tarrafa.search.searcher import Searcher
from tarrafa.triples.snapshots import newest_number
from tarrafa.triples.sparql_pool import RESULTS_MAX, TIME_MAX_S, SparqlLimits, ask_sparql
from tarrafa.triples.sparql_process import SparqlRequest
from tarrafa.triples.sparql_results import formats_for

QUERY_BYTES_MAX = 1 << 20
ESCAPABLE = ("json", "tsv", "ttl", "nt", "jsonld")
Format = Literal["table", "json", "csv", "tsv", "xml", "ttl", "nt", "rdf", "jsonld"]

ServedTime = Annotated[
    float, typer.Option("--sparql-time-limit", min=0.1, max=3600, help="Time limit of a SPARQL query, in seconds.")
]
ServedLimit = Annotated[
    int, typer.Option("--sparql-limit", min=1, max=10_000_000, help="Maximum number of results of a SPARQL query.")
]


def sparql(
    query: Annotated[
        str | None, typer.Argument(help="SPARQL 1.1 query; -: from standard input.", show_default=False)
    ] = None,
    data: Data = DEFAULT_DATA,
    file: Annotated[Path | None, typer.Option("--file", "-f", help="File with the query.")] = None,
    form: Annotated[
        Format, typer.Option("--format", help="Output format; json and xml work for every kind of query.")
    ] = "table",
    as_json: Json = False,
    time_limit: Annotated[float, typer.Option(min=0.1, max=3600, help="Time limit in seconds.")] = TIME_MAX_S,
    limit: Annotated[int, typer.Option(min=1, max=10_000_000, help="Maximum number of results.")] = RESULTS_MAX,
    part: Annotated[
        str, typer.Option(metavar="2-of-4", help="Query only this shard of the triple store.", show_default=False)
    ] = "",
) -> None:
    """Query the structured data of pages with SPARQL 1.1.

    The triple store holds the RDFa, JSON-LD and microdata of all pages. Each page is a named graph with its URL as
    name; without GRAPH, the query covers all pages. Prefixes such as schema: are predefined. Works while the crawl
    runs.
    """
    text, directory = _read_query(query, file), existing_data(data)
    wanted = "json" if as_json else form
    solutions_as, graph_as = ("json", "ttl") if wanted == "table" else formats_for(wanted)
    request = SparqlRequest(text, solutions_as, graph_as, limit, part=part)
    limits = SparqlLimits(time_s=time_limit, results=limit)
    answer = ask_sparql(directory, request, limits, lambda text: Searcher.open(directory).matching_pages(text))
    if wanted == "table" and answer.form == "json":
        _print_table(json.loads(answer.body))
    else:
        print_document(answer.body, can_escape=answer.form in ESCAPABLE)
    if not any(map(newest_number, parts(directory))):
        print_note("no page with structured data has been crawled yet")
    if answer.matches_max:
        print_note(f"only the first {answer.matches_max:,} pages of tarrafa:matches; more pages match")
    if answer.is_cut:
        print_note(f"only the first {counted(answer.count, 'result')}; there are more (--limit)")


def _read_query(query: str | None, file: Path | None) -> str:
    if (query is None) == (file is None):
        raise ConfigError("sparql: give a query, or - to read it from standard input, or --file FILE")
    if file is None and query != "-":
        return str(query)
    try:
        content = sys.stdin.buffer.read(QUERY_BYTES_MAX) if file is None else file.read_bytes()[:QUERY_BYTES_MAX]
    except OSError as error:
        raise ConfigError(f"{file or '-'}: cannot be read ({error.strerror or error})") from None
    try:
        return content.decode()
    except UnicodeDecodeError as error:
        raise QueryError(f"{file or '-'}: the query must be UTF-8; byte {error.start} is not") from None


def _print_table(found: dict[str, Any]) -> None:
    """Print a table; for a yes-no query, the word."""
    if "boolean" in found:
        print_line("yes" if found["boolean"] else "no")
        return
    names, rows = found["head"]["vars"], found["results"]["bindings"]
    headings = [Text(name) for name in names]
    table = new_table(*headings, left=headings)
    for row in rows:
        table.add_row(*(Text(_format_term(row[name]) if name in row else "") for name in names))
    if rows:
        print_table(table)
    print_note(f"{len(rows):,} result{'' if len(rows) == 1 else 's'}")


def _format_term(term: dict[str, Any]) -> str:
    """A term of an answer as text, with short IRIs."""
    value = term["value"]
    if term["type"] == "triple":
        value = f"<<{' '.join(_format_term(value[name]) for name in ('subject', 'predicate', 'object'))}>>"
    elif term["type"] == "bnode":
        value = f"_:{value}"
    elif term["type"] == "uri":
        value = shorten_iri(value)
    elif "xml:lang" in term:
        value = f"{value} @{term['xml:lang']}"
    return str(value).replace("\n", " ")
