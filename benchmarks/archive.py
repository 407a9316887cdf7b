"""What does a page cost the archive, beside fastwarc and warcio? Writing, bytes on disk, and what each follower reads.

Two kinds of pages of about 27 KB with 45 links: synthetic Portuguese prose, and real text (the documents of this
repository). All writers get the same visits: request, response, metadata, text and statements are five records. What
counts is processor time; the writers take turns, so that a busy machine changes little, and the ratio is the median of
those of all rounds. fastwarc at level 3 is how Tarrafa wrote and read until decision 0246: all three followers read
everything. Sizes are compared with zlib's level 6, too, which wget and gzip use; warcio has 9. `--sync`
measures the time to make two files durable, one after the other and side by side. `--captures N`: what the follower of
the captures costs a page, beside warcio's indexer, and CDX queries a second with N captures in the index.
"""

import argparse
import gzip
import os
import statistics
import sys
import tempfile
import time
import zlib
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from html import escape
from io import BytesIO
from pathlib import Path
from urllib.parse import parse_qsl

sys.path.insert(0, str(Path(__file__).parents[1]))

import msgspec
from fastwarc.warc import ArchiveIterator, WarcRecordType
from tests.archive.fastwarc_writer import FastwarcWriter
from warcio.warcwriter import WARCWriter

from benchmarks.documents import texts
from tarrafa.archive.warc_reader import ALL_CONVERSIONS, follow, read_record
from tarrafa.archive.warc_writer import STATEMENTS_TYPE, WarcExchange, WarcWriter, sha1_digest
from tarrafa.model import Outcome, VisitRecord
from tarrafa.parse.page import parse
from tarrafa.runtime.data_dir import DataDirectory

DOCUMENTS = Path(__file__).parents[1] / "docs"
HEAD = (
    b"HTTP/1.1 200 OK\r\nServer: nginx\r\nDate: Wed, 18 Nov 2026 09:00:00 GMT\r\n"
    b"Content-Type: text/html; charset=utf-8\r\n\r\n"
)
TEXT_CHARS, LINKS = 20_000, 45
AT = 1_790_000_000.25
WRITE_RATIO_MAX, BYTES_RATIO_MAX, SKIP_RATIO_MAX, READ_RATIO_MAX = 0.9, 1.05, 0.7, 1.2
Visit = tuple[VisitRecord, WarcExchange]
_decode = msgspec.json.Decoder(VisitRecord).decode


# -- pages -------------------------------------------------------------------------------------------------------------


def prose(count: int) -> Iterator[str]:
    words = "\n".join(text.body for text in texts(count * 9))
    return (words[start : start + TEXT_CHARS] for start in range(0, count * TEXT_CHARS, TEXT_CHARS))


def real_text(count: int) -> Iterator[str]:
    words = "\n".join(path.read_text() for path in sorted(DOCUMENTS.rglob("*.md")))
    step = (len(words) - TEXT_CHARS) // count
    return (words[start : start + TEXT_CHARS] for start in range(0, count * step, step))


def visit(number: int, text: str) -> Visit:
    url = f"http://www.s{number // 50}.example/artigos/{number}/pagina.html"
    title = escape(text[:60].replace("\n", " "))
    said = "".join(f"<p>{escape(line)}</p>\n" for line in text.split("\n") if line)
    links = "".join(
        f'<li><a href="/artigos/{number * 7 + link}/pagina.html">{escape(text[link * 90 : link * 90 + 25])}</a></li>\n'
        for link in range(LINKS)
    )
    body = (
        f'<!DOCTYPE html><html lang="pt"><head><meta charset="utf-8"><title>{title}</title>\n'
        f'<script type="application/ld+json">{{"@context": "https://schema.org", "@type": "Article", '
        f'"@id": "{url}", "datePublished": "2026-11-18"}}</script></head><body><ul>{links}</ul>{said}</body></html>'
    ).encode()
    page, digest = parse(body, url, "text/html; charset=utf-8"), sha1_digest(body)
    outcome = Outcome(
        200, AT + number, kept=True, type="text/html", length=len(body), content_id=page.content_id, payload=digest
    )
    request = f"GET /artigos/{number}/pagina.html HTTP/1.1\r\nHost: www.s{number // 50}.example\r\n\r\n".encode()
    exchange = WarcExchange(url, AT + number, request, HEAD + body, len(HEAD), "192.0.2.7", payload=digest)
    return VisitRecord("c", url, 1, 2, outcome, page=page), exchange


