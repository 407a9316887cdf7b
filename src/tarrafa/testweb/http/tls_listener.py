"""Accepts TLS connections and picks certificate or misbehaviour by the server name (SNI).

Promises: the server name that the client asks for (SNI) is read before anything is sent, without taking it from the
socket. So one port serves hosts with different certificates beside hosts that hang, send garbage or close.
Knows nothing of HTTP: an accepted client becomes a connection like any other.
"""

import asyncio
import contextlib
import socket
import ssl
import struct
from collections.abc import Callable, Coroutine
from functools import cache

from tarrafa.testweb.hostile.tls_failures import (
    CERTIFICATE_OF_HOST,
    CERTIFICATES,
    KEY_FILE,
    REPLIES_WITHOUT_TLS,
    RESET_HOST,
    SILENT_HOST,
)

HELLO_BYTES_MAX = 1 << 15
HELLO_TRIES, HELLO_PAUSE_S = 200, 0.01  # for a ClientHello that arrives in pieces
HANDSHAKE_S_MAX = 30.0
DEFAULT_CERTIFICATE = "good.pem"  # for unknown server names, and for clients that send none

_HANDSHAKE, _CLIENT_HELLO, _SERVER_NAME = 22, 1, 0


class TlsListener:
    """Accepts on a socket; `factory` makes the protocol of each client."""

    def __init__(self, sock: socket.socket, factory: Callable[[], asyncio.Protocol]) -> None:
        self._sock = sock
        self._factory = factory
        self._tasks: set[asyncio.Task[None]] = set()
        self.port: int = sock.getsockname()[1]

    def open(self) -> None:
        self._sock.setblocking(False)
        self._start(self._accept())

    async def close(self) -> None:
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._sock.close()

    def _start(self, work: Coroutine[None, None, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _accept(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            client, _ = await loop.sock_accept(self._sock)
            self._start(self._handshake(client))

    async def _handshake(self, client: socket.socket) -> None:
        """Read the server name; then accept, or misbehave until the client closes. A failure here fails only this
        client.
        """
        handed_over = False
        try:
            name = server_name(await _peek_client_hello(client))
            if name == RESET_HOST:
                client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            elif name == SILENT_HOST or name in REPLIES_WITHOUT_TLS:
                await _misbehave(client, REPLIES_WITHOUT_TLS.get(name, b""))
            else:
                handed_over = True
                await asyncio.get_running_loop().connect_accepted_socket(
                    self._factory,
                    client,
                    ssl=_context(CERTIFICATE_OF_HOST.get(name, DEFAULT_CERTIFICATE)),
                    ssl_handshake_timeout=HANDSHAKE_S_MAX,
                )
        except OSError:  # includes ssl.SSLError: the client rejected the certificate, or closed
            pass
        finally:
            if not handed_over:
                client.close()


async def _peek_client_hello(client: socket.socket) -> bytes:
    """The first record that the client sends, left in the socket; the part received so far if it takes too long."""
    found = b""
    for _ in range(HELLO_TRIES):
        await _readable(client)
        found = client.recv(HELLO_BYTES_MAX, socket.MSG_PEEK)
        if not found or found[0] != _HANDSHAKE or (len(found) >= 5 and len(found) >= 5 + int.from_bytes(found[3:5])):
            break
        await asyncio.sleep(HELLO_PAUSE_S)
    return found


async def _readable(client: socket.socket) -> None:
    loop = asyncio.get_running_loop()
    ready = asyncio.Event()
    loop.add_reader(client, ready.set)
    try:
        await ready.wait()
    finally:
        loop.remove_reader(client)


async def _misbehave(client: socket.socket, reply: bytes) -> None:
    loop = asyncio.get_running_loop()
    if reply:
        await loop.sock_recv(client, HELLO_BYTES_MAX)  # unread bytes would turn the close into a reset
        await loop.sock_sendall(client, reply)
        client.shutdown(socket.SHUT_WR)
    while await loop.sock_recv(client, HELLO_BYTES_MAX):
        pass


@cache
def _context(certificate: str) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(CERTIFICATES / certificate, KEY_FILE)
    return context


def server_name(hello: bytes) -> str:
    """The server name in a ClientHello (RFC 8446 section 4.1.2, RFC 6066 section 3); empty if there is none."""
    with contextlib.suppress(IndexError, UnicodeDecodeError):
        if hello[0] != _HANDSHAKE or hello[5] != _CLIENT_HELLO:
            return ""
        at = 5 + 4 + 2 + 32  # record, message, version, random
        at += 1 + hello[at]  # session
        at += 2 + int.from_bytes(hello[at : at + 2])  # ciphers
        at += 1 + hello[at]  # compressions
        end = at + 2 + int.from_bytes(hello[at : at + 2])
        at += 2
        while at + 4 <= min(end, len(hello)):
            kind, size = struct.unpack_from(">HH", hello, at)
            if kind == _SERVER_NAME:  # a list of one: its length, the type, the name's length
                return hello[at + 9 : at + 4 + size].decode("ascii").lower()
            at += 4 + size
    return ""
