"""`rebuild parse`: today's parser reads the stored bodies; what it finds is in index, graph and triple store."""

import random
import signal
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tarrafa.archive.warc_reader import follow
from tarrafa.crawl.compaction.reparse import reparse
from tarrafa.crawl.warc_import import capture_importer
from tarrafa.crawl.worker.outcome import FinishedVisit, conclude
from tarrafa.model import VisitRecord
from tarrafa.runtime.data_dir import DataDirectory
from tests.crawl.compaction.test_compaction_killed import run_killed
from tests.crawl.compaction.versions import (
    assert_clean,
    bodies,
    cdx_lines,
    hits,
    import_versions,
    record_ids,
    run,
    write_versions,
)
from tests.crawl.verify.conftest import copy_of

KILLS, KILLS_LONG = 3, 20
SEED = 3


def parsed_badly(*arguments: Any, **options: Any) -> FinishedVisit:
    """What an older parser could have found: another title, no text, no links."""
    done = conclude(*arguments, **options)
    page = done.record.page
    if page is not None:
        page = msgspec.structs.replace(page, title="velho", text="texto antigo", links=(), statements="")
        done.record = msgspec.structs.replace(done.record, page=page)
    return done


@pytest.fixture(scope="module")
def outdated(tmp_path_factory: pytest.TempPathFactory) -> DataDirectory:
    folder = tmp_path_factory.mktemp("outdated")
    write_versions(folder / "source", pages=12)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(capture_importer, "conclude", parsed_badly)
        return import_versions(folder / "data", folder / "source" / "archive")


def records(data: DataDirectory) -> dict[tuple[str, int], VisitRecord]:
    return {(one.record.url, one.record.visit): one.record for one in follow(data.archive, {})}


def responses(data: DataDirectory) -> list[str]:
    kinds = ("response", "revisit", "request", "resource")
    return sorted(key for key in record_ids(data).elements() if key.startswith(kinds))


def test_what_todays_parser_finds_replaces_what_an_older_one_found(outdated, tmp_path):
    data = copy_of(outdated, tmp_path / "data")
    old, kept, lines, ids = records(data), bodies(data), cdx_lines(data), responses(data)
    assert hits(data) == []
    said = run("rebuild", "parse", "--data", data.root)
    assert said.startswith("parse: ") and "0 refused and 0 without a body" in said
    new = records(data)
    assert new.keys() == old.keys()
    for key, record in new.items():
        assert record.outcome == old[key].outcome
        if record.page is not None:
            links_itself = record.url.endswith("/p0.html")
            assert record.page.title.startswith("P") and "revisao" in record.page.text
            assert links_itself or record.page.links
    assert (bodies(data), cdx_lines(data), responses(data)) == (kept, lines, ids), "responses are untouched"
    assert len(hits(data)) == 4
    assert_clean(data)
    assert not (data.root / "reparse.json").exists()


def test_parsing_again_what_todays_parser_has_parsed_changes_no_page(data):
    def pages(records: dict[tuple[str, int], VisitRecord]) -> dict[tuple[str, int], object]:
        return {key: (one.page.title, one.page.text, one.page.links) for key, one in records.items() if one.page}

    old, found = pages(records(data)), [hit[:2] for hit in hits(data)]
    reparse(data)
    assert pages(records(data)) == old
    assert [hit[:2] for hit in hits(data)] == found
    assert_clean(data)


def check_kills(outdated: DataDirectory, folder: Path, kills: int) -> None:
    whole, rng = copy_of(outdated, folder / "whole"), random.Random(SEED)
    done = run_killed(whole, 0, "parse")
    committed, calls = map(int, done.stdout.split())
    expected, lines = {key: one.page for key, one in records(whole).items()}, cdx_lines(whole)
    for number in range(kills):
        data = copy_of(outdated, folder / f"killed{number}")
        at = rng.randrange(committed, calls) if number % 2 else rng.randrange(1, committed)
        assert run_killed(data, at, "parse").returncode == -signal.SIGKILL
        assert cdx_lines(data) == lines
        reparse(data)
        assert {key: one.page for key, one in records(data).items()} == expected
        assert hits(data) == hits(whole)
        assert_clean(data)


def test_a_reparse_that_is_killed_goes_on(outdated, tmp_path):
    check_kills(outdated, tmp_path, KILLS)


@pytest.mark.long
def test_a_reparse_that_is_killed_twenty_times_goes_on(outdated, tmp_path):
    check_kills(outdated, tmp_path, KILLS_LONG)
