"""Creates and edits collections from drafts, and adds roots.

Promises: the same for a form, a file and a program; an invalid draft is `InvalidDraft`, with each complaint at its key,
and changes nothing.
"""

import asyncio
from collections.abc import Sequence

import msgspec

from tarrafa.config import Collection, Complaint, complaint_from_message
from tarrafa.coordinator.coordinator import Coordinator
from tarrafa.coordinator.definitions import draft as drafts
from tarrafa.coordinator.definitions.draft import Draft, InvalidDraft
from tarrafa.coordinator.definitions.toml_writer import table_from_collection
from tarrafa.coordinator.definitions.version_diff import FieldChange, changed_fields
from tarrafa.coordinator.dry_run.dry_run import check_urls
from tarrafa.errors import ConfigError, EditConflict
from tarrafa.i18n import message

AUDIT_CHARS_MAX = 300


async def create_collection(coordinator: Coordinator, draft: Draft, who: str, *, start: bool) -> Collection:
    collection = draft.require_valid()
    try:
        await coordinator.actions.create(collection, who, start=start)
    except ConfigError as error:  # its name is taken
        raise InvalidDraft([complaint_from_message(error.message)]) from None
    return collection


async def edit_collection(
    coordinator: Coordinator, before: Collection, draft: Draft, who: str, revision: int | None = None
) -> list[FieldChange]:
    """Replace the configuration `before`; returns the changes. `revision`: of what was edited."""
    collection = draft.require_valid()
    try:
        await coordinator.actions.edit(before.name, collection, who, revision)
    except EditConflict as error:
        raise InvalidDraft([Complaint("", "", error.message)]) from None
    return await asyncio.to_thread(changed_fields, before, collection)


async def add_roots(coordinator: Coordinator, name: str, urls: Sequence[str], who: str) -> Collection:
    """Add roots. Their hosts join the scope if it names no hosts; else a root that the scope leaves out is refused,
    because no page would follow from it."""

    def longer(before: Collection) -> Collection:
        new = [url for url in urls if url not in before.root_set]
        if not new:
            return before
        table = {**table_from_collection(before), "roots": [*before.roots, *new]}
        after = drafts.draft_from_table(table, before).require_valid()
        rules = msgspec.structs.replace(after, roots=before.roots)  # a root itself is always in scope
        outside = [
            Complaint("", "roots", message("roots: {url} is out: {sentence}", url=one.url, sentence=one.sentence))
            for one in check_urls(rules, new)
            if not one.inside
        ]
        if outside:
            raise InvalidDraft(outside)
        return after

    return await coordinator.actions.amend(name, longer, who)


def keys_for_audit(changes: Sequence[FieldChange | Complaint]) -> str:
    """The keys that changed or are wrong, for the audit: never their values."""
    return "; ".join(f"[{one.section}] {one.key}".removeprefix("[] ") for one in changes)[:AUDIT_CHARS_MAX]
