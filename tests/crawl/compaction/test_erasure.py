"""Erasure: after its waiting time nothing of a page is left anywhere, and everything else is as before."""

import json
import zlib
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest

from tarrafa.archive.warc_reader import follow
from tarrafa.captures.capture_access import CaptureStore
from tarrafa.cli.options import current_user
from tarrafa.crawl.compaction import erasure
from tarrafa.crawl.compaction.compaction import compact
from tarrafa.crawl.verify.repair import repair
from tarrafa.errors import NotFound, PageTakenDown
from tarrafa.runtime.data_dir import DataDirectory
from tarrafa.takedown import TakedownTarget, append_entries, in_force, read_entries, takedown_log_path
from tests.crawl.compaction.versions import (
    COLLECTION,
    assert_clean,
    bodies,
    captures_of,
    hits,
    run,
    set_file_size,
)
from tests.crawl.verify import planted
from tests.crawl.verify.conftest import copy_of

PAGE = "http://www.site.test/p3.html"
NOW = datetime.now(UTC).timestamp()
DAY_S = 86_400.0


def unpacked(content: bytes) -> Iterator[bytes]:
    """A file as it is, and what gzip members in it hold."""
    yield content
    place = 0
    while (place := content.find(b"\x1f\x8b\x08", place)) >= 0:
        inflater = zlib.decompressobj(31)
        try:
            yield inflater.decompress(content[place:])
        except zlib.error:
            place += 3
            continue
        place = max(place + 3, len(content) - len(inflater.unused_data))


def files_with(data: DataDirectory, needle: bytes) -> list[str]:
    found = []
    for path in sorted(data.root.rglob("*")):
        if path.is_file() and any(needle in part for part in unpacked(path.read_bytes())):
            found.append(str(path.relative_to(data.root)))
    return found


def order(data: DataDirectory, target: str, *more: str, code: int = 0) -> str:
    return run(
        "takedown", "erase", target, "--reason", "court order 12", "--confirm", target, *more, "--data", data.root,
        code=code,
    )  # fmt: skip


def erase(data: DataDirectory, days: float = 8) -> list[str]:
    return compact(data, who="ana", now=NOW + days * DAY_S).erased


@pytest.mark.parametrize("target", [PAGE, "host:www.site.test", "site:site.test"])
def test_nothing_of_what_is_erased_is_left_anywhere(data, target):
    needle = b"pagina3 revisao"
    others = {key: body for key, body in bodies(data).items() if not erases(target, key[0])}
    assert any("archive/" in name for name in files_with(data, needle))
    assert len(files_with(data, needle)) > 2
    order(data, target)
    assert erase(data) == [target]
    assert files_with(data, needle) == []
    assert bodies(data) == others
    assert {one.url for one in captures_of(data)} == {url for url, _ in others}
    assert_clean(data)
    with pytest.raises(PageTakenDown):
        CaptureStore(data).find(PAGE)
    for entry in follow(data.archive, {}):
        assert (entry.record.removed == "erased") == erases(target, entry.record.url)
        assert entry.record.removed != "erased" or (entry.record.page, entry.record.outcome.payload) == (None, "")
    assert [(one.action, one.who, one.reason) for one in read_entries(data)] == [
        ("erase", current_user(), "court order 12"),
        ("add", current_user(), "court order 12"),
        ("erased", "ana", "court order 12"),
    ]


def erases(target: str, url: str) -> bool:
    return {"http": url == PAGE, "host": "//www.site.test/" in url, "site": "site.test/" in url}[
        target.partition(":")[0]
    ]


def test_an_erased_page_can_be_lifted_and_is_then_fetched_whole(data):
    order(data, PAGE)
    erase(data)
    run("takedown", "lift", PAGE, "--data", data.root)
    with pytest.raises(NotFound):
        CaptureStore(data).find(PAGE)
    assert_clean(data)
    for what in ("graph", "captures", "index", "triples"):
        run("rebuild", what, "--data", data.root)
    run("rebuild", "frontier", "--force", "--data", data.root)
    assert_clean(data)


def test_nothing_is_erased_before_the_waiting_time_is_over_or_after_it_was_cancelled(data):
    before = bodies(data)
    assert "will be erased after" in order(data, PAGE)
    (entry,) = in_force(read_entries(data), "erase").values()
    assert isinstance(entry.due, datetime) and timedelta(days=6.9) < entry.due - entry.at < timedelta(days=7.1)
    assert erase(data, days=6.9) == []
    assert "cancelled" in run("takedown", "erase", PAGE, "--cancel", "--data", data.root)
    assert erase(data, days=9) == []
    run("takedown", "lift", PAGE, "--data", data.root)
    assert bodies(data) == before, "a takedown removes no byte"


