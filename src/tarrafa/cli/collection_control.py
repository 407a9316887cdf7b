"""Starts, pauses, resumes, stops and deletes a collection, through the node that runs here or the frontier itself."""

import asyncio

from tarrafa import credentials
from tarrafa.cli.crawl import resume_command, set_collection_state
from tarrafa.cli.options import current_user
from tarrafa.clock import Clock
from tarrafa.coordinator.node.local_control import ControlAction, ControlRequest, send_control_request
from tarrafa.crawl.supervisor.propagation import delete_collection as delete_it
from tarrafa.errors import Locked, Unreachable
from tarrafa.fetch.suffix_list import bundled_suffix_list
from tarrafa.frontier.address import Address, connect, local_address
from tarrafa.frontier.store.sqlite_frontier import SqliteFrontier
from tarrafa.graph import follower as graph
from tarrafa.i18n import Message
from tarrafa.index import follower as index
from tarrafa.runtime.data_dir import DataDirectory
from tarrafa.triples import follower as triples

STATE_AFTER: dict[str, str] = {"start": "running", "pause": "paused", "resume": "running", "stop": "stopped"}


async def control_collection(
    data: DataDirectory, address: Address | None, action: ControlAction, name: str, reason: Message | str
) -> str:
    """Do it; the new state of the collection. `reason` is noted in the frontier if no node runs here."""
    answer = (
        None if address is not None else await send_control_request(data, ControlRequest(action, name, current_user()))
    )
    if answer is not None:
        return answer.state
    try:
        await set_collection_state(
            address or local_address(data), name, STATE_AFTER[action], reason, again=action == "start"
        )
    except Unreachable:
        if address is not None:
            raise
        raise Unreachable(f"{data.root}: nothing runs here; {resume_command(data)} goes on where it was") from None
    return STATE_AFTER[action]


LATER = "; running search processes drop its pages within seconds, others at their next start"


def delete_collection(data: DataDirectory, address: Address | None, name: str) -> str:
    """Delete a collection of the frontier at that address, or of the data directory; the message to print."""
    if address is not None and (data.frontier.exists() or not data.version.exists()):
        # Nothing is archived here, or for another frontier.
        asyncio.run(_delete_through(None, address, name))
        return f"{name}: deleted{LATER}"
    if address is None:
        data.check_version()
    try:
        if (
            address is not None
            or asyncio.run(send_control_request(data, ControlRequest("delete", name, current_user()))) is None
        ):
            asyncio.run(_delete_through(data, address or local_address(data), name))
    except Unreachable:
        if address is not None or not data.frontier.exists():
            raise
        asyncio.run(_delete_offline(data, name))
    credentials.write(data, name, [])  # no collection sends them any more
    followers = (graph.drop_deleted(data), index.drop_deleted(data), triples.drop_deleted(data))
    return f"{name}: deleted{'' if address is None and all(followers) else LATER}"


async def _delete_through(data: DataDirectory | None, address: Address, name: str) -> None:
    frontier = await connect(address)
    try:
        await delete_it(frontier, data, name)
    finally:
        await frontier.close()


async def _delete_offline(data: DataDirectory, name: str) -> None:
    """No process owns the frontier: own it meanwhile. A collection that its owner left running is interrupted."""
    lock = data.try_lock()
    if lock is None:
        raise Locked(f"{data.root}: another Tarrafa process runs here, and does not respond")
    with lock:
        frontier = SqliteFrontier(data.frontier, Clock.from_environment(), bundled_suffix_list())
        try:
            for one in (await frontier.overview()).collections:
                if one.name == name and one.state == "running":
                    await frontier.set_state(name, "stopped", "interrupted")
            await delete_it(frontier, data, name)
        finally:
            await frontier.close()
