"""Which rooms has the console?

All its pages, and what programs can ask, for one node that coordinates.
"""

import time

from starlette.responses import Response

from tarrafa import __version__
from tarrafa.coordinate.alike import Failures
from tarrafa.coordinate.home import CoordinatorNode
from tarrafa.coordinate.hosts import HostActions
from tarrafa.coordinate.rehearsing import DryRun
from tarrafa.coordinate.suggested import Suggestions
from tarrafa.frontier.token import Token
from tarrafa.report.desk import ReportStore
from tarrafa.serve.console.alike import FailedUrlPages
from tarrafa.serve.console.board import CollectionPages
from tarrafa.serve.console.defining import CollectionFormPages
from tarrafa.serve.console.doors import ConsoleRequest
from tarrafa.serve.console.entry import AccessLevel
from tarrafa.serve.console.frame import Console
from tarrafa.serve.console.looking import UrlLookupPages
from tarrafa.serve.console.machines import NodePages
from tarrafa.serve.console.metrics import CONTENT_TYPE, prometheus_text
from tarrafa.serve.console.planning import DryRunRoutes
from tarrafa.serve.console.programs import CollectionRoutes
from tarrafa.serve.console.reporting import ReportPages
from tarrafa.serve.console.secrets import CredentialPages
from tarrafa.serve.console.steering import NodeHostRoutes
from tarrafa.serve.console.streaming import LiveUpdates
from tarrafa.serve.console.suggesting import SuggestionPages


def add_coordinator_routes(console: Console, home: CoordinatorNode, token: Token | None = None) -> Console:
    """Everything that a coordinating node shows. `token`: what other nodes are asked with."""
    coordinator = home.coordinator

    async def measured(visit: ConsoleRequest) -> Response:
        return Response(prometheus_text(coordinator.snapshot(), __version__), media_type=CONTENT_TYPE)

    streams, rehearsal = LiveUpdates(coordinator.snapshot), DryRun(home.data, home.remote_frontier)
    hosts = HostActions(coordinator, lambda: home.supervisor.frontier)
    statuses = FailedUrlPages(Failures(coordinator, lambda: home.supervisor.frontier))
    secrets = CredentialPages(coordinator)
    reporting = ReportPages(coordinator, streams, ReportStore(home.data, home.remote_frontier), token or Token())
    console.add(
        *CollectionPages(coordinator, streams).guarded_routes(),
        *statuses.guarded_routes(),
        *CollectionFormPages(coordinator, rehearsal).guarded_routes(),
        *NodePages(coordinator, streams, time.time).guarded_routes(),
        *UrlLookupPages(home, hosts).guarded_routes(),
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
        NodeHostRoutes(home, hosts),
        statuses,
        reporting,
        secrets,
        suggesting,
    ):
        routes.register(console.api)
    console.closing = streams.close
    return console
