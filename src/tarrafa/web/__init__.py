"""What would the Web answer?

A synthetic Web on loopback: the playground, the test bed, the benchmark's other side. Pages are made from (seed, URL,
time), nothing is stored; it can tell the truth about itself, and it remembers who asked for what and when.

A request walks: server -> connection -> answer -> site (what is there?) -> page (how is it written?), and below these
links, notices, change, prose, words and chance. `truth` reads the same facts and tells what a crawler should find.

Promises: only loopback is ever listened on; the same `World` is the same everywhere and always.
Knows nothing of the crawler.
"""

from tarrafa.web.corners import CORNERS, FORBIDDEN_ROOTS, SUFFIXES, Corner, Expects, corner_of
from tarrafa.web.corners.secure import CA_FILE
from tarrafa.web.log import Entry, Politeness, politeness, read_log
from tarrafa.web.server import Stats, WebServer, run
from tarrafa.web.spawn import WebProcess, start_process
from tarrafa.web.truth import Expected, Reached, TruthPage, expected, of_host, reachable, version_of
from tarrafa.web.world import NAMES, Form, Host, World

__all__ = [
    "CA_FILE",
    "CORNERS",
    "FORBIDDEN_ROOTS",
    "NAMES",
    "SUFFIXES",
    "Corner",
    "Entry",
    "Expected",
    "Expects",
    "Form",
    "Host",
    "Politeness",
    "Reached",
    "Stats",
    "TruthPage",
    "WebProcess",
    "WebServer",
    "World",
    "corner_of",
    "expected",
    "of_host",
    "politeness",
    "reachable",
    "read_log",
    "run",
    "start_process",
    "version_of",
]
