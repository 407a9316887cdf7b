"""How would a person write this collection down?

Promises: what is written, read again, is the same collection, exactly; what is as it would be anyway is left out;
durations and sizes have units. The file names nothing but what somebody may wish to change.
"""

from collections.abc import Mapping
from datetime import datetime
from decimal import Decimal
from typing import Any

import msgspec
import tomli_w

from tarrafa.config import UNITS_B, Collection, Moment, Seconds, Size, duration
from tarrafa.crawl.collection import hosts_of

_DURATIONS = (("days", 86_400), ("h", 3_600), ("min", 60), ("s", 1))  # the largest first
LINE_CHARS_MAX = 100  # of a list that stands in one line
_SIZES = ("GiB", "GB", "MiB", "MB", "KiB", "KB")


def duration_text(seconds: float) -> str:
    """`10 min`, `1.5 s`: what `duration` reads as exactly these seconds."""
    for unit, unit_s in _DURATIONS:
        if seconds >= unit_s and seconds % unit_s == 0:
            count = int(seconds // unit_s)
            return "1 day" if (count, unit) == (1, "days") else f"{count} {unit}"
    written = f"{round(seconds * 1000)} ms"
    return written if seconds < 1 and duration(written) == seconds != 0 else f"{plain_number(seconds)} s"


def size_text(number: int) -> str:
    """`2 MB`: what `size` reads as exactly these bytes."""
    for unit in _SIZES:
        count, rest = divmod(number, UNITS_B[unit.lower()])
        if count and not rest:
            return f"{count} {unit}"
    return f"{number} B"


def plain_number(number: float) -> str:
    """In digits, without an exponent, and with nothing behind the point where nothing is."""
    text = format(Decimal(repr(number)), "f")
    return text.rstrip("0").rstrip(".") if "." in text else text


def plain_value(value: Any) -> Any:
    """A value of a collection as it stands in a file."""
    if isinstance(value, Seconds):
        return duration_text(value)
    if isinstance(value, Size):
        return size_text(value)
    if isinstance(value, Moment):
        return datetime.fromisoformat(value)
    if isinstance(value, tuple):
        return [plain_value(one) for one in value]
    if isinstance(value, msgspec.Struct):
        return msgspec.structs.asdict(value)
    return {key: plain_value(one) for key, one in value.items()} if isinstance(value, dict) else value


def as_written(collection: Collection) -> Collection:
    """Without the hosts, where they are just those of the roots: whoever adds a root means its host, too."""
    scope = collection.scope
    if scope.hosts is None or scope.hosts != hosts_of(collection.roots):
        return collection
    return msgspec.structs.replace(collection, scope=msgspec.structs.replace(scope, hosts=None))


def table(collection: Collection) -> dict[str, Any]:
    """The collection as a table that TOML can hold."""
    return _differing(as_written(collection), Collection(name=""))


def _differing(struct: msgspec.Struct, usual: msgspec.Struct) -> dict[str, Any]:
    """What is not as usual. Where a section that is absent means something else than one that is empty ([revisit]), a
    key is left out only if both would give it that value."""
    empty = None if isinstance(struct, Collection) else type(struct)()
    found: dict[str, Any] = {}
    for field in msgspec.structs.fields(struct):
        value, default = getattr(struct, field.name), getattr(usual, field.name)
        if value is None or (value == default and (empty is None or value == getattr(empty, field.name))):
            continue
        if isinstance(value, msgspec.Struct):
            if inner := _differing(value, default):
                found[field.name] = inner
        else:
            found[field.name] = plain_value(value)
    return found


def toml(collection: Collection) -> str:
    """The collection as a file."""
    return tomli_w.dumps(table(collection))


def commented(content: Mapping[str, Any], comments: Mapping[str, str], above: str = "") -> str:
    """A table as a file, with a line of why above each key that has one (by its name: scope.depth_max)."""
    lines = [f"# {line}".rstrip() for line in above.splitlines()]
    sections = {key: value for key, value in content.items() if isinstance(value, dict)}
    for key, value in content.items():
        if key not in sections:
            lines += [*_why(comments.get(key)), _entry(key, value)]
    for section, values in sections.items():
        lines += ["", *_why(comments.get(section)), f"[{section}]"]
        for key, value in values.items():
            lines += [*_why(comments.get(f"{section}.{key}")), _entry(key, value)]
    return "\n".join(lines) + "\n"


def _why(text: str | None) -> list[str]:
    return [f"# {line}" for line in text.splitlines()] if text else []


def _entry(key: str, value: Any) -> str:
    """`key = value`, in one line where that is short enough."""
    if isinstance(value, dict):
        inner = ", ".join(tomli_w.dumps({one: held}).rstrip() for one, held in value.items())  # amounts and texts only
        return f"{key} = {{{inner}}}"
    written = tomli_w.dumps({"x": value}).removeprefix("x = ").rstrip()
    if isinstance(value, list):
        line = f"[{', '.join(tomli_w.dumps({'x': one}).removeprefix('x = ').rstrip() for one in value)}]"
        written = line if len(line) <= LINE_CHARS_MAX else written
    return f"{key} = {written}"
