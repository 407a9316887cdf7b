"""Graph follower: applies archived visits to the link graph and delivers weights to the frontier.

Promises: follows the archive from where it stopped, after any kind of stop; delivers each change to the frontier at
least once, in absolute values, every two seconds, and at once when no more records come; never calls the crawl. Where
several nodes follow one archive, one owns the graph: it delivers everything at the beginning of its epoch, and nothing
once the frontier refuses that epoch; the others deliver nothing. One
process at a time (by a lock). `behind` is 0 only when every durable record is applied and every change of in-links and
depths delivered; ranks are delivered a few at a time and do not count. Knows nothing of how `deliver` reaches the
frontier.
"""

import threading
from collections.abc import Callable
from contextlib import closing, suppress
from types import TracebackType

import apsw

from tarrafa.archive.projection import (
    ProjectionDeletions,
    read_cursor,
    unread_bytes,
    unread_entries,
    with_each_follower,
)
from tarrafa.archive.warc_reader import Cursor, bytes_behind, visit_lengths
from tarrafa.clock import boottime
from tarrafa.errors import LeaseLost
from tarrafa.frontier.messages import UrlWeight
from tarrafa.graph.graph_writer import (
    NODE_BYTES,
    GraphWriter,
    WeightBatch,
    graph_file,
    graph_is_current,
    mark_nodes_undelivered,
    open_writer,
    remove_graph,
    writer_lock,
)
from tarrafa.graph.rank_file import UndeliveredRanks, delivered_path
from tarrafa.graph.ranking_schedule import RankingScheduler
from tarrafa.runtime.data_dir import DataDirectory
from tarrafa.runtime.sqlite import rows

Deliver = Callable[[str, list[UrlWeight]], None]

BATCH_RECORDS = 1_000
POLL_S = 0.2
DELIVER_EVERY_S = 2.0  # while records come: by then a popular URL has got many links
PASS_EVERY_S = 0.7  # a pass over 140 records costs two thirds of what four passes over 35 cost
WEIGHTS_PER_CALL = 5_000
OF_COLLECTION = "(?1 IS NULL OR collection = (SELECT collection FROM collections WHERE name = ?1)) LIMIT 1000"
WEIGHTS_WAITING = f"""SELECT ifnull(sum(size), 0) FROM
    (SELECT length(nodes) / {NODE_BYTES} AS size FROM undelivered WHERE {OF_COLLECTION})"""  # noqa: S608
DEPTHS_WAITING = f"SELECT count(*) FROM (SELECT 1 FROM falling JOIN nodes USING (node) WHERE {OF_COLLECTION})"  # noqa: S608
RANKS_PER_CALL = 1_000  # per delivery: a ranking may have changed all ranks, and the frontier has other clients


class GraphFollower:
    """Applies new records pass by pass. Use it in a `with`: it holds the lock and the connection. Without `deliver`, or
    when that raises `LeaseLost`, another node owns the graph."""

    def __init__(self, data: DataDirectory, deliver: Deliver | None) -> None:
        self._data = data
        self._deliver = deliver
        self._lock = writer_lock(data)
        try:
            self._connection = open_writer(data)
            self._errors = graph_file(data).errors(self._connection)
            self._graph = GraphWriter(self._connection)
            self._deletions = ProjectionDeletions(data.archive, self._graph.state)
            self.ranks = UndeliveredRanks(data, self._graph.incarnation)
            if deliver is None:
                self._stop_delivering()
        except BaseException:
            self._lock.close()
            raise

    def __enter__(self) -> "GraphFollower":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.ranks.close()
        with suppress(apsw.Error):  # a full disk: the next follower does it
            self._connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)  # a reader that closes last cannot
        self._connection.close()
        self._lock.close()

    @property
    def turned(self) -> int:
        return self._graph.turned

    @property
    def incarnation(self) -> int:
        return self._graph.incarnation

    def read(self, stop: threading.Event | None = None) -> int:
        """Apply all durable records; the number of records that were read."""
        total = 0
        upto, entries = unread_entries(
            self._data.archive,
            self._graph.state,
            self.drop_deleted,
            self._graph.note_suffixes,
            conversions=frozenset(),
        )
        while not (stop is not None and stop.is_set()):
            with self._errors:
                records = self._graph.commit(entries, BATCH_RECORDS)
                total += records
                if not records and not self._graph.has_falling_depths():
                    self._graph.advance(upto)
                    break
        return total

    def has_unread(self) -> bool:
        """Whether there are durable records that were not read yet."""
        return bytes_behind(self._data.archive, self._graph.state.cursor) > 0

    def drop_deleted(self) -> None:
        """Remove the collections that were deleted since."""
        for name, at in self._deletions.pending():
            with self._errors:
                self._graph.drop_collection(name, at)

    def deliver_weights(self) -> bool:
        """Deliver the weights of one call; whether there were any. An exception of `deliver` changes nothing."""
        if self._deliver is None:
            return False
        with self._errors:
            batch = self._graph.next_weights(WEIGHTS_PER_CALL, self.ranks.rank)
        if batch is not None:
            self._deliver_batch(self._deliver, batch)
        return batch is not None

    def deliver_ranks(self) -> int:
        """Deliver some ranks that the last ranking has changed, if any; their number."""
        nodes = self.ranks.next_nodes(RANKS_PER_CALL) if self._deliver is not None else []
        if nodes:
            with self._errors:
                batches = self._graph.weights(nodes, self.ranks.rank)
            for batch in batches:
                if self._deliver is not None:
                    self._deliver_batch(self._deliver, batch)
        return len(nodes)

    def mark_nodes_undelivered(self) -> None:
        """Mark the weights of all nodes as undelivered, each once: a rebuild has marked many again and again."""
        with self._errors, self._connection:
            mark_nodes_undelivered(self._connection)

    def _deliver_batch(self, deliver: Deliver, batch: WeightBatch) -> None:
        if batch.weights:
            try:
                deliver(batch.collection, batch.weights)
            except LeaseLost:
                self._stop_delivering()
                return
        with self._errors:
            self._graph.mark_delivered(batch)
        self.ranks.mark_delivered(batch.nodes)

    def _stop_delivering(self) -> None:
        self._deliver = None
        with self._errors:
            self._graph.stop_delivering()


