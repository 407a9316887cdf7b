"""Whom is it for, and was it he who sent it?

A `Door` is one method at one address, and says whom it is for. A `Gate` stands at an address, and before anything else
happens finds out who asks (401 and 403), whether a page elsewhere made his browser ask (403), and how much he says
(413); in the end it writes down what was done or refused. Promises: an unsafe method is for admins, unless the door
says in a sentence why others do no harm by it; nothing else can be built.
Knows nothing of what is behind the door.
"""

import asyncio
import hmac
import logging
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qsl, quote

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import BaseRoute, Mount, Route
from starlette.types import Receive, Scope, Send

from tarrafa.coordinate.drafts import Unfit
from tarrafa.errors import TarrafaError
from tarrafa.serve.console.entry import NOBODY, Entry, Need, Who
from tarrafa.serve.console.origin import is_from_elsewhere
from tarrafa.serve.console.problems import API, Refused, explained, problem
from tarrafa.serve.guard import body_of
from tarrafa.serve.replies import Replies
from tarrafa.serve.texts.board import board_texts
from tarrafa.serve.texts.choosing import LANGUAGES
from tarrafa.serve.texts.console import ConsoleTexts
from tarrafa.serve.texts.console_english import CONSOLE_ENGLISH
from tarrafa.serve.texts.console_portuguese import CONSOLE_PORTUGUESE
from tarrafa.serve.texts.english import ENGLISH

HOME, LOGIN = "/console", "/console/login"
SAFE = frozenset({"GET", "HEAD", "OPTIONS"})
FORM = "application/x-www-form-urlencoded"
JSON = "application/json"
CSRF_FIELD, CSRF_HEADER = "csrf", "x-csrf-token"
FORM_BYTES_MAX = 1 << 20
FIELDS_MAX = 2_000
BODY_S_MAX = 30.0  # a body comes in that time, or not at all
NEXT_CHARS_MAX = 2_000
FOR_PROGRAMS = (".json", "/metrics")  # how such addresses end: what is wrong is told there as to a program
WORDS = {words.code: words for words in (CONSOLE_ENGLISH, CONSOLE_PORTUGUESE)}
log = logging.getLogger(__name__)

Handler = Callable[["Visit"], Awaitable[Response]]


@dataclass(frozen=True, slots=True)
class Door:
    """One method at one address. `action` is what the audit calls it; `harmless` says why others than admins may use
    an unsafe method; `audited` is off only for what programs say every second. `here`: whoever sits at this machine may
    look, signed in or not (numbers, for a program that collects them)."""

    method: str
    path: str
    need: Need
    handler: Handler
    action: str = ""
    harmless: str = ""
    audited: bool = True
    body_bytes_max: int = FORM_BYTES_MAX
    here: bool = False

    def __post_init__(self) -> None:
        where = f"{self.method} {self.path}"
        if not isinstance(self.need, Need):
            raise TypeError(f"{where}: must say whom it is for")
        if self.is_unsafe and self.need is not Need.ADMIN and not self.harmless:
            raise TypeError(f"{where}: changes something, and is not for admins only; say why it is harmless")
        if self.here and (self.is_unsafe or self.need is Need.ADMIN):
            raise TypeError(f"{where}: only what viewers may see can be for whoever sits here")

    @property
    def is_unsafe(self) -> bool:
        return self.method not in SAFE

    @property
    def is_for_programs(self) -> bool:
        return self.path.startswith(f"{API}/") or self.path.endswith(FOR_PROGRAMS)


@dataclass(frozen=True, slots=True)
class Form:
    """What the fields of a form say."""

    fields: list[tuple[str, str]]

    def get(self, name: str, default: str = "") -> str:
        return next((value for key, value in self.fields if key == name), default)

    def all(self, name: str) -> list[str]:
        return [value for key, value in self.fields if key == name]


