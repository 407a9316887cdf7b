"""Compaction: removes what the retention rules let go, and merges small files into full ones.

The steps: which files are complete; what goes (`retention_plan`); groups of files that become one (`file_groups`); each
batch of groups is rewritten (`group_rewriter`). Promises: it holds DATA/lock, so that no crawl runs; killed at any
moment, it is simply run again: nothing is lost and nothing doubled. Files of a living writer, damaged files and files
with gaps stay as they are. With the rule `all`, which is the default, no record goes.
"""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from itertools import islice

import msgspec

from tarrafa.archive.archive_settings import raise_if_any_disk_missing, read_settings
from tarrafa.archive.file_rewrite import ReadMember, RewrittenVisit
from tarrafa.archive.segment_log.log_mirror import refuse_mirror
from tarrafa.captures import follower as captures
from tarrafa.clock import Clock
from tarrafa.crawl.compaction.erase_orders import due_erasures
from tarrafa.crawl.compaction.erasure import erase_due
from tarrafa.crawl.compaction.file_groups import (
    ArchivePair,
    CompactionGroup,
    ReaderCursors,
    complete_pairs,
    group_pairs,
    measure_small_pairs,
)
from tarrafa.crawl.compaction.group_rewriter import GroupRewriter, UnreadablePair
from tarrafa.crawl.compaction.log_erasure import SharedLog
from tarrafa.crawl.compaction.retention_plan import DroppedCaptures, RetentionPlan, collection_definitions
from tarrafa.crawl.compaction.switch import recover
from tarrafa.crawl.verify.losses import quarantine_folder
from tarrafa.crawl.verify.verification import ProgressReporter, silent
from tarrafa.errors import ConfigError, DataError
from tarrafa.i18n import message
from tarrafa.model import VisitRecord
from tarrafa.runtime.data_dir import DataDirectory, try_lock
from tarrafa.takedown import LegalHolds, read_entries

WASTE_SHARE = 0.1  # a full file is rewritten when so much of it goes


class CompactionResult(msgspec.Struct, frozen=True):
    """What was done, or would be. `rewritten`: pairs of files; `dropped`: captures, by collection."""

    rewritten: int
    pairs_before: int
    pairs_after: int
    bytes_before: int
    bytes_after: int | None  # None: nothing was done
    dropped: list[DroppedCaptures]
    notes: list[str]
    erased: list[str] = []


@contextmanager
def locked_for_compaction(data: DataDirectory, *, is_log: bool = False) -> Iterator[None]:
    """The locks of supervisor and frontier, with everything recovered that a kill has interrupted. A mirror is refused
    unless `is_log`: its whole log is meant."""
    data.check_version()
    if not is_log:
        refuse_mirror(data, "compaction")
    with ExitStack() as stack:
        for lock in (data.try_lock(), try_lock(data.frontier.with_name(f"{data.frontier.name}.lock"))):
            if lock is None:
                raise ConfigError(message("{path}: a crawl runs here; stop it first", path=data.root))
            stack.enter_context(lock)
        raise_if_any_disk_missing(data.archive)
        recover(data)
        if any((quarantine_folder(data) / "pending").glob("*.gz.*")):
            raise DataError(message("{path}: a repair was interrupted; run `tarrafa verify --repair`", path=data.root))
        yield


class RetentionChoice:
    """Keeps all but the captures that a plan lets go; their visits say so, and lose their texts."""

    drops_gaps = False

    def __init__(self, plan: RetentionPlan, names: list[str]) -> None:
        self._captures: dict[str, set[int]] = {}
        self._visits: dict[str, set[int]] = {}
        for name in names:
            dropped = list(plan.dropped_of(name))
            self._captures[name] = {offset for offset, _ in dropped}
            self._visits[name] = {meta for _, meta in dropped if meta is not None}

    def rewrite_capture(self, file: str, member: ReadMember) -> bytes | None:
        return member.packed if member.position not in self._captures[file] else None

    def keeps_note(self, file: str, member: ReadMember) -> bool:
        return True

    def rewrite_visit(self, file: str, member: ReadMember, record: Callable[[], VisitRecord]) -> RewrittenVisit:
        if member.position not in self._visits[file]:
            return RewrittenVisit()
        return RewrittenVisit(msgspec.structs.replace(record(), removed="retention"), keeps_conversions=False)


