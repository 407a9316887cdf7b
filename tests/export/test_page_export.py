"""Pages as JSON Lines with text or Markdown, and as |||URL|HTML: which pages, and what is never among them."""

import gzip
import json
from pathlib import Path
from typing import Any

import pytest
import zstandard
from msgspec.structs import replace

from tarrafa.archive.warc_writer import WarcExchange, sha1_digest
from tarrafa.captures import follower
from tarrafa.model import Outcome, Page, PageDate, RobotsMeta, UsageStatement, VisitRecord
from tarrafa.runtime.data_dir import DataDirectory
from tarrafa.takedown import parse_target, record_action
from tests.captures.archived_site import DAY_S, FIRST_AT, PAGE, SHY, SiteArchive, new_archive, write_site
from tests.cli.test_captures import run

NEWS, RESERVED, LATIN, TRICKY = (f"http://news.test/{name}" for name in ("news", "reserved", "latin", "a|b"))


def add_page(site: SiteArchive, url: str, at: float, body: bytes, page: Page) -> None:
    head = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n"
    exchange = WarcExchange(url, at, b"GET / HTTP/1.1\r\n\r\n", head + body, len(head), payload=sha1_digest(body))
    outcome = Outcome(200, at, kept=True, type="text/html", payload=sha1_digest(body))
    site.writer.append(VisitRecord("news", url, 1, 0, outcome, page=page), exchange)


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> DataDirectory:
    made = new_archive(tmp_path_factory.mktemp("pages") / "data")
    site = write_site(made)
    text = "Menu\nOur *news*\nThe first line\n\udcff"
    page = Page(
        NEWS, "Our *news*", text, headings=("Our *news*",), language="pt", content_spans=((16, 30),),
        published=PageDate(1_790_000_000, "meta"), description="What is new",
    )  # fmt: skip
    add_page(site, NEWS, FIRST_AT, b"<h1>news</h1>", page)
    add_page(site, NEWS, FIRST_AT + DAY_S, b"<h1>news</h1> again", replace(page, title="Newer"))
    said = (UsageStatement("robots.txt", "Content-Signal: ai-train=no", ("ai-train",)),)
    add_page(site, RESERVED, FIRST_AT, b"<p>mine</p>", Page(RESERVED, "Mine", "mine", usage=said))
    hidden = Page(LATIN, "Latin", "maçã", charset="iso-8859-1", robots=RobotsMeta(noindex=True))
    add_page(site, LATIN, FIRST_AT, "<p>maçã ||| x||</p>|".encode("latin-1"), hidden)
    add_page(site, TRICKY, FIRST_AT, b"|||http://fake.test/|<p>", Page(TRICKY, "Tricky", "t"))
    site.close()
    follower.catch_up(made)
    return made


def pages(data: DataDirectory, tmp_path: Path, *options: str) -> tuple[dict[str, Any], str]:
    target = tmp_path / "pages.jsonl"
    done = run(data, "export", "pages", target, "--force", *options)
    assert done.returncode == 0, done.stderr
    return {line["url"]: line for line in map(json.loads, target.read_text().splitlines())}, done.stderr


def test_each_page_is_one_line_with_its_newest_text(data, tmp_path):
    found, told = pages(data, tmp_path)
    assert found[NEWS] == {
        "url": NEWS, "at": "2026-09-22T14:13:20Z", "collection": "news", "title": "Newer", "language": "pt",
        "type": "text/html", "description": "What is new", "published": "2026-09-21",
        "text": "Menu\nOur *news*\nThe first line\n?",
    }  # fmt: skip
    assert found[PAGE]["text"] == "three"
    assert SHY not in found and f"{len(found)} pages" in told
    assert pages(data, tmp_path, "--collection", "news")[0].keys() == {NEWS, RESERVED, LATIN, TRICKY}


def test_a_304_dates_the_text_that_it_confirms(data, tmp_path):
    found, _ = pages(data, tmp_path, "--until", "2027-04-09")
    assert (found[PAGE]["text"], found[PAGE]["at"][:10]) == ("two\nsame", "2027-04-09")


