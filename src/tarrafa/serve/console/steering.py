"""What can programs do with machines and hosts?

See how the machines fare and tell them what to do; look up any URL; retry, block, slow down and forget its host. By the
same functions as the pages.
"""

import time
from typing import Annotated, Literal, get_args

import msgspec
from msgspec import Meta

from tarrafa.coordinate import ordering
from tarrafa.coordinate.beats import ROLES, WORKERS_MAX, Orders
from tarrafa.coordinate.closeup import node_of
from tarrafa.coordinate.home import Home
from tarrafa.coordinate.hosts import DELAY_CHARS_MAX, URL_CHARS_MAX, HostAction, Hosts, url_of
from tarrafa.coordinate.ordering import BANDWIDTH_MAX, BANDWIDTH_MIN, CPU_MIN, HOSTS_MAX
from tarrafa.coordinate.picture import NodePicture, Totals
from tarrafa.crawl.explain import Explanation, explain
from tarrafa.parse.url import host_key
from tarrafa.serve.console.api import PARAM_CHARS_MAX, Api, Call
from tarrafa.serve.console.entry import Need

AT = "/nodes/{node}"
Role = Literal["worker", "follower", "search"]


class NodesTold(msgspec.Struct, frozen=True):
    """All nodes, and their sums."""

    nodes: list[NodePicture]
    totals: Totals


class OrdersAsked(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a node is to do from now on. null: as it was started. `bandwidth` is bytes a second, `cpu` a share of all
    cores."""

    roles: Annotated[tuple[Role, ...], Meta(min_length=1, max_length=len(ROLES))] = get_args(Role)
    workers: Annotated[int, Meta(ge=0, le=WORKERS_MAX)] | None = None
    hosts_at_once: Annotated[int, Meta(ge=1, le=HOSTS_MAX)] | None = None
    bandwidth: Annotated[int, Meta(ge=BANDWIDTH_MIN, le=BANDWIDTH_MAX)] | None = None
    cpu: Annotated[float, Meta(ge=CPU_MIN, le=1)] | None = None
    paused: bool = False


class LookAsked(msgspec.Struct, frozen=True):
    """A URL or the name of a host; `collection`: only what that one knows of it."""

    url: Annotated[str, Meta(max_length=PARAM_CHARS_MAX)]
    collection: Annotated[str, Meta(max_length=100)] = ""


class HostAsked(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What to do with the host of a URL. `block` and `slow` edit a collection; `delay` is a duration: 10 s."""

    url: Annotated[str, Meta(max_length=URL_CHARS_MAX)]
    action: HostAction
    collection: Annotated[str, Meta(max_length=100)] = ""
    delay: Annotated[str, Meta(max_length=DELAY_CHARS_MAX)] = ""


class Steering:
    """The routes about nodes, URLs and hosts."""

    def __init__(self, home: Home, hosts: Hosts) -> None:
        self._home, self._coordinator, self._hosts = home, home.coordinator, hosts

    def register(self, api: Api) -> None:
        look, admin, route = Need.VIEWER, Need.ADMIN, api.route
        route("GET", "/nodes", "All nodes", look, answer=NodesTold)(self.all)
        route("GET", AT, "A node, with its latest log lines", look, answer=NodePicture)(self.one)
        route("DELETE", AT, "Forget a node that will not come back", admin, action="forget a node")(self.forget)
        route(
            "PUT", f"{AT}/orders", "Limits and roles of a node", admin, body=OrdersAsked, answer=Orders,
            action="order a node",
        )(self.order)  # fmt: skip
        route("GET", "/look", "All about a URL, and why", look, query=LookAsked, answer=Explanation)(self.look)
        route(
            "POST", "/hosts/actions", "Retry, block, slow down or forget a host", admin, body=HostAsked,
            action="act on a host",
        )(self.act)  # fmt: skip

    async def all(self, call: Call) -> NodesTold:
        picture = self._coordinator.picture()
        return NodesTold(picture.nodes, picture.totals)

    async def one(self, call: Call) -> NodePicture:
        return node_of(self._coordinator.picture(), call.param("node"))

    async def forget(self, call: Call) -> None:
        self._coordinator.nodes.forget(call.param("node"), time.time())

    async def order(self, call: Call) -> Orders:
        asked: OrdersAsked = call.body
        node = self.node_named(call.param("node"))
        orders = ordering.checked(
            Orders(
                roles=asked.roles, workers=asked.workers, hosts_at_once=asked.hosts_at_once,
                bandwidth=asked.bandwidth, cpu=asked.cpu, paused=asked.paused,
            )
        )  # fmt: skip
        call.visit.note(node, str(orders))
        return self._coordinator.nodes.order(node, orders, time.time())

    def node_named(self, name: str) -> str:
        return node_of(self._coordinator.picture(), name).node.name

    async def look(self, call: Call) -> Explanation:
        asked: LookAsked = call.query
        now, address = self._coordinator.now(), self._home.address
        return await explain(self._home.data, url_of(asked.url), asked.collection or None, now, address)

    async def act(self, call: Call) -> None:
        asked: HostAsked = call.body
        url, name = url_of(asked.url), asked.collection
        call.visit.note(host_key(url), f"{asked.action} in {name}" if name else asked.action)
        await self._hosts.act(url, asked.action, call.visit.who.name, name, asked.delay)
