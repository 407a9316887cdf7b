"""The process that reads what could hurt: one document at a time, under limits.

`python -m tarrafa.crawl.reading FD PARENT`: started by a worker (`reader.py`), which sends it jobs over a socket. It
has no network where the system lets it give that up, writes no files, and may use only so much memory and processor
time for one document: beyond that it dies, and the worker goes on.
"""

import os
import resource
import socket
import sys

import msgspec

from tarrafa.model import Listing, Page
from tarrafa.parse.listing import read_listing
from tarrafa.parse.page import parse
from tarrafa.parse.refusal import Unreadable
from tarrafa.parse.url import Identity
from tarrafa.process import READY, become_child, give_up_rights, hear, limit_memory, say

MEMORY_BYTES = 1 << 30  # for one document, beyond what the process begins with
CPU_S = 5


class Job(msgspec.Struct, frozen=True, array_like=True):
    """A document to be read."""

    is_listing: bool
    body: bytes
    url: str
    content_type: str
    x_robots_tag: str = ""
    identity: Identity = Identity()
    agent: str = ""


class Reading(msgspec.Struct, frozen=True, array_like=True):
    """What became of a job; `refusal` says why nothing did, `hostile` that it asked for too much."""

    page: Page | None = None
    listing: Listing | None = None
    refusal: str = ""
    hostile: bool = False


def read(job: Job, *, careful: bool = False) -> Reading:
    """The document, or why not. Runs in the worker too, for documents that cannot hurt; carefully: one that after all
    could raises `Risky`."""
    try:
        if job.is_listing:
            return Reading(listing=read_listing(job.body, job.url, job.content_type, job.identity))
        asked = (job.x_robots_tag, job.identity, job.agent)
        return Reading(page=parse(job.body, job.url, job.content_type, *asked, careful=careful))
    except Unreadable as error:
        return Reading(refusal=str(error))
    except (MemoryError, RecursionError) as error:
        return Reading(refusal=f"it asks for too much: {type(error).__name__}", hostile=True)


def main() -> None:
    descriptor, parent = int(sys.argv[1]), int(sys.argv[2])
    become_child(parent)
    line = socket.socket(fileno=descriptor)
    give_up_rights()
    decoder, encode = msgspec.msgpack.Decoder(Job), msgspec.msgpack.Encoder().encode
    limit_memory(MEMORY_BYTES)
    line.sendall(READY)
    while True:
        job = decoder.decode(hear(line))
        used = resource.getrusage(resource.RUSAGE_SELF)
        resource.setrlimit(
            resource.RLIMIT_CPU, (int(used.ru_utime + used.ru_stime) + 1 + CPU_S, resource.RLIM_INFINITY)
        )
        reading = read(job)
        say(line, encode(reading))
        if reading.hostile:
            os._exit(0)  # its memory is in pieces


if __name__ == "__main__":
    main()
