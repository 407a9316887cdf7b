"""What people and schedules decide is done by a real frontier, noted, and told; on a false clock."""

import time
from datetime import UTC, datetime

import pytest
from msgspec.structs import replace

from tarrafa import config, credentials
from tarrafa.coordinator.definitions.versions import BY_COMMAND_LINE
from tarrafa.crawl.supervisor.supervisor import ROOTS_PER_CALL, submit_collection
from tarrafa.crawl.worker.resource_limits import PAUSED_BY_ORDER
from tarrafa.errors import ConfigError, EditConflict, FrontierError, Unreachable
from tarrafa.frontier.messages import CollectionRow, FrontierOverview
from tarrafa.i18n import PORTUGUESE, Message
from tests.coordinator.coordinator_harness import (
    HOUR,
    START,
    CoordinatorHarness,
    a_collection,
    is_over,
    visit,
)
from tests.coordinator.node.sample_messages import a_beat


async def test_what_is_created_waits_until_somebody_starts_it(harness: CoordinatorHarness) -> None:
    await harness.coordinator.actions.create(a_collection(), "ana", start=False)
    assert await harness.state() == ("ready", "starts when a person starts it")
    await harness.coordinator.actions.act("news", "start", "rui")
    state, reason = await harness.state()
    assert state == "running"
    assert reason.startswith("by rui at ")
    assert [(run.number, run.ended) for run in harness.ledger.runs("news")] == [(1, None)]
    assert harness.told == [("started", "news", reason)]


async def test_a_name_is_given_once(harness: CoordinatorHarness) -> None:
    await harness.coordinator.actions.create(a_collection(), "ana", start=False)
    with pytest.raises(ConfigError, match="there is a collection 'news' already"):
        await harness.coordinator.actions.create(a_collection(), "rui", start=True)
    assert (await harness.state())[0] == "ready"


async def test_pause_resume_and_stop_say_who_and_the_state_stays(harness: CoordinatorHarness) -> None:
    await harness.coordinator.actions.create(a_collection(), "ana", start=True)
    for action, state in (("pause", "paused"), ("resume", "running"), ("stop", "stopped")):
        await harness.coordinator.actions.act("news", action, "rui")
        found, reason = await harness.state()
        assert found == state
        assert reason.startswith("by rui at ")
    picture = harness.coordinator.monitor.snapshot().collections[0]
    assert PORTUGUESE.render(picture.reason).startswith("por rui às ")
    assert [run.state for run in harness.ledger.runs("news")] == ["stopped"]


async def test_a_run_without_a_page_has_failed_in_its_row_in_messages_and_in_the_notice(
    harness: CoordinatorHarness,
) -> None:
    await harness.coordinator.actions.create(a_collection(), "ana", start=True)
    await visit(harness, 5, 404)
    assert await is_over(harness)
    await harness.look()
    assert [run.state for run in harness.ledger.runs("news")] == ["failed"]
    assert [event for event, *_ in harness.told] == ["started", "failed"]
    with pytest.raises(ConfigError, match=r"news is failed: pause needs the state running"):
        await harness.coordinator.actions.act("news", "pause", "ana")
    await harness.coordinator.actions.act("news", "again", "ana")
    assert (await harness.state())[0] == "running"


async def test_what_cannot_be_done_now_changes_nothing(harness: CoordinatorHarness) -> None:
    await harness.coordinator.actions.create(a_collection(), "ana", start=True)
    with pytest.raises(ConfigError, match=r"news is running: delete needs the state"):
        await harness.coordinator.actions.act("news", "delete", "ana")
    assert (await harness.state())[0] == "running"


async def test_an_edit_keeps_the_state_and_every_version(harness: CoordinatorHarness) -> None:
    await harness.coordinator.actions.create(a_collection(), "ana", start=True)
    await harness.coordinator.actions.act("news", "pause", "ana")
    await harness.coordinator.actions.edit("news", a_collection(scope={"exclude": ["*/login*"]}), "rui")
    assert (await harness.state())[0] == "paused"
    assert harness.told[0][0] == "started"
    (row,) = await harness.frontier.collections()
    assert config.decode_collection(row.config).scope.exclude == ("*/login*",)
    assert [(one.number, one.who) for one in harness.ledger.versions("news")] == [(2, "rui"), (1, "ana")]


