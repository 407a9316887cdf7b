"""Hostile hosts whose robots.txt is missing, unreachable, redirected, endless or malformed.

Promises: three kinds of host. Where robots.txt applies, everything below /private/ is forbidden and linked to. Where it
is "unavailable" (RFC 9309 section 2.3.1.3), a page below /private/ is as good as any other. Where it is unreachable
(2.3.1.4), nothing else may be requested for now.
Knows nothing of how robots.txt is parsed.
"""

import gzip
from itertools import pairwise

from tarrafa.model import Status
from tarrafa.testweb.hostile.hostile_host import CrawlExpectation, HostileExchange, full_name, register_host
from tarrafa.testweb.hostile.response_builders import (
    PIECE,
    SPARE,
    HostileUrl,
    Responder,
    at_first,
    either,
    flood,
    header,
    html,
    kept,
    lazily,
    lost,
    moved,
    page,
    perform,
    register_site,
    silence,
)
from tarrafa.testweb.http.web_response import HTML, PLAIN, WebResponse, http_date, typed
from tarrafa.testweb.world.hash_random import draw_shorts

RULES = b"User-agent: *\nDisallow: /private/\n"
HIDDEN = "/private/secret.html"
HOPS_FOLLOWED = 5  # RFC 9309 section 2.3.1.2: crawlers should follow at least this many redirects
LONG_BYTES = 2_000_000
FAILURES_MAX = 3  # then the host is given up

_PAGE = page("Uma página secreta")


def _counts(
    name: str, about: str, robots: Responder | bytes, *, hops: int = 0, steps: dict[str, Responder] | None = None,
    more: dict[str, HostileUrl] | None = None,
) -> None:  # fmt: skip
    """robots.txt must be obeyed. `steps` are the redirects to it."""
    places = {HIDDEN: lost(_PAGE, Status.ROBOTS), **(more or {})}
    register_site(name, about, places, robots=robots, hidden=steps, never=("/private/",), requests_more=hops)


def _void(
    name: str, about: str, robots: Responder | bytes, *, hops: int = 0, steps: dict[str, Responder] | None = None,
    more: dict[str, HostileUrl] | None = None,
) -> None:  # fmt: skip
    """robots.txt is unavailable, so nothing is forbidden."""
    register_site(name, about, {HIDDEN: kept(_PAGE), **(more or {})}, robots=robots, hidden=steps, requests_more=hops)


def _bars(name: str, about: str, robots: Responder, *statuses: int) -> None:
    """robots.txt is unreachable: the page is never requested."""
    url = f"http://{full_name(name)}/page.html"
    expects = CrawlExpectation({url: statuses}, requests_max=FAILURES_MAX + 1 + SPARE, never=(url,))

    async def handler(exchange: HostileExchange) -> None:
        await perform(robots if exchange.request.target == "/robots.txt" else page(name), exchange)

    register_host(name, about, expects, roots=(url,), robots=None)(handler)


def _refused(status: int) -> WebResponse:
    return typed(status, PLAIN, b"")


def _chain(hops: int) -> dict[str, Responder]:
    """The redirects after the first, and the rules at their end."""
    steps = [f"/robots-{number}.txt" for number in range(1, hops + 1)]
    ways: dict[str, Responder] = {step: moved(302, onward) for step, onward in pairwise(steps)}
    return ways | {steps[-1]: typed(200, PLAIN, RULES)}


def _busy(exchange: HostileExchange) -> WebResponse:
    return WebResponse(503, b"", "Retry-After: 1\r\n")


def _busy_until(exchange: HostileExchange) -> WebResponse:
    return WebResponse(503, b"", f"Retry-After: {http_date(int(exchange.clock.now()) + 1)}\r\n")


def _garbage() -> bytes:
    """Every byte value, NUL first, and no valid rule."""
    noise = b"".join(bytes(number & 0xFF for number in draw_shorts(0, 0, 0, part)) for part in range(64))
    return bytes(range(256)) + noise.replace(b":", b"\0") + b"\0\n" * 100


