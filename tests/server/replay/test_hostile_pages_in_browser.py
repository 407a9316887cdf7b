"""Hostile archived pages in a real browser: they reach neither this site nor the live Web nor another port, and their
frame holds them. What a page cannot do is seen from outside: by servers that count who comes, and by the page that has
the frame."""

import json
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.captures.archived_site import FIRST_AT
from tests.server.replay.browser_site import (
    AT,
    DEMO,
    JS,
    WAIT_MS,
    Listener,
    ReplayedSite,
    archive,
    browser,
    frame_of,
    live_web,
    needs_browser_and_wabac,
    served,
    write_demo,
)

__all__ = ["browser", "live_web"]
pytestmark = pytest.mark.skipif(bool(needs_browser_and_wabac()), reason=needs_browser_and_wabac())

EVIL, SCRIPT = "http://evil.test/", "http://evil.test/x.js"
# One page for all attacks: the fragment of its address says which one.
PAGE = Path(__file__).with_name("hostile_page.html").read_text()
ATTACKS = (
    "fetch", "credentials", "bare_fetch", "parts", "html", "hints", "sockets", "worker", "form", "top", "back",
    "cookies", "messages", "rtc", "workers", "collection", "redirect",
    "leave",
)  # fmt: skip
LEAVING = frozenset({"form", "top", "back", "leave"})  # after which the page may be gone


class Outside(NamedTuple):
    """Who must hear nothing."""

    site: ReplayedSite
    live: Listener
    other: Listener
    datagrams: Listener


@pytest.fixture(scope="module")
def outside(tmp_path_factory: pytest.TempPathFactory, live_web: Listener) -> Iterator[Outside]:
    from tarrafa.server.replay.wabac_package import VERSION

    data, written = archive(tmp_path_factory.mktemp("hostile"))
    write_demo(written)
    script = f"/w/all/{AT}mp_/{SCRIPT}"
    page = PAGE.replace("SCRIPT", script).replace("VERSION", VERSION).replace("ATid_", f"{AT}id_")
    written.visit(EVIL, FIRST_AT, page.encode())
    written.visit(SCRIPT, FIRST_AT, b"self.onfetch = (event) => event.respondWith(new Response('owned'));", header=JS)
    written.visit(f"{EVIL}away", FIRST_AT, status=302, header="Location: http://live.test/attack")
    with Listener() as other, Listener(socket.SOCK_DGRAM, other.port) as datagrams, served(data, written) as site:
        yield Outside(site, live_web, other, datagrams)


def attack(page: Any, outside: Outside, name: str, form: str) -> str:
    """Let the hostile page into the frame; what it found out, if it is still there to say it."""
    site = outside.site
    page.goto(f"{site.address}/help?hl=en")
    page.goto(site.copy(DEMO, FIRST_AT))
    frame_of(page, "Version 0")
    address = f"{site.replay.origin}/w/all/{AT}{form}/{EVIL}#{name} {outside.other.port} {site.address}"
    page.evaluate("address => { document.querySelector('iframe.archived').src = address; }", address)
    said = ""
    if name not in LEAVING:
        done = page.frame_locator("iframe.archived").locator("#done").filter(has_text="attacked")
        said = done.inner_text()
    page.wait_for_timeout(500)  # for what comes late
    return said


@pytest.mark.parametrize("form", ["mp_", "id_"])
def test_a_hostile_page_reaches_nothing_and_stays_in_its_frame(outside: Outside, browser: Any, form: str) -> None:
    """`id_`: the page as it was served, without what wabac.js writes into it, and in the same origin. One attack after
    the other, in one profile: what one leaves behind is there for the next."""
    site = outside.site
    context = browser.new_context()
    context.add_cookies([{"name": "session", "value": "secret", "url": site.address}])
    page = context.new_page()
    page.set_default_timeout(WAIT_MS)
    answered: list[str] = []
    context.on("response", lambda response: answered.append(response.url))
    for name in ATTACKS:
        said = attack(page, outside, name, form)
        assert (name, *(one.heard for one in outside[1:])) == (name, [], [], [])
        assert (name, [url for url in answered if url.startswith(site.address) and "attack" in url]) == (name, [])
        assert (name, len(context.pages)) == (name, 1)
        assert (name, page.url.partition("?")[0]) == (name, f"{site.address}/copy")
        assert (name, page.title() == "owned", page.locator("#bar").count()) == (name, False, 1)
        assert page.locator("#bar img").count() == 0
        cookies = {(one["domain"], one["name"]): one["value"] for one in context.cookies()}
        assert (name, cookies["tarrafa.localhost", "session"]) == (name, "secret")
        assert "secret" not in said and "registered" not in said
        if name == "workers":
            assert set(json.loads(said.partition("workers: ")[2])) == {"refused"}
    page.goto(site.copy(DEMO, FIRST_AT))
    frame_of(page, "Version 0")
    with page.expect_response(f"**/{DEMO}picture.png") as response:
        page.reload()
    assert response.value.status == 200
    assert "default-src 'self'" in response.value.headers["content-security-policy"]
    assert frame_of(page, "Version 0").evaluate("document.body.dataset.ran") == "0"
    assert [one.heard for one in outside[1:]] == [[], [], []]
    context.close()


def test_the_attacks_would_be_heard(outside: Outside, browser: Any) -> None:
    """The same page from a server without a policy: each listener hears what the archive's page could not send."""
    context = browser.new_context()
    page = context.new_page()
    page.route("http://open.test/**", lambda route: route.fulfill(body=PAGE, content_type="text/html"))
    for name in ("parts", "rtc"):
        page.goto(f"http://open.test/?{name}#{name} {outside.other.port} {outside.site.address}")
        page.locator("#done").filter(has_text="attacked").wait_for()
    context.close()
    for listener in outside[1:]:
        assert listener.heard
        listener.heard.clear()