async def test_one_that_came_by_another_way_is_taken_up_as_it_is(harness: CoordinatorHarness) -> None:
    await submit_collection(harness.frontier, a_collection())
    assert (await harness.state())[0] == "running"
    assert [one.who for one in harness.ledger.versions("news")] == [BY_COMMAND_LINE]
    assert [run.number for run in harness.ledger.runs("news")] == [1]
    await harness.coordinator.actions.act("news", "pause", "ana")
    assert (await harness.state())[0] == "paused"


async def test_a_run_made_before_there_was_a_coordinator_has_its_numbers_and_its_own_end(
    harness: CoordinatorHarness,
) -> None:
    await submit_collection(harness.frontier, a_collection())
    assert len(await visit(harness, 2)) == 2
    await harness.frontier.set_state("news", "finished", "everything in reach was visited")
    (status,) = (await harness.frontier.overview()).collections
    await harness.look(START + 3 * HOUR)
    (run,) = harness.coordinator.runs.all_of("news")
    assert (run.pages, run.requests, run.visits) == (status.fetched, status.requests, status.visits)
    assert (run.pages, run.ended) == (2, START)


async def test_a_collection_that_does_not_run_has_no_rates(harness: CoordinatorHarness) -> None:
    """Visits that end after a pause bring bytes."""
    await harness.coordinator.actions.create(a_collection(), "ana", start=True)
    await harness.look()
    await harness.coordinator.actions.act("news", "pause", "ana")
    (status,) = (await harness.frontier.overview()).collections
    harness.clock.moment[0] += 1.0
    late = replace(status, bytes=status.bytes + 1_000_000, visits=status.visits + 2)
    await harness.coordinator.tick(FrontierOverview([late], []))
    sample = harness.coordinator.monitor.snapshot().collection("news").sample
    assert (sample.bytes, sample.pages_per_s, sample.bytes_per_s) == (1_000_000, 0.0, 0.0)


async def test_it_starts_at_its_date_and_not_before(harness: CoordinatorHarness) -> None:
    await harness.coordinator.actions.create(a_collection(schedule={"start": "2026-12-01T03:00"}), "ana", start=False)
    state, reason = await harness.state()
    assert state == "waiting"
    assert reason.startswith("starts on Tuesday 2026-12-01 at 03:00 UTC")
    due = datetime(2026, 12, 1, 3, tzinfo=UTC).timestamp()
    assert (await harness.look(due - 60))["news"].state == "waiting"
    assert (await harness.look(due))["news"].state == "running"
    harness.begin()
    await harness.look(due + 60)
    assert [event for event, _, _ in harness.told] == ["started"]
    assert len(harness.ledger.runs("news")) == 1


async def test_a_deadline_stops_it_and_says_so(harness: CoordinatorHarness) -> None:
    await harness.coordinator.actions.create(a_collection(schedule={"deadline": "2026-12-01"}), "ana", start=True)
    found = (await harness.look(datetime(2026, 12, 1, tzinfo=UTC).timestamp()))["news"]
    assert (found.state, str(found.reason)) == ("stopped", "its deadline, Tuesday 2026-12-01 at 00:00 UTC, has come")
    assert harness.ledger.runs("news")[0].cut
    assert harness.told[-1][0] == "finished"


async def test_a_period_runs_everything_again_and_never_twice_at_once(harness: CoordinatorHarness) -> None:
    await harness.coordinator.actions.create(
        a_collection(schedule={"every": "daily", "start": "2026-12-01"}), "ana", start=False
    )
    first = datetime(2026, 12, 1, tzinfo=UTC).timestamp()
    await harness.look(first)
    await harness.look(first + 25 * HOUR)  # it still runs: the second is left out
    assert [run.number for run in harness.ledger.runs("news")] == [1]
    await harness.frontier.set_state("news", "finished", "everything in reach was visited")
    await harness.look(first + 26 * HOUR)
    assert harness.ledger.runs("news")[0].state == "finished"
    assert (await harness.look(first + 47 * HOUR))["news"].state == "finished"
    found = (await harness.look(first + 48 * HOUR))["news"]
    assert (found.state, found.run) == ("running", 2)
    assert [run.number for run in harness.ledger.runs("news")] == [2, 1]
    assert [event for event, _, _ in harness.told if event != "stalled"] == ["started", "finished", "started"]


