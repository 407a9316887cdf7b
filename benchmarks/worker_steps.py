"""What do a worker's steps between answer and archive cost? In one process, without network, frontier and followers.

Each page passes the steps as in a worker: taken from libcurl in pieces, decoded, judged harmless, parsed, concluded,
archived, its links offered. Processor time in microseconds a page: of each step the fastest of several passes over the
same pages. With `--against SOURCE` another tree's `src` is measured in turns with this one, each turn in a process of
its own, and the ratio of each turn is printed: on a busy machine only that is worth reading. `--functions` prints a
profile instead.

    python -m benchmarks.worker_steps [--workload poor real] [--pages 200] [--turns 5] [--against ../other/src]
"""

import argparse
import cProfile
import os
import pstats
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import msgspec

from benchmarks.answer_file import http_answer
from benchmarks.corpus import corpus_pages, relinked
from benchmarks.crawl_workloads import DOMAIN, WORKLOADS, Site, generated_page

PORT = 20_080
RECEIVED_BYTES = 16 << 10  # libcurl hands over so much at once
COMMIT_PAGES = 50
PASSES = 8
AT = 1_790_000_000.25
ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src"
COLLECTION = f"""
name = "bench"
roots = ["http://h0.{DOMAIN}:{PORT}/"]
[scope]
hosts = ["*.{DOMAIN}"]
[politeness]
delay = 0
delay_factor = 0
[network]
connect_to = {{"*.{DOMAIN}" = "127.0.0.1:{PORT}"}}
suffixes = ["{DOMAIN}"]
"""
SampledPage = tuple[str, bytes]  # URL and body


def sampled_pages(name: str, count: int) -> Iterator[SampledPage]:
    """Pages of a workload, as many as a worker parses by itself (larger ones go to its sandbox)."""
    workload = WORKLOADS[name]
    site = Site(workload, PORT, count)
    if name == "real":
        bodies, _ = corpus_pages(count)
        for number, body in enumerate(bodies):
            yield site.url(number), relinked(body, number, len(bodies), site.url, site.children(number))
        return
    for number in range(count):
        yield site.url(number), generated_page(site, number, count, workload.page_bytes)


class WorkerSteps:
    """The steps, as functions of what the step before returns."""

    def __init__(self, folder: Path) -> None:
        from tarrafa.archive.warc_writer import WarcWriter
        from tarrafa.crawl.scope.collection_loader import load_collection
        from tarrafa.crawl.scope.scope_rules import Admission
        from tarrafa.crawl.worker.committer import LinkCache

        file = folder / "bench.toml"
        file.write_text(COLLECTION)
        self.collection = load_collection(file)
        self.admission = Admission(self.collection)
        self.writer = WarcWriter(folder, "w1", AT)
        self.link_cache = LinkCache()
        self._encode = msgspec.msgpack.Encoder().encode
        self._pending: list[Any] = []

    def visit(self, url: str) -> Any:
        from tarrafa.model import Visit
        from tarrafa.parse.url import host_id, host_key, url_id

        return Visit(1, host_id(host_key(url)), url_id(url), url, 2, 0, 1)

    def run(self, visit: Any, body: bytes, took: dict[str, int]) -> None:
        """All steps of a page; their nanoseconds are added to `took`."""
        from tarrafa.crawl.worker.fetcher import build_request, decode_response
        from tarrafa.crawl.worker.outcome import conclude
        from tarrafa.crawl.worker.parser_with_sandbox import is_harmless, run_parse_job

        def timed(step: str, work: Callable[[], Any]) -> Any:
            began = time.thread_time_ns()
            result = work()
            took[step] = took.get(step, 0) + time.thread_time_ns() - began
            return result

        request = timed("request", partial(build_request, visit.url, self.collection, visit))
        response = timed("answer", partial(self._receive, request, http_answer(body)))
        decoded = timed("decode", partial(decode_response, visit, response, self.collection, self.admission))
        if not timed("harmless", partial(is_harmless, decoded.job)):
            took["left out"] = took.get("left out", 0) + 1
            return
        parsed = timed("parse", partial(run_parse_job, decoded.job, careful=True))
        done = timed(
            "conclude",
            partial(conclude, visit, request, response, self.collection, self.admission, AT, decoded, parsed, None),
        )
        timed("archive", partial(self.writer.append, done.record, done.exchange))
        self._pending.append(done)
        if len(self._pending) >= COMMIT_PAGES:
            timed("links", self._deliver)

    def _receive(self, request: Any, answer: bytes) -> Any:
        from tarrafa.fetch.http_client import CurlResult, Transfer, build_response

        head, _, body = answer.partition(b"\r\n\r\n")
        transfer = Transfer(request, None, None, 0.0, lambda transfer, size: True)  # type: ignore[arg-type]
        for line in [*head.split(b"\r\n"), b""]:
            transfer.take_header(line + b"\r\n")
        for start in range(0, len(body), RECEIVED_BYTES):
            transfer.take_body(body[start : start + RECEIVED_BYTES])
        return build_response(transfer, CurlResult(address="127.0.0.1"), 0.01, 0.0)

    def _deliver(self) -> None:
        new = self.link_cache.filter_new(1, [offer for done in self._pending for offer in done.discovered])
        self._encode(new)
        self.link_cache.remember(1, new)
        self._encode([done.record.outcome for done in self._pending])
        self._pending.clear()


