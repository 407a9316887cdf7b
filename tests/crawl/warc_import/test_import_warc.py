"""Others' archives in a collection: as if it had crawled them, once, in the order of their dates."""

import asyncio
import gzip
import hashlib
import io
import os
import zipfile
from base64 import b32encode
from datetime import UTC, datetime
from pathlib import Path

import brotli
import pytest
import zstandard

from tarrafa.archive.deletion_log import record_deletions
from tarrafa.archive.warc_reader import durable_lengths
from tarrafa.crawl.rebuild_frontier import rebuild
from tarrafa.errors import ConfigError, DataError
from tarrafa.frontier.messages import CollectionStatus
from tarrafa.frontier.store.sqlite_frontier import read_overview
from tarrafa.model import OLDER_VERSION, Status, UrlState
from tarrafa.runtime.data_dir import DataDirectory
from tarrafa.takedown import parse_target, record_action
from tests.archive.foreign_archives import DAY, REVISIT, WarcFile, arc_file, arc_record, page, response
from tests.archive.test_foreign_archive_reader import TOKENS
from tests.crawl.warc_import.imported import frontier_state, rows, run_import, silent, visits, visits_of, warc_records
from tests.fuzz.mutator import Mutator
from tests.warc_check import check_warc_file

A, B = "http://a.test/", "http://a.test/b"
COLLECTION = """
name = "c"
roots = ["http://a.test/"]
[scope]
exclude = ["*/secret*"]
{more}
"""


def at(day: int) -> float:
    return datetime(2020, 3, day, 12, tzinfo=UTC).timestamp()


def sha1(content: bytes) -> str:
    return "sha1:" + b32encode(hashlib.sha1(content).digest()).decode()


@pytest.fixture
def data(tmp_path):
    return DataDirectory(tmp_path / "data")


def save(folder: Path, content: bytes | WarcFile, name: str = "one.warc.gz") -> Path:
    path = folder / name
    path.write_bytes(content.content if isinstance(content, WarcFile) else content)
    return path


def definition(folder: Path, more: str = "") -> str:
    path = folder / "c.toml"
    path.write_text(COLLECTION.format(more=more))
    return str(path)


# -- a collection from files -------------------------------------------------------------------------------------------


def test_a_new_name_becomes_a_paused_collection_of_the_hosts_found(tmp_path, data):
    made = WarcFile()
    made.add(A, page("first", "/b", "http://elsewhere.test/"), request=True)
    made.add(B, page("second"), DAY.format(2), request=True)
    made.add("http://pictures.test/x.png", b"\x89PNG", content_type="image/png")
    made.add("http://pictures.test/robots.txt", b"User-agent: *", content_type="text/plain")
    done = run_import(data, [save(tmp_path, made)], "old-web")
    assert (done.is_new, done.counts.imported, done.counts.kept) == (True, 2, 2)
    (status,) = asyncio.run(_overview(data))
    assert (status.name, status.state, status.fetched, status.pending) == ("old-web", "paused", 2, 0)
    assert {url for (url,) in rows(data, "SELECT url FROM url")} == {A, B}
    first, second = visits_of(data, A)[0], visits_of(data, B)[0]
    assert (first.outcome.at, first.outcome.status, first.outcome.kept, first.visit) == (at(1), 200, True, 1)
    assert (second.outcome.at, second.depth) == (at(2), 1)
    assert first.page is not None and first.page.title == "first" and "first" in first.page.text
    kinds = [kind for kind, *_ in warc_records(data)]
    assert kinds == ["response", "request", "response", "request"]
    assert all(b"User-Agent: Elsewhere" in content for _, _, _, content in warc_records(data, "request"))


async def _overview(data: DataDirectory) -> list[CollectionStatus]:
    return read_overview(data.frontier).collections


def test_what_is_written_is_sound_to_other_tools(tmp_path, data):
    made = WarcFile()
    made.add(A, page("first"), request=True)
    made.add(A, page("first"), DAY.format(2))
    made.add("http://a.test/r", b"text", kind="resource", content_type="text/plain")
    run_import(data, [save(tmp_path, made)], "c")
    for path in data.archive.glob("*.warc.gz"):
        check_warc_file(path)


