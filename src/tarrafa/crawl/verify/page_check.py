"""Check of index and triple store: each page is that of its newest record, and has its document or its statements."""

import time
from collections.abc import Iterator
from contextlib import suppress
from itertools import groupby

import apsw
from pyoxigraph import NamedNode
from xxhash import xxh3_128_digest

from tarrafa.archive.warc_reader import read_entry
from tarrafa.crawl.verify.expected import INDEX_BIT, TRIPLES_BIT
from tarrafa.crawl.verify.findings import Finding
from tarrafa.crawl.verify.store_comparison import Comparison, Row, Suspect, damage_of, merged, read_in_steps
from tarrafa.errors import DataError
from tarrafa.index import index_state, schema
from tarrafa.index.index_state import IndexAction, PageFate
from tarrafa.index.reader import IndexReader
from tarrafa.model import UrlId
from tarrafa.runtime.data_dir import DataDirectory
from tarrafa.runtime.sqlite import SqliteFile, rows
from tarrafa.takedown import TakedownSet, TakedownTarget
from tarrafa.triples import status, storage
from tarrafa.triples.snapshots import TripleSnapshot
from tarrafa.triples.triple_writer import (
    INFERRED_PREFIX,
    RULES_GRAPH,
    StatedContent,
    graph_of,
    quads_of,
    statements_of,
)

LOOKS_MAX, LOOK_PAUSE_S = 6, 0.5  # at a follower between its two commits
STORED_VISITS = (
    "SELECT id, collection, visit, (SELECT name FROM files WHERE files.file = visits.file), start, {own} FROM visits"
    " WHERE (id, collection) > (?, ?) ORDER BY id, collection LIMIT ?"
)
EXPECTED_VISITS = (
    "SELECT id, collection, max(visit), file, start, fate, url, at, statements FROM visit WHERE applied & ?"
    " AND part = ? AND action <> ? GROUP BY id, collection ORDER BY id, collection"
)


def _either(expected: Row | None, stored: Row | None) -> Row:
    found = expected if expected is not None else stored
    assert found is not None
    return found


def _visit_key(row: Row) -> tuple[UrlId, str]:
    return row[0], row[1]


