"""The `tarrafa` application: registers all commands in the panels of `tarrafa --help`.

Commands that fit no other module are here: demo, crawl, status, top, serve, rebuild, export, import, testweb. Heavy
modules are imported inside the commands, so that `tarrafa --help` stays fast.
"""

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Literal

import typer

from tarrafa import __version__
from tarrafa.cli import (
    collections,
    credentials,
    curation,
    entities,
    frontier,
    links,
    node,
    report,
    search,
    simulate,
    sparql,
    takedown,
    users,
)
from tarrafa.cli.options import (
    DEFAULT_DATA,
    RATE_DEFAULT,
    BehindProxy,
    CollectionFilter,
    Data,
    FrontierAddress,
    IndexShards,
    Json,
    Listen,
    NodeName,
    PublicUrl,
    RateHere,
    RateLimitOption,
    TokenFile,
    parse_rate_limit,
)
from tarrafa.errors import ConfigError
from tarrafa.runtime.data_dir import DataDirectory

START, COLLECTIONS, EXPLORE = "Start here", "Collections", "Explore"
OPERATE, SEVERAL_MACHINES, SCIENCE = "Operate", "Several machines", "Science"

app = typer.Typer(
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",  # reflows paragraphs
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"tarrafa {__version__}")
        raise typer.Exit