# -- writers and readers -----------------------------------------------------------------------------------------------


class WarcioWriter:
    """Writes the same records with warcio."""

    def __init__(self, directory: Path) -> None:
        self._open = ExitStack()
        files = [self._open.enter_context((directory / f"{name}.gz").open("xb")) for name in ("warc", "meta")]
        self._warc, self._meta = (WARCWriter(file, gzip=True, warc_version="1.1") for file in files)

    def append(self, record: VisitRecord, exchange: WarcExchange) -> None:
        url, page = record.url, record.page
        assert page is not None
        headers = {"WARC-IP-Address": exchange.address, "WARC-Payload-Digest": exchange.digest()}
        self._write(self._warc, "response", url, exchange.response, "", headers)
        self._write(self._warc, "request", url, exchange.request, "", {})
        record = msgspec.structs.replace(record, page=msgspec.structs.replace(page, text="", statements=""))
        self._write(self._meta, "metadata", url, msgspec.json.encode(record), "application/json", {})
        self._write(self._meta, "conversion", url, page.text.encode(), "text/plain", {})
        self._write(self._meta, "conversion", url, page.statements.encode(), STATEMENTS_TYPE, {})

    def _write(
        self, writer: WARCWriter, kind: str, url: str, content: bytes, content_type: str, headers: dict[str, str]
    ) -> None:
        record = writer.create_warc_record(
            url, kind, BytesIO(content), len(content), content_type, warc_headers_dict=headers
        )
        writer.write_record(record)

    def close(self) -> None:
        self._open.close()


def follow_by_fastwarc(directory: Path) -> Iterator[VisitRecord]:
    """The same records by fastwarc's iterator."""
    (path,) = directory.glob("*.meta.warc.gz")
    held: VisitRecord | None = None
    with path.open("rb") as stream:
        for raw in ArchiveIterator(stream, parse_http=False):
            content = raw.reader.read()
            assert len(content) == raw.content_length
            if raw.record_type == WarcRecordType.metadata:
                if held is not None:
                    yield held
                held = _decode(content)
            elif held is not None and held.page is not None:
                name = "statements" if raw.headers.get("Content-Type") == STATEMENTS_TYPE else "text"
                page = msgspec.structs.replace(held.page, **{name: content.decode()})
                held = msgspec.structs.replace(held, page=page)
    if held is not None:
        yield held


def zlib_bytes(directory: Path) -> int:
    """The size of the same records, packed by zlib."""
    size = 0
    for path in directory.glob("*.gz"):
        with path.open("rb") as stream:
            while stream.tell() < path.stat().st_size:
                start = stream.tell()
                length = read_record(stream, path.stat().st_size - start).member_size
                stream.seek(start)
                size += len(zlib.compress(gzip.decompress(stream.read(length)), 6, wbits=31))
    return size


def exhaust(entries: Iterator[object]) -> None:
    for _ in entries:
        pass


# -- measuring ---------------------------------------------------------------------------------------------------------


def in_turns(work: dict[str, Callable[[int], None]], rounds: int) -> dict[str, list[float]]:
    """The processor time of each, in each round."""
    found: dict[str, list[float]] = {name: [] for name in work}
    for number in range(rounds):
        for name, do in work.items():
            start = time.process_time()
            do(number)
            found[name].append(time.process_time() - start)
    return found


