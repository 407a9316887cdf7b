"""Reads a collection from a file, a table or its stored form, and lists every error with its section and key.

An error has the same words wherever the table came from.
"""

import re
import tomllib
from collections.abc import Iterable
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from tarrafa.config.formats import decode_quantity, encode_quantity
from tarrafa.config.sections import Collection, UrlScoreWeights
from tarrafa.config.validation import (
    ERROR_PATH,
    KEY_CHARS_SHOWN,
    NAME_MISSING,
    UNKNOWN_KEY,
    explain_error,
    find_complaints,
    path_steps,
    type_at,
)
from tarrafa.errors import ConfigError
from tarrafa.i18n import Message, message

ROOTS_MAX = 1_000_000
COMMENT = re.compile(r"(?:^|\s)#")  # a fragment has no space before it
COMPLAINTS_MAX = 100  # in one table
COMPLAINT_LOCATION = re.compile(r"(?:\[(?P<section>\w+)\] )?(?P<key>\w+(?:\.\w+)?)?")
NESTED_KEYS = {f"weights.{field.name}" for field in msgspec.structs.fields(UrlScoreWeights)}


class Complaint(msgspec.Struct, frozen=True):
    """One error, with its section and key. Without `key` it is about the section or the whole table."""

    section: str
    key: str
    message: Message | str


class CollectionFile(NamedTuple):
    """A collection file: the collection as written, each root with its location, and the errors. Roots are not yet
    URLs: this room does not parse URLs (`crawl/scope/collection_loader.py` does).
    """

    collection: Collection | None
    roots: list[tuple[str, str]]
    complaints: list[Complaint]


def read_collection_file(path: Path) -> CollectionFile:
    try:
        table = tomllib.loads(read_user_file(path))
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{path}: not valid TOML: {error}") from None
    collection, wrong = validate_table(table)
    if collection is None:
        return CollectionFile(None, [], wrong)
    roots = roots_with_locations(collection)
    if collection.roots_file is not None:
        listed = path.parent / collection.roots_file
        try:
            lines = read_user_file(listed).splitlines()
        except ConfigError as error:
            raise ConfigError(f"{path}: roots_file: {error}") from None
        for number, line in enumerate(lines, 1):
            root = COMMENT.split(line, maxsplit=1)[0].strip()
            if root:
                roots.append((root, f"{collection.roots_file}:{number}"))
    return CollectionFile(collection, roots, wrong)


def roots_with_locations(collection: Collection) -> list[tuple[str, str]]:
    """The roots written in the collection itself, each with its location."""
    return [(root, f"roots[{number}]") for number, root in enumerate(collection.roots)]


def read_user_file(path: Path) -> str:
    """The text of a file that the user named."""
    try:
        return path.read_text(encoding="utf-8-sig")
    except FileNotFoundError:
        raise ConfigError(f"{path}: no such file") from None
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: cannot be read: {error}") from None


_STORED_DECODER = msgspec.json.Decoder(Collection, dec_hook=decode_quantity)


def encode_collection(collection: Collection) -> bytes:
    """The collection as the frontier stores it."""
    return msgspec.json.encode(collection, enc_hook=encode_quantity)


def decode_collection(content: bytes) -> Collection:
    """Decode a stored collection. A million roots take a second: do not call it on an event loop then."""
    try:
        collection = _STORED_DECODER.decode(content)
        complaint = next(find_complaints(collection, is_stored=True), None)
    except msgspec.ValidationError as error:
        complaint = explain_error(error)
    if complaint is not None:
        raise ConfigError(message("{where}: {complaint}", where="stored collection", complaint=complaint))
    return collection


def validate_table(table: dict[str, Any]) -> tuple[Collection | None, list[Complaint]]:
    """All errors of a table: the first error of each key, then the broken rules; and the collection without the keys of
    wrong types. None if too much is wrong.
    """
    rest = {key: dict(value) if isinstance(value, dict) else value for key, value in table.items()}
    found: list[Complaint] = []
    while len(found) < COMPLAINTS_MAX:
        try:
            collection = msgspec.convert(rest, Collection, dec_hook=decode_quantity)
        except msgspec.ValidationError as error:
            found.append(_remove_cause(rest, error))
            continue
        return collection, merge_complaints(found, map(complaint_from_message, find_complaints(collection)))
    return None, found


def collection_from_table(table: dict[str, Any], where: str) -> Collection:
    """A valid collection from a TOML or JSON table; `where` precedes the message of the first error."""
    collection, complaints = validate_table(table)
    if collection is None or complaints:
        raise ConfigError(message("{where}: {complaint}", where=where, complaint=complaints[0].message))
    return collection


def merge_complaints(found: list[Complaint], more: Iterable[Complaint]) -> list[Complaint]:
    """The complaints, and further ones about other keys."""
    named = {(one.section, one.key) for one in found}
    others = (one for one in more if (one.section, one.key) not in named)
    return [*found, *islice(others, max(0, COMPLAINTS_MAX - len(found)))]


def complaint_from_message(complaint: Message | str) -> Complaint:
    """Split the location from a message: `[section] key: what`, or `key: what`."""
    match = COMPLAINT_LOCATION.match(str(complaint))
    section, key = (match["section"] or "", match["key"] or "") if match else ("", "")
    sections = {field.name: field.type for field in msgspec.structs.fields(Collection)}
    holder = sections.get(section) if section else Collection
    keys = {field.name for field in msgspec.structs.fields(holder)} if holder is not None else set()
    first, _, second = key.partition(".")
    return Complaint(section, key if f"{first}.{second}" in NESTED_KEYS else first if first in keys else "", complaint)


def _remove_cause(rest: dict[str, Any], error: msgspec.ValidationError) -> Complaint:
    """msgspec's error; the wrong value is removed from the table, so that the next error can be found."""
    match = ERROR_PATH.match(str(error))
    assert match is not None
    steps = [step.partition("[")[0] for step in path_steps(match["path"])]
    complaint = explain_error(error, rest)
    if complaint == NAME_MISSING:
        rest["name"] = "a"
        return Complaint("", "name", complaint)
    held = rest
    for step in steps if UNKNOWN_KEY.match(match["what"]) else steps[:-1]:
        held[step] = held = dict(held[step])
    if UNKNOWN_KEY.match(match["what"]):
        known = {field.name for field in msgspec.structs.fields(type_at(steps))}
        steps.append(next(key for key in held if key not in known))
    del held[steps[-1]]
    section, key = (steps[0], ".".join(steps[1:])) if len(steps) > 1 else ("", steps[0])
    return Complaint(section, key[:KEY_CHARS_SHOWN], complaint)
