"""Snapshots of parts of the index in the object store: a new owner of a part fetches the newest one.

A snapshot is a set of files, and a row of the manifest that names them. Each file is an object with the name of its
content, so that only files are sent that the store does not have: those of an index never change, they are merged.
Promises: a row is written after its objects, and only by the present first owner of the part: by the statement that
looks at the owner's epoch. A snapshot never goes back in the log. What no row names any more is removed only by that
owner, after its row: it was there before, so nobody else has just put it. Length and digest of what is fetched are
checked.
Knows nothing of the content of the files.
"""

import re
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

import msgspec
from xxhash import xxh3_128

from tarrafa.archive.segment_log.object_store import ObjectStore
from tarrafa.archive.segment_log.segment import LogIdentity, SegmentManifest
from tarrafa.errors import DataError, data_error_from_os
from tarrafa.i18n import message

TRANSFERS = 4
FILES_MAX = 10_000  # of a snapshot
CHUNK_BYTES = 8 << 20
FILE_NAME = re.compile(r"(?:[\w-][\w.-]*/)?\.?[\w-][\w.-]*", re.ASCII)


class SnapshotFile(msgspec.Struct, frozen=True, array_like=True):
    """A file of a snapshot: its path in the folder, its length, and the xxh3-128 of its content."""

    path: str
    size: int
    digest: bytes


class PartSnapshot(msgspec.Struct, frozen=True):
    """The files of a part, made with all that the log had up to `log_end`, an offset in its file of metadata.

    `deleted`: the collections that were dropped from them, each with the frontier's time of its deletion."""

    log_end: int
    files: list[SnapshotFile]
    deleted: dict[str, float] = {}

    @property
    def size(self) -> int:
        return sum(file.size for file in self.files)


class PublishedSnapshot(NamedTuple):
    """How much of a snapshot had to be sent."""

    snapshot: PartSnapshot
    sent_bytes: int
    requests: int


class PartOwner(NamedTuple):
    """The first owner of a part: the name of the node, and the epoch of its claim."""

    node: str
    epoch: int


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(PartSnapshot).decode


def remove_all_snapshots(manifest: SegmentManifest, log: LogIdentity) -> None:
    """Remove the snapshots of all parts: they may hold what was erased. The owners make new ones."""
    manifest.forget_part_snapshots()
    store = ObjectStore(log.store)
    if names := list(store.names(f"{log.id}/index/")):
        store.delete(names)


class SnapshotStore:
    """The snapshots of one part, such as `3-of-8`. Calls block."""

    def __init__(self, manifest: SegmentManifest, log: LogIdentity, part: str, number: int) -> None:
        self._manifest, self._store, self._part, self._number = manifest, ObjectStore(log.store), part, number
        self._prefix = f"{log.id}/index/{part}/"

    def owner(self, node: str) -> PartOwner | None:
        """This node as the first owner of the part, if it is that now."""
        epoch = self._manifest.first_owner_epoch(node, self._number)
        return PartOwner(node, epoch) if epoch is not None else None

    def newest(self) -> PartSnapshot | None:
        content = self._manifest.part_snapshot(self._part)
        try:
            return _decode(content) if content is not None else None
        except msgspec.MsgspecError:
            raise DataError(message("{part}: the row of the snapshot cannot be understood", part=self._part)) from None

    def publish(
        self, owner: PartOwner, folder: Path, log_end: int, deleted: dict[str, float]
    ) -> PublishedSnapshot | None:
        """Make the files of a folder the snapshot. None: the node does not own the part any more, or there is a newer
        one."""
        present = self.newest()
        if present is not None and present.log_end > log_end:
            return None
        before = set(self._store.names(self._prefix))
        paths = sorted(path for path in folder.rglob("*") if path.is_file())
        with ThreadPoolExecutor(TRANSFERS) as pool:
            files = list(pool.map(lambda path: _describe(path, path.relative_to(folder).as_posix()), paths))
            new = {self._name(file): folder / file.path for file in files if self._name(file) not in before}
            list(pool.map(self._store.put_file, new.keys(), new.values()))
        snapshot = PartSnapshot(log_end, files, deleted)
        content = _encode(snapshot)
        if not self._manifest.put_part_snapshot(self._part, self._number, owner.node, owner.epoch, log_end, content):
            return None
        gone = sorted(before - {self._name(file) for file in files})
        if gone:
            self._store.delete(gone)
        sent = sum(path.stat().st_size for path in new.values())
        return PublishedSnapshot(snapshot, sent, len(new) + 2 + bool(gone))

    def fetch(self, snapshot: PartSnapshot, folder: Path) -> None:
        """Bring the files of a snapshot into a folder."""
        if len(snapshot.files) > FILES_MAX or not all(FILE_NAME.fullmatch(file.path) for file in snapshot.files):
            raise DataError(message("{part}: the snapshot has files that it cannot have", part=self._part))
        with ThreadPoolExecutor(TRANSFERS) as pool:
            list(pool.map(lambda file: self._fetch_file(file, folder / file.path), snapshot.files))

    def _fetch_file(self, file: SnapshotFile, path: Path) -> None:
        name, digest = self._name(file), xxh3_128()
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            with path.open("wb") as target:
                for start in range(0, file.size, CHUNK_BYTES):
                    chunk = self._store.get_part(name, start, min(CHUNK_BYTES, file.size - start))
                    digest.update(chunk)
                    target.write(chunk)
        except OSError as error:
            raise data_error_from_os(error, path) from None
        if digest.digest() != file.digest:
            raise DataError(
                message(
                    "{store}/{name}: damaged: its bytes are not those that were written",
                    store=self._store.url,
                    name=name,
                )
            )

    def _name(self, file: SnapshotFile) -> str:
        return f"{self._prefix}{file.digest.hex()}"


def _describe(path: Path, name: str) -> SnapshotFile:
    digest, size = xxh3_128(), 0
    with path.open("rb") as file:
        while chunk := file.read(CHUNK_BYTES):
            digest.update(chunk)
            size += len(chunk)
    return SnapshotFile(name, size, digest.digest())
