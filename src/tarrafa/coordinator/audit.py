"""The audit log: one line for every action of a person or program, done or refused.

`DATA/coordinator.sqlite`, table `audit`: a line for every action of a person or a program, and for every one that was
refused. Promises: lines are only added, and what was done is never pushed out by what was refused: of that,
REFUSED_PER_MINUTE_MAX lines a minute are written (the next one says how many were not) and the latest
REFUSED_KEPT_MAX are kept. Every line is also told at once, as one JSON object on one line. Any number of threads and
processes.
Knows nothing of HTTP, and is never told a secret.
"""

import contextlib
import os
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import cast

import apsw
import msgspec

from tarrafa.errors import DataError, DiskFull, data_error_from_os
from tarrafa.runtime.data_dir import SQLITE_BUSY_TIMEOUT_MS, DataDirectory, open_sqlite_readonly

FILE = "coordinator.sqlite"
DONE_KEPT_MAX = 1_000_000
REFUSED_KEPT_MAX = 10_000
REFUSED_PER_MINUTE_MAX = 60
LINES_PER_PAGE, LINES_PER_PAGE_MAX = 50, 500
WHO_CHARS_MAX, ACTION_CHARS_MAX, SUBJECT_CHARS_MAX, DETAIL_CHARS_MAX = 100, 100, 500, 1_000

SCHEMA = """
CREATE TABLE IF NOT EXISTS audit (
    number INTEGER PRIMARY KEY AUTOINCREMENT, at REAL NOT NULL, who TEXT NOT NULL, action TEXT NOT NULL,
    subject TEXT NOT NULL, detail TEXT NOT NULL, refused INTEGER NOT NULL
);
CREATE INDEX IF NOT EXISTS audit_refused ON audit (refused, number);
"""
INSERT = "INSERT INTO audit (at, who, action, subject, detail, refused) VALUES (?, ?, ?, ?, ?, ?) RETURNING number"
FORGET = """DELETE FROM audit WHERE refused = ?1 AND number <= (
    SELECT number FROM audit WHERE refused = ?1 ORDER BY number DESC LIMIT 1 OFFSET ?2)"""

_Row = tuple[int, float, str, str, str, str, bool]
WriteLine = Callable[[str], None]


class AuditLine(msgspec.Struct, frozen=True):
    """One action. `number` grows; `refused`: it was tried and not done."""

    number: int
    at: float
    who: str
    action: str
    subject: str
    detail: str
    refused: bool


class AuditPage(msgspec.Struct, frozen=True):
    """The latest lines first. `next` is what to ask `before`, to go on; 0: there are no more."""

    lines: list[AuditLine]
    next: int


def to_stderr(line: str) -> None:
    sys.stderr.write(f"{line}\n")
    sys.stderr.flush()


class AuditLog:
    """Writes lines and reads them again. It waits for the disk: not to be called by a loop."""

    def __init__(self, data: DataDirectory, now: Callable[[], float], tell: WriteLine = to_stderr) -> None:
        self._path, self._now, self._tell = data.root / FILE, now, tell
        self._lock = threading.Lock()
        self._minute, self._refused, self._unsaid = 0, 0, 0

    def record(self, who: str, action: str, subject: str = "", detail: str = "", *, refused: bool = False) -> None:
        """Add a line; none where too many were refused this minute."""
        at = self._now()
        with self._lock:
            if refused:
                if not self._may_record_refusal(at):
                    return
                if self._unsaid:
                    detail = f"{detail} (and {self._unsaid:,} more were refused, without a line)".strip()
                    self._unsaid = 0
            values = (
                at,
                _one_line(who, WHO_CHARS_MAX),
                _one_line(action, ACTION_CHARS_MAX),
                _one_line(subject, SUBJECT_CHARS_MAX),
                _one_line(detail, DETAIL_CHARS_MAX),
                int(refused),
            )
            with open_coordinator_db(self._path) as connection:
                number = cast(int, connection.execute(INSERT, values).get)
                if number % 100 == 0 or refused:
                    connection.execute(FORGET, (int(refused), REFUSED_KEPT_MAX if refused else DONE_KEPT_MAX))
        line = AuditLine(number, *values[:-1], refused=refused)
        self._tell(msgspec.json.encode(line).decode())

    def read(self, before: int = 0, n: int = LINES_PER_PAGE, who: str = "", subject: str = "") -> AuditPage:
        """The lines before that number; 0: the latest. `who` and `subject` narrow it to these."""
        n = min(max(n, 1), LINES_PER_PAGE_MAX)
        if not self._path.exists():
            return AuditPage([], 0)
        asked = (before, before, who, who, subject, subject, n + 1)
        with open_coordinator_db(self._path, to_write=False) as connection:
            if not connection.table_exists(None, "audit"):
                return AuditPage([], 0)
            rows = connection.execute(
                "SELECT number, at, who, action, subject, detail, refused FROM audit WHERE (? = 0 OR number < ?) "
                "AND (? = '' OR who = ?) AND (? = '' OR subject = ?) ORDER BY number DESC LIMIT ?",
                asked,
            ).fetchall()
        lines = [AuditLine(*cast(_Row, row)) for row in rows]
        lines = [msgspec.structs.replace(line, refused=bool(line.refused)) for line in lines]
        return AuditPage(lines[:n], lines[n - 1].number if len(lines) > n else 0)

    def _may_record_refusal(self, at: float) -> bool:
        minute = int(at // 60)
        if minute != self._minute:
            self._minute, self._refused = minute, 0
        self._refused += 1
        if self._refused <= REFUSED_PER_MINUTE_MAX:
            return True
        self._unsaid += 1
        return False


@contextlib.contextmanager
def open_coordinator_db(path: Path, *, to_write: bool = True, schema: str = SCHEMA) -> Iterator[apsw.Connection]:
    """The coordinator's file, for one piece of work; what goes wrong with it is one `DataError`."""
    connection = None
    try:
        if to_write:
            with contextlib.suppress(FileExistsError):  # who did what, and from where, is nobody else's business
                os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
            connection = apsw.Connection(str(path))
            connection.set_busy_timeout(SQLITE_BUSY_TIMEOUT_MS)
            connection.execute(schema)
            with connection:
                yield connection
        else:
            connection = open_sqlite_readonly(path)
            yield connection
    except OSError as error:
        raise data_error_from_os(error, path) from None
    except apsw.FullError as error:
        raise DiskFull(f"{path}: the disk is full ({error}); free some space") from None
    except apsw.Error as error:
        raise DataError(f"{path}: cannot be used ({error})") from None
    finally:
        if connection is not None:
            connection.close()


def _one_line(text: str, chars_max: int) -> str:
    """One line, no longer than it may be: whatever a stranger typed must not look like another line."""
    shown = "".join(letter if letter.isprintable() else "\N{REPLACEMENT CHARACTER}" for letter in text[: chars_max + 1])
    return shown if len(shown) <= chars_max else shown[: chars_max - 1] + "…"
