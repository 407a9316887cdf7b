"""Rewrites groups of archive files, a batch at a time: new files, a journal of all moves, one commit, the switch.

Promises: a batch is rewritten whole or not at all; killed at any moment, it is not begun, or
`switch.finish_interrupted` completes it. A pair with a damaged record stays as it is (`UnreadablePair`). The caller
holds DATA/lock.
"""

import shutil
from collections.abc import Callable, Iterator, Mapping

from tarrafa.archive.archive_settings import directory_for_new_files
from tarrafa.archive.file_rewrite import PairRewriter, RewriteChoice
from tarrafa.archive.warc_reader import DamagedRecord
from tarrafa.crawl.compaction.file_groups import CompactionGroup
from tarrafa.crawl.compaction.journal import Journal, discard, folder_of
from tarrafa.crawl.compaction.switch import finish
from tarrafa.errors import DataError, DiskFull
from tarrafa.i18n import message
from tarrafa.runtime.data_dir import DataDirectory

BATCH_BYTES = 8 << 30  # of old files that are rewritten before a switch; as much is needed on the disk meanwhile
FREE_SHARE = 0.5  # of the free space that a batch may take
Advance = Callable[[int], None]


class _JournalledPlaces:
    """Notes in the journal where everything has gone."""

    def __init__(self, journal: Journal, numbers: Mapping[str, int]) -> None:
        self._journal, self._numbers = journal, numbers

    def moved_capture(self, file: str, position: int, new: int) -> None:
        self._journal.move_capture(self._numbers[file], position, new)

    def moved_visit(self, file: str, position: int, new: int) -> None:
        self._journal.move_visit(self._numbers[file], position, new)


class UnreadablePair(DataError):
    """A pair of files that cannot be rewritten: it stays as it is."""

    def __init__(self, name: str, reason: DamagedRecord) -> None:
        super().__init__(message("{name}: stays as it is: {reason}", name=name, reason=reason.message))
        self.name = name


class GroupRewriter:
    """Rewrites groups of files, a batch at a time. The caller holds DATA/lock."""

    def __init__(
        self, data: DataDirectory, advance: Advance = lambda size: None, batch_bytes: int = BATCH_BYTES
    ) -> None:
        self._data, self._advance, self._batch_bytes = data, advance, batch_bytes

    def batches(self, groups: list[CompactionGroup]) -> Iterator[list[CompactionGroup]]:
        """Batches for which there is space."""
        batch: list[CompactionGroup] = []
        for group in groups:
            free = shutil.disk_usage(directory_for_new_files(self._data.archive)).free
            if batch and sum(one.size for one in batch) + group.size > min(self._batch_bytes, free * FREE_SHARE):
                yield batch
                batch = []
            if group.size > free:
                sentence = message(
                    "{path}: {needed} MB are needed to rewrite files, {free} MB are free",
                    path=self._data.archive, needed=group.size >> 20, free=free >> 20,
                )  # fmt: skip
                raise DiskFull(sentence)
            batch.append(group)
        if batch:
            yield batch

    def rewrite(self, batch: list[CompactionGroup], choice: RewriteChoice) -> None:
        """Write new files for a batch, and switch to them. `UnreadablePair`: nothing was changed."""
        discard(self._data)
        journal = Journal(self._data)
        try:
            with journal.errors:
                for group in batch:
                    self._build(journal, group, choice)
                journal.commit()
        except BaseException:
            journal.close()
            discard(self._data)
            raise
        journal.close()
        finish(self._data)

    def _build(self, journal: Journal, group: CompactionGroup, choice: RewriteChoice) -> None:
        directory = directory_for_new_files(self._data.archive)
        name = next_name(group.pairs[0].name)
        numbers = journal.add_sources(name, {one.name: one.lengths for one in group.pairs})
        rewriter = PairRewriter(self._data.archive, choice, _JournalledPlaces(journal, numbers), self._advance)
        try:
            pair = rewriter.rewrite({one.name: one.lengths for one in group.pairs}, folder_of(directory), name)
        except DamagedRecord as error:
            raise UnreadablePair(rewriter.reading, error) from None
        journal.add_output(directory, pair)


def next_name(name: str) -> str:
    """The name of a file that replaces another one and those after it: it stands at the same place in the order of
    names, in which a rebuild reads the archive. It was never used before."""
    base, generation, number = name.rpartition("g")
    if generation and base[-5:].isdecimal() and number.isdecimal():
        return f"{base}g{int(number) + 1}"
    return f"{name}g1"
