"""Registers all commands of `tarrafa`, with crawl, status, explain, serve, rebuild, export, import, demo and testweb.

tarrafa demo        a synthetic Web, crawled, indexed and searchable in front of you
tarrafa init        a collection file to begin with; from a preset, if you like
tarrafa judge FILE  which URLs would be in or out, and by which rule
tarrafa estimate FILE  pages, days and bytes that it would take, and what that is concluded from
tarrafa add FILE    hand a collection to the node that works here, which runs it when it is time
tarrafa crawl FILE  crawl a collection; the same command goes on after a stop
tarrafa status      what is there, what runs
tarrafa top         the same, live in the terminal
tarrafa pause NAME  let a collection rest; also resume, stop
tarrafa worker      crawl for a frontier on another machine
tarrafa node        keep crawls running, with their schedules and a console; or take part in another machine's
tarrafa frontier    serve the frontier to other machines
tarrafa search      ask
tarrafa sparql      ask what pages state, by SPARQL
tarrafa links URL   who links to a page, and where it leads
tarrafa page URL    all that is known of a page: rank, visits, versions, words, links
tarrafa site NAME   all that is known of a site: pages, errors, robots.txt, the sites around it
tarrafa report NAME the Web of a collection in tables and figures: HTML, Markdown, JSON, plots
tarrafa things      what pages speak of: by class, property, words, dates and numbers
tarrafa explain URL why it is in or out, what robots.txt says, its history, its next visit
tarrafa curate      synonyms, pinned, lowered and blocked sites: is the file right?
tarrafa takedown    a URL, a host or a site that nobody may fetch, find or see any more
tarrafa secret      headers, cookies and passwords for sites that one may enter
tarrafa serve       the search page; with --crawlers, work for crawlers elsewhere; over shards on other machines
tarrafa user        who may see and change things in the console
tarrafa queries     what people searched for, and what they did not find
tarrafa rebuild     make graph, index, triple store or frontier again from the archive
tarrafa export      the frontier in one file: to keep, to move, or for other tools; what pages state, as N-Quads
tarrafa import      take such a file in
tarrafa web         a synthetic Web to play with
tarrafa simulate    what would happen? revisit policies on a false Web
"""

import json
import sys
from pathlib import Path
from typing import Annotated, Literal

import typer

from tarrafa import __version__
from tarrafa.cli import collections as adding
from tarrafa.cli import collections as defining
from tarrafa.cli import credentials, curation, entities, frontier, links, node, report, search, simulate, sparql, users
from tarrafa.cli.options import DEFAULT_DATA, CollectionFilter, Data, Json
from tarrafa.errors import ConfigError
from tarrafa.runtime.data_dir import DataDirectory

