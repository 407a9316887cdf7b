"""The archive: what was published is there and whole, what was not is gone after a crash."""

import gzip
import os
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest
from warcio.archiveiterator import ArchiveIterator

from tarrafa.archive.warc_reader import bytes_behind, follow, read_entry, visit_lengths
from tarrafa.archive.warc_writer import WarcExchange, WarcWriter, recover_archive
from tarrafa.errors import DataError, DiskFull
from tarrafa.model import Link, Outcome, Page, PageDate, VisitRecord
from tests.warc_check import check_warc_file

HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n"


def a_record(number: int, text: str = "corpo da página") -> VisitRecord:
    url = f"http://h1.br.test/{number}"
    page = Page(url=url, title=f"Título {number}", text=text, links=(Link("http://x.test/", "x", "nofollow"),))
    return VisitRecord(
        "c", url, number, 1, Outcome(200, 1_700_000_000.25 + number, kept=True, type="text/html"), page=page
    )


def an_exchange(number: int) -> WarcExchange:
    body = b"<p>" + os.urandom(300)
    request = b"GET /%d HTTP/1.1\r\nHost: h1.br.test\r\n\r\n" % number
    return WarcExchange(f"http://h1.br.test/{number}", 1_700_000_000.25, request, HEAD + body, len(HEAD), "127.0.0.1")


def write(directory: Path, numbers: range, worker: str = "w1") -> WarcWriter:
    writer = WarcWriter(directory, worker, 1_700_000_000.0)
    for number in numbers:
        writer.append(a_record(number), an_exchange(number))
    return writer


def killed(writer: WarcWriter) -> None:
    """Its process is gone, and with it its lock."""
    assert writer._pair is not None
    os.close(writer._pair._durable_fd)


def test_what_is_appended_and_published_is_followed_in_order_with_its_text(tmp_path):
    write(tmp_path, range(5)).close()
    entries = list(follow(tmp_path, {}))
    assert [entry.record for entry in entries] == [a_record(number) for number in range(5)]


def test_the_dates_of_a_page_are_kept_and_records_without_them_are_read(tmp_path):
    record = a_record(1)
    assert record.page is not None
    page = msgspec.structs.replace(
        record.page, published=PageDate(1_242_518_400, "url"), modified=PageDate(1_600_000_000, "json-ld", True)
    )
    outcome = msgspec.structs.replace(record.outcome, announced=1_650_000_000.0, changed=True, same_since=5.5)
    dated = msgspec.structs.replace(record, page=page, outcome=outcome)
    writer = WarcWriter(tmp_path, "w1", 1_700_000_000.0)
    writer.append(dated, None)
    writer.append(record, None)
    writer.close()
    assert [entry.record for entry in follow(tmp_path, {})] == [dated, record]
    older = msgspec.json.encode(record)
    assert not any(name in older for name in (b"published", b"modified", b"announced", b"changed", b"same_since"))
    assert msgspec.json.decode(older, type=VisitRecord) == record


def test_nothing_is_shown_before_it_is_durable(tmp_path):
    writer = write(tmp_path, range(3))
    publish = writer.prepare_commit()
    writer.append(a_record(3), None)
    assert list(follow(tmp_path, {})) == []
    publish()
    assert [entry.record.visit for entry in follow(tmp_path, {})] == [0, 1, 2]
    writer.close()
    assert [entry.record.visit for entry in follow(tmp_path, {})] == [0, 1, 2, 3]


def test_following_from_any_entry_shows_exactly_what_came_after_it(tmp_path):
    write(tmp_path, range(4)).close()
    write(tmp_path, range(4, 6), "w2").close()
    entries = list(follow(tmp_path, {}))
    cursor: dict[str, int] = {}
    for position, entry in enumerate(entries):
        cursor[entry.file] = entry.end
        assert list(follow(tmp_path, cursor)) == entries[position + 1 :]
    assert bytes_behind(tmp_path, cursor) == 0
    assert cursor == visit_lengths(tmp_path)


