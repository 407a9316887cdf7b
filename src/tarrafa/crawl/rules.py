"""What does this host ask of crawlers?

robots.txt by RFC 9309: 2xx are rules, 4xx allow everything, anything else forbids everything for now. Redirects are
followed, to other hosts too: `http://a.br/robots.txt` mostly leads to `https://www.a.br/robots.txt`. That host's own
copy is taken if the frontier has it; else the host is borrowed for one request, politely, and given back.
"""

import contextlib
from typing import TYPE_CHECKING

from xxhash import xxh3_128_digest

from tarrafa.crawl.visit import request_for
from tarrafa.fetch.http import Request, Response, Undecodable, decode_body, retry_after
from tarrafa.fetch.robots import ROBOTS_BYTES_MAX
from tarrafa.frontier.protocol import HostReport, Loan, RobotsCopy
from tarrafa.model import REDIRECTS, UNREACHED, Status
from tarrafa.parse.url import canonical, host_id, host_key, host_name

if TYPE_CHECKING:
    from tarrafa.crawl.host import Walk

LIFE_S = 86_400.0  # RFC 9309 section 2.4: no longer than a day
REDIRECTS_MAX = 5  # section 2.3.1.2
ERRANDS_MAX = 5  # a host that is never free is asked for so often; then the file counts as unavailable
WAIT_HERE_S = 3.0
ABSENT = Response(404)


async def fetch_rules(walk: "Walk") -> RobotsCopy | None:
    """The host's rules as of now; None: not now, and the walk knows from when on."""
    answer = await _final_answer(walk)
    if isinstance(answer, Response):
        status = answer.status
        if (status < 0 and status != Status.TOO_LARGE) or status >= 500 or status == 429:
            walk.unavailable(status in UNREACHED, retry_after(answer.head, walk.kit.clock.now()))
            return None
        answer = _copy(answer, walk.kit.clock.now() + LIFE_S)
    if answer is not None:
        walk.failures, walk.new_robots = 0, answer
    return answer


async def _final_answer(walk: "Walk") -> Response | RobotsCopy | None:
    """What stands at the end of the redirects; after too many, or where they lead nowhere: that it is absent."""
    url = canonical(f"{walk.lease.host_key}/robots.txt")
    for _ in range(REDIRECTS_MAX + 1):
        if url is None:
            break
        request = request_for(url, walk.collection)
        request.size_max = ROBOTS_BYTES_MAX
        at_home = host_key(url) == walk.lease.host_key
        answer = await (walk.request(request) if at_home else _elsewhere(walk, request))
        if not isinstance(answer, Response):
            return answer
        walk.kit.archive_robots(request, answer)
        if answer.status not in REDIRECTS:
            return answer
        url = canonical(answer.head.get("location"), url)
    return ABSENT


def _copy(answer: Response, expires: float) -> RobotsCopy:
    """2xx, and what was cut after its first 500 KiB, are rules; all others have none."""
    status, text = (200 if answer.status < 300 else answer.status), b""
    if status == 200:
        with contextlib.suppress(Undecodable):
            text = decode_body(answer.head, answer.raw_body, ROBOTS_BYTES_MAX, prefix=True)
    return RobotsCopy(status, xxh3_128_digest(text), expires, text)


async def _elsewhere(walk: "Walk", request: Request) -> Response | RobotsCopy | None:
    """Ask another host, or take what it is known to have answered. None: it is not free now."""
    clock, key = walk.kit.clock, host_key(request.url)
    loan = await walk.kit.borrow(host_id(key), key)
    if not loan.granted and loan.free_at - clock.now() < WAIT_HERE_S:  # its delay, or a moment with somebody else
        await clock.sleep_until(loan.free_at)
        loan = await walk.kit.borrow(host_id(key), key)
    known = loan.robots
    try:
        if known is not None and known.expires > clock.now() and request.url == canonical(f"{key}/robots.txt"):
            text = await walk.kit.robots_text(known.digest)
            return RobotsCopy(known.status, known.digest, known.expires, text)
        if loan.granted:
            place = await walk.kit.find(host_name(request.url), host_id(key), walk.collection)
            if place.error:
                return Response(Status.SYSTEM_ERROR)
            if not place.free_at:
                await clock.sleep_until(loan.ended_at + _delay_s(walk, loan))
                request.connect_to, request.address = place.connect_to, place.address
                response = await walk.kit.fetch(request, walk.lease.collection)
                return None if response.status == Status.NOT_SENT else response
    finally:
        if loan.granted:
            await _give_back(walk, host_id(key), loan)
    if walk.memory.errands >= ERRANDS_MAX:
        return ABSENT
    walk.memory.errands += 1
    walk.next_at = max(walk.next_at, loan.free_at, clock.now() + 2.0**walk.memory.errands)
    return None


def _delay_s(walk: "Walk", loan: Loan) -> float:
    return float(max(loan.delay_s, walk.collection.politeness.delay))


async def _give_back(walk: "Walk", host: int, loan: Loan) -> None:
    now = walk.kit.clock.now()
    report = HostReport(
        host, walk.lease.collection, [], now + _delay_s(walk, loan), now, loan.delay_s, keep=False,
        failures=loan.failures,
    )  # fmt: skip
    await walk.kit.give_back(report)
