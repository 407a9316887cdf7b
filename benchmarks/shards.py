"""Do several shards answer as one index does, how fast, and how quickly are they made?

    python benchmarks/shards.py [--documents 40000] [--shards 8] [--queries 300]

The same documents are indexed as one and in shards by their hosts' hash. Hosts differ as they do on the Web: by Zipf's
law in size, each with favourite words of its own, and with texts of its own length; so a word that is rare in one shard
is common in another. Questions are one to three words that stand next to each other in some document. Printed is how
many of the first ten hits of one index are among the first ten of the shards: with the statistics of all shards
together, as Tarrafa asks, and with each shard's own; the time of a whole search, everything in this process and over
HTTP; and how long the index takes to be made by one process and by as many as there are processors, in the same run.
"""

import argparse
import os
import random
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

import numpy as np

from tarrafa.archive.warc_writer import WarcWriter
from tarrafa.graph import follower as graph
from tarrafa.index import shards
from tarrafa.index.parallel_rebuild import rebuild_in_parallel
from tarrafa.model import Link, Outcome, Page, VisitRecord
from tarrafa.parse.fingerprint import content_id, fold, simhash
from tarrafa.runtime.data_dir import DataDirectory
from tarrafa.runtime.token import TOKEN_VARIABLE, Token
from tarrafa.search.local_shard import LocalShard
from tarrafa.search.remote_shard import RemoteShard
from tarrafa.search.request import CandidateBlock, SearchRequest, Shard, ShardStatistics
from tarrafa.search.scatter_gather import open_local_shard
from tarrafa.search.searcher import Searcher
from tarrafa.testweb.world.lexicon import lexicon

SEED, COLLECTION, AT = 6, "bench", 1_790_000_000.0
DOCUMENTS_PER_HOST = 100
OWN_SHARE = 0.3  # of a text's words that are drawn by the host's own preferences
WORDS_MEAN, WORDS_MIN = 220, 40
TITLE_WORDS = (3, 12)  # and of a heading
LINKS_PER_PAGE = 8
PER_FILE = 5_000
REACH = 0.97
TEN = 10


