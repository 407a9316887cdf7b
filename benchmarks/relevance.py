"""Does the page that somebody looks for come first?

    python benchmarks/relevance.py [--only pira | --only framed | --only help]

Portuguese sets of known items: a question, and the page that answers it.

*pira*: 833 questions about 309 abstracts (conformance data, see tests/conformance_data.py), without titles or links.
*framed*: the same as pages of ten sites, each with the menu of its site before it, and behind it a list of ten links
with the first words of other abstracts, told apart as parsing does.
*help*: the LibreOffice help in Brazilian Portuguese, 2,560 pages with titles, headings and links. The entries of its
index are the questions, the pages that they lead to (three at most) the answers. It is Debian's package
libreoffice-help-pt-br, fetched by apt-get into the user's cache folder; where it cannot be had, this part is skipped.

Both go through the product as a crawl would bring them (archive, graph, index, `Searcher`), copies not collapsed, once
as it is and once with the words added that go with its best results (`expand`).
Beside it, on the same pages: plain BM25 with Snowball stems; tantivy out of the box (its default tokenizer, title and
body, its own query parser), and with its Portuguese stemmer; SQLite's FTS5. Then the parts of our ranking one after the
other, said to tantivy directly. Printed for each: MRR (of the first answer among the first 100 hits), success@10 (an
answer among the first ten), nDCG@10.
"""

import argparse
import html
import json
import math
import random
import re
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import apsw
import numpy as np
import Stemmer
import tantivy
from msgspec.structs import replace
from numpy.typing import NDArray
from tantivy import Filter, Occur, TextAnalyzerBuilder, Tokenizer
from tantivy import Query as Said

sys.path.insert(0, str(Path(__file__).parents[1]))

from tests.conformance_data import CONFORMANCE_DIR

from benchmarks.debian_packages import NotAvailable, unpacked
from tarrafa.archive.warc_writer import WarcWriter
from tarrafa.errors import QueryError
from tarrafa.graph import follower as graph
from tarrafa.index import follower as index
from tarrafa.index.text_analysis import analyze, words
from tarrafa.model import Outcome, Page, VisitRecord
from tarrafa.parse import fingerprint
from tarrafa.parse.page import parse
from tarrafa.runtime.data_dir import DataDirectory
from tarrafa.search.request import SearchRequest
from tarrafa.search.searcher import Searcher

PACKAGE = "libreoffice-help-pt-br"
HELP = "http://help.test/"
COLLECTION = "relevance"
AT = 1_790_000_000.0
FIRST, DEPTH = 10, 100  # hits that are looked at; all of them only where the answer is not among the first
ANSWERS_MAX = 3
FRAMED_SITES, MENU_LINKS, LISTED_LINKS, LISTED_WORDS = 10, 25, 10, 12
HELP_MRR_MIN, HELP_SUCCESS_MIN = 0.67, 0.87

Ranking = list[int]  # numbers of pages, the best first
Contestant = Callable[[str, int], Ranking]  # a question, and how many hits at most


@dataclass(frozen=True)
class Known:
    """Pages, and questions with the numbers of the pages that answer them."""

    name: str
    pages: list[Page]
    questions: list[tuple[str, frozenset[int]]]


def pira() -> Known | None:
    place = CONFORMANCE_DIR / "relevance" / "pira-pt"
    if not place.exists():
        print(f"pira: skipped, {place} is absent (TARRAFA_CONFORMANCE says where the conformance data is)")
        return None
    documents = [json.loads(line) for line in (place / "docs.jsonl").read_text(encoding="utf-8").splitlines()]
    asked = [json.loads(line) for line in (place / "queries.jsonl").read_text(encoding="utf-8").splitlines()]
    numbers = {document["id"]: number for number, document in enumerate(documents)}
    answers: dict[str, set[int]] = {}
    for line in (place / "qrels.tsv").read_text(encoding="utf-8").splitlines():
        question, document, _ = line.split("\t")
        answers.setdefault(question, set()).add(numbers[document])
    pages = [_plain_page(f"http://pira.test/{one['id']}", one["title"], one["text"]) for one in documents]
    return Known("pira", pages, [(one["text"], frozenset(answers[one["id"]])) for one in asked])


