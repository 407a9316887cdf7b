"""Other programs read compacted files: warcio check and cdxj-indexer find nothing wrong, pywb replays them."""

from pathlib import Path

import pytest

from tarrafa.captures.capture_access import CaptureStore
from tarrafa.captures.follower import response_files
from tarrafa.captures.reader import CapturesReader, KeyRange
from tarrafa.crawl.compaction.compaction import compact
from tarrafa.runtime.data_dir import DataDirectory
from tests.captures.archive_tools import archive_tools, pywb_running, run_tool
from tests.captures.test_pywb import get
from tests.crawl.compaction.versions import set_retention

pytestmark = pytest.mark.long  # the first time a minute to install pywb


@pytest.fixture
def compacted(data: DataDirectory) -> DataDirectory:
    set_retention(data, "one per month")
    result = compact(data)
    assert result.dropped and result.rewritten > 5
    return data


def test_warcio_check_and_cdxj_indexer_are_clean(compacted: DataDirectory) -> None:
    tools, files = archive_tools(), response_files(compacted.archive)
    run_tool(tools, "warcio", "check", *map(str, compacted.archive.glob("*.warc.gz")))
    theirs = run_tool(tools, "cdxj-indexer", "-s", *map(str, files)).splitlines()
    ours = [one.cdxj() for one in CapturesReader(compacted).scan(KeyRange(), rows_max=None) if not one.confirms]
    assert len(ours) > 50
    assert set(ours) <= set(theirs)
    assert len({line.partition(" {")[0] for line in theirs}) == len(list(CapturesReader(compacted).scan(KeyRange())))


def test_pywb_replays_them_byte_for_byte(compacted: DataDirectory, tmp_path: Path) -> None:
    index, store = tmp_path / "export.cdxj", CaptureStore(compacted)
    captures = list(CapturesReader(compacted).scan(KeyRange(), rows_max=None))
    index.write_text("".join(f"{one.cdxj()}\n" for one in captures))
    with pywb_running(tmp_path / "pywb", index, compacted.archive) as base:
        for one in captures:
            replayed = get(f"{base}/{one.timestamp}id_/{one.url}", **{"Accept-Encoding": "identity"})
            assert replayed == store.read(one).body
    assert sum(one.is_revisit or one.confirms for one in captures) > 10
