"""Part snapshots: an index follower of an owned part begins with the newest snapshot, and makes new ones.

Only where the archive is a segment log, and leases say which machine has which part. Of two owners of a part, the
first one makes the snapshots. A snapshot is due when the log has grown by a quarter, when it has grown at all and the
follower has nothing to do, or after a quarter of an hour; making them takes a twentieth of the time at most.
Promises: following never waits for database or store, but for the files of a commit, which are linked and copied. A
part begins with a snapshot only if this machine has heard of every deletion that the snapshot knows: a collection that
was deleted and made again would lose its pages otherwise. Without a usable snapshot, the part is built from the log.
"""

import shutil
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from typing import TypeVar

from tarrafa.archive.deletion_log import ArchiveDeletions
from tarrafa.archive.segment_log.log_mirror import mirrored_log
from tarrafa.archive.segment_log.segment import LogIdentity, SegmentManifest
from tarrafa.archive.segment_log.snapshot_store import PartOwner, PartSnapshot, PublishedSnapshot, SnapshotStore
from tarrafa.clock import boottime
from tarrafa.crawl.supervisor.part_ownership import node_id
from tarrafa.errors import DataError, TarrafaError, Unreachable
from tarrafa.frontier.address import address_from_supervisor, open_manifest
from tarrafa.index import part_snapshot, schema, shards
from tarrafa.index.follower import IndexFollower
from tarrafa.runtime.data_dir import DataDirectory
from tarrafa.runtime.terminal import print_note

GROWTH = 1.25  # of the log: then a snapshot is due
QUIET_S, AGE_S_MAX = 5.0, 900.0  # without news for so long, or with older news: it is due
TIME_SHARE = 0.05  # of the time for making snapshots
PAUSE_S_MIN, RETRY_S = 5.0, 2.0
PATIENCE_S = 3.0  # for the database
DELETIONS_WAIT_S = 15.0
FETCHES_MAX = 3  # a snapshot may be replaced while it is fetched
T = TypeVar("T")


def snapshots_of(part: DataDirectory) -> "PartSnapshots | None":
    """None where a part has no snapshots."""
    layout = shards.read_layout(DataDirectory(part.root))
    if not part.part or not layout.is_owned or mirrored_log(part) is None:
        return None
    return PartSnapshots(part)


