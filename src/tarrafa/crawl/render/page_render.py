"""Renders one page in a browser: lets its scripts run, answers every request that they make, and takes the document.

The page is opened in a browser context of its own, which shares nothing with any other page: no cookie, no storage, no
cache. Its HTML is the response that the crawl has fetched already. Every request is stopped before it leaves the
browser and given to `answer`; what cannot be stopped (WebSocket, WebRTC, names) has no network (`browser`). The page
has been made when its load event has fired and no request has been under way for IDLE_S.
Promises: when its time is over, the document is taken as it is; requests beyond its number of requests are refused; the
document is cut at its size. A page that takes more than its memory, its events or its dialogs has its browser killed;
so has one whose browser does not answer. No window is opened, no frame is filled, no file is stored, no dialog
stays open, no service worker is registered, no permission is given.
Known weakness: the text of shadow trees is not in the document; neither is what needs a click or a scroll.
Knows nothing of hosts, delays or archives.
"""

import asyncio
import contextlib
from base64 import b64encode
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from itertools import count
from typing import Any

from tarrafa.clock import boottime
from tarrafa.crawl.render.browser import Browser
from tarrafa.crawl.render.devtools import BrowserGone, DevToolsMessage
from tarrafa.i18n import Message, message

IDLE_S = 0.5
SNAPSHOT_S = 2.0  # for the document of a page whose time is over, and for closing a page
WATCH_EVERY_S, LOOK_EVERY = 0.1, 8
MEMORY_BYTES_MAX = 1 << 30  # of all processes of the browser together; an empty page takes a quarter of it
REQUESTS_MAX = 200  # of one page; what is refused by its kind alone does not count
EVENTS_MAX = 20_000
ASKED_MAX = 1_000  # URLs of one page that are noted
DIALOGS_MAX = 20
MOVES_MAX = 5
WIDTH, HEIGHT = 1280, 4000  # tall: what appears as it is scrolled to is there
URL_CHARS_MAX = 2_000
DOCUMENT_CHARS_MAX = 8 << 20  # JSON may make six of one, and DevTools must read it
NO_TEXT = frozenset({"Image", "Media", "Font", "TextTrack"})  # refused without a word
NOT_NEEDED = frozenset({"Ping", "CSPViolationReport", "Preflight", "Prefetch", "EventSource", "WebSocket"})
EMPTY_STYLE = ("Stylesheet", 200, (("Content-Type", "text/css"),))
# Before any script of the page, in each of its frames.
PRELUDE = """(() => {
  const none = () => null, never = () => false;
  for (const name of ["alert", "print", "stop"]) window[name] = () => undefined;
  window.confirm = never; window.prompt = none; window.open = none;
  for (const name of ["serviceWorker", "credentials", "geolocation", "mediaDevices", "clipboard", "usb", "bluetooth"])
    try { delete Navigator.prototype[name]; } catch (error) {}
  for (const name of ["RTCPeerConnection", "webkitRTCPeerConnection", "WebTransport", "SharedWorker", "Notification"])
    try { delete window[name]; } catch (error) {}
})();"""
SNAPSHOT = """(() => {
  for (const one of document.querySelectorAll("noscript")) one.remove();
  const type = document.doctype ? "<!DOCTYPE html>" : "", root = document.documentElement;
  const html = root ? root.outerHTML : "";
  return [(type + html).slice(0, %d), html.length, document.baseURI.slice(0, 2000)];
})()"""


@dataclass(frozen=True, slots=True)
class AskedRequest:
    """A request of the browser, as it was stopped."""

    url: str
    method: str
    kind: str  # Script, XHR, Fetch, Stylesheet …, as DevTools names them
    headers: dict[str, str]


@dataclass(frozen=True, slots=True)
class BrowserAnswer:
    """What the browser gets for a request."""

    status: int
    headers: tuple[tuple[str, str], ...]
    body: bytes = b""


AnswerRequest = Callable[[AskedRequest], Awaitable[BrowserAnswer | None]]  # None: refused


