"""A coordinator in a process of its own, and nodes that join it, as users start them.

`python -m tests.journey.coordinator_process` serves what nodes ask for, and shows a test what it knows: GET /states,
and takes
orders: POST /orders/NAME.
"""

import argparse
import asyncio
import contextlib
import os
import socket
import sys
import urllib.request
from dataclasses import dataclass, field
from pathlib import Path

import msgspec
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Mount, Route

from tarrafa.clock import Clock
from tarrafa.coordinator.node.messages import JoinResponse, NodeOrders, NodeState, ProcessState
from tarrafa.coordinator.node.node_registry import NodeRegistry
from tarrafa.coordinator.store import open_store
from tarrafa.errors import TarrafaError
from tarrafa.frontier.address import connect, parse_address
from tarrafa.frontier.messages import RegisteredWorker
from tarrafa.runtime.data_dir import DataDirectory
from tarrafa.runtime.token import TOKEN_VARIABLE, load_token
from tarrafa.server.internal.node_endpoint import create_node_app
from tests.journey.cluster import SECRET, Cluster, Process, wait_for


def coordinate(data: DataDirectory, port: int, frontier: str) -> None:
    data.create()
    clock, token = Clock.real(), load_token(None)
    nodes = NodeRegistry(open_store(data))

    async def invite(orders: NodeOrders) -> JoinResponse:
        return JoinResponse((frontier,), token.secret.decode(), orders)

    async def workers() -> list[RegisteredWorker]:
        with contextlib.suppress(TarrafaError):
            body = await connect(parse_address([frontier], token))
            try:
                return (await body.overview()).nodes
            finally:
                await body.close()
        return []

    async def states(request: Request) -> Response:
        return Response(msgspec.json.encode(nodes.states(clock.now(), await workers())))

    async def order(request: Request) -> Response:
        orders = msgspec.json.decode(await request.body(), type=NodeOrders)
        return Response(msgspec.json.encode(nodes.set_orders(request.path_params["name"], orders, clock.now())))

    app = Starlette(
        routes=[
            Mount("/nodes/v1", create_node_app(nodes, token, invite, clock.now)),
            Route("/states", states),
            Route("/orders/{name}", order, methods=["POST"]),
        ]
    )
    config = uvicorn.Config(app, port=port, lifespan="off", log_config=None, access_log=False)
    asyncio.run(uvicorn.Server(config).serve())


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        return int(listening.getsockname()[1])


@dataclass
class CoordinatedCluster(Cluster):
    """A frontier server, a coordinator and nodes that join it."""

    console: int = field(default_factory=free_port)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.console}"

    def coordinate(self) -> Process:
        where = ("--data", self.folder / "coordinator", "--port", str(self.console), "--frontier", self.address)
        log = self.folder / "coordinator.log"
        command = [sys.executable, "-m", "tests.journey.coordinator_process", *map(str, where)]
        process = self.spawn(command, log, {TOKEN_VARIABLE: SECRET})
        wait_for(self.is_there, process)
        return process

    def is_there(self) -> bool:
        with contextlib.suppress(OSError):
            self.get("/states")
            return True
        return False

    def join(self, name: str, *more: str, **settings: str) -> Process:
        where = ("--token-file", self.token_file, "--data", self.folder / name, "--name", name)
        return self.start(name, "node", "--join", self.url, *where, *more, **settings)

    def get(self, path: str) -> bytes:
        with urllib.request.urlopen(f"{self.url}{path}", timeout=10) as answer:
            content: bytes = answer.read()
            return content

    def states(self) -> dict[str, NodeState]:
        return {one.name: one for one in msgspec.json.decode(self.get("/states"), type=list[NodeState])}

    def state(self, name: str) -> NodeState | None:
        return self.states().get(name)

    def processes_of(self, name: str, role: str = "worker") -> list[ProcessState]:
        state = self.state(name)
        return [] if state is None else [one for one in state.beat.processes if one.role == role]

    def order(self, name: str, orders: NodeOrders) -> int:
        request = urllib.request.Request(f"{self.url}/orders/{name}", msgspec.json.encode(orders))
        with urllib.request.urlopen(request, timeout=10) as answer:
            return msgspec.json.decode(answer.read(), type=NodeOrders).number


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--frontier", required=True)
    options = parser.parse_args()
    os.environ.setdefault(TOKEN_VARIABLE, SECRET)
    coordinate(DataDirectory(options.data), options.port, options.frontier)


if __name__ == "__main__":
    main()
