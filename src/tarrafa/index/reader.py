"""IndexReader: snapshots of the newest commit of the index, for any number of readers.

Promises: an `IndexSnapshot` is one commit and never changes; the next one requested is the newest commit, found by
reading one file. Any number of readers, threads and processes beside the one follower. Knows nothing of ranking or of
the query language.
"""

import threading
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from operator import attrgetter, itemgetter
from pathlib import Path
from typing import Any

import msgspec
import tantivy

from tarrafa.errors import DataError
from tarrafa.i18n import message
from tarrafa.index import schema
from tarrafa.index.document_fields import join_url_ids
from tarrafa.index.text_analysis import WORD_BOUND
from tarrafa.model import UrlId
from tarrafa.runtime.data_dir import DataDirectory, file_fingerprint


class _Explanation(msgspec.Struct):
    value: float


_decode = msgspec.msgpack.Decoder(schema.StoredDocument).decode
LANGUAGES_MAX = 50  # that are listed
FREQUENCIES_CACHED_MAX = 100_000  # terms whose document frequency is cached
ROWS_REMEMBERED_MAX = 20_000  # documents of an index whose fast fields are remembered: 8 MB
STORED_CHARS_REMEMBERED_MAX = 8_000_000  # of the text of displayed documents
URL_ID = "id"  # a field whose two halves the index has
DocumentAddress = tuple[int, int]  # segment and document
_place = attrgetter("segment_ord", "doc")


@dataclass(frozen=True, slots=True)
class IndexMatches:
    """Matching documents, best first, and the total number of matches. Further fields are read on request and for all
    documents at once: each field takes 20 us for a hundred.
    """

    _snapshot: "IndexSnapshot"
    _addresses: list[tantivy.DocAddress]
    scores: list[float]
    total: int

    def __len__(self) -> int:
        return len(self.scores)

    def field_values(self, field: str) -> list[Any]:
        """The values of URL_ID or of a fast field of the `schema`, one per match."""
        return self._snapshot.field_values(field, self._addresses)

    def ids(self) -> list[UrlId]:
        return self.field_values(URL_ID)

    def columns(self, fields: tuple[str, ...]) -> list[Sequence[Any]]:
        """The values of several fast fields, a column for each. In a small index they are remembered with the snapshot:
        searches meet the same pages there, and a look-up costs a fifth of reading nine fields. In a large one most
        pages are new, and to remember them would cost a tenth of a search.
        """
        if not self._addresses or self._snapshot.written > ROWS_REMEMBERED_MAX:
            return [self.field_values(field) for field in fields]
        known, places = self._snapshot.remembered_rows(fields), self.addresses()
        try:
            rows = [known[place] for place in places]
        except KeyError:
            unknown = [at for at, place in enumerate(places) if place not in known]
            addresses = list(map(self._addresses.__getitem__, unknown))
            columns = (self._snapshot.field_values(field, addresses) for field in fields)
            known.update(zip(map(places.__getitem__, unknown), zip(*columns, strict=True), strict=True))
            rows = [known[place] for place in places]
        return list(zip(*rows, strict=True))

    def addresses(self) -> list[DocumentAddress]:
        return list(map(_place, self._addresses))

    def first(self, limit: int) -> "IndexMatches":
        return IndexMatches(self._snapshot, self._addresses[:limit], self.scores[:limit], self.total)

    def at(self, places: list[int]) -> "IndexMatches":
        """Some of the matches, in this order."""
        addresses, scores = list(map(self._addresses.__getitem__, places)), list(map(self.scores.__getitem__, places))
        return IndexMatches(self._snapshot, addresses, scores, self.total)

    def merged(self, others: "IndexMatches", factor: float) -> "IndexMatches":
        """These matches and others that are none of them, whose scores count so many times; best first."""
        scores = [*[factor * score for score in others.scores], *self.scores]
        addresses = [*others._addresses, *self._addresses]
        order = sorted(range(len(scores)), key=scores.__getitem__, reverse=True)
        chosen, sorted_scores = list(map(addresses.__getitem__, order)), list(map(scores.__getitem__, order))
        return IndexMatches(self._snapshot, chosen, sorted_scores, self.total)

    def with_scores(self, scores: list[float]) -> "IndexMatches":
        """The same matches, the first ones with other scores, sorted by score."""
        changed, rest = len(scores), self.scores[len(scores) :]
        places = range(len(self) if rest and min(scores) < rest[0] else changed)  # the others stay where they are
        scores = [*scores, *rest]
        order = sorted(places, key=scores.__getitem__, reverse=True)
        addresses = [*map(self._addresses.__getitem__, order), *self._addresses[len(order) :]]
        scores = [*map(scores.__getitem__, order), *scores[len(order) :]]
        return IndexMatches(self._snapshot, addresses, scores, self.total)


