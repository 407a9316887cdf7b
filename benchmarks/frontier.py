"""How fast is the frontier alone, how large does it get, and does it stay so?

    python benchmarks/frontier.py [--urls 1000000 --urls 10000000] [--body sqlite --body postgres] [--workers 4]
        [--order fifo] [--urls-per-host 500]

Workers without a Web: each is a process that speaks to the frontier as a crawler does (over the owner's socket, or to
PostgreSQL itself), but whose pages cost nothing. Two rates are taken at each size: links offered per second (seven in
ten known already, the rest new) and pages per second through the whole cycle of lease, deliver and finish, twenty links
a page. PostgreSQL is started in a folder of its own, where its programs are installed, with its usual durability.
Every host is a site of its own. In breadth a site is left after five pages: give it few URLs per host, and many hosts.
"""

import argparse
import asyncio
import multiprocessing
import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.contract.postgres_process import Postgres, programs

from tarrafa import config
from tarrafa.frontier.api import Frontier
from tarrafa.frontier.messages import DiscoveredUrl, HostReport, VisitReport
from tarrafa.frontier.rpc.frontier_client import RemoteFrontier
from tarrafa.model import Outcome
from tarrafa.parse.url import host_id, host_key, url_id
from tarrafa.runtime.data_dir import DataDirectory
from tarrafa.runtime.process_identity import current_process

URLS_PER_HOST = 500
BATCH, HOSTS_PER_BATCH = 2_000, 100
KNOWN_SHARE = 0.7
LINKS_PER_PAGE = 20
HOSTS_AT_ONCE = 60
WINDOW_S = 15.0
NAME = "bench"


@dataclass(frozen=True)
class Task:
    """What a worker process is to do."""

    kind: str  # grow, offer, crawl
    first: int
    last: int
    known: int
    seconds: float
    number: int


@dataclass(frozen=True)
class Done:
    links: int
    pages: int
    seconds: float
    cpu_s: float
    memory_mb: float


def offer(number: int, hosts: int) -> DiscoveredUrl:
    """URL number so many: neighbours in number are on different hosts, as links are."""
    url = f"http://www.h{number % hosts}.com.br/section-{number % 97}/page-{number}.html"
    key = host_key(url)
    return DiscoveredUrl(host_id(key), url_id(url), url, key, 1 + number % 5)


def batch(rng: random.Random, fresh: range, known: int, hosts: int) -> list[DiscoveredUrl]:
    """Some new ones, and some that were offered before, over a hundred hosts or so."""
    old = [rng.randrange(known) for _ in range(int(len(fresh) * KNOWN_SHARE / (1 - KNOWN_SHARE)))] if known else []
    return [offer(number, hosts) for number in (*fresh, *old)]


async def grow(frontier: Frontier, collection: int, task: Task, hosts: int) -> Done:
    begun, links = time.monotonic(), 0
    stride = hosts // HOSTS_PER_BATCH or 1
    numbers = sorted(range(task.first, task.last), key=lambda one: (one % stride, one))  # some hosts at a time
    for start in range(0, len(numbers), BATCH):
        some = numbers[start : start + BATCH]
        await frontier.discover(collection, [offer(number, hosts) for number in some])
        links += len(some)
    return _done(links, 0, begun)


async def offer_links(frontier: Frontier, collection: int, task: Task, hosts: int) -> Done:
    rng, begun, links, at = random.Random(task.number), time.monotonic(), 0, task.first
    new = int(BATCH * (1 - KNOWN_SHARE))
    while time.monotonic() - begun < task.seconds and at + new < task.last:
        offers = batch(rng, range(at, at + new), task.known, hosts)
        await frontier.discover(collection, offers)
        links, at = links + len(offers), at + new
    return _done(links, 0, begun)


async def crawl(frontier: Frontier, collection: int, task: Task, hosts: int) -> Done:
    rng, links, pages, at = random.Random(task.number), 0, 0, task.first
    worker = (await frontier.join(f"w{task.number}", current_process())).worker
    await frontier.renew(worker, "")
    leases = {lease.host: lease.visits for lease in await frontier.lease(worker, HOSTS_AT_ONCE)}
    begun = time.monotonic()
    while time.monotonic() - begun < task.seconds:
        if len(leases) < HOSTS_AT_ONCE // 2:
            found = await frontier.lease(worker, HOSTS_AT_ONCE - len(leases))
            leases |= {lease.host: lease.visits for lease in found}
        visits = sum(map(len, leases.values()))
        new = int(visits * LINKS_PER_PAGE * (1 - KNOWN_SHARE))
        offers = batch(rng, range(at, at + new), task.known, hosts)
        await frontier.discover(collection, offers)
        links, at, now = links + len(offers), at + new, time.time()
        outcome = Outcome(
            200, now, kept=True, type="text/html", content_id="0" * 32, length=20_000, external=LINKS_PER_PAGE
        )
        reports = [
            HostReport(
                host, collection, [VisitReport(one.id, one.number, outcome) for one in some], now, now, 0.0, True
            )
            for host, some in leases.items()
        ]
        answers = await frontier.finish(worker, reports)
        pages += visits
        leases = {
            report.host: answer.visits for report, answer in zip(reports, answers, strict=True) if answer.is_leased
        }
        await frontier.renew(worker, "")
    await frontier.leave(worker)
    return _done(links, pages, begun)


