"""`tarrafa start`, `pause`, `resume` and `stop`: said to the node that works here, else to the frontier itself."""

from tarrafa.cli.curating import user
from tarrafa.cli.running import control, goes_on
from tarrafa.coordinate.terminal import Typed, Wish, ask
from tarrafa.data import DataDirectory
from tarrafa.errors import Unreachable
from tarrafa.frontier.address import Address, local

STATE_AFTER: dict[str, str] = {"start": "running", "pause": "paused", "resume": "running", "stop": "stopped"}


async def act(data: DataDirectory, address: Address | None, action: Typed, name: str, reason: str) -> str:
    """The state in which it leaves the collection. `reason`: what the frontier hears where no node says who it was."""
    answer = None if address is not None else await ask(data, Wish(action, name, user()))
    if answer is not None:
        return answer.state
    try:
        await control(address or local(data), name, STATE_AFTER[action], reason, again=action == "start")
    except Unreachable:
        if address is not None:
            raise
        raise Unreachable(f"{data.root}: nothing runs here; {goes_on(data)} goes on where it was") from None
    return STATE_AFTER[action]
