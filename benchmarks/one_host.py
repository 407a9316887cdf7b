"""How many pages a second does a crawl of one host make at delay 0, one request at a time, beside wget?

Crawls a synthetic Web of one host, everything on (frontier, archive, graph, index, triples). Prints pages per second
from the first to the last request as the server saw them, the part of that time in which the server worked on a
request, the pauses between two requests, and CPU-seconds per 1,000 pages of each process. wget, if it is installed,
mirrors the same host in the same run; it keeps no frontier, makes no archive and no index.

    python benchmarks/one_host.py [--pages 6000] [--runs 1] [--delay-factor 0] [--latency 0]
"""

import argparse
import contextlib
import os
import shutil
import subprocess
import sys
import tempfile
from collections import defaultdict
from itertools import pairwise
from pathlib import Path
from statistics import median, quantiles

from tarrafa.clock import boottime
from tarrafa.testweb.http.request_log import LoggedRequest, read_log
from tarrafa.testweb.http.web_process import WebProcess, start_process
from tarrafa.testweb.world.world import World

COLLECTION = """
name = "bench"
roots = ["{root}"]
[scope]
hosts = ["*.test"]
[politeness]
delay = 0
{politeness}
[network]
connect_to = {{"*.test" = "{connect_to}"}}
suffixes = ["br.test", "pt.test", "com.test"]
"""
TICKS_PER_S = os.sysconf("SC_CLK_TCK")
SAMPLE_EVERY_S = 0.1


def cpu_by_process(root: int) -> dict[str, float]:
    """CPU-seconds so far of a process and all below it, by what they are."""
    parents: dict[int, tuple[int, float, str]] = {}
    for path in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            fields = (path / "stat").read_text().rpartition(")")[2].split()
            words = (path / "cmdline").read_text().split("\0")
            parents[int(path.name)] = (int(fields[1]), (int(fields[11]) + int(fields[12])) / TICKS_PER_S, role(words))
    found: defaultdict[str, float] = defaultdict(float)
    for pid, (_, cpu_s, name) in parents.items():
        above = pid
        while above != root and above in parents:
            above = parents[above][0]
        if above == root:
            found["supervisor" if pid == root else name] += cpu_s
    return found


def role(words: list[str]) -> str:
    """Name of a process by its command line: `--projection index` or the module that it runs."""
    line = " ".join(words)
    for name, mark in {"worker": "worker.worker", "frontier": "rpc.frontier_server", "parser": "parser"}.items():
        if mark in line:
            return name
    if "--projection" in words:
        return words[words.index("--projection") + 1]
    return words[words.index("-Pm") + 1].removeprefix("tarrafa.") if "-Pm" in words else "others"


def run_sampled(command: list[str], environment: dict[str, str]) -> tuple[float, dict[str, float]]:
    """Run a command to its end; its seconds, and CPU-seconds by process."""
    started, cpu = boottime(), dict[str, float]()
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, env=environment) as process:
        while process.poll() is None:
            for name, cpu_s in cpu_by_process(process.pid).items():
                cpu[name] = max(cpu.get(name, 0.0), cpu_s)
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(SAMPLE_EVERY_S)
        if process.returncode not in (0, 8):  # wget's 8: the server answered some URL with an error
            raise SystemExit(process.stderr.read().decode() if process.stderr else "")
    return boottime() - started, cpu


def crawl_command(folder: Path, web: WebProcess, politeness: str) -> list[str]:
    file = folder / "bench.toml"
    root = web.world.root(1)
    file.write_text(COLLECTION.format(root=root, connect_to=web.connect_to, politeness=politeness))
    command = [sys.executable, "-c", "from tarrafa.cli import main; main()", "crawl", str(file)]
    return [*command, "--data", str(folder / "data")]


def wget_command(folder: Path, web: WebProcess) -> list[str]:
    return ["wget", "-q", "-r", "-l", "inf", "-P", str(folder / "wget"), web.world.root(1)]


def describe(name: str, requests: list[LoggedRequest], elapsed_s: float, cpu: dict[str, float]) -> None:
    requests = sorted((one for one in requests if one.path != "/robots.txt"), key=lambda one: one.start)
    pages = sum(one.status == 200 for one in requests)
    span_s = requests[-1].end - requests[0].start
    served_s = sum(one.end - one.start for one in requests)
    gaps = sorted(after.start - before.end for before, after in pairwise(requests))
    if gaps[0] < 0:
        print(f"{name}: two requests at once")
    long_s = sum(gap for gap in gaps if gap > 5 * median(gaps))
    print(
        f"{name}: {pages / span_s:,.0f} pages/s ({pages:,} pages, {len(requests):,} requests, first to last in"
        f" {span_s:.1f} s; whole command {elapsed_s:.1f} s)"
    )
    print(
        f"  server at work {served_s / span_s:.0%}; pauses: median {1000 * median(gaps):.2f} ms, 99 %"
        f" {1000 * quantiles(gaps, n=100)[98]:.1f} ms, longest {1000 * gaps[-1]:.0f} ms; pauses above five medians:"
        f" {long_s / span_s:.0%} of the time"
    )
    each = ", ".join(f"{role} {cpu_s / pages * 1000:.2f}" for role, cpu_s in sorted(cpu.items(), key=lambda it: -it[1]))
    print(f"  CPU-s per 1,000 pages: {sum(cpu.values()) / pages * 1000:.2f} ({each})")


def measure(name: str, world: World, latency_s: float, politeness: str) -> None:
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        log = folder / "requests.jsonl"
        with start_process(world, log_path=log, latency_s=latency_s) as web:
            command = wget_command(folder, web) if name == "wget" else crawl_command(folder, web, politeness)
            through = {"http_proxy": f"http://{web.connect_to}"} if name == "wget" else {}
            elapsed_s, cpu = run_sampled(command, os.environ | through)
            web.flush_log()
            describe(name, read_log(log), elapsed_s, cpu)
            stats = web.stats()
            print(f"  synthetic Web: {stats.cpu_s / stats.requests * 1000:.2f} CPU-s per 1,000 requests")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--pages", type=int, default=6_000)
    parser.add_argument("--runs", type=int, default=1)
    parser.add_argument("--delay-factor", type=float, help="the product's own if not given")
    parser.add_argument("--latency", type=float, default=0.0, help="mean seconds that a response takes")
    options = parser.parse_args()
    world = World(hosts=1, pages=options.pages)
    politeness = "" if options.delay_factor is None else f"delay_factor = {options.delay_factor}"
    for _ in range(options.runs):
        measure("tarrafa", world, options.latency, politeness)
        if shutil.which("wget"):
            measure("wget", world, options.latency, politeness)
    print(f"load of the last minute: {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")


if __name__ == "__main__":
    main()
