"""What holds for every schedule, whatever the clocks do; and how it is said."""

from datetime import UTC, datetime, timedelta

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tarrafa.coordinator.schedule.recurrence import Recurrence, local_time, timestamp_of_local
from tarrafa.coordinator.schedule.schedule_decision import RunHistory, ScheduleDecision, decide, upcoming_times
from tarrafa.i18n import ENGLISH, PORTUGUESE
from tests.coordinator.schedule.simulated_collection import (
    DAY,
    HOUR,
    PERIODS,
    SAO_PAULO,
    ZONES,
    SimulatedCollection,
    at,
    written,
)

moments = st.datetimes(datetime(2024, 1, 1), datetime(2030, 1, 1)).map(lambda shown: shown.replace(microsecond=0))
zones, periods = st.sampled_from(ZONES), st.sampled_from(PERIODS)


@settings(max_examples=100, deadline=None)
@given(anchor=moments, every=periods, zone=zones, moment=moments)
def test_times_after_and_until_agree_and_never_stand_still(anchor, every, zone, moment):
    rhythm, now = Recurrence(anchor, every, zone), moment.replace(tzinfo=UTC).timestamp()
    following = rhythm.after(now)
    assert following is not None
    assert following > now
    assert rhythm.until(following) == following
    assert rhythm.after(following - 1) == following
    before = rhythm.until(following - 0.5)
    if before is not None and before >= timestamp_of_local(anchor, zone):
        assert before <= now
        assert rhythm.after(before) == following


@settings(max_examples=100, deadline=None)
@given(shown=moments, days=st.integers(1, 40), zone=zones, now=moments)
def test_days_keep_the_time_on_the_wall_but_for_gaps(shown, days, zone, now):
    rhythm = Recurrence(shown, f"{days} days", zone)
    first = rhythm.after(now.replace(tzinfo=UTC).timestamp())
    assert first is not None
    second = rhythm.after(first)
    assert second is not None
    for time in (first, second):
        day = local_time(time, zone)
        wanted = datetime.combine(day.date(), shown.time())
        assert day == wanted or timestamp_of_local(wanted, zone) == time


@settings(max_examples=40, deadline=None)
@given(
    every=st.sampled_from(["daily", "6 hours", "90 min", "30 2 * * *", "0 */12 * * *", "*/20 0-3 * * *"]),
    zone=zones,
    first=moments,
    pauses_s=st.lists(st.integers(1, 2 * DAY), min_size=5, max_size=60),
    run_s=st.integers(1, 2 * DAY),
)
def test_runs_never_overlap_and_each_is_for_a_later_time(every, zone, first, pauses_s, run_s):
    now = first.replace(tzinfo=UTC).timestamp()
    one = SimulatedCollection(written(every=every, zone=zone), RunHistory(state="ready", created=now), run_s)
    for pause_s in pauses_s:
        now += pause_s
        one.ask(now)
        assert one.ask(now).action == "nothing"  # asked again, it is done
        following = decide(one.schedule, one.history, now).next
        assert following is not None
        assert following > max(now, one.history.began or 0)
    for (began, time), (began_next, time_next) in zip(one.runs, one.runs[1:], strict=False):
        assert began + run_s <= began_next
        assert time is not None
        assert time_next is not None
        assert time <= began < time_next <= began_next


@settings(max_examples=25, deadline=None)
@given(every=st.sampled_from(["daily", "6 hours", "0 */12 * * *"]), zone=zones, first=moments, draw=st.data())
def test_however_often_one_asks_each_time_has_its_one_run(every, zone, first, draw):
    created = first.replace(tzinfo=UTC).timestamp()
    schedule = written(every=every, zone=zone)
    steps = st.lists(st.integers(1, 4 * HOUR), min_size=20, max_size=40)
    served = []
    for pauses_s in (draw.draw(steps), draw.draw(steps)):
        one, now = SimulatedCollection(schedule, RunHistory(state="ready", created=created), run_s=0.5), created
        for pause_s in pauses_s:
            now += pause_s
            one.ask(now)
        served.append(([time for _, time in one.runs], now))
    until = min(now for _, now in served)
    lists = [[time for time in times if time is not None and time <= until - 4 * HOUR] for times, _ in served]
    planned = upcoming_times(schedule, RunHistory(state="ready", created=created), created, 100)
    assert lists[0] == lists[1] == [time for time in planned if time <= until - 4 * HOUR]


