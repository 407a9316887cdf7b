"""How soon is a new machine useful, and what do snapshots cost?

A log of small synthetic pages in a real object store, with its manifest in a real PostgreSQL, is followed by one
machine that owns all parts of the index. Then a second machine joins, and takes half of the parts. Printed: after how
many seconds it answers for the first of its parts, and for all, and after how many seconds they are complete (index and
link graph have what the log had when it joined). Then its disk is lost, the snapshots are removed, and it joins again:
it builds its parts from the log.

    python -m benchmarks.join [--pages 100000] [--parts 8]
"""

import argparse
import asyncio
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import psycopg
from tests.contract.postgres_process import Postgres
from tests.object_store_process import SeaweedFs

from benchmarks.crawl import current_commit, describe_machine
from benchmarks.shards import COLLECTION, archive, served
from tarrafa.crawl.scope.collection_loader import load_collection
from tarrafa.crawl.supervisor.supervisor import submit_collection
from tarrafa.errors import TarrafaError
from tarrafa.frontier.address import PostgresServers, connect
from tarrafa.index.shards import read_layout
from tarrafa.runtime.data_dir import DataDirectory
from tarrafa.search.remote_shard import RemoteShard

WAIT_S_MAX, POLL_S = 1_800.0, 0.1
COMMAND = [sys.executable, "-c", "from tarrafa.cli import main; main()"]


def make_log(folder: Path, dsn: str, store: str, pages: int) -> DataDirectory:
    """The log, pushed from the archive of one machine."""
    data = DataDirectory(folder / "one")
    data.create()
    archive(data, pages)
    file = folder / f"{COLLECTION}.toml"
    file.write_text(f'name = "{COLLECTION}"\nroots = ["http://www.s0.br/"]\n')

    async def submit() -> None:
        frontier = await connect(PostgresServers((dsn,)))
        await submit_collection(frontier, load_collection(file), start=False)
        await frontier.close()

    asyncio.run(submit())
    where = ["--data", str(data.root), "--frontier", dsn, "--store", store]
    subprocess.run([*COMMAND, "archive", "push", *where], check=True, stdout=sys.stderr)
    return data


def log_of(data: DataDirectory) -> Path:
    return data.root.with_suffix(".log")


@contextmanager
def machine(data: DataDirectory, dsn: str, parts: int) -> Iterator["subprocess.Popen[bytes]"]:
    """`tarrafa worker`, which has nothing to crawl."""
    where = ["--data", str(data.root), "--frontier", dsn, "--index-shards", f"owned/{parts}", "--workers", "1"]
    where += ["--name", data.root.name]
    with log_of(data).open("ab") as log:
        process = subprocess.Popen([*COMMAND, "worker", *where], stdout=log, stderr=log)
        try:
            yield process
        finally:
            process.kill()  # its children end with it
            process.wait()


def wait_until(is_so: Callable[[], bool], process: "subprocess.Popen[bytes]", log: Path) -> float:
    """How long it took."""
    began = time.perf_counter()
    while not is_so():
        if process.poll() is not None or time.perf_counter() - began > WAIT_S_MAX:
            raise SystemExit(f"the machine has ended with {process.poll()}, or takes too long: {log.read_text()}")
        time.sleep(POLL_S)
    return time.perf_counter() - began


def count_complete(data: DataDirectory) -> int:
    return len(read_layout(data).complete)


def count_answering(shard: RemoteShard, data: DataDirectory) -> int:
    """The parts of a machine that answer with pages."""
    found = 0
    for number in read_layout(data).here:
        with suppress(TarrafaError):
            found += shard.restricted([number]).documents() > 0
    return found


def snapshots(dsn: str) -> list[tuple[str, int]]:
    with psycopg.connect(dsn) as connection:
        return connection.execute("SELECT part, log_end FROM part_snapshot ORDER BY part").fetchall()


def log_end(dsn: str) -> int:
    with psycopg.connect(dsn) as connection:
        return sum(end for (end,) in connection.execute("SELECT visits_end FROM log_head").fetchall())


def join(data: DataDirectory, dsn: str, parts: int, name: str) -> None:
    """A new machine joins; prints after how long it is useful."""
    data.create()
    began = time.perf_counter()
    with served(data) as shard, machine(data, dsn, parts) as process:
        times = dict[str, float]()
        share = parts // 2

        def watch() -> bool:
            answering, complete = count_answering(shard, data), count_complete(data)
            for what, is_so in (
                ("first part answers", answering > 0),
                ("all its parts answer", answering >= share),
                ("all are complete", complete >= share),
            ):
                if is_so:
                    times.setdefault(what, time.perf_counter() - began)
            return len(times) == 3

        wait_until(watch, process, log_of(data))
        mirrored = sum(path.stat().st_size for path in data.archive.iterdir()) / 1e6
        print(f"{name}: " + ", ".join(f"{what} after {s:.1f} s" for what, s in times.items()), end="")
        print(f"; {shard.documents():,} pages in {share} parts; {mirrored:.0f} MB mirrored", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pages", type=int, default=100_000)
    parser.add_argument("--parts", type=int, default=8)
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # so that the servers are removed
    print(f"{time.strftime('%Y-%m-%d %H:%M')}, commit {current_commit()}, {describe_machine()}", flush=True)
    database, store = Postgres(), SeaweedFs()
    os.environ.update(store.environment)
    try:
        with tempfile.TemporaryDirectory(prefix="tarrafa-join-") as name:
            folder, dsn = Path(name), database.database("bench")
            began = time.perf_counter()
            make_log(folder, dsn, "s3://tests/join", options.pages)
            print(f"{options.pages:,} pages in the log after {time.perf_counter() - began:.0f} s", flush=True)
            first = DataDirectory(folder / "first")
            first.create()
            with machine(first, dsn, options.parts) as process:
                took = wait_until(lambda: count_complete(first) == options.parts, process, log_of(first))
                print(f"the first machine builds all {options.parts} parts from the log in {took:.0f} s", flush=True)
                end = log_end(dsn)
                wait_until(lambda: [at for _, at in snapshots(dsn)] == [end] * options.parts, process, log_of(first))
                for path in sorted((first.root / "run" / "log").glob("index-*.log"))[:2]:
                    for line in path.read_text().splitlines():
                        print(f"  {path.stem}: {line}", flush=True)
                second = DataDirectory(folder / "second")
                join(second, dsn, options.parts, "with snapshots")
                shutil.rmtree(second.root)
                took = wait_until(lambda: count_complete(first) == options.parts, process, log_of(first))
                print(f"it is lost: the first machine has all parts again after {took:.1f} s", flush=True)
                with psycopg.connect(dsn, autocommit=True) as connection:
                    connection.execute("DELETE FROM part_snapshot")  # no new ones come: the log does not grow
                join(second, dsn, options.parts, "without snapshots")
    finally:
        database.remove()
        store.remove()


if __name__ == "__main__":
    main()
