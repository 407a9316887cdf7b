"""How much of the W3C's RDFa 1.1 suite do we keep, and others? Rows for benchmarks/conformance.py."""

import logging
import warnings
from collections import Counter
from collections.abc import Callable

from tests.rdfa_suite import LEAST, Case, cases, extract, passes

from benchmarks.rdfa_peers import extruct, pyrdfa

PEERS = {"pyRdfa3": pyrdfa, "extruct": extruct}


def rdfa(row: Callable[[str, int, int, int, str], bool]) -> bool:
    """Print a row for each suite; whether all keep what they must."""
    logging.disable(logging.CRITICAL)  # the others tell of much that does not matter here
    warnings.simplefilter("ignore")
    totals = Counter(case.suite for case in cases())
    ours = passed(extract)
    theirs = {name: passed(read) if installed(read) else None for name, read in PEERS.items()}
    good = True
    for suite, least in LEAST.items():
        beside = [f"{name}: {'absent' if found is None else found[suite]}" for name, found in theirs.items()]
        good &= row(f"RDFa 1.1, {suite}", ours[suite], totals[suite], least, ", ".join(beside))
    return good


def passed(read: Callable[[bytes, str, str], str]) -> Counter[str]:
    return Counter(case.suite for case in cases() if _passes(case, read))


def _passes(case: Case, read: Callable[[bytes, str, str], str]) -> bool:
    try:
        return passes(case, read)
    except Exception:  # whatever another's program raises is one case that it does not pass
        return False


def installed(read: Callable[[bytes, str, str], str]) -> bool:
    try:
        read(b"", "http://e.example/", "text/html")
    except ImportError:
        return False
    except Exception:
        return True
    return True
