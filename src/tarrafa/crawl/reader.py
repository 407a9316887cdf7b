"""Who reads what was fetched, and what may it cost?

Promises: no document takes more than a named amount of processor time, memory or patience from a worker, and the
worker goes on. What cannot hurt is read in place; the rest by a process beside it, which is killed when it asks for too
much.

What can hurt? A page of 200 KB with 500 unclosed `<b id=…>` and then many `<p>` makes every HTML parser build 500
elements for each `<p>`: 15 s and 3 GB. Elements made are at most formatting tags times all tags, so a small body in
which that product is small is tame: 40 MB and 0.15 s at the worst. The scan costs some 15 us a page; sending every page
to the other process would cost 150. JSON-LD that is not plain needs a parser that crashes on some (DECISIONS.md): a
page that has any is read there too.
"""

import asyncio
import contextlib
import os
import re
import socket
import subprocess
import sys

import msgspec

from tarrafa.crawl.reading import LENGTH_BYTES, READY, Job, Reading, read
from tarrafa.parse.page import HTML_TYPES, PLAIN_TYPES
from tarrafa.parse.refusal import Risky

TAME_BYTES_MAX = 64 << 10
TAME_PRODUCT_MAX = 300_000
PATIENCE_S = 60.0  # of the clock on the wall; processor time is limited by the process itself
ANSWER_BYTES_MAX = 64 << 20
STARTS_MAX = 3
ONE_THREAD = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}  # with more, nobody but root can leave the network
GZIP = b"\x1f\x8b"

# Those that are opened again in every block until they are closed. (Of `a` and `nobr` only one is open at a time.)
_formatting = re.compile(rb"<(?:b|big|code|em|font|i|s|small|strike|strong|tt|u)[\s/>]", re.IGNORECASE).findall


def is_tame(job: Job) -> bool:
    """Whether a document cannot cost much, whatever is in it."""
    kind = job.content_type.partition(";")[0].strip().lower()
    body = job.body
    if len(body) > TAME_BYTES_MAX:
        return False
    if job.is_listing:  # read in one pass; but packed it may be a bomb
        return not body.startswith(GZIP)
    if kind not in HTML_TYPES | PLAIN_TYPES:
        return False
    if b"\x00" in body or b"\x1b" in body:  # UTF-16, or an encoding with escapes: tags would not be seen
        return False
    formatting = len(_formatting(body))
    return formatting * body.count(b"<") <= TAME_PRODUCT_MAX


class Reader:
    """One per worker; its process is started when it is first needed."""

    def __init__(self) -> None:
        self._turn = asyncio.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None
        self._encode = msgspec.msgpack.Encoder().encode
        self._decoder = msgspec.msgpack.Decoder(Reading)

    async def read(self, job: Job) -> Reading:
        """What the document says, or why it could not be read."""
        if is_tame(job):
            with contextlib.suppress(Risky):
                return read(job, careful=True)
        async with self._turn:
            try:
                return await asyncio.wait_for(self._elsewhere(job), PATIENCE_S)
            except TimeoutError:  # not of its own time: that may be us
                self._kill()
                return Reading(refusal=f"it took more than {PATIENCE_S:.0f} s")
            except (asyncio.IncompleteReadError, ConnectionError, msgspec.MsgspecError):
                reason = "it asked for too much memory or processor time"
            except BaseException:  # cancelled in the middle: the next answer would not be for the next question
                self._kill()
                raise
            self._kill()
            return Reading(refusal=reason, hostile=True)

    async def _elsewhere(self, job: Job) -> Reading:
        if self._streams is None or self._process is None or self._process.poll() is not None:
            await self._start()
        assert self._streams is not None
        incoming, outgoing = self._streams
        content = self._encode(job)
        outgoing.write(len(content).to_bytes(LENGTH_BYTES, "big") + content)
        await outgoing.drain()
        length = int.from_bytes(await incoming.readexactly(LENGTH_BYTES), "big")
        if length > ANSWER_BYTES_MAX:
            raise ConnectionError(f"an answer of {length} bytes")
        reading = self._decoder.decode(await incoming.readexactly(length))
        if reading.hostile:
            self._kill()
        return reading

    async def _start(self) -> None:
        """Have it running and ready: from then on, what becomes of it is the document's doing."""
        for _ in range(STARTS_MAX):
            self._kill()
            ours, theirs = socket.socketpair()
            arguments = [sys.executable, "-m", "tarrafa.crawl.reading", str(theirs.fileno()), str(os.getpid())]
            with theirs:  # not asyncio's: libuv would make it listen to the terminal's Ctrl-C
                self._process = subprocess.Popen(  # noqa: ASYNC220
                    arguments, stdin=subprocess.DEVNULL, pass_fds=[theirs.fileno()], env=os.environ | ONE_THREAD
                )
            self._streams = await asyncio.open_connection(sock=ours, limit=ANSWER_BYTES_MAX)
            with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
                await self._streams[0].readexactly(len(READY))
                return
        raise RuntimeError("the reading process does not start")

    def _kill(self) -> None:
        if self._streams is not None:
            self._streams[1].close()
            self._streams = None
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def close(self) -> None:
        self._kill()
