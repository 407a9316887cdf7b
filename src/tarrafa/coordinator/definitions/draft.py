"""A draft of a collection from a form, TOML text or table: its validation, and the changes against a former version.

Promises: one validation for all three; a draft has a complete collection or all complaints, each at its key; nothing is
stored or changed here.
"""

import tomllib
from collections.abc import Iterator
from operator import attrgetter
from typing import Any

import msgspec

from tarrafa.config import Collection, Complaint, merge_complaints
from tarrafa.config.formats import redact_url
from tarrafa.coordinator.definitions.fields import FILE_ONLY_FIELDS, collection_fields
from tarrafa.coordinator.definitions.form import FORM_CHARS_MAX, FormData, table_from_form
from tarrafa.coordinator.definitions.toml_writer import format_number, toml_value, without_implied_hosts
from tarrafa.crawl.scope.collection_loader import validate_table
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


class FieldChange(msgspec.Struct, frozen=True):
    """A key that changed, with its values as people write them; empty: absent. Of a list, also the first entries that
    were added and removed."""

    section: str
    key: str
    before: str
    after: str
    added: list[str] = []
    removed: list[str] = []


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
    collection, found = validate_table(table, before)
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


def changed_fields(before: Collection, after: Collection) -> list[FieldChange]:
    """What changed, in the order of the file; hosts that only follow from the roots are left out."""
    old, new = before, after
    if before.roots != after.roots or before.scope.hosts != after.scope.hosts:
        old, new = without_implied_hosts(before), without_implied_hosts(after)
    changes = []
    for name in [*collection_fields(), *sorted(FILE_ONLY_FIELDS)]:
        was, now = attrgetter(name)(old), attrgetter(name)(new)
        if was != now or (isinstance(was, dict) and list(was) != list(now)):
            section, _, key = name.rpartition(".") if name.count(".") < 2 else name.partition(".")
            entries, others = dict.fromkeys(_entries(was)), dict.fromkeys(_entries(now))
            added = [one for one in others if one not in entries][:ENTRIES_SHOWN]
            removed = [one for one in entries if one not in others][:ENTRIES_SHOWN]
            shown = redact_url if name in REDACTED_FIELDS else _shown
            changes.append(FieldChange(section, key, shown(was), shown(now), added, removed))
    return changes


def _entries(value: Any) -> list[str]:
    if isinstance(value, dict):
        return [f"{key} = {_shown(one)}" for key, one in value.items()]
    return list(value) if isinstance(value, tuple) else []


def _shown(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, tuple | dict):
        text = ", ".join(_entries(value))
    else:
        plain = toml_value(value)
        text = plain.isoformat() if hasattr(plain, "isoformat") else plain
        text = text if isinstance(text, str) else format_number(text)
    return text if len(text) <= VALUE_CHARS_SHOWN else f"{text[:VALUE_CHARS_SHOWN]}…"
