"""What can programs do with collections?

Everything that the pages can, by the same functions of coordinate/: see what there is, create, edit, start, stop,
delete, and what it looked like. Promises: what is wrong with a collection is 400 with all complaints, each at its key,
and changes nothing; a name that nobody knows is 404.
"""

import asyncio
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from tarrafa.config import Collection, discreet
from tarrafa.coordinate import authoring, drafts, writing
from tarrafa.coordinate.closeup import Closeup, VersionTold, closeup, collection_of, picture, versions
from tarrafa.coordinate.coordinator import Coordinator
from tarrafa.coordinate.drafts import Change, Draft
from tarrafa.coordinate.ledger import Run, Sample
from tarrafa.coordinate.picture import CollectionPicture
from tarrafa.coordinate.schedule import UPCOMING_MAX, deadline_of
from tarrafa.errors import ConfigError
from tarrafa.serve.console.api import Api, Call
from tarrafa.serve.console.entry import Need

DEFINITION_BYTES_MAX = 64 << 20  # a million roots
SPAN_S = 900.0
TOML = "application/toml"
AT = "/collections/{name}"

Moment = Annotated[float, Meta(ge=0, le=1e11, description="seconds since 1970")]


class Definition(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a collection is: as a table, as in a collection file, or as the text of such a file."""

    table: dict[str, Any] | None = None
    toml: str | None = None

    async def draft(self, before: Collection | None = None) -> Draft:
        """Judged beside the loop: there may be a million roots."""
        if (self.table is None) == (self.toml is None):
            raise ConfigError('give the collection either as "table" or as "toml"')
        if self.toml is not None:
            return await asyncio.to_thread(drafts.from_toml, self.toml, before)
        return await asyncio.to_thread(drafts.from_table, self.table or {}, before)


class NewCollection(Definition, frozen=True, forbid_unknown_fields=True):
    """A collection, and whether it starts at once; else it waits for its date, or for somebody to start it."""

    start: bool = False


class CollectionsTold(msgspec.Struct, frozen=True):
    """All collections as they are. `trouble`: why the numbers are not newer."""

    at: float
    trouble: str
    notes: list[str]
    collections: list[CollectionPicture]


class ConfigTold(msgspec.Struct, frozen=True):
    """What is in force, as a table: what is as it would be anyway is left out."""

    name: str
    table: dict[str, Any]


class Edited(msgspec.Struct, frozen=True):
    """What is different now."""

    name: str
    changes: list[Change]


class ActionAsked(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What to do with a collection; which actions are open is said of each (`actions`)."""

    action: Literal["start", "pause", "resume", "retry", "stop", "again", "delete"]


class Acted(msgspec.Struct, frozen=True):
    """What was done, and the state since; empty: it is gone."""

    name: str
    action: str
    state: str


class SamplesAsked(msgspec.Struct, frozen=True):
    """From when to when; by default the last quarter of an hour."""

    since: Moment | None = None
    until: Moment | None = None


class UpcomingAsked(msgspec.Struct, frozen=True):
    """How many."""

    n: Annotated[int, Meta(ge=1, le=UPCOMING_MAX, description="how many")] = 10


class Upcoming(msgspec.Struct, frozen=True):
    """When the next runs begin, and when the schedule ends."""

    times: list[float]
    deadline: float | None = None


class Programs:
    """The routes about collections."""

    def __init__(self, coordinator: Coordinator) -> None:
        self._coordinator = coordinator

    def register(self, api: Api) -> None:
        look, admin, route, most = Need.VIEWER, Need.ADMIN, api.route, DEFINITION_BYTES_MAX
        route("GET", "/collections", "All collections", look, answer=CollectionsTold)(self.all)
        route(
            "POST", "/collections", "Create a collection", admin, body=NewCollection, answer=CollectionPicture,
            code=201, action="create a collection", body_bytes_max=most,
        )(self.create)  # fmt: skip
        route("GET", AT, "A collection, and what the workers see of it", look, answer=Closeup)(self.one)
        route("DELETE", AT, "Delete a collection", admin, action="act on a collection")(self.delete)
        route("GET", f"{AT}/config", "What a collection is", look, answer=ConfigTold)(self.config)
        route("GET", f"{AT}/config.toml", "The same as a file", look, text=TOML)(self.toml)
        route(
            "PUT", f"{AT}/config", "Edit a collection, running or not", admin, body=Definition, answer=Edited,
            action="edit a collection", body_bytes_max=most,
        )(self.edit)  # fmt: skip
        route(
            "POST", f"{AT}/actions", "Start, pause, resume, stop, …", admin, body=ActionAsked, answer=Acted,
            action="act on a collection",
        )(self.act)  # fmt: skip
        route("GET", f"{AT}/samples", "What it looked like", look, query=SamplesAsked, answer=list[Sample])(
            self.samples
        )
        route("GET", f"{AT}/runs", "Its runs, the newest first", look, answer=list[Run])(self.runs)
        route("GET", f"{AT}/versions", "Who changed what of it", look, answer=list[VersionTold])(self.versions)
        route("GET", f"{AT}/upcoming", "When its next runs begin", look, query=UpcomingAsked, answer=Upcoming)(
            self.upcoming
        )

    async def all(self, call: Call) -> CollectionsTold:
        seen = picture(self._coordinator)
        return CollectionsTold(seen.at, seen.trouble, seen.notes, seen.collections)

    async def create(self, call: Call) -> CollectionPicture:
        asked: NewCollection = call.body
        who, draft = call.visit.who.name, await asked.draft()
        call.visit.detail = authoring.at(draft.complaints)
        made = await authoring.create(self._coordinator, draft, who, start=asked.start)
        call.visit.note(made.name, "and start it" if asked.start else "")
        return self._one(made.name)

    async def one(self, call: Call) -> Closeup:
        return closeup(self._coordinator, self._one(call.param("name")))

    async def delete(self, call: Call) -> None:
        name = call.param("name")
        call.visit.note(name, "delete")
        await self._coordinator.act(name, "delete", call.visit.who.name)

    async def config(self, call: Call) -> ConfigTold:
        found = await self._config(call)
        return ConfigTold(found.name, await asyncio.to_thread(writing.table, found))

    async def toml(self, call: Call) -> str:
        return await asyncio.to_thread(writing.toml, await self._config(call))

    async def _config(self, call: Call) -> Collection:
        """As whoever asks may see it."""
        found = await self._coordinator.must_config(call.param("name"))
        return found if call.visit.may_act else discreet(found)

    async def edit(self, call: Call) -> Edited:
        asked: Definition = call.body
        before = await self._coordinator.must_config(call.param("name"))
        draft = await asked.draft(before)
        call.visit.detail = authoring.at(draft.complaints)
        changes = await authoring.edit(self._coordinator, before, draft, call.visit.who.name)
        call.visit.note(before.name, authoring.told(changes))
        return Edited(before.name, changes)

    async def act(self, call: Call) -> Acted:
        asked: ActionAsked = call.body
        name = call.param("name")
        call.visit.note(name, asked.action)
        await self._coordinator.act(name, asked.action, call.visit.who.name)
        status = self._coordinator.status(name)
        return Acted(name, asked.action, status.state if status is not None else "")

    async def samples(self, call: Call) -> list[Sample]:
        asked: SamplesAsked = call.query
        until = asked.until if asked.until is not None else self._coordinator.now()
        since = asked.since if asked.since is not None else until - SPAN_S
        return self._coordinator.curves.between(self._one(call.param("name")).name, since, until)

    async def runs(self, call: Call) -> list[Run]:
        return self._coordinator.runs(self._one(call.param("name")).name)

    async def versions(self, call: Call) -> list[VersionTold]:
        return await versions(self._coordinator, call.param("name"))

    async def upcoming(self, call: Call) -> Upcoming:
        asked: UpcomingAsked = call.query
        name = call.param("name")
        schedule = (await self._coordinator.must_config(name)).schedule
        return Upcoming(await self._coordinator.upcoming(name, asked.n), deadline_of(schedule))

    def _one(self, name: str) -> CollectionPicture:
        return collection_of(picture(self._coordinator), name)
