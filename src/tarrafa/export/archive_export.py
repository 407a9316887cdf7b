"""Exports of captures: WARC and WACZ files of a selection.

Promises: a file is written beside its name and takes it when it is complete and durable; it has what was archived and
shown when the export began, and nothing that was taken down until its record was copied. The crawl may run meanwhile.
"""

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from time import time
from typing import IO

from tarrafa.captures.reader import CapturesReader
from tarrafa.errors import QueryError
from tarrafa.export.record_list import RecordList
from tarrafa.export.selection import Selection, key_ranges, selected_captures
from tarrafa.export.wacz import write_wacz
from tarrafa.export.warc_copy import CopySummary, WarcCopy
from tarrafa.runtime.data_dir import DataDirectory
from tarrafa.takedown import CurrentTakedowns

Progress = Callable[[str, int], AbstractContextManager[Callable[[int], None]]]  # of a step with so many parts
STEP = 500  # captures between two calls of a progress


@dataclass(frozen=True, slots=True)
class ArchiveExport:
    """What was written. `pages`: of the list in a WACZ file; `left_out`, `unresolved`: see `record_list`."""

    copied: CopySummary
    pages: int = 0
    left_out: int = 0
    unresolved: int = 0


def export_warc(
    data: DataDirectory, selection: Selection, output: IO[bytes], name: str, progress: Progress
) -> ArchiveExport:
    """Write the records of a selection as one WARC file called `name`."""
    reader = CapturesReader(data)
    with RecordList(reader, data.archive) as records:
        _list(reader, selection, records, progress)
        _read_pages(records, selection, progress)
        copy = WarcCopy(data.archive, CurrentTakedowns(data), selection.describe())
        with progress("copying", records.size()) as tell:
            copy.write(records, lambda position: (name, output), tell)
        return ArchiveExport(copy.summary, 0, records.left_out, records.unresolved)


def export_wacz(
    data: DataDirectory, selection: Selection, output: IO[bytes], title: str, progress: Progress
) -> ArchiveExport:
    """Write the captures of a selection as a WACZ package."""
    reader, description = CapturesReader(data), selection.describe()
    with RecordList(reader, data.archive) as records:
        _list(reader, selection, records, progress)
        _read_pages(records, selection, progress, always=True)
        copy = WarcCopy(data.archive, CurrentTakedowns(data), description)
        with progress("copying", records.size()) as tell:
            pages = write_wacz(output, records, copy, title or f"Export of {description}", description, time(), tell)
        return ArchiveExport(copy.summary, pages, records.left_out, records.unresolved)


def _list(reader: CapturesReader, selection: Selection, records: RecordList, progress: Progress) -> None:
    with progress("selecting", count_rows(reader, selection)) as tell:
        for count, capture in enumerate(selected_captures(reader, selection), 1):
            records.add(capture)
            if count % STEP == 0:
                tell(STEP)


def count_rows(reader: CapturesReader, selection: Selection) -> int:
    """Roughly how many captures are looked at."""
    try:
        return sum(reader.count(keys) for keys, _ in key_ranges(selection))
    except QueryError:  # too many to be counted
        return 0


def _read_pages(records: RecordList, selection: Selection, progress: Progress, *, always: bool = False) -> None:
    """Titles are for a list of pages; requisites are missing only where not everything is selected."""
    if always or not selection.is_everything:
        with progress("reading pages", records.count_pages()) as tell:
            records.read_pages(tell, with_requisites=not selection.is_everything)
