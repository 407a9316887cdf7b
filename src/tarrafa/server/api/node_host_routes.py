"""REST routes of nodes and hosts: node settings, URL lookup, actions on a host.

Show the state of the nodes and set their limits; look up any URL; retry, block, slow down and forget its host. The same
functions as the console pages.
"""

import time
from typing import Annotated, Literal, get_args

import msgspec
from msgspec import Meta

from tarrafa.coordinator.actions import DELAY_CHARS_MAX, URL_CHARS_MAX, HostAction, parse_url_or_host
from tarrafa.coordinator.monitoring.snapshot import ClusterTotals, NodeSnapshot
from tarrafa.coordinator.node import orders as ordering
from tarrafa.coordinator.node.coordinator_node import CoordinatorNode
from tarrafa.coordinator.node.messages import ROLES, WORKERS_MAX, NodeOrders
from tarrafa.coordinator.node.orders import BANDWIDTH_MAX, BANDWIDTH_MIN, CPU_MIN, HOSTS_MAX
from tarrafa.crawl.explain.explain import Explanation, explain
from tarrafa.i18n import message
from tarrafa.parse.url import host_key
from tarrafa.server.api.api_route import PARAM_CHARS_MAX, ApiRoute
from tarrafa.server.auth.required_role import AccessLevel
from tarrafa.server.auth.role_and_csrf_guard import ConsoleRequest

NODE_PATH = "/nodes/{node}"
NodeRole = Literal["worker", "follower", "search"]


class NodesResponse(msgspec.Struct, frozen=True):
    """All nodes, and their sums."""

    nodes: list[NodeSnapshot]
    totals: ClusterTotals


class NodeSettingsRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The new settings of a node. null: as it was started. `bandwidth` is bytes a second, `cpu` a share of all
    cores.
    """

    roles: Annotated[tuple[NodeRole, ...], Meta(min_length=1, max_length=len(ROLES))] = get_args(NodeRole)
    workers: Annotated[int, Meta(ge=0, le=WORKERS_MAX)] | None = None
    hosts_at_once: Annotated[int, Meta(ge=1, le=HOSTS_MAX)] | None = None
    bandwidth: Annotated[int, Meta(ge=BANDWIDTH_MIN, le=BANDWIDTH_MAX)] | None = None
    cpu: Annotated[float, Meta(ge=CPU_MIN, le=1)] | None = None
    paused: bool = False


class UrlLookupParams(msgspec.Struct, frozen=True):
    """A URL or the name of a host; `collection`: only from that collection."""

    url: Annotated[str, Meta(max_length=PARAM_CHARS_MAX)]
    collection: Annotated[str, Meta(max_length=100)] = ""


class HostActionRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """An action on the host of a URL. `block` and `slow` edit a collection; `delay` is a duration: 10 s."""

    url: Annotated[str, Meta(max_length=URL_CHARS_MAX)]
    action: HostAction
    collection: Annotated[str, Meta(max_length=100)] = ""
    delay: Annotated[str, Meta(max_length=DELAY_CHARS_MAX)] = ""


class NodeHostRoutes:
    """The routes about nodes, URLs and hosts."""

    def __init__(self, node: CoordinatorNode) -> None:
        self._node, self._coordinator = node, node.coordinator

    def api_routes(self) -> list[ApiRoute]:
        view, admin, at = AccessLevel.VIEWER, AccessLevel.ADMIN, NODE_PATH
        act = "act on a host"
        return [
            ApiRoute("GET", "/nodes", message("All nodes"), view, self.list_nodes),
            ApiRoute("GET", at, message("A node, with its latest log lines"), view, self.get_node),
            ApiRoute(
                "DELETE", at, message("Forget a node that will not come back"), admin, self.forget_node, "forget a node"
            ),
            ApiRoute(
                "PUT",
                f"{at}/orders",
                message("Limits and roles of a node"),
                admin,
                self.set_node_settings,
                "order a node",
            ),
            ApiRoute("GET", "/look", message("Explain a URL"), view, self.look_up_url),
            ApiRoute(
                "POST",
                "/hosts/actions",
                message("Retry, block, slow down or forget a host"),
                admin,
                self.act_on_host,
                act,
            ),
        ]

    async def list_nodes(self, request: ConsoleRequest) -> NodesResponse:
        snapshot = self._coordinator.monitor.snapshot()
        return NodesResponse(snapshot.nodes, snapshot.totals)

    async def get_node(self, request: ConsoleRequest) -> NodeSnapshot:
        return self._coordinator.monitor.snapshot().node(request.param("node"))

    async def forget_node(self, request: ConsoleRequest) -> None:
        self._coordinator.nodes.forget(request.param("node"), time.time())

    async def set_node_settings(self, request: ConsoleRequest, body: NodeSettingsRequest) -> NodeOrders:
        node = self.existing_node_name(request.param("node"))
        orders = ordering.checked_orders(NodeOrders(**msgspec.structs.asdict(body)))
        request.audit_note(node, str(orders))
        return self._coordinator.nodes.set_orders(node, orders, time.time())

    def existing_node_name(self, name: str) -> str:
        return self._coordinator.monitor.snapshot().node(name).node.name

    async def look_up_url(self, request: ConsoleRequest, query: UrlLookupParams) -> Explanation:
        now, address = self._coordinator.clock.now(), self._node.frontier_address
        return await explain(self._node.data, parse_url_or_host(query.url), query.collection or None, now, address)

    async def act_on_host(self, request: ConsoleRequest, body: HostActionRequest) -> None:
        url, name = parse_url_or_host(body.url), body.collection
        request.audit_note(host_key(url), f"{body.action} in {name}" if name else body.action)
        await self._coordinator.actions.act_on_host(url, body.action, request.principal.name, name, body.delay)
