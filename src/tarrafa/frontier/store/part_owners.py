"""Part owners: leases the parts of the projections to nodes, spreads them evenly, and refuses what old owners send.

Where several nodes (data directories) follow one shared archive, each can make any part of a projection; a lease says
which node does. A part may have two owners, its *replicas*, which are numbered. `part_owner` has the owner and epoch of
each replica of each part, `part_node` the nodes that take part, each with the one deadline of all its leases, on the
store's own clock.

Promises: a replica has one owner, and the replicas of a part are on different nodes; a node gives a part back only by
leaving it out of the parts that it holds; the epoch of a replica rises with each owner and is never used twice, not
even by a frontier that is restored or rebuilt: it is at least the time of the claim, in seconds. The numbers of parts
of any two nodes that renew differ by one at most, once what is too much is given back. A node that returns within its
lease gets its own parts back. What a silent node owned is taken over only by a node that has itself renewed for a whole
lease: after a pause of the whole cluster, or of the frontier, each node finds its parts again.
Knows nothing of what a part contains.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from tarrafa.clock import Clock
from tarrafa.errors import ConfigError, FrontierError
from tarrafa.frontier.messages import GRAPH, INDEX, OwnedPart, OwnedParts
from tarrafa.frontier.store.database import ALL_ROWS, FrontierDatabase
from tarrafa.frontier.store.leases import LeaseClock
from tarrafa.i18n import message

PARTS_MAX, NODES_MAX, NODE_CHARS_MAX = 256, 1_000, 64
REPLICAS_MAX = 2
Holdings = dict[str, set[int]]  # the parts of each node


class _PartNode(NamedTuple):
    """A node that takes part: how it divides the projection (`_slot` of the last replica of the last part), since when
    it renews without a break, and its deadline."""

    divided: int
    since: float
    deadline: float


class _Replica(NamedTuple):
    """Who owns a replica of a part; no `node`: nobody."""

    number: int
    replica: int
    node: str
    epoch: int


class PartOwners:
    """The owners of the parts of one frontier."""

    def __init__(self, db: FrontierDatabase, clock: Clock, lease_clock: LeaseClock) -> None:
        self._db, self._clock, self._lease_clock = db, clock, lease_clock

    def claim_parts(
        self,
        node: str,
        projection: str,
        parts: int,
        held: list[OwnedPart],
        at_hand: list[int],
        replicas: int,
    ) -> OwnedParts:
        is_possible = 0 <= parts <= PARTS_MAX and 1 <= replicas <= REPLICAS_MAX and 1 <= len(node) <= NODE_CHARS_MAX
        if projection not in (GRAPH, INDEX) or not is_possible:
            raise FrontierError(
                f"claim_parts: cannot divide {projection[:40]!r} into {parts} x {replicas} for {node[:40]!r}"
            )
        self._db.prefetch_first("part_node", [(projection,)], ALL_ROWS)
        self._db.prefetch_first("part_owner", [(projection,)], ALL_ROWS)
        known = self._replicas(projection)
        if not parts:
            self._db.run("DELETE FROM part_node WHERE projection = ? AND node = ?", (projection, node))
            self._free(projection, [one for one in known.values() if one.node == node])
            return OwnedParts([], [], 0.0)
        living, takes_over = self._renew(node, projection, _slot(parts, replicas))
        here = [
            known.get(_slot(number, replica), _Replica(number, replica, "", 0))
            for number in range(1, parts + 1)
            for replica in range(1, replicas + 1)
        ]
        kept = {one for one in here if one.node == node and OwnedPart(one.number, one.epoch, one.replica) in held}
        free = [
            one
            for one in here
            if one not in kept and (one.node in ("", node) or (takes_over and one.node not in living))
        ]
        holdings: Holdings = {name: set() for name in living}
        for one in {*here} - {*free}:
            holdings.setdefault(one.node, set()).add(one.number)
        own = holdings[node].copy()
        before = [one.number for one in free if one.node == node]
        due = spread_parts(holdings, parts, replicas, node, [*at_hand, *before])[node]
        granted = self._grant(projection, node, due - own, free)
        self._free(
            projection, [one for one in known.values() if one.node == node and one not in kept and one not in granted]
        )
        owned = [
            OwnedPart(one.number, one.epoch, one.replica)
            for one in self._replicas(projection).values()
            if one.node == node
        ]
        return OwnedParts(sorted(owned, key=lambda one: one.number), sorted(own - due), self._lease_clock.lease_s)

    def _grant(self, projection: str, node: str, wanted: set[int], free: list[_Replica]) -> set[_Replica]:
        """Give a node those of the wanted parts that are free, each in one replica, rather in one that it had."""
        granted = dict[int, _Replica]()
        for one in sorted(free, key=lambda one: one.node != node):
            if one.number in wanted:
                granted.setdefault(one.number, one)
        for one in granted.values():
            epoch = max(one.epoch + 1, int(self._clock.now()))
            self._db.run(
                "INSERT OR REPLACE INTO part_owner VALUES (?, ?, ?, ?)",
                (projection, _slot(one.number, one.replica), node, epoch),
            )
        return {*granted.values()}

    def accepts_epoch(self, projection: str, number: int, epoch: int, *, knows_owners: bool = True) -> bool:
        """Whether a message of the owner of this epoch may be applied. Epoch 0 is that of a node that claims nothing:
        it is accepted unless the part has an owner. A server that does not know the owners accepts no epoch that is
        lower than one that it has seen: a new owner repeats everything, so that what it accepts is right in the end."""
        self._db.prefetch("part_owner", [(projection, number)])
        sql = "SELECT node, epoch FROM part_owner WHERE projection = ? AND part = ?"
        owner, present = self._db.row(sql, (projection, number)) or ("", 0)
        if not epoch:
            return not owner or not self._is_living(projection, owner)
        if epoch > present and not knows_owners:
            self._db.run("INSERT OR REPLACE INTO part_owner VALUES (?, ?, '', ?)", (projection, number, epoch))
            return True
        return bool(epoch == present)

    def _replicas(self, projection: str) -> dict[int, _Replica]:
        rows = self._db.rows("SELECT part, node, epoch FROM part_owner WHERE projection = ?", (projection,))
        return {slot: _Replica(*_part_at(slot), node, epoch) for slot, node, epoch in rows}

    def _free(self, projection: str, replicas: Iterable[_Replica]) -> None:
        sql = "UPDATE part_owner SET node = '' WHERE projection = ? AND part = ?"
        self._db.many(sql, [(projection, _slot(one.number, one.replica)) for one in replicas])

    def _is_living(self, projection: str, node: str) -> bool:
        self._db.prefetch("part_node", [(projection, node)])
        sql = "SELECT deadline FROM part_node WHERE projection = ? AND node = ? AND era = ?"
        deadline = self._db.value(sql, (projection, node, self._lease_clock.era))
        return deadline is not None and deadline >= self._lease_clock.now()

    def _renew(self, node: str, projection: str, divided: int) -> tuple[set[str], bool]:
        """The nodes whose leases hold, this one among them; and whether it may take over what others owned."""
        now, era, lease_s = self._lease_clock.now(), self._lease_clock.era, self._lease_clock.lease_s
        # Deadlines of another era mean nothing: the node gets one more lease.
        self._db.run(
            "UPDATE part_node SET era = ?, since = ?, deadline = ? WHERE projection = ? AND era != ?",
            (era, now, now + lease_s, projection, era),
        )
        sql = "SELECT node, parts, since, deadline FROM part_node WHERE projection = ?"
        nodes = {name: _PartNode(*values) for name, *values in self._db.rows(sql, (projection,))}
        before = nodes.pop(node, None)
        since = before.since if before is not None and before.deadline >= now else now
        living = {name for name, one in nodes.items() if one.deadline >= now}
        other = next((name for name in sorted(living) if nodes[name].divided != divided), None)
        if other is not None:
            raise ConfigError(
                message(
                    "the {projection} of this frontier is divided into {there} parts (by node {node}), here into"
                    " {here}; all machines must divide it alike",
                    projection=projection, there=_division(nodes[other].divided), node=other, here=_division(divided),
                )
            )  # fmt: skip
        if len(living) >= NODES_MAX:
            raise FrontierError(f"claim_parts: {len(living)} nodes take part already")
        takes_over = now - since >= lease_s
        if takes_over:
            silent = [(projection, name) for name in nodes.keys() - living]
            self._db.many("DELETE FROM part_node WHERE projection = ? AND node = ?", silent)
        self._db.run(
            "INSERT OR REPLACE INTO part_node VALUES (?, ?, ?, ?, ?, ?)",
            (projection, node, divided, era, since, now + lease_s),
        )
        return {node, *living}, takes_over


def _slot(number: int, replica: int) -> int:
    """The key of a replica of a part in `part_owner`: of the first one, the part's own number."""
    return (replica - 1) * PARTS_MAX + number


