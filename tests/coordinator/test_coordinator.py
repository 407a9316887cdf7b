"""What people and schedules decide is done by a real frontier, noted, and told; on a false clock."""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, ClassVar

import pytest
from msgspec.structs import replace

from tarrafa import config, credentials
from tarrafa.clock import Clock
from tarrafa.config import Collection
from tarrafa.coordinator.coordinator import Coordinator
from tarrafa.coordinator.definitions import draft as drafts
from tarrafa.coordinator.definitions.versions import BY_COMMAND_LINE
from tarrafa.coordinator.store import CoordinatorStore
from tarrafa.crawl.supervisor.completion import finish_reason, is_exhausted
from tarrafa.crawl.supervisor.submission import ROOTS_PER_CALL, submit_collection
from tarrafa.crawl.worker.resource_limits import PAUSED_BY_ORDER
from tarrafa.errors import ConfigError, EditConflict, FrontierError, Unreachable
from tarrafa.frontier.api import CollectionRow, CollectionStatus, HostReport, VisitReport
from tarrafa.frontier.store.sqlite_frontier import SqliteFrontier
from tarrafa.i18n import PORTUGUESE, Message
from tarrafa.model import Outcome
from tarrafa.runtime.data_dir import DataDirectory
from tarrafa.runtime.process import current_process
from tests.contract.frontier_bodies import SUFFIXES, FalseLeaseClock
from tests.coordinator.node.sample_messages import a_beat

START = datetime(2026, 11, 30, 12, tzinfo=UTC).timestamp()
HOUR = 3_600.0


def a_collection(name: str = "news", **sections: dict[str, Any]) -> Collection:
    draft = drafts.draft_from_table({"name": name, "roots": ["http://a.br/", "http://b.br/"], **sections})
    assert draft.collection is not None, draft.complaints
    return draft.collection


class MovedClock(Clock):
    """Shows what the test says."""

    moment: ClassVar[list[float]] = [START]

    def now(self) -> float:
        return self.moment[0]


class Life:
    """A coordinator with its frontier; `look` is a moment in its life."""

    def __init__(self, frontier: SqliteFrontier, ledger: CoordinatorStore, clock: MovedClock) -> None:
        self.frontier, self.ledger, self.clock = frontier, ledger, clock
        self.told: list[tuple[str, str, str]] = []
        self.begin()

    def begin(self) -> None:
        """It was away, and is back."""

        def tell(event: str, collection: Collection, told: Message | str, status: object, occasion: object) -> None:
            self.told.append((event, collection.name, str(told)))

        self.coordinator = Coordinator(self.ledger, lambda: self.frontier, self.clock, tell, "home")

    async def look(self, at: float | None = None) -> dict[str, CollectionStatus]:
        if at is not None:
            self.clock.moment[0] = at
        self.clock.moment[0] += 1.0
        await self.coordinator.tick(await self.frontier.overview())
        return {one.name: one for one in (await self.frontier.overview()).collections}

    async def state(self, name: str = "news") -> tuple[str, str]:
        found = (await self.look())[name]
        return found.state, str(found.reason)


@asynccontextmanager
async def a_life(path: Path) -> AsyncIterator[Life]:
    data = DataDirectory(path / "d")
    data.create()
    clock = MovedClock(0, 0)
    clock.moment[0] = START
    frontier = SqliteFrontier(data.frontier, clock, SUFFIXES, lease_clock=FalseLeaseClock())
    ledger = CoordinatorStore.open(data)
    try:
        yield Life(frontier, ledger, clock)
    finally:
        ledger.close()
        await frontier.close()


def living(test: Callable[[Life], Awaitable[None]]) -> Callable[[Path], None]:
    """A test that is a coroutine with a life of its own."""

    def run(tmp_path: Path) -> None:
        async def whole() -> None:
            async with a_life(tmp_path) as life:
                await test(life)

        asyncio.run(whole())

    run.__name__, run.__doc__ = test.__name__, test.__doc__
    return run


@living
async def test_what_is_created_waits_until_somebody_starts_it(life: Life) -> None:
    await life.coordinator.actions.create(a_collection(), "ana", start=False)
    assert await life.state() == ("ready", "starts when somebody starts it")
    await life.coordinator.actions.act("news", "start", "rui")
    state, reason = await life.state()
    assert state == "running"
    assert reason.startswith("by rui at ")
    assert [(run.number, run.ended) for run in life.ledger.runs("news")] == [(1, None)]
    assert life.told == [("started", "news", reason)]


