"""A person with a browser looks for things: vocabulary, class, property, words; opens one, and the page that says so;
without JavaScript, with the keyboard, on a phone, in the dark, in two languages, and as axe-core sees it."""

from collections.abc import Iterator
from typing import Any

import pytest

from tests.server.conftest import RunningSite
from tests.server.entity_pages import crawled_entity_pages
from tests.server.test_search_in_browser import (
    CHROMIUM,
    DESK,
    PHONE,
    browser,  # noqa: F401 (a fixture)
    fits,
    focused,
    follow,
    opening,
    picture,
    violations,
)

pytestmark = pytest.mark.skipif(not CHROMIUM.exists(), reason=f"no {CHROMIUM}: install Debian's chromium")

PAGES = {
    "data": "/data",
    "chosen": "/data?vocabulary=schema&class=schema:Event&not=schema:Place&q=redes&where=schema:startDate%3E%3D2026-02"
    "&where=schema:offers&collection=small",
    "names": "/data?list=classes&filter=kind",
    "nothing": "/data?class=schema:Event&q=xyzzy",
    "bad-faith": "/data?class=schema:CreativeWork",
    "thing": "/thing?key=http://gente.test/%23ana",
    "bad-thing": "/thing?key=http://mau.test/%23coisa",
    "declares": "/page?url=http://gente.test/",
    "hits": "/?q=type:schema:Event",
}


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningSite]:
    with RunningSite(crawled_entity_pages(tmp_path_factory.mktemp("things") / "data")) as running:
        yield running


@pytest.fixture
def trouble() -> list[str]:
    """Errors, dialogs, what the policy refused, and requests that left for elsewhere."""
    return []


@pytest.fixture
def opened(browser: Any, site: RunningSite, trouble: list[str]) -> Iterator[Any]:  # noqa: F811
    def watch(page: Any) -> None:
        page.on("console", lambda it: trouble.append(it.text) if it.type == "error" else None)
        page.on("pageerror", lambda error: trouble.append(str(error)))
        page.on("dialog", lambda dialog: trouble.append(dialog.message) or dialog.dismiss())  # type: ignore[func-returns-value]
        page.on("request", lambda it: None if it.url.startswith(site.address) else trouble.append(it.url))

    with opening(browser, site.address, watch) as open_page:
        yield open_page


@pytest.mark.parametrize("script", [True, pytest.param(False, marks=pytest.mark.long)], ids=["", "without-javascript"])
def test_from_a_vocabulary_to_the_page_that_says_so(opened, trouble, script):
    page = opened(viewport=DESK, java_script_enabled=script)
    page.goto("/")
    page.get_by_role("link", name="Things").click()
    page.wait_for_url("**/data")
    panel = page.get_by_role("navigation", name="What to look for")
    panel.get_by_role("link", name="schema", exact=True).click()
    page.wait_for_url("**vocabulary=schema*")
    panel.get_by_role("link", name="Event schema:Event").click()
    page.wait_for_url("**class=schema*")
    assert "24 things" in page.locator(".count").inner_text()
    panel.get_by_role("link", name="name schema:name").click()
    page.wait_for_url("**where=schema*")
    page.get_by_label("name", exact=True).fill("canoas")
    page.keyboard.press("Enter")
    page.wait_for_url("**value=canoas*")
    assert "5 things" in page.locator(".count").inner_text()
    panel.locator("#properties summary").click()
    panel.get_by_role("link", name="start date schema:startDate").click()
    page.wait_for_url("**startDate*")
    page.get_by_label("Compare start date").select_option(">=")
    page.get_by_label("start date", exact=True).fill("2026-07")
    page.get_by_role("button", name="Apply").click()
    page.wait_for_url("**value=2026-07*")
    assert "3 things" in page.locator(".count").inner_text()
    picture(page, "things")
    page.get_by_role("link", name="Noite das canoas 8").click()
    page.wait_for_url("**/thing?key=*")
    assert page.locator("dl.said").first.inner_text().startswith("name")
    page.get_by_role("link", name="http://agenda.test/8").click()
    page.wait_for_url("**/page?url=*")
    assert page.locator("h1").inner_text() == "Agenda 8"
    page.get_by_role("link", name="Noite das canoas 8").click()
    page.wait_for_url("**/thing?key=*")
    assert trouble == []