def follow(data: DataDirectory, deliver: Deliver | None, stop: threading.Event, epoch: int = 0) -> None:
    """Follow the archive until `stop` is set, and start the ranking process when the graph has changed enough. An owner
    of a new epoch delivers everything anew."""
    if epoch > 0:
        mark_all_undelivered(data, epoch)
    with GraphFollower(data, deliver) as follower:
        delivered_at, read_at = 0.0, boottime()
        scheduler = RankingScheduler(data, follower.incarnation)
        while not stop.is_set():
            began = boottime()
            read = follower.read(stop)
            read_at = boottime() if read else read_at
            if scheduler.poll(follower.turned, boottime() - read_at):
                follower.ranks.reload()
            if not read or began - delivered_at >= DELIVER_EVERY_S:
                while not stop.is_set() and follower.deliver_weights():
                    pass
            if began - delivered_at >= (DELIVER_EVERY_S if read else PASS_EVERY_S):
                follower.deliver_ranks()
                delivered_at = began
            pauses = read < BATCH_RECORDS
            while pauses and not stop.wait(POLL_S):
                is_early = boottime() - began < PASS_EVERY_S and not data.exhausted.exists()
                pauses = is_early and read > 0 and follower.has_unread()
        scheduler.close(follower.turned)


def catch_up(data: DataDirectory, deliver: Deliver) -> int:
    """Apply and deliver all durable records; the number of records read."""
    with GraphFollower(data, deliver) as follower:
        read = follower.read()
        while follower.deliver_weights():
            pass
        while not follower.ranks.is_done:
            follower.deliver_ranks()
    return read


def drop_deleted(data: DataDirectory) -> bool:
    """Remove deleted collections from the graph. False: there is no graph, or its follower is running and does it."""
    parts = [data] if graph_is_current(data) else []
    return with_each_follower(parts, _silent_follower, GraphFollower.drop_deleted)


def _silent_follower(data: DataDirectory) -> GraphFollower:
    """A follower that delivers nothing."""
    return GraphFollower(data, lambda collection, weights: None)


def rebuild(data: DataDirectory) -> int:
    """Rebuild the graph from the archive, with its rankings; the number of records read.

    The next follower delivers everything to the frontier: all values count as undelivered.
    """
    from tarrafa.graph.ranking_process import compute_rankings

    with writer_lock(data):
        remove_graph(data)
    with _silent_follower(data) as follower:
        read = follower.read()
        follower.mark_nodes_undelivered()
    compute_rankings(data)
    return read


def mark_all_undelivered(data: DataDirectory, epoch: int = 0) -> int:
    """Mark everything as undelivered, for a rebuilt frontier or for the owner of a new epoch; the number of weights."""
    marked = 0
    with writer_lock(data), closing(open_writer(data)) as connection, graph_file(data).errors(connection):
        began = rows(connection, "SELECT value FROM counters WHERE name = 'epoch'")
        if not epoch or began != [(epoch,)]:
            delivered_path(data).unlink(missing_ok=True)
            with connection:
                connection.execute("UPDATE nodes SET depth_sent = NULL")
                connection.execute("INSERT OR REPLACE INTO counters VALUES ('epoch', ?)", (epoch,))
                marked = mark_nodes_undelivered(connection)
    return marked


def cursor(data: DataDirectory) -> Cursor:
    """How far the follower has read the archive; an empty cursor without a graph."""
    return _read_progress(data)[0]


def behind(data: DataDirectory, until: Cursor | None = None, collection: str | None = None) -> int:
    """0 when graph and frontier hold all records of the archive (now, or at a given moment), of all collections or of
    one; otherwise roughly the number of missing bytes and weights.

    The archive's length is read first: records that become durable later were not there at the time of the call.
    """
    upto = visit_lengths(data.archive) if until is None else until
    seen, undelivered = _read_progress(data, collection)
    return undelivered + unread_bytes(upto, [seen])


def has_begun(data: DataDirectory, epoch: int) -> bool:
    """Whether the owner of this epoch has marked everything as undelivered: from then on `behind` counts it."""
    if not graph_is_current(data):
        return False
    with graph_file(data).reading() as connection:
        return rows(connection, "SELECT value FROM counters WHERE name = 'epoch'") == [(epoch,)]


def _read_progress(data: DataDirectory, collection: str | None = None) -> tuple[Cursor, int]:
    """The cursor of the follower, and roughly how many depths and weights are still pending, read at one moment."""
    if not graph_is_current(data):
        return {}, 0
    with graph_file(data).reading() as connection:
        waiting = sum(rows(connection, sql, (collection,))[0][0] for sql in (WEIGHTS_WAITING, DEPTHS_WAITING))
        return read_cursor(connection), waiting
