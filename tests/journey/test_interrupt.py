"""Ctrl-C at a terminal, once and twice: the commands that run until then end cleanly, or at once."""

import contextlib
import os
import select
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tarrafa.clock import boottime
from tarrafa.testweb.world.hosts import World
from tests.journey.cluster import is_over
from tests.journey.crawl_journey import Journey, a_journey, pids_of, run_json

CTRL_C = b"\x03"
WAIT_S = 120.0
CATCHING_UP = "the last pages become searchable"


class Terminal:
    """A command in a pseudo-terminal: what is typed goes to its whole process group, as from a keyboard."""

    def __init__(self, *arguments: str | Path) -> None:
        self._end, other = os.openpty()
        command = [sys.executable, "-c", "from tarrafa.cli import main; main()", *map(str, arguments)]
        self.popen = subprocess.Popen(
            command,
            stdin=other,
            stdout=other,
            stderr=other,
            preexec_fn=lambda: os.login_tty(other),  # noqa: PLW1509 (no other thread runs)
        )
        os.close(other)
        self.shown = ""

    def type(self, keys: bytes) -> None:
        os.write(self._end, keys)

    def read_until(self, words: str) -> None:
        until = boottime() + WAIT_S
        while words not in self.shown:
            assert boottime() < until, self.shown
            if select.select([self._end], [], [], 1.0)[0] and not self._read():
                raise AssertionError(f"ended with {self.popen.wait()}: {self.shown}")

    def _read(self) -> bool:
        try:
            some = os.read(self._end, 65536)
        except OSError:  # nobody has the other end open
            return False
        self.shown += some.decode(errors="replace")
        return bool(some)

    def wait(self) -> int:
        """Until it ends; the exit status."""
        until = boottime() + WAIT_S
        while not select.select([self._end], [], [], 1.0)[0] or self._read():
            assert boottime() < until, self.shown
        return self.popen.wait(WAIT_S)

    def close(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.popen.pid, signal.SIGKILL)
        self.popen.wait()
        os.close(self._end)


@contextmanager
def a_terminal(*arguments: str | Path) -> Iterator[Terminal]:
    terminal = Terminal(*arguments)
    try:
        yield terminal
    finally:
        terminal.close()


@pytest.fixture
def journey(tmp_path: Path) -> Iterator[Journey]:
    made = a_journey(tmp_path, World(seed=3, hosts=6, pages=3_000))
    with made.web:
        yield made


def assert_ended_at_once(terminal: Terminal, children: list[int], typed_at: float, status: int = 130) -> None:
    assert terminal.wait() == status, terminal.shown
    assert boottime() - typed_at < 8, "sooner than it would have ended by itself"
    assert "Traceback" not in terminal.shown, terminal.shown
    assert "exception" not in terminal.shown, terminal.shown
    assert all(map(is_over, children))


@pytest.mark.parametrize("hung", ["worker.worker", "followers"])
def test_a_second_ctrl_c_ends_a_crawl_at_once_and_the_next_start_continues(journey, hung):
    """While workers end their requests, and while followers catch up."""
    file, where = journey.write_collection(), ("--data", journey.data.root)
    with a_terminal("crawl", file, *where) as terminal:
        while len(journey.requests()) < 50:
            assert terminal.popen.poll() is None, terminal.shown
        children = pids_of(terminal.popen.pid)
        for pid in pids_of(terminal.popen.pid, hung):
            os.kill(pid, signal.SIGSTOP)  # by itself the command would end after half a minute
        terminal.type(CTRL_C)
        if hung == "followers":
            terminal.read_until(CATCHING_UP)
        else:
            while run_json("status", *where)["collections"][0]["state"] != "paused":
                assert terminal.popen.poll() is None, terminal.shown
        terminal.type(CTRL_C)
        assert_ended_at_once(terminal, children, boottime())
    before = len(journey.kept())
    with a_terminal("crawl", file, *where) as terminal:
        while len(journey.kept()) <= before:
            assert terminal.popen.poll() is None, terminal.shown
        terminal.type(CTRL_C)
        assert terminal.wait() == 130, terminal.shown


@pytest.mark.parametrize("command", ["node", "serve"])
def test_two_ctrl_c_end_a_command_that_serves(tmp_path, command):
    if command == "serve":
        journey = a_journey(tmp_path, World(seed=3, hosts=2, pages=6))
        with journey.web:
            journey.crawl(journey.write_collection())
    with a_terminal(command, "--data", tmp_path / "data", "--port", "0") as terminal:
        terminal.read_until("Ctrl-C stops")
        children = pids_of(terminal.popen.pid)
        terminal.type(CTRL_C)
        terminal.type(CTRL_C)
        assert_ended_at_once(terminal, children, boottime(), 0 if command == "serve" else 130)
