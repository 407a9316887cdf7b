"""What would happen if this were started?

A dry run and an estimate of a collection, whether it is there or only written down so far. Promises: nothing is
changed, nobody elsewhere is asked; it is worked out beside the loop, for ESTIMATES_AT_ONCE people at a time, because an
estimate reads much; the others wait.
"""

import asyncio
from collections.abc import Iterable

import msgspec

from tarrafa.config import Collection
from tarrafa.coordinate.estimating import Estimate, estimate
from tarrafa.coordinate.gathering import gather
from tarrafa.coordinate.judging import Verdict, judge, unknown
from tarrafa.coordinate.words import Words
from tarrafa.coordinate.words.english import ENGLISH
from tarrafa.data import DataDirectory
from tarrafa.frontier.address import Address
from tarrafa.takedown import TakenDown

ESTIMATES_AT_ONCE = 2


class Judgement(msgspec.Struct, frozen=True):
    """A verdict for each line, and what no dry run can know."""

    verdicts: list[Verdict]
    unknown: list[str]


class Rehearsal:
    """For the collections of one data directory. `address`: of its frontier, where that is elsewhere."""

    def __init__(self, data: DataDirectory, address: Address | None) -> None:
        self._data, self._address = data, address
        self._places = asyncio.Semaphore(ESTIMATES_AT_ONCE)

    async def judge(self, collection: Collection, urls: Iterable[str], words: Words = ENGLISH) -> Judgement:
        lines = list(urls)

        def judged() -> Judgement:
            verdicts = judge(collection, lines, TakenDown(self._data).covers, words)
            return Judgement(verdicts, unknown(collection, words) if verdicts else [])

        return await asyncio.to_thread(judged)

    async def estimate(self, collection: Collection, words: Words = ENGLISH) -> Estimate:
        async with self._places:
            known = await gather(self._data, collection, address=self._address)
            return await asyncio.to_thread(estimate, collection, known, words)