def measure(pages: list[SampledPage]) -> dict[str, float]:
    """Microseconds of each step a page, in the fastest of several passes; the first one fills the memories."""
    from tarrafa.runtime.child_process import collect_garbage_rarely

    passes: list[dict[str, float]] = []
    with tempfile.TemporaryDirectory() as name:
        steps = WorkerSteps(Path(name))
        for _ in range(1 + PASSES):
            collect_garbage_rarely()
            took: dict[str, int] = {}
            for url, body in pages:
                steps.run(steps.visit(url), body, took)
            count = len(pages) - took.pop("left out", 0)
            passes.append({step: nanoseconds / 1000 / count for step, nanoseconds in took.items()})
        steps.writer.close()
    return {step: min(one[step] for one in passes[1:]) for step in passes[0]}


def print_functions(pages: list[SampledPage]) -> None:
    with tempfile.TemporaryDirectory() as name:
        steps = WorkerSteps(Path(name))
        for url, body in pages:
            steps.run(steps.visit(url), body, {})
        with cProfile.Profile() as profile:
            for url, body in pages:
                steps.run(steps.visit(url), body, {})
    pstats.Stats(profile).sort_stats("tottime").print_stats(60)


def measure_tree(source: Path, options: argparse.Namespace, workload: str) -> dict[str, float]:
    """One turn of a tree, in a process of its own."""
    command = [sys.executable, "-m", "benchmarks.worker_steps", "--once", "--workload", workload]
    environment = os.environ | {"PYTHONPATH": f"{source}{os.pathsep}{ROOT}"}
    done = subprocess.run(
        [*command, "--pages", str(options.pages)], env=environment, capture_output=True, check=True, cwd=ROOT
    )
    return msgspec.json.decode(done.stdout, type=dict[str, float])


def compare(options: argparse.Namespace, workload: str) -> None:
    trees = {"this": SOURCE} | ({"other": options.against.resolve()} if options.against else {})
    turns: dict[str, list[dict[str, float]]] = {name: [] for name in trees}
    for number in range(options.turns):
        for name in list(trees)[:: -1 if number % 2 else 1]:
            turns[name].append(measure_tree(trees[name], options, workload))
    print(f"{workload}: us a page, medians of {options.turns} turns")
    for step in [*turns["this"][0], "all"]:
        found = {
            name: statistics.median(sum(turn.values()) if step == "all" else turn[step] for turn in some)
            for name, some in turns.items()
        }
        print(f"  {step:10}" + "".join(f"{name:>8} {value:7.1f}" for name, value in found.items()))
    if options.against:
        pairs = zip(turns["this"], turns["other"], strict=True)
        print("  this / other:", *(f"{sum(this.values()) / sum(other.values()):.3f}" for this, other in pairs))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--workload", nargs="+", choices=["poor", "real"], default=["poor", "real"])
    parser.add_argument("--pages", type=int, default=200)
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--against", type=Path, help="the `src` of another tree")
    parser.add_argument("--functions", action="store_true", help="print where the time goes, by function")
    parser.add_argument("--once", action="store_true", help=argparse.SUPPRESS)  # one turn, as JSON
    options = parser.parse_args()
    for workload in options.workload:
        if options.functions:
            print_functions(list(sampled_pages(workload, options.pages)))
        elif options.once:
            sys.stdout.buffer.write(msgspec.json.encode(measure(list(sampled_pages(workload, options.pages)))))
        else:
            compare(options, workload)


if __name__ == "__main__":
    main()
