"""The stored reports of a data directory, and the one that is being built.

DATA/reports/NAME/MOMENT/ holds a report as `tarrafa report` writes it; reports are kept, so that a later one can be
compared with them. Promises: one report at a time, in a thread of the process; a report is listed when it is complete;
those beyond KEPT_MAX are removed, the oldest first.
"""

import re
import shutil
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path

import msgspec

from tarrafa.errors import Busy, NotFound, TarrafaError
from tarrafa.frontier.address import Address
from tarrafa.i18n import Message, Translator, message
from tarrafa.report import comparison, writers
from tarrafa.report.distributed.local_part import Progress, RequestRemoteParts
from tarrafa.report.report_builder import build_report
from tarrafa.report.schema import CollectionReport, MachineUsage
from tarrafa.runtime.data_dir import DataDirectory

KEPT_MAX = 50  # of a collection
MOMENT = re.compile(r"\d{8}-\d{6}")
FILE = re.compile(r"report\.(json|md|html|css)|plots/[a-z0-9_]+\.(svg|png)")


class _ReportRun(msgspec.Struct):
    run: int | None = None


@lru_cache(maxsize=1_000)  # a stored report never changes
def _run_of(path: Path) -> int | None:
    try:
        return msgspec.json.decode(path.read_bytes(), type=_ReportRun).run
    except (OSError, msgspec.MsgspecError):
        return None


@dataclass(slots=True)
class ReportInProgress:
    """A report that is being built, or has failed: `trouble` gives the reason."""

    name: str
    done: int = 0
    total: int = 0
    trouble: Message | str = ""

    @property
    def share(self) -> float:
        return self.done / self.total if self.total else 0.0


class ReportStore:
    """The reports of one data directory."""

    def __init__(self, data: DataDirectory, address: Address | None = None) -> None:
        self._data, self._address = data, address
        self._lock = threading.Lock()
        self.making: ReportInProgress | None = None

    def moments(self, name: str) -> list[str]:
        """The times of the stored reports of a collection, the newest first."""
        try:
            found = [one.name for one in self._folder(name).iterdir() if MOMENT.fullmatch(one.name)]
        except OSError:
            return []
        return sorted((one for one in found if self.file(name, one, "report.json")), reverse=True)

    def read(self, name: str, moment: str = "") -> CollectionReport:
        """A stored report; by default the newest."""
        newest = moment or next(iter(self.moments(name)), "")
        path = self.file(name, newest, "report.json")
        if path is None:
            raise NotFound(f"{name}: no report of {moment[:20]!r}" if moment else f"{name}: no report was made yet")
        return comparison.read_report(path)

    def run_of(self, name: str, moment: str) -> int | None:
        """The run of a report; None: all runs."""
        path = self.file(name, moment, "report.json")
        return None if path is None else _run_of(path)

    def file(self, name: str, moment: str, path: str) -> Path | None:
        """A file of a report; None: there is none. Names are untrusted input."""
        if not (MOMENT.fullmatch(moment) and FILE.fullmatch(path)):
            return None
        found = self._folder(name) / moment / path
        return found if found.is_file() else None

    def plots(self, name: str, moment: str) -> list[str]:
        folder = self._folder(name) / moment / writers.FOLDER
        return sorted(path.stem for path in folder.glob("*.svg")) if MOMENT.fullmatch(moment) else []

    def start_report(
        self,
        name: str,
        _: Translator,
        now: float,
        machines: Sequence[MachineUsage] | None = None,
        earlier: str = "",
        others: RequestRemoteParts | None = None,
        run: int | None = None,
    ) -> threading.Thread:
        """Build a report, of one `run` or of all, in a thread; `making` gives the progress. `others` requests the parts
        of other machines.
        """
        with self._lock:
            if self.making is not None and not self.making.trouble:
                raise Busy(message("a report of {name} is being made; one at a time", name=self.making.name))
            self.making = ReportInProgress(name)

        def build(progress: Progress) -> CollectionReport:
            return build_report(
                self._data, name, run=run, machines=machines or None,
                earlier=self.read(name, earlier) if earlier else None, address=self._address, others=others,
                progress=progress,
            )  # fmt: skip

        thread = threading.Thread(target=self._build, args=(name, _, now, build), daemon=True)
        thread.start()
        return thread

    def _build(self, name: str, _: Translator, now: float, build: Callable[[Progress], CollectionReport]) -> None:
        making = self.making
        assert making is not None

        def progress(done: int, total: int) -> None:
            making.done, making.total = done, total

        moment = datetime.fromtimestamp(now, UTC).strftime("%Y%m%d-%H%M%S")
        folder = self._folder(name) / f".{moment}"
        try:
            writers.write_report(build(progress), _, folder)
            folder.replace(folder.with_name(moment))
            for old in self.moments(name)[KEPT_MAX:]:
                shutil.rmtree(self._folder(name) / old, ignore_errors=True)
        except (TarrafaError, OSError) as error:
            making.trouble = error.message if isinstance(error, TarrafaError) else str(error)
        except Exception as error:
            making.trouble = message("it failed ({error}); see the log", error=type(error).__name__)
            raise
        else:
            self.making = None
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def _folder(self, name: str) -> Path:
        return self._data.reports / name
