"""The schedule on a false clock: nothing here waits, and no clock is asked."""

from datetime import datetime

import msgspec
import pytest

from tarrafa.coordinator.schedule.recurrence import Recurrence, local_time
from tarrafa.coordinator.schedule.schedule_decision import (
    REASONS,
    UPCOMING_MAX,
    RunHistory,
    deadline_of,
    decide,
    upcoming_times,
)
from tests.coordinator.schedule.simulated_collection import (
    DAY,
    HOUR,
    NEW_YORK,
    PERIODS,
    SAO_PAULO,
    at,
    said,
    simulated_collection,
    written,
)

# Start date


def test_start_date_to_come_is_waited_for_and_told():
    one = simulated_collection(written("2026-12-01T03:00", zone=SAO_PAULO))
    decision = one.ask(at("2026-11-16T03:00", SAO_PAULO))
    expected = "nothing: starts on Tuesday 2026-12-01 at 03:00 America/Sao_Paulo (in 15 days)"
    assert said(decision) == expected
    assert one.ask(at("2026-12-01T02:59:59", SAO_PAULO)).action == "nothing"
    assert said(one.ask(at("2026-12-01T03:00", SAO_PAULO))).startswith("start: its start, Tuesday 2026-12-01 at 03:00")


def test_start_date_that_has_passed_when_it_is_written_starts_at_once():
    one = simulated_collection(written("2020-01-01"))
    assert one.ask(at("2026-11-16T12:00:01")).action == "start"
    assert one.ask(at("2026-11-16T12:00:01")).action == "nothing"


def test_start_date_that_was_edited_counts_from_the_edit_on():
    moved = written("2026-12-10T03:00")
    waiting = RunHistory(state="waiting", created=at("2026-11-16"), changed=at("2026-11-20"))
    assert decide(moved, waiting, at("2026-12-01T03:00")).action == "nothing"
    assert decide(moved, waiting, at("2026-12-10T03:00")).action == "start"
    finished = msgspec.structs.replace(waiting, state="finished", began=at("2026-11-17"), ended=at("2026-11-18"))
    assert decide(moved, finished, at("2026-12-10T03:00")).action == "begin_run"
    late = msgspec.structs.replace(finished, changed=at("2026-12-11"))
    assert decide(moved, late, at("2026-12-11")).action == "nothing"


def test_without_start_date_and_period_people_start_it():
    one = simulated_collection(written())
    assert said(one.ask(at("2030-01-01"))) == "nothing: starts when a person starts it"
    one.person(at("2030-01-01"), "running")
    assert said(one.ask(at("2030-01-01T00:00:10"))) == "nothing: runs until its end"
    assert said(one.ask(at("2030-01-01T00:01"))) == "nothing: no other run is planned"


@pytest.mark.parametrize("start", ["0001-01-01", "1969-12-31T23:00", "9999-12-31T23:59:59"])
@pytest.mark.parametrize("every", ["", *PERIODS])
@pytest.mark.parametrize("zone", [SAO_PAULO, "Pacific/Kiritimati"])
def test_start_date_at_the_ends_of_the_calendar_does_no_harm(start, every, zone):
    schedule, now = written(start, every=every, zone=zone), at("2026-11-16T12:00")
    history = RunHistory(state="ready", created=now)
    assert decide(schedule, history, now).action == ("nothing" if start > "2026" else "start")
    finished = msgspec.structs.replace(history, state="finished", began=now, ended=now + 1)
    assert decide(schedule, finished, now + 2).action == "nothing"
    assert len(upcoming_times(schedule, history, now, 3)) in (0, 1, 3)


# Deadline


def test_deadline_without_start_date_ends_what_a_person_started():
    one = simulated_collection(written(deadline="2026-11-20T18:00"), run_s=30 * DAY)
    one.person(at("2026-11-17"), "running")
    said_before = said(one.ask(at("2026-11-18T18:00")))
    assert said_before == "nothing: runs until its end, or until Friday 2026-11-20 at 18:00 UTC (in 2 days)"
    assert said(one.ask(at("2026-11-20T18:00"))) == "stop: its deadline, Friday 2026-11-20 at 18:00 UTC, has come"
    over = "nothing: its deadline, Friday 2026-11-20 at 18:00 UTC, has passed: nothing more is started"
    assert said(one.ask(at("2026-11-20T18:00:01"))) == over


