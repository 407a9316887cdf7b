"""Part owners: leases the parts of the projections to nodes, spreads them evenly, and refuses what old owners send.

Where several nodes (data directories) follow one shared archive, each can make any part of a projection; a lease says
which node does. `part_owner` has the owner and epoch of each part, `part_node` the nodes that take part, each with the
one deadline of all its leases, on the store's own clock.

Promises: a part has one owner; a node gives a part back only by leaving it out of the parts that it holds; the epoch of
a part rises with each owner and is never used twice, not even by a frontier that is restored or rebuilt: it is at least
the time of the claim, in seconds. The numbers of parts of any two nodes that renew differ by one at most, once the
surplus is given back. A node that returns within its lease gets its own parts back. What a silent node owned is taken
over only by a node that has itself renewed for a whole lease: after a pause of the whole cluster, or of the frontier,
each node finds its parts again.
Knows nothing of what a part contains.
"""

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from tarrafa.clock import Clock
from tarrafa.errors import ConfigError, FrontierError
from tarrafa.frontier.messages import GRAPH, INDEX, OwnedPart, OwnedParts
from tarrafa.frontier.store.database import ALL_ROWS, FrontierDatabase
from tarrafa.frontier.store.leases import LeaseClock
from tarrafa.i18n import message

PARTS_MAX, NODES_MAX, NODE_CHARS_MAX = 256, 1_000, 64


class _PartNode(NamedTuple):
    """A node that takes part: the number of parts in all, since when it renews without a break, and its deadline."""

    parts: int
    since: float
    deadline: float


class PartOwners:
    """The owners of the parts of one frontier."""

    def __init__(self, db: FrontierDatabase, clock: Clock, lease_clock: LeaseClock) -> None:
        self._db, self._clock, self._lease_clock = db, clock, lease_clock

    def claim_parts(
        self, node: str, projection: str, parts: int, held: list[OwnedPart], at_hand: list[int]
    ) -> OwnedParts:
        if projection not in (GRAPH, INDEX) or not 0 <= parts <= PARTS_MAX or not 1 <= len(node) <= NODE_CHARS_MAX:
            raise FrontierError(f"claim_parts: cannot divide {projection[:40]!r} into {parts} for {node[:40]!r}")
        self._db.prefetch_first("part_node", [(projection,)], ALL_ROWS)
        self._db.prefetch_first("part_owner", [(projection,)], ALL_ROWS)
        known = self._owners(projection)
        kept = {one.number for one in held if known.get(one.number) == (node, one.epoch) and one.number <= parts}
        if not parts:
            self._db.run("DELETE FROM part_node WHERE projection = ? AND node = ?", (projection, node))
            self._free(projection, [number for number, (owner, _) in known.items() if owner == node])
            return OwnedParts([], 0, 0.0)
        living, takes_over = self._renew(node, projection, parts)
        owners = {number: known.get(number, ("", 0)) for number in range(1, parts + 1)}
        free = [
            number
            for number, (owner, _) in owners.items()
            if number not in kept and (owner in ("", node) or (takes_over and owner not in living))
        ]
        share = self._share(node, living, [owner for number, (owner, _) in owners.items() if number not in free], parts)
        free.sort(key=lambda number: (number not in at_hand, owners[number][0] != node, number))
        granted = free[: max(0, share - len(kept))]
        for number in granted:
            epoch = max(owners[number][1] + 1, int(self._clock.now()))
            self._db.run("INSERT OR REPLACE INTO part_owner VALUES (?, ?, ?, ?)", (projection, number, node, epoch))
        self._free(
            projection,
            [number for number, (owner, _) in known.items() if owner == node and number not in {*kept, *granted}],
        )
        mine = {number: epoch for number, (owner, epoch) in self._owners(projection).items() if owner == node}
        owned = [OwnedPart(number, epoch) for number, epoch in sorted(mine.items())]
        return OwnedParts(owned, max(0, len(owned) - share), self._lease_clock.lease_s)

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

    def _owners(self, projection: str) -> dict[int, tuple[str, int]]:
        rows = self._db.rows("SELECT part, node, epoch FROM part_owner WHERE projection = ?", (projection,))
        return {number: (node, epoch) for number, node, epoch in rows}

    def _free(self, projection: str, numbers: Sequence[int]) -> None:
        sql = "UPDATE part_owner SET node = '' WHERE projection = ? AND part = ?"
        self._db.many(sql, [(projection, number) for number in numbers])

    def _is_living(self, projection: str, node: str) -> bool:
        self._db.prefetch("part_node", [(projection, node)])
        sql = "SELECT deadline FROM part_node WHERE projection = ? AND node = ? AND era = ?"
        deadline = self._db.value(sql, (projection, node, self._lease_clock.era))
        return deadline is not None and deadline >= self._lease_clock.now()

    def _renew(self, node: str, projection: str, parts: int) -> tuple[set[str], bool]:
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
        other = next((name for name in sorted(living) if nodes[name].parts != parts), None)
        if other is not None:
            raise ConfigError(
                message(
                    "the {projection} of this frontier is divided into {there} parts (by node {node}), here into"
                    " {here}; all machines must divide it alike",
                    projection=projection, there=str(nodes[other].parts), node=other, here=str(parts),
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
            (projection, node, parts, era, since, now + lease_s),
        )
        return {node, *living}, takes_over

    @staticmethod
    def _share(node: str, living: set[str], owners: list[str], parts: int) -> int:
        """How many parts a node is due; where these cannot be equal, the nodes that own most are due one more. An owner
        that is silent counts as long as its parts are not free."""
        counts = Counter(owner for owner in owners if owner)
        each, more = divmod(parts, len(living | counts.keys()))
        order = sorted(living | counts.keys(), key=lambda name: (-counts[name], name))
        return each + (order.index(node) < more)
