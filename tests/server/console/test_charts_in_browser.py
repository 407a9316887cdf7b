"""What a person sees of curves: the time that was chosen, whole, and nothing where nothing was seen."""

import json
from typing import Any

import pytest

from tests.server.auth.test_login_in_browser import browser, page_of, sign_in  # noqa: F401 (fixtures)
from tests.server.console.coordinator_site import NAME
from tests.server.console.example_console import ADMIN
from tests.server.test_search_in_browser import CHROMIUM, fits

pytestmark = pytest.mark.skipif(not CHROMIUM.exists(), reason=f"no {CHROMIUM}: install Debian's chromium")

NOW = 1_800_000_000.0  # 08:00 UTC
KEEP_PLOTS = """window.plots = [];
Object.defineProperty(window, "uPlot", { get() { return this.kept; }, set(made) {
  this.kept = function (...how) { const plot = new made(...how); window.plots.push(plot); return plot; };
} });"""
FIRST = (
    "(() => { const plot = plots[0], { min, max } = plot.scales.x; return [min, max, plot.data[0], plot.data[1]]; })()"
)
TICKS = "plots[0].axes[0]._values"


def plotted(page: Any, span: str, span_s: int, moments: list[float]) -> Any:
    """The page of a collection with samples of these moments."""
    told = {"samples": [{"at": at, "pages_per_s": 1.0} for at in moments], "since": NOW - span_s, "until": NOW}
    page.add_init_script(KEEP_PLOTS)
    page.route("**/samples.json*", lambda route: route.fulfill(body=json.dumps(told), content_type="application/json"))
    page.route("**/live", lambda route: route.abort())
    page.goto(f"/console/c/{NAME}?span={span}")
    sign_in(page, *ADMIN)
    page.wait_for_function("() => window.plots.length > 3")  # an expression would need eval, which is not allowed
    return page.evaluate(FIRST)


def test_a_crawl_that_has_just_begun_is_seen_from_its_beginning_on(page_of: Any, furnished: Any) -> None:  # noqa: F811
    page = page_of(furnished, locale="en-US", timezone_id="UTC")
    assert plotted(page, "15m", 900, [NOW - 100 + n for n in range(100)])[:2] == [NOW - 100, NOW]


def test_a_time_without_samples_is_a_gap_and_the_axis_has_the_whole_span(page_of: Any, furnished: Any) -> None:  # noqa: F811
    page = page_of(furnished, locale="en-US", timezone_id="UTC")
    minutes, seconds = [NOW - 3_000 + 60 * n for n in range(5)], [NOW - 100, NOW - 99, NOW - 98, NOW - 40, NOW - 39]
    low, high, at, values = plotted(page, "3h", 10_800, minutes + seconds)
    assert (low, high) == (NOW - 10_800, NOW)
    gaps = [place for place, value in enumerate(values) if value is None]
    assert gaps == [5, 9], "after the minutes, and between two seconds that are a minute apart"
    assert minutes[-1] < at[5] < seconds[0]
    assert page.evaluate(TICKS) == ["05:00", "06:00", "07:00", "08:00"]
    chosen = page.locator(".act[aria-current]")
    assert chosen.inner_text() == "3 hours"
    assert chosen.evaluate("one => getComputedStyle(one).fontWeight") == "600"


def test_all_columns_of_the_nodes_fit_a_small_desk(page_of: Any, furnished: Any) -> None:  # noqa: F811
    page = page_of(furnished, viewport={"width": 1280, "height": 800})
    page.goto("/console/nodes")
    sign_in(page, *ADMIN)
    table = page.locator("table.nodes")
    assert table.evaluate("one => one.scrollWidth <= one.parentElement.clientWidth")
    assert fits(page)
