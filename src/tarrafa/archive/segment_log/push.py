"""Pushes the archive of one machine into a segment log, so that a crawl of one machine can go on with several.

Each pair of files is cut into pieces, and each piece becomes a segment. A piece has whole visits: the metadata records
of some visits with all that follows them, and the exchanges of the same visits, so that a reader of a segment finds
both.
Promises: every durable record reaches the log once, in the order of its file, however often a push is killed: before a
piece is appended, `DATA/push.json` says which one, and the next push looks whether the manifest has it. The archive
that is pushed stays as it is.
"""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import msgspec

from tarrafa.archive.segment_log.object_store import ObjectStore
from tarrafa.archive.segment_log.segment import LogIdentity, NewSegment, SegmentManifest, put_segment
from tarrafa.archive.warc_reader import meta_path, scan_heads
from tarrafa.archive.warc_writer import METADATA, RESOURCE, RESPONSE, REVISIT, DurableLengths, read_durable
from tarrafa.errors import DataError
from tarrafa.i18n import message
from tarrafa.runtime.data_dir import DataDirectory, write_atomically

PIECE_BYTES = 8 << 20
CAPTURE_KINDS = frozenset({RESPONSE, REVISIT, RESOURCE})
OnBytesPushed = Callable[[int], None]


class PairPosition(msgspec.Struct, frozen=True):
    """A place in a pair of files."""

    warc: int = 0
    meta: int = 0


class Piece(NamedTuple):
    """What is between two places of a pair of files. `visits_size`: the end of its last visit, counted from the
    beginning of its meta part; 0: it has no visit."""

    start: PairPosition
    end: PairPosition
    visits_size: int


class PushState(msgspec.Struct):
    """DATA/push.json: which log, how far each pair of files is in it, and the piece that may have been appended
    last."""

    log: str
    files: dict[str, PairPosition] = msgspec.field(default_factory=dict)
    last: NewSegment | None = None
    last_file: str = ""
    last_end: PairPosition = PairPosition()


def cut_pair(
    archive: Path, file: str, durable: DurableLengths, start: PairPosition, piece_bytes: int = PIECE_BYTES
) -> Iterator[Piece]:
    """The pieces of a pair of files from a place on, which is the end of a piece."""
    ends = _exchange_ends(archive / f"{file}.warc.gz", durable.warc)
    warc_end, visits_end, is_visit = start.warc, 0, False
    for position, _, head in scan_heads(meta_path(archive, file), durable.meta):
        if position < start.meta or head.kind not in {METADATA, RESOURCE}:
            continue  # texts belong to the visit before them
        visits_end = position if is_visit else visits_end
        if max(warc_end - start.warc, position - start.meta) >= piece_bytes:
            end = PairPosition(warc_end, position)
            yield Piece(start, end, max(0, visits_end - start.meta))
            start = end
        is_visit = head.kind == METADATA
        if is_visit:
            warc_end = max(warc_end, ends.get((head.url, head.date), 0))
    end = PairPosition(durable.warc, durable.meta)
    if end != start:
        yield Piece(start, end, max(0, durable.visits_end - start.meta))


def _exchange_ends(path: Path, length: int) -> dict[tuple[str, str], int]:
    """Where each exchange ends, by URL and date, which are those of its visit: where the next one begins."""
    found, last = dict[tuple[str, str], int](), None
    for position, size, head in scan_heads(path, length):
        if head.kind in CAPTURE_KINDS:
            last = head.url, head.date
        if last is not None:
            found[last] = position + size
    return found


class ArchivePush:
    """One push. `worker`: the number under which this machine is registered at the frontier; `renew` renews that."""

    def __init__(
        self, data: DataDirectory, manifest: SegmentManifest, log: LogIdentity, worker: int, renew: Callable[[], None]
    ) -> None:
        self._data, self._manifest, self._log, self._worker, self._renew = data, manifest, log, worker, renew
        self._store, self._sequence = ObjectStore(log.store), 0
        self._path = data.root / "push.json"
        self._state = self._read_state()

    def unpushed_bytes(self) -> int:
        return sum(
            durable.warc + durable.meta - at.warc - at.meta
            for file, durable in self._pairs().items()
            for at in (self._state.files.get(file, PairPosition()),)
        )

    def run(self, tell: OnBytesPushed, piece_bytes: int = PIECE_BYTES) -> int:
        """Push everything that is not in the log; the number of segments."""
        before = self._sequence
        for file, durable in self._pairs().items():
            for piece in cut_pair(
                self._data.archive, file, durable, self._state.files.get(file, PairPosition()), piece_bytes
            ):
                self._push(file, piece)
                tell(piece.end.warc + piece.end.meta - piece.start.warc - piece.start.meta)
        self._save()
        return self._sequence - before

    def _pairs(self) -> dict[str, DurableLengths]:
        return {path.stem: read_durable(path) for path in sorted(self._data.archive.glob("*.durable"))}

    def _push(self, file: str, piece: Piece) -> None:
        self._sequence += 1
        warc = _read_part(self._data.archive / f"{file}.warc.gz", piece.start.warc, piece.end.warc)
        meta = _read_part(meta_path(self._data.archive, file), piece.start.meta, piece.end.meta)
        new = put_segment(self._store, self._log, self._worker, self._sequence, warc, meta, piece.visits_size)
        self._state.last, self._state.last_file, self._state.last_end = new, file, piece.end
        self._save()
        self._renew()
        self._manifest.append(new)
        self._state.files[file] = piece.end

    def _read_state(self) -> PushState:
        """The state, with the piece counted that a killed push may have appended."""
        try:
            state = msgspec.json.decode(self._path.read_bytes(), type=PushState)
        except FileNotFoundError:
            return PushState(self._log.id)
        except msgspec.MsgspecError as error:
            raise DataError(message("{path}: damaged ({error})", path=self._path, error=error)) from None
        if state.log != self._log.id:
            raise DataError(
                message("{path}: this archive was pushed into another log before; nothing was changed", path=self._path)
            )
        if state.last is not None and state.last.name in self._manifest.names(state.last.worker):
            state.files[state.last_file] = state.last_end
        return state

    def _save(self) -> None:
        write_atomically(self._path, msgspec.json.encode(self._state))


def _read_part(path: Path, start: int, end: int) -> bytes:
    if start == end:
        return b""
    with path.open("rb") as file:
        file.seek(start)
        return file.read(end - start)
