"""How fast is a search, and what does it cost to be so fast?

    python benchmarks/search.py                                  200,000 documents, beside SQLite's FTS5
    python benchmarks/search.py --documents 609212 --alone       as many as the classic system had, without a peer

The documents are those of benchmarks/documents.py, made and added one by one, with links among them in a real graph.
Timed is the whole of `Searcher.search`: the query language, ranking, in-links from the graph, copies collapsed, ten
hits with snippets, and the count. Beside it stands the bare index: tantivy asked for the same words of the catch-all
field, ten best and the count, and nothing else.

FTS5 (apsw's SQLite; title and body, unicode61 without accents, contentless, optimized after loading) is asked for the
ten best rowids by its bm25 and, apart, for the count: no snippets, no links, no stems. Its file is in the page cache.

The questions are nouns picked from documents at random, so that frequent words are frequent here too; phrases are runs
of two to four words of a sentence, the worst ones those that stand most often in a sample, two to four words long.
"""

import argparse
import json
import os
import random
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from itertools import islice, pairwise
from pathlib import Path
from typing import Any

import apsw
import numpy as np
from msgspec.structs import replace
from tantivy import Occur
from tantivy import Query as Said

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks.documents import SEED, Text, texts, title_of, url_of
from tarrafa.archive.writer import Writer
from tarrafa.data import DataDirectory
from tarrafa.graph import follower as graph
from tarrafa.index import schema
from tarrafa.index.analysis import terms, words
from tarrafa.index.documents import Standing, document
from tarrafa.model import Link, Outcome, Page, Record
from tarrafa.parse.fingerprint import content_id, fold, simhash
from tarrafa.parse.url import host_name
from tarrafa.search.question import Question as Asked
from tarrafa.search.searcher import Searcher
from tarrafa.web.chance import draw
from tarrafa.web.prose import PT_FRAMES, PT_PATTERNS
from tarrafa.web.words import lexicon

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
        found = terms(" ".join(self.words), "pt").split()
        if self.kind in (PHRASE, WORST):
            return Said.phrase_query(schema.SCHEMA, schema.ALL, list(found))
        occurs = {ANY: [Occur.Should], ALL: [Occur.Must], NOT: [Occur.Must, Occur.MustNot]}[self.kind]
        parts = [Said.term_query(schema.SCHEMA, schema.ALL, term) for term in found]
        return Said.boolean_query([(occurs[min(n, len(occurs) - 1)], part) for n, part in enumerate(parts)])


def questions(count: int) -> dict[str, list[Question]]:
    """The same ones every time, from the same documents every time."""
    rng, nouns = random.Random(SEED), _nouns()
    sample = list(islice(texts(min(count, SAMPLED)), SAMPLED))
    asked: dict[str, list[Question]] = {kind: [] for kind in TIMES_FASTER}
    for number in range(QUESTIONS):
        text = rng.choice(sample)
        said = [word for word in words(text.body) if word.lower() in nouns]
        asked[ANY].append(Question(ANY, tuple(rng.sample(said, 2 + number % 2))))
        asked[ALL].append(Question(ALL, tuple(rng.sample(said, 2 + number % 2))))
        asked[NOT].append(Question(NOT, tuple(rng.sample(said, 2))))
        asked[PHRASE].append(Question(PHRASE, _run(rng, text, nouns, 2 + number % 3)))
    asked[WORST] = _worst(sample)
    return asked


def _nouns() -> frozenset[str]:
    """Those that fill the patterns, and do not stand in them anyway."""
    always = {word for pattern, _ in (*PT_PATTERNS, *PT_FRAMES) for word in words(pattern.lower())}
    return frozenset(form for noun in lexicon("pt", SEED).nouns for form in (noun.singular, noun.plural)) - always


def _run(rng: random.Random, text: Text, nouns: frozenset[str], length: int) -> tuple[str, ...]:
    """Words that stand together, a noun among them, none twice in a row (that is no phrase for FTS5's peers)."""
    while True:
        sentence = words(rng.choice(text.body.split("\n")))
        if len(sentence) > length:
            start = rng.randrange(len(sentence) - length)
            run = tuple(sentence[start : start + length])
            if any(word.lower() in nouns for word in run) and all(a != b for a, b in pairwise(run)):
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
    make_s: float = 0.0  # terms and fingerprints of a page
    add_s: float = 0.0
    commit_s: float = 0.0
    merge_s: float = 0.0  # waiting for it at the end; until then it goes on beside the rest
    graph_s: float = 0.0
    index_bytes: int = 0
    segments: int = 0


def record_of(text: Text, count: int) -> Record:
    """The page as it would have been archived. Old pages are linked to most."""
    folded = fold(f"{text.title}\n{text.body}")
    chances = [(draw(SEED, _LINKS, 0, text.number, n) & 0xFFFFFF) / (1 << 24) for n in range(LINKS_PER_PAGE)]
    targets = [int(count * chance**3) for chance in chances]
    links = tuple(Link(url_of(target), title_of(target)) for target in targets)
    page = Page(text.url, text.title, text.body, (text.heading,), links, "pt", "utf-8",
                content_id=content_id(folded), simhash=simhash(folded))  # fmt: skip
    return Record(COLLECTION, text.url, 1, 1, Outcome(200, AT + text.number, True, "text/html"), page=page)


