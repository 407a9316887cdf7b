"""Decides which pages of a host are made by scripts, renders them in the browsers of a worker, and says what that took.

`auto` renders a page whose own text is short and which holds the root of an application: an element that a framework
fills, an element with a hyphen in its name (scripts define it) as the first one of the body, a script that is a module,
or a `noscript` that asks for JavaScript. A host where that has brought text is remembered: there, every page with such
a root is rendered. A host where it has only ever brought nothing, five times, is not tried again. `always` renders
every HTML page that has a script. A worker has a few browsers (`Renderer`), one for each page at a time, which are used
again.
Promises: what cannot be rendered is kept as it was fetched, with the reason; where there can be no browser, each page
says why, and the crawl goes on without. Directives of the fetched page (noindex, nofollow) hold for the rendered one.
As many pages at once as the collection says; a browser that is not used for a while is ended; one that has rendered
many pages is replaced.
"""

import asyncio
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from html import escape

from msgspec.structs import replace

from tarrafa.clock import boottime
from tarrafa.config import Collection
from tarrafa.crawl.render.browser import Browser, RenderUnavailable
from tarrafa.crawl.render.browser_requests import AnswerCache, BrowserRequests, HostMeans
from tarrafa.crawl.render.devtools import BrowserGone
from tarrafa.crawl.render.page_render import AnswerRequest, BrowserAnswer, PageRender, RenderedDocument
from tarrafa.crawl.worker.fetcher import user_agent
from tarrafa.crawl.worker.host_memory import HostMemory
from tarrafa.crawl.worker.parser_with_sandbox import ParseJob, ParseJobResult
from tarrafa.fetch.http_message import FetchResponse, ResponseHead
from tarrafa.i18n import Message, message
from tarrafa.model import Link, Page, RenderFacts, RobotsMeta
from tarrafa.parse.mime_types import HTML_TYPES
from tarrafa.parse.url import UrlIdentity, canonical, name_and_port

THIN_CHARS = 500  # of a page's own text: what a shell says while it loads, or to those without JavaScript
GAIN_CHARS = 100  # of text that scripts have added: the host is made by scripts
FRUITLESS_MAX = 5
LOOKED_AT_BYTES = 256 << 10  # where a root is looked for
PASSED_HEADERS = frozenset({"content-type", "content-security-policy", "content-language"})
PAGES_PER_BROWSER_MAX = 200
UNUSED_S_MAX = 30.0
UNAVAILABLE_S = 300.0  # after a failed start, the next attempt

_root = re.compile(
    rb"""<(?:div|main|section|body|article)\b[^>]{0,300}?\bid\s*=\s*["']?"""
    rb"""(?:app|root|__next|__nuxt|___gatsby|app-root|react-root|vue-app|q-app|svelte|main-app|application|mount)\b"""
    rb"""|<app-root\b|<body\b[^>]{0,300}>\s{0,300}<[a-z][a-z0-9]*-[a-z0-9-]|<[^>]{0,300}\bng-app\b|<script\b[^>]{0,300}\btype\s*=\s*["']?module\b"""
    rb"""|<noscript\b[^>]{0,200}>[^\x00]{0,400}?\bjava\s?script\b""",
    re.IGNORECASE,
).search
_script = re.compile(rb"<script\b", re.IGNORECASE).search
_head = re.compile(r"<head\b[^>]*>", re.IGNORECASE).search


@dataclass(frozen=True, slots=True)
class RenderedPage:
    """A rendering: facts for the record; and, if it succeeded, the document to be parsed and archived."""

    facts: RenderFacts
    body: bytes = b""
    asked: tuple[str, ...] = ()  # canonical URLs that the browser asked for, and whose responses are not archived yet


def holds_application(body: bytes) -> bool:
    """Whether a page holds the root of an application, which scripts fill."""
    return _root(body[:LOOKED_AT_BYTES]) is not None


def reason_to_render(
    collection: Collection, host_key: str, kind: str, body: bytes, page: Page, memory: HostMemory
) -> Message | str | None:
    """Why a page is rendered; None: it is not."""
    render = collection.render
    if kind not in HTML_TYPES or not collection.renders(*name_and_port(f"{host_key}/")) or not _script(body):
        return None
    if render.when == "always":
        return "[render] when = always"
    fruitful, fruitless = memory.rendered
    if (not fruitful and fruitless >= FRUITLESS_MAX) or not holds_application(body):
        return None
    if len(page.text) < THIN_CHARS:
        return message("little text ({chars} characters) and the root of an application", chars=len(page.text))
    return message("the root of an application, on a host whose pages scripts make") if fruitful else None