async def test_after_a_downtime_one_run_is_made_up_for(harness: CoordinatorHarness) -> None:
    await harness.coordinator.actions.create(
        a_collection(schedule={"every": "daily", "start": "2026-12-01"}), "ana", start=False
    )
    first = datetime(2026, 12, 1, tzinfo=UTC).timestamp()
    await harness.look(first)
    await harness.frontier.set_state("news", "finished", "everything in reach was visited")
    await harness.look(first + HOUR)
    harness.begin()
    found = (await harness.look(first + 5 * 24 * HOUR + HOUR))["news"]
    assert (found.state, found.run) == ("running", 2)
    for hours in range(2, 20):
        await harness.look(first + (5 * 24 + hours) * HOUR)
    assert [run.number for run in harness.ledger.runs("news")] == [2, 1]


async def test_what_a_person_paused_is_not_started_by_its_period(harness: CoordinatorHarness) -> None:
    await harness.coordinator.actions.create(
        a_collection(schedule={"every": "daily", "start": "2026-12-01"}), "ana", start=False
    )
    first = datetime(2026, 12, 1, tzinfo=UTC).timestamp()
    await harness.look(first)
    await harness.coordinator.actions.act("news", "pause", "ana")
    assert (await harness.look(first + 24 * HOUR))["news"].state == "paused"
    await harness.coordinator.actions.act("news", "resume", "ana")
    assert (await harness.look(first + 25 * HOUR))["news"].run == 1


async def test_again_visits_everything_from_the_roots(harness: CoordinatorHarness) -> None:
    await harness.coordinator.actions.create(a_collection(), "ana", start=True)
    await harness.frontier.set_state("news", "finished", "everything in reach was visited")
    await harness.look()
    await harness.coordinator.actions.act("news", "again", "ana")
    found = (await harness.look())["news"]
    assert (found.state, found.run, found.pending) == ("running", 2, 2)


async def test_what_is_deleted_is_gone_and_its_name_is_free(harness: CoordinatorHarness) -> None:
    await harness.coordinator.actions.create(a_collection(), "ana", start=False)
    await harness.look()
    await harness.coordinator.actions.act("news", "delete", "ana")
    assert await harness.look() == {}
    assert harness.ledger.versions("news") == []
    assert harness.coordinator.monitor.snapshot().collections == []
    await harness.coordinator.actions.create(a_collection(), "rui", start=True)
    assert (await harness.state())[0] == "running"
    assert [(one.number, one.who) for one in harness.ledger.versions("news")] == [(1, "rui")]


async def test_one_that_stands_still_is_told_once(harness: CoordinatorHarness) -> None:
    await harness.coordinator.actions.create(a_collection(notify={"stalled": "10 min"}), "ana", start=True)
    for minute in range(40):
        await harness.look(START + minute * 60)
    assert [event for event, _, _ in harness.told].count("stalled") > 0
    assert {said for event, _, said in harness.told if event == "stalled"} == {"nothing was visited for 10 min"}


async def test_numbers_become_curves_and_a_picture(harness: CoordinatorHarness) -> None:
    await harness.coordinator.actions.create(a_collection(), "ana", start=True)
    for second in range(30):
        await harness.look(START + second * 2)
    assert len(harness.coordinator.monitor.timeseries.recent("news")) >= 29
    one = harness.coordinator.monitor.snapshot().collections[0]
    assert (one.name, one.state, one.sample.pending, one.status.known) == ("news", "running", 2, 2)
    assert one.actions == ["pause", "retry", "stop"]
    assert [(run.number, run.ended, run.known) for run in harness.coordinator.runs.all_of("news")] == [(1, None, 2)], (
        "so far"
    )


