"""Parses a fetched document: in the worker if it is harmless, in a sandboxed child process otherwise.

Promises: no document takes more than a named amount of processor time, memory or wall-clock time from a worker, and the
worker continues. A harmless document is parsed in the worker; any other in a child process without network, which is
killed when it exceeds a limit.

What is harmful? A page of 200 KB with 500 unclosed `<b id=…>` and then many `<p>` makes every HTML parser build 500
elements for each `<p>`: 15 s and 3 GB. The number of elements built is at most formatting tags times all tags, so a
small body in which that product is small is harmless: 40 MB and 0.15 s at the worst. The check costs some 25 us a page;
sending every page to the child process would cost 150. JSON-LD that is not plain needs a parser that crashes on some
input (docs/decisions, 0172): a page with such JSON-LD is parsed in the child process too.

The parser's code takes as long to load as all the rest of a worker: it is imported for the first document, after the
first request was sent (docs/decisions, 0267).
"""

import asyncio
import contextlib
import os
import re
import resource
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

import msgspec

from tarrafa.i18n import Message, message
from tarrafa.model import LISTING_ROLES, Listing, Page, UrlRole
from tarrafa.parse.documents.document import UnreadableDocument
from tarrafa.parse.mime_types import HTML_TYPES, PLAIN_TYPES
from tarrafa.parse.url import UrlIdentity
from tarrafa.runtime.child_process import run_child
from tarrafa.runtime.sandbox import SandboxProcess, SandboxSocket, limit_memory

IN_PROCESS_BYTES_MAX = 64 << 10
IN_PROCESS_PRODUCT_MAX = 300_000
PARSE_TIMEOUT_S = 60.0  # wall-clock time; the child process limits its own processor time
REPLY_BYTES_MAX = 64 << 20
HEAVY_AT_ONCE = 2
DOCUMENT_MEMORY_BYTES_MAX = 1 << 30  # for one document, beyond what the child process begins with
DOCUMENT_CPU_S_MAX = 5
GZIP = b"\x1f\x8b"

# Tags that are reopened in every block until they are closed. (Of `a` and `nobr` only one is open at a time.)
# All opening tags are an upper bound, and so are those with such a first letter, which numpy counts four times faster.
_formatting = re.compile(
    rb"<(?=[bcefistu])(?:b|big|code|em|font|i|s|small|strike|strong|tt|u)[\s/>]", re.IGNORECASE
).findall
LESS_THAN, SLASH = ord("<"), ord("/")
_BEGINS_FORMATTING = bytes(letter in b"bcefistuBCEFISTU" for letter in range(256))


class ParseJob(msgspec.Struct, frozen=True, array_like=True):
    role: int
    body: bytes
    url: str
    content_type: str
    x_robots_tag: str = ""
    identity: UrlIdentity = UrlIdentity()
    agent: str = ""
    requisites_max: int = 0  # how many requisites are wanted


class ParseJobResult(msgspec.Struct, frozen=True, array_like=True):
    """Result of a job; `refusal` says why there is none, `hostile` that the document exceeded a limit."""

    page: Page | None = None
    listing: Listing | None = None
    refusal: Message | str = ""
    hostile: bool = False
    requisites: tuple[str, ...] = ()  # of a requisite; those of a page are in the page


@dataclass(frozen=True, slots=True)
class DecodedBody:
    """The body of a 200 response: a parse job, or the reason why there is nothing to parse."""

    job: ParseJob | None = None
    status: int = 200
    error: Message | str = ""
    type: str = ""  # guessed from the content, if the server does not say


def run_parse_job(job: ParseJob, *, careful: bool = False) -> ParseJobResult:
    """Parse the document, or say why not. Also runs in the worker, for harmless documents; there `careful` raises
    `SandboxRequired` for a document that turns out not to be harmless."""
    from tarrafa.parse.page import parse
    from tarrafa.parse.requisites import requisites_of
    from tarrafa.parse.sitemaps_feeds import parse_sitemap_or_feed

    try:
        if job.role in LISTING_ROLES:
            return ParseJobResult(listing=parse_sitemap_or_feed(job.body, job.url, job.content_type, job.identity))
        if job.role == UrlRole.REQUISITE:
            return ParseJobResult(requisites=requisites_of(job.body, job.url, job.content_type, job.requisites_max))
        options = (job.x_robots_tag, job.identity, job.agent)
        page = parse(job.body, job.url, job.content_type, *options, careful=careful, requisites_max=job.requisites_max)
        return ParseJobResult(page=page)
    except UnreadableDocument as error:
        return ParseJobResult(refusal=error.message)
    except (MemoryError, RecursionError) as error:
        return ParseJobResult(
            refusal=message("it asks for too much: {error}", error=type(error).__name__), hostile=True
        )


def is_harmless(job: ParseJob) -> bool:
    """Whether a document is cheap to parse, whatever its content."""
    kind = job.content_type.partition(";")[0].strip().lower()
    body = job.body
    if len(body) > IN_PROCESS_BYTES_MAX:
        return False
    if job.role in LISTING_ROLES:  # parsed in one pass; but compressed it may be a bomb
        return not body.startswith(GZIP)
    if job.role == UrlRole.REQUISITE and kind not in HTML_TYPES:  # read in one pass
        return True
    if kind not in HTML_TYPES and kind not in PLAIN_TYPES:
        return False
    if b"\x00" in body or b"\x1b" in body:  # UTF-16, or an encoding with escapes: tags would not be seen
        return False
    return _is_product_small(body)


