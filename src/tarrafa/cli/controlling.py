"""`tarrafa start`, `pause`, `resume` and `stop`: said to the node that works here, else to the frontier itself."""

from tarrafa.cli.curating import current_user
from tarrafa.cli.running import set_collection_state, resume_command
from tarrafa.coordinate.terminal import ControlAction, ControlRequest, send_control_request
from tarrafa.data import DataDirectory
from tarrafa.errors import Unreachable
from tarrafa.frontier.address import Address, local_address

STATE_AFTER: dict[str, str] = {"start": "running", "pause": "paused", "resume": "running", "stop": "stopped"}


async def control_collection(data: DataDirectory, address: Address | None, action: ControlAction, name: str, reason: str) -> str:
    """The state in which it leaves the collection. `reason`: what the frontier hears where no node says who it was."""
    answer = None if address is not None else await send_control_request(data, ControlRequest(action, name, current_user()))
    if answer is not None:
        return answer.state
    try:
        await set_collection_state(address or local_address(data), name, STATE_AFTER[action], reason, again=action == "start")
    except Unreachable:
        if address is not None:
            raise
        raise Unreachable(f"{data.root}: nothing runs here; {resume_command(data)} goes on where it was") from None
    return STATE_AFTER[action]
