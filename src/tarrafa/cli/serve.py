"""Commands `serve` and `node`: `serve` serves the search pages; `node` also crawls, and coordinates or joins a node."""

import logging
from pathlib import Path
from typing import Annotated, Literal

import typer

from tarrafa.cli.crawl import node_name, run_until_interrupted
from tarrafa.cli.options import (
    DEFAULT_DATA,
    LISTEN_BESIDE_REMOTE,
    RATE_DEFAULT,
    BehindProxy,
    Data,
    FrontierAddress,
    IndexShards,
    Listen,
    NodeName,
    PublicUrl,
    RateHere,
    RateLimitOption,
    ReplayUrl,
    SearchProcesses,
    Store,
    TokenFile,
    existing_data,
)
from tarrafa.cli.search import ShardUrls, print_shard_states, remote_shards, shard_token
from tarrafa.cli.sparql import ServedLimit, ServedTime
from tarrafa.clock import Clock
from tarrafa.coordinator.node.coordinator_node import CoordinatorNode
from tarrafa.coordinator.node.worker_node import CoordinatorClient, WorkerNode
from tarrafa.crawl.explain.frontier_lookup import fetch_overview
from tarrafa.crawl.supervisor.drain import drain
from tarrafa.crawl.supervisor.frontier_link import (
    FrontierLink,
    LocalFrontierLink,
    RemoteFrontierLink,
)
from tarrafa.crawl.verify.scrub import SCRUB_PERIODS_S
from tarrafa.errors import ConfigError, Locked
from tarrafa.frontier.address import from_command_line, from_environment, parse_host_port
from tarrafa.frontier.rpc.frontier_server import parse_listen_address
from tarrafa.index import shards
from tarrafa.runtime.data_dir import DataDirectory
from tarrafa.runtime.terminal import print_line, print_note
from tarrafa.runtime.token import HOW_TO_MAKE_A_TOKEN, NO_TOKEN, TOKEN_VARIABLE, Token, load_token
from tarrafa.search.searcher import Searcher
from tarrafa.server.app import SiteSettings
from tarrafa.server.auth.authentication import Authenticator
from tarrafa.server.auth.request_origin import TrustedProxies
from tarrafa.server.console.console import Console
from tarrafa.server.coordinator_site import serve_node_pages
from tarrafa.server.http_server import bind, run
from tarrafa.server.internal.health_endpoint import health_served
from tarrafa.server.rate_limit import RateLimit
from tarrafa.server.replay.replay_site import ReplaySite
from tarrafa.triples.sparql_pool import RESULTS_MAX, TIME_MAX_S, SparqlLimits

JoinUrl = Annotated[
    str | None, typer.Option("--join", metavar="URL", help="Join the coordinating node at URL.", show_default=False)
]


def serve(
    data: Data = DEFAULT_DATA,
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port to listen on; 0: any free port.")] = 8080,
    crawlers: Annotated[
        bool, typer.Option("--crawlers", help="Also give work to external crawlers that know the token.")
    ] = False,
    shard: ShardUrls = None,
    as_shard: Annotated[
        bool, typer.Option("--as-shard", help="Let other machines search this index as one of their shards.")
    ] = False,
    token_file: TokenFile = None,
    public: PublicUrl = "",
    replay_url: ReplayUrl = "",
    note_queries: Annotated[
        bool, typer.Option("--note-queries/--no-note-queries", help="Count queries per day for `tarrafa query-log`.")
    ] = True,
    sparql_time: ServedTime = TIME_MAX_S,
    sparql_limit: ServedLimit = RESULTS_MAX,
    rate_limit: RateLimitOption = RATE_DEFAULT,
    rate_here: RateHere = False,
    behind_proxy: BehindProxy = None,
    search_processes: SearchProcesses = None,
) -> None:
    """Serve the search page and its JSON API.

    It starts no crawl: `tarrafa node` serves the same pages and crawls.
    """
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
    to_others = shard_token(token_file, host) if as_shard else None
    others = remote_shards(shard, load_token(token_file)) if shard else []
    print_shard_states(others)

    replay = ReplaySite.parse(replay_url, public) if replay_url else None

    def ready(page: str) -> None:
        print_line(f"search page: {page}   (Ctrl-C stops)")
        if replay is not None:
            print_line(f"with replay: {replay.framed_by[0]}/")
        if crawlers:
            print_line(f"crawlers: {page}crawl/v1/")
        if as_shard:
            print_line(f"for others: tarrafa serve --shard {page.rstrip('/')}")

    settings = SiteSettings(
        status=(lambda: fetch_overview(directory, address)) if has_data or address is not None else None,
        searcher=Searcher.open(directory, others),
        public=public,
        address=address,
        rate=RateLimit.parse(rate_limit, local=rate_here, proxies=TrustedProxies.parse(behind_proxy)),
        crawler_token=token,
        shard_token=to_others,
        logs_queries=note_queries,
        sparql_limits=SparqlLimits(time_s=sparql_time, results=sparql_limit),
        replay=replay,
        search_processes=search_processes,
    )
    run(directory, settings, host, port, ready)