maybe_moments = st.none() | st.floats(0, 4e9)


@settings(max_examples=100, deadline=None)
@given(
    dates=st.tuples(st.none() | moments, st.none() | moments), every=st.sampled_from(["", *PERIODS]), zone=zones,
    state=st.sampled_from(["ready", "waiting", "running", "paused", "stopped", "finished", "failed", "importing"]),
    told=st.tuples(*[maybe_moments] * 4), by_person=st.booleans(), cut=st.booleans(),
    created=st.floats(0, 4e9), now=st.floats(0, 4e9),
)  # fmt: skip
def test_whatever_history_there_is_the_answer_is_one_that_can_be_followed(
    dates, every, zone, state, told, by_person, cut, created, now
):
    start, deadline = ("" if date is None else date.isoformat() for date in dates)
    changed, acted, began, ended = told
    history = RunHistory(
        state=state,
        created=created,
        changed=changed,
        by_person=by_person,
        acted=acted,
        began=began,
        ended=ended,
        cut=cut,
    )
    schedule = written(start, deadline, every, zone)
    decision = decide(schedule, history, now)
    assert decision == decide(schedule, history, now)
    assert str(decision.reason)
    if decision.action in ("start", "begin_run"):
        assert not history.is_under_way
        assert decision.at is not None
        assert decision.at <= now
        assert not deadline or now < at(deadline, zone)
    if decision.action == "stop":
        assert history.is_under_way
        assert now >= at(deadline, zone)
    assert decision.next is None or decision.next > now


# Words


def test_reasons_are_said_in_portuguese_too():
    schedule = written("2026-12-07T03:00", every="daily", zone=SAO_PAULO)
    history = RunHistory(state="finished", created=0, began=1, ended=2)
    reason = decide(schedule, history, at("2026-12-04T03:00", SAO_PAULO)).reason
    told = "próxima execução: segunda-feira 2026-12-07 às 03:00 America/Sao_Paulo (em 3 dias)"
    assert PORTUGUESE.render(reason) == told


@pytest.mark.parametrize(
    ("wait_s", "words"),
    [(0, "now"), (1, "in 1 second"), (119, "in 119 seconds"), (120, "in 2 minutes"), (DAY, "in 24 hours"),
     (2 * DAY - 1, "in 47 hours"), (15 * DAY, "in 15 days")],
)  # fmt: skip
def test_waits_are_said_in_the_largest_unit_of_which_there_are_some(wait_s, words):
    assert ENGLISH.ahead(wait_s) == words


def test_a_decision_crosses_a_wire():
    decision = decide(written("2026-12-01T03:00"), RunHistory(state="ready", created=0), at("2026-11-16"))
    assert msgspec.json.decode(msgspec.json.encode(decision), type=ScheduleDecision) == decision


def test_a_gap_may_be_a_whole_day():
    apia = "Pacific/Apia"  # crossed the date line: 2011-12-30 was left out
    assert at("2011-12-30T03:00", apia) == at("2011-12-31T00:00", apia)
    rhythm = Recurrence(datetime(2011, 12, 28, 3), "daily", apia)
    times = [rhythm.after(at("2011-12-29T13:00"))]
    assert times == [at("2011-12-31T00:00", apia)]
    assert timedelta(seconds=(rhythm.after(times[0] or 0) or 0) - (times[0] or 0)) == timedelta(hours=3)
