"""Is what somebody wrote a collection, and what has changed since the version before?

One validation for all doors: a form, the text of a file, a table from a program. Promises: a draft has a complete
collection, or all that is wrong with it, each complaint at its key; nothing is kept or changed here.
"""

import tomllib
from collections.abc import Iterator
from typing import Any

import msgspec

from tarrafa.config import Collection, Complaint, joined, without_secrets
from tarrafa.coordinate.fields import FILES_ONLY, fields
from tarrafa.coordinate.forms import FORM_CHARS_MAX, Form, table_of
from tarrafa.coordinate.writing import as_written, plain_number, plain_value
from tarrafa.crawl.collection import examine
from tarrafa.errors import ConfigError

VALUE_CHARS_SHOWN = 500
SENTENCE_CHARS_MAX = 1_000
ENTRIES_SHOWN = 20  # of what was added to a list, and of what was taken away
UNNAMED = "unnamed"
SECRET = frozenset({"notify.webhook"})  # addresses of which everybody sees scheme and host only


class Draft(msgspec.Struct, frozen=True):
    """What somebody wrote. Without a collection, the complaints say why."""

    collection: Collection | None
    complaints: list[Complaint] = []

    def fit(self) -> Collection:
        """The collection, or `Unfit`."""
        if self.collection is None:
            raise Unfit(self.complaints)
        return self.collection


class Unfit(ConfigError):
    """What somebody wrote is no collection; `complaints` say why, each at its key."""

    def __init__(self, complaints: list[Complaint]) -> None:
        super().__init__("; ".join(one.message for one in complaints)[:SENTENCE_CHARS_MAX])
        self.complaints = complaints


class Change(msgspec.Struct, frozen=True):
    """A key that is not what it was, its values as people write them; empty: not there. Of a list also what was added
    and taken away, the first of each."""

    section: str
    key: str
    before: str
    after: str
    added: list[str] = []
    removed: list[str] = []


def from_form(form: Form, before: Collection | None = None, origin: Collection | None = None) -> Draft:
    """`before`: what is in force, if a collection is edited; `origin`: what it is a copy of."""
    table, wrong = table_of(form, before, origin)
    draft = from_table(table, before)
    return Draft(None, joined(wrong, draft.complaints)) if wrong else draft


def to_try(form: Form, before: Collection | None = None, origin: Collection | None = None) -> Draft:
    """As `from_form`; but what is only tried needs no name yet."""
    is_named = any(text.strip() for text in form.get("name", ()))
    return from_form(form if is_named else {**form, "name": [UNNAMED]}, before, origin)


def from_toml(text: str, before: Collection | None = None) -> Draft:
    if len(text) > FORM_CHARS_MAX:
        return _refused(f"the text holds more than the {FORM_CHARS_MAX >> 20} million characters allowed")
    try:
        table = tomllib.loads(text.removeprefix("\ufeff"))
    except tomllib.TOMLDecodeError as error:
        return _refused(f"not valid TOML: {error}")
    except RecursionError:
        return _refused("not valid TOML: nested without end")
    return from_table(table, before)


def from_table(table: dict[str, Any], before: Collection | None = None) -> Draft:
    collection, found = examine(table, before)
    if collection is None:
        return Draft(None, found)
    fixed = [] if before is None else list(_unchangeable(before, collection))
    return Draft(None, fixed) if fixed else Draft(collection)


def _refused(why: str) -> Draft:
    return Draft(None, [Complaint("", "", why)])


def _unchangeable(before: Collection, after: Collection) -> Iterator[Complaint]:
    if after.name != before.name:
        yield Complaint("", "name", f"name: it was {before.name!r} and stays so; copy the collection to have another")
    for key in msgspec.structs.asdict(before.identity):
        was = getattr(before.identity, key)
        if getattr(after.identity, key) != was:
            said = (
                f"[identity] {key} is fixed when a collection is created ({str(was).lower()}); copy it to change that"
            )
            yield Complaint("identity", key, said)


def differences(before: Collection, after: Collection) -> list[Change]:
    """What changed, in the order of the file; the roots' hosts, where nobody names hosts, change with them unsaid."""
    old, new = before, after
    if before.roots != after.roots or before.scope.hosts != after.scope.hosts:
        old, new = as_written(before), as_written(after)
    changes = []
    for name in [*fields(), *sorted(FILES_ONLY)]:
        was, now = _value(old, name), _value(new, name)
        if was != now or (isinstance(was, dict) and list(was) != list(now)):
            section, _, key = name.rpartition(".") if name.count(".") < 2 else name.partition(".")
            entries, others = _entries(was), _entries(now)
            known, named = set(entries), set(others)
            added = [one for one in others if one not in known][:ENTRIES_SHOWN]
            removed = [one for one in entries if one not in named][:ENTRIES_SHOWN]
            shown = without_secrets if name in SECRET else _shown
            changes.append(Change(section, key, shown(was), shown(now), added, removed))
    return changes


def _value(collection: Collection, name: str) -> Any:
    value: Any = collection
    for step in name.split("."):
        value = getattr(value, step)
    return value


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
        plain = plain_value(value)
        text = plain.isoformat() if hasattr(plain, "isoformat") else plain
        text = text if isinstance(text, str) else plain_number(text)
    return text if len(text) <= VALUE_CHARS_SHOWN else f"{text[:VALUE_CHARS_SHOWN]}…"
