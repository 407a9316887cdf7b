"""Findings of a verification: what is wrong, where, how bad it is, and what mends it.

Promises: however many findings there are, they take no memory: all but the first of each kind are only in a temporary
SQLite file. Knows nothing of how they are found.
"""

from collections import Counter
from collections.abc import Iterator
from enum import StrEnum
from typing import Any, NamedTuple

import apsw
import msgspec

from tarrafa.runtime.sqlite import rows

SHOWN_PER_KIND_MAX = 20


class Severity(StrEnum):
    """How bad a finding is. `LOST`: bytes or visits that only a replica has. `DERIVED`: it can be made again from the
    archive. `HARMLESS`: nothing is missing."""

    LOST = "lost"
    DERIVED = "derived"
    HARMLESS = "harmless"


SEVERITY_TEXTS = {
    Severity.LOST: "lost data",
    Severity.DERIVED: "derived data, can be rebuilt",
    Severity.HARMLESS: "harmless",
}


class FindingKind(NamedTuple):
    severity: Severity
    text: str
    remedy: str


FROM_REPLICA = (
    "tarrafa verify --repair --from DIR takes the bytes from a replica; without one the page is fetched again"
)
REPAIR = "tarrafa verify --repair"
REBUILD = "tarrafa verify --repair, or tarrafa rebuild {store}"
LOST, DERIVED, HARMLESS = Severity.LOST, Severity.DERIVED, Severity.HARMLESS

# The names are those of `--json`.
KINDS = {
    "mark-damaged": FindingKind(DERIVED, "the durable mark cannot be read", REPAIR),
    "mark-missing": FindingKind(DERIVED, "the durable mark is missing", REPAIR),
    "mark-beyond-file": FindingKind(LOST, "the file is shorter than its durable mark", FROM_REPLICA),
    "mark-behind": FindingKind(DERIVED, "finished visits lie behind the durable mark", REPAIR),
    "file-missing": FindingKind(LOST, "the file is missing", FROM_REPLICA),
    "wrong-file": FindingKind(LOST, "the file is another one, by its first record", FROM_REPLICA),
    "damaged-record": FindingKind(LOST, "a record is damaged", FROM_REPLICA),
    "zeroed-block": FindingKind(LOST, "a block of zeros lies where records were", FROM_REPLICA),
    "wrong-digest": FindingKind(LOST, "the content of a record is not that of its digest", FROM_REPLICA),
    "unreadable-record": FindingKind(LOST, "a whole record cannot be decoded", FROM_REPLICA),
    "misplaced-record": FindingKind(DERIVED, "a record is not behind the one that it belongs to", REPAIR),
    "duplicate-record": FindingKind(HARMLESS, "a record is there twice", REPAIR),
    "response-missing": FindingKind(LOST, "a visit whose response was archived has none", FROM_REPLICA),
    "visit-without-record": FindingKind(LOST, "a finished visit has no record", FROM_REPLICA),
    "record-unknown": FindingKind(DERIVED, "the frontier does not know a visit that has a record", REPAIR),
    "cursor-wrong": FindingKind(DERIVED, "the cursor is not at a record of the archive", REBUILD),
    "store-damaged": FindingKind(DERIVED, "the file is damaged", REBUILD),
    "store-missing": FindingKind(DERIVED, "the store is missing", REBUILD),
    "page-missing": FindingKind(DERIVED, "the newest visit of a page is not there", REBUILD),
    "page-extra": FindingKind(DERIVED, "a page has no record", REBUILD),
    "page-differs": FindingKind(DERIVED, "a page is not that of its newest record", REBUILD),
    "document-missing": FindingKind(DERIVED, "a page that should be searchable has no document", REBUILD),
    "document-extra": FindingKind(DERIVED, "a document has no page", REBUILD),
    "edges-differ": FindingKind(DERIVED, "the links of a page are not those of its record", REBUILD),
    "in-links-differ": FindingKind(DERIVED, "the number of in-links is wrong", REBUILD),
    "capture-missing": FindingKind(DERIVED, "a capture is not in the index", REBUILD),
    "capture-extra": FindingKind(DERIVED, "a capture in the index has no record", REBUILD),
    "capture-differs": FindingKind(DERIVED, "a capture in the index differs from its record", REBUILD),
    "graph-missing": FindingKind(DERIVED, "the statements of a page are not in the triple store", REBUILD),
    "graph-extra": FindingKind(DERIVED, "statements in the triple store have no page", REBUILD),
    "counts-differ": FindingKind(DERIVED, "a count disagrees with what is counted", REBUILD),
}


