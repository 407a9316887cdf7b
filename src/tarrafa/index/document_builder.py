"""DocumentBuilder: makes the tantivy document of an archived page, also in a pool of child processes.

Promises: the same document wherever it is made: in this process, or in child processes that send field values to the
writer (`DocumentBuilderPool`), in the order of the records. A page is indexed with the links known by then: without a
link graph, it has no in-links. The site of a page (`SiteResolver`) is the registered domain by the bundled public
suffix list and by the suffixes that the page's collection adds: its first configuration in the archive says which.
Knows nothing of commits or cursors.

Text analysis and graph look-ups are two thirds of the work of indexing, and the rest is tantivy's own thread: with
child processes, a tenth is left for the writer.
"""

import contextlib
import multiprocessing
import os
from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import tantivy

from tarrafa.archive.warc_reader import ArchiveEntry, first_configuration
from tarrafa.errors import ConfigError, DataError
from tarrafa.graph.reader import GraphReader
from tarrafa.i18n import message
from tarrafa.index.document_fields import (
    NO_STANDING,
    DocumentValues,
    LinkStanding,
    document_from_values,
    fill_document,
    indexed_standing,
)
from tarrafa.index.index_state import IndexedStanding
from tarrafa.model import UrlId, VisitRecord
from tarrafa.parse.public_suffix import PublicSuffixes
from tarrafa.parse.url import host_name, url_id
from tarrafa.runtime.child_process import die_with_parent
from tarrafa.runtime.data_dir import DataDirectory
from tarrafa.runtime.public_suffix_list import bundled_suffix_list

BATCH_RECORDS = 64  # records whose links are looked up together, and records per message to a child
BATCHES_AHEAD = 3  # batches in flight for each child, so that it never waits


class PreparedDocument(NamedTuple):
    """A page's document, and the in-links and rank of the page."""

    document: tantivy.Document
    standing: IndexedStanding


PrepareDocument = Callable[[], PreparedDocument]
PreparedBatch = list[
    tuple[ArchiveEntry, PrepareDocument]
]  # entries in order, each with a function that returns its document


class DocumentBuilder:
    """Makes documents. Its knowledge of links is as new as the graph."""

    def __init__(self, data: DataDirectory) -> None:
        self._data, self._sites = data, SiteResolver(data)
        self._graph: GraphReader | None = None

    @property
    def graph(self) -> GraphReader | None:
        """The link graph, as soon as there is one."""
        if self._graph is None:
            with contextlib.suppress(DataError):
                self._graph = GraphReader(self._data)
        return self._graph

    def build_all(self, entries: Iterable[ArchiveEntry]) -> Iterator[PreparedBatch]:
        """Every entry in order, in batches."""
        for batch in _batches(entries):
            standings = self.link_standings([entry.record for entry in batch])
            yield [
                (entry, partial(self.build, entry.record, standing))
                for entry, standing in zip(batch, standings, strict=True)
            ]

    def build(self, record: VisitRecord, standing: LinkStanding) -> PreparedDocument:
        """The document of a record that has a page."""
        document = tantivy.Document()
        return PreparedDocument(document, self.fill(document, record, standing))

    def fill(
        self, found: tantivy.Document | DocumentValues, record: VisitRecord, standing: LinkStanding
    ) -> IndexedStanding:
        """Write the page of a record into a tantivy document, or into `DocumentValues`."""
        assert record.page is not None, "only pages become documents"
        site = self._sites.site_of(record.collection, host_name(record.url))
        fill_document(found, record, record.page, site, standing)
        return indexed_standing(standing)

    def link_standings(self, records: Sequence[VisitRecord]) -> list[LinkStanding]:
        """Anchors, in-links and rank of each page, as far as known; a page can be found without them."""
        found, by_collection = [NO_STANDING] * len(records), defaultdict[str, list[int]](list)
        for place, record in enumerate(records):
            if record.page is not None:
                by_collection[record.collection].append(place)
        graph = self.graph
        if graph is None:
            return found
        try:
            for collection, places in by_collection.items():
                ids = [url_id(records[place].url) for place in places]
                for place, standing in zip(places, link_standings(graph, ids, collection), strict=True):
                    found[place] = standing
        except DataError:
            self._graph = None
        return found


