"""Hostile hosts whose response depends on cookie, user agent or validators: cloaking, cookie walls, false ETags.

Promises: a cookie wall, a host that prefers some robots, and validators that lie.
Knows nothing of sessions: no client is remembered; only the requests per URL are counted.
"""

from html import escape

from tarrafa.model import Status
from tarrafa.testweb.hostile.hostile_host import ALLOW_ALL, HostileExchange
from tarrafa.testweb.hostile.response_builders import either, html, kept, lost, moved, page, register_site
from tarrafa.testweb.http.web_response import HTML, PLAIN, WebResponse, http_date, typed

AGENT = "tarrafa"
COOKIE = "visto=sim"
FUTURE_S = 10 * 365 * 86_400


async def _wall(exchange: HostileExchange) -> None:
    if COOKIE in exchange.request.cookie:
        exchange.reply(page("Com o biscoito"))
        return
    answer = moved(302, exchange.request.target)
    answer.headers += f"Set-Cookie: {COOKIE}; Path=/\r\n"
    exchange.reply(answer)


def _likes(exchange: HostileExchange) -> bool:
    return AGENT in exchange.request.agent.lower()


async def _welcome(exchange: HostileExchange) -> None:
    refused = typed(403, HTML, b"<!DOCTYPE html><title>403</title>")
    exchange.reply(page("Seja bem-vinda, rede") if _likes(exchange) else refused)


async def _mirror(exchange: HostileExchange) -> None:
    exchange.reply(page("Quem pergunta?", body=f"<p>{escape(exchange.request.agent)}</p>"))


async def _rules(exchange: HostileExchange) -> None:
    exchange.reply(typed(200, PLAIN, ALLOW_ALL if _likes(exchange) else b"User-agent: *\nDisallow: /\n"))


def _valid(title: str, lines: str) -> WebResponse:
    return WebResponse(200, html(title), f"Content-Type: {HTML}\r\n{lines}")


async def _changing(exchange: HostileExchange) -> None:
    exchange.reply(_valid("Sempre outra, sempre a mesma", f'ETag: "{exchange.count_request()}"\r\n'))


async def _future(exchange: HostileExchange) -> None:
    date = http_date(int(exchange.clock.now()) + FUTURE_S)
    exchange.reply(_valid("Mudada daqui a dez anos", f"Last-Modified: {date}\r\n"))


async def _stubborn(exchange: HostileExchange) -> None:
    """A page the first time; then always 304, whatever the request."""
    first = _valid("Vista uma vez", 'ETag: "sempre"\r\n')
    exchange.reply(first if exchange.count_request() == 1 else WebResponse(304, b"", 'ETag: "sempre"\r\n'))


register_site(
    "cookie", "a page that redirects to itself until a cookie comes back",
    {"/wall.html": either(_wall, 302, Status.REDIRECTS_EXCEEDED, 200)}, requests_more=5,
)  # fmt: skip
register_site(
    "agents", "only robots that call themselves Tarrafa are let in; a page shows the user agent of its reader",
    {"/welcome.html": kept(_welcome), "/agent.html": kept(_mirror)}, robots=_rules,
)  # fmt: skip
register_site(
    "validators", "ETag and Last-Modified that lie",
    {
        "/never.html": lost(WebResponse(304, b"", 'ETag: "nunca"\r\n'), 304),
        "/stubborn.html": kept(_stubborn),
        "/changing.html": kept(_changing),
        "/future.html": kept(_future),
        "/nonsense.html": kept(_valid("Datas sem sentido", "ETag: sem aspas\r\nLast-Modified: ontem\r\n")),
        "/long.html": kept(_valid("Uma etiqueta longa", f'ETag: "{"a" * 20_000}"\r\n')),
    },
)  # fmt: skip
