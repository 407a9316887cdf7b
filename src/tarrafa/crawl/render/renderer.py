"""The browsers of a worker: a few pages at once, each in a browser of its own, which is used again.

Promises: as many pages at once as the collection says; a browser that is not used for a while is ended; one that has
rendered many pages is replaced. Where there can be no browser, each page says why, and the crawl goes on without.
"""

import asyncio
from collections.abc import Callable

from tarrafa.clock import boottime
from tarrafa.crawl.render.browser import Browser, RenderUnavailable
from tarrafa.crawl.render.devtools import BrowserGone
from tarrafa.crawl.render.page_render import AnswerRequest, BrowserAnswer, PageRender, RenderedDocument
from tarrafa.i18n import message

PAGES_PER_BROWSER_MAX = 200
UNUSED_S_MAX = 30.0
UNAVAILABLE_S = 300.0  # after a failed start, the next attempt


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
