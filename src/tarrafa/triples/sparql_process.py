"""SPARQL process: answers one SPARQL query at a time from published snapshots.

Started by `sparql_pool`, which sends it queries over a socket and kills it when one takes too long. It drops network
access where the system permits that, writes no files, and has a memory limit for one query, beyond which it dies.
Promises: every query is answered from the snapshot that was the newest when it came; outdated snapshots are released,
also while the process is idle.

Where the store has several parts, each is queried, and the results are merged. Pages are divided by their hosts, so the
statements of one page, or of the pages of one host, are in one part. `sparql_parts` answers aggregates and ORDER BY,
and refuses what the parts cannot answer, with a hint how to query one part.
"""

import contextlib
import os
import re
import select
from enum import StrEnum
from functools import partial
from typing import NamedTuple

import msgspec
from pyoxigraph import NamedNode, QueryBoolean, QuerySolutions, Store

from tarrafa.errors import ConfigError, DataError, QueryError, QueryLimitExceeded, TarrafaError
from tarrafa.index.shards import parts, shard_number
from tarrafa.parse.rdf.prefixes import PREFIXES
from tarrafa.runtime.child_process import run_child
from tarrafa.runtime.data_dir import DataDirectory
from tarrafa.runtime.sandbox import SandboxSocket, limit_memory, resident_bytes
from tarrafa.triples.snapshots import TripleSnapshot, folder, newest_number
from tarrafa.triples.sparql_check import QuerySkeleton, check_query, refuse_service, wrong_kind
from tarrafa.triples.sparql_matches import with_pages
from tarrafa.triples.sparql_parts import QueryResults, needs_all_parts, query_together
from tarrafa.triples.sparql_results import GRAPH_FORMATS, SOLUTION_FORMATS, BooleanResult, GraphResults, SolutionResults

GROWN_BYTES = 512 << 20  # a process that is this large after a query is replaced
CHECK_EVERY_S = 5.0  # for newer snapshots: an outdated one takes space on the disk
MESSAGE_CHARS_MAX = 1_000
MEMORY_BYTES = 1 << 30  # for one query, beyond the memory of the idle process

_letters = re.compile(r",?\s*\[(?:_|'(?:\\u\{[0-9A-F]+\}|\\.|.)'[^\]]*)\]").sub


class SparqlFailure(StrEnum):
    """Why there is no result."""

    MALFORMED = "malformed"  # or refused: an error in the query
    UNWANTED = "unwanted"  # the client accepts no format of the result
    COSTLY = "costly"
    DATA = "data"


class SparqlRequest(msgspec.Struct, frozen=True, array_like=True):
    """A query, and the formats for its result, for solutions and for statements; an empty format is not accepted.
    `default_graphs` and `named_graphs`, where given, are the dataset (SPARQL 1.1 Protocol, section 2.1.4).
    """

    text: str
    solutions_as: str = "json"
    graph_as: str = "ttl"
    results_max: int = 10_000
    default_graphs: list[str] | None = None
    named_graphs: list[str] | None = None
    part: str = ""
    matches: dict[str, list[str]] = {}  # the pages of each text of tarrafa:matches


class SparqlResponse(msgspec.Struct, frozen=True, array_like=True):
    """The result in the format `form`; `is_cut`: it has more than the limit. Or the failure. `is_spent`: the process
    has grown too large for another query. The last two are filled in by the pool.
    """

    body: bytes = b""
    form: str = ""
    count: int = 0
    is_cut: bool = False
    trouble: SparqlFailure | None = None
    sentence: str = ""
    is_spent: bool = False
    matches_max: int = 0  # a text of tarrafa:matches has more pages than these
    missing: tuple[str, ...] = ()  # shards whose pages are missing there


class _HeldSnapshot(NamedTuple):
    snapshot: TripleSnapshot
    inode: int  # a rebuilt store starts counting again