def node(
    action: Annotated[
        Literal["drain"] | None,
        typer.Argument(help="drain: end the node that runs here, and give everything back that it holds."),
    ] = None,
    join_url: JoinUrl = None,
    data: Data = DEFAULT_DATA,
    workers: Annotated[
        int, typer.Option(min=0, max=64, help="Worker processes; the console can change the number.")
    ] = 2,
    name: NodeName = None,
    host: Annotated[str, typer.Option(help="Address of search page and console.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="Their port; 0: any free port.")] = 8080,
    listen: Listen = None,
    where: FrontierAddress = None,
    token_file: TokenFile = None,
    public: PublicUrl = "",
    replay_url: ReplayUrl = "",
    rate_limit: RateLimitOption = RATE_DEFAULT,
    behind_proxy: BehindProxy = None,
    search_processes: SearchProcesses = None,
    index_shards: IndexShards = None,
    store: Store = None,
    health: Annotated[
        str | None,
        typer.Option(
            "--health", metavar="HOST:PORT", help="Serve /healthz and /readyz there, for systemd and Kubernetes."
        ),
    ] = None,
    wait: Annotated[
        float, typer.Option("--wait", min=0, max=86_400, help="drain: how many seconds to wait for its end.")
    ] = 300.0,
    scrub: Annotated[
        Literal["weekly", "daily", "off"],
        typer.Option(help="How often all data are checked for damage, at low priority (`tarrafa verify --deep`)."),
    ] = "weekly",
) -> None:
    """Run collections on schedule, with search page and console.

    It runs until Ctrl-C. Collections that run then continue at the next start. Processes that die are restarted. While
    the disk is full, the node pauses and says so.

    With --join, this machine works for another node, which coordinates it. While the coordinator is unreachable, the
    work continues.

    `tarrafa node drain` ends the node of a data directory for good: workers commit what they have and return their
    hosts, other nodes take its parts at once.
    """
    if action == "drain":
        drain(existing_data(data), wait)
        print_line(f"{data}: drained")
        return
    directory, token = DataDirectory(data), load_token(token_file)
    health_address = None if health is None else parse_host_port(health, "--health", any_port=True)
    divided = None if index_shards is None else shards.parse_layout(index_shards, "--index-shards")
    own_name = node_name(name).removesuffix("-")
    if join_url is not None:
        if listen is not None or where or store:
            raise ConfigError("--join: the coordinator names the frontier; leave out --frontier, --listen and --store")
        client = CoordinatorClient(join_url, token)
        every_s = SCRUB_PERIODS_S[scrub]
        worker_node = WorkerNode(client, directory, own_name, workers, print_note, divided, scrub_every_s=every_s)

        async def work() -> None:
            async with health_served(health_address, lambda: worker_node.last_heartbeat, print_note):
                await worker_node.run()

        raise typer.Exit(run_until_interrupted(work))
    rate = RateLimit.parse(rate_limit, local=False, proxies=TrustedProxies.parse(behind_proxy))
    replay = ReplaySite.parse(replay_url, public) if replay_url else None
    link = _frontier_link(directory, listen, where, token_file, token)
    logging.basicConfig(format="%(asctime)s %(message)s", level=logging.WARNING)
    clock = Clock.from_environment()
    directory.create()
    authenticator = Authenticator(directory, clock.now, token, public, rate.proxies)
    authenticator.check_listen_address(host)

    async def coordinate() -> None:
        listening = bind(host, port)  # before anything else is started
        home = CoordinatorNode(
            directory,
            own_name,
            workers,
            clock,
            print_note,
            link,
            divided,
            scrub_every_s=SCRUB_PERIODS_S[scrub],
            store=store,
        )
        console = Console(authenticator)
        try:
            pages = serve_node_pages(home, console, host, listening, token, public, rate, replay, search_processes)
            healthy = health_served(health_address, lambda: home.last_heartbeat, print_note)
            async with healthy, home, pages as page:
                if advice := authenticator.advice(host):
                    print_note(advice)
                print_note(f"search page: {page}\nconsole:     {page}console   (Ctrl-C stops)")
                if replay is not None:
                    print_note(f"with replay: {replay.framed_by[0]}/")
                await home.run()
        except Locked:
            raise Locked(f"{directory.root}: another Tarrafa process runs here; stop it first") from None
        finally:
            listening.close()

    raise typer.Exit(run_until_interrupted(coordinate))


def _frontier_link(
    data: DataDirectory, listen: str | None, where: list[str] | None, token_file: Path | None, token: Token
) -> FrontierLink:
    clock, address = Clock.from_environment(), from_command_line(where, token_file)
    if address is not None:
        if listen is not None:
            raise ConfigError(LISTEN_BESIDE_REMOTE)
        return RemoteFrontierLink(address, clock)
    listening = parse_listen_address(listen, token) if listen else None
    return LocalFrontierLink(data, clock, listening, token, patient=True)
