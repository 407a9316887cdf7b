"""Health of a node for systemd, Kubernetes and load balancers, on an address of its own; no token is needed.

GET /healthz    200: the process answers
GET /readyz     200: ready; 503: not, with a reason on each line
"""

import contextlib
from asyncio import Event, create_task, gather
from collections.abc import AsyncIterator, Callable

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from tarrafa.coordinator.node.messages import NodeHeartbeat
from tarrafa.coordinator.node.readiness import reasons_not_ready
from tarrafa.server.http_server import bind, run_app


def create_health_app(last_heartbeat: Callable[[], NodeHeartbeat | None]) -> Starlette:
    async def alive(request: Request) -> Response:
        return PlainTextResponse("ok\n")

    async def ready(request: Request) -> Response:
        reasons = reasons_not_ready(last_heartbeat())
        return PlainTextResponse("".join(f"{one}\n" for one in reasons or ["ready"]), 503 if reasons else 200)

    return Starlette(routes=[Route("/healthz", alive), Route("/readyz", ready)])


@contextlib.asynccontextmanager
async def health_served(
    listen: tuple[str, int] | None,
    last_heartbeat: Callable[[], NodeHeartbeat | None],
    print_line: Callable[[str], None],
) -> AsyncIterator[None]:
    """Serve it while the context is open, if there is an address."""
    if listen is None:
        yield
        return
    host, port = listen
    stop, listening = Event(), bind(host, port)

    def on_ready(address: str) -> None:
        print_line(f"health:      {address}readyz")

    task = create_task(run_app(create_health_app(last_heartbeat), host, listening, stop, on_ready))
    try:
        yield
    finally:
        stop.set()
        await gather(task, return_exceptions=True)
        listening.close()
