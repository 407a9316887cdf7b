"""What does a page cost, everything on, beside Scrapy and wget2 in the same run?

Crawls the same pages with Tarrafa (frontier, archive, graph, index, triples), with Tarrafa without followers, with
Scrapy (which fetches and extracts links) and with wget2 (which fetches and saves), in turns. Prints CPU-seconds per
1,000 pages in total and by process, pages per second, the time to the first request and after the last page, peak
memory, and TOO SLOW beside every target that is missed (`crawl_figures.py`). All obey robots.txt.

    python -m benchmarks.crawl [--workload poor real tls large one-host] [--pages 12000] [--repeat 1] [--json FILE]
    python -m benchmarks.crawl --growth
"""

import argparse
import os
import platform
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from importlib import metadata
from pathlib import Path

import msgspec

from benchmarks.crawl_figures import (
    FETCH_ONLY,
    SCRAPY,
    TARRAFA,
    WGET2,
    CrawlRun,
    Round,
    WorkloadFigures,
    pauses_ms,
    table,
    targets,
)
from benchmarks.crawl_workloads import DOMAIN, WORKLOADS, BuiltWorkload, Workload, build_workload
from benchmarks.debian_packages import NotAvailable
from benchmarks.page_server import Certificate, free_port, make_certificate, start_server
from benchmarks.peers import Crawler, Start, scrapy_peer, wget2_peer
from benchmarks.process_usage import run_measured
from tarrafa.graph import pagerank
from tarrafa.index import text_analysis
from tarrafa.parse import text_kernels

RUN_S_MAX = 1_800.0
WARM_PAGES = 50  # of a crawl that fills caches before anything is measured
PLAIN_EVERY_S = 10.0  # progress where stderr is no terminal
# For the time left, until a crawler has run once.
PAGES_PER_S = {TARRAFA: 150.0, FETCH_ONLY: 300.0, SCRAPY: 90.0, WGET2: 1_000.0}
ROOT = Path(__file__).parents[1]
COMMAND = [sys.executable, "-c", "from tarrafa.cli import main; main()"]
FETCH_ONLY_COMMAND = [sys.executable, "-m", "benchmarks.fetch_only"]
COLLECTION = """
name = "bench"
roots = ["{root}"]
[scope]
hosts = ["*.{domain}"]
{scope}
[politeness]
delay = 0
{politeness}
[network]
connect_to = {{"*.{domain}" = "127.0.0.1:{port}"}}
suffixes = ["{domain}"]
{network}
"""


class Figures(msgspec.Struct):
    """What --json writes."""

    date: str
    commit: str
    machine: str
    load: float  # of the minute before
    versions: dict[str, str]
    workloads: list[WorkloadFigures]


def collection_text(built: BuiltWorkload, certificate: Certificate | None, scope: str = "") -> str:
    return COLLECTION.format(
        root=built.root,
        domain=DOMAIN,
        port=built.port,
        scope=scope,
        politeness=built.workload.politeness,
        network=f'ca_file = "{certificate.certificate}"' if certificate is not None else "",
    )


def tarrafa(workers: int, *, follows: bool = True, scope: str = "") -> Crawler:
    """Tarrafa as its users start it, or without graph, index and triple store."""

    def start(folder: Path, built: BuiltWorkload, certificate: Certificate | None) -> Start:
        file = folder / "bench.toml"
        file.write_text(collection_text(built, certificate, scope))
        command = COMMAND if follows else FETCH_ONLY_COMMAND
        return Start([*command, "crawl", str(file), "--data", str(folder / "data"), "--workers", str(workers)])

    return Crawler(TARRAFA if follows else FETCH_ONLY, metadata.version("tarrafa"), start)