@dataclass(slots=True)
class Visit:
    """One request that was let in: who asks, what he says, and how he is answered."""

    request: Request
    door: Door
    entry: Entry
    replies: Replies
    who: Who = NOBODY
    body: bytes = b""
    form: Form = field(default_factory=lambda: Form([]))
    subject: str = ""
    detail: str = ""

    @property
    def words(self) -> ConsoleTexts:
        """What the console says, in the language of whoever asks; to programs English."""
        return CONSOLE_ENGLISH if self.door.is_for_programs else WORDS[self.replies.texts(self.request).code]

    @property
    def may_act(self) -> bool:
        """Whether he may change something, and see what only those need to see."""
        return self.who.role >= Need.ADMIN

    def param(self, name: str) -> str:
        """A part of the address."""
        return str(self.request.path_params[name])

    def note(self, subject: str, detail: str = "") -> None:
        """What the audit shall say of this action. Never a secret."""
        self.subject, self.detail = subject, detail

    def common(self) -> dict[str, Any]:
        """What every template of the console sees: `b`, its words, `csrf`, for forms, and whether there may be any."""
        return {"b": board_texts(self.words.code), "csrf": self.who.csrf, "may_act": self.may_act, "section": ""}

    def html(self, template: str, code: int = 200, **values: Any) -> Response:
        """A page of the console. Templates also see `c` (the words of its frame) and `who`."""
        mine = self.common() | {"c": self.words, "who": self.who, "Need": Need}
        return self.replies.html(self.request, template, code, **(mine | values))

    def to(self, path: str) -> Response:
        """Look there: the answer to a form that was taken."""
        return RedirectResponse(path, 303)


class Gate:
    """All doors at one address."""

    def __init__(self, doors: Iterable[Door], entry: Entry, replies: Replies) -> None:
        self.doors = {door.method: door for door in doors}
        self._entry, self._replies = entry, replies

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive)
        door = self.doors["GET" if request.method == "HEAD" else request.method]
        visit = Visit(request, door, self._entry, self._replies)
        sentence = ""
        try:
            await self._let_in(visit)
            response = await door.handler(visit)
        except Exception as error:
            response, sentence = self._refused(visit, error)
        if door.is_unsafe and door.audited:
            await self._write_down(visit, response.status_code, sentence)
        if not response.headers.get("cache-control"):
            response.headers["Cache-Control"] = "no-store"
        # A browser told `no-referrer` sends forms with `Origin: null`, by which nobody can tell whose they are.
        response.headers["Referrer-Policy"] = "same-origin"
        await response(scope, receive, send)

    async def _let_in(self, visit: Visit) -> None:
        visit.who = who = await self._entry.who(visit.request)
        need = visit.door.need
        if who.role < need and visit.door.here and self._entry.is_here(visit.request):
            visit.who = who = Who("local", Need.VIEWER)
        if who.role < need:
            if who.is_nobody and not self._entry.signs_in:
                raise Refused(403, "only_at_the_machine")
            if who.is_nobody:
                raise Refused(401, "sign_in_first", {"WWW-Authenticate": "Bearer"})
            raise Refused(403, "not_allowed", name=who.name)
        if not visit.door.is_unsafe:
            return
        if who.how != "bearer" and is_from_elsewhere(visit.request, self._entry.public):
            raise Refused(403, "from_elsewhere")
        await self._read(visit)
        if who.how in ("session", "local") and not _is_his(visit):
            raise Refused(403, "form_too_old")

    async def _read(self, visit: Visit) -> None:
        kind = visit.request.headers.get("content-type", "").partition(";")[0].strip().lower()
        try:
            async with asyncio.timeout(BODY_S_MAX):
                body = await body_of(visit.request, visit.door.body_bytes_max)
        except TimeoutError:
            raise Refused(408, "not_whole") from None
        if body is None:
            raise Refused(413, "too_large", most=f"{visit.door.body_bytes_max:,}")
        wanted = JSON if visit.door.is_for_programs else FORM
        if body and kind != wanted:
            raise Refused(415, "wrong_type", type=wanted)
        visit.body = body
        if not visit.door.is_for_programs:
            visit.form = read_form(body) if len(body) <= FORM_BYTES_MAX else await asyncio.to_thread(read_form, body)

    def _refused(self, visit: Visit, error: Exception) -> tuple[Response, str]:
        """The answer, and what the audit says of it."""
        request, words = visit.request, visit.words
        texts = ENGLISH if visit.door.is_for_programs else LANGUAGES[words.code]
        code, sentence, headers = explained(error, words, texts)
        if visit.door.is_for_programs:
            complaints = error.complaints if isinstance(error, Unfit) else None
            return problem(code, sentence, headers, complaints), sentence
        if code == 401 and not visit.door.is_unsafe:
            asked = request.url.path + (f"?{request.url.query}" if request.url.query else "")
            return RedirectResponse(f"{LOGIN}?next={quote(asked[:NEXT_CHARS_MAX])}", 303), sentence
        if not self._entry.signs_in:
            return self._replies.html(request, "problem.html", code, sentence=sentence), sentence
        response = visit.html("console/refused.html", code, sentence=sentence, is_stranger=code == 401)
        response.headers.update(headers)
        return response, sentence

    async def _write_down(self, visit: Visit, code: int, sentence: str) -> None:
        door, request, refused = visit.door, visit.request, code >= 400
        name = visit.who.name
        who = name if not visit.who.is_nobody else f"{name} ({self._entry.address_of(request)})"
        subject = visit.subject or " ".join(map(str, request.path_params.values()))
        detail = visit.detail or (f"{code}: {sentence}" if refused else "")
        action = door.action or f"{door.method} {door.path}"
        try:
            await asyncio.to_thread(self._entry.audit.note, who, action, subject, detail, refused=refused)
        except TarrafaError as error:
            log.error("the audit could not be written: %s", error)


