"""Whole crawls of a synthetic Web, run as a user runs them: the command in a process group of its own."""

import contextlib
import json
import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import apsw
from typer.testing import CliRunner

from tarrafa.archive.warc_reader import Cursor, follow
from tarrafa.cli.app import app
from tarrafa.crawl.explain.frontier_lookup import fetch_overview
from tarrafa.frontier.messages import FrontierOverview
from tarrafa.model import VisitRecord
from tarrafa.runtime.data_dir import DataDirectory
from tarrafa.testweb.http.request_log import LoggedRequest, measure_politeness, read_log
from tarrafa.testweb.http.web_process import WebProcess, start_process
from tarrafa.testweb.oracle import ExpectedRequests
from tarrafa.testweb.world.hosts import World
from tests.wait import block_until
from tests.warc_check import check_warc_file

TYPES = ("text/html", "application/xhtml+xml", "text/plain")
TIMEOUT_S = 300
TIMER_S = 0.002  # how far apart two processes may read the same instant


def tarrafa(*arguments: str | Path, **settings: object) -> "subprocess.CompletedProcess[str]":
    """Run a command to its end."""
    command = [sys.executable, "-c", "from tarrafa.cli import main; main()", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S, **settings)  # type: ignore[call-overload,no-any-return]


def run_json(*arguments: str | Path) -> Any:
    """What a command that only reads says as JSON, asked in this process: to start one takes longer than to answer."""
    done = CliRunner().invoke(app, [*map(str, arguments), "--json"])
    assert done.exit_code == 0, done.output
    return json.loads(done.stdout)


@dataclass
class Journey:
    """A Web, a collection file and a data directory."""

    folder: Path
    world: World
    web: WebProcess
    log_path: Path
    delay_s: float = 0.03
    sections: str = ""
    roots: list[str] = field(default_factory=list)
    network: str = ""
    politeness: str = 'backoff = "1s"\ndelay_factor = 0'  # answers are late where others work, too
    suffixes: list[str] = field(default_factory=lambda: ["br.test", "pt.test", "com.test"])

    @property
    def data(self) -> DataDirectory:
        return DataDirectory(self.folder / "data")

    def write_collection(self, name: str = "journey", scope: str = 'hosts = ["*.test"]') -> Path:
        roots = ", ".join(f'"{root}"' for root in self.roots or [self.world.root(1)])
        path = self.folder / f"{name}.toml"
        network = self.network or f'connect_to = {{"*.test" = "{self.web.connect_to}"}}'
        path.write_text(
            f'name = "{name}"\nroots = [{roots}]\n[scope]\n{scope}\n[politeness]\ndelay = {self.delay_s}\n'
            f"{self.politeness}\n[network]\n{network}\nsuffixes = {json.dumps(self.suffixes)}\n{self.sections}"
        )
        return path

    def start(self, file: Path, *more: str) -> "subprocess.Popen[str]":
        """The crawl in a process group of its own, so that all of it can be killed at once."""
        command = [sys.executable, "-c", "from tarrafa.cli import main; main()", "crawl", str(file)]
        command += ["--data", str(self.data.root), *more]
        return subprocess.Popen(command, stderr=subprocess.PIPE, text=True, start_new_session=True)

    def crawl(self, file: Path, *more: str) -> str:
        process = self.start(file, *more)
        _, said = process.communicate(timeout=TIMEOUT_S)
        assert process.returncode == 0, said
        return said

    def kept(self, name: str = "journey") -> Counter[str]:
        return Counter(record.url for record in self.records(name) if record.outcome.kept)

    def records(self, name: str = "journey") -> list[VisitRecord]:
        return [entry.record for entry in follow(self.data.archive, {}) if entry.record.collection == name]

    def requests(self) -> list[LoggedRequest]:
        """What the server saw."""
        self.web.flush_log()
        return read_log(self.log_path)

    async def overview(self) -> FrontierOverview:
        return await fetch_overview(self.data)


def a_journey(folder: Path, world: World, *, addresses: bool = False, latency_s: float = 0.004) -> Journey:
    log_path = folder / "requests.jsonl"
    web = start_process(world, addresses=addresses, log_path=log_path, latency_s=latency_s)
    return Journey(folder, world, web, log_path)


