"""Process heartbeats: each process of a node sends one a second, as a datagram, to its supervisor.

Every process of a node sends a `Pulse` about once a second to whoever started it, as a datagram to `DATA/run/pulse`:
nobody waits for it, and a supervisor that is away, or busy, costs nothing but the news. What a machine looks like
from outside (its processor, its memory, its disk) the supervisor sees for itself; here is what only the process
knows.

Promises: sending never waits and never fails; what is heard is bounded, of the right types, and holds nothing that a
terminal or a page would obey; whatever else arrives is passed over.
"""

import asyncio
import contextlib
import socket
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from tarrafa.runtime.data_dir import DataDirectory

PROCESS_HEARTBEAT_EVERY_S = 1.0
VISIT_SAMPLES_MAX = 5  # of each kind, in one pulse
URL_CHARS_MAX, TEXT_CHARS_MAX, NAME_CHARS_MAX = 300, 300, 80
PROCESS_HEARTBEAT_BYTES_MAX = 16_384  # a datagram
RECEIVED_AT_ONCE_MAX = 64  # then others have their turn
COUNT_MAX, AMOUNT_MAX = 1 << 60, 1e18

Count = Annotated[int, Meta(ge=0, le=COUNT_MAX)]
Amount = Annotated[float, Meta(ge=0, le=AMOUNT_MAX)]  # neither NaN nor infinite passes
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
    error: Text = ""


VisitSamples = Annotated[tuple[VisitSample, ...], Meta(max_length=VISIT_SAMPLES_MAX)]


class ProcessHeartbeat(msgspec.Struct, frozen=True, omit_defaults=True):
    """What one process says of itself. What grows is counted from its start on."""

    name: Name  # w1, graph, index, index-2, triples, frontier
    pid: Count
    visits: Count = 0
    pages: Count = 0  # of those, kept
    bytes: Count = 0  # received
    hosts: Count = 0  # leased
    hosts_max: Count = 0  # how many it would take
    connections: Count = 0  # open
    lag_s: Amount = 0.0  # how late its loop was in the last second
    behind_bytes: Count = 0  # how far its cursor is behind the archive
    note: Text = ""  # what it has to say to people
    newest: VisitSamples = ()
    failures: VisitSamples = ()
    slowest: VisitSamples = ()


def heartbeat_socket_path(data: DataDirectory) -> Path:
    return data.run / "pulse"


def printable_text(text: str, chars_max: int = TEXT_CHARS_MAX) -> str:
    """What somebody else says, cut, and with a blank for everything that is no sign to be seen."""
    text = text[:chars_max]
    return text if text.isprintable() else "".join(sign if sign.isprintable() else " " for sign in text)


def sanitize(value: Any) -> Any:
    """Something decoded, with its texts fit to be shown. How long they may be is not decided here."""
    if isinstance(value, str):
        return printable_text(value, len(value))
    if isinstance(value, list):
        return [sanitize(one) for one in value]
    if isinstance(value, dict):
        return {sanitize(key): sanitize(one) for key, one in value.items()}
    return value


class HeartbeatSender:
    """Speaks to whoever listens in a data directory, if anybody does."""

    def __init__(self, data: DataDirectory) -> None:
        self._path = str(heartbeat_socket_path(data))
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC)
        self._socket.setblocking(False)

    def send(self, pulse: ProcessHeartbeat) -> None:
        """By path each time: a listener that was started again is another one. Nobody there, too busy, too much to say:
        the next pulse comes in a second."""
        content = msgspec.msgpack.encode(pulse)
        if len(content) > PROCESS_HEARTBEAT_BYTES_MAX:
            content = msgspec.msgpack.encode(msgspec.structs.replace(pulse, newest=(), failures=(), slowest=()))
        with contextlib.suppress(OSError):
            self._socket.sendto(content, self._path)

    def close(self) -> None:
        self._socket.close()


def send_from_thread(
    data: DataDirectory, make: Callable[[], ProcessHeartbeat], every_s: float = PROCESS_HEARTBEAT_EVERY_S
) -> None:
    """For a process without an event loop: a thread that asks `make` and sends, as long as the process lives. What is
    wrong with a pulse must not harm what the process is for."""

    def beat() -> None:
        sender, pause = HeartbeatSender(data), threading.Event()
        while True:
            with contextlib.suppress(Exception):
                sender.send(make())
            pause.wait(every_s)

    threading.Thread(target=beat, name="pulse", daemon=True).start()


class HeartbeatListener:
    """Hears the pulses of a data directory, in the loop that is running; nobody but this user can send any."""

    def __init__(self, data: DataDirectory, heard: Callable[[ProcessHeartbeat], None]) -> None:
        self._path, self._heard = heartbeat_socket_path(data), heard
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
            if len(content) <= PROCESS_HEARTBEAT_BYTES_MAX and (pulse := decode_heartbeat(content)) is not None:
                self._heard(pulse)

    def close(self) -> None:
        self._loop.remove_reader(self._socket.fileno())
        self._socket.close()
        self._path.unlink(missing_ok=True)


def decode_heartbeat(content: bytes) -> ProcessHeartbeat | None:
    """A pulse, or None: it is none."""
    try:
        return msgspec.convert(sanitize(msgspec.msgpack.decode(content)), ProcessHeartbeat)
    except (msgspec.MsgspecError, UnicodeError, RecursionError, TypeError, ValueError):
        return None
