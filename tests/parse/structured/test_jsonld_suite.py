"""JSON-LD in HTML, by the W3C's suite of the JSON-LD 1.1 API (the cases that end in RDF)."""

import pytest

from tests.conformance_data import requires_data
from tests.structured_data_suites import JSONLD, jsonld_cases, passes, read_jsonld

COUNT = 20


@requires_data(JSONLD)
def test_the_suite_is_whole():
    assert len(jsonld_cases()) == COUNT


@requires_data(JSONLD)
@pytest.mark.parametrize("case", jsonld_cases(), ids=lambda case: f"{case.name} {case.purpose}")
def test_json_ld_11_html(case):
    assert passes(case, read_jsonld)
