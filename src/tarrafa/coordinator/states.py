"""Collection states: what each means, which actions it allows, and the messages that give reasons.

The frontier holds the state. Pure.
"""

from datetime import UTC, datetime, tzinfo
from enum import Enum

from tarrafa.errors import ConfigError
from tarrafa.i18n import Message, joined, message
from tarrafa.model import collection_state

DELETING = "deleting"  # it has begun, and can only be finished

# Action -> the states that allow it; between two runs see also `_states_for`.
ACTIONS: dict[str, frozenset[str]] = {
    "start": frozenset({"ready", "waiting"}),
    "pause": frozenset({"running"}),
    "resume": frozenset({"paused", "stopped"}),
    "retry": frozenset({"running"}),
    "stop": frozenset({"running", "paused", "waiting"}),
    "again": frozenset({"finished", "stopped"}),
    "delete": frozenset({"ready", "waiting", "paused", "stopped", "finished", DELETING}),
}
COMMANDS = {one: one for one in ("start", "pause", "resume", "stop", "delete")} | {"again": "start"}
BETWEEN_RUNS = frozenset({"waiting", "stopped", "finished"})


class ScheduleStatus(Enum):
    """The schedule of a collection while no run is open."""

    UNPLANNED = "no run is planned"
    PLANNED = "the next run is planned"
    HELD = "a person has paused the schedule"


def allowed_actions(state: str, schedule: ScheduleStatus = ScheduleStatus.UNPLANNED) -> list[str]:
    return [action for action in ACTIONS if state in _states_for(action, schedule)]


def check_action(
    name: str, action: str, state: str, schedule: ScheduleStatus = ScheduleStatus.UNPLANNED, shown: str = ""
) -> None:
    """Raise `ConfigError` if the state does not allow the action. `shown`: the state for people, if it is another."""
    allowed = _states_for(action, schedule)
    if state in allowed:
        return
    possible = allowed_actions(state, schedule)
    raise ConfigError(
        message(
            "{name} is {state}: {action} needs the state {allowed}; possible now: {possible}",
            name=name,
            state=collection_state(shown or state),
            action=action,
            allowed=joined([collection_state(one) for one in sorted(allowed)], ", "),
            possible=", ".join(_with_command(one, name) for one in possible) or message("nothing"),
        )
    )


def _with_command(action: str, name: str) -> str:
    """An action with the command that does it, if there is one: the console has a button for each."""
    command = COMMANDS.get(action)
    return f"{action} (`tarrafa {command} {name}`)" if command else action


def _states_for(action: str, schedule: ScheduleStatus) -> frozenset[str]:
    """Between two runs a schedule can be paused; a paused schedule has no run to stop."""
    if action == "pause" and schedule is ScheduleStatus.PLANNED:
        return ACTIONS[action] | BETWEEN_RUNS
    if action == "stop" and schedule is ScheduleStatus.HELD:
        return ACTIONS[action] - {"paused"}
    return ACTIONS[action]


def reason_by_person(who: str, at: float, zone: tzinfo | None = None) -> Message:
    """`by ana at 14:02 on 2026-11-30`, in the local time of this machine; it follows the name of the state."""
    shown = datetime.fromtimestamp(at, UTC).astimezone(zone)
    return message("by {who} at {time} on {day}", who=who, time=f"{shown:%H:%M}", day=f"{shown:%Y-%m-%d}")


def reason_schedule_paused(by: Message) -> Message:
    return message("{by}; its schedule is paused until it is resumed", by=by)


def reason_edited(by: Message) -> Message:
    """A finished collection has more to visit after an edit."""
    return message("continues since it was edited {by}", by=by)
