"""How is a collection deleted for good?

In one order: nothing may be visited for it any more, and what is out comes home; the frontier notes that it is no more,
which every machine's archive hears of (hearing.py), this one's at once, so that graph, index and triple store drop it
there; then the frontier takes it out, its name last. Killed in between, whoever deletes it again goes on: a name is
never free before everybody can hear of it, and nobody archives for its next owner before he has. What was archived
stays archived.
"""

import asyncio

from tarrafa.clock import Clock, boottime
from tarrafa.crawl.supervisor.propagation import DeletionSync
from tarrafa.errors import FrontierError
from tarrafa.frontier.api import Frontier
from tarrafa.runtime.data_dir import DataDirectory

ROWS_AT_ONCE = 5_000
RUNNING_VISITS_S_MAX, LOOK_EVERY_S = 60.0, 0.2  # what is out is waited for


async def delete_collection(frontier: Frontier, data: DataDirectory | None, name: str) -> None:
    """Delete a collection that does not run. None: no archive of this machine's has anything to do with it."""
    await frontier.delete_collection(name, 0)
    await _wait_for_running_visits(frontier, name)
    if data is not None:
        await DeletionSync(data, Clock.from_environment()).sync_once(frontier)
    while await frontier.delete_collection(name, ROWS_AT_ONCE):
        pass


async def _wait_for_running_visits(frontier: Frontier, name: str) -> None:
    """A visit that is out leaves a record, which must come before the note."""
    until = boottime() + RUNNING_VISITS_S_MAX
    while not await frontier.record_deletion(name):
        if boottime() > until:
            raise FrontierError(
                f"{name}: some visits are still out, or a server does not answer; delete it again when they are home"
            )
        await asyncio.sleep(LOOK_EVERY_S)