def test_a_visit_without_text_or_exchange_still_leaves_its_record(tmp_path):
    writer = WarcWriter(tmp_path, "w1", 0.0)
    failed = VisitRecord("c", "http://h1.br.test/x", 1, 2, Outcome(-11, 1.0, error="refused"))
    writer.append(failed, None)
    writer.close()
    assert [entry.record for entry in follow(tmp_path, {})] == [failed]


@pytest.mark.parametrize("text", ["corpo", ""])
def test_what_a_page_states_is_kept_beside_its_text_as_other_tools_read_it(tmp_path, text):
    said = '<http://h1.br.test/1> <https://schema.org/name> "Ana\\n"@pt .\n'
    told = [a_record(1, text), a_record(2), a_record(3, text)]
    for number in (0, 2):
        page = told[number].page
        assert page is not None
        told[number] = msgspec.structs.replace(told[number], page=msgspec.structs.replace(page, statements=said))
    writer = WarcWriter(tmp_path, "w1", 0.0)
    for record in told:
        writer.append(record, None)
    writer.close()
    entries = list(follow(tmp_path, {}))
    assert [entry.record for entry in entries] == told
    found = read_entry(tmp_path, entries[2].file, entries[2].start)
    assert found is not None
    assert found.record == told[2]
    with next(tmp_path.glob("*.meta.warc.gz")).open("rb") as stream:
        kinds = {
            record.rec_headers.get_header("Content-Type"): record.content_stream().read()
            for record in ArchiveIterator(stream)
        }
    assert kinds["application/n-quads"] == said.encode()


def test_other_tools_open_the_files_and_each_record_is_its_own_gzip_member(tmp_path):
    write(tmp_path, range(7)).close()
    files = sorted(tmp_path.glob("*.warc.gz"))
    assert len(files) == 2
    assert [check_warc_file(path) for path in files] == [15, 15], "warcinfo, then 7 pairs"


@pytest.mark.parametrize("torn", [1, 17, 200, 5000])
def test_recovery_cuts_what_was_not_made_durable_and_nothing_else(tmp_path, torn):
    writer = write(tmp_path, range(3))
    writer.prepare_commit()()
    before = {path: path.read_bytes() for path in tmp_path.iterdir()}
    for path in tmp_path.glob("*.warc.gz"):
        with path.open("ab") as file:
            file.write(os.urandom(torn))
    assert recover_archive(tmp_path) == 0, "its writer lives"
    killed(writer)
    assert recover_archive(tmp_path) == 2 * torn
    assert {path: path.read_bytes() for path in tmp_path.iterdir()} == before


@pytest.mark.parametrize("tail", [b"\0" * 5000, b"WARC/1.1\r\nnot gzip", b"\x1f\x8b\x08rubbish" * 100])
def test_whatever_lies_behind_the_durable_part_is_not_looked_at(tmp_path, tail):
    writer = write(tmp_path, range(3))
    writer.prepare_commit()()
    with next(tmp_path.glob("*.meta.warc.gz")).open("ab") as file:
        file.write(tail)
    assert [entry.record.visit for entry in follow(tmp_path, {})] == [0, 1, 2]