def _done(links: int, pages: int, begun: float) -> Done:
    return Done(links, pages, time.monotonic() - begun, time.process_time(), memory_mb(os.getpid()))


def memory_mb(pid: int) -> float:
    """The most that a process ever had in memory."""
    text = Path(f"/proc/{pid}/status").read_text()
    return next(int(line.split()[1]) for line in text.splitlines() if line.startswith("VmHWM")) / 1024


KINDS: dict[str, Callable[..., Any]] = {"grow": grow, "offer": offer_links, "crawl": crawl}


def work(connect: Callable[[], Any], task: Task, hosts: int, results: Any) -> None:
    """A worker process."""

    async def main() -> Done:
        frontier = await connect()
        try:
            (row,) = await frontier.collections()
            done: Done = await KINDS[task.kind](frontier, row.id, task, hosts)
            return done
        finally:
            await frontier.close()

    results.put(asyncio.run(main()))


class Sqlite:
    """The owner process of one file."""

    name = "SQLite"

    def __init__(self, folder: Path) -> None:
        self.data = DataDirectory(folder / "data")
        self.data.create()
        self._start()

    def _start(self) -> None:
        line = [sys.executable, "-m", "tarrafa.frontier.rpc.frontier_server", "--data", str(self.data.root)]
        self.process = subprocess.Popen([*line, "--parent", str(os.getpid())], stdout=subprocess.PIPE)
        assert self.process.stdout is not None
        assert self.process.stdout.readline().strip() == b"ready"

    async def connect(self) -> Any:
        return await RemoteFrontier.connect(self.data.socket)

    def memory_mb(self) -> float:
        return memory_mb(self.process.pid)

    def size(self) -> int:
        return sum(file.stat().st_size for file in self.data.root.glob("frontier.sqlite*"))

    def reopen(self) -> float:
        """How long it takes to go on after a stop."""
        self.close()
        begun = time.monotonic()
        self._start()
        return time.monotonic() - begun

    def close(self) -> None:
        self.process.terminate()
        self.process.wait()


class PostgreSql:
    """One server."""

    name = "PostgreSQL"

    def __init__(self, folder: Path) -> None:
        self.server = Postgres(durable=True)
        self.dsn = self.server.database(NAME)

    async def connect(self) -> Any:
        from tarrafa.frontier.postgres.postgres_frontier import open_postgres_frontier

        return await open_postgres_frontier([self.dsn])

    def memory_mb(self) -> float:
        """What the server's processes hold now, its shared buffers (512 MB are allowed) counted once."""
        first = int((self.server.folder / "data" / "postmaster.pid").read_text().split()[0])
        own = [first, *map(int, Path(f"/proc/{first}/task/{first}/children").read_text().split())]
        held = 0
        for pid in own:
            with suppress(OSError):  # one that ends meanwhile
                lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
                held += sum(int(line.split()[1]) for line in lines if line.startswith("Pss:"))
        return held / 1024

    def size(self) -> int:
        import psycopg

        with psycopg.connect(self.dsn) as connection:
            row = connection.execute("SELECT pg_database_size(current_database())").fetchone()
            assert row is not None
            return int(row[0])

    def reopen(self) -> float:
        """There is nothing to open."""
        return 0.0

    def close(self) -> None:
        self.server.remove()


