"""One index of everything that the archive has, made anew: the newest version of each page, once.

`rebuild index` on the archive itself would write every version, and tantivy counts deleted documents until it merges:
the frequencies of words would be those of another moment.
"""

from pathlib import Path

from benchmarks.fault_injection.machines import Machine
from tarrafa.archive.warc_reader import durable_lengths, follow, meta_path, read_collection_notes
from tarrafa.archive.warc_writer import WarcWriter
from tarrafa.index.index_state import IndexAction, index_action
from tarrafa.model import VisitRecord
from tarrafa.runtime.data_dir import DataDirectory


def build_whole_index(machine: Machine, archive: Path, root: Path) -> DataDirectory:
    """A data directory with the newest version of each page of an archive, its link graph, and its index in one
    part."""
    data, newest = DataDirectory(root), dict[str, VisitRecord]()
    data.create()
    for entry in follow(archive, {}):
        record = entry.record
        if index_action(record) is not IndexAction.NOTHING and record.visit >= _number(newest.get(record.url)):
            newest[record.url] = record
    at = min(record.outcome.at for record in newest.values())
    writer = WarcWriter(data.archive, "whole", at)
    for file, length in sorted(durable_lengths(archive).items()):
        for note in read_collection_notes(meta_path(archive, file), length):
            writer.append_note(note, at)
    for record in newest.values():
        writer.append(record, None)
    writer.close()
    for command in (["rebuild", "graph"], ["rebuild", "index", "--shards", "1"]):
        done = machine.run(*command, "--data", str(data.root))
        assert done.returncode == 0, done.stdout + done.stderr
    return data


def _number(record: VisitRecord | None) -> int:
    return -1 if record is None else record.visit
