"""The audit log: one line for every action of a person or program, done or refused.

`DATA/coordinator.sqlite`, table `audit`: a line for every action of a person or a program, and for every one that was
refused. Promises: lines are only added, and what was done is never pushed out by what was refused: of that,
REFUSED_PER_MINUTE_MAX lines a minute are written (the next one says how many were not) and the latest
REFUSED_KEPT_MAX are kept. Every line is also told at once, as one JSON object on one line. Any number of threads and
processes.
Knows nothing of HTTP, and is never told a secret.
"""

import sys
import threading
from collections.abc import Callable
from typing import cast

import msgspec

from tarrafa.coordinator.store import store_file, store_path, store_transaction
from tarrafa.runtime.data_dir import DataDirectory

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
        self._path, self._now, self._tell = store_path(data), now, tell
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
            with store_transaction(self._path, SCHEMA) as connection:
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
        with store_file(self._path).reading() as connection:
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


def _one_line(text: str, chars_max: int) -> str:
    """One line, no longer than it may be: whatever a stranger typed must not look like another line."""
    shown = "".join(letter if letter.isprintable() else "\N{REPLACEMENT CHARACTER}" for letter in text[: chars_max + 1])
    return shown if len(shown) <= chars_max else shown[: chars_max - 1] + "…"
