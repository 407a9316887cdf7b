"""Drain: a node gives everything back that it holds, then it ends.

    DATA/run/node.json    the process of the running node
    DATA/run/draining     while it is being drained

From the moment of the order the node is not ready (`readiness`). Its workers commit what they have fetched and return
their hosts, the followers read the rest of the log, and parts of the index and of the link graph are free for others
at once, instead of after a lease.
"""

import contextlib
import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec

from tarrafa.clock import boottime
from tarrafa.errors import NotFound, Unreachable
from tarrafa.i18n import message
from tarrafa.runtime.data_dir import DataDirectory, write_atomically
from tarrafa.runtime.process_identity import ProcessId, current_process, is_dead

LOOK_EVERY_S = 0.2


def is_draining(data: DataDirectory) -> bool:
    return _flag_path(data).exists()


def _flag_path(data: DataDirectory) -> Path:
    return data.run / "draining"


def _node_path(data: DataDirectory) -> Path:
    return data.run / "node.json"


@contextmanager
def drainable(data: DataDirectory) -> Iterator[None]:
    """While this process is the supervisor of a data directory."""
    _flag_path(data).unlink(missing_ok=True)
    write_atomically(_node_path(data), msgspec.json.encode(current_process()), durable=False)
    try:
        yield
    finally:
        for path in (_node_path(data), _flag_path(data)):
            path.unlink(missing_ok=True)


def drain(data: DataDirectory, wait_s: float) -> None:
    """Drain the node of a data directory, and wait until it has ended."""
    process = _running_node(data)
    if process is None:
        raise NotFound(message("{path}: no node runs here", path=data.root))
    _flag_path(data).touch()
    with contextlib.suppress(ProcessLookupError):
        os.kill(process.pid, signal.SIGTERM)
    until = boottime() + wait_s
    while _running_node(data) is not None:
        if boottime() > until:
            raise Unreachable(message("{path}: the node has not ended yet; it goes on draining", path=data.root))
        time.sleep(LOOK_EVERY_S)


def _running_node(data: DataDirectory) -> ProcessId | None:
    try:
        found = msgspec.json.decode(_node_path(data).read_bytes(), type=ProcessId)
    except (OSError, msgspec.MsgspecError):
        return None
    return None if is_dead(found) else found
