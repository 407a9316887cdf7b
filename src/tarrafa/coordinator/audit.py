"""The audit log: one line for every action of a person or program, done or refused.

DATA/coordinator.sqlite, table `audit`. Promises: lines are only added; refused actions never push out done ones: at
most REFUSED_PER_MINUTE_MAX of them are written a minute (the next line says how many were not), and the latest
REFUSED_KEPT_MAX are kept. Every line is also written to stderr at once: as JSON, on a terminal as a sentence. Safe for
any number of threads and processes.
Knows nothing of HTTP, and never receives a secret.
"""

import sys
import threading
import time
from collections.abc import Callable
from typing import cast

import msgspec

from tarrafa.coordinator.store import store_file, store_transaction
from tarrafa.i18n import Message, from_text, joined, message, to_text
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

_Row = tuple[int, float, str, str, str]


class AuditLine(msgspec.Struct, frozen=True):
    """One action. `number` grows; `refused`: it was tried, and not done."""

    number: int
    at: float
    who: str
    action: str
    subject: str
    detail: Message | str
    refused: bool


class AuditPage(msgspec.Struct, frozen=True):
    """The latest lines first. `next` is the `before` of the next page; 0: there is none."""

    lines: list[AuditLine]
    next: int


WriteLine = Callable[[AuditLine], None]


def to_stderr(line: AuditLine) -> None:
    sys.stderr.write(f"{as_text(line) if sys.stderr.isatty() else as_json(line)}\n")
    sys.stderr.flush()


def as_json(line: AuditLine) -> str:
    return msgspec.json.encode(line).decode()


def as_text(line: AuditLine) -> str:
    at = time.strftime("%H:%M:%S", time.localtime(line.at))
    return f"{at} {line.who}: {', '.join(filter(None, (line.action, line.subject, str(line.detail))))}" + (
        " (refused)" if line.refused else ""
    )


class AuditLog:
    """Writes and reads lines. Blocks on the disk: do not call it in an event loop."""

    def __init__(self, data: DataDirectory, now: Callable[[], float], write_line: WriteLine = to_stderr) -> None:
        self._path, self._now, self._write_line = data.coordinator, now, write_line
        self._lock = threading.Lock()
        self._minute, self._refused, self._unwritten = 0, 0, 0

    def record(
        self, who: str, action: str, subject: str = "", detail: Message | str = "", *, refused: bool = False
    ) -> None:
        """Add a line, unless too many actions were refused this minute."""
        at = self._now()
        with self._lock:
            if refused:
                if not self._may_record_refusal(at):
                    return
                if self._unwritten:
                    more = message("{count} more were refused, without a line", count=self._unwritten)
                    detail = joined([one for one in (detail, more) if one])
                    self._unwritten = 0
            values = (
                at,
                _one_line(who, WHO_CHARS_MAX),
                _one_line(action, ACTION_CHARS_MAX),
                _one_line(subject, SUBJECT_CHARS_MAX),
                _one_line_reason(detail),
                int(refused),
            )
            with store_transaction(self._path, SCHEMA) as connection:
                number = cast(int, connection.execute(INSERT, values).get)
                if number % 100 == 0 or refused:
                    connection.execute(FORGET, (int(refused), REFUSED_KEPT_MAX if refused else DONE_KEPT_MAX))
        self._write_line(AuditLine(number, *values[:-2], detail=str(detail), refused=refused))

    def read(self, before: int = 0, n: int = LINES_PER_PAGE, who: str = "", subject: str = "") -> AuditPage:
        """The lines before that number; 0: the latest. `who` and `subject` are filters."""
        n = min(max(n, 1), LINES_PER_PAGE_MAX)
        if not self._path.exists():
            return AuditPage([], 0)
        with store_file(self._path).reading() as connection:
            if not connection.table_exists(None, "audit"):
                return AuditPage([], 0)
            rows = connection.execute(
                "SELECT number, at, who, action, subject, detail, refused FROM audit WHERE (? = 0 OR number < ?) "
                "AND (? = '' OR who = ?) AND (? = '' OR subject = ?) ORDER BY number DESC LIMIT ?",
                (before, before, who, who, subject, subject, n + 1),
            ).fetchall()
        lines = [AuditLine(*cast(_Row, row[:-2]), from_text(str(row[-2])), refused=bool(row[-1])) for row in rows]
        return AuditPage(lines[:n], lines[n - 1].number if len(lines) > n else 0)

    def _may_record_refusal(self, at: float) -> bool:
        minute = int(at // 60)
        if minute != self._minute:
            self._minute, self._refused = minute, 0
        self._refused += 1
        if self._refused <= REFUSED_PER_MINUTE_MAX:
            return True
        self._unwritten += 1
        return False


def _one_line_reason(detail: Message | str) -> str:
    """A detail as it is stored. A message that is too long is cut, in English."""
    text = to_text(detail)
    is_whole = isinstance(detail, Message) and text.isprintable() and len(text) <= 2 * DETAIL_CHARS_MAX
    return text if is_whole else _one_line(str(detail), DETAIL_CHARS_MAX)


def _one_line(text: str, chars_max: int) -> str:
    """The text as one line of limited length: typed text must not look like another line."""
    shown = "".join(letter if letter.isprintable() else "\N{REPLACEMENT CHARACTER}" for letter in text[: chars_max + 1])
    return shown if len(shown) <= chars_max else shown[: chars_max - 1] + "…"
