"""A collection that was deleted on one machine is gone on every machine that works for the same frontier."""

import asyncio
import multiprocessing
import os
import signal
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

from tarrafa.archive.deletion_log import ArchiveDeletions
from tarrafa.archive.warc_writer import WarcWriter, recover_archive
from tarrafa.cli.collections import delete_collection as command
from tarrafa.clock import Clock
from tarrafa.crawl.supervisor.takedown_and_deletion_sync import (
    DeletionSync,
    delete_collection,
    sync_takedowns_and_deletions,
)
from tarrafa.frontier.address import UnixSocket
from tarrafa.frontier.api import Frontier
from tarrafa.frontier.rpc import frontier_server
from tarrafa.frontier.store.sqlite_frontier import SqliteFrontier
from tarrafa.index import follower as index
from tarrafa.model import VisitRecord
from tarrafa.runtime.data_dir import DataDirectory
from tests.archive.test_deletion_log import A, B, follow, in_links, names, page, shown
from tests.contract.frontier_bodies import a_collection, offer
from tests.crawl.supervisor.test_takedown_propagation import a_directory
from tests.crawl.worker.test_worker import a_table
from tests.crawl.worker.worker_harness import running_worker, submit, wait_until_nothing_waits
from tests.graph.archived_web import write
from tests.journey.scripted_web import ScriptedResponse, scripted_web
from tests.wait import wait_until

CLOCK = Clock.real()


def now() -> float:
    return CLOCK.now()


def opened(data: DataDirectory) -> SqliteFrontier:
    return SqliteFrontier(data.frontier, CLOCK, "br\n")


async def make(frontier: Frontier, name: str = "c") -> None:
    await frontier.open_collection(a_collection(name), [offer(A), offer(B)], start=False)


def archive(data: DataDirectory, *records: VisitRecord, worker: str = "w1") -> None:
    """And let everybody follow."""
    write(data, list(records), worker)
    follow(data)


def show(data: DataDirectory, *records: VisitRecord, worker: str = "w1") -> None:
    """The same, for the index alone."""
    write(data, list(records), worker)
    index.catch_up(data)


def found(data: DataDirectory) -> set[tuple[str, str, str]]:
    """What the index shows by now."""
    index.catch_up(data)
    return shown(data)


@pytest.fixture
def machines(tmp_path: Path) -> tuple[DataDirectory, DataDirectory, DataDirectory]:
    """The frontier's, and two that crawl for it."""
    server, one, two = (a_directory(tmp_path / name) for name in ("server", "one", "two"))
    return server, one, two


async def test_every_machine_drops_what_it_has_of_it_and_a_new_one_of_its_name_keeps_its_pages(machines):
    server, one, two = machines
    archive(one, page(A, "Ana", 7, now() - 5, "c", B))
    archive(two, page(B, "Bia", 7, now() - 5, "c", A), page(A, "Eva", 1, now() - 5, "d", B))

    frontier = opened(server)
    await make(frontier)
    hearing = DeletionSync(two, CLOCK)
    await hearing.sync_once(frontier)
    await delete_collection(frontier, one, "c")
    await make(frontier)
    follow(one)
    assert (shown(one), names(one), in_links(one, B, "c")) == (set(), set(), 0)
    follow(two)
    assert shown(two) == {("c", B, "Bia"), ("d", A, "Eva")}, "it has heard nothing yet"
    await hearing.sync_once(frontier)
    archive(two, page(B, "Ana", 1, now() + 0.1, "c", A), worker="w2")
    assert shown(two) == {("c", B, "Ana"), ("d", A, "Eva")}
    assert names(two) == {"Ana", "Eva"}
    assert (in_links(two, A, "c"), in_links(two, B, "d")) == (1, 1)
    await DeletionSync(server, CLOCK).sync_once(frontier)
    assert set(ArchiveDeletions(server.archive).latest()) == {"c"}, "where the frontier is, there may be an archive too"
    await frontier.close()


