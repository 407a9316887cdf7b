"""Messages between a node and the coordinator: heartbeat, join request and response, orders, node state.

A *node* is a data directory with its supervisor. About once a second it sends a `NodeHeartbeat` and receives its
`NodeOrders`. These cross a wire as JSON, so every field is bounded, numbers are finite and not negative, and texts hold
only printable characters (`decode_message`).
"""

from typing import Annotated, TypeVar

import msgspec
from msgspec import Meta
from msgspec.structs import replace

from tarrafa.i18n import Message
from tarrafa.runtime.heartbeat import NAME_CHARS_MAX, Amount, Count, Name, ProcessHeartbeat, Text, sanitize

NODES_PATH = "/nodes/v1"
NODE_HEARTBEAT_EVERY_S = 1.0
NODE_SILENT_AFTER_S = 3.5  # without a heartbeat; then the node is shown as silent
LINES_PER_HEARTBEAT_MAX = 20
LINE_CHARS_MAX = 500
PROCESSES_MAX = 200  # of one node
WORKERS_MAX = 64
NODE_HEARTBEAT_BYTES_MAX = 1 << 20
ROLES = ("worker", "follower", "search")
NODE_NAME = rf"^[A-Za-z0-9][A-Za-z0-9._-]{{0,{NAME_CHARS_MAX - 20}}}$"

NodeName = Annotated[str, Meta(pattern=NODE_NAME)]
LongText = Annotated[str, Meta(max_length=1_000)]
Fraction = Annotated[float, Meta(ge=0, le=1)]


class ProcessState(msgspec.Struct, frozen=True, omit_defaults=True):
    """One process of a node, as its supervisor sees it. `died`: its last death, after which it was restarted."""

    name: Name
    role: Name  # frontier, worker, graph, index, triples, search
    pid: Count
    state: Name  # running, starting, dead, silent, leaving
    since: Amount  # when it was started
    restarts: Count = 0
    died: Amount = 0.0
    cause: Message | LongText = ""  # "killed by signal 9", "exit status 1: …"
    cpu: Amount = 0.0  # of one core
    memory_bytes: Count = 0
    pages_per_s: Amount = 0.0
    bytes_per_s: Amount = 0.0
    pulse: ProcessHeartbeat | None = None


class Machine(msgspec.Struct, frozen=True, omit_defaults=True):
    """The machine of a node."""

    cpus: Count
    cpu_mhz: Amount
    cpu: Amount  # of all cores, 0…1
    load: Amount  # of the last minute
    memory_bytes: Count
    memory_free_bytes: Count
    disk_bytes: Count
    disk_free_bytes: Count
    model: Text = ""  # of the processor
    system: Text = ""
    processes: Count = 0  # of all programs
    connections: Count = 0  # TCP, of all programs


class LogLine(msgspec.Struct, frozen=True, array_like=True):
    at: Amount
    process: Name
    text: Annotated[str, Meta(max_length=LINE_CHARS_MAX)]