app = typer.Typer(
    help="Throw the net over a part of the Web, keep the catch fresh, and let people search it.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.add_typer(simulate.app, name="simulate")
app.add_typer(frontier.app, name="frontier")
app.add_typer(curation.curation_app, name="curate")
app.add_typer(curation.takedown_app, name="takedown")
app.add_typer(users.app, name="user")
app.add_typer(credentials.app, name="secret")


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
    """Throw the net over a part of the Web, keep the catch fresh, and let people search it."""


@app.command()
def demo(
    pages: Annotated[int, typer.Option(min=1, help="How many pages to crawl.")] = 2000,
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port of the search page; 0: any free one.")] = 8080,
    data: Annotated[Path, typer.Option("--data", help="Where the demo's data are kept.")] = Path("tarrafa-demo"),
    leave: Annotated[bool, typer.Option("--exit", help="Stop after the summary instead of serving on.")] = False,
    hostile: Annotated[
        bool, typer.Option("--hostile", help="Add a host for everything that can go wrong, and crawl all of it.")
    ] = False,
) -> None:
    """Serve a synthetic Web, crawl it, index it, and open the search page.

    Ctrl-C stops cleanly; run again, it goes on where it was.
    """
    from tarrafa.cli.crawl import run_until_interrupted
    from tarrafa.cli.demo import run_demo as play

    raise typer.Exit(
        run_until_interrupted(lambda: play(DataDirectory(data), pages, port, leave=leave, hostile=hostile))
    )


for defined in (defining.init, defining.check, defining.estimate):
    app.command()(defined)


@app.command()
def crawl(
    file: Annotated[Path, typer.Argument(help="A collection file (TOML); `tarrafa init` writes one.")],
    data: Data = DEFAULT_DATA,
    workers: Annotated[
        int, typer.Option(min=0, max=64, help="Crawling processes here; 0: crawlers elsewhere do it all.")
    ] = 2,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No progress, no summary.")] = False,
    where: frontier.FrontierAddress = None,
    token_file: frontier.TokenFile = None,
    name: frontier.NodeName = None,
    listen: frontier.Listen = None,
    index_shards: frontier.IndexShards = None,
) -> None:
    """Crawl a collection, archive and index it; the same command goes on after a stop.

    Exit status 0: nothing is left to visit, or a limit of the collection is reached.

    If another process works in the data directory already, it takes the collection over, and Ctrl-C only detaches.

    With --frontier this machine joins a frontier elsewhere for as long as the collection runs.
    """
    from tarrafa.cli import crawl
    from tarrafa.cli.crawl import build_supervisor
    from tarrafa.config import ScheduleConfig
    from tarrafa.crawl.scope.admission import load_collection
    from tarrafa.frontier.address import from_command_line

    collection, address = load_collection(file), from_command_line(where, token_file)
    if collection.schedule != ScheduleConfig():
        typer.echo(f"{collection.name}: crawled now; its [schedule] is for `tarrafa node` and `tarrafa add`", err=True)

    async def to_its_end() -> int:
        directory = DataDirectory(data)
        supervisor = build_supervisor(directory, workers, address, token_file, name, listen, index_shards=index_shards)
        return 0 if await crawl.crawl_in_foreground(supervisor, collection, quiet=quiet) else 1

    raise typer.Exit(crawl.run_until_interrupted(to_its_end))


@app.command()
def status(
    data: Data = DEFAULT_DATA,
    as_json: Json = False,
    watch: Annotated[
        bool, typer.Option("--watch", help="Live, until q or Ctrl-C; with --json, one line a second.")
    ] = False,
    where: frontier.FrontierAddress = None,
    token_file: frontier.TokenFile = None,
) -> None:
    """Show every collection's state and numbers, the workers, and the index and the triple store that are here."""
    if watch:
        top(data, as_json=as_json, where=where, token_file=token_file)
        return
    import asyncio

    import msgspec

    from tarrafa.cli.crawl import fetch_overview
    from tarrafa.cli.output import terminal
    from tarrafa.frontier.address import from_command_line
    from tarrafa.index.status import index_status
    from tarrafa.triples.status import triples_status as statements_of

    found = asyncio.run(fetch_overview(DataDirectory(data), from_command_line(where, token_file)))
    index, triples = index_status(DataDirectory(data)), statements_of(DataDirectory(data))
    if as_json:
        terminal.print_json(msgspec.to_builtins(found) | {"index": index, "triples": triples})
    else:
        terminal.print_overview(found)
        terminal.print_index_state(index)
        terminal.print_triples_state(triples)


@app.command("top")
def top(
    data: Data = DEFAULT_DATA,
    once: Annotated[bool, typer.Option("--once", help="Print one frame and end.")] = False,
    as_json: Json = False,
    where: frontier.FrontierAddress = None,
    token_file: frontier.TokenFile = None,
) -> None:
    """Watch every collection, the workers, and what follows the archive, live in the terminal.

    q or Ctrl-C ends it; the crawl goes on. With --json, one line a second.
    """
    from tarrafa.cli.top import run_top
    from tarrafa.frontier.address import from_command_line

    run_top(DataDirectory(data), from_command_line(where, token_file), once=once, as_json=as_json)


for command in (
    adding.add,
    frontier.start,
    frontier.pause,
    frontier.resume,
    frontier.stop,
    frontier.delete,
    frontier.worker,
    node.node,
    search.query_log,
):
    app.command()(command)


app.command(context_settings=search.SEARCH_CONTEXT)(search.search)
app.command()(entities.entities)

for related in (sparql.sparql, links.links, links.page, links.site, report.report):
    app.command()(related)


@app.command()
def explain(
    url: Annotated[str, typer.Argument(help="Any URL.")],
    data: Data = DEFAULT_DATA,
    collection: CollectionFilter = None,
    as_json: Json = False,
    where: frontier.FrontierAddress = None,
    token_file: frontier.TokenFile = None,
) -> None:
    """Say why a URL is in or out, what robots.txt says, what became of it, and when its turn comes.

    The tool that a webmaster's complaint is answered with.
    """
    import asyncio

    from tarrafa.cli.crawl import frontier_time
    from tarrafa.cli.output import explanation, terminal
    from tarrafa.crawl.explain.explain import Explanation
    from tarrafa.crawl.explain.explain import explain as ask
    from tarrafa.frontier.address import from_command_line

    address = from_command_line(where, token_file)

    async def asked() -> Explanation:
        return await ask(DataDirectory(data), url, collection, await frontier_time(address), address)

    found = asyncio.run(asked())
    if as_json:
        terminal.print_json(found)
    else:
        explanation.print_explanation(found)


@app.command()
def serve(
    data: Data = DEFAULT_DATA,
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port to listen on; 0: any free one.")] = 8080,
    crawlers: Annotated[
        bool, typer.Option("--crawlers", help="Also give work to crawlers elsewhere that know the token.")
    ] = False,
    shard: search.ShardUrls = None,
    as_shard: Annotated[
        bool, typer.Option("--as-shard", help="Let other machines ask this one's index for a search over several.")
    ] = False,
    token_file: Annotated[
        Path | None, typer.Option(help="A file with the token; without it, the environment's TARRAFA_TOKEN.")
    ] = None,
    public: Annotated[
        str, typer.Option("--public-url", help="The address that others know the page by, where a proxy is between.")
    ] = "",
    note_queries: Annotated[
        bool, typer.Option("--note-queries/--no-note-queries", help="Count what is searched for, by the day.")
    ] = True,
    sparql_time: sparql.ServedTime = sparql.TIME_MAX_S,
    sparql_limit: sparql.ServedLimit = sparql.RESULTS_MAX,
    rate_limit: users.RateLimitOption = users.RATE_DEFAULT,
    rate_here: users.RateHere = False,
    behind_proxy: users.BehindProxy = False,
) -> None:
    """Serve the search page and its JSON; starts no crawl."""
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
        raise ConfigError("--token-file: there is nobody to show a token to without --crawlers, --as-shard or --shard")
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
        rate=users.parse_rate_limit(rate_limit, rate_here, behind_proxy),
    )


