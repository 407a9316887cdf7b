"""Others' WARC and ARC files: every form is read whole, damage is named, and nothing raises, hangs or fills memory."""

import gzip
import os
import random
import resource
import time
import zlib
from collections.abc import Callable
from pathlib import Path

import pytest
import zstandard
from warcio.archiveiterator import ArchiveIterator

from tarrafa.archive.foreign_archive_reader import (
    HEADER_BYTES_MAX,
    ArchiveSource,
    Damage,
    ForeignRecord,
    RecordReader,
    digest_matches,
)
from tests.archive.foreign_archives import (
    WarcFile,
    arc_file,
    arc_record,
    page,
    per_record_gzip,
    response,
    with_dictionary,
)
from tests.conformance_data import CONFORMANCE_DIR, requires_data
from tests.fuzz.mutator import Mutator

FILES = sorted((CONFORMANCE_DIR / "warc").glob("*")) if (CONFORMANCE_DIR / "warc").is_dir() else []
CONTENT_MAX = 1 << 20
# warcio takes these though their records have no length, or fails on them.
WITHOUT_LENGTH = ("fields-empty", "fields-invalidformat", "fields-missing", "lonely")
TOKENS = [
    b"WARC/1.0\r\n", b"WARC/0.17\r\n", b"WARC-Type: response\r\n", b"Content-Length: ", b"99999999999", b"\r\n\r\n",
    b"\x1f\x8b\x08", b"\x28\xb5\x2f\xfd", b"\x5d\x2a\x4d\x18", b"http://a.test/ 1.2.3.4 20080430204825 text/html 9\n",
    b"filedesc://", b"\0\0\0\0", b"-1", b"\n ",
]  # fmt: skip


def read(path: Path, content_max: int = CONTENT_MAX) -> tuple[list[ForeignRecord], list[Damage]]:
    reader = RecordReader(ArchiveSource(path, path.name), content_max)
    items = list(reader.records())
    reader.close()
    return [one for one in items if isinstance(one, ForeignRecord)], [one for one in items if isinstance(one, Damage)]


def read_bytes(
    folder: Path, content: bytes, content_max: int = CONTENT_MAX
) -> tuple[list[ForeignRecord], list[Damage]]:
    path = folder / "made"
    path.write_bytes(content)
    return read(path, content_max)


def some_records(count: int = 6) -> list[bytes]:
    records = []
    for number in range(count):
        made = WarcFile(is_gzip=False)
        made.add(f"http://a.test/{number}", page(f"page {number} " + "word " * 50))
        records.append(made.content)
    return records


FORMS: dict[str, Callable[[list[bytes]], bytes]] = {
    "plain": b"".join,
    "gzip per record": per_record_gzip,
    "gzip per file": lambda records: gzip.compress(b"".join(records)),
    "gzip in blocks": lambda records: per_record_gzip(
        [b"".join(records)[at : at + 100] for at in range(0, len(b"".join(records)), 100)]
    ),
    "zstd per record": lambda records: b"".join(map(zstandard.compress, records)),
    "zstd per file": lambda records: zstandard.compress(b"".join(records)),
    "zstd with a dictionary": with_dictionary,
    "line feeds only": lambda records: b"".join(
        record.replace(b"\r\n", b"\n", record[: record.index(b"\r\n\r\n")].count(b"\r\n") + 2) for record in records
    ),
}


@pytest.mark.parametrize("form", FORMS)
def test_every_form_is_read_whole_and_again_at_each_address(tmp_path, form):
    records = some_records()
    found, damages = read_bytes(tmp_path, FORMS[form](records))
    assert not damages
    assert [one.url for one in found] == [f"http://a.test/{number}" for number in range(len(records))]
    assert all(one.is_whole and one.content in records[at] for at, one in enumerate(found))
    reader = RecordReader(ArchiveSource(tmp_path / "made", "made"), CONTENT_MAX)
    for one in sorted(found, key=lambda one: one.url[::-1], reverse=True):
        assert reader.read_at(one.offset, one.skip) == one


@pytest.mark.parametrize("version", ["0.17", "0.18", "1.0", "1.1"])
def test_iso28500_versions_are_read(tmp_path, version):
    content = b"".join(some_records()).replace(b"WARC/1.0", f"WARC/{version}".encode())
    assert len(read_bytes(tmp_path, content)[0]) == 6


