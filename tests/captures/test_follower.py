"""The follower of the captures: what it enters, what it never enters twice, and what it removes."""

import contextlib
import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tarrafa.archive import revisit_record, warc_writer
from tarrafa.archive.deletion_log import record_deletions
from tarrafa.captures import follower
from tarrafa.captures.capture_access import CaptureStore
from tarrafa.captures.follower import CapturesFollower, response_files
from tarrafa.captures.reader import CapturesReader, KeyRange
from tarrafa.errors import DataError
from tarrafa.runtime.data_dir import DataDirectory
from tarrafa.takedown import parse_target, record_action
from tests.captures.archive_tools import archive_tools, run_tool
from tests.captures.archived_site import (
    COLLECTION,
    DAY_S,
    FIRST_AT,
    OTHER,
    PAGE,
    RESOURCE,
    SHY,
    SiteArchive,
    new_archive,
    write_site,
)

EVERYTHING = KeyRange()


@pytest.fixture
def data(tmp_path: Path) -> DataDirectory:
    return new_archive(tmp_path / "data")


def lines_of(data: DataDirectory, *, with_noarchive: bool = True) -> list[str]:
    found = CapturesReader(data).scan(EVERYTHING, rows_max=None, with_noarchive=with_noarchive)
    return [one.cdxj() for one in found]


def lines_by_cdxj_indexer(data: DataDirectory) -> list[str]:
    return run_tool(archive_tools(), "cdxj-indexer", "-s", *map(str, response_files(data.archive))).splitlines()


def test_lines_are_those_of_cdxj_indexer_but_for_what_a_304_confirms(data):
    write_site(data).close()
    follower.catch_up(data)
    ours, theirs = lines_of(data), lines_by_cdxj_indexer(data)
    assert ours == sorted(ours, key=str.encode)
    different = set(theirs) - set(ours)
    assert len(different) == 2 and all('"warc/revisit", "status": "304"' in line for line in different)
    assert len(ours) == len(theirs)
    for line in different:
        key, timestamp = line.split()[:2]
        confirmed = next(one for one in ours if one.startswith(f"{key} {timestamp} "))
        place = json.loads(confirmed.split(" ", 2)[2])
        originals = [one for one in theirs if f'"offset": "{place["offset"]}"' in one]
        assert place["status"] == "200" and len(originals) == 1 and originals[0].startswith(f"{key} ")


def test_what_was_imported_without_an_answer_is_a_capture_with_its_bytes_and_text(data):
    site = write_site(data)
    site.close()
    follower.catch_up(data)
    store = CaptureStore(data)
    first, second = store.reader.captures_of(RESOURCE)
    assert (first.mime, first.status, first.is_success) == ("text/html", "", True)
    assert "status" not in first.fields()
    for capture, at in ((first, FIRST_AT), (second, FIRST_AT + DAY_S)):
        assert store.read(capture).body == site.served[RESOURCE, at]
    assert store.read(first).head.content_type == "text/html"
    assert store.read_text(first).text == "<p>without an answer</p>"


def test_a_second_pass_reads_only_what_is_new(data):
    site = write_site(data)
    assert follower.catch_up(data) == len(lines_of(data))
    assert follower.catch_up(data) == 0
    site.visit(PAGE, FIRST_AT + 300 * DAY_S, b"<p>new</p>")
    assert follower.catch_up(data) == 0  # not durable
    site.commit()
    assert follower.behind(data) > 0
    assert follower.catch_up(data) == 1
    assert follower.behind(data) == 0
    site.close()


def test_a_rebuild_gives_the_same_lines(data):
    write_site(data).close()
    follower.catch_up(data)
    before = lines_of(data)
    assert follower.rebuild(data) == len(before)
    assert lines_of(data) == before


def test_a_deleted_collection_is_gone_and_what_belongs_to_no_visit_stays(data):
    write_site(data).close()
    follower.catch_up(data)
    record_deletions(data.archive, {COLLECTION: FIRST_AT + 900 * DAY_S}, FIRST_AT + 900 * DAY_S)
    assert follower.drop_deleted(data)
    left = lines_of(data)
    assert left and any("robots.txt" in line for line in left)
    assert not any('"http://www.site.test/page.html"' in line for line in left)
    follower.rebuild(data)  # the deletion is known before the records
    assert lines_of(data) == left


def test_a_collection_of_the_same_name_begins_anew(data):
    write_site(data).close()
    deleted_at = FIRST_AT + 900 * DAY_S
    record_deletions(data.archive, {COLLECTION: deleted_at, OTHER: deleted_at}, deleted_at)
    later = SiteArchive(data, "w2", deleted_at + 5)
    later.visit(PAGE, deleted_at + 10, b"<p>again</p>")
    later.close()
    follower.catch_up(data)
    assert [line.split()[0] for line in lines_of(data)] == ["test,site)/page.html", "test,site)/robots.txt"]


def test_a_takedown_hides_at_once_and_its_lift_shows_again(data):
    write_site(data).close()
    follower.catch_up(data)
    before = lines_of(data)
    target = parse_target("host:www.site.test")
    record_action(data, "add", target, "test", "", time.time())
    hidden = lines_of(data)
    assert hidden and not any('"http://www.site.test/' in line for line in hidden)
    record_action(data, "lift", target, "test", "", time.time())
    assert lines_of(data) == before


