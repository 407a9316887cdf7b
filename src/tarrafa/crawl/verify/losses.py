"""Known losses: visits whose record no copy has, as a repair has noted them.

    DATA/quarantine/losses.jsonl    one line per visit, only appended to

The frontier still remembers these visits; a verification counts them, and reports them no more. Nothing is deleted.
"""

import os
from collections.abc import Iterable, Iterator
from pathlib import Path

import msgspec

from tarrafa.errors import write_errors
from tarrafa.runtime.data_dir import DataDirectory, sync_directory


class KnownLoss(msgspec.Struct, frozen=True, omit_defaults=True):
    """`kind`: of the finding."""

    kind: str
    collection: str
    url: str
    visit: int
    at: float  # when it was noted


def quarantine_folder(data: DataDirectory) -> Path:
    """Damaged bytes are kept here."""
    return data.root / "quarantine"


def _path(data: DataDirectory) -> Path:
    return quarantine_folder(data) / "losses.jsonl"


def read_losses(data: DataDirectory) -> Iterator[KnownLoss]:
    """The losses noted so far. An incomplete last line is passed over."""
    try:
        lines = _path(data).read_bytes().split(b"\n")
    except FileNotFoundError:
        return
    for line in lines[:-1]:
        yield msgspec.json.decode(line, type=KnownLoss)


def note_losses(data: DataDirectory, losses: Iterable[KnownLoss]) -> None:
    """Append losses that were not noted yet, durably."""
    known = {(one.kind, one.collection, one.url, one.visit) for one in read_losses(data)}
    lines = [
        msgspec.json.encode(one) + b"\n"
        for one in losses
        if (one.kind, one.collection, one.url, one.visit) not in known
    ]
    if not lines:
        return
    path = _path(data)
    with write_errors(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("ab") as file:
            content = path.read_bytes()
            file.truncate(content.rfind(b"\n") + 1)  # a kill has cut the last line
            file.write(b"".join(lines))
            file.flush()
            os.fsync(file.fileno())
        sync_directory(path.parent)
