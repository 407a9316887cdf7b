"""Endpoint that streams this node's part of a report, counted by a child process (POST /report).

    POST /report/VERSION    see report/distributed/part_wire.py

Promises: requests without the token are refused; an invalid request or one of another version is refused in one
sentence and changes nothing. A child process counts, so that searches are not delayed: one at a time, further requests
wait. It ends with its request: when the client has gone, or after RESPONSE_S_MAX. A message is sent every second to
show that the node is alive.
"""

import asyncio
import contextlib
import logging
import os
from asyncio.subprocess import PIPE
from collections.abc import Awaitable, Callable

import msgspec
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from tarrafa.report.distributed.local_part import PartRequest
from tarrafa.report.distributed.part_wire import (
    CONTENT_TYPE,
    LENGTH_BYTES,
    REQUEST_BYTES_MAX,
    VERSION,
    PartFailed,
    PartKeepAlive,
    encode_frame,
)
from tarrafa.runtime.child_process import child_command
from tarrafa.runtime.data_dir import DataDirectory
from tarrafa.runtime.token import TOKEN_VARIABLE, Token
from tarrafa.server.auth.bearer_token import create_token_app, require_body

MODULE = "tarrafa.report.distributed.part_process"
RESPONSE_S_MAX = 3600.0
HEARTBEAT_EVERY_S = 1.0
WAITING_MAX = 8  # requests
INCOMPLETE = "it was not counted to the end"

log = logging.getLogger(__name__)
SendFrame = Callable[[bytes], Awaitable[None]]


def create_report_part_app(counter: "ReportPartCounter", token: Token) -> Starlette:
    """To be mounted at `part_wire.PATH`."""
    if not token:
        raise ValueError("reports need a token")

    async def handle(request: Request) -> Response:
        if request.path_params["version"] != VERSION:
            return _refuse(409, f"this is another version of Tarrafa ({VERSION})")
        body = await require_body(request, REQUEST_BYTES_MAX)
        try:
            part = msgspec.msgpack.decode(body, type=PartRequest)
        except (msgspec.MsgspecError, RecursionError) as error:
            return _refuse(400, f"the request cannot be understood: {error}")
        if counter.waiting >= WAITING_MAX:
            return _refuse(503, "too many reports are being made")
        return _ReportPartResponse(counter, part)

    return create_token_app([Route("/{version}", handle, methods=["POST"])], token.secret, _refuse, lambda error: None)


def _refuse(code: int, sentence: str) -> Response:
    return PlainTextResponse(sentence, code)


class ReportPartCounter:
    """Runs the process that counts, one at a time; further requests wait."""

    def __init__(self, data: DataDirectory) -> None:
        self._data, self._turn = data, asyncio.Lock()
        self.waiting, self.closing = 0, asyncio.Event()

    def close(self) -> None:
        """End all responses at once."""
        self.closing.set()

    async def count(self, part: PartRequest, send_frame: SendFrame) -> None:
        """Send the frames of the response, each as a whole."""
        self.waiting += 1
        try:
            async with self._turn:
                await self._count(part, send_frame)
        finally:
            self.waiting -= 1

    async def _count(self, part: PartRequest, send_frame: SendFrame) -> None:
        line = child_command(MODULE, data=self._data)
        settings = {name: value for name, value in os.environ.items() if name != TOKEN_VARIABLE}
        process = await asyncio.create_subprocess_exec(*line, stdin=PIPE, stdout=PIPE, env=settings)
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            process.stdin.write(msgspec.msgpack.encode(part))
            process.stdin.close()
            while not process.stdout.at_eof():
                with contextlib.suppress(asyncio.IncompleteReadError):  # the process died
                    length = await process.stdout.readexactly(LENGTH_BYTES)
                    await send_frame(length + await process.stdout.readexactly(int.from_bytes(length, "big")))
        finally:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            await process.communicate()  # a full pipe would keep the process from ending


class _ReportPartResponse(Response):
    """A response that is streamed while it is counted, and ends when the client disconnects."""

    def __init__(self, counter: ReportPartCounter, part: PartRequest) -> None:
        super().__init__(media_type=CONTENT_TYPE)
        del self.headers["content-length"]
        self._counter, self._part, self._sending = counter, part, asyncio.Lock()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def send_frame(content: bytes, more: bool = True) -> None:
            async with self._sending:
                await send({"type": "http.response.body", "body": content, "more_body": more})

        await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
        streaming = asyncio.create_task(self._stream_part(send_frame))
        gone = asyncio.create_task(_wait_for_disconnect(receive))
        tasks = (streaming, gone, asyncio.create_task(self._counter.closing.wait()))
        try:
            await asyncio.wait(tasks, timeout=RESPONSE_S_MAX, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        if gone.cancelled():
            await send_frame(b"" if _succeeded(streaming) else encode_frame(PartFailed(INCOMPLETE)), more=False)

    async def _stream_part(self, send_frame: SendFrame) -> None:
        beating = asyncio.create_task(_send_heartbeats(send_frame))
        try:
            await self._counter.count(self._part, send_frame)
        finally:
            beating.cancel()
            await asyncio.gather(beating, return_exceptions=True)


def _succeeded(streaming: "asyncio.Task[None]") -> bool:
    if not streaming.cancelled() and (error := streaming.exception()) is not None:
        log.error("unexpected", exc_info=error)
        return False
    return not streaming.cancelled()


async def _send_heartbeats(send_frame: SendFrame) -> None:
    while True:
        await send_frame(encode_frame(PartKeepAlive()))
        await asyncio.sleep(HEARTBEAT_EVERY_S)


async def _wait_for_disconnect(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