def _plain_page(url: str, title: str, text: str) -> Page:
    folded = fingerprint.fold(f"{title}\n{text}")
    return Page(url, title, text, language="pt", content_id=fingerprint.content_id(folded),
                simhash=fingerprint.simhash(folded), content_spans=((0, len(text)),))  # fmt: skip


def framed() -> Known | None:
    known = pira()
    if known is None:
        return None
    rng, texts = random.Random(7), [page.text for page in known.pages]
    words_of_all = [word for text in texts for word in text.split()]
    menus = ["\n".join(" ".join(rng.choices(words_of_all, k=rng.randint(1, 3))) for _ in range(MENU_LINKS))
             for _ in range(FRAMED_SITES)]  # fmt: skip
    pages = []
    for number, page in enumerate(known.pages):
        menu = menus[number % FRAMED_SITES]
        listed = "\n".join(" ".join(rng.choice(texts).split()[:LISTED_WORDS]) for _ in range(LISTED_LINKS))
        start = len(menu) + 1
        end = start + len(page.text)
        text = f"{menu}\n{page.text}\n{listed}"
        pages.append(replace(page, text=text, content_spans=((start, end),), template_spans=((0, len(menu)),),
                             link_list_spans=((end + 1, len(text)),)))  # fmt: skip
    return Known("framed", pages, known.questions)


def office_help() -> Known | None:
    try:
        root = unpacked(PACKAGE) / "usr" / "share" / "libreoffice" / "help"
    except NotAvailable as error:
        print(f"help: skipped, {error}")
        return None
    files = sorted((root / "pt-BR" / "text").rglob("*.html"))
    names = {file.relative_to(root).as_posix(): number for number, file in enumerate(files)}
    pages = [_help_page(name, files[number].read_text(encoding="utf-8")) for name, number in names.items()]
    answers: dict[str, set[int]] = {}
    for url, entry in _entries((root / "pt-BR" / "bookmarks.js").read_text(encoding="utf-8")):
        answers.setdefault(entry, set()).add(names[url])
    few = [(entry, frozenset(found)) for entry, found in answers.items() if len(found) <= ANSWERS_MAX]
    return Known("help", pages, few)


def _help_page(name: str, markup: str) -> Page:
    """What a reader sees of it: the title and what is inside #DisplayArea. The rest is menus and scripts."""
    found = re.search(r"<title>(.*?)</title>", markup, re.DOTALL)
    area = markup[markup.index('<div id="DisplayArea"') : markup.index('<div id="SearchFrame">')]
    area = re.sub(r'(href="[^"?#]*)\?[^"#]*', r"\1", area)  # ?DbPAR=WRITER: the same page in another module's colours
    head = f'<head><title>{found[1] if found else ""}</title><base href="{HELP}"></head>'
    whole = f'<!DOCTYPE html><html lang="pt-BR">{head}<body>{area}</body></html>'
    return parse(whole.encode(), HELP + name, "text/html; charset=utf-8")


def _entries(script: str) -> Iterator[tuple[str, str]]:
    """(page, entry) of the index. `A -- b` becomes `a b`; what sends us elsewhere ("veja ...") is no question."""
    for url, text in re.findall(r'\{url:"([^"]*)", app:"[^"]*", text:"((?:[^"\\]|\\.)*)"\}', script):
        entry = html.unescape(re.sub(r"\\(.)", r"\1", text)).lower()
        if not any(re.match(r"\s*(?:veja|consulte|ver)\b", part) for part in re.split(r" -- |,", entry)):
            yield re.split(r"[?#]", url)[0], " ".join(entry.replace(" -- ", " ").split())


