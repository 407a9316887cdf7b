"""Repair of the archive's files: marks, missing and damaged ranges, records in the wrong place or there twice.

A range is mended by the same range of a replica, if whole records with right digests fill it there. Without one,
damaged bytes are put aside and a gap takes their place; records that are whole but for their digest stay as they are.
Promises: nothing is deleted, see `gaps_and_quarantine`. A repair that is killed is simply run again.
"""

from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

from xxhash import xxh3_64_digest

from tarrafa.archive.warc_reader import meta_path
from tarrafa.archive.warc_writer import (
    CONVERSION,
    INFO_TYPE,
    METADATA,
    WARCINFO,
    DurableLengths,
    pack_record,
    read_durable,
    record_ids,
    warc_date,
)
from tarrafa.crawl.verify.archive_check import PRINCIPALS, belongs_to, stated_name
from tarrafa.crawl.verify.findings import Finding
from tarrafa.crawl.verify.gaps_and_quarantine import ArchivePatches
from tarrafa.crawl.verify.record_scan import ScannedRecord, is_whole, scan_records
from tarrafa.crawl.verify.verification import Verification
from tarrafa.errors import DataError
from tarrafa.index.schema import exchange
from tarrafa.runtime.data_dir import DataDirectory, replace_atomically

MARKS = ("mark-damaged", "mark-missing", "mark-beyond-file", "mark-behind", "file-missing")
DAMAGES = ("damaged-record", "zeroed-block", "unreadable-record", "wrong-digest")
REORDERED_BYTES_MAX = 64 << 20


@dataclass(slots=True)
class RepairLog:
    """What was done, and what could not be."""

    print_line: Callable[[str], None]
    done: list[str] = field(default_factory=list)
    left: list[str] = field(default_factory=list)

    def add(self, line: str) -> None:
        self.done.append(line)
        self.print_line(line)

    def leave(self, line: str) -> None:
        self.left.append(line)
        self.print_line(line)