@app.callback()
def global_options(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """Tarrafa crawls a part of the Web, keeps it fresh, and makes it searchable."""


def demo(
    pages: Annotated[int, typer.Option(min=1, help="Pages to crawl.")] = 2000,
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port of the search page; 0: any free port.")] = 8080,
    data: Annotated[Path, typer.Option("--data", help="Data directory of the demo.")] = Path("tarrafa-demo"),
    leave: Annotated[bool, typer.Option("--exit", help="Exit after the summary; do not keep serving.")] = False,
    hostile: Annotated[
        bool, typer.Option("--hostile", help="Add badly behaved hosts to the Web, and crawl them all.")
    ] = False,
) -> None:
    """Crawl and search a synthetic Web on this machine.

    Search page and console work while the crawl runs. Ctrl-C stops cleanly; the same command continues.
    """
    from tarrafa.cli.crawl import run_until_interrupted
    from tarrafa.cli.demo import run_demo as play

    raise typer.Exit(
        run_until_interrupted(lambda: play(DataDirectory(data), pages, port, leave=leave, hostile=hostile))
    )


def crawl(
    file: Annotated[Path, typer.Argument(help="Collection file (TOML); `tarrafa init` writes one.")],
    data: Data = DEFAULT_DATA,
    workers: Annotated[int, typer.Option(min=0, max=64, help="Worker processes; 0: only external crawlers fetch.")] = 2,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print no progress and no summary.")] = False,
    where: FrontierAddress = None,
    token_file: TokenFile = None,
    name: NodeName = None,
    listen: Listen = None,
    index_shards: IndexShards = None,
) -> None:
    """Crawl a collection file; the same command resumes it.

    Pages are archived and indexed as they arrive. Exit status 0: no URL is left, or a limit of the collection is
    reached.

    If another Tarrafa process runs in the data directory, it takes the collection over, and Ctrl-C only detaches.

    With --frontier, this machine works for a remote frontier while the collection runs.
    """
    from tarrafa.cli import crawl
    from tarrafa.cli.crawl import build_supervisor
    from tarrafa.config.sections import ScheduleConfig
    from tarrafa.crawl.scope.collection_loader import load_collection
    from tarrafa.frontier.address import from_command_line

    collection, address = load_collection(file), from_command_line(where, token_file)
    if collection.schedule != ScheduleConfig():
        typer.echo(
            f"{collection.name}: crawled now; its [schedule] is used only by `tarrafa node` and `tarrafa add`", err=True
        )

    async def to_its_end() -> int:
        directory = DataDirectory(data)
        supervisor = build_supervisor(directory, workers, address, token_file, name, listen, index_shards=index_shards)
        return 0 if await crawl.crawl_in_foreground(supervisor, collection, quiet=quiet) else 1

    raise typer.Exit(crawl.run_until_interrupted(to_its_end))


def status(
    data: Data = DEFAULT_DATA,
    as_json: Json = False,
    where: FrontierAddress = None,
    token_file: TokenFile = None,
) -> None:
    """Show state and numbers of collections and workers.

    With the size of the index and of the triple store in this data directory. `tarrafa top` shows the same live.
    """
    import asyncio

    import msgspec

    from tarrafa.cli.crawl import fetch_overview
    from tarrafa.cli.output import terminal
    from tarrafa.frontier.address import from_command_line
    from tarrafa.i18n import ENGLISH
    from tarrafa.index.follower import index_status
    from tarrafa.triples.status import triples_status

    found = asyncio.run(fetch_overview(DataDirectory(data), from_command_line(where, token_file)))
    index, triples = index_status(DataDirectory(data)), triples_status(DataDirectory(data))
    if as_json:
        terminal.print_json(msgspec.to_builtins(ENGLISH.render_all(found)) | {"index": index, "triples": triples})
    else:
        terminal.print_overview(found)
        terminal.print_index_state(index)
        terminal.print_triples_state(triples)


def top(
    data: Data = DEFAULT_DATA,
    once: Annotated[bool, typer.Option("--once", help="Print one frame and exit.")] = False,
    as_json: Json = False,
    where: FrontierAddress = None,
    token_file: TokenFile = None,
) -> None:
    """Watch collections and workers live in the terminal.

    With the lag of index, link graph and triple store. q or Ctrl-C exits; the crawl continues. With --json, one line a
    second.
    """
    from tarrafa.cli.output.top import run_top
    from tarrafa.frontier.address import from_command_line

    run_top(DataDirectory(data), from_command_line(where, token_file), once=once, as_json=as_json)


def serve(
    data: Data = DEFAULT_DATA,
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port to listen on; 0: any free port.")] = 8080,
    crawlers: Annotated[
        bool, typer.Option("--crawlers", help="Also give work to external crawlers that know the token.")
    ] = False,
    shard: search.ShardUrls = None,
    as_shard: Annotated[
        bool, typer.Option("--as-shard", help="Let other machines search this index as one of their shards.")
    ] = False,
    token_file: TokenFile = None,
    public: PublicUrl = "",
    note_queries: Annotated[
        bool, typer.Option("--note-queries/--no-note-queries", help="Count queries per day for `tarrafa query-log`.")
    ] = True,
    sparql_time: sparql.ServedTime = sparql.TIME_MAX_S,
    sparql_limit: sparql.ServedLimit = sparql.RESULTS_MAX,
    rate_limit: RateLimitOption = RATE_DEFAULT,
    rate_here: RateHere = False,
    behind_proxy: BehindProxy = False,
) -> None:
    """Serve the search page and its JSON API.

    It starts no crawl: `tarrafa node` serves the same pages and crawls.
    """
    from tarrafa.cli.crawl import fetch_overview
    from tarrafa.frontier.address import from_environment
    from tarrafa.runtime.token import HOW_TO_MAKE_A_TOKEN, TOKEN_VARIABLE, load_token
    from tarrafa.search.searcher import Searcher
    from tarrafa.server.http_server import NO_TOKEN, run

    directory, address = DataDirectory(data), from_environment()
    has_data = directory.version.exists()
    if has_data or crawlers or as_shard or not shard:
        directory.check_version()
    if public and not public.startswith(("http://", "https://")):
        raise ConfigError(f"--public-url: {public}: must begin with http:// or https://")
    if token_file is not None and not (crawlers or as_shard or shard):
        raise ConfigError("--token-file is used only with --crawlers, --as-shard or --shard")
    token = load_token(token_file) if crawlers else NO_TOKEN
    if crawlers and not token:
        raise ConfigError(f"--crawlers needs a token: --token-file FILE, or {TOKEN_VARIABLE}; {HOW_TO_MAKE_A_TOKEN}")
    to_others = search.shard_token(token_file, host) if as_shard else None
    others = search.remote_shards(shard, load_token(token_file)) if shard else []
    search.print_shard_states(others)

    def ready(page: str) -> None:
        typer.echo(f"search page: {page}   (Ctrl-C stops)")
        if crawlers:
            typer.echo(f"crawlers: {page}crawl/v1/")
        if as_shard:
            typer.echo(f"for others: tarrafa serve --shard {page.rstrip('/')}")

    run(
        directory,
        host,
        port,
        status=(lambda: fetch_overview(directory, address)) if has_data or address is not None else None,
        on_ready=ready,
        token=token,
        address=address,
        searcher=Searcher.open(directory, others),
        as_shard=to_others,
        public=public,
        note_queries=note_queries,
        limits=sparql.query_limits(sparql_time, sparql_limit),
        rate=parse_rate_limit(rate_limit, rate_here, behind_proxy),
    )


def rebuild(
    what: Annotated[Literal["graph", "index", "triples", "frontier"], typer.Argument(help="What to rebuild.")],
    data: Data = DEFAULT_DATA,
    collections: Annotated[
        list[Path] | None,
        typer.Option("--collection", help="frontier: collection file to use instead of the archived definition."),
    ] = None,
    base: Annotated[
        Path | None, typer.Option("--from", help="frontier: start from this file of `tarrafa export frontier`.")
    ] = None,
    force: Annotated[
        bool, typer.Option("--force", help="frontier: replace a usable frontier; the old one is kept aside.")
    ] = False,
    shards: Annotated[
        str | None,
        typer.Option(
            "--shards",
            metavar="N",
            help="index: number of shards; 1,2/4: shards 1 and 2 of 4. Default: as before.",
        ),
    ] = None,
) -> None:
    """Rebuild frontier, graph, index or triples from the archive.

    Stop the crawl first. The old index answers searches until the new one is complete; the disk must hold both.

    If killed, run it again: frontier and index are unchanged, graph and triples are incomplete until then.
    """
    from tarrafa.archive.warc_writer import recover_archive
    from tarrafa.cli import maintenance
    from tarrafa.graph import follower as graph

    directory = DataDirectory(data)
    if what == "frontier":
        from tarrafa.cli.maintenance import rebuild_frontier

        typer.echo(rebuild_frontier(directory, collections or [], base, force=force))
        return
    if collections or base or force:
        raise ConfigError(f"--collection, --from and --force are for the frontier only, not for the {what}")
    if shards is not None and what != "index":
        raise ConfigError(f"--shards is for the index only, not for the {what}")
    directory.check_version()
    lock = directory.try_lock()
    if lock is None:
        raise ConfigError(f"{directory.root}: a crawl runs here; stop it first")
    with lock:
        recover_archive(directory.archive)
        if what == "index":
            count = maintenance.rebuild_index(directory, shards)
        else:
            count = maintenance.rebuild_triples(directory) if what == "triples" else graph.rebuild(directory)
    typer.echo(f"{what}: rebuilt from {count:,} visits")


def export(
    what: Annotated[Literal["frontier", "statements"], typer.Argument(help="What to export.")],
    file: Annotated[
        Path,
        typer.Argument(help="File to write; -: standard output (statements, or frontier as jsonl)."),
    ],
    data: Data = DEFAULT_DATA,
    collection: CollectionFilter = None,
    form: Annotated[
        Literal["tarrafa", "jsonl"] | None,
        typer.Option(
            "--format",
            help="frontier: tarrafa can be imported again; jsonl has one JSON object per URL, for other tools.",
        ),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace an existing file.")] = False,
    where: FrontierAddress = None,
    token_file: TokenFile = None,
) -> None:
    """Export the frontier, or all statements, to a file.

    The file is a snapshot of one moment; the crawl may run meanwhile. With --frontier, stop its workers first.

    frontier: every collection, every host with robots.txt and delays, every URL with state, visits and validators.

    statements: the structured data of all pages as N-Quads, with the page as graph; the file name ends in .nq, .nq.gz
    or .nq.zst.
    """
    import asyncio

    from tarrafa.cli.maintenance import export_frontier, export_statements
    from tarrafa.frontier.address import from_command_line

    if what == "statements":
        if form is not None:
            raise ConfigError("--format is for the frontier only; statements are N-Quads")
        said = export_statements(DataDirectory(data), file, collection, force=force)
    else:
        address, form = from_command_line(where, token_file), form or "tarrafa"
        said = asyncio.run(export_frontier(DataDirectory(data), file, collection, form, force=force, address=address))
    typer.echo(said, err=True)


def import_(
    what: Annotated[Literal["frontier"], typer.Argument(help="What to import.")],
    file: Annotated[Path, typer.Argument(help="File written by `tarrafa export`.")],
    data: Data = DEFAULT_DATA,
    where: FrontierAddress = None,
    token_file: TokenFile = None,
) -> None:
    """Import an exported frontier.

    Its collections are added, paused. A truncated or damaged file, or a collection that exists already, is refused
    before anything changes.
    """
    import asyncio

    from tarrafa.cli.maintenance import import_frontier
    from tarrafa.frontier.address import from_command_line

    address = from_command_line(where, token_file)
    typer.echo(asyncio.run(import_frontier(DataDirectory(data), file, address)), err=True)


def testweb(
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port to listen on; 0: any free port.")] = 8090,
    hosts: Annotated[int, typer.Option(min=1, help="Number of hosts.")] = 40,
    pages: Annotated[int, typer.Option(min=1, help="Number of pages, on all hosts.")] = 2000,
    seed: Annotated[int, typer.Option(help="Seed; another seed gives another Web.")] = 1,
    addresses: Annotated[
        bool, typer.Option("--addresses", help="Also serve each host on its own 127.x.y.z, for other crawlers.")
    ] = False,
    latency: Annotated[float, typer.Option(min=0, help="Mean response time in seconds.")] = 0.0,
    crawl_delay: Annotated[float, typer.Option(min=0, help="Crawl-delay in robots.txt, in seconds.")] = 1.0,
    crawl_delay_share: Annotated[
        float, typer.Option(min=0, max=1, help="Share of hosts whose robots.txt has a Crawl-delay.")
    ] = 0.0,
    changes: Annotated[float, typer.Option(min=0, help="Factor on the change rate of pages.")] = 1.0,
    hostile: Annotated[bool, typer.Option("--hostile", help="Add the badly behaved hosts.")] = False,
    speed: Annotated[float, typer.Option(min=0.001, help="Factor on the speed of its clock.")] = 1.0,
    log: Annotated[Path | None, typer.Option(help="Append every request to this file as a JSON line.")] = None,
) -> None:
    """Serve a synthetic Web, for tests and benchmarks.

    It listens on loopback. Pages are generated from their URL and the seed; `/__truth__` on any host tells the true
    state of its pages.
    """
    from tarrafa.clock import Clock
    from tarrafa.testweb import CA_FILE
    from tarrafa.testweb.hostile import SUFFIXES, hostile_roots
    from tarrafa.testweb.http.web_server import WebServer, run_web_server
    from tarrafa.testweb.world.world import World

    world = World(seed, hosts, pages, crawl_delay, crawl_delay_share, changes, hostile=hostile)

    def ready(server: WebServer) -> None:
        typer.echo(f'{hosts:,} hosts, {pages:,} pages. The collection file needs:\n\nroots = ["{world.root(1)}"]\n')
        targets = ", ".join(f'"{name}" = "{target}"' for name, target in server.connections.items())
        typer.echo(f"[network]\nconnect_to = {{{targets}}}")
        typer.echo(f"suffixes = {json.dumps(['br.test', 'pt.test', 'com.test', *(SUFFIXES if hostile else ())])}\n")
        if hostile:
            typer.echo(f"The badly behaved hosts, as roots: {json.dumps(hostile_roots())}\n")
            typer.echo(f"The certificate of good.tls.test is valid with ca_file = {json.dumps(str(CA_FILE))}\n")
        if addresses:
            typer.echo(f"Root for any other crawler: {world.root(1, server.form)}\n")
        typer.echo("Ctrl-C stops.")

    clock = Clock.scaled(speed) if speed != 1.0 else Clock.from_environment()
    stats = run_web_server(
        world, port=port, addresses=addresses, log_path=log, clock=clock, latency_s=latency, ready=ready
    )
    sys.stderr.write(f"{stats.sentence()}\n")


def _register(panel: str, *commands: Callable[..., None]) -> None:
    for command in commands:
        context = search.SEARCH_CONTEXT if command is search.search else None
        name = command.__name__.strip("_").replace("_", "-")
        app.command(name, rich_help_panel=panel, context_settings=context)(command)


_register(START, demo, collections.init, crawl, search.search, serve, node.node)
_register(COLLECTIONS, collections.check, collections.estimate, collections.add, collections.start, collections.pause)
_register(COLLECTIONS, collections.resume, collections.stop, collections.delete)
_register(EXPLORE, links.explain, links.page, links.site, links.links, entities.entities, sparql.sparql)
_register(OPERATE, status, top, search.query_log, rebuild, export, import_)
_register(SEVERAL_MACHINES, frontier.worker)
_register(SCIENCE, report.report, testweb)
for group, name, panel, text in (
    (users.app, "user", OPERATE, "Manage the accounts of the console."),
    (credentials.app, "credentials", OPERATE, "Manage headers, cookies and passwords for crawled sites."),
    (takedown.app, "takedown", OPERATE, "Take down a URL, host or site from crawl and search."),
    (curation.app, "curation", OPERATE, "Check the search curation file (synonyms, pinned sites)."),
    (frontier.app, "frontier", SEVERAL_MACHINES, "Serve the frontier to workers on other machines."),
):
    app.add_typer(group, name=name, rich_help_panel=panel, help=text)
app.add_typer(simulate.app, name="simulate", rich_help_panel=SCIENCE)