def test_deadline_is_the_end_of_the_whole_schedule():
    one = simulated_collection(written("2026-11-17T03:00", "2026-11-20T03:00", "daily"), run_s=5 * HOUR)
    one.watch(at("2026-11-16T12:00"), at("2026-12-01"), HOUR / 4)
    assert one.began == [at("2026-11-17T03:00"), at("2026-11-18T03:00"), at("2026-11-19T03:00")]


def test_deadline_stops_the_run_that_is_under_way_and_the_one_that_is_paused():
    for state in ("running", "paused"):
        for by_person in (False, True):
            one = simulated_collection(written("2026-11-17T03:00", "2026-11-19T12:00", "daily"), run_s=5 * DAY)
            one.ask(at("2026-11-17T03:00"))
            one._become(state=state, by_person=by_person, acted=at("2026-11-18") if by_person else None)
            assert one.ask(at("2026-11-19T12:00")).action == "stop"
            assert one.ask(at("2026-11-19T12:00")).action == "nothing"


def test_deadline_that_passed_while_nobody_was_there_stops_late_and_starts_nothing():
    one = simulated_collection(written("2026-11-17T03:00", "2026-11-19T12:00", "daily"), run_s=5 * DAY)
    assert one.ask(at("2026-11-25")).action == "nothing"
    one = simulated_collection(written("2026-11-17T03:00", "2026-11-19T12:00", "daily"), run_s=50 * DAY)
    one.ask(at("2026-11-17T03:00"))
    assert one.ask(at("2026-11-25")).action == "stop"


def test_deadline_that_has_passed_does_not_stop_what_a_person_starts_afterwards():
    one = simulated_collection(written("2026-11-17T03:00", "2026-11-19T12:00"), run_s=5 * DAY)
    one.person(at("2026-11-21"), "running")
    told = said(one.ask(at("2026-11-21T00:00:01")))
    assert told.startswith("nothing: runs after its deadline, Thursday 2026-11-19 at 12:00 UTC, because a person")
    one._become(changed=at("2026-11-22"))  # but whoever writes it again then, means it
    assert one.ask(at("2026-11-22")).action == "stop"


def test_deadline_that_is_moved_leaves_the_run_that_it_cut_to_people():
    one = simulated_collection(written("2026-11-17T03:00", "2026-11-19T12:00"), run_s=5 * DAY)
    one.watch(at("2026-11-17T03:00"), at("2026-11-20"), HOUR)
    one.schedule = written("2026-11-17T03:00", "2026-11-30")
    one._become(changed=at("2026-11-20"))
    assert said(one.ask(at("2026-11-20T01:00"))).endswith("continues when a person starts it")
    assert deadline_of(one.schedule) == at("2026-11-30")


# Period


@pytest.mark.parametrize(
    ("every", "expected"),
    [
        ("daily", ["2026-11-17T03:00", "2026-11-18T03:00", "2026-11-19T03:00"]),
        ("2 days", ["2026-11-17T03:00", "2026-11-19T03:00", "2026-11-21T03:00"]),
        ("1 week", ["2026-11-17T03:00", "2026-11-24T03:00", "2026-12-01T03:00"]),
        ("6 hours", ["2026-11-17T03:00", "2026-11-17T09:00", "2026-11-17T15:00"]),
        ("1.5 days", ["2026-11-17T03:00", "2026-11-18T15:00", "2026-11-20T03:00"]),
        ("90 min", ["2026-11-17T03:00", "2026-11-17T04:30", "2026-11-17T06:00"]),
        ("0 3 * * 1", ["2026-11-23T03:00", "2026-11-30T03:00", "2026-12-07T03:00"]),
        ("0 3 1 * *", ["2026-12-01T03:00", "2027-01-01T03:00", "2027-02-01T03:00"]),
    ],
)
def test_period_comes_round_from_the_start_on(every, expected):
    schedule = written("2026-11-17T03:00", every=every)
    one = simulated_collection(schedule)
    assert upcoming_times(schedule, one.history, at("2026-11-16T12:00"), 3) == [at(text) for text in expected]
    for text in expected:
        assert one.ask(at(text) - 1).action == "nothing"
        assert one.ask(at(text)).action in ("start", "begin_run")
        assert one.ask(at(text)).action == "nothing"
    assert one.began == [at(text) for text in expected]


