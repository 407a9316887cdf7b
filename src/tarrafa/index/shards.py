"""Shard layout of the index: how many parts it has, and which part holds a host.

An index may have several parts, its *shards*, on one machine or on many, each with a folder, a lock and a follower.
Promises: the part of a page is the xxh3-64 of its host's name modulo the number of parts, counted from 1: the same on
every machine and in every version. The layout is stored in DATA/index/shards (`4`; `1,2/4` where others are elsewhere;
`owned 1,2?/4` where leases say which parts are here, and part 2 does not have all its pages yet: `part_ownership`;
`owned 1,2?/4x2` where each part is on two machines);
without that file there is one part, in DATA/index itself. Of several, each is in DATA/index/NUMBER-of-ALL, so that
parts of another layout are never mixed up with the present ones. A rebuilt index grows in DATA/index/new, and is not
searched before it is complete. Knows nothing of the content of a part.
"""

import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from xxhash import xxh3_64_intdigest

from tarrafa.errors import ConfigError, DataError, data_error_from_os
from tarrafa.index import index_state, schema
from tarrafa.parse.url import host_name
from tarrafa.runtime.data_dir import DataDirectory, write_atomically

SHARDS_MAX = 64
NEW_FOLDER = "new"
PART_NAME = re.compile(rf"(?:{NEW_FOLDER}/)?(\d+)-of-(\d+)")
OWNED = "owned"
REPLICAS_MAX = 2
LAYOUT_SYNTAX = (
    f"the number of parts (1 to {SHARDS_MAX}), as in 4; the parts kept here, as in 1,2/4 or 1-2/4; or {OWNED}/4, where"
    f" machines with a shared archive divide them among themselves ({OWNED}/4x2: each part is on two machines)"
)

UrlFilter = Callable[[str], bool]


class ShardLayout(NamedTuple):
    """The number of parts in all, and the numbers of those that are kept here. `is_owned`: those that this node owns at
    present, and on how many nodes each part is (`replicas`); `building`: those that do not have all pages yet."""

    of: int
    here: tuple[int, ...]
    is_owned: bool = False
    building: tuple[int, ...] = ()
    replicas: int = 1

    def __str__(self) -> str:
        if not self.is_owned and self.here == tuple(range(1, self.of + 1)):
            return str(self.of)
        here = ",".join(f"{number}{'?' * (number in self.building)}" for number in self.here)
        copies = f"x{self.replicas}" if self.replicas > 1 else ""
        return f"{OWNED} {here}".strip() + f"/{self.of}{copies}" if self.is_owned else f"{here}/{self.of}"

    @property
    def at_first(self) -> "ShardLayout":
        """The layout of a new index: nothing is owned yet."""
        return self._replace(here=(), building=()) if self.is_owned else self

    @property
    def complete(self) -> tuple[int, ...]:
        return tuple(number for number in self.here if number not in self.building)


SINGLE_SHARD = ShardLayout(1, (1,))


def parse_layout(text: str, where: str) -> ShardLayout:
    """Parse a layout from the command line or the file."""
    numbers, slash, of = text.strip().rpartition("/")
    of, times, copies = of.partition("x")
    if times and not (numbers.strip().startswith(OWNED) and copies in map(str, range(1, REPLICAS_MAX + 1))):
        raise ConfigError(f"{where}: {text[:80]!r}: must be {LAYOUT_SYNTAX}")
    if not (of.isascii() and of.isdigit() and len(of) <= 2 and 1 <= int(of) <= SHARDS_MAX):
        raise ConfigError(f"{where}: {text[:80]!r}: must be {LAYOUT_SYNTAX}")
    is_owned = numbers.strip().startswith(OWNED)
    numbers = numbers.strip().removeprefix(OWNED)
    here, building = set[int](), set[int]()
    for one in [] if is_owned and not numbers else numbers.split(",") if slash else [f"1-{of}"]:
        found = re.fullmatch(r"\s*(\d{1,2})(?:-(\d{1,2}))?(\??)\s*", one, re.ASCII)
        first, last = (int(found[1]), int(found[2] or found[1])) if found else (0, 0)
        if found is None or not 1 <= first <= last <= int(of) or (found[3] and not is_owned):
            raise ConfigError(f"{where}: {text[:80]!r}: must be {LAYOUT_SYNTAX}")
        here |= set(range(first, last + 1))
        building |= set(range(first, last + 1)) if found[3] else set()
    return ShardLayout(int(of), tuple(sorted(here)), is_owned, tuple(sorted(building)), int(copies or 1))


