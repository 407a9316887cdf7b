"""The assertions at rest: a table of what must be so, each with what was found."""

import hashlib
import random
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field

import apsw
import tantivy

from benchmarks.fault_injection.log_reader import LogFacts, count_in_links
from benchmarks.fault_injection.machines import Machine
from benchmarks.fault_injection.web_truth import WebTruth
from tarrafa.graph.graph_writer import open_reader
from tarrafa.index import shards
from tarrafa.index.reader import IndexReader
from tarrafa.runtime.data_dir import DataDirectory
from tarrafa.search.request import SearchRequest
from tarrafa.search.scatter_gather import open_local_shard
from tarrafa.search.searcher import Searcher
from tarrafa.testweb.http.request_log import LoggedRequest, measure_politeness

OVERLAP_MIN, QUERIES, TOP = 0.99, 400, 10
SMALL_INDEX, SMALL_OVERLAP_MIN = 2_000, 0.97  # titles count by the mean length of their part: it differs in small ones
TIMER_S = 0.002  # how far apart two processes may read the same instant
DOCUMENTS_MAX = 1_000_000
EXAMPLES = 3
FrontierRows = Mapping[str, tuple[int, int]]  # URL: in-links, newest finished visit


@dataclass
class Assertions:
    """What was asserted, whether it holds, and what was counted."""

    rows: list[tuple[bool, str, str]] = field(default_factory=list)

    def check(self, what: str, holds: bool, found: object) -> None:
        self.rows.append((holds, what, str(found)))
        print(f"{'ok    ' if holds else 'FAILED'}  {what}: {found}", flush=True)

    def check_none(self, what: str, wrong: Collection[object], of: int) -> None:
        shown = f": {sorted(map(str, wrong))[:EXAMPLES]}" if wrong else ""
        self.check(what, not wrong, f"{len(wrong)} of {of:,} wrong{shown}" if wrong else f"{of:,}, none wrong")

    @property
    def failed(self) -> int:
        return sum(not holds for holds, _, _ in self.rows)

    def print_table(self) -> None:
        print("\n| | assertion | found |\n|---|---|---|")
        for holds, what, found in self.rows:
            print(f"| {'yes' if holds else '**NO**'} | {what} | {found} |")


def check_log(found: Assertions, facts: LogFacts, finished: Iterable[tuple[str, int]], newest: FrontierRows) -> None:
    """Log and frontier know the same visits."""
    done = set(finished)
    found.check_none("every finished visit is in the log", done - set(facts.numbers), len(done))
    twice = [key for key, count in facts.numbers.items() if count > 1]
    found.check_none("each visit is in the log once", twice, len(facts.numbers))
    unknown = [url for url, number in facts.newest.items() if newest.get(url, (0, -1))[1] != number]
    found.check_none("the newest visit of each URL in the log is finished", unknown, len(facts.newest))


def check_truth(found: Assertions, facts: LogFacts, truth: WebTruth) -> None:
    """What the log says is what the Web says."""
    wanted = {url for url in facts.conclusive if url in truth.reachable_pages and not truth.is_gone(url)}
    found.check_none("pages kept by the log are those that are there", facts.kept ^ wanted, len(wanted))
    # A page that is gone may have been gone already when a visit that was never finished was made again.
    redirects = {url for url, one in facts.conclusive.items() if 300 <= one["status"] < 400}
    fetched = {url for url in facts.kept_once if not truth.is_gone(url)} | redirects
    missing = truth.undiscovered(fetched, set(facts.newest))
    found.check_none("every URL that a page or redirect leads to was visited", missing, len(facts.newest))
    told = {url: len(sources) for url, sources in truth.in_links(facts.out_links).items()}
    wrong = {url for url in told.keys() | facts.in_links.keys() if told.get(url, 0) != facts.in_links.get(url, 0)}
    found.check_none("in-links by the log are those of the Web", wrong, len(told))


def check_in_links(found: Assertions, facts: LogFacts, newest: FrontierRows, nodes: Sequence[DataDirectory]) -> None:
    """Frontier and the graph of every machine have the counts that follow from the log."""
    counts = facts.in_links
    wrong = [url for url, (told, _) in newest.items() if told != counts.get(url, 0)]
    found.check_none("in-links at the frontier are those of the log", wrong, len(newest))
    for data in nodes:
        with closing(open_reader(data)) as connection:
            rows = {str(url): int(str(n)) for url, n in connection.execute("SELECT url, in_links FROM nodes")}
            edges = dict[str, set[str]]()
            sql = "SELECT s.url, d.url FROM edges JOIN nodes s ON s.node = src JOIN nodes d ON d.node = dst"
            for source, target in connection.execute(sql):
                edges.setdefault(str(source), set()).add(str(target))
        wrong = [url for url in rows.keys() | counts.keys() if rows.get(url, 0) != counts.get(url, 0)]
        wrong += [url for url, count in count_in_links(edges).items() if counts.get(url, 0) != count]
        found.check_none(f"in-links in the graph of {data.root.name} are those of the log", set(wrong), len(rows))


def check_politeness(found: Assertions, log: Sequence[LoggedRequest], delay_s: float, truth: WebTruth) -> None:
    hosts = measure_politeness(log)
    crowded = [name for name, one in hosts.items() if one.simultaneous_max > 1]
    found.check_none("no host has two requests at once", crowded, len(hosts))
    early = [f"{name} {one.gap_s_min:.3f} s" for name, one in hosts.items() if one.gap_s_min < delay_s - TIMER_S]
    found.check_none(f"no host is contacted sooner than its delay ({delay_s:g} s)", early, len(hosts))
    asked = {entry.url for entry in log}
    found.check_none("no URL is requested that may not be", truth.not_permitted(asked), len(asked))


