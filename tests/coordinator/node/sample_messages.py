"""Nodes that exist on paper only."""

from typing import Any

import msgspec

from tarrafa.coordinator.node.messages import JoinRequest, LogLine, Machine, NodeHeartbeat, ProcessState
from tarrafa.runtime.heartbeat import ProcessHeartbeat

MACHINE = Machine(2, 2800.0, 0.25, 0.5, 8 << 30, 4 << 30, 100 << 30, 50 << 30, "a processor", "Linux")


def a_beat(
    node: str = "one", at: float = 0.0, process: str = "p1", lines: tuple[LogLine, ...] = (), **more: Any
) -> NodeHeartbeat:
    worker = ProcessState(f"{node}-1", "worker", 7, "running", 0.0, pulse=ProcessHeartbeat(f"{node}-1", 7, visits=3))
    return NodeHeartbeat(
        node, at, "0.1.0", 0.0, MACHINE, (worker,), lines=lines, process=process, workers_named=f"{node}-", **more
    )


def a_joining(name: str = "one", process: str = "p1") -> JoinRequest:
    return JoinRequest(name, "0.1.0", MACHINE, process)


def as_json(value: msgspec.Struct) -> dict[str, Any]:
    found: dict[str, Any] = msgspec.to_builtins(value)
    return found