@dataclass(slots=True)
class RenderedDocument:
    """The document as its scripts have made it; `error` says why there is none."""

    html: str = ""
    base: str = ""  # what its relative links are relative to
    cut: str = ""  # "time": taken before it was quiet; "length": longer than the limit
    error: Message | str = ""
    moved_to: list[str] = field(default_factory=list)  # where scripts wanted to go
    elapsed_s: float = 0.0
    memory_bytes: int = 0  # the most that was seen in use
    asked: dict[str, None] = field(default_factory=dict)  # URLs that it needs: all that it asked for, refused or not


class PageRender:
    """One page in one browser. Use it once."""

    def __init__(
        self,
        browser: Browser,
        url: str,
        document: BrowserAnswer,
        answer: AnswerRequest,
        user_agent: str,
        chars_max: int,
    ) -> None:
        assert browser.pipe is not None
        self._browser, self._pipe, self._url, self._document = browser, browser.pipe, url, document
        self._answer, self._user_agent, self._chars_max = answer, user_agent, min(chars_max, DOCUMENT_CHARS_MAX)
        self._result = RenderedDocument()
        self._session = self._frame = self._target = self._context = ""
        self._loaded, self._quiet, self._failed = asyncio.Event(), asyncio.Event(), asyncio.Event()
        self._tasks: set[asyncio.Task[None]] = set()
        self._requests = self._answered = self._events = self._dialogs = 0
        self._is_document_given = self._has_moved = False

    async def run(self, time_max_s: float) -> RenderedDocument:
        """Render. The browser is killed if it did not survive its limits; else it can be used for the next page."""
        began = boottime()
        watching = asyncio.create_task(self._watch_memory())
        self._pipe.on_event = self._take_event
        self._pipe.on_end = lambda: self._fail(message("the browser ended"))
        try:
            try:
                async with asyncio.timeout(time_max_s):
                    await self._unless_failed(self._make())
                    await self._unless_failed(self._take_document())
            except TimeoutError:
                self._result.cut = "time"
                self._stop_scripts()
                async with asyncio.timeout(SNAPSHOT_S):
                    await self._unless_failed(self._take_document())
            async with asyncio.timeout(SNAPSHOT_S):
                await self._close()
        except TimeoutError:
            self._fail(message("it did not end within {seconds:g} s", seconds=time_max_s))
        except BrowserGone:
            self._fail(message("the browser ended"))
        finally:
            self._pipe.on_event, self._pipe.on_end = (lambda event: None), (lambda: None)
            watching.cancel()
            for task in list(self._tasks):
                task.cancel()
            if self._tasks:
                await asyncio.wait(list(self._tasks))
            if self._result.error or not self._result.html:
                self._browser.kill()
        self._result.elapsed_s = boottime() - began
        return self._result

    async def _make(self) -> None:
        """Open the page, and wait until it is quiet."""
        pipe = self._pipe
        self._context = (await pipe.call("Target.createBrowserContext", disposeOnDetach=True))["browserContextId"]
        pipe.send("Browser.setDownloadBehavior", behavior="deny", browserContextId=self._context)
        pipe.send("Browser.grantPermissions", permissions=[], browserContextId=self._context)
        pipe.send("Target.setDiscoverTargets", discover=True, filter=[{"type": "page"}])
        created = await pipe.call(
            "Target.createTarget", url="about:blank", browserContextId=self._context, width=WIDTH, height=HEIGHT
        )
        self._target = created["targetId"]
        attached = await pipe.call("Target.attachToTarget", targetId=self._target, flatten=True)
        self._session = attached["sessionId"]
        tree = await self._call("Page.getFrameTree")
        self._frame = tree["frameTree"]["frame"]["id"]
        for method, params in self._settings():
            await self._call(method, **params)
        await self._call("Page.navigate", url=self._url)
        await self._loaded.wait()
        while True:
            await self._quiet_now()
            before = self._answered
            await asyncio.sleep(IDLE_S)
            if self._answered == before and not self._tasks:
                return

    def _settings(self) -> tuple[tuple[str, dict[str, Any]], ...]:
        return (
            ("Fetch.enable", {"patterns": [{"urlPattern": "*", "requestStage": "Request"}]}),
            ("Target.setAutoAttach", {"autoAttach": True, "waitForDebuggerOnStart": True, "flatten": True}),
            ("Emulation.setUserAgentOverride", {"userAgent": self._user_agent}),
            ("Network.setBypassServiceWorker", {"bypass": True}),
            ("Page.addScriptToEvaluateOnNewDocument", {"source": PRELUDE}),
            ("Page.enable", {}),
        )

    async def _quiet_now(self) -> None:
        while self._tasks:
            self._quiet.clear()
            await self._quiet.wait()

    async def _call(self, method: str, **params: object) -> dict[str, Any]:
        return await self._pipe.call(method, self._session, **params)

    async def _unless_failed(self, work: Any) -> None:
        """Do the work; `BrowserGone` as soon as a limit is exceeded."""
        doing, failing = asyncio.ensure_future(work), asyncio.create_task(self._failed.wait())
        try:
            await asyncio.wait({doing, failing}, return_when=asyncio.FIRST_COMPLETED)
            if not doing.done():
                raise BrowserGone("a limit")
            try:
                await doing
            except (KeyError, TypeError, IndexError, ValueError):
                raise BrowserGone("it answers nonsense") from None
        finally:
            for task in (doing, failing):
                task.cancel()
            await asyncio.wait({doing, failing})
            if not doing.cancelled():
                doing.exception()  # (an exception that nobody has looked at would be printed)

    def _fail(self, why: Message | str) -> None:
        """A limit is exceeded: the browser is not used any more."""
        self._result.error = self._result.error or why
        self._failed.set()

    async def _watch_memory(self) -> None:
        for number in count():
            used = self._browser.memory_bytes(anew=number % LOOK_EVERY == 1)
            self._result.memory_bytes = max(self._result.memory_bytes, used)
            if used > MEMORY_BYTES_MAX:
                self._fail(message("it took more than {size} MB of memory", size=MEMORY_BYTES_MAX >> 20))
                self._browser.kill()
            await asyncio.sleep(WATCH_EVERY_S)

    def _stop_scripts(self) -> None:
        """The time is over: no script runs any more, and the document is what it is."""
        self._pipe.send("Runtime.terminateExecution", self._session)
        self._pipe.send("Emulation.setScriptExecutionDisabled", self._session, value=True)
        for task in list(self._tasks):
            task.cancel()

    async def _take_document(self) -> None:
        """Read the document from a world of our own, where the page's scripts have changed nothing."""
        world = await self._call("Page.createIsolatedWorld", frameId=self._frame, worldName="tarrafa")
        found = await self._call(
            "Runtime.evaluate",
            expression=SNAPSHOT % self._chars_max,
            contextId=world["executionContextId"],
            returnByValue=True,
        )
        html, length, base = found["result"]["value"]
        self._result.html, self._result.base = str(html), str(base)
        if length > self._chars_max:
            self._result.cut = "length"

    async def _close(self) -> None:
        await self._pipe.call("Target.disposeBrowserContext", browserContextId=self._context)
        self._browser.pages += 1

    # -- events ------------------------------------------------------------------------------------------------

    def _take_event(self, event: DevToolsMessage) -> None:
        self._events += 1
        if self._events > EVENTS_MAX:
            self._fail(message("more than {most} events", most=EVENTS_MAX))
            return
        handlers: dict[str, Callable[[DevToolsMessage], None]] = {
            "Fetch.requestPaused": self._on_request,
            "Page.loadEventFired": lambda event: self._loaded.set(),
            "Page.frameStoppedLoading": self._on_stopped,
            "Page.javascriptDialogOpening": self._on_dialog,
            "Target.attachedToTarget": self._on_target,
            "Target.targetCreated": self._on_window,
            "Inspector.targetCrashed": lambda event: self._fail(message("the page crashed")),
            "Target.targetCrashed": lambda event: self._fail(message("the page crashed")),
        }
        if (handler := handlers.get(event.method)) is not None:
            with contextlib.suppress(KeyError, TypeError):
                handler(event)

    def _on_stopped(self, event: DevToolsMessage) -> None:
        """A document that a script wanted to leave may never fire its load event."""
        if event.params["frameId"] == self._frame and self._has_moved:
            self._loaded.set()

    def _on_dialog(self, event: DevToolsMessage) -> None:
        self._dialogs += 1
        self._pipe.send("Page.handleJavaScriptDialog", event.sessionId, accept=False)
        if self._dialogs > DIALOGS_MAX:
            self._fail(message("more than {most} dialogs", most=DIALOGS_MAX))

    def _on_target(self, event: DevToolsMessage) -> None:
        """A frame or worker of the page: it gets no request through but by us. Others never begin to run."""
        session, kind = event.params["sessionId"], event.params["targetInfo"]["type"]
        if kind in ("iframe", "worker"):
            for method, params in self._settings()[:2]:
                self._pipe.send(method, session, **params)
            self._pipe.send("Runtime.runIfWaitingForDebugger", session)

    def _on_window(self, event: DevToolsMessage) -> None:
        info = event.params["targetInfo"]
        if info.get("browserContextId") == self._context and self._target and info["targetId"] != self._target:
            self._pipe.send("Target.closeTarget", targetId=info["targetId"])

    def _on_request(self, event: DevToolsMessage) -> None:
        params = event.params
        paused, request, kind = str(params["requestId"]), params["request"], str(params.get("resourceType", "Other"))
        url, session = str(request["url"]), event.sessionId
        self._note_asked(url, kind, str(request.get("method", "")), str(params.get("frameId", "")))
        if kind == "Document":
            is_get = request.get("method") == "GET"
            self._on_document(session, paused, url, str(params.get("frameId", "")), is_get=is_get)
            return
        if url.startswith(("data:", "blob:")):
            self._pipe.send("Fetch.continueRequest", session, requestId=paused)
            return
        if kind in NO_TEXT or url.endswith("/favicon.ico"):
            self._refuse(session, paused)
            return
        if kind == EMPTY_STYLE[0]:  # no text depends on it, and some scripts wait for it
            self._fulfil(session, paused, BrowserAnswer(*EMPTY_STYLE[1:]))
            return
        self._requests += 1
        if self._requests > REQUESTS_MAX or len(url) > URL_CHARS_MAX:
            self._refuse(session, paused)
            return
        headers = {str(name).lower(): str(value) for name, value in request.get("headers", {}).items()}
        asked = AskedRequest(url, str(request.get("method", "GET")), kind, headers)
        task = asyncio.create_task(self._give(session, paused, asked))
        self._tasks.add(task)
        task.add_done_callback(self._given)

    def _note_asked(self, url: str, kind: str, method: str, frame: str) -> None:
        """Note what the page needs; a document is needed by a frame only."""
        is_own = (kind == "Document" and frame == self._frame) or url.endswith("/favicon.ico")  # the browser's own wish
        is_needed = method == "GET" and kind not in NOT_NEEDED and url.startswith(("http:", "https:")) and not is_own
        if is_needed and len(url) <= URL_CHARS_MAX and len(self._result.asked) < ASKED_MAX:
            self._result.asked[url] = None

    def _given(self, task: "asyncio.Task[None]") -> None:
        self._tasks.discard(task)
        if not self._tasks:
            self._quiet.set()
        if not task.cancelled() and (error := task.exception()) is not None and not isinstance(error, BrowserGone):
            self._fail(f"{type(error).__name__}: {error}"[:URL_CHARS_MAX])

    async def _give(self, session: str, paused: str, asked: AskedRequest) -> None:
        answer = await self._answer(asked)
        if answer is None:
            self._refuse(session, paused)
        else:
            self._answered += 1
            self._fulfil(session, paused, answer)

    def _on_document(self, session: str, paused: str, url: str, frame: str, *, is_get: bool) -> None:
        """The document itself, once. Frames stay empty, and a script that wants to go elsewhere stays here."""
        if frame == self._frame and not self._is_document_given:
            self._is_document_given = True
            self._fulfil(session, paused, self._document)
            return
        moves = self._result.moved_to
        if frame == self._frame:
            self._has_moved = True
            if is_get and url not in moves and len(moves) < MOVES_MAX and len(url) <= URL_CHARS_MAX:
                moves.append(url)
        self._refuse(session, paused, "Aborted")

    def _refuse(self, session: str, paused: str, why: str = "BlockedByClient") -> None:
        self._pipe.send("Fetch.failRequest", session, requestId=paused, errorReason=why)

    def _fulfil(self, session: str, paused: str, answer: BrowserAnswer) -> None:
        self._pipe.send(
            "Fetch.fulfillRequest",
            session,
            requestId=paused,
            responseCode=answer.status,
            responseHeaders=[{"name": name, "value": value} for name, value in answer.headers],
            body=b64encode(answer.body).decode(),
        )
