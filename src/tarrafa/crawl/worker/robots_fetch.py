"""Fetches the robots.txt of a host (RFC 9309), follows redirects, and decides what a missing file means.

robots.txt by RFC 9309: 2xx are rules, 4xx allow everything, anything else forbids everything for now. Redirects are
followed, to other hosts too: `http://a.br/robots.txt` mostly leads to `https://www.a.br/robots.txt`. That host's own
copy is taken if the frontier has it; else the host is borrowed for one request, politely, and given back.
"""

from typing import TYPE_CHECKING

from xxhash import xxh3_128_digest

from tarrafa.crawl.worker.outcome import build_request
from tarrafa.fetch.http_message import FetchRequest, FetchResponse, UndecodableBody, decode_body, retry_after_s
from tarrafa.fetch.robots import ROBOTS_BYTES_MAX
from tarrafa.frontier.api import CachedRobots, HostLoan, HostReport
from tarrafa.model import BUSY, REDIRECTS, STATUS_MEANING, UNREACHED, Status
from tarrafa.parse.url import canonical, host_id, host_key, host_name, name_and_port

if TYPE_CHECKING:
    from tarrafa.crawl.worker.host_session import HostSession

ROBOTS_TTL_S = 86_400.0  # RFC 9309 section 2.4: no longer than a day
REDIRECTS_MAX = 5  # section 2.3.1.2
BORROW_ATTEMPTS_MAX = 5  # a host that is never free is asked for so often; then the file cannot be had for now
WAIT_HERE_S = 3.0
STARVED_S = 10.0
TRUNCATED_FAILURES_MAX = 2  # a file that never comes whole is taken as it comes in the end
ABSENT = FetchResponse(404)


async def fetch_robots(walk: "HostSession") -> CachedRobots | None:
    """The host's rules as of now; None: not now, and the walk knows from when on."""
    answer = await _follow_redirects(walk)
    now = walk.services.clock.now()
    if isinstance(answer, FetchResponse):
        status, torn = (
            answer.status,
            bool(answer.error) and answer.status == 200 and walk.failures < TRUNCATED_FAILURES_MAX,
        )
        if status == Status.STARVED:
            walk.services.note_overload()
            walk.next_at = max(walk.next_at, now + STARVED_S)
            return None
        if torn or (status < 0 and status != Status.TOO_LARGE) or status >= 500 or status == 429:
            why = f"robots.txt: {int(status)} {answer.tls or answer.error}"  # read by `model.host_trouble`
            walk.robots_unavailable(why, status in UNREACHED, retry_after_s(answer.head, now))
            return None
        answer = _to_robots_copy(answer, now + ROBOTS_TTL_S)
    if answer is not None:
        walk.failures, walk.new_robots, walk.trap_memory.borrow_attempts = 0, answer, 0
    return answer


async def _follow_redirects(walk: "HostSession") -> FetchResponse | CachedRobots | None:
    """What stands at the end of the redirects; after too many, or where they lead nowhere: that it is absent."""
    url = canonical(f"{walk.lease.host_key}/robots.txt")
    for hop in range(REDIRECTS_MAX + 1):
        if url is None:
            break
        request = build_request(url, walk.collection)
        request.size_max = ROBOTS_BYTES_MAX
        if host_key(url) == walk.lease.host_key:  # in the middle of a chain one waits, or it would never end
            answer: FetchResponse | CachedRobots | None = await walk.request(request, patient=hop > 0)
        else:
            answer = await _fetch_from_other_host(walk, request)
        if not isinstance(answer, FetchResponse):
            return answer
        walk.services.archive_robots(request, answer)
        if answer.status not in REDIRECTS:
            return answer
        url = canonical(answer.head.get("location"), url)
    return ABSENT


def _to_robots_copy(answer: FetchResponse, expires: float) -> CachedRobots:
    """2xx, and what was cut after its first 500 KiB, are rules; all others have none."""
    status, text = (200 if answer.status < 300 else answer.status), b""
    if status == 200:
        try:
            text = decode_body(answer.head, answer.raw_body, ROBOTS_BYTES_MAX, prefix=True)
        except UndecodableBody:  # a header that lies about a plain file is no reason to overlook its rules
            text = answer.raw_body[:ROBOTS_BYTES_MAX]
    return CachedRobots(status, robots_digest(text), expires, text)