async def test_a_machine_that_was_away_or_is_new_hears_of_all_of_it_at_once(machines, tmp_path):
    server, one, two = machines
    show(two, page(A, "Ana", 1, now() - 5), page(B, "Bia", 1, now() - 5, "d"))

    frontier = opened(server)
    for name in ("c", "d", "c"):
        await make(frontier, name)
        await delete_collection(frontier, one, name)
    await frontier.close()
    frontier = opened(server)  # it was started anew meanwhile
    for data in (two, a_directory(tmp_path / "new")):
        await DeletionSync(data, CLOCK).sync_once(frontier)
        assert set(ArchiveDeletions(data.archive).latest()) == {"c", "d"}
        assert len(list(data.archive.glob("*-deleted-*.durable"))) == 1
    assert found(two) == set()
    await DeletionSync(DataDirectory(tmp_path / "none"), CLOCK).sync_once(frontier)
    assert not (tmp_path / "none").exists()
    await frontier.close()


async def test_a_frontier_that_was_made_anew_is_heard_from_the_beginning(machines, tmp_path):
    server, _, two = machines

    hearing = DeletionSync(two, CLOCK)
    for data, collections in ((server, ("c", "d")), (a_directory(tmp_path / "other"), ("e",))):
        frontier = opened(data)
        for name in collections:
            await make(frontier, name)
            await delete_collection(frontier, None, name)
        await hearing.sync_once(frontier)
        await frontier.close()
    assert set(ArchiveDeletions(two.archive).latest()) == {"c", "d", "e"}


@pytest.mark.parametrize("one_log", [False, True])
async def test_machines_keep_listening(machines, one_log):
    server, one, two = machines
    show(two, page(A, "Ana", 1, now() - 5))

    frontier = opened(server)

    async def current() -> Frontier:
        return frontier

    await make(frontier)
    listening = asyncio.create_task(sync_takedowns_and_deletions(two, CLOCK, current, one_log=one_log))
    await delete_collection(frontier, one, "c")
    deletions = ArchiveDeletions(two.archive)
    await wait_until(lambda: "c" in deletions.latest(), "it is heard of")
    assert found(two) == set()
    listening.cancel()
    await frontier.close()


async def test_a_visit_that_a_machine_whose_clock_is_ahead_brought_home_is_older_than_the_deletion(machines):
    """Its record says that it was made after the collection was deleted, by less than a worker's clock may be apart."""
    server, one, two = machines
    ahead = Clock(CLOCK.epoch + 0.8, CLOCK.anchor)

    frontier = opened(server)
    await make(frontier)
    await delete_collection(frontier, one, "c")
    (told,) = await frontier.deletions(0)
    write(two, [page(A, "Ana", 1, told.at + 0.4)])  # just before, by its own clock
    await DeletionSync(two, ahead).sync_once(frontier)
    assert found(two) == set()
    assert told.at <= ArchiveDeletions(two.archive).latest()["c"] <= told.at + 1.0
    show(two, page(A, "Eva", 1, ahead.now()), worker="w2")
    assert found(two) == {("c", A, "Eva")}
    await frontier.close()


async def test_a_worker_hears_of_it_before_it_archives_for_the_next_one_of_the_name(tmp_path):
    """Nobody else listens beside it, and it may hear of it at once, or only when it looks what it shall crawl. What the
    index has of the old one are later visits by their numbers."""
    told = (("Content-Type", "text/html"), ("Connection", "close"))

    with scripted_web(lambda url, _: ScriptedResponse(b"<title>Eva</title><p>rede", headers=dict(told))) as web:
        async with running_worker(tmp_path) as (frontier, data):
            root = "http://a.test/"
            show(data, page(root, "Ana", 7, now() - 5), worker="before")
            await make(frontier)
            await delete_collection(frontier, None, "c")
            await submit(frontier, a_table(web, [root]))
            await wait_until_nothing_waits(frontier)
            assert found(data) == {("c", root, "Eva")}


