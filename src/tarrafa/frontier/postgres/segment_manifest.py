"""Segment manifest: the order of the segment log, in the first PostgreSQL server of a frontier.

`log_head` is one row: identity of the log, number of its segments, and the lengths of its two files. To append is one
statement, which also looks whether the writer is still registered as a worker: the lock on the worker's row makes a
release of its leases wait, and a release that came first leaves no row. So a visit is never handed out again before its
writer has lost the right to append. (A `bigserial` and `id > cursor` would lose segments: numbers become visible in
another order than they are given.)
"""

import time
import uuid

from tarrafa.archive.segment_log.segment import LogHead, LogIdentity, NewSegment, Segment, SegmentPart
from tarrafa.archive.warc_writer import DurableLengths
from tarrafa.errors import ConfigError, DataError, LeaseLost
from tarrafa.frontier.messages import INDEX
from tarrafa.frontier.postgres.database_connection import PATIENCE_S, DatabaseConnection
from tarrafa.frontier.postgres.note_segments import append_notes
from tarrafa.frontier.postgres.row_cache import Row
from tarrafa.i18n import message

MANIFEST_TABLES = """
CREATE TABLE log_head (
    id TEXT PRIMARY KEY, store TEXT NOT NULL, began DOUBLE PRECISION NOT NULL, segments BIGINT NOT NULL,
    warc_end BIGINT NOT NULL, meta_end BIGINT NOT NULL, visits_end BIGINT NOT NULL,
    deletions BIGINT NOT NULL DEFAULT 0, takedowns BIGINT NOT NULL DEFAULT 0, -- the last of each that is a note
    note BIGINT NOT NULL DEFAULT 0, rewrites BIGINT NOT NULL DEFAULT 0 -- number of the last note, and of rewrites
);
CREATE TABLE segment (
    number BIGINT PRIMARY KEY, worker BIGINT NOT NULL, sequence BIGINT NOT NULL, name TEXT NOT NULL,
    warc_start BIGINT NOT NULL, warc_size BIGINT NOT NULL, warc_digest BYTEA NOT NULL,
    meta_start BIGINT NOT NULL, meta_size BIGINT NOT NULL, meta_digest BYTEA NOT NULL, visits_end BIGINT NOT NULL,
    warc_offset BIGINT NOT NULL DEFAULT 0, meta_offset BIGINT NOT NULL DEFAULT 0, -- in their objects
    note BYTEA NOT NULL DEFAULT '', rewrite BIGINT NOT NULL DEFAULT 0,
    appended DOUBLE PRECISION NOT NULL DEFAULT extract(epoch FROM clock_timestamp()), UNIQUE (worker, sequence)
);
CREATE INDEX segment_note ON segment (number) WHERE note <> '';
CREATE INDEX segment_merged ON segment (name) WHERE name LIKE '%/merged/%';
CREATE INDEX segment_rewrite ON segment (rewrite) WHERE rewrite > 0;
CREATE TABLE retired_segment (name TEXT PRIMARY KEY, due DOUBLE PRECISION NOT NULL);
CREATE TABLE swept_writer (worker BIGINT PRIMARY KEY);
CREATE TABLE part_snapshot (
    part TEXT PRIMARY KEY, epoch BIGINT NOT NULL, log_end BIGINT NOT NULL, content BYTEA NOT NULL,
    written DOUBLE PRECISION NOT NULL DEFAULT extract(epoch FROM clock_timestamp())
);
"""
ANNOUNCED_S = 3600.0  # for two objects
CREATE_LOG = """
INSERT INTO log_head (id, store, began, segments, warc_end, meta_end, visits_end) SELECT %s, %s, %s, 0, 0, 0, 0
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
INSERT INTO segment (number, worker, sequence, name, warc_start, warc_size, warc_digest, meta_start, meta_size,
    meta_digest, visits_end)
SELECT segments, %(worker)s, %(sequence)s, %(name)s,
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
SELECT number, name, warc_start, warc_size, warc_digest, warc_offset, meta_start, meta_size, meta_digest, meta_offset,
    visits_end, note, rewrite
FROM segment WHERE number >= %s ORDER BY number LIMIT %s
"""
ANNOUNCE = """
INSERT INTO retired_segment VALUES (%s, extract(epoch FROM clock_timestamp()) + %s)
ON CONFLICT (name) DO UPDATE SET due = excluded.due
"""
RETIRED = """
SELECT name FROM retired_segment WHERE due <= extract(epoch FROM clock_timestamp()) ORDER BY name LIMIT %s
"""
HEAD = "SELECT segments, (SELECT name FROM segment WHERE number = segments), note, rewrites FROM log_head"
AGE = "SELECT (extract(epoch FROM clock_timestamp()) - appended)::float8 FROM segment WHERE number = %s"
REWRITTEN = SEGMENTS.replace("number >= %s ORDER BY number LIMIT %s", "rewrite > %s ORDER BY rewrite") + (
    "FETCH FIRST (%s) ROWS WITH TIES\n"
)
REPLACE = """
WITH old AS (SELECT number, name FROM segment WHERE number = ANY(%(numbers)s::bigint[]) FOR UPDATE),
same AS (SELECT 1 WHERE (SELECT array_agg(name ORDER BY number) FROM old) = %(names)s::text[]),
head AS (UPDATE log_head SET rewrites = rewrites + %(changes)s WHERE EXISTS (SELECT 1 FROM same) RETURNING rewrites),
retired AS (
    INSERT INTO retired_segment SELECT DISTINCT name, extract(epoch FROM clock_timestamp()) + %(after_s)s FROM old, same
    ON CONFLICT DO NOTHING
),
announced AS (DELETE FROM retired_segment WHERE name = ANY(%(new_names)s::text[]) AND EXISTS (SELECT 1 FROM same))
UPDATE segment SET name = new.name, warc_digest = new.warc_digest, meta_digest = new.meta_digest,
    warc_offset = new.warc_offset, meta_offset = new.meta_offset,
    rewrite = CASE WHEN new.changed THEN head.rewrites ELSE segment.rewrite END
FROM head, unnest(
    %(numbers)s::bigint[], %(new_names)s::text[], %(warc_digests)s::bytea[], %(meta_digests)s::bytea[],
    %(warc_offsets)s::bigint[], %(meta_offsets)s::bigint[], %(changed)s::bool[]
) AS new(number, name, warc_digest, meta_digest, warc_offset, meta_offset, changed)
WHERE segment.number = new.number RETURNING segment.number
"""
OF_NAME = SEGMENTS.replace(
    "number >= %s ORDER BY number LIMIT %s", "name = %s AND name LIKE '%%/merged/%%' ORDER BY number"
)
NAMES_OF = "SELECT name FROM segment WHERE number = ANY(%(numbers)s::bigint[]) ORDER BY number"
NOTES = SEGMENTS.replace("number >= %s", "note <> '' AND number > %s")
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
        values = str(uuid.uuid4()), store, time.time(), has_archive
        self._database.with_retries(lambda: self._create(values))
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

    def _create(self, values: tuple[str, str, float, bool]) -> None:
        connection = self._database.connect()
        with connection.transaction():
            connection.execute(CREATE_LOG, values)
            append_notes(connection)

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
        return self._segments(SEGMENTS, first, most)

    def notes(self, after: int, most: int) -> list[Segment]:
        return self._segments(NOTES, after, most)

    def _segments(self, sql: str, *values: object) -> list[Segment]:
        return [
            Segment(number, name, SegmentPart(*columns[:4]), SegmentPart(*columns[4:8]), *columns[8:])
            for number, name, *columns in self._rows(sql, *values)
        ]

    def announce(self, name: str) -> None:
        self._rows_affected(ANNOUNCE, name, ANNOUNCED_S)

    def replace(self, old: list[Segment], new: list[Segment], after_s: float) -> bool:
        changed = [
            (one.warc.digest, one.meta.digest) != (other.warc.digest, other.meta.digest)
            for one, other in zip(old, new, strict=True)
        ]
        values = {
            "numbers": [one.number for one in new], "names": [one.name for one in old], "after_s": after_s,
            "new_names": [one.name for one in new], "changed": changed, "changes": int(any(changed)),
            "warc_digests": [one.warc.digest for one in new], "meta_digests": [one.meta.digest for one in new],
            "warc_offsets": [one.warc.offset for one in new], "meta_offsets": [one.meta.offset for one in new],
        }  # fmt: skip

        def attempt() -> bool:
            connection = self._database.connect()
            if connection.execute(REPLACE, values).fetchone() is not None:
                return True
            now = [name for (name,) in connection.execute(NAMES_OF, values).fetchall()]
            return now == values["new_names"]  # an answer may have been lost

        return self._database.with_retries(attempt)

    def merged_in(self, name: str) -> list[Segment]:
        return self._segments(OF_NAME, name)

    def rewritten(self, after: int, most: int) -> list[Segment]:
        return self._segments(REWRITTEN, after, most)

    def retired(self, most: int) -> list[str]:
        return [name for (name,) in self._rows(RETIRED, most)]

    def forget_retired(self, names: list[str]) -> None:
        self._rows_affected("DELETE FROM retired_segment WHERE name = ANY(%s)", names)

    def head(self) -> LogHead:
        return LogHead(*next(iter(self._rows(HEAD)), ()))

    def age(self, number: int) -> float:
        return max(0.0, *(float(age) for (age,) in self._rows(AGE, number)), 0.0)

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

    def forget_part_snapshots(self) -> None:
        self._rows_affected("DELETE FROM part_snapshot")

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
