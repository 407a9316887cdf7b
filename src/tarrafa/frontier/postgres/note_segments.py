"""Notes of the segment log: deletions of collections and takedowns become segments of the log.

A segment of notes has no objects: its bytes are in its row of the manifest. So it is appended in the transaction that
records the deletion or the takedown, and machines learn of it while the store is away. No worker may append it: the
fence of a deletion is that no visit of the collection is handed out, and of a takedown that it is in the frontier.
Promises: each deletion and each takedown of the first server is one note, in their order; every segment with visits of
a deleted collection stands before its note, and those of a later collection of that name behind it.
"""

from io import BytesIO

import msgspec
import psycopg

from tarrafa.archive.segment_log.segment import META_ENDING, WARC_ENDING, LogIdentity, digest
from tarrafa.archive.warc_writer import RecordPair, RecordStream
from tarrafa.frontier.clock_sync import CLOCK_SKEW_S_MAX
from tarrafa.frontier.postgres.row_cache import Row
from tarrafa.model import DeletedNote, Note, TakedownNote
from tarrafa.takedown import TakedownEntry

NOTES_PER_SEGMENT = 1_000
NOTE_WRITER = 0  # no worker has this number
HEAD = "SELECT id, store, began, deletions, takedowns FROM log_head"
DELETIONS = "SELECT number, name, at FROM deleted WHERE number > %s ORDER BY number LIMIT %s"
TAKEDOWNS = "SELECT number, entry FROM takedown WHERE number > %s ORDER BY number LIMIT %s"
APPEND_NOTES = """
WITH head AS (
    UPDATE log_head SET segments = segments + 1, meta_end = meta_end + %(size)s, deletions = %(deletions)s,
        takedowns = %(takedowns)s, note = segments + 1 RETURNING *
)
INSERT INTO segment (number, worker, sequence, name, warc_start, warc_size, warc_digest, meta_start, meta_size,
    meta_digest, visits_end, note)
SELECT segments, %(writer)s, segments, id || '/note/' || segments, warc_end, 0, %(empty)s, meta_end - %(size)s,
    %(size)s, %(digest)s, visits_end, %(note)s
FROM head
"""
_decode = msgspec.json.Decoder(TakedownEntry).decode


def append_notes(connection: psycopg.Connection[Row], scale: float = 1.0) -> None:
    """Append what is not in the log yet, in a transaction of the caller's; without a log nothing happens. `scale`: of
    the clock of the visits."""
    lock = ""  # the head is locked, which makes all writers wait, only if there is something to append
    while (head := connection.execute(HEAD + lock).fetchone()) is not None:
        *log, deletions, takedowns = head
        deleted = connection.execute(DELETIONS, (deletions, NOTES_PER_SEGMENT)).fetchall()
        entries = connection.execute(TAKEDOWNS, (takedowns, NOTES_PER_SEGMENT)).fetchall()
        if not (deleted or entries):
            return
        if not lock:
            lock = " FOR UPDATE"
            continue
        notes: list[tuple[float, Note]] = [(at, deletion_note(name, at, scale)) for _, name, at in deleted]
        notes += [(_decode(entry).at.timestamp(), TakedownNote(msgspec.Raw(entry))) for _, entry in entries]
        content = _pack(LogIdentity(*log), notes)
        values = {
            "size": len(content), "writer": NOTE_WRITER, "empty": digest(b""), "digest": digest(content),
            "note": content, "deletions": deleted[-1][0] if deleted else deletions,
            "takedowns": entries[-1][0] if entries else takedowns,
        }  # fmt: skip
        connection.execute(APPEND_NOTES, values)


def deletion_note(collection: str, at: float, scale: float = 1.0) -> DeletedNote:
    """Visits are dated by clocks that may be ahead of the frontier's by as much as a worker tolerates: every visit
    before the note is older than it."""
    return DeletedNote(collection, at + CLOCK_SKEW_S_MAX * scale, at)


def is_name_free(connection: psycopg.Connection[Row], collection: str, now: float, scale: float = 1.0) -> bool:
    """Whether the note of a deletion is old enough: by any worker's clock, visits from now on are younger than it."""
    found = connection.execute("SELECT at FROM deleted, log_head WHERE name = %s", (collection,)).fetchone()
    return found is None or now > found[0] + 2 * CLOCK_SKEW_S_MAX * scale


def _pack(log: LogIdentity, notes: list[tuple[float, Note]]) -> bytes:
    meta = BytesIO()
    records = RecordPair(RecordStream(BytesIO(), log.file + WARC_ENDING), RecordStream(meta, log.file + META_ENDING))
    for at, note in notes:
        records.append_note(note, at)
    return meta.getvalue()
