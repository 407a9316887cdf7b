"""What an import has left behind: records of the archive, rows of the frontier."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import apsw
from warcio.archiveiterator import ArchiveIterator

from tarrafa.archive.warc_reader import follow
from tarrafa.crawl.warc_import import import_warc as module
from tarrafa.crawl.warc_import.import_warc import WarcImport, import_warc
from tarrafa.model import VisitRecord
from tarrafa.runtime.data_dir import DataDirectory

URL_COLUMNS = "url, depth, redirects, state, visits, status, type, fetched, content_id, etag, role, payload, archived"


@contextmanager
def silent(what: str, total: int) -> Iterator[Any]:
    yield lambda more: None


def run_import(data: DataDirectory, files: list[Path], collection: str, *, everything: bool = False) -> WarcImport:
    """Import without the followers, which only read what the import wrote."""

    async def nothing(data: DataDirectory) -> None:
        pass

    followed, module._follow = module._follow, nothing
    try:
        return asyncio.run(import_warc(data, files, collection, silent, everything=everything))
    finally:
        module._follow = followed


def visits(data: DataDirectory) -> list[VisitRecord]:
    return [entry.record for entry in follow(data.archive, {})]


def visits_of(data: DataDirectory, url: str) -> list[VisitRecord]:
    return sorted((one for one in visits(data) if one.url == url), key=lambda one: one.outcome.at)


def rows(data: DataDirectory, sql: str, *values: object) -> list[tuple[Any, ...]]:
    connection = apsw.Connection(str(data.frontier), flags=apsw.SQLITE_OPEN_READONLY)
    try:
        return connection.execute(sql, values).fetchall()
    finally:
        connection.close()


def frontier_state(data: DataDirectory) -> dict[str, list[tuple[Any, ...]]]:
    """Everything that an import decides in the frontier."""
    return {
        "url": rows(data, f"SELECT {URL_COLUMNS} FROM url ORDER BY url"),
        "visit": rows(data, "SELECT * FROM visit ORDER BY host, id, number"),
        "pending": rows(data, "SELECT host, id FROM pending ORDER BY host, id"),
        "counter": rows(data, "SELECT * FROM counter WHERE value != 0 ORDER BY collection, bucket"),
        "held": rows(data, "SELECT id FROM host WHERE worker IS NOT NULL"),
    }


def warc_records(data: DataDirectory, kind: str = "") -> list[tuple[str, str, dict[str, str], bytes]]:
    """Type, URL, header and block of the records in the archive's own WARC files, not the descriptions."""
    found = []
    for path in sorted(data.archive.glob("*.warc.gz")):
        if ".meta." in path.name:
            continue
        with path.open("rb") as stream:
            for one in ArchiveIterator(stream, no_record_parse=True):
                fields = dict(one.rec_headers.headers)
                if one.rec_type != "warcinfo" and kind in ("", one.rec_type):
                    found.append((one.rec_type, fields.get("WARC-Target-URI", ""), fields, one.raw_stream.read()))
    return found
