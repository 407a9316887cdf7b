"""How far is it?

The same numbers twice: a line that is drawn anew in a terminal, a line every few seconds elsewhere.
"""

import sys
from types import TracebackType

from rich.console import Console, Group
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from tarrafa.clock import boottime
from tarrafa.crawl.outlook import expected_pages
from tarrafa.frontier.protocol import CollectionStatus

PLAIN_EVERY_S = 2.0


def format_duration(seconds: float) -> str:
    whole = int(seconds)
    if whole < 90:
        return f"{whole} s"
    if whole < 5400:
        return f"{whole // 60} min {whole % 60:02d} s"
    return f"{whole // 3600} h {whole % 3600 // 60:02d} min"


def time_left_text(status: CollectionStatus) -> str:
    left = expected_pages(status) - (status.fetched - status.earlier)
    if not status.pages_per_s:
        return "waiting for hosts to answer" if status.pending + status.handed_out else "nearly done"
    return f"about {format_duration(left / status.pages_per_s)} left" if left > 0 else "nearly done"


def progress_line(status: CollectionStatus) -> str:
    """One line that says it all."""
    if status.state == "paused":
        return f"{status.fetched:,} pages, {status.pending:,} in the queue, paused {status.reason}"
    return (
        f"{status.fetched:,} pages, {status.pages_per_s:,.0f}/s, {status.hosts:,} hosts, "
        f"{status.pending + status.handed_out:,} in the queue, {status.failed:,} errors, "
        f"{revisits_text(status) if status.keeps_fresh else time_left_text(status)}"
    )


def revisits_text(status: CollectionStatus) -> str:
    """There is no end to keeping fresh; this much of it was done."""
    share = f" ({status.changes / status.revisits:.0%} had changed)" if status.revisits else ""
    return f"{status.revisits:,} revisits{share}; Ctrl-C stops"


class CrawlProgress:
    """Shows one collection's numbers as they come. Use it in a `with`."""

    def __init__(self, name: str, *, quiet: bool = False) -> None:
        self._name, self._quiet = name, quiet
        self._console = Console(stderr=True)
        self._live = Live(console=self._console, refresh_per_second=4, transient=True)
        self._shown_at = 0.0
        self._is_terminal = self._console.is_terminal and not quiet

    def __enter__(self) -> "CrawlProgress":
        if self._is_terminal:
            self._live.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if self._is_terminal:
            self._live.stop()

    def show(self, status: CollectionStatus) -> None:
        if self._is_terminal:
            self._live.update(self._drawn(status))
        elif not self._quiet and boottime() - self._shown_at >= PLAIN_EVERY_S:
            self._shown_at = boottime()
            sys.stderr.write(f"{self._name}: {progress_line(status)}\n")
            sys.stderr.flush()

    def _drawn(self, status: CollectionStatus) -> Group:
        bar = Table.grid(padding=(0, 1))
        total = max(1, expected_pages(status))
        bar.add_row(Text(self._name, style="bold cyan"), ProgressBar(total=total, completed=status.fetched, width=40))
        return Group(bar, Text(progress_line(status)))
