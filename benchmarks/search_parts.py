"""Where does the time of a search go, part by part?

    python benchmarks/search_parts.py --keep FOLDER [--documents N] [--kind any|all|http] [--common 0.02]

FOLDER is one that benchmarks/search.py made. Each part is what a function takes without the parts that it calls, in
microseconds, at the median and in the mean over the questions; of each question and part the best of ROUNDS rounds.
Questions are those of benchmarks/search.py; `http`: those of benchmarks/search_http.py, two or three words at random,
some of them required. The first line is without measuring.

The last lines are what nothing in Python can save: tantivy's ten best for the same words and the count, without links,
titles, typed forms or other readings ("bare"); the ten documents, read and decoded; and JSON of what is shown of them.
"""

import argparse
import random
import sys
import time
from collections import defaultdict
from collections.abc import Callable
from functools import wraps
from itertools import pairwise
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks.search import ALL, ANY, HITS, Question, questions
from benchmarks.search_http import some_words
from tarrafa.index import reader, schema
from tarrafa.runtime.data_dir import DataDirectory
from tarrafa.search import local_shard, match_ranking, query_builder, scatter_gather, searcher
from tarrafa.search.duplicates_and_site_diversity import Deduplicator
from tarrafa.search.request import SearchRequest
from tarrafa.search.snippet_kernels import SNIPPET_CHARS_MAX

ROUNDS, HTTP_QUESTIONS = 4, 400
PARTS: list[tuple[Any, str, str]] = [
    (searcher, "parse", "the text parsed"),
    (local_shard, "parse", "the text parsed"),
    (query_builder.QueryBuilder, "build", "tantivy's query built, terms counted"),
    (reader.IndexSnapshot, "top_matches", "tantivy: matches"),
    (reader.IndexSnapshot, "scores", "tantivy: costly neighbours of the best"),
    (match_ranking.MatchRanking, "_with_late_gains", "costly neighbours, Python's part"),
    (reader.IndexSnapshot, "field_values", "fields of matches"),
    (reader.IndexMatches, "columns", "fields of matches"),
    (local_shard.LocalShard, "_standings", "in-links and ranks"),
    (match_ranking.MatchRanking, "_weigh", "present scores"),
    (match_ranking.MatchRanking, "first", "ranking, the rest"),
    (match_ranking, "_with_whole", "matches with some and all words in one order"),
    (match_ranking.WeighedMatches, "candidates", "candidates"),
    (scatter_gather, "merge_blocks", "blocks merged and sorted"),
    (scatter_gather, "rank_block", "blocks merged and sorted"),
    (Deduplicator, "add", "copies"),
    (scatter_gather, "diversify_sites", "sites"),
    (searcher.Searcher, "_correction", "other spellings"),
    (searcher.Searcher, "_pinned", "files looked at"),
    (local_shard.LocalShard, "_context", "files looked at"),
    (scatter_gather._LocalParts, "__call__", "files looked at"),
    (reader.IndexSnapshot, "stored_document", "stored documents"),
    (local_shard, "make_snippets", "snippets"),
    (local_shard.LocalShard, "show", "hits, the rest"),
    (scatter_gather.ScatterGather, "fetch_hits", "hits, the rest"),
    (searcher.Searcher, "search", "all else"),
]


class PartTimes:
    """Measures the functions in PARTS, each without the measured ones that it calls."""

    def __init__(self) -> None:
        self.seconds: defaultdict[str, float] = defaultdict(float)
        self._inner: list[float] = []
        for owner, name, part in PARTS:
            setattr(owner, name, self._measured(getattr(owner, name), part))

    def _measured(self, function: Callable[..., Any], part: str) -> Callable[..., Any]:
        @wraps(function)
        def call(*given: Any, **named: Any) -> Any:
            began = time.perf_counter()
            self._inner.append(0.0)
            try:
                return function(*given, **named)
            finally:
                took = time.perf_counter() - began
                self.seconds[part] += took - self._inner.pop()
                if self._inner:
                    self._inner[-1] += took

        return call


def show_floor(data: DataDirectory, asked: list[Question]) -> None:
    """What tantivy, its stored documents and JSON take alone."""
    index, decode = schema.open_index(data).searcher(), msgspec.msgpack.Decoder(schema.StoredDocument).decode
    parts: dict[str, list[float]] = {"bare tantivy: ten best, and the count": [], "ten documents": [], "JSON": []}
    for question in asked:
        query = question.bare()
        best = [np.inf] * len(parts)
        for _ in range(ROUNDS):
            moments = [time.perf_counter()]
            hits = index.search(query, limit=HITS, count=True).hits
            moments.append(time.perf_counter())
            shown = [decode(index.doc(place).get_first(schema.SHOWN) or b"") for _, place in hits]
            moments.append(time.perf_counter())
            msgspec.json.encode([(one.url, one.title, one.text[:SNIPPET_CHARS_MAX], one.date) for one in shown])
            moments.append(time.perf_counter())
            best = [min(least, after - before) for least, (before, after) in zip(best, pairwise(moments), strict=True)]
        for seconds, least in zip(parts.values(), best, strict=True):
            seconds.append(least)
    for part, seconds in parts.items():
        _show(part, seconds)


def main() -> None:
    parser = argparse.ArgumentParser(description="Where does the time of a search go?")
    parser.add_argument("--keep", type=Path, required=True, help="the folder that benchmarks/search.py has made")
    parser.add_argument("--documents", type=int, default=200_000)
    parser.add_argument("--kind", choices=(ANY, ALL, "http"), default=ALL)
    parser.add_argument("--common", type=float, default=0.5, help="the share of documents that a word may be in")
    options = parser.parse_args()
    asked = questions(options.documents, options.common)
    if options.kind == "http":
        rng = random.Random("parts")
        words = sorted({word for kind in (ALL, ANY) for one in asked[kind] for word in one.words})
        texts = [some_words(rng, words) for _ in range(HTTP_QUESTIONS)]
    else:
        texts = [question.ours() for question in asked[options.kind]]
    search = searcher.Searcher.open(DataDirectory(options.keep / "data"))
    whole = np.full(len(texts), np.inf)
    for _ in range(ROUNDS):
        for number, text in enumerate(texts):
            began = time.perf_counter()
            search.search(SearchRequest(text))
            whole[number] = min(whole[number], time.perf_counter() - began)
    _show("without measuring", list(whole))
    times, best = PartTimes(), defaultdict[str, dict[int, float]](dict)
    for _ in range(ROUNDS):
        for number, text in enumerate(texts):
            times.seconds.clear()
            search.search(SearchRequest(text))
            for part, took in times.seconds.items():
                best[part][number] = min(took, best[part].get(number, np.inf))
    columns = {part: [by_number.get(number, 0.0) for number in range(len(texts))] for part, by_number in best.items()}
    for part, seconds in sorted(columns.items(), key=lambda item: -sum(item[1])):
        _show(part, seconds)
    show_floor(DataDirectory(options.keep / "data"), asked[ALL if options.kind == "http" else options.kind])


def _show(part: str, seconds: list[float]) -> None:
    print(f"{part:<46}{1e6 * float(np.median(seconds)):8.0f}{1e6 * float(np.mean(seconds)):8.0f}")


if __name__ == "__main__":
    main()
