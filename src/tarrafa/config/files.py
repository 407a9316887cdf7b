"""A collection as a file of the user's, and as the frontier keeps it."""

import re
import tomllib
from pathlib import Path
from typing import NamedTuple

import msgspec

from tarrafa.config.amounts import plain_amount
from tarrafa.config.converting import Complaint, examine, stored
from tarrafa.config.sections import Collection
from tarrafa.errors import ConfigError

ROOTS_MAX = 1_000_000
COMMENT = re.compile(r"(?:^|\s)#")  # a fragment has no space before it


class Read(NamedTuple):
    """A collection file: the collection as written, each root with its place, seen from there, and what is wrong. Roots
    are not yet URLs: what a URL is, is not known here (`crawl/collection.py` goes on)."""

    collection: Collection | None
    roots: list[tuple[str, str]]
    complaints: list[Complaint]


def read(path: Path) -> Read:
    try:
        table = tomllib.loads(read_text(path))
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{path}: not valid TOML: {error}") from None
    collection, wrong = examine(table)
    if collection is None:
        return Read(None, [], wrong)
    roots = listed_roots(collection)
    if collection.roots_file is not None:
        listed = path.parent / collection.roots_file
        try:
            lines = read_text(listed).splitlines()
        except ConfigError as error:
            raise ConfigError(f"{path}: roots_file: {error}") from None
        for number, line in enumerate(lines, 1):
            root = COMMENT.split(line, maxsplit=1)[0].strip()
            if root:
                roots.append((root, f"{collection.roots_file}:{number}"))
    return Read(collection, roots, wrong)


def listed_roots(collection: Collection) -> list[tuple[str, str]]:
    """Those that stand in the collection itself, each with its place."""
    return [(root, f"roots[{number}]") for number, root in enumerate(collection.roots)]


def read_text(path: Path) -> str:
    """What stands in a file of the user's."""
    try:
        return path.read_text(encoding="utf-8-sig")
    except FileNotFoundError:
        raise ConfigError(f"{path}: no such file") from None
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: cannot be read: {error}") from None


def encode(collection: Collection) -> bytes:
    """As the frontier keeps it."""
    return msgspec.json.encode(collection, enc_hook=plain_amount)


def decode(content: bytes) -> Collection:
    """What `encode` wrote. With a million roots it takes a second: then not on a loop."""
    return stored(content)
