"""Spreading a frontier over another list of PostgreSQL servers, in front of a person."""

import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Any

import msgspec
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

from tarrafa.cli.crawl import PLAIN_EVERY_S, format_duration
from tarrafa.clock import Clock, boottime
from tarrafa.errors import ConfigError, Unreachable
from tarrafa.fetch.suffix_list import bundled_suffix_list
from tarrafa.frontier.address import Address, PostgresServers, import_postgres_module

WORDS = {
    "begun": "looking at what was left half done", "settled": "looking at the servers", "frozen": "looking for hosts",
    "withheld": "waiting for hosts that are being visited", "closed": "copying", "taken": "switching",
    "delivered": "clearing up", "moved": "moving",
}  # fmt: skip


class Answer(msgspec.Struct, frozen=True):
    """For programs."""

    servers: list[dict[str, Any]]
    moves: list[dict[str, Any]]
    dry_run: bool
    finished: bool = False
    buckets: int = 0
    hosts: int = 0
    urls: int = 0
    stayed: int = 0  # buckets whose hosts were being visited for too long
    took_s: float = 0.0


class Bar:
    """How far it has come, and how long it will take: a bar in a terminal, a line now and then elsewhere."""

    def __init__(self) -> None:
        console = Console(stderr=True)
        columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.percentage:>3.0f} %"))
        self._progress = Progress(*columns, TimeRemainingColumn(), console=console, transient=True)
        self._plain = not console.is_terminal
        self._progress.disable = self._plain
        self._task = self._progress.add_task("spreading", total=1)
        self._total, self._done, self._words = 1, 0, "spreading"
        self._began = self._said_at = boottime()

    def expect(self, total: int) -> None:
        self._total = max(1, total)
        self._progress.update(self._task, total=self._total)

    def __enter__(self) -> "Bar":
        self._progress.start()
        self._began = boottime()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._progress.stop()

    def __call__(self, step: str, size: int) -> None:
        if step == "moved":
            self._done += size
            self._progress.advance(self._task, size)
        words = f"waiting for {size:,} hosts that are being visited" if step == "waiting" else WORDS.get(step)
        if words is not None:
            self._words = words
            self._progress.update(self._task, description=words)
        if self._plain and boottime() - self._said_at > PLAIN_EVERY_S:
            self._said_at = boottime()
            sys.stderr.write(f"{self._words}; {self._done / self._total:.0%} done{self._left()}\n")
            sys.stderr.flush()

    def _left(self) -> str:
        if not 0 < self._done < self._total:
            return ""
        left_s = (boottime() - self._began) * (self._total - self._done) / self._done
        return f", about {format_duration(left_s)} left"


def spread(address: Address | None, *, remove: bool, dry_run: bool) -> tuple[Answer, list[str]]:
    """Do it, or say what would be done; for programs, and for people."""
    if not isinstance(address, PostgresServers):
        raise ConfigError(
            f"{address or '--frontier'}: only a frontier on PostgreSQL is spread over servers; name them all, as they"
            " shall be: --frontier postgresql://USER@HOST/DB --frontier postgresql://..."
        )
    spreading, session = import_postgres_module("spreading"), import_postgres_module("session")
    clock, leases, bar = Clock.from_environment(), session.DatabaseLeaseClock.from_environment(), Bar()
    faster = clock if clock.scale != 1.0 else None
    with spreading.Spread(address.dsns, bundled_suffix_list(), faster, leases, remove=remove, tell=bar) as moving:
        plan = moving.plan()
        answer = _answer(plan, dry_run)
        if dry_run:
            return answer, _said_of_plan(answer)
        bar.expect(sum(move.weight for move in plan.moves))
        with bar, _stoppable(moving):
            try:
                done, finished = moving.run(), True
            except spreading.Stopped:
                done, finished = moving.done(), False
            except Unreachable as error:
                raise Unreachable(f"{error}; nothing is lost: run the same command again when it is back") from None
    answer = msgspec.structs.replace(answer, finished=finished and not done.stayed, **msgspec.structs.asdict(done))
    return answer, _said_of_end(answer)


def _answer(plan: Any, dry_run: bool) -> Answer:
    names = [one.server for one in plan.servers]
    moves = [
        {"from": names[one.source], "to": names[one.target], "buckets": len(one.buckets), "hosts": one.hosts,
         "urls": one.urls}
        for one in plan.moves
    ]  # fmt: skip
    return Answer([msgspec.structs.asdict(one) for one in plan.servers], moves, dry_run)


def _said_of_plan(answer: Answer) -> list[str]:
    lines = [f"{one['server']}: {one['before']:,} buckets, then {one['after']:,}" for one in answer.servers]
    lines += [
        f"{one['from']} -> {one['to']}: {one['buckets']:,} buckets, {one['hosts']:,} hosts, about {one['urls']:,} URLs"
        for one in answer.moves
    ]
    return [*lines, "nothing was changed" if answer.moves else "nothing is to be moved"]


def _said_of_end(answer: Answer) -> list[str]:
    lines = [
        f"{one['server']}: {one['after']:,} buckets" if one["after"] else f"{one['server']}: is no longer needed"
        for one in answer.servers
        if answer.finished
    ]
    rates = f"{answer.hosts / answer.took_s:,.0f} hosts/s, {answer.urls / answer.took_s:,.0f} URLs/s"
    lines.append(
        f"moved {answer.buckets:,} buckets: {answer.hosts:,} hosts, {answer.urls:,} URLs in"
        f" {format_duration(answer.took_s)} ({rates})"
        if answer.buckets
        else "nothing was moved"
    )
    if answer.stayed:
        lines.append(f"{answer.stayed:,} buckets stayed: their hosts were being visited; run the command again")
    elif not answer.finished:
        lines.append("stopped; everything is in order, and the same command goes on")
    return lines


@contextmanager
def _stoppable(moving: Any) -> Iterator[None]:
    """Ctrl-C and SIGTERM let it come to the end of its step."""

    def stop(*_: object) -> None:
        moving.stopping = True

    before = {number: signal.signal(number, stop) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
