"""How far does one archive of many machines grow, and what breaks first?

Measures on a real PostgreSQL what a row of the manifest takes and how fast segments are appended to it, simulates the
queue of workers before the manifest's head, and multiplies what `benchmarks.crawl` and `benchmarks.cluster` have
measured a page. No figure here was measured at its size but those of the first table.

    python -m benchmarks.cluster_growth [--rows 200000] [--json FILE]
"""

import argparse
import heapq
import random
import statistics
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import msgspec
import psycopg
from tests.contract.postgres_process import Postgres

from tarrafa.crawl.worker.host_session import FEW_VISITS, LOG_COMMITS
from tarrafa.frontier.postgres.segment_manifest import APPEND, MANIFEST_TABLES

DAY_S = 86_400
WORKERS = 4  # of a machine
SEGMENT_S = LOG_COMMITS.every_s  # a worker's segment holds what it fetched in so long
CONNECTIONS, APPEND_FOR_S = (1, 8, 32), 4.0
SIMULATED_S, SEED = 120.0, 24
QUEUES = (4, 16, 50, 100, 200)  # machines
CRAWLS = ((10**7, 4, 7), (10**8, 10, 30), (10**9, 30, 30), (10**10, 100, 90))  # pages, machines, days

# A page with everything on, of the workload `poor`: docs/performance.md.
ARCHIVE_BYTES, INDEX_BYTES, GRAPH_BYTES, TRIPLES_BYTES, CAPTURES_BYTES = 7_050, 6_900, 5_300, 3_000, 220
FETCH_CPU_S, INDEX_CPU_S, FOLLOW_CPU_S = 2.4e-3, 0.9e-3, 1.0e-3  # worker; index; graph, triples, captures, mirror
MIRROR_BYTES_S = 100e6  # a machine reads so much of the log a second: a network of 1 Gbit/s
URLS_PER_PAGE = 10  # known at the end, for each page that is kept
NODES_MAX = 2**31  # of a link graph


class AppendFigures(msgspec.Struct):
    connections: int
    appends_per_s: float
    p50_ms: float
    p99_ms: float


class QueueFigures(msgspec.Struct):
    machines: int
    load: float
    p50_ms: float
    p99_ms: float


class CrawlGrowth(msgspec.Struct):
    """What a crawl of that size takes; bytes and processors of each machine."""

    pages: int
    machines: int
    days: int
    pages_per_s: float
    rows: float
    manifest_bytes: float
    requests_per_page: float
    log_bytes: float
    mirror_bytes: float
    part_bytes: float
    follow_cpus: float
    read_again_s: float
    breaks: list[str]


class Growth(msgspec.Struct):
    row_bytes: float
    appends: list[AppendFigures]
    queues: list[QueueFigures]
    crawls: list[CrawlGrowth]


def segment_values(worker: int, sequence: int) -> dict[str, object]:
    return {
        "worker": worker, "sequence": sequence, "name": f"{worker:08d}/{sequence:010d}", "warc_size": 60_000,
        "warc_digest": bytes(16), "meta_size": 25_000, "meta_digest": bytes(16), "visits_size": 25_000,
    }  # fmt: skip


def prepare(address: str) -> None:
    """The manifest's tables, and the frontier's table of workers, as far as the fence reads it."""
    with psycopg.connect(address, autocommit=True) as connection:
        connection.execute("CREATE TABLE worker (id BIGINT PRIMARY KEY)")
        connection.execute(MANIFEST_TABLES.encode())
        connection.execute("INSERT INTO log_head VALUES ('growth', '', 0, 0, 0, 0, 0)")
        connection.execute("INSERT INTO worker SELECT generate_series(1, 1000)")


def measure_row(address: str, rows: int) -> float:
    """Bytes of a row with its indexes."""
    with psycopg.connect(address, autocommit=True) as connection:
        connection.execute(
            "INSERT INTO segment SELECT n, n %% 400 + 1, n, lpad(n::text, 19, '0'), n * 60000, 60000, %s,"
            " n * 25000, 25000, %s, n * 25000, 0 FROM generate_series(1::bigint, %s) n",
            (bytes(16), bytes(16), rows),
        )
        found = connection.execute("SELECT pg_total_relation_size('segment')").fetchone()
        connection.execute("TRUNCATE segment")
    assert found is not None
    return float(found[0]) / rows


