"""Checks role, origin, CSRF token and body size before a route's handler runs, and writes the audit log.

A `RouteGuard` serves all methods of a path: before the handler it checks the principal's role (401 and 403), the origin
and CSRF token (403), and the size of the body (413); at the end it writes the audit log. Which role a route requires is
declared in `required_role`. Knows nothing of the handlers.
"""

import asyncio
import hmac
import logging
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qsl, quote

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import BaseRoute, Mount, Route
from starlette.types import Receive, Scope, Send

from tarrafa.coordinator.definitions.draft import InvalidDraft
from tarrafa.errors import TarrafaError
from tarrafa.i18n import ENGLISH, Message, Translator, joined, message
from tarrafa.server.api.problem_details import problem_response
from tarrafa.server.auth.authentication import ANONYMOUS, Authenticator, Principal
from tarrafa.server.auth.bearer_token import read_body
from tarrafa.server.auth.request_origin import is_cross_site
from tarrafa.server.auth.required_role import FORM_BYTES_MAX, AccessLevel, GuardedRoute
from tarrafa.server.console import labels
from tarrafa.server.error_status import API_PATH, RequestRefused, status_and_message
from tarrafa.server.page_responses import PageResponses, json_response

CONSOLE_PATH, LOGIN_PATH = "/console", "/console/login"
FORM_TYPE = "application/x-www-form-urlencoded"
JSON_TYPE = "application/json"
CSRF_FIELD, CSRF_HEADER = "csrf", "x-csrf-token"
FIELDS_MAX = 2_000
BODY_S_MAX = 30.0  # time limit for receiving a body
NEXT_CHARS_MAX = 2_000
log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class ConsoleFormData:
    """The fields of a form."""

    fields: list[tuple[str, str]]

    def get(self, name: str, default: str = "") -> str:
        return next((value for key, value in self.fields if key == name), default)

    def all(self, name: str) -> list[str]:
        return [value for key, value in self.fields if key == name]


@dataclass(slots=True)
class ConsoleRequest:
    """One accepted request: its principal, its content, and its possible responses."""

    http: Request
    route: GuardedRoute
    authenticator: Authenticator
    pages: PageResponses
    principal: Principal = ANONYMOUS
    body: bytes = b""
    form: ConsoleFormData = field(default_factory=lambda: ConsoleFormData([]))
    subject: str = ""
    detail: str = ""

    @property
    def translator(self) -> Translator:
        """The language of the reader; programs get English."""
        return ENGLISH if self.route.is_for_programs else self.pages.translator(self.http)

    @property
    def is_admin(self) -> bool:
        """Whether the principal may change something, and see what only admins need."""
        return self.principal.role >= AccessLevel.ADMIN

    def param(self, name: str) -> str:
        """A path parameter."""
        return str(self.http.path_params[name])

    def audit_note(self, subject: str, detail: str = "") -> None:
        """Set the text of the audit log for this action. Never a secret."""
        self.subject, self.detail = subject, detail

    def template_values(self) -> dict[str, Any]:
        """The common values of all console templates: `labels`, `csrf` for forms, and whether forms are shown."""
        return {"labels": labels, "csrf": self.principal.csrf, "may_act": self.is_admin, "section": ""}

    def html(self, template: str, code: int = 200, **values: Any) -> Response:
        """A page of the console. Templates also see `who`."""
        mine = self.template_values() | {"who": self.principal, "Need": AccessLevel}
        return self.pages.html(self.http, template, code, **(mine | values))

    def json(self, value: object) -> Response:
        """JSON for programs: every message in it is rendered in English."""
        return json_response(ENGLISH.render_all(value))

    def redirect(self, path: str) -> Response:
        """The response to an accepted form: a redirect to a page."""
        return RedirectResponse(path, 303)


