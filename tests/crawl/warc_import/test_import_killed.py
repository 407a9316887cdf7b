"""An import that is killed at any moment, again and again: nothing is lost, nothing is doubled.

TARRAFA_KILLS says how often it is killed (20).
"""

import os
import random
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from tarrafa.archive.warc_reader import durable_lengths
from tarrafa.crawl.warc_import.import_state import ImportState
from tarrafa.frontier.replay import FrontierReplay
from tarrafa.runtime.data_dir import DataDirectory
from tests.archive.foreign_archives import WarcFile, page
from tests.crawl.warc_import.imported import frontier_state, run_import, visits, warc_records
from tests.warc_check import check_warc_file

KILLS = int(os.environ.get("TARRAFA_KILLS", "20"))
PAGES, VERSIONS, FILES = 150, 5, 3
RUNS_MAX = 400
# Small batches, so that there are many moments between the steps of a commit.
COMMAND = """
from tarrafa.crawl.warc_import import capture_importer, import_warc
from tarrafa.cli import main
capture_importer.BATCH_CAPTURES = 20
async def nothing(data): pass
import_warc._follow = nothing
main()
"""


def write_files(folder: Path) -> list[Path]:
    """Versions of pages that link to each other, some unchanged, over several files; and what is older than all."""
    paths = []
    for file in range(FILES):
        made = WarcFile(is_gzip=file != 1)
        for version in range(VERSIONS):
            day = 1 + version * FILES + file
            made.add(f"http://h{file}.test/robots.txt", b"User-agent: *\nAllow: /", f"2020-01-{day:02d}T00:00:00Z")
            for number in range(PAGES // FILES):
                text = f"page {number} {'changed ' * (version % 2)}" + "words and more words " * 20
                links = [f"http://h{other}.test/{number * 7 % 50 + version}" for other in range(FILES)]
                date = f"2020-01-{day:02d}T01:{number // 60:02d}:{number % 60:02d}Z"
                made.add(f"http://h{number % FILES}.test/{number}", page(text, *links), date, request=number % 2 == 0)
        paths.append(folder / f"{file}.warc{'.gz' if file != 1 else ''}")
        paths[-1].write_bytes(made.content)
    return paths


def captures(data: DataDirectory) -> list[tuple[str, float, int, int]]:
    return sorted((one.url, one.outcome.at, one.visit, one.outcome.status) for one in visits(data))


def exchanges(data: DataDirectory) -> Counter[tuple[str, str, str]]:
    return Counter((kind, url, fields["WARC-Date"]) for kind, url, fields, _ in warc_records(data))


def run_and_kill(data: DataDirectory, paths: list[Path], after_s: float) -> bool:
    """Run an import, and kill it after a while; whether it was killed before its end."""
    arguments = ["import", "warc", *map(str, paths), "--collection", "c", "--data", str(data.root)]
    process = subprocess.Popen(
        [sys.executable, "-c", COMMAND, *arguments], stderr=subprocess.PIPE, start_new_session=True
    )
    try:
        _, said = process.communicate(timeout=after_s)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        return True
    assert process.returncode == 0, said.decode()
    return False


@pytest.mark.long
def test_an_import_that_is_killed_at_any_moment_loses_and_doubles_nothing(tmp_path):
    paths = write_files(tmp_path)
    whole = DataDirectory(tmp_path / "whole")
    run_import(whole, paths, "c")
    expected = captures(whole), exchanges(whole), frontier_state(whole)
    assert len(expected[0]) == len(set(expected[0])) == PAGES // FILES * VERSIONS * FILES

    rng, kills, lives = random.Random(os.environ.get("TARRAFA_SEED", "import")), 0, 0
    while kills < KILLS:
        lives += 1
        assert lives < RUNS_MAX
        data = DataDirectory(tmp_path / f"killed-{lives}")
        here = 0
        while run_and_kill(data, paths, rng.uniform(0.3, 2.5 + here / 5)):  # on a busy machine it would never end
            here += 1
            assert here < RUNS_MAX
        kills += here
        assert (captures(data), exchanges(data)) == expected[:2], f"after {here} kills"
        state = frontier_state(data)
        for name, found in expected[2].items():
            assert state[name] == found, f"{name} after {here} kills"
        before = durable_lengths(data.archive)
        run_import(data, paths, "c")
        assert durable_lengths(data.archive) == before
        print(f"\n{kills} kills, {here} of them in import {lives}", end="")
    for path in data.archive.glob("*.warc.gz"):
        check_warc_file(path)


def test_an_import_that_fails_between_archive_and_frontier_is_recovered(tmp_path, monkeypatch):
    """The moment that a kill seldom meets: the records are durable, and the frontier knows nothing of them."""
    paths = write_files(tmp_path)[:1]
    whole, data = DataDirectory(tmp_path / "whole"), DataDirectory(tmp_path / "data")
    run_import(whole, paths, "c")

    class Killed(BaseException):
        pass

    def killed(self: object) -> None:
        raise Killed

    with monkeypatch.context() as patch, pytest.raises(Killed):
        patch.setattr(FrontierReplay, "free_hosts", killed)
        run_import(data, paths, "c")
    assert visits(data)
    with monkeypatch.context() as patch, pytest.raises(Killed):  # and once more, before the state is saved
        patch.setattr(ImportState, "save_batch", lambda *arguments: killed(None))
        run_import(data, paths, "c")
    done = run_import(data, paths, "c")
    assert done.recovered + done.counts.imported > 0
    assert captures(data) == captures(whole)
    assert exchanges(data) == exchanges(whole)
    found, expected = frontier_state(data), frontier_state(whole)
    for name, state in expected.items():
        assert found[name] == state, name
