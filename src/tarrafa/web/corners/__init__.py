"""Where do the hosts live that behave badly?

Each module is a kind of misbehaviour: robots (robots.txt itself), busy ("not now"), redirects, encodings and bombs,
garbage (hardly HTTP), slow, kinds (types and sizes), markup (HTML that hurts), text (charsets and links), traps (no
end), visitors (cookies, agents, validators), listings (sitemaps, feeds), documents, secure (TLS, IPv6) and addresses
(never connect). To add a corner, make a `site` of places (pages.py), or write a coroutine that takes an `Exchange` and
register it with `@corner` (register.py); say in `Expects` how a crawler that cannot be hurt ends there, and the
journeys hold ours to it.

Promises: every corner is in `CORNERS`.
Knows nothing of the rest of the world.
"""

from tarrafa.web.corners import (  # noqa: F401 (importing them registers them)
    busy,
    documents,
    encodings,
    garbage,
    kinds,
    listings,
    markup,
    redirects,
    robots,
    secure,
    slow,
    text,
    traps,
    visitors,
)
from tarrafa.web.corners.addresses import FORBIDDEN_ROOTS
from tarrafa.web.corners.register import HOSTILE_HOSTS, SUFFIXES, HostileHost, HostileExchange, CrawlExpectation, HostileHandler, register_host, hostile_host_of, hostile_roots
from tarrafa.web.corners.slow import SLOW_PAUSE_S, SLOW_PIECES

__all__ = [
    "HOSTILE_HOSTS",
    "FORBIDDEN_ROOTS",
    "SLOW_PAUSE_S",
    "SLOW_PIECES",
    "SUFFIXES",
    "HostileHost",
    "HostileExchange",
    "CrawlExpectation",
    "HostileHandler",
    "register_host",
    "hostile_host_of",
    "hostile_roots",
]