@living
async def test_a_name_is_given_once(life: Life) -> None:
    await life.coordinator.actions.create(a_collection(), "ana", start=False)
    with pytest.raises(ConfigError, match="there is a collection 'news' already"):
        await life.coordinator.actions.create(a_collection(), "rui", start=True)
    assert (await life.state())[0] == "ready"


@living
async def test_pause_resume_and_stop_say_who_and_the_state_stays(life: Life) -> None:
    await life.coordinator.actions.create(a_collection(), "ana", start=True)
    for action, state in (("pause", "paused"), ("resume", "running"), ("stop", "stopped")):
        await life.coordinator.actions.act("news", action, "rui")
        found, reason = await life.state()
        assert found == state
        assert reason.startswith("by rui at ")
    picture = life.coordinator.monitor.snapshot().collections[0]
    assert PORTUGUESE.render(picture.reason).startswith("por rui às ")
    assert [run.state for run in life.ledger.runs("news")] == ["stopped"]


@living
async def test_what_cannot_be_done_now_changes_nothing(life: Life) -> None:
    await life.coordinator.actions.create(a_collection(), "ana", start=True)
    with pytest.raises(ConfigError, match=r"news is running: delete is for"):
        await life.coordinator.actions.act("news", "delete", "ana")
    assert (await life.state())[0] == "running"


@living
async def test_an_edit_keeps_the_state_and_every_version(life: Life) -> None:
    await life.coordinator.actions.create(a_collection(), "ana", start=True)
    await life.coordinator.actions.act("news", "pause", "ana")
    await life.coordinator.actions.edit("news", a_collection(scope={"exclude": ["*/login*"]}), "rui")
    assert (await life.state())[0] == "paused"
    assert life.told[0][0] == "started"
    (row,) = await life.frontier.collections()
    assert config.decode_collection(row.config).scope.exclude == ("*/login*",)
    assert [(one.number, one.who) for one in life.ledger.versions("news")] == [(2, "rui"), (1, "ana")]


@living
async def test_one_that_came_by_another_way_is_taken_up_as_it_is(life: Life) -> None:
    await submit_collection(life.frontier, a_collection())
    assert (await life.state())[0] == "running"
    assert [one.who for one in life.ledger.versions("news")] == [BY_COMMAND_LINE]
    assert [run.number for run in life.ledger.runs("news")] == [1]
    await life.coordinator.actions.act("news", "pause", "ana")
    assert (await life.state())[0] == "paused"


@living
async def test_it_starts_at_its_date_and_not_before(life: Life) -> None:
    await life.coordinator.actions.create(a_collection(schedule={"start": "2026-12-01T03:00"}), "ana", start=False)
    state, reason = await life.state()
    assert state == "waiting"
    assert reason.startswith("starts on Tuesday 2026-12-01 at 03:00 UTC")
    due = datetime(2026, 12, 1, 3, tzinfo=UTC).timestamp()
    assert (await life.look(due - 60))["news"].state == "waiting"
    assert (await life.look(due))["news"].state == "running"
    life.begin()
    await life.look(due + 60)
    assert [event for event, _, _ in life.told] == ["started"]
    assert len(life.ledger.runs("news")) == 1


@living
async def test_a_deadline_stops_it_and_says_so(life: Life) -> None:
    await life.coordinator.actions.create(a_collection(schedule={"deadline": "2026-12-01"}), "ana", start=True)
    found = (await life.look(datetime(2026, 12, 1, tzinfo=UTC).timestamp()))["news"]
    assert (found.state, str(found.reason)) == ("stopped", "its deadline, Tuesday 2026-12-01 at 00:00 UTC, has come")
    assert life.ledger.runs("news")[0].cut
    assert life.told[-1][0] == "finished"


