"""Damages of a data directory, as disks, kills and people make them."""

import gzip
import os
import shutil
import struct
import zlib
from contextlib import closing
from pathlib import Path
from typing import Any

import apsw
import tantivy

from tarrafa.archive.warc_reader import meta_path
from tarrafa.archive.warc_writer import (
    MEMBER_START,
    SIZED_START,
    DurableLengths,
    WarcWriter,
    durable_line,
    read_durable,
    sha1_digest,
)
from tarrafa.captures.store import captures_file
from tarrafa.crawl.verify.record_scan import ScannedRecord, scan_records
from tarrafa.graph.graph_writer import graph_file
from tarrafa.index import index_state, schema
from tarrafa.model import Outcome, Page, VisitRecord
from tarrafa.runtime.data_dir import DataDirectory
from tarrafa.triples import storage
from tarrafa.triples.snapshots import publish
from tarrafa.triples.triple_writer import graph_of


def names(data: DataDirectory) -> list[str]:
    """The pairs of files with visits, the largest first."""
    found = [path.stem for path in data.archive.glob("*.durable")]
    return sorted(found, key=lambda name: -meta_path(data.archive, name).stat().st_size)


def warc(data: DataDirectory) -> Path:
    return data.archive / f"{names(data)[0]}.warc.gz"


def meta(data: DataDirectory) -> Path:
    return meta_path(data.archive, names(data)[0])


def records(path: Path, *kinds: str) -> list[ScannedRecord]:
    found = scan_records(path, path.stat().st_size, lambda damaged: None)
    return [one for one in found if not kinds or one.kind in kinds]


def flip(path: Path, offset: int, bit: int = 3) -> None:
    with path.open("r+b") as file:
        file.seek(offset)
        byte = file.read(1)[0]
        file.seek(offset)
        file.write(bytes([byte ^ 1 << bit]))


