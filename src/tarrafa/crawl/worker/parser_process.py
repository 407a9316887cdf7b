"""Sandboxed parser process: parses one document at a time under limits of memory and processor time.

Started by a worker (`parser.py`), which sends it jobs over a socket. The process has no network where the system lets
it give that up, and writes no files. Beyond its limits of memory and processor time for one document it dies, and the
worker continues.
"""

import os
import resource

import msgspec

from tarrafa.model import Listing, Page
from tarrafa.parse.documents.document import UnreadableDocument
from tarrafa.parse.page import parse
from tarrafa.parse.sitemaps_feeds import parse_sitemap_or_feed
from tarrafa.parse.url import UrlIdentity
from tarrafa.runtime.child_process import run_child
from tarrafa.runtime.sandbox import SandboxSocket, limit_memory

DOCUMENT_MEMORY_BYTES_MAX = 1 << 30  # for one document, beyond what the process begins with
DOCUMENT_CPU_S_MAX = 5


class ParseJob(msgspec.Struct, frozen=True, array_like=True):
    """A document to parse."""

    is_listing: bool
    body: bytes
    url: str
    content_type: str
    x_robots_tag: str = ""
    identity: UrlIdentity = UrlIdentity()
    agent: str = ""


class ParseJobResult(msgspec.Struct, frozen=True, array_like=True):
    """Result of a job; `refusal` says why there is none, `hostile` that the document exceeded a limit."""

    page: Page | None = None
    listing: Listing | None = None
    refusal: str = ""
    hostile: bool = False


def run_parse_job(job: ParseJob, *, careful: bool = False) -> ParseJobResult:
    """Parse the document, or say why not. Also runs in the worker, for harmless documents; there `careful` raises
    `Risky` for a document that turns out not to be harmless."""
    try:
        if job.is_listing:
            return ParseJobResult(listing=parse_sitemap_or_feed(job.body, job.url, job.content_type, job.identity))
        asked = (job.x_robots_tag, job.identity, job.agent)
        return ParseJobResult(page=parse(job.body, job.url, job.content_type, *asked, careful=careful))
    except UnreadableDocument as error:
        return ParseJobResult(refusal=str(error))
    except (MemoryError, RecursionError) as error:
        return ParseJobResult(refusal=f"it asks for too much: {type(error).__name__}", hostile=True)


def main(descriptor: int) -> None:
    line = SandboxSocket(descriptor)
    decoder, encode = msgspec.msgpack.Decoder(ParseJob), msgspec.msgpack.Encoder().encode
    limit_memory(DOCUMENT_MEMORY_BYTES_MAX)
    line.send_ready()
    while True:
        job = decoder.decode(line.receive())
        used = resource.getrusage(resource.RUSAGE_SELF)
        resource.setrlimit(
            resource.RLIMIT_CPU, (int(used.ru_utime + used.ru_stime) + 1 + DOCUMENT_CPU_S_MAX, resource.RLIM_INFINITY)
        )
        reading = run_parse_job(job)
        line.send(encode(reading))
        if reading.hostile:
            os._exit(0)  # its memory is fragmented


if __name__ == "__main__":
    run_child(main)