class Renderer:
    """One per worker; its browsers are started when they are first needed."""

    def __init__(self, hidden: tuple[str, ...] = ()) -> None:
        self._hidden = hidden
        self._idle: list[tuple[Browser, asyncio.TimerHandle]] = []
        self._busy: set[Browser] = set()
        self._freed = asyncio.Condition()
        self._unavailable: tuple[float, RenderUnavailable] | None = None

    async def render(
        self,
        url: str,
        document: BrowserAnswer,
        answer: AnswerRequest,
        user_agent: str,
        *,
        chars_max: int,
        time_max_s: float,
        at_once: int,
        on_start: Callable[[], None] = lambda: None,
    ) -> RenderedDocument:
        """Render a page when a browser is free; the time begins then."""
        async with self._freed:
            await self._freed.wait_for(lambda: len(self._busy) < at_once)
            browser = self._take()
        try:
            await self._ensure_started(browser)
            on_start()
            page = PageRender(browser, url, document, answer, user_agent, chars_max)
            return await page.run(time_max_s)
        except RenderUnavailable as error:
            return RenderedDocument(error=error.message)
        except BrowserGone:
            browser.kill()
            return RenderedDocument(error=message("the browser ended"))
        except BaseException:  # cancelled in the middle
            browser.kill()
            raise
        finally:
            self._busy.discard(browser)
            self._put_back(browser)
            async with self._freed:
                self._freed.notify()

    def _take(self) -> Browser:
        if self._idle:
            browser, timer = self._idle.pop()
            timer.cancel()
        else:
            browser = Browser(self._hidden)
        self._busy.add(browser)
        return browser

    async def _ensure_started(self, browser: Browser) -> None:
        if browser.is_running and browser.pages < PAGES_PER_BROWSER_MAX:
            return
        if self._unavailable is not None and boottime() < self._unavailable[0]:
            raise self._unavailable[1]
        try:
            await browser.start()
        except RenderUnavailable as error:
            self._unavailable = (boottime() + UNAVAILABLE_S, error)
            raise

    def _put_back(self, browser: Browser) -> None:
        if browser.is_running:
            timer = asyncio.get_running_loop().call_later(UNUSED_S_MAX, self._end_unused, browser)
            self._idle.append((browser, timer))

    def _end_unused(self, browser: Browser) -> None:
        self._idle = [one for one in self._idle if one[0] is not browser]
        browser.kill()

    def close(self) -> None:
        for browser, timer in self._idle:
            timer.cancel()
            browser.kill()
        for browser in self._busy:
            browser.kill()
        self._idle.clear()


class HostRender:
    """Renders pages of one host session."""

    def __init__(self, renderer: Renderer, kept: AnswerCache, means: HostMeans) -> None:
        self._renderer, self._kept, self._means = renderer, kept, means

    async def render(
        self, why: Message | str, url: str, response: FetchResponse, body: bytes, page: Page
    ) -> tuple[RenderedPage, BrowserRequests]:
        """Render the page that was fetched."""
        collection = self._means.polite_fetcher.collection
        config = collection.render
        requests = BrowserRequests(self._means, self._kept)
        document = BrowserAnswer(200, _passed_headers(response.head, page), body)
        found = await self._renderer.render(
            url,
            document,
            requests.answer,
            user_agent(collection),
            chars_max=int(collection.scope.size_max),
            time_max_s=float(config.time_max),
            at_once=config.pages_at_once,
            on_start=requests.begin,
        )
        facts = RenderFacts(
            why,
            round(found.elapsed_s, 3),
            len(page.text),
            tuple(requests.asked),
            requests.asked_total,
            tuple(found.moved_to),
            found.cut,
            found.error,
            found.memory_bytes,
        )
        if found.error:
            return RenderedPage(facts), requests
        body = _with_base(found, url).encode("utf-8", "replace")
        asked = dict.fromkeys(one for one in map(canonical, found.asked) if one and one not in {*requests.got, url})
        return RenderedPage(facts, body, tuple(asked)), requests


def rendered_job(job: ParseJob, body: bytes) -> ParseJob:
    """The job that parses a rendered document instead of the fetched one."""
    return replace(job, body=body, content_type="text/html; charset=utf-8")


def merge_fetched(
    fetched: Page, made: ParseJobResult, moved_to: Sequence[str], identity: UrlIdentity, asked: tuple[str, ...] = ()
) -> ParseJobResult:
    """The page as made by scripts, with the directives that the fetched page had, too. Where its scripts wanted to go
    is a link. Its requisites are what the browser `asked` for and has not got: the rest is archived already."""
    page = made.page
    assert page is not None
    old, new = fetched.robots, page.robots
    robots = RobotsMeta(old.noindex or new.noindex, old.nofollow or new.nofollow, old.noarchive or new.noarchive)
    known = {link.url for link in page.links}
    targets = {url: None for target in moved_to if (url := identity.canonicalize(target)) and url not in known}
    return replace(made, page=replace(page, robots=robots, links=(*page.links, *map(Link, targets)), requisites=asked))


def has_gained(fetched: Page, made: Page) -> bool:
    """Whether the scripts have brought anything."""
    return len(made.text) >= len(fetched.text) + GAIN_CHARS or len(made.links) > len(fetched.links)


def _passed_headers(head: ResponseHead, page: Page) -> tuple[tuple[str, str], ...]:
    fields = [(name, value) for name, value in head.fields if name in PASSED_HEADERS and name != "content-type"]
    charset = f"; charset={page.charset}" if page.charset else ""
    return (("Content-Type", f"text/html{charset}"), *fields)


def _with_base(found: RenderedDocument, url: str) -> str:
    """The document; if scripts have changed its address, it says what its links are relative to."""
    if not found.base or found.base.partition("#")[0] == url or "<base" in found.html.lower():
        return found.html
    if not found.base.startswith(("http:", "https:")) or (head := _head(found.html)) is None:
        return found.html
    return f'{found.html[: head.end()]}<base href="{escape(found.base)}">{found.html[head.end() :]}'
