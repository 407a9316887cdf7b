"""Scrubbing: when it is due, what its process leaves, and that it ends with its supervisor."""

import asyncio
import os
import subprocess

import msgspec
import psutil
import pytest

from tarrafa.clock import Clock
from tarrafa.crawl.verify import scrub
from tarrafa.crawl.verify.scrub import FIRST_AFTER_S, ScrubResult, ScrubSchedule, read_scrub_result
from tarrafa.runtime.child_process import child_command
from tarrafa.runtime.data_dir import DataDirectory
from tests.contract.frontier_bodies import FalseClock
from tests.crawl.verify import planted
from tests.wait import wait_until

WEEK_S = 7 * 86_400.0


def run_scrub(data: DataDirectory) -> ScrubResult:
    subprocess.run(child_command(scrub.MODULE, data=data), check=True)
    found = read_scrub_result(data)
    assert found is not None
    return found


def write_result(data: DataDirectory, at: float) -> None:
    (data.root / "scrub.json").write_bytes(msgspec.json.encode(ScrubResult(at, 1.0, 1, 1, 0, 0, 0)))


def test_the_process_writes_what_it_found(copy: DataDirectory) -> None:
    assert read_scrub_result(copy) is None
    healthy = run_scrub(copy)
    assert (healthy.total, healthy.findings) == (0, ()) and healthy.records > 300
    planted.flip_in_body(copy)
    planted.delete_capture(copy)
    found = run_scrub(copy)
    assert (found.lost, found.derived) == (2, 2)  # the record, the response of its visit; two captures of the index
    assert found.findings[0].startswith("damaged-record: archive ")
    assert found.at > healthy.at


def test_a_scrub_is_due_an_hour_after_the_start_then_a_period_after_the_last(copy: DataDirectory) -> None:
    clock = FalseClock(0.0, 0.0)
    schedule, now = ScrubSchedule(copy, WEEK_S, clock), clock.now()
    assert [schedule.is_due(now + after_s) for after_s in (0, FIRST_AFTER_S - 1, FIRST_AFTER_S)] == [False, False, True]
    write_result(copy, now - WEEK_S + 10)
    assert [schedule.is_due(now + after_s) for after_s in (9, 10)] == [False, True]


def test_a_damaged_result_counts_as_none(copy: DataDirectory) -> None:
    (copy.root / "scrub.json").write_bytes(b"{")
    assert read_scrub_result(copy) is None


@pytest.mark.anyio
async def test_the_schedule_runs_it_with_low_priority_and_ends_it_when_cancelled(
    copy: DataDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    command = ["/bin/sleep", "1000"]
    monkeypatch.setattr(scrub, "child_command", lambda module, data: command)
    write_result(copy, 0.0)
    task = asyncio.create_task(ScrubSchedule(copy, WEEK_S, Clock.from_environment()).run())
    me = psutil.Process(os.getpid())
    running: list[psutil.Process] = []

    def is_running() -> bool:
        running[:] = [one for one in me.children() if one.cmdline() == command]
        return bool(running)

    await wait_until(is_running)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert not running[0].is_running()
