"""The local control socket: commands typed beside a node, such as `tarrafa pause`, are run by its coordinator.

The checks, notices and audit lines are those of the console. The socket is DATA/run/coordinator.sock, which only this
user may open (and who may open it can write the data files as well). One request per connection, one frame each way.
A `ping` before each request shows within seconds that node and frontier answer: an action may take long.
Without a node, `send_control_request` returns None, and the command line calls the frontier itself.
"""

import asyncio
import contextlib
import logging
from pathlib import Path
from typing import Literal

import msgspec

from tarrafa import config
from tarrafa.coordinator.audit import AuditLog
from tarrafa.coordinator.coordinator import Coordinator
from tarrafa.coordinator.definitions import collection_edits
from tarrafa.coordinator.definitions.version_diff import changed_fields
from tarrafa.errors import FrontierError, NotFound, TarrafaError, Unreachable
from tarrafa.frontier.address import ANSWER_TIMEOUT_S, require_answer
from tarrafa.frontier.rpc.codec_and_handshake import DECODE_ERRORS, ERRORS_BY_NAME, LENGTH_PREFIX, read_frame
from tarrafa.i18n import Message, joined
from tarrafa.runtime.data_dir import DataDirectory

REQUEST_S_MAX = 60.0  # to receive a request
PING_S_MAX = ANSWER_TIMEOUT_S + 2.0  # the node itself waits for its frontier
# What `start` means for a collection that ran before.
START_ACTION_BY_STATE = {"finished": "again", "paused": "resume", "stopped": "resume"}
log = logging.getLogger(__name__)

ControlAction = Literal["ping", "add", "start", "pause", "resume", "stop", "delete"]


class ControlRequest(msgspec.Struct, frozen=True):
    """A typed command. `config`: the collection to add."""

    action: ControlAction
    name: str
    who: str
    config: bytes = b""


class ControlResponse(msgspec.Struct, frozen=True):
    """The state of the collection afterwards; or the class of an error, with its sentence as `reason`."""

    state: str = ""
    reason: str = ""
    error: str = ""


def control_socket_path(data: DataDirectory) -> Path:
    return data.run / "coordinator.sock"


class ControlServer:
    """Use it in an `async with`, beside the coordinator."""

    def __init__(self, data: DataDirectory, coordinator: Coordinator, audit: AuditLog) -> None:
        self._path, self._coordinator, self._audit = control_socket_path(data), coordinator, audit
        self._server: asyncio.Server | None = None

    async def __aenter__(self) -> "ControlServer":
        self._path.unlink(missing_ok=True)
        self._server = await asyncio.start_unix_server(self._connected, str(self._path))
        self._path.chmod(0o600)
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._server is not None:
            self._server.close()
        self._path.unlink(missing_ok=True)

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.closing(writer), contextlib.suppress(OSError, EOFError, TimeoutError, *DECODE_ERRORS):
            async with asyncio.timeout(REQUEST_S_MAX):
                request = msgspec.msgpack.decode(await read_frame(reader), type=ControlRequest)
            writer.write(_frame(await self._handle(request)))
            await writer.drain()

    async def _handle(self, request: ControlRequest) -> ControlResponse:
        action = "act on a collection"
        if request.action == "ping":
            return await self._answer_ping()
        try:
            if request.action == "add":
                action, detail = await self._add(request)
            else:
                detail = await self._act(request)
        except TarrafaError as error:
            await self._record_audit(request, action, joined([request.action, error.message], ": "), refused=True)
            return ControlResponse(reason=str(error), error=type(error).__name__)
        await self._record_audit(request, action, detail)
        status = self._coordinator.overview.status(request.name)
        return ControlResponse() if status is None else ControlResponse(status.state, str(status.reason))

    async def _answer_ping(self) -> ControlResponse:
        try:
            await require_answer(self._coordinator.frontier(), self._path.parent.parent)
        except TarrafaError as error:
            return ControlResponse(reason=str(error), error=type(error).__name__)
        return ControlResponse()

    async def _act(self, request: ControlRequest) -> str:
        """Carry out the action; its name for the audit."""
        action: str = request.action
        if action == "start":
            state = (await self._coordinator.definitions.standing(request.name)).state
            action = START_ACTION_BY_STATE.get(state, action)
        await self._coordinator.actions.act(request.name, action, request.who)
        return action

    async def _add(self, request: ControlRequest) -> tuple[str, str]:
        """Create the collection, or edit an existing one; action and detail for the audit."""
        collection = await asyncio.to_thread(config.decode_collection, request.config)
        try:
            before = await self._coordinator.definitions.in_force(collection.name)
        except NotFound:
            await self._coordinator.actions.create(collection, request.who, start=False)
            return "create a collection", ""
        await self._coordinator.actions.edit(collection.name, collection, request.who)
        changes = await asyncio.to_thread(changed_fields, before, collection)
        return "edit a collection", collection_edits.keys_for_audit(changes)

    async def _record_audit(
        self, request: ControlRequest, action: str, detail: Message | str, *, refused: bool = False
    ) -> None:
        try:
            await asyncio.to_thread(self._audit.record, request.who, action, request.name, detail, refused=refused)
        except TarrafaError as error:
            log.error("the audit log could not be written: %s", error)


async def send_control_request(data: DataDirectory, request: ControlRequest) -> ControlResponse | None:
    """Let the node of this data directory do it; None: no node runs here. A refusal, or a silent node, is raised."""
    try:
        async with asyncio.timeout(PING_S_MAX):
            is_there = await _exchange(data, ControlRequest("ping", "", request.who))
    except TimeoutError:
        raise Unreachable(
            f"{data.root}: the node did not answer within {PING_S_MAX:.0f} s: it hangs; nothing was changed"
        ) from None
    return None if is_there is None else await _exchange(data, request)


async def _exchange(data: DataDirectory, request: ControlRequest) -> ControlResponse | None:
    try:
        reader, writer = await asyncio.open_unix_connection(str(control_socket_path(data)))
    except OSError:
        return None
    with contextlib.closing(writer):
        try:
            writer.write(_frame(request))
            await writer.drain()
            response = msgspec.msgpack.decode(await read_frame(reader), type=ControlResponse)
        except (OSError, EOFError, *DECODE_ERRORS):
            raise Unreachable(
                f"{data.root}: the node ended before it answered; check the state of the collection"
            ) from None
    if response.error:
        raise ERRORS_BY_NAME.get(response.error, FrontierError)(response.reason)
    return response


def _frame(message: ControlRequest | ControlResponse) -> bytes:
    body = msgspec.msgpack.encode(message)
    return LENGTH_PREFIX.pack(len(body)) + body
