"""Registers the hostile hosts of the synthetic Web, one module for each kind of misbehaviour.

Each module is a kind of misbehaviour: robots (robots.txt itself), busy ("not now"), redirects, encodings and bombs,
garbage (hardly HTTP), slow, kinds (types and sizes), markup (HTML that hurts), text (charsets and links), traps (no
end), visitors (cookies, agents, validators), listings (sitemaps, feeds), documents, secure (TLS, IPv6) and addresses
(never connect). To add a corner, make a `site` of places (pages.py), or write a coroutine that takes an `Exchange`
and register it with `@corner` (register.py); say in `Expects` how a crawler that cannot be hurt ends there, and the
journeys hold ours to it.

Promises: every corner is in `CORNERS`.
Knows nothing of the rest of the world.
"""

from tarrafa.testweb.hostile import (  # noqa: F401 (importing them registers them)
    broken_sitemaps,
    charsets_links,
    cloaking,
    content_codings,
    expensive_markup,
    malformed_http,
    office_documents,
    redirect_chains,
    robots_failures,
    slow_responses,
    spider_traps,
    tls_failures,
    transient_errors,
    unwanted_types,
)
from tarrafa.testweb.hostile.hostile_host import (
    HOSTILE_HOSTS,
    SUFFIXES,
    CrawlExpectation,
    HostileExchange,
    HostileHandler,
    HostileHost,
    hostile_host_of,
    hostile_roots,
    register_host,
)
from tarrafa.testweb.hostile.private_addresses import FORBIDDEN_ROOTS
from tarrafa.testweb.hostile.slow_responses import SLOW_PAUSE_S, SLOW_PIECES

__all__ = [
    "FORBIDDEN_ROOTS",
    "HOSTILE_HOSTS",
    "SLOW_PAUSE_S",
    "SLOW_PIECES",
    "SUFFIXES",
    "CrawlExpectation",
    "HostileExchange",
    "HostileHandler",
    "HostileHost",
    "hostile_host_of",
    "hostile_roots",
    "register_host",
]
