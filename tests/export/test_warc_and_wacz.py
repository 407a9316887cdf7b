"""WARC and WACZ files of a selection: what is in them, that others read them, and that nothing hidden leaves."""

import gc
import gzip
import io
import json
import subprocess
import sys
import warnings
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from warcio.archiveiterator import ArchiveIterator

from tarrafa.archive.warc_writer import WarcExchange
from tarrafa.captures import follower
from tarrafa.captures.reader import CapturesReader, KeyRange
from tarrafa.errors import ConfigError, DiskFull
from tarrafa.export import wacz as wacz_module
from tarrafa.export.archive_export import ArchiveExport, export_wacz, export_warc
from tarrafa.export.selection import Selection, parse_selection
from tarrafa.model import BrowserRequest, Outcome, Page, RenderFacts, VisitRecord
from tarrafa.runtime.data_dir import DataDirectory, replace_atomically
from tarrafa.takedown import parse_target, record_action
from tests.captures.archive_tools import archive_tools, environment, run_tool
from tests.captures.archived_site import DAY_S, FIRST_AT, MOVED, OTHER, PAGE, SHY, SiteArchive, new_archive, write_site
from tests.cli.test_captures import run
from tests.warc_check import check_warc_file

EVERYTHING = Selection()
CAPTURES = ("response", "revisit", "resource")


@contextmanager
def silent(what: str, total: int) -> Iterator[Callable[[int], None]]:
    yield lambda more: None


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> DataDirectory:
    made = new_archive(tmp_path_factory.mktemp("export") / "data")
    write_site(made).close()
    follower.catch_up(made)
    return made


def warc(data: DataDirectory, target: Path, **conditions: Any) -> ArchiveExport:
    with target.open("wb") as output:
        return export_warc(data, parse_selection(**conditions), output, target.name, silent)


def records(path: Path) -> list[tuple[str, str, str]]:
    with path.open("rb") as stream:
        return [
            (one.rec_type, one.rec_headers.get("WARC-Target-URI") or "", one.rec_headers.get("WARC-Date"))
            for one in ArchiveIterator(stream)
        ]


def payloads(path: Path) -> dict[tuple[str, str], bytes]:
    with path.open("rb") as stream:
        return {
            (one.rec_headers.get("WARC-Target-URI"), one.rec_headers.get("WARC-Date")): one.raw_stream.read()
            for one in ArchiveIterator(stream, no_record_parse=True)
            if one.rec_type in CAPTURES
        }


def test_an_export_of_everything_has_every_capture_that_may_be_shown_and_is_sound(data, tmp_path):
    target = tmp_path / "all.warc.gz"
    done = warc(data, target)
    shown = list(CapturesReader(data).scan(KeyRange()))
    expected = {(one.url, one.place if one.revisit is None else one.revisit) for one in shown}
    found = [one for one in records(target) if one[0] in CAPTURES]
    assert len(found) == len(expected) == done.copied.captures
    assert not any(url == SHY for _, url, _ in records(target))
    assert check_warc_file(target) == len(records(target))


def test_records_are_copied_byte_for_byte_with_their_requests(data, tmp_path):
    target = tmp_path / "page.warc.gz"
    warc(data, target, prefixes=[PAGE])
    original = dict[tuple[str, str], bytes]()
    for path in data.archive.glob("*[0-9].warc.gz"):
        original |= payloads(path)
    copied = payloads(target)
    assert copied and all(original[key] == content for key, content in copied.items())
    members = target.read_bytes()
    captures = CapturesReader(data).captures_of(PAGE)
    with (data.archive / captures[0].filename).open("rb") as stream:
        stream.seek(captures[0].offset)
        assert stream.read(captures[0].length) in members
    kinds = [kind for kind, _, _ in records(target)]
    assert kinds.count("request") == kinds.count("response") + kinds.count("revisit")


def test_a_revisit_brings_the_record_that_it_refers_to(data, tmp_path):
    target = tmp_path / "revisits.warc.gz"
    done = warc(data, target, prefixes=[PAGE], since="20260922", until="20260922235959")  # a revisit of the day before
    kinds = {kind: date for kind, url, date in records(target) if kind in CAPTURES}
    assert kinds["revisit"].startswith("2026-09-22") and kinds["response"].startswith("2026-09-21")
    assert (done.copied.captures, done.unresolved) == (2, 0)
    later = tmp_path / "confirmed.warc.gz"
    warc(data, later, prefixes=[PAGE], since="202704", until="20270409")  # the day of the 304
    found = [(kind, date[:10]) for kind, _, date in records(later) if kind in CAPTURES]
    assert found == [("response", "2026-10-31"), ("revisit", "2027-04-09")]


