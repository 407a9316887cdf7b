"""Switch of a compaction: the new files take the place of the old ones, and every reader's place moves with them.

Order: new files into the archive; then the places of watches in them; then graph, index, triple store and index of
captures, each in one transaction that moves rows and cursors; then the cursors of programs and of the import; then the
old files go. Promises: every step may be repeated; after a kill, `finish` does all of them again, without effect where
they were done. The caller holds DATA/lock, so that no follower runs. Readers may run: what they know of an old file is
true until it is removed, and then they look it up again (`captures/capture_access`).
"""

import logging
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import apsw
import msgspec

from tarrafa.archive.projection import lock_projection, read_cursor
from tarrafa.archive.warc_reader import Cursor, meta_path
from tarrafa.archive.warc_writer import read_durable, recover_archive, remove_file
from tarrafa.captures.store import captures_file, writer_lock
from tarrafa.crawl.compaction.journal import Journal, Output, discard, folder_of, is_interrupted, journal_path
from tarrafa.crawl.compaction.watch_rows import advance_watches, forget_files, watch_cursor, watches_locked
from tarrafa.crawl.warc_import.import_state import import_state_file
from tarrafa.errors import DataError, write_errors
from tarrafa.graph import graph_writer
from tarrafa.i18n import message
from tarrafa.index import index_state, shards
from tarrafa.runtime.data_dir import DataDirectory, sync_directory, write_atomically
from tarrafa.runtime.sqlite import SqliteFile, rows
from tarrafa.triples import storage

log = logging.getLogger(__name__)
PLACES = """
CREATE TEMP TABLE old (file INTEGER PRIMARY KEY, source INTEGER NOT NULL, new INTEGER NOT NULL);
INSERT INTO temp.old SELECT f.file, s.source, n.file FROM journal.source s JOIN files f ON f.name = s.name
    JOIN files n ON n.name = s.output;
CREATE TEMP TABLE moved (file INTEGER, start INTEGER, new_file INTEGER, new_start INTEGER, PRIMARY KEY (file, start));
INSERT INTO temp.moved SELECT o.file, v.start, o.new, v.new FROM temp.old o JOIN journal.visit v USING (source);
"""
MOVE_PAGES = """
UPDATE {table} SET (file, {start}) = (SELECT new_file, new_start FROM temp.moved m
    WHERE m.file = {table}.file AND m.start = {table}.{start}) WHERE file IN (SELECT file FROM temp.old)
"""
MOVE_CAPTURES = """
INSERT OR REPLACE INTO captures SELECT urlkey, timestamp, o.new, c.new, length, url, mime, status, digest, kind, refers,
    refers_url, collection, m.new_start, noarchive
    FROM captures JOIN temp.old o USING (file)
    JOIN journal.capture c ON c.source = o.source AND c.start = captures.offset
    LEFT JOIN temp.moved m ON m.file = captures.file AND m.start = captures.meta;
DELETE FROM captures WHERE file IN (SELECT file FROM temp.old);
DELETE FROM damaged WHERE file IN (SELECT file FROM temp.old);
"""


def finish_interrupted(data: DataDirectory) -> bool:
    """Finish or discard a compaction that was interrupted; whether there was one to finish. The caller holds
    DATA/lock."""
    found = is_interrupted(data)
    if found:
        finish(data)
    else:
        discard(data)
    return found


def recover(data: DataDirectory) -> None:
    """Bring the archive into order after a kill: of a compaction, and of writers. The caller holds DATA/lock."""
    finish_interrupted(data)
    recover_archive(data.archive)


def finish(data: DataDirectory) -> None:
    """Put the new files of the committed journal in place."""
    journal = Journal(data)
    try:
        with journal.errors, watches_locked(data):
            _place_outputs(data, journal)
            _check_outputs(data, journal)
            advance_watches(data, journal.moved_cursor(watch_cursor(data))[0])  # before any reader has the new files
            move_projections(data, journal)
            _move_programs(data, journal)
            _move_import(data, journal)
            _remove_sources(data, journal)
            forget_files(data, [one.name for one in journal.sources()])
    finally:
        journal.close()
    discard(data)


# -- files -------------------------------------------------------------------------------------------------------------


def _place_outputs(data: DataDirectory, journal: Journal) -> None:
    with write_errors(data.archive):
        for output in journal.outputs():
            for ending in (".warc.gz", ".meta.warc.gz", ".durable"):  # the durable length last: then the pair is there
                _place(data.archive, output, ending)
            sync_directory(output.directory)
        sync_directory(data.archive)


def _place(archive: Path, output: Output, ending: str) -> None:
    directory = archive if ending == ".durable" else output.directory
    name, new = f"{output.name}{ending}", folder_of(output.directory) / f"{output.name}{ending}"
    if new.exists():
        if ending == ".durable" and output.directory != archive:
            write_atomically(archive / name, new.read_bytes())
            return
        new.replace(directory / name)
    if directory != archive and not (archive / name).is_symlink():
        (archive / name).symlink_to(directory / name)


