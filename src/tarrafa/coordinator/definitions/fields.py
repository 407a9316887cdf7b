"""The form fields of a collection, derived from the configuration types.

Drawn from the types of `config`: a key that is added there is a field here. A form shows the basic ones first; what
each is called, and what it is for, `words` says in every language.
Knows nothing of HTML.
"""

from functools import cache
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin

import msgspec

from tarrafa.config import Collection
from tarrafa.config.formats import ByteSize, LocalDateTime, Seconds

FieldKind = Literal["text", "lines", "pairs", "number", "duration", "size", "choice", "choices", "switch", "date"]
FILE_ONLY_FIELDS = frozenset({"roots_file", "network.ca_file"})  # they name files of the machine that reads them
BASIC_FIELDS = frozenset({
    "name", "roots", "scope.hosts", "scope.include", "scope.exclude", "scope.depth_max", "scope.pages_max",
    "scope.keep", "scope.languages", "politeness.delay", "politeness.contact", "revisit.policy", "schedule.start",
    "schedule.deadline", "schedule.every", "schedule.timezone", "notify.webhook", "notify.email",
})  # fmt: skip
_PLAIN: dict[type, FieldKind] = {
    str: "text",
    bool: "switch",
    int: "number",
    float: "number",
    Seconds: "duration",
    ByteSize: "size",
    LocalDateTime: "date",
}


class CollectionField(msgspec.Struct, frozen=True):
    """One thing that can be said. `choices` are those of its values that there are, if they are few and fixed."""

    name: str  # scope.depth_max
    section: str
    key: str  # within its section; may be deeper: weights.block
    kind: FieldKind
    basic: bool
    type: Any
    choices: tuple[str, ...] = ()
    whole: bool = False  # of a number: nothing behind the point


@cache
def collection_fields() -> dict[str, CollectionField]:
    """All of them by their names, in the order of the file."""
    found: dict[str, CollectionField] = {}
    for field in msgspec.structs.fields(Collection):
        _collect(found, (field.name,), field.type)
    return found


def _collect(found: dict[str, CollectionField], path: tuple[str, ...], kind: Any) -> None:
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
        for field in msgspec.structs.fields(kind):
            _collect(found, (*path, field.name), field.type)
        return
    name = ".".join(path)
    shown = _kind(kind)
    if shown is not None and name not in FILE_ONLY_FIELDS:
        section, key = (path[0], ".".join(path[1:])) if len(path) > 1 else ("", path[0])
        bare = _bare(kind)
        found[name] = CollectionField(
            name, section, key, shown, name in BASIC_FIELDS, kind, _choices(bare), bare is int
        )


def _kind(kind: Any) -> FieldKind | None:
    """How a value of that type is asked for; None: no form can."""
    kind = _bare(kind)
    origin, arguments = get_origin(kind), get_args(kind)
    if origin is Literal:
        return "choice"
    if origin is tuple:
        return "choices" if get_origin(arguments[0]) is Literal else "lines" if arguments[0] is str else None
    if origin is dict:
        return "pairs" if arguments[0] is str and arguments[1] in (str, Seconds, ByteSize) else None
    return _PLAIN.get(kind)


def _bare(kind: Any) -> Any:
    """Without the None that an absent key has."""
    if get_origin(kind) in (Union, UnionType):
        return next(one for one in get_args(kind) if one is not NoneType)
    return kind


def _choices(kind: Any) -> tuple[str, ...]:
    if get_origin(kind) is tuple:
        kind = get_args(kind)[0]
    return get_args(kind) if get_origin(kind) is Literal else ()
