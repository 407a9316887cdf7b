"""A person opens the report from the disk: in light and in the dark, on a phone, and with assistive technology."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tarrafa.i18n import PORTUGUESE
from tarrafa.report import plots, writers
from tarrafa.report.report_builder import build_report
from tests.report.sample_archives import NAME, a_visit, an_archive
from tests.server.test_search_in_browser import ARGUMENTS, CHROMIUM, DESK, PHONE, WAIT_MS, fits, violations

playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
pytest.importorskip("matplotlib")
pytestmark = pytest.mark.skipif(not CHROMIUM.exists(), reason=f"no {CHROMIUM}: install Debian's chromium")
EVIL = "<script>document.title = 'broken'</script><img src=x onerror=alert(1)>"
STRICT = "default-src 'none'; style-src 'self'; img-src 'self'"


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    records = [
        a_visit(f"http://h{n % 9}.br/{n}", n * 60, depth=n % 4, length=n * 500, server=EVIL, elapsed_s=0.2)
        for n in range(1, 60)
    ]
    folder = tmp_path_factory.mktemp("report")
    data = an_archive(folder / "data", ("w1", list(records)))
    found = build_report(data, NAME)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(plots, "PLOTS", {name: plots.PLOTS[name] for name in ("statuses", "documents")})
        writers.write_report(found, PORTUGUESE, folder / "out")
    return folder / "out"


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with playwright.sync_playwright() as driver:
        running = driver.chromium.launch(executable_path=str(CHROMIUM), args=ARGUMENTS, timeout=WAIT_MS)
        yield running
        running.close()


@pytest.mark.parametrize(("scheme", "viewport", "paper"), [
    ("light", DESK, "rgb(251, 250, 247)"), ("dark", PHONE, "rgb(16, 23, 26)"),
])  # fmt: skip
def test_the_report_opens_from_the_disk_and_axe_finds_no_fault(written, browser, scheme, viewport, paper):
    context = browser.new_context(color_scheme=scheme, viewport=viewport)
    page, complaints = context.new_page(), []
    page.set_default_timeout(WAIT_MS)
    page.on("console", lambda message: complaints.append(message.text) if message.type == "error" else None)
    page.on("dialog", lambda dialog: complaints.append(dialog.message))
    page.goto((written / "report.html").as_uri())
    assert page.title() == "A Web de c"
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == paper
    assert fits(page)
    page.get_by_role("link", name="Programas dos servidores").click()
    assert "<script>" in page.locator("#software table").first.inner_text()
    assert page.locator("#time img").evaluate("async image => { await image.decode(); return image.naturalWidth }") > 0
    assert complaints == []
    assert violations(page) == []
    context.close()


def test_the_numbers_of_the_contents_stand_in_their_column(written, browser):
    context = browser.new_context(viewport=DESK)
    page = context.new_page()
    page.goto((written / "report.html").as_uri())
    lefts = [item.bounding_box()["x"] for item in page.locator(".contents li").all()]
    rights = [item.bounding_box()["x"] + item.bounding_box()["width"] for item in page.locator(".contents li").all()]
    columns = sorted(set(lefts))
    assert len(columns) >= 2, "the contents have columns"
    assert len(lefts) >= 14
    for column in columns[1:]:
        room = column - max(right for right in rights if right <= column)
        assert room >= 32, "two digits and a point, beside the column before"
    context.close()


def test_it_is_whole_under_a_policy_without_inline_styles_and_scripts(written, browser):
    context = browser.new_context(viewport=DESK)
    page, complaints = context.new_page(), []
    page.set_default_timeout(WAIT_MS)
    page.on("console", lambda message: complaints.append(message.text) if message.type == "error" else None)

    def answer(route: Any) -> None:
        path = written / route.request.url.removeprefix("http://report.test/")
        route.fulfill(path=path, headers={"Content-Security-Policy": STRICT, "Content-Type": KINDS[path.suffix]})

    page.route("http://report.test/**", answer)
    page.goto("http://report.test/report.html")
    assert page.locator("#time img").evaluate("async image => { await image.decode(); return image.naturalWidth }") > 0
    assert page.evaluate("getComputedStyle(document.querySelector('.study .contents')).borderRadius") != "0px"
    assert complaints == []
    context.close()


KINDS = {".html": "text/html; charset=utf-8", ".css": "text/css", ".svg": "image/svg+xml"}
