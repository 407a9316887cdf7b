"""The document of the real console: what it says is what is answered, whatever is sent."""

import contextlib
import re
from typing import Any

import pytest

from tests.server.console.coordinator_site import NAME, NODE, CoordinatorSite

schemathesis = pytest.importorskip("schemathesis", reason="schemathesis is not installed")
from hypothesis import given, settings  # noqa: E402
from hypothesis.errors import Unsatisfiable  # noqa: E402

from tests.server.api.test_api_contract import BEARER, MANY, MODES, check_as_documented  # noqa: E402

KNOWN = {"name": NAME, "node": NODE, "preset": "site", "status": "404"}


def ask_all(site: CoordinatorSite, cases: int, **more: Any) -> int:
    """Every operation below /api/v1; half of the time of what is really there. How often it was asked."""
    document = site.client().get("/api/openapi.json").json
    asked = 0
    for found in schemathesis.openapi.from_dict(document).get_all_operations():
        operation = found.ok()
        if not operation.path.startswith("/api/v1"):
            continue
        for mode in MODES:

            @given(case=operation.as_strategy(generation_mode=mode))
            @settings(max_examples=cases, **more, **MANY)
            def ask(case: Any) -> None:
                nonlocal asked
                asked += 1
                known = {name: KNOWN[name] for name in case.path_parameters if name in KNOWN}
                if known and asked % 2 and not is_dangerous(case):
                    case.path_parameters = dict(case.path_parameters) | known
                answer = case.call(base_url=site.address.rstrip("/"), headers={"Authorization": BEARER}, timeout=60)
                check_as_documented(document, case.path, case.method.lower(), answer)

            with contextlib.suppress(Unsatisfiable):  # there is nothing wrong that could be sent
                ask()
    assert site.program().send("PUT", "/api/v1/suggestions", {"is_on": False}).code == 200
    return asked


def is_dangerous(case: Any) -> bool:
    """What others here still need is not deleted, nor its node ordered to rest; and reports take seconds."""
    return bool(case.method == "DELETE" or case.path.endswith(("/actions", "/orders", "/reports")))


def test_the_document_tells_every_route_without_naming_our_modules(furnished):
    document = furnished.client().get("/api/openapi.json").json
    for door in furnished.console.api.guarded_routes():
        operation = document["paths"][door.path][door.method.lower()]
        assert operation["x-needs"] == door.need.name.lower()
        assert operation["summary"]
    names = set(document["components"]["schemas"])
    assert names >= {"CollectionSnapshot", "CollectionDetail", "CrawlEstimate", "CollectionReport", "Problem"}
    assert names >= {"UrlExplanation", "NodeOrders"}
    assert not [name for name in names if not re.fullmatch(r"\w+", name)]
    references = set(re.findall(r'"#/components/schemas/([^"]*)"', furnished.client().get("/api/openapi.json").text))
    assert references <= names
    for page in (furnished.client().get("/api"), furnished.client().get("/api?hl=pt")):
        assert page.code == 200
        assert "/api/v1/collections/{name}/actions" in page.text


def test_whatever_is_sent_to_the_real_console_there_is_no_500_and_answers_are_as_documented(furnished):
    before = furnished.state()
    assert ask_all(furnished, 3, derandomize=True) > 100
    after = furnished.state()
    assert after["states"] == before["states"]
    assert after["versions"] == before["versions"]


@pytest.mark.long
def test_whatever_is_sent_to_the_real_console_for_long_there_is_no_500(furnished):
    assert ask_all(furnished, 150) > 3_000
