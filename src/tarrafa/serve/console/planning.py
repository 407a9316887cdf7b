"""How do programs find out what would happen?

Dry runs, estimates and presets, of collections that are there and of those that are only written down so far. Promises:
nothing is changed by it; so those may ask who may only look.
"""

from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from tarrafa.config import Complaint
from tarrafa.coordinate import drafts, presets
from tarrafa.coordinate.coordinator import Coordinator
from tarrafa.coordinate.estimating import Estimate
from tarrafa.coordinate.judging import URLS_MAX
from tarrafa.coordinate.presets import Wish
from tarrafa.coordinate.rehearsing import Judgement, Rehearsal
from tarrafa.parse.url import INPUT_LENGTH_MAX
from tarrafa.serve.console.api import Api, Call
from tarrafa.serve.console.entry import Need
from tarrafa.serve.console.programs import AT, DEFINITION_BYTES_MAX, Definition

URLS_BYTES_MAX = 16 << 20
HARMLESS = "it changes nothing"

Urls = Annotated[list[Annotated[str, Meta(max_length=INPUT_LENGTH_MAX)]], Meta(max_length=URLS_MAX)]


class JudgeAsked(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """URLs, or names of hosts."""

    urls: Urls


class JudgeDraft(Definition, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A collection that is not there yet, and URLs."""

    urls: Urls


class PresetsAsked(msgspec.Struct, frozen=True):
    """In which language."""

    hl: Literal["en", "pt"] = "en"


class Preset(msgspec.Struct, frozen=True):
    """A way to begin: its name, and what it is for."""

    name: str
    title: str


class PresetMade(msgspec.Struct, frozen=True):
    """A preset for a wish: as a table, and as a file that says why; `complaints` say what is still to be filled in."""

    table: dict[str, Any]
    toml: str
    complaints: list[Complaint]


class Planning:
    """The routes about what is not yet."""

    def __init__(self, coordinator: Coordinator, rehearsal: Rehearsal) -> None:
        self._coordinator, self._rehearsal = coordinator, rehearsal

    def register(self, api: Api) -> None:
        look, route = Need.VIEWER, api.route
        harmless: dict[str, Any] = {"harmless": HARMLESS, "audited": False}
        route(
            "POST", f"{AT}/judge", "Which URLs are in, and by which rule", look, body=JudgeAsked, answer=Judgement,
            body_bytes_max=URLS_BYTES_MAX, **harmless,
        )(self.judge)  # fmt: skip
        route("GET", f"{AT}/estimate", "How much it will be", look, answer=Estimate)(self.estimate)
        route(
            "POST", "/judge", "The same of a collection that is not there yet", look, body=JudgeDraft, answer=Judgement,
            body_bytes_max=DEFINITION_BYTES_MAX, **harmless,
        )(self.judge_draft)  # fmt: skip
        route(
            "POST", "/estimate", "How much such a collection would be", look, body=Definition, answer=Estimate,
            body_bytes_max=DEFINITION_BYTES_MAX, **harmless,
        )(self.estimate_draft)  # fmt: skip
        route("GET", "/presets", "Ways to begin", look, query=PresetsAsked, answer=list[Preset])(self.presets)
        route(
            "POST", "/presets/{preset}", "A preset for a wish", look, query=PresetsAsked, body=Wish, answer=PresetMade,
            body_bytes_max=64 << 10, **harmless,
        )(self.make)  # fmt: skip

    async def judge(self, call: Call) -> Judgement:
        asked: JudgeAsked = call.body
        return await self._rehearsal.judge(await self._coordinator.must_config(call.param("name")), asked.urls)

    async def estimate(self, call: Call) -> Estimate:
        return await self._rehearsal.estimate(await self._coordinator.must_config(call.param("name")))

    async def judge_draft(self, call: Call) -> Judgement:
        asked: JudgeDraft = call.body
        return await self._rehearsal.judge((await asked.draft()).fit(), asked.urls)

    async def estimate_draft(self, call: Call) -> Estimate:
        asked: Definition = call.body
        return await self._rehearsal.estimate((await asked.draft()).fit())

    async def presets(self, call: Call) -> list[Preset]:
        asked: PresetsAsked = call.query
        return [Preset(name, title) for name, title in presets.titles(asked.hl).items()]

    async def make(self, call: Call) -> PresetMade:
        name, wish, asked = call.param("preset"), call.body, call.query
        table = presets.make(name, wish)
        return PresetMade(table, presets.write(name, wish, asked.hl), drafts.from_table(table).complaints)
