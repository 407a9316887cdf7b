"""A person with a browser: search, page on, open relations, go back; without JavaScript; on a phone; in the dark."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.graph.small_web import url_of
from tests.serve.conftest import Running

playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")

CHROMIUM = Path("/usr/bin/chromium")
ARGUMENTS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update"]
ARGUMENTS += ["--disable-sync", "--no-first-run"]
PHONE = {"width": 360, "height": 740}

pytestmark = pytest.mark.skipif(not CHROMIUM.exists(), reason=f"no {CHROMIUM}: install Debian's chromium")


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with playwright.sync_playwright() as driver:
        running = driver.chromium.launch(executable_path=str(CHROMIUM), args=ARGUMENTS)
        yield running
        running.close()


@pytest.fixture
def shots(tmp_path: Path) -> Path:
    """Where pictures go: TARRAFA_SCREENSHOTS, for those who want to look at them."""
    folder = Path(os.environ.get("TARRAFA_SCREENSHOTS", tmp_path))
    folder.mkdir(parents=True, exist_ok=True)
    return folder


@pytest.fixture
def complaints() -> list[str]:
    """What the browser's console said: a refused style or script would show up here."""
    return []


def opened(browser: Any, site: Running, complaints: list[str], **options: Any) -> Any:
    context = browser.new_context(base_url=site.address, **options)
    page = context.new_page()
    page.set_default_timeout(10_000)
    page.on("console", lambda message: complaints.append(message.text) if message.type == "error" else None)
    page.on("pageerror", lambda error: complaints.append(str(error)))
    return page


def fits(page: Any) -> bool:
    """Nothing sticks out sideways."""
    return bool(page.evaluate("document.documentElement.scrollWidth <= document.documentElement.clientWidth"))


def test_search_page_on_open_relations_and_go_back(browser, site, shots, complaints):
    page = opened(browser, site, complaints, viewport={"width": 1280, "height": 900})
    page.goto("/")
    assert page.evaluate("document.activeElement.id") == "q"
    page.screenshot(path=shots / "home.png")
    page.get_by_role("searchbox").fill("rede pesca net river")
    page.keyboard.press("Enter")
    page.wait_for_url("**/?q=*")
    assert page.locator("mark").count() > 5
    assert page.locator("ol.hits > li").count() == 10
    page.screenshot(path=shots / "results.png", full_page=True)
    first = page.locator("ol.hits h2 a").first.get_attribute("href")
    page.get_by_role("link", name="Next").click()
    page.wait_for_url("**page=2")
    assert page.locator("ol.hits > li").first.get_attribute("value") == "11"
    page.go_back()
    assert page.locator("ol.hits h2 a").first.get_attribute("href") == first
    page.locator("ol.hits .facts a").first.click()
    page.wait_for_url("**/page?url=*")
    assert page.locator(".where").first.inner_text() == first
    assert page.locator("#in .links li").count() > 0
    page.screenshot(path=shots / "relations.png")
    page.go_back()
    assert page.locator("ol.hits > li").count() == 10
    assert complaints == []


def test_the_slash_key_goes_to_the_box(browser, site, complaints):
    page = opened(browser, site, complaints)
    page.goto("/?q=rede")
    page.locator("main").click()
    page.keyboard.press("/")
    assert page.evaluate("document.activeElement.id") == "q"
    page.keyboard.type("mar/rio")
    assert page.get_by_role("searchbox").input_value() == "mar/rio"
    assert complaints == []


def test_everything_works_without_javascript(browser, site, complaints):
    page = opened(browser, site, complaints, java_script_enabled=False)
    page.goto("/")
    page.get_by_role("searchbox").fill("only31 only32")
    page.get_by_role("button", name="Search").click()
    page.wait_for_url("**/?q=*")
    assert page.locator("ol.hits > li").count() == 2
    page.get_by_label("all words").check()
    page.get_by_role("button", name="Search").click()
    page.wait_for_url("**all=1")
    assert page.locator("ol.hits > li").count() == 0
    page.goto(f"/page?url={url_of(0)}")
    assert page.locator("#out .links li").count() > 0