def test_importing_twice_changes_nothing(tmp_path, data):
    made = WarcFile(is_gzip=False)
    made.add(A, page("first", "/b"))
    made.add(A, page("changed", "/b"), DAY.format(3))
    made.add("http://a.test/robots.txt", b"User-agent: *\nDisallow: /x", content_type="text/plain")
    made.add("http://a.test/gone", b"", status="404 Not Found")
    path = save(tmp_path, made, "one.warc")
    run_import(data, [path], "c")
    before, state = durable_lengths(data.archive), frontier_state(data)
    again = run_import(data, [path], "c")
    assert (again.files_known, again.counts.imported) == (1, 0)
    packed = save(tmp_path, gzip.compress(made.content), "other-name.warc.gz")  # other bytes, the same captures
    third = run_import(data, [packed, path], "c")
    assert (third.files_known, third.counts.imported) == (1, 0)
    assert third.counts.skipped["skipped: imported before"] == 4
    (data.root / "imports.sqlite").unlink()
    assert run_import(data, [path], "c").counts.imported == 0
    assert (durable_lengths(data.archive), frontier_state(data)) == (before, state)


def test_a_file_without_pages_makes_no_collection(tmp_path, data):
    with pytest.raises(DataError, match="hold no page"):
        run_import(data, [save(tmp_path, b"nothing")], "c")
    with pytest.raises(ConfigError, match="no such file"):
        run_import(data, [tmp_path / "absent.warc"], "c")


def test_a_lost_frontier_is_rebuilt_first(tmp_path, data):
    made = WarcFile()
    made.add(A, page("first"))
    path = save(tmp_path, made)
    run_import(data, [path], "c")
    data.frontier.unlink()
    with pytest.raises(DataError, match="rebuild frontier"):
        run_import(data, [path], "c")
    rebuild(data, [], None, silent)
    assert run_import(data, [path], "c").counts.imported == 0


def test_nothing_is_imported_beside_a_crawl(tmp_path, data):
    made = WarcFile()
    made.add(A, page("first"))
    data.create()
    with data.try_lock(), pytest.raises(ConfigError, match="a crawl runs here"):
        run_import(data, [save(tmp_path, made)], "c")


def test_a_name_that_was_deleted_after_the_captures_is_refused(tmp_path, data):
    data.create()
    record_deletions(data.archive, {"c": at(9)}, at(9))
    made = WarcFile()
    made.add(A, page("first"))
    with pytest.raises(ConfigError, match="deleted"):
        run_import(data, [save(tmp_path, made)], "c")


# -- versions ----------------------------------------------------------------------------------------------------------


def test_captures_of_several_files_become_versions_in_the_order_of_their_dates(tmp_path, data):
    texts = {1: "one", 2: "one", 4: "two", 6: "three"}
    files = []
    for day in (6, 1, 4, 2):
        made = WarcFile()
        made.add(A, page(texts[day]), DAY.format(day))
        files.append(save(tmp_path, made, f"{9 - day}.warc.gz"))
    run_import(data, files, definition(tmp_path, "[revisit]\npolicy = 'index'"))
    found = visits_of(data, A)
    assert [(one.visit, one.outcome.at, one.outcome.changed) for one in found] == [
        (1, at(1), False), (2, at(2), False), (3, at(4), True), (4, at(6), True),
    ]  # fmt: skip
    assert [kind for kind, *_ in warc_records(data)] == ["response", "revisit", "response", "response"]
    assert rows(data, "SELECT number, at, changed FROM visit ORDER BY number") == [
        (1, at(1), None), (2, at(2), 0), (3, at(4), 1), (4, at(6), 1),
    ]  # fmt: skip
    assert len(rows(data, "SELECT * FROM page")) == 1  # kept fresh: its change rate is learned


def test_an_older_capture_becomes_a_version_and_only_its_links_are_new(tmp_path, data):
    newer, older = WarcFile(), WarcFile()
    newer.add(A, page("new", "/b"), DAY.format(5))
    older.add(A, page("old", "/lost"), DAY.format(2))
    where = definition(tmp_path)
    run_import(data, [save(tmp_path, newer)], where)
    before = rows(data, "SELECT * FROM url WHERE url = ?", A)
    done = run_import(data, [save(tmp_path, older, "two.warc.gz")], where)
    assert done.counts.older == 1
    assert [(one.visit, one.outcome.at) for one in visits_of(data, A)] == [(OLDER_VERSION, at(2)), (1, at(5))]
    assert rows(data, "SELECT * FROM url WHERE url = ?", A) == before
    assert rows(data, "SELECT state FROM url WHERE url = 'http://a.test/lost'") == [(int(UrlState.PENDING),)]
    assert [kind for kind, *_ in warc_records(data)] == ["response", "response"]
    assert run_import(data, [tmp_path / "two.warc.gz"], where).counts.imported == 0


