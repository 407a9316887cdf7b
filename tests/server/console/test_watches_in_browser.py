"""Watches in a browser: added without JavaScript; on a phone, in the dark, and as assistive technology sees it."""

from typing import Any

import pytest

from tarrafa.captures.reader import CapturesReader
from tests.server.auth.test_login_in_browser import browser, page_of, sign_in  # noqa: F401 (fixtures)
from tests.server.console.example_console import ADMIN
from tests.server.test_search_in_browser import CHROMIUM, PHONE, fits, picture, violations
from tests.wait import block_until

pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(not CHROMIUM.exists(), reason=f"no {CHROMIUM}: install Debian's chromium"),
]
PAGE = "http://www.site.test/a"


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_page_is_watched_from_its_own_page(page_of: Any, furnished: Any, scheme: str) -> None:  # noqa: F811
    block_until(lambda: len(CapturesReader(furnished.data).captures_of(PAGE)) > 0)
    page = page_of(furnished, java_script_enabled=False, color_scheme=scheme, viewport=PHONE)
    page.goto("/console/watches?hl=en")
    sign_in(page, *ADMIN)
    page.goto(f"/page?url={PAGE}&hl=en")
    page.get_by_role("link", name="Watch", exact=True).click()
    assert page.get_by_label("URL, name of a site or host, or search").input_value() == PAGE
    page.get_by_label("Mail to").fill("reader@example.br")
    page.get_by_role("button", name="Add a watch").click()
    page.get_by_role("link", name="Atom").first.wait_for()
    assert "reader@example.br" in page.locator("table").inner_text()
    assert fits(page)
    picture(page, f"watches-{scheme}")
    page.get_by_role("button", name=f"Remove the watch of {PAGE}").click()
    page.get_by_text("Nothing yet.").wait_for()
    assert furnished.program().get("/api/v1/watches").json == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_no_fault_with_watches_and_comparisons(page_of: Any, furnished: Any, scheme: str) -> None:  # noqa: F811
    block_until(lambda: len(CapturesReader(furnished.data).captures_of(PAGE)) > 0)
    made = furnished.program().send("POST", "/api/v1/watches", {"kind": "site", "what": "site.test"}).json
    page = page_of(furnished, color_scheme=scheme, viewport=PHONE)
    try:
        page.goto("/console/watches?hl=en")
        sign_in(page, *ADMIN)
        page.get_by_role("link", name="Atom").first.wait_for()
        for path in ("/console/watches?hl=pt", f"/diff?url={PAGE}&from=2026&to=2027&hl=en"):
            page.goto(path)
            assert violations(page) == []
            assert fits(page)
    finally:
        furnished.program().ask("DELETE", f"/api/v1/watches/{made['number']}")
