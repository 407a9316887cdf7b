"""Writes a collection as TOML, without defaults and with units.

Promises: what is written and read again is exactly the same collection; defaults are left out; durations and sizes
have units.
"""

from collections.abc import Mapping
from datetime import datetime
from decimal import Decimal
from typing import Any

import msgspec
import tomli_w

from tarrafa.config import Collection
from tarrafa.config.formats import BYTES_PER_UNIT, ByteSize, LocalDateTime, Seconds, parse_duration
from tarrafa.crawl.scope.collection_loader import host_patterns_of

_DURATIONS = (("days", 86_400), ("h", 3_600), ("min", 60), ("s", 1))  # the largest first
LINE_CHARS_MAX = 100  # of a list on one line
_SIZES = ("GiB", "GB", "MiB", "MB", "KiB", "KB")


def format_duration(seconds: float) -> str:
    """`10 min`, `1.5 s`: what `parse_duration` reads as exactly these seconds."""
    for unit, unit_s in _DURATIONS:
        if seconds >= unit_s and seconds % unit_s == 0:
            count = int(seconds // unit_s)
            return "1 day" if (count, unit) == (1, "days") else f"{count} {unit}"
    written = f"{round(seconds * 1000)} ms"
    return written if seconds < 1 and parse_duration(written) == seconds != 0 else f"{format_number(seconds)} s"


def format_size(number: int) -> str:
    """`2 MB`: what `parse_size` reads as exactly these bytes."""
    for unit in _SIZES:
        count, rest = divmod(number, BYTES_PER_UNIT[unit.lower()])
        if count and not rest:
            return f"{count} {unit}"
    return f"{number} B"


def format_number(number: float) -> str:
    """In digits, without an exponent and without zeros at the end."""
    text = format(Decimal(repr(number)), "f")
    return text.rstrip("0").rstrip(".") if "." in text else text


def toml_value(value: Any) -> Any:
    """A value of a collection as a file has it."""
    if isinstance(value, Seconds):
        return format_duration(value)
    if isinstance(value, ByteSize):
        return format_size(value)
    if isinstance(value, LocalDateTime):
        return datetime.fromisoformat(value)
    if isinstance(value, tuple):
        return [toml_value(one) for one in value]
    if isinstance(value, msgspec.Struct):
        return msgspec.structs.asdict(value)
    return {key: toml_value(one) for key, one in value.items()} if isinstance(value, dict) else value


def without_implied_hosts(collection: Collection) -> Collection:
    """Without the hosts if they are just those of the roots: a root that is added brings its host."""
    scope = collection.scope
    if scope.hosts is None or scope.hosts != host_patterns_of(collection.roots):
        return collection
    return msgspec.structs.replace(collection, scope=msgspec.structs.replace(scope, hosts=None))


def table_from_collection(collection: Collection) -> dict[str, Any]:
    """The collection as a table that TOML can hold."""
    return _non_defaults(without_implied_hosts(collection), Collection(name=""))


def _non_defaults(struct: msgspec.Struct, usual: msgspec.Struct) -> dict[str, Any]:
    """The values that are not defaults. Where an absent section means something else than an empty one ([revisit]), a
    key is left out only if both give it that value."""
    empty = None if isinstance(struct, Collection) else type(struct)()
    found: dict[str, Any] = {}
    for field in msgspec.structs.fields(struct):
        value, default = getattr(struct, field.name), getattr(usual, field.name)
        if value is None or (value == default and (empty is None or value == getattr(empty, field.name))):
            continue
        if isinstance(value, msgspec.Struct):
            if inner := _non_defaults(value, default):
                found[field.name] = inner
        else:
            found[field.name] = toml_value(value)
    return found


def collection_to_toml(collection: Collection) -> str:
    return tomli_w.dumps(table_from_collection(collection))


def toml_with_comments(content: Mapping[str, Any], comments: Mapping[str, str], above: str) -> str:
    """A table as a file, with a comment above each key that has one (by its name: scope.depth_max)."""
    lines = [f"# {line}".rstrip() for line in above.splitlines()]
    sections = {key: value for key, value in content.items() if isinstance(value, dict)}
    for key, value in content.items():
        if key not in sections:
            lines += [*_comment_lines(comments.get(key)), _entry(key, value)]
    for section, values in sections.items():
        lines += ["", *_comment_lines(comments.get(section)), f"[{section}]"]
        for key, value in values.items():
            lines += [*_comment_lines(comments.get(f"{section}.{key}")), _entry(key, value)]
    return "\n".join(lines) + "\n"


def _comment_lines(text: str | None) -> list[str]:
    return [f"# {line}" for line in text.splitlines()] if text else []


def _entry(key: str, value: Any) -> str:
    """`key = value`, in one line where that is short enough."""
    written = tomli_w.dumps({"x": value}).removeprefix("x = ").rstrip()
    if isinstance(value, list):
        line = f"[{', '.join(tomli_w.dumps({'x': one}).removeprefix('x = ').rstrip() for one in value)}]"
        written = line if len(line) <= LINE_CHARS_MAX else written
    return f"{key} = {written}"
