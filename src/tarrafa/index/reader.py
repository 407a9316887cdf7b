"""Where is this term, and what does that document show?

Promises: a `Snapshot` is one commit and stays as it is; the next one asked for is the newest commit, found by a look at
one file. Any number of readers, threads and processes beside the one follower.
Knows nothing of ranking or of the query language.
"""

import threading
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple, cast

import msgspec
import tantivy

from tarrafa.data import DataDirectory, state_of
from tarrafa.errors import DataError
from tarrafa.index import schema
from tarrafa.index.documents import whole
from tarrafa.model import UrlId


class _Explained(msgspec.Struct):
    value: float


_decode = msgspec.msgpack.Decoder(schema.Shown).decode
_FAST = (
    schema.ID_HIGH, schema.ID_LOW, schema.STATIC, schema.LENGTH, schema.CONTENT, schema.SIMHASH, schema.HEADLINE,
    schema.URL_LENGTH, schema.SITE_ID, schema.HOST_ID, schema.UPDATED,
)  # fmt: skip
LANGUAGES_MAX = 50  # that are told
COUNTED_MAX = 100_000  # terms whose documents are remembered
Place = tuple[int, int]  # segment and document


class Match(NamedTuple):
    """A document that matches, how well, and whose it is; what links were worth when it was indexed; and what tells
    its copies, its site and its age (see `schema`)."""

    score: float
    place: Place
    id: UrlId
    static: float
    length: int
    content: int | None
    simhash: int | None
    headline: int | None
    url_length: int
    site: int
    host: int
    updated: int


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The index at one moment."""

    _path: Path
    _searcher: tantivy.Searcher
    _counted: dict[tuple[str, str], int] = field(default_factory=dict)
    _languages: dict[str, int] = field(default_factory=dict)
    _lengths: list[int] = field(default_factory=list)

    @property
    def documents(self) -> int:
        return self._searcher.num_docs

    def frequency(self, field: str, term: str) -> int:
        """How many documents hold the term there (those deleted since the last merge included)."""
        found = self._counted.get((field, term))
        if found is None:
            with schema.in_our_words(self._path):
                found = self._searcher.doc_freq(field, term)
            if len(self._counted) >= COUNTED_MAX:
                self._counted.clear()
            self._counted[field, term] = found
        return found

    def best(
        self, query: tantivy.Query, limit: int, weight: str | None = None, order: str | None = None
    ) -> tuple[list[Match], int]:
        """The documents that match best, and how many match at all. Equal scores come in the order of segments and
        documents, whatever the limit. `weight`: a field that the score is multiplied by, as log2(2 + value); `order`:
        a field that stands instead of the score, the largest first."""
        with schema.in_our_words(self._path):
            result = self._searcher.search(
                query, limit=limit, count=True, weight_by_field=None if order else weight, order_by_field=order
            )
            hits = result.hits  # made anew each time that it is asked for
            addresses = [address for _, address in hits]
            high, low, *facts = (self._searcher.fast_field_values(field, addresses) for field in _FAST)
        total: int = result.count  # type: ignore[attr-defined]  # missing in tantivy's stub
        scores, ids = [score for score, _ in hits], map(whole, cast("list[int]", high), cast("list[int]", low))
        places = [(address.segment_ord, address.doc) for address in addresses]
        return list(map(Match._make, zip(scores, places, ids, *facts, strict=True))), total

    def scores(self, query: tantivy.Query, limit: int) -> dict[Place, float]:
        """What a query gives to the best so many."""
        with schema.in_our_words(self._path):
            hits = self._searcher.search(query, limit=limit, count=False).hits
        return {(address.segment_ord, address.doc): score for score, address in hits}

    def shown(self, place: Place) -> schema.Shown:
        with schema.in_our_words(self._path):
            content = self._searcher.doc(tantivy.DocAddress(*place)).get_first(schema.SHOWN)
        if not isinstance(content, bytes):
            raise DataError(f"{self._path}: a document without content; `tarrafa rebuild index`")
        return _decode(content)

    def length(self) -> int:
        """How many terms all documents have together."""
        if not self._lengths:
            asked = {"terms": {"sum": {"field": schema.LENGTH}}}
            with schema.in_our_words(self._path):
                found = self._searcher.aggregate(tantivy.Query.all_query(), asked)
            self._lengths.append(int(found["terms"]["value"] or 0))
        return self._lengths[0]

    def words(self, prefix: str, limit: int, among: tantivy.Query | None = None) -> list[tuple[str, int]]:
        """The entries of the vocabulary that begin so, with the number of documents (of those that match `among`),
        the most frequent first."""
        with schema.in_our_words(self._path):
            return self._searcher.terms_with_prefix(schema.WORDS, prefix, among, limit)

    def languages(self) -> dict[str, int]:
        """The languages that pages are in, with the number of documents (those deleted since the last merge
        included)."""
        if not self._languages:
            with schema.in_our_words(self._path):
                found = self._searcher.terms_with_prefix(schema.LANGUAGE, "", None, LANGUAGES_MAX)
            self._languages.update((language, count) for language, count in found if language)
        return self._languages

    def value(self, query: tantivy.Query, place: Place) -> float:
        """What a query gives a document; 0 where it does not match."""
        try:
            told = query.explain(self._searcher, tantivy.DocAddress(*place)).to_json()
        except ValueError:
            return 0.0
        return msgspec.json.decode(told, type=_Explained).value


def newest_commit(data: DataDirectory) -> tuple[int, ...]:
    """Names the newest commit, by a look at one file; the first number is another where the index was made again.
    `DataError` when there is none yet."""
    folder = schema.folder(data)
    return _newest_commit(folder, folder / "meta.json")


def _newest_commit(folder: Path, meta: Path) -> tuple[int, ...]:
    found, made = state_of(meta), state_of(folder)
    if not found or not made:
        raise DataError(f"{folder}: nothing indexed yet; `tarrafa crawl FILE` fills it")
    return made[0], *found


class IndexReader:
    """Stays open, and shows each commit of the follower as soon as it is asked after it."""

    def __init__(self, data: DataDirectory) -> None:
        self._data = data
        self._path = schema.folder(data)
        self._meta = self._path / "meta.json"
        self._lock = threading.Lock()
        self._seen: tuple[int, ...] = ()
        self._folder = -1
        self._index: tantivy.Index | None = None
        self._snapshot: Snapshot | None = None

    def snapshot(self) -> Snapshot:
        """The newest commit. `DataError` when there is none yet."""
        seen = _newest_commit(self._path, self._meta)
        with self._lock:
            if self._snapshot is None or seen != self._seen:
                if self._index is None or seen[0] != self._folder:  # made again from nothing
                    self._index, self._folder = schema.open_index(self._data), seen[0]
                with schema.in_our_words(self._path):
                    self._index.reload()
                    self._snapshot = Snapshot(self._path, self._index.searcher())
                self._seen = seen
            return self._snapshot