async def test_one_that_runs_while_all_nodes_are_paused_says_why_nothing_comes(harness: CoordinatorHarness) -> None:
    await harness.coordinator.actions.create(a_collection(), "ana", start=True)
    soon = time.time() + HOUR  # it is not silent by then, however slow we are
    harness.coordinator.nodes.receive_heartbeat(a_beat("home", trouble=PAUSED_BY_ORDER, is_paused=True), soon)
    one = harness.coordinator.monitor.snapshot().collections[0]
    assert one.state == "running"
    assert str(one.standstill) == "no worker works for it: paused by order"
    assert one.standstill is not None
    assert PORTUGUESE.render(one.standstill) == "nenhum trabalhador trabalha para ela: pausado por ordem"
    await harness.coordinator.actions.act("news", "pause", "ana")
    assert harness.coordinator.monitor.snapshot().collections[0].standstill is None


async def test_roots_that_were_on_their_way_when_somebody_was_killed_are_handed_over_while_it_runs(
    harness: CoordinatorHarness,
) -> None:
    await harness.coordinator.actions.create(a_collection(), "ana", start=True)
    known = (await harness.look())["news"].known
    many = [f"http://h{number}.br/" for number in range(ROOTS_PER_CALL + 10)]
    seed, harness.frontier.seed = harness.frontier.seed, gone  # type: ignore[method-assign,assignment]
    with pytest.raises(Unreachable):
        before = await harness.coordinator.definitions.in_force("news")
        await harness.coordinator.actions.edit("news", replace(before, roots=(*before.roots, *many)), "ana")
    harness.begin()  # another process
    harness.frontier.seed = seed  # type: ignore[method-assign]
    await harness.look()
    assert (await harness.look())["news"].known == known + len(many)


async def gone(*_: object) -> None:
    raise Unreachable("the frontier was away")


async def test_one_that_cannot_be_begun_keeps_nobody_else_from_it(harness: CoordinatorHarness) -> None:
    daily = {"every": "daily", "start": "2026-12-01"}
    await harness.coordinator.actions.create(a_collection("bad", schedule=daily), "ana", start=False)
    await harness.coordinator.actions.create(a_collection("good", schedule=daily), "ana", start=False)
    first = datetime(2026, 12, 1, tzinfo=UTC).timestamp()
    await harness.look(first)
    for name in ("bad", "good"):
        await harness.frontier.set_state(name, "finished", "everything in reach was visited")
    await harness.look(first + HOUR)
    real = harness.frontier.begin_run

    async def refused(name: str, reason: Message | str) -> CollectionRow:
        if name == "bad":
            raise FrontierError("bad: cannot be begun")
        return await real(name, reason)

    harness.frontier.begin_run = refused  # type: ignore[method-assign]
    found = await harness.look(first + 24 * HOUR)
    assert (found["bad"].state, found["good"].state) == ("finished", "running")
    pictures = {one.name: one.notes for one in harness.coordinator.monitor.snapshot().collections}
    assert pictures == {"bad": ["bad: cannot be begun"], "good": []}


async def test_an_edit_of_what_somebody_else_has_changed_is_refused(harness: CoordinatorHarness) -> None:
    await harness.coordinator.actions.create(a_collection(), "ana", start=False)
    read = (await harness.look())["news"].revision
    await harness.coordinator.actions.edit("news", a_collection(scope={"exclude": ["*/a*"]}), "bia", read)
    with pytest.raises(EditConflict, match="changed by another user meanwhile"):
        await harness.coordinator.actions.edit("news", a_collection(), "ana", read)
    (row,) = await harness.frontier.collections()
    assert config.decode_collection(row.config).scope.exclude == ("*/a*",)


async def test_one_that_was_finished_before_anybody_coordinated_is_visited_again_and_not_begun(
    harness: CoordinatorHarness,
) -> None:
    await submit_collection(harness.frontier, a_collection(schedule={"every": "daily", "start": "2026-11-01"}))
    await harness.frontier.set_state("news", "finished", "everything in reach was visited")
    await harness.look()
    assert [(run.number, run.state) for run in harness.ledger.runs("news")] == [(1, "finished")]
    found = (await harness.look(START + 24 * HOUR))["news"]
    assert (found.state, found.run, found.pending) == ("running", 2, 2)


