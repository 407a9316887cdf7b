"""Measurements of this machine: hardware, storage sizes, indexed documents and search times.

The processor and memory of this machine, the sizes of the files, and the time of a few searches, measured now. The
searches are made of the collection's own words, always the same for the same index: frequent, middling and rare ones,
alone, in pairs, and as phrases from titles. Each runs twice in the index, the second time in warm memory, and is then
read from the result cache, as the search page does it.
"""

import contextlib
import os
import platform
import shutil
from functools import partial
from itertools import pairwise
from pathlib import Path
from statistics import median
from time import perf_counter

from tarrafa.coordinator.node.messages import Machine
from tarrafa.errors import TarrafaError
from tarrafa.index import schema, shards
from tarrafa.index.reader import IndexReader
from tarrafa.report.schema import SearchTime, StoragePart
from tarrafa.runtime.data_dir import DataDirectory
from tarrafa.search.request import SearchRequest
from tarrafa.search.result_cache import SearchResultCache, index_version
from tarrafa.search.searcher import Searcher

PROJECTIONS = ("index", "graph", "triples", "captures")
WORDS_PER_LETTER = 200
LETTERS = "abcdefghijlmnoprstuv"
WORD_CHARS_MIN = 4
WORDS = 12
TITLE_WORDS = 3
CPU_INFO = Path("/proc/cpuinfo")
MODEL_CHARS_MAX = 100


def this_machine(data: DataDirectory) -> Machine:
    """The present machine. Its load at this moment says nothing of the crawl, so it is left out: the samples of the
    crawl give that.
    """
    page, disk, cores = os.sysconf("SC_PAGE_SIZE"), shutil.disk_usage(data.root), os.cpu_count() or 1
    memory, free = page * os.sysconf("SC_PHYS_PAGES"), page * os.sysconf("SC_AVPHYS_PAGES")
    load, (model, speed_mhz) = os.getloadavg()[0], _processor()
    system = f"{platform.system()} {platform.release()}"
    return Machine(cores, speed_mhz, min(load / cores, 1.0), load, memory, free, disk.total, disk.free, model, system)


def _processor() -> tuple[str, float]:
    """Its model and its speed in MHz, as far as the system reports them."""
    try:
        lines = CPU_INFO.read_text(errors="replace").splitlines()
    except OSError:
        lines = []
    fields = {key.strip(): value.strip() for key, _, value in (line.partition(":") for line in reversed(lines))}
    speed = fields.get("cpu MHz", "")
    model = fields.get("model name") or platform.processor()
    return model[:MODEL_CHARS_MAX], float(speed) if speed.replace(".", "", 1).isdigit() else 0.0


def storage_sizes(data: DataDirectory) -> list[StoragePart]:
    """The sizes of the files, by purpose. A file with several names (snapshots are hard links) counts once."""
    kinds = {"archive": "data", "metadata": "data", "frontier": "data"} | dict.fromkeys(PROJECTIONS, "index")
    sizes, counted = dict.fromkeys((*kinds, "other"), 0), set[tuple[int, int]]()
    for folder, _, names in os.walk(data.root):
        for path in (Path(folder, name) for name in names):
            with contextlib.suppress(OSError):  # a log or a segment that was just removed
                is_elsewhere = path.parent == data.archive  # there links lead to files on other disks
                file = path.stat() if is_elsewhere else path.lstat()
                if (file.st_dev, file.st_ino) not in counted:
                    counted.add((file.st_dev, file.st_ino))
                    sizes[_purpose(data, path)] += file.st_size
    return [StoragePart(name, kinds.get(name, "other"), size) for name, size in sizes.items()]


def _purpose(data: DataDirectory, path: Path) -> str:
    if path.is_relative_to(data.archive):
        return "metadata" if path.name.endswith(".meta.warc.gz") else "archive"
    if path.parent == data.root:
        return "frontier" if path.name.startswith(data.frontier.name) else "other"
    folder = path.relative_to(data.root).parts[0]
    return folder if folder in PROJECTIONS else "other"


def search_times(data: DataDirectory, collection: str) -> list[SearchTime]:
    """Empty, if there is nothing to search for."""
    try:
        words = _words(data)
        if not words:
            return []
        searcher = Searcher.open(data)
        cache = SearchResultCache(searcher.search, partial(index_version, data))
        kinds = {"word": words, "pair": [f"{a} {b}" for a, b in pairwise(words)]}
        found = [_time_queries(kind, texts, searcher, cache, collection) for kind, texts in kinds.items()]
        phrases = _phrases(words, searcher, collection)
        return [*found, _time_queries("phrase", phrases, searcher, cache, collection)] if phrases else found
    except TarrafaError:
        return []


def _words(data: DataDirectory) -> list[str]:
    """Words of the vocabulary, from the most frequent to the rarest."""
    counts: dict[str, int] = {}
    for part in shards.parts(data):
        if schema.exists(part):
            snapshot = IndexReader(part).snapshot()
            for letter in LETTERS:
                for word, count in snapshot.vocabulary_entries(letter, WORDS_PER_LETTER):
                    if len(word) >= WORD_CHARS_MIN and word.isalpha():
                        counts[word] = counts.get(word, 0) + count
    ordered = sorted(counts, key=lambda word: (-counts[word], word))
    step = max(1, len(ordered) // WORDS)
    return ordered[::step][:WORDS]


def _phrases(words: list[str], searcher: Searcher, collection: str) -> list[str]:
    titles = [
        hit.title for word in words for hit in searcher.search(SearchRequest(word, n=1, collection=collection)).hits
    ]
    texts = [" ".join(word for word in title.split() if word.isalpha()) for title in titles]
    return list(dict.fromkeys(f'"{" ".join(words)}"' for text in texts if len(words := text.split()[:TITLE_WORDS]) > 1))


def _time_queries(kind: str, texts: list[str], searcher: Searcher, cache: SearchResultCache, name: str) -> SearchTime:
    """A commit of the index empties the cache: a question that is then no longer there is not counted as cached."""
    first, again, cached = list[float](), list[float](), list[float]()
    for text in texts:
        request = SearchRequest(text, collection=name)
        for taken, answer in ((first, searcher.search), (again, cache.search), (cached, cache.cached)):
            began = perf_counter()
            if answer(request) is not None:
                taken.append(perf_counter() - began)
    known = (median(cached), max(cached)) if cached else ()
    return SearchTime(kind, len(texts), median(first), max(first), median(again), max(again), *known)
