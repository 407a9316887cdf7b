"""Console pages of nodes: table of nodes and processes, log lines, node settings.

Promises: one live table shows all nodes, dead or silent ones in red; each has its latest log lines, and limits that
take effect within seconds.
"""

import time
from typing import Any

from starlette.responses import Response

from tarrafa.coordinator.coordinator import Coordinator
from tarrafa.coordinator.monitoring.snapshot import NodeSnapshot, SystemSnapshot, cluster_totals
from tarrafa.coordinator.node import orders as ordering
from tarrafa.coordinator.node.messages import ROLES
from tarrafa.coordinator.node.orders import NodeOrdersForm
from tarrafa.errors import ConfigError
from tarrafa.server.auth.required_role import AccessLevel, GuardedRoute
from tarrafa.server.auth.role_and_csrf_guard import ConsoleRequest
from tarrafa.server.console.event_stream import LiveUpdates


class NodePages:
    """The pages about nodes."""

    def __init__(self, coordinator: Coordinator, live: LiveUpdates) -> None:
        self._coordinator, self._live = coordinator, live

    def guarded_routes(self) -> list[GuardedRoute]:
        look, at = AccessLevel.VIEWER, "/console/nodes/{node}"
        return [
            GuardedRoute("GET", "/console/nodes", look, self.nodes_page),
            GuardedRoute("GET", "/console/nodes.json", look, self.nodes_json),
            GuardedRoute("GET", "/console/nodes-live", look, self.nodes_live),
            GuardedRoute("GET", f"{at}.json", look, self.node_json),
            GuardedRoute("GET", at, look, self.node_page),
            GuardedRoute("GET", f"{at}/live", look, self.node_live),
            GuardedRoute("POST", f"{at}/orders", AccessLevel.ADMIN, self.save_node_settings, "order a node"),
            GuardedRoute("POST", f"{at}/forget", AccessLevel.ADMIN, self.forget_node, "forget a node"),
        ]

    async def nodes_page(self, request: ConsoleRequest) -> Response:
        return self._page(request, "console/nodes.html", snapshot=self._coordinator.monitor.snapshot())

    async def nodes_json(self, request: ConsoleRequest) -> Response:
        snapshot = self._coordinator.monitor.snapshot()
        return request.json({"nodes": snapshot.nodes, "totals": snapshot.totals})

    async def nodes_live(self, request: ConsoleRequest) -> Response:
        return self._live.stream(
            request, lambda snapshot: {"nodes": ("console/nodes_part.html", {"snapshot": snapshot})}
        )

    async def node_page(self, request: ConsoleRequest) -> Response:
        one = self._found(request, self._coordinator.monitor.snapshot())
        return self._node_response(request, one, ordering.form_from_orders(one.node.orders))

    async def node_json(self, request: ConsoleRequest) -> Response:
        return request.json(self._found(request, self._coordinator.monitor.snapshot()))

    async def node_live(self, request: ConsoleRequest) -> Response:
        self._found(request, self._coordinator.monitor.snapshot())

        def parts(snapshot: SystemSnapshot) -> dict[str, tuple[str, dict[str, Any]]]:
            one = self._found(request, snapshot)
            return {"node": ("console/node_part.html", {"one": one, "snapshot": _single_node_snapshot(snapshot, one)})}

        return self._live.stream(request, parts)

    async def save_node_settings(self, request: ConsoleRequest) -> Response:
        one, form = self._found(request, self._coordinator.monitor.snapshot()), request.form
        typed = NodeOrdersForm(*(form.get(name).strip() for name in NodeOrdersForm.__struct_fields__))
        try:
            orders = ordering.orders_from_form(typed, form.all("roles"), paused=bool(form.get("paused")))
        except ConfigError as error:
            return self._node_response(request, one, typed, request.translator.render(error.message), 400)
        request.audit_note(one.node.name, str(orders))
        self._coordinator.nodes.set_orders(one.node.name, orders, time.time())
        return request.redirect(f"/console/nodes/{one.node.name}")

    async def forget_node(self, request: ConsoleRequest) -> Response:
        name = request.param("node")
        request.audit_note(name)
        self._coordinator.nodes.forget(name, time.time())
        return request.redirect("/console/nodes")

    def _node_response(
        self, request: ConsoleRequest, one: NodeSnapshot, typed: NodeOrdersForm, sentence: str = "", code: int = 200
    ) -> Response:
        snapshot = _single_node_snapshot(self._coordinator.monitor.snapshot(), one)
        return self._page(
            request, "console/node.html", code, snapshot=snapshot, one=one, typed=typed, sentence=sentence, roles=ROLES
        )

    def _found(self, request: ConsoleRequest, snapshot: SystemSnapshot) -> NodeSnapshot:
        return snapshot.node(request.param("node"))

    def _page(self, request: ConsoleRequest, template: str, code: int = 200, **values: Any) -> Response:
        return request.html(template, code, section="/console/nodes", **values)


def _single_node_snapshot(snapshot: SystemSnapshot, one: NodeSnapshot) -> SystemSnapshot:
    return SystemSnapshot(snapshot.at, snapshot.trouble, [], [], [one], cluster_totals([one]))