def measure_appends(address: str, connections: int) -> AppendFigures:
    """Appends by so many workers at once, each durable."""
    took: list[float] = []
    until = time.monotonic() + APPEND_FOR_S

    def append(worker: int) -> None:
        with psycopg.connect(address, autocommit=True) as connection:
            sequence = 0
            while (began := time.monotonic()) < until:
                sequence += 1
                connection.execute(APPEND.encode(), segment_values(worker, connections * 10**6 + sequence))
                took.append(time.monotonic() - began)

    threads = [threading.Thread(target=append, args=(worker + 1,)) for worker in range(connections)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    cuts = statistics.quantiles(took, n=100)
    return AppendFigures(connections, len(took) / APPEND_FOR_S, cuts[49] * 1e3, cuts[98] * 1e3)


def simulate_queue(machines: int, service_s: float) -> QueueFigures:
    """Workers append once in `SEGMENT_S` at most, one after the other: how long each waits for its number."""
    rng, free_at, waits = random.Random(SEED), 0.0, list[float]()
    arrivals = [rng.uniform(0.0, SEGMENT_S) for _ in range(machines * WORKERS)]
    heapq.heapify(arrivals)
    while (at := heapq.heappop(arrivals)) < SIMULATED_S:
        free_at = max(free_at, at) + rng.expovariate(1.0 / service_s)
        waits.append(free_at - at)
        heapq.heappush(arrivals, max(free_at, at + SEGMENT_S * rng.uniform(0.9, 1.1)))
    cuts = statistics.quantiles(waits, n=100)
    return QueueFigures(machines, machines * WORKERS * service_s / SEGMENT_S, cuts[49] * 1e3, cuts[98] * 1e3)


def segments_of_worker(pages_per_s: float) -> float:
    """Segments a second: after `few_every_s`, sooner when there are `FEW_VISITS`, at most once in `every_s`."""
    return min(1.0 / SEGMENT_S, max(pages_per_s / FEW_VISITS, min(pages_per_s, 1.0 / LOG_COMMITS.few_every_s)))


def grow(pages: int, machines: int, days: int, row_bytes: float, appends_per_s: float) -> CrawlGrowth:
    pages_per_s = pages / days / DAY_S
    segments_per_s = machines * WORKERS * segments_of_worker(pages_per_s / machines / WORKERS)
    rows = segments_per_s * days * DAY_S
    own_bytes = GRAPH_BYTES + TRIPLES_BYTES + CAPTURES_BYTES + ARCHIVE_BYTES
    follow_cpus = pages_per_s * (FOLLOW_CPU_S + (FETCH_CPU_S + INDEX_CPU_S) / machines)
    breaks = []
    if own_bytes * pages > 4e12:
        breaks.append(f"disk: {own_bytes * pages / 1e12:,.0f} TB on each machine")
    if follow_cpus > 8:
        breaks.append(f"processors: {follow_cpus:.0f} on each machine")
    if pages * URLS_PER_PAGE > NODES_MAX:
        breaks.append(f"link graph: {pages * URLS_PER_PAGE / NODES_MAX:.0f} times its most nodes")
    if segments_per_s > 0.7 * appends_per_s:
        breaks.append(f"manifest: {segments_per_s:.0f} appends a second")
    if rows * row_bytes > 100e9:
        breaks.append(f"manifest: {rows * row_bytes / 1e9:,.0f} GB")
    return CrawlGrowth(
        pages, machines, days, pages_per_s, rows,
        manifest_bytes=rows * row_bytes,
        requests_per_page=rows / pages * 2 * (1 + machines),
        log_bytes=pages * ARCHIVE_BYTES,
        mirror_bytes=pages * own_bytes,
        part_bytes=pages * INDEX_BYTES / machines,
        follow_cpus=follow_cpus,
        read_again_s=max(pages * ARCHIVE_BYTES / MIRROR_BYTES_S, pages * FOLLOW_CPU_S),
        breaks=breaks,
    )  # fmt: skip


def run(rows: int) -> Growth:
    server = Postgres(durable=True)
    try:
        address = server.database("growth")
        prepare(address)
        row_bytes = measure_row(address, rows)
        appends = [measure_appends(address, connections) for connections in CONNECTIONS]
    finally:
        server.remove()
    most = max(one.appends_per_s for one in appends)
    queues = [simulate_queue(machines, 1.0 / most) for machines in QUEUES]
    return Growth(row_bytes, appends, queues, [grow(*crawl, row_bytes, most) for crawl in CRAWLS])


def lines(growth: Growth) -> Iterator[str]:
    yield f"a row of the manifest: {growth.row_bytes:.0f} bytes with its indexes"
    for one in growth.appends:
        yield (
            f"{one.connections:4} workers append at once: {one.appends_per_s:,.0f} segments a second,"
            f" p50 {one.p50_ms:.1f} ms, p99 {one.p99_ms:.1f} ms"
        )
    yield f"\nsimulated: {WORKERS} workers a machine, a segment each in {SEGMENT_S:g} s"
    for queue in growth.queues:
        yield (
            f"{queue.machines:4} machines: the head is busy {min(queue.load, 1):.0%},"
            f" p50 {queue.p50_ms:.1f} ms, p99 {queue.p99_ms:.1f} ms"
        )
    yield "\nmultiplied (part: of the index, on one machine; again: what a new machine needs to follow the whole log)"
    yield (
        "     pages  machines  days  pages/s       rows  manifest GB  requests/page  log TB  each TB  part GB"
        "  each CPUs  again h  what breaks"
    )
    for crawl in growth.crawls:
        yield (
            f"{crawl.pages:10.0e}  {crawl.machines:8}  {crawl.days:4}  {crawl.pages_per_s:7,.0f}  {crawl.rows:9.1e}"
            f"  {crawl.manifest_bytes / 1e9:11,.1f}  {crawl.requests_per_page:13.2f}  {crawl.log_bytes / 1e12:6.2f}"
            f"  {crawl.mirror_bytes / 1e12:7.2f}  {crawl.part_bytes / 1e9:7,.0f}  {crawl.follow_cpus:9.2f}"
            f"  {crawl.read_again_s / 3600:7,.1f}  {'; '.join(crawl.breaks) or 'nothing'}"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=200_000)
    parser.add_argument("--json", type=Path, help="file for the figures")
    options = parser.parse_args()
    growth = run(options.rows)
    print("\n".join(lines(growth)))
    if options.json:
        options.json.write_bytes(msgspec.json.format(msgspec.json.encode(growth)))


if __name__ == "__main__":
    main()
