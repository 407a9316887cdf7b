"""What is shown to sites that one may enter?

Promises: a secret can be given and taken away here, and never be read: pages and programs see its hosts, kind and name.
"""

import asyncio
from typing import Annotated, Any, get_args

import msgspec
from msgspec import Meta
from starlette.exceptions import HTTPException
from starlette.responses import Response

from tarrafa import secrets
from tarrafa.coordinate.closeup import collection_of, picture
from tarrafa.coordinate.coordinator import Coordinator
from tarrafa.errors import ConfigError, NoSuchThing
from tarrafa.secrets import Kind, Secret, Shown
from tarrafa.serve.console.api import Api, Call
from tarrafa.serve.console.doors import Door, Visit
from tarrafa.serve.console.entry import Need
from tarrafa.serve.console.programs import AT
from tarrafa.serve.replies import json

KINDS: tuple[Kind, ...] = get_args(Kind)


class SecretNamed(msgspec.Struct, frozen=True):
    """Which secret: that of a host, of a kind, and of a name where it has one."""

    host: Annotated[str, Meta(max_length=300)]
    kind: Kind | None = None
    name: Annotated[str, Meta(max_length=secrets.NAME_CHARS_MAX)] | None = None


class Secrets:
    """The page and the routes about a collection's secrets."""

    def __init__(self, coordinator: Coordinator) -> None:
        self._coordinator, self._data = coordinator, coordinator.ledger.data

    def doors(self) -> list[Door]:
        at = "/console/c/{name}/secrets"
        return [
            Door("GET", f"{at}.json", Need.ADMIN, self.listed),
            Door("GET", at, Need.ADMIN, self.shown),
            Door("POST", at, Need.ADMIN, self.change, "change a secret"),
        ]

    def register(self, api: Api) -> None:
        admin, at, action = Need.ADMIN, f"{AT}/secrets", "change a secret"
        api.route("GET", at, "What is shown to sites: never the secrets", admin, answer=list[Shown])(self.told)
        api.route(
            "POST", at, "Give a secret, or another one in its place", admin, body=Secret, answer=Shown, code=201,
            action=action,
        )(self.give)  # fmt: skip
        api.route("DELETE", at, "Take a secret away", admin, query=SecretNamed, action=action)(self.take)

    async def told(self, call: Call) -> list[Shown]:
        return await asyncio.to_thread(secrets.listed, self._data, self._name(call.visit))

    async def give(self, call: Call) -> Shown:
        secret: Secret = call.body
        name = self._name(call.visit)
        call.visit.note(name, f"add {secret.kind} for {' '.join(secret.hosts)}")
        await asyncio.to_thread(secrets.add, self._data, name, secret)
        return secret.shown

    async def take(self, call: Call) -> None:
        asked: SecretNamed = call.query
        name = self._name(call.visit)
        call.visit.note(name, f"remove {asked.kind or ''} for {asked.host}")
        if not await asyncio.to_thread(secrets.remove, self._data, name, asked.host, asked.kind, asked.name):
            raise NoSuchThing(f"{name}: there is no such secret")

    async def listed(self, visit: Visit) -> Response:
        return json(secrets.listed(self._data, self._name(visit)))

    async def shown(self, visit: Visit) -> Response:
        return self._page(visit)

    async def change(self, visit: Visit) -> Response:
        name, form = self._name(visit), visit.form
        hosts = tuple(form.get("hosts").split())
        kind = next((one for one in KINDS if one == form.get("kind")), None)
        visit.note(name, f"{form.get('action')} {kind or ''} for {' '.join(hosts)}"[:300])
        if kind is None:
            raise HTTPException(400, "there is no such kind of secret")
        try:
            if form.get("action") == "remove":
                for host in hosts:
                    secrets.remove(self._data, name, host, kind, form.get("label"))
            else:
                label, insecure = form.get("label").strip(), bool(form.get("insecure"))
                secrets.add(self._data, name, Secret(hosts, kind, label, form.get("value"), insecure))
        except ConfigError as error:
            return self._page(visit, 400, str(error))
        return visit.to(f"/console/c/{name}/secrets")

    def _page(self, visit: Visit, code: int = 200, sentence: str = "") -> Response:
        name = self._name(visit)
        values: dict[str, Any] = {"name": name, "known": secrets.listed(self._data, name), "kinds": KINDS}
        return visit.html("console/secrets.html", code, section="/console", sentence=sentence, **values)

    def _name(self, visit: Visit) -> str:
        return collection_of(picture(self._coordinator), visit.param("name")).name
