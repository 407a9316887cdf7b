"""Builds hostile hosts from tables of URLs, and their responses: good pages, redirects, raw bytes, endless bodies.

Most hostile hosts are a few URLs: a good root that links to them, a good page, and bad ones beside it, to prove that
one bad page costs only itself. Each `HostileUrl` holds its behaviour and the statuses that a robust crawler reports;
`register_site` makes a hostile host of a table of them.

Promises: the `CrawlExpectation` is computed from the same table that responds.
Knows nothing of any particular misbehaviour.
"""

from collections.abc import Callable
from functools import lru_cache
from html import escape

import msgspec

from tarrafa.model import TRANSIENT
from tarrafa.testweb.hostile.hostile_host import (
    ALLOW_ALL,
    CrawlExpectation,
    HostileExchange,
    HostileHandler,
    full_name,
    origin,
    register_host,
)
from tarrafa.testweb.http.web_response import HTML, PLAIN, WebResponse, typed

Responder = HostileHandler | WebResponse
RETRIES = 1  # as `CrawlExpectation` assumes
SPARE = 4  # requests that a crawler may make on its own account: robots.txt again, a retry on a dead connection
GOOD = "/good.html"
PIECE = 1 << 16

TEXT = (
    "A tarrafa é uma rede de pesca redonda, com pesos na borda, que o pescador lança com as mãos. Aberta no ar, cai "
    "sobre a água e afunda; puxada de volta, traz o que estava embaixo."
)


class HostileUrl(msgspec.Struct, frozen=True):
    """One URL of a hostile host."""

    act: Responder
    statuses: tuple[int, ...]
    must: bool = False  # be kept
    may: bool = False  # be kept
    linked: bool = True  # from the root


def kept(act: Responder, *, linked: bool = True) -> HostileUrl:
    """A page that must be kept in the end."""
    return HostileUrl(act, (200,), must=True, linked=linked)


def either(act: Responder, *statuses: int, linked: bool = True) -> HostileUrl:
    """Reasonable crawlers differ, and may keep it."""
    return HostileUrl(act, statuses, may=True, linked=linked)


def lost(act: Responder, *statuses: int, linked: bool = True) -> HostileUrl:
    """Not a page."""
    return HostileUrl(act, statuses, linked=linked)


def register_site(
    name: str,
    about: str,
    places: dict[str, HostileUrl],
    *,
    robots: bytes | Responder = ALLOW_ALL,
    never: tuple[str, ...] = (),
    may_keep: tuple[str, ...] = (),
    hidden: dict[str, Responder] | None = None,
    otherwise: Responder | None = None,
    requests_more: int = 0,
    head: str = "",
) -> None:
    """Register a hostile host made of `places` (by path). It gets a root that links to them and a good page, unless the
    table has its own. URLs in `hidden` may be requested, and nothing else is expected of them; `otherwise` responds for
    all other paths. `never` and `may_keep` are paths, or whole URLs.
    """
    base = origin(full_name(name))
    whole = {GOOD: kept(page(f"{name}: uma boa página", "/")), **places}
    if "/" not in whole:
        links = [path for path, place in whole.items() if place.linked]
        whole = {"/": kept(page(f"{name}: {about}", *links, head=head)), **whole}
    tries = sum(1 + RETRIES * any(status in TRANSIENT for status in place.statuses) for place in whole.values())
    expects = CrawlExpectation(
        statuses={base + path: place.statuses for path, place in whole.items()},
        kept=frozenset(base + path for path, place in whole.items() if place.must),
        requests_max=tries + 1 + len(hidden or {}) + SPARE + requests_more,
        never=tuple(_absolute(base, prefix) for prefix in never),
        may_keep=tuple(base + path for path, place in whole.items() if place.may)
        + tuple(_absolute(base, prefix) for prefix in may_keep),
    )
    acts = {path: place.act for path, place in whole.items()} | (hidden or {})
    acts["/robots.txt"] = typed(200, PLAIN, robots) if isinstance(robots, bytes) else robots
    nowhere = otherwise or typed(404, HTML, b"<!DOCTYPE html><title>404</title>")

    async def handler(exchange: HostileExchange) -> None:
        await perform(acts.get(exchange.request.target, nowhere), exchange)

    register_host(name, about, expects, robots=None)(handler)


