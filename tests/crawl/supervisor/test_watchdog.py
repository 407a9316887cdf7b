"""A hung process is killed and started again; sleep, a stopped supervisor and a slow disk are no hang."""

import asyncio
import os
import signal
import subprocess
import sys
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import apsw
import pytest

from tarrafa.clock import boottime
from tarrafa.config import Collection
from tarrafa.crawl.explain.explain import explain
from tarrafa.crawl.explain.frontier_lookup import fetch_overview
from tarrafa.crawl.explain.page_and_site import describe_page
from tarrafa.crawl.supervisor.child_processes import HANG_PAUSE_S_MAX, ChildProcess
from tarrafa.crawl.supervisor.followers import FollowerHeartbeat
from tarrafa.crawl.supervisor.supervisor import Supervisor, submit_collection
from tarrafa.crawl.supervisor.watchdog import SilenceLimits, Watchdog, silent_processes
from tarrafa.graph import follower as graph
from tarrafa.runtime.data_dir import DataDirectory
from tarrafa.runtime.heartbeat import HeartbeatListener, ProcessHeartbeat, send_from_thread
from tarrafa.runtime.process_identity import is_waiting_for_disk, start_ticks
from tests.graph.archived_web import new_data
from tests.wait import block_until, wait_until

LIMITS = SilenceLimits(silent_s=60.0, starting_s=300.0, tick_s=1.0)
SHORT = SilenceLimits(silent_s=4.0, tick_s=0.5)
ANSWER_S_MAX = 15.0  # far below the minute that a call may take; the machine may be busy
ROOT = "http://www.example.test/"
UNINTERRUPTIBLE = "import ctypes, signal\nif ctypes.CDLL(None).vfork() == 0: signal.pause()"  # the parent is in state D


class Harness:
    """A watchdog over one real process; its clock is moved by the test."""

    def __init__(self, data: DataDirectory, *command: str) -> None:
        self.child = ChildProcess("w1", list(command or ("sleep", "1000")), data.logs / "w1.log")
        self.lines: list[str] = []
        self.watchdog = Watchdog(data, lambda: [self.child], self.lines.append, LIMITS)

    @property
    def pid(self) -> int:
        assert self.child.process is not None
        return self.child.process.pid

    def beat(self, pid: int) -> None:
        self.watchdog.receive(ProcessHeartbeat("w1", pid))

    def tick(self, times: int = 1, elapsed_s: float = 1.0, *, own: bool = True) -> None:
        for _ in range(times):
            if own:
                self.beat(os.getpid())
            self.watchdog.tick(elapsed_s)


@asynccontextmanager
async def harness(folder: Path, *command: str) -> AsyncIterator[Harness]:
    one = Harness(new_data(folder / "d"), *command)
    process = await one.child.start({})
    try:
        yield one
    finally:
        if one.child.is_running:
            process.kill()
        await process.wait()


async def test_child_without_heartbeats_for_long_is_killed_and_its_cause_is_told(tmp_path):
    async with harness(tmp_path) as one:
        one.beat(one.pid)
        one.tick(60)
        assert not one.child.is_hung
        one.beat(one.pid)
        one.tick(60)
        assert not one.child.is_hung  # the heartbeat began a new count
        one.tick()
        one.tick(5)  # it is killed once, however long it takes to die
        assert one.child.process is not None
        assert await one.child.process.wait() == -signal.SIGKILL
        one.child.note_exit(-signal.SIGKILL)
    assert str(one.child.state.cause) == "hung: no heartbeat for 60 s; killed"
    assert one.lines == ["w1: no heartbeat for 60 s; it is killed"]


async def test_the_first_heartbeat_of_a_child_is_waited_for_and_no_later_one(tmp_path):
    async with harness(tmp_path) as one:
        waiting = asyncio.create_task(one.watchdog.wait_for_heartbeat(one.child, 600.0))
        await asyncio.sleep(0)
        one.beat(os.getpid())
        assert not waiting.done()
        one.beat(one.pid)
        await waiting
        await one.watchdog.wait_for_heartbeat(one.child, 600.0)
        one.tick()
        await one.watchdog.wait_for_heartbeat(one.child, 600.0)


async def test_a_child_that_ends_or_is_silent_for_too_long_is_not_waited_for(tmp_path):
    async with harness(tmp_path) as one:
        await one.watchdog.wait_for_heartbeat(one.child, 0.0)
        one.child.kill()
        await one.watchdog.wait_for_heartbeat(one.child, 600.0)
        assert one.child.process is not None
        assert one.child.process.returncode == -signal.SIGKILL


