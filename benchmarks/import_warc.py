"""How many pages a second are imported from others' WARC files, and how do readers take damage?

The pages are those of `benchmarks/archive.py`, real text of some 27 KB with 45 links. `--pages` of them are written
with warcio, one gzip member for each record, and imported without the followers: the survey, the parser processes,
archive and frontier. Processor time is of all processes. Then the file is read only, by our reader, warcio and
fastwarc, in turns. `--damage` flips bits in copies of a file, and counts the records that each of the three still
gives; what raises something else than its own error, or is silent about the loss, is told.
"""

import argparse
import asyncio
import os
import random
import resource
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stderr
from io import BytesIO, StringIO
from itertools import cycle, islice
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from fastwarc.warc import ArchiveIterator as FastwarcIterator
from tests.archive.foreign_archives import WarcFile
from warcio.archiveiterator import ArchiveIterator
from warcio.exceptions import ArchiveLoadFailed

from benchmarks.archive import LINKS, real_text
from tarrafa.archive.foreign_archive_reader import ArchiveSource, Damage, RecordReader
from tarrafa.crawl.warc_import import import_warc as module
from tarrafa.runtime.data_dir import DataDirectory

CONTENT_MAX = 1 << 24
READERS = ("tarrafa", "warcio", "fastwarc")
HOSTS, FLIPS = 10, 3


def page_of(number: int, text: str) -> bytes:
    links = "".join(f'<p><a href="/page/{number * 13 + at}">to page {at}</a></p>' for at in range(LINKS))
    body = "".join(f"<p>{line}</p>" for line in text.replace("<", "&lt;").splitlines())
    return f"<html><head><title>Page {number}</title></head><body>{body}{links}</body></html>".encode()


def write_pages(path: Path, count: int) -> int:
    """The bytes of all pages."""
    made, size = WarcFile(), 0
    for number, text in enumerate(islice(cycle(list(real_text(min(count, 300)))), count)):
        body = page_of(number, f"{number}\n{text}")
        size += len(body)
        made.add(f"http://h{number % HOSTS}.test/page/{number}", body, date_of(number), request=True)
    path.write_bytes(made.content)
    return size


def date_of(number: int) -> str:
    minutes, seconds = divmod(number, 60)
    return f"2020-01-{1 + minutes // 1440:02d}T{minutes // 60 % 24:02d}:{minutes % 60:02d}:{seconds:02d}Z"


def processor_s() -> float:
    used = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(one.ru_utime + one.ru_stime for one in used)


@contextmanager
def silent(what: str, total: int) -> Iterator[Callable[[int], None]]:
    yield lambda more: None


async def nothing(data: DataDirectory) -> None:
    pass


def time_import(folder: Path, path: Path) -> None:
    module._follow = nothing
    data, began_s, began = DataDirectory(folder / "data"), time.monotonic(), processor_s()
    done = asyncio.run(module.import_warc(data, [path], "imported", silent))
    wall_s, used_s, pages = time.monotonic() - began_s, processor_s() - began, done.counts.kept
    print(
        f"import: {pages:,} pages in {wall_s:.1f} s: {pages / wall_s:,.0f} pages/s on {len(os.sched_getaffinity(0))}"
        f" processors, {1000 * used_s / pages:.2f} ms of processor time a page"
    )
    began_s = time.monotonic()
    asyncio.run(module.import_warc(data, [path], "imported", silent))
    print(f"the same file again: {time.monotonic() - began_s:.2f} s")


# -- readers -----------------------------------------------------------------------------------------------------------


def read_tarrafa(path: Path) -> tuple[int, int]:
    reader = RecordReader(ArchiveSource(path, path.name), CONTENT_MAX)
    found = [isinstance(one, Damage) for one in reader.records()]
    reader.close()
    return found.count(False), found.count(True)


def read_warcio(path: Path) -> tuple[int, int]:
    records = 0
    try:
        for record in ArchiveIterator(BytesIO(path.read_bytes())):
            record.raw_stream.read()
            records += 1
    except ArchiveLoadFailed:
        return records, 1
    return records, 0


def read_fastwarc(path: Path) -> tuple[int, int]:
    records = 0
    try:
        for record in FastwarcIterator(BytesIO(path.read_bytes()), parse_http=False):
            record.reader.read()
            records += 1
    except OSError:
        return records, 1
    return records, 0


READ: dict[str, Callable[[Path], tuple[int, int]]] = {
    "tarrafa": read_tarrafa, "warcio": read_warcio, "fastwarc": read_fastwarc,
}  # fmt: skip


def time_reading(path: Path, rounds: int) -> None:
    best: dict[str, float] = {}
    for _ in range(rounds):
        for name in READERS:
            began = time.process_time()
            records, _ = READ[name](path)
            best[name] = min(best.get(name, 1e9), 1e6 * (time.process_time() - began) / records)
    print("reading, us of processor time a record: " + ", ".join(f"{name} {best[name]:.0f}" for name in READERS))


def take_damage(folder: Path, copies: int) -> None:
    original = folder / "small.warc.gz"
    write_pages(original, 100)
    content, rng = original.read_bytes(), random.Random(22)
    found: dict[str, Counter[str]] = {name: Counter() for name in READERS}
    whole, damaged = read_tarrafa(original)[0], folder / "damaged.warc.gz"
    for _ in range(copies):
        changed = bytearray(content)
        for _ in range(FLIPS):
            changed[rng.randrange(len(changed))] ^= 1 << rng.randrange(8)
        damaged.write_bytes(changed)
        for name in READERS:
            counts: Counter[str] = found[name]
            try:
                with redirect_stderr(StringIO()):  # warcio says much
                    records, told = READ[name](damaged)
            except Exception as error:
                counts[f"raised {type(error).__name__}"] += 1
                continue
            counts["records"] += records
            counts["silent losses"] += records < whole and not told
    print(f"{FLIPS} flipped bits in each of {copies} files of {whole} records:")
    for name in READERS:
        kept = found[name].pop("records") / (whole * copies)
        rest: Any = ", ".join(f"{what} {number}" for what, number in found[name].items() if number)
        print(f"  {name}: {kept:.1%} of the records{'; ' + rest if rest else ''}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pages", type=int, default=2_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--damage", type=int, default=0, metavar="FILES")
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        if chosen.damage:
            take_damage(folder, chosen.damage)
            return
        path = folder / "pages.warc.gz"
        size = write_pages(path, chosen.pages)
        print(
            f"{chosen.pages:,} pages, {size / chosen.pages / 1024:.0f} KB each, {path.stat().st_size >> 20} MB packed"
        )
        time_import(folder, path)
        time_reading(path, chosen.rounds)


if __name__ == "__main__":
    main()
