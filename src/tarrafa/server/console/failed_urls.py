"""Console page and REST routes of one status of a collection: its failed URLs, what helps, retry all.

The page about one status of one collection: what it means, what usually helps, where it happened, and one button: try
them all again. The same for programs.
"""

from typing import Literal

import msgspec
from starlette.exceptions import HTTPException
from starlette.responses import Response

from tarrafa.coordinator.failures import FailureDetail, Failures, RetryResponse
from tarrafa.server.api.route_registry import ApiRoute
from tarrafa.server.auth.authentication import AccessLevel
from tarrafa.server.auth.role_and_csrf_guard import ConsoleRequest, GuardedRoute
from tarrafa.server.console.status_help import help_with
from tarrafa.server.search.params import address

PAGE_PATH, API_ROUTE = "/console/c/{name}/status/{status}", "/collections/{name}/statuses/{status}"
AUDIT_ACTION = "act on a status"
DIGITS_MAX = 9


class StatusActionRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What to do with all URLs that ended so."""

    action: Literal["retry"]


class FailedUrlPages:
    """The pages about statuses, and the routes."""

    def __init__(self, alike: Failures) -> None:
        self._alike = alike

    def guarded_routes(self) -> list[GuardedRoute]:
        return [
            GuardedRoute("GET", f"{PAGE_PATH}.json", AccessLevel.VIEWER, self.page_json),
            GuardedRoute("GET", PAGE_PATH, AccessLevel.VIEWER, self.page),
            GuardedRoute("POST", f"{PAGE_PATH}/act", AccessLevel.ADMIN, self.retry_from_form, AUDIT_ACTION),
        ]

    def api_routes(self) -> list[ApiRoute]:
        view, admin, at = AccessLevel.VIEWER, AccessLevel.ADMIN, API_ROUTE
        return [
            ApiRoute("GET", at, "What ended with one status", view, self.get_status),
            ApiRoute("POST", f"{at}/actions", "Try again what ended so", admin, self.retry, AUDIT_ACTION),
        ]

    async def page(self, request: ConsoleRequest) -> Response:
        told, asked = await self._failed_urls(request), request.http.query_params
        retried = asked.get("retried", "")
        return request.html(
            "console/failed_urls.html", section="/console", told=told,
            helping=help_with(told.counted.status),
            errors={seen.url: seen.error for seen in told.seen if seen.error},
            retried=int(retried) if retried.isdecimal() and len(retried) <= DIGITS_MAX else None,
            more=bool(asked.get("more")),
        )  # fmt: skip

    async def page_json(self, request: ConsoleRequest) -> Response:
        return request.json(await self._failed_urls(request))

    async def retry_from_form(self, request: ConsoleRequest) -> Response:
        if request.form.get("action") != "retry":
            raise HTTPException(400, "there is no such action")
        done = await self._retry_all(request)
        here = f"/console/c/{request.param('name')}/status/{request.param('status')}"  # both were found
        return request.redirect(address(here, retried=str(done.urls), more="1" if done.more else ""))

    async def get_status(self, request: ConsoleRequest) -> FailureDetail:
        return await self._failed_urls(request)

    async def retry(self, request: ConsoleRequest, body: StatusActionRequest) -> RetryResponse:
        return await self._retry_all(request)

    async def _failed_urls(self, request: ConsoleRequest) -> FailureDetail:
        return await self._alike.describe(request.param("name"), request.param("status"))

    async def _retry_all(self, request: ConsoleRequest) -> RetryResponse:
        name, status = request.param("name"), request.param("status")
        request.audit_note(name, f"retry {status}")
        done = await self._alike.retry(name, status, request.principal.name)
        request.audit_note(name, f"retry {status}: {done.urls:,} URLs{' and more' if done.more else ''}")
        return done
