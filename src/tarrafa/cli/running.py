"""Crawling from a terminal: as the supervisor, or through the one that runs already."""

import asyncio
import contextlib
import signal
import sys
from collections.abc import AsyncGenerator, Callable, Coroutine
from typing import Any

import msgspec

from tarrafa.cli import show
from tarrafa.cli.progress import Progress, duration_text
from tarrafa.clock import boottime
from tarrafa.config import Collection
from tarrafa.crawl.supervise import Supervisor, submit
from tarrafa.data import DataDirectory
from tarrafa.errors import FrontierError, Locked
from tarrafa.frontier.protocol import CollectionStatus, Overview
from tarrafa.frontier.remote import RemoteFrontier
from tarrafa.frontier.store.sqlite import read_overview
from tarrafa.model import Status

WATCH_EVERY_S = 0.5
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


def status_of(overview: Overview, name: str) -> CollectionStatus:
    return next(one for one in overview.collections if one.name == name)


async def crawl(data: DataDirectory, collection: Collection, workers: int, *, quiet: bool = False) -> bool:
    """Crawl a collection in front of a person; whether its end was reached."""
    started, status = boottime(), None
    with Progress(collection.name, quiet=quiet) as progress:
        async with contextlib.aclosing(_watch(data, collection, workers)) as overviews:
            async for overview in overviews:
                status = status_of(overview, collection.name)
                progress.show(status)
    assert status is not None
    if not quiet:
        summary(status, boottime() - started)
    return status.state == "finished"


async def _watch(data: DataDirectory, collection: Collection, workers: int) -> AsyncGenerator[Overview, None]:
    """The crawl's numbers until it is over: run here, or handed to the process that works in this directory already."""
    try:
        async with Supervisor(data, workers) as supervisor:
            await submit(supervisor.frontier, collection)
            async for overview in supervisor.overviews():
                yield overview
            return
    except asyncio.CancelledError:
        sys.stderr.write(f"{collection.name}: stopped; the same command goes on where it was\n")
        raise
    except Locked:
        sys.stderr.write(f"{data.root}: already at work here; handing {collection.name} over (Ctrl-C only detaches)\n")
    frontier = await _connect(data)
    try:
        await submit(frontier, collection)
        while True:
            try:
                overview = await frontier.overview()
            except FrontierError:  # the other process has ended; its last word is in the file
                overview = await overview_of(data)
            yield overview
            if status_of(overview, collection.name).state != "running":
                return
            await asyncio.sleep(WATCH_EVERY_S)
    except asyncio.CancelledError:
        sys.stderr.write(f"{collection.name}: detached; the crawl goes on\n")
        raise
    finally:
        await frontier.close()


async def _connect(data: DataDirectory) -> RemoteFrontier:
    """The other process may still be starting."""
    for _ in range(20):
        with contextlib.suppress(FrontierError):
            return await RemoteFrontier.connect(data.socket)
        await asyncio.sleep(WATCH_EVERY_S)
    return await RemoteFrontier.connect(data.socket)


def summary(status: CollectionStatus, elapsed_s: float) -> None:
    """What was caught, for a person."""
    sys.stderr.write(
        f"{status.name}: {status.state} ({status.reason}) in {duration_text(elapsed_s)}\n"
        f"  {status.fetched:,} pages; {status.hosts:,} hosts and "
        f"{status.known:,} URLs known, {status.pending:,} waiting, "
        f"{status.excluded:,} excluded by robots.txt, {status.too_deep:,} too deep, {status.failed:,} failed\n"
        + (
            f"  {status.sites_chosen:,} sites walked, {status.passed_over:,} URLs passed over\n"
            if status.sites_chosen
            else ""
        )
        + (f"  visits: {show.statuses(status)}\n" if status.statuses else "")
        + "".join(f"  {hint}\n" for code, hint in HINTS.items() if str(int(code)) in status.statuses)
    )


async def overview_of(data: DataDirectory) -> Overview:
    """From whoever owns the frontier, else from its file."""
    data.check_version()
    try:
        frontier = await RemoteFrontier.connect(data.socket)
    except FrontierError:
        return _at_rest(read_overview(data.frontier))
    try:
        return await frontier.overview()
    finally:
        await frontier.close()


def _at_rest(overview: Overview) -> Overview:
    """Nobody owns the file, so nothing runs, whatever was true when its owner was killed."""
    collections = [
        msgspec.structs.replace(one, state="paused", reason="interrupted; `tarrafa crawl FILE` goes on where it was")
        if one.state == "running"
        else one
        for one in overview.collections
    ]
    return Overview(collections, [])