@living
async def test_a_period_runs_everything_again_and_never_twice_at_once(life: Life) -> None:
    await life.coordinator.actions.create(
        a_collection(schedule={"every": "daily", "start": "2026-12-01"}), "ana", start=False
    )
    first = datetime(2026, 12, 1, tzinfo=UTC).timestamp()
    await life.look(first)
    await life.look(first + 25 * HOUR)  # it still runs: the second is left out
    assert [run.number for run in life.ledger.runs("news")] == [1]
    await life.frontier.set_state("news", "finished", "everything in reach was visited")
    await life.look(first + 26 * HOUR)
    assert life.ledger.runs("news")[0].state == "finished"
    assert (await life.look(first + 47 * HOUR))["news"].state == "finished"
    found = (await life.look(first + 48 * HOUR))["news"]
    assert (found.state, found.run) == ("running", 2)
    assert [run.number for run in life.ledger.runs("news")] == [2, 1]
    assert [event for event, _, _ in life.told if event != "stalled"] == ["started", "finished", "started"]


@living
async def test_after_a_downtime_one_run_is_made_up_for(life: Life) -> None:
    await life.coordinator.actions.create(
        a_collection(schedule={"every": "daily", "start": "2026-12-01"}), "ana", start=False
    )
    first = datetime(2026, 12, 1, tzinfo=UTC).timestamp()
    await life.look(first)
    await life.frontier.set_state("news", "finished", "everything in reach was visited")
    await life.look(first + HOUR)
    life.begin()
    found = (await life.look(first + 5 * 24 * HOUR + HOUR))["news"]
    assert (found.state, found.run) == ("running", 2)
    for hours in range(2, 20):
        await life.look(first + (5 * 24 + hours) * HOUR)
    assert [run.number for run in life.ledger.runs("news")] == [2, 1]


@living
async def test_what_a_person_paused_is_not_started_by_its_period(life: Life) -> None:
    await life.coordinator.actions.create(
        a_collection(schedule={"every": "daily", "start": "2026-12-01"}), "ana", start=False
    )
    first = datetime(2026, 12, 1, tzinfo=UTC).timestamp()
    await life.look(first)
    await life.coordinator.actions.act("news", "pause", "ana")
    assert (await life.look(first + 24 * HOUR))["news"].state == "paused"
    await life.coordinator.actions.act("news", "resume", "ana")
    assert (await life.look(first + 25 * HOUR))["news"].run == 1


@living
async def test_again_visits_everything_from_the_roots(life: Life) -> None:
    await life.coordinator.actions.create(a_collection(), "ana", start=True)
    await life.frontier.set_state("news", "finished", "everything in reach was visited")
    await life.look()
    await life.coordinator.actions.act("news", "again", "ana")
    found = (await life.look())["news"]
    assert (found.state, found.run, found.pending) == ("running", 2, 2)


@living
async def test_what_is_deleted_is_gone_and_its_name_is_free(life: Life) -> None:
    await life.coordinator.actions.create(a_collection(), "ana", start=False)
    await life.look()
    await life.coordinator.actions.act("news", "delete", "ana")
    assert await life.look() == {}
    assert life.ledger.versions("news") == []
    assert life.coordinator.monitor.snapshot().collections == []
    await life.coordinator.actions.create(a_collection(), "rui", start=True)
    assert (await life.state())[0] == "running"
    assert [(one.number, one.who) for one in life.ledger.versions("news")] == [(1, "rui")]


@living
async def test_one_that_stands_still_is_told_once(life: Life) -> None:
    await life.coordinator.actions.create(a_collection(notify={"stalled": "10 min"}), "ana", start=True)
    for minute in range(40):
        await life.look(START + minute * 60)
    assert [event for event, _, _ in life.told].count("stalled") > 0
    assert {said for event, _, said in life.told if event == "stalled"} == {"nothing was visited for 10 min"}


@living
async def test_numbers_become_curves_and_a_picture(life: Life) -> None:
    await life.coordinator.actions.create(a_collection(), "ana", start=True)
    for second in range(30):
        await life.look(START + second * 2)
    assert len(life.coordinator.monitor.timeseries.recent("news")) >= 29
    one = life.coordinator.monitor.snapshot().collections[0]
    assert (one.name, one.state, one.sample.pending, one.status.known) == ("news", "running", 2, 2)
    assert one.actions == ["pause", "retry", "stop"]
    assert [(run.number, run.ended, run.known) for run in life.coordinator.run_log.runs("news")] == [(1, None, 2)], (
        "so far"
    )


