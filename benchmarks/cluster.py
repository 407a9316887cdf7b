"""What does the segment log cost, beside an archive on one machine, in the same run?

Crawls the same pages on one machine in turns: with a SQLite frontier and files, with a frontier in PostgreSQL and
files, and with PostgreSQL and the segment log in a real object store (SeaweedFS). Prints CPU-seconds per 1,000 pages of
Tarrafa by process, of the store and of the database; requests and bytes of the store per page; and how long after its
visit a page is finished at the frontier (p50, p99).

    python -m benchmarks.cluster [--workload poor] [--pages 4000] [--repeat 1] [--json FILE]
"""

import argparse
import os
import statistics
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec
import psycopg
from tests.contract.postgres_process import Postgres
from tests.object_store_process import SeaweedFs

from benchmarks.crawl import (
    COMMAND,
    RUN_S_MAX,
    WARM_PAGES,
    Bench,
    build,
    collection_text,
    current_commit,
    describe_machine,
    tarrafa,
)
from benchmarks.crawl_figures import CrawlRun
from benchmarks.crawl_workloads import WORKLOADS, BuiltWorkload
from benchmarks.page_server import Certificate
from benchmarks.peers import Crawler, Start
from tarrafa.archive.segment_log.log_mirror import LogMirror
from tarrafa.archive.warc_reader import read_records
from tarrafa.archive.warc_writer import METADATA
from tarrafa.frontier.postgres.segment_manifest import PostgresManifest
from tarrafa.runtime.data_dir import DataDirectory

ONE_MACHINE, DATABASE, LOG = "one machine", "PostgreSQL, files", "PostgreSQL, segment log"
TICKS_PER_S = os.sysconf("SC_CLK_TCK")
COPIES = 2  # objects of a segment; each is put once, and read once by each machine


class LogFigures(msgspec.Struct):
    """What the log says after a crawl."""

    segments: int
    store_bytes: int
    finished_s_p50: float  # from the end of a visit to its segment in the manifest
    finished_s_p99: float


class EngineRun(msgspec.Struct):
    """One crawl, and what it cost database and store."""

    crawl: CrawlRun
    database_cpu_s: float = 0.0
    store_cpu_s: float = 0.0
    log: LogFigures | None = None


class Engines:
    """A real PostgreSQL, which syncs, and a real object store."""

    def __init__(self) -> None:
        self.database, self.store = Postgres(durable=True), SeaweedFs()
        os.environ.update(self.store.environment)
        self._crawls = 0

    def close(self) -> None:
        self.database.remove()
        self.store.remove()

    @contextmanager
    def new_frontier(self) -> Iterator[tuple[str, str]]:
        """The addresses of an empty database and of an empty prefix in the store."""
        self._crawls += 1
        yield self.database.database("bench"), f"s3://tests/bench{self._crawls}"

    def cpu_s(self) -> tuple[float, float]:
        """Of all processes of the database, and of the store, so far."""
        postmaster = int((self.database.folder / "data" / "postmaster.pid").read_text().split()[0])
        return _tree_cpu_s(postmaster), _tree_cpu_s(self.store.pid)


def _tree_cpu_s(root: int) -> float:
    """CPU of a process, of its children that live, and of those that it has waited for."""
    fields = Path(f"/proc/{root}/stat").read_text().rpartition(")")[2].split()
    own = sum(map(int, fields[11:15])) / TICKS_PER_S
    children = Path(f"/proc/{root}/task/{root}/children").read_text().split()
    return own + sum(_process_cpu_s(int(pid)) for pid in children)


def _process_cpu_s(pid: int) -> float:
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return sum(map(int, fields[11:13])) / TICKS_PER_S


def crawler(name: str, workers: int, dsn: str, store: str | None) -> Crawler:
    def start(folder: Path, built: BuiltWorkload, certificate: Certificate | None) -> Start:
        file = folder / "bench.toml"
        file.write_text(collection_text(built, certificate))
        where = ["--frontier", dsn, *(["--store", store] if store is not None else [])]
        command = [*COMMAND, "crawl", str(file), "--data", str(folder / "data"), "--workers", str(workers), *where]
        return Start(command)

    return Crawler(name, "", start)