def read_form(body: bytes) -> Form:
    try:
        text = body.decode("ascii")
        fields = parse_qsl(text, keep_blank_values=True, errors="replace", max_num_fields=FIELDS_MAX)
    except UnicodeError:
        raise Refused(400, "not_understood") from None
    except ValueError:
        raise Refused(400, "too_many_fields", most=f"{FIELDS_MAX:,}") from None
    return Form(fields)


def _is_his(visit: Visit) -> bool:
    """Whether one of our own pages sent it: it brings along what only they were told. A page elsewhere cannot send JSON
    or use another method than POST without asking first, which is never allowed: so a program at this machine needs no
    more than that."""
    request, given = visit.request, visit.request.headers.get(CSRF_HEADER, "") or visit.form.get(CSRF_FIELD)
    if hmac.compare_digest(given.encode(errors="replace"), visit.who.csrf.encode()):
        return True
    is_json = request.headers.get("content-type", "").partition(";")[0].strip().lower() == JSON
    return visit.who.how == "local" and visit.door.is_for_programs and (is_json or request.method != "POST")


def safe_next(text: str) -> str:
    """Where to go after signing in: an address of this site, whatever a link to the sign-in page said."""
    plain = text.startswith("/") and not text.startswith(("//", "/\\")) and len(text) <= NEXT_CHARS_MAX
    return text if plain and text.isprintable() and "\\" not in text and LOGIN not in text else HOME


def gates(doors: Iterable[Door], entry: Entry, replies: Replies, below: str = "") -> list[BaseRoute]:
    """The routes: one per address, so that an address knows all its methods. `below`: where they are mounted."""
    by_path: dict[str, list[Door]] = {}
    for door in doors:
        at = by_path.setdefault(door.path, [])
        if any(other.method == door.method for other in at):
            raise TypeError(f"{door.method} {door.path}: there is such a door already")
        at.append(door)
    return [
        Route(path.removeprefix(below) or "/", Gate(at, entry, replies), methods=[door.method for door in at])
        for path, at in by_path.items()
    ]


def check_declared(routes: Iterable[BaseRoute], under: tuple[str, ...] = (HOME, API), before: str = "") -> None:
    """Nothing below these addresses without a gate."""
    for route in routes:
        if isinstance(route, Mount) and route.routes:
            check_declared(route.routes, under, before + route.path)
            continue
        path = before + str(getattr(route, "path", ""))
        is_guarded = isinstance(route, Route) and isinstance(route.endpoint, Gate)
        if path.startswith(under) and not is_guarded:
            raise TypeError(f"{path}: does not say whom it is for; it needs a door")
