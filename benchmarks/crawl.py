"""How many pages does a CPU-second crawl, and is the synthetic Web fast enough to measure it?

Crawls a synthetic Web of many hosts without delays, everything on (frontier, archive, graph, index), and prints pages
per second, CPU-seconds per 1,000 pages by the whole crawl, and beside it the synthetic Web's own CPU. The Web must be
able to serve at least three times what the crawl asks for, or it is the Web that is measured.

    python benchmarks/crawl.py [--hosts 400] [--pages 12000] [--workers 2]
"""

import argparse
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tarrafa.testweb.http.web_process import start_process
from tarrafa.testweb.world.world import World

COLLECTION = """
name = "bench"
roots = ["{root}"]
[scope]
hosts = ["*.test"]
[politeness]
delay = 0
delay_factor = 0
[network]
connect_to = {{"*.test" = "{connect_to}"}}
suffixes = ["br.test", "pt.test", "com.test"]
"""


def crawl(folder: Path, workers: int, connect_to: str, root: str) -> tuple[float, float, str]:
    """Seconds, CPU-seconds of the command and all its processes, and what it said."""
    file = folder / "bench.toml"
    file.write_text(COLLECTION.format(root=root, connect_to=connect_to))
    command = [sys.executable, "-c", "from tarrafa.cli import main; main()", "crawl", str(file)]
    command += ["--data", str(folder / "data"), "--workers", str(workers)]
    before, started = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu_s = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return time.monotonic() - started, cpu_s, done.stderr


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--hosts", type=int, default=400)
    parser.add_argument("--pages", type=int, default=12_000)
    parser.add_argument("--workers", type=int, default=2)
    options = parser.parse_args()
    world = World(hosts=options.hosts, pages=options.pages)
    with tempfile.TemporaryDirectory() as folder, start_process(world) as web:
        elapsed_s, cpu_s, said = crawl(Path(folder), options.workers, web.connect_to, world.root(1))
        stats = web.stats()
    requests = stats.requests
    print(said.strip())
    crawl_cost, web_cost = cpu_s / requests * 1000, stats.cpu_s / requests * 1000
    print(f"crawl: {requests:,} requests in {elapsed_s:.1f} s ({requests / elapsed_s:,.0f}/s)")
    print(f"CPU-s per 1,000 requests: crawl {crawl_cost:.3f}, synthetic Web {web_cost:.3f}")
    print(f"the Web can serve {crawl_cost / web_cost:.1f} times what a core of crawling asks for (3 needed)")


if __name__ == "__main__":
    main()
