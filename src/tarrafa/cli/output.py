"""Output of the commands: the console, JSON, and progress bars.

Promises, with `runtime/terminal`: text of others (titles, anchors, URLs, headers) reaches the terminal without control
characters. The colours are those of the program. No other module of `cli` writes to a standard stream.
"""

import io
import sys
from collections.abc import Callable, Iterable
from types import TracebackType
from typing import Any, TypeVar

import msgspec
from rich import progress_bar
from rich.console import Console, ConsoleOptions, Group, RenderableType
from rich.live import Live
from rich.markup import escape
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.segment import Segment
from rich.table import Table
from rich.text import Text

from tarrafa.clock import boottime
from tarrafa.errors import ConfigError
from tarrafa.i18n import ENGLISH
from tarrafa.runtime.terminal import PLAIN_EVERY_S, escape_unprintable, print_note, printable

T = TypeVar("T")
TABLE_WIDTH_MAX = 10_000


class CleanConsole(Console):
    """A console that prints texts without their control characters, in the program's colours."""

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        for segment in super().render(renderable, options):
            yield segment if segment.control else segment._replace(text=printable(segment.text))


console = CleanConsole(highlight=False, soft_wrap=True)


def print_json(value: Any) -> None:
    """Print it as JSON; every message in it is rendered in English."""
    print_document(msgspec.json.format(msgspec.json.encode(ENGLISH.render_all(value)), indent=2))


def print_document(content: bytes, *, can_escape: bool = True) -> None:
    """Print JSON, or another format that `escape_unprintable` knows. A format without escapes (CSV, XML) reaches a
    terminal without its control characters, and a file or program unchanged."""
    text = content.decode().rstrip("\n") + "\n"
    if can_escape:
        text = escape_unprintable(text)
    sys.stdout.write(printable(text) if sys.stdout.isatty() else text)
    sys.stdout.flush()


def print_bytes(content: bytes) -> None:
    """Write bytes of others, unchanged, to a file or program; a terminal could take them for commands."""
    if sys.stdout.isatty():
        raise ConfigError("these are bytes as archived: write them to a file (> FILE) or a program (| less)")
    sys.stdout.buffer.write(content)
    sys.stdout.flush()


class EscapedOutput(io.BytesIO):
    """Standard output for lines of a format that `escape_unprintable` knows. Each write is whole lines."""

    def write(self, lines: Any) -> int:
        sys.stdout.buffer.write(escape_unprintable(bytes(lines).decode()).encode())
        return len(lines)


def print_result(value: T, as_json: bool, print_text: Callable[[T], None]) -> None:
    if as_json:
        print_json(value)
    else:
        print_text(value)


def print_field(name: str, text: str) -> None:
    """One line: the name of a field and its value."""
    console.print(f"  {name:12} {escape(text)}")


def new_table(*headings: str | Text, left: Iterable[str | Text] = (), **options: Any) -> Table:
    """A table without lines; columns are right-aligned, but for those in `left`. Long cells are folded, never cut."""
    table = Table(box=None, pad_edge=False, header_style="bold", **options)
    for name in headings:
        table.add_column(name, justify="left" if name in left else "right", overflow="fold")
    return table


def print_table(table: Table) -> None:
    """Print a table as wide as the terminal; for a program or a file, as wide as its cells."""
    if console.is_terminal:
        console.print(table, soft_wrap=False)
    else:
        CleanConsole(width=TABLE_WIDTH_MAX).print(table)


class ProgressBar:
    """A progress bar in a terminal, nothing elsewhere. Use it in a `with`; call it with each increment."""

    def __init__(self, what: str, total: int) -> None:
        console = CleanConsole(stderr=True)
        columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.percentage:>3.0f} %"))
        self._progress = Progress(*columns, TimeRemainingColumn(), console=console, transient=True)
        self._progress.disable = not console.is_terminal
        self._task: TaskID = self._progress.add_task(what, total=max(1, total))

    def __enter__(self) -> "ProgressBar":
        self._progress.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._progress.stop()

    def __call__(self, more: int) -> None:
        self._progress.advance(self._task, more)


class LiveProgress:
    """A bar with a name, and a line below it, redrawn on stderr until it is stopped."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._live = Live(console=CleanConsole(stderr=True), refresh_per_second=4, transient=True)
        self._live.start()

    def show(self, done: int, total: int, line: str) -> None:
        bar = Table.grid(padding=(0, 1))
        bar.add_row(
            Text(self._name, style="bold cyan"), progress_bar.ProgressBar(total=total, completed=done, width=40)
        )
        self._live.update(Group(bar, Text(line)))

    def stop(self) -> None:
        self._live.stop()


class StepProgress:
    """Progress in steps on stderr: a bar in a terminal, lines elsewhere. Use it in a `with`."""

    def __init__(self, name: str) -> None:
        console = CleanConsole(stderr=True)
        columns = (TextColumn("[bold cyan]{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
        self._bar = Progress(*columns, TimeRemainingColumn(), console=console, transient=True)
        self._bar.disable = not console.is_terminal
        self._task, self._name = self._bar.add_task(name, total=None), name
        self._began_s = self._shown_s = boottime()

    def __enter__(self) -> "StepProgress":
        self._bar.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._bar.stop()

    def show(self, done: int, total: int) -> None:
        self._bar.update(self._task, completed=done, total=total)
        now_s = boottime()
        if self._bar.disable and now_s - self._shown_s >= PLAIN_EVERY_S and done < total:
            self._shown_s = now_s
            left_s = (now_s - self._began_s) / done * (total - done)
            print_note(f"{self._name}: step {done} of {total}, about {ENGLISH.span(left_s)} left")
