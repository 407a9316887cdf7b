"""Fetches the robots.txt of a host (RFC 9309), and follows its redirects.

2xx are rules, 4xx other than 429 allow everything, anything else forbids everything for now (`fetch.robots`). Redirects
are followed, to other hosts too: `http://a.br/robots.txt` mostly leads to `https://www.a.br/robots.txt`. The copy that
the frontier has of that host's file is used, if there is one; else the host is borrowed for one request, within its
delay, and returned. An expired file is noticed when a session begins; hence a session ends after TURN_S
(`host_session`).
"""

from collections.abc import Callable

from xxhash import xxh3_128_digest

from tarrafa.crawl.worker.borrowed_hosts import BorrowedHostFetch, HostLender
from tarrafa.crawl.worker.fetcher import build_request, user_agent
from tarrafa.crawl.worker.host_memory import HostMemory
from tarrafa.crawl.worker.politeness import HostResolver, PoliteFetcher
from tarrafa.crawl.worker.resource_limits import OverloadControl
from tarrafa.crawl.worker.worker_fence import Registration
from tarrafa.fetch.content_encoding import UndecodableBody, decode_body
from tarrafa.fetch.http_message import FetchRequest, FetchResponse, retry_after_s
from tarrafa.fetch.robots import ROBOTS_BYTES_MAX, RobotsRules, forbids_everything_for_now
from tarrafa.fetch.robots import parse as parse_robots
from tarrafa.frontier.api import Frontier
from tarrafa.frontier.messages import Lease, RobotsCopy
from tarrafa.i18n import message
from tarrafa.model import REDIRECTS, UNREACHED, Status, host_trouble
from tarrafa.parse.url import canonical, host_key

ROBOTS_TTL_S = 86_400.0  # RFC 9309 section 2.4: no longer than a day
REDIRECTS_MAX = 5  # section 2.3.1.2
BORROW_ATTEMPTS_MAX = 5  # attempts to borrow a busy host; then the file counts as unavailable for now
WAIT_HERE_S = 3.0
STARVED_S = 10.0
TRUNCATED_FAILURES_MAX = 2  # a file that is always cut off is finally used as far as it came
ROBOTS_CACHED_MAX = 5_000
ABSENT = FetchResponse(404)


class RobotsCache:
    """Parsed robots.txt files of a worker, by their digests; and loans of the hosts that robots.txt redirects to."""

    def __init__(self, frontier: Frontier, registration: Registration) -> None:
        self._frontier, self.lender = frontier, HostLender(frontier, registration)
        self._parsed: dict[bytes, RobotsRules] = {}

    async def rules(self, copy: RobotsCopy) -> RobotsRules | None:
        """The rules of a file; None if the frontier does not have its text now."""
        rules = self._parsed.get(copy.digest)
        if rules is None:
            text = copy.text or await self.text(copy.digest)
            if text is None:
                return None
            if len(self._parsed) >= ROBOTS_CACHED_MAX:
                self._parsed.clear()
            rules = self._parsed[copy.digest] = parse_robots(text)
        return rules

    async def text(self, digest: bytes) -> bytes | None:
        """The text with that digest; None if the frontier does not have it now: one of its servers may be away."""
        text = await self._frontier.robots_text(digest)
        return text if robots_digest(text) == digest else None


