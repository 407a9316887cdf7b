"""Collection states: what each means, which actions it allows, and the messages that give reasons.

The frontier has the state; this says what it means to people, which actions are open, and why the others are not.
Pure.
"""

from datetime import UTC, datetime, tzinfo
from enum import Enum

from tarrafa.errors import ConfigError
from tarrafa.i18n import Message, joined, message
from tarrafa.i18n.collection_states import collection_state

DELETING = "deleting"  # somebody began to: it can only be brought to its end

# action -> the states from which it can be taken; for collections at rest see `Rest`
ACTIONS: dict[str, frozenset[str]] = {
    "start": frozenset({"ready", "waiting"}),
    "pause": frozenset({"running"}),
    "resume": frozenset({"paused", "stopped"}),
    "retry": frozenset({"running"}),
    "stop": frozenset({"running", "paused", "waiting"}),
    "again": frozenset({"finished", "stopped"}),
    "delete": frozenset({"ready", "waiting", "paused", "stopped", "finished", DELETING}),
}


BETWEEN_RUNS = frozenset({"waiting", "stopped", "finished"})


class ScheduleStatus(Enum):
    """How a collection stands with its schedule when none of its runs is under way."""

    UNPLANNED = "none of its runs is to come"
    PLANNED = "its next run is to come"
    HELD = "its schedule rests, because somebody paused it"


def allowed_actions(state: str, rest: ScheduleStatus = ScheduleStatus.UNPLANNED) -> list[str]:
    return [action for action in ACTIONS if state in _states_for(action, rest)]


def check_action(name: str, action: str, state: str, rest: ScheduleStatus = ScheduleStatus.UNPLANNED) -> None:
    """Raise why that cannot be done now."""
    allowed = _states_for(action, rest)
    if state in allowed:
        return
    possible = allowed_actions(state, rest)
    raise ConfigError(
        message(
            "{name} is {state}: {action} is for what is {allowed}; possible now: {possible}",
            name=name,
            state=collection_state(state),
            action=action,
            allowed=joined([collection_state(one) for one in sorted(allowed)], ", "),
            possible=", ".join(possible) or message("nothing"),
        )
    )


def _states_for(action: str, rest: ScheduleStatus) -> frozenset[str]:
    """Between its runs a schedule can be paused, and then there is no run that could be stopped."""
    if action == "pause" and rest is ScheduleStatus.PLANNED:
        return ACTIONS[action] | BETWEEN_RUNS
    if action == "stop" and rest is ScheduleStatus.HELD:
        return ACTIONS[action] - {"paused"}
    return ACTIONS[action]


def reason_by_person(who: str, at: float, zone: tzinfo | None = None) -> Message:
    """`by ana at 14:02 on 2026-11-30`; the state stands in front of it."""
    day, time = local_day_and_time(at, zone)
    return message("by {who} at {time} on {day}", who=who, time=time, day=day)


def reason_schedule_paused(by: Message) -> Message:
    """Paused between two runs."""
    return message("{by}; its schedule rests until somebody resumes it", by=by)


def reason_edited(by: Message) -> Message:
    """It was over, and by an edit there is more to visit."""
    return message("goes on since it was edited {by}", by=by)


def local_day_and_time(at: float, zone: tzinfo | None = None) -> tuple[str, str]:
    """Day and time, as the clock on the wall of this machine shows them."""
    shown = datetime.fromtimestamp(at, UTC).astimezone(zone)
    return shown.strftime("%Y-%m-%d"), shown.strftime("%H:%M")
