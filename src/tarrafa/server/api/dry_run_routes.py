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
from tarrafa.i18n import message
from tarrafa.parse.url import INPUT_LENGTH_MAX
from tarrafa.server.api.api_route import ApiRoute
from tarrafa.server.api.collection_routes import COLLECTION_PATH, DEFINITION_BYTES_MAX, DefinitionRequest
from tarrafa.server.auth.required_role import AccessLevel
from tarrafa.server.auth.role_and_csrf_guard import ConsoleRequest

URLS_BYTES_MAX = 16 << 20
PRESET_BYTES_MAX = 64 << 10
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
    """The routes about dry runs."""

    def __init__(self, coordinator: Coordinator, dry_run: DryRun) -> None:
        self._coordinator, self._dry_run = coordinator, dry_run

    def api_routes(self) -> list[ApiRoute]:
        view, at = AccessLevel.VIEWER, COLLECTION_PATH
        urls: dict[str, Any] = {"harmless": HARMLESS, "audited": False, "body_bytes_max": URLS_BYTES_MAX}
        draft, preset = urls | {"body_bytes_max": DEFINITION_BYTES_MAX}, urls | {"body_bytes_max": PRESET_BYTES_MAX}
        return [
            ApiRoute(
                "POST",
                f"{at}/judge",
                message("Check which URLs are in scope, and by which rule"),
                view,
                self.check_scope,
                **urls,
            ),
            ApiRoute("GET", f"{at}/estimate", message("Estimate of pages, requests and time"), view, self.estimate),
            ApiRoute(
                "POST",
                "/judge",
                message("Check which URLs a draft has in scope"),
                view,
                self.check_draft_scope,
                **draft,
            ),
            ApiRoute("POST", "/estimate", message("Estimate for a draft"), view, self.estimate_draft, **draft),
            ApiRoute("GET", "/presets", message("Presets"), view, self.presets),
            ApiRoute("POST", "/presets/{preset}", message("A preset with values"), view, self.make_preset, **preset),
        ]

    async def check_scope(self, request: ConsoleRequest, body: ScopeCheckRequest) -> ScopeCheckResponse:
        return await self._dry_run.check_scope(
            await self._coordinator.definitions.in_force(request.param("name")), body.urls
        )

    async def estimate(self, request: ConsoleRequest) -> CrawlEstimate:
        return await self._dry_run.estimate(await self._coordinator.definitions.in_force(request.param("name")))

    async def check_draft_scope(self, request: ConsoleRequest, body: DraftScopeCheckRequest) -> ScopeCheckResponse:
        return await self._dry_run.check_scope((await body.draft()).require_valid(), body.urls)

    async def estimate_draft(self, request: ConsoleRequest, body: DefinitionRequest) -> CrawlEstimate:
        return await self._dry_run.estimate((await body.draft()).require_valid())

    async def presets(self, request: ConsoleRequest, query: PresetParams) -> list[PresetView]:
        return [PresetView(name, title) for name, title in presets.preset_titles(query.hl).items()]

    async def make_preset(self, request: ConsoleRequest, query: PresetParams, body: PresetRequest) -> PresetResponse:
        name = request.param("preset")
        table = presets.preset_table(name, body)
        return PresetResponse(
            table, presets.preset_toml(name, body, query.hl), draft.draft_from_table(table).complaints
        )
