"""Registers the hostile hosts of the synthetic Web, one module for each kind of misbehaviour.

The modules: robots_failures (robots.txt itself), slow_busy_hosts (slow, stalled, endless; 429, 503, 500),
redirect_chains (and private addresses: never connect), content_codings (and compression bombs), malformed_http,
unwanted_types (types, sizes, office documents), expensive_markup (costly HTML), charsets_links, spider_traps (endless
sites), cloaking (cookies, user agents, validators), broken_sitemaps (sitemaps, feeds), tls_failures (TLS, IPv6).
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
    redirect_chains,
    robots_failures,
    slow_busy_hosts,
    spider_traps,
    tls_failures,
    unwanted_types,
)
from tarrafa.testweb.hostile.hostile_host import (
    HOSTILE_HOSTS,
    SUFFIXES,
    HostileExchange,
    HostileHost,
    hostile_host_of,
    hostile_roots,
)
from tarrafa.testweb.hostile.redirect_chains import FORBIDDEN_ROOTS

__all__ = [
    "FORBIDDEN_ROOTS",
    "HOSTILE_HOSTS",
    "SUFFIXES",
    "HostileExchange",
    "HostileHost",
    "hostile_host_of",
    "hostile_roots",
]