def measure(bench: Bench, engines: Engines, name: str, workers: int) -> EngineRun:
    if name == ONE_MACHINE:
        return EngineRun(bench.run(tarrafa(workers)))
    with engines.new_frontier() as (dsn, store):
        one = crawler(name, workers, dsn, store if name == LOG else None)
        before = engines.cpu_s()
        run = bench.run(one)
        database_s, store_s = (after - start for start, after in zip(before, engines.cpu_s(), strict=True))
        return EngineRun(run, database_s, store_s, log_figures(dsn) if name == LOG else None)


def log_figures(dsn: str) -> LogFigures:
    """Reads the whole log as a new machine would."""
    manifest = PostgresManifest(dsn)
    log = manifest.identity()
    assert log is not None
    with tempfile.TemporaryDirectory(prefix="tarrafa-log-") as folder:
        data = DataDirectory(Path(folder))
        data.create()
        with LogMirror(data, manifest, log) as mirror:
            while mirror.pull():
                pass
        with psycopg.connect(dsn) as connection:
            rows = connection.execute("SELECT meta_start, meta_size, appended FROM segment ORDER BY number").fetchall()
        waits, path = list[float](), data.archive / f"{log.file}.meta.warc.gz"
        for start, size, appended in rows:
            for _, head, content in read_records(path, start, start + size):
                if head.kind == METADATA:
                    waits.append(appended - msgspec.json.decode(content)["outcome"]["at"])
    lengths = manifest.lengths()
    manifest.close()
    quantiles = statistics.quantiles(waits, n=100)
    return LogFigures(len(rows), lengths.warc + lengths.meta, quantiles[49], quantiles[98])


def print_table(found: dict[str, list[EngineRun]]) -> None:
    base = statistics.mean(one.crawl.cpu_s / one.crawl.pages for one in found[ONE_MACHINE])
    print("| | CPU-s/1000 | of one machine's | database | store | pages/s | tail s |")
    print("|---|---|---|---|---|---|---|")
    for name, runs in found.items():
        pages = statistics.mean(one.crawl.pages for one in runs) / 1000
        cpu, database, store = (
            statistics.mean(values) / pages
            for values in (
                [one.crawl.cpu_s for one in runs],
                [one.database_cpu_s for one in runs],
                [one.store_cpu_s for one in runs],
            )
        )
        speed, tail = (statistics.mean(getattr(one.crawl, key) for one in runs) for key in ("pages_per_s", "tail_s"))
        print(
            f"| {name} | {cpu:.2f} | {cpu / base / 1000:.2f} | {database:.2f} | {store:.2f}"
            f" | {speed:.0f} | {tail:.1f} |"
        )
    for run in found[LOG]:
        assert run.log is not None
        pages = run.crawl.pages
        print(
            f"log: {run.log.segments} segments, {run.log.store_bytes / pages:,.0f} bytes a page, "
            f"{COPIES * run.log.segments / pages:.3f} requests a page to write, as many for each machine that reads; "
            f"finished {run.log.finished_s_p50:.2f} s after the visit at p50, {run.log.finished_s_p99:.2f} s at p99"
        )
        print("  " + ", ".join(f"{role} {s / pages * 1000:.2f}" for role, s in run.crawl.cpu_by_role.items()))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--workload", choices=WORKLOADS, default="poor")
    parser.add_argument("--pages", type=int, default=4_000)
    parser.add_argument("--repeat", type=int, default=1)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--json", type=Path, help="file for the figures")
    options = parser.parse_args()
    print(
        f"{time.strftime('%Y-%m-%d %H:%M')}, commit {current_commit()}, {describe_machine()}, at most {RUN_S_MAX:.0f} s"
    )
    engines, found = Engines(), {name: list[EngineRun]() for name in (ONE_MACHINE, DATABASE, LOG)}
    try:
        with tempfile.TemporaryDirectory(prefix="tarrafa-cluster-") as folder:
            bench = build(WORKLOADS[options.workload], options.pages, Path(folder))
            bench.run(tarrafa(options.workers, scope=f"pages_max = {WARM_PAGES}"))
            for number in range(options.repeat):
                for name in list(found)[:: -1 if number % 2 else 1]:
                    found[name].append(measure(bench, engines, name, options.workers))
    finally:
        engines.close()
    print_table(found)
    if options.json is not None:
        options.json.write_bytes(msgspec.json.format(msgspec.json.encode(found)) + b"\n")


if __name__ == "__main__":
    main()
