"""The snapshot of all collections, nodes and processes that console, API, terminal and metrics show.

Made from what the coordinator has in memory, without a request. Pure.
"""

from collections.abc import Iterable

import msgspec

from tarrafa.coordinator.node.messages import NodeState, ProcessState
from tarrafa.coordinator.store import CollectionRun, CollectionSample
from tarrafa.errors import NotFound
from tarrafa.frontier.messages import CollectionStatus, RegisteredWorker
from tarrafa.i18n import Message, joined, message
from tarrafa.index.index_status import KeptPages

ALERT_FOR_S = 15.0  # the death of a process is shown in red, also after its restart
DEATH_SHOWN_FOR_S = 60.0  # the cause of the death is shown
FOLLOWERS = frozenset({"graph", "captures", "index", "triples"})


class VisitStatusCount(msgspec.Struct, frozen=True):
    """Visits that ended with a status, and their share of all visits; and URLs that got it without a visit."""

    status: int
    count: int
    share: float
    refused: int = 0


class CollectionSnapshot(msgspec.Struct, frozen=True):
    name: str
    state: str
    reason: Message | str
    actions: list[str]
    status: CollectionStatus
    sample: CollectionSample
    statuses: list[VisitStatusCount]
    expected: int  # pages, if nothing more is discovered
    left_s: float | None
    run: CollectionRun | None = None
    next: float | None = None  # when its next run begins
    notes: list[Message | str] = []  # problems, such as notices that cannot be delivered
    standstill: Message | None = None  # why no worker works for it, though it runs
    has_failed: bool = False  # its last run is over, and got no page
    pages: KeptPages | None = None  # which of them can be searched here; None: there is no index


class ProcessTotals(msgspec.Struct, frozen=True):
    """Sums over processes; `lag_s` and `behind_bytes` are maxima."""

    processes: int = 0
    connections: int = 0
    hosts: int = 0
    pages_per_s: float = 0.0
    bytes_per_s: float = 0.0
    lag_s: float = 0.0
    behind_bytes: int = 0


class ProcessSnapshot(msgspec.Struct, frozen=True):
    """`is_red`: dead or silent, now or a moment ago. `died_s`: time since its death, while that is shown."""

    process: ProcessState
    is_red: bool
    detail: Message | str
    died_s: float | None = None


class NodeSnapshot(msgspec.Struct, frozen=True):
    """A silent node has no sums, and its processes are those of its last heartbeat. `hosts_free`: it is silent, and
    other workers have its hosts or may take them."""

    node: NodeState
    sums: ProcessTotals
    processes: list[ProcessSnapshot]
    is_red: bool
    hosts_free: bool = False


class ClusterTotals(msgspec.Struct, frozen=True):
    """Sums over all nodes that are not silent; `cpu` and `load` are means."""

    alive: int
    cpu: float
    load: float
    memory_used_bytes: int
    disk_free_bytes: int
    sums: ProcessTotals


class SystemSnapshot(msgspec.Struct, frozen=True):
    at: float
    trouble: Message | str  # why the numbers are not newer
    notes: list[Message | str]
    collections: list[CollectionSnapshot]
    nodes: list[NodeSnapshot]
    totals: ClusterTotals

    def collection(self, name: str) -> CollectionSnapshot:
        for one in self.collections:
            if one.name == name:
                return one
        raise NotFound(message("no collection is named {name!r}", name=name[:80]))

    def node(self, name: str) -> NodeSnapshot:
        for one in self.nodes:
            if one.node.name == name:
                return one
        raise NotFound(message("{name}: there is no node of that name", name=name[:80]))


def count_statuses(statuses: dict[str, int], refused: dict[str, int]) -> list[VisitStatusCount]:
    """The most frequent first."""
    visits = {status: count - refused.get(status, 0) for status, count in statuses.items()}
    whole = sum(visits.values()) or 1
    rows = [
        VisitStatusCount(int(status), count, count / whole, refused.get(status, 0)) for status, count in visits.items()
    ]
    return sorted(rows, key=lambda row: (-row.count, -row.refused, row.status))


def node_snapshot(node: NodeState, now: float) -> NodeSnapshot:
    processes = [_process_snapshot(one, now) for one in node.beat.processes]
    is_red = node.is_silent or bool(node.beat.trouble)
    sums = ProcessTotals() if node.is_silent else process_totals(node.beat.processes)
    hosts_free = node.is_silent and (not node.hosts_held or now >= node.free_from)
    return NodeSnapshot(node, sums, processes, is_red, hosts_free)


def _process_snapshot(process: ProcessState, now: float) -> ProcessSnapshot:
    died_s = max(0.0, now - process.died)
    is_red = process.state in ("dead", "silent") or (bool(process.died) and died_s < ALERT_FOR_S)
    is_shown = bool(process.died) and (process.state == "dead" or died_s < DEATH_SHOWN_FOR_S)
    notes: list[Message | str] = [process.cause] if is_shown and process.cause else []
    if process.restarts:
        notes.append(f"{process.restarts}×")
    if process.pulse is not None and process.pulse.note:
        notes.append(process.pulse.note)
    return ProcessSnapshot(process, is_red, joined(notes), died_s if is_shown else None)


def process_totals(processes: Iterable[ProcessState]) -> ProcessTotals:
    known = list(processes)
    pulses = [(one.role, one.pulse) for one in known if one.pulse is not None]
    return ProcessTotals(
        len(known),
        sum(pulse.connections for _, pulse in pulses),
        sum(pulse.hosts for _, pulse in pulses),
        sum(one.pages_per_s for one in known),
        sum(one.bytes_per_s for one in known),
        max((pulse.lag_s for _, pulse in pulses), default=0.0),
        max((pulse.behind_bytes for role, pulse in pulses if role in FOLLOWERS), default=0),
    )


def standstill_reason(nodes: list[NodeSnapshot], workers: list[RegisteredWorker]) -> Message | None:
    """Why nothing is visited: all nodes with workers are paused. Workers without a node may be working."""
    alive = [one for one in nodes if not one.node.is_silent]
    crawling = [one for one in alive if any(process.role == "worker" for process in one.node.beat.processes)]
    named = tuple(one.node.beat.workers_named for one in nodes if one.node.beat.workers_named)
    if (
        not crawling
        or not all(one.node.beat.is_paused for one in crawling)
        or any(not one.name.startswith(named) for one in workers)
    ):
        return None
    reasons = {str(one.node.beat.trouble): one.node.beat.trouble for one in crawling}
    return message("no worker works for it: {reasons}", reasons=joined(list(reasons.values()), ", "))


def cluster_totals(nodes: list[NodeSnapshot]) -> ClusterTotals:
    alive = [one for one in nodes if not one.node.is_silent]
    machines, count = [one.node.beat.machine for one in alive], max(1, len(alive))
    return ClusterTotals(
        len(alive),
        sum(machine.cpu for machine in machines) / count,
        sum(machine.load for machine in machines) / count,
        sum(machine.memory_bytes - machine.memory_free_bytes for machine in machines),
        sum(machine.disk_free_bytes for machine in machines),
        ProcessTotals(
            sum(one.sums.processes for one in alive),
            sum(one.sums.connections for one in alive),
            sum(one.sums.hosts for one in alive),
            sum(one.sums.pages_per_s for one in alive),
            sum(one.sums.bytes_per_s for one in alive),
            max((one.sums.lag_s for one in alive), default=0.0),
            max((one.sums.behind_bytes for one in alive), default=0),
        ),
    )
