"""Serves a synthetic Web on loopback for tests, benchmarks and `tarrafa demo`, with an oracle for crawls.

Pages are computed from (seed, URL, time); nothing is stored. The oracle computes what a correct crawl finds, and a log
records which client requested which URL and when.

The path of a request: `http.web_server` -> `http.connection` -> `http.web_response` -> `world.resources` (which
resource has this path) -> `render.page_html` (its HTML), and below these `world.page_links`, `render.robots_sitemaps`,
`world.change_model`, `world.prose`, `world.lexicon` and `world.hash_random`. `oracle` reads the same facts and computes
what a crawler should find. `hostile` holds the misbehaving hosts.

Promises: it listens on loopback addresses only; the same `World` arguments give the same Web on every machine and at
any time.
Knows nothing of the crawler.
"""

from tarrafa.testweb.hostile import FORBIDDEN_ROOTS, HOSTILE_HOSTS, SUFFIXES, hostile_host_of
from tarrafa.testweb.hostile.hostile_host import CrawlExpectation
from tarrafa.testweb.hostile.tls_failures import CA_FILE
from tarrafa.testweb.http.request_log import LoggedRequest, measure_politeness, read_log
from tarrafa.testweb.http.web_process import start_process
from tarrafa.testweb.http.web_server import WebServer, WebServerStats
from tarrafa.testweb.oracle import TruthPage, describe_host, expected_requests, reachable, version_of_url
from tarrafa.testweb.world.hosts import BY_NAME, UrlForm, World

__all__ = [
    "BY_NAME",
    "CA_FILE",
    "FORBIDDEN_ROOTS",
    "HOSTILE_HOSTS",
    "SUFFIXES",
    "CrawlExpectation",
    "LoggedRequest",
    "TruthPage",
    "UrlForm",
    "WebServer",
    "WebServerStats",
    "World",
    "describe_host",
    "expected_requests",
    "hostile_host_of",
    "measure_politeness",
    "reachable",
    "read_log",
    "start_process",
    "version_of_url",
]
