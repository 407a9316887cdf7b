"""The decision of a schedule: whether a collection starts, runs again, stops, or waits.

`decide` is called about once a second for each collection, with the history of its runs; `now` is an argument.
Promises: never two runs at once; a repeated call, or a clock that jumps back, starts nothing twice; the last action of
a person wins; after a time without calls, one run is caught up, never a burst. It only decides; the caller acts.

- *Times.* With a period, the times of recurrence.py, counted from `start`, else from the creation of the collection
  (which is not a time itself). Without a period, `start` alone. Without both there are none: people start it. If
  `start` is in the past when it is written, the collection starts at once.
- *A run* lasts from its first visit to its end, also while it is paused. A time during a run is skipped, and the next
  one is the next regular time; so is a time while a person has paused the schedule. If a person stops a run, it has
  ended: the next time counts again.
- *Missed.* The last missed time is caught up at once, as anacron does; earlier ones are skipped.
- *Deadline.* The end of the whole schedule. A run that is open then, or paused, is stopped; no time at or after the
  deadline counts. A person may still start the collection by hand.
- *Edits.* Times before the last edit of the schedule are past.
Knows nothing of the frontier, of clocks, or of how a run is started.
"""

import math
from datetime import datetime
from typing import Literal

import msgspec

from tarrafa.config.sections import ScheduleConfig
from tarrafa.coordinator.schedule.recurrence import Recurrence, local_time, timestamp_of_local
from tarrafa.i18n import Message, Value, message, zoned_moment

ScheduleAction = Literal["nothing", "start", "begin_run", "stop"]
IDLE_STATES = frozenset({"ready", "waiting", "stopped", "finished", "failed"})
LATE_S = 60.0  # a run that begins later than that after its time was missed
UPCOMING_MAX = 1_000
# Reasons, shown after the state: "waiting: starts on Tuesday 2026-12-01 at 03:00 …".
REASONS = {
    "by_hand": message("starts when a person starts it"),
    "starts": message("starts on {at:moment} ({wait:ahead})"),
    "next": message("next run on {at:moment} ({wait:ahead})"),
    "no_more": message("no other run is planned"),
    "cut": message("was stopped by its deadline; continues when a person starts it"),
    "over": message("its deadline, {at:moment}, has passed: nothing more is started"),
    "until": message("runs until its end, or until {at:moment} ({wait:ahead})"),
    "to_its_end": message("runs until its end"),
    "beyond": message("runs after its deadline, {at:moment}, because a person started it"),
    "schedule_paused": message("its schedule is paused until it is resumed"),
    "start_has_come": message("its start, {at:moment}, has come"),
    "run_is_due": message("its run of {at:moment} is due"),
    "caught_up": message("its run of {at:moment} was missed and is caught up now"),
    "deadline_has_come": message("its deadline, {at:moment}, has come"),
    "left_out_running": message("its run of {at:moment} is skipped: the previous run was still open"),
    "left_out_paused": message("its run of {at:moment} is skipped: a person had paused it"),
}


class RunHistory(msgspec.Struct, frozen=True, kw_only=True):
    """The state and the runs of a collection. Times are seconds since 1970; None: never."""

    state: str  # as the frontier has it
    created: float
    changed: float | None = None  # when its schedule was last edited
    by_person: bool = False  # a person paused or stopped it
    acted: float | None = None  # when a person last started, paused, resumed or stopped it
    began: float | None = None  # its last run
    ended: float | None = None
    cut: bool = False  # that run was stopped by the deadline

    @property
    def is_under_way(self) -> bool:
        """A run has begun and has not ended. An unknown state counts as under way: it is left alone."""
        if self.state == "waiting":  # for its date, or in the middle of a run
            return self.began is not None and (self.ended is None or self.ended < self.began)
        return self.state not in IDLE_STATES and not self.is_held

    @property
    def is_held(self) -> bool:
        """Paused by a person between two runs."""
        between = self.began is None or (self.ended is not None and self.ended >= self.began)
        return self.state == "paused" and self.by_person and between


class ScheduleDecision(msgspec.Struct, frozen=True, omit_defaults=True):
    """What to do, and why. `left_out`: the reason why the time `left_out_at` was skipped; to be logged once."""

    action: ScheduleAction
    reason: Message
    at: float | None = None  # the scheduled time of the run; or the deadline that stops it
    next: float | None = None  # the next time after now
    left_out: Message | None = None
    left_out_at: float | None = None


def decide(schedule: ScheduleConfig, history: RunHistory, now: float) -> ScheduleDecision:
    plan = _ScheduleTimes(schedule, history)
    following, (left_out, left_out_at) = plan.after(now), plan.left_out(now)

    def answer(action: ScheduleAction, reason: Message, at: float | None = None) -> ScheduleDecision:
        return ScheduleDecision(action, reason, at, following, left_out, left_out_at)

    if plan.deadline is not None and now >= plan.deadline:
        action, key = _after_the_deadline(history, plan.deadline)
        return answer(action, plan.reason(key, plan.deadline), plan.deadline if action == "stop" else None)
    if history.is_held:
        return answer("nothing", plan.reason("schedule_paused"))
    if history.is_under_way:
        return answer("nothing", plan.reason_while_running(now))
    at = plan.due(now)
    if at is None:
        return answer("nothing", plan.reason_while_idle(now))
    key = "caught_up" if now - at > LATE_S else "run_is_due"
    if history.began is not None:
        return answer("begin_run", plan.reason(key, at), at)
    past_at_once = plan.start is not None and not schedule.every
    return answer("start", plan.reason("start_has_come" if past_at_once else key, at), at)


