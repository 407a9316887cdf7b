"""Rebuilds the index from the archive with one process per part and all processors.

Each part of the index is built by a process of its own, as many at once as there are processors; where there are more
processors than parts, each builder has child processes for text analysis (`document_builder`). Promises: with any
number of processes, and after any kill, the final index is the one that a single process would have built or, if the
rebuild did not finish, the old one, which answers meanwhile. All processes die with the one that started them. Knows
nothing of terminals: `tell` receives the bytes of the archive that were processed since its last call.

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
from tarrafa.index import indexed_visits, shards
from tarrafa.index.follower import build_part, rebuild, replacement_parts
from tarrafa.runtime.child_process import child_command, run_child
from tarrafa.runtime.data_dir import DataDirectory

POLL_EVERY_S = 0.2
SMALL_BYTES = 2 << 20  # a smaller archive is rebuilt without child processes

OnProgress = Callable[[int], None]


def rebuild_in_parallel(
    data: DataDirectory, processes: int, tell: OnProgress = lambda size: None, divided: shards.ShardLayout | None = None
) -> int:
    """Rebuild the index from the archive with this many processes, and with a new layout if one is given; the number of
    records read.
    """
    if processes <= 1 or sum(archive.visit_lengths(data.archive).values()) < SMALL_BYTES:
        return rebuild(data, divided)
    with replacement_parts(data, divided) as parts, _PartBuilders(parts, processes) as team:
        told = 0
        while team.poll():
            time.sleep(POLL_EVERY_S)
            done = sum(sum(_cursor(part).values()) for part in parts) // len(parts)
            tell(max(0, done - told))
            told = max(done, told)
    return team.read


def _cursor(part: DataDirectory) -> dict[str, int]:
    """The cursor of a part, which may be just starting."""
    with suppress(DataError):
        return cursor_of(indexed_visits.database_file(part))
    return {}


class _PartBuilders:
    """The processes that build the parts. Use it in a `with`: leaving it ends them."""

    def __init__(self, parts: list[DataDirectory], processes: int) -> None:
        self._waiting = list(reversed(parts))
        self._at_once = min(len(parts), processes)
        self._analysts = processes // self._at_once if processes // self._at_once > 1 else 0
        self._at_work: dict[str, tuple[subprocess.Popen[bytes], IO[bytes]]] = {}
        self.read = 0

    def __enter__(self) -> "_PartBuilders":
        return self

    def __exit__(self, *_: object) -> None:
        for process, said in self._at_work.values():
            process.kill()
            process.wait()
            said.close()

    def poll(self) -> bool:
        """Start waiting builders, collect finished ones; whether any is running."""
        while self._waiting and len(self._at_work) < self._at_once:
            self._start(self._waiting.pop())
        for name, (process, said) in list(self._at_work.items()):
            if process.poll() is not None:
                del self._at_work[name]
                self.read += _records_read(name, process.returncode, said)
        return bool(self._at_work or self._waiting)

    def _start(self, part: DataDirectory) -> None:
        said = tempfile.TemporaryFile()  # noqa: SIM115 (it is read when the process has ended)
        module = "tarrafa.index.parallel_rebuild"
        command = child_command(module, data=part, part=part.part, analysts=self._analysts)
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=said, stderr=subprocess.STDOUT)
        self._at_work[part.part] = (process, said)


def _records_read(name: str, code: int, said: IO[bytes]) -> int:
    """The result of an ended process: the number of records that it read, or its error."""
    with said:
        said.seek(0)
        lines = said.read().decode(errors="replace").strip().splitlines()
    last = lines[-1] if lines else ""
    if code == 0 and last.isdigit():
        return int(last)
    if code < 0:
        which = f"part {name.removeprefix(f'{shards.NEW_FOLDER}/')} of the index" if "/" in name else "the index"
        raise DataError(f"the process that made {which} was killed (signal {-code}); run the command again")
    raise DataError(last.removeprefix("error: ") or f"making the index failed (exit status {code})")


def main(data: DataDirectory, part: str, analysts: int) -> None:
    sys.stdout.write(f"{build_part(DataDirectory(data.root, part), analysts)}\n")


if __name__ == "__main__":
    run_child(main)