def test_period_without_a_start_is_counted_from_when_it_was_created_and_begins_no_sooner():
    one = simulated_collection(written(every="7 days"), created="2026-11-16T12:34:56")
    assert one.ask(at("2026-11-16T12:34:56")).action == "nothing"
    assert upcoming_times(one.schedule, one.history, 0, 1) == [at("2026-11-23T12:34:56")]
    one.person(at("2026-11-18"), "running")
    one.watch(at("2026-11-18"), at("2026-12-07T13:00"), 600)
    assert one.began == [at("2026-11-23T12:40"), at("2026-11-30T12:40"), at("2026-12-07T12:40")]


def test_period_that_was_edited_counts_from_the_edit_on():
    one = simulated_collection(written("2026-11-17T03:00", every="daily"))
    one.watch(at("2026-11-17T03:00"), at("2026-11-18T12:00"), HOUR)
    one.schedule = written("2026-11-17T03:00", every="6 hours")
    one._become(changed=at("2026-11-18T12:00"))  # its times at 09:00 and before are past
    one.watch(at("2026-11-18T12:00"), at("2026-11-18T22:00"), HOUR)
    assert one.began[2:] == [at("2026-11-18T15:00"), at("2026-11-18T21:00")]


def test_period_follows_a_failed_run_too():
    history = RunHistory(state="failed", created=0, began=at("2026-11-17T03:00"), ended=at("2026-11-17T04:00"))
    assert decide(written("2026-11-17T03:00", every="daily"), history, at("2026-11-18T03:00")).action == "begin_run"


def test_upcoming_times_are_bounded_and_end_at_the_deadline():
    history = RunHistory(state="ready", created=at("2026-11-16"))
    assert len(upcoming_times(written(every="1 min"), history, at("2026-11-16"), 10**9)) == UPCOMING_MAX
    ends = written(deadline="2026-11-18T12:00", every="daily")
    assert upcoming_times(ends, history, at("2026-11-16"), 10) == [at("2026-11-17"), at("2026-11-18")]


# Overlap


def test_overlap_leaves_the_time_out_tells_it_and_waits_for_the_next_regular_one():
    one = simulated_collection(written("2026-11-17T03:00", every="daily"), run_s=26 * HOUR)
    one.watch(at("2026-11-17T03:00"), at("2026-11-19T02:00"), 600)
    assert one.began == [at("2026-11-17T03:00")]
    assert one.ends == [at("2026-11-18T05:00")]
    assert one.left_out == [at("2026-11-18T03:00")]
    decision = one.ask(at("2026-11-19T02:00"))
    assert decision.left_out is not None
    expected = "its run of Wednesday 2026-11-18 at 03:00 UTC is skipped: the previous run was still open"
    assert str(decision.left_out) == expected
    assert said(decision) == "nothing: next run on Thursday 2026-11-19 at 03:00 UTC (in 60 minutes)"
    assert one.ask(at("2026-11-19T03:00")).action == "begin_run"
    assert one.ask(at("2026-11-19T03:01")).left_out is None


def test_overlap_cannot_happen_in_a_state_that_is_not_known():
    importing = RunHistory(state="importing", created=0, began=None)
    assert decide(written("2020-01-01", every="daily"), importing, at("2026-11-17")).action == "nothing"
    away = RunHistory(state="waiting", created=0, began=at("2026-11-16"))  # for a database, in the middle of a run
    assert decide(written("2020-01-01", every="daily"), away, at("2026-11-17")).action == "nothing"


