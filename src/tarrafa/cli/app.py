"""The `tarrafa` application: the table of all commands, in the panels of `tarrafa --help`.

A command's module is imported when the command runs, so that `tarrafa --help` stays fast.
"""

from importlib import import_module
from typing import Annotated, Any, NamedTuple

import typer
from typer.core import TyperGroup
from typer.main import get_group

from tarrafa import __version__
from tarrafa.runtime.terminal import print_line

START, COLLECTIONS, EXPLORE = "Start here", "Collections", "Explore"
OPERATE, SEVERAL_MACHINES, SCIENCE = "Operate", "Several machines", "Science"


class Command(NamedTuple):
    """`place`: module and function, or module and Typer application of a group. `parser`: the class in that module that
    parses the arguments in a way of its own.
    """

    panel: str
    place: str
    summary: str
    parser: str = ""


COMMANDS = {
    "demo": Command(START, "demo:demo", "Crawl and search a synthetic Web on this machine."),
    "init": Command(START, "collections:init", "Write a collection file to edit: plain, or from a preset."),
    "crawl": Command(START, "crawl:crawl", "Crawl a collection file; the same command resumes it."),
    "search": Command(
        START, "search:search", "Search the crawled pages; also while the crawl runs.", parser="SearchCommand"
    ),
    "serve": Command(START, "serve:serve", "Serve the search page and its JSON API."),
    "node": Command(START, "serve:node", "Run collections on schedule, with search page and console."),
    "check": Command(COLLECTIONS, "collections:check", "Check which URLs are in scope, and show the deciding rule."),
    "estimate": Command(
        COLLECTIONS, "collections:estimate", "Estimate pages, requests, time and disk space of a crawl."
    ),
    "add": Command(COLLECTIONS, "collections:add", "Add a collection file to the running node."),
    "start": Command(COLLECTIONS, "collections:start", "Start a collection; a finished one is crawled again."),
    "pause": Command(
        COLLECTIONS, "collections:pause", "Pause a collection. Running fetches finish; nothing new starts."
    ),
    "resume": Command(COLLECTIONS, "collections:resume", "Resume a paused or stopped collection."),
    "stop": Command(COLLECTIONS, "collections:stop", "Stop the crawl of a collection. Nothing is lost."),
    "delete": Command(
        COLLECTIONS, "collections:delete", "Delete a collection and its pages in search. The archive stays."
    ),
    "explain": Command(EXPLORE, "explain:explain", "Explain a URL: scope rule, robots.txt, visits, next visit."),
    "page": Command(EXPLORE, "page_site_links:page", "Show a page: rank, visits, versions, change rate, words, links."),
    "site": Command(EXPLORE, "page_site_links:site", "Show a site or host: pages, errors, robots.txt, linked sites."),
    "links": Command(EXPLORE, "page_site_links:links", "List the links to and from a URL, with anchor texts."),
    "versions": Command(EXPLORE, "archive.captures:versions", "List the archived captures of a URL."),
    "show": Command(EXPLORE, "archive.captures:show", "Show an archived copy of a URL: text, Markdown or bytes."),
    "diff": Command(EXPLORE, "archive.captures:diff", "Show what changed in a page between two dates."),
    "watch": Command(EXPLORE, "archive.watch:app", "Watch a page, a site or a query for changes."),
    "entities": Command(EXPLORE, "entities:entities", "Find people, events, products and other entities."),
    "sparql": Command(EXPLORE, "sparql:sparql", "Query the structured data of pages with SPARQL 1.1."),
    "sql": Command(EXPLORE, "archive.sql:sql", "Query tables of pages, visits and links with SQL."),
    "status": Command(OPERATE, "status_top:status", "Show state and numbers of collections and workers."),
    "top": Command(OPERATE, "status_top:top", "Watch collections and workers live in the terminal."),
    "query-log": Command(OPERATE, "search:query_log", "Show frequent searches, and searches without results."),
    "rebuild": Command(
        OPERATE,
        "rebuild_export_import:rebuild",
        "Rebuild frontier, graph, index, triples or captures.",
    ),
    "verify": Command(OPERATE, "archive.verify:verify", "Check all data for damage, and repair it."),
    "compact": Command(
        OPERATE,
        "archive.compact:compact_command",
        "Remove old versions, erase what is due, merge files.",
    ),
    "export": Command(OPERATE, "archive.export:app", "Export to files: frontier, WARC, WACZ, pages, tables."),
    "import": Command(
        OPERATE,
        "rebuild_export_import:import_",
        "Import an exported frontier, or WARC, ARC and WACZ files.",
    ),
    "get-replay": Command(
        OPERATE, "archive.get_replay:get_replay", "Fetch wabac.js, which replays archived pages in the browser."
    ),
    "user": Command(OPERATE, "users:app", "Manage the accounts of the console."),
    "credentials": Command(OPERATE, "credentials:app", "Manage headers, cookies and passwords for crawled sites."),
    "takedown": Command(OPERATE, "takedown:app", "Take down a URL, host or site from crawl and search."),
    "curation": Command(OPERATE, "search:curation_app", "Check the search curation file (synonyms, pinned sites)."),
    "worker": Command(SEVERAL_MACHINES, "crawl:worker", "Run workers here for a frontier on another machine."),
    "frontier": Command(
        SEVERAL_MACHINES, "crawl:frontier_app", "Serve the frontier to workers elsewhere; reset its clock."
    ),
    "archive": Command(SEVERAL_MACHINES, "archive.segment_log:app", "List an archive, push it into a store, pull it."),
    "report": Command(SCIENCE, "report:report", "Write the report of a collection: tables and plots."),
    "testweb": Command(SCIENCE, "demo:testweb", "Serve a synthetic Web, for tests and benchmarks."),
    "simulate": Command(SCIENCE, "simulate:app", "Simulate revisit policies."),
}


def load_command(name: str) -> Any:
    """Import a command of the table; the command as Typer runs it."""
    module_name, _, attribute = COMMANDS[name].place.partition(":")
    module = import_module(f"tarrafa.cli.{module_name}")
    found, parser = getattr(module, attribute), COMMANDS[name].parser
    parent = typer.Typer(rich_markup_mode="markdown")
    if isinstance(found, typer.Typer):
        parent.add_typer(found, name=name)
    else:
        parent.command(name, cls=getattr(module, parser) if parser else None)(found)
    return get_group(parent).commands[name]


class LazyGroup(TyperGroup):
    """Lists the commands by their summaries, and imports the one that runs."""

    def resolve_command(self, ctx: Any, args: list[str]) -> tuple[str | None, Any, list[str]]:
        name, command, rest = super().resolve_command(ctx, args)
        return name, load_command(name) if name is not None else command, rest


app = typer.Typer(
    cls=LazyGroup,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",  # reflows paragraphs
    context_settings={"help_option_names": ["-h", "--help"]},
)
for name, command in COMMANDS.items():
    app.command(name, rich_help_panel=command.panel, help=command.summary)(lambda: None)


def _version(wanted: bool) -> None:
    if wanted:
        print_line(f"tarrafa {__version__}")
        raise typer.Exit


@app.callback()
def global_options(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """Tarrafa crawls a part of the Web, keeps it fresh, and makes it searchable."""
