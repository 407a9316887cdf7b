"""Our record bytes are those of fastwarc, any tool reads them, and no length in an extra field is trusted."""

import gzip
import re
import shutil
import struct
import subprocess
import tempfile
import zlib
from base64 import b32encode
from io import BytesIO
from pathlib import Path

import pytest
from fastwarc.warc import ArchiveIterator as FastwarcIterator
from hypothesis import example, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from warcio.archiveiterator import ArchiveIterator

from tarrafa.archive.warc_reader import (
    ALL_CONVERSIONS,
    ArchiveEntry,
    DamagedRecord,
    RecordHead,
    follow,
    read_events,
    read_record,
    survey_archive,
)
from tarrafa.archive.warc_writer import (
    METADATA,
    SIZED_START,
    STATEMENTS_TYPE,
    TEXT_TYPE,
    WarcExchange,
    WarcWriter,
    base32,
    pack_record,
    record_ids,
    sha1_digest,
)
from tarrafa.errors import DataError
from tarrafa.model import HostNote, Link, Outcome, Page, RebuiltNote, VisitRecord
from tests.archive.fastwarc_writer import FastwarcWriter
from tests.archive.test_warc_files import HEAD, a_record, an_exchange
from tests.warc_check import check_warc_file

# What differs between two writers of the same visits: ids, the date and the file name of the warcinfo record.
OWN = re.compile(
    rb"urn:uuid:[0-9a-f-]{36}|(?<=WARC-Type: warcinfo\r\n)WARC-Date: [^\r]+|(?<=WARC-Filename: )tarrafa-\d+"
)
TEXTS = st.text(max_size=300) | st.sampled_from(
    ("", "ação, coração", "日本語の本文です。", "😀👩‍👩‍👧 fim", "\ud800 sozinho", "\r\n\r\n", "x" * 3_000_000)
)
BODIES = st.binary(max_size=400) | st.sampled_from(
    (b"", b"\r\n\r\n", bytes(range(256)) * 40, b"<p>" + b"palavra " * 400_000, zlib.compress(b"x") * 9)
)
TIMES = st.floats(0.0, 4e9)


@st.composite
def exchanges(draw: st.DrawFn) -> WarcExchange:
    body = draw(BODIES)
    found = WarcExchange(
        f"http://h1.br.test/{draw(st.sampled_from(('', 'p%C3%A9', 'x' * 4000)))}",
        draw(TIMES),
        draw(BODIES),
        HEAD + body,
        len(HEAD),
        draw(st.sampled_from(("", "127.0.0.1", "2001:db8::1"))),
        draw(st.sampled_from(("", "length", "time"))),
        draw(st.sampled_from(("", sha1_digest(body)))),
    )
    is_unchanged = draw(st.booleans())
    return replace(found, archived_payload=found.payload, archived_at=1.5e9) if is_unchanged else found


@st.composite
def visits(draw: st.DrawFn) -> VisitRecord:
    url, text = "http://h1.br.test/ã", draw(TEXTS)
    title = text.encode("utf-8", "replace").decode()[:50]
    page = Page(url=url, title=title, text=text, statements=draw(TEXTS), links=(Link("http://x.test/", title),))
    return VisitRecord("c", url, 1, 1, Outcome(200, draw(TIMES), kept=True), page=draw(st.none() | st.just(page)))


def unpacked(path: Path) -> bytes:
    return OWN.sub(b"", gzip.decompress(path.read_bytes()))


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(visits(), st.none() | exchanges()), min_size=1, max_size=3), st.binary(max_size=50), TIMES)
@example([(a_record(1), replace(an_exchange(1), response=HEAD + b"x" * 9_000_000))], b"", 0.0)
def test_unpacked_records_are_those_of_fastwarc_but_for_ids_and_dates(made, text, at):
    with tempfile.TemporaryDirectory() as folder:
        ours, theirs = Path(folder) / "ours", Path(folder) / "theirs"
        ours.mkdir()
        theirs.mkdir()
        writers = (WarcWriter(ours, "w1", 1_700_000_000.0), FastwarcWriter(theirs))
        for writer in writers:
            for record, exchange in made:
                writer.append(record, exchange)
            writer.append_exchange(an_exchange_of_robots())
            for note in (HostNote("c", "http://h1.br.test:80", 1, 2.5, (), 200, 9.0, text), RebuiltNote(5)):
                writer.append_note(note, at)
            writer.close()
        for path in theirs.glob("*.warc.gz"):
            assert unpacked(ours / path.name) == unpacked(path)
        entries = [list(follow(folder, {})) for folder in (ours, theirs)]
        assert [one.record for one in entries[0]] == [one.record for one in entries[1]]
        texts = [bool(record.page and record.page.text) for record, _ in made]
        assert [[one.has_text for one in found] for found in entries] == [texts, texts]


