"""RDFa: the W3C's own test suite, by its own questions and by the graphs that it lists."""

from collections import Counter

import pyoxigraph
import pytest

from tests.conformance_data import requires_data
from tests.rdfa_suite import LEAST, MANIFEST, Case, cases, extract, passes

# In text/html a role is ARIA's: it would make "structured" what says nothing. XHTML has it as RDFa.
ROLES_IN_HTML = {f"rdfa1.1-lite/html5/{number}" for number in ("0305", "0306", "0307")}
# Cases whose listed graph is another than their question asks for: it names the page of another suite (0281, 0282), has
# a blank node for the page (0280), or is what one processor made of all other cases together (0295).
GRAPH_DIFFERS = {"0280", "0281", "0282", "0295"}


@requires_data(MANIFEST)
@pytest.mark.parametrize("suite", LEAST)
def test_w3c_rdfa_suite(suite):
    failed = {case.name for case in cases() if case.suite == suite and not passes(case)}
    assert failed == (ROLES_IN_HTML if suite == "lite" else set())


@requires_data(MANIFEST)
def test_all_cases_of_the_w3c_suite_are_asked():
    assert Counter(case.suite for case in cases()) == {
        "html5": 170, "html5-invalid": 28, "html4": 169, "xhtml1": 181, "xhtml5": 177, "xhtml5-invalid": 23, "lite": 157
    }  # fmt: skip


@requires_data(MANIFEST)
def test_nothing_is_stated_that_the_w3c_suite_does_not_list():
    others = {case.name for case in cases() if case.answer and found(case) != listed(case)}
    assert {name for name in others if name.rpartition("/")[2] not in GRAPH_DIFFERS} == ROLES_IN_HTML


def found(case: Case) -> set[str]:
    return graph(extract(case.page.read_bytes(), case.url, case.content_type), pyoxigraph.RdfFormat.N_QUADS, case.url)


def listed(case: Case) -> set[str]:
    if case.name.rpartition("/")[2] in GRAPH_DIFFERS:
        return set()
    return graph(case.question.with_suffix(".ttl").read_text(), pyoxigraph.RdfFormat.TURTLE, case.url)


def graph(text: str, syntax: pyoxigraph.RdfFormat, base: str) -> set[str]:
    quads = pyoxigraph.parse(text.encode(), format=syntax, base_iri=base if syntax.file_extension == "ttl" else None)
    dataset = pyoxigraph.Dataset(pyoxigraph.Quad(quad.subject, quad.predicate, quad.object) for quad in quads)
    dataset.canonicalize(pyoxigraph.CanonicalizationAlgorithm.UNSTABLE)
    return set(map(str, dataset))