# What people do


def test_pause_by_a_person_wins_over_the_period_and_the_run_goes_on_when_resumed():
    one = simulated_collection(written("2026-11-17T03:00", every="daily"), run_s=2 * HOUR)
    one.ask(at("2026-11-17T03:00"))
    one.person(at("2026-11-17T04:00"), "paused")
    decision = one.ask(at("2026-11-18T03:00"))
    assert decision.action == "nothing"
    assert decision.left_out is not None
    told = "its run of Wednesday 2026-11-18 at 03:00 UTC is skipped: a person had paused it"
    assert str(decision.left_out) == told
    one.run_s = 31 * HOUR
    one.person(at("2026-11-18T09:00"), "running")
    assert one.ask(at("2026-11-18T09:00")).action == "nothing"
    assert said(one.ask(at("2026-11-18T10:00"))).startswith("nothing: next run on Thursday 2026-11-19")
    assert one.ask(at("2026-11-19T03:00")).action == "begin_run"


def test_pause_between_two_runs_holds_the_schedule_and_nothing_is_made_up_for():
    one = simulated_collection(written("2026-11-17T03:00", every="daily"))
    one.watch(at("2026-11-17T03:00"), at("2026-11-17T04:00"), 60)
    one.person(at("2026-11-17T12:00"), "paused")
    assert said(one.ask(at("2026-11-18T03:00"))) == "nothing: its schedule is paused until it is resumed"
    assert one.left_out == [at("2026-11-18T03:00")]
    one._become(state="finished", by_person=False, acted=at("2026-11-18T12:00"))
    assert one.ask(at("2026-11-18T12:00")).action == "nothing"
    assert one.ask(at("2026-11-19T03:00")).action == "begin_run"


def test_pause_before_the_first_start_holds_it_and_resumed_it_starts():
    one = simulated_collection(written("2026-11-17T03:00"))
    one.person(at("2026-11-16T13:00"), "paused")
    decision = one.ask(at("2026-11-17T03:00"))
    assert (decision.action, one.left_out) == ("nothing", [at("2026-11-17T03:00")])
    one._become(state="ready", by_person=False, acted=at("2026-11-18"))
    assert one.ask(at("2026-11-18")).action == "start"


def test_stop_by_a_person_ends_the_run_and_the_next_period_counts_again():
    one = simulated_collection(written("2026-11-17T03:00", every="daily"), run_s=10 * DAY)
    one.ask(at("2026-11-17T03:00"))
    one.person(at("2026-11-17T04:00"), "stopped")
    one.watch(at("2026-11-17T04:00"), at("2026-11-18T03:00"), HOUR)
    assert one.began == [at("2026-11-17T03:00"), at("2026-11-18T03:00")]


def test_stop_of_one_that_never_ran_leaves_its_start_out():
    one = simulated_collection(written("2026-11-17T03:00", every="daily"))
    one.person(at("2026-11-17T02:00"), "stopped")
    one._become(acted=at("2026-11-17T04:00"), ended=None)
    assert one.ask(at("2026-11-17T05:00")).action == "nothing"
    assert one.ask(at("2026-11-18T03:00")).action == "start"


# Downtime


@pytest.mark.parametrize("asleep_days", [0.01, 0.9, 1.2, 40.5, 4000.2])
def test_downtime_is_made_up_for_by_one_run_and_then_the_rhythm_is_the_old_one(asleep_days):
    one = simulated_collection(written("2026-11-17T03:00", every="daily"))
    one.watch(at("2026-11-17T03:00"), at("2026-11-18T02:59"), 600)
    woken = at("2026-11-18T03:00") + int(asleep_days * DAY)
    decision = one.ask(woken)
    assert decision.action == "begin_run"
    assert decision.reason.text == REASONS["caught_up"].text
    assert decision.at is not None
    assert 0 < woken - decision.at < DAY  # the last one that was missed
    one.watch(woken, woken + 3 * DAY, 600)
    assert [moment % DAY for moment in one.began[2:]] == [pytest.approx(3 * HOUR, abs=600)] * 3