class Finding(msgspec.Struct, frozen=True, omit_defaults=True):
    """One finding. `store`: archive, frontier, graph, captures, index or triples; `end`: of a damaged range."""

    kind: str
    store: str
    file: str = ""
    offset: int | None = None
    end: int | None = None
    collection: str = ""
    url: str = ""
    visit: int | None = None
    detail: str = ""

    @property
    def severity(self) -> Severity:
        return KINDS[self.kind].severity

    @property
    def remedy(self) -> str:
        return KINDS[self.kind].remedy.format(store=self.store)

    @property
    def place(self) -> str:
        """Where it is, for people."""
        parts = [self.file] if self.file else []
        if self.offset is not None:
            parts.append(f"at {self.offset:,}" + (f" to {self.end:,}" if self.end is not None else ""))
        if self.url:
            parts.append(self.url + (f" (visit {self.visit})" if self.visit is not None else ""))
        return " ".join(parts)


_encode, _decode = msgspec.msgpack.Encoder().encode, msgspec.msgpack.Decoder(Finding).decode


class Findings:
    """All findings of one verification, in the order in which they were found, each once."""

    def __init__(self, scratch: apsw.Connection) -> None:
        self._scratch = scratch
        scratch.execute(
            "CREATE TABLE finding (kind TEXT, store TEXT, content BLOB UNIQUE); CREATE INDEX by_kind ON finding (kind)"
        )
        self.counts: Counter[tuple[str, str]] = Counter()  # by store and kind

    def add(self, finding: Finding) -> None:
        self._scratch.execute(
            "INSERT OR IGNORE INTO finding VALUES (?, ?, ?)", (finding.kind, finding.store, _encode(finding))
        )
        self.counts[finding.store, finding.kind] += self._scratch.changes()

    def all(self, *kinds: str) -> Iterator[Finding]:
        """Those of these kinds; of all without any."""
        marks = ", ".join("?" * len(kinds))
        where = f" WHERE kind IN ({marks})" if kinds else ""
        sql = f"SELECT content FROM finding{where} ORDER BY rowid"  # noqa: S608 (marks only)
        cursor: Iterator[tuple[Any, ...]] = self._scratch.execute(sql, kinds)
        for (content,) in cursor:
            yield _decode(content)

    def has(self, store: str, kind: str) -> bool:
        return (store, kind) in self.counts

    def forget(self, store: str) -> None:
        self._scratch.execute("DELETE FROM finding WHERE store = ?", (store,))
        for key in [key for key in self.counts if key[0] == store]:
            del self.counts[key]

    def shown(self) -> list[Finding]:
        """The first ones of each kind of each store."""
        found = list[Finding]()
        for store, kind in self.counts:
            sql = "SELECT content FROM finding WHERE kind = ? AND store = ? ORDER BY rowid LIMIT ?"
            contents = rows(self._scratch, sql, (kind, store, SHOWN_PER_KIND_MAX))
            found += [_decode(content) for (content,) in contents]
        return found


class KindCount(msgspec.Struct, frozen=True):
    store: str
    kind: str
    severity: str
    count: int


class VerifyReport(msgspec.Struct, frozen=True):
    """The result of one verification. `findings`: the first ones of each kind; `known_losses`: visits and bytes that an
    earlier repair could not bring back, and has noted; `notes`: what was not compared, and why."""

    deep: bool
    began: float
    took_s: float
    records: int
    visits: int
    bytes: int
    counts: list[KindCount]
    findings: list[Finding]
    known_losses: int = 0
    notes: list[str] = []

    @property
    def total(self) -> int:
        return sum(one.count for one in self.counts)

    def of(self, severity: Severity) -> int:
        return sum(one.count for one in self.counts if one.severity == severity)
