"""How well do we keep the public standards? Prints one table from the public test suites (see
tests/conformance_data.py)."""

import sys
from pathlib import Path

from protego import Protego

sys.path.insert(0, str(Path(__file__).parents[1]))

from tests import structured_data_suites
from tests.conformance_data import CONFORMANCE_DIR, cases

from benchmarks import markup_peers
from benchmarks.rdfa_suite import rdfa
from tarrafa.fetch.robots import parse
from tarrafa.parse.url import canonical

ROBOTS, URLS = "robots_cases.json", "url/urltestdata.json"
SUITES = {"google-rfc": 68, "google-only": 70, "rfc9309": 42}  # and the least that must pass
JSONLD_LEAST, MICRODATA_LEAST = 18, 80


def row(name: str, passed: int, total: int, least: int, peer: str = "") -> bool:
    print(f"{name:38} {passed:>5} of {total:<5} (at least {least}) {peer}")
    return passed >= least


def robots() -> bool:
    good = True
    for suite, least in SUITES.items():
        ours = [case for case in cases(ROBOTS) if case["suite"] == suite]
        texts = [bytes.fromhex(case["robots_hex"]) for case in ours]
        pairs = list(zip(ours, texts, strict=True))
        passed = sum(parse(text).allows(case["ua"], case["url"]) is case["expect"] for case, text in pairs)
        peer = sum(_protego(text).can_fetch(case["url"], case["ua"]) is case["expect"] for case, text in pairs)
        good &= row(f"robots.txt, {suite}", passed, len(ours), least, f"protego: {peer}")
    return good


def _protego(text: bytes) -> Protego:
    return Protego.parse(text.decode("utf-8", "replace"))


def urls() -> bool:
    passed = total = 0
    for case in cases(URLS):
        if not isinstance(case, str):
            expected = None if case.get("failure") else canonical(case["href"])
            total += 1
            passed += canonical(case["input"], case["base"]) == expected
    return row("URLs, WHATWG (WPT urltestdata)", passed, total, total)


def jsonld() -> bool:
    found = structured_data_suites.jsonld_cases()
    passed = sum(structured_data_suites.passes(case, structured_data_suites.read_jsonld) for case in found)
    return row("JSON-LD in HTML, W3C", passed, len(found), JSONLD_LEAST, _extruct(found, markup_peers.jsonld))


def microdata() -> bool:
    found = structured_data_suites.microdata_cases()
    passed = sum(structured_data_suites.passes(case, structured_data_suites.read_microdata) for case in found)
    return row("microdata, W3C", passed, len(found), MICRODATA_LEAST, _extruct(found, markup_peers.microdata))


def _extruct(found: list[structured_data_suites.Case], extract: structured_data_suites.Extract) -> str:
    try:
        return f"extruct: {sum(structured_data_suites.passes(case, extract) for case in found)}"
    except ImportError:
        return "extruct: not installed"


def main() -> None:
    if not CONFORMANCE_DIR.exists():
        sys.exit(f"{CONFORMANCE_DIR}: the conformance data is absent; set TARRAFA_CONFORMANCE to where it is")
    sys.exit(0 if all([robots(), urls(), rdfa(row), jsonld(), microdata()]) else 1)


if __name__ == "__main__":
    main()
