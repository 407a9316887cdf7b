"""Verification of a data directory: archive, frontier and projections, each by itself and against each other.

*Quick* reads durable marks, lengths of files, and the heads of records, and compares cursors and counts. *Deep*
also inflates every record, checks its digests, and compares frontier, graph, captures, index and triple store with the
records, page by page.
Promises: nothing is written but a temporary file, so that it may run beside a crawl. The frontier is read first, then
the cursors of the projections, then the durable lengths: whatever the frontier has finished and the projections have
applied lies within these lengths. What comes later is ignored. The archive is read once. Memory does not grow with it.
"""

import contextlib
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

from tarrafa.archive.archive_settings import raise_if_any_disk_missing
from tarrafa.archive.deletion_log import ArchiveDeletions
from tarrafa.archive.projection import read_cursor
from tarrafa.archive.warc_reader import Cursor
from tarrafa.archive.warc_writer import DurableLengths, warc_date
from tarrafa.captures.follower import visit_key
from tarrafa.captures.store import captures_file
from tarrafa.clock import Clock, boottime
from tarrafa.crawl.compaction.journal import is_interrupted
from tarrafa.crawl.verify.archive_check import (
    ArchiveCheck,
    ArchiveCounts,
    ProjectionPosition,
    ReadPositions,
    read_tail,
    tail_keys,
)
from tarrafa.crawl.verify.captures_check import CapturesCheck
from tarrafa.crawl.verify.expected import ExpectedContent
from tarrafa.crawl.verify.findings import KINDS, Finding, Findings, KindCount, VerifyReport
from tarrafa.crawl.verify.frontier_check import FinishedCheck, FrontierCheck, frontier_file, read_finished_visits
from tarrafa.crawl.verify.graph_check import GraphCheck
from tarrafa.crawl.verify.losses import read_losses
from tarrafa.crawl.verify.page_check import PageCheck
from tarrafa.crawl.verify.remote_frontier_check import RemoteFrontierCheck, read_remote_frontier
from tarrafa.crawl.verify.store_comparison import Comparison, damage_of
from tarrafa.errors import DataError
from tarrafa.frontier.address import Address
from tarrafa.graph.graph_writer import graph_file
from tarrafa.i18n import message
from tarrafa.index import index_state, shards
from tarrafa.parse.url import url_id
from tarrafa.runtime.data_dir import DataDirectory, file_fingerprint
from tarrafa.runtime.heartbeat import is_supervised
from tarrafa.runtime.sqlite import SqliteFile, rows
from tarrafa.takedown import NO_TAKEDOWNS, CurrentTakedowns, TakedownSet
from tarrafa.triples import storage

# Of records with one id, the later ones.
TWICE = (
    "SELECT file, is_meta, offset, length FROM record_id r WHERE EXISTS (SELECT 1 FROM record_id o WHERE o.id = r.id"
    " AND o.rowid < r.rowid) ORDER BY rowid"
)
UNANSWERED = (
    "SELECT file, start, collection, url, visit, at, EXISTS (SELECT 1 FROM known_loss k WHERE"
    " (k.id, k.collection, k.visit) = (v.id, v.collection, v.visit)) FROM visit v WHERE payload AND NOT deleted"
    " AND NOT EXISTS (SELECT 1 FROM answer a WHERE a.file = v.file AND a.meta = v.start) ORDER BY rowid"
)
Advance = Callable[[int], None]
ProgressReporter = Callable[[str, int], AbstractContextManager[Advance]]  # name of the step, and its total


@contextmanager
def silent(what: str, total: int) -> Iterator[Advance]:
    """Report no progress."""
    yield lambda more: None


