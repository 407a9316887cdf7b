"""Erasure: removes the bytes of what was taken down, by an order of its own, after a waiting time.

An order to erase is a line of the takedown log (`takedown`): whoever, why, and when it is due. Until then it may be
cancelled. `tarrafa compact` carries out what is due: every record of these URLs is left out of the archive, and the
visits become *tombstones*: which URL was visited when, and nothing of what was found. Then what is derived from the
archive is made anew, which is the only way to be sure that nothing of a page is left in any of it; and the line
`erased` is written. Promises: what is under a legal hold is never erased, whenever the hold was set. Killed at any
moment, the order is still due, and is carried out by the next run. Other pages stay as they are, with their links to
erased ones.
"""

from collections.abc import Callable
from contextlib import closing

import msgspec

from tarrafa.archive.file_rewrite import ReadMember, RewrittenVisit
from tarrafa.archive.warc_reader import durable_lengths, meta_path, read_chosen
from tarrafa.archive.warc_writer import METADATA
from tarrafa.crawl.compaction.erase_orders import held_error, note_carried_out, raise_if_held
from tarrafa.crawl.compaction.file_groups import ArchivePair, CompactionGroup, complete_pairs
from tarrafa.crawl.compaction.group_rewriter import GroupRewriter
from tarrafa.crawl.compaction.shared_bodies import give_bodies
from tarrafa.crawl.compaction.watch_rows import forget_titles
from tarrafa.crawl.rebuild_frontier import ReplayClock
from tarrafa.crawl.rebuild_projection import PROJECTIONS, rebuild_projection
from tarrafa.crawl.verify.losses import quarantine_folder
from tarrafa.crawl.verify.record_scan import DamagedRange, scan_records
from tarrafa.crawl.verify.verification import ProgressReporter
from tarrafa.errors import DataError, HeldByLaw
from tarrafa.frontier.replay import FrontierReplay
from tarrafa.i18n import message
from tarrafa.model import Outcome, Status, VisitRecord
from tarrafa.parse.url import canonical, host_name
from tarrafa.runtime.data_dir import DataDirectory
from tarrafa.runtime.public_suffix_list import bundled_suffix_list
from tarrafa.runtime.sqlite import rows
from tarrafa.takedown import (
    LegalHolds,
    TakedownEntry,
    TakedownSet,
    read_entries,
    record_action,
)

FORGET = "UPDATE url SET etag = NULL, last_modified = NULL, payload = '', archived = 0 WHERE host = ? AND id = ?"
FORGET_HOST = (
    "UPDATE host SET memory = NULL, robots_status = NULL, robots_digest = NULL, robots_expires = NULL WHERE id = ?"
)
UNUSED_ROBOTS = "DELETE FROM robots WHERE digest NOT IN (SELECT robots_digest FROM host WHERE robots_digest NOT NULL)"
URLS_OF_HOST = "SELECT name, url.id, url FROM url JOIN collection ON collection.id = collection WHERE host = ?"


class _ErasedVisitPart(msgspec.Struct):
    """The part of a visit that an erasure needs."""

    collection: str
    removed: str = ""


_decode_part = msgspec.json.Decoder(_ErasedVisitPart).decode


def erase_due(
    data: DataDirectory,
    orders: list[TakedownEntry],
    progress: ProgressReporter,
    who: str,
    now: float,
    erase_records: "EraseRecords | None" = None,
) -> tuple[list[str], list[str]]:
    """Carry out orders that are due: what was erased, and why something was not. `erase_records`: where the archive is
    a segment log."""
    free, held = list[TakedownEntry](), list[str]()
    for order in orders:
        try:
            raise_if_held(data, [order.target])
            free.append(order)
        except HeldByLaw as error:
            held.append(str(error))
    if free:
        Erasure(data, free, progress, erase_records).run(who, now)
    return [str(one.target) for one in free], held


# -- records -----------------------------------------------------------------------------------------------------------


class ErasureChoice:
    """Keeps all but the records of some URLs; of their visits a tombstone stays."""

    drops_gaps = True  # a file with damaged bytes must not keep what is to be erased

    def __init__(self, orders: list[TakedownEntry]) -> None:
        self.targets = [one.target for one in orders]
        self._covered = TakedownSet(self.targets)

    def covers(self, url: str) -> bool:
        """Whether the record of a URL goes, however it is written."""
        plain = canonical(url.strip("<>"))
        return plain is not None and self._covered.covers(plain)

    def covers_host(self, key: str) -> bool:
        """Whether everything of a host goes."""
        return self._covered.covers_host(host_name(f"{key}/"))

    def rewrite_capture(self, file: str, member: ReadMember) -> bytes | None:
        return None if self.covers(member.url) else member.packed

    def keeps_note(self, file: str, member: ReadMember) -> bool:
        return not self.covers(member.url)

    def rewrite_visit(self, file: str, member: ReadMember, record: Callable[[], VisitRecord]) -> RewrittenVisit:
        if not self.covers(member.url):
            return RewrittenVisit()
        found = record()
        if found.removed == "erased":
            return RewrittenVisit()
        outcome = Outcome(Status.TAKEN_DOWN, found.outcome.at, role=found.outcome.role, requested=False)
        tombstone = VisitRecord(found.collection, found.url, found.visit, found.depth, outcome, removed="erased")
        return RewrittenVisit(tombstone, keeps_conversions=False)


