"""Adds all pages and REST routes of a coordinating node to the console.

All its pages, and what programs can ask, for one node that coordinates.
"""

import time

from starlette.responses import Response

from tarrafa import __version__
from tarrafa.coordinator.dry_run.dry_run import DryRun
from tarrafa.coordinator.failures import Failures
from tarrafa.coordinator.node.coordinator_node import CoordinatorNode
from tarrafa.coordinator.suggestions import Suggestions
from tarrafa.report.report_store import ReportStore
from tarrafa.runtime.token import Token
from tarrafa.server.api.collection_routes import CollectionRoutes
from tarrafa.server.api.dry_run_routes import DryRunRoutes
from tarrafa.server.api.node_host_routes import NodeHostRoutes
from tarrafa.server.auth.authentication import AccessLevel
from tarrafa.server.auth.role_and_csrf_guard import ConsoleRequest, GuardedRoute
from tarrafa.server.console.collection_form import CollectionFormPages
from tarrafa.server.console.collection_pages import CollectionPages
from tarrafa.server.console.console import Console
from tarrafa.server.console.credential_pages import CredentialPages
from tarrafa.server.console.failed_urls import FailedUrlPages
from tarrafa.server.console.live_updates import LiveUpdates
from tarrafa.server.console.node_pages import NodePages
from tarrafa.server.console.prometheus_metrics import CONTENT_TYPE, prometheus_text
from tarrafa.server.console.report_pages import ReportPages
from tarrafa.server.console.suggestion_pages import SuggestionPages
from tarrafa.server.console.url_lookup import UrlLookupPages


def add_coordinator_routes(console: Console, node: CoordinatorNode, token: Token | None = None) -> Console:
    """Add everything that a coordinating node shows. `token`: for requests to other nodes."""
    coordinator, data = node.coordinator, node.data

    async def metrics(request: ConsoleRequest) -> Response:
        return Response(prometheus_text(coordinator.monitor.snapshot(), __version__), media_type=CONTENT_TYPE)

    live, dry_run = LiveUpdates(coordinator.monitor.snapshot), DryRun(data, node.remote_frontier)
    suggestions = Suggestions(data)
    reports = ReportPages(coordinator, live, ReportStore(data, node.remote_frontier), token or Token())
    failures = FailedUrlPages(Failures(coordinator))
    both = (failures, reports, CredentialPages(coordinator), SuggestionPages(coordinator, suggestions))
    for pages in (
        CollectionPages(coordinator, live),
        CollectionFormPages(coordinator, dry_run),
        NodePages(coordinator, live, time.time),
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
    return console
