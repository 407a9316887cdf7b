"""How long does a survey of the link graph take, how much memory, and how quick are its answers?

    python benchmarks/graph.py [--nodes 1000000] [--links 10000000] [--data DIR]

A synthetic graph is written as the follower writes it: half of the URLs visited, out-links and popularity by power
laws, half of the links inside their host, one in twenty nofollow. Then, in one run: PageRank from nothing and from the
ranks of before (a hundredth of the links exchanged), beside the textbook's power iteration in numpy (and in scipy where
it is installed) to the same tolerance; a whole survey, as the follower has it made; and the questions that pages ask.
`--data` keeps the graph for the next run.
"""

import argparse
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from tarrafa.graph import rank_file
from tarrafa.graph.graph_writer import open_reader, open_writer, path_of
from tarrafa.graph.pagerank import DAMPING, TOLERANCE, LinkMatrix, pagerank
from tarrafa.graph.ranking_process import read_graph
from tarrafa.graph.reader import GraphReader
from tarrafa.graph.sites import SitePaging, SiteReader
from tarrafa.model import UrlId
from tarrafa.parse.url import host_id, host_key, url_id
from tarrafa.runtime.data_dir import DataDirectory

NODES_PER_HOST = 50
ASKED = 300  # times each question is put
REACH_RATIO = 3.0  # of the textbook in numpy

Integers = NDArray[np.int64]
Spread = Callable[[NDArray[np.float64]], NDArray[np.float64]]


def url_of(node: int, host: int) -> str:
    return f"http://www{host % 3}.site{host // 3}.com.br/section-{node % 97}/page-{node}.html"


