"""Recovers an import that was killed: tells the frontier what the archive has of it.

The archive is written before the frontier, and the frontier before `imports.sqlite`. What the import's own archive
files hold behind the place that is saved there is replayed, by the code that rebuilds a frontier. Repeating is
harmless: a visit that the frontier knows changes nothing.
"""

from collections.abc import Callable
from pathlib import Path

import msgspec

from tarrafa.archive import warc_reader
from tarrafa.archive.warc_reader import ArchiveEvent, ArchiveSurvey
from tarrafa.archive.warc_writer import RESOURCE, read_durable
from tarrafa.crawl.rebuild_frontier import HistoryReplay, ReplayClock
from tarrafa.crawl.warc_import.import_state import ImportState, capture_key
from tarrafa.frontier.replay import FrontierReplay
from tarrafa.model import CollectionlessNote, DeletedNote, HostNote, Note, VisitRecord
from tarrafa.parse.url import canonical
from tarrafa.runtime.data_dir import DataDirectory

WRITER_NAME = "import"  # in the names of the archive's files
_decode_note: Callable[[bytes], Note] = msgspec.json.Decoder(Note).decode
_decode_visit = msgspec.json.Decoder(VisitRecord).decode


def import_lengths(archive: Path) -> dict[str, int]:
    """The durable lengths of the files that imports have written."""
    paths = sorted(archive.glob(f"tarrafa-*-{WRITER_NAME}-*.durable"))
    return {path.stem: read_durable(path).meta for path in paths if warc_reader.worker_of(path.stem) == WRITER_NAME}


def recover_import(data: DataDirectory, replay: FrontierReplay, past: ReplayClock, state: ImportState) -> int:
    """Tell the frontier what a killed import had archived before it could; returns the number of visits."""
    lengths, found = import_lengths(data.archive), 0
    history = HistoryReplay(replay, past, ArchiveSurvey(), {}, 0.0, {})
    for file, length in lengths.items():
        path, start = warc_reader.meta_path(data.archive, file), state.position(file)
        if start >= length:
            continue
        keys = list[bytes]()
        with replay.transaction():
            for position, head, content in warc_reader.read_records(path, start, length):
                decode = _decode_note if head.kind == RESOURCE else _decode_visit
                what: VisitRecord | Note = warc_reader.decode_body(path, position, decode, content)
                if isinstance(what, CollectionlessNote | DeletedNote) or not replay.revision(what.collection):
                    continue
                at = warc_reader.moment(path, position, head)
                history.apply(ArchiveEvent(at, file, what))
                keys += _keys_of(what, at)
                found += isinstance(what, VisitRecord)
            replay.free_hosts()
        state.save_batch([], keys, {}, {file: length})
    return found


def _keys_of(what: VisitRecord | Note, at: float) -> list[bytes]:
    if isinstance(what, VisitRecord):
        return [capture_key(what.collection, what.url, what.outcome.at, what.outcome.length)]
    if isinstance(what, HostNote) and what.status:
        return [capture_key(what.collection, canonical(f"{what.host}/robots.txt") or "", at, 0)]
    return []