def an_exchange_of_robots() -> WarcExchange:
    return replace(an_exchange(7), response=HEAD + b"User-agent: *\n", at=7.0)


def written(directory: Path) -> list[Path]:
    """Files with records of all kinds, of many lengths."""
    writer = WarcWriter(directory, "w1", 1_700_000_000.0)
    for number in range(12):
        record = a_record(number, " ".join(f"日本語 😀 {n * n * 7919 % 99_991}" for n in range(number**3)))
        assert record.page is not None
        said = f'<http://h1.br.test/{number}> <https://schema.org/name> "Ana"@pt .\n' * (number % 3)
        exchange = an_exchange(number)
        digest = sha1_digest(exchange.response[exchange.head_bytes :])
        if number % 2:
            exchange = replace(exchange, payload=digest, archived_payload=digest, archived_at=1.5e9)
        writer.append_note(RebuiltNote(number), 1_700_000_000.0 + number)
        writer.append(replace(record, page=replace(record.page, statements=said)), exchange)
    writer.close()
    return sorted(directory.glob("*.warc.gz"))


def test_other_tools_agree_on_every_member_with_an_extra_field(tmp_path):
    for path in written(tmp_path):
        data = path.read_bytes()
        positions, at = [], 0
        while at < len(data):
            start, member, size = SIZED_START.unpack_from(data, at)
            assert start[12:14] == b"sl"
            assert len(gzip.decompress(data[at : at + member])) == size
            positions.append(at)
            at += member
        assert check_warc_file(path) == len(positions), "warcio check, and one member for each record"
        with path.open("rb") as stream:
            records = ArchiveIterator(stream, no_record_parse=True)
            warcio = [(one.raw_stream.read(), records.get_record_offset()) for one in records]
        with path.open("rb") as stream:
            fast = [(one.reader.read(), one.stream_pos) for one in FastwarcIterator(stream, parse_http=False)]
        assert fast == warcio
        assert [position for _, position in fast] == positions
        if gzip_program := shutil.which("gzip"):
            subprocess.run([gzip_program, "-t", path], check=True)


def test_record_ids_are_random_uuids():
    ids = record_ids()
    found = [next(ids) for _ in range(1000)]
    assert len(set(found)) == 1000
    assert all(
        re.fullmatch("<urn:uuid:[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}>", one)
        for one in found
    )


def test_a_header_value_cannot_begin_another_header(tmp_path):
    evil = "http://a/\r\nX: y\nZ: 1"
    writer = WarcWriter(tmp_path, "w1", 0.0)
    digest = sha1_digest(b"")
    exchange = WarcExchange(evil, 1.0, b"", HEAD, len(HEAD), "1\r\nX: y", "time\r\nX: y", digest, digest, 1.0)
    writer.append(replace(a_record(1), url=evil), exchange)
    writer.append_note(HostNote("c", "http://a\r\nX: y", 1, 2.5, (), 200, 9.0, b""), 1.0)
    writer.close()
    for path in tmp_path.glob("*.warc.gz"):
        heads = gzip.decompress(path.read_bytes())
        assert b"http://a/ X: y Z: 1\r\n" in heads
        assert not re.search(rb"^(X|Z):", heads, re.MULTILINE)


# -- reading -----------------------------------------------------------------------------------------------------------


def without_extra_fields(path: Path) -> None:
    """The same records as an earlier version packed them."""
    data, at, parts = path.read_bytes(), 0, []
    while at < len(data):
        member = SIZED_START.unpack_from(data, at)[1]
        parts.append(gzip.compress(gzip.decompress(data[at : at + member]), 3))
        at += member
    path.write_bytes(b"".join(parts))


