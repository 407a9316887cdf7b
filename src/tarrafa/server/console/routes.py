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
from tarrafa.server.auth.role_and_csrf_guard import ConsoleRequest
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


def add_coordinator_routes(console: Console, home: CoordinatorNode, token: Token | None = None) -> Console:
    """Everything that a coordinating node shows. `token`: what other nodes are asked with."""
    coordinator = home.coordinator

    async def measured(visit: ConsoleRequest) -> Response:
        return Response(prometheus_text(coordinator.monitor.snapshot(), __version__), media_type=CONTENT_TYPE)

    streams, rehearsal = LiveUpdates(coordinator.monitor.snapshot), DryRun(home.data, home.remote_frontier)
    statuses = FailedUrlPages(Failures(coordinator))
    secrets = CredentialPages(coordinator)
    reporting = ReportPages(coordinator, streams, ReportStore(home.data, home.remote_frontier), token or Token())
    console.add(
        *CollectionPages(coordinator, streams).guarded_routes(),
        *statuses.guarded_routes(),
        *CollectionFormPages(coordinator, rehearsal).guarded_routes(),
        *NodePages(coordinator, streams, time.time).guarded_routes(),
        *UrlLookupPages(home).guarded_routes(),
        *reporting.guarded_routes(),
        *secrets.guarded_routes(),
    )
    suggestions = Suggestions(home.data)
    suggesting = SuggestionPages(coordinator, suggestions)
    console.add(*suggesting.guarded_routes())
    console.suggests = lambda: suggestions.is_on
    console.page("/metrics", AccessLevel.VIEWER, here=True)(measured)
    for routes in (
        CollectionRoutes(coordinator),
        DryRunRoutes(coordinator, rehearsal),
        NodeHostRoutes(home),
        statuses,
        reporting,
        secrets,
        suggesting,
    ):
        routes.register(console.api)
    console.closing = streams.close
    return console
