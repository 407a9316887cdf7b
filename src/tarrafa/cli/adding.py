"""tarrafa add FILE: a collection for the node that works here, which runs it when it is time."""

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tarrafa.cli import cluster
from tarrafa.cli.options import DEFAULT_DATA, Data
from tarrafa.data import DataDirectory
from tarrafa.errors import Unreachable

if TYPE_CHECKING:
    from tarrafa.config import Collection


def add(
    file: Annotated[Path, typer.Argument(help="A collection file (TOML); `tarrafa init` writes one.")],
    data: Data = DEFAULT_DATA,
    where: cluster.FrontierAddress = None,
    token_file: cluster.TokenFile = None,
) -> None:
    """Hand a collection to the node that works in a data directory: it starts when its schedule says so,
    or when somebody starts it.

    One that is there already takes up what the file says, and stays in the state that it is in; but one that was
    finished goes on, if there is more to visit now.
    """
    from tarrafa.cli.curating import current_user
    from tarrafa.config import encode_collection
    from tarrafa.coordinate.terminal import ControlRequest, send_control_request
    from tarrafa.crawl.collection import load_collection
    from tarrafa.crawl.supervise import submit_collection
    from tarrafa.frontier.address import connect, from_command_line, local_address

    collection, directory = load_collection(file), DataDirectory(data)
    address = from_command_line(where, token_file)
    if address is None:
        directory.check_version()

    async def handed_over() -> tuple[str, str]:
        if address is None:
            answer = await send_control_request(directory, ControlRequest("add", collection.name, current_user(), encode_collection(collection)))
            if answer is not None:
                return answer.state, answer.reason
        frontier = await connect(address or local_address(directory))
        try:
            row = await submit_collection(frontier, collection, start=False)
            return row.state, row.reason
        finally:
            await frontier.close()

    try:
        state, reason = asyncio.run(handed_over())
    except Unreachable:
        if address is not None:
            raise
        raise Unreachable(f"{directory.root}: nobody works here; start `tarrafa node` first") from None
    typer.echo(f"{collection.name}: handed over; {_next_step_text(collection, state, reason)}")


def _next_step_text(collection: "Collection", state: str, reason: str) -> str:
    """What becomes of it."""
    schedule = collection.schedule
    if state not in ("ready", "waiting"):
        return f"it is {state}"
    if not (schedule.start or schedule.every):
        return f"`tarrafa start {collection.name}`, or somebody in the console, starts it"
    return f"it is {state}: {reason}" if state == "waiting" else "the node that coordinates starts it by its schedule"
