"""A few hundred pages say how fresh all of them are."""

import math
from random import Random
from typing import cast

import pytest

from tarrafa.coordinator.monitoring.timeseries import estimate_freshness
from tarrafa.frontier.api import Frontier
from tarrafa.frontier.messages import RevisitPage
from tarrafa.revisit.policy import PageHistory


class FakeRevisitFrontier:
    """Pages as a frontier tells them: in the order of hosts."""

    def __init__(self, pages: list[RevisitPage]) -> None:
        self._pages = sorted(pages, key=lambda page: (page.host, page.id))

    async def revisit_pages(self, collection: int, host: int, url: bytes, limit: int) -> list[RevisitPage]:
        return [page for page in self._pages if (page.host, page.id) > (host, url)][:limit]


def a_page(number: int, last: float, rate_days: float) -> RevisitPage:
    history = PageHistory(0.0, last, 1.0, rate_days * 86_400.0)
    return RevisitPage((number * 0x9E3779B97F4A7C15) % (1 << 63), number.to_bytes(16, "big"), 1.0, False, history)


async def estimated(frontier: FakeRevisitFrontier, collection: int, now: float, rng: Random) -> float | None:
    return await estimate_freshness(cast(Frontier, frontier), collection, now, rng)


async def test_it_is_the_mean_of_what_each_page_lets_one_believe():
    now = 10 * 86_400.0
    pages = [a_page(number, now - 86_400.0 * (number % 2), 1.0) for number in range(2_000)]
    told = await estimated(FakeRevisitFrontier(pages), 1, now, Random(1))
    expected = (1 + math.exp(-pages[0].history.estimate * 86_400.0)) / 2
    assert told == pytest.approx(expected, abs=0.06)


async def test_few_pages_are_all_looked_at_and_none_give_no_number():
    assert await estimated(FakeRevisitFrontier([]), 1, 0.0, Random(1)) is None
    assert await estimated(FakeRevisitFrontier([a_page(1, 5.0, 1.0)]), 1, 5.0, Random(1)) == 1.0
