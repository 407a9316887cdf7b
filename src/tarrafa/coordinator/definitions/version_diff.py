"""Differences between two versions of a collection's configuration, field by field, as the console shows them.

Promises: values are cut, and secret ones redacted; of a list, what was added and removed.
"""

from operator import attrgetter
from typing import Any

import msgspec

from tarrafa.config import Collection
from tarrafa.config.formats import redact_url
from tarrafa.coordinator.definitions.fields import FILE_ONLY_FIELDS, collection_fields
from tarrafa.coordinator.definitions.toml_writer import format_number, toml_value, without_implied_hosts

VALUE_CHARS_SHOWN = 500
ENTRIES_SHOWN = 20  # of those added to a list, and of those removed
REDACTED_FIELDS = frozenset({"notify.webhook"})  # shown as scheme and host only


class FieldChange(msgspec.Struct, frozen=True):
    """A key that changed, with its values as people write them; empty: absent. Of a list, also the first entries that
    were added and removed."""

    section: str
    key: str
    before: str
    after: str
    added: list[str] = []
    removed: list[str] = []


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
