"""An independent reader of the archive: objects in the store, or files of one machine, without Tarrafa's code.

It reads gzip members, WARC headers and JSON by itself, and computes from them what must be so everywhere.
"""

import hashlib
import json
import os
import zlib
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urljoin, urlsplit

import msgspec
import obstore
import psycopg
import xxhash
from obstore.store import S3Store

CHUNK_BYTES = 1 << 14
WARC, META = ".warc.gz", ".meta.warc.gz"
GONE = (404, 410)
NOT_FOUND_AGAIN = -27
SAYS_NOTHING = frozenset({304, 429, 500, 502, 503, 504, -1, -10, -11, -12, -13, -14, -15, -41})  # of the page itself


def members(data: bytes) -> Iterator[bytes]:
    """The gzip members of a file, unpacked."""
    at = 0
    while at < len(data):
        unzip, parts = zlib.decompressobj(wbits=31), list[bytes]()
        while not unzip.eof:
            chunk = data[at : at + CHUNK_BYTES]
            if not chunk:
                raise ValueError("a torn gzip member")
            parts.append(unzip.decompress(chunk))
            at += len(chunk) - len(unzip.unused_data)
        yield b"".join(parts)


def visits_in(data: bytes) -> Iterator[dict[str, Any]]:
    """The visits in the bytes of a meta file."""
    for record in members(data):
        head, _, body = record.partition(b"\r\n\r\n")
        fields = dict(line.split(b": ", 1) for line in head.split(b"\r\n")[1:])
        if fields[b"WARC-Type"] == b"metadata":
            yield json.loads(body[: int(fields[b"Content-Length"])])


class StoredPart(NamedTuple):
    """A part of an object: where it begins in the log's file, and what it must be."""

    start: int
    size: int
    digest: bytes
    offset: int  # in the object


class StoredRow(NamedTuple):
    number: int
    name: str
    warc: StoredPart
    meta: StoredPart
    note: bytes  # the bytes of a segment that has no objects


class StoredLog:
    """The log in the store: rows of the manifest, and their objects."""

    def __init__(self, dsn: str) -> None:
        with psycopg.connect(dsn) as connection:
            ((self.id, url),) = connection.execute("SELECT id, store FROM log_head").fetchall()
            found = connection.execute(
                "SELECT number, name, warc_start, warc_size, warc_digest, warc_offset, meta_start, meta_size,"
                " meta_digest, meta_offset, note FROM segment ORDER BY number"
            ).fetchall()
            snapshots = connection.execute("SELECT part, content FROM part_snapshot").fetchall()
        self.rows = [StoredRow(row[0], row[1], StoredPart(*row[2:6]), StoredPart(*row[6:10]), row[10]) for row in found]
        self._snapshots = {str(part): bytes(content) for part, content in snapshots}
        place = urlsplit(url)
        self._store = S3Store(
            place.netloc,
            prefix=place.path.strip("/"),
            config={"endpoint": os.environ["AWS_ENDPOINT_URL"]},
            region="us-east-1",
            client_options={"allow_http": True},
        )
        self.faults: list[str] = []

    def object_names(self) -> set[str]:
        return {one["path"] for chunk in obstore.list(self._store, self.id) for one in chunk}

    def named_by_rows(self) -> set[str]:
        """The objects of segments, except those of notes, and of the snapshots of index parts."""
        segments = {row.name + ending for row in self.rows if not row.note for ending in (WARC, META)}
        snapshots = {
            f"{self.id}/index/{part}/{digest.hex()}"
            for part, content in self._snapshots.items()
            for _, _, digest in msgspec.msgpack.decode(content)["files"]
        }
        return segments | snapshots

    def digests(self) -> tuple[str, str]:
        """SHA-256 of the two files that the log is on every machine, from the objects."""
        sums = hashlib.sha256(), hashlib.sha256()
        for row in self.rows:
            for place, content in zip(sums, (self._get(row.name + WARC, row.warc), self._meta(row)), strict=True):
                if content is None:
                    self.faults.append(f"segment {row.number}: its bytes are not those of its row")
                place.update(content or b"")
        return sums[0].hexdigest(), sums[1].hexdigest()

    def visits(self) -> Iterator[dict[str, Any]]:
        ends = 0, 0
        for number, row in enumerate(self.rows, 1):
            if (row.number, row.warc.start, row.meta.start) != (number, *ends):
                self.faults.append(f"segment {row.number}: not behind the one before it")
            ends = row.warc.start + row.warc.size, row.meta.start + row.meta.size
            yield from visits_in(self._meta(row) or b"")

    def _meta(self, row: StoredRow) -> bytes | None:
        return row.note or self._get(row.name + META, row.meta)

    def _get(self, name: str, part: StoredPart) -> bytes | None:
        """None: the bytes are not what the row says."""
        if not part.size:
            return b""
        content = bytes(obstore.get_range(self._store, name, start=part.offset, length=part.size))
        is_whole = len(content) == part.size and xxhash.xxh3_128_digest(content) == part.digest
        return content if is_whole else None