class NodeOrders(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a node is to do. None: as on its command line."""

    number: Count = 0  # grows with each change
    roles: Annotated[tuple[Name, ...], Meta(max_length=len(ROLES))] = ROLES
    workers: Annotated[int, Meta(ge=0, le=WORKERS_MAX)] | None = None
    hosts_at_once: Annotated[int, Meta(ge=1, le=1_000_000)] | None = None  # of all its workers together
    bandwidth: Annotated[int, Meta(ge=1, le=1 << 40)] | None = None  # bytes a second, of all its workers together
    cpu: Annotated[float, Meta(gt=0, le=1)] | None = None  # of all cores; above it, the node visits fewer hosts
    paused: bool = False
    secrets: str = ""  # changes when the credentials for crawled sites change: then the node joins again to get them


class ScrubState(msgspec.Struct, frozen=True, omit_defaults=True):
    """The last verification of all data of a node: when it began, how long it took, and what it found."""

    at: Amount
    took_s: Amount = 0.0
    bytes: Count = 0
    lost: Count = 0
    derived: Count = 0
    harmless: Count = 0
    known_losses: Count = 0


class LogState(msgspec.Struct, frozen=True, omit_defaults=True):
    """A node of a segment log: how far its mirror is behind, what does not answer, and the parts of the index that it
    owns, with those of them that are being built."""

    behind: Count = 0
    behind_s: Amount = 0.0
    store_trouble: LongText = ""
    database_trouble: LongText = ""
    parts: Count = 0
    building: Count = 0


class NodeHeartbeat(msgspec.Struct, frozen=True, omit_defaults=True):
    """A node at one moment. Its times are by its own clock, which shows `at` (`shift_times`)."""

    node: NodeName
    at: Amount
    version: Name
    started: Amount
    machine: Machine
    processes: Annotated[tuple[ProcessState, ...], Meta(max_length=PROCESSES_MAX)]
    orders: Count = 0  # the number of the applied ones
    trouble: Message | LongText = ""  # why it is paused or waits: an order, a full disk …
    lines: Annotated[tuple[LogLine, ...], Meta(max_length=LINES_PER_HEARTBEAT_MAX)] = ()  # new lines of its logs
    address: Text = ""  # of its search process, for searches and reports
    process: Text = ""  # identity of the sender: no other process may use its name
    workers_named: Name = ""  # prefix of the names of its workers in the frontier
    share: Fraction = 1.0  # of its hosts that the CPU limit lets it visit
    is_paused: bool = False  # by order, or because its disk is nearly full
    scrub: ScrubState | None = None  # None: there was none yet
    log: LogState | None = None  # None: the archive is of this node alone
    is_draining: bool = False  # it ends, and gives everything back


class JoinRequest(msgspec.Struct, frozen=True, omit_defaults=True):
    name: NodeName
    version: Name
    machine: Machine
    process: Text


class JoinResponse(msgspec.Struct, frozen=True, omit_defaults=True):
    frontier: Annotated[tuple[str, ...], Meta(min_length=1, max_length=64)]  # tcp://HOST:PORT, or PostgreSQL servers
    token: str  # of the frontier
    orders: NodeOrders
    secrets: bytes = b""  # credentials for crawled sites: see credentials.py


class NodeState(msgspec.Struct, frozen=True, omit_defaults=True):
    """A node as the coordinator sees it. Times are by the coordinator's clock."""

    name: str
    silent_s: float  # since its last heartbeat
    is_silent: bool
    orders: NodeOrders
    beat: NodeHeartbeat
    lines: tuple[LogLine, ...] = ()  # the latest
    own: bool = False  # the coordinator node
    hosts_held: int = 0  # by its workers, by the frontier's latest overview, or at its last heartbeat
    held_until: float = 0.0  # until then they are leased to it, if it stays silent; 0: it holds none
    free_from: float = 0.0  # from then on other workers take them: a running request has ended by then
    clock_ahead_s: float = 0.0  # error of its clock; behind: negative; 0: right


T = TypeVar("T", bound=msgspec.Struct)


def shift_times(beat: NodeHeartbeat, by_s: float) -> NodeHeartbeat:
    """The same heartbeat by a clock that is `by_s` ahead."""

    def at(time: float) -> float:
        return max(0.0, time + by_s) if time else 0.0

    processes = tuple(replace(one, since=at(one.since), died=at(one.died)) for one in beat.processes)
    lines = tuple(replace(line, at=at(line.at)) for line in beat.lines)
    scrub = replace(beat.scrub, at=at(beat.scrub.at)) if beat.scrub is not None else None
    return replace(beat, at=at(beat.at), started=at(beat.started), processes=processes, lines=lines, scrub=scrub)


def decode_message(content: bytes, kind: type[T]) -> T:
    """Decode and check a message from the network; `ValueError` says what is wrong."""
    try:
        return msgspec.convert(sanitize(msgspec.json.decode(content)), kind, strict=True)
    except (msgspec.MsgspecError, UnicodeError) as error:
        raise ValueError(str(error)) from None
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
