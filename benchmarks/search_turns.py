"""Which of two versions of the source searches faster, and how fast is each beside SQLite's FTS5?

    python benchmarks/search_turns.py OTHER/src --keep FOLDER      this version, another one, and FTS5, in turns

FOLDER is one that benchmarks/search.py made with the same number of documents (`--documents`); a version with another
format of the index has a folder of its own (`--other-keep`). Every question is put to each version in turn, in a
process of its own, and to FTS5; each takes the best of `--rounds` rounds of processor time, so that other work on the
machine counts little. Words of every frequency: questions as in benchmarks/search.py, and with
words that are in at most 5 % and 2 % of the documents ("rarer", "rare").
"""

import argparse
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import IO, Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))

ROUNDS = 3
QUANTILES = (0.5, 0.9, 0.99)
SHARES = {"": 0.5, " rarer": 0.05, " rare": 0.02}
OWN = Path(__file__).parents[1] / "src"


def answer(data: Path) -> None:
    """The child: for each line of questions, the processor time of each search, and what it found."""
    import tarrafa.search.searcher as searching
    from tarrafa.runtime.data_dir import DataDirectory
    from tarrafa.search.request import SearchRequest

    searcher = searching.Searcher.open(DataDirectory(data))
    for line in sys.stdin:
        times, found = [], []
        for text in json.loads(line):
            began = time.thread_time()
            result = searcher.search(SearchRequest(text))
            times.append(time.thread_time() - began)
            found.append([result.total, [[hit.url, hit.score, hit.snippet] for hit in result.hits]])
        print(json.dumps([times, found]), flush=True)


class Version:
    """A process that searches with one version of the source."""

    def __init__(self, source: Path, data: Path) -> None:
        command = [sys.executable, __file__, str(source), "--answer", str(data)]
        child = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=os.environ | {"PYTHONPATH": str(source)},
        )
        assert child.stdin is not None
        assert child.stdout is not None
        self._in: IO[str] = child.stdin
        self._out: IO[str] = child.stdout

    def ask(self, texts: list[str]) -> tuple[list[float], list[Any]]:
        print(json.dumps(texts), file=self._in, flush=True)
        times, found = json.loads(self._out.readline())
        return times, found


def compare(options: argparse.Namespace) -> None:
    from benchmarks.search import ALL, ANY, HITS, NOT, PHRASE, WORST, ask_fts5, load_fts5, questions

    others = options.other_keep or options.keep
    versions = {"other": Version(options.source, others / "data"), "this": Version(OWN, options.keep / "data")}
    peer = ask_fts5(
        load_fts5(options.keep / "fts5.db", options.documents), "url, title, snippet(pages, 2, '', '', '…', 32)"
    )
    print(f"{options.documents:,} documents, {HITS} hits; ms of processor time, p50, p90, p99; times FTS5's p50")
    for name, share in SHARES.items():
        asked = questions(options.documents, share)
        for kind in (ANY, ALL, NOT, PHRASE, WORST) if not name else (ANY, ALL):
            if options.only and kind + name not in options.only:
                continue
            best: dict[str, list[float]] = {}
            found: dict[str, list[Any]] = {}
            texts = [question.ours() for question in asked[kind]]
            for _ in range(options.rounds):
                for version, process in versions.items():
                    times, found[version] = process.ask(texts)
                    best[version] = list(map(min, best.get(version, times), times))
                times = []
                for question in asked[kind]:
                    began = time.thread_time()
                    peer(question)
                    times.append(time.thread_time() - began)
                best["FTS5"] = list(map(min, best.get("FTS5", times), times))
            _show(kind + name, best, sum(map(_alike, found["other"], found["this"])))


def _show(name: str, best: dict[str, list[float]], same: int) -> None:
    columns = (f"{who} " + " ".join(f"{1000 * q:6.2f}" for q in np.quantile(s, QUANTILES)) for who, s in best.items())
    middle = {who: float(np.median(times)) for who, times in best.items()}
    ratios = " ".join(f"{middle['FTS5'] / middle[who]:5.1f}x" for who in ("other", "this"))
    print(
        f"{name:<13}{'   '.join(columns)}   {ratios}   this / other {middle['this'] / middle['other']:.2f}   "
        f"same hits {same}/{len(best['this'])}",
        flush=True,
    )


def _alike(one: list[Any], other: list[Any]) -> bool:
    """The same total, pages and snippets, and the same scores up to the last digits."""
    scores = [abs(a[1] - b[1]) <= 0.0002 for a, b in zip(one[1], other[1], strict=False)]
    return one[0] == other[0] and [h[0::2] for h in one[1]] == [h[0::2] for h in other[1]] and all(scores)


def main() -> None:
    parser = argparse.ArgumentParser(description="Two versions of search, in turns.")
    parser.add_argument("source", type=Path, help="the folder src of the other version")
    parser.add_argument("--keep", type=Path, help="the folder that benchmarks/search.py has made")
    parser.add_argument("--other-keep", type=Path, help="the same for the other version")
    parser.add_argument("--documents", type=int, default=200_000)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--only", nargs="*", help="kinds of questions, such as `all` and `all rare`")
    parser.add_argument("--answer", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.answer:
        answer(options.answer)
    else:
        compare(options)


if __name__ == "__main__":
    main()
