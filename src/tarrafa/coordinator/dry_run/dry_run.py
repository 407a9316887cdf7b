"""The dry run of a collection: scope check and estimate, without changing anything.

A dry run and an estimate of a collection, whether it is there or only written down so far. Promises: nothing is
changed, nobody elsewhere is asked; it is worked out beside the loop, for ESTIMATES_AT_ONCE people at a time, because
an estimate reads much; the others wait.
"""

import asyncio
from collections.abc import Iterable

import msgspec

from tarrafa.config import Collection
from tarrafa.coordinator.dry_run.crawl_estimate import CrawlEstimate, estimate
from tarrafa.coordinator.dry_run.estimate_inputs import gather_estimate_inputs
from tarrafa.coordinator.dry_run.scope_check import ScopeVerdict, check_urls, unknown_before_crawl
from tarrafa.frontier.address import Address
from tarrafa.i18n import Message
from tarrafa.runtime.data_dir import DataDirectory
from tarrafa.takedown import CurrentTakedowns

ESTIMATES_AT_ONCE = 2


class ScopeCheckResponse(msgspec.Struct, frozen=True):
    """A verdict for each line, and what no dry run can know."""

    verdicts: list[ScopeVerdict]
    unknown: list[Message | str]


class DryRun:
    """For the collections of one data directory. `address`: of its frontier, where that is elsewhere."""

    def __init__(self, data: DataDirectory, address: Address | None) -> None:
        self._data, self._address = data, address
        self._places = asyncio.Semaphore(ESTIMATES_AT_ONCE)

    async def check_scope(self, collection: Collection, urls: Iterable[str]) -> ScopeCheckResponse:
        lines = list(urls)

        def judged() -> ScopeCheckResponse:
            verdicts = check_urls(collection, lines, CurrentTakedowns(self._data).covers)
            return ScopeCheckResponse(verdicts, unknown_before_crawl(collection) if verdicts else [])

        return await asyncio.to_thread(judged)

    async def estimate(self, collection: Collection) -> CrawlEstimate:
        async with self._places:
            known = await gather_estimate_inputs(self._data, collection, address=self._address)
            return await asyncio.to_thread(estimate, collection, known)
