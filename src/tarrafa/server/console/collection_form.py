"""Console form that creates, copies and edits a collection, with versions and dry run.

Promises: the form covers every field of a collection file, with the same complaints, each at its field; typed values
are kept, and an invalid form changes nothing. A new collection begins empty, from a preset, or as a copy. Every version
is kept and shown with its changes. Before a collection is saved or started, the dry run shows which URLs are in scope,
and an estimate.
"""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from starlette.responses import PlainTextResponse, Response

from tarrafa.config import Collection, Complaint
from tarrafa.config.sections import redact_collection
from tarrafa.coordinator.coordinator import Coordinator
from tarrafa.coordinator.definitions import collection_edits, form, presets, toml_writer
from tarrafa.coordinator.definitions import draft as drafts
from tarrafa.coordinator.definitions.draft import Draft, InvalidDraft
from tarrafa.coordinator.definitions.fields import (
    CHOICE_LABELS,
    FIELD_LABELS,
    SECTION_LABELS,
    CollectionField,
    collection_fields,
)
from tarrafa.coordinator.definitions.presets import PresetRequest
from tarrafa.coordinator.dry_run.crawl_estimate import CrawlEstimate
from tarrafa.coordinator.dry_run.dry_run import URLS_MAX, DryRun, ScopeCheckResponse
from tarrafa.errors import ConfigError
from tarrafa.i18n import Translator
from tarrafa.server.auth.required_role import AccessLevel, GuardedRoute
from tarrafa.server.auth.role_and_csrf_guard import ConsoleRequest

FORM_BYTES_MAX = 64 << 20  # a million roots
PRESET_PARAMS = ("root", "country", "contact")
NON_FIELD_NAMES = ("revision", "csrf", "start", "whole", "toml", "copy", "urls", "try")
ENTRIES_SHOWN = 10  # of a list that is too long for a form


@dataclass(frozen=True, slots=True)
class FormFieldView:
    """A field as the form shows it."""

    field: CollectionField
    label: str
    help: str
    values: list[str]
    usual: list[str]
    wrong: list[str]
    choices: list[tuple[str, str]]
    kept: int = 0  # number of entries that are too many to show, and are kept
    first: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        return "\n".join(self.values)

    @property
    def id(self) -> str:
        return f"f-{self.field.name.replace('.', '-')}"


@dataclass(frozen=True, slots=True)
class FormDryRun:
    """The dry run of a form."""

    urls: str = ""
    is_wanted: bool = False
    judged: ScopeCheckResponse | None = None
    estimate: CrawlEstimate | None = None


