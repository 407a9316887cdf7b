"""Reads a collection file with its roots file, and encodes a collection for the frontier."""

import re
import tomllib
from pathlib import Path
from typing import NamedTuple

import msgspec

from tarrafa.config.sections import Collection
from tarrafa.config.table_decoder import Complaint, decode_stored, validate_table
from tarrafa.config.units import encode_quantity
from tarrafa.errors import ConfigError

ROOTS_MAX = 1_000_000
COMMENT = re.compile(r"(?:^|\s)#")  # a fragment has no space before it


class CollectionFile(NamedTuple):
    """A collection file: the collection as written, each root with its location, the base folder, and the errors. Roots
    are not yet URLs: this room does not parse URLs (`crawl/scope/collection_loader.py` does).
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


def encode_collection(collection: Collection) -> bytes:
    """The collection as the frontier stores it."""
    return msgspec.json.encode(collection, enc_hook=encode_quantity)


def decode_collection(content: bytes) -> Collection:
    """Decode the result of `encode_collection`. With a million roots it takes a second: then do not call it on an event
    loop.
    """
    return decode_stored(content)
