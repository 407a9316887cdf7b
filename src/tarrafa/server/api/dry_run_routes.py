"""REST routes of dry runs: scope check of URLs, estimate, presets.

For existing collections and for drafts. Promises: nothing is changed; so viewers may use these routes.
"""

from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from tarrafa.config import Complaint
from tarrafa.coordinator.coordinator import Coordinator
from tarrafa.coordinator.definitions import draft, presets
from tarrafa.coordinator.definitions.presets import PresetRequest
from tarrafa.coordinator.dry_run.crawl_estimate import CrawlEstimate
from tarrafa.coordinator.dry_run.dry_run import URLS_MAX, DryRun, ScopeCheckResponse
from tarrafa.parse.url import INPUT_LENGTH_MAX
from tarrafa.server.api.collection_routes import COLLECTION_PATH, DEFINITION_BYTES_MAX, DefinitionRequest
from tarrafa.server.api.route_registry import ApiCall, ApiRegistry
from tarrafa.server.auth.authentication import AccessLevel

URLS_BYTES_MAX = 16 << 20
HARMLESS = "it changes nothing"

Urls = Annotated[list[Annotated[str, Meta(max_length=INPUT_LENGTH_MAX)]], Meta(max_length=URLS_MAX)]


class ScopeCheckRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """URLs, or names of hosts."""

    urls: Urls


class DraftScopeCheckRequest(DefinitionRequest, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A draft collection, and URLs."""

    urls: Urls


class PresetParams(msgspec.Struct, frozen=True):
    """The language."""

    hl: Literal["en", "pt"] = "en"


class PresetView(msgspec.Struct, frozen=True):
    """A preset: its name, and its purpose."""

    name: str
    title: str


class PresetResponse(msgspec.Struct, frozen=True):
    """A preset with its values: as a table, and as a commented file; `complaints` list the missing values."""

    table: dict[str, Any]
    toml: str
    complaints: list[Complaint]


class DryRunRoutes:
    """The routes about what is not yet."""

    def __init__(self, coordinator: Coordinator, rehearsal: DryRun) -> None:
        self._coordinator, self._rehearsal = coordinator, rehearsal

    def register(self, api: ApiRegistry) -> None:
        look, route = AccessLevel.VIEWER, api.route
        harmless: dict[str, Any] = {"harmless": HARMLESS, "audited": False}
        route(
            "POST",
            f"{COLLECTION_PATH}/judge",
            "Which URLs are in, and by which rule",
            look,
            body=ScopeCheckRequest,
            answer=ScopeCheckResponse,
            body_bytes_max=URLS_BYTES_MAX,
            **harmless,
        )(self.check_scope)
        route("GET", f"{COLLECTION_PATH}/estimate", "How much it will be", look, answer=CrawlEstimate)(self.estimate)
        route(
            "POST",
            "/judge",
            "The same of a collection that is not there yet",
            look,
            body=DraftScopeCheckRequest,
            answer=ScopeCheckResponse,
            body_bytes_max=DEFINITION_BYTES_MAX,
            **harmless,
        )(self.check_draft_scope)
        route(
            "POST",
            "/estimate",
            "How much such a collection would be",
            look,
            body=DefinitionRequest,
            answer=CrawlEstimate,
            body_bytes_max=DEFINITION_BYTES_MAX,
            **harmless,
        )(self.estimate_draft)
        route("GET", "/presets", "Ways to begin", look, query=PresetParams, answer=list[PresetView])(self.presets)
        route(
            "POST",
            "/presets/{preset}",
            "A preset for a wish",
            look,
            query=PresetParams,
            body=PresetRequest,
            answer=PresetResponse,
            body_bytes_max=64 << 10,
            **harmless,
        )(self.make_preset)

    async def check_scope(self, call: ApiCall) -> ScopeCheckResponse:
        asked: ScopeCheckRequest = call.body
        return await self._rehearsal.check_scope(
            await self._coordinator.definitions.in_force(call.param("name")), asked.urls
        )

    async def estimate(self, call: ApiCall) -> CrawlEstimate:
        return await self._rehearsal.estimate(await self._coordinator.definitions.in_force(call.param("name")))

    async def check_draft_scope(self, call: ApiCall) -> ScopeCheckResponse:
        asked: DraftScopeCheckRequest = call.body
        return await self._rehearsal.check_scope((await asked.draft()).require_valid(), asked.urls)

    async def estimate_draft(self, call: ApiCall) -> CrawlEstimate:
        asked: DefinitionRequest = call.body
        return await self._rehearsal.estimate((await asked.draft()).require_valid())

    async def presets(self, call: ApiCall) -> list[PresetView]:
        asked: PresetParams = call.query
        return [PresetView(name, title) for name, title in presets.preset_titles(asked.hl).items()]

    async def make_preset(self, call: ApiCall) -> PresetResponse:
        name, wish, asked = call.param("preset"), call.body, call.query
        table = presets.preset_table(name, wish)
        return PresetResponse(
            table, presets.preset_toml(name, wish, asked.hl), draft.draft_from_table(table).complaints
        )