class RobotsFetch:
    """The rules of one leased host: the copy that came with the lease, or robots.txt fetched anew."""

    def __init__(
        self,
        lease: Lease,
        polite_fetcher: PoliteFetcher,
        cache: RobotsCache,
        resolver: HostResolver,
        overload: OverloadControl,
        memory: HostMemory,
        archive: Callable[[FetchRequest, FetchResponse], None],
    ) -> None:
        self._lease, self._polite_fetcher, self.cache = lease, polite_fetcher, cache
        self.borrowed = BorrowedHostFetch(lease, polite_fetcher, cache.lender, resolver)
        self._overload, self._memory, self._archive = overload, memory, archive
        self.rules: RobotsRules | None = None  # None: not read, or ignored
        self.new_copy: RobotsCopy | None = None  # to be reported

    def allows(self, url: str) -> bool:
        return self.rules is None or self.rules.allows(user_agent(self._polite_fetcher.collection), url)

    def crawl_delay_s(self) -> float | None:
        """The delay that the host's robots.txt asks for."""
        return self.rules.crawl_delay(user_agent(self._polite_fetcher.collection)) if self.rules is not None else None

    def take_new_copy(self) -> RobotsCopy | None:
        """The new copy to report; given once."""
        copy, self.new_copy = self.new_copy, None
        return copy

    async def load(self) -> RobotsRules | None:
        """Load the rules; None: not now, and the pacing has the time of the next attempt."""
        copy = self._lease.robots_copy
        if copy is not None and copy.expires > self._polite_fetcher.clock.now():
            self.rules = await self.cache.rules(copy)
        if self.rules is None and (copy := await self._fetch()) is not None:
            self.rules = await self.cache.rules(copy)
        return self.rules

    async def _fetch(self) -> RobotsCopy | None:
        answer = await self._follow_redirects()
        now, pacing = self._polite_fetcher.clock.now(), self._polite_fetcher.pacing
        if isinstance(answer, FetchResponse):
            status = answer.status
            torn = bool(answer.error) and status == 200 and pacing.failures < TRUNCATED_FAILURES_MAX
            if status == Status.STARVED:
                self._overload.note_overload()
                pacing.postpone(now + STARVED_S)
                return None
            if torn or forbids_everything_for_now(status):
                why = host_trouble(status, answer.tls or answer.error, "robots.txt")
                if not self._overload.note_reachability(self._lease.host, status not in UNREACHED):
                    self._polite_fetcher.back_off(retry_after_s(answer.head, now), why)
                return None
            answer = to_robots_copy(answer, now + ROBOTS_TTL_S)
        if answer is not None:
            pacing.note_success()
            self._memory.reset_borrow_attempts()
            self.new_copy = answer
        return answer

    async def _follow_redirects(self) -> FetchResponse | RobotsCopy | None:
        """The response at the end of the redirects; absent after too many, or if the target is invalid."""
        url = canonical(f"{self._lease.host_key}/robots.txt")
        for hop in range(REDIRECTS_MAX + 1):
            if url is None:
                break
            request = build_request(url, self._polite_fetcher.collection)
            request.size_max = ROBOTS_BYTES_MAX
            if host_key(url) == self._lease.host_key:  # within a chain we wait, or it would never end
                answer: FetchResponse | RobotsCopy | None = await self._polite_fetcher.request(request, patient=hop > 0)
            else:
                answer = await self._fetch_from_other_host(request)
            if not isinstance(answer, FetchResponse):
                return answer
            self._archive(request, answer)
            if answer.status not in REDIRECTS:
                return answer
            url = canonical(answer.head.get("location"), url)
        return ABSENT

    async def _fetch_from_other_host(self, request: FetchRequest) -> FetchResponse | RobotsCopy | None:
        """Ask another host, or use the frontier's copy of its file. None: the host is not free now."""
        clock, key = self._polite_fetcher.clock, host_key(request.url)
        loan = await self.borrowed.borrow(key, WAIT_HERE_S)
        known, answer = loan.robots_copy, None
        try:
            if known is not None and known.expires > clock.now() and request.url == canonical(f"{key}/robots.txt"):
                text = await self.cache.text(known.digest)
                if text is not None:
                    return RobotsCopy(known.status, known.digest, known.expires, text)
            if loan.granted:
                answer = await self.borrowed.fetch(request, loan)
        finally:
            if loan.granted:
                await self.borrowed.give_back(request.url, loan, answer)
        if answer is not None:
            return None if answer.status == Status.NOT_SENT else answer
        attempts = self._memory.count_borrow_attempt()
        if attempts > BORROW_ATTEMPTS_MAX:
            self._memory.reset_borrow_attempts()
            return FetchResponse(Status.SYSTEM_ERROR, error=message("it is on {host}, which is never free", host=key))
        self._polite_fetcher.pacing.postpone(max(loan.free_at, clock.now() + 2.0**attempts))
        return None


def to_robots_copy(answer: FetchResponse, expires: float) -> RobotsCopy:
    """2xx responses, also if cut after their first 500 KiB, are rules; all others have none."""
    status, text = (200 if answer.status < 300 else answer.status), b""
    if status == 200:
        try:
            text = decode_body(answer.head, answer.raw_body, ROBOTS_BYTES_MAX, prefix=True)
        except UndecodableBody:  # a wrong Content-Encoding of a plain file is no reason to ignore its rules
            text = answer.raw_body[:ROBOTS_BYTES_MAX]
    return RobotsCopy(status, robots_digest(text), expires, text)


def robots_digest(text: bytes) -> bytes:
    """The digest by which a robots.txt is known."""
    digest: bytes = xxh3_128_digest(text)
    return digest
