"""Answers the requests of a page's scripts by our own fetch: address guard, robots.txt, delay, bandwidth, archive.

Promises: one request at a time for a page, none to the page's host before its delay has passed, none to another host
unless that host could be borrowed, nothing that robots.txt of either host forbids, nothing taken down or excluded. Only
GET, only what a document is made of: no picture, font, film, style, beacon, stream or prefetch. Credentials of the
collection go to the page's own host only; no cookie comes back into the browser. Every response is archived. One page
gets a bounded number of bytes.
What several pages ask for is fetched once and kept for some minutes.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field

from tarrafa.clock import boottime
from tarrafa.crawl.render.page_render import AskedRequest, BrowserAnswer
from tarrafa.crawl.scope.scope_rules import Admission
from tarrafa.crawl.worker.fetcher import build_request, user_agent
from tarrafa.crawl.worker.politeness import PoliteFetcher
from tarrafa.crawl.worker.robots_fetch import ROBOTS_TTL_S, RobotsFetch, to_robots_copy
from tarrafa.fetch.content_encoding import DecodedBodyTooLarge, UndecodableBody, decode_body
from tarrafa.fetch.http_message import FetchRequest, FetchResponse, ResponseHead
from tarrafa.fetch.robots import ROBOTS_BYTES_MAX, RobotsRules, forbids_everything_for_now
from tarrafa.frontier.messages import HostLoan
from tarrafa.i18n import Message, message
from tarrafa.model import BUSY, REDIRECTS, UNREACHED, BrowserRequest, Status
from tarrafa.parse.url import canonical, host_key

ANSWER_BYTES_MAX = 8 << 20  # of one answer, unpacked
PAGE_BYTES_MAX = 32 << 20  # of all answers of one page, unpacked
LISTED_MAX = 60  # requests that the record of a page lists
OTHER_HOSTS_MAX = 10  # of one page: it must not send us around
KEPT_BYTES_MAX, KEPT_S = 64 << 20, 300.0
KINDS = frozenset({"Script", "XHR", "Fetch", "Other"})
SENT_HEADERS = ("accept", "origin", "x-requested-with")  # of the page's own: as its scripts set them
HELD_BACK = frozenset(
    {"set-cookie", "set-cookie2", "content-encoding", "content-length", "transfer-encoding", "connection", "link"}
    | {"service-worker-allowed", "alt-svc", "strict-transport-security", "report-to", "nel", "clear-site-data"}
)
HEADER_CHARS_MAX = 2_000
NOT_OF_A_DOCUMENT = ("image/", "video/", "audio/", "font/")
NOT_FREE = message("its host was not free in time")


class AnswerCache:
    """Answers that several pages of a worker share, by collection and URL; the oldest are forgotten first."""

    def __init__(self) -> None:
        self._kept: OrderedDict[tuple[str, str], tuple[float, BrowserAnswer]] = OrderedDict()
        self._bytes = 0

    def get(self, collection: str, url: str) -> BrowserAnswer | None:
        until, answer = self._kept.get((collection, url), (0.0, None))
        return answer if boottime() < until else None

    def keep(self, collection: str, url: str, answer: BrowserAnswer) -> None:
        self._forget((collection, url))
        self._kept[collection, url] = (boottime() + KEPT_S, answer)
        self._bytes += len(answer.body)
        while self._bytes > KEPT_BYTES_MAX:
            self._forget(next(iter(self._kept)))

    def _forget(self, key: tuple[str, str]) -> None:
        _, answer = self._kept.pop(key, (0.0, None))
        if answer is not None:
            self._bytes -= len(answer.body)


@dataclass(frozen=True, slots=True)
class HostMeans:
    """What a session has to make requests with."""

    polite_fetcher: PoliteFetcher
    robots_fetch: RobotsFetch
    admission: Callable[[], Admission]
    archive: Callable[[FetchRequest, FetchResponse], None]
    host_key: str


@dataclass(slots=True)
class BrowserRequests:
    """The requests of one page, until its time is over."""

    means: HostMeans
    kept: AnswerCache
    until: float = 0.0  # boot time
    asked: list[BrowserRequest] = field(default_factory=list)
    asked_total: int = 0
    got: set[str] = field(default_factory=set)  # URLs whose responses are archived
    trouble: FetchResponse | None = None  # the host is busy or unreachable: it gets no further request of this page
    is_interrupted: bool = False  # the session stops, or a request was not sent: the page is not what it could be
    _other_hosts: set[str] = field(default_factory=set)
    _bytes: int = 0
    _one: asyncio.Lock = field(default_factory=asyncio.Lock)
    _rules: dict[str, RobotsRules | None] = field(default_factory=dict)  # of other hosts

    def begin(self) -> None:
        """The page's time begins."""
        self.until = boottime() + float(self.means.polite_fetcher.collection.render.time_max)

    async def answer(self, asked: AskedRequest) -> BrowserAnswer | None:
        """Answer a request of the browser; None refuses it."""
        url = canonical(asked.url)
        if url is None:
            self._note(asked, asked.url, Status.OUT_OF_SCOPE, message("no http(s) URL"))
            return None
        status, why = self._refusal(asked, url)
        if status:
            self._note(asked, url, status, why)
            return None
        async with self._one:
            if (known := self.kept.get(self.means.polite_fetcher.collection.name, url)) is not None:
                self._note(asked, url, known.status, message("kept from another request"), len(known.body))
                self.got.add(url)
                return known
            return await self._fetch(asked, url)

    def _note(self, asked: AskedRequest, url: str, status: int, why: Message | str = "", size: int = 0) -> None:
        self.asked_total += 1
        if len(self.asked) < LISTED_MAX:
            self.asked.append(BrowserRequest(url, asked.kind, status, size, why))

    def _refusal(self, asked: AskedRequest, url: str) -> tuple[int, Message | str]:
        """Why a request is refused before any host is asked; 0: it is not."""
        accepts = asked.headers.get("accept", "")
        if asked.method != "GET":
            return Status.OUT_OF_SCOPE, message("{method}: only GET is made", method=asked.method[:20])
        is_prefetch = "prefetch" in asked.headers.get("sec-purpose", asked.headers.get("purpose", ""))
        if asked.kind not in KINDS or is_prefetch or accepts.startswith(("text/event-stream", "image/")):
            return Status.TYPE_NOT_WANTED, message("no part of the document")
        return self._refusal_of_url(url)

    def _refusal_of_url(self, url: str) -> tuple[int, Message | str]:
        means = self.means
        excluded = means.polite_fetcher.collection.excluded
        if means.admission().is_taken_down(url):
            return Status.TAKEN_DOWN, ""
        if excluded is not None and excluded.match(url):
            return Status.OUT_OF_SCOPE, "[scope] exclude"
        if not self._is_own(url):
            self._other_hosts.add(host_key(url))
            is_far = len(self._other_hosts) > OTHER_HOSTS_MAX
            return (
                (Status.OUT_OF_SCOPE, message("more than {most} other hosts", most=OTHER_HOSTS_MAX))
                if is_far
                else (0, "")
            )
        if not means.robots_fetch.allows(url):
            return Status.ROBOTS, ""
        if self.trouble is not None:
            return self.trouble.status, message("its host is left alone")
        return 0, ""

    def _is_own(self, url: str) -> bool:
        return host_key(url) == self.means.host_key

    def _time_left_s(self) -> float:
        return self.until - boottime()

    async def _fetch(self, asked: AskedRequest, url: str) -> BrowserAnswer | None:
        request = self._build(asked, url)
        if request.size_max <= 0 or request.time_max_s <= 0:
            self._note(asked, url, Status.TOO_LARGE if request.size_max <= 0 else Status.TOO_SLOW)
            return None
        if not self._is_own(url):
            return self._take(asked, url, request, await self._fetch_elsewhere(request))
        response = await self.means.polite_fetcher.request(request, patient=True)
        if response is None:
            self.is_interrupted = True
            return None
        return self._take(asked, url, request, response)

    def _build(self, asked: AskedRequest, url: str) -> FetchRequest:
        request = build_request(url, self.means.polite_fetcher.collection)
        for name in SENT_HEADERS:
            if value := asked.headers.get(name, "")[:HEADER_CHARS_MAX]:
                request.headers = [(key, old) for key, old in request.headers if key.lower() != name]
                request.headers.append((name.title(), value))
        request.size_max = min(ANSWER_BYTES_MAX, PAGE_BYTES_MAX - self._bytes)
        request.time_max_s = min(request.time_max_s, self._time_left_s())
        request.check_head = _check_head
        request.has_credentials = self._is_own(url)
        return request

    def _take(
        self, asked: AskedRequest, url: str, request: FetchRequest, response: FetchResponse
    ) -> BrowserAnswer | None:
        """Archive a response, and turn it into the browser's answer."""
        if response.raw_head:
            self.means.archive(request, response)
        if response.status == 200:
            self.got.add(url)
        if self._is_own(url) and response.status in BUSY | UNREACHED:
            self.trouble = response
        if response.status < 100:
            self._note(asked, url, response.status, response.error)
            return None
        try:
            body = decode_body(response.head, response.raw_body, max(1, PAGE_BYTES_MAX - self._bytes))
        except (UndecodableBody, DecodedBodyTooLarge):
            self._bytes += len(response.raw_body)
            self._note(asked, url, Status.INVALID_RESPONSE)
            return None
        self._bytes += len(body)
        self._note(asked, url, response.status, "", len(body))
        answer = BrowserAnswer(response.status, _headers_for_browser(response.head), body)
        if response.status == 200 and "no-store" not in response.head.joined("cache-control").lower():
            self.kept.keep(self.means.polite_fetcher.collection.name, url, answer)
        return answer

    # -- other hosts -------------------------------------------------------------------------------------------

    async def _fetch_elsewhere(self, request: FetchRequest) -> FetchResponse:
        """Ask a host that the session does not hold; the response says why, if it could not be asked."""
        key, collection = host_key(request.url), self.means.polite_fetcher.collection
        if collection.politeness.robots != "ignore":
            if key not in self._rules:
                self._rules[key] = await self._rules_of(key)
            rules = self._rules[key]
            if rules is None:
                return FetchResponse(Status.ROBOTS, error=message("its robots.txt could not be read in time"))
            if not rules.allows(user_agent(collection), request.url):
                return FetchResponse(Status.ROBOTS)
        loan = await self._borrow(key)
        if loan is None:
            return FetchResponse(Status.TOO_SLOW, error=NOT_FREE)
        answer = None
        try:
            request.time_max_s = min(request.time_max_s, self._time_left_s())
            answer = await self.means.robots_fetch.borrowed.fetch(request, loan)
        finally:
            await self.means.robots_fetch.borrowed.give_back(request.url, loan, answer)
        if answer is None or answer.status == Status.NOT_SENT:
            return FetchResponse(Status.TOO_SLOW, error=NOT_FREE)
        return answer

    async def _borrow(self, key: str) -> HostLoan | None:
        """Borrow a host before the time of the page is over; None: it is not free."""
        clock = self.means.polite_fetcher.clock
        while (left_s := self._time_left_s()) > 0 and not self.means.polite_fetcher.is_stopped:
            loan = await self.means.robots_fetch.borrowed.borrow(key, 0.0)
            if loan.granted:
                return loan
            if (loan.free_at - clock.now()) / clock.scale > left_s:
                return None
            await clock.sleep_until(loan.free_at)
        return None

    async def _rules_of(self, key: str) -> RobotsRules | None:
        """The rules of another host: the frontier's copy, or its robots.txt. None: not to be had now. A redirected file
        counts as one that cannot be read."""
        loan = await self.means.robots_fetch.borrowed.borrow(key, 0.0)
        known = loan.robots_copy
        clock, collection = self.means.polite_fetcher.clock, self.means.polite_fetcher.collection
        if known is not None and known.expires > clock.now():
            if loan.granted:
                await self.means.robots_fetch.borrowed.give_back_unused(key, loan)
            return await self.means.robots_fetch.cache.rules(known)
        if not loan.granted:
            later = await self._borrow(key)
            if later is None:
                return None
            loan = later
        request = build_request(f"{key}/robots.txt", collection)
        request.size_max, request.time_max_s = ROBOTS_BYTES_MAX, max(0.1, self._time_left_s())
        answer = copy = rules = None
        try:
            answer = await self.means.robots_fetch.borrowed.fetch(request, loan)
            if answer is not None and answer.raw_head:
                self.means.archive(request, answer)
            if answer is not None and not forbids_everything_for_now(answer.status) and answer.status not in REDIRECTS:
                copy = to_robots_copy(answer, clock.now() + ROBOTS_TTL_S)
                rules = await self.means.robots_fetch.cache.rules(copy)
        finally:
            asked_s = rules.crawl_delay(user_agent(collection)) if rules is not None else None
            delay_s = min(asked_s or 0.0, float(collection.politeness.delay_max))
            await self.means.robots_fetch.borrowed.give_back(request.url, loan, answer, copy, delay_s)
        return rules


def _check_head(head: ResponseHead) -> int:
    if head.content_type.startswith(NOT_OF_A_DOCUMENT) or head.content_type == "text/event-stream":
        return Status.TYPE_NOT_WANTED
    length = head.get("content-length")
    return Status.TOO_LARGE if length.isascii() and length.isdigit() and int(length[:18]) > ANSWER_BYTES_MAX else 0


def _headers_for_browser(head: ResponseHead) -> tuple[tuple[str, str], ...]:
    return tuple(
        (name, value[:HEADER_CHARS_MAX]) for name, value in head.fields if name not in HELD_BACK and value.isprintable()
    )