def test_a_frontier_rebuilt_from_the_archive_knows_the_same(tmp_path, data):
    made, older = WarcFile(), WarcFile()
    made.add("http://a.test/robots.txt", b"User-agent: *\nSitemap: http://a.test/map.xml", content_type="text/plain")
    made.add(A, page("new", "/b", "/c"), DAY.format(5))
    made.add(B, b"", DAY.format(6), status="301 Moved", headers=[("Location", "/c")])
    older.add(A, page("old", "/lost"), DAY.format(2))
    where = definition(tmp_path)
    run_import(data, [save(tmp_path, made)], where)
    run_import(data, [save(tmp_path, older, "two.warc.gz")], where)
    columns = "url, depth, redirects, state, status, type, fetched, content_id, role, payload, archived"
    sql = f"SELECT {columns} FROM url ORDER BY url"
    before = rows(data, sql), rows(data, "SELECT robots_digest, robots_expires, delay_s FROM host")
    rebuild(data, [], None, silent, force=True)
    assert (rows(data, sql), rows(data, "SELECT robots_digest, robots_expires, delay_s FROM host")) == before


# -- revisits ----------------------------------------------------------------------------------------------------------


def revisit_of(url: str, day: int, body: bytes, profile: str = "identical-payload-digest") -> dict[str, str]:
    return {
        "WARC-Profile": REVISIT + profile, "WARC-Payload-Digest": sha1(body),
        "WARC-Refers-To-Target-URI": url, "WARC-Refers-To-Date": DAY.format(day),
    }  # fmt: skip


def test_revisits_take_the_body_that_they_refer_to(tmp_path, data):
    body, made = page("the same", "/b"), WarcFile()
    made.add(A, body, DAY.format(1))
    made.add(A, b"", DAY.format(2), kind="revisit", warc=revisit_of(A, 1, body))
    made.add(B, b"", DAY.format(3), kind="revisit", warc=revisit_of(A, 1, body))
    digest_only = {"WARC-Profile": REVISIT + "identical-payload-digest", "WARC-Payload-Digest": sha1(body)}
    made.add("http://a.test/c", b"", DAY.format(4), kind="revisit", content_type="", warc=digest_only)
    done = run_import(data, [save(tmp_path, made)], definition(tmp_path))
    assert (done.counts.imported, done.counts.kept) == (4, 4)
    written = [(kind, url) for kind, url, *_ in warc_records(data)]
    assert written == [("response", A), ("revisit", A), ("response", B), ("response", "http://a.test/c")]
    assert all(content.endswith(body) for _, _, _, content in warc_records(data, "response"))
    assert {one.page.title for one in visits(data) if one.page is not None} == {"the same"}


def test_a_server_that_had_nothing_new_confirms_the_page(tmp_path, data):
    body, made = page("the same"), WarcFile()
    made.add(A, body, DAY.format(1), headers=[("ETag", '"x"')])
    made.add(
        A, b"", DAY.format(2), kind="revisit", status="304 Not Modified", headers=[("ETag", '"x"')],
        warc=revisit_of(A, 1, body, "server-not-modified"),
    )  # fmt: skip
    run_import(data, [save(tmp_path, made)], definition(tmp_path))
    assert [one.outcome.status for one in visits_of(data, A)] == [200, 304]
    ((_, _, fields, _),) = warc_records(data, "revisit")
    assert fields["WARC-Profile"].endswith("server-not-modified")
    assert fields["WARC-Refers-To-Date"] == DAY.format(1)
    assert rows(data, "SELECT state, visits, etag FROM url WHERE url = ?", A) == [(int(UrlState.FETCHED), 2, '"x"')]


def test_a_revisit_whose_original_is_elsewhere_confirms_a_known_page_or_is_counted(tmp_path, data):
    body, first, second = page("the same"), WarcFile(), WarcFile()
    first.add(A, body, DAY.format(1))
    second.add(A, b"", DAY.format(2), kind="revisit", warc=revisit_of(A, 1, body))
    second.add(B, b"", DAY.format(2), kind="revisit", warc=revisit_of(B, 1, b"unknown"))
    where = definition(tmp_path)
    run_import(data, [save(tmp_path, first)], where)
    done = run_import(data, [save(tmp_path, second, "two.warc.gz")], where)
    assert [one.outcome.status for one in visits_of(data, A)] == [200, 304]
    assert done.counts.skipped == {"skipped: a revisit of a record that is not here": 1}


