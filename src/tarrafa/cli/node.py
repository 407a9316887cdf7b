"""Command `tarrafa node`: runs the coordinating node with its pages, or joins another node."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tarrafa.cli.options import (
    DEFAULT_DATA,
    RATE_DEFAULT,
    BehindProxy,
    Data,
    FrontierAddress,
    IndexShards,
    Listen,
    NodeName,
    PublicUrl,
    RateLimitOption,
    TokenFile,
    parse_rate_limit,
)
from tarrafa.errors import ConfigError, Locked
from tarrafa.runtime.data_dir import DataDirectory

if TYPE_CHECKING:
    from tarrafa.crawl.supervisor.frontier_link import FrontierLink
    from tarrafa.server.rate_limit import RateLimit

JoinUrl = Annotated[
    str | None,
    typer.Option("--join", metavar="URL", help="Join the coordinating node at URL.", show_default=False),
]


def node(
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
    rate_limit: RateLimitOption = RATE_DEFAULT,
    behind_proxy: BehindProxy = False,
    index_shards: IndexShards = None,
) -> None:
    """Run collections on schedule, with search page and console.

    It runs until Ctrl-C. Collections that run then continue at the next start. Processes that die are restarted. While
    the disk is full, the node pauses and says so.

    With --join, this machine works for another node, which coordinates it. While the coordinator is unreachable, the
    work continues.
    """
    directory = DataDirectory(data)
    if join_url is not None:
        raise typer.Exit(join_coordinator(join_url, directory, workers, name, token_file, index_shards))
    raise typer.Exit(
        coordinate(
            directory,
            workers,
            name,
            host,
            port,
            _frontier_link(directory, listen, where, token_file),
            token_file,
            public,
            index_shards,
            parse_rate_limit(rate_limit, False, behind_proxy),
        )
    )


def _frontier_link(
    data: DataDirectory, listen: str | None, where: list[str] | None, token_file: Path | None
) -> "FrontierLink":
    from tarrafa.clock import Clock
    from tarrafa.crawl.supervisor.frontier_link import LocalFrontierLink, RemoteFrontierLink
    from tarrafa.frontier.address import from_command_line
    from tarrafa.frontier.rpc.frontier_server import parse_listen_address
    from tarrafa.runtime.token import load_token

    clock, token = Clock.from_environment(), load_token(token_file)
    if listen is not None and where:
        raise ConfigError("--listen: a remote frontier cannot be served from here; leave out --frontier")
    address = from_command_line(where, token_file)
    if address is not None:
        return RemoteFrontierLink(address, clock)
    listening = parse_listen_address(listen, token) if listen else None
    return LocalFrontierLink(data, clock, listening, token, patient=True)


def coordinate(
    data: DataDirectory,
    workers: int,
    name: str | None,
    host: str,
    port: int,
    frontier_link: "FrontierLink",
    token_file: Path | None,
    public: str,
    index_shards: str | None,
    rate: "RateLimit",
) -> int:
    """Run the coordinating node until interrupted; the exit status."""
    import logging

    from tarrafa.cli.crawl import node_name, run_until_interrupted
    from tarrafa.clock import Clock
    from tarrafa.coordinator.node.coordinator_node import CoordinatorNode
    from tarrafa.crawl.supervisor.frontier_link import print_status_line
    from tarrafa.index import shards
    from tarrafa.runtime.token import load_token
    from tarrafa.server.auth.authentication import Authenticator
    from tarrafa.server.console.console import Console
    from tarrafa.server.http_server import bind
    from tarrafa.server.node_server import serve_node_pages

    logging.basicConfig(format="%(asctime)s %(message)s", level=logging.WARNING)
    clock, token = Clock.from_environment(), load_token(token_file)
    divided = None if index_shards is None else shards.parse_layout(index_shards, "--index-shards")
    data.create()
    entry = Authenticator(data, clock.now, token, public, rate.behind_proxy)
    entry.check_listen_address(host)

    async def until_interrupted() -> int:
        listening = bind(host, port)  # before anything else is started
        own_name = node_name(name).removesuffix("-")
        home = CoordinatorNode(data, own_name, workers, clock, print_status_line, frontier_link, divided)
        try:
            async with home, serve_node_pages(home, Console(entry), host, listening, token, public, rate) as page:
                if advice := entry.advice(host):
                    print_status_line(advice)
                print_status_line(f"search page: {page}\nconsole:     {page}console   (Ctrl-C stops)")
                await home.run()
        except Locked:
            raise Locked(f"{data.root}: another Tarrafa process runs here; stop it first") from None
        finally:
            listening.close()
        return 0

    return run_until_interrupted(until_interrupted)


def join_coordinator(
    url: str, data: DataDirectory, workers: int, name: str | None, token_file: Path | None, index_shards: str | None
) -> int:
    """Work for the coordinating node at that URL; the exit status."""
    from tarrafa.cli.crawl import node_name, run_until_interrupted
    from tarrafa.coordinator.node.worker_node import CoordinatorClient, WorkerNode
    from tarrafa.crawl.supervisor.frontier_link import print_status_line
    from tarrafa.index import shards
    from tarrafa.runtime.token import load_token

    client = CoordinatorClient(url, load_token(token_file))
    divided = None if index_shards is None else shards.parse_layout(index_shards, "--index-shards")
    worker_node = WorkerNode(client, data, node_name(name).removesuffix("-"), workers, print_status_line, divided)

    async def until_interrupted() -> int:
        await worker_node.run()
        return 0

    return run_until_interrupted(until_interrupted)
