"""Segment manifest: the order of the segment log, in the first PostgreSQL server of a frontier.

`log_head` is one row: identity of the log, number of its segments, and the lengths of its two files. To append is one
statement, which also looks whether the writer is still registered as a worker: the lock on the worker's row makes a
release of its leases wait, and a release that came first leaves no row. So a visit is never handed out again before its
writer has lost the right to append. (A `bigserial` and `id > cursor` would lose segments: numbers become visible in
another order than they are given.)
"""

import time
import uuid

from tarrafa.archive.segment_log.segment import LogIdentity, NewSegment, Segment, SegmentPart
from tarrafa.archive.warc_writer import DurableLengths
from tarrafa.errors import ConfigError, DataError, LeaseLost
from tarrafa.frontier.messages import INDEX
from tarrafa.frontier.postgres.database_connection import PATIENCE_S, DatabaseConnection
from tarrafa.frontier.postgres.row_cache import Row
from tarrafa.i18n import message

MANIFEST_TABLES = """
CREATE TABLE log_head (
    id TEXT PRIMARY KEY, store TEXT NOT NULL, began DOUBLE PRECISION NOT NULL, segments BIGINT NOT NULL,
    warc_end BIGINT NOT NULL, meta_end BIGINT NOT NULL, visits_end BIGINT NOT NULL
);
CREATE TABLE segment (
    number BIGINT PRIMARY KEY, worker BIGINT NOT NULL, sequence BIGINT NOT NULL, name TEXT NOT NULL,
    warc_start BIGINT NOT NULL, warc_size BIGINT NOT NULL, warc_digest BYTEA NOT NULL,
    meta_start BIGINT NOT NULL, meta_size BIGINT NOT NULL, meta_digest BYTEA NOT NULL, visits_end BIGINT NOT NULL,
    appended DOUBLE PRECISION NOT NULL DEFAULT extract(epoch FROM clock_timestamp()), UNIQUE (worker, sequence)
);
CREATE TABLE swept_writer (worker BIGINT PRIMARY KEY);
"""
SNAPSHOT_TABLE = """
CREATE TABLE IF NOT EXISTS part_snapshot (
    part TEXT PRIMARY KEY, epoch BIGINT NOT NULL, log_end BIGINT NOT NULL, content BYTEA NOT NULL,
    written DOUBLE PRECISION NOT NULL DEFAULT extract(epoch FROM clock_timestamp())
);
"""
CREATE_LOG = """
INSERT INTO log_head SELECT %s, %s, %s, 0, 0, 0, 0
WHERE NOT EXISTS (SELECT 1 FROM log_head)
    AND (%s OR NOT EXISTS (SELECT 1 FROM visit)) AND NOT EXISTS (SELECT 1 FROM worker)
"""
APPEND = """
WITH writer AS (SELECT id FROM worker WHERE id = %(worker)s FOR KEY SHARE),
head AS (
    UPDATE log_head SET segments = segments + 1, warc_end = warc_end + %(warc_size)s,
        meta_end = meta_end + %(meta_size)s,
        visits_end = CASE WHEN %(visits_size)s > 0 THEN meta_end + %(visits_size)s ELSE visits_end END
    WHERE EXISTS (SELECT 1 FROM writer) RETURNING *
)
INSERT INTO segment SELECT segments, %(worker)s, %(sequence)s, %(name)s,
    warc_end - %(warc_size)s, %(warc_size)s, %(warc_digest)s, meta_end - %(meta_size)s, %(meta_size)s, %(meta_digest)s,
    visits_end
FROM head RETURNING number
"""
UNSWEPT = """
SELECT known FROM generate_series(1, (SELECT value FROM number WHERE name = 'workers')) AS known
WHERE NOT EXISTS (SELECT 1 FROM worker WHERE id = known)
    AND NOT EXISTS (SELECT 1 FROM swept_writer WHERE worker = known)
ORDER BY known LIMIT %s
"""
KNOWN = "SELECT warc_digest, meta_digest FROM segment WHERE worker = %(worker)s AND sequence = %(sequence)s"
SEGMENTS = """
SELECT number, name, warc_start, warc_size, warc_digest, meta_start, meta_size, meta_digest, visits_end
FROM segment WHERE number >= %s ORDER BY number LIMIT %s
"""

