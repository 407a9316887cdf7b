"""Which nodes does a search of the one that coordinates go to?

Those that have the role `search`, as they come and go; looked at once a second. Promises: a node that says where it
answers is asked there; one that has lost the role, or was forgotten, is not, and its connections are closed; one that
is silent, has no answer or says what cannot be is named as away, by the name that people know it by.

`reaching` says where that is, and whether we may speak there. Knows nothing of what is asked.
"""

import asyncio
import logging
import time
from collections.abc import Callable

from tarrafa.coordinate.beats import NODE_HEARTBEAT_EVERY_S
from tarrafa.coordinate.nodes import NodeRegistry
from tarrafa.coordinate.reaching import PeerAddress, peer_addresses
from tarrafa.frontier.token import Token
from tarrafa.search.missing import UnavailableShard
from tarrafa.search.remote import RemoteShard

log = logging.getLogger(__name__)


class NodeShards:
    """Gives the shards of the nodes, whenever it is called, in any thread. Use it in an `async with`, where the nodes
    live."""

    def __init__(self, nodes: NodeRegistry, token: Token, now: Callable[[], float] = time.time) -> None:
        self._nodes, self._token, self._now = nodes, token, now
        self._places: dict[str, PeerAddress] = {}
        self._shards: dict[str, RemoteShard | UnavailableShard] = {}
        self._present: tuple[RemoteShard | UnavailableShard, ...] = ()
        self._looking: asyncio.Task[None] | None = None

    def __call__(self) -> tuple[RemoteShard | UnavailableShard, ...]:
        return self._present

    async def __aenter__(self) -> "NodeShards":
        self.refresh()
        self._looking = asyncio.create_task(self._refresh_loop())
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._looking is not None:
            self._looking.cancel()
            await asyncio.gather(self._looking, return_exceptions=True)
        self._replace_shards({})

    def refresh(self) -> None:
        """Take up those who have come or moved, and let go of those who have left."""
        self._replace_shards(peer_addresses(self._nodes.search_nodes(self._now())))

    async def _refresh_loop(self) -> None:
        while True:
            await asyncio.sleep(NODE_HEARTBEAT_EVERY_S)
            try:
                self.refresh()
            except Exception:  # whatever it is, searches go on with those that there were
                log.exception("the nodes that answer searches")

    def _replace_shards(self, wanted: dict[str, PeerAddress]) -> None:
        if wanted == self._places:
            return
        before = self._shards
        self._shards = {
            name: before[name] if self._places.get(name) == place else self._make_shard(name, place)
            for name, place in wanted.items()
        }
        self._places, self._present = wanted, tuple(self._shards.values())
        for name, shard in before.items():
            if self._shards.get(name) is not shard:
                shard.close()

    def _make_shard(self, name: str, place: PeerAddress) -> RemoteShard | UnavailableShard:
        if place.why:
            return UnavailableShard(name, place.why)
        return RemoteShard(place.url, self._token, name=name, private=True)
