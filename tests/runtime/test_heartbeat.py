"""Pulses: sending costs nothing and never fails; what is heard is clean and bounded."""

import asyncio
import math
import socket
import stat
from collections.abc import Callable

import msgspec
import pytest

from tarrafa.runtime.data_dir import DataDirectory
from tarrafa.runtime.heartbeat import (
    PROCESS_HEARTBEAT_BYTES_MAX,
    VISIT_SAMPLES_MAX,
    HeartbeatListener,
    HeartbeatSender,
    ProcessHeartbeat,
    VisitSample,
    decode_heartbeat,
    heartbeat_socket_path,
)

PULSE = ProcessHeartbeat("w1", 7, visits=3, pages=2, bytes=900, lag_s=0.5, note="well")


@pytest.fixture
def data(tmp_path):
    directory = DataDirectory(tmp_path / "d")
    directory.create()
    return directory


async def heard_of(data: DataDirectory, count: int, send: Callable[[], None]) -> list[ProcessHeartbeat]:
    """What a listener hears, until it has heard so many."""
    heard: list[ProcessHeartbeat] = []
    enough = asyncio.Event()

    def hear(pulse: ProcessHeartbeat) -> None:
        heard.append(pulse)
        if len(heard) >= count:
            enough.set()

    listener = HeartbeatListener(data, hear)
    try:
        send()
        await asyncio.wait_for(enough.wait(), 60)
    finally:
        listener.close()
    return heard


async def test_a_pulse_arrives_as_it_was_sent(data):
    sender = HeartbeatSender(data)
    assert await heard_of(data, 1, lambda: sender.send(PULSE)) == [PULSE]


async def test_nobody_listening_is_no_trouble_and_a_listener_that_is_started_again_hears_the_next(data):
    sender = HeartbeatSender(data)
    sender.send(PULSE)
    for _ in range(2):
        assert await heard_of(data, 1, lambda: sender.send(PULSE)) == [PULSE]
        sender.send(PULSE)  # nobody is there again
    heartbeat_socket_path(data).touch()  # what is there is no socket
    sender.send(PULSE)


async def test_a_listener_that_does_not_look_keeps_nobody_waiting(data):
    listener = HeartbeatListener(data, lambda pulse: None)
    sender = HeartbeatSender(data)
    for _ in range(5_000):  # far more than a socket holds, and the loop has no chance to read
        sender.send(PULSE)
    listener.close()


async def test_only_this_user_can_send(data):
    listener = HeartbeatListener(data, lambda pulse: None)
    found = stat.S_IMODE(heartbeat_socket_path(data).stat().st_mode)
    listener.close()
    assert found == 0o600
    assert not heartbeat_socket_path(data).exists()


async def test_what_is_no_pulse_is_passed_over(data):
    line = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)

    def send() -> None:
        for content in (
            b"",
            b"\xc1",
            b"x" * PROCESS_HEARTBEAT_BYTES_MAX,
            b"\x91" * 5_000,
            msgspec.msgpack.encode(PULSE),
        ):
            line.sendto(content, str(heartbeat_socket_path(data)))

    assert await heard_of(data, 1, send) == [PULSE]
    line.close()


def packed(**fields: object) -> bytes:
    return msgspec.msgpack.encode({"name": "w1", "pid": 7} | fields)


@pytest.mark.parametrize(
    "fields",
    [
        {"pid": -1},
        {"pid": "7"},
        {"pages": -5},
        {"pages": 1 << 62},
        {"lag_s": math.nan},
        {"lag_s": math.inf},
        {"lag_s": -0.1},
        {"name": "x" * 10_000},
        {"note": "x" * 10_000},
        {"newest": [[0.0, "c", "http://a/", 200, 1, 0.1]] * (VISIT_SAMPLES_MAX + 1)},
        {"newest": [[math.nan, "c", "http://a/", 200, 1, 0.1]]},
        {"newest": [[0.0, "c", "http://a/" + "x" * 5_000, 200, 1, 0.1]]},
        {"newest": "many"},
    ],
)
def test_a_pulse_that_cannot_be_is_none(fields):
    assert decode_heartbeat(packed(**fields)) is None


def test_nothing_in_a_pulse_is_obeyed_by_a_terminal():
    pulse = decode_heartbeat(
        packed(note="\x1b[2Jall\nis \u202ewell\x00", newest=[[0.0, "c", "http://a/\r\n", 200, 1, 0.1]])
    )
    assert pulse is not None
    assert pulse.note == " [2Jall is  well "
    assert pulse.newest == (VisitSample(0.0, "c", "http://a/  ", 200, 1, 0.1),)


async def test_a_pulse_with_too_much_to_show_still_says_that_we_live(data):
    much = tuple(VisitSample(0.0, "ç" * 300, "ç" * 300, 200, 1, 0.1, "ç" * 300) for _ in range(VISIT_SAMPLES_MAX))
    pulse = msgspec.structs.replace(PULSE, newest=much, failures=much, slowest=much)
    sender = HeartbeatSender(data)
    (heard,) = await heard_of(data, 1, lambda: sender.send(pulse))
    assert heard == PULSE