def _remove_sources(data: DataDirectory, journal: Journal) -> None:
    """Remove the old pairs: the durable length first, so that nobody begins to read them."""
    with write_errors(data.archive):
        for source in journal.sources():
            (data.archive / f"{source.name}.durable").unlink(missing_ok=True)
        sync_directory(data.archive)
        for source in journal.sources():
            for path in (data.archive / f"{source.name}.warc.gz", meta_path(data.archive, source.name)):
                remove_file(path)
        sync_directory(data.archive)


def _check_outputs(data: DataDirectory, journal: Journal) -> None:
    """Raise `DataError` unless every new file is there, whole."""
    for output in journal.outputs():
        files = ((f"{output.name}.warc.gz", output.lengths.warc), (f"{output.name}.meta.warc.gz", output.lengths.meta))
        for name, length in files:
            path = data.archive / name
            if not path.exists() or path.stat().st_size != length:
                raise DataError(message("{path}: is missing or incomplete; the files it replaces stay", path=path))
        if read_durable(data.archive / f"{output.name}.durable") != output.lengths:
            path = data.archive / f"{output.name}.durable"
            raise DataError(message("{path}: is missing or incomplete; the files it replaces stay", path=path))


# -- projections -------------------------------------------------------------------------------------------------------


def move_projections(data: DataDirectory, journal: Journal) -> None:
    """Move rows and cursors of all projections that are there, each in one transaction."""
    graph, captures = graph_writer.graph_file(data), captures_file(data)
    if graph.found_format() == graph.format:
        with graph_writer.writer_lock(data), _moving(graph, journal, data) as connection:
            connection.execute(MOVE_PAGES.format(table="nodes", start="place"))
    if captures.found_format() == captures.format:
        with writer_lock(data), _moving(captures, journal, data) as connection:
            connection.execute(MOVE_CAPTURES)
            _move_response_cursor(connection, journal)
    for part in shards.parts(data):
        index, triples = index_state.database_file(part), storage.database_file(part)
        if index.found_format() == index.format:
            with lock_projection(part.index, "index"), _moving(index, journal, data) as connection:
                connection.execute(MOVE_PAGES.format(table="visits", start="start"))
        if triples.found_format() == triples.format:
            with storage.acquire_lock(part), _moving(triples, journal, data) as connection:
                connection.execute(MOVE_PAGES.format(table="visits", start="start"))


@contextmanager
def _moving(file: SqliteFile, journal: Journal, data: DataDirectory) -> Iterator[apsw.Connection]:
    """One transaction in which the rows of old files are moved; names and cursors are moved with them."""
    with ExitStack() as stack:
        connection = file.open(sync="full")
        stack.callback(connection.close)
        stack.enter_context(file.errors(connection))
        connection.execute("ATTACH ? AS journal", (str(journal_path(data)),))
        connection.execute("BEGIN IMMEDIATE")
        sql = "INSERT OR IGNORE INTO files (name) SELECT name FROM journal.output"
        connection.execute(sql)
        connection.execute(PLACES)
        yield connection
        news, gone = journal.moved_cursor(read_cursor(connection))
        connection.executemany("DELETE FROM cursor WHERE file = ?", ((name,) for name in gone))
        connection.executemany("INSERT OR REPLACE INTO cursor VALUES (?, ?)", news.items())
        connection.execute("DELETE FROM files WHERE file IN (SELECT file FROM temp.old)")
        connection.execute("COMMIT")


def _move_response_cursor(connection: apsw.Connection, journal: Journal) -> None:
    """The index of captures had read the old response files to their ends."""
    known = {name for (name,) in rows(connection, "SELECT file FROM warc_cursor")}
    sources = [one for one in journal.sources() if one.name in known]
    connection.executemany("DELETE FROM warc_cursor WHERE file = ?", ((one.name,) for one in sources))
    outputs = {one.output for one in sources}
    news = [(one.name, one.lengths.warc) for one in journal.outputs() if one.name in outputs]
    connection.executemany("INSERT OR REPLACE INTO warc_cursor VALUES (?, ?)", news)


# -- programs and imports ----------------------------------------------------------------------------------------------


def program_cursors(data: DataDirectory) -> dict[Path, Cursor]:
    """The cursors of programs that call `pages()`."""
    found = sorted(data.cursors.glob("*.json")) if data.cursors.is_dir() else []
    return {path: msgspec.json.decode(path.read_bytes(), type=Cursor) for path in found}


def _move_programs(data: DataDirectory, journal: Journal) -> None:
    for path, cursor in program_cursors(data).items():
        news, gone = journal.moved_cursor(cursor)
        if gone:
            rest = {name: place for name, place in cursor.items() if name not in gone}
            write_atomically(path, msgspec.json.encode(rest | news))


def _move_import(data: DataDirectory, journal: Journal) -> None:
    """The frontier knows all of the import files that were merged."""
    file = import_state_file(data)
    if not file.found_format():
        return
    with file.writing(sync="full") as connection:
        known = {name for (name,) in rows(connection, "SELECT file FROM archive_position")}
        sources = [one for one in journal.sources() if one.name in known]
        connection.executemany("DELETE FROM archive_position WHERE file = ?", ((one.name,) for one in sources))
        outputs = {one.output for one in sources}
        news = [(one.name, one.lengths.meta) for one in journal.outputs() if one.name in outputs]
        connection.executemany("INSERT OR REPLACE INTO archive_position VALUES (?, ?)", news)
