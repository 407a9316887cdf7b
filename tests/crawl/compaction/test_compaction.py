"""Compaction: what stays is byte for byte what it was, what goes goes by the rule, and every reader goes on exactly."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tarrafa.archive.warc_reader import bytes_behind, follow
from tarrafa.archive.warc_writer import WarcWriter, read_durable
from tarrafa.captures import follower as captures
from tarrafa.captures.capture_access import CaptureStore
from tarrafa.crawl.compaction import compaction, group_rewriter, switch
from tarrafa.crawl.compaction.journal import Journal
from tarrafa.errors import DataError
from tarrafa.graph import follower as graph
from tarrafa.index import follower as index
from tarrafa.runtime.data_dir import DataDirectory
from tests.archive.test_warc_files import a_record, an_exchange
from tests.crawl.compaction.versions import (
    COLLECTION,
    assert_clean,
    bodies,
    captures_of,
    cdx_lines,
    follow_all,
    hits,
    record_ids,
    run,
    set_file_size,
    set_retention,
)
from tests.crawl.verify import planted
from tests.crawl.verify.conftest import copy_of
from tests.graph.archived_web import small_web, write
from tests.warc_check import check_warc_file


def state(data: DataDirectory) -> tuple[object, ...]:
    return record_ids(data), cdx_lines(data), bodies(data), hits(data)


def pairs(data: DataDirectory) -> list[str]:
    return sorted(path.stem for path in data.archive.glob("*.durable"))


def compact(data: DataDirectory) -> dict[str, Any]:
    done: dict[str, Any] = json.loads(run("compact", "--data", data.root, "--json"))
    return done


def test_small_files_become_one_and_nothing_else_changes(data):
    before, files = state(data), pairs(data)
    cursors = [one.cursor(data) for one in (graph, captures, index)]
    assert len(files) > 5
    result = compact(data)
    assert (result["pairs_before"], result["pairs_after"], result["dropped"]) == (len(files), 1, [])
    assert state(data) == before
    assert not set(files) & set(pairs(data))
    assert_clean(data)
    assert [one.behind(data) for one in (graph, captures, index)] == [0, 0, 0]
    assert cursors != [one.cursor(data) for one in (graph, captures, index)]
    for path in data.archive.glob("*.warc.gz"):
        check_warc_file(path)
    assert compact(data)["rewritten"] == 0


def test_the_default_rule_removes_nothing_and_a_dry_run_changes_nothing(data):
    before, files = state(data), pairs(data)
    assert json.loads(run("compact", "--data", data.root, "--dry-run", "--json"))["captures"] == []
    set_retention(data, "last 1")
    listed = json.loads(run("compact", "--data", data.root, "--dry-run", "--json"))
    assert len(listed["captures"]) > 50
    assert "would go" in run("compact", "--data", data.root, "--dry-run")
    assert (state(data), pairs(data)) == (before, files)


@pytest.mark.parametrize("rule", ["last 1", "last 2", "one per month", "one per year"])
def test_a_rule_removes_exactly_what_the_dry_run_lists(data, rule):
    set_retention(data, rule)
    before, pages = captures_of(data), bodies(data)
    listed = json.loads(run("compact", "--data", data.root, "--dry-run", "--json"))
    gone = {(url, timestamp) for timestamp, url, _ in listed["captures"]}
    found = hits(data)
    result = compact(data)
    assert result["dropped"] == listed["dropped"]
    after = captures_of(data)
    assert {(one.url, one.timestamp) for one in after} == {(one.url, one.timestamp) for one in before} - gone
    assert gone
    assert bodies(data) == {key: body for key, body in pages.items() if key not in gone}, "a revisit finds its body"
    assert hits(data) == found
    assert_clean(data)
    for entry in follow(data.archive, {}):
        is_gone, page = entry.record.removed == "retention", entry.record.page
        assert page is None or is_gone == (not page.text), "the text goes with its version"


def test_everything_can_be_rebuilt_from_what_stays(data):
    set_retention(data, "last 1")
    before = hits(data)
    compact(data)
    shown = cdx_lines(data)
    for what in ("graph", "captures", "index", "triples"):
        run("rebuild", what, "--data", data.root)
    assert (hits(data), cdx_lines(data)) == (before, shown)
    assert_clean(data)
    run("rebuild", "frontier", "--force", "--data", data.root)
    assert_clean(data)


def test_a_legal_hold_keeps_what_a_rule_would_remove(data):
    set_retention(data, "last 1")
    before = captures_of(data)
    run("takedown", "hold", "host:www.site.test", "--reason", "case 12", "--data", data.root)
    compact(data)
    after = captures_of(data)
    held = [one for one in before if "//www.site.test/" in one.url]
    assert [one.cdxj(with_files=False) for one in after if "//www.site.test/" in one.url] == [
        one.cdxj(with_files=False) for one in held
    ]
    assert len(after) < len(before)
    run("takedown", "release", "host:www.site.test", "--reason", "closed", "--data", data.root)
    compact(data)
    assert len(captures_of(data)) < len(after)
    assert_clean(data)


def test_a_legal_hold_of_a_collection(data):
    set_retention(data, "last 1")
    run("takedown", "hold", f"collection:{COLLECTION}", "--reason", "case 12", "--data", data.root)
    assert compact(data)["dropped"] == []


def test_a_program_goes_on_exactly_where_it_was(data):
    """Two programs stopped in the midst of a file, one has not begun, one is at the end."""
    entries = list(follow(data.archive, {}))
    for place in (0, 1, 40, 77, len(entries)):
        cursor: dict[str, int] = {}
        for entry in entries[:place]:
            cursor[entry.file] = entry.end
        (data.cursors / f"pages-p{place}.json").write_bytes(msgspec.json.encode(cursor))
    compact(data)
    for place in (0, 1, 40, 77, len(entries)):
        moved = msgspec.json.decode((data.cursors / f"pages-p{place}.json").read_bytes(), type=dict[str, int])
        rest = [(one.record.url, one.record.visit) for one in follow(data.archive, moved)]
        assert rest == [(one.record.url, one.record.visit) for one in entries[place:]]
        assert (bytes_behind(data.archive, moved) == 0) == (place == len(entries))


def test_a_follower_that_is_behind_goes_on_exactly(data):
    index.rebuild(data)
    write_more(data)
    compact(data)
    assert_clean(data)
    assert index.behind(data) > 0
    follow_all(data)
    assert_clean(data)


def write_more(data: DataDirectory) -> None:
    data.frontier.unlink()
    write(data, small_web(30), "w1")
    write(data, small_web(60)[30:], "w1")


def test_files_of_a_living_writer_are_left_alone(data):
    writer = WarcWriter(data.archive, "w9", 1.7e9)
    writer.append(a_record(1), an_exchange(1))
    writer.prepare_commit()()
    (name,) = (one for one in pairs(data) if "-w9-" in one)
    compact(data)
    assert name in pairs(data)
    writer.append(a_record(2), an_exchange(2))
    writer.close()
    assert read_durable(data.archive / f"{name}.durable").visits_end


def test_a_damaged_file_stays_as_it_is_and_is_named(data):
    set_retention(data, "last 1")
    damaged = planted.meta(data)
    planted.flip_in_text(data)
    content = damaged.read_bytes()
    result = compact(data)
    name = damaged.name.removesuffix(".meta.warc.gz")
    assert [one for one in result["notes"] if name in one and "stays as it is" in one]
    assert damaged.read_bytes() == content
    assert bodies(data)


def test_a_full_file_is_rewritten_only_if_a_tenth_of_it_goes(data, monkeypatch):
    compact(data)
    set_file_size(data, 100_000)
    (name,) = pairs(data)
    set_retention(data, "last 4")
    assert json.loads(run("compact", "--data", data.root, "--dry-run", "--json"))["captures"] == []
    assert compact(data)["rewritten"] == 0
    monkeypatch.setattr(compaction, "WASTE_SHARE", 0.001)
    assert compact(data)["rewritten"] == 1
    assert pairs(data) == [name.replace("g1", "g2")]


def of_one_run(imported: DataDirectory, folder: Path) -> int:
    data = copy_of(imported, folder / "one-run")
    set_retention(data, "last 1")
    set_file_size(data, 10_000_000)
    compact(data)
    return len(captures_of(data))


def test_no_revisit_record_is_left_without_its_body_by_any_batch(data, imported, tmp_path, monkeypatch):
    """What a record of another batch refers to stays until that one is rewritten."""
    set_retention(data, "last 1")
    set_file_size(data, 1_000)
    monkeypatch.setattr(compaction, "WASTE_SHARE", 0.0)
    rewritten, left = list[list[str]](), dict[str, int]()
    rewrite = group_rewriter.GroupRewriter.rewrite

    def rewrite_and_check(rewriter, batch, choice):
        rewrite(rewriter, batch, choice)
        rewritten.append([pair.name for group in batch for pair in group.pairs])
        assert len(bodies(data)) == len([one for one in captures_of(data) if not one.noarchive])
        assert_clean(data)

    monkeypatch.setattr(group_rewriter, "BATCH_BYTES", 1)
    monkeypatch.setattr(group_rewriter.GroupRewriter.__init__, "__defaults__", (lambda size: None, 1))
    monkeypatch.setattr(group_rewriter.GroupRewriter, "rewrite", rewrite_and_check)
    for _ in range(3):
        compact(data)
        left[str(len(left))] = len(captures_of(data))
    assert len(rewritten) > 5
    assert left["1"] == left["2"] == of_one_run(imported, tmp_path)


def test_a_reader_that_found_a_capture_before_finds_it_afterwards(data):
    store, found = CaptureStore(data), captures_of(data)
    texts = [store.read(one).body for one in found if not one.noarchive]
    compact(data)
    assert [store.read(one).body for one in found if not one.noarchive] == texts


def test_new_files_go_to_the_disk_with_space(data, tmp_path):
    disk = tmp_path / "disk"
    disk.mkdir()
    set_file_size(data, 1_000_000, f'directories = ["{disk}"]\nfree_min = 0')
    before = state(data)
    compact(data)
    assert len(list(disk.glob("*.warc.gz"))) == 2
    assert state(data) == before
    assert_clean(data)
    set_file_size(data, 1_000_000, 'directories = ["."]\nfree_min = 0')
    set_retention(data, "last 1")
    compact(data)
    assert list(disk.glob("*.warc.gz")) == []
    assert_clean(data)


def test_an_interrupted_switch_is_named_by_verify_and_finished_by_the_next_start(data, monkeypatch):
    before = state(data)
    monkeypatch.setattr(switch, "_move_programs", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        compaction.compact(data)
    monkeypatch.undo()
    assert Journal.is_committed(data)
    with pytest.raises(DataError, match="tarrafa compact"):
        assert_clean(data)
    assert hits(data) == before[3]
    run("rebuild", "captures", "--data", data.root)
    assert state(data) == before
    assert_clean(data)


def test_other_indexers_read_the_new_files(data):
    set_retention(data, "last 2")
    compact(data)
    (path,) = (one for one in data.archive.glob("*.warc.gz") if ".meta." not in one.name)
    done = subprocess.run(
        [sys.executable, "-m", "warcio.cli", "check", "-v", str(path)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout


def test_old_files_stay_if_a_new_one_is_not_whole(data, monkeypatch):
    """As after a power cut of a disk that does not keep what it says."""
    files = pairs(data)
    place = switch._place_outputs

    def place_and_lose(data, journal):
        place(data, journal)
        (output,) = journal.outputs()
        path = data.archive / f"{output.name}.warc.gz"
        path.write_bytes(path.read_bytes()[:-1])

    monkeypatch.setattr(switch, "_place_outputs", place_and_lose)
    with pytest.raises(DataError, match="the files it replaces stay"):
        compaction.compact(data)
    assert set(files) < set(pairs(data))
    assert set(graph.cursor(data)) <= set(files), "no reader was moved"


def test_each_part_of_index_and_triple_store_goes_on(data):
    run("rebuild", "index", "--shards", "3", "--data", data.root)
    set_retention(data, "last 2")
    before = [hit[:2] for hit in hits(data)]
    compact(data)
    assert [hit[:2] for hit in hits(data)] == before
    assert index.behind(data) == 0
    assert_clean(data)
