"""What comes over the wire is refused or cleaned."""

import json
from typing import Any

import msgspec
import pytest

from tarrafa.coordinator.node.messages import (
    LINE_CHARS_MAX,
    LINES_PER_HEARTBEAT_MAX,
    PROCESSES_MAX,
    LogLine,
    NodeHeartbeat,
    NodeOrders,
    decode_message,
)
from tests.coordinator.node.sample_messages import a_beat, as_json


def test_a_beat_is_read_as_it_was_said():
    beat = a_beat(lines=(LogLine(1.0, "w1", "all is well"),))
    assert decode_message(msgspec.json.encode(beat), NodeHeartbeat) == beat


def changed(path: str, value: Any) -> bytes:
    whole: Any = as_json(a_beat())
    *steps, last = path.split(".")
    place = whole
    for step in steps:
        place = place[int(step) if step.isdigit() else step]
    place[last] = value
    return json.dumps(whole).encode()


LINE = [1.0, "w1", "x"]


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("node", "../../etc"),
        ("node", "a" * 200),
        ("node", ""),
        ("node", None),
        ("at", float("nan")),
        ("at", float("inf")),
        ("at", -1.0),
        ("at", "now"),
        ("machine", []),
        ("machine.cpus", -2),
        ("machine.cpu", float("nan")),
        ("machine.disk_free_bytes", 1 << 70),
        ("machine.load", 1e300),
        ("processes", {}),
        ("processes", as_json(a_beat())["processes"] * (PROCESSES_MAX + 1)),
        ("processes.0.pid", -7),
        ("processes.0.restarts", 1.5),
        ("processes.0.cause", "x" * 5_000),
        ("processes.0.pulse.pages", -1),
        ("processes.0.pulse.note", "x" * 5_000),
        ("lines", [LINE] * (LINES_PER_HEARTBEAT_MAX + 1)),
        ("lines", [[1.0, "w1", "x" * (LINE_CHARS_MAX + 1)]]),
        ("lines", [["yesterday", "w1", "x"]]),
        ("orders", -1),
        ("share", 2.0),
        ("trouble", 5),
        ("address", "x" * 5_000),
    ],
)
def test_a_beat_that_cannot_be_is_refused(path, value):
    with pytest.raises(ValueError, match=r"Expected|JSON|range|Object|Invalid"):
        decode_message(changed(path, value), NodeHeartbeat)


@pytest.mark.parametrize(
    "content", [b"", b"null", b"[]", b"{", b"\xff\xfe", b"[" * 100_000, b'{"node": "one"}', b'"\\ud800"']
)
def test_what_is_no_beat_is_refused(content):
    with pytest.raises(ValueError, match=r"."):
        decode_message(content, NodeHeartbeat)


def test_nothing_in_a_beat_is_obeyed_by_a_terminal_or_hides_in_a_page():
    evil = "\x1b]0;gone\x07 \u202egnp.exe\n\x00"
    beat = decode_message(changed("lines", [[1.0, f"w{evil}", evil]]), NodeHeartbeat)
    assert beat.lines[0].text.isprintable()
    assert beat.lines[0].process.isprintable()
    assert decode_message(changed("trouble", evil), NodeHeartbeat).trouble == " ]0;gone   gnp.exe  "
    assert decode_message(changed("processes.0.pulse.note", evil), NodeHeartbeat).processes[0].pulse.note.isprintable()  # type: ignore[union-attr]


@pytest.mark.parametrize(
    "orders",
    [{"workers": -1}, {"workers": 65}, {"hosts_at_once": 0}, {"bandwidth": 0}, {"cpu": 0}, {"cpu": 1.5}, {"paused": 1}],
)
def test_orders_that_cannot_be_obeyed_are_refused(orders):
    with pytest.raises(ValueError, match="Expected"):
        decode_message(json.dumps(orders).encode(), NodeOrders)