class Progress:
    """Shows on stderr what runs, how far it is, and the time left of all runs."""

    def __init__(self) -> None:
        self.left_s: dict[tuple[str, str, int], float] = {}  # workload, crawler, round
        self._shown_at = 0.0

    def show(self, key: tuple[str, str, int], total: int, pages: int, elapsed_s: float) -> None:
        left_s = sum(self.left_s.values()) - min(elapsed_s, self.left_s[key])
        line = (
            f"{key[0]}, {key[1]}: {pages:,} of {total:,} pages in {elapsed_s:.0f} s; about {left_s / 60:.1f} min left"
        )
        if sys.stderr.isatty():
            print(f"\r\x1b[K{line}", end="", file=sys.stderr, flush=True)
        elif time.monotonic() - self._shown_at >= PLAIN_EVERY_S:
            self._shown_at = time.monotonic()
            print(line, file=sys.stderr, flush=True)

    def finish(self, key: tuple[str, str, int], seconds: float) -> None:
        """A run has ended; the later ones of this crawler on this workload are expected to take as long."""
        del self.left_s[key]
        self.left_s |= {other: seconds for other in self.left_s if other[:2] == key[:2]}
        if sys.stderr.isatty():
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)


class Bench:
    """A workload that is served to one crawler after the other."""

    def __init__(self, built: BuiltWorkload, certificate: Certificate | None, folder: Path) -> None:
        self.built, self._certificate, self._folder = built, certificate, folder
        self.server_kind = ""

    def run(self, crawler: Crawler, show: Callable[[int, float], None] = lambda pages, elapsed_s: None) -> CrawlRun:
        """One crawl, in a folder that is removed afterwards. `show` gets the pages and seconds so far."""
        with (
            tempfile.TemporaryDirectory(dir=self._folder) as name,
            start_server(self.built.answers, self.built.port, self._folder, self._certificate) as server,
        ):
            start = crawler.start(Path(name), self.built, self._certificate)
            # What Python has compiled once is kept, as after an installation, whatever the surroundings wish.
            environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
            environment["PYTHONPATH"] = f"{ROOT / 'src'}{os.pathsep}{ROOT}"  # this tree, whatever is installed
            began = time.monotonic()
            used = run_measured(
                start.command,
                environment | start.environment,
                lambda: show(server.stats().pages, time.monotonic() - began),
                RUN_S_MAX,
            )
            stats, times = server.stats(), server.stop()
            self.server_kind = server.kind
            disk_kb = disk_use_kb(Path(name) / "data")
        if used.status or not stats.pages:
            raise SystemExit(f"{crawler.name} ended with status {used.status} after {stats.pages} pages")
        return CrawlRun(
            crawler=crawler.name,
            pages=stats.pages,
            requests=stats.requests,
            missing=stats.missing,
            megabytes=stats.sent_bytes / 1e6,
            seconds=used.ended_s - used.started_s,
            pages_per_s=stats.pages / (stats.last_s - stats.first_s),
            start_s=stats.first_s - used.started_s,
            tail_s=used.ended_s - stats.last_s,
            cpu_s=used.cpu_s,
            cpu_by_role=used.cpu_by_role(),
            peak_mb_by_role=used.peak_by_role(),
            server_cpu_s=stats.cpu_s,
            disk_kb=disk_kb,
            pauses_ms=pauses_ms(times) if self.built.workload.one_at_a_time else None,
        )


def disk_use_kb(data: Path) -> dict[str, float]:
    """Allocated KB of each file or folder of a data directory; a file with several names counts once."""
    found, seen = dict[str, float](), set[int]()
    for path in sorted(data.rglob("*")):
        status = path.lstat()
        if path.is_file() and status.st_ino not in seen:
            seen.add(status.st_ino)
            part = path.relative_to(data).parts[0]
            found[part] = found.get(part, 0.0) + status.st_blocks * 512 / 1000
    return found


def measure(bench: Bench, crawlers: list[Crawler], repeat: int, progress: Progress) -> list[Round]:
    """All crawlers in turns, each once a round; in every second round in the opposite order."""
    name, pages, rounds = bench.built.workload.name, bench.built.pages, list[Round]()
    for number in range(repeat):
        found: Round = {}
        for crawler in crawlers[:: -1 if number % 2 else 1]:
            key = name, crawler.name, number
            found[crawler.name] = run = bench.run(crawler, partial(progress.show, key, pages))
            progress.finish(key, run.seconds)
            if run.pages != pages or run.missing:
                asked = f"{run.pages:,} pages, and {run.missing:,} that are not there"
                print(f"{name}: {crawler.name} asked for {asked}, not for {pages:,} pages: not the same work")
        rounds.append(found)
    return rounds


