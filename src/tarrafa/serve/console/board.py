"""What does whoever runs the crawl see, and what can he do with a collection?

Promises: every page is drawn whole by the server, and then kept up to date by pieces that the same templates draw
(`streaming`); each can also be had as JSON; whoever may only look sees no buttons.
"""

from typing import Any

import msgspec
from starlette.exceptions import HTTPException
from starlette.responses import Response

from tarrafa.coordinate.closeup import closeup, collection_of
from tarrafa.coordinate.coordinator import Coordinator
from tarrafa.coordinate.picture import CollectionPicture, Picture
from tarrafa.coordinate.states import ACTIONS
from tarrafa.serve.console.doors import Door, Visit
from tarrafa.serve.console.entry import Need
from tarrafa.serve.console.streaming import Streams
from tarrafa.serve.replies import json

SPANS_S = {"15m": 900.0, "3h": 10_800.0, "1d": 86_400.0, "30d": 2_592_000.0, "all": 1e12}
PARTS = {"numbers": "numbers_part", "acts": "acts_part", "seen": "seen_part"}


class Board:
    """The pages about collections as they are."""

    def __init__(self, coordinator: Coordinator, streams: Streams) -> None:
        self._coordinator, self._streams = coordinator, streams

    def doors(self) -> list[Door]:
        look, at = Need.VIEWER, "/console/c/{name}"
        return [
            Door("GET", "/console", look, self.overview),
            Door("GET", "/console.json", look, self.overview_json),
            Door("GET", "/console/live", look, self.overview_live),
            Door("GET", f"{at}.json", look, self.collection_json),
            Door("GET", at, look, self.collection),
            Door("GET", f"{at}/live", look, self.collection_live),
            Door("GET", f"{at}/samples.json", look, self.samples),
            Door("POST", f"{at}/act", Need.ADMIN, self.act, "act on a collection"),
            Door("GET", f"{at}/delete", Need.ADMIN, self.ask_delete),
        ]

    async def overview(self, visit: Visit) -> Response:
        return self._page(visit, "console/overview.html", picture=self._coordinator.picture())

    async def overview_json(self, visit: Visit) -> Response:
        return json(self._coordinator.picture())

    async def overview_live(self, visit: Visit) -> Response:
        parts = {"overview": "console/overview_part.html"}
        return self._streams.answer(
            visit, lambda picture: {place: (file, {"picture": picture}) for place, file in parts.items()}
        )

    def _seen(self, one: CollectionPicture) -> dict[str, Any]:
        seen = msgspec.structs.asdict(closeup(self._coordinator, one))
        del seen["collection"]
        return seen

    async def collection(self, visit: Visit) -> Response:
        picture, one = self._found(visit)
        asked = visit.request.query_params.get("span", "")
        span, seen = asked if asked in SPANS_S else "15m", self._seen(one)
        return self._page(visit, "console/collection.html", picture=picture, one=one, span=span, **seen)

    async def collection_json(self, visit: Visit) -> Response:
        _, one = self._found(visit)
        return json(closeup(self._coordinator, one))

    async def collection_live(self, visit: Visit) -> Response:
        name = self._found(visit)[1].name

        def parts(picture: Picture) -> dict[str, tuple[str, dict[str, Any]]]:
            one = collection_of(picture, name)
            values = {"picture": picture, "one": one} | self._seen(one)
            return {place: (f"console/{file}.html", values) for place, file in PARTS.items()}

        return self._streams.answer(visit, parts, lambda picture: {"sample": collection_of(picture, name).sample})

    async def samples(self, visit: Visit) -> Response:
        name, now = self._found(visit)[1].name, self._coordinator.now()
        asked = visit.request.query_params.get("span", "")
        since = now - SPANS_S.get(asked, SPANS_S["15m"])
        samples = self._coordinator.curves.between(name, since, now)
        return json({"samples": samples, "since": None if asked == "all" else since, "until": now})

    async def act(self, visit: Visit) -> Response:
        name, action = visit.param("name"), visit.form.get("action")
        visit.note(name, action if action in ACTIONS else "")
        self._found(visit)
        if action not in ACTIONS:
            raise HTTPException(400, "there is no such action")
        await self._coordinator.act(name, action, visit.who.name)
        return visit.to("/console" if action == "delete" else f"/console/c/{name}")

    async def ask_delete(self, visit: Visit) -> Response:
        picture, one = self._found(visit)
        return self._page(visit, "console/delete.html", picture=picture, one=one)

    def _found(self, visit: Visit) -> tuple[Picture, CollectionPicture]:
        picture = self._coordinator.picture()
        return picture, collection_of(picture, visit.param("name"))

    def _page(self, visit: Visit, template: str, **values: Any) -> Response:
        return visit.html(template, section="/console", **values)
