"""Exports the statements of all pages as N-Quads.

Promises: valid N-Quads, the graph of each statement being its page; pages in the order of their names, the statements
of each sorted: the same store gives the same bytes. One published state of the store is written, whatever its follower
does meanwhile. Inferred statements are not included: no page states them. Knows nothing of terminals.
"""

import gzip
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import IO, Any

import msgspec
import zstandard
from pyoxigraph import Literal, NamedNode, Store

from tarrafa.errors import ConfigError, DataError
from tarrafa.index import shards
from tarrafa.parse.robots_meta_usage import Use
from tarrafa.runtime.data_dir import DataDirectory
from tarrafa.triples.snapshots import TripleSnapshot
from tarrafa.triples.triple_writer import COLLECTION, DEFAULT_GRAPH, INFERRED_PREFIX, RESERVES, RULES_GRAPH

SUFFIXES = (".nq", ".nq.gz", ".nq.zst")
GZIP_LEVEL, ZSTD_LEVEL = 6, 9
PAGES_TOLD = 100

OnProgress = Callable[[int], None]


class ExportSummary(msgspec.Struct, frozen=True):
    """The number of pages and statements written, and of pages left out: their publishers reserve the use."""

    pages: int
    statements: int
    reserved: int = 0


class StatementExport:
    """The last published state of the store, in all its parts. Use it in a `with`. `use`: what the export is for; pages
    whose publishers reserve that use are left out. None: for any use that they do not forbid by other means."""

    def __init__(self, data: DataDirectory, collection: str | None = None, use: Use | None = None) -> None:
        self._data, self._collection, self._use = data, collection, use
        self.reserved = 0  # pages left out
        self._stack = ExitStack()
        self._stores: list[Store] = []

    def __enter__(self) -> "StatementExport":
        with ExitStack() as stack:
            for part in shards.parts(self._data):
                snapshot = TripleSnapshot.open_newest(part)
                if snapshot is not None:
                    self._stores.append(stack.enter_context(snapshot).store)
            if not self._stores:
                raise DataError(f"{self._data.triples}: no triple store yet; `tarrafa rebuild triples` makes one")
            self._stack = stack.pop_all()
        if self._collection is not None and self._collection not in (names := self._collections()):
            self._stack.close()
            there = ", ".join(names) or "none"
            raise ConfigError(f"no collection named {self._collection!r} states anything (there are: {there})")
        return self

    def __exit__(self, *_: object) -> None:
        self._stores.clear()
        self._stack.close()

    def _collections(self) -> list[str]:
        names: set[str] = set()
        for store in self._stores:
            solutions: Any = store.query(f"SELECT DISTINCT ?name WHERE {{ ?page {COLLECTION} ?name }}")
            names |= {row["name"].value for row in solutions}
        return sorted(names)

    def pages(self) -> list[tuple[str, int]]:
        """The names of the graphs of pages, sorted, and the part of each."""
        self.reserved = 0
        return sorted(
            (graph.value, number)
            for number, store in enumerate(self._stores)
            for graph in store.named_graphs()
            if graph != RULES_GRAPH and not graph.value.startswith(INFERRED_PREFIX) and self._is_wanted(store, graph)
        )

    def _is_wanted(self, store: Store, graph: Any) -> bool:
        of_collection = self._collection is None or any(
            store.quads_for_pattern(graph, COLLECTION, Literal(self._collection), DEFAULT_GRAPH)
        )
        if not of_collection or self._use is None:
            return of_collection
        is_reserved = any(store.quads_for_pattern(graph, RESERVES, Literal(self._use), DEFAULT_GRAPH))
        self.reserved += is_reserved
        return not is_reserved

    def lines(self, page: str, number: int) -> list[str]:
        """The statements of a page, one line each."""
        found = self._stores[number].quads_for_pattern(None, None, None, NamedNode(page))
        return sorted(f"{quad} .\n" for quad in found)


def write_nquads(
    statements: StatementExport, output: IO[bytes], tell: OnProgress = lambda pages: None
) -> ExportSummary:
    """Write all pages; `tell` receives the number of further pages."""
    count = 0
    pages = statements.pages()
    for place, (page, number) in enumerate(pages, 1):
        lines = statements.lines(page, number)
        output.write("".join(lines).encode())
        count += len(lines)
        if place % PAGES_TOLD == 0:
            tell(PAGES_TOLD)
    return ExportSummary(len(pages), count, statements.reserved)


@contextmanager
def compressed(output: IO[bytes], name: str) -> Iterator[IO[bytes]]:
    """Compressed by the suffix of the file name."""
    if name.endswith(".gz"):
        with gzip.GzipFile("", "wb", GZIP_LEVEL, output, mtime=0) as file:
            yield file  # type: ignore[misc]  # it has all of IO[bytes] that is asked of it
    elif name.endswith(".zst"):
        with zstandard.ZstdCompressor(level=ZSTD_LEVEL, write_checksum=True).stream_writer(
            output, closefd=False
        ) as file:
            yield file
    else:
        yield output


def check_file_name(file: Path) -> None:
    """Raise an error if the suffix of the name is unknown."""
    if not file.name.endswith(SUFFIXES):
        raise ConfigError(f"{file}: the name must end in {', '.join(SUFFIXES)}: it says how the file is compressed")
