"""A collection that lives on a false clock, and whoever coordinates it."""

from dataclasses import dataclass, field
from datetime import datetime

import msgspec

from tarrafa.config.formats import LocalDateTime
from tarrafa.config.sections import ScheduleConfig
from tarrafa.coordinator.schedule.recurrence import timestamp_of_local
from tarrafa.coordinator.schedule.schedule_decision import RunHistory, ScheduleDecision, decide

HOUR, DAY = 3_600, 86_400
SAO_PAULO, NEW_YORK, LISBON = "America/Sao_Paulo", "America/New_York", "Europe/Lisbon"
ZONES = ["UTC", SAO_PAULO, NEW_YORK, LISBON, "Australia/Lord_Howe", "Africa/Cairo", "Asia/Beirut", "Asia/Kathmandu"]
PERIODS = ["daily", "3 days", "1 week", "6 hours", "90 min", "1.5 days", "0 3 * * 1", "30 2 * * *", "*/15 * * * *",
           "0 */12 * * *", "*/20 0-3 * * *", "15,45 1 * * *", "0 0 * * *", "0 0 L * *"]  # fmt: skip


def at(text: str, zone: str = "UTC") -> float:
    return timestamp_of_local(datetime.fromisoformat(text), zone)


def written(start: str = "", deadline: str = "", every: str = "", zone: str = "UTC") -> ScheduleConfig:
    moments = [LocalDateTime(datetime.fromisoformat(text).isoformat()) if text else None for text in (start, deadline)]
    return ScheduleConfig(start=moments[0], deadline=moments[1], every=every, timezone=zone)


def said(decision: ScheduleDecision) -> str:
    return f"{decision.action}: {decision.reason}"


@dataclass
class SimulatedCollection:
    """A collection and whoever coordinates it: asks, does what it is told, and writes down what happened."""

    schedule: ScheduleConfig
    history: RunHistory
    run_s: float = 60.0
    runs: list[tuple[float, float | None]] = field(default_factory=list)  # began, and the time that it was for
    ends: list[float] = field(default_factory=list)
    left_out: list[float] = field(default_factory=list)

    def ask(self, now: float) -> ScheduleDecision:
        history = self.history
        if history.state == "running" and history.began is not None and now >= history.began + self.run_s:
            self._become(state="finished", ended=history.began + self.run_s)
            self.ends.append(history.began + self.run_s)
        decision = decide(self.schedule, self.history, now)
        if decision.action in ("start", "begin_run"):
            assert not self.history.is_under_way
            assert (decision.action == "start") == (self.history.began is None)
            self._become(state="running", began=now, ended=None)
            self.runs.append((now, decision.at))
        elif decision.action == "stop":
            self._become(state="stopped", ended=now, cut=True)
            self.ends.append(now)
        told = decision.left_out_at
        if told is not None and told not in self.left_out:
            self.left_out.append(told)
        return decision

    def person(self, now: float, state: str) -> None:
        ended = now if state == "stopped" else self.history.ended
        began = self.history.began if self.history.began is not None or state != "running" else now
        self._become(state=state, by_person=state in ("paused", "stopped"), acted=now, ended=ended, began=began)

    def watch(self, first: float, last: float, step_s: float) -> None:
        now = first
        while now <= last:
            self.ask(now)
            now += step_s

    @property
    def began(self) -> list[float]:
        return [began for began, _ in self.runs]

    def _become(self, **changes: object) -> None:
        self.history = msgspec.structs.replace(self.history, **changes)


def simulated_collection(
    schedule: ScheduleConfig, created: str = "2026-11-16T12:00", run_s: float = 60.0
) -> SimulatedCollection:
    return SimulatedCollection(schedule, RunHistory(state="ready", created=at(created)), run_s)
