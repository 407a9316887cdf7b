"""A person with a browser: search, narrow, sort, page on, open relations, go back; with the keyboard alone; without
JavaScript; on a phone; in the dark; in two languages; and as assistive technology sees it (axe-core)."""

import os
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from tests.graph.archived_web import url_of
from tests.server.conftest import RunningSite

playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")

CHROMIUM = Path("/usr/bin/chromium")
ARGUMENTS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update"]
ARGUMENTS += ["--disable-sync", "--no-first-run"]
PHONE = {"width": 360, "height": 740}
DESK = {"width": 1280, "height": 900}
WAIT_MS = 60_000  # that no page takes, however busy the machine is
AXE = Path(__file__).parent / "axe" / "axe.min.js"

pytestmark = pytest.mark.skipif(not CHROMIUM.exists(), reason=f"no {CHROMIUM}: install Debian's chromium")


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with playwright.sync_playwright() as driver:
        running = driver.chromium.launch(executable_path=str(CHROMIUM), args=ARGUMENTS, timeout=WAIT_MS)
        yield running
        running.close()


def picture(page: Any, name: str) -> None:
    """Into the folder TARRAFA_SCREENSHOTS, for those who want to look at them."""
    folder = os.environ.get("TARRAFA_SCREENSHOTS")
    if folder:
        page.screenshot(path=Path(folder) / f"{name}.png", full_page=True)


@pytest.fixture
def complaints() -> list[str]:
    """What the browser's console said: a refused style or script would show up here."""
    return []


@contextmanager
def opening(browser: Any, address: str, watch: Callable[[Any], None]) -> Iterator[Callable[..., Any]]:
    """Opens pages, and closes them in the end."""
    contexts = []

    def open_page(**options: Any) -> Any:
        context = browser.new_context(base_url=address, **options)
        contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(WAIT_MS)
        watch(page)
        return page

    yield open_page
    for context in contexts:
        context.close()


@pytest.fixture
def opened(browser: Any, site: RunningSite, complaints: list[str]) -> Iterator[Any]:
    def watch(page: Any) -> None:
        page.on("console", lambda message: complaints.append(message.text) if message.type == "error" else None)
        page.on("pageerror", lambda error: complaints.append(str(error)))

    with opening(browser, site.address, watch) as open_page:
        yield open_page


def follow(page: Any, control: Any) -> None:
    """Click what leads to another page, and be there: a click alone can return while the old page still stands."""
    with page.expect_navigation():
        control.click()


def fits(page: Any) -> bool:
    """Nothing sticks out sideways."""
    return bool(page.evaluate("document.documentElement.scrollWidth <= document.documentElement.clientWidth"))


def focused(page: Any) -> str:
    """The id or the address of what has the focus."""
    return str(
        page.evaluate("document.activeElement.id || document.activeElement.href || document.activeElement.tagName")
    )


def wait_for_focus(page: Any, name: str) -> None:
    """`autofocus` counts when a page is first drawn, which may be after it has come."""
    page.wait_for_function("name => document.activeElement?.id === name", arg=name)


def hrefs(page: Any) -> list[str]:
    return [link.get_attribute("href") for link in page.locator("ol.hits h2 a").all()]


def test_search_narrow_sort_page_on_open_relations_and_go_back(opened, complaints):
    page = opened(viewport=DESK)
    page.goto("/")
    wait_for_focus(page, "q")
    picture(page, "home")
    page.locator("#q").fill("rede pesca net river")
    page.keyboard.press("Enter")
    page.wait_for_url("**/?q=*")
    assert page.locator("mark").count() > 5
    assert page.locator("ol.hits > li").count() == 10
    picture(page, "results")
    everything = hrefs(page)

    page.get_by_text("Language: Any language").click()
    picture(page, "menu")
    page.get_by_role("link", name="English").click()
    page.wait_for_url("**lang=en")
    assert {article.get_attribute("lang") for article in page.locator("ol.hits h2").all()} == {"en"}
    page.get_by_text("Sorted by: Relevance").click()
    page.get_by_role("link", name="Newest first").click()
    page.wait_for_url("**sort=date**")
    dates = [time.get_attribute("datetime") for time in page.locator("ol.hits time").all()]
    assert dates == sorted(dates, reverse=True)
    assert "lang=en" in page.url
    page.get_by_role("link", name="Next").click()
    page.wait_for_url("**page=2")
    assert "lang=en" in page.url
    assert page.locator("ol.hits > li").first.get_attribute("value") == "11"
    for _ in range(3):
        page.go_back()
    assert hrefs(page) == everything

    page.get_by_role("link", name="Relations of").first.click()
    page.wait_for_url("**/page?url=*")
    assert page.locator(".where").first.inner_text() == everything[0]
    assert page.locator("#in .links li").count() > 0
    picture(page, "relations")
    page.go_back()
    assert hrefs(page) == everything
    page.get_by_role("link", name="Why this result").first.click()
    page.wait_for_url("**/why?*")
    assert page.locator("meter").count() > 0
    follow(page, page.get_by_role("link", name="Back to the results"))
    assert hrefs(page) == everything
    assert complaints == []


