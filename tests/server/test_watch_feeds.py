"""Feeds of watches and the page that compares two captures, over HTTP; the Atom and RSS as feedparser reads them."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tarrafa.coordinator.watch.watches import list_watches
from tarrafa.takedown import parse_target, record_action
from tests.coordinator.watch.test_watches import BESIDE, ELSEWHERE, PAGE, WatchedArchive, captures_of
from tests.server.conftest import HOSTILE, RunningSite

feedparser = pytest.importorskip("feedparser")


@pytest.fixture
def archive(tmp_path: Path) -> WatchedArchive:
    archive = WatchedArchive(tmp_path)
    archive.visit(PAGE, "first\nsame\nold")
    archive.watch("site", "site.test")
    archive.watch("page", PAGE)
    archive.visit(PAGE, f"first\nsame\nnew {HOSTILE}")
    archive.visit(BESIDE, "beside")
    archive.told()
    return archive


@pytest.fixture
def site(archive: WatchedArchive) -> Iterator[RunningSite]:
    with RunningSite(archive.data) as running:
        yield running


def feed(site: RunningSite, archive: WatchedArchive, number: int = 0, suffix: str = ".atom") -> Any:
    path = list_watches(archive.data)[number].feed.removesuffix(".atom") + suffix
    response, text = site.get(path)
    assert response.status == 200 and response.headers["x-robots-tag"] == "noindex"
    found = feedparser.parse(text)
    assert not found.bozo, found.get("bozo_exception")
    return found


@pytest.mark.parametrize("suffix", [".atom", ".rss"])
def test_a_feed_is_valid_and_links_to_what_has_changed(site, archive, suffix):
    found = feed(site, archive, 1, suffix)
    assert found.version == {".atom": "atom10", ".rss": "rss20"}[suffix]
    (entry,) = found.entries
    old, new = captures_of(archive.data, PAGE)
    assert entry.title == f"{PAGE}: 1 page has changed"
    assert entry.link == f"{site.address.rstrip('/')}/diff?url=http%3A%2F%2Fwww.site.test%2Fpage&from={old}&to={new}"
    assert entry.id.endswith("/watch-2-1") and entry.get("published", entry.get("updated"))
    assert "diff?url=" in entry.get("summary", "") + str(entry.get("content", ""))
    both = [feed(site, archive, 1, one).entries[0].id for one in (".atom", ".rss")]
    assert both[0] == both[1]


def test_an_entry_of_a_site_lists_the_pages_of_its_period(site, archive):
    archive.visit(ELSEWHERE, "not watched")
    archive.visit(PAGE, status=404)
    archive.told()
    newest, older = feed(site, archive).entries
    assert newest.title == "site.test: 1 page is gone"
    assert older.title == "site.test: 1 new page; 1 page has changed"
    assert BESIDE in older.content[0].value and PAGE in older.content[0].value


def test_a_feed_without_the_token_is_not_there(site, archive):
    token = list_watches(archive.data)[0].feed
    for path in ("/watch/x.atom", token.replace(".atom", "x.atom"), "/watch/.atom", token.swapcase()):
        assert site.get(path)[0].status == 404
    assert len(token) > 35


def test_a_page_that_is_taken_down_is_in_no_feed_from_the_next_request_on(site, archive):
    assert BESIDE in feed(site, archive).entries[0].content[0].value
    record_action(archive.data, "add", parse_target(BESIDE), "me", "", archive.now)
    (entry,) = feed(site, archive).entries
    assert entry.title == "site.test: 1 page has changed" and BESIDE not in str(entry)
    record_action(archive.data, "add", parse_target("site:site.test"), "me", "", archive.now)
    for number in (0, 1):
        assert site.get(list_watches(archive.data)[number].feed)[0].status == 451
    assert site.get(f"/diff?url={PAGE}&from=2026&to=2027")[0].status == 451


def test_titles_and_texts_of_pages_are_no_markup(site, archive):
    old, new = captures_of(archive.data, PAGE)
    _, page = site.get(f"/diff?url={PAGE}&from={old}&to={new}")
    assert "<script>alert" not in page and "&lt;script&gt;" in page


def test_two_captures_are_shown_side_by_side(site, archive):
    old, new = captures_of(archive.data, PAGE)
    response, page = site.get(f"/diff?url={PAGE}&from={old}&to={new}")
    assert response.status == 200
    assert "<del>old</del>" in page and "<ins>new " in page and "1 line removed, 1 line added" in page
    assert page.count(">same<") == 2
    assert "Both captures have the same text." in site.get(f"/diff?url={PAGE}&from={new}&to={new}")[1]


@pytest.mark.parametrize(("path", "code"), [("/diff", 404), ("/diff?url=http://no.test/&from=2026&to=2027", 404)])
def test_a_comparison_of_what_is_not_there_is_404(site, path, code):
    assert site.get(path)[0].status == code


def test_a_site_without_console_has_no_links_to_watches(site):
    assert "/console/watches" not in site.get(f"/copy?url={PAGE}")[1]
