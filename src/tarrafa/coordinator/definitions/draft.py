"""A draft of a collection from a form, TOML text or table: its validation.

Promises: one validation for all three; a draft has a complete collection or all complaints, each at its key; nothing is
stored or changed here.
"""

import tomllib
from collections.abc import Iterator
from typing import Any

import msgspec

from tarrafa.config import Collection, Complaint, merge_complaints
from tarrafa.coordinator.definitions.form import FORM_CHARS_MAX, FormData, table_from_form
from tarrafa.crawl.scope.collection_loader import complete_and_validate_table
from tarrafa.errors import ConfigError
from tarrafa.i18n import Message, message

VALUE_CHARS_SHOWN = 500
SENTENCE_CHARS_MAX = 1_000
ENTRIES_SHOWN = 20  # of those added to a list, and of those removed
UNNAMED = "unnamed"
REDACTED_FIELDS = frozenset({"notify.webhook"})  # shown as scheme and host only


class Draft(msgspec.Struct, frozen=True):
    """A collection, or the complaints that say why there is none."""

    collection: Collection | None
    complaints: list[Complaint] = []

    def require_valid(self) -> Collection:
        """The collection; `InvalidDraft` if there is none."""
        if self.collection is None:
            raise InvalidDraft(self.complaints)
        return self.collection


class InvalidDraft(ConfigError):
    """The draft is no collection; `complaints` say why, each at its key."""

    def __init__(self, complaints: list[Complaint]) -> None:
        super().__init__("; ".join(str(one.message) for one in complaints)[:SENTENCE_CHARS_MAX])
        self.complaints = complaints


def draft_from_form(form: FormData, before: Collection | None = None, origin: Collection | None = None) -> Draft:
    """`before`: the configuration in force, if a collection is edited; `origin`: the collection that is copied."""
    table, wrong = table_from_form(form, before, origin)
    draft = draft_from_table(table, before)
    return Draft(None, merge_complaints(wrong, draft.complaints)) if wrong else draft


def trial_draft_from_form(form: FormData, before: Collection | None = None, origin: Collection | None = None) -> Draft:
    """As `draft_from_form`, for a dry run: the name may be missing."""
    is_named = any(text.strip() for text in form.get("name", ()))
    return draft_from_form(form if is_named else {**form, "name": [UNNAMED]}, before, origin)


def draft_from_toml(text: str, before: Collection | None = None) -> Draft:
    if len(text) > FORM_CHARS_MAX:
        most = FORM_CHARS_MAX >> 20
        return _refused(message("the text holds more than the {most} million characters allowed", most=most))
    try:
        table = tomllib.loads(text.removeprefix("\ufeff"))
    except tomllib.TOMLDecodeError as error:
        return _refused(message("not valid TOML: {error}", error=error))
    except RecursionError:
        return _refused(message("not valid TOML: nested without end"))
    return draft_from_table(table, before)


def draft_from_table(table: dict[str, Any], before: Collection | None = None) -> Draft:
    collection, found = complete_and_validate_table(table, before)
    if collection is None:
        return Draft(None, found)
    fixed = [] if before is None else list(_immutable_changes(before, collection))
    return Draft(None, fixed) if fixed else Draft(collection)


def _refused(why: Message) -> Draft:
    return Draft(None, [Complaint("", "", why)])


def _immutable_changes(before: Collection, after: Collection) -> Iterator[Complaint]:
    if after.name != before.name:
        text = message("name: it was {name!r} and stays so; copy the collection to have another", name=before.name)
        yield Complaint("", "name", text)
    for key, was in msgspec.structs.asdict(before.identity).items():
        if getattr(after.identity, key) != was:
            text = message(
                "[identity] {key} is fixed when a collection is created ({was}); copy it to change that",
                key=key,
                was=str(was).lower(),
            )
            yield Complaint("identity", key, text)
