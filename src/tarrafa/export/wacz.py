"""WACZ packages (1.1.1): the records of a selection with their index, a list of pages, and digests, in one ZIP file.

`archive/data-NNNNN.warc.gz` has the records as they lie in the archive, `indexes/index.cdx.gz` the sorted CDXJ lines in
gzip members of 1,024 lines each, `indexes/index.idx` the first line of each member, `pages/pages.jsonl` the pages with
titles. So a browser needs some ranges of the file to show a page, however large the file is.
Promises: WARC files and index are stored, not compressed again; every file has its length and SHA-256 in
`datapackage.json`, and that file its own in `datapackage-digest.json`. Written from the beginning to the end, in
bounded memory. Knows nothing of the choice of records.
"""

import hashlib
import json
import tempfile
import zipfile
import zlib
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from datetime import UTC, datetime
from itertools import islice
from typing import IO, Any

from tarrafa import __version__
from tarrafa.export.record_list import IndexLine, ListedPage, OnProgress, RecordList
from tarrafa.export.warc_copy import WarcCopy

FILE_BYTES_MAX = 1 << 30  # of a WARC file in it
WACZ_VERSION = "1.1.1"
LINES_PER_MEMBER = 1_024
COPIED_BYTES = 1 << 20  # at once
INDEX, INDEX_MEMBERS, PAGES = "indexes/index.cdx.gz", "indexes/index.idx", "pages/pages.jsonl"
PACKAGE, PACKAGE_DIGEST = "datapackage.json", "datapackage-digest.json"


class HashedFile:
    """A file of the package being written; its length and digest."""

    def __init__(self, stream: IO[bytes]) -> None:
        self._stream, self._hash, self.size = stream, hashlib.sha256(), 0

    def write(self, content: bytes) -> int:
        self._hash.update(content)
        self.size += len(content)
        return self._stream.write(content)

    def digest(self) -> str:
        return f"sha256:{self._hash.hexdigest()}"


class WaczPackage:
    """A package being written; every file that `open` has written is one of its resources. Use it in a `with`."""

    def __init__(self, output: IO[bytes], title: str, now: float) -> None:
        self._zip = zipfile.ZipFile(output, "w", allowZip64=True)
        self._title, self._now = title, datetime.fromtimestamp(now, UTC)
        self._resources: list[dict[str, Any]] = []

    def __enter__(self) -> "WaczPackage":
        return self

    def __exit__(self, *_: object) -> None:
        with suppress(OSError, ValueError):  # after a failure; else it is closed already
            self._zip.close()

    @contextmanager
    def open(self, path: str, *, is_stored: bool, size: int = 0) -> Iterator[HashedFile]:
        """A file to write. `size`: of a file that may be larger than 2 GB, exactly. (wabac.js expects an extra field in
        both headers of an entry, or in none; so ZIP64 must not be used to be on the safe side.)"""
        entry = zipfile.ZipInfo(path, self._now.timetuple()[:6])
        entry.compress_type = zipfile.ZIP_STORED if is_stored else zipfile.ZIP_DEFLATED
        entry.file_size = size
        with self._zip.open(entry, "w") as stream:
            file = HashedFile(stream)
            yield file
        name = path.rpartition("/")[2].lower()
        self._resources.append({"name": name, "path": path, "hash": file.digest(), "bytes": file.size})

    @contextmanager
    def open_large(self, path: str, *, is_stored: bool) -> Iterator[HashedFile]:
        """A file of any size: it is written to a temporary one first."""
        with tempfile.TemporaryFile() as spool:
            yield HashedFile(spool)
            size = spool.tell()
            spool.seek(0)
            with self.open(path, is_stored=is_stored, size=size) as file:
                while content := spool.read(COPIED_BYTES):
                    file.write(content)

    def close(self, description: str, main: ListedPage | None) -> None:
        """Write the description of the package, and the end of the file."""
        described: dict[str, Any] = {"profile": "data-package", "resources": self._resources, "title": self._title}
        described |= {"description": description, "created": self._now.strftime("%Y-%m-%dT%H:%M:%SZ")}
        described |= {"wacz_version": WACZ_VERSION, "software": f"Tarrafa/{__version__}"}
        if main is not None:
            described |= {"mainPageURL": main.url, "mainPageDate": _iso_date(main.moment)}
        content = json.dumps(described, indent=2).encode()
        digest = {"path": PACKAGE, "hash": f"sha256:{hashlib.sha256(content).hexdigest()}"}
        for name, written in ((PACKAGE, content), (PACKAGE_DIGEST, json.dumps(digest, indent=2).encode())):
            entry = zipfile.ZipInfo(name, self._now.timetuple()[:6])
            self._zip.writestr(entry, written, zipfile.ZIP_DEFLATED)
        self._zip.close()