class SnapshotCache:
    """The newest snapshot of each part."""

    def __init__(self, data: DataDirectory) -> None:
        self._data = data
        self._held: dict[str, _HeldSnapshot] = {}

    def stores(self, part: str = "") -> dict[str, Store]:
        """One store for each part, or for the named one; empty ones where nothing is published."""
        there = parts(self._data)
        chosen = [one for one in there if not part or one.part == part]
        if not chosen:
            names = ", ".join(one.part for one in there) if there[0].part else "there is only one, without a name"
            raise ConfigError(f"part {part[:40]!r} is not kept here; the parts are: {names}")
        return {one.part: self._newest(one) for one in chosen}

    def prepare(self, part: str) -> None:
        """Open the stores of the next query; errors are reported by that query."""
        with contextlib.suppress(TarrafaError, OSError):
            self.stores(part)

    def drop_outdated(self) -> None:
        """Release outdated snapshots."""
        for name in [name for name, held in self._held.items() if not self._is_newest(name, held)]:
            self._drop(name)

    def clear(self) -> None:
        for name in list(self._held):
            self._drop(name)

    def _newest(self, data: DataDirectory) -> Store:
        held = self._held.get(data.part)
        if held is None or not self._is_newest(data.part, held):
            self._drop(data.part)
            snapshot = TripleSnapshot.open_newest(data)
            if snapshot is None:
                return Store()
            held = self._held[data.part] = _HeldSnapshot(snapshot, _inode(data, snapshot.number))
        return held.snapshot.store

    def _is_newest(self, part: str, held: _HeldSnapshot) -> bool:
        data, number = DataDirectory(self._data.root, part), held.snapshot.number
        return newest_number(data) == number and _inode(data, number) == held.inode

    def _drop(self, part: str) -> None:
        held = self._held.pop(part, None)
        if held is not None:
            held.snapshot.close()


def _inode(data: DataDirectory, number: int) -> int:
    try:
        return (folder(data) / str(number)).stat().st_ino
    except FileNotFoundError:
        return 0


def answer_query(request: SparqlRequest, snapshots: SnapshotCache) -> SparqlResponse:
    """The result of the stores, or one sentence."""
    try:
        skeleton = check_query(request.text)
        try:
            return _run_query(request, skeleton, snapshots)
        except OSError:  # the snapshot was removed: the store is being rebuilt
            snapshots.clear()
            return _run_query(request, skeleton, snapshots)
    except (SyntaxError, ValueError, RuntimeError) as error:
        return SparqlResponse(trouble=SparqlFailure.MALFORMED, sentence=_syntax_message(str(error), request.text))
    except (QueryError, ConfigError) as error:
        return SparqlResponse(trouble=SparqlFailure.MALFORMED, sentence=str(error))
    except QueryLimitExceeded as error:
        return SparqlResponse(trouble=SparqlFailure.COSTLY, sentence=str(error))
    except (DataError, OSError) as error:
        return SparqlResponse(trouble=SparqlFailure.DATA, sentence=str(error)[:MESSAGE_CHARS_MAX])


def _syntax_message(error: str, query: str) -> str:
    """The message of the parser in one line, without its tables of expected characters."""
    if sentence := wrong_kind(query):
        return sentence
    place = re.match(r"error at (\d+):(\d+): ", error)
    if place is not None and "Prefix not found" in error:
        before = query.split("\n")[int(place[1]) - 1][: int(place[2]) - 1]
        prefix = re.search(r"([^\s<>(){},;|/^!*+?.]*:)[^:\s]*$", before)
        error = f"{place[0]}the prefix {prefix[1][:40] if prefix else ''} is not declared (PREFIX name: <IRI>)"
    error = error.replace("expected IRI parsing failed", "the IRI is not valid")
    plain = " ".join(_letters("", error).split()).replace("expected one of,", "expected one of").rstrip(", ")
    plain = re.sub("expected(?: one of)?$", "something else was expected", plain)
    return re.sub(r"^error at (\d+):(\d+): ", r"line \1, column \2: ", plain)[:MESSAGE_CHARS_MAX]


