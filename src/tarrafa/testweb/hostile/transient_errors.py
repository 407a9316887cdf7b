"""Hostile hosts that answer 429 or 503 with Retry-After, or 500, before they serve the page.

Promises: a URL that fails at first succeeds after the stated number of requests, counted per URL for as long as the
server runs.
Knows nothing of waiting: a client that returns too soon gets the response all the same, and the log shows it.
"""

from tarrafa.testweb.hostile.hostile_host import HostileExchange
from tarrafa.testweb.hostile.response_builders import at_first, either, kept, lost, page, register_site
from tarrafa.testweb.http.web_response import HTML, WebResponse, http_date, typed

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
