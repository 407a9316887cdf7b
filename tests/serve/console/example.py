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

from tarrafa.coordinate.audit import Audit
from tarrafa.data import DataDirectory
from tarrafa.errors import ConfigError
from tarrafa.frontier.token import Token
from tarrafa.serve.console.api import Call
from tarrafa.serve.console.doors import Visit
from tarrafa.serve.console.entry import Entry, Need
from tarrafa.serve.console.frame import Console
from tarrafa.serve.console.problems import Refused
from tarrafa.serve.console.rates import RateLimit
from tests.serve.conftest import Running, a_status

TOKEN = "a-token-of-many-letters-0123456789"
ADMIN, VIEWER = ("ana", "correct horse battery"), ("vito", "a viewer's long password")

Title = Annotated[str, Meta(min_length=1, max_length=80)]


class Note(msgspec.Struct, frozen=True):
    """Something that somebody left here."""

    title: Title
    stars: Annotated[int, Meta(ge=0, le=5)] = 0


class NotesAsked(msgspec.Struct, frozen=True):
    """Which notes."""

    n: Annotated[int, Meta(ge=1, le=100)] = 10
    stars: Annotated[list[Annotated[int, Meta(ge=0, le=5)]], Meta(max_length=6)] = []


class Clock:
    """Shows what the test wants."""

    def __init__(self) -> None:
        self.at = 1_800_000_000.0

    def __call__(self) -> float:
        return self.at


def an_example(entry: Entry) -> Console:
    """A console whose state is a list."""
    console, notes = Console(entry), list[Note]()

    @console.page("/console", Need.VIEWER)
    async def home(visit: Visit) -> Response:
        # The page of the audit stands in for one of our own: its template is there.
        return visit.html(
            "console/refused.html", sentence=f"{len(notes)} notes csrf={visit.who.csrf}", is_stranger=False
        )

    @console.page("/metrics", Need.VIEWER, here=True)
    async def metrics(visit: Visit) -> Response:
        return PlainTextResponse(visit.who.name)

    @console.page("/console/notes", Need.ADMIN, "POST", action="leave a note")
    async def leave(visit: Visit) -> Response:
        title = visit.form.get("title")
        if not title:
            raise ConfigError("a note has a title; write one")
        notes.append(Note(title))
        visit.note(title, "by the form")
        return visit.to("/console")

    @console.api.route("GET", "/notes", "All notes", Need.VIEWER, query=NotesAsked, answer=list[Note])
    async def listed(call: Call) -> list[Note]:
        asked: NotesAsked = call.query
        return [note for note in notes if not asked.stars or note.stars in asked.stars][: asked.n]

    @console.api.route(
        "POST", "/notes", "Leave a note", Need.ADMIN, body=Note, answer=Note, code=201, body_bytes_max=4096
    )
    async def add(call: Call) -> Note:
        note: Note = call.body
        notes.append(note)
        call.visit.note(note.title)
        del notes[:-50]
        return note

    @console.api.route("DELETE", "/notes/{title}", "Take a note away", Need.ADMIN, action="take a note away")
    async def remove(call: Call) -> None:
        found = [note for note in notes if note.title == call.param("title")]
        if not found:
            raise Refused(404, f"There is no note {call.param('title')[:20]!r}.")
        notes.remove(found[0])

    @console.api.route("GET", "/broken", "Fails", Need.ADMIN, answer=Note)
    async def broken(call: Call) -> None:
        raise RuntimeError("a secret that nobody may read")

    console.api.routes.pop()  # it is not in the document, and cannot be asked; `with_broken` brings it back
    console.broken = broken  # type: ignore[attr-defined]
    return console


@dataclass
class Answer:
    code: int
    headers: http.client.HTTPMessage
    text: str

    @property
    def json(self) -> Any:
        return json.loads(self.text)


@dataclass
class Client:
    """A browser or a program: keeps cookies, and says only what it is told to."""

    address: str
    headers: dict[str, str] = field(default_factory=dict)
    cookies: dict[str, str] = field(default_factory=dict)

    def ask(self, method: str, path: str, body: bytes | str | None = None, **headers: str) -> Answer:
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
        return Answer(response.status, response.headers, text)

    def get(self, path: str, **headers: str) -> Answer:
        return self.ask("GET", path, **headers)

    def form(self, path: str, fields: dict[str, str], **headers: str) -> Answer:
        kind = {"Content_Type": "application/x-www-form-urlencoded"}
        return self.ask("POST", path, urlencode(fields), **(kind | headers))

    def send(self, method: str, path: str, value: object, **headers: str) -> Answer:
        return self.ask(method, path, json.dumps(value), **({"Content_Type": "application/json"} | headers))

    def sign_in(self, name: str, password: str, then: str = "", **headers: str) -> Answer:
        return self.form("/console/login", {"name": name, "password": password, "next": then}, **headers)

    def csrf(self) -> str:
        return self.get("/console").text.partition("csrf=")[2].partition("<")[0]


class Site(Running):
    """The example, served in a thread of its own."""

    def __init__(
        self,
        data: DataDirectory,
        *,
        token: str = "",
        public: str = "",
        behind_proxy: bool = False,
        rate: RateLimit | None = None,
        broken: bool = False,
    ) -> None:
        self.now, self.told = Clock(), list[str]()
        self.entry = Entry(data, self.now, Token(token.encode()), public, behind_proxy, self._audit(data))
        self.console = an_example(self.entry)
        if broken:
            route = self.console.api.route("GET", "/broken", "Fails", Need.ADMIN, answer=Note)
            route(self.console.broken)  # type: ignore[attr-defined]
        super().__init__(data, a_status, public=public, console=self.console, rate=rate)

    def _audit(self, data: DataDirectory) -> Audit:
        return Audit(data, self.now, self.told.append)

    def client(self, **headers: str) -> Client:
        return Client(self.address, {name.replace("_", "-"): value for name, value in headers.items()})

    def signed_in(self, who: tuple[str, str]) -> Client:
        client = self.client()
        assert client.sign_in(*who).code == 303
        return client

    def add(self, who: tuple[str, str], role: Any) -> None:
        self.entry.accounts.add(who[0], role, who[1], self.now())