@pytest.mark.parametrize(
    "conversions", [ALL_CONVERSIONS, frozenset({STATEMENTS_TYPE}), frozenset({TEXT_TYPE}), frozenset()]
)
def test_what_is_not_wanted_is_stepped_over_and_everything_else_is_the_same(tmp_path, conversions):
    written(tmp_path)
    whole = list(follow(tmp_path, {}))

    def cut(entry: ArchiveEntry) -> ArchiveEntry:
        page = entry.record.page
        assert page is not None
        text = page.text if TEXT_TYPE in conversions else ""
        statements = page.statements if STATEMENTS_TYPE in conversions else ""
        return entry._replace(record=replace(entry.record, page=replace(page, text=text, statements=statements)))

    assert list(follow(tmp_path, {}, conversions=conversions)) == [cut(entry) for entry in whole]
    some = [entry for entry in whole if entry.record.url.endswith(("1", "7"))]
    found = list(follow(tmp_path, {}, wanted=lambda url: url.endswith(("1", "7")), conversions=conversions))
    assert found == [cut(entry) for entry in some]


def test_damage_in_a_record_that_is_not_wanted_does_not_matter_to_its_reader(tmp_path):
    _, path = sorted(written(tmp_path), key=lambda path: "meta" in path.name)
    data = bytearray(path.read_bytes())
    longest = max(members(data), key=lambda one: one[1])
    middle = sum(longest) - longest[1] // 2
    data[middle : middle + 8] = bytes(8)
    path.write_bytes(data)
    assert len(list(follow(tmp_path, {}, conversions=frozenset()))) == 12, "it is a text"
    with pytest.raises(DataError, match="damaged"):
        list(follow(tmp_path, {}))


def members(data: bytes | bytearray) -> list[tuple[int, int]]:
    found, at = [], 0
    while at < len(data):
        found.append((at, SIZED_START.unpack_from(data, at)[1]))
        at += found[-1][1]
    return found


def test_a_file_of_an_earlier_version_is_read_to_its_end_and_from_any_of_its_records(tmp_path):
    writer = FastwarcWriter(tmp_path)
    for number in range(5):
        writer.append(a_record(number, "texto " * 40_000), an_exchange(number))
        writer.append_note(RebuiltNote(number), 1_700_000_000.0 + number)
    writer.close()
    entries = list(follow(tmp_path, {}))
    assert [entry.record for entry in entries] == [a_record(number, "texto " * 40_000) for number in range(5)]
    for number, entry in enumerate(entries):
        assert list(follow(tmp_path, {entry.file: entry.end})) == entries[number + 1 :]
    assert len(list(read_events(tmp_path, survey_archive(tmp_path).starts))) == 10
    light = list(follow(tmp_path, {}, conversions=frozenset()))
    assert [entry.has_text for entry in light] == [True] * 5
    assert all(entry.record.page is not None and entry.record.page.text == "" for entry in light)


LENGTHS = (0, 1, 23, 24, 25, 32, 33, 1 << 16, 1 << 31, (1 << 32) - 1)


@pytest.mark.parametrize("field", [16, 20], ids=["member", "record"])
@pytest.mark.parametrize("conversions", [ALL_CONVERSIONS, frozenset()], ids=["all", "none"])
def test_a_wrong_length_is_reported_and_nothing_is_read_behind_the_durable_part(tmp_path, field, conversions):
    """Each length of each member in turn: wrong ones, and those of all members that follow it together."""
    *_, path = sorted(written(tmp_path), key=lambda path: "meta" in path.name)
    whole = path.read_bytes()
    found = members(whole)
    for number, (at, length) in enumerate(found):
        right = struct.unpack_from("<I", whole, at + field)[0]
        sums = [
            sum(size for _, size in found[number:end]) for end in range(number + 2, min(number + 5, len(found) + 1))
        ]
        for wrong in {*LENGTHS, right - 1, right + 1, right + 8, length * 2, *sums, len(whole) - at + 1} - {right}:
            data = bytearray(whole)
            struct.pack_into("<I", data, at + field, wrong)
            path.write_bytes(bytes(data) + b"behind")
            shown = list[int]()
            with pytest.raises(DataError, match=r"damaged: the record at \d+"):
                for entry in follow(tmp_path, {}, conversions=conversions):
                    shown.append(entry.end)
            assert all(end <= at for end in shown), "what is shown was read from sound records"


