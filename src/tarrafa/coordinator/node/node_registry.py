"""The registry of nodes: heartbeats received, orders given, and which node is silent.

Promises: every node that ever joined is known until somebody forgets it, heard or not; its orders are kept, and it
hears them with its next beat; under a name only one living process is heard. What nodes say is kept in memory, and a
little of it in the store, so that a coordinator that was away still knows whom to miss. Times that a node says are
turned into those of our own clock, should its clock be wrong.
Pure about time: `now` is an argument, in real seconds, whatever clock the crawl runs by.
"""

import contextlib
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

import apsw
import msgspec
from msgspec.structs import replace

from tarrafa.coordinator.node.messages import (
    NODE_SILENT_AFTER_S,
    JoinRequest,
    LogLine,
    NodeHeartbeat,
    NodeOrders,
    NodeState,
    shift_times,
)
from tarrafa.errors import ConfigError, NameTaken, NotFound
from tarrafa.frontier.messages import WorkerLeaseStatus

LINES_MAX = 200  # that are remembered of a node
NODES_MAX = 500
SAVED_EVERY_S = 30.0  # how often the store hears of a node that goes on as before
FORGET_AFTER_S = 86_400.0
CLOCK_WRONG_S = 10.0  # less may be the way that a beat took
CLOCK_HEARTBEATS = 10  # so many are compared: the one that came fastest says best what a clock shows
SCHEMA = """CREATE TABLE IF NOT EXISTS node (
    name TEXT PRIMARY KEY, orders BLOB NOT NULL, beat BLOB NOT NULL, heard REAL NOT NULL
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS own (name TEXT NOT NULL)"""

_orders = msgspec.json.Decoder(NodeOrders).decode
_beat = msgspec.json.Decoder(NodeHeartbeat).decode


class SearchNode(NamedTuple):
    """A node that lets others search, where it says so. `silent_s` is None of one that nobody has heard since this
    process began: then all that we know of it was written down by an earlier one."""

    name: str
    address: str  # empty: it does not answer now
    process: str
    silent_s: float | None


@dataclass(slots=True)
class _RegisteredNode:
    """One node. `noted`: when the store heard of it last; `met`: whether it was heard, and not only read of;
    `answered`: whether it ever said where it answers searches."""

    orders: NodeOrders
    beat: NodeHeartbeat
    heard: float
    noted: float
    lines: deque[LogLine] = field(default_factory=lambda: deque(maxlen=LINES_MAX))
    held: tuple[int, float] = (0, 0.0)  # hosts, and until when
    met: bool = False
    answered: bool = False
    ahead: deque[float] = field(default_factory=lambda: deque(maxlen=CLOCK_HEARTBEATS))  # its clock, beat by beat

    def __post_init__(self) -> None:
        self.answered = bool(self.beat.address)

    @property
    def ahead_s(self) -> float:
        """By how much its clock is wrong; what came late makes it look behind."""
        ahead_s = max(self.ahead, default=0.0)
        return ahead_s if abs(ahead_s) >= CLOCK_WRONG_S else 0.0


