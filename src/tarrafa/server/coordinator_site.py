"""The site of the coordinator node: search page, console with all its pages and REST routes, and node endpoint."""

import asyncio
import contextlib
import socket
import time
from collections.abc import AsyncIterator

from starlette.responses import Response

from tarrafa import __version__
from tarrafa.coordinator.dry_run.dry_run import DryRun
from tarrafa.coordinator.failures import Failures
from tarrafa.coordinator.node.coordinator_node import CoordinatorNode
from tarrafa.coordinator.node.search_peers import NodeShards
from tarrafa.coordinator.suggestions import Suggestions
from tarrafa.report.report_store import ReportStore
from tarrafa.runtime.token import NO_TOKEN, Token
from tarrafa.search.searcher import Searcher
from tarrafa.server.api.collection_routes import CollectionRoutes
from tarrafa.server.api.dry_run_routes import DryRunRoutes
from tarrafa.server.api.node_host_routes import NodeHostRoutes
from tarrafa.server.app import SiteSettings
from tarrafa.server.auth.required_role import AccessLevel, GuardedRoute
from tarrafa.server.auth.role_and_csrf_guard import ConsoleRequest
from tarrafa.server.console.collection_form import CollectionFormPages
from tarrafa.server.console.collection_pages import CollectionPages
from tarrafa.server.console.console import Console
from tarrafa.server.console.credential_pages import CredentialPages
from tarrafa.server.console.event_stream import LiveUpdates
from tarrafa.server.console.failed_urls import FailedUrlPages
from tarrafa.server.console.node_pages import NodePages
from tarrafa.server.console.prometheus_metrics import CONTENT_TYPE, prometheus_text
from tarrafa.server.console.report_pages import ReportPages
from tarrafa.server.console.suggestion_pages import SuggestionPages
from tarrafa.server.console.url_lookup import UrlLookupPages
from tarrafa.server.http_server import HOST, serve
from tarrafa.server.internal.node_endpoint import create_node_app
from tarrafa.server.rate_limit import RateLimit
from tarrafa.server.replay.replay_site import ReplaySite


@contextlib.asynccontextmanager
async def serve_node_pages(
    node: CoordinatorNode,
    console: Console,
    host: str = HOST,
    listening: socket.socket | None = None,
    token: Token = NO_TOKEN,
    public: str = "",
    rate: RateLimit | None = None,
    replay: ReplaySite | None = None,
    search_processes: int | None = None,
) -> AsyncIterator[str]:
    """Serve search page and console, and yield their address. With a token, other nodes can join, and a search covers
    their indexes."""
    known, searcher, node_app = node.coordinator.nodes, None, None
    add_coordinator_routes(console, node, token)
    stop, ready = asyncio.Event(), asyncio.get_running_loop().create_future()
    async with contextlib.AsyncExitStack() as stack:
        if token:
            node_app = create_node_app(known, token, node.make_join_response, time.time, node.credentials_mark)
            shards = await stack.enter_async_context(NodeShards(known, token))
            searcher = Searcher.over_changing_shards(node.data, shards)
        settings = SiteSettings(
            status=node.overview, searcher=searcher, public=public, address=node.remote_frontier, console=console,
            rate=rate, nodes=node_app, replay=replay, search_processes=search_processes,
        )  # fmt: skip
        serving = serve(node.data, settings, host, stop=stop, on_ready=ready.set_result, listening=listening)
        server = asyncio.create_task(serving)
        await asyncio.wait({server, ready}, return_when=asyncio.FIRST_COMPLETED)
        if server.done():
            server.result()  # raises its error
        try:
            yield await ready
        finally:
            stop.set()
            await asyncio.gather(server, return_exceptions=True)


def add_coordinator_routes(console: Console, node: CoordinatorNode, token: Token = NO_TOKEN) -> None:
    """Add everything that a coordinating node shows. `token`: for requests to other nodes."""
    coordinator, data = node.coordinator, node.data

    async def metrics(request: ConsoleRequest) -> Response:
        return Response(prometheus_text(coordinator.monitor.snapshot(), __version__), media_type=CONTENT_TYPE)

    live, dry_run = LiveUpdates(coordinator.monitor.snapshot), DryRun(data, node.remote_frontier)
    suggestions = Suggestions(data)
    reports = ReportPages(coordinator, live, ReportStore(data, node.remote_frontier), token)
    failures = FailedUrlPages(Failures(coordinator))
    both = (failures, reports, CredentialPages(coordinator), SuggestionPages(coordinator, suggestions))
    for pages in (
        CollectionPages(coordinator, live),
        CollectionFormPages(coordinator, dry_run),
        NodePages(coordinator, live),
        UrlLookupPages(node),
        *both,
    ):
        console.add(*pages.guarded_routes())
    console.add(GuardedRoute("GET", "/metrics", AccessLevel.VIEWER, metrics, here=True))
    for routes in (
        CollectionRoutes(coordinator),
        DryRunRoutes(coordinator, dry_run),
        NodeHostRoutes(node),
        *both,
    ):
        console.api.routes += routes.api_routes()
    console.suggests = lambda: suggestions.is_on
    console.closing = live.close
