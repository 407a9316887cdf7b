"""Sites move between real servers while processes work, and movers and servers are killed at every step."""

import asyncio
import contextlib
import multiprocessing
import os
import random
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tarrafa.errors import FrontierError
from tarrafa.frontier.postgres.rebalance import freight
from tarrafa.model import Outcome
from tarrafa.runtime.process import current_process
from tests.contract.frontier_bodies import done, numbers, offer
from tests.contract.postgres_process import WHY_NOT, Postgres, programs
from tests.frontier.rebalance.spreading import STEPS, assert_in_order, found, opened, spread

pytestmark = [pytest.mark.skipif(programs() is None, reason=WHY_NOT), pytest.mark.long]
WITHIN = "while everything is copied"


def hammer(dsns: list[str], folder: Path, number: int, urls: int) -> None:
    """A worker of its own that finds links to everything, until all is fetched."""
    rng = random.Random()

    async def main() -> None:
        frontier = opened(dsns, folder, f"outbox-{number}")
        (row,) = await frontier.collections()
        worker = (await frontier.join(f"w{number}-{os.getpid()}", current_process())).worker
        at = number * urls // 4  # everybody finds everything, each in another turn
        while True:
            await frontier.renew(worker, "")
            if (await numbers(frontier)).fetched >= urls and not (folder / "moving").exists():
                break
            leases = await frontier.lease(worker, rng.randint(1, 6))
            links = [f"http://h{n % urls % 60}.br/{n % urls}" for n in range(at, at + 20)]
            at += 20
            await frontier.discover(row.id, [offer(link, rng.randint(1, 4)) for link in links])
            now = time.time()
            outcome = Outcome(200, now, kept=True, type="text/html", content_id="c")
            settings: dict[str, Any] = {"next_at": now, "ended_at": now, "delay_s": 0.0}
            reports = [
                done(lease, lease.visits[: rng.randint(1, 8)], outcome, keep=rng.random() < 0.5, **settings)
                for lease in leases
            ]
            answers = await frontier.finish(worker, reports)
            kept = [lease for lease, answer in zip(leases, answers, strict=True) if answer.held]
            await frontier.finish(worker, [done(lease, [], outcome, keep=False, **settings) for lease in kept])
            await asyncio.sleep(0.0 if leases else 0.05)
        await frontier.leave(worker)
        await frontier.close()

    while True:
        try:
            return asyncio.run(main())
        except FrontierError as error:  # it lost its server or its lease: a supervisor would start it again
            print(f"{number}: {error}", flush=True)


@contextlib.contextmanager
def at_step(step: str, happens: Callable[[], None]) -> Iterator[Callable[[str, int], None]]:
    """What a mover is to tell its steps to, so that something happens at one of them, once; or within the longest."""
    left = [happens]

    def tell(one: str, size: int) -> None:
        while one == step and left:
            left.pop()()

    def make_ready(*arguments: Any) -> None:
        tell(WITHIN, 0)
        before(*arguments)

    before = freight.make_ready
    freight.make_ready = make_ready  # type: ignore[assignment]
    try:
        yield tell
    finally:
        freight.make_ready = before


def move_and_die(dsns: list[str], step: str) -> None:
    with at_step(step, lambda: os.kill(os.getpid(), signal.SIGKILL)) as tell:
        spread(dsns, tell, group_weight_min=200)


@pytest.fixture(scope="module")
def real_servers():
    made = [Postgres(), Postgres(), Postgres()]
    yield made
    for server in made:
        server.remove()


@contextlib.contextmanager
def workers_of(dsns: list[str], folder: Path, urls: int) -> Iterator[None]:
    """Four of them, each a process; they must end well, when all is fetched and nobody moves anything any more."""
    context = multiprocessing.get_context("fork")
    (folder / "moving").touch()
    workers = [context.Process(target=hammer, args=(dsns[:1], folder, number, urls)) for number in range(4)]
    for process in workers:
        process.start()
    try:
        yield
        (folder / "moving").unlink()
        for process in workers:
            process.join(200)
            assert process.exitcode == 0
    finally:
        for process in workers:
            process.kill()
            process.join()


def assert_fetched(dsns: list[str], folder: Path, urls: int) -> None:
    async def look() -> None:
        frontier = opened(dsns[:1], folder, "end")
        status = await numbers(frontier)
        assert (status.known, status.fetched, status.pending, status.handed_out) == (urls, urls, 0, 0)
        await frontier.close()

    asyncio.run(look())
    assert_in_order(dsns, folder, {f"http://h{n % 60}.br/{n}" for n in range(urls)})


def run_until_done(dsns: list[str]) -> int:
    """As a person would: again, until it says that it is done. How often it was needed."""
    for attempt in range(1, 20):
        with contextlib.suppress(FrontierError):
            if not spread(dsns, group_weight_min=200).stayed:
                return attempt
    raise AssertionError("it never ends")


@pytest.mark.parametrize("count", [2, 3])
def test_movers_are_killed_at_every_step_while_four_processes_work_on_real_servers(real_servers, tmp_path, count):
    dsns, urls = [server.database("killed") for server in real_servers[:count]], 1_800
    found(dsns, tmp_path, hosts=60, urls=0)
    context = multiprocessing.get_context("fork")
    with workers_of(dsns, tmp_path, urls):
        for step in (*STEPS, WITHIN):
            mover = context.Process(target=move_and_die, args=(dsns, step))
            mover.start()
            mover.join(120)
            print(f"{step}: {'killed' if mover.exitcode == -signal.SIGKILL else 'was over before that'}")
        run_until_done(dsns)
    assert_fetched(dsns, tmp_path, urls)


@pytest.mark.parametrize("victim", [0, 1])
def test_a_server_that_is_killed_at_any_step_costs_nothing(real_servers, tmp_path, victim):
    dsns, urls = [server.database("restarted") for server in real_servers[:2]], 1_800
    found(dsns, tmp_path, hosts=60, urls=0)

    def restart() -> None:
        real_servers[victim].stop("immediate")
        real_servers[victim].start()

    with workers_of(dsns, tmp_path, urls):
        for step in (*STEPS, WITHIN):
            with contextlib.suppress(FrontierError), at_step(step, restart) as tell:
                spread(dsns, tell, group_weight_min=200)
        run_until_done(dsns)
    assert_fetched(dsns, tmp_path, urls)
