"""Check of a frontier on another machine or on PostgreSQL, through the calls that export it.

What the frontier knows of its URLs is read once, before the archive, into the temporary file: in a crawl that goes on,
records that are about as new as that reading are not compared. Everything else is as in `frontier_check`.
"""

from contextlib import closing

from tarrafa.crawl.verify.expected import ExpectedContent
from tarrafa.crawl.verify.findings import Finding
from tarrafa.crawl.verify.frontier_check import FinishedCheck
from tarrafa.frontier.address import Address, connect_blocking
from tarrafa.frontier.export_import.export_records import ExportBatch, FrontierCursor
from tarrafa.model import OLDER_VERSION

URLS_PER_CALL = 2_000
RECENT_S = 120.0  # clocks differ, and a visit is handed out some time before its record
REMOTE_TABLES = """
CREATE TABLE handed_out (
    id BLOB, collection TEXT, visits INTEGER, url TEXT, PRIMARY KEY (id, collection)
) WITHOUT ROWID;
CREATE TABLE remote_collection (name TEXT PRIMARY KEY) WITHOUT ROWID;
"""
UNKNOWN_RECORDS = (
    "SELECT v.collection, v.url, max(v.visit), h.visits FROM visit v LEFT JOIN handed_out h ON h.id = v.id AND"
    " h.collection = v.collection WHERE NOT v.deleted AND v.visit <> ? AND v.at < ? AND v.collection IN"
    " (SELECT name FROM remote_collection) GROUP BY v.id, v.collection HAVING ifnull(h.visits, -1) < max(v.visit)"
    " ORDER BY v.collection, v.id"
)
UNKNOWN_COLLECTIONS = (
    "SELECT v.collection, count(DISTINCT v.id) FROM visit v WHERE NOT v.deleted AND v.at < ? AND v.collection NOT IN"
    " (SELECT name FROM remote_collection) GROUP BY v.collection ORDER BY v.collection"
)


def read_remote_frontier(address: Address, expected: ExpectedContent) -> None:
    """Remember the finished visits of the frontier, and how many visits of each URL it has handed out."""
    expected.connection.execute(REMOTE_TABLES)
    with closing(connect_blocking(address)) as frontier:
        known = [one.name for one in frontier.call("collection_states")]
        known += [one.collection for one in frontier.call("deletions", 0)]
        for name in known:
            expected.append("remote_collection", (name,))
        place: FrontierCursor | None = FrontierCursor()
        while place is not None:
            batch: ExportBatch = frontier.call("export_hosts", place, URLS_PER_CALL)
            for host in batch.images:
                for share in host.shares:
                    for url in share.urls:
                        expected.append("handed_out", (url.id, share.collection, url.visits, url.url))
                        for one in url.history:
                            visit = (host.id, url.id, share.collection, one.number, one.at, one.status, one.worker)
                            expected.append("finished", visit)
            place = batch.end
    expected.flush()


class RemoteFrontierCheck:
    """`read_at`: when the frontier was read; `files`: names of archive files, those that are gone included."""

    def __init__(self, finished: FinishedCheck, expected: ExpectedContent, read_at: float) -> None:
        self._finished, self._expected, self._until = finished, expected, read_at - RECENT_S

    def compare_finished(self) -> int:
        """Each finished visit has a record; the number of visits that are known to be lost."""
        return self._finished.compare(self._url)

    def _url(self, host: int, key: bytes, name: str) -> str:
        sql = "SELECT url FROM handed_out WHERE id = ? AND collection = ?"
        row = self._expected.connection.execute(sql, (key, name)).fetchone()
        return str(row[0]) if row is not None else ""

    def compare_records(self) -> None:
        """Each record is that of a visit whose number was given."""
        run, add = self._expected.connection.execute, self._finished.add
        for name, url, visit, visits in run(UNKNOWN_RECORDS, (OLDER_VERSION, self._until)):
            detail = "it does not know the URL" if visits is None else f"it has handed out {visits} visits of the URL"
            add(Finding("record-unknown", "frontier", "", None, None, name, url, visit, detail))
        for name, pages in run(UNKNOWN_COLLECTIONS, (self._until,)):
            detail = f"it does not know the collection, of which there are {pages:,} pages"
            add(Finding("record-unknown", "frontier", collection=name, detail=detail))