@pytest.mark.parametrize(
    ("conditions", "accepts"),
    [
        ({"sites": ["sub.site.test"]}, lambda one: "sub.site.test" in one.url),
        ({"sites": ["site.test"]}, lambda one: "site.test" in one.url),
        ({"sites": ["site.test:8080"]}, lambda one: "site.test:8080" in one.url),
        ({"prefixes": ["http://www.site.test/encoded/"]}, lambda one: "/encoded/" in one.url),
        ({"statuses": ["3"]}, lambda one: one.status == "301"),
        ({"until": "2026-09-21"}, lambda one: one.timestamp < "20260922"),
        ({"sites": ["other.test"], "statuses": ["200"], "since": "2027"}, lambda one: "other.test" in one.url
         and one.timestamp > "2027"),
    ],
)  # fmt: skip
def test_a_selection_takes_what_meets_all_its_conditions(data, tmp_path, conditions, accepts):
    target = tmp_path / "some.warc.gz"
    warc(data, target, **conditions)
    shown = [one for one in CapturesReader(data).scan(KeyRange()) if not one.is_revisit and not one.confirms]
    expected = {(one.url, one.timestamp) for one in shown if accepts(one)}
    found = {
        (url, "".join(letter for letter in date[:19] if letter.isdigit()))
        for kind, url, date in records(target)
        if kind in ("response", "resource")
    }
    assert expected and expected <= found
    if "since" not in conditions:  # else originals of revisits come along
        assert found == expected


def test_a_collection_is_selected_with_what_belongs_to_none(data, tmp_path):
    target = tmp_path / "other.warc.gz"
    warc(data, target, collection=OTHER)
    urls = {url for kind, url, _ in records(target) if kind == "response"}
    assert "http://www.site.test/robots.txt" in urls and PAGE not in urls and len(urls) > 2
    with pytest.raises(ConfigError, match=r"there are: other, small"):
        warc(data, tmp_path / "none.warc.gz", collection="unknown")


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("--status", "2xx"), "write a status or its first digit"),
        (("--since", "yesterday"), "not a date"),
        (("--prefix", "news"), "write the beginning of a URL"),
        (("--site", ""), "write a domain"),
    ],
)
def test_a_wrong_condition_is_said_in_one_line(data, tmp_path, arguments, told):
    done = run(data, "export", "warc", tmp_path / "a.warc.gz", *arguments)
    assert done.returncode == 2 and told in done.stderr and len(done.stderr.strip().splitlines()) == 1
    assert not list(tmp_path.iterdir())


def test_an_existing_file_is_replaced_only_by_force(data, tmp_path):
    target = tmp_path / "a.warc.gz"
    target.write_bytes(b"mine")
    done = run(data, "export", "warc", target)
    assert done.returncode == 2 and "exists already" in done.stderr and target.read_bytes() == b"mine"
    assert run(data, "export", "warc", target, "--force").returncode == 0
    assert check_warc_file(target) > 10
    assert run(data, "export", "wacz", tmp_path / "a.zip").returncode == 2


def test_takedowns_hold_also_while_an_export_runs(tmp_path):
    data = new_archive(tmp_path / "data")
    write_site(data).close()
    follower.catch_up(data)
    record_action(data, "add", parse_target("host:other.test"), "ana", "a reason", FIRST_AT)
    target = tmp_path / "a.warc.gz"

    @contextmanager
    def takes_down(what: str, total: int) -> Iterator[Callable[[int], None]]:
        if what == "copying":
            record_action(data, "add", parse_target(PAGE), "ana", "a reason", FIRST_AT + 1)
        yield lambda more: None

    with target.open("wb") as output:
        done = export_wacz(data, EVERYTHING, output, "", takes_down)
    assert done.copied.taken_down == 5
    with zipfile.ZipFile(target) as package:
        content = gzip.decompress(package.read("archive/data-00000.warc.gz"))
        index = gzip.decompress(package.read("indexes/index.cdx.gz"))
        for part in (content, index, package.read("pages/pages.jsonl")):
            assert b"other.test" not in part and PAGE.encode() not in part and b"site.test" in part


