"""An erasure that is killed at any of its calls is completed by the next run, and nothing else is lost."""

import random
import signal
from pathlib import Path

import pytest

from tarrafa.crawl.compaction.compaction import compact
from tarrafa.runtime.data_dir import DataDirectory
from tests.crawl.compaction.killed_process import FAR_FUTURE
from tests.crawl.compaction.test_compaction import state
from tests.crawl.compaction.test_compaction_killed import run_killed
from tests.crawl.compaction.test_erasure import PAGE, files_with, order
from tests.crawl.compaction.versions import assert_clean, bodies, captures_of
from tests.crawl.verify.conftest import copy_of

KILLS, KILLS_LONG = 3, 25
SEED = 17


def check_kills(imported: DataDirectory, folder: Path, kills: int) -> None:
    base, rng = copy_of(imported, folder / "base"), random.Random(SEED)
    order(base, PAGE)
    whole = copy_of(base, folder / "whole")
    committed, calls = map(int, run_killed(whole, 0, "erase").stdout.split())
    erased, others = state(whole), bodies(whole)
    for number in range(kills):
        data = copy_of(base, folder / f"killed{number}")
        at = rng.randrange(committed, calls) if number % 2 else rng.randrange(1, committed)
        assert run_killed(data, at, "erase").returncode == -signal.SIGKILL
        if captures_of(data):  # else its index is being made anew
            assert {key: body for key, body in bodies(data).items() if key in others}.items() <= others.items()
        compact(data, now=FAR_FUTURE)
        assert state(data) == erased, at
        assert files_with(data, b"pagina3 revisao") == []
        assert_clean(data)


def test_an_erasure_that_is_killed_is_completed(imported: DataDirectory, tmp_path: Path) -> None:
    check_kills(imported, tmp_path, KILLS)


@pytest.mark.long
def test_an_erasure_that_is_killed_twenty_five_times_is_completed(imported: DataDirectory, tmp_path: Path) -> None:
    check_kills(imported, tmp_path, KILLS_LONG)