class ArchiveRepair:
    """Mends what one verification has found in the archive. `replica`: a folder with copies of its files."""

    def __init__(self, data: DataDirectory, replica: Path | None, log: RepairLog, now: float) -> None:
        self._archive, self._replica, self._log = data.archive, _archive_of(replica), log
        self._patches, self._date = ArchivePatches(data), warc_date(now)
        self._replaced = set[str]()

    def mend(self, found: Verification) -> bool:
        """Mend the archive; whether anything was changed."""
        before = len(self._log.done)
        wrong = list(found.findings.all("wrong-file"))
        if self._restore_names(wrong):
            return True  # the marks may be right now
        self._restore_wrong_files(wrong)
        marks = defaultdict[str, set[str]](set)
        for finding in found.findings.all(*MARKS):
            if pair_of(finding.file) not in {pair_of(one.file) for one in wrong}:  # their marks may be right
                marks[pair_of(finding.file)].add(finding.kind)
        for name, kinds in marks.items():
            self._mend_pair(name, kinds)
        others = {pair_of(one.file) for one in wrong} | marks.keys()  # are looked at again, when those are right
        for finding in found.findings.all(*DAMAGES):
            if pair_of(finding.file) not in others and finding.file not in self._replaced:
                self._mend_range(finding)
        for file, offset, end in found.gaps:
            if self._copy_from_replica(self._archive / file, offset, end):
                self._log.add(f"{file}: the gap {offset:,} to {end:,} was filled from the replica")
        self._reorder({one.file for one in found.findings.all("misplaced-record")} if not marks else set())
        self._remove_duplicates(found)
        return len(self._log.done) > before

    # -- marks and whole files -------------------------------------------------------------------------------------

    def _mend_pair(self, name: str, kinds: set[str]) -> None:
        """Restore missing bytes from the replica; then make the mark say what is there."""
        mark = self._archive / f"{name}.durable"
        wanted = _durable(mark) or _durable(self._replica / mark.name if self._replica else None)
        restored = wanted is not None
        if wanted is not None:
            paths = ((self._archive / f"{name}.warc.gz", wanted.warc), (meta_path(self._archive, name), wanted.meta))
            for path, length in paths:
                restored &= self._restore_end(path, length)
        if restored and wanted is not None and "mark-behind" not in kinds:
            if _durable(mark) is None:
                self._patches.write_mark(mark, wanted)
                self._log.add(f"{mark.name}: restored from the replica")
            return
        self._make_mark(name, wanted if kinds <= {"mark-beyond-file", "file-missing"} else None)

    def _restore_end(self, path: Path, length: int) -> bool:
        """Restore the end of a file that is too short, from the replica; whether the file is as long as it must be."""
        size = path.stat().st_size if path.exists() else 0
        if size >= length and (size or not length):
            return True
        start = _whole_end(path, size)[0]
        other = self._replica / path.name if self._replica else None
        if other is None or not other.exists() or not is_whole(other, start, length):
            return False
        self._patches.replace(path, start, length, other, start)
        self._log.add(f"{path.name}: the bytes {start:,} to {length:,} were copied from the replica")
        return True

    def _make_mark(self, name: str, limit: DurableLengths | None) -> None:
        """Make the mark anew by the whole records that are there, up to the old mark, if that was right."""
        warc, meta, mark = self._archive / f"{name}.warc.gz", meta_path(self._archive, name), f"{name}.durable"
        if not warc.exists() and not meta.exists():
            if (self._archive / mark).exists():
                self._make_empty(warc)
                self._make_empty(meta)
            else:
                self._log.leave(f"{name}: all its files are missing, and no replica has them")
                return
        lengths = list[int]()
        for path, most in ((warc, limit.warc if limit else None), (meta, limit.meta if limit else None)):
            is_new = not path.exists()
            if is_new:
                self._make_empty(path)
            size = path.stat().st_size
            end, _ = _whole_end(path, size if most is None or is_new else min(size, most))
            self._patches.keep_tail(path, end)
            lengths.append(end)
        visits_end = _whole_end(meta, lengths[1])[1]
        durable = DurableLengths(lengths[0], lengths[1], visits_end)
        self._patches.write_mark(self._archive / mark, durable)
        self._log.add(f"{mark}: made anew, {durable.warc:,} and {durable.meta:,} bytes")

    def _make_empty(self, path: Path) -> None:
        """A file whose content is lost, with a first record only."""
        headers = f"Content-Type: {INFO_TYPE}\r\nWARC-Filename: {path.name}\r\n"
        content = b"software: Tarrafa\r\ndescription: the file that was here is lost\r\n"
        with replace_atomically(path) as file:
            file.write(pack_record(WARCINFO, self._date, next(record_ids()), headers, content))
        self._log.add(f"{path.name}: is lost; an empty one takes its place")

    def _restore_wrong_files(self, wrong: list[Finding]) -> None:
        for one in wrong:
            if self._replace_file(self._archive / one.file, is_other=True):
                self._log.add(f"{one.file}: was another file; the replica's took its place, it is in quarantine")
            else:
                self._log.leave(f"{one.file}: is another file, and no replica has it")

    def _restore_names(self, wrong: list[Finding]) -> bool:
        """Two files that have each other's names are exchanged; whether there were any."""
        before = len(self._log.done)
        says = {one.file: one.detail.removeprefix("it says that it is ") for one in wrong}
        for file, name in says.items():
            if says.get(name) == file and file < name and exchange(self._archive / file, self._archive / name):
                self._log.add(f"{file} and {name}: had each other's name, and were exchanged")
        return len(self._log.done) > before

    # -- ranges ----------------------------------------------------------------------------------------------------

    def _copy_from_replica(self, path: Path, offset: int, end: int) -> bool:
        other = self._replica / path.name if self._replica else None
        if other is None or not other.exists() or not is_whole(other, offset, end):
            return False
        with other.open("rb") as ours, path.open("rb") as theirs:
            ours.seek(offset)
            theirs.seek(offset)
            if ours.read(end - offset) == theirs.read(end - offset):
                return False
        self._patches.replace(path, offset, end, other, offset)
        return True

    def _replace_file(self, path: Path, *, is_other: bool = False) -> bool:
        """Replace a whole file by that of the replica, if that one is whole and has every sound record of ours, or ours
        is another file."""
        name, is_meta = pair_of(path.name), path.name.endswith(".meta.warc.gz")
        mark, other = self._archive / f"{name}.durable", self._replica / path.name if self._replica else None
        ours, theirs = _durable(mark), _durable(self._replica / mark.name if self._replica else None)
        if other is None or ours is None or theirs is None or not other.exists():
            return False
        length = theirs.meta if is_meta else theirs.warc
        if not is_whole(other, 0, length):
            return False
        has_all = is_other or _sound_records(path, ours.meta if is_meta else ours.warc) <= _sound_records(other, length)
        if not has_all or (is_other and stated_name(other) != path.name):
            return False
        self._patches.replace_file(path, other, length)
        durable = DurableLengths(
            ours.warc if is_meta else length, length if is_meta else ours.meta,
            theirs.visits_end if is_meta else ours.visits_end,
        )  # fmt: skip
        self._patches.write_mark(mark, durable)
        self._replaced.add(path.name)
        return True

    def _mend_range(self, finding: Finding) -> None:
        offset, end = finding.offset or 0, finding.end or 0
        path, where = self._archive / finding.file, f"{finding.file}: the bytes {offset:,} to {end:,}"
        if self._copy_from_replica(path, offset, end):
            self._log.add(f"{where} were copied from the replica")
        elif self._replace_file(path):
            self._log.add(f"{finding.file}: was replaced by that of the replica; the old one is in quarantine")
        elif finding.kind == "wrong-digest":
            self._log.leave(f"{where} are a record with a wrong digest, which no replica has otherwise; it was left")
        elif self._patches.make_gap(path, offset, end, self._date):
            self._log.add(f"{where} are damaged, and no replica has them; they are in quarantine, and a gap is there")
        else:
            self._log.leave(f"{where} are damaged, and too few for a gap; no replica has them")

    def _reorder(self, files: set[str]) -> None:
        """Put whole records back behind the ones that they belong to."""
        for file in sorted(files):
            path = self._archive / file
            size = path.stat().st_size
            for records in _disordered(list_places(path, size)):
                start, end = records[0].position, records[-1].end
                members = list[bytes]()
                with path.open("rb") as stream:
                    for one in _in_order(records):
                        stream.seek(one.position)
                        members.append(stream.read(one.length))
                self._patches.replace_bytes(path, start, b"".join(members))
                self._log.add(f"{file}: the records from {start:,} to {end:,} are in their order again")

    def _remove_duplicates(self, found: Verification) -> None:
        """A record that is an exact copy of an earlier one gives way to a gap."""
        for finding in found.findings.all("duplicate-record"):
            path, offset, end = self._archive / finding.file, finding.offset or 0, finding.end or 0
            first = found.expected.first_record(pair_of(finding.file), finding.file, offset)
            other = self._archive / first[0]
            with path.open("rb") as ours, other.open("rb") as theirs:
                ours.seek(offset)
                theirs.seek(first[1])
                is_copy = ours.read(end - offset) == theirs.read(end - offset)
            if is_copy and self._patches.make_gap(path, offset, end, self._date):
                self._log.add(f"{finding.file}: the copy at {offset:,} of the record at {first[1]:,} gave way to a gap")