@living
async def test_one_that_runs_while_all_nodes_are_paused_says_why_nothing_comes(life: Life) -> None:
    await life.coordinator.actions.create(a_collection(), "ana", start=True)
    soon = time.time() + HOUR  # it is not silent by then, however slow we are
    life.coordinator.nodes.receive_heartbeat(a_beat("home", trouble=PAUSED_BY_ORDER, is_paused=True), soon)
    one = life.coordinator.monitor.snapshot().collections[0]
    assert one.state == "running"
    assert str(one.standstill) == "nobody works for it: paused by order"
    assert one.standstill is not None
    assert PORTUGUESE.render(one.standstill) == "ninguém trabalha para ela: pausado por ordem"
    await life.coordinator.actions.act("news", "pause", "ana")
    assert life.coordinator.monitor.snapshot().collections[0].standstill is None


@living
async def test_roots_that_were_on_their_way_when_somebody_was_killed_are_handed_over_while_it_runs(life: Life) -> None:
    await life.coordinator.actions.create(a_collection(), "ana", start=True)
    known = (await life.look())["news"].known
    many = [f"http://h{number}.br/" for number in range(ROOTS_PER_CALL + 10)]
    seed, life.frontier.seed = life.frontier.seed, gone  # type: ignore[method-assign,assignment]
    with pytest.raises(Unreachable):
        before = await life.coordinator.definitions.in_force("news")
        await life.coordinator.actions.edit("news", replace(before, roots=(*before.roots, *many)), "ana")
    life.begin()  # another process
    life.frontier.seed = seed  # type: ignore[method-assign]
    await life.look()
    assert (await life.look())["news"].known == known + len(many)


async def gone(*_: object) -> None:
    raise Unreachable("the frontier was away")


@living
async def test_one_that_cannot_be_begun_keeps_nobody_else_from_it(life: Life) -> None:
    daily = {"every": "daily", "start": "2026-12-01"}
    await life.coordinator.actions.create(a_collection("bad", schedule=daily), "ana", start=False)
    await life.coordinator.actions.create(a_collection("good", schedule=daily), "ana", start=False)
    first = datetime(2026, 12, 1, tzinfo=UTC).timestamp()
    await life.look(first)
    for name in ("bad", "good"):
        await life.frontier.set_state(name, "finished", "everything in reach was visited")
    await life.look(first + HOUR)
    real = life.frontier.begin_run

    async def refused(name: str, reason: Message | str) -> CollectionRow:
        if name == "bad":
            raise FrontierError("bad: cannot be begun")
        return await real(name, reason)

    life.frontier.begin_run = refused  # type: ignore[method-assign]
    found = await life.look(first + 24 * HOUR)
    assert (found["bad"].state, found["good"].state) == ("finished", "running")
    pictures = {one.name: one.notes for one in life.coordinator.monitor.snapshot().collections}
    assert pictures == {"bad": ["bad: cannot be begun"], "good": []}


@living
async def test_an_edit_of_what_somebody_else_has_changed_is_refused(life: Life) -> None:
    await life.coordinator.actions.create(a_collection(), "ana", start=False)
    read = (await life.look())["news"].revision
    await life.coordinator.actions.edit("news", a_collection(scope={"exclude": ["*/a*"]}), "bia", read)
    with pytest.raises(EditConflict, match="changed by somebody else meanwhile"):
        await life.coordinator.actions.edit("news", a_collection(), "ana", read)
    (row,) = await life.frontier.collections()
    assert config.decode_collection(row.config).scope.exclude == ("*/a*",)


@living
async def test_one_that_was_finished_before_anybody_coordinated_is_visited_again_and_not_begun(life: Life) -> None:
    await submit_collection(life.frontier, a_collection(schedule={"every": "daily", "start": "2026-11-01"}))
    await life.frontier.set_state("news", "finished", "everything in reach was visited")
    await life.look()
    assert [(run.number, run.state) for run in life.ledger.runs("news")] == [(1, "finished")]
    found = (await life.look(START + 24 * HOUR))["news"]
    assert (found.state, found.run, found.pending) == ("running", 2, 2)


