"""Takes the pictures of the search page: `make screenshots`. Crawls the demo first, into a folder of its own."""

import asyncio
import tempfile
from pathlib import Path
from typing import Any

from playwright.sync_api import Browser, Page, sync_playwright

from tarrafa.cli.demo import run_demo
from tarrafa.runtime.data_dir import DataDirectory
from tarrafa.server.http_server import serve

HERE = Path(__file__).parent
CHROMIUM = "/usr/bin/chromium"
PAGES = 1_500
DESK, PHONE = {"width": 1200, "height": 860}, {"width": 390, "height": 844}
SEARCH = "/?q=pescador+rede"
THINGS = "/data?class=schema:Event&where=schema:startDate%3E%3D2027-01"


def settled(page: Page) -> None:
    page.wait_for_load_state("networkidle")


def options(page: Page) -> None:
    page.locator("details.menu summary").last.click()


def unfolded(page: Page) -> None:
    page.locator("details.fold summary").nth(1).click()


def properties(page: Page) -> None:
    page.locator("#properties summary").click()


PICTURES: list[tuple[str, str, dict[str, Any], Any]] = [
    ("search", SEARCH, {"viewport": DESK}, settled),
    ("search-dark", f"{SEARCH}&lang=pt", {"viewport": DESK, "color_scheme": "dark"}, options),
    ("search-phone", SEARCH, {"viewport": PHONE, "device_scale_factor": 1.5, "locale": "pt-BR"}, settled),
    ("search-portuguese", "/", {"viewport": DESK, "locale": "pt-BR"}, settled),
    ("relations", "", {"viewport": {"width": 1200, "height": 1000}}, unfolded),
    ("why", "", {"viewport": {"width": 1200, "height": 520}}, settled),
    ("things", THINGS, {"viewport": DESK}, properties),
    ("things-phone", THINGS, {"viewport": PHONE, "device_scale_factor": 1.5, "locale": "pt-BR"}, settled),
]


def take(browser: Browser, address: str) -> None:
    page = browser.new_context(base_url=address).new_page()
    page.goto(SEARCH)
    paths = {
        name: page.get_by_role("link", name=label).first.get_attribute("href")
        for name, label in (("relations", "Relations of"), ("why", "Why this result"))
    }
    for name, path, look, prepare in PICTURES:
        page = browser.new_context(base_url=address, **look).new_page()
        page.goto(path or paths[name])
        prepare(page)
        page.mouse.move(0, 0)
        page.screenshot(path=HERE / f"{name}.png")
        page.close()


async def serving(data: DataDirectory) -> None:
    """Serve until the pictures are taken."""
    stop, ready = asyncio.Event(), asyncio.get_running_loop().create_future()
    task = asyncio.create_task(serve(data, port=0, stop=stop, on_ready=ready.set_result, note_queries=False))
    address = await ready
    await asyncio.to_thread(with_a_browser, address)
    stop.set()
    await task


def with_a_browser(address: str) -> None:
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu"])
        take(browser, address)
        browser.close()


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="t.") as folder:
        data = DataDirectory(Path(folder) / "d")
        if asyncio.run(run_demo(data, PAGES, 0, leave=True)) == 0:
            asyncio.run(serving(data))


if __name__ == "__main__":
    main()