class CollectionFormPages:
    """The pages about the configuration of a collection."""

    def __init__(self, coordinator: Coordinator, dry_run: DryRun) -> None:
        self._coordinator, self._dry_run = coordinator, dry_run

    def guarded_routes(self) -> list[GuardedRoute]:
        admin, look = AccessLevel.ADMIN, AccessLevel.VIEWER
        at, most = "/console/c/{name}", FORM_BYTES_MAX
        return [
            GuardedRoute("GET", "/console/new", admin, self.new),
            GuardedRoute("POST", "/console/new", admin, self.create, "create a collection", body_bytes_max=most),
            GuardedRoute("GET", "/console/new/try", admin, self.redirect_to_form),
            GuardedRoute(
                "POST", "/console/new/try", admin, self.dry_run_new, "try a form", body_bytes_max=most, audited=False
            ),
            GuardedRoute("GET", f"{at}/edit", admin, self.edit),
            GuardedRoute("GET", f"{at}/edit/try", admin, self.redirect_to_form),
            GuardedRoute(
                "POST", f"{at}/edit/try", admin, self.dry_run_edit, "try a form", body_bytes_max=most, audited=False
            ),
            GuardedRoute("POST", f"{at}/edit", admin, self.save, "edit a collection", body_bytes_max=most),
            GuardedRoute("GET", f"{at}/toml", look, self.toml),
            GuardedRoute("GET", f"{at}/versions", look, self.versions),
            GuardedRoute("GET", f"{at}/versions.json", look, self.versions_json),
            GuardedRoute("GET", f"{at}/dry-run", look, self.dry_run_page),
            GuardedRoute("GET", f"{at}/dry-run.json", look, self.dry_run_json),
            GuardedRoute("POST", f"{at}/dry-run", look, self.dry_run, "dry run", "it changes nothing", audited=False),
        ]

    # -- a new one ----------------------------------------------------------------------------------------------------

    async def new(self, request: ConsoleRequest) -> Response:
        params = request.http.query_params
        if params.get("copy"):
            original = await self._config(params["copy"])
            typed = await asyncio.to_thread(form.form_from_collection, original)
            return await self._form(request, typed | {"name": [f"{original.name}-2"]}, origin=original)
        preset = params.get("preset", "")
        if not preset:
            return await self._form(request, {})
        wish = PresetRequest(
            params.get("root", ""), country=params.get("country", ""), contact=params.get("contact", "")
        )
        if not wish.root:
            return await self._form(request, {}, preset=preset)
        try:
            made = drafts.draft_from_table(presets.preset_table(preset, wish))
        except ConfigError as error:
            return await self._form(
                request, {}, preset=preset, sentence=request.translator.render(error.message), code=400
            )
        shown = form.form_from_collection(made.collection) if made.collection is not None else {}
        return await self._form(request, shown | {"name": []}, made.complaints, preset)

    async def create(self, request: ConsoleRequest) -> Response:
        typed = _typed_fields(request)
        origin = await self._copied_collection(request, typed)
        draft = await asyncio.to_thread(drafts.draft_from_form, typed, None, origin)
        start = bool(request.form.get("start"))
        try:
            made = await collection_edits.create_collection(
                self._coordinator, draft, request.principal.name, start=start
            )
        except InvalidDraft as error:
            request.detail = collection_edits.keys_for_audit(error.complaints)
            return await self._form(request, typed, error.complaints, origin=origin, code=400)
        request.audit_note(made.name)
        return request.redirect(f"/console/c/{made.name}")

    async def redirect_to_form(self, request: ConsoleRequest) -> Response:
        """A dry run was opened by a link, for example in the other language."""
        url = request.http.url
        return request.redirect(url.path.removesuffix("/try") + (f"?{url.query}" if url.query else ""))

    async def dry_run_new(self, request: ConsoleRequest) -> Response:
        typed = _typed_fields(request)
        origin = await self._copied_collection(request, typed)
        draft = await asyncio.to_thread(drafts.trial_draft_from_form, typed, None, origin)
        return await self._form_dry_run(request, typed, draft, origin=origin)

    async def _copied_collection(self, request: ConsoleRequest, typed: Mapping[str, list[str]]) -> Collection | None:
        copied = request.form.get("copy")
        return await self._config(copied) if copied and typed.get(form.KEPT) else None

    # -- one that is there --------------------------------------------------------------------------------------------

    async def edit(self, request: ConsoleRequest) -> Response:
        collection = await self._config(request.param("name"))
        typed = await asyncio.to_thread(form.form_from_collection, collection)
        return await self._form(request, typed, editing=collection.name, origin=collection)

    async def save(self, request: ConsoleRequest) -> Response:
        name, typed = request.param("name"), _typed_fields(request)
        before = await self._config(name)
        draft = await asyncio.to_thread(drafts.draft_from_form, typed, before)
        try:
            given = request.form.get("revision")
            revision = int(given) if given.isascii() and given.isdigit() and len(given) < 10 else None
            changes = await collection_edits.edit_collection(
                self._coordinator, before, draft, request.principal.name, revision
            )
        except InvalidDraft as error:
            request.audit_note(name, collection_edits.keys_for_audit(error.complaints))
            return await self._form(request, typed, error.complaints, editing=name, origin=before, code=400)
        request.audit_note(name, collection_edits.keys_for_audit(changes))
        return request.redirect(f"/console/c/{name}")

    async def dry_run_edit(self, request: ConsoleRequest) -> Response:
        name, typed = request.param("name"), _typed_fields(request)
        before = await self._config(name)
        draft = await asyncio.to_thread(drafts.trial_draft_from_form, typed, before)
        return await self._form_dry_run(request, typed, draft, origin=before, editing=name)

    async def toml(self, request: ConsoleRequest) -> Response:
        collection = await self._config(request.param("name"))
        collection = collection if request.is_admin else redact_collection(collection)
        named = {"Content-Disposition": f'attachment; filename="{collection.name}.toml"'}
        return PlainTextResponse(await asyncio.to_thread(toml_writer.collection_to_toml, collection), headers=named)

    async def versions(self, request: ConsoleRequest) -> Response:
        name = request.param("name")
        rows = await self._coordinator.monitor.version_changes(name)
        return self._page(request, "console/collection_versions.html", name=name, rows=rows)

    async def versions_json(self, request: ConsoleRequest) -> Response:
        return request.json(await self._coordinator.monitor.version_changes(request.param("name")))

    # -- before it starts ---------------------------------------------------------------------------------------------

    async def dry_run_page(self, request: ConsoleRequest) -> Response:
        return await self._dry_run_response(request, "")

    async def dry_run(self, request: ConsoleRequest) -> Response:
        return await self._dry_run_response(request, request.form.get("urls"))

    async def dry_run_json(self, request: ConsoleRequest) -> Response:
        collection = await self._config(request.param("name"))
        return request.json({"name": collection.name, "estimate": await self._dry_run.estimate(collection)})

    async def _dry_run_response(self, request: ConsoleRequest, urls: str) -> Response:
        collection, _ = await self._config(request.param("name")), request.translator
        judged, sentence = ScopeCheckResponse([], []), ""
        try:
            judged = await self._dry_run.check_scope(collection, urls.splitlines())
        except ConfigError as error:
            sentence = _.render(error.message)
        return self._page(
            request, "console/dry_run.html", 400 if sentence else 200, name=collection.name, urls=urls,
            verdicts=judged.verdicts, sentence=sentence, unknown=judged.unknown,
            estimate=await self._dry_run.estimate(collection), most=URLS_MAX,
        )  # fmt: skip

    async def _form_dry_run(
        self,
        request: ConsoleRequest,
        typed: Mapping[str, list[str]],
        draft: Draft,
        origin: Collection | None,
        editing: str = "",
    ) -> Response:
        """The form as it was sent, with its dry run."""
        urls, wants_estimate, _ = request.form.get("urls"), request.form.get("try") == "estimate", request.translator
        tried, complaints, sentence = FormDryRun(urls, True), draft.complaints, ""
        if draft.collection is not None:
            try:
                if wants_estimate:
                    tried = replace(tried, estimate=await self._dry_run.estimate(draft.collection))
                else:
                    judged = await self._dry_run.check_scope(draft.collection, urls.splitlines())
                    tried = replace(tried, judged=judged)
            except ConfigError as error:
                sentence = _.render(error.message)
        code = 400 if complaints or sentence else 200
        return await self._form(
            request, typed, complaints, sentence=sentence, editing=editing, origin=origin, code=code, tried=tried
        )

    # -- how it is drawn ----------------------------------------------------------------------------------------------

    async def _form(
        self,
        request: ConsoleRequest,
        typed: Mapping[str, list[str]],
        complaints: list[Complaint] = [],  # noqa: B006 (nobody changes it)
        preset: str = "",
        sentence: str = "",
        editing: str = "",
        origin: Collection | None = None,
        code: int = 200,
        tried: FormDryRun = FormDryRun(),  # noqa: B008 (nobody changes it)
    ) -> Response:
        """`origin`: whose long lists are kept."""
        _, usual = request.translator, form.default_form()
        kept = await asyncio.to_thread(form.long_lists, origin) if typed.get(form.KEPT) else {}
        wrong: dict[str, list[str]] = {}
        for one in complaints:
            said = _.render(one.message)
            wrong.setdefault(f"{one.section}.{one.key}".strip("."), []).append(said)
        sections: dict[str, list[FormFieldView]] = {}
        for field in collection_fields().values():
            long = kept.get(field.name, ()) if field.name in typed.get(form.KEPT, ()) else ()
            values = list(typed.get(field.name, [])), usual[field.name], wrong.pop(field.name, [])
            sections.setdefault(field.section, []).append(_field_view(field, *values, long, _))
        others = [sentence] * bool(sentence) + [message for messages in wrong.values() for message in messages]
        params = request.http.query_params
        return self._page(
            request, "console/collection_form.html", code, sections=sections, section_labels=SECTION_LABELS,
            others=others, editing=editing, preset=preset,
            revision=request.form.get("revision") or self._revision(editing),
            presets=presets.preset_titles(_.code), wish={name: params.get(name, "") for name in PRESET_PARAMS},
            count=len(complaints) + bool(sentence), copied="" if editing or origin is None else origin.name,
            tried=tried,
        )  # fmt: skip

    def _revision(self, name: str) -> int | str:
        """The current revision, to detect a concurrent edit when the form is sent."""
        status = self._coordinator.overview.status(name)
        return status.revision if status is not None else ""

    def _page(self, request: ConsoleRequest, template: str, code: int = 200, **values: Any) -> Response:
        return request.html(template, code, section="/console", **values)

    async def _config(self, name: str) -> Collection:
        return await self._coordinator.definitions.in_force(name)


def _typed_fields(request: ConsoleRequest) -> dict[str, list[str]]:
    """The typed values by field, without the form's own fields."""
    found: dict[str, list[str]] = {}
    for name, value in request.form.fields:
        if name not in NON_FIELD_NAMES:
            found.setdefault(name, []).append(value)
    return found


def _field_view(
    field: CollectionField,
    values: list[str],
    usual: list[str],
    wrong: list[str],
    long: tuple[str, ...],
    _: Translator,
) -> FormFieldView:
    label, help_text = FIELD_LABELS[field.name]
    choices = [(value, _.render(CHOICE_LABELS[field.name, value])) for value in field.choices]
    return FormFieldView(
        field,
        _.render(label),
        _.render(help_text),
        values,
        usual,
        wrong,
        choices,
        len(long),
        long[:ENTRIES_SHOWN],
    )