@living
async def test_a_schedule_that_a_file_changed_counts_from_then_on(life: Life) -> None:
    await life.coordinator.actions.create(
        a_collection(schedule={"every": "30 days", "start": "2026-11-01"}), "ana", start=True
    )
    await life.frontier.set_state("news", "finished", "everything in reach was visited")
    await life.look()
    changed = START + 80 * HOUR
    life.clock.moment[0] = changed
    await submit_collection(
        life.frontier, a_collection(schedule={"every": "daily", "start": "2026-11-01"}), start=False
    )
    assert (await life.look(changed + 5))["news"].state == "finished", "what would have been is past"
    assert (await life.look(changed + 24 * HOUR))["news"].run == 2


@living
async def test_a_scheduled_start_is_no_stall(life: Life) -> None:
    waiting = a_collection(schedule={"start": "2026-12-01"}, notify={"stalled": "10 min"})
    await life.coordinator.actions.create(waiting, "ana", start=False)
    first = datetime(2026, 12, 1, tzinfo=UTC).timestamp()
    for minutes in range(-60, 9):
        await life.look(first + minutes * 60)
    assert [event for event, _, _ in life.told] == ["started"]


@living
async def test_a_name_that_is_free_brings_neither_secrets_nor_reports_of_another(life: Life) -> None:
    await life.coordinator.actions.create(a_collection(), "ana", start=False)
    data = life.ledger.data
    credentials.add(data, "news", credentials.Credential(("a.br",), "cookie", "", "sesame"))
    (data.reports / "news" / "20260101-000000").mkdir(parents=True)
    await life.coordinator.actions.act("news", "delete", "ana")
    await life.coordinator.actions.create(a_collection(), "rui", start=False)
    assert credentials.list_redacted(data, "news") == []
    assert not (data.reports / "news").exists()


DAILY = {"every": "daily", "start": "2026-12-01"}
FIRST = datetime(2026, 12, 1, tzinfo=UTC).timestamp()
DONE = "everything in reach was visited"


async def a_daily_one_between_two_runs(life: Life) -> None:
    await life.coordinator.actions.create(a_collection(schedule=DAILY), "ana", start=False)
    await life.look(FIRST)
    assert len(await visit(life, 2)) == 2
    assert await is_over(life)
    await life.look(FIRST + HOUR)


@living
async def test_a_schedule_is_paused_between_two_runs_and_says_so_until_somebody_resumes_it(life: Life) -> None:
    await a_daily_one_between_two_runs(life)
    assert life.coordinator.monitor.snapshot().collections[0].actions == ["pause", "again", "delete"]
    await life.coordinator.actions.act("news", "pause", "rui")
    state, reason = await life.state()
    assert state == "paused"
    assert reason.endswith("; its schedule rests until somebody resumes it")
    picture = life.coordinator.monitor.snapshot().collections[0]
    assert PORTUGUESE.render(picture.reason).endswith("; sua agenda espera até que alguém a retome")
    assert (picture.actions, picture.next) == (["resume", "delete"], None)
    assert await life.coordinator.schedule.upcoming_runs("news", 3) == []
    for day in (1, 2):
        assert (await life.look(FIRST + day * 24 * HOUR))["news"].run == 1
    life.begin()  # after a downtime, too
    assert (await life.look(FIRST + 5 * 24 * HOUR + HOUR))["news"].state == "paused"
    await life.coordinator.actions.act("news", "resume", "rui")
    assert await life.state() == ("finished", DONE), "as it was; and nothing is made up for"
    assert life.coordinator.monitor.snapshot().collections[0].next == FIRST + 6 * 24 * HOUR
    assert (await life.look(FIRST + 6 * 24 * HOUR))["news"].run == 2
    assert [event for event, _, _ in life.told] == ["started", "finished", "started"]


@living
async def test_a_stopped_one_whose_schedule_is_paused_and_resumed_is_stopped_as_before(life: Life) -> None:
    await life.coordinator.actions.create(a_collection(schedule=DAILY), "ana", start=False)
    await life.look(FIRST)
    await life.coordinator.actions.act("news", "stop", "ana")
    stopped = life.coordinator.monitor.snapshot().collections[0]
    await life.coordinator.actions.act("news", "pause", "rui")
    assert (await life.look(FIRST + 25 * HOUR))["news"].state == "paused"
    await life.coordinator.actions.act("news", "resume", "rui")
    await life.look()
    again = life.coordinator.monitor.snapshot().collections[0]
    assert (again.state, again.reason) == ("stopped", stopped.reason)
    assert PORTUGUESE.render(again.reason).startswith("por ana às ")
    assert again.actions == ["pause", "resume", "again", "delete"]


