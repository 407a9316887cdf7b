"""Archived pages in a real browser: with image and style of their date, while their hosts are never asked."""

from collections.abc import Iterator
from typing import Any

import pytest

from tarrafa.takedown import parse_target, record_action
from tests.captures.archived_site import FIRST_AT
from tests.server.replay.browser_site import (
    BACKGROUNDS,
    COLOURS,
    DEMO,
    DOWN,
    GONE,
    OTHER,
    PARTS,
    SECOND_AT,
    SHY,
    WAIT_MS,
    Listener,
    ReplayedSite,
    archive,
    browser,
    frame_of,
    live_web,
    needs_browser_and_wabac,
    served,
    write_demo,
)

__all__ = ["browser", "live_web"]
pytestmark = pytest.mark.skipif(bool(needs_browser_and_wabac()), reason=needs_browser_and_wabac())

PIXEL = """() => {
  const picture = document.getElementById("picture"), canvas = document.createElement("canvas");
  canvas.getContext("2d").drawImage(picture, 0, 0);
  return [...canvas.getContext("2d").getImageData(1, 1, 1, 1).data].slice(0, 3);
}"""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ReplayedSite]:
    data, written = archive(tmp_path_factory.mktemp("replay"))
    write_demo(written)
    with served(data, written) as running:
        for url in (DOWN, f"{DEMO}down.png"):
            record_action(data, "add", parse_target(url), "ana", "a reason", FIRST_AT)
        yield running


@pytest.fixture
def page(browser: Any, live_web: Listener) -> Iterator[Any]:
    context = browser.new_context(viewport={"width": 1200, "height": 900})
    page = context.new_page()
    page.set_default_timeout(WAIT_MS)
    yield page
    context.close()
    assert live_web.heard == []


@pytest.mark.parametrize("number", [0, 1])
def test_a_page_is_replayed_with_image_style_and_script_of_its_date(site, page, number):
    page.goto(site.copy(DEMO, (FIRST_AT, SECOND_AT)[number]))
    frame = frame_of(page, f"Version {number}")
    assert frame.evaluate(PIXEL) == list(COLOURS[number])
    assert frame.evaluate("getComputedStyle(document.body).backgroundColor") == BACKGROUNDS[number]
    assert frame.evaluate("getComputedStyle(document.querySelector('h1')).color") == "rgb(0, 0, 128)"
    assert frame.evaluate("document.body.dataset.ran") == str(number)


def test_the_bar_leads_to_the_other_version(site, page):
    page.goto(site.copy(DEMO, FIRST_AT))
    frame_of(page, "Version 0")
    page.get_by_role("link", name="Next capture").click()
    page.wait_for_url("**/copy?*at=20261031141320*")
    frame_of(page, "Version 1")


@pytest.mark.parametrize("link", ["other", "blank"])
def test_a_link_stays_in_the_archive_and_the_bar_follows(site, page, link):
    page.goto(site.copy(DEMO, SECOND_AT))
    frame = frame_of(page, "Version 1")
    frame.click(f"#{link}")
    frame = frame_of(page, "The other page")
    assert frame.url.endswith(f"mp_/{OTHER}")
    page.locator("#bar .where", has_text="/other").wait_for()
    assert "2026-09-21 14:13:20 UTC" in page.locator("#bar").inner_text()
    assert "url=http%3A%2F%2Fdemo.test%2Fother" in page.url and len(page.context.pages) == 1
    frame.click("#back")
    frame_of(page, "Version 1")


def test_an_archived_page_in_a_tab_of_its_own_is_shown_by_the_site_in_the_frame(site, page):
    """Before the service worker is there, and when it is."""
    for _ in range(2):
        page.goto(f"{site.replay.origin}/w/all/20260921mp_/{OTHER}")
        page.wait_for_url(f"{site.address}/copy?url=http%3A%2F%2Fdemo.test%2Fother&at=20260921")
        frame_of(page, "The other page")


def test_a_redirect_is_followed_in_the_archive(site, page):
    page.goto(site.copy(f"{DEMO}moved", FIRST_AT))
    assert frame_of(page, "The other page").url.endswith(f"mp_/{OTHER}")


