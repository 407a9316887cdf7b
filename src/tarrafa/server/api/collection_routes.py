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
from tarrafa.coordinator.definitions.draft import Draft, FieldChange
from tarrafa.coordinator.monitoring.monitor import (
    CollectionDetail,
    VersionChanges,
)
from tarrafa.coordinator.monitoring.snapshot import CollectionSnapshot
from tarrafa.coordinator.schedule.run_scheduler import UPCOMING_MAX, deadline_of
from tarrafa.coordinator.store import CollectionRun, CollectionSample
from tarrafa.errors import ConfigError
from tarrafa.server.api.route_registry import ApiCall, ApiRegistry
from tarrafa.server.auth.authentication import AccessLevel

DEFINITION_BYTES_MAX = 64 << 20  # a million roots
DEFAULT_SPAN_S = 900.0
TOML = "application/toml"
COLLECTION_PATH = "/collections/{name}"

Timestamp = Annotated[float, Meta(ge=0, le=1e11, description="seconds since 1970")]


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
    trouble: str
    notes: list[str]
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

    n: Annotated[int, Meta(ge=1, le=UPCOMING_MAX, description="how many")] = 10


class UpcomingRuns(msgspec.Struct, frozen=True):
    """The start times of the next runs, and the end of the schedule."""

    times: list[float]
    deadline: float | None = None


class CollectionRoutes:
    """The routes about collections."""

    def __init__(self, coordinator: Coordinator) -> None:
        self._coordinator = coordinator

    def register(self, api: ApiRegistry) -> None:
        look, admin, route, most = AccessLevel.VIEWER, AccessLevel.ADMIN, api.route, DEFINITION_BYTES_MAX
        route("GET", "/collections", "All collections", look, answer=CollectionsResponse)(self.list_collections)
        route(
            "POST",
            "/collections",
            "Create a collection",
            admin,
            body=CreateCollectionRequest,
            answer=CollectionSnapshot,
            code=201,
            action="create a collection",
            body_bytes_max=most,
        )(self.create)
        route("GET", COLLECTION_PATH, "A collection, and what the workers see of it", look, answer=CollectionDetail)(
            self.get_collection
        )
        route("DELETE", COLLECTION_PATH, "Delete a collection", admin, action="act on a collection")(self.delete)
        route("GET", f"{COLLECTION_PATH}/config", "What a collection is", look, answer=CollectionConfigResponse)(
            self.config
        )
        route("GET", f"{COLLECTION_PATH}/config.toml", "The same as a file", look, text=TOML)(self.toml)
        route(
            "PUT",
            f"{COLLECTION_PATH}/config",
            "Edit a collection, running or not",
            admin,
            body=DefinitionRequest,
            answer=CollectionEditResponse,
            action="edit a collection",
            body_bytes_max=most,
        )(self.edit)
        route(
            "POST",
            f"{COLLECTION_PATH}/actions",
            "Start, pause, resume, stop, …",
            admin,
            body=CollectionActionRequest,
            answer=CollectionActionResponse,
            action="act on a collection",
        )(self.act)
        route(
            "GET",
            f"{COLLECTION_PATH}/samples",
            "What it looked like",
            look,
            query=SamplesParams,
            answer=list[CollectionSample],
        )(self.samples)
        route("GET", f"{COLLECTION_PATH}/runs", "Its runs, the newest first", look, answer=list[CollectionRun])(
            self.runs
        )
        route("GET", f"{COLLECTION_PATH}/versions", "Who changed what of it", look, answer=list[VersionChanges])(
            self.versions
        )
        route(
            "GET",
            f"{COLLECTION_PATH}/upcoming",
            "When its next runs begin",
            look,
            query=UpcomingRunsParams,
            answer=UpcomingRuns,
        )(self.upcoming)

    async def list_collections(self, call: ApiCall) -> CollectionsResponse:
        seen = self._coordinator.monitor.current_snapshot()
        return CollectionsResponse(seen.at, seen.trouble, seen.notes, seen.collections)

    async def create(self, call: ApiCall) -> CollectionSnapshot:
        asked: CreateCollectionRequest = call.body
        who, draft = call.visit.principal.name, await asked.draft()
        call.visit.detail = collection_edits.keys_for_audit(draft.complaints)
        made = await collection_edits.create_collection(self._coordinator, draft, who, start=asked.start)
        call.visit.audit_note(made.name, "and start it" if asked.start else "")
        return self._collection(made.name)

    async def get_collection(self, call: ApiCall) -> CollectionDetail:
        return self._coordinator.monitor.detail(self._collection(call.param("name")))

    async def delete(self, call: ApiCall) -> None:
        name = call.param("name")
        call.visit.audit_note(name, "delete")
        await self._coordinator.actions.act(name, "delete", call.visit.principal.name)

    async def config(self, call: ApiCall) -> CollectionConfigResponse:
        found = await self._config(call)
        return CollectionConfigResponse(found.name, await asyncio.to_thread(toml_writer.table_from_collection, found))

    async def toml(self, call: ApiCall) -> str:
        return await asyncio.to_thread(toml_writer.collection_to_toml, await self._config(call))

    async def _config(self, call: ApiCall) -> Collection:
        """The configuration as the principal may see it."""
        found = await self._coordinator.definitions.in_force(call.param("name"))
        return found if call.visit.is_admin else redact_collection(found)

    async def edit(self, call: ApiCall) -> CollectionEditResponse:
        asked: DefinitionRequest = call.body
        before = await self._coordinator.definitions.in_force(call.param("name"))
        draft = await asked.draft(before)
        call.visit.detail = collection_edits.keys_for_audit(draft.complaints)
        changes = await collection_edits.edit_collection(self._coordinator, before, draft, call.visit.principal.name)
        call.visit.audit_note(before.name, collection_edits.keys_for_audit(changes))
        return CollectionEditResponse(before.name, changes)

    async def act(self, call: ApiCall) -> CollectionActionResponse:
        asked: CollectionActionRequest = call.body
        name = call.param("name")
        call.visit.audit_note(name, asked.action)
        await self._coordinator.actions.act(name, asked.action, call.visit.principal.name)
        status = self._coordinator.overview.status(name)
        return CollectionActionResponse(name, asked.action, status.state if status is not None else "")

    async def samples(self, call: ApiCall) -> list[CollectionSample]:
        asked: SamplesParams = call.query
        until = asked.until if asked.until is not None else self._coordinator.clock.now()
        since = asked.since if asked.since is not None else until - DEFAULT_SPAN_S
        return self._coordinator.monitor.timeseries.between(self._collection(call.param("name")).name, since, until)

    async def runs(self, call: ApiCall) -> list[CollectionRun]:
        return self._coordinator.runs.all_of(self._collection(call.param("name")).name)

    async def versions(self, call: ApiCall) -> list[VersionChanges]:
        return await self._coordinator.monitor.version_changes(call.param("name"))

    async def upcoming(self, call: ApiCall) -> UpcomingRuns:
        asked: UpcomingRunsParams = call.query
        name = call.param("name")
        schedule = (await self._coordinator.definitions.in_force(name)).schedule
        return UpcomingRuns(await self._coordinator.schedule.upcoming_runs(name, asked.n), deadline_of(schedule))

    def _collection(self, name: str) -> CollectionSnapshot:
        return self._coordinator.monitor.current_snapshot().collection(name)