@pytest.mark.parametrize("elapsed_s", [5.0, 3600.0])
async def test_time_in_which_the_machine_slept_or_the_supervisor_was_stopped_does_not_count(tmp_path, elapsed_s):
    async with harness(tmp_path) as one:
        one.beat(one.pid)
        one.tick(58, elapsed_s)
        assert not one.child.is_hung


async def test_silence_does_not_count_while_our_own_heartbeats_do_not_arrive(tmp_path):
    async with harness(tmp_path) as one:
        one.beat(one.pid)
        one.tick(200, own=False)
        assert not one.child.is_hung


async def test_starting_child_has_longer(tmp_path):
    async with harness(tmp_path) as one:
        one.tick(299)
        assert not one.child.is_hung
        one.tick(1)
        assert one.child.is_hung


async def test_child_that_is_being_dismissed_is_left_alone(tmp_path):
    async with harness(tmp_path) as one:
        one.child.dismissed = True
        one.tick(400)
        assert not one.child.is_hung


async def test_child_that_waits_for_the_disk_is_not_killed(tmp_path):
    async with harness(tmp_path, sys.executable, "-c", UNINTERRUPTIBLE) as one:
        children = Path(f"/proc/{one.pid}/task/{one.pid}/children")
        # A process that starts may wait for the disk, too; the sleep that lasts begins with its child.
        await wait_until(lambda: children.read_text() and is_waiting_for_disk(one.pid), "its child keeps it asleep")
        kept_waiting = [int(pid) for pid in children.read_text().split()]
        try:
            one.beat(one.pid)
            one.tick(500)
            assert not one.child.is_hung
        finally:
            for pid in kept_waiting:
                os.kill(pid, signal.SIGKILL)


def test_hangs_in_a_row_double_the_pause_up_to_a_limit(tmp_path, monkeypatch):
    child = ChildProcess("w1", ["true"], tmp_path / "log")
    monkeypatch.setattr(child, "process", subprocess.Popen(["true"]))
    child.started_at = boottime()
    assert child.restart_pause_s == 0.0
    pauses = []
    for _ in range(12):
        child.kill_hung(60.0)
        pauses.append(child.restart_pause_s)
    assert pauses[:4] == [1.0, 2.0, 4.0, 8.0]
    assert pauses[-1] == HANG_PAUSE_S_MAX
    child.started_at -= 3600.0  # it ran for an hour before it hung again
    child.kill_hung(60.0)
    assert child.restart_pause_s == 1.0


async def test_heartbeat_of_a_follower_does_not_wait_for_the_disk(tmp_path, monkeypatch):
    """Measuring the backlog reads cursor and archive: a read that never returns must not silence the follower."""
    data, received, never = new_data(tmp_path / "d"), list[ProcessHeartbeat](), threading.Event()
    monkeypatch.setattr("tarrafa.crawl.supervisor.followers.archive.bytes_behind", lambda *_: never.wait())
    listener = HeartbeatListener(data, received.append)
    send_from_thread(data, FollowerHeartbeat(data, "graph", graph.cursor).heartbeat)
    await wait_until(lambda: len(received) >= 2, "the follower sends heartbeats", 15)
    listener.close()
    never.set()


# -- real processes ----------------------------------------------------------------------------------------------------


async def test_stopped_processes_are_killed_and_started_again(tmp_path):
    data, lines = new_data(tmp_path / "d"), list[str]()
    async with Supervisor(data, 1, silence=SHORT, lasting=True, print_line=lines.append) as supervisor:
        heard: set[int] = set()
        supervisor.watchdog.on_heartbeat = lambda heartbeat: heard.add(heartbeat.pid)
        await wait_until(lambda: {one.pid for one in supervisor.children} <= heard, "all children send heartbeats")
        first = {one.name: one.pid for one in supervisor.children}
        assert set(first) == {"frontier", "w1", "graph", "captures", "index", "triples"}
        for pid in first.values():
            os.kill(pid, signal.SIGSTOP)

        def are_all_new() -> bool:
            now = {one.name: one.pid for one in supervisor.children if one.runs}
            return now.keys() == first.keys() and all(pid != first[name] and pid in heard for name, pid in now.items())

        await wait_until(are_all_new, "each of them was started again", 120)
        assert all(start_ticks(pid) is None for pid in first.values())
        await supervisor.frontier_link.wait_until_reachable()
        assert (await supervisor.frontier.overview()).collections == []
        causes = {one.name: one.cause for one in supervisor.children}
    assert str(causes["frontier"]) == "hung: no heartbeat for 4 s; killed"
    assert "frontier: no heartbeat for 4 s; it is killed" in lines


