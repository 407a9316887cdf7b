"""Archives whose every count is known, because they were written here."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from tarrafa.archive.warc_writer import WarcWriter
from tarrafa.model import HostNote, Link, Outcome, Page, VisitRecord
from tarrafa.report.schema import NamedCount
from tarrafa.runtime.data_dir import DataDirectory

NAME = "c"
T = 1_790_000_000.0


def a_visit(
    url: str, at: float = 0.0, status: int = 200, *, visit: int = 1, depth: int = 1, links: Iterable[str] = (),
    language: str = "pt", charset: str = "utf-8", collection: str = NAME, worker: str = "", **outcome: Any,
) -> VisitRecord:  # fmt: skip
    """A visit `at` seconds after T; a page comes with it when the status is 200, and is kept."""
    page = Page(url, links=tuple(map(Link, links)), language=language, charset=charset) if status == 200 else None
    facts: dict[str, Any] = {"kept": status == 200, "type": "text/html", "length": 1000} | outcome
    return VisitRecord(collection, url, visit, depth, Outcome(status, T + at, **facts), page=page, worker=worker)


def counted(rows: Iterable[NamedCount]) -> dict[str, int]:
    return {row.name: row.count for row in rows}


def robots(host: str, text: str = "", status: int = 200, sitemaps: tuple[str, ...] = ()) -> HostNote:
    return HostNote(NAME, host, 0, 1.0, sitemaps, status, T + 1e6, text.encode())


def an_archive(root: Path, *files: tuple[str, Sequence[VisitRecord | HostNote]]) -> DataDirectory:
    """One file of the archive for each worker."""
    data = DataDirectory(root)
    data.create()
    for worker, written in files:
        writer = WarcWriter(data.archive, worker, T)
        for one in written:
            if isinstance(one, VisitRecord):
                writer.append(one, None)
            else:
                writer.append_note(one, T)
        writer.close()
    return data