def _part_at(slot: int) -> tuple[int, int]:
    """The number of a part, and of its replica."""
    return (slot - 1) % PARTS_MAX + 1, (slot - 1) // PARTS_MAX + 1


def _division(slot: int) -> str:
    number, replica = _part_at(slot)
    return f"{number}x{replica}" if replica > 1 else str(number)


# -- which node is due which parts -------------------------------------------------------------------------------------


def spread_parts(holdings: Holdings, parts: int, replicas: int, claimer: str, wanted: Sequence[int]) -> Holdings:
    """The parts that each node is due: so many replicas of each part on different nodes, an even number on each node,
    and as few moves as possible. `wanted`: what the claiming node would rather have than other parts.

    Each claim works on what the nodes hold at that moment, so the order of all choices is fixed: the next node then
    finds the same distribution, one step nearer. Where all nodes with room have a missing part already, one of them
    takes another part from a full node that lacks it: as shares differ by one at most, there is always such a part.
    """
    due = {name: held.copy() for name, held in holdings.items()}
    shares = _shares(due, parts, replicas)
    counts = Counter(number for held in due.values() for number in held)
    missing = Counter({number: replicas - counts[number] for number in range(1, parts + 1)})
    for name in sorted(due):
        for _ in range(len(due[name]) - shares[name]):
            given = min(due[name], key=lambda one: (missing[one], name == claimer and one in wanted, -one))
            due[name].remove(given)
            missing[given] += 1
    for number in wanted:
        if missing[number] > 0 and number not in due[claimer] and len(due[claimer]) < shares[claimer]:
            due[claimer].add(number)
            missing[number] -= 1
    for number in sorted(missing.elements()):
        _place(number, due, shares)
    return due


def _shares(due: Holdings, parts: int, replicas: int) -> dict[str, int]:
    """How many parts each node is due; where these cannot be equal, the nodes that own more are due one more. An owner
    that is silent counts as long as its parts are not free."""
    each, more = divmod(parts * replicas, len(due))
    order = sorted(due, key=lambda name: (-min(len(due[name]), each + 1), name))
    return {name: min(parts, each + (place < more)) for place, name in enumerate(order)}


def _place(number: int, due: Holdings, shares: dict[str, int]) -> None:
    """Give a part to the node with most room that lacks it, or make room by an exchange."""
    order = sorted(due, key=lambda name: (len(due[name]) - shares[name], name))
    roomy = [name for name in order if len(due[name]) < shares[name]]
    lacking = [name for name in roomy if number not in due[name]]
    if lacking:
        due[lacking[0]].add(number)
        return
    for taker in roomy:
        for giver in order:
            if number not in due[giver] and (several := due[giver] - due[taker]):
                moved = max(several)
                due[giver].remove(moved)
                due[giver].add(number)
                due[taker].add(moved)
                return
