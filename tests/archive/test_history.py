"""Notes stand between the visits: whoever follows does not see them, whoever makes a frontier again does."""

from zlib import crc32

import msgspec
import pytest

from tarrafa.archive.warc_reader import (
    bytes_behind,
    durable_lengths,
    follow,
    read_events,
    survey_archive,
    visit_lengths,
    worker_of,
)
from tarrafa.archive.warc_writer import WarcWriter, read_durable, recover_archive
from tarrafa.errors import DataError
from tarrafa.model import CollectionNote, HostNote, Listing, ListingEntry, ListingNote, RebuiltNote, VisitRecord
from tests.archive.test_warc_files import a_record
from tests.warc_check import check_warc_file

CONFIGURED = CollectionNote("c", 2, msgspec.Raw(b'{"name":"c"}'))
HOST = HostNote("c", "http://h1.br.test:80", 1, 2.5, ("http://h1.br.test/s.xml",), 200, 9.0, b"Disallow: /\xff\n")
LISTED = ListingNote(
    "c", "http://h1.br.test/s.xml", 3, Listing((ListingEntry("http://h1.br.test/x", 7.0),), kind="sitemap")
)
T = 1_700_000_000.0


def test_notes_are_told_in_their_place_and_followers_do_not_see_them(tmp_path):
    writer = WarcWriter(tmp_path, "w-1", T)
    writer.append_note(CONFIGURED, T)
    writer.append(a_record(1), None)
    writer.append_note(LISTED, T + 2)
    writer.append(a_record(2), None)
    writer.append_note(HOST, T + 3)
    writer.close()
    assert [entry.record.visit for entry in follow(tmp_path, {})] == [1, 2]
    found = survey_archive(tmp_path)
    assert (found.names, found.visited, found.visits) == ({"c"}, {"c"}, 2)
    assert bytes(found.configs["c"].config) == b'{"name":"c"}'
    told = [happening.content for happening in read_events(tmp_path, found.starts)]
    assert [type(what) for what in told] == [CollectionNote, VisitRecord, ListingNote, VisitRecord, HostNote]
    assert (told[2], told[4]) == (LISTED, HOST)
    (file,) = found.starts
    assert worker_of(file) == "w-1"
    for path in tmp_path.glob("*.warc.gz"):
        check_warc_file(path)


def test_notes_behind_the_last_visit_keep_nobody_waiting_and_survive_a_crash(tmp_path):
    writer = WarcWriter(tmp_path, "w1", T)
    writer.append_note(CONFIGURED, T)
    writer.prepare_commit()()
    assert visit_lengths(tmp_path) == {}, "there is no visit yet"
    writer.append(a_record(1), None)
    writer.prepare_commit()()
    (first,) = follow(tmp_path, {})
    cursor = {first.file: first.end}
    writer.append_note(HOST, T + 1)
    writer.prepare_commit()()
    assert bytes_behind(tmp_path, cursor) == 0
    assert list(follow(tmp_path, cursor)) == []
    recover_archive(tmp_path)
    assert [type(one.content) for one in read_events(tmp_path, survey_archive(tmp_path).starts)] == [
        CollectionNote,
        VisitRecord,
        HostNote,
    ]
    writer.append(a_record(2), None)
    writer.close()
    assert [entry.record.visit for entry in follow(tmp_path, cursor)] == [2]
    assert survey_archive(tmp_path, after=cursor).visits == 1


def test_all_files_are_read_in_the_order_of_time_and_few_are_open_at_once(tmp_path):
    (tmp_path / "archive.toml").write_text("file_size = 3000")
    tmp_path = tmp_path / "archive"
    tmp_path.mkdir()
    writers = {name: WarcWriter(tmp_path, name, T) for name in ("w1", "w2")}
    for number in range(60):
        writer = writers["w1" if number % 3 else "w2"]
        writer.append(a_record(number), None)
        writer.prepare_commit()()
    for writer in writers.values():
        writer.close()
    found = survey_archive(tmp_path)
    assert len(found.starts) > 6
    at = [happening.at for happening in read_events(tmp_path, found.starts)]
    assert at == sorted(at)
    assert len(at) == found.visits == 60
    read: list[int] = []
    assert sum(1 for _ in read_events(tmp_path, found.starts, read.append)) == 60
    assert sum(read) == sum(durable_lengths(tmp_path).values())


def test_a_file_of_an_earlier_version_has_visits_only(tmp_path):
    """Its line of lengths has two numbers."""
    writer = WarcWriter(tmp_path, "w1", T)
    writer.append(a_record(1), None)
    writer.close()
    line = next(tmp_path.glob("*.durable"))
    durable = read_durable(line)
    old = f"{durable.warc} {durable.meta}"
    line.write_text(f"{old} {crc32(old.encode()):08x}\n")
    assert read_durable(line) == durable
    assert [entry.record.visit for entry in follow(tmp_path, {})] == [1]


def test_a_note_that_cannot_be_read_is_named(tmp_path):
    writer = WarcWriter(tmp_path, "w1", T)
    writer.append_note(RebuiltNote(5), T)
    writer._records()._meta.write("resource", "2023-11-14T22:13:20Z", "", b'{"type":"of tomorrow"}')
    writer.close()
    with pytest.raises(DataError, match=r"the record at \d+ cannot be read"):
        survey_archive(tmp_path)
