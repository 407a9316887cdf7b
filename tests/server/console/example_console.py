"""A console with a page, a form and a few routes: notes that people leave. What everything here is tried on."""

import http.client
import json
from dataclasses import dataclass, field
from http.cookies import SimpleCookie
from typing import Annotated, Any
from urllib.parse import urlencode, urlsplit

import msgspec
from msgspec import Meta
from starlette.responses import PlainTextResponse, Response

from tarrafa.coordinator.audit import AuditLog, as_json
from tarrafa.errors import ConfigError
from tarrafa.i18n import Message, message
from tarrafa.runtime.data_dir import DataDirectory
from tarrafa.runtime.token import Token
from tarrafa.server.api.api_route import ApiRoute
from tarrafa.server.auth.authentication import Authenticator
from tarrafa.server.auth.request_origin import NO_PROXIES, TrustedProxies
from tarrafa.server.auth.required_role import AccessLevel, GuardedRoute
from tarrafa.server.auth.role_and_csrf_guard import ConsoleRequest
from tarrafa.server.console.console import Console
from tarrafa.server.error_status import RequestRefused
from tarrafa.server.rate_limit import RateLimit
from tests.server.conftest import RunningSite, a_status

TOKEN = "a-token-of-many-letters-0123456789"
ADMIN, VIEWER = ("ana", "correct horse battery"), ("vito", "a viewer's long password")

Title = Annotated[str, Meta(min_length=1, max_length=80)]


class Note(msgspec.Struct, frozen=True):
    """Something that somebody left here."""

    title: Title
    stars: Annotated[int, Meta(ge=0, le=5)] = 0


class NotesParams(msgspec.Struct, frozen=True):
    """Which notes."""

    n: Annotated[int, Meta(ge=1, le=100)] = 10
    stars: Annotated[list[Annotated[int, Meta(ge=0, le=5)]], Meta(max_length=6)] = []


class SteppedClock:
    """Shows what the test wants."""

    def __init__(self) -> None:
        self.at = 1_800_000_000.0

    def __call__(self) -> float:
        return self.at


def example_console(entry: Authenticator) -> Console:
    """A console whose state is a list."""
    console, notes = Console(entry), list[Note]()

    async def home(request: ConsoleRequest) -> Response:
        # The page of the audit stands in for one of our own: its template is there.
        sentence = f"{len(notes)} notes csrf={request.principal.csrf}"
        return request.html("console/console_error.html", sentence=sentence, is_stranger=False)

    async def metrics(request: ConsoleRequest) -> Response:
        return PlainTextResponse(request.principal.name)

    async def leave(request: ConsoleRequest) -> Response:
        title = request.form.get("title")
        if not title:
            raise ConfigError("a note has a title; write one")
        notes.append(Note(title))
        request.audit_note(title, "by the form")
        return request.redirect("/console")

    async def listed(request: ConsoleRequest, query: NotesParams) -> list[Note]:
        return [note for note in notes if not query.stars or note.stars in query.stars][: query.n]

    async def add(request: ConsoleRequest, body: Note) -> Note:
        notes.append(body)
        request.audit_note(body.title)
        del notes[:-50]
        return body

    async def remove(request: ConsoleRequest) -> None:
        title = request.param("title")
        found = [note for note in notes if note.title == title]
        if not found:
            raise RequestRefused(404, message("There is no note {title!r}.", title=title[:20]))
        notes.remove(found[0])

    viewer, admin = AccessLevel.VIEWER, AccessLevel.ADMIN
    console.add(
        GuardedRoute("GET", "/console", viewer, home),
        GuardedRoute("GET", "/metrics", viewer, metrics, here=True),
        GuardedRoute("POST", "/console/notes", admin, leave, "leave a note"),
    )
    console.api.routes += [
        ApiRoute("GET", "/notes", Message("All notes"), viewer, listed),
        ApiRoute("POST", "/notes", Message("Leave a note"), admin, add, code=201, body_bytes_max=4096),
        ApiRoute("DELETE", "/notes/{title}", Message("Take a note away"), admin, remove, "take a note away"),
    ]
    return console


async def failing_handler(request: ConsoleRequest) -> Note:
    raise RuntimeError("a secret that nobody may read")


@dataclass
class ClientResponse:
    code: int
    headers: http.client.HTTPMessage
    text: str

    @property
    def json(self) -> Any:
        return json.loads(self.text)


@dataclass
class ConsoleClient:
    """A browser or a program: keeps cookies, and says only what it is told to."""

    address: str
    headers: dict[str, str] = field(default_factory=dict)
    cookies: dict[str, str] = field(default_factory=dict)

    def ask(self, method: str, path: str, body: bytes | str | None = None, **headers: str) -> ClientResponse:
        connection = http.client.HTTPConnection(urlsplit(self.address).netloc, timeout=30)
        sent = self.headers | {name.replace("_", "-"): value for name, value in headers.items()}
        if self.cookies:
            sent["Cookie"] = "; ".join(f"{name}={value}" for name, value in self.cookies.items())
        try:
            connection.request(method, path, body, sent)
            response = connection.getresponse()
            text = response.read().decode()
        finally:
            connection.close()
        for line in response.headers.get_all("set-cookie") or []:
            for name, morsel in SimpleCookie(line).items():
                self.cookies[name] = morsel.value
                if morsel["max-age"] == "0":
                    del self.cookies[name]
        return ClientResponse(response.status, response.headers, text)

    def get(self, path: str, **headers: str) -> ClientResponse:
        return self.ask("GET", path, **headers)

    def form(self, path: str, fields: dict[str, str], **headers: str) -> ClientResponse:
        kind = {"Content_Type": "application/x-www-form-urlencoded"}
        return self.ask("POST", path, urlencode(fields), **(kind | headers))

    def send(self, method: str, path: str, value: object, **headers: str) -> ClientResponse:
        return self.ask(method, path, json.dumps(value), **({"Content_Type": "application/json"} | headers))

    def sign_in(self, name: str, password: str, then: str = "", **headers: str) -> ClientResponse:
        return self.form("/console/login", {"name": name, "password": password, "next": then}, **headers)

    def csrf(self) -> str:
        return self.get("/console").text.partition("csrf=")[2].partition("<")[0]


class ExampleSite(RunningSite):
    """The example, served in a thread of its own."""

    def __init__(
        self,
        data: DataDirectory,
        *,
        token: str = "",
        public: str = "",
        proxies: TrustedProxies = NO_PROXIES,
        rate: RateLimit | None = None,
        broken: bool = False,
    ) -> None:
        self.now, self.told = SteppedClock(), list[str]()
        self.entry = Authenticator(data, self.now, Token(token.encode()), public, proxies, self._audit(data))
        self.console = example_console(self.entry)
        if broken:
            self.console.api.routes.append(
                ApiRoute("GET", "/broken", Message("Fails"), AccessLevel.ADMIN, failing_handler)
            )
        super().__init__(data, a_status, public=public, console=self.console, rate=rate)

    def _audit(self, data: DataDirectory) -> AuditLog:
        return AuditLog(data, self.now, lambda line: self.told.append(as_json(line)))

    def client(self, **headers: str) -> ConsoleClient:
        return ConsoleClient(self.address, {name.replace("_", "-"): value for name, value in headers.items()})

    def signed_in(self, who: tuple[str, str]) -> ConsoleClient:
        client = self.client()
        assert client.sign_in(*who).code == 303
        return client

    def add(self, who: tuple[str, str], role: Any) -> None:
        self.entry.accounts.add(who[0], role, who[1], self.now())
