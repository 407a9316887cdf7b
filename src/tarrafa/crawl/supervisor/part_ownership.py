"""Part ownership: claims the link graph and parts of the index for this node, and follows and searches what it owns.

Where several nodes share one archive, leases in the frontier say which one delivers the weights of the link graph, and
with `--index-shards owned/8` which one makes which part of the index and of the triple store
(`frontier/store/part_owners.py`).

Promises: a part is given back only when it is no longer searched and nothing writes it. A part that is new here counts
as incomplete until its index has all that the archive held at that time. While
the frontier is unreachable, the node goes on with what it had: its leases may run out, and other nodes may own its
parts, too; a page that two of them find is one result, and of the link graph the frontier refuses what is not the
present owner's.
Known weakness: a part that is given back is deleted, and its next owner begins with its last snapshot
(`part_snapshots`), or, where the archive is no segment log, builds it from the whole archive.
"""

import asyncio
import contextlib
import secrets
import socket
from collections.abc import Awaitable, Callable

from tarrafa.archive.projection import unread_bytes
from tarrafa.archive.warc_reader import Cursor
from tarrafa.clock import boottime
from tarrafa.crawl.supervisor.child_processes import TICK_S, ChildProcess
from tarrafa.crawl.supervisor.followers import NOT_OWNER, Followers
from tarrafa.errors import TarrafaError, Unreachable, write_errors
from tarrafa.frontier.api import Frontier
from tarrafa.frontier.messages import GRAPH, INDEX, OwnedPart
from tarrafa.index import shards
from tarrafa.index.shards import ShardLayout
from tarrafa.runtime.data_dir import DataDirectory, write_atomically

CLAIMS_PER_LEASE = 6
EMPTY_CLAIM_S = 1.0  # between two claims of a node that owns no part yet


def node_id(data: DataDirectory) -> str:
    """The name under which this data directory owns parts, for ever; made at its first use."""
    path = data.root / "node"
    with write_errors(path):
        if not path.exists():
            write_atomically(path, f"{socket.gethostname()[:40]}-{secrets.token_hex(8)}\n".encode())
        return path.read_text().strip()


