"""The part of a report that one machine holds: its archive, graph, index and triple store.

Where several nodes crawl, each keeps an archive, a link graph, an index and a triple store of its own: its *part*. A
report is made of the parts of all nodes (`part_merge`). Promises: nothing is changed; a missing graph or index is None.
Blocks while the archive is read. Knows nothing of frontiers, and of how a part is sent.
"""

import contextlib
from collections.abc import Callable
from dataclasses import dataclass, field
from math import inf
from typing import Annotated, Protocol

import msgspec
from msgspec import Meta

from tarrafa.archive.warc_reader import durable_lengths
from tarrafa.errors import DataError
from tarrafa.graph.dead_links_and_inlinks import GraphStatistics, graph_statistics
from tarrafa.index.index_state import PagesByFate
from tarrafa.index.index_status import index_status
from tarrafa.report import local_measurements
from tarrafa.report.schema import MissingNode, StoragePart
from tarrafa.report.visit_rows import VisitReader, VisitRows
from tarrafa.runtime.data_dir import DataDirectory
from tarrafa.runtime.heartbeat import TEXT_CHARS_MAX, Amount, Count
from tarrafa.triples.status import triples_status

Progress = Callable[[int, int], None]  # bytes of the archive read, and in all


class PartRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The subject: a collection, a period, a run. `agent` is the user agent that robots.txt files are read for."""

    name: Annotated[str, Meta(max_length=TEXT_CHARS_MAX)]
    agent: Annotated[str, Meta(max_length=TEXT_CHARS_MAX)]
    since: Amount | None = None
    until: Amount | None = None
    run: Count | None = None

    @property
    def is_limited(self) -> bool:
        return (self.since, self.until, self.run) != (None, None, None)


@dataclass(slots=True)
class ReportPart:
    """The counts of one machine. `index`: the pages of the collection in its index, and those it leaves out; None:
    there is no index. `storage`, `statements`: of all collections together.
    """

    visits: VisitRows
    storage: list[StoragePart] = field(default_factory=list)
    index: PagesByFate | None = None
    statements: int | None = None
    graph: GraphStatistics | None = None


@dataclass(slots=True)
class RemoteParts:
    """The parts of other machines, by the names of their nodes; and the nodes without one."""

    parts: dict[str, ReportPart] = field(default_factory=dict)
    missing: list[MissingNode] = field(default_factory=list)


class PendingParts(Protocol):
    """Requests to other machines in progress."""

    def wait(self) -> RemoteParts:
        """Wait until all have answered or failed."""

    def stop(self) -> None:
        """Cancel the requests."""


RequestRemoteParts = Callable[[PartRequest, Progress], PendingParts]


def gather_local_part(
    data: DataDirectory, request: PartRequest, progress: Progress = lambda done, total: None
) -> ReportPart:
    """The part of this machine."""
    since, until = (-inf if request.since is None else request.since), (inf if request.until is None else request.until)
    reader = VisitReader(request.name, request.agent, since, until, request.run)
    total, done = sum(durable_lengths(data.archive).values()), 0

    def add_progress(size: int) -> None:
        nonlocal done
        done += size
        progress(done, total)

    visits, triples = reader.read(data.archive, add_progress), triples_status(data)
    part = ReportPart(visits, statements=triples.statements if triples is not None else None)
    with contextlib.suppress(DataError):
        index = index_status(data)
        part.index = index.of(request.name) if index is not None else None
    with contextlib.suppress(DataError):
        part.graph = graph_statistics(data, request.name)
    part.storage = local_measurements.storage_sizes(data)  # at last: reading a store may add files beside it
    return part