def test_damage_within_the_durable_part_is_reported(tmp_path):
    write(tmp_path, range(3)).close()
    victim = next(tmp_path.glob("*.meta.warc.gz"))
    data = bytearray(victim.read_bytes())
    data[len(data) // 2 : len(data) // 2 + 40] = bytes(40)
    victim.write_bytes(bytes(data))
    with pytest.raises(DataError):
        list(follow(tmp_path, {}))


def test_recovery_removes_files_that_never_published(tmp_path):
    writer = write(tmp_path, range(3))
    recover_archive(tmp_path)
    assert len(list(tmp_path.iterdir())) == 3, "its writer lives"
    killed(writer)
    recover_archive(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_file_shorter_than_what_was_made_durable_is_reported_not_hidden(tmp_path):
    write(tmp_path, range(3)).close()
    victim = next(tmp_path.glob("*.meta.warc.gz"))
    os.truncate(victim, victim.stat().st_size - 1)
    with pytest.raises(DataError, match="made durable"):
        recover_archive(tmp_path)


def test_a_damaged_length_is_reported(tmp_path):
    write(tmp_path, range(1)).close()
    next(tmp_path.glob("*.durable")).write_text("123 456 00000000\n")
    with pytest.raises(DataError, match="damaged"):
        list(follow(tmp_path, {}))


def test_wherever_a_durable_file_is_lost_from_that_is_said_and_never_taken_for_its_end(tmp_path):
    """A reader alone took zeros after a record for the end of the file, for one place in four."""
    write(tmp_path, range(4)).close()
    (file,) = tmp_path.glob("*.meta.warc.gz")
    whole, ends = file.read_bytes(), [entry.end for entry in follow(tmp_path, {})]
    assert len(ends) == 4
    for cut in range(len(whole.rstrip(b"\0"))):
        file.write_bytes(whole[:cut] + bytes(len(whole) - cut))
        shown = list[int]()
        with pytest.raises(DataError, match=r"damaged|not whole|cannot be read"):
            for entry in follow(tmp_path, {}):
                shown.append(entry.end)
        assert all(end <= cut for end in shown), "what is shown was there"


def test_files_are_rotated_and_two_writers_of_one_name_do_not_meet(tmp_path):
    (tmp_path / "archive.toml").write_text('file_size = "2 KB"')
    tmp_path = tmp_path / "archive"
    tmp_path.mkdir()
    writer = WarcWriter(tmp_path, "w1", 0.0)
    for number in range(20):
        writer.append(a_record(number), an_exchange(number))
        writer.prepare_commit()()
    writer.close()
    again = WarcWriter(tmp_path, "w1", 0.0)
    again.append(a_record(20), None)
    again.close()
    assert len(list(tmp_path.glob("*.durable"))) > 3
    assert sorted(entry.record.visit for entry in follow(tmp_path, {})) == list(range(21))


def test_a_full_disk_is_said_in_our_words(tmp_path):
    code = f"""
import resource, signal
from pathlib import Path
from tests.archive.test_warc_files import a_record, an_exchange
from tarrafa.archive.warc_writer import WarcWriter
from tarrafa.errors import DiskFull
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000))
writer = WarcWriter(Path({str(tmp_path)!r}), "w1", 0.0)
try:
    for number in range(5000):
        writer.append(a_record(number), an_exchange(number))
        writer.prepare_commit()()
except DiskFull as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=Path(__file__).parents[2])
    assert "the disk is full" in done.stdout, done.stderr
    recover_archive(tmp_path)
    visits = [entry.record.visit for entry in follow(tmp_path, {})]
    assert visits == list(range(len(visits)))
    assert visits
    for path in tmp_path.glob("*.warc.gz"):
        gzip.decompress(path.read_bytes())


def test_disk_full_is_a_data_error():
    assert issubclass(DiskFull, DataError)


def test_a_file_without_a_visit_keeps_nobody_waiting(tmp_path):
    writer = WarcWriter(tmp_path, "w1", 1_700_000_000.0)
    writer.append_exchange(an_exchange(1))  # a robots.txt
    writer.prepare_commit()()
    assert visit_lengths(tmp_path) == {}
    assert bytes_behind(tmp_path, {}) == 0
    writer.append(a_record(1), None)
    writer.close()
    assert [entry.record.visit for entry in follow(tmp_path, {})] == [1]
    assert bytes_behind(tmp_path, {}) > 0
    recover_archive(tmp_path)
    assert sum(check_warc_file(path) for path in tmp_path.glob("*.warc.gz")) == 6