def _absolute(base: str, prefix: str) -> str:
    return base + prefix if prefix.startswith("/") else prefix


async def perform(act: Responder, exchange: HostileExchange) -> None:
    if isinstance(act, WebResponse):
        exchange.reply(act)
    else:
        await act(exchange)


def page(title: str, *links: str, body: str = "", head: str = "") -> WebResponse:
    """A good page with a text of its own."""
    return typed(200, HTML, html(title, *links, body=body, head=head))


def html(title: str, *links: str, body: str = "", head: str = "") -> bytes:
    items = "".join(f'<li><a href="{escape(link)}">{escape(link)}</a>\n' for link in links)
    return (
        f'<!DOCTYPE html>\n<html lang="pt-BR"><head><meta charset="utf-8"><title>{escape(title)}</title>{head}</head>\n'
        f"<body><h1>{escape(title)}</h1>\n<p>{TEXT}</p>\n{body}<ul>{items}</ul></body></html>\n"
    ).encode()


def lazily(
    make: Callable[[], bytes], content_type: str = HTML, headers: str = "", *, remember: bool = False
) -> HostileHandler:
    """A response whose body is made on request; a body that is expensive to make and small is cached."""
    made = lru_cache(maxsize=1)(make) if remember else make

    async def act(exchange: HostileExchange) -> None:
        answer = typed(200, content_type, made())
        answer.headers += headers
        exchange.reply(answer)

    return act


def raw(status: int, data: bytes | Callable[[], bytes]) -> HostileHandler:
    """Send exactly these bytes (large ones are made on request), then close the connection."""

    async def act(exchange: HostileExchange) -> None:
        exchange.send_raw(status, data if isinstance(data, bytes) else data())

    return act


def header(*lines: str, content_type: str = HTML) -> bytes:
    """A header block with a valid status line and the given lines."""
    whole = ("HTTP/1.1 200 OK", f"Content-Type: {content_type}", "Connection: close", *lines, "")
    return "".join(f"{line}\r\n" for line in whole).encode("latin-1")


def at_first(count: int, answers: Callable[[HostileExchange], WebResponse], then: Responder) -> HostileHandler:
    """Another response for the first `count` requests of the URL."""

    async def act(exchange: HostileExchange) -> None:
        await perform(answers(exchange) if exchange.count_request() <= count else then, exchange)

    return act


def moved(status: int, location: str) -> WebResponse:
    """A redirect; `location` is sent as UTF-8 even where that is not allowed."""
    answer = typed(status, HTML, b"<!DOCTYPE html><title>Mudou</title>")
    answer.headers += f"Location: {location.encode().decode('latin-1')}\r\n"
    return answer


def flood(head: bytes, piece: bytes, times: int | None = None) -> HostileHandler:
    """A body as fast as the client reads it, `times` pieces or without end."""

    async def act(exchange: HostileExchange) -> None:
        exchange.status = 200
        await exchange.send(head)
        sent = 0
        while times is None or sent < times:
            await exchange.send(piece)
            sent += 1
        exchange.close()

    return act


def drip(head: bytes, piece: bytes, pause_s: float) -> HostileHandler:
    """One piece after each pause, without end."""

    async def act(exchange: HostileExchange) -> None:
        exchange.status = 200
        await exchange.send(head)
        while True:
            await exchange.sleep(pause_s)
            await exchange.send(piece)

    return act


async def silence(exchange: HostileExchange) -> None:
    """Read the request and send nothing."""
    while True:
        await exchange.sleep(60.0)
