"""The console: registers its pages and API routes, and serves login, audit log and API pages.

    /console/login  /console/logout     sign-in and sign-out
    /console/audit  /api/v1/audit       the audit log
    /api  /api/openapi.json             documentation of the REST API
    /api/v1/me                          the authenticated principal

Other modules add their pages (`console.add`) and routes (`console.api.routes`). Promises: all routes are guarded; an
unknown path or method below /api is a `Problem`.
"""

import asyncio
import math
from collections.abc import Callable
from functools import cached_property
from typing import Annotated, Any

import msgspec
from msgspec import Meta
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import BaseRoute, Mount

from tarrafa.coordinator.audit import LINES_PER_PAGE, LINES_PER_PAGE_MAX, AuditPage
from tarrafa.errors import Busy
from tarrafa.i18n import ENGLISH, message
from tarrafa.server.api.api_route import ApiRegistry, ApiRoute
from tarrafa.server.api.openapi import openapi_document, schema_summary
from tarrafa.server.api.problem_details import problem_response
from tarrafa.server.api.public_routes import documented_routes
from tarrafa.server.auth.authentication import Authenticator, LoginDelayed, Principal
from tarrafa.server.auth.required_role import AccessLevel, GuardedRoute
from tarrafa.server.auth.role_and_csrf_guard import (
    CONSOLE_PATH,
    LOGIN_PATH,
    ConsoleRequest,
    guard_routes,
    safe_redirect_path,
)
from tarrafa.server.auth.sessions import ABSOLUTE_S
from tarrafa.server.error_status import API_PATH, status_and_message
from tarrafa.server.page_responses import PageResponses, json_response
from tarrafa.server.search.params import integer_param

LOGOUT_PATH = f"{CONSOLE_PATH}/logout"
NAME_CHARS_MAX = 64
LOGIN_BYTES_MAX, LOGOUT_BYTES_MAX = 16 << 10, 4096
LOGIN_IS_HARMLESS = "it is how a user signs in"
LOGOUT_IS_HARMLESS = "it ends only the user's own session"


class CurrentUser(msgspec.Struct, frozen=True):
    """The authenticated principal: name, role (`viewer`, `admin`), and method (`session`, `bearer`, `local`)."""

    name: str
    role: str
    how: str


class AuditParams(msgspec.Struct, frozen=True):
    """The requested lines of the audit log."""

    before: Annotated[
        int, Meta(ge=0, le=1 << 53, description=str(message("only lines with a smaller number; 0: the latest")))
    ] = 0
    n: Annotated[int, Meta(ge=1, le=LINES_PER_PAGE_MAX, description=str(message("how many")))] = LINES_PER_PAGE
    who: Annotated[str, Meta(max_length=100, description=str(message("only of this one")))] = ""
    subject: Annotated[str, Meta(max_length=500, description=str(message("only about this")))] = ""


