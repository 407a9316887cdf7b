"""A person with a browser asks what pages state: by an example, by a query, without JavaScript, on a phone, in two
languages; nothing but this site is asked, and nothing hostile is run."""

from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

import pytest

from tarrafa.runtime.data_dir import DataDirectory
from tarrafa.triples.sparql_pool import SparqlLimits
from tests.server.conftest import RunningSite
from tests.server.test_search_in_browser import (
    CHROMIUM,
    DESK,
    PHONE,
    browser,  # noqa: F401 (a fixture)
    fits,
    opening,
    picture,
    violations,
)
from tests.triples.sample_store import filled, hostile_page, new_data, small_web

pytestmark = pytest.mark.skipif(not CHROMIUM.exists(), reason=f"no {CHROMIUM}: install Debian's chromium")
MOST = 40


@pytest.fixture(scope="module")
def endpoint(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningSite]:
    data = new_data(tmp_path_factory.mktemp("editor") / "data")
    filled(data, [*small_web(60), *hostile_page()])
    with RunningSite(data, sparql_limits=SparqlLimits(results=MOST)) as running:
        yield running


@pytest.fixture
def trouble() -> list[str]:
    """Errors of the page, dialogs, and requests that left for elsewhere."""
    return []


@pytest.fixture
def opened(browser: Any, endpoint: RunningSite, trouble: list[str]) -> Iterator[Any]:  # noqa: F811
    def watch(page: Any) -> None:
        page.on("pageerror", lambda error: trouble.append(str(error)))
        page.on("dialog", lambda dialog: trouble.append(dialog.message))
        page.on("request", lambda it: None if it.url.startswith(endpoint.address) else trouble.append(it.url))
        page.on(
            "console", lambda it: trouble.append(it.text) if "style-src" in it.text or "img-src" in it.text else None
        )

    with opening(browser, endpoint.address, watch) as open_page:

        def open_at(path: str = "/sparql", **options: Any) -> Any:
            page = open_page(**options)
            page.goto(path)
            return page

        yield open_at


def write(page: Any, query: str) -> None:
    page.evaluate("query => document.querySelector('.CodeMirror').CodeMirror.setValue(query)", query)


def rows(page: Any) -> Any:
    return page.locator("#yasr table tbody tr")


def test_an_example_is_one_click_and_a_query_one_key(opened, trouble):
    page = opened("/", viewport=DESK)
    page.get_by_role("link", name="SPARQL").click()
    page.wait_for_url("**/sparql")
    for name, found in (
        ("People and where they work", "pescadora"),
        ("Products by price", "Rede 59"),
        ("Who works where, as a graph", "Oficina"),
    ):
        page.get_by_role("link", name=name).click()
        rows(page).filter(has_text=found).first.wait_for()
    assert page.locator("#said").inner_text() == ""
    picture(page, "sparql")
    write(page, "SELECT ?answer { VALUES ?answer { 'quarenta e dois' } }")
    page.locator(".CodeMirror textarea").focus()
    page.keyboard.press("Control+Enter")
    rows(page).filter(has_text="quarenta e dois").wait_for()
    assert rows(page).count() == 1
    assert trouble == []


@pytest.mark.long
def test_what_was_left_out_and_what_is_wrong_is_said(opened, trouble):
    page = opened(viewport=DESK)
    write(page, "SELECT * { ?s ?p ?o }")
    page.get_by_role("button", name="Ask").click()
    page.get_by_text(f"Only the first {MOST} results are shown; there are more.").wait_for()
    write(page, "SELECT * { ?s ?p ")
    page.get_by_role("button", name="Ask").click()
    page.get_by_text("line 1, column 18: expected").wait_for()
    write(page, "SELECT * { SERVICE <http://example.org/> { ?s ?p ?o } }")
    page.get_by_role("button", name="Ask").click()
    page.get_by_text("SERVICE is not supported").wait_for()
    assert trouble == []


def test_what_pages_state_is_shown_and_never_run(opened, trouble):
    page = opened(viewport=DESK)
    write(page, "SELECT * { GRAPH <http://evil.test/> { ?s ?p ?o } }")
    page.get_by_role("button", name="Ask").click()
    rows(page).filter(has_text="<script>alert(1)</script>").first.wait_for()
    for link in page.locator("#yasr table tbody a", has_text="onmouseover").all()[:2]:
        link.hover()
    assert page.locator("#yasr img, #yasr script, #yasr [onmouseover], #yasr a[href^='javascript:']").count() == 0
    assert trouble == []


@pytest.mark.long
def test_without_javascript_the_form_and_the_examples_still_answer(opened, trouble):
    page = opened(viewport=DESK, java_script_enabled=False)
    page.locator("#query").fill("SELECT ?n { ?s schema:name ?n FILTER(?n = 'Festa 4') }")
    page.locator("noscript select").select_option("xml")
    with page.expect_download() as came:
        page.get_by_role("button", name="Ask").click()
    assert "<literal>Festa 4</literal>" in came.value.path().read_text()
    assert trouble == []


@pytest.mark.long
def test_on_a_phone_in_the_dark_and_in_portuguese_nothing_sticks_out(opened, trouble):
    page = opened(viewport=PHONE, locale="pt-BR", color_scheme="dark")
    assert fits(page)
    page.get_by_role("link", name="Tipos de coisas, e quantas").click()
    rows(page).first.wait_for()
    assert fits(page)
    picture(page, "phone-sparql")
    assert trouble == []


@pytest.mark.long
def test_axe_finds_no_fault_with_the_editor(opened):
    page = opened(viewport=DESK)
    page.get_by_role("link", name="Products by price").click()
    rows(page).first.wait_for()
    assert violations(page) == []


@pytest.mark.long
def test_where_nothing_was_crawled_the_page_says_so(browser, tmp_path):  # noqa: F811
    with RunningSite(new_data(tmp_path / "data")) as nothing:
        context = browser.new_context(base_url=nothing.address)
        page = context.new_page()
        page.goto("/sparql?hl=pt")
        assert page.get_by_text("Ainda não há o que perguntar").count() == 1
        page.get_by_role("link", name="Pessoas e onde trabalham").click()
        page.get_by_text("0 results").wait_for()
        context.close()


@pytest.mark.long
def test_a_link_can_carry_a_query(opened, endpoint):
    page = opened("/sparql#query=ASK%20%7B%7D", viewport=DESK)
    assert page.evaluate("document.querySelector('.CodeMirror').CodeMirror.getValue()") == "ASK {}"
    page.get_by_role("button", name="Ask").click()
    page.locator("#yasr").get_by_text("True").wait_for()


@pytest.mark.long
def test_parts_can_be_chosen(browser, tmp_path):  # noqa: F811
    data = new_data(tmp_path / "data", parts=2)
    filled(DataDirectory(data.root, "2-of-2"), small_web(9))
    with RunningSite(data) as divided:
        context = browser.new_context(base_url=divided.address)
        page = context.new_page()
        inner = "SELECT ?class WHERE { ?thing a ?class } ORDER BY ?class"
        page.goto(f"/sparql#query={quote(f'SELECT * WHERE {{ {{ {inner} }} }}')}")
        page.get_by_role("button", name="Ask").click()
        page.get_by_text("the store has 2 parts").wait_for()
        page.get_by_label("Part").select_option("2-of-2")
        page.get_by_role("button", name="Ask").click()
        rows(page).filter(has_text="Person").first.wait_for()
        context.close()
