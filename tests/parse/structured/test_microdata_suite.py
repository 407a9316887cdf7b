"""Microdata, by the W3C's suite of Microdata to RDF."""

import pytest

from tests.conformance_data import requires_data
from tests.structured_data_suites import MICRODATA, microdata_cases, passes, read_microdata

COUNT = 83  # and one (0085) that is an error in the suite: a ring of itemrefs. We tell it once around instead.


@requires_data(MICRODATA)
def test_the_suite_is_whole():
    assert len(microdata_cases()) == COUNT


@requires_data(MICRODATA)
@pytest.mark.parametrize("case", microdata_cases(), ids=lambda case: f"{case.name} {case.purpose}")
def test_microdata_to_rdf(case):
    assert passes(case, read_microdata)
