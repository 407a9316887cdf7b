"""Where do the nodes of other machines answer, and may we speak there?

Those with the role `search` keep a process for others (`answering`), and each beat says where. Whoever sent it knew the
token, and may still be mistaken, or have been asked to leave. So the token goes only to `http(s)://IP:PORT`, said by a
living process, and not for long after its last beat, when the address may be somebody else's; without TLS to no public
address; and to this machine's own loopback only for a node that runs on this machine: one that came through a tunnel
means another. A coordinator believes only what was said to itself: a token is changed when somebody must not know it
any more.
"""

from collections.abc import Iterable
from ipaddress import IPv6Address, ip_address
from typing import NamedTuple
from urllib.parse import urlsplit

import apsw
import msgspec

from tarrafa.clock import boot_id
from tarrafa.coordinate.beats import NODE_SILENT_AFTER_S, NodeHeartbeat
from tarrafa.coordinate.ledger import store_path
from tarrafa.coordinate.nodes import SearchNode
from tarrafa.data import DataDirectory, open_sqlite_readonly
from tarrafa.errors import ConfigError, DataError
from tarrafa.fetch.peer import check_node_url

GIVEN_UP_AFTER_S = 60.0  # without a beat: then it is not asked any more, and still named
SILENT = "it is silent"
NOT_RUNNING = "its search does not run"
NO_ADDRESS = "what it tells is no address"
DUPLICATE_ADDRESS = "another node answers at the address that it tells"
LOOPBACK_ONLY = "its search can be reached on its own machine only"

_decode_node_heartbeat = msgspec.json.Decoder(NodeHeartbeat).decode


class PeerAddress(NamedTuple):
    """Where a node is asked, and which process of it answers for that; or why it is not."""

    url: str = ""
    process: str = ""
    why: str = ""


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
    """What the ledger of a coordinator tells those who are not the coordinator: its own node, and how each node was
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
            return RecordedNodes(own, {str(name): (_heartbeat_or_none(beat), float(str(heard))) for name, beat, heard in rows})
        finally:
            connection.close()
    except (apsw.SQLError, apsw.CantOpenError):  # an older version's, or not for our eyes
        return RecordedNodes()
    except apsw.Error as error:
        raise DataError(f"{path}: what is noted of other nodes cannot be read ({error})") from None


def _heartbeat_or_none(content: object) -> NodeHeartbeat | None:
    try:
        return _decode_node_heartbeat(content if isinstance(content, bytes) else str(content))
    except msgspec.MsgspecError:
        return None