def file_visits(archive: Path) -> Iterator[dict[str, Any]]:
    """The visits in the files of one machine, each up to its durable length."""
    for durable in sorted(archive.glob("*.durable")):
        length = int(durable.read_text().split()[1])
        yield from visits_in((archive / f"{durable.stem}.meta.warc.gz").read_bytes()[:length])


class LogFacts:
    """What follows from all visits of the archive."""

    def __init__(self, visits: Iterable[dict[str, Any]]) -> None:
        self.numbers: Counter[tuple[str, int]] = Counter()
        self.newest: dict[str, int] = {}
        self.conclusive: dict[str, dict[str, Any]] = {}  # the newest visit that says something about its page
        self.titles: dict[str, str] = {}
        self.statuses: Counter[int] = Counter()
        self.kept_once: set[str] = set()
        self._out: dict[str, tuple[int, set[str]]] = {}
        for one in visits:
            self._add(one)

    def _add(self, one: dict[str, Any]) -> None:
        url, number, outcome, page = one["url"], one["visit"], one["outcome"], one.get("page")
        self.numbers[url, number] += 1
        self.newest[url] = max(number, self.newest.get(url, -1))
        self.statuses[outcome["status"]] += 1
        if outcome.get("kept"):
            self.kept_once.add(url)
        if page and page.get("title"):
            self.titles[url] = page["title"]
        says = outcome["status"] not in SAYS_NOTHING and not outcome.get("grace")
        if says and number >= self.conclusive.get(url, {"visit": -1})["visit"]:
            self.conclusive[url] = {
                "visit": number, "status": outcome["status"], "kept": outcome.get("kept", False),
                "noindex": bool(page and page.get("robots", {}).get("noindex")),
            }  # fmt: skip
        links = links_of(one)
        if links is not None and number >= self._out.get(url, (-1, set()))[0]:
            self._out[url] = number, links

    @property
    def out_links(self) -> dict[str, set[str]]:
        return {url: links for url, (_, links) in self._out.items()}

    @property
    def in_links(self) -> dict[str, int]:
        return count_in_links(self.out_links)

    @property
    def kept(self) -> set[str]:
        return {url for url, one in self.conclusive.items() if one["kept"]}

    @property
    def searchable(self) -> set[str]:
        return {url for url, one in self.conclusive.items() if one["kept"] and not one["noindex"]}


def links_of(visit: dict[str, Any]) -> set[str] | None:
    """Where a visit says that its page leads; None: it says nothing, such as a 304."""
    outcome, page = visit["outcome"], visit.get("page")
    found = set[str]()
    if outcome.get("location"):
        found.add(urljoin(visit["url"], outcome["location"]))
    if page is not None:
        return found | {link[0] for link in page.get("links", ())}
    if not found and (outcome.get("grace") or outcome["status"] not in (*GONE, NOT_FOUND_AGAIN)):
        return None
    return found


def count_in_links(out_links: dict[str, set[str]]) -> dict[str, int]:
    """How many other URLs link to each."""
    sources: defaultdict[str, int] = defaultdict(int)
    for url, targets in out_links.items():
        for target in targets - {url}:
            sources[target] += 1
    return dict(sources)