# The contestants.


def crawled(known: Known, folder: Path) -> Searcher:
    """As a crawl brings it: archived, then followed by graph and index."""
    data = DataDirectory(folder / "data")
    data.create()
    writer = WarcWriter(data.archive, "bench", AT)
    for page in known.pages:
        writer.append(VisitRecord(COLLECTION, page.url, 1, 1, Outcome(200, AT, True, "text/html"), page=page), None)
    writer.close()
    graph.rebuild(data)
    index.rebuild(data)
    return Searcher.open(data)


def product(known: Known, searcher: Searcher, expand: bool = False) -> Contestant:
    numbers = {page.url: number for number, page in enumerate(known.pages)}

    def ask(question: str, n: int) -> Ranking:
        asked = SearchRequest(question, n, expand=expand, copies=True, crowded=True)
        try:
            return [numbers[hit.url] for hit in searcher.search(asked).hits]
        except QueryError:
            return []

    return ask


def plain_bm25(known: Known) -> Contestant:
    """Lucene's formula (k1 1.2, b 0.75) on the Snowball stems of title and text in one."""
    stem = Stemmer.Stemmer("portuguese").stemWords
    counts = [Counter(stem(words(f"{page.title} {page.text}".lower()))) for page in known.pages]
    lengths = np.array([counter.total() for counter in counts], np.float64)
    norms, postings = 1.2 * (0.25 + 0.75 * lengths / lengths.mean()), dict[str, list[tuple[int, int]]]()
    for number, counter in enumerate(counts):
        for term, times in counter.items():
            postings.setdefault(term, []).append((number, times))

    def ask(question: str, n: int) -> Ranking:
        scores = np.zeros(len(counts))
        for term in dict.fromkeys(stem(words(question.lower()))):
            if found := postings.get(term):
                numbers, times = np.array(found).T
                rarity = math.log(1 + (len(counts) - len(found) + 0.5) / (len(found) + 0.5))
                scores[numbers] += rarity * times / (times + norms[numbers])
        best = np.argsort(-scores, kind="stable")[:n]
        return [int(number) for number in best if scores[number] > 0]

    return ask


def out_of_the_box(known: Known, stemmed: bool) -> Contestant:
    """tantivy as its readme shows it, or with the one filter more that Portuguese asks for."""
    builder = tantivy.SchemaBuilder().add_integer_field("number", fast=True)
    analyzer = TextAnalyzerBuilder(Tokenizer.simple()).filter(Filter.lowercase()).filter(Filter.stemmer("portuguese"))
    for name in ("title", "body"):
        builder.add_text_field(name, tokenizer_name="portuguese" if stemmed else "default")
    found = tantivy.Index(builder.build())
    found.register_tokenizer("portuguese", analyzer.build())
    _fill(found, ({"title": [page.title], "body": [page.text]} for page in known.pages))
    searcher = found.searcher()
    return lambda question, n: _best(searcher, found.parse_query_lenient(question, ["title", "body"])[0], n)


def fts5(known: Known) -> Contestant:
    connection = apsw.Connection(":memory:")
    connection.execute("CREATE VIRTUAL TABLE pages USING fts5(title, body, tokenize = 'unicode61 remove_diacritics 2')")
    rows = ((number, page.title, page.text) for number, page in enumerate(known.pages))
    connection.executemany("INSERT INTO pages(rowid, title, body) VALUES (?, ?, ?)", rows)

    def ask(question: str, n: int) -> Ranking:
        said = " OR ".join(f'"{word}"' for word in words(question))
        sql = "SELECT rowid FROM pages WHERE pages MATCH ? ORDER BY rank LIMIT ?"
        rows: list[tuple[int]] = connection.execute(sql, (said, n)).fetchall() if said else []  # type: ignore[assignment]
        return [number for (number,) in rows]

    return ask


