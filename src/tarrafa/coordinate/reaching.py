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
from tarrafa.coordinate.beats import SILENT_AFTER_S, Beat
from tarrafa.coordinate.ledger import path_of
from tarrafa.coordinate.nodes import Answering
from tarrafa.data import DataDirectory, open_to_read
from tarrafa.errors import ConfigError, DataError
from tarrafa.fetch.peer import checked

GIVEN_UP_AFTER_S = 60.0  # without a beat: then it is not asked any more, and still named
SILENT = "it is silent"
NOT_NOW = "its search does not run"
NO_ADDRESS = "what it tells is no address"
SAME = "another node answers at the address that it tells"
ELSEWHERE = "its search can be reached on its own machine only"

_beat = msgspec.json.Decoder(Beat).decode


class Place(NamedTuple):
    """Where a node is asked, and which process of it answers for that; or why it is not."""

    url: str = ""
    process: str = ""
    why: str = ""


def places(nodes: Iterable[Answering]) -> dict[str, Place]:
    """Where each of these is asked, by name. Of those that tell the same address, one is."""
    found: dict[str, Place] = {}
    taken: set[str] = set()
    for one in sorted(nodes, key=lambda one: (_is_silent(one), one.name)):
        place = _place(one)
        found[one.name] = place if not place.url or place.url not in taken else Place(why=SAME)
        taken.add(place.url)
    return dict(sorted(found.items()))


def _is_silent(node: Answering) -> bool:
    return node.silent_s is None or node.silent_s > SILENT_AFTER_S


def _place(node: Answering) -> Place:
    if node.silent_s is None or node.silent_s > GIVEN_UP_AFTER_S:
        return Place(why=SILENT)
    if not node.address:
        return Place(why=NOT_NOW)
    try:
        url = checked(node.address, node.name)
        parts = urlsplit(url)
        ip = ip_address(parts.hostname or "")
    except (ConfigError, ValueError):
        return Place(why=NO_ADDRESS)
    if parts.path or ip.is_unspecified or ip.is_multicast:
        return Place(why=NO_ADDRESS)
    mapped = ip.ipv4_mapped if isinstance(ip, IPv6Address) else None
    if (mapped or ip).is_loopback and node.process.partition("/")[0] != boot_id():
        return Place(why=ELSEWHERE)
    return Place(url, node.process)


class Noted(NamedTuple):
    """What the ledger of a coordinator tells those who are not the coordinator: its own node, and how each node was
    when that was last noted, and when. None: another version noted it."""

    own: str = ""
    nodes: dict[str, tuple[Beat | None, float]] = {}  # noqa: RUF012 (nobody changes it)

    def addresses(self, now: float) -> list[tuple[str, str]]:
        """Every node but the own one, and where it is asked; empty: it is not."""
        others = {name: node for name, node in self.nodes.items() if name != self.own}
        found = places(
            Answering(name, beat.address, beat.process, now - heard) for name, (beat, heard) in others.items() if beat
        )
        return [(name, found.get(name, Place()).url) for name in others]


def noted(data: DataDirectory) -> Noted:
    """Where nobody coordinates, or whoever asks may not know, there is no name, and there are no nodes."""
    path = path_of(data)
    if not path.exists():
        return Noted()
    try:
        connection = open_to_read(path)
        try:
            own = "".join(str(name) for (name,) in connection.execute("SELECT name FROM own"))
            rows = connection.execute("SELECT name, beat, heard FROM node ORDER BY name")
            return Noted(own, {str(name): (_read(beat), float(str(heard))) for name, beat, heard in rows})
        finally:
            connection.close()
    except (apsw.SQLError, apsw.CantOpenError):  # an older version's, or not for our eyes
        return Noted()
    except apsw.Error as error:
        raise DataError(f"{path}: what is noted of other nodes cannot be read ({error})") from None


def _read(content: object) -> Beat | None:
    try:
        return _beat(content if isinstance(content, bytes) else str(content))
    except msgspec.MsgspecError:
        return None
