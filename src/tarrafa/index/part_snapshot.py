"""Snapshot of a part of the index: the files of one commit in a folder, and such files made a part again.

    FOLDER/text/             tantivy's files of the commit, and the list of them that it keeps
    FOLDER/followed.sqlite   the state that describes the commit

Promises: documents and state are of the same commit; staging costs no copy of the documents, which are linked. A part
is placed in an order in which a kill leaves either nothing or all of it.
Knows nothing of where snapshots are kept.
"""

import os
import shutil
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

import apsw
import msgspec
import tantivy

from tarrafa.errors import DataError, write_errors
from tarrafa.i18n import message
from tarrafa.index import index_state, schema
from tarrafa.runtime.data_dir import DataDirectory, sync_directory
from tarrafa.runtime.sqlite import SqliteFile

STAGED, FETCHED, DOCUMENTS = "staged", "fetched", "text"
ATTEMPTS_MAX = 10  # while tantivy merges


class _Deletes(msgspec.Struct):
    opstamp: int


class _Segment(msgspec.Struct):
    segment_id: str
    deletes: _Deletes | None


class _Commit(msgspec.Struct):
    segments: list[_Segment]


_decode_commit = msgspec.json.Decoder(_Commit).decode


def stage(part: DataDirectory, connection: apsw.Connection) -> Path:
    """Link and copy the files of the newest commit into a folder; `connection` is the one that writes the state, with
    nothing uncommitted."""
    folder = part.index / STAGED
    with write_errors(folder):
        for _ in range(ATTEMPTS_MAX):
            shutil.rmtree(folder, ignore_errors=True)
            (folder / DOCUMENTS).mkdir(parents=True)
            with suppress(FileNotFoundError):  # segments were merged meanwhile
                _link_commit(schema.folder(part), folder / DOCUMENTS)
                break
        else:
            raise DataError(message("{folder}: the index changes too quickly for a snapshot", folder=part.index))
    with index_state.database_file(part).errors(connection):
        connection.execute("VACUUM INTO ?", (str(folder / index_state.path_of(part).name),))
    return folder


def _link_commit(source: Path, target: Path) -> None:
    meta = (source / "meta.json").read_bytes()
    names = ["meta.json"]
    for segment in _decode_commit(meta).segments:
        prefix = segment.segment_id.replace("-", "")
        deleted = f"{prefix}.{segment.deletes.opstamp}.del" if segment.deletes is not None else ""
        found = [path.name for path in source.glob(f"{prefix}.*") if path.suffix != ".del" or path.name == deleted]
        if not found or (deleted and deleted not in found):
            raise FileNotFoundError(deleted or prefix)
        names += found
    (target / "meta.json").write_bytes(meta)
    (target / ".managed.json").write_bytes(msgspec.json.encode(names))
    for name in names[1:]:
        os.link(source / name, target / name)


def unstage(part: DataDirectory) -> None:
    shutil.rmtree(part.index / STAGED, ignore_errors=True)


def fetch_folder(part: DataDirectory) -> Path:
    """An empty folder for the files of a snapshot."""
    folder = part.index / FETCHED
    with write_errors(folder):
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
    return folder


def ahead_marker(part: DataDirectory) -> Path:
    """This file exists as long as the link graph here has not read as much of the log as a part that was placed."""
    return part.index / "ahead"


def place(part: DataDirectory, folder: Path, dropped: Mapping[str, float]) -> None:
    """Make the files of a folder the part, where there is none. `dropped`: collections whose deletion is known here by
    another time than where the files were made. Files of another version of Tarrafa are refused."""
    with schema.tantivy_errors(folder):
        is_ours = tantivy.Index.open(str(folder / DOCUMENTS)).schema == schema.SCHEMA
    state = folder / index_state.path_of(part).name
    file = SqliteFile(state, index_state.FORMAT)
    if not is_ours or file.found_format() != file.format:
        raise DataError(message("{folder}: made by another version of Tarrafa", folder=folder))
    with file.writing() as connection:
        connection.execute("DELETE FROM settled")  # it is about the link graph of another machine
        connection.executemany("UPDATE deleted SET at = max(at, ?2) WHERE collection = ?1", [*dropped.items()])
    with write_errors(part.index):
        index_state.clear_applied(part)
        index_state.database_file(part).remove()
        schema.remove(part)
        ahead_marker(part).touch()
        state.replace(index_state.path_of(part))
        (folder / DOCUMENTS).replace(schema.folder(part))
        sync_directory(part.index)
        shutil.rmtree(folder, ignore_errors=True)