async def test_a_schedule_that_a_file_changed_counts_from_then_on(harness: CoordinatorHarness) -> None:
    await harness.coordinator.actions.create(
        a_collection(schedule={"every": "30 days", "start": "2026-11-01"}), "ana", start=True
    )
    await harness.frontier.set_state("news", "finished", "everything in reach was visited")
    await harness.look()
    changed = START + 80 * HOUR
    harness.clock.moment[0] = changed
    await submit_collection(
        harness.frontier, a_collection(schedule={"every": "daily", "start": "2026-11-01"}), start=False
    )
    assert (await harness.look(changed + 5))["news"].state == "finished", "what would have been is past"
    assert (await harness.look(changed + 24 * HOUR))["news"].run == 2


async def test_a_scheduled_start_is_no_stall(harness: CoordinatorHarness) -> None:
    waiting = a_collection(schedule={"start": "2026-12-01"}, notify={"stalled": "10 min"})
    await harness.coordinator.actions.create(waiting, "ana", start=False)
    first = datetime(2026, 12, 1, tzinfo=UTC).timestamp()
    for minutes in range(-60, 9):
        await harness.look(first + minutes * 60)
    assert [event for event, _, _ in harness.told] == ["started"]


async def test_a_name_that_is_free_brings_neither_secrets_nor_reports_of_another(harness: CoordinatorHarness) -> None:
    await harness.coordinator.actions.create(a_collection(), "ana", start=False)
    data = harness.ledger.data
    credentials.add(data, "news", credentials.Credential(("a.br",), "cookie", "", "sesame"))
    (data.reports / "news" / "20260101-000000").mkdir(parents=True)
    await harness.coordinator.actions.act("news", "delete", "ana")
    await harness.coordinator.actions.create(a_collection(), "rui", start=False)
    assert credentials.list_redacted(data, "news") == []
    assert not (data.reports / "news").exists()


DAILY = {"every": "daily", "start": "2026-12-01"}
FIRST = datetime(2026, 12, 1, tzinfo=UTC).timestamp()
DONE = "everything in reach was visited"


async def a_daily_one_between_two_runs(harness: CoordinatorHarness) -> None:
    await harness.coordinator.actions.create(a_collection(schedule=DAILY), "ana", start=False)
    await harness.look(FIRST)
    assert len(await visit(harness, 2)) == 2
    assert await is_over(harness)
    await harness.look(FIRST + HOUR)


async def test_a_schedule_is_paused_between_two_runs_and_says_so_until_somebody_resumes_it(
    harness: CoordinatorHarness,
) -> None:
    await a_daily_one_between_two_runs(harness)
    assert harness.coordinator.monitor.snapshot().collections[0].actions == ["pause", "again", "delete"]
    await harness.coordinator.actions.act("news", "pause", "rui")
    state, reason = await harness.state()
    assert state == "paused"
    assert reason.endswith("; its schedule is paused until it is resumed")
    picture = harness.coordinator.monitor.snapshot().collections[0]
    assert PORTUGUESE.render(picture.reason).endswith("; sua agenda está pausada até ser retomada")
    assert (picture.actions, picture.next) == (["resume", "delete"], None)
    assert await harness.coordinator.schedule.upcoming_runs("news", 3) == []
    for day in (1, 2):
        assert (await harness.look(FIRST + day * 24 * HOUR))["news"].run == 1
    harness.begin()  # after a downtime, too
    assert (await harness.look(FIRST + 5 * 24 * HOUR + HOUR))["news"].state == "paused"
    await harness.coordinator.actions.act("news", "resume", "rui")
    assert await harness.state() == ("finished", DONE), "as it was; and nothing is made up for"
    assert harness.coordinator.monitor.snapshot().collections[0].next == FIRST + 6 * 24 * HOUR
    assert (await harness.look(FIRST + 6 * 24 * HOUR))["news"].run == 2
    assert [event for event, _, _ in harness.told] == ["started", "finished", "started"]


