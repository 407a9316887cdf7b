"""The data directory: paths, format version, lock, free space, and helpers for locks and atomic files.

Beside the paths of `DataDirectory` there are files of single modules: lock (held by the supervisor while it runs),
takedown.jsonl (takedowns, erasures and legal holds, with author, time and reason), archive.toml (sizes and directories
of the archive), ontology.toml and ontology/ (rules for inferences from page statements), secrets/ (credentials for
crawled sites), search.toml (curation of the search), node (the name under which this directory owns parts of a shared
index), and accounts.json and definitions/ (accounts and long lists of roots of the console).
"""

import fcntl
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from tarrafa.errors import DataError, DiskFull, data_error_from_os
from tarrafa.i18n import message

DATA_FORMAT = 1
FREE_BYTES_MIN = 32 << 20  # below this we stop before the disk is full
LOST_AND_FOUND = "lost+found"  # in the root of a mounted file system
SOCKET_PATH_MAX = 100  # sun_path holds 108 bytes


class _PathBelow:
    """An attribute of `DataDirectory`: a path below its root."""

    def __init__(self, *names: str) -> None:
        self._names = names

    def __get__(self, data: "DataDirectory", owner: object) -> Path:
        return data.root.joinpath(*self._names)


@dataclass(frozen=True, slots=True)
class DataDirectory:
    """The paths below one data directory. `part`: the paths of one part of its index (index/shards.py)."""

    root: Path
    part: str = ""

    version = _PathBelow("VERSION")  # the format of everything here; a newer one is never touched
    run = _PathBelow("run")  # sockets, logs: may be deleted while nothing runs
    logs = _PathBelow("run", "log")
    exhausted = _PathBelow("run", "exhausted")  # exists while no records come, and followers are waited for
    frontier = _PathBelow("frontier.sqlite")  # the only mutable truth about URLs
    archive = _PathBelow("archive")  # the only truth about content
    graph = _PathBelow("graph")  # graph, index and triples follow the archive and can be rebuilt from it
    captures = _PathBelow("captures")  # follows the archive, too: which URL was archived when, and where
    cursors = _PathBelow("cursors")  # how far each library reader (`tarrafa.crawl.pages`) has read
    crawlers = _PathBelow("crawlers.sqlite")  # messages to external crawlers, and which of them were acknowledged
    coordinator = _PathBelow("coordinator.sqlite")  # versions, runs, nodes, notices, sessions, audit
    queries = _PathBelow("queries.sqlite")  # search queries by day, without users
    reports = _PathBelow("reports")  # made from the console

    @property
    def index(self) -> Path:
        return self.root / "index" / self.part

    @property
    def triples(self) -> Path:
        return self.root / "triples" / self.part

    @property
    def socket(self) -> str:
        """The address of the frontier's socket."""
        return str(self.run / "frontier.sock")

    def check_version(self) -> None:
        if not self.version.exists():
            raise DataError(message("{path}: no Tarrafa data here; `tarrafa crawl FILE` makes some", path=self.root))
        text = self.version.read_text().strip()
        if not text.isdigit():
            raise DataError(message("{path}: not a data format number: {text!r}", path=self.version, text=text[:40]))
        if int(text) > DATA_FORMAT:
            raise DataError(
                message(
                    "{path}: written by a newer Tarrafa (data format {found}, this one reads up to"
                    " {known}); use that version, or another --data directory",
                    path=self.version,
                    found=text,
                    known=str(DATA_FORMAT),
                )
            )

    def create(self) -> None:
        """Create what is missing; never change what a newer version wrote."""
        if len(os.fsencode(self.socket)) > SOCKET_PATH_MAX:
            raise DataError(
                message(
                    "{path}: the path is too long for a socket below it; use a shorter --data directory", path=self.root
                )
            )
        try:
            if self.version.exists():
                self.check_version()
            elif self.root.exists() and not all(map(self._is_prepared, self.root.iterdir())):
                raise DataError(
                    message(
                        "{path}: not empty, and no Tarrafa data directory; use another --data directory", path=self.root
                    )
                )
            for folder in (*self._folders, self.logs):
                folder.mkdir(parents=True, exist_ok=True)
            if not self.version.exists():
                write_atomically(self.version, f"{DATA_FORMAT}\n".encode())
        except OSError as error:
            raise data_error_from_os(error, self.root) from None

    @property
    def _folders(self) -> tuple[Path, ...]:
        return self.archive, self.captures, self.index, self.graph, self.triples, self.cursors

    def _is_prepared(self, path: Path) -> bool:
        """Whether a new data directory may have this in it: an empty folder of ours, such as a mounted disk."""
        if path.name in ("lock", "archive.toml", LOST_AND_FOUND):
            return True
        is_ours = path.name in {folder.relative_to(self.root).parts[0] for folder in self._folders}
        return is_ours and path.is_dir() and all(one.name == LOST_AND_FOUND for one in path.iterdir())

    def check_space(self) -> None:
        free = shutil.disk_usage(self.root).free
        if free < FREE_BYTES_MIN:
            raise DiskFull(
                message(
                    "{path}: the disk is full ({free} MB left, {needed} MB needed); free some space"
                    " and run the command again",
                    path=self.root,
                    free=free >> 20,
                    needed=FREE_BYTES_MIN >> 20,
                )
            )

    def try_lock(self) -> IO[bytes] | None:
        """The supervisor's lock, or None if another process holds it. Keep the file open to keep the lock."""
        return try_lock(self.root / "lock")


def try_lock(path: Path) -> IO[bytes] | None:
    try:
        file = path.open("ab")
    except OSError as error:
        raise data_error_from_os(error, path) from None
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        file.close()
        return None
    return file


def file_fingerprint(path: Path) -> tuple[int, ...]:
    """A value that differs for each content and each mode of a file that is replaced or only grows; empty: no file."""
    try:
        found = path.stat()
    except OSError:
        return ()
    return found.st_ino, found.st_ctime_ns, found.st_size


def write_atomically(path: Path, content: bytes, *, durable: bool = True) -> None:
    """Replace a file so that it holds the old content or the new one, whatever happens to this process in between.

    Durable: whatever happens to the machine, too, and the new content for certain once this returns.
    """
    temporary = path.with_name(path.name + ".new")
    with temporary.open("wb") as file:
        file.write(content)
        if durable:
            file.flush()
            os.fsync(file.fileno())
    temporary.replace(path)
    if durable:
        sync_directory(path.parent)


@contextmanager
def replace_atomically(path: Path) -> Iterator[IO[bytes]]:
    """A file to write, however large, that replaces `path` when it is complete and durable."""
    temporary = path.with_name(path.name + ".new")
    try:
        try:
            with temporary.open("wb") as file:
                yield file
                file.flush()
                os.fsync(file.fileno())
            temporary.replace(path)
            sync_directory(path.parent)
        except OSError as error:
            raise data_error_from_os(error, path) from None
    finally:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)


def sync_directory(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
