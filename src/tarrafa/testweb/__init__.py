"""Serves a synthetic Web on loopback for tests, benchmarks and `tarrafa demo`, with an oracle for crawls.

A synthetic Web on loopback: the playground, the test bed, the benchmark's other side. Pages are made from (seed, URL,
time), nothing is stored; it can tell the truth about itself, and it remembers who asked for what and when.

A request walks: server -> connection -> answer -> site (what is there?) -> page (how is it written?), and below these
links, notices, change, prose, words and chance. `truth` reads the same facts and tells what a crawler should find.

Promises: only loopback is ever listened on; the same `World` is the same everywhere and always.
Knows nothing of the crawler.
"""

from tarrafa.testweb.hostile import (
    FORBIDDEN_ROOTS,
    HOSTILE_HOSTS,
    SUFFIXES,
    CrawlExpectation,
    HostileHost,
    hostile_host_of,
)
from tarrafa.testweb.hostile.tls_failures import CA_FILE
from tarrafa.testweb.http.request_log import LoggedRequest, PolitenessMeasurement, measure_politeness, read_log
from tarrafa.testweb.http.web_process import WebProcess, start_process
from tarrafa.testweb.http.web_server import WebServer, WebServerStats, run_web_server
from tarrafa.testweb.oracle import (
    ExpectedRequests,
    ReachableUrl,
    TruthPage,
    describe_host,
    expected_requests,
    reachable,
    version_of_url,
)
from tarrafa.testweb.world.world import BY_NAME, UrlForm, WebHost, World

__all__ = [
    "BY_NAME",
    "CA_FILE",
    "FORBIDDEN_ROOTS",
    "HOSTILE_HOSTS",
    "SUFFIXES",
    "CrawlExpectation",
    "ExpectedRequests",
    "HostileHost",
    "LoggedRequest",
    "PolitenessMeasurement",
    "ReachableUrl",
    "TruthPage",
    "UrlForm",
    "WebHost",
    "WebProcess",
    "WebServer",
    "WebServerStats",
    "World",
    "describe_host",
    "expected_requests",
    "hostile_host_of",
    "measure_politeness",
    "reachable",
    "read_log",
    "run_web_server",
    "start_process",
    "version_of_url",
]
