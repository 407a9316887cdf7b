"""Copies RDFa patterns (`rdfa:copy`, HTML+RDFa 1.1 section 3.5).

HTML+RDFa 1.1 section 3.5: a subject that copies (`rdfa:copy`) an `rdfa:Pattern` states everything that the pattern
states, including what the pattern copies in turn. Patterns that were copied are then removed.
Promises: cyclic patterns end; at most as many statements are made as asked for.
Knows nothing of elements.
"""

from collections import defaultdict
from collections.abc import Iterable

from tarrafa.parse.rdf.nquads import RDF_TYPE
from tarrafa.parse.structured.rdfa.initial_context import RDFA

COPY = f"<{RDFA}copy>"
PATTERN = f"<{RDFA}Pattern>"

Triple = tuple[str, str, str]


def copy_patterns(triples: Iterable[Triple], made_max: int) -> list[Triple]:
    """The statements after copying."""
    triples = list(triples)
    patterns = {subject for subject, predicate, value in triples if predicate == RDF_TYPE and value == PATTERN}
    said: dict[str, list[tuple[str, str]]] = defaultdict(list)
    copies: dict[str, list[str]] = defaultdict(list)
    for subject, predicate, value in triples:
        if predicate == COPY and value in patterns:
            copies[subject].append(value)
        elif subject in patterns and not (predicate == RDF_TYPE and value == PATTERN):
            said[subject].append((predicate, value))
    used = {target for targets in copies.values() for target in targets}
    kept = [triple for triple in triples if triple[0] not in used and not (triple[1] == COPY and triple[2] in patterns)]
    for subject in copies:
        if subject not in used:
            made_max -= _copy(subject, copies, said, kept, made_max)
    return kept


def _copy(
    subject: str,
    copies: dict[str, list[str]],
    said: dict[str, list[tuple[str, str]]],
    kept: list[Triple],
    made_max: int,
) -> int:
    """Add the statements that a subject copies. Returns the amount of work."""
    waiting, seen, work = list(copies[subject]), set[str](), 0
    while waiting and work < made_max:
        pattern = waiting.pop()
        work += 1
        if pattern in seen:
            continue
        seen.add(pattern)
        room = made_max - work
        kept += [(subject, predicate, value) for predicate, value in said.get(pattern, ())[:room]]
        waiting += copies.get(pattern, ())[: made_max - work]
        work += len(said.get(pattern, ())[:room]) + len(copies.get(pattern, ()))
    return work
