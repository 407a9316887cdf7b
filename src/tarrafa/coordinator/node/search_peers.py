"""Search peers: where other nodes answer searches and reports, whether the token may go there, and their remote shards.

Those with the role `search` keep a process for others (`answering`), and each beat says where. Whoever sent it knew
the token, and may still be mistaken, or have been asked to leave. So the token goes only to `http(s)://IP:PORT`, said
by a living process, and not for long after its last beat, when the address may be somebody else's; without TLS to no
public address; and to this machine's own loopback only for a node that runs on this machine: one that came through a
tunnel means another. A coordinator believes only what was said to itself: a token is changed when somebody must not
know it any more.

Which nodes does a search of the one that coordinates go to?

Those that have the role `search`, as they come and go; looked at once a second. Promises: a node that says where it
answers is asked there; one that has lost the role, or was forgotten, is not, and its connections are closed; one that
is silent, has no answer or says what cannot be is named as away, by the name that people know it by.

`reaching` says where that is, and whether we may speak there. Knows nothing of what is asked.
"""

import asyncio
import logging
import time
from collections.abc import Callable, Iterable
from ipaddress import IPv6Address, ip_address
from typing import NamedTuple
from urllib.parse import urlsplit

import apsw
import msgspec

from tarrafa.clock import boot_id
from tarrafa.coordinator.node.messages import NODE_HEARTBEAT_EVERY_S, NODE_SILENT_AFTER_S, NodeHeartbeat
from tarrafa.coordinator.node.node_registry import NodeRegistry, SearchNode
from tarrafa.coordinator.store import store_file, store_path
from tarrafa.errors import ConfigError
from tarrafa.fetch.node_client import check_node_url
from tarrafa.i18n import Message, message
from tarrafa.runtime.data_dir import DataDirectory
from tarrafa.runtime.sqlite import open_sqlite_readonly
from tarrafa.runtime.token import Token
from tarrafa.search.remote_shard import RemoteShard, UnavailableShard

GIVEN_UP_AFTER_S = 60.0  # without a beat: then it is not asked any more, and still named
SILENT = message("it is silent")
NOT_RUNNING = message("its search does not run")
NO_ADDRESS = message("what it tells is no address")
DUPLICATE_ADDRESS = message("another node answers at the address that it tells")
LOOPBACK_ONLY = message("its search can be reached on its own machine only")

_decode_node_heartbeat = msgspec.json.Decoder(NodeHeartbeat).decode


class PeerAddress(NamedTuple):
    """Where a node is asked, and which process of it answers for that; or why it is not."""

    url: str = ""
    process: str = ""
    why: Message | None = None


def peer_addresses(nodes: Iterable[SearchNode]) -> dict[str, PeerAddress]:
    """Where each of these is asked, by name. Of those that tell the same address, one is."""
    found: dict[str, PeerAddress] = {}
    taken: set[str] = set()
    for one in sorted(nodes, key=lambda one: (_is_silent(one), one.name)):
        place = _peer_address(one)
        found[one.name] = place if not place.url or place.url not in taken else PeerAddress(why=DUPLICATE_ADDRESS)
        taken.add(place.url)
    return dict(sorted(found.items()))


def _is_silent(node: SearchNode) -> bool:
    return node.silent_s is None or node.silent_s > NODE_SILENT_AFTER_S


def _peer_address(node: SearchNode) -> PeerAddress:
    if node.silent_s is None or node.silent_s > GIVEN_UP_AFTER_S:
        return PeerAddress(why=SILENT)
    if not node.address:
        return PeerAddress(why=NOT_RUNNING)
    try:
        url = check_node_url(node.address, node.name)
        parts = urlsplit(url)
        ip = ip_address(parts.hostname or "")
    except (ConfigError, ValueError):
        return PeerAddress(why=NO_ADDRESS)
    if parts.path or ip.is_unspecified or ip.is_multicast:
        return PeerAddress(why=NO_ADDRESS)
    mapped = ip.ipv4_mapped if isinstance(ip, IPv6Address) else None
    if (mapped or ip).is_loopback and node.process.partition("/")[0] != boot_id():
        return PeerAddress(why=LOOPBACK_ONLY)
    return PeerAddress(url, node.process)


class RecordedNodes(NamedTuple):
    """What the store of a coordinator tells those who are not the coordinator: its own node, and how each node was
    when that was last noted, and when. None: another version noted it."""

    own: str = ""
    nodes: dict[str, tuple[NodeHeartbeat | None, float]] = {}  # noqa: RUF012 (nobody changes it)

    def addresses(self, now: float) -> list[tuple[str, str]]:
        """Every node but the own one, and where it is asked; empty: it is not."""
        others = {name: node for name, node in self.nodes.items() if name != self.own}
        found = peer_addresses(
            SearchNode(name, beat.address, beat.process, now - heard) for name, (beat, heard) in others.items() if beat
        )
        return [(name, found.get(name, PeerAddress()).url) for name in others]


def read_recorded_nodes(data: DataDirectory) -> RecordedNodes:
    """Where nobody coordinates, or whoever asks may not know, there is no name, and there are no nodes."""
    path = store_path(data)
    if not path.exists():
        return RecordedNodes()
    try:
        connection = open_sqlite_readonly(path)
        try:
            own = "".join(str(name) for (name,) in connection.execute("SELECT name FROM own"))
            rows = connection.execute("SELECT name, beat, heard FROM node ORDER BY name")
            return RecordedNodes(
                own, {str(name): (_heartbeat_or_none(beat), float(str(heard))) for name, beat, heard in rows}
            )
        finally:
            connection.close()
    except (apsw.SQLError, apsw.CantOpenError):  # an older version's, or not for our eyes
        return RecordedNodes()
    except apsw.Error as error:
        raise store_file(path).errors().translate(error) from None


def _heartbeat_or_none(content: object) -> NodeHeartbeat | None:
    try:
        return _decode_node_heartbeat(content if isinstance(content, bytes) else str(content))
    except msgspec.MsgspecError:
        return None


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
        if place.why is not None:
            return UnavailableShard(name, place.why)
        return RemoteShard(place.url, self._token, name=name, private=True)
