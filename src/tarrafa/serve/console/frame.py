"""A console: its pages, its API, and the pages that every console has.

    /console/login  /console/logout     signing in and out
    /console/audit  /api/v1/audit       who did what
    /api  /api/openapi.json             what programs can ask
    /api/v1/me                          who am I?

Others bring the rest: `@console.page("/console/hosts", Need.VIEWER)` and `@console.api.route(…)`. Promises: all of it
is behind gates; an unknown address or method below /api is a `Problem`.
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

from tarrafa.coordinate.audit import LINES_PER_PAGE, LINES_PER_PAGE_MAX, AuditPage
from tarrafa.errors import Busy
from tarrafa.serve.asked import whole
from tarrafa.serve.console.api import Api, Call
from tarrafa.serve.console.documented import documented
from tarrafa.serve.console.doors import FORM_BYTES_MAX, HOME, LOGIN, Door, Handler, Visit, gates, safe_next
from tarrafa.serve.console.entry import Entry, Need, Wait, Who
from tarrafa.serve.console.openapi import document
from tarrafa.serve.console.problems import API, explained, problem
from tarrafa.serve.console.reading import route_views, schema_views
from tarrafa.serve.console.sessions import ABSOLUTE_S
from tarrafa.serve.replies import Replies, json
from tarrafa.serve.texts.console_english import CONSOLE_ENGLISH
from tarrafa.serve.texts.english import ENGLISH

NAME_CHARS_MAX = 64
SIGNING_IN = "whoever is not signed in yet must be able to"
SIGNING_OUT = "it ends nothing but one's own session"


class Me(msgspec.Struct, frozen=True):
    """Whoever asks: name, role (`viewer`, `admin`), and how that is known (`session`, `bearer`, `local`)."""

    name: str
    role: str
    how: str


class AuditAsked(msgspec.Struct, frozen=True):
    """Which lines of the audit."""

    before: Annotated[int, Meta(ge=0, le=1 << 53, description="only lines with a smaller number; 0: the latest")] = 0
    n: Annotated[int, Meta(ge=1, le=LINES_PER_PAGE_MAX, description="how many")] = LINES_PER_PAGE
    who: Annotated[str, Meta(max_length=100, description="only of this one")] = ""
    subject: Annotated[str, Meta(max_length=500, description="only about this")] = ""


class Console:
    """Pages and routes, and who may use them."""

    def __init__(self, entry: Entry) -> None:
        self.entry, self.api = entry, Api()
        self.closing: Callable[[], None] = lambda: None  # what to do when the pages are no longer served
        self.suggests: Callable[[], bool] = lambda: False  # whether visitors can suggest sites now
        self._doors = [
            Door("GET", LOGIN, Need.OPEN, self._login_page),
            Door("POST", LOGIN, Need.OPEN, self._sign_in, "sign in", SIGNING_IN, body_bytes_max=16 << 10),
            Door("POST", f"{HOME}/logout", Need.VIEWER, self._sign_out, "sign out", SIGNING_OUT, body_bytes_max=4096),
            Door("GET", f"{HOME}/audit", Need.ADMIN, self._audit_page),
            Door("GET", f"{HOME}/audit.json", Need.ADMIN, self._audit_json),
        ]
        describe = self.api.route
        describe("GET", "/me", "Who am I?", Need.VIEWER, answer=Me)(self._me)
        describe("GET", "/audit", "Who did what", Need.ADMIN, query=AuditAsked, answer=AuditPage)(self._audit)

    def page(
        self,
        path: str,
        need: Need,
        method: str = "GET",
        *,
        action: str = "",
        harmless: str = "",
        audited: bool = True,
        body_bytes_max: int = FORM_BYTES_MAX,
        here: bool = False,
    ) -> Callable[[Handler], Handler]:
        """Registers the coroutine that it decorates. What can be said of it: see `Door`."""

        def register(handler: Handler) -> Handler:
            door = Door(method, path, need, handler, action, harmless, audited, body_bytes_max, here)
            self._doors.append(door)
            return handler

        return register

    def add(self, *doors: Door) -> None:
        self._doors += doors

    @property
    def doors(self) -> list[Door]:
        """All there are, those for programs too."""
        return [*self._doors, *self.api.doors()]

    def routes(self, replies: Replies, has_status: bool = False, *, bare: bool = False) -> list[BaseRoute]:
        """Everything, to be mounted at the root. `bare`: only what programs can ask of a site without a console."""
        if bare:
            self._doors, self.api = [], Api()
        self.api.documented = documented(has_status)
        page = Door("GET", API, Need.OPEN, self._api_page)
        described = Door("GET", f"{API}/openapi.json", Need.OPEN, self._json)
        below = gates([described, *self.api.doors()], self.entry, replies, API)
        programs = Starlette(
            routes=below,
            exception_handlers=dict.fromkeys((HTTPException, Exception), tell_program),
        )
        programs.router.redirect_slashes = False
        return [*gates([*self._doors, page], self.entry, replies), Mount(API, programs)]

    # -- signing in and out ----------------------------------------------------------------------------------------

    async def _login_page(self, visit: Visit) -> Response:
        asked = visit.request.query_params
        if not visit.who.is_nobody:
            return visit.to(safe_next(asked.get("next", "")))
        said = visit.words.signed_out if asked.get("out") else ""
        return self._login(visit, 200, asked.get("next", ""), said=said)

    def _login(
        self, visit: Visit, code: int, then: str, sentence: str = "", name: str = "", said: str = ""
    ) -> Response:
        entry = visit.entry
        can = entry.has_token or bool(entry.accounts)
        return visit.html(
            "console/login.html", code, next=safe_next(then), sentence=sentence, name=name, said=said,
            has_token=entry.has_token, can_sign_in=can,
        )  # fmt: skip

    async def _sign_in(self, visit: Visit) -> Response:
        form, entry, words = visit.form, visit.entry, visit.words
        name, then = form.get("name").strip()[:NAME_CHARS_MAX], form.get("next")
        # A password typed into the wrong field must not be written down: only names that exist are.
        visit.note(name if entry.accounts.find(name) else "" if name else "token")
        try:
            found = await entry.sign_in(visit.request, name, form.get("password"))
        except Wait as wait:
            seconds = math.ceil(wait.seconds)
            visit.detail = f"429: must wait {seconds} s"
            response = self._login(visit, 429, then, words.wait.format(seconds=seconds), name)
            response.headers["Retry-After"] = str(seconds)
            return response
        except Busy:
            return self._login(visit, 503, then, words.busy, name)
        if found is None:
            visit.detail = "401: wrong name or password"
            return self._login(visit, 401, then, words.wrong, name)
        if visit.who.session is not None:
            await entry.sessions.end(visit.who.session)
        account, secret = found
        visit.note(account, f"from {entry.address_of(visit.request)}")
        visit.who = Who(account, Need.VIEWER)
        response = visit.to(safe_next(then))
        response.set_cookie(
            entry.cookie, secret, int(ABSOLUTE_S), path="/", secure=entry.is_secure, httponly=True, samesite="lax"
        )
        return response

    async def _sign_out(self, visit: Visit) -> Response:
        entry, session = visit.entry, visit.who.session
        if session is not None:
            await entry.sessions.end(session)
        visit.note(visit.who.name)
        response = RedirectResponse(f"{LOGIN}?out=1", 303)
        response.delete_cookie(entry.cookie, path="/", secure=entry.is_secure, httponly=True, samesite="lax")
        return response

    # -- who did what ----------------------------------------------------------------------------------------------

    async def _audit_page(self, visit: Visit) -> Response:
        before, page = await self._audit_lines(visit)
        return visit.html("console/audit.html", page=page, before=before)

    async def _audit_json(self, visit: Visit) -> Response:
        return json((await self._audit_lines(visit))[1])

    async def _audit_lines(self, visit: Visit) -> tuple[int, AuditPage]:
        before = max(0, whole(visit.request.query_params, "before", 0))
        return before, await asyncio.to_thread(self.entry.audit.read, before)

    async def _audit(self, call: Call) -> AuditPage:
        asked: AuditAsked = call.query
        return await asyncio.to_thread(self.entry.audit.read, asked.before, asked.n, asked.who, asked.subject)

    async def _me(self, call: Call) -> Me:
        who = call.visit.who
        return Me(who.name, who.role.name.lower(), who.how)

    # -- for programs ----------------------------------------------------------------------------------------------

    @cached_property
    def document(self) -> dict[str, Any]:
        """What programs can ask; all of it is registered by now."""
        return document(self.api, self.entry.cookie, self.entry.public or "/")

    async def _json(self, visit: Visit) -> Response:
        return json(self.document)

    async def _api_page(self, visit: Visit) -> Response:
        return visit.html("console/api.html", routes=route_views(self.document), schemas=schema_views(self.document))


async def tell_program(request: Request, error: Exception) -> Response:
    """What is wrong below /api, where no gate was."""
    return problem(*explained(error, CONSOLE_ENGLISH, ENGLISH))