PUT_SNAPSHOT = """
WITH owner AS (
    SELECT epoch FROM part_owner
    WHERE projection = %(projection)s AND part = %(number)s AND node = %(node)s AND epoch = %(epoch)s FOR SHARE
)
INSERT INTO part_snapshot SELECT %(part)s, epoch, %(log_end)s, %(content)s FROM owner
ON CONFLICT (part) DO UPDATE SET epoch = EXCLUDED.epoch, log_end = EXCLUDED.log_end, content = EXCLUDED.content,
    written = EXCLUDED.written
WHERE part_snapshot.log_end <= EXCLUDED.log_end
"""
OWNER_EPOCH = "SELECT epoch FROM part_owner WHERE projection = %s AND part = %s AND node = %s"


class PostgresManifest:
    """The manifest by the address of the frontier's first server."""

    def __init__(self, dsn: str, patience_s: float = PATIENCE_S) -> None:
        self._database = DatabaseConnection(dsn, patience_s)

    def identity(self) -> LogIdentity | None:
        found = self._rows("SELECT id, store, began FROM log_head")
        return LogIdentity(*found[0]) if found else None

    def create(self, store: str, *, has_archive: bool = False) -> LogIdentity:
        """The log of this frontier, created before its first worker; `has_archive`: its visits are pushed next. Another
        store than the log's is refused."""
        self._rows_affected(CREATE_LOG, str(uuid.uuid4()), store, time.time(), has_archive)
        log = self.identity()
        if log is None:
            raise ConfigError(
                message(
                    "--store {store}: workers of this frontier have no store: each machine has an archive of its own;"
                    " begin with an empty database",
                    store=store,
                )
            )
        if log.store != store:
            raise ConfigError(
                message("--store {store}: the archive of this frontier is in {found}", store=store, found=log.store)
            )
        return log

    def append(self, new: NewSegment) -> None:
        values = {name: getattr(new, name) for name in new.__struct_fields__}

        def attempt() -> bool:
            connection = self._database.connect()
            known = connection.execute(KNOWN, values).fetchone()  # an answer may have been lost, but not the commit
            if known is None:
                return connection.execute(APPEND, values).fetchone() is not None
            if known != (new.warc_digest, new.meta_digest):
                raise DataError(
                    message("worker {worker} has appended another segment by this number", worker=str(new.worker))
                )
            return True

        if not self._database.with_retries(attempt):
            raise LeaseLost(
                message("worker {worker} was taken for lost: it archives nothing more", worker=str(new.worker))
            )

    def segments(self, first: int, most: int) -> list[Segment]:
        return [
            Segment(number, name, SegmentPart(*columns[:3]), SegmentPart(*columns[3:6]), columns[6])
            for number, name, *columns in self._rows(SEGMENTS, first, most)
        ]

    def last_number(self) -> int:
        return sum(number for (number,) in self._rows("SELECT segments FROM log_head"))

    def lengths(self) -> DurableLengths:
        found = self._rows("SELECT warc_end, meta_end, visits_end FROM log_head")
        return DurableLengths(*found[0]) if found else DurableLengths(0, 0, 0)

    def unswept_writers(self, most: int) -> list[int]:
        return [worker for (worker,) in self._rows(UNSWEPT, most)]

    def names(self, worker: int) -> list[str]:
        return [name for (name,) in self._rows("SELECT name FROM segment WHERE worker = %s", worker)]

    def mark_swept(self, worker: int) -> None:
        self._rows_affected("INSERT INTO swept_writer VALUES (%s) ON CONFLICT DO NOTHING", worker)

    def first_owner_epoch(self, node: str, number: int) -> int | None:
        return next((epoch for (epoch,) in self._rows(OWNER_EPOCH, INDEX, number, node)), None)

    def part_snapshot(self, part: str) -> bytes | None:
        found = self._rows("SELECT content FROM part_snapshot WHERE part = %s", part)
        return bytes(found[0][0]) if found else None

    def put_part_snapshot(self, part: str, number: int, node: str, epoch: int, log_end: int, content: bytes) -> bool:
        values = {
            "projection": INDEX, "part": part, "number": number, "node": node, "epoch": epoch, "log_end": log_end,
            "content": content,
        }  # fmt: skip
        return bool(
            self._database.with_retries(lambda: self._database.connect().execute(PUT_SNAPSHOT, values).rowcount)
        )

    def close(self) -> None:
        self._database.close()

    def _rows(self, sql: str, *values: object) -> list[Row]:
        return self._database.with_retries(lambda: self._database.connect().execute(sql, values).fetchall())

    def _rows_affected(self, sql: str, *values: object) -> int:
        return self._database.with_retries(lambda: self._database.connect().execute(sql, values).rowcount)