class Console:
    """Pages and routes, and their access levels."""

    def __init__(self, authenticator: Authenticator) -> None:
        self.authenticator, self.api = authenticator, ApiRegistry()
        self.closing: Callable[[], None] = lambda: None  # called when the pages are no longer served
        self.suggests: Callable[[], bool] = lambda: False  # whether visitors can suggest sites now
        self.can_watch: Callable[[Request], bool] = lambda request: False  # whether to show links to watches
        anybody, viewer, admin, audit = AccessLevel.OPEN, AccessLevel.VIEWER, AccessLevel.ADMIN, f"{CONSOLE_PATH}/audit"
        login_max, logout_max = LOGIN_BYTES_MAX, LOGOUT_BYTES_MAX
        self._pages = [
            GuardedRoute("GET", LOGIN_PATH, anybody, self._login_page),
            GuardedRoute(
                "POST", LOGIN_PATH, anybody, self._sign_in, "sign in", LOGIN_IS_HARMLESS, body_bytes_max=login_max
            ),
            GuardedRoute(
                "POST", LOGOUT_PATH, viewer, self._sign_out, "sign out", LOGOUT_IS_HARMLESS, body_bytes_max=logout_max
            ),
            GuardedRoute("GET", audit, admin, self._audit_page),
            GuardedRoute("GET", f"{audit}.json", admin, self._audit_json),
        ]
        self.api.routes += [
            ApiRoute("GET", "/me", message("The authenticated user"), viewer, self._current_user),
            ApiRoute("GET", "/audit", message("The audit log"), admin, self._audit),
        ]

    def add(self, *routes: GuardedRoute) -> None:
        self._pages += routes

    @property
    def guarded_routes(self) -> list[GuardedRoute]:
        """All guarded routes: pages and API."""
        return [*self._pages, *self.api.guarded_routes()]

    def routes(self, pages: PageResponses, has_status: bool = False, *, bare: bool = False) -> list[BaseRoute]:
        """All routes, to be mounted at the root. `bare`: only the documentation of a site without a console."""
        if bare:
            self._pages, self.api = [], ApiRegistry()
        self.api.documented = documented_routes(has_status)
        page = GuardedRoute("GET", API_PATH, AccessLevel.OPEN, self._api_page)
        described = GuardedRoute("GET", f"{API_PATH}/openapi.json", AccessLevel.OPEN, self._openapi_json)
        api = Starlette(
            routes=guard_routes([described, *self.api.guarded_routes()], self.authenticator, pages, API_PATH),
            exception_handlers=dict.fromkeys((HTTPException, Exception), api_error_response),
        )
        api.router.redirect_slashes = False
        return [*guard_routes([*self._pages, page], self.authenticator, pages), Mount(API_PATH, api)]

    # -- sign-in and sign-out --------------------------------------------------------------------------------------

    async def _login_page(self, request: ConsoleRequest) -> Response:
        params = request.http.query_params
        if not request.principal.is_anonymous:
            return request.redirect(safe_redirect_path(params.get("next", "")))
        _ = request.translator
        said = _("You are signed out.") if params.get("out") else ""
        return self._login(request, 200, params.get("next", ""), said=said)

    def _login(
        self, request: ConsoleRequest, code: int, then: str, sentence: str = "", name: str = "", said: str = ""
    ) -> Response:
        authenticator = request.authenticator
        can = authenticator.has_token or bool(authenticator.accounts)
        return request.html(
            "console/login.html", code, next=safe_redirect_path(then), sentence=sentence, name=name, said=said,
            has_token=authenticator.has_token, can_sign_in=can,
        )  # fmt: skip

    async def _sign_in(self, request: ConsoleRequest) -> Response:
        form, authenticator, _ = request.form, request.authenticator, request.translator
        name, then = form.get("name").strip()[:NAME_CHARS_MAX], form.get("next")
        # A password typed into the wrong field must not be logged: only existing names are.
        request.audit_note(name if authenticator.accounts.find(name) else "" if name else "token")
        try:
            found = await authenticator.sign_in(request.http, name, form.get("password"))
        except LoginDelayed as wait:
            seconds = math.ceil(wait.seconds)
            request.detail = f"429: must wait {seconds} s"
            sentence = _.ngettext(
                "There were too many wrong passwords: try again in {count} second.",
                "There were too many wrong passwords: try again in {count} seconds.",
                seconds,
            )
            response = self._login(request, 429, then, sentence, name)
            response.headers["Retry-After"] = str(seconds)
            return response
        except Busy:
            return self._login(request, 503, then, _("Too many logins at once: try again in a few seconds."), name)
        if found is None:
            request.detail = "401: wrong name or password"
            return self._login(request, 401, then, _("The name or the password is wrong."), name)
        if request.principal.session is not None:
            await authenticator.sessions.end(request.principal.session)
        account, secret = found
        request.audit_note(account, f"from {authenticator.client_address_of(request.http)}")
        request.principal = Principal(account, AccessLevel.VIEWER)
        response = request.redirect(safe_redirect_path(then))
        response.set_cookie(authenticator.cookie, secret, int(ABSOLUTE_S), **authenticator.cookie_options)
        return response

    async def _sign_out(self, request: ConsoleRequest) -> Response:
        authenticator, session = request.authenticator, request.principal.session
        if session is not None:
            await authenticator.sessions.end(session)
        request.audit_note(request.principal.name)
        response = RedirectResponse(f"{LOGIN_PATH}?out=1", 303)
        response.delete_cookie(authenticator.cookie, **authenticator.cookie_options)
        return response

    # -- the audit log ---------------------------------------------------------------------------------------------

    async def _audit_page(self, request: ConsoleRequest) -> Response:
        before, page = await self._audit_lines(request)
        return request.html("console/audit.html", page=page, before=before)

    async def _audit_json(self, request: ConsoleRequest) -> Response:
        return json_response((await self._audit_lines(request))[1])

    async def _audit_lines(self, request: ConsoleRequest) -> tuple[int, AuditPage]:
        before = max(0, integer_param(request.http.query_params, "before", 0))
        return before, await asyncio.to_thread(self.authenticator.audit.read, before)

    async def _audit(self, request: ConsoleRequest, query: AuditParams) -> AuditPage:
        return await asyncio.to_thread(self.authenticator.audit.read, query.before, query.n, query.who, query.subject)

    async def _current_user(self, request: ConsoleRequest) -> CurrentUser:
        who = request.principal
        return CurrentUser(who.name, who.role.name.lower(), who.how)

    # -- for programs ----------------------------------------------------------------------------------------------

    @cached_property
    def openapi_document(self) -> dict[str, Any]:
        """The document of all routes; all are registered by now."""
        return openapi_document(self.api, self.authenticator.cookie, self.authenticator.public or "/")

    async def _openapi_json(self, request: ConsoleRequest) -> Response:
        return json_response(self.openapi_document)

    async def _api_page(self, request: ConsoleRequest) -> Response:
        return request.html("console/api.html", document=self.openapi_document, summary=schema_summary)


async def api_error_response(request: Request, error: Exception) -> Response:
    """The response to an error below /api outside any guard."""
    return problem_response(*status_and_message(error, ENGLISH))
