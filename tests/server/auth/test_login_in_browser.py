"""A person with a browser: signs in, mistypes, signs out, may only look; in the dark, on a phone, in two languages; and
as assistive technology sees it (axe-core)."""

import re
from collections.abc import Iterator
from typing import Any

import pytest

from tests.server.console.example_console import ADMIN, TOKEN, VIEWER, ExampleSite
from tests.server.test_search_in_browser import (
    ARGUMENTS,
    CHROMIUM,
    DESK,
    PHONE,
    WAIT_MS,
    fits,
    follow,
    picture,
    playwright,
    violations,
    wait_for_focus,
)

pytestmark = pytest.mark.skipif(not CHROMIUM.exists(), reason=f"no {CHROMIUM}: install Debian's chromium")


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with playwright.sync_playwright() as driver:
        running = driver.chromium.launch(executable_path=str(CHROMIUM), args=ARGUMENTS, timeout=WAIT_MS)
        yield running
        running.close()


@pytest.fixture
def page_of(browser: Any) -> Iterator[Any]:
    """Opens pages of a site, and closes them in the end."""
    contexts = []

    def open_page(site: ExampleSite, **options: Any) -> Any:
        context = browser.new_context(base_url=site.address, **({"viewport": DESK} | options))
        contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(WAIT_MS)
        page.complaints = []
        page.on("console", lambda said: page.complaints.append(said.text) if said.type == "error" else None)
        page.on("pageerror", lambda error: page.complaints.append(str(error)))
        return page

    yield open_page
    for context in contexts:
        context.close()


def sign_in(page: Any, name: str, password: str) -> None:
    page.get_by_label("Name").fill(name)
    page.get_by_label("Password").fill(password)
    follow(page, page.get_by_role("button", name="Sign in"))


def test_sign_in_with_a_mistake_look_around_and_sign_out(page_of, known):
    page = page_of(known)
    page.goto("/console/audit")
    page.wait_for_url("**/console/login?next=**")
    wait_for_focus(page, "name")
    picture(page, "login")
    sign_in(page, ADMIN[0], "not this one")
    alert = page.get_by_role("alert")
    assert alert.inner_text() == "The name or the password is wrong."
    assert page.get_by_label("Name").input_value() == ADMIN[0]
    assert page.get_by_label("Password").input_value() == ""
    wait_for_focus(page, "password")
    page.keyboard.type(ADMIN[1])
    page.keyboard.press("Enter")
    page.wait_for_url("**/console/audit")
    assert page.get_by_text("Signed in as ana").is_visible()
    assert page.get_by_role("row").count() >= 3
    picture(page, "audit")
    assert page.evaluate("document.cookie") == "", "no script can read it"
    page.get_by_role("button", name="Sign out").click()
    page.wait_for_url("**/console/login?out=1")
    assert page.get_by_role("status").inner_text() == "You are signed out."
    page.go_back()
    page.wait_for_url("**/console/login?next=**")
    refused = [said for said in page.complaints if "401" not in said]
    assert refused == [], "a mistake is a 401, and that is all"


def test_a_viewer_looks_and_is_refused_in_his_language(page_of, known):
    page = page_of(known)
    page.goto("/console/login")
    sign_in(page, *VIEWER)
    page.wait_for_url("**/console")
    assert page.get_by_text("may see everything").is_visible()
    page.goto("/console/audit")
    assert "vito may not do this" in page.get_by_role("alert").inner_text()
    page.goto("/console/audit?hl=pt")
    assert "vito não pode fazer isto" in page.get_by_role("alert").inner_text()


def test_a_form_on_a_page_elsewhere_does_nothing_though_the_browser_is_signed_in(page_of, known, data):
    """Another origin on the same machine gets the same cookies: ports do not count for them."""
    before = known.client(Authorization=f"Bearer {TOKEN}").get("/api/v1/notes").json
    page = page_of(known)
    page.goto("/console/login")
    sign_in(page, *ADMIN)
    page.wait_for_url("**/console")
    evil = f"""<form method=post action="{known.address}console/notes"><input name=title value=evil>
        <input name=csrf value=0><button>x</button></form>"""
    page.route("http://127.0.0.1:9/evil", lambda route: route.fulfill(body=evil, content_type="text/html"))
    page.goto("http://127.0.0.1:9/evil")
    page.get_by_role("button").click()
    page.wait_for_url("**/console/notes")
    assert "A page of another site sent this request" in page.get_by_role("alert").inner_text()
    assert known.client(Authorization=f"Bearer {TOKEN}").get("/api/v1/notes").json == before


def test_those_at_this_machine_use_the_forms_without_signing_in(page_of, data):
    with ExampleSite(data) as site:
        page = page_of(site)
        page.goto("/console")
        assert page.get_by_text("Signed in as local").is_visible()
        csrf = page.get_by_role("alert").inner_text().partition("csrf=")[2]
        page.evaluate(
            """csrf => { const form = document.createElement('form'); form.method = 'post';
            form.action = '/console/notes'; for (const [name, value] of [['title', 'mine'], ['csrf', csrf]]) {
            const field = document.createElement('input'); field.name = name; field.value = value; form.append(field); }
            document.body.append(form); form.submit(); }""",
            csrf,
        )
        page.get_by_role("alert").filter(has_text=re.compile(r"^\s*1 notes")).wait_for()
        assert page.complaints == []


def test_without_a_script_one_signs_in_all_the_same(page_of, known):
    page = page_of(known, java_script_enabled=False, viewport=PHONE)
    page.goto("/console/login")
    sign_in(page, *ADMIN)
    page.wait_for_url("**/console")
    assert page.goto("/console/audit").status == 200
    assert ADMIN[0] in page.locator(".me").inner_text()


CONTRAST = ("color-contrast", "link-in-text-block", "target-size")


@pytest.mark.parametrize(("scheme", "rules"), [("light", ()), ("dark", CONTRAST)])
def test_axe_finds_no_fault_with_the_sign_in_page(page_of, known, scheme, rules):
    page = page_of(known, color_scheme=scheme, viewport=PHONE if scheme == "dark" else DESK)
    page.goto("/console/login")
    sign_in(page, "ana", "not this one")
    page.get_by_role("alert").wait_for()
    assert violations(page, *rules) == []
    assert fits(page)
    picture(page, f"{scheme}-login")


@pytest.mark.long
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_no_fault_with_any_page_of_the_console(page_of, known, scheme):
    page = page_of(known, color_scheme=scheme, viewport=PHONE if scheme == "dark" else DESK)
    page.goto("/console/login")
    sign_in(page, *ADMIN)
    page.wait_for_url("**/console")
    for path in ("/console", "/console/audit", "/console/audit?hl=pt", "/api?hl=pt", "/api?hl=en"):
        page.goto(path)
        page.evaluate("for (const one of [...document.querySelectorAll('details')].slice(0, 3)) one.open = true")
        assert violations(page) == [], path
        assert fits(page), path
        picture(page, f"{scheme}{path.replace('/', '-').partition('?')[0]}")
    assert page.complaints == []