def documents(count: int) -> Iterator[VisitRecord]:
    """Always the same for the same count."""
    rng = np.random.default_rng(SEED)
    nouns = np.array([noun.singular for noun in lexicon("pt", SEED).nouns])
    mass = np.cumsum(1 / (np.arange(len(nouns)) + 3.0))
    hosts = max(20, count // DOCUMENTS_PER_HOST)
    host = (hosts ** rng.random(count)).astype(np.int64) - 1
    favourites = [rng.permutation(len(nouns)) for _ in range(hosts)]
    length = WORDS_MEAN * rng.lognormal(0.0, 0.4, hosts)
    for number in range(count):
        size = max(WORDS_MIN, int(length[host[number]] * rng.lognormal(0.0, 0.4)))
        drawn = np.searchsorted(mass, rng.random(size) * mass[-1])
        own = rng.random(size) < OWN_SHARE
        words = nouns[np.where(own, favourites[host[number]][drawn], drawn)].tolist()
        targets = (rng.random(LINKS_PER_PAGE) ** 3 * count).astype(np.int64)
        links = [Link(_url(int(one), int(host[one])), " ".join(words[:2])) for one in targets]
        bounds = rng.integers(*TITLE_WORDS, 2).tolist()
        yield _record(_url(number, int(host[number])), words, bounds, links, AT + number)


def _url(number: int, host: int) -> str:
    return f"http://www.s{host}.br/p/{number}.html"


def _record(url: str, words: list[str], bounds: list[int], links: list[Link], at: float) -> VisitRecord:
    title, heading, text = " ".join(words[: bounds[0]]), " ".join(words[-bounds[1] :]), " ".join(words)
    folded = fold(f"{title}\n{text}")
    page = Page(
        url, title, text, (heading,), tuple(links), "pt", "utf-8",
        content_id=content_id(folded), simhash=simhash(folded),
    )  # fmt: skip
    return VisitRecord(COLLECTION, url, 1, 1, Outcome(200, at, True, "text/html"), page=page)


def archive(data: DataDirectory, count: int) -> None:
    writer = None
    for number, record in enumerate(documents(count)):
        if number % PER_FILE == 0:
            if writer is not None:
                writer.close()
            writer = WarcWriter(data.archive, f"w{number // PER_FILE}", AT)
        assert writer is not None
        writer.append(record, None)
    assert writer is not None
    writer.close()


def questions(count: int, wanted: int) -> list[SearchRequest]:
    """Neighbours of documents all over the collection."""
    rng, found = random.Random(SEED), list[SearchRequest]()
    every = max(1, count // wanted)
    for number, record in enumerate(documents(count)):
        if number % every == 0 and len(found) < wanted:
            assert record.page is not None
            words = record.page.text.split()
            start = rng.randrange(len(words) - 3)
            found.append(SearchRequest(" ".join(words[start : start + rng.randint(1, 3)])))
    return found


class Alone:
    """A shard that does not listen to what the others count."""

    def __init__(self, shard: Shard) -> None:
        self._shard = shard

    def __getattr__(self, name: str) -> object:
        return getattr(self._shard, name)

    def best(self, question: SearchRequest, together: ShardStatistics, limit: int) -> CandidateBlock:
        return self._shard.top_matches(question, self._shard.statistics(question), limit)


def found_by(searcher: Searcher, asked: Sequence[SearchRequest]) -> tuple[list[list[str]], list[float]]:
    """The first ten of each, and how long each took, in ms; everything is asked once before."""
    hits, times = [], []
    for question in asked:
        searcher.search(question)
    for question in asked:
        began = time.perf_counter()
        result = searcher.search(question)
        times.append((time.perf_counter() - began) * 1e3)
        assert not any(shard.trouble for shard in result.shards), result.shards
        hits.append([hit.url for hit in result.hits])
    return hits, times


def overlap(some: list[list[str]], others: list[list[str]]) -> float:
    return float(np.mean([len(set(a) & set(b)) / len(a) for a, b in zip(some, others, strict=True) if a]))


def cpu_s() -> float:
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in used)


def made(data: DataDirectory, into: int, processes: int) -> float:
    """How long it takes to make the index; it is there then."""
    shards.set_layout(data, shards.parse_layout(str(into), "--shards"))
    began, used = time.perf_counter(), cpu_s()
    rebuild_in_parallel(data, processes)
    took, used = time.perf_counter() - began, cpu_s() - used
    print(
        f"  {into} part{'s' * (into > 1)}, {processes} process{'es' * (processes > 1)}: {took:7.1f} s, {used:.1f} CPU-s"
    )
    return took


@contextmanager
def served(data: DataDirectory) -> Iterator[RemoteShard]:
    """`tarrafa serve --as-shard` over some parts, in a process of its own."""
    token = Token(os.urandom(16).hex().encode())
    line = [sys.executable, "-c", "from tarrafa.cli import main; main()", "serve", "--as-shard", "--port", "0"]
    environment = os.environ | {TOKEN_VARIABLE: token.secret.decode()}
    process = subprocess.Popen([*line, "--data", str(data.root)], stdout=subprocess.PIPE, text=True, env=environment)
    assert process.stdout is not None
    try:
        process.stdout.readline()
        yield RemoteShard(process.stdout.readline().split()[-1], token, limit_s=30.0)
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


def halves(data: DataDirectory, folder: Path, of: int) -> list[DataDirectory]:
    """Two data directories that share an archive and a graph, each with half of the parts."""
    found = []
    for number, numbers in enumerate((range(1, of // 2 + 1), range(of // 2 + 1, of + 1))):
        half = DataDirectory(folder / f"half{number}")
        half.create()
        for name in ("archive", "graph"):
            (half.root / name).rmdir()
            (half.root / name).symlink_to(data.root / name)
        shards.set_layout(half, shards.ShardLayout(of, tuple(numbers)))
        for part in shards.parts(half):
            part.index.symlink_to(data.root / "index" / part.part)
        found.append(half)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--documents", type=int, default=40_000)
    parser.add_argument("--shards", type=int, default=8)
    parser.add_argument("--queries", type=int, default=300)
    options = parser.parse_args()
    processors = len(os.sched_getaffinity(0))
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        data = DataDirectory(Path(folder) / "data")
        data.create()
        archive(data, options.documents)
        graph.catch_up(data, lambda name, weights: None)
        asked = questions(options.documents, options.queries)
        print(f"{options.documents:,} documents of {len(set(_hosts(data))):,} hosts, {len(asked)} questions")
        print("making the index again:")
        several = made(data, 1, processors) if processors > 1 else 0.0
        alone = made(data, 1, 1)
        one, one_ms = found_by(Searcher.open(data), asked)
        parts = made(data, options.shards, processors)
        if several:
            print(f"  {processors} processes make one index {alone / several:.2f} x as fast as one,", end=" ")
            print(f"{options.shards} parts {alone / parts:.2f} x")
        sizes = [LocalShard(part).documents() for part in shards.parts(data)]
        print(f"documents in each shard: {', '.join(f'{size:,}' for size in sizes)}")
        remote = [stack.enter_context(served(half)) for half in halves(data, Path(folder), options.shards)]
        apart = [LocalShard(part) for part in shards.parts(data)]
        kinds: dict[str, Searcher] = {
            f"{options.shards} parts, one process": Searcher([open_local_shard(data)]),
            f"{options.shards} shards, one process": Searcher(apart),
            "two machines over HTTP": Searcher(remote),
            "each by its own statistics": Searcher([Alone(shard) for shard in apart]),  # type: ignore[misc]
        }
        print(f"{'':30} {'overlap@10':>10} {'p50 ms':>8} {'p99 ms':>8}")
        print(f"{'one index':30} {1.0:10.3f} {np.percentile(one_ms, 50):8.2f} {np.percentile(one_ms, 99):8.2f}")
        overlaps = []
        for name, searcher in kinds.items():
            hits, times = found_by(searcher, asked)
            overlaps.append(overlap(one, hits))
            print(f"{name:30} {overlaps[-1]:10.3f} {np.percentile(times, 50):8.2f} {np.percentile(times, 99):8.2f}")
    good = min(overlaps[:-1]) >= REACH
    print("ok" if good else f"below the reach of {REACH}")
    sys.stdout.flush()
    sys.exit(0 if good else 1)


def _hosts(data: DataDirectory) -> Iterator[int]:
    from tarrafa.archive.warc_reader import follow
    from tarrafa.parse.url import host_key

    return (hash(host_key(entry.record.url)) for entry in follow(data.archive, {}))


if __name__ == "__main__":
    main()
