"""Hostile hosts with slow, stalled and endless responses.

Promises: an endless response stops when the client closes the connection, and writes no faster than the client reads.
Each bad page has a host of its own, with a good page beside it.
Knows nothing of time limits.
"""

from tarrafa.model import Status
from tarrafa.testweb.hostile.hostile_host import CrawlExpectation, HostileExchange, register_host
from tarrafa.testweb.hostile.response_builders import PIECE, drip, flood, header, html, lost, register_site, silence
from tarrafa.testweb.http.web_response import HTML, typed

SLOW_PIECES = 8
SLOW_PAUSE_S = 0.5


@register_host(
    "slow",
    "a page that comes in eight pieces, half a second apart",
    CrawlExpectation({"http://slow.corner.test/": (200,)}, frozenset({"http://slow.corner.test/"}), requests_max=4),
)
async def slow(exchange: HostileExchange) -> None:
    whole = typed(200, HTML, b"<!DOCTYPE html><title>Devagar</title><p>" + b"devagar e sempre. " * 64)
    data = whole.encode(exchange.clock.now(), exchange.request.keep_alive)
    exchange.status = 200
    size = -(-len(data) // SLOW_PIECES)
    for at in range(0, len(data), size):
        if at:
            await exchange.sleep(SLOW_PAUSE_S)
        exchange.write(data[at : at + size])


async def _half(exchange: HostileExchange) -> None:
    exchange.status = 200
    body = html("Metade de uma página", body="<p>devagar e sempre.</p>\n" * 1000)
    await exchange.send(header(f"Content-Length: {2 * len(body)}") + body)
    await silence(exchange)


register_site(
    "loris-body", "a body that comes byte by byte, without end",
    {"/slow.html": lost(drip(header() + b"<p>", b".", SLOW_PAUSE_S), Status.TOO_SLOW)},
)  # fmt: skip
register_site(
    "loris-head", "a header that comes byte by byte, without end",
    {"/slow.html": lost(drip(b"HTTP/1.1 200 OK\r\nX-Devagar: ", b".", SLOW_PAUSE_S), Status.TOO_SLOW)},
)  # fmt: skip
register_site("stall", "half a page, and then nothing", {"/half.html": lost(_half, Status.TOO_SLOW)})
register_site("mute", "a page that is asked for and never answered", {"/mute.html": lost(silence, Status.TOO_SLOW)})
register_site(
    "endless", "a page without end, as fast as it is taken",
    {"/endless.html": lost(flood(header() + b"<!DOCTYPE html><p>", b"sem fim " * (PIECE // 8)), Status.TOO_LARGE)},
)  # fmt: skip