_PACKED = WebResponse(200, gzip.compress(RULES, 9, mtime=0), f"Content-Type: {PLAIN}\r\nContent-Encoding: gzip\r\n")

_void("robots-404", "there is no robots.txt, so nothing is forbidden", _refused(404))
_void("robots-401", "robots.txt asks for a password, so nothing is forbidden", _refused(401))
_void("robots-403", "robots.txt is refused, so nothing is forbidden", _refused(403))
_void("robots-html", "robots.txt is a page in HTML, without a rule in it", typed(200, HTML, html("Bem-vindos")))
_void("robots-binary", "robots.txt is NULs and noise", typed(200, PLAIN, _garbage()))
_void(
    "robots-loop", "robots.txt redirects to a place that redirects back", moved(302, "/robots-1.txt"),
    steps={"/robots-1.txt": moved(302, "/robots.txt")}, hops=HOPS_FOLLOWED,
)  # fmt: skip
_void(
    "robots-delay", "robots.txt asks for 0.2 seconds between requests", b"User-agent: *\nCrawl-delay: 0.2\n",
    more={f"/{number}.html": kept(page(f"Página {number} de quatro")) for number in range(1, 5)},
)  # fmt: skip
_void("robots-delay-day", "robots.txt asks for a day between requests", b"User-agent: *\nCrawl-delay: 86400\n")

_counts("robots-here", "the robots.txt that another host redirects to", RULES)
_counts("robots-moved", "robots.txt is kept on another host", moved(302, "http://robots-here.corner.test/robots.txt"))
_counts("robots-gzip", "robots.txt comes in gzip", _PACKED)
_counts("robots-503", "robots.txt is there at the third try, a second after each", at_first(
    2, _busy, typed(200, PLAIN, RULES)), hops=2)  # fmt: skip
_counts("robots-503-date", "robots.txt is there at the second try, from a date on", at_first(
    1, _busy_until, typed(200, PLAIN, RULES)), hops=1)  # fmt: skip
_counts(
    "robots-endless", "robots.txt never ends", flood(header(content_type=PLAIN) + RULES, b"# nada\n" * (PIECE // 7))
)
_counts(
    "robots-long", "robots.txt is 2 MB long, with its last rule at the end",
    lazily(lambda: RULES + b"# nada\n" * (LONG_BYTES // 7) + b"Disallow: /late/\n", PLAIN),
    more={"/late/page.html": either(page("Tarde demais"), 200, Status.ROBOTS)},
)  # fmt: skip
_counts(
    "robots-bom", "robots.txt has a byte order mark, CRLF, comments, wildcards and strange capitals",
    b"\xef\xbb\xbf# bom dia\r\nUSER-AGENT : *  # todos\r\ndisallow:/private/\r\nDisallow: /*?print=\r\n"
    b"Disallow: /*.cgi$\r\nAllow: /private/*/open.html\r\n",
    more={
        "/a.html?print=1": lost(page("Para imprimir"), Status.ROBOTS),
        "/search.cgi": lost(page("Busca"), Status.ROBOTS),
        "/search.cgi?q=1": kept(page("Resultado da busca")),
    },
)  # fmt: skip
_counts(
    "robots-chain5", "robots.txt is five redirects away", moved(302, "/robots-1.txt"),
    steps=_chain(HOPS_FOLLOWED),
)  # fmt: skip
register_site(
    "robots-chain6", "robots.txt is six redirects away, one more than anybody must follow",
    {HIDDEN: either(_PAGE, 200, Status.ROBOTS)}, hidden=_chain(HOPS_FOLLOWED + 1), robots=moved(302, "/robots-1.txt"),
)  # fmt: skip

_bars(
    "robots-500", "robots.txt is an error of the server, for ever", _refused(500), Status.HOST_GIVEN_UP, Status.ROBOTS
)
_bars("robots-hangs", "robots.txt is asked for and never answered", silence, Status.HOST_GIVEN_UP, Status.TOO_SLOW)