@pytest.mark.parametrize("conversions", [ALL_CONVERSIONS, frozenset()], ids=["all", "none"])
@pytest.mark.parametrize("change", [lambda path: None, without_extra_fields], ids=["sized", "unsized"])
def test_a_torn_file_is_never_taken_for_a_whole_one(tmp_path, change, conversions):
    """Sixty cuts: what is lost is missing, or zeros."""
    *_, path = sorted(written(tmp_path), key=lambda path: "meta" in path.name)
    change(path)
    whole = path.read_bytes()
    (durable,) = tmp_path.glob("*.durable")
    line = f"{len(whole)} {len(whole)} {len(whole)}"
    durable.write_text(f"{line} {zlib.crc32(line.encode()):08x}\n")
    every = list(follow(tmp_path, {}, conversions=conversions))
    assert len(every) == 12
    for number in range(60):
        cut = 1 + number * (len(whole.rstrip(b"\0")) - 2) // 59
        for lost in (b"", bytes(len(whole) - cut)):
            path.write_bytes(whole[:cut] + lost)
            shown: list[ArchiveEntry] = []
            with pytest.raises(DataError, match="damaged"):
                shown.extend(follow(tmp_path, {}, conversions=conversions))
            assert shown == every[: len(shown)]


def everything(head: RecordHead) -> bool:
    return True


PACKED = pack_record(METADATA, "2023-11-14T22:13:20Z", "<x>", "WARC-Target-URI: http://a/\r\n", b"{}" * 900)


@settings(max_examples=400, deadline=None)
@given(
    st.integers(0, len(PACKED) - 1), st.binary(min_size=1, max_size=8), st.booleans(), st.integers(0, len(PACKED) + 9)
)
def test_no_bytes_make_the_reader_loop_read_too_much_or_fail_otherwise(at, noise, is_wanted, readable):
    data = PACKED[:at] + noise + PACKED[at + len(noise) :]
    stream = BytesIO(data)
    try:
        found = read_record(stream, readable, lambda head: is_wanted)
    except DamagedRecord:
        assert stream.tell() <= readable
    else:
        assert 0 < found.member_size <= readable
        assert found.content in (None, b"{}" * 900), "the checksum holds"


@settings(max_examples=200, deadline=None)
@given(st.binary(max_size=300), st.booleans())
def test_noise_is_no_record(noise, has_start):
    data = (PACKED[:16] if has_start else b"") + noise
    with pytest.raises(DamagedRecord):
        read_record(BytesIO(data), len(data), everything)


def test_a_head_of_any_length_is_read():
    for length in (10, 900, 4_000, 30_000):
        url = "http://a/" + "".join(chr(33 + (n * n * 7919) % 90) for n in range(length))
        packed = pack_record(METADATA, "2023-11-14T22:13:20Z", "<x>", f"WARC-Target-URI: {url}\r\n", b"{}" * 5000)
        for wants in (everything, lambda head: False):
            found = read_record(BytesIO(packed), len(packed), wants)
            assert (found.head.url, found.member_size) == (url, len(packed))
            assert found.content == (b"{}" * 5000 if wants is everything else None)


@pytest.mark.parametrize(
    "content", [b"WARC/1.1\r\nContent-Length: 9\r\n\r\nx\r\n\r\n", b"", b"GET / HTTP/1.1\r\n\r\n\r\n\r\n", b"x" * 5000]
)
@pytest.mark.parametrize("is_sized", [True, False])
def test_a_sound_member_that_is_no_whole_record_is_refused(content, is_sized):
    data = gzip.compress(content)
    if is_sized:
        data = SIZED_START.pack(PACKED[:16], len(data) - 10 + SIZED_START.size, len(content)) + data[10:]
    for wants in (everything, lambda head: False):
        with pytest.raises(DamagedRecord):
            read_record(BytesIO(data), len(data), wants)


@given(st.binary(min_size=20, max_size=20))
def test_rfc4648_base_32_of_a_digest(digest):
    assert base32(digest) == b32encode(digest).decode()
