"""How fast is a search, and what does it cost to be so fast?

    python benchmarks/search.py                                  200,000 documents, beside SQLite's FTS5
    python benchmarks/search.py --documents 609212 --alone       as many as the classic system had, without a peer
    python benchmarks/search.py --parts 2 ...                    the index in so many parts, each with a processor

The documents are those of benchmarks/documents.py, made and added one by one, with links among them in a real graph.
Timed is the whole of `Searcher.search`: the query language, ranking, in-links and ranks from the graph, copies and
sites collapsed, other spellings where little is found, ten hits with snippets, and the count. "best" is what of that
its index does: the ten best matches as search ranks them, links included, and the count; no hits are made of them.
"tantivy" is asked for the same words of the catch-all field, ten best and the count, and nothing else.

FTS5 (apsw's SQLite; URL, title and body, unicode61 without accents, optimized after loading) is asked for the ten best
by its bm25, with URL, title and snippet, and, apart, for the count; "rowids" are the ten best and the count alone. No
links, no stems, no copies. Its file is in the page cache and mapped into memory. Compared are indexes, "best" with
"rowids", and hits with hits.

The questions are words picked from documents at random, so that frequent words are frequent here too; those that stand
in more than half of the documents, in any form, are left out. (FTS5 then takes about what the design measured of it: a
hundred milliseconds for any of two or three words, and five to nine for all of them; `--common 0.05` asks with rarer
ones, which cost it next to nothing.) Phrases are runs of two to four
words of a sentence, one of those words among them; the worst ones are those that stand most often in a sample.
`--cpu` counts processor time instead of time, for machines that others use as well.
"""

import argparse
import json
import os
import random
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Container, Sequence
from dataclasses import asdict, dataclass
from itertools import islice, pairwise
from pathlib import Path
from typing import Any

import apsw
import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))

from msgspec.structs import replace
from tantivy import Document, Occur
from tantivy import Query as Said

from benchmarks.documents import SEED, Text, texts, title_of, url_of
from tarrafa.archive.warc_writer import WarcWriter
from tarrafa.graph import follower as graph
from tarrafa.index import schema, shards
from tarrafa.index.document_fields import LinkStanding, fill_document
from tarrafa.index.text_analysis import analyze, analyzer_for, words
from tarrafa.model import Link, Outcome, Page, VisitRecord
from tarrafa.parse.fingerprint import content_id, fold, simhash
from tarrafa.runtime.data_dir import DataDirectory
from tarrafa.search.query_builder import COMMON_SHARE, SoughtPhrase
from tarrafa.search.request import SearchRequest as Asked
from tarrafa.search.scatter_gather import open_local_shard
from tarrafa.search.searcher import Searcher
from tarrafa.testweb.world.hash_random import draw

COLLECTION = "bench"
AT = 1_790_000_000.0
LINKS_PER_PAGE = 4
HEAP_BYTES = 256 << 20
COMMIT_DOCUMENTS = 20_000
QUESTIONS, WORST_PER_LENGTH = 200, 5
SAMPLED = 2_000
DEPTHS = (0, 100, 500, 990)
HITS = 10
_LINKS = 70  # purpose of chance

ANY, ALL, NOT, PHRASE, WORST = "any", "all", "+a -b", "phrase", "worst phrase"
TIMES_FASTER = {ANY: 20, ALL: 5, NOT: 5, PHRASE: 3, WORST: 5}  # than FTS5, at least
P99_S_MAX = {ANY: 0.02, ALL: 0.02, NOT: 0.02, PHRASE: 0.02, WORST: 0.15}  # alone