@pytest.mark.parametrize(
    ("language", "sentence"),
    [("en", "No capture of this URL is in this archive."), ("pt", "Não há captura desta URL neste arquivo.")],
)
def test_a_missing_capture_is_said_in_plain_words(site, browser, live_web, language, sentence):
    context = browser.new_context(locale={"en": "en-US", "pt": "pt-BR"}[language])
    page = context.new_page()
    page.goto(site.copy(DEMO, FIRST_AT, hl=language))
    frame_of(page, "Version 0").click("#gone")
    frame = next(one for one in page.frames if one.parent_frame == page.main_frame)
    frame.wait_for_url(f"**mp_/{GONE}")
    assert frame.locator("body").inner_text().strip() == sentence
    page.locator("#bar", has_text=sentence).wait_for()
    context.close()
    assert live_web.heard == []


def test_an_archived_error_is_shown_as_it_was(site, page):
    page.goto(site.copy(DEMO, FIRST_AT))
    frame = frame_of(page, "Version 0")
    frame.evaluate("document.getElementById('other').href = '/error'")
    with page.expect_response(f"**mp_/{DEMO}error") as response:
        frame.click("#other")
    assert response.value.status == 404
    frame.get_by_text("The server's own words").wait_for()


def test_what_is_hidden_is_hidden_as_a_part_of_a_page_too(site, page):
    answers: dict[str, int] = {}
    page.on("response", lambda response: answers.setdefault(response.url.partition("_/")[2], response.status))
    page.goto(site.copy(PARTS, FIRST_AT))
    frame = frame_of(page, "Parts")
    widths = frame.evaluate("[...document.images].map(one => [one.id, one.naturalWidth])")
    assert dict(widths) == {"down": 0, "gone": 0, "picture": 24}
    shy = frame.frame_locator("#shy")
    assert "asks not to be shown from an archive" in shy.locator("body").inner_text()
    assert frame.frame_locator("#framed").locator("body").inner_text().startswith("The other page")
    assert {url: answers[url] for url in (f"{DEMO}down.png", f"{DEMO}gone.png", SHY)} == {
        f"{DEMO}down.png": 451, f"{DEMO}gone.png": 404, SHY: 403,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("url", "code", "sentence"),
    [(DOWN, 451, "This page was taken down"), (SHY, 403, "asks not to be shown from an archive")],
)
def test_a_hidden_page_is_not_replayed_and_its_frame_says_why(site, page, url, code, sentence):
    assert page.goto(site.copy(url, FIRST_AT)).status == code
    page.goto(site.copy(DEMO, FIRST_AT))
    frame = frame_of(page, "Version 0")
    frame.evaluate("url => { document.getElementById('other').href = url; }", url)
    frame.click("#other")
    frame.get_by_text(sentence).wait_for()
    page.locator("#bar", has_text=sentence).wait_for()


def test_a_takedown_holds_from_the_next_request_on(tmp_path, browser, live_web):
    data, written = archive(tmp_path)
    write_demo(written)
    with served(data, written) as site:
        context = browser.new_context()
        page = context.new_page()
        page.goto(site.copy(DEMO, FIRST_AT))
        frame = frame_of(page, "Version 0")
        record_action(data, "add", parse_target(OTHER), "ana", "a reason", FIRST_AT)
        record_action(data, "add", parse_target(f"{DEMO}picture.png"), "ana", "a reason", FIRST_AT)
        frame.click("#other")
        frame.get_by_text("This page was taken down").wait_for()
        page.goto(site.copy(DEMO, FIRST_AT))
        assert frame_of(page, "Version 0").evaluate("document.getElementById('picture').naturalWidth") == 0
        context.close()
    assert live_web.heard == []


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ("delete Navigator.prototype.serviceWorker", "it has no service workers"),
        ("navigator.serviceWorker.register = async () => { throw new Error('no'); }", "may forbid"),
    ],
)
def test_a_browser_that_cannot_replay_says_so_and_shows_the_text(site, browser, change, sentence):
    context = browser.new_context()
    context.add_init_script(change)
    page = context.new_page()
    page.goto(site.copy(DEMO, FIRST_AT))
    page.frame_locator("iframe.archived").get_by_text(sentence).wait_for()
    page.get_by_role("link", name="Text only").click()
    page.get_by_text("as text: without scripts").wait_for()
    context.close()


def test_without_javascript_the_text_is_one_link_away(site, browser):
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(site.copy(DEMO, FIRST_AT))
    assert "needs JavaScript" in page.frame_locator("iframe.archived").locator("body").inner_text()
    page.get_by_role("link", name="Text only").click()
    page.get_by_text("as text: without scripts").wait_for()
    context.close()
