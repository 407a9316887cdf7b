"""Erasure in a segment log: the bytes go from the store, and from the mirror of every machine.

One machine rewrites the segments concerned: each record that goes becomes a filler of the same length, each visit a
tombstone, so that no other record moves. New objects are put, then the row of the segment names them, then the old
objects are deleted; mirrors see that the row has changed, and fetch the bytes. Promises: killed at any moment, the
order is still due, and the next run does the rest; old objects that no row names are deleted by that run, or by any
machine's sweep of orphans. What a machine has derived from the log is made anew when `tarrafa compact` runs there.
"""

from bisect import bisect_left
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path

import msgspec

from tarrafa.archive.file_rewrite import ReadMember, read_members_of, record_id_of
from tarrafa.archive.fillers import FILLER, filler, padded_record
from tarrafa.archive.segment_log.log_mirror import LogMirror
from tarrafa.archive.segment_log.merge import another_machine_rewrites, merge_segments, replace_objects
from tarrafa.archive.segment_log.orphans import remove_retired
from tarrafa.archive.segment_log.segment import (
    LogIdentity,
    Segment,
    SegmentManifest,
    SegmentPart,
    is_merged,
)
from tarrafa.archive.segment_log.snapshot_store import remove_all_snapshots
from tarrafa.archive.warc_reader import meta_path, scan_heads
from tarrafa.archive.warc_writer import CONVERSION, METADATA, METADATA_TYPE, WARCINFO, DurableLengths, one_line
from tarrafa.captures import follower as captures
from tarrafa.captures.store import SAME_PAYLOAD_KIND, open_reader
from tarrafa.crawl.compaction.erase_orders import due_erasures
from tarrafa.crawl.compaction.erasure import ErasureChoice, erase_due, raise_if_collection_held
from tarrafa.crawl.compaction.shared_bodies import REFERENCES
from tarrafa.crawl.verify.verification import ProgressReporter
from tarrafa.errors import DataError
from tarrafa.i18n import message
from tarrafa.model import VisitRecord
from tarrafa.runtime.data_dir import DataDirectory
from tarrafa.runtime.sqlite import rows
from tarrafa.takedown import LegalHolds

ROWS_AT_ONCE = 1_000
RETIRED_AFTER_ERASURE_S = 0.0
_decode_visit = msgspec.json.Decoder(VisitRecord).decode


@dataclass(frozen=True, slots=True)
class SharedLog:
    """The segment log of a frontier. The caller holds DATA/lock."""

    data: DataDirectory
    manifest: SegmentManifest
    identity: LogIdentity

    def erase_due(self, progress: ProgressReporter, who: str, now: float) -> tuple[list[str], list[str]]:
        """Carry out the orders that are due, in the whole log: what was erased, and why something was not."""
        with LogMirror(self.data, self.manifest, self.identity) as mirror:
            _pull_all(mirror)  # with all orders, holds and visits

            def erase_records(choice: ErasureChoice, holds: LegalHolds) -> None:
                _refuse_shared_bodies(self.data, choice)
                _LogErasure(self, mirror, choice, holds, progress).run()

            found = erase_due(self.data, due_erasures(self.data, now), progress, who, now, erase_records)
            if found[0]:
                remove_all_snapshots(self.manifest, self.identity)  # this machine's parts are without it now
            with progress("merging segments", 0) as advance:
                merge_segments(mirror, self.manifest, self.identity, lambda: advance(1))
            remove_retired(mirror.store, self.manifest)
        return found


def _pull_all(mirror: LogMirror) -> None:
    while mirror.pull():
        pass


def _refuse_shared_bodies(data: DataDirectory, choice: ErasureChoice) -> None:
    """Raise if a record of another URL refers to a body that is to go: it cannot get longer where it is."""
    captures.catch_up(data)
    with closing(open_reader(data)) as index:
        for _, url, of in rows(index, REFERENCES, (SAME_PAYLOAD_KIND,)):
            if choice.covers(of) and not choice.covers(url):
                raise DataError(
                    message(
                        "{url}: its archived bytes are those of {of}, which is to be erased: order to erase both;"
                        " nothing was changed",
                        url=url,
                        of=of,
                    )
                )