def link_standings(graph: GraphReader, ids: Sequence[UrlId], collection: str) -> Iterator[LinkStanding]:
    """Anchors, in-links and rank of each of a few pages; a page that the graph does not know has none."""
    known = graph.links_of(ids, collection)
    for key in ids:
        links = known.get(key)
        yield NO_STANDING if links is None else LinkStanding(links.anchors, links.in_links, links.rank)


def _batches(entries: Iterable[ArchiveEntry]) -> Iterator[list[ArchiveEntry]]:
    rest = iter(entries)
    while batch := list(islice(rest, BATCH_RECORDS)):
        yield batch


# -- child processes --------------------------------------------------------------------------------------------------

_encode = msgspec.msgpack.Encoder().encode
_decode_records = msgspec.msgpack.Decoder(list[VisitRecord]).decode
_decode_built = msgspec.msgpack.Decoder(list[tuple[list[Any], IndexedStanding]]).decode
_builder: DocumentBuilder  # of a child process


class DocumentBuilderPool:
    """A pool of child processes that build documents. Use it in a `with`."""

    def __init__(self, data: DataDirectory, processes: int) -> None:
        self._ahead = BATCHES_AHEAD * processes
        self._pool = ProcessPoolExecutor(
            processes,
            multiprocessing.get_context("spawn"),  # a fork would copy tantivy's threads
            _start_child,
            (os.getpid(), data.root),
        )

    def __enter__(self) -> "DocumentBuilderPool":
        return self

    def __exit__(self, *_: object) -> None:
        self._pool.shutdown(wait=True, cancel_futures=True)

    def build_all(self, entries: Iterable[ArchiveEntry]) -> Iterator[PreparedBatch]:
        """Every entry in order, in batches."""
        under_way: deque[tuple[list[ArchiveEntry], Future[bytes]]] = deque()
        try:
            for batch in _batches(entries):
                under_way.append((batch, self._pool.submit(_build_batch, _encode([entry.record for entry in batch]))))
                if len(under_way) > self._ahead:
                    yield _prepared(*under_way.popleft())
            while under_way:
                yield _prepared(*under_way.popleft())
        except BrokenProcessPool:
            raise DataError(message("a process that analysed pages was killed; run the command again")) from None


def _prepared(batch: list[ArchiveEntry], future: "Future[bytes]") -> PreparedBatch:
    built = zip(batch, _decode_built(future.result()), strict=True)
    return [(entry, partial(_document_of, values, standing)) for entry, (values, standing) in built]


def _document_of(values: list[Any], standing: IndexedStanding) -> PreparedDocument:
    return PreparedDocument(document_from_values(values), standing)


def _start_child(parent: int, root: Path) -> None:
    global _builder
    die_with_parent(parent)
    _builder = DocumentBuilder(DataDirectory(root))


def _build_batch(records: bytes) -> bytes:
    """Build the documents of a batch in a child process."""
    decoded = _decode_records(records)
    return _encode([_values_of(*one) for one in zip(decoded, _builder.link_standings(decoded), strict=True)])


def _values_of(record: VisitRecord, standing: LinkStanding) -> tuple[list[Any], IndexedStanding]:
    document = DocumentValues()
    return document.values, _builder.fill(document, record, standing) if record.page is not None else IndexedStanding()


# -- sites -------------------------------------------------------------------------------------------------------------


class _SiteNetwork(msgspec.Struct, frozen=True):
    suffixes: tuple[str, ...] = ()


class _SiteConfig(msgspec.Struct, frozen=True):
    network: _SiteNetwork = _SiteNetwork()


_decode = msgspec.json.Decoder(_SiteConfig).decode


class SiteResolver:
    """Resolves sites; reads the suffixes of each collection at its first page."""

    def __init__(self, data: DataDirectory) -> None:
        self._archive: Path = data.archive
        self._bundled = PublicSuffixes(bundled_suffix_list())
        self._by_collection: dict[str, PublicSuffixes] = {}

    def site_of(self, collection: str, host: str) -> str:
        found = self._by_collection.get(collection)
        if found is None:
            found = self._by_collection[collection] = self._suffixes_of(collection)
        return found.site(host)

    def _suffixes_of(self, collection: str) -> PublicSuffixes:
        config = first_configuration(self._archive, collection)
        with contextlib.suppress(msgspec.MsgspecError, ConfigError):
            if config is not None and (extra := _decode(config).network.suffixes):
                return PublicSuffixes(bundled_suffix_list(), extra)
        return self._bundled