@dataclass(frozen=True, slots=True)
class Question:
    """What is asked, in each one's own words."""

    kind: str
    words: tuple[str, ...]

    def ours(self) -> str:
        if self.kind == NOT:
            return f"+{self.words[0]} -{self.words[1]}"
        if self.kind == ALL:
            return " ".join(f"+{word}" for word in self.words)
        return " ".join(self.words) if self.kind == ANY else f'"{" ".join(self.words)}"'

    def fts5(self) -> str:
        quoted = [f'"{word}"' for word in self.words]
        if self.kind in (PHRASE, WORST):
            return f'"{" ".join(self.words)}"'
        return {ANY: " OR ", ALL: " AND ", NOT: " NOT "}[self.kind].join(quoted)

    def bare(self) -> Said:
        found = analyze(" ".join(self.words), "pt").split()
        if self.kind in (PHRASE, WORST):
            return SoughtPhrase.of(schema.ALL, tuple(found)).query()
        occurs = {ANY: [Occur.Should], ALL: [Occur.Must], NOT: [Occur.Must, Occur.MustNot]}[self.kind]
        parts = [Said.term_query(schema.SCHEMA, schema.ALL, term) for term in found]
        return Said.boolean_query([(occurs[min(n, len(occurs) - 1)], part) for n, part in enumerate(parts)])


def questions(count: int, common: float = COMMON_SHARE) -> dict[str, list[Question]]:
    """The same ones every time, from the same documents every time."""
    rng = random.Random(SEED)
    sample = list(islice(texts(min(count, SAMPLED)), SAMPLED))
    forms = analyzer_for("pt")
    held = Counter(form for text in sample for form in set(map(forms, words(text.body))))
    known = {word for text in sample for word in words(text.body.lower())}
    telling = {word for word in known if held[forms(word)] <= common * len(sample)}
    asked: dict[str, list[Question]] = {kind: [] for kind in TIMES_FASTER}
    for number in range(QUESTIONS):
        text = rng.choice(sample)
        said = [word for word in words(text.body.lower()) if word in telling]
        asked[ANY].append(Question(ANY, _some(rng, said, 2 + number % 2)))
        asked[ALL].append(Question(ALL, _some(rng, said, 2 + number % 2)))
        asked[NOT].append(Question(NOT, _some(rng, said, 2)))
        asked[PHRASE].append(Question(PHRASE, _run(rng, text, telling, 2 + number % 3)))
    asked[WORST] = _worst(sample)
    return asked


def _some(rng: random.Random, said: list[str], count: int) -> tuple[str, ...]:
    """So many different ones."""
    while True:
        some = tuple(rng.sample(said, count))
        if len(set(some)) == count:
            return some


def _run(rng: random.Random, text: Text, telling: Container[str], length: int) -> tuple[str, ...]:
    """Words that stand together, a telling one among them, none twice in a row (that is no phrase for FTS5's peers)."""
    while True:
        sentence = words(rng.choice(text.body.split("\n")))
        if len(sentence) > length:
            start = rng.randrange(len(sentence) - length)
            run = tuple(sentence[start : start + length])
            if any(word.lower() in telling for word in run) and all(a != b for a, b in pairwise(run)):
                return run


def _worst(sample: Sequence[Text]) -> list[Question]:
    counted: dict[int, Counter[tuple[str, ...]]] = {2: Counter(), 3: Counter(), 4: Counter()}
    for text in sample:
        for sentence in text.body.lower().split("\n"):
            said = words(sentence)
            for length, counter in counted.items():
                counter.update(zip(*(said[n:] for n in range(length)), strict=False))
    most = [run for counter in counted.values() for run, _ in counter.most_common(WORST_PER_LENGTH)]
    return [Question(WORST, run) for run in most]


@dataclass
class Made:
    """What making the index took, in seconds by phase, and what came of it."""

    documents: int = 0
    parts: int = 1
    make_s: float = 0.0  # terms and fingerprints of a page
    add_s: float = 0.0
    commit_s: float = 0.0
    merge_s: float = 0.0  # waiting for it at the end; until then it goes on beside the rest
    graph_s: float = 0.0
    index_bytes: int = 0
    segments: int = 0