class _LogErasure:
    """Rewrites the segments that have bytes to erase."""

    def __init__(
        self, log: SharedLog, mirror: LogMirror, choice: ErasureChoice, holds: LegalHolds, progress: ProgressReporter
    ) -> None:
        self._manifest, self._mirror, self._log = log.manifest, mirror, log.identity
        self._choice, self._holds, self._progress = choice, holds, progress
        self._paths = (
            log.data.archive / f"{log.identity.file}.warc.gz",
            meta_path(log.data.archive, log.identity.file),
        )

        self._looked = DurableLengths(0, 0, 0)  # up to where the log was looked through

    def run(self) -> None:
        """Again for what was appended meanwhile: such a visit may have been under way when the order was given."""
        while affected := list(self._affected()):
            numbers = {one.number for one in affected}
            with self._progress("rewriting segments", len(affected)) as advance:
                for segment in {one.name: one for one in affected if not one.note}.values():
                    self._rewrite(segment, numbers)
                    advance(1)
            _pull_all(self._mirror)

    def _affected(self) -> Iterator[Segment]:
        lengths = self._mirror.lengths
        with self._progress("looking for records to erase", lengths.warc + lengths.meta) as advance:
            warc = self._places(self._paths[0], lengths.warc, self._looked.warc)
            advance(lengths.warc)
            meta = self._without_tombstones(self._places(self._paths[1], lengths.meta, self._looked.meta))
            advance(lengths.meta)
        self._looked = lengths
        first = 1
        while (warc or meta) and (found := self._manifest.segments(first, ROWS_AT_ONCE)):
            yield from (one for one in found if _is_within(warc, one.warc) or _is_within(meta, one.meta))
            first = found[-1].number + 1

    def _places(self, path: Path, length: int, start: int) -> list[int]:
        """Where the records to erase begin."""
        return [
            position
            for position, _, head in scan_heads(path, length, start)
            if head.kind not in (WARCINFO, FILLER) and self._choice.covers(head.url)
        ]

    def _without_tombstones(self, places: list[int]) -> list[int]:
        """The places in the meta file that are still to be erased. Raises `HeldByLaw` for visits of a held
        collection."""
        kept = []
        with self._paths[1].open("rb") as stream:
            for place in places:
                member = next(read_members_of(stream, place, self._mirror.lengths.meta))
                if member.kind == METADATA:
                    visit = _decode_visit(member.content)
                    raise_if_collection_held(self._choice, self._holds, visit.collection)
                    if visit.removed == "erased":
                        continue
                kept.append(place)
        return kept

    def _rewrite(self, segment: Segment, numbers: set[int]) -> None:
        """Put new objects in the place of those of a segment, which may have other segments, too."""
        group = self._group(segment)
        if segment not in group:
            raise another_machine_rewrites()
        try:
            contents = self._mirror.download(group)
        except DataError:
            if self._group(segment) == group:
                raise
            raise another_machine_rewrites() from None
        contents = [
            (erased_content(warc, self._choice), erased_content(meta, self._choice)) if one.number in numbers
            else (warc, meta)
            for one, (warc, meta) in zip(group, contents, strict=True)
        ]  # fmt: skip
        replace_objects(self._mirror.store, self._manifest, self._log, group, contents, RETIRED_AFTER_ERASURE_S)

    def _group(self, segment: Segment) -> list[Segment]:
        if is_merged(segment.name):
            return self._manifest.merged_in(segment.name)
        return self._manifest.segments(segment.number, 1)


def _is_within(places: list[int], part: SegmentPart) -> bool:
    at = bisect_left(places, part.start)
    return at < len(places) and places[at] < part.end


def erased_content(content: bytes, choice: ErasureChoice) -> bytes:
    """The records of a part of a segment, with fillers and tombstones for those that go; of the same length."""
    found = list[bytes]()
    visit: ReadMember | None = None  # whose texts are being left out
    room = 0
    for member in read_members_of(BytesIO(content), 0, len(content)):
        if visit is not None and member.kind == CONVERSION:
            room += len(member.packed)
            continue
        if visit is not None:
            found.append(_tombstone(visit, choice, room))
            visit = None
        if member.kind in (WARCINFO, FILLER) or not choice.covers(member.url):
            found.append(member.packed)
        elif member.kind == METADATA and not _is_tombstone(member):
            visit, room = member, len(member.packed)
        elif member.kind == METADATA:
            found.append(member.packed)
        else:
            found.append(_filled(member, len(member.packed)))
    if visit is not None:
        found.append(_tombstone(visit, choice, room))
    rewritten = b"".join(found)
    assert len(rewritten) == len(content)
    return rewritten


def _is_tombstone(member: ReadMember) -> bool:
    return _decode_visit(member.content).removed == "erased"


def _tombstone(member: ReadMember, choice: ErasureChoice, room: int) -> bytes:
    """What stays of a visit, in the place of its record and its texts."""
    record = choice.rewrite_visit("", member, lambda: _decode_visit(member.content)).record
    headers = f"WARC-Target-URI: {one_line(member.url)}\r\nContent-Type: {METADATA_TYPE}\r\n"
    text = msgspec.json.encode(record)
    found = padded_record(METADATA, member.date, record_id_of(member), headers, text, room)
    return _filled(member, room) if found is None else found  # the bytes must go, even if the visit goes, too


def _filled(member: ReadMember, size: int) -> bytes:
    place_of = record_id_of(member)
    found = filler(size, member.date, place_of) or padded_record(FILLER, member.date, place_of, "", b"", size)
    if found is None:
        raise DataError(message("a record of {size} bytes is too short for a filler", size=str(size)))
    return found