def flip_in_body(data: DataDirectory) -> None:
    one = records(warc(data), "response")[5]
    flip(warc(data), one.position + one.length // 2)


def flip_in_header(data: DataDirectory) -> None:
    flip(warc(data), records(warc(data), "response")[5].position + SIZED_START.size + 20)


def flip_in_text(data: DataDirectory) -> None:
    one = records(meta(data), "conversion")[5]
    flip(meta(data), one.position + one.length // 2)


def flip_in_visit(data: DataDirectory) -> None:
    one = records(meta(data), "metadata")[5]
    flip(meta(data), one.position + one.length // 2)


def flip_in_trailer(data: DataDirectory) -> None:
    flip(warc(data), records(warc(data), "request")[5].end - 6)


def flip_in_extra_field(data: DataDirectory) -> None:
    flip(meta(data), records(meta(data), "metadata")[7].position + 17)


def cut_file(data: DataDirectory) -> None:
    os.truncate(meta(data), meta(data).stat().st_size - 700)


def cut_responses(data: DataDirectory) -> None:
    os.truncate(warc(data), warc(data).stat().st_size - 700)


def exchange_bytes(path: Path, first: ScannedRecord, second: ScannedRecord) -> None:
    """Exchange two records; what lies between them moves with the difference of their lengths."""
    content = path.read_bytes()
    one, other = content[first.position : first.end], content[second.position : second.end]
    between = content[first.end : second.position]
    path.write_bytes(content[: first.position] + other + between + one + content[second.end :])


def swap_records(data: DataDirectory) -> None:
    found = records(warc(data), "response")
    exchange_bytes(warc(data), found[3], found[5])


def swap_texts(data: DataDirectory) -> None:
    found = records(meta(data), "metadata")
    exchange_bytes(meta(data), found[3], found[6])


def packed(record: bytes) -> bytes:
    """The gzip member of a record, as we write it."""
    deflater = zlib.compressobj(6, zlib.DEFLATED, -15)
    body = deflater.compress(record) + deflater.flush() + struct.pack("<II", zlib.crc32(record), len(record))
    return SIZED_START.pack(MEMBER_START, SIZED_START.size + len(body), len(record)) + body


def replace_record(data: DataDirectory, path: Path, one: ScannedRecord, member: bytes) -> None:
    """Put a member in the place of another one, and move the mark with the difference."""
    content = path.read_bytes()
    path.write_bytes(content[: one.position] + member + content[one.end :])
    by, mark = len(member) - one.length, data.archive / f"{names(data)[0]}.durable"
    old = read_durable(mark)
    is_meta = path == meta(data)
    new = DurableLengths(old.warc + by * (not is_meta), old.meta + by * is_meta, old.visits_end + by * is_meta)
    mark.write_bytes(durable_line(new))


def forge_content(data: DataDirectory) -> None:
    """Another body with the right checksum, and with the digest of the first one."""
    one = next(one for one in records(warc(data), "response") if b"<p" in one.content)
    replace_record(data, warc(data), one, packed(one.whole.replace(b"<p", b"<q", 1)))


def forge_in_place(data: DataDirectory) -> None:
    """The same without another length: only the digest is wrong."""
    one = records(warc(data), "response")[5]
    digest = one.fields[b"warc-block-digest"]
    forged = digest[:-1] + (b"B" if digest[-1:] == b"A" else b"A")
    for level in range(10):
        deflater = zlib.compressobj(level, zlib.DEFLATED, -15)
        record = one.whole.replace(digest, forged)
        body = deflater.compress(record) + deflater.flush() + struct.pack("<II", zlib.crc32(record), len(record))
        member = SIZED_START.pack(MEMBER_START, SIZED_START.size + len(body), len(record)) + body
        if len(member) == one.length:
            break
    replace_record(data, warc(data), one, member)


def lose_mark(data: DataDirectory) -> None:
    (data.archive / f"{names(data)[0]}.durable").unlink()


def damage_mark(data: DataDirectory) -> None:
    flip(data.archive / f"{names(data)[0]}.durable", 1, 0)


def old_mark(data: DataDirectory) -> None:
    """A mark of some time ago: finished visits lie behind it."""
    path = data.archive / f"{names(data)[0]}.durable"
    one, other = records(meta(data), "metadata")[10], records(warc(data), "response")[10]
    path.write_bytes(durable_line(DurableLengths(other.position, one.position, one.position)))


def old_response_mark(data: DataDirectory) -> None:
    """The same for responses only."""
    path = data.archive / f"{names(data)[0]}.durable"
    found, one = read_durable(path), records(warc(data), "response")[10]
    path.write_bytes(durable_line(DurableLengths(one.position, found.meta, found.visits_end)))


def mark_beyond_file(data: DataDirectory) -> None:
    path = data.archive / f"{names(data)[0]}.durable"
    found = read_durable(path)
    path.write_bytes(durable_line(DurableLengths(found.warc + 5_000, found.meta, found.visits_end)))


def change(file: Path, sql: str) -> None:
    with closing(apsw.Connection(str(file))) as connection:
        connection.execute(sql)
        assert connection.changes() > 0


def query(file: Path, sql: str) -> list[tuple[Any, ...]]:
    with closing(apsw.Connection(str(file))) as connection:
        return connection.execute(sql).fetchall()


def delete_capture(data: DataDirectory) -> None:
    change(
        captures_file(data).path, "DELETE FROM captures WHERE (file, offset) = (SELECT file, max(offset) FROM captures)"
    )


def extra_capture(data: DataDirectory) -> None:
    sql = (
        "INSERT INTO captures SELECT urlkey, timestamp + 1, file, offset + 1, length, url, mime, status, digest, kind,"
        " refers, refers_url, collection, meta, noarchive FROM captures LIMIT 1"
    )
    change(captures_file(data).path, sql)


def wrong_capture(data: DataDirectory) -> None:
    change(
        captures_file(data).path,
        "UPDATE captures SET length = length + 1 WHERE offset = (SELECT max(offset) FROM captures)",
    )


def delete_node(data: DataDirectory) -> None:
    change(graph_file(data).path, "DELETE FROM nodes WHERE node = (SELECT max(node) FROM nodes WHERE visit >= 0)")


def delete_edge(data: DataDirectory) -> None:
    change(graph_file(data).path, "DELETE FROM edges WHERE (src, n) = (SELECT src, max(n) FROM edges)")


def old_node(data: DataDirectory) -> None:
    change(
        graph_file(data).path, "UPDATE nodes SET visit = 0 WHERE node = (SELECT max(node) FROM nodes WHERE visit > 0)"
    )


def cursor_beyond(data: DataDirectory) -> None:
    change(graph_file(data).path, "UPDATE cursor SET offset = offset + 1000000")


def wrong_in_links(data: DataDirectory) -> None:
    change(graph_file(data).path, "UPDATE nodes SET in_links = in_links + 1 WHERE node = 3")


def delete_page(data: DataDirectory) -> None:
    change(index_state.path_of(data), "DELETE FROM visits WHERE id = (SELECT max(id) FROM visits WHERE fate = 1)")


def extra_page(data: DataDirectory) -> None:
    sql = (
        "INSERT INTO visits SELECT x'00112233445566778899aabbccddeeff', collection, visit, file, start, in_links, rank,"
        " anchors, fate, cut, cut_text FROM visits WHERE fate = 1 LIMIT 1"
    )
    change(index_state.path_of(data), sql)


def _index_writer(data: DataDirectory) -> tuple[tantivy.Index, tantivy.IndexWriter]:
    index = schema.open_index(data)
    return index, index.writer(32 << 20, 1)


def delete_document(data: DataDirectory) -> None:
    index, writer = _index_writer(data)
    index.reload()
    key, _ = index.searcher().terms_with_prefix(schema.KEY, "", None, 1)[0]
    writer.delete_documents_by_term(schema.KEY, key)
    writer.commit()
    writer.wait_merging_threads()


def _overwrite_page(path: Path) -> None:
    """Another program wrote into a SQLite file."""
    with closing(apsw.Connection(str(path))) as connection:
        connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)
    with path.open("r+b") as file:
        file.seek(4096)
        file.write(b"\x5a" * 4 * 4096)


def damage_frontier(data: DataDirectory) -> None:
    _overwrite_page(data.frontier)


def damage_graph(data: DataDirectory) -> None:
    _overwrite_page(graph_file(data).path)


def damage_captures(data: DataDirectory) -> None:
    captures_file(data).path.write_bytes(b"no database" * 1000)


def damage_index(data: DataDirectory) -> None:
    _overwrite_page(index_state.path_of(data))


def lose_documents(data: DataDirectory) -> None:
    shutil.rmtree(schema.folder(data))


def extra_document(data: DataDirectory) -> None:
    _, writer = _index_writer(data)
    document = tantivy.Document()
    document.add_text(schema.KEY, f"journey/{'ab' * 16}")
    document.add_text(schema.COLLECTION, "journey")
    writer.add_document(document)
    writer.commit()
    writer.wait_merging_threads()


def delete_statements(data: DataDirectory) -> None:
    change(storage.database_path(data), "DELETE FROM pages WHERE page = (SELECT max(page) FROM pages)")


def delete_graph(data: DataDirectory) -> None:
    ((key, url),) = query(storage.database_path(data), "SELECT id, url FROM pages ORDER BY page LIMIT 1")
    store = storage.open_store(data)
    store.remove_graph(graph_of(url, key))
    store.flush()
    publish(store, data)


def forget_visit(data: DataDirectory) -> None:
    """The frontier loses a URL of which there is a record."""
    ((key,),) = query(data.frontier, "SELECT id FROM visit WHERE status = 200 ORDER BY at DESC LIMIT 1")
    for table in ("url", "visit"):
        change(data.frontier, f"DELETE FROM {table} WHERE id = x'{key.hex()}'")


def visit_without_record(data: DataDirectory) -> None:
    """The frontier finished a visit that was never archived."""
    newest = "(SELECT host, collection, id FROM visit WHERE status = 200 ORDER BY at DESC LIMIT 1)"
    change(data.frontier, f"UPDATE visit SET number = number + 1 WHERE (host, collection, id) = {newest}")
    change(data.frontier, f"UPDATE url SET visits = visits + 1 WHERE (host, collection, id) = {newest}")


def zero_block(data: DataDirectory) -> None:
    path, one = meta(data), records(meta(data), "metadata")[8]
    with path.open("r+b") as file:
        file.seek(one.position + 100)
        file.write(bytes(4096))


def duplicate_record(data: DataDirectory) -> None:
    """The last record of a response file once more, within the mark."""
    path, one = warc(data), records(warc(data))[-1]
    replace_record(data, path, one, path.read_bytes()[one.position :] * 2)


def lose_responses(data: DataDirectory) -> None:
    warc(data).unlink()


def lose_pair(data: DataDirectory) -> None:
    for path in data.archive.glob(f"{names(data)[0]}.*"):
        path.unlink()


def mismatched_files(data: DataDirectory) -> None:
    """The response files of two pairs have each other's name; one of them has only one record."""
    writer = WarcWriter(data.archive, "w9", 1_790_000_000.0)
    page = Page("http://n.test/")
    writer.append(VisitRecord("journey", page.url, 0, 0, Outcome(200, 1.0), page=page), None)
    writer.close()
    one, other = (data.archive / f"{name}.warc.gz" for name in (names(data)[0], names(data)[-1]))
    kept = one.read_bytes()
    one.write_bytes(other.read_bytes())
    other.write_bytes(kept)


def unreadable_visit(data: DataDirectory) -> None:
    """A visit whose JSON is none, with right checksum and digests."""
    one = records(meta(data), "metadata")[4]
    content = b"[" + one.content[1:]
    record = one.whole.replace(one.content, content)
    record = record.replace(one.fields[b"warc-block-digest"], sha1_digest(content).encode())
    replace_record(data, meta(data), one, packed(record))


def assert_gzip(path: Path) -> None:
    gzip.decompress(path.read_bytes())