def _run_query(request: SparqlRequest, skeleton: QuerySkeleton, snapshots: SnapshotCache) -> SparqlResponse:
    stores = snapshots.stores(request.part)
    several = len(stores) > 1
    asked = [
        partial(_query, store, request, skeleton, pages)
        for store, pages in zip(stores.values(), _divide_pages(request.matches, list(stores)), strict=True)
    ]
    taken: SolutionResults | GraphResults | BooleanResult | None = None
    if several and needs_all_parts(skeleton, len(stores)):
        taken = SolutionResults(request.results_max, None, distinct=False)
        taken.take(query_together(request.text, asked))
    else:
        for ask in asked:
            found = ask(request.text)
            if taken is None:
                taken = _collector(found, request.results_max, skeleton, several)
            if not taken.take(found):
                break
    assert taken is not None  # there is always a part
    is_graph = isinstance(taken, GraphResults)
    form = request.graph_as if is_graph else request.solutions_as
    if not form:
        kind = "statements" if is_graph else "solutions, or yes or no"
        formats = list(GRAPH_FORMATS if is_graph else SOLUTION_FORMATS)
        sentence = f"the result is {kind}, available as {', '.join(formats)}; the client accepts none of these"
        return SparqlResponse(trouble=SparqlFailure.UNWANTED, sentence=sentence)
    count = len(taken)  # before writing, which empties it
    return SparqlResponse(taken.written(form), form, count, taken.is_cut)


def _collector(
    found: QueryResults, most: int, skeleton: QuerySkeleton, several: bool
) -> SolutionResults | GraphResults | BooleanResult:
    if isinstance(found, QueryBoolean):
        return BooleanResult()
    if isinstance(found, QuerySolutions):
        limit = skeleton.limit if several else None
        return SolutionResults(most, limit, distinct=several and skeleton.has("DISTINCT"))
    return GraphResults(most)


def _divide_pages(matches: dict[str, list[str]], parts: list[str]) -> list[dict[str, list[str]]]:
    """The matching pages for each part: a page is found in one of them. Pages of parts that are elsewhere are with the
    first one, unless a part was chosen."""
    if not matches or parts == [""]:
        return [matches] * len(parts)
    numbers, of = zip(*(map(int, part.split("-of-")) for part in parts), strict=True)
    found: list[dict[str, list[str]]] = [{text: [] for text in matches} for _ in parts]
    for text, urls in matches.items():
        for url in urls:
            number = shard_number(url, of[0])
            if number in numbers or len(parts) > 1:
                found[numbers.index(number) if number in numbers else 0][text].append(url)
    return found


def _query(
    store: Store, request: SparqlRequest, skeleton: QuerySkeleton, pages: dict[str, list[str]], text: str
) -> QueryResults:
    default, named = request.default_graphs, request.named_graphs
    if pages:
        store.query(text, prefixes=PREFIXES, default_graph=[], named_graphs=[])  # its errors have their places here
        text = with_pages(text, pages)
    if text is not request.text:
        refuse_service(text)
    if default is None and named is None:  # FROM would be ignored beside the union
        return store.query(text, prefixes=PREFIXES, use_default_graph_as_union=not skeleton.has("FROM"))
    return store.query(
        text,
        prefixes=PREFIXES,
        default_graph=[_iri(one) for one in default or []],
        named_graphs=[_iri(one) for one in named or []],
    )


def _iri(text: str) -> NamedNode:
    try:
        return NamedNode(text)
    except ValueError:
        raise QueryError(f"{text[:100]!r} is not a valid IRI for a graph") from None


def main(descriptor: int, data: DataDirectory) -> None:
    line = SandboxSocket(descriptor)
    decoder, encode = msgspec.msgpack.Decoder(SparqlRequest), msgspec.msgpack.Encoder().encode
    snapshots = SnapshotCache(data)
    waiting = select.poll()  # not select(): the descriptor may be large
    waiting.register(line, select.POLLIN)
    line.send_ready()
    while True:
        while not waiting.poll(CHECK_EVERY_S * 1_000):
            snapshots.drop_outdated()
        request = decoder.decode(line.receive())
        limit_memory(None)
        # the memory of an open store, half a gigabyte of addresses, does not count for the query
        snapshots.prepare(request.part)
        limit_memory(MEMORY_BYTES)
        try:
            answered = answer_query(request, snapshots)
            has_grown = resident_bytes() > GROWN_BYTES
            line.send(encode(msgspec.structs.replace(answered, is_spent=has_grown)))
        except MemoryError:
            os._exit(1)  # the heap is fragmented


if __name__ == "__main__":
    run_child(main)