def upcoming_times(schedule: ScheduleConfig, history: RunHistory, now: float, count: int) -> list[float]:
    """The next times after now, in their order. Times during a run will be skipped."""
    plan, times = _ScheduleTimes(schedule, history), list[float]()
    while len(times) < min(count, UPCOMING_MAX) and (time := plan.after(times[-1] if times else now)) is not None:
        times.append(time)
    return times


def deadline_of(schedule: ScheduleConfig) -> float | None:
    return _timestamp(schedule.deadline, schedule.timezone)


def _after_the_deadline(history: RunHistory, deadline: float) -> tuple[ScheduleAction, str]:
    """An open run is stopped, unless a person started it after the deadline."""
    if not history.is_under_way or history.state not in ("running", "paused", "waiting"):
        return "nothing", "over"
    wanted = history.acted is not None and history.acted >= max(deadline, _latest(history.changed))
    if wanted:
        return "nothing", "beyond"
    return "stop", "deadline_has_come"


class _ScheduleTimes:
    """The times of a schedule that count for one collection."""

    def __init__(self, schedule: ScheduleConfig, history: RunHistory) -> None:
        self._zone, self._history = schedule.timezone, history
        self.start = _timestamp(schedule.start, self._zone)
        self.deadline = _timestamp(schedule.deadline, self._zone)
        if schedule.start is not None:
            anchor = datetime.fromisoformat(schedule.start)
        else:
            anchor = local_time(history.created, self._zone).replace(microsecond=0, fold=0)
        is_empty = schedule.start is None and not schedule.every
        self._recurrence = None if is_empty else Recurrence(anchor, schedule.every, self._zone)

    def reason(self, key: str, at: float | None = None, now: float | None = None) -> Message:
        values: dict[str, Value] = {} if at is None else {"at": zoned_moment(local_time(at, self._zone), self._zone)}
        if at is not None and now is not None:
            values["wait"] = max(0.0, at - now)
        return Message(REASONS[key].text, values)

    def after(self, moment: float) -> float | None:
        """The first time after `moment` that counts."""
        if self._recurrence is None:
            return None
        if self.start is None:
            moment = max(moment, self._history.created)
        time = self._recurrence.after(moment)
        return None if time is None or (self.deadline is not None and time >= self.deadline) else time

    def between(self, floor: float, moment: float) -> float | None:
        """The last time after `floor` and not after `moment`."""
        first = self.after(floor)
        if first is None or first > moment or self._recurrence is None:
            return None
        last = self._recurrence.until(moment)
        if last is None or last <= first or (self.deadline is not None and last >= self.deadline):
            return first
        return last

    def due(self, now: float) -> float | None:
        """The time for which a run should begin now, if any."""
        return self.between(self._past_until(), now)

    def _past_until(self) -> float:
        """Times up to this moment are past."""
        history = self._history
        if history.began is None and history.state != "stopped":
            return _latest(history.created, history.changed) if self.start is None else self.start - 1
        return _latest(history.created, history.began, history.ended, history.changed, history.acted)

    def left_out(self, now: float) -> tuple[Message | None, float | None]:
        """The last time during the last run, or while a person had paused the schedule."""
        history = self._history
        if history.began is not None:
            floor = _latest(history.began, history.changed)
            now = now if history.is_under_way or history.is_held else min(now, _latest(history.ended))
        elif history.is_held:
            floor = self._past_until()
        else:
            return None, None
        time = self.between(floor, now)
        if time is None:
            return None, None
        by_hand = history.state == "paused" and history.by_person and time >= _latest(history.acted)
        return self.reason("left_out_paused" if by_hand else "left_out_running", time), time

    def reason_while_running(self, now: float) -> Message:
        following = self.after(now)
        if following is not None:
            return self.reason("next", following, now)
        return self.reason("to_its_end" if self.deadline is None else "until", self.deadline, now)

    def reason_while_idle(self, now: float) -> Message:
        following = self.after(max(now, self._past_until()))
        if following is not None:
            return self.reason("next" if self._history.began is not None else "starts", following, now)
        if self._history.began is None:
            return self.reason("by_hand")
        return self.reason("cut" if self._history.cut else "no_more")


def _timestamp(shown: str | None, zone: str) -> float | None:
    return None if shown is None else timestamp_of_local(datetime.fromisoformat(shown), zone)


def _latest(*moments: float | None) -> float:
    return max((moment for moment in moments if moment is not None), default=-math.inf)
