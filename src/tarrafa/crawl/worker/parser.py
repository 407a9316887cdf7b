"""Parses a fetched document: in the worker if it is harmless, in a sandboxed child process otherwise.

Promises: no document takes more than a named amount of processor time, memory or patience from a worker, and the
worker goes on. What cannot hurt is read in place; the rest by a process beside it, which is killed when it asks for
too much.

What can hurt? A page of 200 KB with 500 unclosed `<b id=…>` and then many `<p>` makes every HTML parser build 500
elements for each `<p>`: 15 s and 3 GB. Elements made are at most formatting tags times all tags, so a small body in
which that product is small is tame: 40 MB and 0.15 s at the worst. The scan costs some 15 us a page; sending every
page to the other process would cost 150. JSON-LD that is not plain needs a parser that crashes on some
(docs/decisions, 0172): a page that has any is read there too.
"""

import asyncio
import contextlib
import re
from collections.abc import Callable

import msgspec

from tarrafa.crawl.worker.outcome import DecodedBody
from tarrafa.crawl.worker.parser_process import ParseJob, ParseJobResult, run_parse_job
from tarrafa.parse.errors import SandboxRequired
from tarrafa.parse.page import HTML_TYPES, PLAIN_TYPES
from tarrafa.runtime.sandbox import SandboxProcess

IN_PROCESS_BYTES_MAX = 64 << 10
IN_PROCESS_PRODUCT_MAX = 300_000
PARSE_TIMEOUT_S = 60.0  # of the clock on the wall; processor time is limited by the process itself
REPLY_BYTES_MAX = 64 << 20
HEAVY_AT_ONCE = 2
GZIP = b"\x1f\x8b"

# Those that are opened again in every block until they are closed. (Of `a` and `nobr` only one is open at a time.)
_formatting = re.compile(rb"<(?:b|big|code|em|font|i|s|small|strike|strong|tt|u)[\s/>]", re.IGNORECASE).findall


def is_harmless(job: ParseJob) -> bool:
    """Whether a document cannot cost much, whatever is in it."""
    kind = job.content_type.partition(";")[0].strip().lower()
    body = job.body
    if len(body) > IN_PROCESS_BYTES_MAX:
        return False
    if job.is_listing:  # read in one pass; but packed it may be a bomb
        return not body.startswith(GZIP)
    if kind not in HTML_TYPES | PLAIN_TYPES:
        return False
    if b"\x00" in body or b"\x1b" in body:  # UTF-16, or an encoding with escapes: tags would not be seen
        return False
    formatting = len(_formatting(body))
    return formatting * body.count(b"<") <= IN_PROCESS_PRODUCT_MAX


class SandboxedParser:
    """One per worker; its process is started when it is first needed."""

    def __init__(self) -> None:
        self._turn, self._heavy_slots = asyncio.Lock(), asyncio.Semaphore(HEAVY_AT_ONCE)
        self._process = SandboxProcess("tarrafa.crawl.worker.parser_process", REPLY_BYTES_MAX)
        self._encode = msgspec.msgpack.Encoder().encode
        self._decoder = msgspec.msgpack.Decoder(ParseJobResult)

    async def decode_and_parse(
        self, decode: Callable[[], DecodedBody], *, heavy: bool
    ) -> tuple[DecodedBody, ParseJobResult | None]:
        """Decode a body and parse it; a heavy one waits for its turn before it is decoded."""
        async with self._heavy_slots if heavy else contextlib.nullcontext():
            body = decode()
            return body, await self.parse(body.job) if body.job is not None else None

    async def parse(self, job: ParseJob) -> ParseJobResult:
        """What the document says, or why it could not be read."""
        if is_harmless(job):
            with contextlib.suppress(SandboxRequired):
                return run_parse_job(job, careful=True)
        async with self._turn:
            try:
                return await asyncio.wait_for(self._parse_in_child(job), PARSE_TIMEOUT_S)
            except TimeoutError:  # not of its own time: that may be us
                self._process.kill()
                return ParseJobResult(refusal=f"it took more than {PARSE_TIMEOUT_S:.0f} s")
            except (asyncio.IncompleteReadError, ConnectionError, msgspec.MsgspecError):
                reason = "it asked for too much memory or processor time"
            except BaseException:  # cancelled in the middle: the next answer would not be for the next question
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