def _is_product_small(body: bytes) -> bool:
    """Whether formatting tags times all tags are few; by upper bounds first, the cheapest before the others."""
    import numpy as np

    content = np.frombuffer(body, np.uint8)
    is_tag = content[:-1] == LESS_THAN
    tags = int(np.count_nonzero(is_tag)) + body.endswith(b"<")
    if tags * tags <= IN_PROCESS_PRODUCT_MAX:
        return True
    closing = int(np.count_nonzero(is_tag & (content[1:] == SLASH)))
    if tags * (tags - closing) <= IN_PROCESS_PRODUCT_MAX:
        return True
    formatting_max = int(np.count_nonzero(np.frombuffer(_BEGINS_FORMATTING, np.bool_)[content[1:][is_tag]]))
    return tags * formatting_max <= IN_PROCESS_PRODUCT_MAX or tags * len(_formatting(body)) <= IN_PROCESS_PRODUCT_MAX


class ParseTurns:
    """Grants one turn in each round of the event loop.

    A round runs everything that is ready. With hundreds of hosts at delay 0 hundreds of pages would be parsed in each:
    a second, in which no commit goes on and no response is read. With turns a round takes as long as one page.
    """

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._is_taken = False  # the turn of this round

    @property
    def are_wanted(self) -> bool:
        return bool(self._waiting)

    async def wait(self) -> None:
        """Return when it is our turn: at once, if nobody had one in this round."""
        if self._is_taken:
            turn = self._loop.create_future()
            self._waiting.append(turn)
            await turn
        else:
            self._is_taken = True
            self._loop.call_soon(self._begin_round)

    def _begin_round(self) -> None:
        while self._waiting and self._waiting[0].done():  # cancelled
            self._waiting.popleft()
        self._is_taken = bool(self._waiting)
        if self._is_taken:
            self._waiting.popleft().set_result(None)
            self._loop.call_soon(self._begin_round)


class ParserWithSandbox:
    """One per worker; its process is started when it is first needed."""

    def __init__(self) -> None:
        self._turns, self._heavy_slots = ParseTurns(), asyncio.Semaphore(HEAVY_AT_ONCE)
        self._child_lock = asyncio.Lock()
        self._process = SandboxProcess("tarrafa.crawl.worker.parser_with_sandbox", REPLY_BYTES_MAX)
        self._encode = msgspec.msgpack.Encoder().encode
        self._decoder = msgspec.msgpack.Decoder(ParseJobResult)

    @property
    def parses_later(self) -> bool:
        """Not while others wait for their turn: then nothing is gained, and two pages of a host would wait."""
        return not self._turns.are_wanted

    async def decode_and_parse(
        self, decode: Callable[[], DecodedBody], *, heavy: bool
    ) -> tuple[DecodedBody, ParseJobResult | None]:
        """Decode a body and parse it; a heavy one waits for its turn before it is decoded."""
        await self._turns.wait()
        async with self._heavy_slots if heavy else contextlib.nullcontext():
            body = decode()
            return body, await self.parse(body.job) if body.job is not None else None

    async def parse(self, job: ParseJob) -> ParseJobResult:
        """Parse a document; the result says why, if it could not be parsed."""
        from tarrafa.parse.structured.jsonld.jsonld_extractor import SandboxRequired

        if is_harmless(job):
            with contextlib.suppress(SandboxRequired):
                return run_parse_job(job, careful=True)
        return await self.parse_in_sandbox(job)

    async def parse_in_sandbox(self, job: ParseJob) -> ParseJobResult:
        """Parse a document in the child process, whatever it is."""
        async with self._child_lock:
            try:
                async with asyncio.timeout(PARSE_TIMEOUT_S):
                    return await self._parse_in_child(job)
            except TimeoutError:  # not its own time limit: this machine may be slow
                self._process.kill()
                return ParseJobResult(refusal=message("it took more than {seconds:g} s", seconds=PARSE_TIMEOUT_S))
            except (asyncio.IncompleteReadError, ConnectionError, msgspec.MsgspecError):
                reason = message("it asked for too much memory or processor time")
            except BaseException:  # cancelled in the middle: the next reply would belong to this job
                self._process.kill()
                raise
            self._process.kill()
            return ParseJobResult(refusal=reason, hostile=True)

    async def _parse_in_child(self, job: ParseJob) -> ParseJobResult:
        reading = self._decoder.decode(await self._process.request(self._encode(job)))
        if reading.hostile:
            self._process.kill()
        return reading

    def close(self) -> None:
        self._process.kill()


def main(descriptor: int) -> None:
    """The child process: parses one document after the other."""
    from tarrafa.parse import page, sitemaps_feeds  # noqa: F401 (no file can be opened later)
    from tarrafa.parse.text_kernels import kernels

    kernels.get()
    parent = SandboxSocket(descriptor)
    decoder, encode = msgspec.msgpack.Decoder(ParseJob), msgspec.msgpack.Encoder().encode
    limit_memory(DOCUMENT_MEMORY_BYTES_MAX)
    parent.send_ready()
    while True:
        job = decoder.decode(parent.receive())
        used = resource.getrusage(resource.RUSAGE_SELF)
        resource.setrlimit(
            resource.RLIMIT_CPU, (int(used.ru_utime + used.ru_stime) + 1 + DOCUMENT_CPU_S_MAX, resource.RLIM_INFINITY)
        )
        reading = run_parse_job(job)
        parent.send(encode(reading))
        if reading.hostile:
            os._exit(0)  # its memory is fragmented


if __name__ == "__main__":
    run_child(main)
