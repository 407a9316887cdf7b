"""An archive with captures of every kind: versions, revisits, redirects, content encodings, a page that is not to be
shown, and robots.txt, which belongs to no visit.

Shared by the tests of the index of captures, the CDX server, Memento and replay by other programs.
"""

import gzip
import zlib
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import brotli
import zstandard
from msgspec.structs import replace

from tarrafa.archive.warc_writer import WarcExchange, WarcWriter, sha1_digest
from tarrafa.model import Outcome, Page, RobotsMeta, VisitRecord
from tarrafa.runtime.data_dir import DataDirectory

FIRST_AT = 1_790_000_000.25  # 2026-09-21 14:13:20 UTC
DAY_S = 86_400.0
COLLECTION, OTHER = "small", "other"
PAGE, SHY, MOVED, HUGE, RESOURCE = (
    f"http://www.site.test/{name}" for name in ("page.html", "shy.html", "moved", "huge.html", "dir/resource")
)
ENCODED = "http://site.test/encoded/{name}"
ENCODERS: dict[str, Callable[[bytes], bytes]] = {
    "gzip": gzip.compress,
    "deflate": zlib.compress,
    "br": brotli.compress,
    "zstd": zstandard.ZstdCompressor().compress,
}


def new_archive(root: Path) -> DataDirectory:
    data = DataDirectory(root)
    data.create()
    return data


def chunked(body: bytes) -> bytes:
    parts = [body[start : start + 700] for start in range(0, len(body), 700)]
    return b"".join(b"%x\r\n%s\r\n" % (len(part), part) for part in parts) + b"0\r\n\r\n"


def _spans(parts: Sequence[tuple[str, bool]]) -> dict[str, Any]:
    """The fields of a page whose content is the lines that it does not share."""
    text = "\n".join(line for line, _ in parts)
    starts = [text.index(line) for line, _ in parts]
    spans = [(start, start + len(line), shared) for start, (line, shared) in zip(starts, parts, strict=True)]
    return {
        "text": text,
        "content_spans": tuple((start, end) for start, end, shared in spans if not shared),
        "template_spans": tuple((start, end) for start, end, shared in spans if shared),
    }


class SiteArchive:
    """Writes captures; every visit of a URL has the next number."""

    def __init__(self, data: DataDirectory, worker: str = "w1", stamp: float = FIRST_AT) -> None:
        self.writer = WarcWriter(data.archive, worker, stamp)
        self.served: dict[tuple[str, float], bytes] = {}  # what the server meant, by URL and time
        self._visits = Counter[str]()

    def visit(
        self,
        url: str,
        at: float,
        body: bytes = b"",
        *,
        status: int = 200,
        header: str = "Content-Type: text/html; charset=utf-8",
        text: str = "",
        encoding: str = "",
        is_chunked: bool = False,
        noarchive: bool = False,
        parts: Sequence[tuple[str, bool]] = (),  # lines of the text, and whether other pages of the host share them
        collection: str = COLLECTION,
        of: tuple[float, str] | None = None,  # when the archive got this body, and its digest
        has_page: bool = True,
        resource_type: str = "",  # of a body that was imported without an answer
    ) -> str:
        """Archive a visit; the digest of its body."""
        self.served[url, at] = body
        sent = ENCODERS[encoding](body) if encoding else body
        header += f"\r\nContent-Encoding: {encoding}" if encoding else ""
        header += "\r\nTransfer-Encoding: chunked" if is_chunked else f"\r\nContent-Length: {len(sent)}"
        sent = chunked(sent) if is_chunked else sent
        head = f"HTTP/1.1 {status} X\r\n{header}\r\nSet-Cookie: archived=1\r\n\r\n".encode()
        digest = of[1] if of is not None and status == 304 else sha1_digest(sent)
        exchange = WarcExchange(
            url, at, b"GET / HTTP/1.1\r\nHost: site.test\r\n\r\n", head + (b"" if status == 304 else sent), len(head),
            "192.0.2.7", payload=digest, archived_payload=of[1] if of else "", archived_at=of[0] if of else 0.0,
            resource_type=resource_type,
        )  # fmt: skip
        page = None
        if status == 200 and has_page:
            page = Page(url, "A page", text or body.decode("utf-8", "replace"), robots=RobotsMeta(noarchive=noarchive))
            page = replace(page, **_spans(parts)) if parts else page
        self._visits[url] += 1
        outcome = Outcome(status, at, kept=status == 200, type="text/html", payload=digest if status == 200 else "")
        self.writer.append(VisitRecord(collection, url, self._visits[url], 0, outcome, page=page), exchange)
        return digest

    def robots(self, host: str, at: float) -> None:
        """An exchange that belongs to no visit."""
        head = b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n\r\n"
        body = b"User-agent: *\nDisallow:\n"
        url = f"http://{host}/robots.txt"
        self.served[url, at] = body
        self.writer.append_exchange(WarcExchange(url, at, b"GET /robots.txt HTTP/1.1\r\n\r\n", head + body, len(head)))

    def fail(self, url: str, at: float, status: int = 404) -> None:
        """A visit without a capture."""
        self._visits[url] += 1
        self.writer.append(VisitRecord(COLLECTION, url, self._visits[url], 0, Outcome(status, at)), None)

    def commit(self) -> None:
        self.writer.prepare_commit()()

    def close(self) -> None:
        self.writer.close()


