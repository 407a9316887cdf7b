"""Submits a collection with its roots to the frontier."""

import asyncio
from collections.abc import Container
from itertools import islice

from tarrafa import config
from tarrafa.config import Collection
from tarrafa.crawl.scope.admission import Admission
from tarrafa.frontier.api import Frontier
from tarrafa.frontier.messages import CollectionRow, DiscoveredUrl

ROOTS_PER_CALL = 4_000


async def submit_collection(
    frontier: Frontier, collection: Collection, *, start: bool = True, sown: Container[str] = frozenset()
) -> CollectionRow:
    """Submit a collection with its roots. `start=False` leaves its state as it is. `sown`: roots that the frontier has
    already. There may be a million roots: they go in batches, and what takes long runs beside the event loop."""
    roots = (root for root in Admission(collection).admit_roots() if root.url not in sown)
    content = await asyncio.to_thread(config.encode_collection, collection)

    def next_roots() -> list[DiscoveredUrl]:
        return list(islice(roots, ROOTS_PER_CALL))

    row = await frontier.open_collection(content, await asyncio.to_thread(next_roots), start)
    while more := await asyncio.to_thread(next_roots):
        await frontier.seed(row.id, more)
        if start and any(one.id == row.id and one.state == "finished" for one in await frontier.collection_states()):
            row = await frontier.open_collection(content, [], start)  # it had ended with what it was given so far
    return row
