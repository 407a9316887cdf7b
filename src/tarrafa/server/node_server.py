"""Serves search page, console and node endpoint of the coordinating node."""

import asyncio
import contextlib
import socket
import time
from collections.abc import AsyncIterator

from tarrafa.coordinator.node.coordinator_node import CoordinatorNode
from tarrafa.coordinator.node.search_peers import NodeShards
from tarrafa.runtime.token import Token
from tarrafa.search.searcher import Searcher
from tarrafa.server.console.console import Console
from tarrafa.server.console.routes import add_coordinator_routes
from tarrafa.server.http_server import HOST, NO_TOKEN, serve
from tarrafa.server.internal.node_endpoint import create_node_app as create_joined_app
from tarrafa.server.rate_limit import RateLimit


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
    """Serve search page and console, and yield their address. With a token, other nodes can join, and a search covers
    their indexes."""
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