def test_main_content_and_markdown(data, tmp_path):
    found, _ = pages(data, tmp_path, "--format", "markdown", "--prefix", NEWS)
    assert found[NEWS]["markdown"].startswith("# Newer\n\nMenu\n\n## Our \\*news\\*\n\nThe first line\n")
    assert "text" not in found[NEWS]
    found, _ = pages(data, tmp_path, "--content", "--prefix", NEWS)
    assert found[NEWS]["text"] == "The first line"


@pytest.mark.parametrize(
    ("use", "left_out"), [("any", set()), ("ai-train", {RESERVED}), ("search", {LATIN}), ("ai-input", set())]
)
def test_what_reserves_the_use_is_left_out_and_counted(data, tmp_path, use, left_out):
    found, told = pages(data, tmp_path, "--for", use, "--collection", "news")
    assert {NEWS, RESERVED, LATIN, TRICKY} - found.keys() == left_out
    assert (f"1 page left out: the publisher reserves {use}" in told) is bool(left_out)


def test_every_version_is_a_line_if_asked_for(data, tmp_path):
    target = tmp_path / "all.jsonl.gz"
    assert run(data, "export", "pages", target, "--versions", "--prefix", NEWS).returncode == 0
    lines = [json.loads(line) for line in gzip.decompress(target.read_bytes()).splitlines()]
    assert [line["title"] for line in lines] == ["Our *news*", "Newer"]


def test_html_is_utf8_and_separators_are_unambiguous(data, tmp_path):
    target = tmp_path / "pages.html.zst"
    assert run(data, "export", "pages", target, "--format", "html", "--collection", "news").returncode == 0
    with target.open("rb") as packed:
        content = zstandard.ZstdDecompressor().stream_reader(packed).read().decode()
    found = dict(part.split("|", 1) for part in content.split("|||")[1:])
    assert found.keys() == {NEWS, RESERVED, LATIN, TRICKY.replace("|", "%7C")}
    assert found[LATIN] == "<p>maçã ||&#124; x||</p>|\n"
    assert found[TRICKY.replace("|", "%7C")] == "&#124;|&#124;http://fake.test/|<p>\n"
    assert found[NEWS] == "<h1>news</h1> again\n"


def test_takedowns_hold(tmp_path):
    made = new_archive(tmp_path / "data")
    write_site(made).close()
    follower.catch_up(made)
    record_action(made, "add", parse_target("host:www.site.test"), "ana", "a reason", FIRST_AT)
    for form in ("text", "html"):
        done = run(made, "export", "pages", tmp_path / form, "--format", form)
        assert done.returncode == 0 and "www.site.test" not in (tmp_path / form).read_text()
        assert "sub.site.test" in (tmp_path / form).read_text()


def test_a_search_selects_its_pages(tmp_path):
    from tarrafa.graph import follower as graph
    from tarrafa.index.parallel_rebuild import rebuild_in_parallel

    made = new_archive(tmp_path / "data")
    site = SiteArchive(made)
    for name, text in (("a", "net and boat"), ("b", "only a boat"), ("c", "the net of the fisher")):
        site.visit(f"http://sea.test/{name}", FIRST_AT, f"<p>{text}</p>".encode(), text=text)
    site.close()
    follower.catch_up(made)
    graph.rebuild(made)
    rebuild_in_parallel(made, 1, lambda size: None)
    found, _ = pages(made, tmp_path, "--query", "net")
    assert found.keys() == {"http://sea.test/a", "http://sea.test/c"}
    assert run(made, "export", "warc", tmp_path / "net.warc.gz", "--query", "boat").stderr.startswith(
        f"{tmp_path / 'net.warc.gz'}: 2 captures"
    )
    refused = run(made, "export", "pages", tmp_path / "x", "--query", "net", "--site", "sea.test")
    assert refused.returncode == 2 and "into the query" in refused.stderr
