"""Where do the hosts live that behave badly?

Promises: a corner is a host of its own, `NAME.corner.test`, served only by a world with `corners=True` and linked to by
nobody: who wants it names it as a root. It answers by writing raw bytes, so it can break any rule it likes; what it
does is the same every time.
Knows nothing of the rest of the world.

To add one, write a coroutine that takes an `Exchange` and register it with `@corner(name, what it does)`. Time passes
only through `exchange.sleep`, so that a test need not wait for it. (Corners that misbehave below HTTP, TLS among them,
will need a listening socket of their own: server.py, `WebServer._listen`.)
"""

import asyncio
import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

import msgspec

from tarrafa.clock import Clock
from tarrafa.web.answer import HTML, Answer, Request, typed

SUFFIX = ".corner.test"
SLOW_PIECES = 8
SLOW_PAUSE_S = 0.5


@dataclass(slots=True)
class Exchange:
    """One request to a corner, and the means to answer it."""

    request: Request
    clock: Clock
    write: Callable[[bytes], None]
    close: Callable[[], None]
    sleep: Callable[[float], Awaitable[None]] = field(default=asyncio.sleep)
    status: int = 0  # for the log

    def reply(self, answer: Answer) -> None:
        """An ordinary answer."""
        self.status = answer.status
        self.write(answer.encode(self.clock.now(), self.request.keep_alive, self.request.method != "HEAD"))


Handler = Callable[[Exchange], Awaitable[None]]


class Corner(msgspec.Struct, frozen=True):
    name: str
    about: str
    handler: Handler


CORNERS: dict[str, Corner] = {}


def corner(name: str, about: str) -> Callable[[Handler], Handler]:
    def register(handler: Handler) -> Handler:
        CORNERS[name + SUFFIX] = Corner(name + SUFFIX, about, handler)
        return handler

    return register


def roots() -> list[str]:
    return [f"http://{name}/" for name in CORNERS]


@corner("slow", "a page that comes in eight pieces, half a second apart")
async def slow(exchange: Exchange) -> None:
    whole = typed(200, HTML, b"<!DOCTYPE html><title>Devagar</title><p>" + b"devagar e sempre. " * 64)
    data = whole.encode(exchange.clock.now(), exchange.request.keep_alive)
    exchange.status = 200
    size = -(-len(data) // SLOW_PIECES)
    for at in range(0, len(data), size):
        if at:
            await exchange.sleep(SLOW_PAUSE_S)
        exchange.write(data[at : at + size])


_MONTH = re.compile(r"/(\d{1,9})/(\d{1,2})/(?:\d{1,2}\.html)?$")


@corner("calendar", "a calendar without end: every month links to its days, to the month before and to the one after")
async def calendar(exchange: Exchange) -> None:
    match = _MONTH.match(exchange.request.target)
    months = int(match[1]) * 12 + int(match[2]) - 1 if match else 2026 * 12
    year, month = divmod(months, 12)
    links = [f"/{(months + step) // 12}/{(months + step) % 12 + 1:02d}/" for step in (-1, 1) if months + step >= 0]
    links += [f"/{year}/{month + 1:02d}/{day:02d}.html" for day in range(1, 29)]
    items = "".join(f'<li><a href="{link}">{link}</a></li>' for link in links)
    title = f"{exchange.request.target}: {month + 1:02d}/{year}"
    exchange.reply(typed(200, HTML, f"<!DOCTYPE html><title>{title}</title><ul>{items}</ul>".encode()))