def write_site(data: DataDirectory) -> SiteArchive:
    """Captures of every kind, in one pair of files."""
    site = SiteArchive(data)
    site.robots("www.site.test", FIRST_AT - 1)
    first = site.visit(PAGE, FIRST_AT, b"<p>one</p>\n<p>same</p>", text="one\nsame")
    site.fail("http://www.site.test/gone", FIRST_AT + 1)
    site.visit(PAGE, FIRST_AT + DAY_S, b"<p>one</p>\n<p>same</p>", text="one\nsame", of=(FIRST_AT, first))
    second = site.visit(PAGE, FIRST_AT + 40 * DAY_S, b"<p>two</p>\n<p>same</p>", text="two\nsame")
    site.visit(PAGE, FIRST_AT + 200 * DAY_S, status=304, of=(FIRST_AT + 40 * DAY_S, second))
    site.visit(PAGE, FIRST_AT + 201 * DAY_S, b"<p>three</p>", text="three", is_chunked=True)
    for part in (0.1, 0.2):  # two captures in one second
        site.visit("http://www.site.test/twice", FIRST_AT + part, b"<p>%d</p>" % (part * 10))
    shy = site.visit(SHY, FIRST_AT, b"<p>shy</p>", noarchive=True)
    site.visit(SHY, FIRST_AT + DAY_S, status=304, of=(FIRST_AT, shy))
    site.visit(MOVED, FIRST_AT, status=301, header="Location: /page.html\r\nContent-Type: text/html")
    site.visit(RESOURCE, FIRST_AT, b"<p>without an answer</p>", resource_type="text/html; charset=utf-8")
    site.visit(RESOURCE, FIRST_AT + DAY_S, b"HTTP/1.1 404 No\r\n\r\nno header", resource_type="text/plain")
    site.visit(f"{RESOURCE}.png", FIRST_AT, b"\x89PNG\r\n\r\n", resource_type="image/png", has_page=False)
    for number, name in enumerate(ENCODERS):
        for is_chunked in (False, True):
            body = f"<html><p>olá, {name} {is_chunked} {'malha ' * 500}</p></html>".encode()
            url = ENCODED.format(name=f"{name}-{is_chunked}.html")
            site.visit(url, FIRST_AT + number, body, encoding=name, is_chunked=is_chunked)
    kinds = ("text/html", "text/html;charset=utf-8", "application/pdf", "image/png", "text/css")
    for number in range(60):
        host = ("www.site.test", "sub.site.test", "site.test:8080", "other.test", "a.sub.site.test")[number % 5]
        url = f"http://{host}/{'dir/' * (number % 3)}P{number % 11}.html{'?b=2&A=1' if number % 4 == 0 else ''}"
        for version in range(1 + number % 6):
            at = FIRST_AT + DAY_S * (17 * version * version + number)
            body = f"<p>{number} {version % 2}</p>".encode()
            header = f"Content-Type: {kinds[number % 5]}"
            site.visit(url, at, body, header=header, collection=OTHER if number % 10 == 0 else COLLECTION)
    site.commit()
    return site
