"""A frontier whose clock was ahead is set back: nothing waits for the difference, and its books agree."""

from pathlib import Path

import pytest

from tarrafa.clock import Clock, boottime
from tarrafa.errors import Locked
from tarrafa.frontier.store.clock_reset import ClockReset, reset_clock
from tarrafa.frontier.store.database import open_database
from tarrafa.frontier.store.leases import LeaseClock
from tarrafa.frontier.store.revisits import read_history
from tarrafa.frontier.store.sqlite_frontier import FrontierStore
from tarrafa.model import Outcome
from tarrafa.runtime.process_identity import current_process
from tests.contract.frontier_bodies import SUFFIXES, FalseClock, FalseLeaseClock, a_collection, a_sqlite, done, offer
from tests.contract.test_revisits import advance, now, opened
from tests.frontier.store.test_random_operations import KINDS, broken, live, random_life

HOUR_S = 3_600.0
PAST = ("url.discovered", "url.fetched", "visit.at", "collection.created", "collection.started")


@pytest.fixture(autouse=True)
def _right_clocks():
    FalseClock.shift[0] = FalseLeaseClock.shift[0] = 0.0
    yield
    FalseClock.shift[0] = FalseLeaseClock.shift[0] = 0.0


def real(behind_s: float) -> Clock:
    """The clock of the machine, which was set right: behind the frontier's."""
    return Clock(now() - behind_s, boottime(), 1e-9)


def newest(store: FrontierStore) -> dict[str, float]:
    found = {name: store.db.value(f"SELECT max({name}) FROM {name.partition('.')[0]}") for name in PAST}
    found["page.history"] = max(
        (read_history(row[0]).last for row in store.db.rows("SELECT history FROM page")), default=0
    )
    return {name: at or 0.0 for name, at in found.items()}


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("ahead_s", [HOUR_S, 400 * 24 * HOUR_S])
def test_the_books_agree_after_the_clock_was_reset(tmp_path, kind, seed, ahead_s):
    with random_life(kind, f"reset {seed}", tmp_path) as life:
        for _ in range(50):
            life.step()
        advance(ahead_s)
        for _ in range(50):
            life.step()
        states = "SELECT host, collection, id, state, visits, archived FROM url ORDER BY 1, 2, 3"
        before = life.store.db.rows(states)
        with life.transaction() as store:
            store.record_clock()
        path = Path(life.store.db.connection.filename)
        life.close()
        found = reset_clock(path, real(ahead_s))
        assert found.moved_s == pytest.approx(ahead_s)
        assert found.still_ahead_s == 0.0
        advance(-ahead_s)
        life.store = life._opened()
        assert broken(life.store) == {}
        assert life.store.db.rows(states) == before
        assert {name: at for name, at in newest(life.store).items() if at > now()} == {}
        live(life, 50)


async def test_hosts_wait_for_their_delay_and_not_for_an_hour(tmp_path):
    async with a_sqlite(tmp_path) as frontier:
        row = await frontier.open_collection(a_collection(politeness={"delay": 10}))
        await frontier.discover(row.id, [offer("http://a.br/"), offer("http://a.br/2")])
        advance(HOUR_S)
        worker = (await frontier.join("w", current_process())).worker
        (lease,) = await frontier.lease(worker, 1)
        outcome = Outcome(200, now(), kept=True, type="text/html")
        report = done(lease, lease.visits[:1], outcome, next_at=now() + 10, ended_at=now(), delay_s=10.0, keep=False)
        await frontier.finish(worker, [report])
        await frontier.leave(worker)
    reset_clock(tmp_path / "frontier.sqlite", real(HOUR_S))
    advance(-HOUR_S)
    async with a_sqlite(tmp_path) as frontier:
        worker = (await frontier.join("w", current_process())).worker
        advance(9.9)
        assert await frontier.lease(worker, 1) == []
        advance(0.2)
        assert len(await frontier.lease(worker, 1)) == 1


async def test_a_page_is_due_again_as_long_after_its_visit_as_before(tmp_path):
    advance(HOUR_S)
    async with a_sqlite(tmp_path) as frontier:
        _, worker = await opened(frontier, "http://a.br/")
        await frontier.leave(worker)
    reset_clock(tmp_path / "frontier.sqlite", real(HOUR_S))
    advance(-HOUR_S)
    async with a_sqlite(tmp_path) as frontier:
        worker = (await frontier.join("w", current_process())).worker
        advance(599)
        assert await frontier.lease(worker, 1) == []
        advance(2)  # interval_min is ten minutes
        assert len(await frontier.lease(worker, 1)) == 1


async def test_no_time_moves_to_before_a_deletion(tmp_path):
    path = tmp_path / "frontier.sqlite"
    advance(HOUR_S)
    async with a_sqlite(tmp_path) as frontier:
        await frontier.open_collection(a_collection("old"))
        await frontier.set_state("old", "stopped", "")
        await frontier.delete_collection("old", 0)
        assert await frontier.record_deletion("old")
        while await frontier.delete_collection("old", 100):
            pass
        deleted = now()
        advance(60)
        await frontier.open_collection(a_collection("old"))
    found = reset_clock(path, real(HOUR_S + 60))
    assert found.moved_s == pytest.approx(60, abs=0.01)
    assert found.still_ahead_s == pytest.approx(HOUR_S, abs=0.01)
    store = FrontierStore(open_database(str(path), SUFFIXES), Clock.real(), LeaseClock())
    assert store.collections.by_name("old").created > deleted
    assert float(store.db.value("SELECT value FROM meta WHERE key = 'clock'")) > deleted
    store.db.connection.close()
    assert reset_clock(path, real(HOUR_S)).moved_s == 0.0


async def test_a_frontier_that_is_open_or_not_ahead_is_left_as_it_is(tmp_path):
    async with a_sqlite(tmp_path) as frontier:
        await opened(frontier, "http://a.br/")
        with pytest.raises(Locked, match="stop it first"):
            reset_clock(tmp_path / "frontier.sqlite", real(HOUR_S))
    assert reset_clock(tmp_path / "frontier.sqlite", real(-1.0)) == ClockReset(0.0, 0.0)