def measure(name: str, visits: list[Visit], root: Path, rounds: int) -> bool:
    makers: dict[str, Callable[[Path], WarcWriter | FastwarcWriter | WarcioWriter]] = {
        "tarrafa": lambda directory: WarcWriter(directory, "w1", AT),
        "fastwarc": FastwarcWriter,
        "warcio": WarcioWriter,
    }

    def writing(writer: str) -> Callable[[int], None]:
        def write(number: int) -> None:
            directory = root / f"{name}-{writer}-{number}"
            directory.mkdir()
            made = makers[writer](directory)
            for record, exchange in visits:
                made.append(record, exchange)
            made.close()

        return write

    times = in_turns({writer: writing(writer) for writer in makers}, rounds)
    folders = {writer: root / f"{name}-{writer}-0" for writer in makers}
    sizes = {
        writer: sum(path.stat().st_size for path in folder.glob("*.gz")) / len(visits)
        for writer, folder in folders.items()
    } | {"zlib": zlib_bytes(folders["tarrafa"]) / len(visits)}
    print(f"\n{name}: {len(visits)} pages of {statistics.mean(len(one.response) for _, one in visits):,.0f} bytes")
    is_good = show("write", times, "fastwarc", len(visits), WRITE_RATIO_MAX)
    ratio = sizes["tarrafa"] / sizes["zlib"]
    shown = ", ".join(f"{writer} {size:,.0f}" for writer, size in sizes.items())
    print(
        f"  bytes a page: {shown}; tarrafa/fastwarc {sizes['tarrafa'] / sizes['fastwarc']:.3f}, "
        f"tarrafa/zlib {ratio:.3f}{' TOO LARGE' if ratio > BYTES_RATIO_MAX else ''}"
    )
    ours, theirs = folders["tarrafa"], folders["fastwarc"]
    for follower, conversions, most in (
        ("graph", frozenset[str](), SKIP_RATIO_MAX),
        ("triples", frozenset({STATEMENTS_TYPE}), SKIP_RATIO_MAX),
        ("index", ALL_CONVERSIONS, READ_RATIO_MAX),
    ):
        work: dict[str, Callable[[int], None]] = {
            "tarrafa": lambda _, conversions=conversions: exhaust(follow(ours, {}, conversions=conversions)),  # type: ignore[misc]
            "fastwarc": lambda _: exhaust(follow_by_fastwarc(theirs)),
        }
        is_good &= show(f"read for {follower}", in_turns(work, rounds), "fastwarc", len(visits), most)
    return is_good and ratio <= BYTES_RATIO_MAX


def show(what: str, times: dict[str, list[float]], peer: str, pages: int, most: float) -> bool:
    ratio = statistics.median(ours / theirs for ours, theirs in zip(times["tarrafa"], times[peer], strict=True))
    shown = ", ".join(f"{name} {statistics.median(taken) / pages * 1e6:.0f}" for name, taken in times.items())
    print(f"  {what}, us a page: {shown}; tarrafa/{peer} {ratio:.2f}{' TOO SLOW' if ratio > most else ''}")
    return ratio <= most


def measure_syncs(root: Path, rounds: int) -> None:
    """The time of `fdatasync` on two files with new content, of the sizes of a commit."""
    pool = ThreadPoolExecutor(1)
    for pages in (8, 100):
        taken: dict[str, list[float]] = {"in turn": [], "side by side": []}
        with (root / "a").open("wb", 0) as first, (root / "b").open("wb", 0) as second:
            for number in range(rounds * 2):
                first.write(os.urandom(9_000 * pages))
                second.write(os.urandom(8_000 * pages))
                start = time.monotonic()
                if number % 2:
                    other = pool.submit(os.fdatasync, second.fileno())
                    os.fdatasync(first.fileno())
                    other.result()
                else:
                    os.fdatasync(first.fileno())
                    os.fdatasync(second.fileno())
                taken["side by side" if number % 2 else "in turn"].append(time.monotonic() - start)
        shown = ", ".join(f"{way} {statistics.median(times) * 1e3:.2f}" for way, times in taken.items())
        print(f"fdatasync of two files with {pages} pages, ms: {shown}")


# -- captures ----------------------------------------------------------------------------------------------------------

CDX_QUERIES = {
    "exact": "url=http://www.s{n}.example/artigos/{n}/pagina.html",
    "closest": "url=http://www.s{n}.example/artigos/{n}/pagina.html&closest=20260101&limit=1",
    "prefix, 100 lines": "url=http://www.s{n}.example/artigos/*&limit=100",
    "domain, 100 lines, reverse": "url=*.s{n}.example&limit=100&sort=reverse",
    "host, 100 of an expression": "url=http://www.s{n}.example/&matchType=host&limit=100&filter=~mime:text/.*",
}
URLS_PER_HOST, CAPTURES_PER_URL = 500, 4
QUERY_S = 1.0


