"""Rebuilds the index from the archive with one process per part and all processors.

Each part of the index is built by a process of its own, as many at once as there are processors; where there are more
processors than parts, each builder has child processes for text analysis (`document_builder`). Promises: with any
number of processes, and after any kill, the final index is the one that a single process would have built or, if the
rebuild did not finish, the old one, which answers meanwhile. All processes die with the one that started them. Knows
nothing of terminals: `report` receives the bytes of the archive that were processed since its last call.

`python -m tarrafa.index.parallel_rebuild --part 2-of-4 ...` builds one part.
"""

import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from typing import IO

from tarrafa.archive import warc_reader as archive
from tarrafa.archive.projection import cursor_of
from tarrafa.errors import DataError
from tarrafa.index import index_state, shards
from tarrafa.index.follower import build_part, rebuild, replacement_parts
from tarrafa.runtime.child_process import child_command, run_child
from tarrafa.runtime.data_dir import DataDirectory

POLL_EVERY_S = 0.2
SMALL_BYTES = 2 << 20  # a smaller archive is rebuilt without child processes

OnProgress = Callable[[int], None]


def rebuild_in_parallel(
    data: DataDirectory,
    processes: int,
    report: OnProgress = lambda size: None,
    divided: shards.ShardLayout | None = None,
) -> int:
    """Rebuild the index from the archive with this many processes, and with a new layout if one is given; the number of
    records read.
    """
    if processes <= 1 or sum(archive.visit_lengths(data.archive).values()) < SMALL_BYTES:
        return rebuild(data, divided)
    with replacement_parts(data, divided) as parts, _PartBuilders(parts, processes) as builders:
        reported = 0
        while builders.poll():
            time.sleep(POLL_EVERY_S)
            done = sum(sum(_cursor(part).values()) for part in parts) // max(1, len(parts))
            report(max(0, done - reported))
            reported = max(done, reported)
    return builders.read


def _cursor(part: DataDirectory) -> dict[str, int]:
    """The cursor of a part, which may be just starting."""
    with suppress(DataError):
        return cursor_of(index_state.database_file(part))
    return {}


class _PartBuilders:
    """The processes that build the parts. Use it in a `with`: leaving it ends them."""

    def __init__(self, parts: list[DataDirectory], processes: int) -> None:
        self._waiting = list(reversed(parts))
        self._at_once = max(1, min(len(parts), processes))
        self._processes = processes // self._at_once if processes // self._at_once > 1 else 0
        self._running: dict[str, tuple[subprocess.Popen[bytes], IO[bytes]]] = {}
        self.read = 0

    def __enter__(self) -> "_PartBuilders":
        return self

    def __exit__(self, *_: object) -> None:
        for process, output in self._running.values():
            process.kill()
            process.wait()
            output.close()

    def poll(self) -> bool:
        """Start waiting builders, collect finished ones; whether any is running."""
        while self._waiting and len(self._running) < self._at_once:
            self._start(self._waiting.pop())
        for name, (process, output) in list(self._running.items()):
            if process.poll() is not None:
                del self._running[name]
                self.read += _records_read(name, process.returncode, output)
        return bool(self._running or self._waiting)

    def _start(self, part: DataDirectory) -> None:
        output = tempfile.TemporaryFile()  # noqa: SIM115 (it is read when the process has ended)
        module = "tarrafa.index.parallel_rebuild"
        command = child_command(module, data=part, part=part.part, processes=self._processes)
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT)
        self._running[part.part] = (process, output)


def _records_read(name: str, code: int, output: IO[bytes]) -> int:
    """The result of an ended process: the number of records that it read, or its error."""
    with output:
        output.seek(0)
        lines = output.read().decode(errors="replace").strip().splitlines()
    last = lines[-1] if lines else ""
    if code == 0 and last.isdigit():
        return int(last)
    if code < 0:
        which = f"part {name.removeprefix(f'{shards.NEW_FOLDER}/')} of the index" if "/" in name else "the index"
        raise DataError(f"the process that made {which} was killed (signal {-code}); run the command again")
    raise DataError(last.removeprefix("error: ") or f"making the index failed (exit status {code})")


def main(data: DataDirectory, part: str, processes: int) -> None:
    sys.stdout.write(f"{build_part(DataDirectory(data.root, part), processes)}\n")


if __name__ == "__main__":
    run_child(main)
