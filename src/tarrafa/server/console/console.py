"""The console: registers its pages and API routes, and serves login, audit log and API pages.

    /console/login  /console/logout     sign-in and sign-out
    /console/audit  /api/v1/audit       the audit log
    /api  /api/openapi.json             documentation of the REST API
    /api/v1/me                          the authenticated principal

Other modules add the rest: `@console.page("/console/hosts", AccessLevel.VIEWER)` and `@console.api.route(…)`. Promises:
all routes are guarded; an unknown path or method below /api is a `Problem`.
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
from tarrafa.i18n import ENGLISH
from tarrafa.server.api.openapi import openapi_document
from tarrafa.server.api.openapi_page import route_views, schema_views
from tarrafa.server.api.problem_details import API_PATH, problem_response, status_and_message
from tarrafa.server.api.public_routes import documented_routes
from tarrafa.server.api.route_registry import ApiCall, ApiRegistry
from tarrafa.server.auth.authentication import AccessLevel, Authenticator, LoginDelayed, Principal
from tarrafa.server.auth.role_and_csrf_guard import (
    CONSOLE_PATH,
    FORM_BYTES_MAX,
    LOGIN_PATH,
    ConsoleRequest,
    GuardedRoute,
    Handler,
    guard_routes,
    safe_redirect_path,
)
from tarrafa.server.auth.sessions import ABSOLUTE_S
from tarrafa.server.page_responses import PageResponses, json_response
from tarrafa.server.search.params import integer_param

NAME_CHARS_MAX = 64
LOGIN_IS_HARMLESS = "whoever is not signed in yet must be able to"
LOGOUT_IS_HARMLESS = "it ends nothing but one's own session"


class CurrentUser(msgspec.Struct, frozen=True):
    """The authenticated principal: name, role (`viewer`, `admin`), and method (`session`, `bearer`, `local`)."""

    name: str
    role: str
    how: str


class AuditParams(msgspec.Struct, frozen=True):
    """The requested lines of the audit log."""

    before: Annotated[int, Meta(ge=0, le=1 << 53, description="only lines with a smaller number; 0: the latest")] = 0
    n: Annotated[int, Meta(ge=1, le=LINES_PER_PAGE_MAX, description="how many")] = LINES_PER_PAGE
    who: Annotated[str, Meta(max_length=100, description="only of this one")] = ""
    subject: Annotated[str, Meta(max_length=500, description="only about this")] = ""


class Console:
    """Pages and routes, and their access levels."""

    def __init__(self, entry: Authenticator) -> None:
        self.entry, self.api = entry, ApiRegistry()
        self.closing: Callable[[], None] = lambda: None  # called when the pages are no longer served
        self.suggests: Callable[[], bool] = lambda: False  # whether visitors can suggest sites now
        self._doors = [
            GuardedRoute("GET", LOGIN_PATH, AccessLevel.OPEN, self._login_page),
            GuardedRoute(
                "POST",
                LOGIN_PATH,
                AccessLevel.OPEN,
                self._sign_in,
                "sign in",
                LOGIN_IS_HARMLESS,
                body_bytes_max=16 << 10,
            ),
            GuardedRoute(
                "POST",
                f"{CONSOLE_PATH}/logout",
                AccessLevel.VIEWER,
                self._sign_out,
                "sign out",
                LOGOUT_IS_HARMLESS,
                body_bytes_max=4096,
            ),
            GuardedRoute("GET", f"{CONSOLE_PATH}/audit", AccessLevel.ADMIN, self._audit_page),
            GuardedRoute("GET", f"{CONSOLE_PATH}/audit.json", AccessLevel.ADMIN, self._audit_json),
        ]
        describe = self.api.route
        describe("GET", "/me", "Who am I?", AccessLevel.VIEWER, answer=CurrentUser)(self._current_user)
        describe("GET", "/audit", "Who did what", AccessLevel.ADMIN, query=AuditParams, answer=AuditPage)(self._audit)

    def page(
        self,
        path: str,
        need: AccessLevel,
        method: str = "GET",
        *,
        action: str = "",
        harmless: str = "",
        audited: bool = True,
        body_bytes_max: int = FORM_BYTES_MAX,
        here: bool = False,
    ) -> Callable[[Handler], Handler]:
        """Registers the decorated coroutine. For the options see `GuardedRoute`."""

        def register(handler: Handler) -> Handler:
            door = GuardedRoute(method, path, need, handler, action, harmless, audited, body_bytes_max, here)
            self._doors.append(door)
            return handler

        return register

    def add(self, *doors: GuardedRoute) -> None:
        self._doors += doors

    @property
    def guarded_routes(self) -> list[GuardedRoute]:
        """All guarded routes, those for programs too."""
        return [*self._doors, *self.api.guarded_routes()]

    def routes(self, replies: PageResponses, has_status: bool = False, *, bare: bool = False) -> list[BaseRoute]:
        """All routes, to be mounted at the root. `bare`: only the documentation of a site without a console."""
        if bare:
            self._doors, self.api = [], ApiRegistry()
        self.api.documented = documented_routes(has_status)
        page = GuardedRoute("GET", API_PATH, AccessLevel.OPEN, self._api_page)
        described = GuardedRoute("GET", f"{API_PATH}/openapi.json", AccessLevel.OPEN, self._openapi_json)
        below = guard_routes([described, *self.api.guarded_routes()], self.entry, replies, API_PATH)
        programs = Starlette(
            routes=below,
            exception_handlers=dict.fromkeys((HTTPException, Exception), api_error_response),
        )
        programs.router.redirect_slashes = False
        return [*guard_routes([*self._doors, page], self.entry, replies), Mount(API_PATH, programs)]

    # -- sign-in and sign-out --------------------------------------------------------------------------------------

    async def _login_page(self, visit: ConsoleRequest) -> Response:
        asked = visit.request.query_params
        if not visit.principal.is_anonymous:
            return visit.redirect(safe_redirect_path(asked.get("next", "")))
        _ = visit.translator
        said = _("You are signed out.") if asked.get("out") else ""
        return self._login(visit, 200, asked.get("next", ""), said=said)

    def _login(
        self, visit: ConsoleRequest, code: int, then: str, sentence: str = "", name: str = "", said: str = ""
    ) -> Response:
        entry = visit.authenticator
        can = entry.has_token or bool(entry.accounts)
        return visit.html(
            "console/login.html", code, next=safe_redirect_path(then), sentence=sentence, name=name, said=said,
            has_token=entry.has_token, can_sign_in=can,
        )  # fmt: skip

    async def _sign_in(self, visit: ConsoleRequest) -> Response:
        form, entry, _ = visit.form, visit.authenticator, visit.translator
        name, then = form.get("name").strip()[:NAME_CHARS_MAX], form.get("next")
        # A password typed into the wrong field must not be logged: only existing names are.
        visit.audit_note(name if entry.accounts.find(name) else "" if name else "token")
        try:
            found = await entry.sign_in(visit.request, name, form.get("password"))
        except LoginDelayed as wait:
            seconds = math.ceil(wait.seconds)
            visit.detail = f"429: must wait {seconds} s"
            sentence = _.ngettext(
                "There were too many wrong passwords: try again in {count} second.",
                "There were too many wrong passwords: try again in {count} seconds.",
                seconds,
            )
            response = self._login(visit, 429, then, sentence, name)
            response.headers["Retry-After"] = str(seconds)
            return response
        except Busy:
            return self._login(
                visit, 503, then, _("Too many people sign in at once: try again in a few seconds."), name
            )
        if found is None:
            visit.detail = "401: wrong name or password"
            return self._login(visit, 401, then, _("That is not right: look at the name and the password again."), name)
        if visit.principal.session is not None:
            await entry.sessions.end(visit.principal.session)
        account, secret = found
        visit.audit_note(account, f"from {entry.client_address_of(visit.request)}")
        visit.principal = Principal(account, AccessLevel.VIEWER)
        response = visit.redirect(safe_redirect_path(then))
        response.set_cookie(
            entry.cookie, secret, int(ABSOLUTE_S), path="/", secure=entry.is_secure, httponly=True, samesite="lax"
        )
        return response

    async def _sign_out(self, visit: ConsoleRequest) -> Response:
        entry, session = visit.authenticator, visit.principal.session
        if session is not None:
            await entry.sessions.end(session)
        visit.audit_note(visit.principal.name)
        response = RedirectResponse(f"{LOGIN_PATH}?out=1", 303)
        response.delete_cookie(entry.cookie, path="/", secure=entry.is_secure, httponly=True, samesite="lax")
        return response

    # -- the audit log ---------------------------------------------------------------------------------------------

    async def _audit_page(self, visit: ConsoleRequest) -> Response:
        before, page = await self._audit_lines(visit)
        return visit.html("console/audit.html", page=page, before=before)

    async def _audit_json(self, visit: ConsoleRequest) -> Response:
        return json_response((await self._audit_lines(visit))[1])

    async def _audit_lines(self, visit: ConsoleRequest) -> tuple[int, AuditPage]:
        before = max(0, integer_param(visit.request.query_params, "before", 0))
        return before, await asyncio.to_thread(self.entry.audit.read, before)

    async def _audit(self, call: ApiCall) -> AuditPage:
        asked: AuditParams = call.query
        return await asyncio.to_thread(self.entry.audit.read, asked.before, asked.n, asked.who, asked.subject)

    async def _current_user(self, call: ApiCall) -> CurrentUser:
        who = call.visit.principal
        return CurrentUser(who.name, who.role.name.lower(), who.how)

    # -- for programs ----------------------------------------------------------------------------------------------

    @cached_property
    def openapi_document(self) -> dict[str, Any]:
        """The document of all routes; all are registered by now."""
        return openapi_document(self.api, self.entry.cookie, self.entry.public or "/")

    async def _openapi_json(self, visit: ConsoleRequest) -> Response:
        return json_response(self.openapi_document)

    async def _api_page(self, visit: ConsoleRequest) -> Response:
        return visit.html(
            "console/api.html", routes=route_views(self.openapi_document), schemas=schema_views(self.openapi_document)
        )


async def api_error_response(request: Request, error: Exception) -> Response:
    """The response to an error below /api outside any guard."""
    return problem_response(*status_and_message(error, ENGLISH))