class Run:
    """One body at one size after the other."""

    def __init__(self, body: Any, workers: int, hosts: int, order: str) -> None:
        self.body, self.workers, self.hosts, self.known = body, workers, hosts, 0
        self._next = 10**9  # new URLs of the measurements have numbers of their own
        collection = config.encode_collection(
            config.collection_from_table({"name": NAME, "roots": ["http://a.br/"], "scope": {"hosts": ["*"]},
                            "politeness": {"delay": 0},
                            "strategy": {"order": order, "cycle": 2 * workers * HOSTS_AT_ONCE}}, "benchmark"),
        )  # fmt: skip

        async def begin() -> None:
            frontier = await body.connect()
            await frontier.open_collection(collection, [])
            await frontier.close()

        asyncio.run(begin())

    def all(self, tasks: list[Task]) -> list[Done]:
        results: Any = multiprocessing.Queue()
        processes = [
            multiprocessing.Process(target=work, args=(self.body.connect, task, self.hosts, results)) for task in tasks
        ]
        for process in processes:
            process.start()
        done = [results.get() for _ in processes]
        for process in processes:
            process.join()
        return done

    def grow(self, total: int) -> float:
        edges = [self.known + (total - self.known) * n // self.workers for n in range(self.workers + 1)]
        tasks = [Task("grow", edges[n], edges[n + 1], 0, 0.0, n) for n in range(self.workers)]
        begun = time.monotonic()
        self.all(tasks)
        rate = (total - self.known) / (time.monotonic() - begun)
        self.known = total
        return rate

    def asked_ms(self) -> float:
        """How long `status` waits for its numbers."""

        async def ask() -> float:
            frontier = await self.body.connect()
            begun = time.perf_counter()
            await frontier.overview()
            took_s = time.perf_counter() - begun
            await frontier.close()
            return took_s

        return 1000 * asyncio.run(ask())

    def measure(self, kind: str) -> list[Done]:
        tasks = []
        for number in range(self.workers):
            tasks.append(Task(kind, self._next, self._next + 10**7, self.known, WINDOW_S, number))
            self._next += 10**7
        return self.all(tasks)


def show(body: Any, sizes: list[int], options: argparse.Namespace) -> dict[int, tuple[float, float]]:
    hosts, rates = max(sizes) // options.urls_per_host, dict[int, tuple[float, float]]()
    run = Run(body, options.workers, hosts, options.order)
    for size in sizes:
        growing = run.grow(size)
        offered, crawled = run.measure("offer"), run.measure("crawl")
        links = sum(done.links / done.seconds for done in offered)
        pages = [done.pages / done.seconds for done in crawled]
        rates[size] = (links, sum(pages))
        cpu_s, visits = sum(done.cpu_s for done in crawled), sum(done.pages for done in crawled)
        known = size + sum(int(done.links * (1 - KNOWN_SHARE)) for done in (*offered, *crawled))
        print(
            f"{body.name:<11}{size:>12,}{growing:>12,.0f}{links:>12,.0f}{sum(pages):>10,.0f}"
            f"{min(pages) / max(*pages, 1e-9):>10.2f}{1000 * cpu_s / max(1, visits):>12.2f}"
            f"{body.memory_mb():>11,.0f}{max(one.memory_mb for one in crawled):>11,.0f}{body.size() / known:>11,.0f}"
            f"{run.asked_ms():>11.1f}{body.reopen():>9.2f}",
            flush=True,
        )
    return rates


def main() -> None:
    parser = argparse.ArgumentParser(description="The frontier alone.")
    parser.add_argument("--urls", type=int, action="append", help="sizes, growing (default: 1 and 10 million)")
    parser.add_argument("--body", choices=["sqlite", "postgres"], action="append")
    parser.add_argument("--workers", type=int, default=4)
    parser.add_argument("--order", choices=["fifo", "lifo", "random", "backlinks", "breadth"], default="fifo")
    parser.add_argument("--urls-per-host", type=int, default=URLS_PER_HOST)
    options = parser.parse_args()
    sizes = sorted(options.urls or [1_000_000, 10_000_000])
    print(f"{options.order}, {options.workers} workers;", end=" ")
    print(f"links/s with {KNOWN_SHARE:.0%} known; pages/s with {LINKS_PER_PAGE} links each")
    print(f"{'':<11}{'URLs':>12}{'growing/s':>12}{'links/s':>12}{'pages/s':>10}{'fairness':>10}{'ms/page':>12}"
          f"{'owner MB':>11}{'worker MB':>11}{'bytes/URL':>11}{'status ms':>11}{'open s':>9}")  # fmt: skip
    found: dict[str, dict[int, tuple[float, float]]] = {}
    for name, kind in (("sqlite", Sqlite), ("postgres", PostgreSql)):
        if options.body and name not in options.body:
            continue
        if name == "postgres" and programs() is None:
            print("PostgreSQL    not measured: its server programs are not installed")
            continue
        with tempfile.TemporaryDirectory() as folder:
            body = kind(Path(folder))
            try:
                found[name] = show(body, sizes, options)
            finally:
                body.close()
    for name, rates in found.items():
        least, most = rates[sizes[0]], rates[sizes[-1]]
        links, pages = (most[n] / least[n] for n in (0, 1))
        print(
            f"{name}: at {sizes[-1]:,} URLs {links:.2f} of the links/s and {pages:.2f} of the pages/s at {sizes[0]:,}"
        )
    if len(found) == 2:
        for size in sizes:
            links, pages = (found["postgres"][size][n] / found["sqlite"][size][n] for n in (0, 1))
            print(f"PostgreSQL / SQLite at {size:,} URLs: {links:.2f} of the links/s, {pages:.2f} of the pages/s")


if __name__ == "__main__":
    main()
