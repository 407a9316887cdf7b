"""Where is this term, and what does that document show?

Promises: a `Snapshot` is one commit and stays as it is; the next one asked for is the newest commit, found by a look at
one file. Any number of readers, threads and processes beside the one follower.
Knows nothing of ranking or of the query language.
"""

import threading
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, cast

import msgspec
import tantivy

from tarrafa.data import DataDirectory
from tarrafa.errors import DataError
from tarrafa.index import schema
from tarrafa.index.documents import whole
from tarrafa.model import UrlId

_decode = msgspec.msgpack.Decoder(schema.Shown).decode
_FAST = (schema.ID_HIGH, schema.ID_LOW, schema.CONTENT, schema.SIMHASH, schema.HEADLINE, schema.URL_LENGTH)


class Match(NamedTuple):
    """A document that matches, how well, whose it is, and what tells its copies (see `schema`)."""

    score: float
    address: tantivy.DocAddress
    id: UrlId
    content: int | None = None
    simhash: int | None = None
    headline: int | None = None
    url_length: int | None = None


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The index at one moment."""

    _path: Path
    _searcher: tantivy.Searcher

    @property
    def documents(self) -> int:
        return self._searcher.num_docs

    def frequency(self, field: str, term: str) -> int:
        """How many documents hold the term there (those deleted since the last merge included)."""
        with schema.in_our_words(self._path):
            return self._searcher.doc_freq(field, term)

    def best(self, query: tantivy.Query, limit: int, offset: int = 0) -> tuple[list[Match], int]:
        """The documents that match best, from `offset` on, and how many match at all. Equal scores come in the order
        of segments and documents, whatever the limit: one answer goes on where the other ended."""
        with schema.in_our_words(self._path):
            result = self._searcher.search(query, limit=limit, count=True, offset=offset)
            addresses = [address for _, address in result.hits]
            high, low, *facts = (self._searcher.fast_field_values(field, addresses) for field in _FAST)
        total: int = result.count  # type: ignore[attr-defined]  # missing in tantivy's stub
        scores, ids = [score for score, _ in result.hits], map(whole, cast("list[int]", high), cast("list[int]", low))
        return list(map(Match._make, zip(scores, addresses, ids, *facts, strict=True))), total

    def shown(self, address: tantivy.DocAddress) -> schema.Shown:
        with schema.in_our_words(self._path):
            content = self._searcher.doc(address).get_first(schema.SHOWN)
        if not isinstance(content, bytes):
            raise DataError(f"{self._path}: a document without content; `tarrafa rebuild index`")
        return _decode(content)


class IndexReader:
    """Stays open, and shows each commit of the follower as soon as it is asked after it."""

    def __init__(self, data: DataDirectory) -> None:
        self._data = data
        self._path = schema.folder(data)
        self._lock = threading.Lock()
        self._seen: tuple[int, ...] = ()
        self._folder = -1
        self._index: tantivy.Index | None = None
        self._snapshot: Snapshot | None = None

    def snapshot(self) -> Snapshot:
        """The newest commit. `DataError` when there is none yet."""
        folder = self._path
        try:
            meta, inode = (folder / "meta.json").stat(), folder.stat().st_ino
        except OSError:
            raise DataError(f"{folder}: nothing indexed yet; `tarrafa crawl FILE` fills it") from None
        seen = (inode, meta.st_ino, meta.st_mtime_ns, meta.st_size)
        with self._lock:
            if self._snapshot is None or seen != self._seen:
                if self._index is None or inode != self._folder:  # made again from nothing
                    self._index, self._folder = schema.open_index(self._data), inode
                with schema.in_our_words(folder):
                    self._index.reload()
                    self._snapshot = Snapshot(folder, self._index.searcher())
                self._seen = seen
            return self._snapshot