def indexed_urls(part: DataDirectory) -> list[str]:
    """The URLs of all documents in a part of the index."""
    snapshot = IndexReader(part).snapshot()
    matches = snapshot.top_matches(tantivy.Query.all_query(), DOCUMENTS_MAX)
    return [snapshot.stored_document(place).url for place in matches.addresses()]


def check_index(found: Assertions, facts: LogFacts, truth: WebTruth, nodes: Sequence[DataDirectory]) -> None:
    places: dict[str, list[str]] = {}
    for data in nodes:
        for part in shards.parts(data):
            for url in indexed_urls(part):
                places.setdefault(url, []).append(f"{data.root.name}/{part.index.name}")
    twice = [f"{url} in {where}" for url, where in places.items() if len(where) > 1]
    found.check_none("no URL is in two parts of the index", twice, len(places))
    found.check_none("the index has the pages that the log keeps", facts.searchable ^ places.keys(), len(places))
    gone = {url for url in facts.kept_once if truth.is_gone(url)}
    found.check_none("no page that was kept and is gone is in the index", gone & places.keys(), len(gone))


def queries(facts: LogFacts, seed: int) -> list[str]:
    """One to three words of titles."""
    rng, titles = random.Random(seed), sorted(set(facts.titles.values()))
    made = set[str]()
    while len(made) < min(QUERIES, len(titles)):
        words = [word for word in re.findall(r"\w+", rng.choice(titles)) if len(word) > 2]
        made.add(" ".join(rng.sample(words, min(len(words), rng.randint(1, 3)))))
    return sorted(made)


def check_search(
    found: Assertions, facts: LogFacts, truth: WebTruth, nodes: Sequence[DataDirectory], whole: DataDirectory, seed: int
) -> None:
    """All machines together answer as one index of the whole log, and find no page that is gone."""
    together, alone = Searcher([open_local_shard(data) for data in nodes]), Searcher.open(whole)
    shared, gone, totals, asked = 0.0, set[str](), 0, queries(facts, seed)
    for text in asked:
        request = SearchRequest(text, n=TOP)
        one, other = together.search(request), alone.search(request)
        ours, theirs = [hit.url for hit in one.hits], [hit.url for hit in other.hits]
        shared += len(set(ours) & set(theirs)) / max(len(theirs), len(ours), 1) if ours or theirs else 1.0
        gone |= {url for url in ours if truth.is_gone(url)}
        totals += one.total != other.total
    overlap, least = shared / len(asked), OVERLAP_MIN if len(facts.searchable) >= SMALL_INDEX else SMALL_OVERLAP_MIN
    what = f"search answers as one index of the whole log (overlap@{TOP}, {least:g} at least)"
    found.check(what, overlap >= least, f"{overlap:.4f} over {len(asked)} queries, {totals} with another total")
    found.check_none("search finds no page that is gone", gone, len(asked))
    titles = {facts.titles[url]: url for url in facts.newest if truth.is_gone(url) and url in facts.titles}
    hits = {
        url for title, url in titles.items() if url in {hit.url for hit in together.search(SearchRequest(title)).hits}
    }
    found.check_none("no page that is gone is found by its title", hits, len(titles))


def check_mirrors(found: Assertions, nodes: Sequence[DataDirectory], digests: tuple[str, str]) -> None:
    """The log is the same two files on every machine, those of the store."""
    wrong = []
    for data in nodes:
        files = sorted(data.archive.glob("*log*.warc.gz"), key=lambda path: ".meta." in path.name)
        mirrored = tuple(hashlib.sha256(path.read_bytes()).hexdigest() for path in files)
        if mirrored != digests:
            wrong.append(data.root.name)
    found.check_none("the mirrors are the bytes of the store", wrong, len(nodes))


def check_verify(found: Assertions, machines: Sequence[Machine], where: Sequence[str]) -> None:
    for machine in machines:
        done = machine.run("verify", "--deep", "--data", str(machine.data.root), *where)
        said = " ".join((done.stdout if done.returncode else done.stdout.splitlines()[-1]).split())
        found.check(f"`tarrafa verify --deep` on {machine.name} is clean", done.returncode == 0, said[-300:])


def sqlite_rows(data: DataDirectory, sql: str) -> list[tuple[object, ...]]:
    with closing(apsw.Connection(str(data.frontier), flags=apsw.SQLITE_OPEN_READONLY)) as connection:
        return list(connection.execute(sql))


Fetch = Callable[[str], list[tuple[object, ...]]]


def frontier_rows(fetch: Fetch) -> tuple[set[tuple[str, int]], dict[str, tuple[int, int]]]:
    """Finished visits that the frontier remembers, and in-links and newest visit of each URL."""
    finished = {
        (str(url), int(str(number)))
        for url, number in fetch("SELECT u.url, v.number FROM visit v JOIN url u USING (host, collection, id)")
    }
    newest = dict[str, int]()
    for url, number in finished:
        newest[url] = max(number, newest.get(url, -1))
    rows = fetch("SELECT url, in_links FROM url")
    return finished, {str(url): (int(str(count)), newest.get(str(url), -1)) for url, count in rows}
