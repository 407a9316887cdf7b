"""Deletes a collection: waits for running visits, notes the deletion, then removes its rows from the frontier.

The order is fixed. First no further visit starts, and running visits end. Then the frontier notes the deletion; the
archive of every machine learns of it (`propagation.py`), this machine's at once, so that graph, index and triple store
drop the collection. Then the frontier removes its rows, the name last. After a kill, the deletion is simply repeated.
Promises: a name is never free before every machine can learn of the deletion, and no machine archives for a new
collection of that name before it has. What was archived stays archived.
"""

import asyncio

from tarrafa.clock import Clock, boottime
from tarrafa.crawl.supervisor.propagation import DeletionSync
from tarrafa.errors import FrontierError
from tarrafa.frontier.api import Frontier
from tarrafa.runtime.data_dir import DataDirectory

ROWS_AT_ONCE = 5_000
RUNNING_VISITS_S_MAX, LOOK_EVERY_S = 60.0, 0.2  # running visits are waited for


async def delete_collection(frontier: Frontier, data: DataDirectory | None, name: str) -> None:
    """Delete a collection that does not run. `data` is None if no archive of this machine is concerned."""
    await frontier.delete_collection(name, 0)
    await _wait_for_running_visits(frontier, name)
    if data is not None:
        await DeletionSync(data, Clock.from_environment()).sync_once(frontier)
    while await frontier.delete_collection(name, ROWS_AT_ONCE):
        pass


async def _wait_for_running_visits(frontier: Frontier, name: str) -> None:
    """Wait: a running visit leaves a record, which must come before the note of the deletion."""
    until = boottime() + RUNNING_VISITS_S_MAX
    while not await frontier.record_deletion(name):
        if boottime() > until:
            raise FrontierError(
                f"{name}: some visits are still out, or a server does not answer; delete it again when they are home"
            )
        await asyncio.sleep(LOOK_EVERY_S)