def test_not_this_class_and_taking_it_back(opened, trouble):
    page = opened(viewport=DESK)
    page.goto("/data?vocabulary=schema")
    panel = page.get_by_role("navigation", name="What to look for")
    panel.get_by_role("link", name="not this: Person").click()
    page.wait_for_url("**not=schema*")
    badges = page.locator("ol.hits h2 .badge").all_inner_texts()
    assert badges
    assert "Person" not in badges
    follow(page, page.get_by_role("link", name="Take away: not Person"))
    assert "/data?vocabulary=schema" in page.url
    assert "not=" not in page.url
    assert trouble == []


@pytest.mark.long
def test_a_class_among_many_is_found_by_a_part_of_its_name(opened, trouble):
    page = opened(viewport=DESK)
    page.goto("/data")
    page.locator("#classes").get_by_label("Part of a name").fill("kind29")
    page.keyboard.press("Enter")
    page.wait_for_url("**list=classes*")
    page.locator(".columns").get_by_role("link", name="Kind297").first.click()
    page.wait_for_url("**class=*")
    assert page.locator("ol.hits h2").inner_text().startswith("valor 297")
    assert trouble == []


@pytest.mark.long
def test_the_keyboard_goes_over_things(opened, trouble):
    page = opened(viewport=DESK)
    page.goto("/data?class=schema:Product")
    page.keyboard.press("/")
    assert focused(page) == "q"
    page.keyboard.press("ArrowDown")
    assert "/thing?key=" in focused(page)
    page.keyboard.press("Enter")
    page.wait_for_url("**/thing?key=*")
    page.goto("/data?class=schema:Product&where=schema:price")
    page.keyboard.type("14")
    page.keyboard.press("Enter")
    page.wait_for_url("**value=14*")
    assert page.locator("ol.hits > li").count() == 1
    assert trouble == []


@pytest.mark.long
def test_on_a_phone_nothing_sticks_out_in_either_language(opened, trouble):
    page = opened(viewport=PHONE, device_scale_factor=2)
    for name, path in PAGES.items():
        page.goto(f"{path}{'&' if '?' in path else '?'}hl={'pt' if len(name) % 2 else 'en'}")
        page.evaluate("for (const menu of document.querySelectorAll('details')) menu.open = true")
        assert fits(page), path
        picture(page, f"phone-things-{name}")
    assert trouble == []


def test_axe_finds_no_fault(opened):
    page = opened(viewport=DESK)
    for name in ("chosen", "names", "bad-faith", "thing"):
        page.goto(f"{PAGES[name]}&hl={'en' if len(name) % 2 else 'pt'}")
        page.evaluate("for (const menu of document.querySelectorAll('details')) menu.open = true")
        assert violations(page) == [], name


@pytest.mark.long
def test_axe_finds_no_fault_with_the_others_either(opened):
    page = opened(viewport=DESK)
    for name, path in PAGES.items():
        page.goto(path)
        page.evaluate("for (const menu of document.querySelectorAll('details')) menu.open = true")
        assert violations(page) == [], name
        picture(page, f"things-{name}")


@pytest.mark.long
def test_axe_finds_the_contrast_good_in_the_dark_too(opened):
    page = opened(color_scheme="dark", viewport=PHONE)
    for name in ("data", "chosen", "thing", "names"):
        page.goto(PAGES[name])
        assert violations(page, "color-contrast", "link-in-text-block", "target-size") == [], name


def test_nothing_hostile_is_run_or_asked_for(opened, trouble):
    page = opened(viewport=DESK)
    for name in ("bad-faith", "bad-thing"):
        page.goto(PAGES[name])
        assert page.locator("main script, main img").count() == 0
        assert "<script>alert(1)</script>" in page.locator("main").inner_text()
    assert trouble == []