async def test_frontier_server_that_waits_for_its_file_is_not_killed(tmp_path):
    """Another writer holds the file for longer than the limit: the store waits, the heartbeats go on."""
    data = new_data(tmp_path / "d")
    async with Supervisor(data, 0, silence=SHORT, follows=False, lasting=True) as supervisor:
        pid = supervisor.children[0].pid
        blocker = apsw.Connection(str(data.frontier))
        blocker.execute("BEGIN IMMEDIATE")
        waiting = asyncio.create_task(supervisor.frontier.overview())
        until = supervisor.watchdog.ticks + round(1.5 * SHORT.silent_s / SHORT.tick_s)
        await wait_until(lambda: supervisor.watchdog.ticks >= until, "more ticks than the limit")
        assert not waiting.done()
        blocker.execute("ROLLBACK")
        assert (await waiting).collections == []
        assert (supervisor.children[0].pid, supervisor.children[0].restarts) == (pid, 0)


SUPERVISOR = """
import asyncio, sys
from pathlib import Path
from tarrafa.crawl.supervisor.supervisor import Supervisor
from tarrafa.crawl.supervisor.watchdog import SilenceLimits
from tarrafa.runtime.data_dir import DataDirectory

async def main():
    limits = SilenceLimits(silent_s=4.0, tick_s=0.5)
    async with Supervisor(DataDirectory(Path(sys.argv[1])), 0, follows=False, lasting=True, silence=limits) as one:
        while True:
            print(one.watchdog.ticks, one.children[0].pid, one.children[0].restarts, flush=True)
            await asyncio.sleep(0.1)

asyncio.run(main())
"""


@pytest.mark.parametrize("stops_all", [True, False])
def test_nothing_is_killed_after_all_processes_or_the_supervisor_were_stopped(tmp_path, stops_all):
    process = subprocess.Popen(
        [sys.executable, "-c", SUPERVISOR, str(tmp_path / "d")], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None

    def state_after(ticks: int) -> tuple[int, int, int]:
        for line in process.stdout or ():
            found = tuple(map(int, line.split()))
            if found[0] >= ticks:
                return found[0], found[1], found[2]
        raise AssertionError("the supervisor ended")

    try:
        ticks, frontier, _ = state_after(3)
        stopped = [process.pid, frontier] if stops_all else [process.pid]
        for pid in stopped:
            os.kill(pid, signal.SIGSTOP)
        until = boottime() + 2 * SHORT.silent_s
        block_until(lambda: boottime() > until, "they were stopped for twice the limit")
        for pid in stopped:
            os.kill(pid, signal.SIGCONT)
        assert state_after(ticks + 10)[1:] == (frontier, 0)
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


async def test_readers_answer_within_seconds_beside_a_silent_frontier_server(tmp_path):
    data = new_data(tmp_path / "d")
    collection = Collection(name="c", roots=(ROOT,))
    async with Supervisor(data, 0, follows=False, lasting=True) as supervisor:
        await submit_collection(supervisor.frontier, collection)
        pid = supervisor.children[0].pid
        os.kill(pid, signal.SIGSTOP)
        try:
            await wait_until(lambda: silent_processes(data), "the supervisor notes the silence")
            began = boottime()
            overview = await fetch_overview(data)
            explained = await explain(data, ROOT, None, 0.0)
            page = await describe_page(data, ROOT, 0.0)
            assert boottime() - began < ANSWER_S_MAX
        finally:
            os.kill(pid, signal.SIGCONT)
        assert [(one.name, one.state, one.pending) for one in overview.collections] == [("c", "running", 1)]
        assert [one.known for one in explained.collections] == [True]
        assert page.state == "pending"
        for notice in (*overview.notes, explained.notice, page.frontier):
            assert str(notice).startswith(f"frontier (pid {pid}) has sent no heartbeat for ")
            assert "did not answer" in str(notice)
        await wait_until(lambda: not silent_processes(data), "it is no longer silent")
        assert (await fetch_overview(data)).notes == []
