"""How do the machines fare, and what are they told?

Promises: all nodes live in one table, what is dead or silent in red; each with its latest log lines, and with limits
that it obeys within seconds.
"""

from typing import Any

from starlette.responses import Response

from tarrafa.coordinate import ordering
from tarrafa.coordinate.beats import ROLES
from tarrafa.coordinate.closeup import node_of
from tarrafa.coordinate.coordinator import Coordinator
from tarrafa.coordinate.ordering import TypedOrders
from tarrafa.coordinate.picture import NodePicture, Picture, totals_of
from tarrafa.errors import ConfigError
from tarrafa.serve.console.doors import Door, Visit
from tarrafa.serve.console.entry import Need
from tarrafa.serve.console.streaming import Streams
from tarrafa.serve.replies import json


class Machines:
    """The pages about nodes."""

    def __init__(self, coordinator: Coordinator, streams: Streams, now: Any) -> None:
        self._coordinator, self._streams, self._now = coordinator, streams, now

    def doors(self) -> list[Door]:
        look, at = Need.VIEWER, "/console/nodes/{node}"
        return [
            Door("GET", "/console/nodes", look, self.all),
            Door("GET", "/console/nodes.json", look, self.all_json),
            Door("GET", "/console/nodes-live", look, self.all_live),
            Door("GET", f"{at}.json", look, self.one_json),
            Door("GET", at, look, self.one),
            Door("GET", f"{at}/live", look, self.one_live),
            Door("POST", f"{at}/orders", Need.ADMIN, self.order, "order a node"),
            Door("POST", f"{at}/forget", Need.ADMIN, self.forget, "forget a node"),
        ]

    async def all(self, visit: Visit) -> Response:
        return self._page(visit, "console/nodes.html", picture=self._coordinator.picture())

    async def all_json(self, visit: Visit) -> Response:
        picture = self._coordinator.picture()
        return json({"nodes": picture.nodes, "totals": picture.totals})

    async def all_live(self, visit: Visit) -> Response:
        return self._streams.answer(visit, lambda picture: {"nodes": ("console/nodes_part.html", {"picture": picture})})

    async def one(self, visit: Visit) -> Response:
        one = self._found(visit, self._coordinator.picture())
        return self._node(visit, one, ordering.typed(one.node.orders))

    async def one_json(self, visit: Visit) -> Response:
        return json(self._found(visit, self._coordinator.picture()))

    async def one_live(self, visit: Visit) -> Response:
        self._found(visit, self._coordinator.picture())

        def parts(picture: Picture) -> dict[str, tuple[str, dict[str, Any]]]:
            one = self._found(visit, picture)
            return {"node": ("console/node_part.html", {"one": one, "picture": _alone(picture, one)})}

        return self._streams.answer(visit, parts)

    async def order(self, visit: Visit) -> Response:
        one, form = self._found(visit, self._coordinator.picture()), visit.form
        typed = TypedOrders(*(form.get(name).strip() for name in TypedOrders.__struct_fields__))
        try:
            orders = ordering.read(typed, form.all("roles"), paused=bool(form.get("paused")))
        except ConfigError as error:
            return self._node(visit, one, typed, str(error), 400)
        visit.note(one.node.name, str(orders))
        self._coordinator.nodes.order(one.node.name, orders, self._now())
        return visit.to(f"/console/nodes/{one.node.name}")

    async def forget(self, visit: Visit) -> Response:
        name = visit.param("node")
        visit.note(name)
        self._coordinator.nodes.forget(name, self._now())
        return visit.to("/console/nodes")

    def _node(
        self, visit: Visit, one: NodePicture, typed: TypedOrders, sentence: str = "", code: int = 200
    ) -> Response:
        picture = _alone(self._coordinator.picture(), one)
        return self._page(
            visit, "console/node.html", code, picture=picture, one=one, typed=typed, sentence=sentence, roles=ROLES
        )

    def _found(self, visit: Visit, picture: Picture) -> NodePicture:
        return node_of(picture, visit.param("node"))

    def _page(self, visit: Visit, template: str, code: int = 200, **values: Any) -> Response:
        return visit.html(template, code, section="/console/nodes", **values)


def _alone(picture: Picture, one: NodePicture) -> Picture:
    return Picture(picture.at, picture.trouble, [], [], [one], totals_of([one]))