def measure_capture_follower(root: Path, pages: int, rounds: int) -> None:
    """The follower of the captures, beside warcio's indexer, which reads the same file and writes text."""
    from warcio.indexer import Indexer

    from tarrafa.captures import follower

    data = DataDirectory(root / "captures")
    data.create()
    writer = WarcWriter(data.archive, "w1", AT)
    for one in enumerate(prose(pages)):
        writer.append(*visit(*one))
    writer.close()
    (path,) = follower.response_files(data.archive)
    fields = "warc-target-uri,http:content-type,http:status,warc-payload-digest,length,offset,filename"
    work: dict[str, Callable[[int], None]] = {
        "tarrafa": lambda _: exhaust(iter([follower.rebuild(data)])),
        "warcio": lambda _: Indexer(fields, [str(path)], str(root / "index.json")).process_all(),
    }
    print(f"\ncaptures: {pages} pages")
    show("index captures", in_turns(work, rounds), "warcio", pages, 1.0)


def measure_cdx_queries(root: Path, captures: int) -> None:
    """Queries a second of one process, without HTTP. The captures are entered as the follower enters them."""
    from tarrafa.captures.cdx_lines import cdx_lines
    from tarrafa.captures.cdx_params import parse_cdx_query
    from tarrafa.captures.follower import ENTER
    from tarrafa.captures.reader import CapturesReader
    from tarrafa.captures.store import captures_file, open_writer
    from tarrafa.captures.surt import surt

    data = DataDirectory(root / "queries")
    data.create()
    connection, start = open_writer(data), time.process_time()
    with connection:
        connection.execute("INSERT INTO files VALUES (1, 'tarrafa-20260101000000-w1-00001')")
        for number in range(0, captures, CAPTURES_PER_URL):
            place = number // CAPTURES_PER_URL
            host = place % (captures // URLS_PER_HOST // CAPTURES_PER_URL)
            url = f"http://www.s{host}.example/artigos/{place}/pagina.html"
            key, digest = surt(url), place.to_bytes(20, "big")
            for version in range(CAPTURES_PER_URL):
                row = (key, 20260101000000 + version * 10**8, 1, (number + version) * 9000, 9000, url, "text/html",
                       "200", digest, 0, None, None, 1, 0, 0)  # fmt: skip
                connection.execute(ENTER, row)
    filled = time.process_time() - start
    connection.close()
    size = captures_file(data).path.stat().st_size / captures
    print(f"{captures:,} captures: {size:.0f} bytes each, entered in {filled / captures * 1e6:.1f} us each")
    reader, hosts = CapturesReader(data), captures // URLS_PER_HOST // CAPTURES_PER_URL
    for name, query in CDX_QUERIES.items():
        asked = lines = 0
        start = time.process_time()
        while (taken := time.process_time() - start) < QUERY_S:
            parameters = parse_qsl(query.format(n=asked * 7919 % hosts))
            lines += sum(1 for _ in cdx_lines(reader, parse_cdx_query(parameters), with_files=True))
            asked += 1
        print(f"  {name}: {asked / taken:,.0f} queries/s, {lines / asked:.1f} lines each")


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--pages", type=int, default=300)
    options.add_argument("--rounds", type=int, default=9)
    options.add_argument("--sync", action="store_true")
    options.add_argument("--captures", type=int, default=0, metavar="N")
    chosen = options.parse_args()
    with tempfile.TemporaryDirectory(prefix="tarrafa-bench-") as folder:
        if chosen.sync:
            measure_syncs(Path(folder), 50)
            return
        if chosen.captures:
            measure_capture_follower(Path(folder), chosen.pages, chosen.rounds)
            measure_cdx_queries(Path(folder), chosen.captures)
            return
        kinds = {"prose": prose, "real text": real_text}
        good = [
            measure(name, [visit(*one) for one in enumerate(make(chosen.pages))], Path(folder), chosen.rounds)
            for name, make in kinds.items()
        ]
    sys.exit(0 if all(good) else 1)


if __name__ == "__main__":
    main()
