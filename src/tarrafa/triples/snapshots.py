"""Published snapshots of the triple store, which other processes read while the follower writes.

Oxigraph lets only one process open a store. So the follower *publishes* it: a checkpoint (hard links, milliseconds) in
a numbered folder. Promises: a published snapshot is a committed state of the follower, and never changes; a process
that holds a `TripleSnapshot` keeps its files until it closes it or is killed; of the others only the newest ones are
kept. A crash while publishing leaves a folder that counts as unpublished and is removed by the next publication. Knows
nothing of queries.
"""

import fcntl
import os
import shutil
from pathlib import Path
from types import TracebackType

from pyoxigraph import Store

from tarrafa.errors import DataError, data_error_from_os
from tarrafa.runtime.data_dir import DataDirectory

SNAPSHOTS_KEPT = 2  # of those that no process holds: one may be about to open the newest but one
TRIES_MAX = 8  # to open the newest before it is removed
UNFINISHED = "new"


def folder(data: DataDirectory) -> Path:
    return data.triples / "published"


def _numbers(data: DataDirectory) -> list[int]:
    """The published numbers, the oldest first."""
    try:
        return sorted(int(path.name) for path in folder(data).iterdir() if path.name.isdecimal())
    except FileNotFoundError:
        return []


def newest_number(data: DataDirectory) -> int:
    """The number of the last published snapshot; 0: none."""
    return max(_numbers(data), default=0)


def publish(store: Store, data: DataDirectory) -> int:
    """Publish the present store; its number. Only the follower, which holds the lock, calls this."""
    place = folder(data)
    number = newest_number(data) + 1
    try:
        place.mkdir(parents=True, exist_ok=True)
        shutil.rmtree(place / UNFINISHED, ignore_errors=True)
        store.backup(str(place / UNFINISHED))
        (place / UNFINISHED).rename(place / str(number))
    except OSError as error:
        raise data_error_from_os(error, place) from None
    _remove_old(data)
    return number


def _remove_old(data: DataDirectory) -> None:
    for number in _numbers(data)[:-SNAPSHOTS_KEPT]:
        path = folder(data) / str(number)
        held = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
        try:
            fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(path, ignore_errors=True)
        except BlockingIOError:  # a process reads it; try again at the next publication
            pass
        finally:
            os.close(held)


def remove_published(data: DataDirectory) -> None:
    """Remove all snapshots: the store is rebuilt."""
    shutil.rmtree(folder(data), ignore_errors=True)


class TripleSnapshot:
    """A published store; it is not removed while it is held. Use it in a `with`."""

    def __init__(self, number: int, store: Store, held: int) -> None:
        self.number, self.store, self._held = number, store, held

    @classmethod
    def open_newest(cls, data: DataDirectory) -> "TripleSnapshot | None":
        """The snapshot published last; None: there is none."""
        for _ in range(TRIES_MAX):
            number = newest_number(data)
            if not number:
                return None
            path = folder(data) / str(number)
            try:
                held = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
            except FileNotFoundError:
                continue
            fcntl.flock(held, fcntl.LOCK_SH)
            if os.fstat(held).st_nlink and path.exists():  # else it was removed before the lock
                try:
                    return cls(number, Store.read_only(str(path)), held)
                except (OSError, RuntimeError) as error:  # oxigraph's errors for damage
                    os.close(held)
                    raise DataError(f"{path}: {error}; `tarrafa rebuild triples` makes it again") from None
            os.close(held)
        raise DataError(f"{folder(data)}: snapshots are removed before they can be opened; try again")

    def __enter__(self) -> "TripleSnapshot":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """Release it: it may be removed now."""
        os.close(self._held)
