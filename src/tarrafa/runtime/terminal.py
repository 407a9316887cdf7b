"""Lines on the standard streams.

Promises: no control character but newline and tab is written, and none that changes the direction of the text: titles,
URLs and messages of others cannot move the cursor, change colours or reverse a line.
"""

import re
import sys

# C0 and C1 controls but for newline and tab, line separators, and the controls of text direction.
UNPRINTABLE = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\N{ARABIC LETTER MARK}\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]"
)
PLAIN_EVERY_S = 2.0  # between lines of progress where stderr is no terminal


def counted(count: int, one: str, many: str = "") -> str:
    """`1 page`, `1,200 pages`; `many` where the plural is not `one` with an s."""
    return f"{count:,} {one if count == 1 else many or f'{one}s'}"


def printable(text: str) -> str:
    """The text without control characters. They have no width, so a table keeps its columns."""
    return UNPRINTABLE.sub("", text)


def escape_unprintable(text: str) -> str:
    """JSON, Turtle, N-Triples, N-Quads or TSV with escapes for control characters: it means the same."""
    return UNPRINTABLE.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def print_line(text: str) -> None:
    """Print a line of plain text on stdout."""
    sys.stdout.write(f"{printable(text)}\n")
    sys.stdout.flush()


def print_note(text: str) -> None:
    """Print a line of plain text on stderr."""
    sys.stderr.write(f"{printable(text)}\n")
    sys.stderr.flush()