def test_arc_versions_1_and_2_are_read(tmp_path):
    body = response(page("old"))
    second = f"http://a.test/2 192.0.2.7 20080430204825 text/html 200 ABC - 12 made.arc {len(body)}\n".encode() + body
    content = arc_file(arc_record("http://a.test/a b", "20080430204825", body), second + b"\n")
    found, damages = read_bytes(tmp_path, content)
    assert not damages
    assert [(one.kind, one.url) for one in found] == [
        ("filedesc", "filedesc://made.arc"), ("response", "http://a.test/a b"), ("response", "http://a.test/2"),
    ]  # fmt: skip
    assert {one.fields["warc-date"] for one in found} == {"20080430204825"}
    assert found[2].fields["content-type"] == "text/html"
    assert all(one.is_whole for one in found)


def test_lenient_header_names_in_any_case_and_folded_lines(tmp_path):
    content = b"warc/1.0\nwarc-TYPE : response\nWarc-Target-Uri:\n <http://a.test/>\ncontent-length: 3\n\nabc\n\n"
    (record,), damages = read_bytes(tmp_path, content)
    assert (record.kind, record.url, record.content, damages) == ("response", "http://a.test/", b"abc", [])


# -- damage ------------------------------------------------------------------------------------------------------------


def test_a_member_with_a_flipped_bit_is_named_and_the_next_is_read(tmp_path):
    members = [gzip.compress(record) for record in some_records()]
    damaged = bytearray(b"".join(members))
    start = len(members[0]) + len(members[1])
    damaged[start + len(members[2]) // 2] ^= 0x10
    found, damages = read_bytes(tmp_path, bytes(damaged))
    assert [one.offset for one in damages] == [start]
    assert [one.url[-1] for one in found] == list("01345")


@pytest.mark.parametrize("form", ["plain", "gzip per record", "zstd per record"])
def test_a_file_that_is_cut_off_loses_its_last_record_only(tmp_path, form):
    content = FORMS[form](some_records())
    found, damages = read_bytes(tmp_path, content[:-40])
    assert [one.url[-1] for one in found] == list("01234")
    assert len(damages) == 1


def test_garbage_between_records_is_named_once(tmp_path):
    records = some_records()
    content = b"".join(records[:2]) + os.urandom(5000).replace(b"W", b"w") + b"\r\n" + b"".join(records[2:])
    found, damages = read_bytes(tmp_path, content)
    assert [one.url[-1] for one in found] == list("012345")
    assert [one.offset for one in damages] == [len(records[0]) + len(records[1])]


@pytest.mark.parametrize("form", ["plain", "gzip per record", "zstd per record"])
def test_a_length_that_is_too_large_swallows_no_other_record(tmp_path, form):
    records = some_records()
    records[1] = records[1].replace(b"Content-Length: ", b"Content-Length: 9999", 1)
    found, damages = read_bytes(tmp_path, FORMS[form](records))
    assert [one.url[-1] for one in found] == list("02345")
    assert len(damages) == 1


def test_a_header_without_an_end_is_damage_in_constant_memory(tmp_path):
    endless = b"WARC/1.0\r\n" + b"X-Y: z\r\n" * (HEADER_BYTES_MAX // 4)
    found, damages = read_bytes(tmp_path, endless + b"\r\n" + some_records()[0])
    assert len(found) == 1
    assert damages


def test_a_bomb_is_damage_and_what_follows_is_read(tmp_path):
    head = b"WARC/1.0\r\nWARC-Type: response\r\nWARC-Target-URI: http://a.test/\r\nContent-Length: 99999999999\r\n\r\n"
    packer = zlib.compressobj(9, zlib.DEFLATED, 31)
    bomb = [packer.compress(head)] + [packer.compress(bytes(1 << 20)) for _ in range(600)] + [packer.flush()]
    before, began = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.process_time()
    found, damages = read_bytes(tmp_path, b"".join(bomb) + gzip.compress(some_records()[0]))
    assert [one.url for one in found] == ["http://a.test/0"]
    assert [(one.offset, str(one.reason)) for one in damages] == [(0, "it unpacks to implausibly much")]
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 64 << 10  # KiB
    assert time.process_time() - began < 20


CREEPING = {
    "wrong lengths": b"WARC/1.0\r\nContent-Length: 99999999\r\n\r\n" * 30_000,
    "headers without an end": b"WARC/1.0\r\nA: b\r\n" * 100_000,
    "empty members": gzip.compress(b"") * 100_000,
    "beginnings of members": gzip.compress(b"x") + b"\x1f\x8b\x08" * 500_000,
    "beginnings of frames": zstandard.compress(b"x") + b"\x28\xb5\x2f\xfd" * 300_000,
    "lines like those of ARC": b"http://a.test/ 1.2.3.4 20080430204825 " * 50_000,
    "blanks": b"\r\n" * 1_000_000,
    "tape": gzip.compress(b"") + bytes(3_000_000),
}


@pytest.mark.parametrize("kind", ["beginnings of members", "beginnings of frames"])
def test_a_file_that_is_given_up_says_so(tmp_path, kind):
    _, damages = read_bytes(tmp_path, CREEPING[kind] + per_record_gzip(some_records(1)))
    assert "the rest of the file is skipped" in damages[-1].reason
    assert 0 < damages[-1].offset < len(CREEPING[kind])


@pytest.mark.parametrize("kind", CREEPING)
def test_time_is_bounded_by_the_size_of_the_file(tmp_path, kind):
    began = time.process_time()
    read_bytes(tmp_path, CREEPING[kind])
    assert time.process_time() - began < 10


def test_only_the_wanted_beginning_of_a_record_is_held(tmp_path):
    made = WarcFile(is_gzip=True)
    made.add("http://a.test/", os.urandom(3 << 20))
    (record,), _ = read_bytes(tmp_path, made.content, 1000)
    assert len(record.content) == 1000
    assert record.size > 3 << 20


@pytest.mark.parametrize(
    "content", [b"", b"\0" * 5000, b"GIF89a" + bytes(range(256)) * 50, b"\x1f\x8b\x08", b"\n" * 9000]
)
def test_what_is_no_archive_gives_no_record(tmp_path, content):
    assert read_bytes(tmp_path, content)[0] == []


@pytest.mark.parametrize("form", FORMS)
def test_fuzz_any_change_of_a_file_gives_records_or_damage(tmp_path, form):
    mutator = Mutator(
        [FORMS[form](some_records(3)), arc_file(arc_record("http://a.test/", "20080430204825", b"x"))], TOKENS, form
    )
    for _ in range(150):
        content = mutator.next()
        began = time.process_time()
        found, damages = read_bytes(tmp_path, content)
        assert time.process_time() - began < 5
        assert len(found) + len(damages) <= len(content) + 1
        mutator.learn(content, (len(found), len(damages)))


def test_digests_in_all_notations_match():
    for stated in (
        "sha1:3I42H3S6NNFQ2MSVX7XZKYAYSCX5QBYJ", "sha1:da39a3ee5e6b4b0d3255bfef95601890afd80709",
        "md5:1B2M2Y8AsgTpgAmY7PhCfg==",
        "sha-256:47DEQpj8HBSa-_TImW-5JCeuQeRkm5NMpJWZG3hSuFU", "SHA1:3i42h3s6nnfq2msvx7xzkyayscx5qbyj",
    ):  # fmt: skip
        assert digest_matches(stated, b"") is True, stated
        assert digest_matches(stated, b"x") is False, stated
    assert digest_matches("crc32:00", b"") is None
    assert digest_matches("sha1:???", b"") is None


# -- conformance -------------------------------------------------------------------------------------------------------


def warcio_count(path: Path) -> int:
    with path.open("rb") as stream:
        return sum(1 for _ in ArchiveIterator(stream))


@requires_data("warc")
@pytest.mark.parametrize(
    "path", [one for one in FILES if not one.name.startswith("invalid")], ids=lambda path: path.name
)
def test_conformance_valid_files_have_as_many_records_as_with_warcio(path):
    found, damages = read(path)
    if path.name == "test-arc-1.0-invalid-fields.arc":  # warcio takes the broken first line, which is no capture
        assert (len(found), [one.offset for one in damages]) == (warcio_count(path) - 1, [0])
        return
    assert (len(found), damages) == (warcio_count(path), [])


@requires_data("warc")
@pytest.mark.parametrize("path", [one for one in FILES if one.name.startswith("invalid")], ids=lambda path: path.name)
def test_conformance_invalid_files_are_reported_or_read_leniently(path):
    found, damages = read(path)
    bad_digests = [
        one for one in found if digest_matches(one.fields.get("warc-block-digest", ""), one.content) is False
    ]
    if any(name in path.name for name in (*WITHOUT_LENGTH, "garbage")):
        assert damages
    elif "digest" in path.name:
        assert bad_digests
    else:  # wrong in what a reader does not need: types, repeated fields, segments
        assert len(found) == warcio_count(path)


@requires_data("warc")
@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_conformance_damaged_files_never_raise(tmp_path, path):
    content, rng = path.read_bytes()[: 300 << 10], random.Random(path.name)
    for _ in range(5):
        damaged = bytearray(content)
        for _ in range(8):
            damaged[rng.randrange(len(damaged))] ^= 1 << rng.randrange(8)
        read_bytes(tmp_path, bytes(damaged[: rng.randrange(len(damaged))]))
