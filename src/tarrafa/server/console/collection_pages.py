"""Console pages of collections: overview, one collection with live charts, actions, deletion.

Promises: every page is rendered completely by the server, and then kept up to date by parts that the same templates
render (`event_stream`); each is also available as JSON; viewers see no buttons.
"""

from typing import Any

import msgspec
from starlette.responses import Response

from tarrafa.coordinator.coordinator import Coordinator
from tarrafa.coordinator.monitoring.snapshot import CollectionSnapshot, SystemSnapshot
from tarrafa.coordinator.states import ACTIONS
from tarrafa.i18n import message
from tarrafa.server.auth.required_role import AccessLevel, GuardedRoute
from tarrafa.server.auth.role_and_csrf_guard import ConsoleRequest
from tarrafa.server.console.event_stream import LiveUpdates
from tarrafa.server.error_status import RequestRefused

CHART_SPANS_S = {"15m": 900.0, "3h": 10_800.0, "1d": 86_400.0, "30d": 2_592_000.0, "all": 1e12}
LIVE_PARTS = {"numbers": "collection_numbers_part", "acts": "collection_actions_part", "seen": "collection_visits_part"}


class CollectionPages:
    """The pages about collections as they are."""

    def __init__(self, coordinator: Coordinator, live: LiveUpdates) -> None:
        self._coordinator, self._live = coordinator, live

    def guarded_routes(self) -> list[GuardedRoute]:
        look, at = AccessLevel.VIEWER, "/console/c/{name}"
        return [
            GuardedRoute("GET", "/console", look, self.overview),
            GuardedRoute("GET", "/console.json", look, self.overview_json),
            GuardedRoute("GET", "/console/live", look, self.overview_live),
            GuardedRoute("GET", f"{at}.json", look, self.collection_json),
            GuardedRoute("GET", at, look, self.collection),
            GuardedRoute("GET", f"{at}/live", look, self.collection_live),
            GuardedRoute("GET", f"{at}/samples.json", look, self.samples),
            GuardedRoute("POST", f"{at}/act", AccessLevel.ADMIN, self.act, "act on a collection"),
            GuardedRoute("GET", f"{at}/delete", AccessLevel.ADMIN, self.confirm_delete),
        ]

    async def overview(self, request: ConsoleRequest) -> Response:
        return self._page(request, "console/overview.html", snapshot=self._coordinator.monitor.snapshot())

    async def overview_json(self, request: ConsoleRequest) -> Response:
        return request.json(self._coordinator.monitor.snapshot())

    async def overview_live(self, request: ConsoleRequest) -> Response:
        parts = {"overview": "console/overview_part.html"}
        return self._live.stream(
            request, lambda snapshot: {place: (file, {"snapshot": snapshot}) for place, file in parts.items()}
        )

    def _detail_values(self, one: CollectionSnapshot) -> dict[str, Any]:
        seen = msgspec.structs.asdict(self._coordinator.monitor.detail(one))
        del seen["collection"]
        return seen

    async def collection(self, request: ConsoleRequest) -> Response:
        snapshot, one = self._found(request)
        span_name = request.http.query_params.get("span", "")
        span, seen = span_name if span_name in CHART_SPANS_S else "15m", self._detail_values(one)
        return self._page(request, "console/collection.html", snapshot=snapshot, one=one, span=span, **seen)

    async def collection_json(self, request: ConsoleRequest) -> Response:
        _, one = self._found(request)
        return request.json(self._coordinator.monitor.detail(one))

    async def collection_live(self, request: ConsoleRequest) -> Response:
        name = self._found(request)[1].name

        def parts(snapshot: SystemSnapshot) -> dict[str, tuple[str, dict[str, Any]]]:
            one = snapshot.collection(name)
            values = {"snapshot": snapshot, "one": one} | self._detail_values(one)
            return {place: (f"console/{file}.html", values) for place, file in LIVE_PARTS.items()}

        return self._live.stream(request, parts, lambda snapshot: {"sample": snapshot.collection(name).sample})

    async def samples(self, request: ConsoleRequest) -> Response:
        name, now = self._found(request)[1].name, self._coordinator.clock.now()
        span_name = request.http.query_params.get("span", "")
        since = now - CHART_SPANS_S.get(span_name, CHART_SPANS_S["15m"])
        samples = self._coordinator.monitor.timeseries.between(name, since, now)
        return request.json({"samples": samples, "since": None if span_name == "all" else since, "until": now})

    async def act(self, request: ConsoleRequest) -> Response:
        name, action = request.param("name"), request.form.get("action")
        request.audit_note(name, action if action in ACTIONS else "")
        self._found(request)
        if action not in ACTIONS:
            raise RequestRefused(400, message("there is no such action"))
        await self._coordinator.actions.act(name, action, request.principal.name)
        return request.redirect("/console" if action == "delete" else f"/console/c/{name}")

    async def confirm_delete(self, request: ConsoleRequest) -> Response:
        snapshot, one = self._found(request)
        return self._page(request, "console/delete_collection.html", snapshot=snapshot, one=one)

    def _found(self, request: ConsoleRequest) -> tuple[SystemSnapshot, CollectionSnapshot]:
        snapshot = self._coordinator.monitor.snapshot()
        return snapshot, snapshot.collection(request.param("name"))

    def _page(self, request: ConsoleRequest, template: str, **values: Any) -> Response:
        return request.html(template, section="/console", **values)
