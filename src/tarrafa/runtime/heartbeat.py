"""Process heartbeats: each child process sends one a second, as a datagram, to its supervisor (`DATA/run/pulse`).

The supervisor's watchdog kills a child without heartbeats; a node shows what is in them. No process waits for them: a
supervisor that is stopped or busy misses a heartbeat, and nothing else happens. The supervisor measures processor,
memory and disk by itself; a heartbeat holds what only the process knows.

Promises: sending never waits and never fails. A received heartbeat is bounded, of the right types, and free of
characters that a terminal or a page would obey. Any other datagram is ignored.
"""

import asyncio
import contextlib
import socket
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from tarrafa.i18n import Message, to_text
from tarrafa.runtime.data_dir import DataDirectory

PROCESS_HEARTBEAT_EVERY_S = 1.0
VISIT_SAMPLES_MAX = 5  # of each kind, in one heartbeat
URL_CHARS_MAX, TEXT_CHARS_MAX, NAME_CHARS_MAX = 300, 300, 80
REASON_CHARS_MAX = 1_000  # of a message, encoded
PROCESS_HEARTBEAT_BYTES_MAX = 16_384  # a datagram
RECEIVED_AT_ONCE_MAX = 64  # then other events are handled
COUNT_MAX, AMOUNT_MAX = 1 << 60, 1e18

Count = Annotated[int, Meta(ge=0, le=COUNT_MAX)]
Amount = Annotated[float, Meta(ge=0, le=AMOUNT_MAX)]  # refuses NaN and infinity
Name = Annotated[str, Meta(max_length=NAME_CHARS_MAX)]
Text = Annotated[str, Meta(max_length=TEXT_CHARS_MAX)]


class VisitSample(msgspec.Struct, frozen=True, array_like=True):
    """A visit worth showing: one of the newest, a failure, or a slow one."""

    at: Amount
    collection: Annotated[str, Meta(max_length=TEXT_CHARS_MAX)]
    url: Annotated[str, Meta(max_length=URL_CHARS_MAX)]
    status: Annotated[int, Meta(ge=-9999, le=9999)]
    bytes: Count
    elapsed_s: Amount
    error: Message | Text = ""


VisitSamples = Annotated[tuple[VisitSample, ...], Meta(max_length=VISIT_SAMPLES_MAX)]


class ProcessHeartbeat(msgspec.Struct, frozen=True, omit_defaults=True):
    """The state of one process. Counters count from its start."""

    name: Name  # w1, graph, index, index-2, triples, frontier
    pid: Count
    visits: Count = 0
    pages: Count = 0  # of those, kept
    bytes: Count = 0  # received
    hosts: Count = 0  # leased
    hosts_max: Count = 0  # how many it would accept
    connections: Count = 0  # open
    lag_s: Amount = 0.0  # how late its event loop was in the last second
    behind_bytes: Count = 0  # how far its cursor is behind the archive
    note: Message | Text = ""  # a message for people
    newest: VisitSamples = ()
    failures: VisitSamples = ()
    slowest: VisitSamples = ()


def heartbeat_socket_path(data: DataDirectory) -> Path:
    return data.run / "pulse"


def is_supervised(data: DataDirectory) -> bool:
    """Whether a supervisor of this data directory lives: it listens for heartbeats."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as sender:
        try:
            sender.connect(str(heartbeat_socket_path(data)))
        except OSError:
            return False
        return True


def printable_text(text: str, chars_max: int = TEXT_CHARS_MAX) -> str:
    """Text from another process, cut, with a space for every unprintable character."""
    text = text[:chars_max]
    return text if text.isprintable() else "".join(sign if sign.isprintable() else " " for sign in text)


def printable_reason(reason: Message | str) -> Message | str:
    """A reason whose texts are printable. One that is too long is cut, in English."""
    if isinstance(reason, str):
        return printable_text(reason)
    if len(to_text(reason)) > REASON_CHARS_MAX:
        return printable_text(str(reason))
    return msgspec.convert(sanitize(msgspec.to_builtins(reason)), Message)


def sanitize(value: Any) -> Any:
    """A decoded value with its texts made printable. Their length is not limited here."""
    if isinstance(value, str):
        return printable_text(value, len(value))
    if isinstance(value, list):
        return [sanitize(one) for one in value]
    if isinstance(value, dict):
        return {sanitize(key): sanitize(one) for key, one in value.items()}
    return value


class HeartbeatSender:
    """Sends heartbeats to the listener of a data directory, if there is one."""

    def __init__(self, data: DataDirectory) -> None:
        self._path = str(heartbeat_socket_path(data))
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC)
        self._socket.setblocking(False)

    def send(self, heartbeat: ProcessHeartbeat) -> None:
        """Send by path each time: a restarted listener has a new socket. If there is no listener, or it is busy, or the
        heartbeat is too large, it is dropped: the next one follows in a second.
        """
        content = msgspec.msgpack.encode(heartbeat)
        if len(content) > PROCESS_HEARTBEAT_BYTES_MAX:
            content = msgspec.msgpack.encode(msgspec.structs.replace(heartbeat, newest=(), failures=(), slowest=()))
        with contextlib.suppress(OSError):
            self._socket.sendto(content, self._path)

    def close(self) -> None:
        self._socket.close()


async def send_heartbeats(data: DataDirectory, make: Callable[[], ProcessHeartbeat]) -> None:
    """Call `make` and send its heartbeat, once a second, until cancelled."""
    sender = HeartbeatSender(data)
    while True:
        sender.send(make())
        await asyncio.sleep(PROCESS_HEARTBEAT_EVERY_S)


def send_from_thread(data: DataDirectory, make: Callable[[], ProcessHeartbeat]) -> None:
    """For a process without an event loop: the same in a thread, as long as the process lives. An error in a heartbeat
    must not harm the process.
    """

    def beat() -> None:
        sender = HeartbeatSender(data)
        while True:
            with contextlib.suppress(Exception):
                sender.send(make())
            time.sleep(PROCESS_HEARTBEAT_EVERY_S)

    threading.Thread(target=beat, name="heartbeat", daemon=True).start()


class HeartbeatListener:
    """Receives the heartbeats of a data directory, in the running event loop; only this user can send any."""

    def __init__(self, data: DataDirectory, on_heartbeat: Callable[[ProcessHeartbeat], None]) -> None:
        self._path, self._on_heartbeat = heartbeat_socket_path(data), on_heartbeat
        self._path.unlink(missing_ok=True)
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC)
        self._socket.setblocking(False)
        self._socket.bind(str(self._path))
        self._path.chmod(0o600)
        self._loop = asyncio.get_running_loop()
        self._loop.add_reader(self._socket.fileno(), self._receive)

    def _receive(self) -> None:
        for _ in range(RECEIVED_AT_ONCE_MAX):
            try:
                content = self._socket.recv(PROCESS_HEARTBEAT_BYTES_MAX + 1)
            except OSError:
                return
            if len(content) <= PROCESS_HEARTBEAT_BYTES_MAX and (heartbeat := decode_heartbeat(content)) is not None:
                self._on_heartbeat(heartbeat)

    def close(self) -> None:
        self._loop.remove_reader(self._socket.fileno())
        self._socket.close()
        self._path.unlink(missing_ok=True)


def decode_heartbeat(content: bytes) -> ProcessHeartbeat | None:
    """The heartbeat in a datagram, or None if it is invalid."""
    try:
        return msgspec.convert(sanitize(msgspec.msgpack.decode(content)), ProcessHeartbeat)
    except (msgspec.MsgspecError, UnicodeError, RecursionError, TypeError, ValueError):
        return None