# -- kinds of responses ------------------------------------------------------------------------------------------------


def test_redirects_errors_and_refused_types_are_visits(tmp_path, data):
    made = WarcFile()
    made.add(A, b"", status="302 Found", headers=[("Location", "/b")])
    made.add(B, b"<p>gone", DAY.format(2), status="404 Not Found")
    made.add("http://a.test/p", b"\x89PNG", DAY.format(3), content_type="image/png")
    run_import(data, [save(tmp_path, made)], definition(tmp_path))
    found = {one.url: (one.outcome.status, one.outcome.location) for one in visits(data)}
    assert found == {A: (302, B), B: (404, ""), "http://a.test/p": (Status.TYPE_NOT_WANTED, "")}
    assert rows(data, "SELECT redirects FROM url WHERE url = ?", B) == [(1,)]


def test_a_url_that_redirects_to_itself_within_a_second_has_both_captures(tmp_path, data):
    made = WarcFile()
    made.add(A, b"", status="302 Found", headers=[("Location", "/"), ("Set-Cookie", "x=1")])
    made.add(A, page("after the cookie"))
    run_import(data, [save(tmp_path, made)], definition(tmp_path))
    assert sorted(one.outcome.status for one in visits_of(data, A)) == [200, 302]
    assert rows(data, "SELECT state, visits FROM url WHERE url = ?", A)[0][1] == 2


def test_robots_txt_and_sitemaps_are_known_as_to_a_crawl(tmp_path, data):
    made = WarcFile()
    robots = b"User-agent: *\nCrawl-delay: 7\nSitemap: http://a.test/map.xml"
    sitemap = b"<urlset><url><loc>http://a.test/listed</loc></url></urlset>"
    made.add("http://a.test/robots.txt", robots, DAY.format(1), content_type="text/plain")
    made.add("http://a.test/map.xml", sitemap, DAY.format(1).replace("12:", "13:"), content_type="text/xml")
    made.add(A, page("first"), DAY.format(2))
    done = run_import(data, [save(tmp_path, made)], definition(tmp_path))
    assert done.tally["robots.txt"] == 1
    assert rows(data, "SELECT robots_status, robots_expires FROM host") == [(200, at(1) + 86_400)]
    assert rows(data, "SELECT role, status FROM url WHERE url = 'http://a.test/map.xml'") == [(1, 200)]
    assert rows(data, "SELECT state FROM url WHERE url = 'http://a.test/listed'") == [(int(UrlState.PENDING),)]
    assert next(url for kind, url, *_ in warc_records(data, "response")) == "http://a.test/robots.txt"


def chunked(body: bytes) -> bytes:
    return b"%x\r\n%s\r\n0\r\n\r\n" % (len(body), body)


BODY = page("äöü was decoded")
CODINGS = {
    "chunked": ([("Transfer-Encoding", "chunked")], chunked(BODY)),
    "gzip": ([("Content-Encoding", "gzip")], gzip.compress(BODY)),
    "br": ([("Content-Encoding", "br")], brotli.compress(BODY)),
    "zstd": ([("Content-Encoding", "zstd")], zstandard.compress(BODY)),
    "chunked gzip": ([("Transfer-Encoding", "chunked"), ("Content-Encoding", "gzip")], chunked(gzip.compress(BODY))),
    "chunks undone": ([("Transfer-Encoding", "chunked")], BODY),
    "gzip undone": ([("Content-Encoding", "gzip")], BODY),
    "br undone": ([("Content-Encoding", "br")], BODY),
    "both undone": ([("Transfer-Encoding", "chunked"), ("Content-Encoding", "gzip")], BODY),
    "chunked, gzip undone": ([("Transfer-Encoding", "chunked"), ("Content-Encoding", "gzip")], chunked(BODY)),
}


@pytest.mark.parametrize("coding", CODINGS)
def test_bodies_are_decoded_as_the_header_says_or_as_the_bytes_show(tmp_path, data, coding):
    headers, body = CODINGS[coding]
    made = WarcFile()
    made.add(A, body, content_type="text/html; charset=utf-8", headers=headers)
    run_import(data, [save(tmp_path, made)], definition(tmp_path))
    (found,) = visits(data)
    assert found.page is not None and "äöü was decoded" in found.page.text
    assert warc_records(data, "response")[0][3].endswith(body)


