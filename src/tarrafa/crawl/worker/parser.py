"""Parses a fetched document: in the worker if it is harmless, in a sandboxed child process otherwise.

Promises: no document takes more than a named amount of processor time, memory or wall-clock time from a worker, and the
worker continues. A harmless document is parsed in the worker; any other in a child process, which is killed when it
exceeds a limit.

What is harmful? A page of 200 KB with 500 unclosed `<b id=…>` and then many `<p>` makes every HTML parser build 500
elements for each `<p>`: 15 s and 3 GB. The number of elements built is at most formatting tags times all tags, so a
small body in which that product is small is harmless: 40 MB and 0.15 s at the worst. The check costs some 15 us a page;
sending every page to the child process would cost 150. JSON-LD that is not plain needs a parser that crashes on some
input (docs/decisions, 0172): a page with such JSON-LD is parsed in the child process too.
"""

import asyncio
import contextlib
import re
from collections.abc import Callable

import msgspec

from tarrafa.crawl.worker.outcome import DecodedBody
from tarrafa.crawl.worker.parser_process import ParseJob, ParseJobResult, run_parse_job
from tarrafa.parse.page import HTML_TYPES, PLAIN_TYPES
from tarrafa.parse.structured.jsonld import SandboxRequired
from tarrafa.runtime.sandbox import SandboxProcess

IN_PROCESS_BYTES_MAX = 64 << 10
IN_PROCESS_PRODUCT_MAX = 300_000
PARSE_TIMEOUT_S = 60.0  # wall-clock time; the child process limits its own processor time
REPLY_BYTES_MAX = 64 << 20
HEAVY_AT_ONCE = 2
GZIP = b"\x1f\x8b"

# Tags that are reopened in every block until they are closed. (Of `a` and `nobr` only one is open at a time.)
_formatting = re.compile(rb"<(?:b|big|code|em|font|i|s|small|strike|strong|tt|u)[\s/>]", re.IGNORECASE).findall


def is_harmless(job: ParseJob) -> bool:
    """Whether a document is cheap to parse, whatever its content."""
    kind = job.content_type.partition(";")[0].strip().lower()
    body = job.body
    if len(body) > IN_PROCESS_BYTES_MAX:
        return False
    if job.is_listing:  # parsed in one pass; but compressed it may be a bomb
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
        """Parse a document; the result says why, if it could not be parsed."""
        if is_harmless(job):
            with contextlib.suppress(SandboxRequired):
                return run_parse_job(job, careful=True)
        async with self._turn:
            try:
                return await asyncio.wait_for(self._parse_in_child(job), PARSE_TIMEOUT_S)
            except TimeoutError:  # not its own time limit: this machine may be slow
                self._process.kill()
                return ParseJobResult(refusal=f"it took more than {PARSE_TIMEOUT_S:.0f} s")
            except (asyncio.IncompleteReadError, ConnectionError, msgspec.MsgspecError):
                reason = "it asked for too much memory or processor time"
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
