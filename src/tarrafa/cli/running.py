"""Crawling from a terminal: as the supervisor, or through the one that runs already."""

import asyncio
import contextlib
import signal
import sys
from collections.abc import AsyncGenerator, Callable, Coroutine
from typing import Any

import msgspec

from tarrafa.cli import show
from tarrafa.cli.progress import CrawlProgress, format_duration
from tarrafa.clock import Clock, boottime
from tarrafa.config import Collection
from tarrafa.coordinate.ledger import store_path as ledger_of
from tarrafa.crawl.keeping import RemoteFrontierLink
from tarrafa.crawl.supervise import Supervisor, submit_collection
from tarrafa.data import DataDirectory
from tarrafa.errors import FrontierError, Locked, Unreachable
from tarrafa.frontier.address import Address, connect, local_address
from tarrafa.frontier.protocol import CollectionStatus, FrontierOverview
from tarrafa.frontier.store.sqlite import read_overview
from tarrafa.model import Status

WATCH_EVERY_S = 0.5
START_TIMEOUT_S = 10.0  # whoever works in a directory may still be starting
UNFINISHED_STATES = ("running", "paused")  # what is paused may be resumed
INTERRUPTED = 130
HINTS = {
    Status.HOST_GIVEN_UP: "hosts that did not answer were given up; the same command tries them once more",
    Status.ADDRESS_REFUSED: "addresses that are not on the public Internet were refused; "
    "[network] allow_private = true lets them be visited",
}


def run_until_interrupted(main: Callable[[], Coroutine[Any, Any, int]]) -> int:
    """Run; Ctrl-C and SIGTERM cancel, so that everything is handed back before we end."""

    async def whole() -> int:
        loop, task = asyncio.get_running_loop(), asyncio.current_task()
        assert task is not None
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, task.cancel)
        try:
            return await main()
        except asyncio.CancelledError:
            return INTERRUPTED

    return asyncio.run(whole())


def status_of(overview: FrontierOverview, name: str) -> CollectionStatus:
    return next(one for one in overview.collections if one.name == name)


async def crawl_in_foreground(supervisor: Supervisor, collection: Collection, *, quiet: bool = False) -> bool:
    """Crawl a collection in front of a person; whether its end was reached."""
    started, status = boottime(), None
    with CrawlProgress(collection.name, quiet=quiet) as progress:
        async with contextlib.aclosing(_watch(supervisor, collection)) as overviews:
            async for overview in overviews:
                status = status_of(overview, collection.name)
                progress.show(status)
    assert status is not None
    if not quiet:
        print_summary(status, boottime() - started)
    return status.state == "finished"


async def _watch(supervisor: Supervisor, collection: Collection) -> AsyncGenerator[FrontierOverview, None]:
    """The crawl's numbers until it is over: run here, or handed to the process that works in this directory already."""
    name, far = collection.name, isinstance(supervisor.frontier_link, RemoteFrontierLink)
    try:
        async with supervisor:
            await supervisor.submit(collection)
            async for overview in supervisor.overviews():
                yield overview
                if far and status_of(overview, name).state not in UNFINISHED_STATES:
                    await supervisor.catch_up()
                    return
            return
    except asyncio.CancelledError:
        others = f"whoever else works for {supervisor.frontier_link.address} goes on with it, and so does the same command"
        sys.stderr.write(f"{name}: stopped; {others if far else 'the same command goes on where it was'}\n")
        raise
    except Locked:
        sys.stderr.write(f"{supervisor.data.root}: already at work here; handing {name} over (Ctrl-C only detaches)\n")
    try:
        async with contextlib.aclosing(_watch_other_process(supervisor, collection)) as overviews:
            async for overview in overviews:
                yield overview
    except asyncio.CancelledError:
        sys.stderr.write(f"{name}: detached; the crawl goes on\n")
        raise


async def _watch_other_process(supervisor: Supervisor, collection: Collection) -> AsyncGenerator[FrontierOverview, None]:
    """Others crawl; we look on until they are done. When whoever keeps the frontier has ended, its file has the last
    word; a frontier that is far away may come back."""
    far = supervisor.frontier_link if isinstance(supervisor.frontier_link, RemoteFrontierLink) else None
    frontier = (
        RemoteFrontierLink(supervisor.frontier_link.address, Clock.from_environment(), lambda line: None) if far is None else far
    )
    try:
        await asyncio.wait_for(frontier.wait_until_reachable(), None if far else START_TIMEOUT_S)
        await submit_collection(frontier.frontier, collection)
        while True:
            try:
                overview = await frontier.frontier.overview()
            except Unreachable:
                if far is None:
                    yield await fetch_overview(supervisor.data)
                    return
                await far.wait_until_reachable()
                continue
            yield overview
            if status_of(overview, collection.name).state not in UNFINISHED_STATES:
                return
            await asyncio.sleep(WATCH_EVERY_S)
    except TimeoutError:
        raise Unreachable(f"{frontier.address}: whoever works there does not answer; see its logs") from None
    finally:
        await frontier.close()


def print_summary(status: CollectionStatus, elapsed_s: float) -> None:
    """What was caught, for a person."""
    sys.stderr.write(
        f"{status.name}: {status.state} ({status.reason}) in {format_duration(elapsed_s)}\n"
        f"  {status.fetched:,} pages; {status.hosts:,} hosts and "
        f"{status.known:,} URLs known, {status.pending:,} waiting, "
        f"{status.excluded:,} excluded by robots.txt, {status.too_deep:,} too deep, {status.failed:,} failed\n"
        + (
            f"  {status.sites_chosen:,} sites walked, {status.passed_over:,} URLs passed over\n"
            if status.sites_chosen
            else ""
        )
        + (f"  visits: {show.format_statuses(status)}\n" if status.statuses else "")
        + "".join(f"  {hint}\n" for code, hint in HINTS.items() if str(int(code)) in status.statuses)
    )


async def fetch_overview(data: DataDirectory, address: Address | None = None) -> FrontierOverview:
    """From the frontier at that address; else from whoever owns this directory's, else from its file."""
    if address is None:
        data.check_version()
    try:
        frontier = await connect(address or local_address(data))
    except Unreachable:
        if address is not None:
            raise
        return _mark_interrupted(data, read_overview(data.frontier))
    try:
        return await frontier.overview()
    finally:
        await frontier.close()


async def set_collection_state(address: Address, name: str, state: str, reason: str, *, again: bool = False) -> None:
    """Set a collection to another state, from a terminal. `again`: one that is finished, by another run."""
    frontier = await connect(address)
    try:
        before = next((one for one in (await frontier.overview()).collections if one.name == name), None)
        if before is not None and before.state == "finished" and state != "running":
            raise FrontierError(f"{name} is finished already ({before.reason})")
        if again and before is not None and before.state == "finished":
            await frontier.begin_run(name, reason)
        else:
            await frontier.set_state(name, state, reason)
    finally:
        await frontier.close()


def resume_command(data: DataDirectory) -> str:
    """Which command does, where nothing runs: what a node kept may have no file."""
    return "`tarrafa node`" if ledger_of(data).exists() else "`tarrafa crawl FILE`"


def _mark_interrupted(data: DataDirectory, overview: FrontierOverview) -> FrontierOverview:
    """Nobody owns the file, so nothing runs, whatever was true when its owner was killed."""
    reason = f"interrupted; {resume_command(data)} goes on where it was"
    collections = [
        msgspec.structs.replace(one, state="paused", reason=reason) if one.state == "running" else one
        for one in overview.collections
    ]
    return FrontierOverview(collections, [])