async def test_a_stopped_one_whose_schedule_is_paused_and_resumed_is_stopped_as_before(
    harness: CoordinatorHarness,
) -> None:
    await harness.coordinator.actions.create(a_collection(schedule=DAILY), "ana", start=False)
    await harness.look(FIRST)
    await harness.coordinator.actions.act("news", "stop", "ana")
    stopped = harness.coordinator.monitor.snapshot().collections[0]
    await harness.coordinator.actions.act("news", "pause", "rui")
    assert (await harness.look(FIRST + 25 * HOUR))["news"].state == "paused"
    await harness.coordinator.actions.act("news", "resume", "rui")
    await harness.look()
    again = harness.coordinator.monitor.snapshot().collections[0]
    assert (again.state, again.reason) == ("stopped", stopped.reason)
    assert PORTUGUESE.render(again.reason).startswith("por ana às ")
    assert again.actions == ["pause", "resume", "again", "delete"]


async def test_one_that_waits_for_its_start_is_paused_and_does_not_start_until_it_is_resumed(
    harness: CoordinatorHarness,
) -> None:
    await harness.coordinator.actions.create(a_collection(schedule={"start": "2026-12-01"}), "ana", start=False)
    assert (await harness.state())[0] == "waiting"
    await harness.coordinator.actions.act("news", "pause", "ana")
    assert (await harness.look(FIRST + HOUR))["news"].state == "paused"
    await harness.coordinator.actions.act("news", "resume", "ana")
    assert (await harness.state())[0] == "running"


async def test_what_is_finished_and_has_no_next_run_cannot_be_paused(harness: CoordinatorHarness) -> None:
    await harness.coordinator.actions.create(a_collection(), "ana", start=True)
    await harness.frontier.set_state("news", "finished", DONE)
    await harness.look()
    with pytest.raises(
        ConfigError,
        match=r"^news is finished: pause needs the state running; possible now: again .`tarrafa start news`., de",
    ):
        await harness.coordinator.actions.act("news", "pause", "ana")


async def test_a_limit_that_is_raised_lets_what_it_ended_go_on(harness: CoordinatorHarness) -> None:
    await harness.coordinator.actions.create(a_collection(scope={"pages_max": 1}), "ana", start=True)
    assert len(await visit(harness, 2)) == 1
    assert await is_over(harness)
    assert await harness.state() == ("finished", "pages_max = 1 was reached")
    await harness.coordinator.actions.edit("news", a_collection(scope={"pages_max": 1}, politeness={"delay": 3}), "rui")
    assert (await harness.state())[0] == "finished", "which changes nothing about that"
    await harness.coordinator.actions.edit("news", a_collection(scope={"pages_max": 2}), "rui")
    state, reason = await harness.state()
    assert (state, reason[:37]) == ("running", "continues since it was edited by rui ")
    picture = harness.coordinator.monitor.snapshot().collections[0]
    assert PORTUGUESE.render(picture.reason).startswith("continua desde que foi editada por rui às ")
    assert [(run.number, run.state) for run in harness.coordinator.runs.all_of("news")] == [(1, "running")]
    assert len(await visit(harness, 2)) == 1
    assert await is_over(harness)


async def test_what_was_finished_goes_on_with_roots_that_are_added_and_never_waits_in_vain(
    harness: CoordinatorHarness,
) -> None:
    await harness.coordinator.actions.create(a_collection(), "ana", start=True)
    assert len(await visit(harness, 2)) == 2
    assert await is_over(harness)
    before = await harness.coordinator.definitions.in_force("news")
    await harness.coordinator.actions.edit("news", replace(before, roots=(*before.roots, "http://c.br/")), "rui")
    assert (await harness.state())[0] == "running"
    assert await visit(harness, 2) == ["http://c.br/"]


async def test_what_an_edit_opened_while_its_schedule_was_paused_is_visited_when_it_is_resumed(
    harness: CoordinatorHarness,
) -> None:
    await harness.coordinator.actions.create(a_collection(schedule=DAILY), "ana", start=True)
    assert len(await visit(harness, 2)) == 2
    assert await is_over(harness)
    await harness.look()
    await harness.coordinator.actions.act("news", "pause", "ana")
    before = await harness.coordinator.definitions.in_force("news")
    await harness.coordinator.actions.edit("news", replace(before, roots=(*before.roots, "http://c.br/")), "rui")
    assert (await harness.state())[0] == "paused"
    await harness.coordinator.actions.act("news", "resume", "ana")
    assert (await harness.state())[0] == "running"
