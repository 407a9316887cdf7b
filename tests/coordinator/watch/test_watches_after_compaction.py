"""Watches after a compaction: what was told is not told again, what was not read yet is told once."""

from pathlib import Path

import pytest

from tarrafa.coordinator.watch import watch_store
from tarrafa.coordinator.watch.watch_follower import run_watch_pass
from tarrafa.coordinator.watch.watch_store import WatchStore
from tarrafa.crawl.compaction import switch
from tarrafa.crawl.compaction.compaction import compact
from tests.captures.archived_site import SiteArchive
from tests.coordinator.watch.test_watches import BESIDE, PAGE, WatchedArchive


@pytest.fixture
def archive(tmp_path: Path) -> WatchedArchive:
    return WatchedArchive(tmp_path)


def begin_file(archive: WatchedArchive) -> None:
    """The next visits are in another pair of files of the same worker."""
    archive.commit()
    archive.site.close()
    archive.site = SiteArchive(archive.data, stamp=archive.now)


def close(archive: WatchedArchive) -> None:
    begin_file(archive)
    archive.site.close()


def write_history(archive: WatchedArchive) -> int:
    """A page that was there, unchanged, and is gone, in two files, and the watch that has told it."""
    archive.visit(PAGE, "one")
    number = archive.watch("page", PAGE)
    archive.visit(PAGE, "one")
    begin_file(archive)
    archive.visit(PAGE, status=404)
    assert archive.told(number) == [[("gone", PAGE)]]
    return number


def test_what_was_told_is_not_told_again(archive):
    number = write_history(archive)
    close(archive)
    assert compact(archive.data).pairs_after == 1
    assert archive.told(number) == [[("gone", PAGE)]], "it has not come back"


def test_what_was_told_long_ago_is_not_told_again(archive, monkeypatch):
    """Only the newest messages are kept, so that an old change is not recognised."""
    monkeypatch.setattr(watch_store, "MESSAGES_KEPT", 1)
    number = write_history(archive)
    for text in ("two", "three"):
        archive.visit(PAGE, text)
        archive.told(number)
    begin_file(archive)
    archive.visit(BESIDE, "not watched")
    close(archive)
    before = archive.told(number)
    assert compact(archive.data).pairs_after == 1
    assert archive.told(number) == before


def test_what_was_not_read_before_is_told_once_afterwards(archive):
    number = write_history(archive)
    begin_file(archive)
    archive.visit(PAGE, "two")
    archive.visit(BESIDE, "not watched")
    close(archive)
    assert compact(archive.data).pairs_after == 1
    told = archive.told(number)
    assert told == [[("gone", PAGE)], [("changed", PAGE)]]
    assert archive.told(number) == told


@pytest.mark.parametrize("step", ["move_projections", "_move_programs", "_remove_sources", "forget_files"])
def test_a_pass_beside_an_interrupted_switch_tells_nothing_twice(archive, monkeypatch, step):
    number = write_history(archive)
    close(archive)
    monkeypatch.setattr(switch, step, lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        compact(archive.data)
    monkeypatch.undo()
    run_watch_pass(archive.data, "", archive.now, archive.now)  # followers do not run before all is recovered
    switch.finish_interrupted(archive.data)
    assert archive.told(number) == [[("gone", PAGE)]]
    with WatchStore(archive.data).reading() as tables:
        assert tables is not None and set(tables.cursor()) == {
            one.stem for one in archive.data.archive.glob("*.durable")
        }