class NodeRegistry:
    """All nodes, the coordinator's `own` among them. `heard` is told each beat."""

    def __init__(
        self, db: apsw.Connection, own: str = "", heard: Callable[[NodeHeartbeat], None] = lambda beat: None
    ) -> None:
        self._db, self.own, self._heard = db, own, heard
        db.execute(SCHEMA)
        if own and db.execute("SELECT name FROM own").fetchall() != [(own,)]:
            db.execute("DELETE FROM own; INSERT INTO own VALUES (?)", (own,))
        self._known: dict[str, _RegisteredNode] = {}
        for name, orders, beat, at in db.execute("SELECT name, orders, beat, heard FROM node"):
            try:
                self._known[str(name)] = _RegisteredNode(_orders(_bytes(orders)), _beat(_bytes(beat)), _float(at), 0.0)
            except msgspec.MsgspecError:  # written by another version: it will say anew how it fares
                continue

    def join(self, who: JoinRequest, now: float) -> NodeOrders:
        """Somebody wants to take part under a name; what it is to do. Raises `NameTaken`."""
        if who.name == self.own:
            raise NameTaken(f"{who.name}: is the name of the node that coordinates; choose another with --name")
        self._check_name_is_free(who.name, who.process, now)
        beat = NodeHeartbeat(who.name, now, who.version, now, who.machine, (), process=who.process)
        return self._store_heartbeat(beat, now, noted=True)

    def receive_heartbeat(self, beat: NodeHeartbeat, now: float) -> NodeOrders:
        """A node is heard; what it is to do. One that we have forgotten, or never met, is known from now on."""
        self._check_name_is_free(beat.node, beat.process, now)
        known = self._known.get(beat.node)
        if known is None:
            known = self._known[beat.node] = _RegisteredNode(NodeOrders(), beat, now, 0.0)
        if known.beat.process != beat.process:  # another one, which has looked at its clock anew
            known.ahead.clear()
        known.ahead.append(beat.at - now)
        return self._store_heartbeat(shift_times(beat, -known.ahead_s) if known.ahead_s else beat, now)

    def _check_name_is_free(self, name: str, process: str, now: float) -> None:
        known = self._known.get(name)
        if known is None and len(self._known) >= NODES_MAX:
            raise NameTaken(f"{name}: there are {NODES_MAX} nodes already; forget those that are gone")
        is_other = known is not None and known.beat.process != process and name != self.own
        if known is not None and is_other and now - known.heard < NODE_SILENT_AFTER_S:
            raise NameTaken(f"{name}: another node of that name is at work; choose another with --name")

    def _store_heartbeat(self, beat: NodeHeartbeat, now: float, *, noted: bool = False) -> NodeOrders:
        known = self._known.get(beat.node)
        if known is None:
            known = self._known[beat.node] = _RegisteredNode(NodeOrders(), beat, now, 0.0)
        known.lines.extend(beat.lines)
        self._heard(beat)
        has_moved = beat.address != known.beat.address  # whoever reads the store looks for it there
        known.beat, known.heard, known.met = replace(beat, lines=()), now, True
        known.answered = known.answered or (has_moved and bool(beat.address))
        if noted or has_moved or now - known.noted >= SAVED_EVERY_S:
            self._save(known, now)
        return known.orders

    def _save(self, known: _RegisteredNode, now: float) -> None:
        known.noted = now
        with contextlib.suppress(apsw.FullError, apsw.BusyError):  # the next one is noted again
            self._write(known)

    def _write(self, known: _RegisteredNode) -> None:
        self._db.execute(
            "INSERT INTO node VALUES (?, ?, ?, ?) ON CONFLICT (name) DO UPDATE SET"
            " orders = excluded.orders, beat = excluded.beat, heard = excluded.heard",
            (known.beat.node, msgspec.json.encode(known.orders), msgspec.json.encode(known.beat), known.heard),
        )

    def orders(self, name: str) -> NodeOrders:
        return self._registered(name).orders

    def set_orders(self, name: str, orders: NodeOrders, now: float) -> NodeOrders:
        """What a node is to do from now on; it hears of it with its next beat. They get a number of their own."""
        known = self._registered(name)
        known.orders = replace(orders, number=known.orders.number + 1)
        self._save(known, now)
        return known.orders

    def forget(self, name: str, now: float) -> None:
        """A node that will not come back. One that was heard of lately is refused."""
        known = self._registered(name)
        if now - known.heard < FORGET_AFTER_S:
            raise ConfigError(f"{name}: was heard of less than a day ago; a node can be forgotten after that")
        self._db.execute("DELETE FROM node WHERE name = ?", (name,))
        del self._known[name]

    def search_nodes(self, now: float) -> list[SearchNode]:
        """The nodes that are to let others search, and have said where at least once; not our own."""
        return [
            SearchNode(name, known.beat.address, known.beat.process, now - known.heard if known.met else None)
            for name, known in self._known.items()
            if name != self.own and known.answered and "search" in known.orders.roles
        ]

    def _registered(self, name: str) -> _RegisteredNode:
        known = self._known.get(name)
        if known is None:
            raise NotFound(f"{name[:80]}: there is no node of that name")
        return known

    def record_held_hosts(self, now: float, workers: Iterable[WorkerLeaseStatus]) -> None:
        """What each has, by the frontier's overview: to be told about once a second, whether or not somebody looks. So
        it is known what a node had when it fell silent, and that it had nothing if its hosts were freed before."""
        holders = list(workers)
        for known in self._known.values():
            holding = held_hosts(holders, known.beat.workers_named, now)
            if holding[0] or now - known.heard <= NODE_SILENT_AFTER_S:  # else the frontier has given it up meanwhile
                known.held = holding

    def states(self, now: float, workers: Iterable[WorkerLeaseStatus] = (), rest_s: float = 0.0) -> list[NodeState]:
        """All of them, the coordinator's own first. `workers` are those of the frontier's overview: so the fate of the
        hosts of a node that is silent can be told. When its leases are over they rest for `rest_s`, the longest time
        that a document may take, and others take them."""
        self.record_held_hosts(now, workers)
        found = []
        for name, known in self._known.items():
            silent_s = max(0.0, now - known.heard)
            is_silent = silent_s > NODE_SILENT_AFTER_S
            hosts, until = known.held
            free_from = until + rest_s if hosts else 0.0
            shown = (known.orders, known.beat, tuple(known.lines), name == self.own)
            found.append(NodeState(name, silent_s, is_silent, *shown, hosts, until, free_from, known.ahead_s))
        return sorted(found, key=lambda state: (not state.own, state.name))


def held_hosts(workers: Iterable[WorkerLeaseStatus], named: str, now: float) -> tuple[int, float]:
    """How many hosts the workers hold whose names begin so and end in a number; and until when, if nothing more is
    heard of them."""
    theirs = [one for one in workers if named and one.name.startswith(named) and one.name[len(named) :].isdecimal()]
    hosts = sum(one.hosts for one in theirs)
    return hosts, now + max(one.deadline_s for one in theirs if one.hosts) if hosts else 0.0


def _bytes(value: object) -> bytes:
    return value if isinstance(value, bytes) else str(value).encode()


def _float(value: object) -> float:
    return value if isinstance(value, float) else float(str(value))