def test_a_damaged_record_is_left_out_and_named(tmp_path):
    data = new_archive(tmp_path / "data")
    write_site(data).close()
    follower.catch_up(data)
    capture = CapturesReader(data).captures_of(MOVED)[0]
    with (data.archive / capture.filename).open("r+b") as stream:
        stream.seek(capture.offset + capture.length // 2)
        stream.write(b"\xff\x00\xff")
    target = tmp_path / "a.warc.gz"
    done = run(data, "export", "warc", target)
    assert f"{capture.filename}: damaged: the record at {capture.offset} is left out" in done.stderr
    assert "1 damaged" in done.stderr and MOVED not in {url for _, url, _ in records(target)}
    check_warc_file(target)


def test_a_revisit_of_what_asks_not_to_be_shown_is_left_out(tmp_path):
    data = new_archive(tmp_path / "data")
    site = SiteArchive(data)
    digest = site.visit(PAGE, FIRST_AT, b"<p>shy</p>", noarchive=True)
    site.visit(PAGE, FIRST_AT + DAY_S, b"<p>shy</p>", of=(FIRST_AT, digest))
    site.close()
    follower.catch_up(data)
    target = tmp_path / "a.warc.gz"
    done = warc(data, target)
    assert (done.left_out, done.copied.captures) == (1, 0)
    assert [kind for kind, _, _ in records(target)] == ["warcinfo"]


def test_a_rendered_page_brings_what_its_browser_asked_for(tmp_path):
    data, style, later = new_archive(tmp_path / "data"), "http://cdn.test/style.css", FIRST_AT + 9 * DAY_S
    site = SiteArchive(data)
    for at, body in ((FIRST_AT + 1, b"p { color: red }"), (later, b"p { color: blue }")):
        head = b"HTTP/1.1 200 OK\r\nContent-Type: text/css\r\n\r\n"
        site.writer.append_exchange(WarcExchange(style, at, b"GET / HTTP/1.1\r\n\r\n", head + body, len(head)))
    facts = RenderFacts("it has scripts", requests=(BrowserRequest(style, "style", 200, 16),), requests_total=1)
    head, body = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n", b"<p>made by scripts"
    exchange = WarcExchange(PAGE, FIRST_AT, b"GET / HTTP/1.1\r\n\r\n", head + body, len(head), rendered=b"<p>made</p>")
    outcome = Outcome(200, FIRST_AT, kept=True, type="text/html")
    record = VisitRecord("c", PAGE, 1, 0, outcome, page=Page(PAGE, "made", "made"), rendered=facts)
    site.writer.append(record, exchange)
    site.close()
    follower.catch_up(data)
    target = tmp_path / "a.warc.gz"
    warc(data, target, prefixes=[PAGE])
    kinds = [(kind, url) for kind, url, _ in records(target)]
    assert ("conversion", PAGE) in kinds and kinds.count(("response", style)) == 1
    (content,) = [content for (url, _), content in payloads(target).items() if url == style]
    assert content.endswith(b"red }")


@pytest.mark.parametrize("kind", ["warc", "wacz"])
@pytest.mark.filterwarnings("error")  # nothing is left that fails when it is collected
def test_a_full_disk_is_said_and_leaves_nothing(data, tmp_path, kind):
    class Full(io.BytesIO):
        """A disk with room for some records."""

        def write(self, content: Any) -> int:
            if self.tell() + len(content) > 9_000:
                raise OSError(28, "No space left on device")
            return super().write(content)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        gc.collect()  # what earlier tests have left

    target, write = tmp_path / "a", export_warc if kind == "warc" else export_wacz
    with pytest.raises(DiskFull, match="free some space"), replace_atomically(target), Full() as output:
        write(data, EVERYTHING, output, target.name, silent)
    gc.collect()
    assert not list(tmp_path.iterdir())


def wacz(data: DataDirectory, target: Path, **conditions: Any) -> zipfile.ZipFile:
    with target.open("wb") as output:
        export_wacz(data, parse_selection(**conditions), output, "", silent)
    return zipfile.ZipFile(target)


def index_of(package: zipfile.ZipFile) -> list[tuple[str, str, dict[str, str]]]:
    lines = gzip.decompress(package.read("indexes/index.cdx.gz")).decode().splitlines()
    return [(*line.split(" ", 2)[:2], json.loads(line.split(" ", 2)[2])) for line in lines]


def test_every_line_of_a_wacz_leads_to_its_record(data, tmp_path, monkeypatch):
    monkeypatch.setattr(wacz_module, "FILE_BYTES_MAX", 20_000)  # several parts
    monkeypatch.setattr(wacz_module, "LINES_PER_MEMBER", 50)
    with wacz(data, tmp_path / "a.wacz") as package:
        parts = {name for name in package.namelist() if name.startswith("archive/")}
        assert len(parts) > 2
        content = {name.rpartition("/")[2]: package.read(name) for name in parts}
        lines = index_of(package)
        shown = list(CapturesReader(data).scan(KeyRange()))
        assert lines == sorted(lines, key=lambda one: one[:2])
        assert sorted((key, at[:14], line["url"], line["status"]) for key, at, line in lines) == sorted(
            (one.urlkey, one.timestamp, one.url, one.status) for one in shown
        )
        for _, at, line in lines:
            start = int(line["offset"])
            member = content[line["filename"]][start : start + int(line["length"])]
            (record,) = ArchiveIterator(io.BytesIO(member))
            assert record.rec_headers.get("WARC-Target-URI") == line["url"]
            assert record.rec_headers.get("WARC-Payload-Digest") == line["digest"]
            assert "".join(filter(str.isdigit, record.rec_headers.get("WARC-Date")))[:17].ljust(17, "0") == at
            assert (record.rec_type == "revisit") == (line["mime"] == "warc/revisit")
        listed = package.read("indexes/index.idx").decode().splitlines()
        assert listed[0].startswith("!meta 0 ")
        packed = package.read("indexes/index.cdx.gz")
        for one in listed[1:]:
            place = json.loads(one.split(" ", 2)[2])
            block = gzip.decompress(packed[place["offset"] : place["offset"] + place["length"]])
            assert block.decode().startswith(one.partition("{")[0])
        assert all(package.getinfo(name).compress_type == zipfile.ZIP_STORED for name in parts)


def test_the_pages_of_a_wacz_are_listed_with_titles(data, tmp_path):
    with wacz(data, tmp_path / "a.wacz", sites=["www.site.test"]) as package:
        head, *pages = [json.loads(line) for line in package.read("pages/pages.jsonl").decode().splitlines()]
        assert head["format"] == "json-pages-1.0" and pages
        assert {page["title"] for page in pages} == {"A page"}
        known = {(line["url"], at) for _, at, line in index_of(package)}
        assert {(page["url"], "".join(filter(str.isdigit, page["ts"]))) for page in pages} <= known
        described = json.loads(package.read("datapackage.json"))
        assert described["wacz_version"] == "1.1.1" and described["mainPageURL"] in {page["url"] for page in pages}


@pytest.mark.long  # the first time some seconds to install the programs
def test_wacz_validate_and_cdxj_indexer_accept_what_is_written(data, tmp_path):
    wacz(data, tmp_path / "a.wacz").close()
    told = run_tool(environment("wacz-tools-1"), "wacz", "validate", "-f", str(tmp_path / "a.wacz"))
    assert "Validation succeeded" in told
    warc(data, tmp_path / "a.warc.gz")
    lines = run_tool(archive_tools(), "cdxj-indexer", str(tmp_path / "a.warc.gz")).splitlines()
    found = [one for one in records(tmp_path / "a.warc.gz") if one[0] in CAPTURES]
    assert len(lines) == len(found)


def test_an_export_to_standard_output_is_the_file(data, tmp_path):
    program = "from tarrafa.cli import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", program, "export", "warc", "-", "--data", str(data.root)], capture_output=True
    )
    assert done.returncode == 0, done.stderr
    (tmp_path / "a.warc.gz").write_bytes(done.stdout)
    assert check_warc_file(tmp_path / "a.warc.gz") > 10


@pytest.mark.long  # parser processes
@pytest.mark.parametrize("kind", ["warc", "wacz"])
def test_what_is_exported_can_be_imported_again(data, tmp_path, kind):
    target = tmp_path / ("all.warc.gz" if kind == "warc" else "all.wacz")
    assert run(data, "export", kind, target, "--until", "2026-10").returncode == 0  # an import refuses future dates
    again = DataDirectory(tmp_path / "again")
    done = run(again, "import", "warc", target, "--collection", "again", "--all")
    assert done.returncode == 0, done.stderr
    assert "0 damaged" in done.stdout
    follower.catch_up(again)
    before, after = (
        {(one.url, one.timestamp) for one in CapturesReader(place).scan(KeyRange()) if one.timestamp < "202611"}
        for place in (data, again)
    )
    assert len(before) > 50 and after <= before
    assert {url for url, _ in before - after} <= {"http://www.site.test/robots.txt"}