EraseRecords = Callable[[ErasureChoice, LegalHolds], None]


def raise_if_collection_held(choice: ErasureChoice, holds: LegalHolds, collection: str) -> None:
    if collection in holds.collections:
        raise held_error(choice.targets[0], f"collection:{collection}")


class Erasure:
    """Carries out orders. The caller holds DATA/lock."""

    def __init__(
        self,
        data: DataDirectory,
        orders: list[TakedownEntry],
        progress: ProgressReporter,
        erase_records: EraseRecords | None = None,
    ) -> None:
        self._data, self._orders, self._progress = data, orders, progress
        self._erase_in_log = erase_records
        self._choice, self._holds = ErasureChoice(orders), LegalHolds(read_entries(data))

    def run(self, who: str, now: float) -> None:
        raise_if_held(self._data, [one.target for one in self._orders])
        if self._erase_in_log is not None:
            self._erase_in_log(self._choice, self._holds)
        else:
            if give_bodies(self._data, self._choice.covers):
                rebuild_projection(self._data, "captures", lambda size: None)  # records have other lengths
            self._erase_records()
        self._forget_in_frontier(now)
        self._remove_quarantine()
        forget_titles(self._data, self._choice.covers)
        for store in PROJECTIONS:
            with self._progress(f"rebuilding {store}", 0) as advance:
                rebuild_projection(self._data, store, advance)
        for one in self._orders:
            record_action(self._data, "erased", one.target, who, one.reason, now)
        note_carried_out(self._data, self._orders)

    # -- the archive -----------------------------------------------------------------------------------------------

    def _erase_records(self) -> None:
        pairs = complete_pairs(self._data)
        if len(pairs) < len(durable_lengths(self._data.archive)):
            raise DataError(message("{path}: a process writes the archive; stop it first", path=self._data.archive))
        found = []
        with self._progress("looking for records to erase", sum(one.size for one in pairs)) as advance:
            for pair in pairs:
                if self._is_affected(pair):
                    found.append(CompactionGroup([pair]))
                advance(pair.size)
        with self._progress("rewriting files", sum(one.size for one in found)) as advance:
            rewriter = GroupRewriter(self._data, advance)
            for batch in rewriter.batches(found):
                rewriter.rewrite(batch, self._choice)

    def _is_affected(self, pair: ArchivePair) -> bool:
        """Whether a pair has bytes to erase. Raises `HeldByLaw` for those of a held collection."""
        archive, found = self._data.archive, False
        warc, meta = archive / f"{pair.name}.warc.gz", meta_path(archive, pair.name)
        for path, length in ((warc, pair.lengths.warc), (meta, pair.lengths.meta)):
            for head, content in read_chosen(path, length, self._choice.covers) if length else ():
                if head.kind == METADATA:
                    visit = _decode_part(content)
                    raise_if_collection_held(self._choice, self._holds, visit.collection)
                    found |= visit.removed != "erased"
                else:
                    found = True
        return found

    def _remove_quarantine(self) -> None:
        """Remove damaged bytes that a repair has kept, if they are of these URLs, or nobody can say of which."""
        folder = quarantine_folder(self._data)
        for path in sorted(folder.glob("*.gz.*")) if folder.is_dir() else ():
            damaged = list[DamagedRange]()
            urls = {one.url for one in scan_records(path, path.stat().st_size, damaged.append) if one.url}
            urls |= {one.url for one in damaged if one.url}
            is_unknown = any(not one.url for one in damaged) and not self._holds.targets
            if is_unknown or any(map(self._choice.covers, urls)):
                path.unlink()

    # -- the frontier ----------------------------------------------------------------------------------------------

    def _forget_in_frontier(self, now: float) -> None:
        """Forget validators and digests: if the takedown is lifted, the page is fetched whole."""
        if not self._data.frontier.exists():
            return
        past = ReplayClock(0.0, 0.0)
        past.moment[0] = now
        with closing(FrontierReplay(str(self._data.frontier), past, bundled_suffix_list(), is_live=True)) as replay:
            connection = replay.store.db.connection
            connection.pragma("secure_delete", True)
            with replay.transaction():
                for host, key in rows(connection, "SELECT id, key FROM host"):
                    if self._choice.covers_host(key):
                        connection.execute(FORGET_HOST, (host,))
                    self._forget_urls(replay, host)
                connection.execute(UNUSED_ROBOTS)

    def _forget_urls(self, replay: FrontierReplay, host: int) -> None:
        connection = replay.store.db.connection
        for name, key, url in rows(connection, URLS_OF_HOST, (host,)):
            if self._choice.covers(url):
                replay.store.urls.refetch(replay.store.collections.by_name(name), host, key)
                connection.execute(FORGET, (host, key))
