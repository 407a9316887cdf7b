"""The process that reads what could hurt: one document at a time, under limits.

`python -m tarrafa.crawl.reading FD PARENT`: started by a worker (`reader.py`), which sends it jobs over a socket. It
has no network where the system lets it give that up, writes no files, and may use only so much memory and processor
time for one document: beyond that it dies, and the worker goes on.
"""

import contextlib
import ctypes
import os
import resource
import socket
import sys
from typing import Any

import msgspec

from tarrafa.model import Listing, Page
from tarrafa.parse.listing import read_listing
from tarrafa.parse.page import parse
from tarrafa.parse.refusal import Unreadable
from tarrafa.parse.url import Identity
from tarrafa.process import become_child

MEMORY_BYTES = 1 << 30  # for one document, beyond what the process begins with
CPU_S = 5
CLONE_NEWNET, CLONE_NEWUSER = 0x40000000, 0x10000000
LENGTH_BYTES = 4
READY = b"ready"


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
    _give_up_rights()
    decoder, encode = msgspec.msgpack.Decoder(Job), msgspec.msgpack.Encoder().encode
    limit = _virtual_bytes() + MEMORY_BYTES
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    line.sendall(READY)
    while True:
        job = decoder.decode(_frame(line))
        used = resource.getrusage(resource.RUSAGE_SELF)
        resource.setrlimit(
            resource.RLIMIT_CPU, (int(used.ru_utime + used.ru_stime) + 1 + CPU_S, resource.RLIM_INFINITY)
        )
        reading = read(job)
        answer = encode(reading)
        line.sendall(len(answer).to_bytes(LENGTH_BYTES, "big") + answer)
        if reading.hostile:
            os._exit(0)  # its memory is in pieces


def _give_up_rights() -> None:
    """No network and no new privileges, as far as the system allows."""
    libc = ctypes.CDLL(None, use_errno=True)
    libc.prctl(38, 1, 0, 0, 0)  # PR_SET_NO_NEW_PRIVS
    if libc.unshare(CLONE_NEWNET) != 0:
        libc.unshare(CLONE_NEWUSER | CLONE_NEWNET)
    with contextlib.suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def _virtual_bytes() -> int:
    with open("/proc/self/statm") as file:  # noqa: PTH123
        return int(file.read().split()[0]) * resource.getpagesize()


def _frame(line: socket.socket) -> Any:
    length = int.from_bytes(_exactly(line, LENGTH_BYTES), "big")
    return _exactly(line, length)


def _exactly(line: socket.socket, count: int) -> bytearray:
    whole = bytearray(count)
    rest = memoryview(whole)
    while rest:
        got = line.recv_into(rest)
        if not got:
            os._exit(0)  # the worker is gone
        rest = rest[got:]
    return whole


if __name__ == "__main__":
    main()
