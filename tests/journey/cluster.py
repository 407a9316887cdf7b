"""Several machines on one: a frontier server on TCP, nodes with data directories of their own, as users start them."""

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from tarrafa.archive.warc_reader import follow
from tarrafa.clock import boottime
from tarrafa.crawl.scope.collection_loader import load_collection
from tarrafa.crawl.supervisor.supervisor import submit_collection
from tarrafa.errors import Unreachable
from tarrafa.frontier.address import OpenFrontier, TcpServer, connect
from tarrafa.frontier.collection_status import is_exhausted
from tarrafa.frontier.messages import CollectionStatus, FrontierOverview
from tarrafa.model import VisitRecord
from tarrafa.runtime.data_dir import DataDirectory
from tarrafa.runtime.token import Token
from tests.journey.crawl_journey import Journey, pids_of

SECRET = "the-secret-that-must-not-show"
TIMEOUT_S = 240.0
POLL_S = 0.05
T = TypeVar("T")


@dataclass
class Process:
    """One command in a process group of its own, and what it has said."""

    popen: "subprocess.Popen[bytes]"
    log: Path

    @property
    def pid(self) -> int:
        return self.popen.pid

    def said(self) -> str:
        return self.log.read_text(errors="replace")

    def signal(self, number: signal.Signals) -> None:
        """To all of the group."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.pid, number)

    def kill(self) -> None:
        self.signal(signal.SIGKILL)
        self.popen.wait()

    def stop(self) -> int:
        """As Ctrl-C does."""
        self.signal(signal.SIGINT)
        return self.popen.wait(60)


@dataclass
class Cluster:
    """A frontier server and its nodes. `port` is chosen once: a server that is started again is where it was."""

    journey: Journey
    settings: dict[str, str] = field(default_factory=dict)
    port: int = 0
    host: str = "127.0.0.1"  # of the frontier server
    processes: list[Process] = field(default_factory=list)
    machines: dict[str, str] = field(default_factory=dict)  # in which network namespace a node lives, if not here

    @property
    def folder(self) -> Path:
        return self.journey.folder

    @property
    def token_file(self) -> Path:
        path = self.folder / "token"
        if not path.exists():
            path.touch(0o600)
            path.write_text(f"{SECRET}\n")
        return path

    @property
    def address(self) -> str:
        return f"tcp://{self.host}:{self.port}"

    def start(self, name: str, *arguments: str | Path, **settings: str) -> Process:
        log = self.folder / f"{name}.log"
        space = ["ip", "netns", "exec", self.machines[name]] if name in self.machines else []
        command = [*space, sys.executable, "-c", "from tarrafa.cli import main; main()", *map(str, arguments)]
        return self.spawn(command, log, settings)

    def spawn(self, command: list[str], log: Path, settings: dict[str, str]) -> Process:
        with log.open("ab") as file:
            popen = subprocess.Popen(
                command, stderr=file, stdout=file, start_new_session=True, env=os.environ | self.settings | settings
            )
        self.processes.append(Process(popen, log))
        return self.processes[-1]

    def serve(self, **settings: str) -> Process:
        where = ("--listen", f"{self.host}:{self.port}", "--data", self.folder / "server")
        before = (self.folder / "server.log").read_text() if (self.folder / "server.log").exists() else ""
        process = self.start("server", "frontier", "serve", *where, "--token-file", self.token_file, **settings)
        wait_for(lambda: "frontier server: tcp://" in process.said()[len(before) :], process)
        self.port = int(process.said()[len(before) :].partition(f"tcp://{self.host}:")[2].split()[0])
        return process

    def node(self, name: str, *more: str, **settings: str) -> Process:
        """`tarrafa worker` with one worker, unless told otherwise."""
        where = ("--frontier", self.address, "--token-file", self.token_file, "--data", self.folder / name)
        count = () if "--workers" in more else ("--workers", "1")
        return self.start(name, "worker", *where, "--name", name, *count, *more, **settings)

    def crawl(self, name: str, file: Path, *more: str) -> Process:
        where = ("--frontier", self.address, "--token-file", self.token_file, "--data", self.folder / name)
        return self.start(name, "crawl", file, *where, "--name", name, "--workers", "1", *more)

    def end(self) -> None:
        for process in self.processes:
            process.signal(signal.SIGCONT)
            process.kill()

    def ask(self, question: Callable[[OpenFrontier], Awaitable[T]]) -> T:
        async def asked() -> T:
            frontier = await connect(TcpServer(self.host, self.port, Token(SECRET.encode())))
            try:
                return await question(frontier)
            finally:
                await frontier.close()

        return asyncio.run(asked())

    def submit(self, file: Path) -> None:
        self.ask(lambda frontier: submit_collection(frontier, load_collection(file)))

    def overview(self) -> FrontierOverview:
        return self.ask(lambda frontier: frontier.overview())

    def status(self, name: str = "journey") -> CollectionStatus:
        return next(one for one in self.overview().collections if one.name == name)

    def wait_until_visited(self, goal: int, process: Process) -> None:
        def visited() -> bool:
            with contextlib.suppress(Unreachable):
                return sum(one.visits for one in self.overview().collections) >= goal
            return False

        wait_for(visited, process)

    def wait_until_exhausted(self, process: Process) -> None:
        """Nothing is left, and nothing is out."""

        def over() -> bool:
            status = self.status()
            return status.state != "running" or is_exhausted(status)

        try:
            wait_for(over, process)
        except AssertionError as error:
            raise AssertionError(f"{self.overview()}: {error}") from None

    def records(self, *names: str) -> Iterator[VisitRecord]:
        """What the nodes have archived."""
        for name in names:
            for entry in follow(DataDirectory(self.folder / name).archive, {}):
                if entry.record.collection == "journey":
                    yield entry.record

    def kept(self, *names: str) -> Counter[str]:
        return Counter(record.url for record in self.records(*names) if record.outcome.kept)


def wait_for(what: Callable[[], object], process: Process) -> None:
    """Until something is so, in other processes; looked at now and then, and not for ever."""
    began = boottime()
    while not what():
        with contextlib.suppress(subprocess.TimeoutExpired):
            code = process.popen.wait(POLL_S)
            assert what(), f"ended with {code}: {process.said()}"
            return
        assert boottime() - began < TIMEOUT_S, process.said()


def wait_until_said(words: str, process: Process) -> None:
    wait_for(lambda: words in process.said(), process)


def family(process: Process) -> list[int]:
    """A process, its children and theirs."""
    found = [process.pid]
    for pid in found:
        found += pids_of(pid)
    return found


def command_lines(process: Process) -> bytes:
    """What anybody can read of a process, its children and theirs: their command lines. Who ends meanwhile has none."""
    found = b""
    for pid in family(process):
        with contextlib.suppress(OSError):
            found += Path(f"/proc/{pid}/cmdline").read_bytes()
    return found


def is_over(pid: int) -> bool:
    """Gone, or waiting for its parent to look."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] in "ZX"
    except OSError:
        return True