def test_resources_are_captures_and_stay_resources(tmp_path, data):
    made = WarcFile()
    made.add(A, page("no header"), kind="resource", content_type="text/html")
    made.add("urn:pageinfo:x", b"{}", kind="resource", content_type="application/json")
    run_import(data, [save(tmp_path, made)], definition(tmp_path))
    ((kind, url, fields, content),) = warc_records(data)
    assert (kind, url, fields["Content-Type"], content) == ("resource", A, "text/html", page("no header"))
    assert visits_of(data, A)[0].outcome.kept


def test_what_is_no_capture_is_counted(tmp_path, data):
    made = WarcFile()
    made.add(A, page("page"))
    made.add(A, b"text", kind="conversion", content_type="text/plain")
    made.add("metadata://crawl.log", b"log", kind="metadata", content_type="text/plain")
    made.add("dns:a.test", b"20200301\na.test. 1 IN A 192.0.2.7", kind="resource", content_type="text/dns")
    made.add(B, page("answer"), request=True, method="POST")
    made.add("ftp://a.test/x", b"x", kind="resource", content_type="text/plain")
    done = run_import(data, [save(tmp_path, made)], definition(tmp_path))
    assert done.counts.imported == 1
    assert {what: number for what, number in done.tally.items() if what.startswith("skipped")} == {
        "skipped: conversion": 1, "skipped: metadata": 1, "skipped: no Web address": 2, "skipped: POST requests": 1,
    }  # fmt: skip


def test_arc_files_are_imported(tmp_path, data):
    content = arc_file(
        arc_record("http://a.test/", "20010203040506", response(page("long ago", "/b"))),
        arc_record("http://a.test/b", "20010203040507", response(b"", "404 Not Found")),
        arc_record("dns:a.test", "20010203040507", b"x", "text/dns"),
    )
    done = run_import(data, [save(tmp_path, content, "old.arc")], "c")
    assert done.counts.imported == 2
    assert visits_of(data, A)[0].outcome.at == datetime(2001, 2, 3, 4, 5, 6, tzinfo=UTC).timestamp()
    assert visits_of(data, A)[0].outcome.address == "192.0.2.7"


# -- scope -------------------------------------------------------------------------------------------------------------


def a_mixed_file() -> WarcFile:
    made = WarcFile()
    made.add(A, page("inside", "/b"))
    made.add("http://a.test/secret", page("excluded"))
    made.add("http://b.test/", page("elsewhere"))
    made.add("http://a.test/picture", b"\x89PNG picture", content_type="image/png")
    made.add("http://a.test/gone", b"gone for good", status="410 Gone")
    return made


def test_the_scope_of_the_collection_decides(tmp_path, data):
    done = run_import(data, [save(tmp_path, a_mixed_file())], definition(tmp_path))
    assert done.counts.skipped == {"skipped: outside the scope": 2}
    assert {one.url for one in visits(data)} == {A, "http://a.test/picture", "http://a.test/gone"}
    assert [url for _, url, *_ in warc_records(data)] == [A]


def test_all_keeps_everything_and_leads_nowhere_else(tmp_path, data):
    done = run_import(data, [save(tmp_path, a_mixed_file())], definition(tmp_path), everything=True)
    assert done.counts.imported == 5
    assert len(warc_records(data, "response")) == 5
    assert any(content.endswith(b"gone for good") for *_, content in warc_records(data))
    pending = rows(data, "SELECT url FROM url WHERE state = 0")
    assert pending == [(B,)]


def test_what_is_taken_down_is_not_imported(tmp_path, data):
    data.create()
    record_action(data, "add", parse_target("host:a.test"), "tests", "a reason", at(9))
    done = run_import(data, [save(tmp_path, a_mixed_file())], definition(tmp_path))
    assert done.counts.imported == 0
    assert done.counts.skipped["skipped: taken down"] == 4


def test_a_wider_definition_imports_what_was_outside(tmp_path, data):
    path = save(tmp_path, a_mixed_file())
    run_import(data, [path], definition(tmp_path))
    wider = tmp_path / "c.toml"
    wider.write_text(wider.read_text().replace("[scope]", '[scope]\nhosts = ["*.test"]'))
    done = run_import(data, [path], str(wider))
    assert done.counts.imported == 1
    assert "http://b.test/" in {one.url for one in visits(data)}