def parts(known: Known) -> Iterator[tuple[str, Contestant]]:
    """Our ranking as it was measured when it was designed, one part after the other."""
    builder = tantivy.SchemaBuilder().add_integer_field("number", fast=True).add_float_field("static", fast=True)
    for name in ("body", "all", "title"):
        builder.add_text_field(name, tokenizer_name="terms")
    layout = builder.build()
    found = tantivy.Index(layout)
    found.register_tokenizer("terms", TextAnalyzerBuilder(Tokenizer.whitespace()).build())
    anchors, ranks = _anchors(known.pages), _page_ranks(known.pages)
    _fill(found, (_weighted(page, anchors[page.url]) for page in known.pages), ranks)
    searcher = found.searcher()

    def asked(
        words_in: str, title_share: float = 0.0, pair_share: float = 0.0, weight: str | None = None
    ) -> Contestant:
        def ask(question: str, n: int) -> Ranking:
            said = analyze(question, "pt").split()
            some = [Said.term_query(layout, words_in, term) for term in dict.fromkeys(said)]
            if title_share:
                titles = [Said.term_query(layout, "title", term) for term in dict.fromkeys(said)]
                some += [Said.boost_query(one, title_share) for one in titles]
            if pair_share:
                pairs = dict.fromkeys(pair for pair in pairwise(said) if pair[0] != pair[1])
                some += [Said.boost_query(Said.phrase_query(layout, "all", list(pair)), pair_share) for pair in pairs]
            return _best(searcher, Said.boolean_query([(Occur.Should, one) for one in some]), n, weight)

        return ask

    yield "body alone", asked("body")
    yield "all (title x8, headings x3, anchors x3)", asked("all")
    yield " + 0.3 title", asked("all", 0.3)
    yield " + 0.3 adjacent pairs, as phrases", asked("all", 0.3, 0.3)
    yield " x (1 + 0.1 ln(1 + N PageRank))", asked("all", 0.3, 0.3, "static")


def _weighted(page: Page, anchors: Sequence[str]) -> dict[str, list[str]]:
    title, body = analyze(page.title, page.language), analyze(page.text, page.language)
    lesser = [analyze(text, page.language) for text in (*page.headings, *anchors[:12])]
    return {"title": [title], "body": [body], "all": [*[title] * 8, *lesser * 3, body]}


def _anchors(pages: Iterable[Page]) -> dict[str, list[str]]:
    """What other pages call each, the most frequent first."""
    said: dict[str, Counter[str]] = {page.url: Counter() for page in pages}
    for page in pages:
        for link in page.links:
            if link.url in said and link.url != page.url and link.anchor.strip():
                said[link.url][link.anchor.strip()] += 1
    return {url: [text for text, _ in sorted(some.items(), key=lambda one: (-one[1], one[0]))]
            for url, some in said.items()}  # fmt: skip


def _page_ranks(pages: Sequence[Page]) -> NDArray[np.float64]:
    """What `weight_by_field` takes, log2(2 + it) being the factor: 1 + 0.1 ln(1 + N PageRank)."""
    numbers, count = {page.url: number for number, page in enumerate(pages)}, len(pages)
    pairs = {(number, numbers[link.url]) for number, page in enumerate(pages) for link in page.links
             if numbers.get(link.url, number) != number}  # fmt: skip
    sources, targets = np.array(sorted(pairs)).T if pairs else np.zeros((2, 0), np.int64)
    ways = np.bincount(sources, minlength=count)
    rank = np.full(count, 1 / count)
    for _ in range(60):
        passed = np.bincount(targets, weights=(rank / np.maximum(ways, 1))[sources], minlength=count)
        rank = 0.15 / count + 0.85 * (passed + rank[ways == 0].sum() / count)
    factors: NDArray[np.float64] = 2 ** (1 + 0.1 * np.log(1 + count * rank)) - 2
    return factors


