"""A person searches, follows the link to the SPARQL of the search, and asks it; in two languages, with and without
scripts."""

from collections.abc import Iterator
from typing import Any

import pytest

from tests.server.auth.test_login_in_browser import browser, page_of  # noqa: F401 (fixtures)
from tests.server.conftest import RunningSite
from tests.server.entity_pages import crawled_entity_pages
from tests.server.test_search_in_browser import CHROMIUM, picture, violations

pytestmark = pytest.mark.skipif(not CHROMIUM.exists(), reason=f"no {CHROMIUM}: install Debian's chromium")

TEXT = '"agenda 7" OR <b>agenda</b>'


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningSite]:
    with RunningSite(crawled_entity_pages(tmp_path_factory.mktemp("matches") / "data")) as running:
        yield running


@pytest.mark.parametrize(
    ("language", "link", "ask"),
    [
        ("en", "SPARQL: what these pages state", "Ask"),
        ("pt", "SPARQL: o que estas páginas declaram", "Perguntar"),
    ],
)
def test_from_a_search_to_what_its_pages_state(
    page_of: Any,  # noqa: F811
    site: RunningSite,
    language: str,
    link: str,
    ask: str,
) -> None:
    page = page_of(site)
    page.goto(f"/?hl={language}")
    page.locator("input[name=q]").fill(TEXT)
    page.keyboard.press("Enter")
    picture(page, f"search-sparql-{language}")
    page.get_by_role("link", name=link).click()
    page.locator(".CodeMirror").wait_for()  # before, the button would send the form without the editor
    page.get_by_role("button", name=ask, exact=True).click()
    page.locator("#yasr table tbody tr").filter(has_text="agenda.test").first.wait_for()
    assert page.locator("#said").inner_text() == ""
    picture(page, f"sparql-of-search-{language}")
    assert page.complaints == []
    assert violations(page) == []


def test_without_scripts_the_query_is_in_the_box(page_of: Any, site: RunningSite) -> None:  # noqa: F811
    page = page_of(site, java_script_enabled=False)
    page.goto("/?q=agenda")
    page.get_by_role("link", name="SPARQL: what these pages state").click()
    assert '?page tarrafa:matches "agenda" .' in page.locator("#query").input_value()