class IndexSnapshot:
    """The index at one commit."""

    def __init__(self, path: Path, searcher: tantivy.Searcher) -> None:
        self._path, self._searcher = path, searcher
        self._counted: dict[tuple[str, str], int] = {}
        self._spellings: dict[str, list[str]] = {}
        self._rows: dict[tuple[str, ...], dict[DocumentAddress, tuple[Any, ...]]] = {}
        self._stored: dict[DocumentAddress, schema.StoredDocument] = {}
        self._stored_chars = 0  # of text

    def forget_documents(self) -> None:
        """Forget the remembered documents: of a snapshot that is no longer the newest, few are shown."""
        self._rows, self._stored, self._stored_chars = {}, {}, 0

    @property
    def documents(self) -> int:
        """The number of documents that can be found."""
        return self._searcher.num_docs

    @cached_property
    def written(self) -> int:
        """The number of documents that `frequency` counts: with those deleted since the last merge, which may be the
        majority.
        """
        with schema.tantivy_errors(self._path):
            found = self._searcher.terms_with_prefix(schema.COLLECTION, "", None, None)
        return sum(count for _, count in found)  # each document is in one collection

    def frequency(self, field: str, term: str) -> int:
        """The number of documents that hold the term (those deleted since the last merge included)."""
        found = self._counted.get((field, term))
        if found is None:
            with schema.tantivy_errors(self._path):
                found = self._searcher.doc_freq(field, term)
            if len(self._counted) >= FREQUENCIES_CACHED_MAX:
                self._counted.clear()
            self._counted[field, term] = found
        return found

    def top_matches(
        self, query: tantivy.Query, limit: int, weight: str | None = None, order: str | None = None
    ) -> IndexMatches:
        """The best matches. Equal scores come in the order of segments and documents, whatever the limit. `weight`: a
        field; the score is multiplied by log2(2 + value). `order`: a field that replaces the score, the largest first.
        """
        with schema.tantivy_errors(self._path):
            result = self._searcher.search(
                query, limit=limit, count=True, weight_by_field=None if order else weight, order_by_field=order
            )
        hits = result.hits  # tantivy-py builds this list at each access
        total: int = result.count  # type: ignore[attr-defined]  # missing in tantivy's stub
        return IndexMatches(self, list(map(itemgetter(1), hits)), list(map(itemgetter(0), hits)), total)

    def field_values(self, field: str, addresses: list[tantivy.DocAddress]) -> list[Any]:
        """The values of a fast field of the `schema`, one per document."""
        if field == URL_ID:
            return join_url_ids(*[self.field_values(half, addresses) for half in (schema.ID_HIGH, schema.ID_LOW)])
        with schema.tantivy_errors(self._path):
            return self._searcher.fast_field_values(field, addresses)

    def remembered_rows(self, fields: tuple[str, ...]) -> dict[DocumentAddress, tuple[Any, ...]]:
        """The rows of these fields that earlier searches have read, for `IndexMatches.columns`."""
        return self._rows.setdefault(fields, {})

    def scores(self, query: tantivy.Query, limit: int) -> dict[DocumentAddress, float]:
        """The scores of the best matches of a query."""
        with schema.tantivy_errors(self._path):
            hits = self._searcher.search(query, limit=limit, count=False).hits
        return {(address.segment_ord, address.doc): score for score, address in hits}

    def stored_document(self, place: DocumentAddress) -> schema.StoredDocument:
        """The displayed fields of a document, remembered: to read and decode them takes 15 us."""
        found = self._stored.get(place)
        if found is None:
            found = self._read_stored(place)
            self._stored_chars += len(found.text)
            if self._stored_chars > STORED_CHARS_REMEMBERED_MAX:
                self._stored, self._stored_chars = {}, len(found.text)
            self._stored[place] = found
        return found

    def _read_stored(self, place: DocumentAddress) -> schema.StoredDocument:
        with schema.tantivy_errors(self._path):
            content = self._searcher.doc(tantivy.DocAddress(*place)).get_first(schema.SHOWN)
        if not isinstance(content, bytes):
            raise DataError(message("{path}: a document without content; `tarrafa rebuild index`", path=self._path))
        return _decode(content)

    @cached_property
    def terms_total(self) -> int:
        """The number of terms in all documents together."""
        with schema.tantivy_errors(self._path):
            found = self._searcher.aggregate(tantivy.Query.all_query(), {"terms": {"sum": {"field": schema.LENGTH}}})
        return int(found["terms"]["value"] or 0)

    def vocabulary_entries(self, prefix: str, limit: int, among: tantivy.Query | None = None) -> list[tuple[str, int]]:
        """The vocabulary entries with this prefix, with the number of documents (among those that match `among`), the
        most frequent first.
        """
        with schema.tantivy_errors(self._path):
            return self._searcher.terms_with_prefix(schema.WORDS, prefix, among, limit)

    def living_terms(self, field: str, prefix: str) -> list[tuple[str, int]]:
        """The terms of a field with this prefix, and how many documents that were not deleted hold each."""
        with schema.tantivy_errors(self._path):
            return self._searcher.terms_with_prefix(field, prefix, tantivy.Query.all_query(), None)

    def spellings(self, folded: str, limit: int) -> list[str]:
        """The vocabulary entries of a folded word with accents, the most frequent first."""
        found = self._spellings.get(folded)
        if found is None:
            found = [entry for entry, _ in self.vocabulary_entries(folded + WORD_BOUND, limit)]
            if len(self._spellings) >= FREQUENCIES_CACHED_MAX:
                self._spellings.clear()
            self._spellings[folded] = found
        return found

    @cached_property
    def languages(self) -> dict[str, int]:
        """The languages of the pages, with the number of documents (those deleted since the last merge included)."""
        with schema.tantivy_errors(self._path):
            found = self._searcher.terms_with_prefix(schema.LANGUAGE, "", None, LANGUAGES_MAX)
        return {language: count for language, count in found if language}

    def score_of(self, query: tantivy.Query, place: DocumentAddress) -> float:
        """The score of a document for a query; 0 if it does not match."""
        try:
            explanation = query.explain(self._searcher, tantivy.DocAddress(*place)).to_json()
        except ValueError:
            return 0.0
        return msgspec.json.decode(explanation, type=_Explanation).value