def robots_digest(text: bytes) -> bytes:
    """What a robots.txt is known by."""
    digest: bytes = xxh3_128_digest(text)
    return digest


async def _fetch_from_other_host(walk: "HostSession", request: FetchRequest) -> FetchResponse | CachedRobots | None:
    """Ask another host, or take what it is known to have answered. None: it is not free now."""
    clock, key = walk.services.clock, host_key(request.url)
    loan = await walk.services.borrow_host(walk.lease.collection, host_id(key), key)
    if not loan.granted and loan.free_at - clock.now() < WAIT_HERE_S:  # its delay, or a moment with somebody else
        await clock.sleep_until(loan.free_at)
        loan = await walk.services.borrow_host(walk.lease.collection, host_id(key), key)
    known, answer = loan.robots, None
    try:
        if known is not None and known.expires > clock.now() and request.url == canonical(f"{key}/robots.txt"):
            text = await walk.services.robots_text(known.digest)
            return CachedRobots(known.status, known.digest, known.expires, text)
        if loan.granted:
            answer = await _fetch_from_borrowed_host(walk, request, loan)
    finally:
        if loan.granted:
            await walk.services.return_host(_borrowed_host_report(walk, request.url, loan, answer))
    if answer is not None:
        return None if answer.status == Status.NOT_SENT else answer
    walk.trap_memory.borrow_attempts += 1
    if walk.trap_memory.borrow_attempts > BORROW_ATTEMPTS_MAX:
        walk.trap_memory.borrow_attempts = 0
        return FetchResponse(Status.SYSTEM_ERROR, error=f"it is on {key}, which is never free")
    walk.next_at = max(walk.next_at, loan.free_at, clock.now() + 2.0**walk.trap_memory.borrow_attempts)
    return None


async def _fetch_from_borrowed_host(walk: "HostSession", request: FetchRequest, loan: HostLoan) -> FetchResponse | None:
    """One request to a borrowed host. It may be on the address of the host that is walked: both delays hold."""
    clock, host = walk.services.clock, host_id(host_key(request.url))
    place = await walk.services.resolve_host(
        host_name(request.url), host, walk.collection, beside=walk.resolved.address
    )
    if place.error:
        return FetchResponse(
            Status.SYSTEM_ERROR, error=f"{host_key(request.url)}: {STATUS_MEANING.get(place.error, '')}"
        )
    if place.free_at:
        return None
    delay_s = _delay_s(walk, request.url, loan)
    await clock.sleep_until(max(loan.ended_at + delay_s, walk.next_at))
    if walk.left:
        return FetchResponse(Status.NOT_SENT)
    walk.attach_send_check(request)
    place.apply_to(request)
    try:
        return await walk.services.fetch(request, walk.lease.collection)
    finally:
        walk.ended_at = clock.now()
        walk.next_at = max(walk.next_at, walk.ended_at + walk.delay_s)


def _delay_s(walk: "HostSession", url: str, loan: HostLoan) -> float:
    return max(loan.delay_s, walk.collection.delay_for(*name_and_port(url)))


def _borrowed_host_report(walk: "HostSession", url: str, loan: HostLoan, answer: FetchResponse | None) -> HostReport:
    """A borrowed host goes back with what it asked for: its delay, and peace if it was busy."""
    host, delay_s = host_id(host_key(url)), _delay_s(walk, url, loan)
    now, pause, failures = walk.services.clock.now(), delay_s, loan.failures
    if answer is not None and answer.status in BUSY | UNREACHED:
        failures += 1
        pause = max(pause, walk.collection.politeness.backoff * 2**failures, retry_after_s(answer.head, now))
    return HostReport(host, walk.lease.collection, [], now + pause, now, delay_s, keep=False, failures=failures)
