"""The registry of nodes: heartbeats received, orders given, and which node is silent.

Promises: every node that ever joined is known until it is forgotten; its orders are stored, and it receives them with
its next heartbeat; only one living process may use a name. Heartbeats are kept in memory and now and then in the store,
so that a restarted coordinator knows which nodes are missing. If the clock of a node is wrong, its times are converted
to our clock. `now` is an argument, in real seconds, also if the crawl runs by a false clock.
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
from tarrafa.frontier.messages import RegisteredWorker
from tarrafa.i18n import message

LINES_MAX = 200  # of the log of a node
NODES_MAX = 500
SAVED_EVERY_S = 30.0  # an unchanged node
FORGET_AFTER_S = 86_400.0
CLOCK_WRONG_S = 10.0  # less may be the transfer time of a heartbeat
CLOCK_HEARTBEATS = 10  # compared; the fastest one shows the clock best
SCHEMA = """CREATE TABLE IF NOT EXISTS node (
    name TEXT PRIMARY KEY, orders BLOB NOT NULL, beat BLOB NOT NULL, heard REAL NOT NULL
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS own (name TEXT NOT NULL)"""

_orders = msgspec.json.Decoder(NodeOrders).decode
_beat = msgspec.json.Decoder(NodeHeartbeat).decode


class SearchNode(NamedTuple):
    """A node with the role `search`. `silent_s` is None if it has sent no heartbeat since this process began: then it
    is known from the store only."""

    name: str
    address: str  # empty: its search process does not run
    process: str
    silent_s: float | None


@dataclass(slots=True)
class _RegisteredNode:
    """One node. `saved`: when it was last stored; `met`: it has sent a heartbeat, and is not only known from the store;
    `answered`: its search process has had an address."""

    orders: NodeOrders
    beat: NodeHeartbeat
    heard: float
    saved: float
    lines: deque[LogLine] = field(default_factory=lambda: deque(maxlen=LINES_MAX))
    held: tuple[int, float] = (0, 0.0)  # hosts, and until when
    met: bool = False
    answered: bool = False
    ahead: deque[float] = field(
        default_factory=lambda: deque(maxlen=CLOCK_HEARTBEATS)
    )  # its clock, heartbeat by heartbeat

    def __post_init__(self) -> None:
        self.answered = bool(self.beat.address)

    @property
    def ahead_s(self) -> float:
        """Error of its clock. A late heartbeat makes the clock look behind, so the maximum counts."""
        ahead_s = max(self.ahead, default=0.0)
        return ahead_s if abs(ahead_s) >= CLOCK_WRONG_S else 0.0


class NodeRegistry:
    """All nodes, with the coordinator's `own`. `on_heartbeat` is called with each heartbeat."""

    def __init__(
        self, db: apsw.Connection, own: str = "", on_heartbeat: Callable[[NodeHeartbeat], None] = lambda beat: None
    ) -> None:
        self._db, self.own, self._on_heartbeat = db, own, on_heartbeat
        db.execute(SCHEMA)
        if own and db.execute("SELECT name FROM own").fetchall() != [(own,)]:
            db.execute("DELETE FROM own; INSERT INTO own VALUES (?)", (own,))
        self._known: dict[str, _RegisteredNode] = {}
        for name, orders, beat, at in db.execute("SELECT name, orders, beat, heard FROM node"):
            try:
                self._known[str(name)] = _RegisteredNode(_orders(_bytes(orders)), _beat(_bytes(beat)), _float(at), 0.0)
            except msgspec.MsgspecError:  # written by another version: its next heartbeat replaces it
                continue

    def join(self, request: JoinRequest, now: float) -> NodeOrders:
        """Register a node; its orders. Raises `NameTaken`."""
        name = request.name
        if name == self.own:
            raise NameTaken(
                message("{name}: is the name of the coordinating node; choose another with --name", name=name)
            )
        self._check_name_is_free(name, request.process, now)
        beat = NodeHeartbeat(name, now, request.version, now, request.machine, (), process=request.process)
        return self._record(beat, now, save=True)

    def receive_heartbeat(self, beat: NodeHeartbeat, now: float) -> NodeOrders:
        """Record a heartbeat; the orders of the node. An unknown node is registered."""
        self._check_name_is_free(beat.node, beat.process, now)
        known = self._known.setdefault(beat.node, _RegisteredNode(NodeOrders(), beat, now, 0.0))
        if known.beat.process != beat.process:  # a new process may have another clock
            known.ahead.clear()
        known.ahead.append(beat.at - now)
        return self._record(shift_times(beat, -known.ahead_s) if known.ahead_s else beat, now)

    def _check_name_is_free(self, name: str, process: str, now: float) -> None:
        known = self._known.get(name)
        if known is None and len(self._known) >= NODES_MAX:
            raise NameTaken(
                message(
                    "{name}: there are {limit} nodes already; forget nodes that no longer exist",
                    name=name,
                    limit=NODES_MAX,
                )
            )
        is_other = known is not None and known.beat.process != process and name != self.own
        if known is not None and is_other and now - known.heard < NODE_SILENT_AFTER_S:
            raise NameTaken(
                message("{name}: another node of that name is running; choose another with --name", name=name)
            )

    def _record(self, beat: NodeHeartbeat, now: float, *, save: bool = False) -> NodeOrders:
        known = self._known.setdefault(beat.node, _RegisteredNode(NodeOrders(), beat, now, 0.0))
        known.lines.extend(beat.lines)
        self._on_heartbeat(beat)
        has_moved = beat.address != known.beat.address  # readers of the store need the new one
        known.beat, known.heard, known.met = replace(beat, lines=()), now, True
        known.answered = known.answered or (has_moved and bool(beat.address))
        if save or has_moved or now - known.saved >= SAVED_EVERY_S:
            self._save(known, now)
        return known.orders

    def _save(self, known: _RegisteredNode, now: float) -> None:
        known.saved = now
        row = (known.beat.node, msgspec.json.encode(known.orders), msgspec.json.encode(known.beat), known.heard)
        with contextlib.suppress(apsw.FullError, apsw.BusyError):  # a later heartbeat is saved
            self._db.execute("INSERT OR REPLACE INTO node VALUES (?, ?, ?, ?)", row)

    def orders(self, name: str) -> NodeOrders:
        return self._registered(name).orders

    def set_orders(self, name: str, orders: NodeOrders, now: float) -> NodeOrders:
        """Give a node new orders, with a new number; it receives them with its next heartbeat."""
        known = self._registered(name)
        known.orders = replace(orders, number=known.orders.number + 1)
        self._save(known, now)
        return known.orders

    def forget(self, name: str, now: float) -> None:
        """Forget a node that will not come back; refused if it was alive lately."""
        known = self._registered(name)
        if now - known.heard < FORGET_AFTER_S:
            raise ConfigError(
                message(
                    "{name}: was alive less than a day ago; a node can be forgotten after a day of silence", name=name
                )
            )
        self._db.execute("DELETE FROM node WHERE name = ?", (name,))
        del self._known[name]

    def search_nodes(self, now: float) -> list[SearchNode]:
        """Nodes with the role `search` whose search process has had an address; not our own."""
        return [
            SearchNode(name, known.beat.address, known.beat.process, now - known.heard if known.met else None)
            for name, known in self._known.items()
            if name != self.own and known.answered and "search" in known.orders.roles
        ]

    def _registered(self, name: str) -> _RegisteredNode:
        known = self._known.get(name)
        if known is None:
            raise NotFound(message("{name}: there is no node of that name", name=name[:80]))
        return known

    def record_held_hosts(self, now: float, workers: Iterable[RegisteredWorker]) -> None:
        """Record the hosts of each node, about once a second: so it is known what a node held when it fell silent."""
        holders = list(workers)
        for known in self._known.values():
            holding = held_hosts(holders, known.beat.workers_named, now)
            if holding[0] or now - known.heard <= NODE_SILENT_AFTER_S:  # else its lease has expired
                known.held = holding

    def states(self, now: float, workers: Iterable[RegisteredWorker] = (), fetch_s_max: float = 0.0) -> list[NodeState]:
        """All nodes, the coordinator's own first. `workers` (of the frontier's overview) hold the hosts: after the
        lease of a silent node its hosts wait for `fetch_s_max`; then other workers take them."""
        self.record_held_hosts(now, workers)
        found = []
        for name, known in self._known.items():
            silent_s = max(0.0, now - known.heard)
            is_silent = silent_s > NODE_SILENT_AFTER_S
            hosts, until = known.held
            free_from = until + fetch_s_max if hosts else 0.0
            shown = (known.orders, known.beat, tuple(known.lines), name == self.own)
            found.append(NodeState(name, silent_s, is_silent, *shown, hosts, until, free_from, known.ahead_s))
        return sorted(found, key=lambda state: (not state.own, state.name))


def held_hosts(workers: Iterable[RegisteredWorker], named: str, now: float) -> tuple[int, float]:
    """The number of hosts of the workers named `named` + a number; and until when their leases last."""
    theirs = [one for one in workers if named and one.name.startswith(named) and one.name[len(named) :].isdecimal()]
    hosts = sum(one.hosts for one in theirs)
    return hosts, now + max(one.deadline_s for one in theirs if one.hosts) if hosts else 0.0


def _bytes(value: object) -> bytes:
    return value if isinstance(value, bytes) else str(value).encode()


def _float(value: object) -> float:
    return value if isinstance(value, float) else float(str(value))