def test_lifting_a_takedown_cancels_the_order(data):
    order(data, PAGE)
    assert "cancelled" in run("takedown", "lift", PAGE, "--data", data.root)
    assert erase(data) == []


def test_the_waiting_time_is_a_setting(data):
    set_file_size(data, 1_000_000, 'erase_wait = "2 hours"')
    order(data, PAGE)
    assert erase(data, days=0.01) == []
    assert erase(data, days=0.1) == [PAGE]


def test_the_name_has_to_be_typed_and_a_reason_given(data):
    log = takedown_log_path(data)
    for arguments, typed in ((["--reason", "x"], "http://www.site.test/\n"), ([], f"{PAGE}\n")):
        with pytest.raises(AssertionError):
            run("takedown", "erase", PAGE, *arguments, "--data", data.root, typed=typed)
        assert not log.exists()
    run("takedown", "erase", PAGE, "--reason", "x", "--data", data.root, typed=f"{PAGE}\n")
    assert len(read_entries(data)) == 2


@pytest.mark.parametrize("hold", [PAGE, "host:www.site.test", "site:site.test", f"collection:{COLLECTION}"])
@pytest.mark.parametrize("target", [PAGE, "site:site.test"])
def test_a_legal_hold_refuses_an_order_and_stops_one_that_was_given_before(data, hold, target):
    run("takedown", "hold", hold, "--reason", "case 12", "--data", data.root)
    with pytest.raises(AssertionError, match="legal hold"):
        order(data, target)
    assert [one.action for one in read_entries(data)] == ["hold"]
    run("takedown", "release", hold, "--data", data.root)
    order(data, target)
    before = len(captures_of(data))
    run("takedown", "hold", hold, "--reason", "case 13", "--data", data.root)
    result = compact(data, who="ana", now=NOW + 9 * DAY_S)
    assert (result.erased, len(captures_of(data))) == ([], before)
    assert any("legal hold" in note for note in result.notes)
    run("takedown", "release", hold, "--data", data.root)
    assert erase(data) == [target]


def test_each_machine_erases_in_its_own_archive(data, tmp_path):
    other = copy_of(data, tmp_path / "other")
    order(data, PAGE)
    append_entries(other, read_entries(data))
    assert erase(data) == [PAGE]
    append_entries(other, read_entries(data))
    assert (erase(data), erase(other), erase(other)) == ([], [PAGE], [])
    assert files_with(other, b"pagina3 revisao") == []
    assert "to be erased" not in run("takedown", "list", "--data", data.root)
    run("takedown", "lift", PAGE, "--data", data.root)
    order(data, PAGE)
    assert erase(data, days=20) == [PAGE], "it can be ordered again"


def test_orders_and_holds_are_listed(data):
    order(data, PAGE)
    run("takedown", "hold", "host:other.test", "--data", data.root)
    shown = run("takedown", "list", "--data", data.root)
    assert f"to be erased            {PAGE}" in shown and "legal hold              host:other.test" in shown
    listed = json.loads(run("takedown", "list", "--data", data.root, "--json"))
    assert [one["action"] for one in listed] == ["add", "erase", "hold"]
    assert f"{PAGE}: would be erased" not in run("compact", "--dry-run", "--data", data.root)


def test_damaged_bytes_in_quarantine_are_erased_too(data):
    folder = data.root / "quarantine"
    folder.mkdir()
    kept = folder / "tarrafa-20260101000000-w1-00001.warc.gz.0-16"
    kept.write_bytes(b"no record at all")
    other = folder / "losses.jsonl"
    other.write_text("")
    order(data, PAGE)
    erase(data)
    assert not kept.exists() and other.exists()


def test_a_file_with_a_gap_is_erased_too(data):
    planted.flip_in_text(data)
    repair(data, None)
    assert any((data.root / "quarantine").glob("*.gz.*"))
    assert compact(data).notes, "else it stays as it is"
    order(data, "site:site.test")
    assert erase(data) == ["site:site.test"]
    assert files_with(data, b"pagina3 revisao") == []
    assert_clean(data)


def test_an_erasure_that_was_interrupted_is_completed_by_the_next_run(data, monkeypatch):
    order(data, PAGE)
    for step in ("_forget_in_frontier", "_remove_quarantine"):
        monkeypatch.setattr(erasure.Erasure, step, lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            erase(data)
        monkeypatch.undo()
        assert [one.target for one in in_force(read_entries(data), "erase").values()] == [TakedownTarget("url", PAGE)]
    found = hits(data)
    assert erase(data) == [PAGE]
    assert files_with(data, b"pagina3 revisao") == []
    assert hits(data) == found
    assert_clean(data)