def kill_group(process: "subprocess.Popen[str]") -> None:
    """SIGKILL to the whole process group: no one gets to say goodbye. Returns when all are gone, with their locks."""
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate()
    block_until(lambda: not is_group_alive(process.pid), "the group is gone")


def is_group_alive(group: int) -> bool:
    """Whether a process of the group still runs; one that is dead, and that nobody has waited for, does not."""
    for path in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            state, _, of_group = path.read_text().rpartition(")")[2].split()[:3]
            if int(of_group) == group and state not in "ZX":
                return True
    return False


def assert_polite(journey: Journey, aside: Callable[[str], object] = lambda host: None) -> None:
    """From the server's side: one request at a time, never sooner than the delay after the last answer."""
    for name, treated in measure_politeness(entry for entry in journey.requests() if aside(entry.host) is None).items():
        asked = journey.world.host(int(name[1:5])).robots.crawl_delay_s or 0.0
        assert treated.simultaneous_max <= 1, name
        assert treated.gap_s_min >= max(journey.delay_s, asked) - TIMER_S, name


def assert_exact(journey: Journey, truth: ExpectedRequests) -> None:
    assert set(journey.kept()) == truth.kept
    asked = {entry.url for entry in journey.requests()}
    assert asked <= truth.requests, "something was requested that must not be"
    assert truth.kept | truth.redirects | truth.missing <= asked


def check_warc(journey: Journey) -> int:
    """Every file is sound and has records in it; how many in all."""
    counts = [check_warc_file(path) for path in sorted(journey.data.archive.glob("*.warc.gz"))]
    assert counts
    assert min(counts) > 0
    return sum(counts)


def urls_handed_out(journey: Journey) -> list[str]:
    """What the killed workers held, from the frontier's own file."""
    db = apsw.Connection(str(journey.data.frontier), flags=apsw.SQLITE_OPEN_READONLY)
    rows = db.execute("SELECT url FROM handed JOIN url USING (host, collection, id)").fetchall()
    db.close()
    return [str(url) for (url,) in rows]


def finished_visits(journey: Journey) -> set[tuple[str, int]]:
    db = apsw.Connection(str(journey.data.frontier), flags=apsw.SQLITE_OPEN_READONLY)
    rows = db.execute("SELECT url, visits FROM url WHERE status IS NOT NULL AND visits > 0").fetchall()
    db.close()
    return {(str(url), int(str(number))) for url, number in rows}


def wait_until_kept(journey: Journey, process: "subprocess.Popen[str]", goal: int, name: str = "journey") -> None:
    """Until the archive holds so many pages of a crawl that must not end before."""
    kept, cursor = 0, Cursor()
    while kept < goal:
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(0.02)
            raise AssertionError(f"the crawl ended with {process.returncode}: {process.communicate()[1]}")
        for entry in follow(journey.data.archive, dict(cursor)):
            cursor[entry.file] = entry.end
            kept += entry.record.collection == name and entry.record.outcome.kept


def peak_mb(supervisor: "subprocess.Popen[str]") -> dict[str, int]:
    """The most memory that each child, and each child's child, has used so far."""
    peaks: dict[str, int] = {}
    children = pids_of(supervisor.pid)
    for pid in [*children, *(grandchild for child in children for grandchild in pids_of(child))]:
        with contextlib.suppress(OSError, StopIteration):
            line = Path(f"/proc/{pid}/cmdline").read_text().split("\0")
            status = Path(f"/proc/{pid}/status").read_text()
            peak = next(int(row.split()[1]) for row in status.splitlines() if row.startswith("VmHWM"))
            name = " ".join(word for word in line[2:5] if not word.isdigit())
            peaks[name] = max(peaks.get(name, 0), peak >> 10)
    return peaks


def pids_of(supervisor: int, role: str = "") -> list[int]:
    """The children of a process whose command line holds these words."""
    found = []
    for path in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            parent = int((path / "stat").read_text().rpartition(")")[2].split()[1])
            line = (path / "cmdline").read_text().replace("\0", " ")
            if parent == supervisor and role in line:
                found.append(int(path.name))
    return found
