"""Runs the coordinating node with its search page, console and endpoint for other nodes."""

import asyncio
import contextlib
import logging
import socket
import time
from collections.abc import AsyncIterator
from pathlib import Path

from tarrafa.cli.crawl import node_name, run_until_interrupted
from tarrafa.clock import Clock
from tarrafa.coordinator.node.coordinator_node import CoordinatorNode
from tarrafa.coordinator.node.search_peers import NodeShards
from tarrafa.crawl.supervisor.frontier_link import (
    FrontierLink,
    LocalFrontierLink,
    RemoteFrontierLink,
    print_status_line,
)
from tarrafa.errors import ConfigError, Locked
from tarrafa.frontier.address import from_command_line
from tarrafa.frontier.rpc.frontier_server import parse_listen_address
from tarrafa.index import shards
from tarrafa.runtime.data_dir import DataDirectory
from tarrafa.runtime.token import Token, load_token
from tarrafa.search.searcher import Searcher
from tarrafa.server.auth.authentication import Authenticator
from tarrafa.server.console.console import Console
from tarrafa.server.console.routes import add_coordinator_routes
from tarrafa.server.http_server import HOST, NO_TOKEN, bind, serve
from tarrafa.server.internal.node_endpoint import create_node_app as create_joined_app
from tarrafa.server.rate_limit import RateLimit


def run_coordinating_node(
    data: DataDirectory,
    workers: int,
    name: str | None,
    host: str,
    port: int,
    listen: str | None,
    where: list[str] | None,
    token_file: Path | None,
    public: str,
    index_shards: str | None,
    rate: RateLimit,
) -> int:
    """Until interrupted; the exit status."""
    logging.basicConfig(format="%(asctime)s %(message)s", level=logging.WARNING)
    clock, token = Clock.from_environment(), load_token(token_file)
    if listen is not None and where:
        raise ConfigError("--listen: only whoever keeps the frontier can serve it; leave out --frontier")
    address = from_command_line(where, token_file)
    keeper: FrontierLink
    if address is not None:
        keeper = RemoteFrontierLink(address, clock)
    else:
        keeper = LocalFrontierLink(
            data, clock, parse_listen_address(listen, token) if listen else None, token, patient=True
        )
    divided = None if index_shards is None else shards.parse_layout(index_shards, "--index-shards")
    data.create()
    entry = Authenticator(data, clock.now, token, public, rate.behind_proxy)
    entry.check_listen_address(host)

    async def until_interrupted() -> int:
        listening = bind(host, port)  # before anything else is started
        home = CoordinatorNode(
            data, node_name(name).removesuffix("-"), workers, clock, print_status_line, keeper, divided
        )
        try:
            async with home, serve_node_pages(home, Console(entry), host, listening, token, public, rate) as page:
                if advice := entry.advice(host):
                    print_status_line(advice)
                print_status_line(f"search page: {page}\nconsole:     {page}console   (Ctrl-C stops)")
                await home.run()
        except Locked:
            raise Locked(f"{data.root}: another Tarrafa process is working here; stop it first") from None
        finally:
            listening.close()
        return 0

    return run_until_interrupted(until_interrupted)


@contextlib.asynccontextmanager
async def serve_node_pages(
    home: CoordinatorNode,
    console: Console,
    host: str = HOST,
    listening: socket.socket | None = None,
    token: Token = NO_TOKEN,
    public: str = "",
    rate: RateLimit | None = None,
) -> AsyncIterator[str]:
    """Search page, console and, where there is a token, the door for other nodes, which are asked what is searched for;
    gives the pages' address."""
    known = home.coordinator.nodes
    nodes = (
        create_joined_app(known, token, home.make_join_response, time.time, home.credentials_mark) if token else None
    )
    furnished = add_coordinator_routes(console, home, token)
    stop, ready = asyncio.Event(), asyncio.get_running_loop().create_future()
    async with contextlib.AsyncExitStack() as stack:
        searcher = None
        if token:
            searcher = Searcher.over_changing_shards(
                home.data, await stack.enter_async_context(NodeShards(known, token))
            )
        pages = asyncio.create_task(
            serve(
                home.data,
                host,
                0,
                home.overview,
                stop,
                ready.set_result,
                listening,
                public=public,
                searcher=searcher,
                console=furnished,
                nodes=nodes,
                rate=rate,
                address=home.remote_frontier,
            )
        )
        await asyncio.wait({pages, ready}, return_when=asyncio.FIRST_COMPLETED)
        if pages.done():
            pages.result()  # raises what stands in the way
        try:
            yield await ready
        finally:
            stop.set()
            await asyncio.gather(pages, return_exceptions=True)