def make(data: DataDirectory, count: int) -> Made:
    """The index, by the product's own documents and a writer like its own; and the graph, from an archive."""
    made, clock = Made(count), time.perf_counter
    data.create()
    index = schema.open_index(data, create=True)
    writer, archive = index.writer(HEAP_BYTES, 1), Writer(data.archive, "bench", AT)
    for number, text in enumerate(texts(count), 1):
        record = record_of(text, count)
        assert record.page is not None
        begun = clock()
        found = document(record, record.page, host_name(record.url), Standing([text.title]))
        ready = clock()
        writer.add_document(found)
        made.make_s += ready - begun
        made.add_s += clock() - ready
        archive.append(replace(record, page=replace(record.page, text="")), None)
        if number % COMMIT_DOCUMENTS == 0 or number == count:
            begun = clock()
            writer.commit()
            made.commit_s += clock() - begun
            archive.seal()()
            print(f"\r{number:,} documents", end="", file=sys.stderr, flush=True)
    archive.close()
    begun = clock()
    writer.wait_merging_threads()
    merged = clock()
    graph.rebuild(data)
    made.merge_s, made.graph_s = merged - begun, clock() - merged
    print("", file=sys.stderr)
    index.reload()
    made.segments = index.searcher().num_segments
    made.index_bytes = sum(file.stat().st_size for file in schema.folder(data).iterdir())
    return made


def load_fts5(path: Path, count: int) -> apsw.Connection:
    """The same documents in SQLite, as it likes them best: one transaction, optimized, in memory as far as it helps."""
    connection = apsw.Connection(str(path))
    for pragma in ("journal_mode = OFF", "synchronous = OFF", "cache_size = -400000", "mmap_size = 8000000000"):
        connection.execute(f"PRAGMA {pragma}")
    connection.execute(
        "CREATE VIRTUAL TABLE pages USING fts5(title, body, content = '', tokenize = 'unicode61 remove_diacritics 2')"
    )
    with connection:
        connection.executemany(
            "INSERT INTO pages(rowid, title, body) VALUES (?, ?, ?)",
            ((text.number, text.title, text.body) for text in texts(count)),
        )
    connection.execute("INSERT INTO pages(pages) VALUES ('optimize')")
    return connection


Ask = Callable[[Question], int]  # how many match


def ask_ours(data: DataDirectory, offset: int = 0) -> Ask:
    searcher = Searcher.at(data)
    return lambda question: searcher.search(Asked(question.ours(), HITS, offset)).total


def ask_bare(data: DataDirectory) -> Ask:
    searcher = schema.open_index(data).searcher()

    def ask(question: Question) -> int:
        total: int = searcher.search(question.bare(), limit=HITS, count=True).count  # type: ignore[attr-defined]
        return total

    return ask


def ask_fts5(connection: apsw.Connection) -> Ask:
    def ask(question: Question) -> int:
        said = (question.fts5(),)
        connection.execute("SELECT rowid FROM pages WHERE pages MATCH ? ORDER BY rank LIMIT 10", said).fetchall()
        ((total,),) = connection.execute("SELECT count(*) FROM pages WHERE pages MATCH ?", said).fetchall()
        assert isinstance(total, int)
        return total

    return ask


@dataclass(frozen=True)
class Times:
    """How long the questions of a kind took, in seconds, and how many documents matched (the median)."""

    p50: float
    p99: float
    matches: int


def timed(ask: Ask, asked: Sequence[Question]) -> Times:
    seconds, matches = [], []
    for question in asked:
        begun = time.perf_counter()
        matches.append(ask(question))
        seconds.append(time.perf_counter() - begun)
    return Times(float(np.quantile(seconds, 0.5)), float(np.quantile(seconds, 0.99)), int(np.median(matches)))


def forget_pages(data: DataDirectory) -> None:
    """Out of the page cache with it, so that the first question of a kind finds nothing in memory."""
    for path in (*data.index.rglob("*"), *data.graph.rglob("*")):
        if path.is_file():
            with path.open("rb") as file:
                os.fsync(file.fileno())
                os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def ms(seconds: float) -> str:
    return f"{1000 * seconds:,.2f}"


