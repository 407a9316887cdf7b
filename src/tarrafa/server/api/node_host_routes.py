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
from tarrafa.parse.url import host_key
from tarrafa.server.api.route_registry import PARAM_CHARS_MAX, ApiCall, ApiRegistry
from tarrafa.server.auth.authentication import AccessLevel

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

    def __init__(self, home: CoordinatorNode) -> None:
        self._home, self._coordinator = home, home.coordinator

    def register(self, api: ApiRegistry) -> None:
        look, admin, route = AccessLevel.VIEWER, AccessLevel.ADMIN, api.route
        route("GET", "/nodes", "All nodes", look, answer=NodesResponse)(self.list_nodes)
        route("GET", NODE_PATH, "A node, with its latest log lines", look, answer=NodeSnapshot)(self.get_node)
        route("DELETE", NODE_PATH, "Forget a node that will not come back", admin, action="forget a node")(
            self.forget_node
        )
        route(
            "PUT",
            f"{NODE_PATH}/orders",
            "Limits and roles of a node",
            admin,
            body=NodeSettingsRequest,
            answer=NodeOrders,
            action="order a node",
        )(self.set_node_settings)
        route("GET", "/look", "All about a URL, and why", look, query=UrlLookupParams, answer=Explanation)(
            self.look_up_url
        )
        route(
            "POST", "/hosts/actions", "Retry, block, slow down or forget a host", admin, body=HostActionRequest,
            action="act on a host",
        )(self.act_on_host)  # fmt: skip

    async def list_nodes(self, call: ApiCall) -> NodesResponse:
        picture = self._coordinator.monitor.snapshot()
        return NodesResponse(picture.nodes, picture.totals)

    async def get_node(self, call: ApiCall) -> NodeSnapshot:
        return self._coordinator.monitor.snapshot().node(call.param("node"))

    async def forget_node(self, call: ApiCall) -> None:
        self._coordinator.nodes.forget(call.param("node"), time.time())

    async def set_node_settings(self, call: ApiCall) -> NodeOrders:
        asked: NodeSettingsRequest = call.body
        node = self.existing_node_name(call.param("node"))
        orders = ordering.checked_orders(
            NodeOrders(
                roles=asked.roles, workers=asked.workers, hosts_at_once=asked.hosts_at_once,
                bandwidth=asked.bandwidth, cpu=asked.cpu, paused=asked.paused,
            )
        )  # fmt: skip
        call.visit.audit_note(node, str(orders))
        return self._coordinator.nodes.set_orders(node, orders, time.time())

    def existing_node_name(self, name: str) -> str:
        return self._coordinator.monitor.snapshot().node(name).node.name

    async def look_up_url(self, call: ApiCall) -> Explanation:
        asked: UrlLookupParams = call.query
        now, address = self._coordinator.clock.now(), self._home.frontier_address
        return await explain(self._home.data, parse_url_or_host(asked.url), asked.collection or None, now, address)

    async def act_on_host(self, call: ApiCall) -> None:
        asked: HostActionRequest = call.body
        url, name = parse_url_or_host(asked.url), asked.collection
        call.visit.audit_note(host_key(url), f"{asked.action} in {name}" if name else asked.action)
        await self._coordinator.actions.act_on_host(url, asked.action, call.visit.principal.name, name, asked.delay)
