"""Groups of archive files that become one: small ones of one worker, in their order, and those of which something goes.

Promises: only complete pairs are rewritten. Only pairs of one worker whose times do not overlap are merged, in their
order, so that a rebuild of the frontier reads the same history; and only pairs that each reader has read in that order,
so that its place in the new file is exact. Files of an import that was interrupted stay as they are.
"""

import fcntl
from dataclasses import dataclass, field

from tarrafa.archive.projection import cursor_of
from tarrafa.archive.warc_reader import Cursor, meta_path, time_span, worker_of
from tarrafa.archive.warc_writer import DurableLengths, read_durable
from tarrafa.captures.store import captures_file
from tarrafa.crawl.compaction.switch import program_cursors
from tarrafa.crawl.compaction.watch_rows import watch_cursor
from tarrafa.crawl.warc_import.import_recovery import WRITER_NAME as IMPORT
from tarrafa.crawl.warc_import.import_state import import_state_file
from tarrafa.errors import DataError
from tarrafa.graph.graph_writer import graph_file
from tarrafa.i18n import message
from tarrafa.index import index_state, shards
from tarrafa.runtime.data_dir import DataDirectory
from tarrafa.runtime.sqlite import rows
from tarrafa.triples import storage

SMALL_SHARE = 0.5  # a pair with less of a full file's bytes is merged with its neighbours


@dataclass(slots=True)
class ArchivePair:
    """A pair of files that is complete."""

    name: str
    lengths: DurableLengths
    size: int
    span: tuple[float, float] | None = None
    drops: bool = False


@dataclass(slots=True)
class CompactionGroup:
    """Pairs that become one."""

    pairs: list[ArchivePair] = field(default_factory=list)

    @property
    def size(self) -> int:
        return sum(one.size for one in self.pairs)

    @property
    def is_useful(self) -> bool:
        """Whether there is a reason to rewrite it."""
        return len(self.pairs) > 1 or any(one.drops for one in self.pairs)

    def without(self, name: str) -> "list[CompactionGroup]":
        """The pairs before and behind one that cannot be rewritten."""
        names = [one.name for one in self.pairs]
        if name not in names:
            return [self]
        place = names.index(name)
        parts = (CompactionGroup(part) for part in (self.pairs[:place], self.pairs[place + 1 :]))
        return [one for one in parts if one.is_useful]

    @property
    def end(self) -> float:
        return max((one.span[1] for one in self.pairs if one.span is not None), default=0.0)


def complete_pairs(data: DataDirectory) -> list[ArchivePair]:
    """The pairs of files without a living writer."""
    found = []
    for path in sorted(data.archive.glob("*.durable")):
        with path.open("rb") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                continue
        lengths = read_durable(path)
        if lengths.meta:
            found.append(ArchivePair(path.stem, lengths, lengths.warc + lengths.meta))
    return found


class ReaderCursors:
    """How far each reader of visits has read."""

    def __init__(self, data: DataDirectory) -> None:
        files = [graph_file(data), captures_file(data)]
        for part in shards.parts(data):
            files += [index_state.database_file(part), storage.database_file(part)]
        self._cursors: list[Cursor] = [cursor_of(file) for file in files if file.found_format() == file.format]
        self._cursors += [*program_cursors(data).values(), watch_cursor(data)]
        self._imported: dict[str, int] = {}
        if import_state_file(data).found_format():
            with import_state_file(data).reading() as connection:
                self._imported = dict(rows(connection, "SELECT file, length FROM archive_position"))

    def allow_after(self, before: list[ArchivePair], pair: ArchivePair) -> bool:
        """Whether each reader has read all pairs before this one, or nothing of this one."""
        return all(
            not cursor.get(pair.name, 0) or all(cursor.get(one.name, 0) >= one.lengths.visits_end for one in before)
            for cursor in self._cursors
        )

    def can_be_rewritten(self, pair: ArchivePair) -> bool:
        """Whether a pair is of a known worker; of an import the frontier must know all of it."""
        is_known = worker_of(pair.name) != IMPORT or self._imported.get(pair.name, 0) >= pair.lengths.meta
        return is_known and bool(worker_of(pair.name))


def group_pairs(pairs: list[ArchivePair], readers: ReaderCursors, full: int) -> list[CompactionGroup]:
    """Groups of pairs of one worker each, none much larger than a full file; pairs that stay alone are left out, unless
    something of them goes. The newest first: a `revisit` record goes before the record that it refers to."""
    groups: list[CompactionGroup] = []
    by_worker: dict[str, list[ArchivePair]] = {}
    for pair in pairs:
        if readers.can_be_rewritten(pair):
            by_worker.setdefault(worker_of(pair.name), []).append(pair)
    for mine in by_worker.values():
        open_group: CompactionGroup | None = None
        for pair in sorted(mine, key=lambda one: (one.span or (0.0, 0.0), one.name)):
            if pair.span is None:  # not a small one
                groups.append(CompactionGroup([pair]))
            elif open_group is None or not _fits(open_group, pair, readers, full):
                open_group = CompactionGroup([pair])
                groups.append(open_group)
            else:
                open_group.pairs.append(pair)
    return sorted((one for one in groups if one.is_useful), key=lambda one: one.end, reverse=True)


def _fits(group: CompactionGroup, pair: ArchivePair, readers: ReaderCursors, full: int) -> bool:
    begins = pair.span[0] if pair.span is not None else group.end
    is_later = begins >= group.end
    return is_later and group.size + pair.size <= full and readers.allow_after(group.pairs, pair)


def measure_small_pairs(data: DataDirectory, pairs: list[ArchivePair], full: int) -> dict[str, str]:
    """Find the times of the pairs that may be merged. Those that cannot be read, with the reason."""
    unreadable: dict[str, str] = {}
    for pair in pairs:
        try:
            if pair.size < full * SMALL_SHARE:
                pair.span = time_span(meta_path(data.archive, pair.name), pair.lengths.meta) or (0.0, 0.0)
        except DataError as error:
            unreadable[pair.name] = str(message("{name}: stays as it is: {reason}", name=pair.name, reason=str(error)))
    return unreadable
