"""Registers a worker at the frontier under its name, also after its predecessor was killed.

A worker that was killed on another machine is not provably dead to the frontier. To its successor it is: it finds in
`DATA/run/NAME.worker` which process had the name, sees that it is gone, and says so; then the hosts are free at once.
Where it cannot see that (the machine has booted since), it waits until the predecessor's lease must be over. A name
that somebody else has is an error at once.
"""

import asyncio
import contextlib
from pathlib import Path

import msgspec

from tarrafa.clock import boottime
from tarrafa.errors import NameTaken
from tarrafa.frontier.api import Frontier
from tarrafa.frontier.messages import WorkerRegistration
from tarrafa.runtime.data_dir import DataDirectory, write_atomically
from tarrafa.runtime.process import ProcessId, current_process, is_dead

RETRY_S, SPARE_S = 0.5, 5.0


class PreviousWorker(msgspec.Struct, frozen=True):
    """Who had the name last, in this data directory."""

    process: ProcessId
    lease_s: float


def _path(data: DataDirectory, name: str) -> Path:
    return data.run / f"{name}.worker"


def _read(path: Path) -> PreviousWorker | None:
    try:
        return msgspec.json.decode(path.read_bytes(), type=PreviousWorker)
    except (OSError, msgspec.MsgspecError):
        return None


async def register(frontier: Frontier, data: DataDirectory, name: str) -> tuple[WorkerRegistration, float]:
    """The terms, and the boot time at which we asked for them."""
    path = _path(data, name)
    former, me = _read(path), current_process()
    began = boottime()
    while True:
        buried = former is not None and is_dead(former.process)
        if former is not None and buried:
            await frontier.release_process(former.process)
        asked_at = boottime()
        try:
            terms = await frontier.join(name, me)
        except NameTaken:
            if former is None or buried or asked_at - began > former.lease_s + SPARE_S:
                raise
            await asyncio.sleep(RETRY_S)
            continue
        write_atomically(path, msgspec.json.encode(PreviousWorker(me, terms.lease_s)), durable=False)
        return terms, asked_at


def unregister(data: DataDirectory, name: str) -> None:
    """The name is free again."""
    with contextlib.suppress(OSError):
        _path(data, name).unlink()
