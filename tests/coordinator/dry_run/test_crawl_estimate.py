"""Pages, requests, time and bytes, from what is known and what is assumed."""

import heapq

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tarrafa.config import Collection
from tarrafa.coordinator.dry_run.crawl_estimate import (
    PAGES_OF_UNKNOWN_HOST,
    RESPONSE_S,
    EstimateInputs,
    KnownHost,
    estimate,
)
from tarrafa.crawl.scope.collection_loader import complete_collection
from tarrafa.i18n import ENGLISH, PORTUGUESE, message


def a_collection(*roots: str, **sections: object) -> Collection:
    return complete_collection({"name": "a", "roots": list(roots or ("a.br",)), **sections}, "test")


def met(name: str, pages: int, asked_s: float = 0.0, **more: int) -> KnownHost:
    return KnownHost(f"http://{name}:80", pages, more.get("requests", pages), more.get("known", pages),
                     whole="known" not in more, alike=True, asked_s=asked_s)  # fmt: skip


def walked(pages: int, visit_s: float) -> float:
    """When the last answer of a host begins: robots.txt first, then page after page."""
    return pages * visit_s


@given(st.lists(st.tuples(st.integers(1, 300), st.sampled_from([0.0, 0.5, 3.0])), min_size=1, max_size=8),
       st.sampled_from([None, 1, 10, 200]))  # fmt: skip
@settings(deadline=None)
def test_time_is_that_of_hosts_walked_side_by_side(hosts, pages_max):
    """Against a walk of every host, request by request."""
    collection = a_collection(scope={"hosts": ["*"]} | ({"pages_max": pages_max} if pages_max else {}))
    known = EstimateInputs(
        [met(f"h{n}.br", pages, asked_s) for n, (pages, asked_s) in enumerate(hosts)], again=True, answer_s=0.1
    )
    told = estimate(collection, known)
    ends = []
    for pages, asked_s in hosts:
        visit_s = max(1.0, asked_s) + 0.1
        ends += [walked(number, visit_s) for number in range(1, pages + 1)]
    wanted = min(len(ends), pages_max or len(ends))
    assert told.pages.likely == wanted
    last = heapq.nsmallest(wanted, ends)[-1]
    slack = max(max(1.0, asked_s) + 0.1 for _, asked_s in hosts)  # a page is no fraction of one
    assert last - slack <= told.seconds.likely <= last + slack
    assert told.seconds.low <= told.seconds.likely <= (told.seconds.high or 0)


def test_where_everything_is_known_pages_are_exact_and_time_is_the_pauses_of_the_largest_host():
    told = estimate(a_collection("a.br", "b.br"), EstimateInputs([met("a.br", 100), met("b.br", 1_000)], answer_s=0.1))
    assert told.pages.low == told.pages.likely == told.pages.high == 1_100
    assert told.seconds.low == 999  # the first one waits for nobody, and robots.txt may be known
    assert told.seconds.likely == pytest.approx(1_000 * 1.1)
    assert str(told.bound) == "bound by the pauses of the largest host, b.br"


@pytest.mark.parametrize(
    ("sections", "seconds", "bound"),
    [
        ({"politeness": {"delay": "2s"}}, 2_000 + 1_000 * RESPONSE_S, "pauses of the largest host"),
        ({"politeness": {"delays": {"*.br": "5s", "a.br": "9s"}}}, 9_000 + 1_000 * RESPONSE_S, "pauses of the largest"),
        ({"politeness": {"delay_factor": 20}}, 6_000 + 1_000 * RESPONSE_S, "pauses of the largest host"),
        ({"fetch": {"bandwidth": "5 KB"}}, 5_000, "[fetch] bandwidth = 5,000 bytes"),
        ({"scope": {"pages_max": 10}}, None, "it ends at pages_max = 10"),
        ({"scope": {"host_pages_max": 100}}, 100 * (1.5 + RESPONSE_S), "pauses of the largest host"),
        ({"scope": {"requests_max": 500}}, None, "it ends at requests_max = 500"),
    ],
)
def test_what_bounds_it_is_named(sections, seconds, bound):
    told = estimate(a_collection(**sections), EstimateInputs([met("a.br", 1_000)]))
    assert bound in str(told.bound)
    if seconds is not None:
        assert told.seconds.likely == pytest.approx(seconds, rel=0.01)


def test_more_hosts_than_places_wait_for_each_other():
    hosts = [met(f"h{n}.br", 10) for n in range(1_000)]
    roots = [f"h{n}.br" for n in range(1_000)]
    told = estimate(a_collection(*roots, fetch={"hosts_at_once": 10}), EstimateInputs(hosts, answer_s=0.1, workers=1))
    assert told.seconds.likely == pytest.approx(1_000 * 11 * 1.1 / 10)
    assert "hosts visited at once (10)" in str(told.bound)


def test_a_host_that_nobody_met_is_guessed_at_and_the_range_says_so():
    told = estimate(a_collection("a.br"), EstimateInputs(unmet=["http://a.br:80"]))
    assert (told.pages.low, told.pages.likely, told.pages.high) == PAGES_OF_UNKNOWN_HOST
    assert any(
        "unknown hosts: 1; pages of each: 10, probably 300, perhaps 10,000" in str(one) for one in told.assumptions
    )


def test_one_page_is_one_page_whatever_is_known():
    collection = a_collection("a.br/x", "b.br", scope={"depth_max": 0})
    told = estimate(collection, EstimateInputs([met("a.br", 500)], unmet=["http://b.br:80"]))
    assert told.pages.low == told.pages.likely == told.pages.high == 2


def test_where_hosts_are_without_end_there_is_no_highest_unless_somebody_sets_it():
    known = EstimateInputs([met("a.br", 10)])
    assert estimate(a_collection(scope={"hosts": ["*.br"]}), known).pages.high is None
    assert estimate(a_collection(scope={"hosts": ["*.br"], "pages_max": 7}), known).pages.high == 7


def test_what_waits_on_a_host_is_as_often_a_page_as_what_was_visited():
    told = estimate(a_collection(), EstimateInputs([met("a.br", 50, requests=100, known=300)]))
    assert (told.pages.low, told.pages.likely, told.pages.high) == (50, 150, 250)


def test_hosts_crawled_under_another_scope_promise_no_page_of_this_one():
    host = KnownHost("http://a.br:80", 100, 100, 100, whole=True)
    told = estimate(a_collection(scope={"include": ["*/x/*"]}), EstimateInputs([host]))
    assert (told.pages.low, told.pages.high) == (1, 100)
    assert any("another scope" in str(one) for one in told.assumptions)


def test_every_sentence_is_there_in_portuguese():
    collection = a_collection(scope={"hosts": ["*.br"], "exclude": ["x"]}, schedule={"every": "daily"})
    hosts = [KnownHost("http://b.br:80", 3, 4, 9, asked_s=4.0)]
    found = estimate(collection, EstimateInputs(hosts, unmet=["http://a.br:80"]))
    told, english = PORTUGUESE.render_all(found), ENGLISH.render_all(found)
    assert len(told.assumptions) == len(english.assumptions) >= 9
    assert not set(told.assumptions) & set(english.assumptions)
    assert "limitada" in str(told.bound)


def test_an_empty_world_takes_no_time():
    assert estimate(a_collection(), EstimateInputs()).bound == message("there is nothing to visit")
