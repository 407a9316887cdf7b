"""The demo's people, events and products are found as things and by SPARQL, by a person with a browser."""

import json
from typing import Any

import pytest

from tarrafa.runtime.data_dir import DataDirectory
from tests.journey.crawl_journey import tarrafa
from tests.server.conftest import RunningSite
from tests.server.test_search_in_browser import CHROMIUM, DESK, WAIT_MS, browser  # noqa: F401 (a fixture)

pytestmark = pytest.mark.skipif(not CHROMIUM.exists(), reason=f"no {CHROMIUM}: install Debian's chromium")
# Functions: an expression that is not true at once would be evaluated again, and these pages allow no eval.
ANSWERED = "() => document.getElementById('said').textContent !== document.getElementById('sparql').dataset.running"
SHOWN = "() => document.querySelectorAll('#yasr table tbody tr').length > 0"


def _a_job(site: RunningSite) -> str:
    """One that somebody on that Web has now: they change with its days."""
    told = json.loads(site.get("/data.json?class=schema:Person&n=50")[1])
    facts = [fact for thing in told["things"] for fact in thing["properties"]]
    return str(next(fact["text"] for fact in facts if fact["property"] == "https://schema.org/jobTitle"))


def test_people_events_and_products_of_the_demo_are_found_by_choosing_and_by_sparql(
    tmp_path: Any,
    browser: Any,  # noqa: F811
) -> None:
    done = tarrafa("demo", "--pages", "150", "--port", "0", "--data", tmp_path / "demo", "--exit")
    assert done.returncode == 0, done.stderr
    with RunningSite(DataDirectory(tmp_path / "demo")) as site:
        page = browser.new_context(base_url=site.address, viewport=DESK).new_page()
        page.set_default_timeout(WAIT_MS)
        for kind, name, words in (
            ("Person", "job title", _a_job(site)),
            ("Event", "start date", ""),
            ("Product", "sku", ""),
        ):
            page.goto("/data?vocabulary=schema")
            page.get_by_role("link", name=f"{kind} schema:{kind}").click()
            page.wait_for_url("**class=schema*")
            page.get_by_role("link", name=f"{name} schema:").click()
            page.wait_for_url("**where=*")
            page.get_by_label(name, exact=True).fill(words)
            page.get_by_role("button", name="Apply").click()
            page.wait_for_url("**value=*")
            assert page.locator("ol.hits > li").count() > 0, kind
            assert set(page.locator("ol.hits h2 .badge").all_inner_texts()) == {kind}
            page.locator("ol.hits h2 > a").first.click()
            page.wait_for_url("**/thing?key=*")
            page.locator(".saying h2 a").first.click()
            page.wait_for_url("**/page?url=*")
            assert page.locator("#things").count() == 1, "the page that says so declares it"
        things = json.loads(site.get("/data.json?class=schema:Event")[1])["total"]
        pages = json.loads(site.get("/search.json?q=type:schema:Event&copies=1&n=1")[1])["total"]
        assert things == pages > 5, "index and store, which know nothing of each other, agree"
        page.goto("/sparql")
        examples = page.locator(".examples a").all_inner_texts()
        assert len(examples) >= 6
        for name in examples:
            with page.expect_response("**/sparql*") as answer:
                page.get_by_role("link", name=name).click()
            assert answer.value.status == 200, name
            page.wait_for_function(ANSWERED)  # the page, not only the network, has it: until then the last table stands
            page.wait_for_function(SHOWN)
            assert page.locator("#said").inner_text() == "", name
