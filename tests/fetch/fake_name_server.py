"""A name server on loopback that says what a test tells it to, and remembers what it was asked."""

import asyncio
import socket
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from ipaddress import ip_address
from typing import cast

A, CNAME, AAAA = 1, 5, 28


class NameServer(asyncio.DatagramProtocol):
    """`answers` has for each name its addresses, or another name (CNAME); `then` is what is said from the second on."""

    def __init__(self, answers: dict[str, list[str]], then: dict[str, list[str]]) -> None:
        self._answers, self._then = answers, then
        self._seen: set[tuple[str, int]] = set()
        self.asked: list[str] = []
        self.port = 0
        self._transport: asyncio.DatagramTransport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.DatagramTransport", transport)

    def datagram_received(self, data: bytes, addr: tuple[str, int]) -> None:
        name, end = _question(data)
        kind = struct.unpack_from("!H", data, end)[0]
        self.asked.append(name)
        answers = self._then if (name, kind) in self._seen and self._then else self._answers
        self._seen.add((name, kind))
        records = [record for value in answers.get(name, []) for record in _records(name, value, kind, answers)]
        flags = 0x8180 if name in answers else 0x8183  # no such name
        head = data[:2] + struct.pack("!HHHHH", flags, 1, len(records), 0, 0)
        assert self._transport is not None
        self._transport.sendto(head + data[12 : end + 4] + b"".join(records), addr)


def _question(data: bytes) -> tuple[str, int]:
    """The name that is asked for, and where it ends."""
    labels, place = [], 12
    while length := data[place]:
        labels.append(data[place + 1 : place + 1 + length].decode("ascii"))
        place += 1 + length
    return ".".join(labels).lower(), place + 1


def _name(name: str) -> bytes:
    return b"".join(bytes([len(label)]) + label.encode() for label in name.split(".")) + b"\0"


def _records(owner: str, value: str, kind: int, answers: dict[str, list[str]]) -> list[bytes]:
    try:
        address = ip_address(value)
    except ValueError:
        alias = _name(owner) + struct.pack("!HHIH", CNAME, 1, 0, len(_name(value))) + _name(value)
        return [alias, *(record for next in answers.get(value, []) for record in _records(value, next, kind, answers))]
    if (kind == A) != (address.version == 4):
        return []
    return [_name(owner) + struct.pack("!HHIH", kind, 1, 0, len(address.packed)) + address.packed]


@asynccontextmanager
async def a_name_server(
    answers: dict[str, list[str]], then: dict[str, list[str]] | None = None
) -> AsyncIterator[NameServer]:
    loop = asyncio.get_running_loop()
    transport, server = await loop.create_datagram_endpoint(
        lambda: NameServer(answers, then or {}), ("127.0.0.1", 0), family=socket.AF_INET
    )
    server.port = transport.get_extra_info("sockname")[1]
    try:
        yield server
    finally:
        transport.close()