def pair_of(file: str) -> str:
    """The name of the pair that a file belongs to."""
    return file.removesuffix(".durable").removesuffix(".warc.gz").removesuffix(".meta")


def _archive_of(replica: Path | None) -> Path | None:
    """The folder with the files of a replica: an archive, or a data directory."""
    if replica is None:
        return None
    return replica / "archive" if (replica / "archive").is_dir() else replica


def _durable(path: Path | None) -> DurableLengths | None:
    try:
        return read_durable(path) if path is not None else None
    except (OSError, DataError, ValueError):
        return None


def _sound_records(path: Path, length: int) -> set[bytes]:
    """Digests of the ids of the records with right digests."""
    found = scan_records(path, length, lambda damaged: None)
    return {
        xxh3_64_digest(one.record_id)
        for one in found
        if not one.wrong and one.kind != WARCINFO  # a gap is no record
    }


def _whole_end(path: Path, length: int) -> tuple[int, int]:
    """Where the last whole record of a file ends, and the last one of a visit."""
    end = visits_end = 0
    for record in scan_records(path, length, lambda damaged: None) if length and path.exists() else ():
        end = record.end
        if record.kind in (METADATA, CONVERSION) or not visits_end:
            visits_end = end
    return end, visits_end


@dataclass(frozen=True, slots=True)
class RecordPlace:
    """A record in its file: its id, and that of the record that it belongs to."""

    position: int
    end: int
    record_id: bytes
    belongs: bytes
    is_principal: bool

    @property
    def length(self) -> int:
        return self.end - self.position


def list_places(path: Path, length: int) -> list[RecordPlace]:
    def place(one: ScannedRecord) -> RecordPlace:
        return RecordPlace(one.position, one.end, one.record_id, belongs_to(one), one.kind in PRINCIPALS)

    return [place(one) for one in scan_records(path, length, lambda damaged: None)]


def _disordered(places: list[RecordPlace]) -> list[list[RecordPlace]]:
    """The shortest stretches of records that have to be put in order."""
    at = {one.record_id: number for number, one in enumerate(places)}
    stretches, principal = list[tuple[int, int]](), b""
    for number, one in enumerate(places):
        if one.is_principal:
            principal = one.record_id
        elif one.belongs and one.belongs != principal and one.belongs in at:
            first, last = sorted((number, at[one.belongs]))
            while last + 1 < len(places) and not places[last + 1].is_principal:
                last += 1
            stretches.append((first, last))
    merged = list[tuple[int, int]]()
    for first, last in sorted(stretches):
        if merged and first <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(last, merged[-1][1]))
        else:
            merged.append((first, last))
    found = [places[first : last + 1] for first, last in merged]
    return [some for some in found if _is_complete(some)]


def _is_complete(places: list[RecordPlace]) -> bool:
    """Whether the records follow each other without damage between them, and are not too many."""
    adjacent = all(one.end == after.position for one, after in pairwise(places))
    return adjacent and places[-1].end - places[0].position <= REORDERED_BYTES_MAX


def _in_order(places: list[RecordPlace]) -> list[RecordPlace]:
    """Each record behind the one that it belongs to; the others as they are."""
    ids = {one.record_id for one in places}
    behind = defaultdict[bytes, list[RecordPlace]](list)
    for one in places:
        if not one.is_principal and one.belongs in ids:
            behind[one.belongs].append(one)
    ordered = list[RecordPlace]()
    for one in places:
        if one.is_principal or one.belongs not in ids:
            ordered += [one, *behind[one.record_id]]
    return ordered
