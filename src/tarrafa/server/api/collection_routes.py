"""REST routes of collections: list, create, edit, start, stop, delete, samples, runs, versions.

The same functions as the console pages, from coordinator/. Promises: an invalid collection is 400 with all complaints,
each at its key, and changes nothing; an unknown name is 404.
"""

import asyncio
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from tarrafa.config import Collection
from tarrafa.config.sections import redact_collection
from tarrafa.coordinator.coordinator import Coordinator
from tarrafa.coordinator.definitions import collection_edits, toml_writer
from tarrafa.coordinator.definitions import draft as drafts
from tarrafa.coordinator.definitions.draft import Draft
from tarrafa.coordinator.definitions.version_diff import FieldChange
from tarrafa.coordinator.monitoring.monitor import (
    CollectionDetail,
    VersionChanges,
)
from tarrafa.coordinator.monitoring.snapshot import CollectionSnapshot
from tarrafa.coordinator.schedule.schedule_decision import UPCOMING_MAX, deadline_of
from tarrafa.coordinator.store import CollectionRun, CollectionSample
from tarrafa.errors import ConfigError
from tarrafa.i18n import Message, message
from tarrafa.server.api.api_route import ApiRoute
from tarrafa.server.auth.required_role import AccessLevel
from tarrafa.server.auth.role_and_csrf_guard import ConsoleRequest

DEFINITION_BYTES_MAX = 64 << 20  # a million roots
DEFAULT_SPAN_S = 900.0
TOML = "application/toml"
COLLECTION_PATH = "/collections/{name}"

Timestamp = Annotated[float, Meta(ge=0, le=1e11, description=str(message("seconds since 1970")))]


class DefinitionRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The definition of a collection: as a table, as in a collection file, or as the text of such a file."""

    table: dict[str, Any] | None = None
    toml: str | None = None

    async def draft(self, before: Collection | None = None) -> Draft:
        """Checked in a thread: there may be a million roots."""
        if (self.table is None) == (self.toml is None):
            raise ConfigError('give the collection either as "table" or as "toml"')
        if self.toml is not None:
            return await asyncio.to_thread(drafts.draft_from_toml, self.toml, before)
        return await asyncio.to_thread(drafts.draft_from_table, self.table or {}, before)


class CreateCollectionRequest(DefinitionRequest, frozen=True, forbid_unknown_fields=True):
    """A collection, and whether it starts at once; else it waits for its date, or for the operator."""

    start: bool = False


class CollectionsResponse(msgspec.Struct, frozen=True):
    """All collections. `trouble`: why the numbers are not current."""

    at: float
    trouble: Message | str
    notes: list[Message | str]
    collections: list[CollectionSnapshot]


class CollectionConfigResponse(msgspec.Struct, frozen=True):
    """The configuration in force, as a table without default values."""

    name: str
    table: dict[str, Any]


class CollectionEditResponse(msgspec.Struct, frozen=True):
    """The changes of an edit."""

    name: str
    changes: list[FieldChange]


class CollectionActionRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """An action on a collection; each collection lists its possible ones (`actions`)."""

    action: Literal["start", "pause", "resume", "retry", "stop", "again", "delete"]


class CollectionActionResponse(msgspec.Struct, frozen=True):
    """The action that was done, and the new state; empty: the collection is deleted."""

    name: str
    action: str
    state: str


class SamplesParams(msgspec.Struct, frozen=True):
    """The period; by default the last quarter of an hour."""

    since: Timestamp | None = None
    until: Timestamp | None = None


class UpcomingRunsParams(msgspec.Struct, frozen=True):
    """The number of runs."""

    n: Annotated[int, Meta(ge=1, le=UPCOMING_MAX, description=str(message("how many")))] = 10


class UpcomingRuns(msgspec.Struct, frozen=True):
    """The start times of the next runs, and the end of the schedule."""

    times: list[float]
    deadline: float | None = None


class CollectionRoutes:
    """The routes about collections."""

    def __init__(self, coordinator: Coordinator) -> None:
        self._coordinator = coordinator

    def api_routes(self) -> list[ApiRoute]:
        view, admin, at = AccessLevel.VIEWER, AccessLevel.ADMIN, COLLECTION_PATH
        create, edit, act, most = (
            "create a collection",
            "edit a collection",
            "act on a collection",
            DEFINITION_BYTES_MAX,
        )
        return [
            ApiRoute("GET", "/collections", message("All collections"), view, self.list_collections),
            ApiRoute(
                "POST",
                "/collections",
                message("Create a collection"),
                admin,
                self.create,
                create,
                201,
                body_bytes_max=most,
            ),
            ApiRoute("GET", at, message("A collection, and what the workers see of it"), view, self.get_collection),
            ApiRoute("DELETE", at, message("Delete a collection"), admin, self.delete, act),
            ApiRoute("GET", f"{at}/config", message("The configuration of a collection"), view, self.config),
            ApiRoute(
                "GET", f"{at}/config.toml", message("The configuration as a TOML file"), view, self.toml, text=TOML
            ),
            ApiRoute(
                "PUT",
                f"{at}/config",
                message("Edit a collection, running or not"),
                admin,
                self.edit,
                edit,
                body_bytes_max=most,
            ),
            ApiRoute("POST", f"{at}/actions", message("Start, pause, resume, stop, …"), admin, self.act, act),
            ApiRoute("GET", f"{at}/samples", message("Its time series"), view, self.samples),
            ApiRoute("GET", f"{at}/runs", message("Its runs, the newest first"), view, self.runs),
            ApiRoute("GET", f"{at}/versions", message("Its versions, and their changes"), view, self.versions),
            ApiRoute("GET", f"{at}/upcoming", message("Start times of its next runs"), view, self.upcoming),
        ]

    async def list_collections(self, request: ConsoleRequest) -> CollectionsResponse:
        seen = self._coordinator.monitor.current_snapshot()
        return CollectionsResponse(seen.at, seen.trouble, seen.notes, seen.collections)

    async def create(self, request: ConsoleRequest, body: CreateCollectionRequest) -> CollectionSnapshot:
        who, draft = request.principal.name, await body.draft()
        request.detail = collection_edits.keys_for_audit(draft.complaints)
        made = await collection_edits.create_collection(self._coordinator, draft, who, start=body.start)
        request.audit_note(made.name, "and start it" if body.start else "")
        return self._collection(made.name)

    async def get_collection(self, request: ConsoleRequest) -> CollectionDetail:
        return self._coordinator.monitor.detail(self._collection(request.param("name")))

    async def delete(self, request: ConsoleRequest) -> None:
        name = request.param("name")
        request.audit_note(name, "delete")
        await self._coordinator.actions.act(name, "delete", request.principal.name)

    async def config(self, request: ConsoleRequest) -> CollectionConfigResponse:
        found = await self._config(request)
        return CollectionConfigResponse(found.name, await asyncio.to_thread(toml_writer.table_from_collection, found))

    async def toml(self, request: ConsoleRequest) -> str:
        return await asyncio.to_thread(toml_writer.collection_to_toml, await self._config(request))

    async def _config(self, request: ConsoleRequest) -> Collection:
        """The configuration as the principal may see it."""
        found = await self._coordinator.definitions.in_force(request.param("name"))
        return found if request.is_admin else redact_collection(found)

    async def edit(self, request: ConsoleRequest, body: DefinitionRequest) -> CollectionEditResponse:
        before = await self._coordinator.definitions.in_force(request.param("name"))
        draft = await body.draft(before)
        request.detail = collection_edits.keys_for_audit(draft.complaints)
        changes = await collection_edits.edit_collection(self._coordinator, before, draft, request.principal.name)
        request.audit_note(before.name, collection_edits.keys_for_audit(changes))
        return CollectionEditResponse(before.name, changes)

    async def act(self, request: ConsoleRequest, body: CollectionActionRequest) -> CollectionActionResponse:
        name = request.param("name")
        request.audit_note(name, body.action)
        await self._coordinator.actions.act(name, body.action, request.principal.name)
        status = self._coordinator.overview.status(name)
        return CollectionActionResponse(name, body.action, status.state if status is not None else "")

    async def samples(self, request: ConsoleRequest, query: SamplesParams) -> list[CollectionSample]:
        until = query.until if query.until is not None else self._coordinator.clock.now()
        since = query.since if query.since is not None else until - DEFAULT_SPAN_S
        return self._coordinator.monitor.timeseries.between(self._collection(request.param("name")).name, since, until)

    async def runs(self, request: ConsoleRequest) -> list[CollectionRun]:
        return self._coordinator.runs.all_of(self._collection(request.param("name")).name)

    async def versions(self, request: ConsoleRequest) -> list[VersionChanges]:
        return await self._coordinator.monitor.version_changes(request.param("name"))

    async def upcoming(self, request: ConsoleRequest, query: UpcomingRunsParams) -> UpcomingRuns:
        name = request.param("name")
        schedule = (await self._coordinator.definitions.in_force(name)).schedule
        return UpcomingRuns(await self._coordinator.schedule.upcoming_runs(name, query.n), deadline_of(schedule))

    def _collection(self, name: str) -> CollectionSnapshot:
        return self._coordinator.monitor.current_snapshot().collection(name)
