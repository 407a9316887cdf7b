"""Hostile hosts that are slow, stalled or endless, or answer 429, 503 (Retry-After) or 500 before they serve a page.

Promises: an endless response stops when the client closes the connection, and writes no faster than the client reads.
Each bad page has a host of its own, with a good page beside it. A URL that fails at first succeeds after the stated
number of requests, counted per URL for as long as the server runs; a client that returns too soon gets the response all
the same, and the log shows it.
Knows nothing of time limits.
"""

from tarrafa.model import Status
from tarrafa.testweb.hostile.hostile_host import CrawlExpectation, HostileExchange, register_host
from tarrafa.testweb.hostile.response_builders import (
    PIECE,
    at_first,
    drip,
    either,
    flood,
    header,
    html,
    kept,
    lost,
    page,
    register_site,
    silence,
)
from tarrafa.testweb.http.web_response import HTML, WebResponse, http_date, typed

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


DATE_S = 2  # the date of a Retry-After lies this far ahead


def _later(exchange: HostileExchange) -> WebResponse:
    answer = typed(429, HTML, b"<!DOCTYPE html><title>Devagar</title>")
    answer.headers += "Retry-After: 1\r\n"
    return answer


def _until(exchange: HostileExchange) -> WebResponse:
    answer = typed(503, HTML, b"<!DOCTYPE html><title>Volte depois</title>")
    answer.headers += f"Retry-After: {http_date(int(exchange.clock.now()) + DATE_S)}\r\n"
    return answer


def _broken(exchange: HostileExchange) -> WebResponse:
    return typed(500, HTML, b"<!DOCTYPE html><title>Erro</title>")


register_site(
    "busy-429", "a page is there at the third try; before, 429 asks for a second of peace",
    {"/busy.html": kept(at_first(2, _later, page("Agora sim")))}, requests_more=2,
)  # fmt: skip
register_site(
    "busy-date", "a page is there at the second try; before, 503 gives a date",
    {"/busy.html": kept(at_first(1, _until, page("Já abrimos")))}, requests_more=1,
)  # fmt: skip
register_site(
    "broken", "pages that answer 500: once, twice, and for ever",
    {
        "/once.html": kept(at_first(1, _broken, page("Consertada"))),
        "/twice.html": either(at_first(2, _broken, page("Consertada duas vezes")), 200, 500),
        "/always.html": lost(typed(500, HTML, b"<!DOCTYPE html><title>Erro</title>"), 500),
    },
    requests_more=2,
)  # fmt: skip
