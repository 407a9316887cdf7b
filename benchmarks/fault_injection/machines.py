"""Machines of the journey: each is a network namespace on one bridge, with a data directory as its disk.

Each start is a PID namespace of its own, too: no machine can see whether a process of another one lives. All processes
in the namespaces are the machine: it loses its power when all are killed, and it is suspended when all are stopped.
When its main process ends, the others are killed, and a second later it is started again, as systemd does.
"""

import contextlib
import os
import random
import shutil
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from tarrafa.clock import boottime
from tarrafa.runtime.data_dir import DataDirectory

MARK = os.getpid()
NET = f"10.{233 + MARK // 250 % 20}.{MARK % 250}"
HERE = f"{NET}.1"  # this side of the bridge, where database and store are
BRIDGE = f"tbm{MARK}"
RESTART_S = 1.0
COMMAND_S, STOP_S = 900, 120
# The first process of a PID namespace: it starts the main process, and ends with it.
INIT = """
import os, sys
main = os.spawnvp(os.P_NOWAIT, sys.argv[1], sys.argv[1:])
while (ended := os.wait())[0] != main: pass
sys.exit(os.waitstatus_to_exitcode(ended[1]) % 256)
"""
UNSHARE = ["unshare", "--pid", "--fork", "--kill-child", "--mount-proc"]
FRAME = frozenset({"init", "unshare"})  # processes that are no program of the machine
TARRAFA = [sys.executable, "-c", "from tarrafa.cli import main; main()"]


def ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True, capture_output=True)


class Network:
    """A bridge, and network namespaces with a cable to it. Use it in a `with`."""

    def __init__(self) -> None:
        self._spaces: list[str] = []

    def __enter__(self) -> "Network":
        ip("link", "add", BRIDGE, "type", "bridge")
        ip("addr", "add", f"{HERE}/24", "dev", BRIDGE)
        ip("link", "set", BRIDGE, "up")
        return self

    def __exit__(self, *_: object) -> None:
        for space in self._spaces:
            for pid in pids_in(space):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            subprocess.run(["ip", "netns", "del", space], check=False, capture_output=True)
        subprocess.run(["ip", "link", "del", BRIDGE], check=False, capture_output=True)

    def add(self) -> tuple[str, str]:
        """A new namespace, and its address."""
        number = len(self._spaces) + 2
        space, cable = f"tbm{MARK}n{number}", f"tbm{MARK}c{number}"
        ip("netns", "add", space)
        self._spaces.append(space)
        ip("link", "add", cable, "type", "veth", "peer", "name", "eth0", "netns", space)
        ip("link", "set", cable, "master", BRIDGE, "up")
        ip("-n", space, "addr", "add", f"{NET}.{number}/24", "dev", "eth0")
        ip("-n", space, "link", "set", "eth0", "up")
        ip("-n", space, "link", "set", "lo", "up")
        return space, f"{NET}.{number}"


def pids_in(space: str) -> list[int]:
    found = subprocess.run(["ip", "netns", "pids", space], check=False, capture_output=True, text=True)
    return [int(pid) for pid in found.stdout.split()]


def role_of(pid: int) -> str:
    """What a process of Tarrafa does, by its command line."""
    with contextlib.suppress(OSError):
        words = Path(f"/proc/{pid}/cmdline").read_text().split("\0")
        if words[1:2] == ["-c"]:
            return "init" if words[2] == INIT else "supervisor"
        if words[0] == UNSHARE[0]:
            return UNSHARE[0]
        return " ".join(word.rpartition(".")[2] for word in words[2:5] if not word.isdigit())[:60] or words[0]
    return "?"


class Machine:
    """One machine, with its name, its command and its disk."""

    def __init__(self, name: str, network: Network, folder: Path, command: Sequence[str], env: Mapping[str, str]):
        self.name, self.data, self.log = name, DataDirectory(folder / name), folder / f"{name}.log"
        self.space, self.address = network.add()
        self._command, self._env = [*TARRAFA, *command, "--data", str(self.data.root)], dict(env)
        self._process: subprocess.Popen[bytes] | None = None
        self._ended_at: float | None = None
        self.is_on, self.is_suspended, self.restarts, self.disks = False, False, 0, 1

    def start(self) -> None:
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                ["ip", "netns", "exec", self.space, *UNSHARE, sys.executable, "-c", INIT, *self._command],
                stdout=log, stderr=log, stdin=subprocess.DEVNULL, start_new_session=True, env=os.environ | self._env,
            )  # fmt: skip
        self.is_on, self._ended_at = True, None

    def keep_running(self) -> None:
        """Start the main process again if it has ended by itself."""
        if not self.is_on or self._process is None or self._process.poll() is None:
            return
        if self._ended_at is None:
            self._ended_at = boottime()
        elif boottime() - self._ended_at >= RESTART_S:
            self.restarts += 1
            self.start()

    def lose_power(self) -> None:
        self.is_on = self.is_suspended = False
        while pids := pids_in(self.space):
            for pid in pids:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            if self._process is not None:
                self._process.wait()

    def burn(self) -> None:
        """It is lost with its disk."""
        self.lose_power()
        shutil.rmtree(self.data.root, ignore_errors=True)
        self.disks += 1

    def suspend(self) -> None:
        self.is_suspended = True
        self._signal_all(signal.SIGSTOP)

    def wake(self) -> None:
        self.is_suspended = False
        self._signal_all(signal.SIGCONT)

    def _signal_all(self, number: signal.Signals) -> None:
        for pid in pids_in(self.space):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)

    def any_process(self, rng: random.Random, role: str = "") -> int | None:
        roles = {pid: role_of(pid) for pid in pids_in(self.space)}
        found = sorted(pid for pid, one in roles.items() if role in one and one not in FRAME)
        return rng.choice(found) if found else None

    def stop(self) -> int:
        """As Ctrl-C does; the exit status."""
        assert self._process is not None
        self.is_on = False
        for pid in pids_in(self.space):
            if role_of(pid) == "supervisor":
                os.kill(pid, signal.SIGINT)
        return self._process.wait(STOP_S)

    def run(self, *arguments: str) -> "subprocess.CompletedProcess[str]":
        """A command of Tarrafa on this machine, to its end."""
        command = ["ip", "netns", "exec", self.space, *TARRAFA, *arguments]
        return subprocess.run(
            command, check=False, capture_output=True, text=True, timeout=COMMAND_S, env=os.environ | self._env
        )

    def tracebacks(self) -> list[str]:
        """Logs of this machine in which a process ended with an error of its own."""
        logs = [self.log, *sorted((self.data.root / "run" / "log").glob("*"))]
        return [path.name for path in logs if path.is_file() and "Traceback" in path.read_text(errors="replace")]
