"""Which rooms has the console?

All its pages, and what programs can ask, for one node that coordinates.
"""

import time

from starlette.responses import Response

from tarrafa import __version__
from tarrafa.coordinate.alike import Alike
from tarrafa.coordinate.home import Home
from tarrafa.coordinate.hosts import Hosts
from tarrafa.coordinate.rehearsing import Rehearsal
from tarrafa.coordinate.suggested import Suggestions
from tarrafa.frontier.token import Token
from tarrafa.report.desk import Desk
from tarrafa.serve.console.alike import Statuses
from tarrafa.serve.console.board import Board
from tarrafa.serve.console.defining import Defining
from tarrafa.serve.console.doors import Visit
from tarrafa.serve.console.entry import Need
from tarrafa.serve.console.frame import Console
from tarrafa.serve.console.looking import Looking
from tarrafa.serve.console.machines import Machines
from tarrafa.serve.console.metrics import TYPE, metrics
from tarrafa.serve.console.planning import Planning
from tarrafa.serve.console.programs import Programs
from tarrafa.serve.console.reporting import Reporting
from tarrafa.serve.console.secrets import Secrets
from tarrafa.serve.console.steering import Steering
from tarrafa.serve.console.streaming import Streams
from tarrafa.serve.console.suggesting import Suggesting


def furnish(console: Console, home: Home, token: Token | None = None) -> Console:
    """Everything that a coordinating node shows. `token`: what other nodes are asked with."""
    coordinator = home.coordinator

    async def measured(visit: Visit) -> Response:
        return Response(metrics(coordinator.picture(), __version__), media_type=TYPE)

    streams, rehearsal = Streams(coordinator.picture), Rehearsal(home.data, home.others)
    hosts = Hosts(coordinator, lambda: home.supervisor.frontier)
    statuses = Statuses(Alike(coordinator, lambda: home.supervisor.frontier))
    secrets = Secrets(coordinator)
    reporting = Reporting(coordinator, streams, Desk(home.data, home.others), token or Token())
    console.add(
        *Board(coordinator, streams).doors(),
        *statuses.doors(),
        *Defining(coordinator, rehearsal).doors(),
        *Machines(coordinator, streams, time.time).doors(),
        *Looking(home, hosts).doors(),
        *reporting.doors(),
        *secrets.doors(),
    )
    suggestions = Suggestions(home.data)
    suggesting = Suggesting(coordinator, suggestions)
    console.add(*suggesting.doors())
    console.suggests = lambda: suggestions.is_on
    console.page("/metrics", Need.VIEWER, here=True)(measured)
    for routes in (
        Programs(coordinator),
        Planning(coordinator, rehearsal),
        Steering(home, hosts),
        statuses,
        reporting,
        secrets,
        suggesting,
    ):
        routes.register(console.api)
    console.closing = streams.close
    return console