class PartOwnership:
    """What one node owns. `frontier` returns the present one; `start` starts the followers that were never started,
    `dismiss` ends children; `changing` is held while followers are changed."""

    def __init__(
        self,
        data: DataDirectory,
        followers: Followers,
        frontier: Callable[[], Frontier],
        start: Callable[[], Awaitable[None]],
        dismiss: Callable[[list[ChildProcess]], Awaitable[None]],
        changing: asyncio.Lock,
    ) -> None:
        self._data, self._followers, self._frontier = data, followers, frontier
        self._start, self._dismiss, self._changing = start, dismiss, changing
        self._node = node_id(data)
        self._graph: list[OwnedPart] = []
        self._index: list[OwnedPart] = []
        self._surplus = set[int]()  # the parts of the index that are to be given back
        self._returned: set[int] = set()  # those that are not searched or written any more; the next claim says so
        self._has_returned = asyncio.Event()
        self._is_answered = False
        self._has_left = False  # nothing is followed here
        self._awaited: dict[int, Cursor] = {}  # what the archive held when a part was new here
        self._claim_failure: TarrafaError | None = None
        self._follow_failure: TarrafaError | None = None

    @property
    def failure(self) -> TarrafaError | None:
        """Why the frontier refuses the claims, or why what is owned cannot be followed."""
        return self._claim_failure or self._follow_failure

    async def run(self) -> None:
        """Claim a few times in each lease, and beside that follow what is owned: a follower may take longer to end than
        a lease lasts."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._claim_for_ever())
            tasks.create_task(self._follow_for_ever())

    async def leave(self, *projections: str) -> None:
        """Give everything of these projections back."""
        for projection in projections:
            await self._frontier().claim_parts(self._node, projection, 0, [], [], 1)

    async def _claim_for_ever(self) -> None:
        while True:
            began, lease_s = boottime(), 0.0
            try:
                lease_s = await self._claim()
                self._claim_failure = None
            except Unreachable:
                pass  # the supervisor waits for it
            except TarrafaError as error:
                self._claim_failure = error
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(max(TICK_S, lease_s / CLAIMS_PER_LEASE - (boottime() - began))):
                    await self._has_returned.wait()

    async def _claim(self) -> float:
        """Renew and claim; for how many seconds it holds. Where nothing is followed any more, give everything back."""
        if self._followers.are_dismissed:
            self._graph, self._index, self._is_answered = [], [], True
            if not self._has_left and not (self._layout.is_owned and self._layout.here):
                await self.leave(GRAPH, INDEX)
                self._has_left = True
            return 0.0
        self._has_left = False
        graph = await self._frontier().claim_parts(self._node, GRAPH, 1, self._graph, [], 1)
        self._graph = graph.parts
        self._has_returned.clear()
        layout, returned = self._layout, set(self._returned)
        if not layout.is_owned:
            self._is_answered = True
            return graph.lease_s
        held = [one for one in self._index if one.number not in returned]
        index = await self._frontier().claim_parts(
            self._node, INDEX, layout.of, held, list(layout.complete), layout.replicas
        )
        self._index, self._surplus, self._is_answered = index.parts, {*index.surplus}, True
        self._returned -= returned
        return index.lease_s if index.parts else min(index.lease_s, CLAIMS_PER_LEASE * EMPTY_CLAIM_S)

    async def _follow_for_ever(self) -> None:
        while True:
            await asyncio.sleep(TICK_S)
            if self._is_answered:
                try:
                    async with self._changing:
                        with write_errors(self._data.root):
                            await self._follow_owned_parts()
                    self._follow_failure = None
                except TarrafaError as error:
                    self._follow_failure = error

    async def _follow_owned_parts(self) -> None:
        """Bring what is followed and searched into line with what is owned."""
        epoch = self._graph[0].epoch if self._graph else NOT_OWNER
        if self._followers.are_dismissed:
            self._followers.graph_epoch = epoch
        elif epoch != self._followers.graph_epoch:
            await self._dismiss(self._followers.replace_graph_child(epoch))
            await self._start()
        layout = self._layout
        if not layout.is_owned:
            return
        owned = {one.number for one in self._index} - self._returned
        kept = owned - self._surplus
        for number in {*layout.here} - kept:
            await self._drop(number)
        if owned - kept:
            self._returned |= owned - kept
            self._has_returned.set()  # others wait for them
        new = sorted(kept - {*layout.here})
        for number in new:
            await self._add(number)
        if new:
            await self._start()
        if self._layout.building:
            await asyncio.to_thread(self._note_complete_parts)

    @property
    def _layout(self) -> ShardLayout:
        return shards.read_layout(self._data)

    def _part(self, layout: ShardLayout, number: int) -> DataDirectory:
        (part,) = shards.parts_of(self._data, layout._replace(here=(number,)))
        return part

    def _set_parts(self, layout: ShardLayout, here: set[int], building: set[int]) -> None:
        changed = layout._replace(here=tuple(sorted(here)), building=tuple(sorted(building & here)))
        shards.write_layout(self._data, changed)

    async def _add(self, number: int) -> None:
        layout = self._layout
        self._awaited[number] = await asyncio.to_thread(self._followers.archived)
        self._set_parts(layout, {*layout.here, number}, {*layout.building, number})
        self._followers.add_part(self._part(layout, number))

    async def _drop(self, number: int) -> None:
        """Stop to search a part, then to write it, and remove it."""
        from tarrafa.triples import storage

        layout = self._layout
        part = self._part(layout, number)
        self._set_parts(layout, {*layout.here} - {number}, {*layout.building})
        await self._dismiss(self._followers.remove_part(part))
        await asyncio.to_thread(shards.remove_part, part)
        await asyncio.to_thread(storage.remove_part, part)

    def _note_complete_parts(self) -> None:
        """Parts count as complete when their index has what the archive held at their beginning."""
        from tarrafa.index import follower

        layout, archived = self._layout, self._followers.archived()
        for number in layout.building:
            awaited = self._awaited.setdefault(number, archived)
            if not unread_bytes(awaited, [follower.cursor(self._part(layout, number))]):
                del self._awaited[number]
                layout = layout._replace(building=tuple(one for one in layout.building if one != number))
                shards.write_layout(self._data, layout)