def newest_commit(data: DataDirectory) -> tuple[int, ...]:
    """The identity of the newest commit, by reading one file; the first number changes when the index is rebuilt.
    `DataError` when there is no index yet.
    """
    return _newest_commit(*_folder_and_meta(data))


@lru_cache(64)  # data directories of parts
def _folder_and_meta(data: DataDirectory) -> tuple[Path, Path]:
    folder = schema.folder(data)
    return folder, folder / "meta.json"


def _newest_commit(folder: Path, meta: Path) -> tuple[int, ...]:
    found, made = file_fingerprint(meta), file_fingerprint(folder)
    if not found or not made:
        raise DataError(message("{folder}: nothing indexed yet; `tarrafa crawl FILE` fills it", folder=folder))
    return made[0], *found


class IndexReader:
    """Stays open, and returns the newest commit of the follower at each request."""

    def __init__(self, data: DataDirectory) -> None:
        self._data = data
        self._path, self._meta = _folder_and_meta(data)
        self._lock = threading.Lock()
        self._seen: tuple[int, ...] = ()
        self._folder = -1
        self._index: tantivy.Index | None = None
        self._snapshot: IndexSnapshot | None = None

    def snapshot(self) -> IndexSnapshot:
        """The newest commit. `DataError` when there is none yet."""
        while True:
            seen = _newest_commit(self._path, self._meta)
            try:
                return self._at(seen)
            except DataError:
                if _newest_commit(self._path, self._meta)[0] == seen[0]:
                    raise  # else the index was replaced meanwhile

    def _at(self, seen: tuple[int, ...]) -> IndexSnapshot:
        with self._lock:
            if self._snapshot is None or seen != self._seen:
                if self._index is None or seen[0] != self._folder:  # the index was rebuilt
                    self._index, self._folder = schema.open_index(self._data), seen[0]
                if self._snapshot is not None:
                    self._snapshot.forget_documents()
                with schema.tantivy_errors(self._path):
                    self._index.reload()
                    self._snapshot = IndexSnapshot(self._path, self._index.searcher())
                self._seen = seen
            return self._snapshot
