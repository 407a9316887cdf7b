"""The local control socket: commands typed beside a node, such as `tarrafa pause`, are run by its coordinator.

The coordinator, as it does what people wish in the console: the same checks and sentences, the same notes of who and
when, the same notices, and a line in the audit. It listens at DATA/run/coordinator.sock, which only this user may
open; who may, can write the files as well. One wish per connection, a frame each way. Where no node works, `ask` says
so, and the command line speaks to the frontier itself.
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
from tarrafa.coordinator.definitions import collection_edits, draft
from tarrafa.errors import FrontierError, NotFound, TarrafaError, Unreachable
from tarrafa.frontier.rpc import codec
from tarrafa.frontier.rpc.codec import read_frame
from tarrafa.runtime.data_dir import DataDirectory

REQUEST_S_MAX = 60.0  # for it to arrive whole
# What `start` means where there is something already.
START_ACTION_BY_STATE = {"finished": "again", "paused": "resume", "stopped": "resume"}
log = logging.getLogger(__name__)

ControlAction = Literal["add", "start", "pause", "resume", "stop", "delete"]


class ControlRequest(msgspec.Struct, frozen=True):
    """What somebody typed. `config`: of the collection that is to be added."""

    action: ControlAction
    name: str
    who: str
    config: bytes = b""


class ControlResponse(msgspec.Struct, frozen=True):
    """How the collection stands now; or which kind of error it was, and its sentence."""

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
        with contextlib.closing(writer), contextlib.suppress(OSError, EOFError, TimeoutError, *codec.DECODE_ERRORS):
            async with asyncio.timeout(REQUEST_S_MAX):
                wish = msgspec.msgpack.decode(await read_frame(reader), type=ControlRequest)
            writer.write(_frame(await self._handle(wish)))
            await writer.drain()

    async def _handle(self, wish: ControlRequest) -> ControlResponse:
        action = "act on a collection"
        try:
            if wish.action == "add":
                action, detail = await self._add(wish)
            else:
                detail = await self._act(wish)
        except TarrafaError as error:
            await self._record_audit(wish, action, f"{wish.action}: {error}", refused=True)
            return ControlResponse(reason=str(error), error=type(error).__name__)
        await self._record_audit(wish, action, detail)
        status = self._coordinator.overview.status(wish.name)
        return ControlResponse() if status is None else ControlResponse(status.state, str(status.reason))

    async def _act(self, wish: ControlRequest) -> str:
        """What was done."""
        action: str = wish.action
        if action == "start":
            state = (await self._coordinator.definitions.standing(wish.name)).state
            action = START_ACTION_BY_STATE.get(state, action)
        await self._coordinator.actions.act(wish.name, action, wish.who)
        return action

    async def _add(self, wish: ControlRequest) -> tuple[str, str]:
        """A new one, or what one that is there is to be from now on; what the audit says of it."""
        collection = await asyncio.to_thread(config.decode_collection, wish.config)
        try:
            before = await self._coordinator.definitions.in_force(collection.name)
        except NotFound:
            await self._coordinator.actions.create(collection, wish.who, start=False)
            return "create a collection", ""
        await self._coordinator.actions.edit(collection.name, collection, wish.who)
        changes = await asyncio.to_thread(draft.changed_fields, before, collection)
        return "edit a collection", collection_edits.keys_for_audit(changes)

    async def _record_audit(self, wish: ControlRequest, action: str, detail: str, *, refused: bool = False) -> None:
        try:
            await asyncio.to_thread(self._audit.record, wish.who, action, wish.name, detail, refused=refused)
        except TarrafaError as error:
            log.error("the audit could not be written: %s", error)


async def send_control_request(data: DataDirectory, wish: ControlRequest) -> ControlResponse | None:
    """Have it done by the node that works in this directory; None: there is none. What it refuses is raised."""
    try:
        reader, writer = await asyncio.open_unix_connection(str(control_socket_path(data)))
    except OSError:
        return None
    with contextlib.closing(writer):
        try:
            writer.write(_frame(wish))
            await writer.drain()
            answer = msgspec.msgpack.decode(await read_frame(reader), type=ControlResponse)
        except (OSError, EOFError, *codec.DECODE_ERRORS):
            raise Unreachable(f"{data.root}: the node ended before it answered; see what it has done") from None
    if answer.error:
        raise codec.ERRORS_BY_NAME.get(answer.error, FrontierError)(answer.reason)
    return answer


def _frame(message: ControlRequest | ControlResponse) -> bytes:
    body = msgspec.msgpack.encode(message)
    return codec.LENGTH_PREFIX.pack(len(body)) + body