class Verification:
    """One verification. Use it in a `with`: leaving it removes the temporary file with its findings."""

    def __init__(
        self, data: DataDirectory, *, deep: bool, progress: ProgressReporter = silent, frontier: Address | None = None
    ) -> None:
        """`frontier`: the address of one on another machine or on PostgreSQL."""
        data.check_version()
        raise_if_any_disk_missing(data.archive)
        if is_interrupted(data):
            raise DataError(
                message(
                    "{path}: a compaction runs here or was interrupted; `tarrafa compact` completes it", path=data.root
                )
            )
        self._data, self._deep, self._progress, self._remote = data, deep, progress, frontier
        self.expected = ExpectedContent()
        self.findings = Findings(self.expected.connection)
        self._parts = shards.parts(data)
        self._deletions, self._there = ArchiveDeletions(data.archive), set[Path]()
        self._notes: list[str] = []
        self.upto: dict[str, DurableLengths] = {}
        self.gaps: list[tuple[str, int, int]] = []  # where an earlier repair has put damaged bytes aside

    report: VerifyReport  # once it has run

    def __enter__(self) -> "Verification":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self.expected.close()

    def run(self) -> VerifyReport:
        """Verify everything; the report."""
        began, clock = Clock.from_environment().now(), boottime()
        was_running, identities = is_supervised(self._data), self._identities()
        has_frontier = self._has_frontier()
        if self._deep and self._remote is not None:
            read_remote_frontier(self._remote, self.expected)
        elif self._deep and has_frontier:
            read_finished_visits(self._data.frontier, self.expected)
        takedowns, positions = self._takedowns(), self._read_positions()
        check = ArchiveCheck(self._data.archive, self.findings, self.expected, positions, self._deletions)
        self.upto = check.durable_lengths()
        with contextlib.suppress(DataError):  # a damaged record is found below
            self._deletions.latest()
        self._check_cursors(positions)
        self._read_archive(check)
        is_running = was_running or is_supervised(self._data)
        lengths = {name: one.meta for name, one in self.upto.items()}
        shared = Comparison(self._data, self.expected, self.findings, lengths, takedowns, is_running, notes=self._notes)
        losses = self._compare(shared, positions, check.counts, began if has_frontier else None)
        shared.resolve_suspects()
        self._forget_replaced_stores(identities)
        return self._report(began, boottime() - clock, check.counts, losses)

    def _report(self, began: float, took_s: float, counts: ArchiveCounts, losses: int) -> VerifyReport:
        found = self.findings.counts
        kinds = [KindCount(store, kind, KINDS[kind].severity, found[store, kind]) for store, kind in found]
        size = sum(one.warc + one.meta for one in self.upto.values())
        self.gaps = counts.gaps
        if counts.gaps:
            self._notes.append(f"{len(counts.gaps):,} gaps where bytes were damaged: see DATA/quarantine")
        self.report = VerifyReport(
            self._deep, began, took_s, counts.records, self.expected.visits, size, kinds, self.findings.shown(), losses,
            self._notes,
        )  # fmt: skip
        return self.report

    # -- what there is -----------------------------------------------------------------------------------------

    def _has_frontier(self) -> bool:
        if self._remote is not None:
            return True
        path = self._data.frontier
        if not path.exists():
            self._notes.append("frontier: there is none here; visits were not compared")
            return False
        return self._is_sound(frontier_file(path), "frontier", path)

    def _is_sound(self, file: SqliteFile, store: str, path: Path) -> bool:
        name = str(path.relative_to(self._data.root))
        try:
            found = file.found_format()
        except DataError as error:
            self.findings.add(Finding("store-damaged", store, name, detail=str(error)))
            return False
        if found not in (0, file.format):
            self._notes.append(f"{store}: {name} is of another version of Tarrafa; it was not compared")
            return False
        if damage := damage_of(file) if found and self._deep else "":
            self.findings.add(Finding("store-damaged", store, name, detail=damage))
            return False
        return found > 0

    def _stores(self) -> list[tuple[str, SqliteFile]]:
        found = [("graph", graph_file(self._data)), ("captures", captures_file(self._data))]
        for part in self._parts:
            found += [("index", index_state.database_file(part)), ("triples", storage.database_file(part))]
        return found

    def _identities(self) -> dict[tuple[str, Path], object]:
        return {(store, file.path): file_fingerprint(file.path)[:1] for store, file in self._stores()}

    def _forget_replaced_stores(self, before: dict[tuple[str, Path], object]) -> None:
        """A store that was rebuilt meanwhile was compared with another one."""
        for (store, path), identity in self._identities().items():
            if before[store, path] and before[store, path] != identity:
                self.findings.forget(store)
                self._notes.append(f"{store}: was made again meanwhile; it was not compared")

    def _takedowns(self) -> TakedownSet:
        try:
            return CurrentTakedowns(self._data).now()
        except DataError as error:
            self._notes.append(str(error))
            return NO_TAKEDOWNS

    def _read_positions(self) -> ReadPositions:
        """How far each projection has read, and which are there."""
        there = {file.path for store, file in self._stores() if self._is_sound(file, store, file.path)}
        self._there = there
        for store, file in self._stores():
            if not file.path.exists():  # the next crawl makes it
                self._notes.append(f"{store}: there is none yet")
        by_store: dict[str, list[ProjectionPosition]] = {}
        for store, file in self._stores():
            by_store.setdefault(store, []).append(self._position(store, file))
        layout = shards.read_layout(self._data)
        numbers = {number: place for place, number in enumerate(layout.here)}
        graph, captures = by_store["graph"][0], by_store["captures"][0]
        return ReadPositions(graph, captures, by_store["index"], by_store["triples"], numbers, layout.of)

    def _position(self, store: str, file: SqliteFile) -> ProjectionPosition:
        try:
            return _read_position(file) if file.path in self._there else ProjectionPosition()
        except DataError as error:
            self._there.discard(file.path)
            name = str(file.path.relative_to(self._data.root))
            self.findings.add(Finding("store-damaged", store, name, detail=str(error)))
            return ProjectionPosition()

    # -- the archive -------------------------------------------------------------------------------------------

    def _check_cursors(self, positions: ReadPositions) -> None:
        followers = [("graph", positions.graph), ("captures", positions.captures)]
        followers += [("index", one) for one in positions.index] + [("triples", one) for one in positions.triples]
        for store, position in followers:
            for name, at in position.cursor.items():
                if name not in self.upto:
                    if at and not (self._data.archive / f"{name}.durable").exists():
                        self.findings.add(Finding("file-missing", "archive", f"{name}.meta.warc.gz"))
                elif at > self.upto[name].meta:
                    detail = f"{at:,}, behind its durable length {self.upto[name].meta:,}"
                    self.findings.add(Finding("cursor-wrong", store, f"{name}.meta.warc.gz", at, detail=detail))

    def _read_archive(self, check: ArchiveCheck) -> None:
        total = sum(one.warc + one.meta for one in self.upto.values())
        with self._progress("reading the archive", total) as check.advance:
            for name, durable in self.upto.items():
                (check.read if self._deep else check.step)(name, durable)

    # -- comparisons -------------------------------------------------------------------------------------------

    def _compare(
        self, shared: Comparison, positions: ReadPositions, counts: ArchiveCounts, frontier_at: float | None
    ) -> int:
        """Compare frontier and projections with the archive; the number of known losses. `frontier_at`: when the
        frontier was read; None: there is none."""
        with contextlib.suppress(DataError):
            shared.deleted = self._deletions.latest()
        losses = 0
        if self._deep:
            self._finish_reading(shared.is_running)
            if frontier_at is not None:
                losses = self._compare_frontier(shared, positions, frontier_at)
        steps = list(self._comparisons(shared, positions, counts))
        with self._progress("comparing", len(steps)) as advance:
            for store, step in steps:
                try:
                    step()
                except DataError as error:
                    self.findings.add(Finding("store-damaged", store, detail=str(error)))
                advance(1)
        return losses

    def _finish_reading(self, is_running: bool) -> None:
        """Index what was read, and find what is there twice or lacks its response."""
        for name, durable in self.upto.items() if not is_running else ():
            read_tail(self._data.archive, self.expected, name, durable.meta)
        for loss in read_losses(self._data):
            self.expected.append("known_loss", (url_id(loss.url), loss.collection, loss.visit))
        self.expected.finish_reading()
        run, name_of = self.expected.connection.execute, self.expected.file_name
        for file, is_meta, offset, length in run(TWICE):
            path = f"{name_of(file)}{'.meta' if is_meta else ''}.warc.gz"
            self.findings.add(Finding("duplicate-record", "archive", path, offset, offset + length))
        self._find_missing_responses(is_running=is_running)

    def _find_missing_responses(self, *, is_running: bool) -> None:
        """Report the visits without their response. It may be there, behind a durable mark that is too old."""
        behind = dict[int, set[int]]()
        for file, start, collection, url, visit, at, is_known in self.expected.connection.execute(UNANSWERED):
            name = self.expected.file_name(file)
            path = self._data.archive / f"{name}.warc.gz"
            if file not in behind:
                behind[file] = set() if is_running else tail_keys(path, self.upto[name].warc)
            if visit_key(url, warc_date(at)) in behind[file]:
                self.findings.add(Finding("mark-behind", "archive", f"{name}.durable"))
            elif not is_known:
                detail = f"its visit is at {start:,} of {name}.meta.warc.gz"
                found = (path.name, None, None, collection, url, visit, detail)
                self.findings.add(Finding("response-missing", "archive", *found))

    def _compare_frontier(self, shared: Comparison, positions: ReadPositions, read_at: float) -> int:
        followers = (positions.graph, positions.captures, *positions.index, *positions.triples)
        files = {*self.upto, *(name for one in followers for name in one.cursor)}
        finished = FinishedCheck(shared, files)
        check: FrontierCheck | RemoteFrontierCheck = FrontierCheck(shared, self._data.frontier, finished)
        if self._remote is not None:
            check = RemoteFrontierCheck(finished, self.expected, read_at)
        losses = check.compare_finished()
        check.compare_records()
        return losses

    def _comparisons(
        self, shared: Comparison, positions: ReadPositions, counts: ArchiveCounts
    ) -> Iterator[tuple[str, Callable[[], None]]]:
        """The comparisons with each projection that is there."""
        if graph_file(self._data).path in self._there:
            graph = GraphCheck(shared, positions.graph.dropped)
            deep = self._if_deep(graph.compare_nodes, graph.compare_in_links)
            yield from (("graph", one) for one in (graph.compare_counts, *deep))
        if captures_file(self._data).path in self._there:
            captures = CapturesCheck(shared, positions.captures, self.upto)
            yield "captures", lambda: captures.compare_counts(None if self._deep else counts.captures)
            yield from (("captures", one) for one in self._if_deep(captures.compare_captures))
        for number, place in positions.parts.items():
            part = self._parts[place]
            if index_state.path_of(part) in self._there:
                index = PageCheck(shared, "index", part, number, positions.index[place].dropped)
                deep = self._if_deep(index.compare_visits, index.compare_documents)
                yield from (("index", one) for one in (index.compare_counts, *deep))
            if storage.database_path(part) in self._there:
                triples = PageCheck(shared, "triples", part, number, positions.triples[place].dropped)
                deep = self._if_deep(triples.compare_visits, triples.compare_statements, triples.compare_graphs)
                yield from (("triples", one) for one in (triples.compare_counts, *deep))

    def _if_deep(self, *steps: Callable[[], None]) -> tuple[Callable[[], None], ...]:
        return steps if self._deep else ()


def _read_position(file: SqliteFile) -> ProjectionPosition:
    with file.reading() as connection:
        dropped = dict(rows(connection, "SELECT collection, at FROM deleted"))
        warc: Cursor = {}
        if rows(connection, "SELECT 1 FROM sqlite_schema WHERE name = 'warc_cursor'"):
            warc = dict(rows(connection, "SELECT file, offset FROM warc_cursor"))
        return ProjectionPosition(read_cursor(connection), dropped, warc)
