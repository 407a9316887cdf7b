"""What a beat tells of the processes of a node."""

import os
import subprocess
import sys
from dataclasses import replace

import msgspec
import pytest

from tarrafa.clock import boottime
from tarrafa.coordinator.node import process_health
from tarrafa.coordinator.node.messages import NodeHeartbeat, decode_message
from tarrafa.coordinator.node.process_health import NodeHealth
from tarrafa.crawl.supervisor.child_processes import ChildProcessState
from tarrafa.runtime.data_dir import DataDirectory
from tarrafa.runtime.heartbeat import ProcessHeartbeat


@pytest.fixture
def clock(monkeypatch):
    """Boot time, moved by hand."""
    now = [boottime()]
    monkeypatch.setattr(process_health, "boottime", lambda: now[0])
    return now


@pytest.fixture
def node(tmp_path, clock):
    data = DataDirectory(tmp_path / "d")
    data.create()
    return NodeHealth(data, "one", "one-")


def a_child(
    clock: list[float], name: str = "one-1", role: str = "worker", pid: int = 0, **more: object
) -> ChildProcessState:
    state = ChildProcessState(name, role, pid or os.getpid(), True, clock[0], 0, 0.0, "")
    return replace(state, **more)  # type: ignore[arg-type]


def test_rates_are_what_grew_between_two_pulses(node, clock):
    child = a_child(clock)
    node.receive(ProcessHeartbeat("one-1", child.pid, pages=100, bytes=1_000_000))
    clock[0] += 2.0
    node.receive(ProcessHeartbeat("one-1", child.pid, pages=150, bytes=1_200_000))
    (shown,) = node.make_heartbeat([child]).processes
    assert (shown.state, shown.pages_per_s, shown.bytes_per_s) == ("running", 25.0, 100_000.0)
    assert shown.memory_bytes > 1_000_000


def test_a_process_is_starting_then_running_then_silent_then_running_again(node, clock):
    child = a_child(clock)
    states = []
    for pulses in (False, True, True, False, False, False, False, False, False, True):
        if pulses:
            node.receive(ProcessHeartbeat("one-1", child.pid))
        states.append(node.make_heartbeat([child]).processes[0].state)
        clock[0] += 1.0
    assert states == ["starting", *["running"] * 7, "silent", "running"]


def test_a_process_that_never_says_anything_is_silent_after_a_while(node, clock):
    child = a_child(clock)
    for _ in range(21):
        state = node.make_heartbeat([child]).processes[0].state
        clock[0] += 1.0
    assert state == "silent"


def test_when_we_were_asleep_ourselves_nobody_is_called_silent(node, clock):
    child = a_child(clock)
    node.receive(ProcessHeartbeat("one-1", child.pid))
    node.make_heartbeat([child])
    clock[0] += 60.0
    assert node.make_heartbeat([child]).processes[0].state == "running"


def test_a_dead_process_is_shown_with_its_cause_and_stays_marked_and_its_death_is_a_line(node, clock):
    child = a_child(clock, pid=7, runs=False, died_at=clock[0], cause="killed by signal 9 (SIGKILL)")
    beat = node.make_heartbeat([child])
    assert (beat.processes[0].state, beat.processes[0].pulse) == ("dead", None)
    assert [line.text for line in beat.lines] == ["one-1 died: killed by signal 9 (SIGKILL)"]
    born_again = a_child(clock, restarts=1, died_at=child.died_at, cause=child.cause)
    beat = node.make_heartbeat([born_again])
    (shown,) = beat.processes
    assert (shown.state, shown.restarts, shown.cause) == ("starting", 1, "killed by signal 9 (SIGKILL)")
    assert shown.died > 0
    assert beat.lines == ()


def test_lines_that_nobody_heard_come_again(node):
    node.add_log_line("first")
    lost = node.make_heartbeat([])
    node.add_log_line("second")
    node.restore_lines(lost.lines)
    assert [line.text for line in node.make_heartbeat([]).lines] == ["first", "second"]


def test_a_pulse_of_a_process_that_is_not_ours_shows_nowhere(node, clock):
    node.receive(ProcessHeartbeat("stranger", 1, pages=1_000_000))
    assert node.make_heartbeat([]).processes == ()


def test_a_beat_of_this_machine_is_one_that_a_coordinator_takes(node, clock):
    child = a_child(clock)
    node.receive(ProcessHeartbeat("one-1", child.pid))
    beat = node.make_heartbeat([child], 3, "trouble\n", 0.5)
    assert decode_message(msgspec.json.encode(beat), NodeHeartbeat) == beat
    machine = beat.machine
    assert machine.cpus >= 1
    assert 0 < machine.memory_free_bytes <= machine.memory_bytes
    assert 0 < machine.disk_free_bytes <= machine.disk_bytes
    assert machine.processes > 1


def test_cpu_is_that_of_the_process(node, clock):
    busy = subprocess.Popen([sys.executable, "-c", "while True: pass"])
    try:
        child = a_child(clock, pid=busy.pid)
        node.make_heartbeat([child])
        used, until = 0.0, boottime() + 60
        while used == 0.0 and boottime() < until:
            used = node.make_heartbeat([child]).processes[0].cpu
        assert used > 0
        assert node.cpu > 0
    finally:
        busy.kill()
        busy.wait()