def record_of(text: Text, count: int) -> VisitRecord:
    """The page as it would have been archived. Old pages are linked to most."""
    folded = fold(f"{text.title}\n{text.body}")
    chances = [(draw(SEED, _LINKS, 0, text.number, n) & 0xFFFFFF) / (1 << 24) for n in range(LINKS_PER_PAGE)]
    targets = [int(count * chance**3) for chance in chances]
    links = tuple(Link(url_of(target), title_of(target)) for target in targets)
    page = Page(text.url, text.title, text.body, (text.heading,), links, "pt", "utf-8",
                content_id=content_id(folded), simhash=simhash(folded))  # fmt: skip
    return VisitRecord(COLLECTION, text.url, 1, 1, Outcome(200, AT + text.number, True, "text/html"), page=page)


def make(data: DataDirectory, count: int, parts: int) -> Made:
    """The index, by the product's own documents and writers like its own; and the graph, from an archive."""
    made, clock = Made(count, parts), time.perf_counter
    data.create()
    shards.set_layout(data, shards.ShardLayout(parts, tuple(range(1, parts + 1))))
    indexes = [schema.open_index(part, create=True) for part in shards.parts(data)]
    writers, archive = (
        [index.writer(HEAP_BYTES // parts, 1) for index in indexes],
        WarcWriter(data.archive, "bench", AT),
    )
    for number, text in enumerate(texts(count), 1):
        record = record_of(text, count)
        assert record.page is not None
        begun = clock()
        found = Document()
        fill_document(found, record, record.page, text.site, LinkStanding([text.title]))
        ready = clock()
        writers[shards.shard_number(text.url, parts) - 1].add_document(found)
        made.make_s += ready - begun
        made.add_s += clock() - ready
        archive.append(replace(record, page=replace(record.page, text="")), None)
        if number % COMMIT_DOCUMENTS == 0 or number == count:
            begun = clock()
            for writer in writers:
                writer.commit()
            made.commit_s += clock() - begun
            archive.prepare_commit()()
            print(f"\r{number:,} documents", end="", file=sys.stderr, flush=True)
    archive.close()
    begun = clock()
    for writer in writers:
        writer.wait_merging_threads()
    merged = clock()
    graph.rebuild(data)
    made.merge_s, made.graph_s = merged - begun, clock() - merged
    print("", file=sys.stderr)
    for index in indexes:
        index.reload()
        made.segments += index.searcher().num_segments
    made.index_bytes = sum(file.stat().st_size for file in data.index.rglob("*") if file.is_file())
    return made


def load_fts5(path: Path, count: int) -> apsw.Connection:
    """The same documents in SQLite, as it likes them best: one transaction, optimized, mapped into memory."""
    is_new, connection = not path.exists(), apsw.Connection(str(path))
    for pragma in ("journal_mode = OFF", "synchronous = OFF", "cache_size = -400000", "mmap_size = 8000000000"):
        connection.execute(f"PRAGMA {pragma}")
    if is_new:
        print("loading SQLite FTS5 ...", file=sys.stderr)
        tokens = "tokenize = 'unicode61 remove_diacritics 2'"
        with connection:
            connection.execute(f"CREATE VIRTUAL TABLE pages USING fts5(url UNINDEXED, title, body, {tokens})")
            rows = ((text.number, text.url, text.title, text.body) for text in texts(count))
            connection.executemany("INSERT INTO pages(rowid, url, title, body) VALUES (?, ?, ?, ?)", rows)
        connection.execute("INSERT INTO pages(pages) VALUES ('optimize')")
    return connection


Ask = Callable[[Question], int]  # how many match


def ask_ours(data: DataDirectory, offset: int = 0) -> Ask:
    searcher = Searcher.open(data)
    return lambda question: searcher.search(Asked(question.ours(), n=HITS, offset=offset)).total


def ask_best(data: DataDirectory) -> Ask:
    shard = open_local_shard(data)

    def ask(question: Question) -> int:
        asked = Asked(question.ours(), n=HITS)
        return shard.top_matches(asked, shard.statistics(asked), HITS).total

    return ask


def ask_bare(data: DataDirectory) -> Ask:
    searchers = [schema.open_index(part).searcher() for part in shards.parts(data)]

    def ask(question: Question) -> int:
        said = question.bare()
        return sum(one.search(said, limit=HITS, count=True).count for one in searchers)  # type: ignore[attr-defined]

    return ask


def ask_fts5(connection: apsw.Connection, shown: str) -> Ask:
    best = f"SELECT {shown} FROM pages WHERE pages MATCH ? ORDER BY rank LIMIT {HITS}"

    def ask(question: Question) -> int:
        said = (question.fts5(),)
        connection.execute(best, said).fetchall()
        counted: Any = connection.execute("SELECT count(*) FROM pages WHERE pages MATCH ?", said).get
        return int(counted)

    return ask


@dataclass(frozen=True)
class Times:
    """How long the questions of a kind took, in seconds, and how many documents matched (the median)."""

    p50: float
    p99: float
    matches: int

    def over(self, other: "Times") -> tuple[float, float]:
        """How many times as long as the other, p50 and p99."""
        return self.p50 / other.p50, self.p99 / other.p99

    def __format__(self, width: str) -> str:
        return f"{1000 * self.p50:>{width},.2f}{1000 * self.p99:>10,.2f}"


@dataclass(frozen=True)
class Trial:
    """Puts the questions of every kind, and prints a table."""

    data: DataDirectory
    asked: dict[str, list[Question]]
    clock: Callable[[], float]

    def timed(self, ask: Ask, kind: str) -> Times:
        seconds, matches = [], []
        for question in self.asked[kind]:
            begun = self.clock()
            matches.append(ask(question))
            seconds.append(self.clock() - begun)
        return Times(float(np.quantile(seconds, 0.5)), float(np.quantile(seconds, 0.99)), int(np.median(matches)))

    def beside_fts5(self, connection: apsw.Connection) -> dict[str, Any]:
        """All asked one after the other; the second time counts."""
        asks = {
            "best": ask_best(self.data),
            "rowids": ask_fts5(connection, "rowid"),
            "hits": ask_ours(self.data),
            "FTS5": ask_fts5(connection, "url, title, snippet(pages, 2, '', '', '…', 32)"),
            "tantivy": ask_bare(self.data),
        }
        columns = "".join(f"{name:>10}{'':>10}" for name in list(asks)[1:])
        print(f"{'ms p50, p99':<14}{'best':>8}{'':>10}{columns}{'index':>8}{'p99':>8}{'hits':>8}{'p99':>8}"
              f"{'at least':>10}{'matches':>10}{'in FTS5':>10}")  # fmt: skip
        found: dict[str, Any] = {}
        for kind in self.asked:
            for ask in asks.values():
                self.timed(ask, kind)
            times = {name: self.timed(ask, kind) for name, ask in asks.items()}
            ours, peer, least = times["best"], times["rowids"], TIMES_FASTER[kind]
            ratios = {name: times[its].over(times[name]) for name, its in (("best", "rowids"), ("hits", "FTS5"))}
            slow = [name for name, (p50, _) in ratios.items() if p50 < least]
            print(f"{kind:<14}{ours:8}" + "".join(f"{one:10}" for one in list(times.values())[1:]) +
                  "".join(f"{ratio:>7.1f}x" for pair in ratios.values() for ratio in pair) +
                  f"{least:>9}x{ours.matches:>10,}{peer.matches:>10,}{'  TOO SLOW: ' if slow else ''}{', '.join(slow)}",
                  flush=True)  # fmt: skip
            found[kind] = {"faster": ratios} | {name: asdict(one) for name, one in times.items()}
        return found

    def alone(self) -> dict[str, Any]:
        """With nothing in memory, and again."""
        print(f"{'ms p50, p99':<14}{'first':>8}{'':>10}{'second':>10}{'':>10}{'at most':>10}{'tantivy':>10}{'':>10}"
              f"{'matches':>10}")  # fmt: skip
        found: dict[str, Any] = {}
        for kind in self.asked:
            forget_pages(self.data)
            ours, bare = ask_ours(self.data), ask_bare(self.data)
            first, second, peer = self.timed(ours, kind), self.timed(ours, kind), self.timed(bare, kind)
            most = P99_S_MAX[kind]
            print(f"{kind:<14}{first:8}{second:10}{1000 * most:>10,.0f}{peer:10}{second.matches:>10,}"
                  f"{'' if second.p99 <= most else '  TOO SLOW'}", flush=True)  # fmt: skip
            found[kind] = {"first": asdict(first), "second": asdict(second), "tantivy": asdict(peer)}
        return found

    def by_depth(self) -> dict[str, Any]:
        """The same questions for later and later hits."""
        print(f"{'ms p50, p99':<14}" + "".join(f"{f'from {depth}':>10}{'':>10}" for depth in DEPTHS))
        found: dict[str, Any] = {}
        for kind in self.asked:
            times = {depth: self.timed(ask_ours(self.data, depth), kind) for depth in DEPTHS}
            print(f"{kind:<14}" + "".join(f"{one:10}" for one in times.values()), flush=True)
            found[kind] = {depth: asdict(one) for depth, one in times.items()}
        return found


def forget_pages(data: DataDirectory) -> None:
    """Out of the page cache with it, so that the first question of a kind finds nothing in memory."""
    for path in (*data.index.rglob("*"), *data.graph.rglob("*")):
        if path.is_file():
            with path.open("rb") as file:
                os.fsync(file.fileno())
                os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def made_in(folder: Path, count: int, parts: int) -> tuple[DataDirectory, Made]:
    """The index of these documents; one that an earlier run left there is taken as it is."""
    data, note = DataDirectory(folder / "data"), folder / "made.json"
    if note.exists():
        made = Made(**json.loads(note.read_text()))
        if (made.documents, made.parts) != (count, parts):
            raise SystemExit(f"{folder}: holds {made.documents:,} documents in {made.parts} parts; use another folder")
        return data, made
    made = make(data, count, parts)
    note.write_text(json.dumps(asdict(made)))
    return data, made


def show_made(made: Made) -> None:
    each = {name: getattr(made, f"{name}_s") for name in ("make", "add", "commit", "merge", "graph")}
    phases = ", ".join(f"{name} {seconds:,.1f}" for name, seconds in each.items())
    print(f"{made.documents:,} documents, indexed in s: {phases}; {made.index_bytes / made.documents:,.0f} bytes per "
          f"document, {made.segments} segments in {made.parts} parts")  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description="How fast is a search?")
    parser.add_argument("--documents", type=int, default=200_000)
    parser.add_argument("--alone", action="store_true", help="without SQLite, but the first time and in depth too")
    parser.add_argument("--parts", type=int, default=1, help="of the index")
    parser.add_argument(
        "--common", type=float, default=COMMON_SHARE, help="the share of documents that a word may be in"
    )
    parser.add_argument("--cpu", action="store_true", help="count processor time")
    parser.add_argument("--keep", type=Path, help="a folder for index and peer, to be used again")
    parser.add_argument("--json", type=Path, help="write the numbers there as well")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="tarrafa-search-") as temporary:
        folder = options.keep or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        data, made = made_in(folder, options.documents, options.parts)
        show_made(made)
        clock = time.process_time if options.cpu else time.perf_counter
        trial, found = Trial(data, questions(options.documents, options.common), clock), {"made": asdict(made)}
        if options.alone:
            found |= {"alone": trial.alone(), "depth": trial.by_depth()}
        else:
            found["beside"] = trial.beside_fts5(load_fts5(folder / "fts5.db", options.documents))
        if options.json:
            options.json.write_text(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
