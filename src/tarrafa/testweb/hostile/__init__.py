"""Registers the hostile hosts of the synthetic Web, one module for each kind of misbehaviour.

The modules: robots_failures (robots.txt itself), transient_errors (429, 503), redirect_chains, content_codings and
compression_bombs, malformed_http, slow_responses, unwanted_types (types and sizes), expensive_markup (costly HTML),
charsets_links, spider_traps (endless sites), cloaking (cookies, user agents, validators), broken_sitemaps (sitemaps,
feeds), office_documents, tls_failures (TLS, IPv6) and private_addresses (never connect).
To add a hostile host, call `register_site` with a table of URLs (`response_builders`), or write a coroutine that takes
a `HostileExchange` and register it with `@register_host` (`hostile_host`). State in a `CrawlExpectation` what a robust
crawler reports of the host; the journey tests check Tarrafa against it.

Promises: every hostile host is in `HOSTILE_HOSTS`.
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