class RouteGuard:
    """All methods of one path."""

    def __init__(self, routes: Iterable[GuardedRoute], authenticator: Authenticator, pages: PageResponses) -> None:
        self.routes = {route.method: route for route in routes}
        self._authenticator, self._pages = authenticator, pages

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        http = Request(scope, receive)
        route = self.routes["GET" if http.method == "HEAD" else http.method]
        request = ConsoleRequest(http, route, self._authenticator, self._pages)
        reason: Message | str = ""
        try:
            await self._authorize(request)
            response = await route.handler(request)
        except Exception as error:
            response, sentence = self._error_response(request, error)
            reason = (error.message if isinstance(error, TarrafaError) else "") or sentence
        if route.is_unsafe and route.audited:
            await self._write_audit(request, response.status_code, reason)
        if not response.headers.get("cache-control"):
            response.headers["Cache-Control"] = "no-store"
        # With `no-referrer` a browser sends forms with `Origin: null`, which does not identify the sender.
        response.headers["Referrer-Policy"] = "same-origin"
        await response(scope, receive, send)

    async def _authorize(self, request: ConsoleRequest) -> None:
        request.principal = who = await self._authenticator.identify(request.http)
        need = request.route.need
        if who.role < need and request.route.here and self._authenticator.is_local(request.http):
            request.principal = who = Principal("local", AccessLevel.VIEWER)
        if who.role < need:
            if who.is_anonymous and not self._authenticator.signs_in:
                raise RequestRefused(
                    403,
                    message(
                        "This page is not public: it is shown to local requests, or in the console of `tarrafa node`."
                    ),
                )
            if who.is_anonymous:
                raise RequestRefused(401, message("Sign in first: this is not public."), {"WWW-Authenticate": "Bearer"})
            raise RequestRefused(403, message("{name} may not do this: it needs the role admin.", name=who.name))
        if not request.route.is_unsafe:
            return
        if who.how != "bearer" and is_cross_site(request.http, self._authenticator.public):
            raise RequestRefused(403, message("A page of another site sent this request: it was refused."))
        await self._read_request_body(request)
        if who.how in ("session", "local") and not _has_valid_csrf_token(request):
            raise RequestRefused(
                403,
                message("The form is outdated, or from another site: load the page again and resend it."),
            )

    async def _read_request_body(self, request: ConsoleRequest) -> None:
        kind = request.http.headers.get("content-type", "").partition(";")[0].strip().lower()
        try:
            async with asyncio.timeout(BODY_S_MAX):
                body = await read_body(request.http, request.route.body_bytes_max)
        except TimeoutError:
            raise RequestRefused(408, message("The request was not received completely: send it again.")) from None
        if body is None:
            raise RequestRefused(
                413, message("The body is too large: the maximum is {most} bytes.", most=request.route.body_bytes_max)
            )
        wanted = JSON_TYPE if request.route.is_for_programs else FORM_TYPE
        if body and kind != wanted:
            raise RequestRefused(415, message("The body must be sent as {type}.", type=wanted))
        request.body = body
        if not request.route.is_for_programs:
            request.form = (
                parse_form(body) if len(body) <= FORM_BYTES_MAX else await asyncio.to_thread(parse_form, body)
            )

    def _error_response(self, request: ConsoleRequest, error: Exception) -> tuple[Response, str]:
        """The response, and its text for the audit log."""
        http = request.http
        code, sentence, headers = status_and_message(error, request.translator)
        if request.route.is_for_programs:
            complaints = error.complaints if isinstance(error, InvalidDraft) else None
            return problem_response(code, sentence, headers, complaints), sentence
        if code == 401 and not request.route.is_unsafe:
            path = http.url.path + (f"?{http.url.query}" if http.url.query else "")
            return RedirectResponse(f"{LOGIN_PATH}?next={quote(path[:NEXT_CHARS_MAX])}", 303), sentence
        if not self._authenticator.signs_in:
            return self._pages.html(http, "error.html", code, sentence=sentence), sentence
        response = request.html("console/console_error.html", code, sentence=sentence, is_stranger=code == 401)
        response.headers.update(headers)
        return response, sentence

    async def _write_audit(self, request: ConsoleRequest, code: int, reason: Message | str) -> None:
        route, http, refused = request.route, request.http, code >= 400
        name = request.principal.name
        who = name if not request.principal.is_anonymous else f"{name} ({self._authenticator.client_address_of(http)})"
        subject = request.subject or " ".join(map(str, http.path_params.values()))
        detail = request.detail or (joined([str(code), reason], ": ") if refused else "")
        action = route.action or f"{route.method} {route.path}"
        try:
            await asyncio.to_thread(self._authenticator.audit.record, who, action, subject, detail, refused=refused)
        except TarrafaError as error:
            log.error("the audit could not be written: %s", error)


def parse_form(body: bytes) -> ConsoleFormData:
    try:
        text = body.decode("ascii")
        fields = parse_qsl(text, keep_blank_values=True, errors="replace", max_num_fields=FIELDS_MAX)
    except UnicodeError:
        raise RequestRefused(400, message("Invalid form: fields must be UTF-8, other bytes written as %HH.")) from None
    except ValueError:
        raise RequestRefused(400, message("Too many fields: the maximum is {most}.", most=FIELDS_MAX)) from None
    return ConsoleFormData(fields)


def _has_valid_csrf_token(request: ConsoleRequest) -> bool:
    """Whether one of our own pages sent the form: only they know the token. A page of another site cannot send JSON or
    use a method other than POST without a preflight request, which is never allowed: so a local program needs no token.
    """
    http, given = request.http, request.http.headers.get(CSRF_HEADER, "") or request.form.get(CSRF_FIELD)
    if hmac.compare_digest(given.encode(errors="replace"), request.principal.csrf.encode()):
        return True
    is_json = http.headers.get("content-type", "").partition(";")[0].strip().lower() == JSON_TYPE
    return request.principal.how == "local" and request.route.is_for_programs and (is_json or http.method != "POST")


def safe_redirect_path(text: str) -> str:
    """The path after signing in: always on this site, whatever the link to the login page contained."""
    plain = text.startswith("/") and not text.startswith(("//", "/\\")) and len(text) <= NEXT_CHARS_MAX
    return text if plain and text.isprintable() and "\\" not in text and LOGIN_PATH not in text else CONSOLE_PATH


def guard_routes(
    guarded: Iterable[GuardedRoute], authenticator: Authenticator, pages: PageResponses, below: str = ""
) -> list[BaseRoute]:
    """The routes: one per path, so that each knows all its methods. `below`: where they are mounted."""
    by_path: dict[str, list[GuardedRoute]] = {}
    for one in guarded:
        same_path = by_path.setdefault(one.path, [])
        if any(other.method == one.method for other in same_path):
            raise TypeError(f"{one.method} {one.path}: is defined twice")
        same_path.append(one)
    return [
        Route(
            path.removeprefix(below) or "/",
            RouteGuard(same_path, authenticator, pages),
            methods=[one.method for one in same_path],
        )
        for path, same_path in by_path.items()
    ]


def check_all_guarded(
    routes: Iterable[BaseRoute], under: tuple[str, ...] = (CONSOLE_PATH, API_PATH), before: str = ""
) -> None:
    """Check that no route below these paths lacks a guard."""
    for route in routes:
        if isinstance(route, Mount) and route.routes:
            check_all_guarded(route.routes, under, before + route.path)
            continue
        path = before + str(getattr(route, "path", ""))
        is_guarded = isinstance(route, Route) and isinstance(route.endpoint, RouteGuard)
        if path.startswith(under) and not is_guarded:
            raise TypeError(f"{path}: has no access level; it needs a guard")
