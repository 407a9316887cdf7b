"""Search peers: where other nodes answer searches and reports, whether the token may go there, and their remote shards.

A node with the role `search` runs a search process, and its heartbeat names the address. The sender knew the token, but
may be wrong, or no longer trusted. So the token is sent only to `http(s)://IP:PORT`, as named by a living process, and
not long after its last heartbeat, when the address may belong to another program; without TLS to no public address; and
to loopback only for a node on this machine: through a tunnel, loopback means another machine.

The shards are updated once a second. Promises: a node that has lost the role, or was forgotten, gets no more requests,
and its connections are closed; a node that is silent or names no valid address is reported as missing, by its name.
Knows nothing of the queries.
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
from tarrafa.coordinator.store import read_store
from tarrafa.errors import ConfigError
from tarrafa.fetch.node_client import check_node_url
from tarrafa.i18n import Message, message
from tarrafa.runtime.data_dir import DataDirectory
from tarrafa.runtime.token import Token
from tarrafa.search.remote_shard import RemoteShard, UnavailableShard

GIVEN_UP_AFTER_S = 60.0  # without a heartbeat; then it gets no requests, but is still reported as missing
SILENT = message("it is silent")
NOT_RUNNING = message("its search process does not run")
NO_ADDRESS = message("it names no valid address")
DUPLICATE_ADDRESS = message("another node has the same address")
LOOPBACK_ONLY = message("its search process is reachable only on its own machine")

log = logging.getLogger(__name__)
_decode_node_heartbeat = msgspec.json.Decoder(NodeHeartbeat).decode


class PeerAddress(NamedTuple):
    """The URL of a node's search process and the identity of the node process; or why there is none."""

    url: str = ""
    process: str = ""
    why: Message | None = None


def peer_addresses(nodes: Iterable[SearchNode]) -> dict[str, PeerAddress]:
    """The addresses by node name. Of nodes that name the same address, one gets it."""
    found: dict[str, PeerAddress] = {}
    taken: set[str] = set()
    for one in sorted(nodes, key=lambda one: (_is_silent(one), one.name)):
        address = _peer_address(one)
        is_taken = bool(address.url) and address.url in taken
        found[one.name] = PeerAddress(why=DUPLICATE_ADDRESS) if is_taken else address
        taken.add(address.url)
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
    """The nodes in the coordinator's store: the last saved heartbeat of each, and when. None: written by another
    version."""

    own: str = ""
    nodes: dict[str, tuple[NodeHeartbeat | None, float]] = {}  # noqa: RUF012 (never changed)

    def addresses(self, now: float) -> list[tuple[str, str]]:
        """Each node but our own, with its URL; empty: it cannot be asked."""
        others = {name: node for name, node in self.nodes.items() if name != self.own}
        found = peer_addresses(
            SearchNode(name, beat.address, beat.process, now - heard) for name, (beat, heard) in others.items() if beat
        )
        return [(name, found.get(name, PeerAddress()).url) for name in others]


def read_recorded_nodes(data: DataDirectory) -> RecordedNodes:
    """Empty if there is no coordinator here, or its store may not be read."""

    def read(connection: apsw.Connection) -> RecordedNodes:
        own = "".join(str(name) for (name,) in connection.execute("SELECT name FROM own"))
        rows = connection.execute("SELECT name, beat, heard FROM node ORDER BY name")
        nodes = {str(name): (_heartbeat_or_none(beat), float(str(heard))) for name, beat, heard in rows}
        return RecordedNodes(own, nodes)

    return read_store(data, read) or RecordedNodes()


def _heartbeat_or_none(content: object) -> NodeHeartbeat | None:
    try:
        return _decode_node_heartbeat(content if isinstance(content, bytes) else str(content))
    except msgspec.MsgspecError:
        return None


class NodeShards:
    """Call it for the current shards, in any thread. Use it in an `async with`, in the event loop of the registry."""

    def __init__(self, nodes: NodeRegistry, token: Token, now: Callable[[], float] = time.time) -> None:
        self._nodes, self._token, self._now = nodes, token, now
        self._addresses: dict[str, PeerAddress] = {}
        self._shards: dict[str, RemoteShard | UnavailableShard] = {}
        self._present: tuple[RemoteShard | UnavailableShard, ...] = ()
        self._refresh_task: asyncio.Task[None] | None = None

    def __call__(self) -> tuple[RemoteShard | UnavailableShard, ...]:
        return self._present

    async def __aenter__(self) -> "NodeShards":
        self.refresh()
        self._refresh_task = asyncio.create_task(self._refresh_loop())
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._refresh_task is not None:
            self._refresh_task.cancel()
            await asyncio.gather(self._refresh_task, return_exceptions=True)
        self._replace_shards({})

    def refresh(self) -> None:
        self._replace_shards(peer_addresses(self._nodes.search_nodes(self._now())))

    async def _refresh_loop(self) -> None:
        while True:
            await asyncio.sleep(NODE_HEARTBEAT_EVERY_S)
            try:
                self.refresh()
            except Exception:  # searches continue with the previous shards
                log.exception("refresh of the search peers")

    def _replace_shards(self, wanted: dict[str, PeerAddress]) -> None:
        if wanted == self._addresses:
            return
        before = self._shards
        self._shards = {
            name: before[name] if self._addresses.get(name) == address else self._make_shard(name, address)
            for name, address in wanted.items()
        }
        self._addresses, self._present = wanted, tuple(self._shards.values())
        for name, shard in before.items():
            if self._shards.get(name) is not shard:
                shard.close()

    def _make_shard(self, name: str, address: PeerAddress) -> RemoteShard | UnavailableShard:
        if address.why is not None:
            return UnavailableShard(name, address.why)
        return RemoteShard(address.url, self._token, name=name, private=True)