def hosts_of(nodes: int) -> Integers:
    """Hosts by Zipf's law: the largest has a few hundredths of all pages."""
    rng = np.random.default_rng(1)
    hosts = max(2, nodes // NODES_PER_HOST)
    return (hosts ** rng.random(nodes)).astype(np.int64) - 1


def links_between(nodes: int, links: int, hosts: Integers) -> tuple[Integers, Integers]:
    """Sources in order, and targets. As many on a page as a power law says; half of them inside the host."""
    rng = np.random.default_rng(2)
    visited = max(1, nodes // 2)
    shape = np.minimum(rng.pareto(1.5, visited) + 0.1, 200.0)
    sources = np.repeat(np.arange(1, visited + 1), np.maximum(1, shape * links / shape.sum()).astype(np.int64))
    targets = 1 + (nodes * rng.random(len(sources)) ** 3).astype(np.int64)
    order = np.argsort(hosts, kind="stable")  # the members of each host, one host after the other
    starts = np.concatenate(([0], np.cumsum(np.bincount(hosts))))
    here = hosts[sources - 1]
    sizes = starts[here + 1] - starts[here]
    near = 1 + order[starts[here] + (sizes * rng.random(len(sources)) ** 2).astype(np.int64)]
    return sources, np.where(rng.random(len(sources)) < 0.5, near, np.minimum(targets, nodes))


def make(data: DataDirectory, nodes: int, links: int) -> None:
    hosts = hosts_of(nodes)
    sources, targets = links_between(nodes, links, hosts)
    visited, rng = int(sources[-1]), random.Random(3)
    places = np.arange(len(sources)) - np.searchsorted(sources, sources)
    with closing(open_writer(data)) as connection, connection:
        connection.execute("DROP INDEX edges_by_target; INSERT INTO collections (collection, name) VALUES (1, 'bench')")
        connection.executemany(
            "INSERT INTO nodes (node, id, collection, url, host, depth, visit, status, title)"
            " VALUES (?, ?, 1, ?, ?, 1, ?, ?, ?)",
            (
                (
                    node, url_id(url), url, host_id(host_key(url)), int(node <= visited) - 1,
                    (200 if rng.random() < 0.9 else 404) if node <= visited else None, "uma página",
                )
                for node, url in ((node, url_of(node, host)) for node, host in enumerate(hosts.tolist(), 1))
            ),
        )  # fmt: skip
        connection.executemany(
            "INSERT INTO edges VALUES (?, ?, ?, 'veja mais', ?, ?)",
            (
                (source, place, target, *(("nofollow", None) if rng.random() < 0.05 else ("", 1)))
                for source, place, target in zip(sources.tolist(), places.tolist(), targets.tolist(), strict=True)
            ),
        )
        connection.execute("CREATE INDEX edges_by_target ON edges (dst, src, hops)")
        connection.execute(
            "UPDATE nodes SET in_links = (SELECT count(DISTINCT src) FROM edges WHERE dst = node AND src <> node)"
        )
        connection.execute("UPDATE counters SET value = ? WHERE name = 'edges'", (len(sources),))
        connection.execute("UPDATE counters SET value = ? WHERE name = 'turned'", (len(sources) + nodes,))


def textbook(links: LinkMatrix, spread: Spread) -> int:
    """The power iteration with its dangling mass, to the same tolerance; the sweeps that it takes."""
    size, dangling = links.nodes, links.links_of == 0
    share = DAMPING / np.maximum(links.links_of, 1)
    found = np.full(size, 1.0 / size)
    for sweep in range(1, 500):
        new = spread(found * share) + (DAMPING * found[dangling].sum() + 1 - DAMPING) / size
        change = float(np.abs(new - found).sum())
        found = new
        if change <= TOLERANCE:
            return sweep
    return 500


def exchanged(links: LinkMatrix) -> LinkMatrix:
    """A hundredth of the links lead from somewhere else now."""
    rng, sources = np.random.default_rng(4), links.sources.copy()
    some = rng.integers(0, len(sources), len(sources) // 100)
    sources[some] = rng.permutation(sources[some])
    return LinkMatrix(links.pointers, sources, np.bincount(sources, minlength=links.nodes).astype(np.int32))


def timed(run: Callable[[], object]) -> float:
    began = time.process_time()
    run()
    return time.process_time() - began


def compare(links: LinkMatrix, blocks: NDArray[np.int32]) -> bool:
    pagerank(
        LinkMatrix(links.pointers[:3], links.sources[:0], links.links_of[:2]), blocks[:2], compiled=True
    )  # compiles
    cold = pagerank(links, blocks, compiled=True)
    ours_s = timed(lambda: pagerank(links, blocks, compiled=True))
    print(f"PageRank, {links.nodes:,} nodes, {len(links.sources):,} links that count:")
    print(f"  from nothing            {ours_s:6.2f} CPU-s  {cold.sweeps:3} sweeps")
    near = exchanged(links)
    warm = pagerank(near, blocks, cold.ranks, compiled=True)
    warm_s = timed(lambda: pagerank(near, blocks, cold.ranks, compiled=True))
    print(f"  from those of before    {warm_s:6.2f} CPU-s  {warm.sweeps:3} sweeps  (1 % of the links exchanged)")
    same = pagerank(near, blocks, compiled=True).ranks
    print(f"  largest difference to a cold start {float(np.max(np.abs(warm.ranks / same - 1))):.1e}")
    targets = np.repeat(np.arange(links.nodes), np.diff(links.pointers))
    numpy_s = timed(lambda: peer(targets, links, "numpy"))
    print(f"  {numpy_s / ours_s:.1f} x as fast as numpy's bincount, which reads no better order and follows all mass")
    try:
        scipy_s = timed(lambda: peer(targets, links, "scipy"))
        print(f"  {scipy_s / ours_s:.1f} x as fast as scipy's CSR")
    except ImportError:
        print("  scipy is not installed here: not compared")
    return numpy_s / ours_s >= REACH_RATIO


def peer(targets: Integers, links: LinkMatrix, kind: str) -> None:
    began = time.process_time()

    def spread(gives: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.bincount(targets, gives[links.sources], minlength=links.nodes).astype(np.float64, copy=False)

    if kind == "scipy":
        from scipy.sparse import csr_array

        shape = (links.nodes, links.nodes)
        matrix = csr_array((np.ones(len(links.sources)), links.sources, links.pointers), shape=shape)
        sweeps = textbook(links, matrix.__matmul__)
    else:
        sweeps = textbook(links, spread)
    print(f"  textbook, {kind:6}        {time.process_time() - began:6.2f} CPU-s  {sweeps:3} sweeps")


SURVEY = """
import sys, time
from pathlib import Path
from tarrafa.runtime.data_dir import DataDirectory
from tarrafa.graph.ranking_process import compute_rankings
def memory_mb():
    lines = Path("/proc/self/status").read_text().splitlines()
    return {key: int(value.split()[0]) / 1024 for key, _, value in (line.partition(":") for line in lines)
            if key in ("VmHWM", "RssFile")}
empty = memory_mb()["VmHWM"]
assert compute_rankings(DataDirectory(Path(sys.argv[1]))) is not None
most = memory_mb()
print(f"{time.process_time():.1f} CPU-s with all that is loaded; {most['VmHWM']:.0f} MB at most, of it {empty:.0f}",
      f"before it began and about {most['RssFile']:.0f} of files mapped")
"""


def survey_whole(data: DataDirectory) -> None:
    """In a process of its own, as the follower has it made; twice, the second from the ranks of the first."""
    for name in ("from nothing", "once more"):
        said = subprocess.run(
            [sys.executable, "-c", SURVEY, str(data.root)], capture_output=True, text=True, check=True
        ).stdout
        stated = rank_file.read_header(data)
        assert stated is not None
        print(f"survey, {name}: {stated.took_s:.1f} s; {said.strip()}")
    sizes = {name: (data.graph / name).stat().st_size / 1e6 for name in ("graph.sqlite", "ranks.f32", "sites.sqlite")}
    print("on the disk: " + ", ".join(f"{name} {size:,.0f} MB" for name, size in sizes.items()))


def ask(data: DataDirectory, nodes: int) -> None:
    """The questions of pages and of search, in milliseconds."""
    reader, sites, rng, hosts = GraphReader(data), SiteReader(data), random.Random(5), hosts_of(nodes)

    def some() -> list[str]:
        return [url_of(node, int(hosts[node - 1])) for node in (rng.randint(1, nodes) for _ in range(100))]

    ids = [[url_id(url) for url in some()] for _ in range(20)]
    popular, largest = url_of(1, int(hosts[0])), "site0.com.br"
    questions: dict[str, Callable[[], object]] = {
        "ranks and in-links of 100 URLs": lambda: reader.standings(rng.choice(ids)),
        "links of a page": lambda: reader.neighbours(some()[0]),
        "links of the best known page": lambda: reader.neighbours(popular),
        "its in-links from the last on": lambda: reader.incoming(popular, limit=50, offset=total - 50),
        "a site": lambda: sites.site(f"site{rng.randint(0, nodes // NODES_PER_HOST // 3)}.com.br"),
        "the largest site": lambda: sites.site(largest),
        "its list of sites, far down": lambda: sites.site(
            largest, paging=SitePaging(in_offset=1_000, out_offset=1_000)
        ),
    }
    total = reader.incoming(popular)[1]
    whole = sites.site(largest)
    assert whole is not None
    print(f"best known page: {total:,} in-links; largest site: {whole.known:,} URLs, {whole.in_total:,} in-sites")
    print(f"{'questions':32} {'p50 ms':>8} {'p99 ms':>8}")
    for name, question in questions.items():
        times = []
        for _ in range(ASKED):
            began = time.perf_counter()
            question()
            times.append((time.perf_counter() - began) * 1e3)
        print(f"{name:32} {np.percentile(times, 50):8.2f} {np.percentile(times, 99):8.2f}")
    few: list[UrlId] = ids[0][:10]
    assert set(reader.standings(few)) == set(few)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, default=1_000_000)
    parser.add_argument("--links", type=int, default=10_000_000)
    parser.add_argument("--data", type=Path)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        data = DataDirectory(options.data or Path(folder) / "data")
        data.create()
        if not path_of(data).exists():
            began = time.monotonic()
            make(data, options.nodes, options.links)
            print(f"a graph of {options.nodes:,} URLs is written ({time.monotonic() - began:.0f} s)")
        with closing(open_reader(data)) as connection:
            began = time.process_time()
            found = read_graph(connection, data.graph)
            print(f"read from SQLite into arrays: {time.process_time() - began:.1f} CPU-s, {found.edges:,} links")
        assert isinstance(found.links, LinkMatrix), "a larger graph is for benchmarks/pagerank.py"
        fast = compare(found.links, np.zeros(found.links.nodes, np.int32))
        size = found.links.nodes
        del found
        rank_file.path_of(data).unlink(missing_ok=True)
        survey_whole(data)
        ask(data, size)
    print("ok" if fast else f"below the reach of {REACH_RATIO:g} x numpy")
    sys.stdout.flush()
    sys.exit(0 if fast else 1)


if __name__ == "__main__":
    main()