@app.command()
def rebuild(
    what: Annotated[
        Literal["graph", "index", "triples", "frontier"], typer.Argument(help="What to make again from the archive.")
    ],
    data: Data = DEFAULT_DATA,
    collections: Annotated[
        list[Path] | None,
        typer.Option("--collection", help="frontier: a collection file that holds instead of what the archive says."),
    ] = None,
    base: Annotated[
        Path | None, typer.Option("--from", help="frontier: a file of `tarrafa export frontier` to begin with.")
    ] = None,
    force: Annotated[
        bool, typer.Option("--force", help="frontier: also when the one that is there can be used; it is kept aside.")
    ] = False,
    shards: Annotated[
        str | None,
        typer.Option(
            "--shards",
            metavar="N",
            help="index: in so many parts from now on; 1,2/4: of four, these two. By default as it was.",
        ),
    ] = None,
) -> None:
    """Make the link graph, the index, the triple store or a lost frontier again, from the archive alone.

    Not while a crawl runs. An index that is there answers until the new one is whole; there must be room for both.

    Killed, a frontier and an index are left as they were, and the others half made: run it again, and the end is the
    same.
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
    typer.echo(f"{what}: made again from {count:,} visits")


@app.command()
def export(
    what: Annotated[Literal["frontier", "statements"], typer.Argument(help="What to export.")],
    file: Annotated[
        Path,
        typer.Argument(help="The file to write; - is the standard output (statements, and jsonl of the frontier)."),
    ],
    data: Data = DEFAULT_DATA,
    collection: CollectionFilter = None,
    form: Annotated[
        Literal["tarrafa", "jsonl"] | None,
        typer.Option(
            "--format", help="frontier: tarrafa, for `import`; jsonl, one JSON object per URL, for other tools."
        ),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace the file if it exists.")] = False,
    where: frontier.FrontierAddress = None,
    token_file: frontier.TokenFile = None,
) -> None:
    """Write all that the frontier knows, or all that pages state, into one file, as of one moment.

    A crawl may go on meanwhile; with --frontier its workers are stopped first. frontier: every URL with its state,
    visits and validators, every host with its robots.txt and delays, every collection. statements: N-Quads, the page
    being the graph; the file's name ends in .nq, .nq.gz or .nq.zst.
    """
    import asyncio

    from tarrafa.cli.export_statements import export_statements
    from tarrafa.cli.maintenance import export_frontier
    from tarrafa.frontier.address import from_command_line

    if what == "statements":
        if form is not None:
            raise ConfigError("--format is for the frontier only; statements are N-Quads")
        said = export_statements(DataDirectory(data), file, collection, force=force)
    else:
        address, form = from_command_line(where, token_file), form or "tarrafa"
        said = asyncio.run(export_frontier(DataDirectory(data), file, collection, form, force=force, address=address))
    typer.echo(said, err=True)


@app.command("import")
def import_(
    what: Annotated[Literal["frontier"], typer.Argument(help="What to import.")],
    file: Annotated[Path, typer.Argument(help="A file that `tarrafa export` wrote.")],
    data: Data = DEFAULT_DATA,
    where: frontier.FrontierAddress = None,
    token_file: frontier.TokenFile = None,
) -> None:
    """Take in what `export` wrote: its collections are added to those that are here, paused.

    A file that is cut or damaged, or a collection that is here already, is refused before anything changes.
    """
    import asyncio

    from tarrafa.cli.maintenance import import_frontier
    from tarrafa.frontier.address import from_command_line

    address = from_command_line(where, token_file)
    typer.echo(asyncio.run(import_frontier(DataDirectory(data), file, address)), err=True)


@app.command()
def testweb(
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port to listen on; 0: any free one.")] = 8090,
    hosts: Annotated[int, typer.Option(min=1, help="How many hosts.")] = 40,
    pages: Annotated[int, typer.Option(min=1, help="How many pages in all.")] = 2000,
    seed: Annotated[int, typer.Option(help="Another seed, another Web.")] = 1,
    addresses: Annotated[bool, typer.Option(help="Every host also on its own 127.x.y.z, for other crawlers.")] = False,
    latency: Annotated[float, typer.Option(min=0, help="Mean seconds that an answer takes.")] = 0.0,
    crawl_delay: Annotated[float, typer.Option(min=0, help="Seconds that robots.txt asks for.")] = 1.0,
    crawl_delay_share: Annotated[
        float, typer.Option(min=0, max=1, help="Share of hosts that ask for --crawl-delay.")
    ] = 0.0,
    changes: Annotated[float, typer.Option(min=0, help="Multiplies the rate at which pages change.")] = 1.0,
    corners: Annotated[bool, typer.Option(help="Add the badly behaved hosts.")] = False,
    speed: Annotated[float, typer.Option(min=0.001, help="How much faster than ours its clock runs.")] = 1.0,
    log: Annotated[Path | None, typer.Option(help="Append every request to this file, as JSON lines.")] = None,
) -> None:
    """Serve a synthetic Web on loopback: a playground, a test bed, the other side of a benchmark.

    Pages are made from their URL and the seed; `/__truth__` on any host tells what is really there.
    """
    from tarrafa.clock import Clock
    from tarrafa.testweb import CA_FILE
    from tarrafa.testweb.hostile import SUFFIXES, hostile_roots
    from tarrafa.testweb.http.web_server import WebServer, run_web_server
    from tarrafa.testweb.world.world import World

    world = World(seed, hosts, pages, crawl_delay, crawl_delay_share, changes, hostile=corners)

    def ready(server: WebServer) -> None:
        typer.echo(f"{hosts:,} hosts, {pages:,} pages; begin at {world.root(1)}, and in the collection file write:\n")
        targets = ", ".join(f'"{name}" = "{target}"' for name, target in server.connections.items())
        typer.echo(f"[network]\nconnect_to = {{{targets}}}")
        typer.echo(f"suffixes = {json.dumps(['br.test', 'pt.test', 'com.test', *(SUFFIXES if corners else ())])}\n")
        if corners:
            typer.echo(f"The badly behaved hosts, as roots: {json.dumps(hostile_roots())}\n")
            typer.echo(f"good.tls.test is believed with ca_file = {json.dumps(str(CA_FILE))}\n")
        if addresses:
            typer.echo(f"or, for any crawler: {world.root(1, server.form)}\n")
        typer.echo("Ctrl-C stops.")

    clock = Clock.scaled(speed) if speed != 1.0 else Clock.from_environment()
    stats = run_web_server(
        world, port=port, addresses=addresses, log_path=log, clock=clock, latency_s=latency, ready=ready
    )
    sys.stderr.write(f"{stats.sentence()}\n")