def test_downtime_before_the_first_start_is_made_up_for_too():
    one = simulated_collection(written("2026-11-17T03:00", every="1 week"))
    assert one.ask(at("2026-12-20")).action == "start"
    assert one.ask(at("2026-12-22T02:59")).action == "nothing"
    assert one.ask(at("2026-12-22T03:00")).action == "begin_run"


def test_downtime_just_before_the_next_time_is_made_up_for_and_that_one_is_left_out():
    one = simulated_collection(written("2026-11-17T03:00", every="daily"), run_s=HOUR)
    one.watch(at("2026-11-17T03:00"), at("2026-11-18T02:00"), 600)
    one.watch(at("2026-11-20T02:50"), at("2026-11-21T02:50"), 60)
    assert one.began == [at("2026-11-17T03:00"), at("2026-11-20T02:50")]
    assert one.left_out == [at("2026-11-20T03:00")]


def test_clock_that_jumps_back_starts_nothing_twice():
    one = simulated_collection(written("2026-11-17T03:00", every="daily"))
    one.watch(at("2026-11-17T02:00"), at("2026-11-18T04:00"), 600)
    assert len(one.began) == 2
    one.watch(at("2026-11-16T02:00"), at("2026-11-18T04:00"), 600)
    assert len(one.began) == 2


# Daylight saving


@pytest.mark.parametrize("every", ["daily", "1 day", "0 2 * * *", "7 days"])
def test_daylight_saving_leaves_the_time_on_the_wall_as_it_is(every):
    schedule = written("2026-03-01T02:00", every=every, zone="Europe/Berlin")
    times = upcoming_times(schedule, RunHistory(state="ready", created=at("2026-02-01")), at("2026-02-15"), 50)
    shown = {str(local_time(time, "Europe/Berlin").time()) for time in times}
    assert shown <= {"02:00:00", "03:00:00"}
    moved = [time for time in times if local_time(time, "Europe/Berlin").hour == 3]
    assert moved == [at("2026-03-29T03:00", "Europe/Berlin")]  # there is no 02:00 on that day


def test_daylight_saving_moves_a_time_that_does_not_exist_to_the_first_moment_after_the_gap():
    # 2026-03-08 in New York: after 01:59:59 comes 03:00:00
    for every in ("daily", "30 2 * * *"):
        schedule = written("2026-03-07T02:30", every=every, zone=NEW_YORK)
        times = upcoming_times(schedule, RunHistory(state="ready", created=0), at("2026-03-06"), 3)
        expected = [at(text) for text in ("2026-03-07T07:30", "2026-03-08T07:00", "2026-03-09T06:30")]
        assert times == expected
    assert at("2026-03-08T02:30", NEW_YORK) == at("2026-03-08T03:00", NEW_YORK) == at("2026-03-08T07:00")


def test_daylight_saving_counts_a_time_that_exists_twice_once_and_the_first():
    # 2026-11-01 in New York: after 01:59:59 comes 01:00:00 once more
    for every in ("daily", "30 1 * * *"):
        one = simulated_collection(written("2026-10-30T01:30", every=every, zone=NEW_YORK), created="2026-10-29")
        one.watch(at("2026-10-29"), at("2026-11-03"), 600)
        expected = ["2026-10-30T05:30", "2026-10-31T05:30", "2026-11-01T05:30", "2026-11-02T06:30"]
        assert one.began == [at(text) for text in expected]


def test_daylight_saving_asked_in_the_second_hour_of_two_answers_with_nothing_that_is_over():
    schedule, history = written(every="30 1 * * *", zone=NEW_YORK), RunHistory(state="ready", created=0)
    second = at("2026-11-01T06:10")  # 01:10 for the second time
    assert local_time(second, NEW_YORK).fold == 1
    assert upcoming_times(schedule, history, second, 1) == [at("2026-11-02T06:30")]
    assert Recurrence(datetime(2026, 1, 1), "30 1 * * *", NEW_YORK).until(second) == at("2026-11-01T05:30")


