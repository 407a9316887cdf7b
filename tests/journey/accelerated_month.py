"""A Web and a crawl on one accelerated clock: a month passes in minutes.

Web, delays, due dates and robots' lifetimes share the clock; leases, time-outs and fencing stay real.
"""

import os
import random
import signal
import subprocess
import sys
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from tarrafa.archive.warc_reader import follow
from tarrafa.clock import CLOCK_VARIABLE, Clock, boottime
from tarrafa.model import VisitRecord
from tarrafa.revisit.change_rate import DAY_S
from tarrafa.runtime.data_dir import DataDirectory
from tarrafa.simulate import event_simulation
from tarrafa.simulate.change_process import ChangeTimes
from tarrafa.simulate.policy_controllers import PolicyName, SimulationSettings
from tarrafa.simulate.web_model import SimulatedCrawler, SimulatedDocument, SimulatedServer, WebModel
from tarrafa.testweb.http.web_process import WebProcess, start_process
from tarrafa.testweb.oracle import ReachableUrl, reachable, version_of_url
from tarrafa.testweb.world.change_model import change_times
from tarrafa.testweb.world.hosts import EPOCH, World
from tarrafa.testweb.world.resources import ResourceKind, page_attributes

TYPES = ("text/html", "application/xhtml+xml", "text/plain")
BORN = EPOCH + 400 * DAY_S  # pages have lived for a while


@dataclass
class Month:
    """`days` of a Web's life in `real_s` seconds, visited by one crawl."""

    folder: Path
    policy: PolicyName
    real_s: float
    days: float = 30.0
    world: World = field(default_factory=lambda: World(seed=7, hosts=10, pages=300))
    pause_s: float = 0.25  # real
    share: float = 0.2
    web: WebProcess | None = None

    def __post_init__(self) -> None:
        self.clock = Clock.scaled(self.days * DAY_S / self.real_s, BORN)
        self.delay_s = self.pause_s * self.clock.scale
        self.data = DataDirectory(self.folder / "data")
        self.began = boottime()

    @property
    def environment(self) -> dict[str, str]:
        return os.environ | {CLOCK_VARIABLE: self.clock.to_environment()}

    @property
    def roots(self) -> list[str]:
        return [self.world.root(number) for number in range(1, self.world.hosts + 1)]

    def open(self) -> WebProcess:
        self.web = start_process(self.world, clock=self.clock, log_path=self.folder / "requests.jsonl")
        roots = ", ".join(f'"{root}"' for root in self.roots)
        (self.folder / "month.toml").write_text(f"""
name = "month"
roots = [{roots}]
[scope]
hosts = ["*.test"]
[politeness]
delay = {self.delay_s}
delay_max = {20 * self.delay_s}
delay_factor = 0
[fetch]
sitemaps = false
feeds = false
[revisit]
policy = "{self.policy}"
share = {self.share}
interval_min = 0
weigh = "equal"
[network]
connect_to = {{"*.test" = "{self.web.connect_to}"}}
suffixes = ["br.test", "pt.test", "com.test"]
""")
        return self.web

    def start(self) -> "subprocess.Popen[str]":
        command = [sys.executable, "-c", "from tarrafa.cli import main; main()", "crawl"]
        command += [str(self.folder / "month.toml"), "--data", str(self.data.root)]
        return subprocess.Popen(
            command, stderr=subprocess.PIPE, text=True, start_new_session=True, env=self.environment
        )

    def live_until(self, process: "subprocess.Popen[str]", day: float) -> None:
        """Let the clock run; the crawl must not end meanwhile."""
        try:
            process.wait(max(0.01, self.began + day * DAY_S / self.clock.scale - boottime()))
        except subprocess.TimeoutExpired:
            return
        raise AssertionError(f"the crawl ended with {process.returncode}: {process.communicate()[1]}")

    def live_until_seen_again(self, process: "subprocess.Popen[str]", day: float, times: int = 2) -> None:
        """At least until that day, and until every page was seen so often; on a slow machine that takes longer."""
        self.live_until(process, day)
        for _ in range(20):
            seen = self.versions_kept()
            if all(len(seen.get(page.url, ())) >= times for page in self.expected()):
                return
            day += self.days / 8
            self.live_until(process, day)

    @staticmethod
    def stop(process: "subprocess.Popen[str]") -> str:
        process.send_signal(signal.SIGINT)
        said = process.communicate(timeout=60)[1]
        assert process.returncode == 130, said
        return said

    # -- what was seen ------------------------------------------------------------------------------------------

    def records(self) -> list[VisitRecord]:
        return [entry.record for entry in follow(self.data.archive, {})]

    def expected(self) -> list[ReachableUrl]:
        reached = reachable(self.world, self.roots).values()
        return [one for one in reached if one.status == 200 and one.type in TYPES]

    def versions_kept(self) -> dict[str, list[float]]:
        """When each page was looked at, and found."""
        seen: defaultdict[str, list[float]] = defaultdict(list)
        for record in self.records():
            if record.outcome.kept or record.outcome.status == 304:
                seen[record.url].append(record.outcome.at)
        return {url: sorted(times) for url, times in seen.items()}

    def freshness(self, first_day: float, last_day: float, instants: int = 400) -> float:
        """The share of the pages whose newest copy is what the Web says, at random instants."""
        rng, seen, fresh = random.Random(11), self.versions_kept(), 0
        pages = self.expected()
        for _ in range(instants):
            now = BORN + rng.uniform(first_day, last_day) * DAY_S
            for page in pages:
                last = max((at for at in seen.get(page.url, ()) if at <= now), default=None)
                fresh += last is not None and self._same(page, last, now)
        return fresh / instants / len(pages)

    def _same(self, page: ReachableUrl, then: float, now: float) -> bool:
        if page.kind not in (ResourceKind.PAGE, ResourceKind.PRINT):
            return True
        return version_of_url(self.world, page.url, then).since == version_of_url(self.world, page.url, now).since

    # -- what the simulator says --------------------------------------------------------------------------------

    def predicted(self, first_day: float) -> float:
        """The same policy, hosts, pages, delays and changes, in the simulator."""
        pages = self.expected()
        documents, lives = [], []
        for page in pages:
            rate = (
                page_attributes(self.world, page.no, page.n).changes_per_day
                if page.kind in (ResourceKind.PAGE, ResourceKind.PRINT)
                else 0.0
            )
            documents.append(SimulatedDocument(page.no - 1, rate / DAY_S, size=0.0))
            after = change_times(self.world, page.no, page.n, rate, BORN, BORN + self.days * DAY_S)
            before = version_of_url(self.world, page.url, BORN).since - BORN if rate else -np.inf
            lives.append(ChangeTimes(float(before), np.unique(np.array(after, dtype=float)) - BORN))
        servers = [
            SimulatedServer(self.delay_s, dated=self.world.host(number).validators)
            for number in range(1, self.world.hosts + 1)
        ]
        crawlers = tuple(SimulatedCrawler() for _ in servers)
        web = WebModel(crawlers, tuple(servers), tuple(documents), self.days * DAY_S, lives)
        settings = SimulationSettings(self.policy, share=self.share, from_s=first_day * DAY_S)
        return event_simulation.run(web, settings).summary.freshness
