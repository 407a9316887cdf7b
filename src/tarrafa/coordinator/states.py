"""Collection states: what each means, which actions it allows, and the reason in words.

The frontier has the state; this says what it means to people, which actions are open, and why the others are not.
Pure.
"""

import re
from datetime import UTC, datetime, tzinfo
from enum import Enum

import msgspec

from tarrafa.errors import ConfigError

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


class LocalizedReason(msgspec.Struct, frozen=True):
    """A reason in words, in each language of the console. The frontier has the first one."""

    en: str
    pt: str = ""

    def in_language(self, code: str) -> str:
        return self.pt or self.en if code == "pt" else self.en


# what the crawl and the command line give as reasons
REASON_TRANSLATIONS = tuple(
    (re.compile(english), portuguese)
    for english, portuguese in (
        (r"everything in reach was visited", "tudo o que está ao alcance foi visitado"),
        (r"every site in reach was visited; ([\d,]+) of their URLs were passed over",
         r"todos os sites ao alcance foram visitados; \1 das suas URLs foram deixadas de lado"),
        (r"(pages_max|requests_max) = (\d+) was reached", r"\1 = \2 foi alcançado"),
        (r"by `tarrafa (start|resume)`", r"por `tarrafa \1`"),
        (r"by `tarrafa (pause|stop)`; `tarrafa (resume|crawl FILE)` goes on",
         r"por `tarrafa \1`; `tarrafa \2` continua"),
        (r"stopped; `tarrafa crawl FILE`, or `tarrafa resume` beside a node, goes on where it was",
         "parada; `tarrafa crawl FILE`, ou `tarrafa resume` ao lado de um nó, continua de onde estava"),
        (r"created; not started yet", "criada; ainda não começou"),
        (r"paused by order", "pausado por ordem"),
        (r"paused: the disk is nearly full \((\d+) MB left, (\d+) MB needed\)",
         r"pausado: o disco está quase cheio (restam \1 MB, são precisos \2 MB)"),
        (r"by (\S+) at ([\d:]+) on ([\d-]+)", r"por \1 às \2 de \3"),
    )
)  # fmt: skip


def translate_reason(reason: str) -> LocalizedReason:
    """A reason that somebody else gave; where nobody knows it in Portuguese, it stays as it is."""
    matches = ((english.fullmatch(reason), portuguese) for english, portuguese in REASON_TRANSLATIONS)
    return LocalizedReason(reason, next((found.expand(portuguese) for found, portuguese in matches if found), ""))


def translate_node_trouble(trouble: str) -> LocalizedReason:
    """What a node says of itself: one thing after another."""
    parts = [translate_reason(part) for part in trouble.split("; ")]
    return LocalizedReason(trouble, "; ".join(part.in_language("pt") for part in parts))


def allowed_actions(state: str, rest: ScheduleStatus = ScheduleStatus.UNPLANNED) -> list[str]:
    return [action for action in ACTIONS if state in _states_for(action, rest)]


def check_action(name: str, action: str, state: str, rest: ScheduleStatus = ScheduleStatus.UNPLANNED) -> None:
    """Raise why that cannot be done now."""
    allowed = _states_for(action, rest)
    if state in allowed:
        return
    open_now = ", ".join(allowed_actions(state, rest)) or "nothing"
    raise ConfigError(f"{name} is {state}: {action} is for what is {_join_with_or(allowed)}; possible now: {open_now}")


def _states_for(action: str, rest: ScheduleStatus) -> frozenset[str]:
    """Between its runs a schedule can be paused, and then there is no run that could be stopped."""
    if action == "pause" and rest is ScheduleStatus.PLANNED:
        return ACTIONS[action] | BETWEEN_RUNS
    if action == "stop" and rest is ScheduleStatus.HELD:
        return ACTIONS[action] - {"paused"}
    return ACTIONS[action]


def reason_by_person(who: str, at: float, zone: tzinfo | None = None) -> LocalizedReason:
    """`by ana at 14:02 on 2026-11-30`; the state stands in front of it."""
    day, time = local_day_and_time(at, zone)
    return LocalizedReason(f"by {who} at {time} on {day}", f"por {who} às {time} de {day}")


def reason_schedule_paused(by: LocalizedReason) -> LocalizedReason:
    """Paused between two runs."""
    return LocalizedReason(
        f"{by.en}; its schedule rests until somebody resumes it", f"{by.pt}; sua agenda espera até que alguém a retome"
    )


def reason_edited(by: LocalizedReason) -> LocalizedReason:
    """It was over, and by an edit there is more to visit."""
    return LocalizedReason(f"goes on since it was edited {by.en}", f"continua desde que foi editada {by.pt}")


def local_day_and_time(at: float, zone: tzinfo | None = None) -> tuple[str, str]:
    """Day and time, as the clock on the wall of this machine shows them."""
    shown = datetime.fromtimestamp(at, UTC).astimezone(zone)
    return shown.strftime("%Y-%m-%d"), shown.strftime("%H:%M")


def _join_with_or(states: frozenset[str]) -> str:
    *first, last = sorted(states)
    return f"{', '.join(first)} or {last}" if first else last
