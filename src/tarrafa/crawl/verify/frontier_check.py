"""Check of the frontier: each finished visit has its record, and each record is that of a visit that was handed out.

The frontier is read before the archive: a record is durable before its visit is finished, so every finished visit has
its record in what is read then. A record whose visit is not finished is no finding: after a crash the visit is made
again, with another number. A visit that another machine made has its record there: only the visits of workers that have
written files here are compared.
"""

from collections.abc import Callable
from contextlib import closing
from pathlib import Path

from tarrafa.archive.warc_reader import worker_of
from tarrafa.crawl.verify.expected import ExpectedContent
from tarrafa.crawl.verify.findings import Finding
from tarrafa.crawl.verify.store_comparison import Comparison, read_in_steps
from tarrafa.frontier.store.database import SCHEMA_VERSION
from tarrafa.model import OLDER_VERSION
from tarrafa.parse.url import host_id, host_key
from tarrafa.runtime.sqlite import SqliteFile, rows

HOST_MIN = -(1 << 63)
VISITS = (
    "SELECT host, collection, id, number, at, status, worker FROM visit WHERE (host, collection, id, number)"
    " > (?, ?, ?, ?) ORDER BY host, collection, id, number LIMIT ?"
)
WITHOUT_RECORD = (
    "SELECT f.host, f.id, f.collection, f.visit, f.status, f.worker FROM finished f WHERE NOT EXISTS"
    " (SELECT 1 FROM visit v WHERE v.id = f.id AND v.collection = f.collection AND v.visit = f.visit)"
    " ORDER BY f.collection, f.id, f.visit"
)
NEWEST_RECORDS = (
    "SELECT id, collection, max(visit), url, at FROM visit WHERE NOT deleted AND visit <> ? GROUP BY id, collection"
    " ORDER BY collection, id"
)


def frontier_file(path: Path) -> SqliteFile:
    return SqliteFile(path, SCHEMA_VERSION)


def read_finished_visits(path: Path, expected: ExpectedContent) -> None:
    """Remember the finished visits that the frontier remembers."""
    file = frontier_file(path)
    with file.reading() as connection:
        names = dict(rows(connection, "SELECT id, name FROM collection"))
    found = read_in_steps(file, VISITS, (HOST_MIN, 0, b"", -1), lambda row: row[:4])
    for host, number, key, visit, at, status, worker in found:
        if number in names:
            expected.append("finished", (host, key, names[number], visit, at, status, worker))


class FinishedCheck:
    """The check that each finished visit has a record. `files`: names of archive files, those that are gone
    included."""

    def __init__(self, shared: Comparison, files: set[str]) -> None:
        self._shared, self.add = shared, shared.findings.add
        self._workers = {worker_of(name) for name in files}

    def compare(self, url_of: Callable[[int, bytes, str], str]) -> int:
        """The number of visits that are known to be lost. `url_of`: by host, id and collection; empty: unknown."""
        run, known_losses = self._shared.expected.connection.execute, 0
        for host, key, name, visit, status, worker in run(WITHOUT_RECORD):
            if worker not in self._workers:
                continue
            if run("SELECT 1 FROM known_loss WHERE (id, collection, visit) = (?, ?, ?)", (key, name, visit)).fetchone():
                known_losses += 1
                continue
            tail = run("SELECT file FROM tail WHERE (id, collection, visit) = (?, ?, ?)", (key, name, visit)).fetchone()
            url = url_of(host, key, name)
            if not url:  # its collection was deleted meanwhile
                continue
            if tail is not None:
                file = f"{self._shared.expected.file_name(tail[0])}.durable"
                self.add(Finding("mark-behind", "archive", file))
            else:
                detail = f"status {status}, by {worker}"
                self.add(Finding("visit-without-record", "frontier", "", None, None, name, url, visit, detail))
        return known_losses


class FrontierCheck:
    """The check of the frontier's file."""

    def __init__(self, shared: Comparison, path: Path, finished: FinishedCheck) -> None:
        self._shared, self._file, self._finished = shared, frontier_file(path), finished

    def compare_finished(self) -> int:
        """Each finished visit has a record; the number of visits that are known to be lost."""
        return self._finished.compare(self._url)

    def _url(self, host: int, key: bytes, name: str) -> str:
        sql = (
            "SELECT url FROM url WHERE host = ? AND id = ? AND collection = (SELECT id FROM collection WHERE name = ?)"
        )
        with self._file.reading() as connection:
            found = rows(connection, sql, (host, key, name))
        return str(found[0][0]) if found else ""

    def compare_records(self) -> None:
        """Each record is that of a visit whose number was given. The frontier is read now: it may know more."""
        unknown = dict[str, int]()
        with closing(self._file.open_readonly()) as connection, self._file.errors(connection):
            numbers = dict(rows(connection, "SELECT name, id FROM collection"))
            deleted = {name for (name,) in rows(connection, "SELECT name FROM deleted")}
            found = self._shared.expected.connection.execute(NEWEST_RECORDS, (OLDER_VERSION,))
            for key, name, visit, url, _ in found:
                if name not in numbers:
                    unknown[name] = unknown.get(name, 0) + 1
                    continue
                sql = "SELECT visits FROM url WHERE host = ? AND collection = ? AND id = ?"
                row = rows(connection, sql, (host_id(host_key(url)), numbers[name], key))
                if not row or row[0][0] < visit:
                    detail = f"it has handed out {row[0][0]} visits of the URL" if row else "it does not know the URL"
                    self._shared.findings.add(
                        Finding("record-unknown", "frontier", "", None, None, name, url, visit, detail)
                    )
        for name in sorted(unknown.keys() - deleted):
            detail = f"it does not know the collection, of which there are {unknown[name]:,} pages"
            self._shared.findings.add(Finding("record-unknown", "frontier", collection=name, detail=detail))