class PageCheck:
    """The check of one part of the index or of the triple store."""

    def __init__(
        self, shared: Comparison, store: str, part: DataDirectory, number: int, dropped: dict[str, float]
    ) -> None:
        self._shared, self._store, self._part, self._number, self._dropped = shared, store, part, number, dropped
        is_index = store == "index"
        self._file: SqliteFile = index_state.database_file(part) if is_index else storage.database_file(part)
        self._bit = INDEX_BIT if is_index else TRIPLES_BIT
        self._own = "fate" if is_index else "at"
        with self._file.reading() as connection:  # pages that were taken down when they were applied
            found = rows(connection, "SELECT kind, name FROM withheld")
        self._withheld = TakedownSet(shared.takedowns.targets | {TakedownTarget(*one) for one in found})

    def add(self, kind: str, collection: str = "", url: str = "", visit: int | None = None, detail: str = "") -> None:
        name = str(self._file.path.relative_to(self._shared.data.root))
        finding = Finding(kind, self._store, name, collection=collection, url=url, visit=visit, detail=detail)
        self._shared.findings.add(finding)

    def compare_visits(self) -> None:
        """Compare the newest visit of each page with its newest record."""
        shared = self._shared
        for expected, stored in merged(self._expected(), self._stored(), _visit_key):
            name = _either(expected, stored)[1]
            if shared.is_unsettled(name, self._dropped):
                continue
            if stored is None and expected is not None:
                if not self._withheld.covers(expected[6]):
                    self.add("page-missing", name, expected[6], expected[2])
            elif expected is None and stored is not None:
                self._suspect_extra(stored)
            elif expected is not None and stored is not None:
                self._compare_visit(expected, stored)

    def _expected(self) -> Iterator[Row]:
        bindings = (self._bit, self._number, IndexAction.NOTHING.value)
        yield from self._shared.expected.connection.execute(EXPECTED_VISITS, bindings)

    def _stored(self) -> Iterator[Row]:
        return read_in_steps(self._file, STORED_VISITS.format(own=self._own), (b"", ""), _visit_key)

    def _suspect_extra(self, stored: Row) -> None:
        key, name, visit = stored[:3]
        detail = f"visit {visit} of the URL with the id {key.hex()}"
        if self._shared.expected.has_visit(key, name, visit):
            return  # it was read between cursor and comparison
        finding = Finding(
            "page-extra", self._store, str(self._file.path.relative_to(self._shared.data.root)), collection=name,
            visit=visit, detail=detail,
        )  # fmt: skip
        self._shared.suspect(Suspect(key, name, visit, finding))

    def _compare_visit(self, expected: Row, stored: Row) -> None:
        key, name, visit, _, _, fate, url = expected[:7]
        if stored[2] > visit:
            self._suspect_extra(stored)
            return
        is_there = stored[3] is not None
        problem = ""
        if stored[2] < visit:
            problem = f"it has visit {stored[2]}"
        elif is_there and not self._shared.expected.has_visit_at(key, name, visit, (stored[3], stored[4])):
            problem = f"it says that its record is at {stored[4]:,} of {stored[3]}"
        if not problem and not self._withheld.covers(url):
            if self._store == "index" and stored[5] != fate:
                problem = f"it is {PageFate(stored[5]).name.lower()}, not {PageFate(fate).name.lower()}"
            elif is_there != (fate == PageFate.INDEXED):
                problem = "it is there" if is_there else "it is not there"
        if problem:
            self.add("page-differs", name, url, visit, problem)

    # -- documents -------------------------------------------------------------------------------------------------

    def compare_documents(self) -> None:
        """Compare the documents that can be found with the pages of the index, some at a time."""
        if not schema.exists(self._part):
            return
        reader = IndexReader(self._part)
        names = {name for name, _ in self._terms(reader, schema.COLLECTION, "")}
        with self._file.reading() as connection:
            names |= {name for (name,) in rows(connection, "SELECT DISTINCT collection FROM visits")}
        for name in sorted(names):
            for first in range(256):
                self._compare_some_documents(reader, name, first)

    def _compare_some_documents(self, reader: IndexReader, name: str, first: int) -> None:
        """tantivy commits before SQLite: a difference counts if it stays."""
        for look in range(LOOKS_MAX if self._shared.is_running else 1):
            if look:
                time.sleep(LOOK_PAUSE_S)
            there, wanted = self._documents(reader, name, first), self._indexed(name, first)
            if there.keys() == wanted and set(there.values()) <= {1}:
                return
        for key in sorted(there.keys() - wanted):
            self.add("document-extra", name, detail=f"the URL with the id {key.hex()}")
        for key in sorted(wanted - there.keys()):
            self.add("document-missing", name, self._url(key))
        for key in sorted(key for key, count in there.items() if count > 1 and key in wanted):
            self.add("document-extra", name, self._url(key), detail=f"there are {there[key]}")

    def _documents(self, reader: IndexReader, name: str, first: int) -> dict[UrlId, int]:
        found = self._terms(reader, schema.KEY, f"{name}/{first:02x}")
        return {bytes.fromhex(term.rpartition("/")[2]): count for term, count in found if count}

    def _terms(self, reader: IndexReader, field: str, prefix: str) -> list[tuple[str, int]]:
        return reader.snapshot().living_terms(field, prefix)

    def _indexed(self, name: str, first: int) -> set[UrlId]:
        sql = "SELECT id FROM visits WHERE id >= ? AND id < ? AND collection = ? AND fate = 1"
        upper = bytes([first + 1]) if first < 255 else b"\xff" * 17
        with self._file.reading() as connection:
            return {key for (key,) in rows(connection, sql, (bytes([first]), upper, name))}

    def _url(self, key: UrlId) -> str:
        found = self._shared.expected.connection.execute(
            "SELECT url FROM visit WHERE id = ? LIMIT 1", (key,)
        ).fetchone()
        return str(found[0]) if found else ""

    # -- statements ------------------------------------------------------------------------------------------------

    def compare_statements(self) -> None:
        """Compare the pages with statements: which there are, and how many each has."""
        if any(self._shared.is_unsettled(name, self._dropped) for name in self._shared.deleted):
            self._shared.notes.append("triples: a deletion is still to be applied; statements were not compared")
            return
        pages = read_in_steps(
            self._file, "SELECT id, url, statements FROM pages WHERE id > ? ORDER BY id LIMIT ?", (b"",),
            lambda row: (row[0],),
        )  # fmt: skip
        for expected, stored in merged(self._stated(), pages, lambda row: row[0]):
            key, url = _either(expected, stored)[:2]
            count, found = expected[2] if expected else 0, stored[2] if stored else 0
            if count == found or self._withheld.covers(url) or self._is_newer(key):
                continue
            kind = "graph-missing" if not found else "graph-extra" if not count else "page-differs"
            self.add(kind, url=url, detail=f"{found} statements are stored, the record has {count}")

    def _stated(self) -> Iterator[Row]:
        """The pages that should have statements: the version that was fetched last counts."""
        for key, versions in groupby(self._expected(), lambda row: row[0]):
            there = [one for one in versions if one[5] == PageFate.INDEXED]
            if there:
                latest = min(there, key=lambda one: (-one[7], one[1]))
                if latest[8]:
                    yield key, latest[6], latest[8]

    def _is_newer(self, key: UrlId) -> bool:
        """Whether the page was read again since: its row has a visit that the archive did not have."""
        sql = "SELECT collection, visit FROM visits WHERE id = ?"
        with self._file.reading() as connection:
            found = rows(connection, sql, (key,))
        return self._shared.is_running and any(
            not self._shared.expected.has_visit(key, name, visit) for name, visit in found
        )

    def compare_graphs(self) -> None:
        """Compare the published statements with the pages that have some."""
        for look in range(LOOKS_MAX if self._shared.is_running else 1):
            if look:
                time.sleep(LOOK_PAUSE_S)
            with self._file.reading() as connection:
                commits = rows(connection, "SELECT coalesce(max(commits), 0) FROM commits")[0][0]
                if commits != status.published_commit(self._part):
                    continue
                pages = rows(connection, "SELECT count(*) FROM pages")[0][0]
                snapshot = TripleSnapshot.open_newest(self._part)
                if snapshot is None:
                    if pages:
                        self.add("store-missing", detail="nothing is published")
                    return
                with snapshot:
                    if status.published_commit(self._part) == commits:
                        sql = "SELECT id, url, statements FROM pages ORDER BY id"
                        self._compare_graphs(snapshot, connection.execute(sql))
                        return
        self._shared.notes.append("triples: the last commit is not published yet; its graphs were not compared")

    def _compare_graphs(self, snapshot: TripleSnapshot, pages: Iterator[Row]) -> None:
        expected = self._shared.expected
        with expected.connection:
            expected.connection.execute("DELETE FROM graph_name")
        for key, url, count in pages:
            graph = graph_of(url, key)
            expected.append("graph_name", (xxh3_128_digest(graph.value.encode()),))
            found = sum(1 for _ in snapshot.store.quads_for_pattern(None, None, None, graph))
            if found != count and found != self._sound_statements(key, url, graph):
                self.add("graph-missing" if found < count else "graph-extra", url=url,
                         detail=f"{found} of {count} statements are in its graph")  # fmt: skip
        expected.flush()
        expected.connection.execute("CREATE INDEX IF NOT EXISTS by_graph_name ON graph_name (name)")
        for named in snapshot.store.named_graphs():
            value = named.value
            if not isinstance(named, NamedNode) or value.startswith(INFERRED_PREFIX) or named == RULES_GRAPH:
                continue
            name = (xxh3_128_digest(value.encode()),)
            if expected.connection.execute("SELECT 1 FROM graph_name WHERE name = ?", name).fetchone() is None:
                self.add("graph-extra", url=value)

    def _sound_statements(self, key: UrlId, url: str, graph: NamedNode) -> int:
        """How many statements of a page the store accepts: an archive may hold anything."""
        sql = (
            "SELECT (SELECT name FROM files WHERE files.file = visits.file), start FROM visits WHERE id = ?"
            " AND file IS NOT NULL ORDER BY at DESC, collection LIMIT 1"
        )
        with self._file.reading() as connection:
            found = rows(connection, sql, (key,))
        with suppress(DataError, OSError):
            entry = read_entry(self._part.archive, *found[0]) if found else None
            content = StatedContent.of(entry.record.page if entry is not None else None)
            return len(set(quads_of(statements_of(content.text, key), graph)))
        return -1

    # -- counts ----------------------------------------------------------------------------------------------------

    def compare_counts(self) -> None:
        """Compare the totals that a store keeps with what they count."""
        if damage := damage_of(self._file):
            self.add("store-damaged", detail=damage)
            return
        with self._file.reading() as connection:
            if self._store == "index":
                self._compare_index_counts(connection)
            else:
                stated = dict(rows(connection, "SELECT name, value FROM totals"))
                counted = rows(connection, "SELECT count(*), coalesce(sum(statements), 0) FROM pages")[0]
                for name, count in zip(("pages", "statements"), counted, strict=True):
                    if stated.get(name) != count:
                        self.add("counts-differ", detail=f"{name}: {stated.get(name)} instead of {count}")

    def _compare_index_counts(self, connection: apsw.Connection) -> None:
        sql = (
            "SELECT collection, sum(fate = 1), sum(fate = 2), sum(fate = 3) FROM visits GROUP BY collection"
            " HAVING max(fate) > 0"
        )
        counted = {name: counts for name, *counts in rows(connection, sql)}
        sql = "SELECT collection, indexed, noindex, taken_down FROM totals WHERE indexed + noindex + taken_down > 0"
        stated = {name: counts for name, *counts in rows(connection, sql)}
        for name in sorted(counted.keys() | stated.keys()):
            if counted.get(name) != stated.get(name):
                self.add("counts-differ", name, detail=f"{stated.get(name)} instead of {counted.get(name)}")
        urls, indexed = rows(
            connection, "SELECT (SELECT indexed FROM urls), count(DISTINCT id) FROM visits WHERE fate = 1"
        )[0]
        if urls != indexed:
            self.add("counts-differ", detail=f"{urls} URLs instead of {indexed}")
        pages = rows(connection, "SELECT count(*) FROM visits WHERE fate = 1")[0][0]
        if not schema.exists(self._part):
            if pages and not self._shared.is_running:
                self.add("store-missing", detail=str(schema.folder(self._part)))
            return
        documents = IndexReader(self._part).snapshot().documents
        if documents != pages and not self._shared.is_running:  # tantivy commits before SQLite
            self.add("counts-differ", detail=f"{documents} documents instead of {pages}")