# -- damage ------------------------------------------------------------------------------------------------------------


def test_damaged_records_are_named_with_file_and_offset(tmp_path, data):
    made = WarcFile(is_gzip=False)
    for number in range(4):
        made.add(f"http://a.test/{number}", page(f"number {number}"))
    made.add("http://a.test/undated", page("x"), "someday")
    content = bytearray(made.content)
    content[content.index(b"number 2") + 3] ^= 1  # only its digest can tell
    path = save(tmp_path, bytes(content), "one.warc")
    done = run_import(data, [path], "c")
    assert [(name, offset) for name, offset, _ in done.damages] == [
        (str(path), made.starts[2]), (str(path), made.starts[4]),
    ]  # fmt: skip
    assert {one.url[-1] for one in visits(data)} == set("013")
    assert done.tally["damaged"] == 2


def test_fuzz_changed_files_are_imported_as_far_as_they_are_whole(tmp_path, data):
    mutator, folder = Mutator([a_mixed_file().content, a_file_of_all_kinds()], TOKENS, "import"), tmp_path / "fuzzed"
    folder.mkdir()
    save(folder, a_mixed_file(), "whole.warc.gz")
    for number in range(60):
        save(folder, mutator.next(), f"{number}.warc")
    done = run_import(data, [folder], definition(tmp_path), everything=True)
    assert done.counts.imported >= 5
    assert done.tally["damaged"] > 20
    for path in data.archive.glob("*.warc.gz"):
        check_warc_file(path)
    assert run_import(data, [folder], definition(tmp_path), everything=True).counts.imported == 0


def a_file_of_all_kinds() -> bytes:
    made, body = WarcFile(is_gzip=False), page("a page")
    made.add(A, body, request=True, headers=[("Content-Encoding", "gzip"), ("Transfer-Encoding", "chunked")])
    made.add(A, b"", DAY.format(2), kind="revisit", warc=revisit_of(A, 1, body))
    made.add(B, b"text", kind="resource", content_type="text/plain")
    made.add("http://a.test/robots.txt", b"Sitemap: http://a.test/map.xml", content_type="text/plain")
    made.add("http://a.test/x.pdf", b"%PDF-1.4 nothing", DAY.format(4), content_type="application/pdf")
    return made.content + arc_file(arc_record("http://a.test/arc", "20010203040506", response(body)))


def test_a_hostile_page_costs_only_itself(tmp_path, data):
    made = WarcFile()
    hostile = b"<b id=1>" * 600 + b"<p>x" * 60_000
    made.add("http://a.test/hostile", hostile)
    made.add(A, page("harmless"), DAY.format(2))
    run_import(data, [save(tmp_path, made)], definition(tmp_path))
    assert visits_of(data, A)[0].outcome.kept
    assert visits_of(data, "http://a.test/hostile")[0].outcome.status in {200, Status.HOSTILE}


def test_a_file_that_is_compressed_as_a_whole_is_imported(tmp_path, data):
    made = WarcFile(is_gzip=False)
    for number in range(30):
        filler = f"{number} <!-- {os.urandom(60_000).hex()} -->"
        made.add(f"http://a.test/{number}", page(filler), DAY.format(1 + number % 9))
    path = save(tmp_path, gzip.compress(made.content))
    assert run_import(data, [path], "c").counts.kept == 30
    assert not (data.run / "import").exists()


def package(members: dict[str, bytes], compression: int) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", compression) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return buffer.getvalue()


@pytest.mark.parametrize("compression", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
def test_wacz_packages_are_imported(tmp_path, data, compression):
    first, second = WarcFile(), WarcFile(is_gzip=False)
    first.add(A, page("first"))
    second.add(B, page("second"))
    members = {
        "datapackage.json": b"{}", "archive/data.warc.gz": first.content, "archive/rec.warc": second.content,
        "inner.wacz": b"PK\x03\x04",
    }  # fmt: skip
    path = save(tmp_path, package(members, compression), "one.wacz")
    assert run_import(data, [tmp_path], "c").counts.kept == 2
    cut = save(tmp_path, path.read_bytes()[:-60], "cut.wacz")
    done = run_import(data, [cut], "c")
    assert [(name, offset) for name, offset, _ in done.damages][:1] == [(str(cut), 0)]