@living
async def test_one_that_waits_for_its_start_is_paused_and_does_not_start_until_it_is_resumed(life: Life) -> None:
    await life.coordinator.actions.create(a_collection(schedule={"start": "2026-12-01"}), "ana", start=False)
    assert (await life.state())[0] == "waiting"
    await life.coordinator.actions.act("news", "pause", "ana")
    assert (await life.look(FIRST + HOUR))["news"].state == "paused"
    await life.coordinator.actions.act("news", "resume", "ana")
    assert (await life.state())[0] == "running"


@living
async def test_what_is_finished_and_has_no_next_run_cannot_be_paused(life: Life) -> None:
    await life.coordinator.actions.create(a_collection(), "ana", start=True)
    await life.frontier.set_state("news", "finished", DONE)
    await life.look()
    with pytest.raises(ConfigError, match=r"^news is finished: pause is for what is running; possible now: again, de"):
        await life.coordinator.actions.act("news", "pause", "ana")


async def visit(life: Life, most: int) -> list[str]:
    """Some of what waits is visited, and each of these is a page; their URLs."""
    worker, found = (await life.frontier.join("w", current_process())).worker, list[str]()
    for lease in await life.frontier.lease(worker, most):
        one = lease.visits[0]
        found.append(one.url)
        report = VisitReport(
            one.id, one.number, Outcome(200, life.clock.now(), kept=True, type="text/html", content_id="c")
        )
        await life.frontier.finish(
            worker, [HostReport(lease.host, lease.collection, [report], 0.0, 0.0, 0.0, keep=False)]
        )
    await life.frontier.leave(worker)
    return found


async def is_over(life: Life) -> bool:
    """Whether whoever ends collections would do so now; then he has."""
    (one,) = (await life.frontier.overview()).collections
    if is_exhausted(one):
        await life.frontier.set_state(one.name, "finished", finish_reason(one))
    return is_exhausted(one)


@living
async def test_a_limit_that_is_raised_lets_what_it_ended_go_on(life: Life) -> None:
    await life.coordinator.actions.create(a_collection(scope={"pages_max": 1}), "ana", start=True)
    assert len(await visit(life, 2)) == 1
    assert await is_over(life)
    assert await life.state() == ("finished", "pages_max = 1 was reached")
    await life.coordinator.actions.edit("news", a_collection(scope={"pages_max": 1}, politeness={"delay": 3}), "rui")
    assert (await life.state())[0] == "finished", "which changes nothing about that"
    await life.coordinator.actions.edit("news", a_collection(scope={"pages_max": 2}), "rui")
    state, reason = await life.state()
    assert (state, reason[:35]) == ("running", "goes on since it was edited by rui ")
    assert PORTUGUESE.render(life.coordinator.monitor.snapshot().collections[0].reason).startswith(
        "continua desde que foi editada por rui às "
    )
    assert [(run.number, run.state) for run in life.coordinator.run_log.runs("news")] == [(1, "running")]
    assert len(await visit(life, 2)) == 1
    assert await is_over(life)


@living
async def test_what_was_finished_goes_on_with_roots_that_are_added_and_never_waits_in_vain(life: Life) -> None:
    await life.coordinator.actions.create(a_collection(), "ana", start=True)
    assert len(await visit(life, 2)) == 2
    assert await is_over(life)
    before = await life.coordinator.definitions.in_force("news")
    await life.coordinator.actions.edit("news", replace(before, roots=(*before.roots, "http://c.br/")), "rui")
    assert (await life.state())[0] == "running"
    assert await visit(life, 2) == ["http://c.br/"]


@living
async def test_what_an_edit_opened_while_its_schedule_was_paused_is_visited_when_it_is_resumed(life: Life) -> None:
    await life.coordinator.actions.create(a_collection(schedule=DAILY), "ana", start=True)
    assert len(await visit(life, 2)) == 2
    assert await is_over(life)
    await life.look()
    await life.coordinator.actions.act("news", "pause", "ana")
    before = await life.coordinator.definitions.in_force("news")
    await life.coordinator.actions.edit("news", replace(before, roots=(*before.roots, "http://c.br/")), "rui")
    assert (await life.state())[0] == "paused"
    await life.coordinator.actions.act("news", "resume", "ana")
    assert (await life.state())[0] == "running"