def available_peers() -> tuple[list[Crawler], dict[str, str]]:
    """Peers, and why others are missing."""
    found, skipped = [], {}
    for name, peer in {SCRAPY: scrapy_peer, WGET2: wget2_peer}.items():
        try:
            found.append(peer())
        except NotAvailable as error:
            skipped[name] = str(error)
    return found, skipped


def build(workload: Workload, pages: int, folder: Path) -> Bench:
    try:
        certificate = make_certificate(folder, DOMAIN) if workload.tls else None
    except (OSError, subprocess.SubprocessError) as error:
        raise NotAvailable(f"no certificate can be made ({error})") from None
    return Bench(build_workload(workload, pages, free_port(), folder), certificate, folder)


def compile_kernels() -> None:
    """A crawl that ends before its kernels are compiled would compile them again each time, and measure that."""
    for kernels in (pagerank.kernels, text_analysis.kernels, text_kernels.kernels):
        kernels.require()


def run_workload(
    workload: Workload,
    options: argparse.Namespace,
    crawlers: list[Crawler],
    skipped: dict[str, str],
    progress: Progress,
) -> WorkloadFigures:
    with tempfile.TemporaryDirectory(prefix="tarrafa-crawl-") as name:
        bench = build(workload, options.pages, Path(name))
        built = bench.built
        bench.run(tarrafa(options.workers, scope=f"pages_max = {WARM_PAGES}"))
        rounds = measure(bench, crawlers, options.repeat, progress)
    return WorkloadFigures(
        workload.name, built.pages, built.mean_bytes, workload.hosts, bench.server_kind, rounds, skipped, built.notes
    )


def current_commit() -> str:
    command = ["git", "-C", str(Path(__file__).parent), "describe", "--always", "--dirty"]
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip() or "unknown"


def describe_machine() -> str:
    models = [line for line in Path("/proc/cpuinfo").read_text().splitlines() if line.startswith("model name")]
    model = models[0].partition(":")[2].strip() if models else platform.machine()
    return f"{os.cpu_count()} x {model}, Python {platform.python_version()}"


def parse_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--workload", nargs="+", choices=WORKLOADS, default=list(WORKLOADS))
    parser.add_argument(
        "--pages", type=int, default=12_000, help="of the workloads poor, real and tls; others have fewer"
    )
    parser.add_argument("--repeat", type=int, default=1, help="rounds; each crawler runs once a round")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--no-peers", action="store_true", help="only Tarrafa")
    parser.add_argument("--json", type=Path, help="file for the figures")
    parser.add_argument("--growth", action="store_true", help="cost of a page against known URLs and hosts (growth.py)")
    return parser.parse_args()


def main() -> None:
    options = parse_options()
    if options.growth:
        from benchmarks.growth import measure_growth

        measure_growth(options.pages, options.workers, options.json)
        return
    peers, skipped = ([], dict[str, str]()) if options.no_peers else available_peers()
    crawlers = [tarrafa(options.workers), tarrafa(options.workers, follows=False), *peers]
    figures = Figures(
        time.strftime("%Y-%m-%d %H:%M"), current_commit(), describe_machine(), os.getloadavg()[0],
        {one.name: one.version for one in crawlers}, [],
    )  # fmt: skip
    print(f"{figures.date}, commit {figures.commit}, {figures.machine}, load {figures.load:.1f}; {figures.versions}")
    compile_kernels()
    progress = Progress()
    for name in options.workload:
        pages = options.pages * WORKLOADS[name].share
        progress.left_s |= {
            (name, one.name, number): pages / PAGES_PER_S[one.name]
            for one in crawlers
            for number in range(options.repeat)
        }
    for name in options.workload:
        try:
            found = run_workload(WORKLOADS[name], options, crawlers, skipped, progress)
        except NotAvailable as error:
            print(f"{name}: SKIPPED: {error}")
            continue
        figures.workloads.append(found)
        print("\n".join(("", *table(found))), flush=True)
    if options.json is not None:
        options.json.write_bytes(msgspec.json.format(msgspec.json.encode(figures)) + b"\n")
    missed = sum(target.is_met is False for found in figures.workloads for target in targets(found))
    print(f"\n{missed} of the targets missed" if missed else "\nall targets met")


if __name__ == "__main__":
    main()
