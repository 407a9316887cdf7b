"""Creates and edits collections from drafts, and adds roots.

The same for all doors: a form, a file, a program. Promises: what is wrong is `Unfit`, each complaint at its key, and
changes nothing; who edits hears what changed.
"""

import asyncio
from collections.abc import Sequence

import msgspec

from tarrafa.config import Collection, Complaint, complaint_from_message
from tarrafa.coordinator.coordinator import Coordinator
from tarrafa.coordinator.definitions import draft as drafts
from tarrafa.coordinator.definitions.draft import Draft, FieldChange, InvalidDraft
from tarrafa.coordinator.definitions.toml_writer import table_from_collection
from tarrafa.coordinator.dry_run.scope_check import check_urls
from tarrafa.errors import ConfigError, EditConflict
from tarrafa.i18n import message

AUDIT_CHARS_MAX = 300


async def create_collection(coordinator: Coordinator, draft: Draft, who: str, *, start: bool) -> Collection:
    """A new collection."""
    collection = draft.require_valid()
    try:
        await coordinator.actions.create(collection, who, start=start)
    except ConfigError as error:  # its name is taken
        raise InvalidDraft([complaint_from_message(error.message)]) from None
    return collection


async def edit_collection(
    coordinator: Coordinator, before: Collection, draft: Draft, who: str, revision: int | None = None
) -> list[FieldChange]:
    """Another configuration of one that is there; what is different now. `revision`: of what was edited."""
    collection = draft.require_valid()
    try:
        await coordinator.actions.edit(before.name, collection, who, revision)
    except EditConflict as error:
        raise InvalidDraft([Complaint("", "", error.message)]) from None
    return await asyncio.to_thread(drafts.changed_fields, before, collection)


async def add_roots(coordinator: Coordinator, name: str, urls: Sequence[str], who: str) -> Collection:
    """More places to begin. Where nobody named hosts, theirs are in scope from now on; where somebody did, or excluded
    something, what the rules leave out is refused: nothing would come of it."""

    def longer(before: Collection) -> Collection:
        new = [url for url in urls if url not in before.root_set]
        if not new:
            return before
        after = drafts.draft_from_table(
            {**table_from_collection(before), "roots": [*before.roots, *new]}, before
        ).require_valid()
        rules = msgspec.structs.replace(after, roots=before.roots)  # a root itself is always in, whatever it links to
        outside = [one for one in check_urls(rules, new) if not one.inside]
        if outside:
            raise InvalidDraft(
                [
                    Complaint(
                        "", "roots", message("roots: {url} is out: {sentence}", url=one.url, sentence=one.sentence)
                    )
                    for one in outside
                ]
            )
        return after

    return await coordinator.actions.amend(name, longer, who)


def changes_for_audit(changes: Sequence[FieldChange]) -> str:
    """The keys that changed, for the audit."""
    keys = "; ".join(f"[{one.section}] {one.key}" if one.section else one.key for one in changes)
    return keys[:AUDIT_CHARS_MAX]


def complaints_for_audit(complaints: Sequence[Complaint]) -> str:
    """The keys that are wrong, for the audit: never what was written there."""
    return "; ".join(f"[{one.section}] {one.key}".removeprefix("[] ") for one in complaints)[:AUDIT_CHARS_MAX]