async def test_the_command_notes_it_where_it_was_crawled_and_leaves_other_directories_alone(machines, tmp_path):
    server, one, own = machines
    nowhere = DataDirectory(tmp_path / "nowhere")
    show(own, page(A, "Ana", 1, now() - 5))

    await opened(own).close()
    frontier = opened(server)
    door = await frontier_server.serve_unix(frontier, server.socket)
    for data in (one, own, nowhere):
        await make(frontier)
        said = await asyncio.to_thread(command, data, UnixSocket(server.socket), "c")
        assert said.startswith("c: deleted; running search processes drop its pages")
        assert await frontier.collections() == []
    door.close()
    await frontier.close()
    assert set(ArchiveDeletions(one.archive).latest()) == {"c"}
    assert found(own) == {("c", A, "Ana")}, "of another frontier's c"
    assert not nowhere.root.exists()


# -- killed at every step ----------------------------------------------------------------------------------------------


class Mortal:
    """A frontier whose caller is killed, by a real SIGKILL, before or after one of the calls that it makes."""

    def __init__(self, frontier: Frontier, last: int) -> None:
        self._frontier, self._left = frontier, last

    def _step(self) -> None:
        self._left -= 1
        if self._left < 0:
            os.kill(os.getpid(), signal.SIGKILL)

    def __getattr__(self, name: str) -> Callable[..., Coroutine[Any, Any, Any]]:
        async def call(*arguments: Any) -> Any:
            self._step()
            result = await getattr(self._frontier, name)(*arguments)
            self._step()
            return result

        return call


def delete_and_die(server: DataDirectory, one: DataDirectory, steps: int) -> None:
    async def scene() -> None:
        frontier = opened(server)
        await delete_collection(Mortal(frontier, steps), one, "c")
        await frontier.close()

    asyncio.run(scene())


def hear_and_die(server: DataDirectory, two: DataDirectory, step: str) -> None:
    """In the middle of the note: begun, or written and not durable yet."""

    def die(*_: Any) -> Any:
        os.kill(os.getpid(), signal.SIGKILL)

    setattr(WarcWriter, step, die)

    async def scene() -> None:
        frontier = opened(server)
        await DeletionSync(two, CLOCK).sync_once(frontier)

    asyncio.run(scene())


def end_of(what: Callable[..., None], *arguments: Any) -> int | None:
    process = multiprocessing.get_context("fork").Process(target=what, args=arguments)
    process.start()
    process.join()
    return process.exitcode


def test_whoever_deletes_may_be_killed_at_every_step_and_goes_on(machines):
    server, one, two = machines

    async def is_in_order(finished: bool) -> None:
        """The name is free only when everybody can hear why, and this machine has."""
        frontier = opened(server)
        is_free = not await frontier.collections()
        told = [deletion.collection for deletion in await frontier.deletions(0)]
        assert is_free >= finished
        assert told == ["c"] or not is_free
        assert list(ArchiveDeletions(one.archive).latest()) == ["c"] or not is_free
        await frontier.close()

    async def begin() -> None:
        frontier = opened(server)
        await make(frontier)
        await frontier.close()

    asyncio.run(begin())
    show(one, page(A, "Ana", 1, now() - 5))
    show(two, page(B, "Bia", 1, now() - 5))
    steps = 0
    while (code := end_of(delete_and_die, server, one, steps)) == -signal.SIGKILL:
        asyncio.run(is_in_order(finished=False))
        steps += 1
    assert (code, steps > 5) in {(0, True), (1, True)}, "1: the last one was killed when all was done"
    asyncio.run(is_in_order(finished=True))
    assert len(list(one.archive.glob("*-deleted-*.durable"))) == 1

    async def hear() -> None:
        frontier = opened(server)
        await DeletionSync(two, CLOCK).sync_once(frontier)
        await frontier.close()

    for step in ("append_note", "close", "prepare_commit"):
        assert end_of(hear_and_die, server, two, step) == -signal.SIGKILL
        assert ArchiveDeletions(two.archive).latest() == {}
    asyncio.run(hear())
    recover_archive(two.archive)
    for data in (one, two):
        assert found(data) == set()
        assert len(list(data.archive.glob("*-deleted-*.durable"))) == 1