def test_a_page_that_asks_not_to_be_shown_is_hidden_with_its_304(data):
    write_site(data).close()
    follower.catch_up(data)
    shy = [line for line in lines_of(data) if SHY in line]
    assert len(shy) == 2
    assert not [line for line in lines_of(data, with_noarchive=False) if SHY in line]


def test_a_revisit_in_a_file_that_is_read_first_finds_its_original(data):
    first = SiteArchive(data, "b", FIRST_AT)
    digest = first.visit(PAGE, FIRST_AT, b"<p>one</p>", noarchive=True)
    second = SiteArchive(data, "a", FIRST_AT)  # its name comes first
    second.visit(PAGE, FIRST_AT + DAY_S, status=304, of=(FIRST_AT, digest))
    first.close()
    second.close()
    follower.catch_up(data)
    assert all('"status": "200"' in line for line in lines_of(data))
    assert lines_of(data, with_noarchive=False) == []


@pytest.mark.parametrize("status", [200, 304])
def test_a_revisit_may_refer_to_another_url_unless_that_is_taken_down(data, monkeypatch, status):
    """As archives of other programs have it."""
    other = "http://other.test/the/same"
    site = SiteArchive(data)
    digest = site.visit(other, FIRST_AT, b"<p>one</p>")
    headers = revisit_record.revisit_headers
    monkeypatch.setattr(warc_writer, "revisit_headers", lambda _, *rest: headers(other, *rest))
    body = b"<p>one</p>" if status == 200 else b""
    site.visit(PAGE, FIRST_AT + DAY_S, body, status=status, of=(FIRST_AT, digest), has_page=False)
    site.close()
    follower.catch_up(data)
    store = CaptureStore(data)
    assert store.read(store.find(PAGE)).body == b"<p>one</p>"
    record_action(data, "add", parse_target(other), "test", "", time.time())
    with pytest.raises(DataError, match="is not in this archive"):
        store.read(store.find(PAGE))


def test_damage_is_noted_and_hides_no_other_record(data):
    write_site(data).close()
    (path,) = response_files(data.archive)
    follower.catch_up(data)
    before = lines_of(data)
    places = [json.loads(line.split(" ", 2)[2]) for line in before]
    hurt = sorted(places, key=lambda place: int(place["offset"]))[5]
    with path.open("r+b") as file:  # its lengths, and the beginning of its text
        file.seek(int(hurt["offset"]) + 16)
        file.write(b"\xff" * 60)
    assert follower.rebuild(data) == len(before) - 1
    assert [(name, offset) for name, offset, _ in follower.damaged_records(data)] == [
        (path.name.removesuffix(".warc.gz"), int(hurt["offset"]))
    ]


def test_a_record_without_our_extra_field_is_read(data):
    """Files of earlier versions and of other programs."""
    import gzip

    write_site(data).close()
    follower.catch_up(data)
    before = {tuple(line.split()[:2]) for line in lines_of(data)}
    (path,) = response_files(data.archive)
    durable = path.with_name(path.name.replace(".warc.gz", ".durable"))
    members, content = [], path.read_bytes()
    while content:
        size = int.from_bytes(content[16:20], "little")
        members.append(gzip.compress(gzip.decompress(content[:size])))
        content = content[size:]
    path.write_bytes(b"".join(members))
    from zlib import crc32

    _, meta, visits = durable.read_text().split()[:3]
    line = f"{path.stat().st_size} {meta} {visits}"
    durable.write_text(f"{line} {crc32(line.encode()):08x}".ljust(63) + "\n")
    follower.rebuild(data)
    assert {tuple(line.split()[:2]) for line in lines_of(data)} == before
    assert lines_of(data) and not [line for line in lines_by_cdxj_indexer(data) if line.split()[0] == ""]


FOLLOW = """
import sys, threading
from pathlib import Path
from tarrafa.captures import follower
from tarrafa.runtime.data_dir import DataDirectory
follower.BATCH_RECORDS, follower.POLL_S = 7, 0.001
follower.follow(DataDirectory(Path(sys.argv[1])), threading.Event())
"""


def entered(data: DataDirectory) -> int:
    """How many captures the index holds; 0 while it is being made."""
    with contextlib.suppress(DataError):
        return CapturesReader(data).count(EVERYTHING)
    return 0


@pytest.mark.parametrize("rounds", [6, pytest.param(50, marks=pytest.mark.long)])
def test_kills_at_any_moment_lose_nothing_and_double_nothing(data, rounds):
    rng = random.Random(rounds)
    site = write_site(data)
    count = 0
    for _ in range(rounds):
        process = subprocess.Popen([sys.executable, "-c", FOLLOW, str(data.root)])
        known, kill_at, give_up_at = entered(data), 0.0, time.monotonic() + 60
        while not kill_at or time.monotonic() < kill_at:
            url = f"http://k{count % 9}.test/{count}"
            site.visit(url, FIRST_AT + 400 * DAY_S + count, b"<p>%d</p>" % count)
            site.commit()
            count += 1
            if not kill_at and entered(data) > known:
                kill_at = time.monotonic() + rng.uniform(0.0, 0.2)
            assert time.monotonic() < give_up_at, "the follower enters nothing"
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
    site.close()
    read = follower.catch_up(data)
    with CapturesFollower(data) as one:
        assert one.read() == 0
    lines = lines_of(data)
    assert len(lines) == len(set(lines))
    follower.rebuild(data)
    assert lines_of(data) == lines
    assert sum(".test/" in line and "test,k" in line for line in lines) == count
    assert read < count
