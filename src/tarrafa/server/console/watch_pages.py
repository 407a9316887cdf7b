"""Console page and REST routes of watches: list, add, remove.

Promises: only admins see or change watches, because the address of a feed is a secret, and a webhook may have a private
address. The audit log gets what is watched, and no address.
"""

import asyncio
from collections.abc import Callable
from typing import Any, get_args

from starlette.responses import Response

from tarrafa.coordinator.watch.watch_store import WatchKind
from tarrafa.coordinator.watch.watches import (
    DEFAULT_PERIODS,
    ListedWatch,
    WatchRequest,
    add_watch,
    list_watches,
    remove_watch,
)
from tarrafa.errors import ConfigError, NotFound
from tarrafa.i18n import message
from tarrafa.runtime.data_dir import DataDirectory
from tarrafa.server.api.api_route import ApiRoute
from tarrafa.server.auth.required_role import AccessLevel, GuardedRoute
from tarrafa.server.auth.role_and_csrf_guard import ConsoleRequest
from tarrafa.server.console import labels
from tarrafa.server.error_status import RequestRefused

PAGE_PATH = "/console/watches"
KINDS: tuple[WatchKind, ...] = get_args(WatchKind)
ADD_ACTION, REMOVE_ACTION, CHANGE_ACTION = "add a watch", "remove a watch", "change a watch"
FIELDS = ("kind", "what", "collection", "period", "email", "webhook")
FIELD_CHARS_MAX = 2_000


class WatchPages:
    def __init__(self, data: DataDirectory, now: Callable[[], float]) -> None:
        self._data, self._now = data, now

    def guarded_routes(self) -> list[GuardedRoute]:
        admin = AccessLevel.ADMIN
        return [
            GuardedRoute("GET", PAGE_PATH, admin, self.page),
            GuardedRoute("POST", PAGE_PATH, admin, self.change_from_form, CHANGE_ACTION),
        ]

    def api_routes(self) -> list[ApiRoute]:
        admin, at = AccessLevel.ADMIN, "/watches"
        return [
            ApiRoute("GET", at, message("Watches of pages, sites and queries"), admin, self.list_all),
            ApiRoute("POST", at, message("Watch a page, a site or a query"), admin, self.add, ADD_ACTION, 201),
            ApiRoute("DELETE", f"{at}/{{number}}", message("Remove a watch"), admin, self.remove, REMOVE_ACTION),
        ]

    async def list_all(self, request: ConsoleRequest) -> list[ListedWatch]:
        return await asyncio.to_thread(list_watches, self._data)

    async def add(self, request: ConsoleRequest, body: WatchRequest) -> ListedWatch:
        request.audit_note(body.what, f"watch this {body.kind}")
        made = await asyncio.to_thread(add_watch, self._data, body, self._now, request.principal.name)
        return next(one for one in await self.list_all(request) if one.number == made.number)

    async def remove(self, request: ConsoleRequest) -> None:
        await self._remove(request, request.param("number"))

    async def _remove(self, request: ConsoleRequest, number: str) -> None:
        if not (number.isascii() and number.isdigit() and len(number) < 10):
            raise NotFound(message("there is no watch {number}", number=number[:20]))
        found = await asyncio.to_thread(remove_watch, self._data, int(number))
        request.audit_note(found.settings.what, f"no longer watch this {found.settings.kind}")

    async def page(self, request: ConsoleRequest) -> Response:
        """`kind` and `what` fill the form: links of other pages lead here."""
        given = request.http.query_params
        return await self._page(request, typed={name: given.get(name, "")[:FIELD_CHARS_MAX] for name in FIELDS})

    async def change_from_form(self, request: ConsoleRequest) -> Response:
        form = request.form
        if form.get("action") == "remove":
            await self._remove(request, form.get("number"))
            return request.redirect(PAGE_PATH)
        typed = {name: form.get(name)[:FIELD_CHARS_MAX] for name in FIELDS}
        kind = next((one for one in KINDS if one == typed["kind"]), None)
        request.audit_note(typed["what"], f"watch this {kind}")
        if kind is None:
            raise RequestRefused(400, message("there is no such kind of watch"))
        addresses = tuple(typed["email"].replace(",", " ").split())
        asked = WatchRequest(
            kind, typed["what"], typed["collection"], typed["period"], addresses, typed["webhook"].strip()
        )
        try:
            await asyncio.to_thread(add_watch, self._data, asked, self._now, request.principal.name)
        except ConfigError as error:
            return await self._page(request, 400, request.translator.render(error.message), typed=typed)
        return request.redirect(PAGE_PATH)

    async def _page(
        self, request: ConsoleRequest, code: int = 200, sentence: str = "", *, typed: dict[str, str]
    ) -> Response:
        values: dict[str, Any] = {
            "watches": await asyncio.to_thread(list_watches, self._data), "kinds": labels.WATCH_KINDS,
            "typed": typed, "periods": DEFAULT_PERIODS, "rss": lambda feed: feed.removesuffix(".atom") + ".rss",
        }  # fmt: skip
        return request.html("console/watches.html", code, section=PAGE_PATH, sentence=sentence, **values)