def test_the_keyboard_reaches_everything(opened, complaints):
    page = opened(viewport=DESK)
    page.route("http://*.br.test/**", lambda route: route.fulfill(body="arrived", content_type="text/plain"))
    page.goto("/?q=rede")
    links = hrefs(page)
    page.keyboard.press("/")
    assert focused(page) == "q"
    page.keyboard.type("mar/rio")
    assert page.locator("#q").input_value() == "mar/rio", "the slash is a letter there"
    page.keyboard.press("Escape")
    for keys, place in (("ArrowDown", 0), ("ArrowDown", 1), ("j", 2), ("k", 1), ("ArrowUp", 0)):
        page.keyboard.press(keys)
        assert focused(page) == links[place]
    page.keyboard.press("ArrowUp")
    assert focused(page) == "q", "above the first result is the box"
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Escape")
    assert focused(page) == "q"
    page.keyboard.press("ArrowDown")
    page.keyboard.press("j")
    page.keyboard.press("Enter")
    page.wait_for_url(links[1])
    assert page.locator("body").inner_text() == "arrived"
    assert complaints == []


def test_suggestions_come_while_typing_and_can_be_taken_with_the_keyboard(opened, complaints):
    page = opened(viewport=DESK)
    page.goto("/")
    page.locator("#q").fill("pesc")  # at once: whoever is slow between two letters sees what half a word brings
    offers = page.get_by_role("option")
    offers.first.wait_for()
    texts = offers.all_inner_texts()
    assert "pescador" in texts
    assert all(text.startswith("pesc") for text in texts)
    assert violations(page) == []
    assert page.locator("#q").get_attribute("aria-expanded") == "true"
    page.keyboard.press("ArrowDown")
    assert page.locator("#q").get_attribute("aria-activedescendant") == "offer-0"
    page.keyboard.press("ArrowUp")
    page.keyboard.press("Escape")
    assert offers.count() == 0
    page.locator("#q").press_sequentially("a")
    offers.first.wait_for()
    chosen = offers.first.inner_text()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    page.wait_for_url(f"**/?q={chosen}")
    assert page.locator("ol.hits > li").count() > 0
    assert complaints == []


def test_menus_close_and_switches_count_at_once(opened, complaints):
    page = opened(viewport=DESK)
    page.goto("/?q=only31+only32&sort=date")
    language, options = page.locator("details.menu").first, page.locator("details.menu").last
    language.locator("summary").click()
    options.locator("summary").click()
    assert [menu.get_attribute("open") for menu in (language, options)] == [None, ""], "one at a time"
    page.keyboard.press("Escape")
    assert options.get_attribute("open") is None
    options.locator("summary").click()
    page.mouse.click(5, 600)
    assert options.get_attribute("open") is None
    page.get_by_label("All words").check()
    page.wait_for_url("**all=1**")
    assert "sort=date" in page.url
    assert page.get_by_text("No page holds all of the words").count() == 1
    page.locator("details.menu").last.locator("summary").click()
    page.get_by_label("Prefer recent pages").check()
    page.wait_for_url("**recent=1**")
    assert complaints == []


def test_everything_works_without_javascript(opened):
    page = opened(java_script_enabled=False, viewport=DESK)
    page.goto("/")
    page.locator("#q").fill("only31 only92")
    page.get_by_role("button", name="Search").click()
    page.wait_for_url("**/?q=*")
    assert page.locator("ol.hits > li").count() == 2
    page.get_by_text("Language: Any language").click()
    page.get_by_role("link", name="Portuguese").click()
    page.wait_for_url("**lang=pt")
    assert page.locator("ol.hits > li").count() == 1
    follow(page, page.get_by_role("link", name="Clear filters"))
    page.get_by_text("Date: Any time").click()
    page.get_by_label("Before").fill("2026-09-23")
    page.get_by_role("button", name="Apply").click()
    page.wait_for_url("**before=2026-09-23")
    assert page.locator("ol.hits > li").count() == 1
    page.get_by_text("Options").click()
    page.get_by_label("Show every copy").check()
    page.locator("noscript").get_by_role("button").click()
    page.wait_for_url("**copies=1**")
    assert "before=2026-09-23" in page.url
    page.get_by_label("All words").check()
    page.get_by_role("button", name="Search").click()
    page.wait_for_url("**all=1**")
    assert page.get_by_text("No page holds all of the words").count() == 1
    page.goto(f"/page?url={url_of(0)}")
    assert page.locator("#out .links li").count() > 0


