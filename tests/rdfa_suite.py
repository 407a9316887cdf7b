"""Does a processor of RDFa give what the W3C's test suite asks for? Shared by the tests and benchmarks/conformance.py.

Each case asks its own question (SPARQL ASK) about what was found in its page. Cases that need a parameter of the
processor (its own graph of warnings, vocabularies to fetch) are left aside.
"""

import json
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pyoxigraph

from tarrafa.parse import structured
from tests.conformance_data import CONFORMANCE_DIR

MANIFEST = "rdfa/manifest.jsonld"
ADDRESS = "http://rdfa.info/test-suite/test-cases"
VERSIONS = {"rdfa1.1": "", "rdfa1.1-lite": "lite"}
HOSTS = ("html5", "html5-invalid", "html4", "xhtml1", "xhtml5", "xhtml5-invalid")
LEAST = {
    "html5": 170,
    "html5-invalid": 27,
    "html4": 168,
    "xhtml1": 179,
    "xhtml5": 175,
    "xhtml5-invalid": 23,
    "lite": 150,
}

HTML, XHTML = "text/html; charset=utf-8", "application/xhtml+xml"


class Case(NamedTuple):
    """A page, what is asked about it, and the answer; `suite` is its host language, or lite."""

    suite: str
    name: str
    page: Path
    url: str
    content_type: str
    question: Path
    answer: bool


@cache
def cases() -> tuple[Case, ...]:
    """All that count; none where the data is absent."""
    path = CONFORMANCE_DIR / MANIFEST
    if not path.exists():
        return ()
    found = []
    for entry in json.loads(path.read_text(encoding="utf-8"))["@graph"]:
        for version, suite in VERSIONS.items():
            if version in entry["versions"] and "queryParam" not in entry:
                found += [_case(entry, version, suite, host) for host in HOSTS if host in entry["hostLanguages"]]
    return tuple(found)


def _case(entry: dict[str, object], version: str, suite: str, host: str) -> Case:
    number = str(entry["num"])
    ending = "xhtml" if host.startswith("xhtml") else "html"
    place = f"{version}/{host}/{number}"
    folder = CONFORMANCE_DIR / "rdfa" / "test-cases"
    return Case(
        suite or host,
        place,
        folder / f"{place}.{ending}",
        f"{ADDRESS}/{place}.{ending}",
        XHTML if ending == "xhtml" else HTML,
        folder / f"{place}.sparql",
        bool(entry["expectedResults"]),
    )


def extract(body: bytes, url: str, content_type: str) -> str:
    """What our processor finds, as N-Quads."""
    return structured.extract(body, url, content_type, only="rdfa")


def passes(case: Case, extractor: Callable[[bytes, str, str], str] = extract) -> bool:
    """Whether what the processor finds answers the question as it should be answered."""
    store = pyoxigraph.Store()
    found = extractor(case.page.read_bytes(), case.url, case.content_type)
    store.load(found.encode(), format=pyoxigraph.RdfFormat.N_QUADS)
    return bool(store.query(case.question.read_text(encoding="utf-8"))) is case.answer
