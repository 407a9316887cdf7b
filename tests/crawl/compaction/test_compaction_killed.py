"""A compaction that is killed at any of its calls loses nothing and doubles nothing.

The process kills itself (SIGKILL) at a random call of any function, Python's or C's. Before anything is recovered,
every reader answers as before or as afterwards. What the next start recovers is the old archive or the new one, whole;
the next compaction leaves exactly what one without a kill does.
"""

import random
import signal
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from tarrafa.archive.warc_reader import follow
from tarrafa.crawl.compaction.compaction import compact, locked_for_compaction
from tarrafa.crawl.compaction.journal import is_interrupted
from tarrafa.runtime.data_dir import DataDirectory
from tests.crawl.compaction.test_compaction import state
from tests.crawl.compaction.versions import assert_clean, bodies, captures_of, cdx_lines, hits, set_retention
from tests.crawl.verify.conftest import copy_of

KILLS, KILLS_LONG = 6, 50
SEED = 11
READ_BEFORE = 55  # visits that a program has read


def run_killed(data: DataDirectory, at: int, what: str = "") -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-m", "tests.crawl.compaction.killed_process", str(data.root), str(at), what]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def prepare(data: DataDirectory) -> list[tuple[str, int]]:
    """A rule that lets much go, and a program in the midst of the archive; what it has not read."""
    set_retention(data, "last 2")
    cursor: dict[str, int] = {}
    entries = list(follow(data.archive, {}))
    for entry in entries[:READ_BEFORE]:
        cursor[entry.file] = entry.end
    (data.cursors / "pages-program.json").write_bytes(msgspec.json.encode(cursor))
    return [(entry.record.url, entry.record.visit) for entry in entries[READ_BEFORE:]]


def unread(data: DataDirectory) -> list[tuple[str, int]]:
    cursor = msgspec.json.decode((data.cursors / "pages-program.json").read_bytes(), type=dict[str, int])
    return [(entry.record.url, entry.record.visit) for entry in follow(data.archive, cursor)]


def check_kills(imported: DataDirectory, folder: Path, kills: int) -> None:
    base = copy_of(imported, folder / "base")
    rest, old = prepare(base), state(base)
    whole = copy_of(base, folder / "whole")
    committed, calls = map(int, run_killed(whole, 0).stdout.split())
    new = state(whole)
    assert old[1] != new[1]
    rng, interrupted = random.Random(SEED), 0
    for number in range(kills):
        data = copy_of(base, folder / f"killed{number}")
        at = rng.randrange(committed, calls) if number % 2 else rng.randrange(1, committed)
        killed = run_killed(data, at)
        assert killed.returncode == -signal.SIGKILL, killed.stderr
        lines = {(one.url, one.timestamp) for one in captures_of(data)}
        assert cdx_lines(data) in (old[1], new[1]), at
        assert bodies(data).keys() == lines, f"{at}: a reader finds each body, before anything is recovered"
        assert hits(data) == old[3]
        interrupted += is_interrupted(data)
        with locked_for_compaction(data):  # as each start does
            pass
        assert state(data) in (old, new), at
        assert unread(data) == rest
        assert_clean(data)
        compact(data)
        assert state(data) == new, at
        assert unread(data) == rest
        assert_clean(data)
    assert 0 < interrupted < kills


def test_a_compaction_that_is_killed_loses_and_doubles_nothing(imported: DataDirectory, tmp_path: Path) -> None:
    check_kills(imported, tmp_path, KILLS)


@pytest.mark.long
def test_a_compaction_that_is_killed_fifty_times_loses_and_doubles_nothing(
    imported: DataDirectory, tmp_path: Path
) -> None:
    check_kills(imported, tmp_path, KILLS_LONG)
