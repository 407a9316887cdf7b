"""Scrubbing: a deep verification from time to time, at the lowest priority, and its last result.

    DATA/scrub.json    the result of the last one

`ScrubSchedule` is for the supervisor: it starts the process when it is due. `main` is that process. It only reads, so
that it may be killed at any moment; the next one begins anew.
Promises: one scrub at a time; it ends with its supervisor; it runs with nice 19, and reads when no other process does,
where the kernel knows such priorities.
"""

import asyncio
import contextlib
import os

import msgspec
import psutil

from tarrafa.clock import Clock
from tarrafa.errors import data_error_from_os
from tarrafa.runtime.child_process import child_command, run_child
from tarrafa.runtime.data_dir import DataDirectory, write_atomically

MODULE = "tarrafa.crawl.verify.scrub"
DAY_S = 86_400.0
SCRUB_PERIODS_S = {"off": 0.0, "daily": DAY_S, "weekly": 7 * DAY_S}
FIRST_AFTER_S = 3_600.0  # of a supervisor's life, if there was none yet
AGAIN_AFTER_S = DAY_S  # after one that failed
LOOK_EVERY_S = 60.0
NICE = 19
SHOWN_MAX = 20  # findings


class ScrubResult(msgspec.Struct, frozen=True, omit_defaults=True):
    """The last scrub. The findings, in English, are the first ones."""

    at: float  # when it began
    took_s: float
    records: int
    bytes: int
    lost: int
    derived: int
    harmless: int
    known_losses: int = 0
    findings: tuple[str, ...] = ()

    @property
    def total(self) -> int:
        return self.lost + self.derived + self.harmless


_decode = msgspec.json.Decoder(ScrubResult).decode


def read_scrub_result(data: DataDirectory) -> ScrubResult | None:
    """None: there was none yet, or its file cannot be read."""
    try:
        return _decode((data.root / "scrub.json").read_bytes())
    except (OSError, msgspec.MsgspecError):
        return None


class ScrubSchedule:
    """Starts scrubs when they are due. `every_s` 0: never."""

    def __init__(self, data: DataDirectory, every_s: float, clock: Clock) -> None:
        self._data, self._every_s, self._clock = data, every_s, clock
        self._next_at = clock.now() + FIRST_AFTER_S

    async def run(self) -> None:
        """Start scrubs until cancelled, which ends a running one."""
        while self._every_s:
            if self.is_due(self._clock.now()):
                self._next_at = self._clock.now() + (AGAIN_AFTER_S if await self._scrub() else 0.0)
            await asyncio.sleep(LOOK_EVERY_S)

    def is_due(self, now: float) -> bool:
        last = read_scrub_result(self._data)
        return now >= max(self._next_at if last is None else 0.0, last.at + self._every_s if last else 0.0)

    async def _scrub(self) -> int:
        """Run one; its exit status."""
        try:
            with (self._data.logs / "scrub.log").open("ab") as log:
                process = await asyncio.create_subprocess_exec(
                    *child_command(MODULE, data=self._data), stdin=asyncio.subprocess.DEVNULL, stdout=log, stderr=log
                )
        except OSError:  # no memory, process or file left: a later attempt may succeed
            return 1
        try:
            return await process.wait()
        finally:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            await process.wait()


def main(data: DataDirectory) -> None:
    """Verify, and write the result."""
    from tarrafa.crawl.verify.findings import Severity
    from tarrafa.crawl.verify.verification import Verification

    os.nice(NICE)
    with contextlib.suppress(psutil.Error, OSError, AttributeError):
        psutil.Process().ionice(psutil.IOPRIO_CLASS_IDLE)
    with Verification(data, deep=True) as verification:
        report = verification.run()
    lost, derived, harmless = (report.of(one) for one in Severity)
    shown = tuple(f"{one.kind}: {one.store} {one.place} {one.detail}".strip() for one in report.findings[:SHOWN_MAX])
    result = ScrubResult(
        report.began, report.took_s, report.records, report.bytes, lost, derived, harmless, report.known_losses, shown
    )
    path = data.root / "scrub.json"
    try:
        write_atomically(path, msgspec.json.encode(result))
    except OSError as error:
        raise data_error_from_os(error, path) from None


if __name__ == "__main__":
    run_child(main)
