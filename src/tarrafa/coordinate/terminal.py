"""Somebody types `tarrafa pause NAME` beside a node: who does it?

The coordinator, as it does what people wish in the console: the same checks and sentences, the same notes of who and
when, the same notices, and a line in the audit. It listens at DATA/run/coordinator.sock, which only this user may open;
who may, can write the files as well. One wish per connection, a frame each way. Where no node works, `ask` says so, and
the command line speaks to the frontier itself.
"""

import asyncio
import contextlib
import logging
from pathlib import Path
from typing import Literal

import msgspec

from tarrafa import config
from tarrafa.coordinate import authoring, drafts
from tarrafa.coordinate.audit import Audit
from tarrafa.coordinate.coordinator import Coordinator
from tarrafa.data import DataDirectory
from tarrafa.errors import FrontierError, NoSuchThing, TarrafaError, Unreachable
from tarrafa.frontier import wire
from tarrafa.frontier.remote import read_frame

WISH_S_MAX = 60.0  # for it to arrive whole
# What `start` means where there is something already.
START_IN = {"finished": "again", "paused": "resume", "stopped": "resume"}
log = logging.getLogger(__name__)

Typed = Literal["add", "start", "pause", "resume", "stop", "delete"]


class Wish(msgspec.Struct, frozen=True):
    """What somebody typed. `config`: of the collection that is to be added."""

    action: Typed
    name: str
    who: str
    config: bytes = b""


class Answer(msgspec.Struct, frozen=True):
    """How the collection stands now; or which kind of error it was, and its sentence."""

    state: str = ""
    reason: str = ""
    error: str = ""


def path_of(data: DataDirectory) -> Path:
    return data.run / "coordinator.sock"


class Terminal:
    """Use it in an `async with`, beside the coordinator."""

    def __init__(self, data: DataDirectory, coordinator: Coordinator, audit: Audit) -> None:
        self._path, self._coordinator, self._audit = path_of(data), coordinator, audit
        self._server: asyncio.Server | None = None

    async def __aenter__(self) -> "Terminal":
        self._path.unlink(missing_ok=True)
        self._server = await asyncio.start_unix_server(self._connected, str(self._path))
        self._path.chmod(0o600)
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._server is not None:
            self._server.close()
        self._path.unlink(missing_ok=True)

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.closing(writer), contextlib.suppress(OSError, EOFError, TimeoutError, *wire.UNREADABLE):
            async with asyncio.timeout(WISH_S_MAX):
                wish = msgspec.msgpack.decode(await read_frame(reader), type=Wish)
            writer.write(_framed(await self._fulfil(wish)))
            await writer.drain()

    async def _fulfil(self, wish: Wish) -> Answer:
        action = "act on a collection"
        try:
            if wish.action == "add":
                action, detail = await self._add(wish)
            else:
                detail = await self._act(wish)
        except TarrafaError as error:
            await self._write_down(wish, action, f"{wish.action}: {error}", refused=True)
            return Answer(reason=str(error), error=type(error).__name__)
        await self._write_down(wish, action, detail)
        status = self._coordinator.status(wish.name)
        return Answer() if status is None else Answer(status.state, status.reason)

    async def _act(self, wish: Wish) -> str:
        """What was done."""
        action: str = wish.action
        if action == "start":
            state = (await self._coordinator.definitions.standing(wish.name)).state
            action = START_IN.get(state, action)
        await self._coordinator.act(wish.name, action, wish.who)
        return action

    async def _add(self, wish: Wish) -> tuple[str, str]:
        """A new one, or what one that is there is to be from now on; what the audit says of it."""
        collection = await asyncio.to_thread(config.decode, wish.config)
        try:
            before = await self._coordinator.must_config(collection.name)
        except NoSuchThing:
            await self._coordinator.create(collection, wish.who, start=False)
            return "create a collection", ""
        await self._coordinator.edit(collection.name, collection, wish.who)
        changes = await asyncio.to_thread(drafts.differences, before, collection)
        return "edit a collection", authoring.told(changes)

    async def _write_down(self, wish: Wish, action: str, detail: str, *, refused: bool = False) -> None:
        try:
            await asyncio.to_thread(self._audit.note, wish.who, action, wish.name, detail, refused=refused)
        except TarrafaError as error:
            log.error("the audit could not be written: %s", error)


async def ask(data: DataDirectory, wish: Wish) -> Answer | None:
    """Have it done by the node that works in this directory; None: there is none. What it refuses is raised."""
    try:
        reader, writer = await asyncio.open_unix_connection(str(path_of(data)))
    except OSError:
        return None
    with contextlib.closing(writer):
        try:
            writer.write(_framed(wish))
            await writer.drain()
            answer = msgspec.msgpack.decode(await read_frame(reader), type=Answer)
        except (OSError, EOFError, *wire.UNREADABLE):
            raise Unreachable(f"{data.root}: the node ended before it answered; see what it has done") from None
    if answer.error:
        raise wire.ERRORS.get(answer.error, FrontierError)(answer.reason)
    return answer


def _framed(message: Wish | Answer) -> bytes:
    body = msgspec.msgpack.encode(message)
    return wire.LENGTH.pack(len(body)) + body
