"""Converts an HTML form to a collection table and a collection to form values.

A form has a list of texts for each field, as browsers send them. Promises: every collection survives the way through a
form, exactly; an empty field means the default; an unknown field is refused; a text that cannot be read is passed on as
it is, so that its complaint is the same as for a file.

Lists have one entry per line. An entry that a line cannot hold (spaces around it, a line break in it) is written as a
JSON string; a single `-` is an empty list, where an absent one would mean something else. A list of more than
LIST_SHOWN_MAX entries is not sent: `kept` names it, and it stays as it is unless something is typed there.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from operator import attrgetter
from typing import Any

from msgspec.structs import replace

from tarrafa.config import Collection, Complaint
from tarrafa.config.validation import KEY_CHARS_SHOWN
from tarrafa.coordinator.definitions.fields import CollectionField, collection_fields
from tarrafa.coordinator.definitions.toml_writer import (
    format_number,
    table_from_collection,
    toml_value,
    without_implied_hosts,
)
from tarrafa.crawl.scope.collection_loader import ROOTS_MAX
from tarrafa.i18n import message

FORM_CHARS_MAX = 128 << 20  # a million roots
LINE_CHARS_MAX = 16_384
LINES_MAX = ROOTS_MAX
LIST_SHOWN_MAX = 1_000
KEPT = "kept"
NOTHING = "-"
YES, NO = "yes", "no"
_SWITCHES = {YES: True, NO: False, "on": True, "true": True, "1": True, "off": False, "false": False, "0": False}
PAIR, PAIRS = "*.a.br = 5s", {"network.connect_to": "*.test = 127.0.0.1:8090"}  # examples of a line
FormData = Mapping[str, Sequence[str]]


def table_from_form(
    form: FormData, before: Collection | None = None, origin: Collection | None = None
) -> tuple[dict[str, Any], list[Complaint]]:
    """The form as a table, and the complaints about the form itself. Values that no form shows stay as they are in
    `before`; long lists that are kept come from `origin`, the collection that is copied, or else from `before`."""
    found, wrong = _file_only_values(before), _refusal(form)
    if wrong is not None:
        return found, [wrong]
    complaints: list[Complaint] = []
    kept = long_lists(origin or before) if form.get(KEPT) else {}
    for field in collection_fields().values():
        try:
            value = _READ[field.kind](field, form.get(field.name, ()))
            if value is None and field.name in form.get(KEPT, ()):
                value = _kept_list(kept, field.name)
        except ValueError as error:
            place = f"[{field.section}] {field.key}".removeprefix("[] ")
            text = message("{place}: {complaint}", place=place, complaint=error.args[0])
            complaints.append(Complaint(field.section, field.key, text))
            continue
        if value is not None:
            _put(found, field, value)
    revisit = found.get("revisit")
    if revisit and "policy" not in revisit:  # in a file, a section without a policy has one
        revisit["policy"] = "never"
    return found, complaints


def form_from_collection(collection: Collection) -> dict[str, list[str]]:
    """What would have to be typed, for every field; an empty field has its default, or is `kept`."""
    written, usual, shown = without_implied_hosts(collection), Collection(name=""), dict[str, list[str]]()
    for field in collection_fields().values():
        value, default = attrgetter(field.name)(written), attrgetter(field.name)(usual)
        is_long = _is_long(field, value)
        if is_long:
            shown.setdefault(KEPT, []).append(field.name)
        shown[field.name] = [] if is_long or value == default else _WRITE[field.kind](value)
    return shown


def long_lists(collection: Collection | None) -> dict[str, tuple[str, ...]]:
    """The lists that are too long for a form, by the names of their fields."""
    if collection is None:
        return {}
    written = without_implied_hosts(collection)
    return {
        name: value
        for name, field in collection_fields().items()
        if _is_long(field, value := attrgetter(field.name)(written))
    }


def _is_long(field: CollectionField, value: Any) -> bool:
    return field.kind == "lines" and value is not None and len(value) > LIST_SHOWN_MAX


def _kept_list(kept: Mapping[str, tuple[str, ...]], name: str) -> list[str]:
    if name not in kept:
        raise ValueError(message("the list that was to be kept no longer exists; load the form again"))
    return list(kept[name])


def default_form() -> dict[str, list[str]]:
    """The defaults, as they would be typed."""
    usual = Collection(name="")
    return {
        name: [] if (value := attrgetter(field.name)(usual)) in (None, (), {}) else _WRITE[field.kind](value)
        for name, field in collection_fields().items()
    }


def _refusal(form: FormData) -> Complaint | None:
    """Why nothing of the form is read."""
    unknown = next((name for name in form if name not in collection_fields() and name != KEPT), None)
    if unknown is not None:
        name = unknown[:KEY_CHARS_SHOWN]
        return Complaint("", name, message("unknown field {unknown!r}", unknown=name))
    if sum(len(text) for texts in form.values() for text in texts) > FORM_CHARS_MAX:
        most = FORM_CHARS_MAX >> 20
        return Complaint("", "", message("the form holds more than the {most} million characters allowed", most=most))
    return None


def _file_only_values(before: Collection | None) -> dict[str, Any]:
    """The values that no form shows, as they were."""
    if before is None:
        return {}
    found: dict[str, Any] = {}
    without_lists = replace(before, roots=(), scope=replace(before.scope, hosts=None))
    for section, values in table_from_collection(without_lists).items():
        for key, value in values.items() if isinstance(values, dict) else ():
            name = f"{section}.{key}"
            if not any(one == name or one.startswith(f"{name}.") for one in collection_fields()):
                found.setdefault(section, {})[key] = value
    return found


def _put(found: dict[str, Any], field: CollectionField, value: Any) -> None:
    held = found
    *above, last = field.name.split(".")
    for step in above:
        held = held.setdefault(step, {})
    held[last] = value


# -- reading -----------------------------------------------------------------------------------------------------------


def _text(field: CollectionField, texts: Sequence[str]) -> str | None:
    text = "\n".join(texts).strip()
    return (_unquoted(text) if text.startswith('"') else text) or None


def _number(field: CollectionField, texts: Sequence[str]) -> int | float | str | None:
    text = _text(field, texts)
    if text is None:
        return None
    try:
        return int(text) if field.whole else float(text)
    except ValueError:
        return text


def _switch(field: CollectionField, texts: Sequence[str]) -> bool | str | None:
    """The last text counts: a form sends `no` and then, if the box is ticked, `yes`."""
    text = texts[-1].strip() if texts else ""
    return _SWITCHES.get(text.lower(), text) if text else None


def _lines(field: CollectionField, texts: Sequence[str]) -> list[str] | None:
    entries = _entries(texts)
    if entries == [NOTHING]:
        return []
    return [_unquoted(entry) if entry.startswith('"') else entry for entry in entries] or None


def _entries(texts: Sequence[str]) -> list[str]:
    entries = [line for text in texts for one in text.split("\n") if (line := one.strip())]
    if len(entries) > LINES_MAX:
        raise ValueError(message("{count} lines are more than the {most} allowed", count=len(entries), most=LINES_MAX))
    for number, entry in enumerate(entries, 1):
        if len(entry) > LINE_CHARS_MAX:
            most = LINE_CHARS_MAX
            raise ValueError(message("line {n} has more than the {most} characters allowed", n=number, most=most))
    return entries


def _pairs(field: CollectionField, texts: Sequence[str]) -> dict[str, str] | None:
    found: dict[str, str] = {}
    for entry in _entries(texts):
        key, value = _pair(entry, PAIRS.get(field.name, PAIR))
        if key in found:
            raise ValueError(message("{key!r} occurs twice", key=key[:KEY_CHARS_SHOWN]))
        found[key] = value
    return found or None


def _pair(entry: str, example: str) -> tuple[str, str]:
    key, _, rest = entry.partition("=")
    named, rest = key.strip(), entry[len(key) :]
    if entry.startswith('"'):
        try:
            _, end = json.JSONDecoder().raw_decode(entry)
        except (ValueError, RecursionError):
            end = len(entry)
        named, rest = _unquoted(entry[:end]), entry[end:].strip()
    elif not named:
        rest = ""
    if not rest.startswith("="):
        shown = entry[:KEY_CHARS_SHOWN]
        raise ValueError(
            message(
                "{shown!r}: write a host pattern and its value in each line, such as {example}",
                shown=shown,
                example=example,
            )
        )
    return named, rest[1:].strip()


def _unquoted(entry: str) -> str:
    try:
        found = json.loads(entry)
    except (ValueError, RecursionError):
        found = None
    # JSON can spell half a character (a surrogate), which no file can hold.
    if not isinstance(found, str) or any("\ud800" <= character <= "\udfff" for character in found):
        shown = entry[:KEY_CHARS_SHOWN]
        raise ValueError(
            message("{shown!r}: a text that begins with a quotation mark must end with one, as in JSON", shown=shown)
        )
    return found


_READ: dict[str, Callable[[CollectionField, Sequence[str]], Any]] = {
    "text": _text, "choice": _text, "duration": _text, "size": _text, "date": _text, "number": _number,
    "switch": _switch, "choices": _lines, "lines": _lines, "pairs": _pairs,
}  # fmt: skip


# -- writing -----------------------------------------------------------------------------------------------------------


def _line(text: str) -> str:
    """The text itself if it can be read back from a line, else as JSON."""
    is_plain = text == text.strip() and text not in ("", NOTHING) and not text.startswith('"') and "\n" not in text
    return text if is_plain else json.dumps(text)


def _key(text: str) -> str:
    return _line(text) if "=" not in text else json.dumps(text)


_WRITE: dict[str, Callable[[Any], list[str]]] = {
    "text": lambda value: [_line(value)] if value else [],
    "choice": lambda value: [value],
    "duration": lambda value: [toml_value(value)],
    "size": lambda value: [toml_value(value)],
    "date": lambda value: [str(value)],
    "number": lambda value: [str(value) if isinstance(value, int) else format_number(value)],
    "switch": lambda value: [YES if value else NO],
    "choices": lambda value: list(value) or [NOTHING],
    "lines": lambda value: ["\n".join(map(_line, value)) or NOTHING],
    "pairs": lambda value: ["\n".join(f"{_key(key)} = {toml_value(one)}" for key, one in value.items())],
}