@pytest.mark.parametrize(
    ("every", "expected"),
    [  # hours and minutes are counted as they pass; only cron's fixed times are those of the wall
        ("6 hours", ["2026-03-08T05:00", "2026-03-08T11:00", "2026-03-08T17:00"]),
        ("24h", ["2026-03-08T05:00", "2026-03-09T05:00", "2026-03-10T05:00"]),
        ("0 * * * *", ["2026-03-08T05:00", "2026-03-08T06:00", "2026-03-08T07:00", "2026-03-08T08:00"]),
        ("*/30 2 * * *", ["2026-03-08T07:00", "2026-03-09T06:00", "2026-03-09T06:30"]),
    ],
)
def test_daylight_saving_and_hours(every, expected):
    schedule = written("2026-03-08T00:00", every=every, zone=NEW_YORK)
    assert upcoming_times(schedule, RunHistory(state="ready", created=0), at("2026-03-08T04:59"), len(expected)) == [
        at(text) for text in expected
    ]


def test_daylight_saving_every_hour_of_cron_comes_in_both_of_the_hours_that_look_the_same():
    schedule = written(every="0 * * * *", zone=NEW_YORK)
    times = upcoming_times(schedule, RunHistory(state="ready", created=0), at("2026-11-01T04:30"), 4)
    assert times == [at(f"2026-11-01T0{hour}:00") for hour in (5, 6, 7, 8)]


def test_daylight_saving_where_midnight_does_not_exist():
    # 2018-11-04 in São Paulo: after 23:59:59 comes 01:00:00
    for every in ("daily", "0 0 * * *", "0 */24 * * *"):
        schedule = written("2018-11-03", every=every, zone=SAO_PAULO)
        times = upcoming_times(schedule, RunHistory(state="ready", created=0), at("2018-11-03T02:00"), 3)
        assert times == [at("2018-11-03T03:00"), at("2018-11-04T03:00"), at("2018-11-05T02:00")]


# Leap day


def test_leap_day_is_a_day_like_others_for_a_daily_period():
    schedule = written("2028-02-28T03:00", every="daily")
    times = upcoming_times(schedule, RunHistory(state="ready", created=0), at("2028-02-01"), 3)
    assert times == [at("2028-02-28T03:00"), at("2028-02-29T03:00"), at("2028-03-01T03:00")]
    born = simulated_collection(written("2028-02-29T03:00", every="daily"), created="2028-02-20")
    born.watch(at("2028-02-29"), at("2028-03-02"), HOUR)
    assert born.began == [at("2028-02-29T03:00"), at("2028-03-01T03:00")]


def test_leap_day_of_a_yearly_cron_comes_every_four_years_and_not_in_2100():
    schedule = written(every="0 0 29 2 *", zone=SAO_PAULO)
    times = upcoming_times(schedule, RunHistory(state="ready", created=0), at("2026-11-16"), 2)
    assert [local_time(time, SAO_PAULO).isoformat() for time in times] == [
        "2028-02-29T00:00:00",
        "2032-02-29T00:00:00",
    ]
    later = upcoming_times(schedule, RunHistory(state="ready", created=0), at("2096-03-01"), 1)
    assert local_time(later[0], SAO_PAULO).isoformat() == "2104-02-29T00:00:00"


def test_leap_day_of_a_yearly_cron_that_was_missed_is_made_up_for():
    one = simulated_collection(written(every="0 0 29 2 *"), created="2026-11-16")
    one.person(at("2026-11-16"), "running")
    one.ask(at("2026-11-17"))
    decision = one.ask(at("2028-03-05"))
    assert (decision.action, decision.at) == ("begin_run", at("2028-02-29"))
    assert one.ask(at("2028-03-06")).action == "nothing"


def test_leap_day_and_366_days():
    schedule = written("2028-02-29T03:00", every="366 days")
    times = upcoming_times(schedule, RunHistory(state="ready", created=0), at("2028-01-01"), 3)
    assert times == [at("2028-02-29T03:00"), at("2029-03-01T03:00"), at("2030-03-02T03:00")]
