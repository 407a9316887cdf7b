"""A repair that is killed again and again, at any moment, loses nothing, and the last run leaves everything clean."""

import random
import subprocess
import sys
from collections import Counter
from contextlib import suppress
from pathlib import Path

import pytest

from tarrafa.crawl.verify.gaps_and_quarantine import ArchivePatches
from tarrafa.crawl.verify.repair import repair
from tarrafa.runtime.data_dir import DataDirectory
from tests.crawl.verify import planted
from tests.crawl.verify.conftest import copy_of

KILLS = 12
COMMAND = "from tarrafa.cli import main; main()"


def sound_records(data: DataDirectory) -> Counter[tuple[str, bytes]]:
    """All records with right digests, but for those that only say whose file it is."""
    return Counter(
        (path.name, record.record_id)
        for path in data.archive.glob("*.warc.gz")
        for record in planted.records(path)
        if not record.wrong and record.kind != "warcinfo"
    )


def kept_bytes(data: DataDirectory) -> set[bytes]:
    return {path.read_bytes() for path in (data.root / "quarantine").glob("*.gz.*") if path.is_file()}


@pytest.mark.parametrize("with_replica", [False, True])
def test_a_repair_that_is_killed_at_random_points_loses_nothing(
    crawled: DataDirectory, tmp_path: Path, *, with_replica: bool
) -> None:
    data, rng = copy_of(crawled, tmp_path / "data"), random.Random(7)
    planted.swap_records(data)
    planted.zero_block(data)
    planted.flip_in_text(data)
    planted.delete_capture(data)
    planted.delete_edge(data)
    before = sound_records(data)
    damaged = [one for one in planted.meta(data).read_bytes().split(bytes(4000)) if one]
    assert damaged
    command = [sys.executable, "-c", COMMAND, "verify", "--repair", "--data", str(data.root)]
    command += ["--from", str(crawled.root)] if with_replica else []
    killed = 0
    for _ in range(KILLS):
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        with suppress(subprocess.TimeoutExpired):
            process.wait(rng.uniform(0.3, 3.0))
        killed += process.returncode is None
        process.kill()
        process.wait()
        ArchivePatches(data).finish_pending()  # as the next repair does first
        assert not before - (now := sound_records(data)), "a sound record is lost"
        assert max(now.values()) == 1
    result = repair(data, crawled.root if with_replica else None)
    assert result.report.findings == [], result
    assert killed
    if with_replica:
        assert sound_records(data) == sound_records(crawled)
    else:
        assert any(bytes(4000) in one for one in kept_bytes(data)), "the damaged bytes are kept"