def test_copies_open_and_close_without_javascript(browser, site, shots, complaints):
    page = opened(browser, site, complaints, java_script_enabled=False, viewport={"width": 1100, "height": 900})
    page.goto("/?q=espelho")
    assert page.locator("ol.hits > li").count() == 3
    page.screenshot(path=shots / "copies-joined.png", full_page=True)
    page.get_by_role("link", name="and 3 copies").click()
    page.wait_for_url("**like=*")
    assert page.locator("ol.hits > li").count() == 4
    page.screenshot(path=shots / "copies-alike.png", full_page=True)
    page.get_by_role("link", name="Back to all results").click()
    page.get_by_role("link", name="Show every copy").click()
    page.wait_for_url("**copies=1")
    assert page.locator("ol.hits > li").count() == 7
    page.screenshot(path=shots / "copies-shown.png", full_page=True)
    page.get_by_role("link", name="Show copies as one").click()
    assert page.locator("ol.hits > li").count() == 3
    assert complaints == []


def test_on_a_phone_nothing_sticks_out(browser, site, shots, complaints):
    page = opened(browser, site, complaints, viewport=PHONE, device_scale_factor=2)
    for name, path in (("home", "/"), ("results", "/?q=rede+net"), ("relations", f"/page?url={url_of(0)}"),
                       ("status", "/status"), ("problem", "/?q=-x"), ("hostile", "/?q=zaragata"),
                       ("copies", "/?q=espelho"), ("alike", "/?q=espelho&like=http://m0.test/")):  # fmt: skip
        page.goto(path)
        assert fits(page), path
        page.screenshot(path=shots / f"phone-{name}.png")
    assert all("400" in said for said in complaints), "the browser reports the status of a bad query, and nothing else"


def test_in_the_dark(browser, site, shots, complaints):
    page = opened(browser, site, complaints, color_scheme="dark", viewport={"width": 1100, "height": 800})
    page.goto("/?q=rede+net")
    background = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert background == "rgb(16, 23, 26)"
    page.screenshot(path=shots / "dark-results.png")
    page.goto("/status")
    page.screenshot(path=shots / "dark-status.png")
    page.goto("/")
    page.locator("summary").click()
    page.screenshot(path=shots / "dark-home.png")
    assert complaints == []


CONTRAST = """() => {
  const linear = v => (v /= 255) <= .03928 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4;
  const light = c => { const [r, g, b] = c.match(/[\\d.]+/g).map(linear); return .2126 * r + .7152 * g + .0722 * b; };
  const ground = e => { for (; e; e = e.parentElement) { const c = getComputedStyle(e).backgroundColor;
    if (!/, 0\\)$|transparent/.test(c)) return c; } return 'rgb(255, 255, 255)'; };
  const poor = [];
  for (const e of document.querySelectorAll('body *')) {
    if (![...e.childNodes].some(n => n.nodeType === 3 && n.data.trim())) continue;
    const [a, b] = [light(getComputedStyle(e).color), light(ground(e))].sort((x, y) => y - x);
    if ((a + .05) / (b + .05) < 4.5) poor.push(e.tagName + '.' + e.className + ' ' + e.textContent.trim().slice(0, 30));
  }
  return poor;
}"""


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_wcag_text_has_enough_contrast_and_every_field_a_label(browser, site, complaints, scheme):
    page = opened(browser, site, complaints, color_scheme=scheme)
    pages = ("/", "/?q=rede+net&page=2", "/?q=espelho", "/?q=espelho&copies=1", f"/page?url={url_of(0)}", "/status")
    for path in (*pages, "/nothing"):
        page.goto(path)
        assert page.evaluate(CONTRAST) == [], path
        unlabelled = page.evaluate(
            "[...document.querySelectorAll('input:not([type=hidden])')].filter(field => !field.labels.length).length"
        )
        assert unlabelled == 0
        assert page.locator("main").count() == 1
        assert page.locator("h1").count() == 1


def test_a_hostile_page_runs_nothing(browser, site, complaints):
    page = opened(browser, site, complaints)
    page.on("dialog", lambda dialog: complaints.append(dialog.message))
    page.goto("/?q=zaragata")
    assert page.locator("ol.hits > li").count() == 1
    assert "<script>" in page.locator("ol.hits h2").inner_text()
    page.locator("ol.hits .facts a").click()
    page.wait_for_url("**/page?url=*")
    assert page.locator("main script, main img").count() == 0
    assert complaints == []
