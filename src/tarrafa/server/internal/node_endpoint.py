"""Endpoint where worker nodes join the coordinator and send their heartbeats (/nodes/v1).

    POST /nodes/v1/join           join -> address of the frontier, and orders
    POST /nodes/v1/NAME/beat      heartbeat -> orders

Promises: requests without the token are refused, and no body is read beyond its maximum (`auth/bearer_token.py`); an
invalid message is refused in one sentence, {"error": …}, and changes nothing: 400, 401, 404, 405, 409 (another living
node has that name), 413.
"""

import logging
from collections.abc import Awaitable, Callable
from typing import TypeVar

import msgspec
from msgspec.structs import replace
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from tarrafa.coordinator.node.messages import (
    NODE_HEARTBEAT_BYTES_MAX,
    JoinRequest,
    JoinResponse,
    NodeHeartbeat,
    NodeOrders,
    decode_message,
)
from tarrafa.coordinator.node.node_registry import NodeRegistry
from tarrafa.errors import NameTaken, TarrafaError
from tarrafa.runtime.heartbeat import printable_text
from tarrafa.runtime.token import Token
from tarrafa.server.auth.bearer_token import create_token_app, require_body
from tarrafa.server.page_responses import json_response

MESSAGE_CHARS_MAX = 300
log = logging.getLogger(__name__)

T = TypeVar("T", bound=msgspec.Struct)
Invite = Callable[[NodeOrders], Awaitable[JoinResponse]]


def create_node_app(
    nodes: NodeRegistry,
    token: Token,
    invite: Invite,
    now: Callable[[], float],
    secrets_version: Callable[[], str] = lambda: "",
) -> Starlette:
    """To be mounted at PATH. `invite` returns the address of the frontier, for a node with these orders; `now` is real
    time; `secrets_version` changes with the credentials."""
    if not token:
        raise ValueError("nodes need a token to join")

    async def join(request: Request) -> Response:
        joining = await _read_message(request, JoinRequest)
        return json_response(await invite(replace(nodes.join(joining, now()), secrets=secrets_version())))

    async def beat(request: Request) -> Response:
        heartbeat = await _read_message(request, NodeHeartbeat)
        if heartbeat.node != request.path_params["name"]:
            raise HTTPException(400, f"this is the beat of {heartbeat.node}")
        return json_response(replace(nodes.receive_heartbeat(heartbeat, now()), secrets=secrets_version()))

    routes = [Route("/join", join, methods=["POST"]), Route("/{name}/beat", beat, methods=["POST"])]
    return create_token_app(routes, token.secret, _error_json, _describe)


async def _read_message(request: Request, kind: type[T]) -> T:
    body = await require_body(request, NODE_HEARTBEAT_BYTES_MAX)
    try:
        return decode_message(body, kind)
    except ValueError as error:
        raise HTTPException(400, f"the body cannot be understood: {error}") from None


def _describe(error: Exception) -> tuple[int, str] | None:
    if isinstance(error, NameTaken):
        return 409, str(error)
    if isinstance(error, TarrafaError):
        log.warning("%s", error)
        return 503, str(error)
    return None


def _error_json(code: int, sentence: str) -> Response:
    return json_response({"error": printable_text(sentence, MESSAGE_CHARS_MAX)}, code)