class _Parts:
    """The WARC files of a package, one after the other. Use it in a `with`."""

    def __init__(self, package: WaczPackage) -> None:
        self._package, self._count, self._opened = package, 0, ExitStack()
        self._present: tuple[str, HashedFile] | None = None

    def __enter__(self) -> "_Parts":
        return self

    def __exit__(self, *failure: Any) -> None:
        self._opened.__exit__(*failure)

    def next(self, position: int) -> tuple[str, HashedFile]:
        """The part for the next record; a new one where the last is full."""
        if self._present is None or position >= FILE_BYTES_MAX:
            self._opened.close()
            name = f"data-{self._count:05d}.warc.gz"
            self._count += 1
            file = self._opened.enter_context(self._package.open(f"archive/{name}", is_stored=True))
            self._present = name, file
        return self._present


def write_wacz(
    output: IO[bytes], records: RecordList, copy: WarcCopy, title: str, description: str, now: float, tell: OnProgress
) -> int:
    """Write the package of all listed records; the number of its pages."""
    with WaczPackage(output, title, now) as package:
        with _Parts(package) as parts:
            copy.write(records, parts.next, tell)
        with package.open_large(INDEX, is_stored=True) as file:
            members = list(_write_index(file, records.lines()))
        with package.open(INDEX_MEMBERS, is_stored=False) as file:
            file.write("".join(members).encode())
        with package.open_large(PAGES, is_stored=False) as file:
            main, count = _write_pages(file, records.pages())
        package.close(description, main)
    return count


def _write_index(file: HashedFile, lines: Iterable[IndexLine]) -> Iterator[str]:
    """Write the lines, and yield those of the index of their gzip members."""
    yield f"!meta 0 {json.dumps({'format': 'cdxj-gzip-1.0', 'filename': INDEX.rpartition('/')[2]})}\n"
    lines = iter(lines)
    while some := list(islice(lines, LINES_PER_MEMBER)):
        packer, offset = zlib.compressobj(wbits=16 + zlib.MAX_WBITS), file.size
        content = packer.compress("".join(one.cdxj() for one in some).encode()) + packer.flush()
        file.write(content)
        place = {"offset": offset, "length": len(content), "digest": f"sha256:{hashlib.sha256(content).hexdigest()}"}
        yield f"{some[0].urlkey} {some[0].moment} {json.dumps(place)}\n"


def _write_pages(file: HashedFile, pages: Iterable[ListedPage]) -> tuple[ListedPage | None, int]:
    """Write the list of pages; its main page, which is the one nearest to a root, and their number."""
    head = {"format": "json-pages-1.0", "id": "pages", "title": "All Pages"}
    file.write(f"{json.dumps(head)}\n".encode())
    main: ListedPage | None = None
    count = 0
    for count, page in enumerate(pages, 1):
        if main is None or (page.depth, len(page.url)) < (main.depth, len(main.url)):
            main = page
        line = {"id": f"page-{count}", "url": page.url, "ts": _iso_date(page.moment), "title": page.title}
        file.write(f"{json.dumps(line, ensure_ascii=False)}\n".encode())
    return main, count


def _iso_date(moment: str) -> str:
    """A date with milliseconds, of 17 digits."""
    day, time = f"{moment[:4]}-{moment[4:6]}-{moment[6:8]}", f"{moment[8:10]}:{moment[10:12]}:{moment[12:14]}"
    return f"{day}T{time}.{moment[14:]}Z"