def _fill(
    found: tantivy.Index, pages: Iterable[dict[str, list[str]]], static: NDArray[np.float64] | None = None
) -> None:
    writer = found.writer(100 << 20, 1)
    for number, fields in enumerate(pages):
        document = tantivy.Document()
        document.add_integer("number", number)
        if static is not None:
            document.add_float("static", float(static[number]))
        for name, values in fields.items():
            for value in values:
                document.add_text(name, value)
        writer.add_document(document)
    writer.commit()
    writer.wait_merging_threads()
    found.reload()


def _best(searcher: tantivy.Searcher, said: Said, n: int, weight: str | None = None) -> Ranking:
    result = searcher.search(said, limit=n, count=False, weight_by_field=weight)
    return [int(number or 0) for number in searcher.fast_field_values("number", [where for _, where in result.hits])]


# The measures.


@dataclass(frozen=True)
class Measured:
    mrr: float
    success: float
    ndcg: float


def measure(known: Known, ask: Contestant) -> Measured:
    """The mean over all questions."""
    each = []
    for question, answers in known.questions:
        ranking = ask(question, FIRST)
        if answers.isdisjoint(ranking):
            ranking = ask(question, DEPTH)
        each.append(_judged(ranking, answers))
    return Measured(*(float(value) for value in np.mean(each, axis=0)))


def _judged(ranking: Ranking, answers: frozenset[int]) -> tuple[float, float, float]:
    places = [place for place, number in enumerate(ranking, 1) if number in answers]
    ideal = sum(1 / math.log2(1 + place) for place in range(1, min(len(answers), 10) + 1))
    gain = sum(1 / math.log2(1 + place) for place in places if place <= 10)
    return (1 / places[0], float(places[0] <= 10), gain / ideal) if places else (0.0, 0.0, 0.0)


def show(known: Known) -> dict[str, Measured]:
    print(f"\n{known.name}: {len(known.pages):,} pages, {len(known.questions):,} questions")
    print(f"{'':<44}{'MRR':>7}{'success@10':>12}{'nDCG@10':>9}")
    found: dict[str, Measured] = {}
    with tempfile.TemporaryDirectory(prefix="tarrafa-relevance-") as folder:
        searcher = crawled(known, Path(folder))
        contestants: list[tuple[str, Contestant]] = [
            ("Tarrafa", product(known, searcher)),
            ("Tarrafa, with words added (expand)", product(known, searcher, expand=True)),
            ("plain BM25, Snowball stems", plain_bm25(known)),
            ("tantivy out of the box", out_of_the_box(known, stemmed=False)),
            ("tantivy, its Portuguese stemmer", out_of_the_box(known, stemmed=True)),
            ("SQLite FTS5, any word", fts5(known)),
            *parts(known),
        ]
        for name, ask in contestants:
            one = found[name] = measure(known, ask)
            print(f"{name:<44}{one.mrr:>7.4f}{one.success:>12.4f}{one.ndcg:>9.4f}", flush=True)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description="Does the page that somebody looks for come first?")
    parser.add_argument("--only", choices=["pira", "framed", "help"])
    options, reached = parser.parse_args(), True
    for name, known_items in (("pira", pira), ("framed", framed)):
        if options.only in (None, name) and (known := known_items()) is not None:
            found = show(known)
            reached &= _told("nDCG@10", found["Tarrafa"].ndcg, found["plain BM25, Snowball stems"].ndcg, "plain BM25")
    if options.only in (None, "help") and (known := office_help()) is not None:
        found = show(known)
        reached &= _told("MRR", found["Tarrafa"].mrr, HELP_MRR_MIN, "wanted")
        reached &= _told("success@10", found["Tarrafa"].success, HELP_SUCCESS_MIN, "wanted")
    sys.exit(0 if reached else 1)


def _told(what: str, ours: float, least: float, whose: str) -> bool:
    print(f"{what} {ours:.4f}, {whose} {least:.4f}: {'reached' if ours >= least else 'NOT REACHED'}")
    return ours >= least


if __name__ == "__main__":
    main()