def beside_fts5(data: DataDirectory, count: int, asked: dict[str, list[Question]], folder: Path) -> dict[str, Any]:
    """Each kind asked of all three, one after the other, the second time counts."""
    print("loading SQLite FTS5 ...", file=sys.stderr)
    begun = time.perf_counter()
    asks = {"ours": ask_ours(data), "tantivy": ask_bare(data), "fts5": ask_fts5(load_fts5(folder / "fts5.db", count))}
    took_s, size = time.perf_counter() - begun, (folder / "fts5.db").stat().st_size
    print(f"SQLite FTS5: {took_s:.0f} s to load, {size / count:,.0f} bytes per document")
    print(f"{'ms':<14}{'ours p50':>10}{'p99':>9}{'tantivy p50':>13}{'p99':>9}{'FTS5 p50':>11}{'p99':>10}"
          f"{'faster p50':>12}{'p99':>7}{'at least':>10}{'match':>10}{'of FTS5':>9}")  # fmt: skip
    found: dict[str, Any] = {}
    for kind, some in asked.items():
        for ask in (asks["ours"], asks["tantivy"]):
            timed(ask, some)
        ours, bare, peer = (timed(ask, some) for ask in asks.values())
        faster, faster_99 = peer.p50 / ours.p50, peer.p99 / ours.p99
        print(f"{kind:<14}{ms(ours.p50):>10}{ms(ours.p99):>9}{ms(bare.p50):>13}{ms(bare.p99):>9}{ms(peer.p50):>11}"
              f"{ms(peer.p99):>10}{faster:>12.1f}{faster_99:>7.1f}{TIMES_FASTER[kind]:>10}{ours.matches:>10,}"
              f"{peer.matches:>9,}{'' if faster >= TIMES_FASTER[kind] else '  TOO SLOW'}", flush=True)  # fmt: skip
        found[kind] = {"ours": asdict(ours), "tantivy": asdict(bare), "fts5": asdict(peer), "faster": faster}
    return found


def alone(data: DataDirectory, asked: dict[str, list[Question]]) -> dict[str, Any]:
    """Each kind with nothing in memory, and again."""
    print(f"{'ms':<14}{'first p50':>10}{'p99':>9}{'second p50':>12}{'p99':>9}{'p99 at most':>13}{'tantivy p50':>13}"
          f"{'p99':>9}{'match':>10}")  # fmt: skip
    found: dict[str, Any] = {}
    for kind, some in asked.items():
        forget_pages(data)
        ours = ask_ours(data)
        first, second, bare = timed(ours, some), timed(ours, some), timed(ask_bare(data), some)
        print(f"{kind:<14}{ms(first.p50):>10}{ms(first.p99):>9}{ms(second.p50):>12}{ms(second.p99):>9}"
              f"{ms(P99_S_MAX[kind]):>13}{ms(bare.p50):>13}{ms(bare.p99):>9}{second.matches:>10,}"
              f"{'' if second.p99 <= P99_S_MAX[kind] else '  TOO SLOW'}", flush=True)  # fmt: skip
        found[kind] = {"first": asdict(first), "second": asdict(second), "tantivy": asdict(bare)}
    return found


def by_depth(data: DataDirectory, asked: dict[str, list[Question]]) -> dict[str, Any]:
    """The same questions for later and later hits."""
    print("ms p50 (p99) by depth of the results:  " + "  ".join(f"{depth:>16}" for depth in DEPTHS))
    found: dict[str, Any] = {}
    for kind, some in asked.items():
        times = {depth: timed(ask_ours(data, depth), some) for depth in DEPTHS}
        cells = [f"{ms(one.p50)} ({ms(one.p99)})" for one in times.values()]
        print(f"{kind:<39}" + "  ".join(f"{cell:>16}" for cell in cells), flush=True)
        found[kind] = {depth: asdict(one) for depth, one in times.items()}
    return found


def show_made(made: Made) -> None:
    each = {name: getattr(made, f"{name}_s") for name in ("make", "add", "commit", "merge", "graph")}
    phases = ", ".join(f"{name} {seconds:,.1f} s" for name, seconds in each.items())
    print(f"{made.documents:,} documents: {phases}; {made.index_bytes / made.documents:,.0f} bytes per document in "
          f"{made.segments} segments")  # fmt: skip


def made_in(folder: Path, count: int) -> tuple[DataDirectory, Made]:
    """The index of these documents; one that an earlier run left there is taken as it is."""
    data, note = DataDirectory(folder / "data"), folder / "made.json"
    if note.exists():
        made = Made(**json.loads(note.read_text()))
        if made.documents != count:
            raise SystemExit(f"{folder}: holds {made.documents:,} documents, not {count:,}; use another --keep")
        return data, made
    made = make(data, count)
    note.write_text(json.dumps(asdict(made)))
    return data, made


def main() -> None:
    parser = argparse.ArgumentParser(description="How fast is a search?")
    parser.add_argument("--documents", type=int, default=200_000)
    parser.add_argument("--alone", action="store_true", help="without SQLite, but the first time and in depth too")
    parser.add_argument("--keep", type=Path, help="a folder for the index, to be used again")
    parser.add_argument("--json", type=Path, help="write the numbers there as well")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="tarrafa-search-") as temporary:
        folder = options.keep or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        data, made = made_in(folder, options.documents)
        show_made(made)
        asked, found = questions(options.documents), {"made": asdict(made)}
        if options.alone:
            found |= {"alone": alone(data, asked), "depth": by_depth(data, asked)}
        else:
            found["beside"] = beside_fts5(data, options.documents, asked, Path(temporary))
        if options.json:
            options.json.write_text(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
