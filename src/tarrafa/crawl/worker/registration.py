"""Registers a worker at the frontier under its name, also after its predecessor was killed.

The frontier cannot know whether a worker on another machine was killed. Its successor can: `DATA/run/NAME.worker` names
the process that had the name. If that process is gone, the successor says so, and its hosts are free at once. Where
that cannot be seen (the machine has booted since), the successor waits until the predecessor's lease must be over. A
name that a running process has is an error at once.
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
    """The process that had the name last, in this data directory."""

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
    """Register; returns the terms, and the boot time of the request for them."""
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
    """Free the name."""
    with contextlib.suppress(OSError):
        _path(data, name).unlink()