def path_of(data: DataDirectory) -> Path:
    return data.root / "index" / "shards"


def read_layout(data: DataDirectory) -> ShardLayout:
    """The layout of the index of a data directory."""
    path = path_of(data)
    try:
        text = path.read_text()
    except FileNotFoundError:
        return SINGLE_SHARD
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"{path}: cannot be read ({error})") from None
    try:
        return parse_layout(text, str(path))
    except ConfigError as error:
        raise DataError(f"{error}; `tarrafa rebuild index --shards N` makes it again") from None


def parts(data: DataDirectory) -> list[DataDirectory]:
    """The data directory of each part of the index that is kept here; of a part, itself."""
    if data.part:
        return [data]
    return parts_of(data, read_layout(data))


def parts_of(data: DataDirectory, divided: ShardLayout, beside: bool = False) -> list[DataDirectory]:
    """The same for a layout; `beside`: of the index that is to replace this one."""
    names = [""] if divided == SINGLE_SHARD else [f"{number}-of-{divided.of}" for number in divided.here]
    folder = NEW_FOLDER if beside else ""
    return [DataDirectory(data.root, "/".join(filter(None, (folder, name)))) for name in names]


def shard_number(url: str, of: int) -> int:
    """The number of the part that holds a page."""
    return xxh3_64_intdigest(host_name(url).encode()) % of + 1


def url_filter(data: DataDirectory) -> UrlFilter | None:
    """A function that tells whether a page is in this part; None: all pages are."""
    found = PART_NAME.fullmatch(data.part)
    if found is None:
        return None
    number, of = int(found[1]), int(found[2])
    return lambda url: shard_number(url, of) == number


def exists(data: DataDirectory) -> bool:
    """Whether this data directory has an index."""
    return any(map(schema.exists, parts(data)))


def set_layout(data: DataDirectory, wanted: ShardLayout) -> None:
    """Store a new layout, and remove the parts that are not in it. The caller holds DATA/lock."""
    write_layout(data, wanted)
    remove_stray_parts(data)


def write_layout(data: DataDirectory, wanted: ShardLayout) -> None:
    """Store a new layout: from now on, its parts are searched."""
    path = path_of(data)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        if wanted == SINGLE_SHARD:
            path.unlink(missing_ok=True)
        else:
            write_atomically(path, f"{wanted}\n".encode())
    except OSError as error:
        raise data_error_from_os(error, path) from None


def remove_stray_parts(data: DataDirectory) -> None:
    """Remove parts that are not kept here, and an unfinished rebuild. The caller holds DATA/lock."""
    remove_unfinished(data)
    folder, ours = path_of(data).parent, parts(data)
    for part in ours:
        schema.remove_leftovers(part)
    kept = {part.part for part in ours}
    there = {path.name for path in folder.iterdir() if PART_NAME.fullmatch(path.name)} if folder.is_dir() else ()
    for name in {"", *there} - kept:
        remove_part(DataDirectory(data.root, name))


def remove_part(part: DataDirectory) -> None:
    """Remove a part that nothing writes."""
    index_state.database_file(part).remove()
    schema.remove(part)
    if part.part:
        shutil.rmtree(part.index, ignore_errors=True)


def remove_unfinished(data: DataDirectory) -> None:
    """Remove an unfinished rebuild of the index."""
    shutil.rmtree(path_of(data).parent / NEW_FOLDER, ignore_errors=True)
