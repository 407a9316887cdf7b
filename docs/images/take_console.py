"""Takes the pictures of the console: `make screenshots`. A node crawls a synthetic Web meanwhile."""

import re
import subprocess
import sys
import tempfile
from pathlib import Path

from playwright.sync_api import Browser, Page, sync_playwright

from tarrafa.testweb.http.web_process import start_process
from tarrafa.testweb.world.hosts import World

HERE = Path(__file__).parent
CHROMIUM = "/usr/bin/chromium"
PAGES_SEEN = 1_500  # by then the curves have something to show
DESK, PHONE = {"width": 1280, "height": 980}, {"width": 390, "height": 844}
COLLECTION = {
    "name": "bibliotecas",
    "roots": "http://h0001.br.test/",
    "scope.hosts": "*.test",
    "politeness.delay": "150 ms",
}


def describe(page: Page, connect_to: str) -> None:
    page.goto("/console/new")
    page.evaluate("document.querySelectorAll('details').forEach((one) => { one.open = true; })")
    suffixes = "br.test\npt.test\ncom.test"
    network = {"network.connect_to": f"*.test = {connect_to}", "network.suffixes": suffixes}
    for name, text in (COLLECTION | network).items():
        page.locator(f'[name="{name}"]').fill(text)
    page.get_by_role("button", name="Create and start").click()
    page.wait_for_function(
        "(seen) => Number(document.querySelector('#numbers .tiles dd').firstChild.data.replace(/,/g, '')) > seen",
        arg=PAGES_SEEN,
        timeout=120_000,
    )


def take(browser: Browser, address: str, connect_to: str) -> None:
    page = browser.new_context(base_url=address, viewport=DESK).new_page()
    describe(page, connect_to)
    page.screenshot(path=HERE / "console.png")
    page.goto("/console")
    page.wait_for_timeout(2_000)  # so that the page was brought up to date
    page.screenshot(path=HERE / "console-nodes.png")
    page.goto("/console/new?preset=country&root=https://www.example.br/&contact=https://example.br/crawl")
    page.screenshot(path=HERE / "console-new.png")
    look = {"viewport": PHONE, "device_scale_factor": 1.5, "color_scheme": "dark", "locale": "pt-BR"}
    phone = browser.new_context(base_url=address, **look).new_page()
    phone.goto(f"/console/c/{COLLECTION['name']}")
    phone.wait_for_timeout(2_000)
    phone.screenshot(path=HERE / "console-phone.png")


def main() -> None:
    with tempfile.TemporaryDirectory() as folder, start_process(World(1, hosts=40, pages=6_000)) as web:
        line = [sys.executable, "-c", "from tarrafa.cli import main; main()", "node", "--data", f"{folder}/d"]
        node = subprocess.Popen([*line, "--port", "0", "--name", "praia"], stderr=subprocess.PIPE, text=True)
        try:
            assert node.stderr is not None
            found = next(found for text in node.stderr if (found := re.search(r"search page: (\S+)/", text)))
            with sync_playwright() as driver:
                browser = driver.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
                take(browser, found[1], web.connect_to)
                browser.close()
        finally:
            node.terminate()
            node.wait()


if __name__ == "__main__":
    main()