def test_copies_open_and_close_without_javascript(opened, complaints):
    page = opened(java_script_enabled=False, viewport={"width": 1100, "height": 900})
    page.goto("/?q=espelho")
    assert page.locator("ol.hits > li").count() == 3
    page.get_by_role("link", name="and 3 copies").click()
    page.wait_for_url("**like=*")
    assert page.locator("ol.hits > li").count() == 4
    picture(page, "copies-alike")
    follow(page, page.get_by_role("link", name="Back to all results"))
    page.get_by_role("link", name="Show every copy").click()
    page.wait_for_url("**copies=1")
    assert page.locator("ol.hits > li").count() == 7
    follow(page, page.get_by_role("link", name="Show copies as one"))
    assert page.locator("ol.hits > li").count() == 3
    assert complaints == []


PAGES = {
    "home": "/",
    "results": "/?q=rede+net&page=2",
    "narrowed": "/?q=rede&lang=pt&sort=links&after=2020-01-01&natural=1",
    "copies": "/?q=espelho",
    "alike": "/?q=espelho&like=http://m0.test/",
    "hostile": "/?q=zaragata",
    "nothing": "/?q=xyzzyxyzzy&lang=en",
    "related": f"/?related={url_of(0)}",
    "relations": f"/page?url={url_of(0)}",
    "site": "/site?name=br.test",
    "why": f"/why?q=rede&url={url_of(0)}",
    "status": "/status",
    "help": "/help",
    "problem": "/?q=-x",
}


def test_on_a_phone_nothing_sticks_out_in_either_language(opened, complaints):
    page = opened(viewport=PHONE, device_scale_factor=2)
    for name, path in PAGES.items():
        page.goto(f"{path}{'&' if '?' in path else '?'}hl={'pt' if len(name) % 2 else 'en'}")
        assert fits(page), path
        picture(page, f"phone-{name}")
        for menu in page.locator("details.menu summary").all():
            menu.click()
            assert fits(page), f"an open menu of {path}"
    assert all("400" in said for said in complaints), "the browser reports the status of a bad query, and nothing else"


def test_in_the_dark(opened, complaints):
    page = opened(color_scheme="dark", viewport={"width": 1100, "height": 800})
    page.goto("/?q=rede+net")
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(16, 23, 26)"
    picture(page, "dark-results")
    page.goto("/")
    page.locator("summary").click()
    picture(page, "dark-home")
    assert complaints == []


def test_the_page_speaks_the_browsers_language_until_another_is_chosen(opened, complaints):
    page = opened(locale="pt-BR", viewport=DESK)
    page.goto("/?q=rede")
    assert re.search(r"\d páginas em \d+,\d{3} s", page.locator(".count").inner_text())
    follow(page, page.get_by_role("link", name="English"))
    assert re.search(r"\d pages in \d+\.\d{3} s", page.locator(".count").inner_text())
    page.goto("/")
    assert page.locator("html").get_attribute("lang") == "en", "a cookie remembers it"
    follow(page, page.get_by_role("link", name="Português"))
    page.locator("#q").fill("rede")
    follow(page, page.get_by_role("button", name="Buscar"))
    assert "páginas em" in page.locator(".count").inner_text()
    assert complaints == []


@cache
def axe() -> str:
    return AXE.read_text()


def violations(page: Any, *rules: str) -> list[str]:
    """What axe-core finds fault with."""
    page.evaluate(axe())
    wanted = {"runOnly": {"type": "rule", "values": rules}} if rules else {}
    found = page.evaluate("options => axe.run(document, {...options, resultTypes: ['violations']})", wanted)
    return [f"{one['id']}: {node['html'][:120]}" for one in found["violations"] for node in one["nodes"]]


def test_axe_finds_no_fault(opened):
    page = opened(viewport=DESK)
    for name in ("home", "narrowed", "copies", "relations", "site", "why", "help"):
        page.goto(f"{PAGES[name]}{'&' if '?' in PAGES[name] else '?'}hl={'pt' if len(name) % 2 else 'en'}")
        page.evaluate("for (const menu of document.querySelectorAll('details')) menu.open = true")
        assert violations(page) == [], name


def test_axe_finds_the_contrast_good_in_the_dark_too(opened):
    page = opened(color_scheme="dark", viewport=PHONE)
    for name in ("narrowed", "copies", "relations"):
        page.goto(PAGES[name])
        assert violations(page, "color-contrast", "link-in-text-block", "target-size") == [], name


def test_a_hostile_page_runs_nothing(opened, complaints):
    page = opened()
    page.on("dialog", lambda dialog: complaints.append(dialog.message))
    page.goto("/?q=zaragata")
    assert page.locator("ol.hits > li").count() == 1
    assert "<script>" in page.locator("ol.hits h2").inner_text()
    page.get_by_role("link", name="Relations of").click()
    page.wait_for_url("**/page?url=*")
    assert page.locator("main script, main img").count() == 0
    assert complaints == []