class PartSnapshots:
    """The snapshots of the part of one follower. Use it in a `with`."""

    def __init__(self, part: DataDirectory) -> None:
        self._part, self._number = part, int(part.part.partition("-")[0])
        self._pool = ThreadPoolExecutor(1)
        self._owner: Future[PartOwner | None] | None = None
        self._publication: Future[PublishedSnapshot | None] | None = None
        self._published_end = self._seen_end = 0  # of the log, in bytes
        self._seen_at = self._published_at = self._next_at = self._began_at = boottime()

    def __enter__(self) -> "PartSnapshots":
        return self

    def __exit__(self, *_: object) -> None:
        self._pool.shutdown(wait=False, cancel_futures=True)

    # -- the beginning of a part -------------------------------------------------------------------------------------

    def restore(self, stop: threading.Event) -> bool:
        """Make the newest snapshot this part, if there is nothing here yet; whether it was done."""
        is_waiting = False
        while not stop.is_set() and not schema.exists(self._part):
            try:
                return self._with_store(lambda store: self._restore(store, stop))
            except Unreachable as error:
                if not is_waiting:
                    print_note(f"waiting: {error}")
                is_waiting = True
                stop.wait(RETRY_S)
            except DataError as error:
                print_note(f"the snapshot cannot be used, the part is built from the log: {error}")
                break
        return False

    def _restore(self, store: SnapshotStore, stop: threading.Event) -> bool:
        began = boottime()
        for attempt in range(FETCHES_MAX):
            snapshot = store.newest()
            if snapshot is None:
                return False
            dropped = self._known_deletions(snapshot, stop)
            if dropped is None:
                print_note("the snapshot is not used: it knows deletions that this machine has not heard of")
                return False
            folder = part_snapshot.fetch_folder(self._part)
            try:
                store.fetch(snapshot, folder)
                part_snapshot.place(self._part, folder, dropped)
            except DataError:
                shutil.rmtree(folder, ignore_errors=True)
                if attempt + 1 == FETCHES_MAX or store.newest() == snapshot:
                    raise
                continue
            self._published_end = snapshot.log_end
            print_note(f"begins with a snapshot: {snapshot.size:,} bytes in {boottime() - began:.1f} s")
            return True
        return False

    def _known_deletions(self, snapshot: PartSnapshot, stop: threading.Event) -> dict[str, float] | None:
        """The times by which this machine knows the deletions of a snapshot; None: it has not heard of all."""
        deletions, until = ArchiveDeletions(self._part.archive), boottime() + DELETIONS_WAIT_S
        while True:
            latest, heard = deletions.latest(), deletions.by_frontier_clock
            if all(heard.get(name, -1.0) >= at for name, at in snapshot.deleted.items()):
                return {name: latest[name] for name, at in snapshot.deleted.items() if heard[name] == at}
            if boottime() > until or stop.wait(RETRY_S / 4):
                return None

    # -- new snapshots -----------------------------------------------------------------------------------------------

    def consider(self, follower: IndexFollower) -> None:
        """Make a snapshot if one is due; the follower has committed everything that it has read."""
        if self._publication is not None:
            self._end_publication(self._publication)
        elif self._owner is not None:
            self._begin_publication(self._owner, follower)
        elif self._is_due(follower):
            self._began_at = boottime()
            self._owner = self._pool.submit(self._with_store, lambda store: store.owner(node_id(self._part)))

    def _is_due(self, follower: IndexFollower) -> bool:
        now, end = boottime(), _log_end(follower)
        if end != self._seen_end:
            self._seen_end, self._seen_at = end, now
        if end <= self._published_end or now < self._next_at:
            return False
        is_old = now - self._published_at >= AGE_S_MAX
        return is_old or now - self._seen_at >= QUIET_S or end >= GROWTH * self._published_end

    def _begin_publication(self, asked: "Future[PartOwner | None]", follower: IndexFollower) -> None:
        if not asked.done() or follower.projection.state.connection.in_transaction:
            return
        self._owner, owner = None, _result(asked)
        if owner is None:  # the other owner makes them, or the database does not answer
            self._next_at = boottime() + 2 * PAUSE_S_MIN
            return
        try:
            folder = part_snapshot.stage(self._part, follower.projection.state.connection)
        except DataError as error:  # such as a disk that is nearly full: following goes on
            print_note(f"no snapshot: {error}")
            self._next_at = boottime() + AGE_S_MAX
            return
        end, deleted = _log_end(follower), follower.projection.deletions.dropped()
        self._publication = self._pool.submit(
            self._with_store, lambda store: store.publish(owner, folder, end, deleted)
        )

    def _end_publication(self, made: "Future[PublishedSnapshot | None]") -> None:
        if not made.done():
            return
        self._publication, published, now = None, _result(made), boottime()
        part_snapshot.unstage(self._part)
        self._next_at = now + max(PAUSE_S_MIN, (now - self._began_at) / TIME_SHARE)
        if published is not None:
            self._published_end, self._published_at = published.snapshot.log_end, now
            print_note(
                f"snapshot: {len(published.snapshot.files)} files, {published.snapshot.size:,} bytes, of which"
                f" {published.sent_bytes:,} were sent in {published.requests} requests"
            )

    def _with_store(self, do: Callable[[SnapshotStore], T]) -> T:
        opened: tuple[SegmentManifest, LogIdentity] | None = open_manifest(address_from_supervisor(), None, PATIENCE_S)
        if opened is None:
            raise DataError("the frontier has no segment log")
        with closing(opened[0]) as manifest:
            return do(SnapshotStore(manifest, opened[1], self._part.part, self._number))


def _log_end(follower: IndexFollower) -> int:
    return sum(follower.projection.state.cursor.values())


def _result(future: "Future[T]") -> T | None:
    try:
        return future.result()
    except TarrafaError as error:
        print_note(f"no snapshot: {error}")
        return None
