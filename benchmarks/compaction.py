"""What does a compaction cost, beside warcio reading the same files once?

An archive of some versions of each page, in several pairs of files; it is merged (rule `all`), and then half of the
versions go (`last 2`). What counts is processor time. warcio reads every record, and writes nothing.
"""

import argparse
import random
import resource
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from unittest.mock import patch

sys.path.insert(0, str(Path(__file__).parents[1]))

import tests.captures.archived_site as site
from warcio.archiveiterator import ArchiveIterator

from tarrafa.archive.warc_writer import WarcExchange, WarcWriter, sha1_digest
from tarrafa.captures import follower as captures
from tarrafa.config.sections import ArchiveConfig, Collection
from tarrafa.crawl.compaction import compaction
from tarrafa.crawl.compaction.retention_plan import RetentionPlan
from tarrafa.graph import follower as graph
from tarrafa.index import follower as index
from tarrafa.model import Outcome, Page, VisitRecord
from tarrafa.runtime.data_dir import DataDirectory
from tarrafa.takedown import LegalHolds

VERSIONS, WORDS, VOCABULARY = 4, 1_200, 5_000
HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n"
FIRST_AT = site.FIRST_AT - 900 * site.DAY_S


def write(data: DataDirectory, visits: int) -> None:
    rng, writer = random.Random(1), WarcWriter(data.archive, "w1", FIRST_AT)
    words = ["".join(rng.choices("abcdefghijklmnopqrstuvwxyz", k=rng.randint(3, 10))) for _ in range(VOCABULARY)]
    pages = visits // VERSIONS
    for number in range(visits):
        url, at = f"http://h{number % pages % 200}.test/p{number % pages}.html", FIRST_AT + number * 1_000.0
        text = " ".join(rng.choices(words, k=WORDS))
        body = f"<html><title>{number}</title><body><p>{text}</p></body></html>".encode()
        exchange = WarcExchange(url, at, b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", HEAD + body, len(HEAD))
        outcome = Outcome(200, at, kept=True, type="text/html", payload=sha1_digest(body))
        page = Page(url, str(number), text)
        writer.append(VisitRecord("c", url, 1 + number // pages, 0, outcome, page=page), exchange)
        if number % 200 == 0:
            writer.prepare_commit()()
    writer.close()


def cpu_s(work: Callable[[], object]) -> float:
    before = resource.getrusage(resource.RUSAGE_SELF)
    work()
    after = resource.getrusage(resource.RUSAGE_SELF)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def read_with_warcio(data: DataDirectory) -> None:
    for path in data.archive.glob("*.warc.gz"):
        with path.open("rb") as stream:
            for record in ArchiveIterator(stream):
                record.content_stream().read()


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--visits", type=int, default=20_000)
    visits = options.parse_args().visits
    with tempfile.TemporaryDirectory() as folder:
        data = DataDirectory(Path(folder) / "data")
        data.create()
        (data.root / "archive.toml").write_text('file_size = "8 MB"')
        write(data, visits)
        graph.catch_up(data, lambda collection, weights: None)
        captures.catch_up(data)
        index.catch_up(data)
        (data.root / "archive.toml").unlink()
        size = sum(path.stat().st_size for path in data.archive.glob("*.warc.gz"))
        print(f"{visits:,} visits, {size:,} bytes, {len(list(data.archive.glob('*.durable')))} pairs of files")
        peer = cpu_s(lambda: read_with_warcio(data))
        names = {path.stem for path in data.archive.glob("*.durable")}
        definitions = {"c": Collection("c", archive=ArchiveConfig(retention="last 2"))}
        with RetentionPlan(data, definitions, LegalHolds([])) as plan:
            planned = cpu_s(lambda: plan.make(names))
        merged = cpu_s(lambda: compaction.compact(data))
        with patch("tarrafa.crawl.compaction.compaction.collection_definitions", return_value=definitions):
            shrunk = cpu_s(lambda: compaction.compact(data))
    print(f"warcio reads all records       {peer:6.2f} s")
    print(f"merge into one pair            {merged:6.2f} s  ratio {merged / peer:.2f}")
    print(f"remove half of the versions    {shrunk:6.2f} s  ratio {shrunk / peer:.2f}")
    print(f"plan of a million captures     {planned / visits * 1e6:6.2f} s")


if __name__ == "__main__":
    main()
