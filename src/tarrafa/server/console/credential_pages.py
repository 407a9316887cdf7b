"""Console page and REST routes of a collection's site credentials; their values are never shown.

Promises: a credential can be added and removed here, but its secret is never shown: pages and programs see hosts, kind
and name.
"""

import asyncio
from typing import Annotated, Any, get_args

import msgspec
from msgspec import Meta
from starlette.responses import Response

from tarrafa import credentials
from tarrafa.coordinator.coordinator import Coordinator
from tarrafa.credentials import Credential, CredentialKind, RedactedCredential
from tarrafa.errors import ConfigError, NotFound
from tarrafa.i18n import message
from tarrafa.server.api.api_route import ApiRoute
from tarrafa.server.api.collection_routes import COLLECTION_PATH
from tarrafa.server.auth.required_role import AccessLevel, GuardedRoute
from tarrafa.server.auth.role_and_csrf_guard import ConsoleRequest
from tarrafa.server.error_status import RequestRefused
from tarrafa.server.page_responses import json_response

KINDS: tuple[CredentialKind, ...] = get_args(CredentialKind)


class CredentialParams(msgspec.Struct, frozen=True):
    """A credential by its host, and by kind and name if given."""

    host: Annotated[str, Meta(max_length=300)]
    kind: CredentialKind | None = None
    name: Annotated[str, Meta(max_length=credentials.NAME_CHARS_MAX)] | None = None


class CredentialPages:
    """The page and the routes about the credentials of a collection."""

    def __init__(self, coordinator: Coordinator) -> None:
        self._coordinator, self._data = coordinator, coordinator.store.data

    def guarded_routes(self) -> list[GuardedRoute]:
        at = "/console/c/{name}/secrets"
        return [
            GuardedRoute("GET", f"{at}.json", AccessLevel.ADMIN, self.credentials_json),
            GuardedRoute("GET", at, AccessLevel.ADMIN, self.credentials_page),
            GuardedRoute("POST", at, AccessLevel.ADMIN, self.change_from_form, "change a secret"),
        ]

    def api_routes(self) -> list[ApiRoute]:
        admin, at, action = AccessLevel.ADMIN, f"{COLLECTION_PATH}/secrets", "change a secret"
        add, remove = self.add_credential, self.remove_credential
        return [
            ApiRoute("GET", at, message("Credentials for sites, without their secrets"), admin, self.list_credentials),
            ApiRoute("POST", at, message("Add or replace a credential"), admin, add, action, 201),
            ApiRoute("DELETE", at, message("Remove a credential"), admin, remove, action),
        ]

    async def list_credentials(self, request: ConsoleRequest) -> list[RedactedCredential]:
        return await asyncio.to_thread(credentials.list_redacted, self._data, self._name(request))

    async def add_credential(self, request: ConsoleRequest, body: Credential) -> RedactedCredential:
        name = self._name(request)
        request.audit_note(name, f"add {body.kind} for {' '.join(body.hosts)}")
        await asyncio.to_thread(credentials.add, self._data, name, body)
        return body.redacted

    async def remove_credential(self, request: ConsoleRequest, query: CredentialParams) -> None:
        name = self._name(request)
        request.audit_note(name, f"remove {query.kind or ''} for {query.host}")
        if not await asyncio.to_thread(credentials.remove, self._data, name, query.host, query.kind, query.name):
            raise NotFound(message("{name}: there is no such secret", name=name))

    async def credentials_json(self, request: ConsoleRequest) -> Response:
        return json_response(credentials.list_redacted(self._data, self._name(request)))

    async def credentials_page(self, request: ConsoleRequest) -> Response:
        return self._page(request)

    async def change_from_form(self, request: ConsoleRequest) -> Response:
        name, form = self._name(request), request.form
        hosts = tuple(form.get("hosts").split())
        kind = next((one for one in KINDS if one == form.get("kind")), None)
        request.audit_note(name, f"{form.get('action')} {kind or ''} for {' '.join(hosts)}"[:300])
        if kind is None:
            raise RequestRefused(400, message("there is no such kind of secret"))
        try:
            if form.get("action") == "remove":
                for host in hosts:
                    credentials.remove(self._data, name, host, kind, form.get("label"))
            else:
                label, insecure = form.get("label").strip(), bool(form.get("insecure"))
                credentials.add(self._data, name, Credential(hosts, kind, label, form.get("value"), insecure))
        except ConfigError as error:
            return self._page(request, 400, request.translator.render(error.message))
        return request.redirect(f"/console/c/{name}/secrets")

    def _page(self, request: ConsoleRequest, code: int = 200, sentence: str = "") -> Response:
        name = self._name(request)
        values: dict[str, Any] = {"name": name, "known": credentials.list_redacted(self._data, name), "kinds": KINDS}
        return request.html("console/credentials.html", code, section="/console", sentence=sentence, **values)

    def _name(self, request: ConsoleRequest) -> str:
        return self._coordinator.monitor.current_snapshot().collection(request.param("name")).name
