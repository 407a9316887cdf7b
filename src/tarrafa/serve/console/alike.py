"""What ended alike in a collection, and what helps?

The page about one status of one collection: what it means, what usually helps, where it happened, and one button: try
them all again. The same for programs.
"""

from typing import Literal

import msgspec
from starlette.exceptions import HTTPException
from starlette.responses import Response

from tarrafa.coordinate.alike import Alike, AlikeTold, RetriedTold
from tarrafa.serve.asked import address
from tarrafa.serve.console.api import Api, Call
from tarrafa.serve.console.doors import Door, Visit
from tarrafa.serve.console.entry import Need
from tarrafa.serve.replies import json
from tarrafa.serve.texts.helping import help_with

AT, API_AT = "/console/c/{name}/status/{status}", "/collections/{name}/statuses/{status}"
ACTION = "act on a status"
DIGITS_MAX = 9


class StatusAction(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What to do with all URLs that ended so."""

    action: Literal["retry"]


class Statuses:
    """The pages about statuses, and the routes."""

    def __init__(self, alike: Alike) -> None:
        self._alike = alike

    def doors(self) -> list[Door]:
        return [
            Door("GET", f"{AT}.json", Need.VIEWER, self.page_json),
            Door("GET", AT, Need.VIEWER, self.page),
            Door("POST", f"{AT}/act", Need.ADMIN, self.act, ACTION),
        ]

    def register(self, api: Api) -> None:
        api.route("GET", API_AT, "What ended with one status", Need.VIEWER, answer=AlikeTold)(self.tell)
        api.route(
            "POST", f"{API_AT}/actions", "Try again what ended so", Need.ADMIN, body=StatusAction, answer=RetriedTold,
            action=ACTION,
        )(self.obey)  # fmt: skip

    async def page(self, visit: Visit) -> Response:
        told, asked = await self._told(visit), visit.request.query_params
        retried = asked.get("retried", "")
        return visit.html(
            "console/status.html", section="/console", told=told,
            helping=help_with(told.counted.status, visit.words.code),
            errors={seen.url: seen.error for seen in told.seen if seen.error},
            retried=int(retried) if retried.isdecimal() and len(retried) <= DIGITS_MAX else None,
            more=bool(asked.get("more")),
        )  # fmt: skip

    async def page_json(self, visit: Visit) -> Response:
        return json(await self._told(visit))

    async def act(self, visit: Visit) -> Response:
        if visit.form.get("action") != "retry":
            raise HTTPException(400, "there is no such action")
        done = await self._retried(visit)
        here = f"/console/c/{visit.param('name')}/status/{visit.param('status')}"  # both were found
        return visit.to(address(here, retried=str(done.urls), more="1" if done.more else ""))

    async def tell(self, call: Call) -> AlikeTold:
        return await self._told(call.visit)

    async def obey(self, call: Call) -> RetriedTold:
        return await self._retried(call.visit)

    async def _told(self, visit: Visit) -> AlikeTold:
        return await self._alike.told(visit.param("name"), visit.param("status"))

    async def _retried(self, visit: Visit) -> RetriedTold:
        name, status = visit.param("name"), visit.param("status")
        visit.note(name, f"retry {status}")
        done = await self._alike.retry(name, status, visit.who.name)
        visit.note(name, f"retry {status}: {done.urls:,} URLs{' and more' if done.more else ''}")
        return done
