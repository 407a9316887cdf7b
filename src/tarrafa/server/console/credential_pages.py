"""Console page and REST routes of a collection's site credentials; their values are never shown.

Promises: a secret can be given and taken away here, and never be read: pages and programs see its hosts, kind and
name.
"""

import asyncio
from typing import Annotated, Any, get_args

import msgspec
from msgspec import Meta
from starlette.exceptions import HTTPException
from starlette.responses import Response

from tarrafa import credentials
from tarrafa.coordinator.coordinator import Coordinator
from tarrafa.credentials import Credential, CredentialKind, RedactedCredential
from tarrafa.errors import ConfigError, NotFound
from tarrafa.i18n import message
from tarrafa.server.api.collection_routes import COLLECTION_PATH
from tarrafa.server.api.route_registry import ApiCall, ApiRegistry
from tarrafa.server.auth.authentication import AccessLevel
from tarrafa.server.auth.role_and_csrf_guard import ConsoleRequest, GuardedRoute
from tarrafa.server.page_responses import json_response

KINDS: tuple[CredentialKind, ...] = get_args(CredentialKind)


class CredentialParams(msgspec.Struct, frozen=True):
    """Which secret: that of a host, of a kind, and of a name where it has one."""

    host: Annotated[str, Meta(max_length=300)]
    kind: CredentialKind | None = None
    name: Annotated[str, Meta(max_length=credentials.NAME_CHARS_MAX)] | None = None


class CredentialPages:
    """The page and the routes about a collection's secrets."""

    def __init__(self, coordinator: Coordinator) -> None:
        self._coordinator, self._data = coordinator, coordinator.store.data

    def guarded_routes(self) -> list[GuardedRoute]:
        at = "/console/c/{name}/secrets"
        return [
            GuardedRoute("GET", f"{at}.json", AccessLevel.ADMIN, self.credentials_json),
            GuardedRoute("GET", at, AccessLevel.ADMIN, self.credentials_page),
            GuardedRoute("POST", at, AccessLevel.ADMIN, self.change_from_form, "change a secret"),
        ]

    def register(self, api: ApiRegistry) -> None:
        admin, at, action = AccessLevel.ADMIN, f"{COLLECTION_PATH}/secrets", "change a secret"
        api.route("GET", at, "What is shown to sites: never the secrets", admin, answer=list[RedactedCredential])(
            self.list_credentials
        )
        api.route(
            "POST",
            at,
            "Give a secret, or another one in its place",
            admin,
            body=Credential,
            answer=RedactedCredential,
            code=201,
            action=action,
        )(self.add_credential)
        api.route("DELETE", at, "Take a secret away", admin, query=CredentialParams, action=action)(
            self.remove_credential
        )

    async def list_credentials(self, call: ApiCall) -> list[RedactedCredential]:
        return await asyncio.to_thread(credentials.list_redacted, self._data, self._name(call.visit))

    async def add_credential(self, call: ApiCall) -> RedactedCredential:
        secret: Credential = call.body
        name = self._name(call.visit)
        call.visit.audit_note(name, f"add {secret.kind} for {' '.join(secret.hosts)}")
        await asyncio.to_thread(credentials.add, self._data, name, secret)
        return secret.redacted

    async def remove_credential(self, call: ApiCall) -> None:
        asked: CredentialParams = call.query
        name = self._name(call.visit)
        call.visit.audit_note(name, f"remove {asked.kind or ''} for {asked.host}")
        if not await asyncio.to_thread(credentials.remove, self._data, name, asked.host, asked.kind, asked.name):
            raise NotFound(message("{name}: there is no such secret", name=name))

    async def credentials_json(self, visit: ConsoleRequest) -> Response:
        return json_response(credentials.list_redacted(self._data, self._name(visit)))

    async def credentials_page(self, visit: ConsoleRequest) -> Response:
        return self._page(visit)

    async def change_from_form(self, visit: ConsoleRequest) -> Response:
        name, form = self._name(visit), visit.form
        hosts = tuple(form.get("hosts").split())
        kind = next((one for one in KINDS if one == form.get("kind")), None)
        visit.audit_note(name, f"{form.get('action')} {kind or ''} for {' '.join(hosts)}"[:300])
        if kind is None:
            raise HTTPException(400, "there is no such kind of secret")
        try:
            if form.get("action") == "remove":
                for host in hosts:
                    credentials.remove(self._data, name, host, kind, form.get("label"))
            else:
                label, insecure = form.get("label").strip(), bool(form.get("insecure"))
                credentials.add(self._data, name, Credential(hosts, kind, label, form.get("value"), insecure))
        except ConfigError as error:
            return self._page(visit, 400, visit.translator.render(error.message))
        return visit.redirect(f"/console/c/{name}/secrets")

    def _page(self, visit: ConsoleRequest, code: int = 200, sentence: str = "") -> Response:
        name = self._name(visit)
        values: dict[str, Any] = {"name": name, "known": credentials.list_redacted(self._data, name), "kinds": KINDS}
        return visit.html("console/credentials.html", code, section="/console", sentence=sentence, **values)

    def _name(self, visit: ConsoleRequest) -> str:
        return self._coordinator.monitor.current_snapshot().collection(visit.param("name")).name