class Compaction:
    """One compaction. The caller holds the locks, unless it only asks for the plan."""

    def __init__(self, data: DataDirectory, progress: ProgressReporter) -> None:
        self._data, self._progress = data, progress
        self._full = int(read_settings(data.archive).file_size)
        self._unreadable: dict[str, str] = {}

    def plan_only(self, shown_max: int | None = None) -> tuple[CompactionResult, list[tuple[str, str, str]]]:
        """What a compaction would do, and the captures that would go: timestamp, URL, collection."""
        if not captures.captures_are_current(self._data):
            captures.catch_up(self._data)
        with self._plan() as plan:
            pairs = complete_pairs(self._data)
            groups = self._choose(plan, pairs)
            result = self._result(pairs, groups, plan.summary(), None)
            due = due_erasures(self._data, Clock.from_environment().now())
            named = msgspec.structs.replace(result, erased=[str(one.target) for one in due])
            return named, list(islice(plan.captures(), shown_max))

    def run(self) -> CompactionResult:
        """Compact."""
        captures.catch_up(self._data)
        with self._plan() as plan:
            before = complete_pairs(self._data)
            groups = self._choose(plan, before)
            dropped: dict[str, DroppedCaptures] = {}
            with self._progress("rewriting files", sum(one.size for one in groups)) as advance:
                rewriter = GroupRewriter(self._data, advance)
                for batch in rewriter.batches(groups):
                    self._rewrite(rewriter, batch, plan)
                    for one in plan.summary():
                        dropped[one.collection] = one + dropped[one.collection] if one.collection in dropped else one
            return self._result(before, groups, list(dropped.values()), complete_pairs(self._data))

    def _plan(self) -> RetentionPlan:
        return RetentionPlan(self._data, collection_definitions(self._data), LegalHolds(read_entries(self._data)))

    def _choose(self, plan: RetentionPlan, pairs: list[ArchivePair]) -> list[CompactionGroup]:
        """The groups to rewrite: the second plan leaves out files of which too little goes."""
        readers = ReaderCursors(self._data)
        readable = [one for one in pairs if one.name not in self._unreadable and readers.can_be_rewritten(one)]
        self._unreadable |= measure_small_pairs(self._data, readable, self._full)
        readable = [one for one in readable if one.name not in self._unreadable]
        plan.make({one.name for one in readable})
        sizes = plan.bytes_by_file()
        wasteful = {
            one.name
            for one in readable
            if (size := sizes.get(one.name, 0)) and (one.span is not None or size >= one.size * WASTE_SHARE)
        }
        plan.make(wasteful)
        dropping = plan.bytes_by_file()
        for one in readable:
            one.drops = one.name in dropping
        return group_pairs(readable, readers, self._full)

    def _rewrite(self, rewriter: GroupRewriter, batch: list[CompactionGroup], plan: RetentionPlan) -> None:
        """Rewrite a batch; without the groups of pairs that turn out to be damaged."""
        while batch:
            names = [pair.name for group in batch for pair in group.pairs]
            plan.make(set(names))  # what files of other batches refer to stays until they are rewritten
            try:
                rewriter.rewrite(batch, RetentionChoice(plan, names))
            except UnreadablePair as error:
                self._unreadable[error.name] = str(error)
                batch = [part for one in batch for part in one.without(error.name)]
            else:
                return

    def _result(
        self,
        before: list[ArchivePair],
        groups: list[CompactionGroup],
        dropped: list[DroppedCaptures],
        after: list[ArchivePair] | None,
    ) -> CompactionResult:
        rewritten = sum(len(group.pairs) for group in groups)
        size = sum(one.size for one in before)
        pairs_after = len(before) - rewritten + len(groups) if after is None else len(after)
        bytes_after = None if after is None else sum(one.size for one in after)
        notes = list(self._unreadable.values())
        return CompactionResult(rewritten, len(before), pairs_after, size, bytes_after, dropped, notes)


def compact_log(log: SharedLog, progress: ProgressReporter, who: str, now: float) -> tuple[list[str], list[str]]:
    """Erase what is due in a segment log, and in what this machine has derived from it: what was erased, and why
    something was not. Nothing else is removed from a log."""
    with locked_for_compaction(log.data, is_log=True):
        return log.erase_due(progress, who, now)


def compact(
    data: DataDirectory, progress: ProgressReporter = silent, who: str = "", now: float = 0.0
) -> CompactionResult:
    """Erase what is due, and compact the archive of a data directory."""
    with locked_for_compaction(data):
        due = due_erasures(data, now)
        erased, held = erase_due(data, due, progress, who, now)
        result = Compaction(data, progress).run()
    return msgspec.structs.replace(result, erased=erased, notes=[*held, *result.notes])
