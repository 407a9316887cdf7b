"""Commands `crawl`, `worker`, `frontier serve` and `frontier reset-clock`; the first three run a supervisor in the
foreground, with progress and summary.

Progress is a line that is redrawn in a terminal, and a line every few seconds elsewhere. If another process owns the
data directory, the collection is submitted to that process.
"""

import asyncio
import contextlib
import re
import signal
import socket
import sys
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Coroutine
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tarrafa.cli.options import (
    DEFAULT_DATA,
    LISTEN_BESIDE_REMOTE,
    Data,
    FrontierAddress,
    IndexShards,
    Listen,
    NodeName,
    Store,
    TokenFile,
    existing_data,
)
from tarrafa.clock import Clock, boottime
from tarrafa.config import Collection
from tarrafa.config.sections import ScheduleConfig
from tarrafa.crawl.explain.frontier_lookup import fetch_overview
from tarrafa.crawl.scope.collection_loader import load_collection
from tarrafa.crawl.supervisor.frontier_link import (
    FrontierLink,
    LocalFrontierLink,
    RemoteFrontierLink,
)
from tarrafa.crawl.supervisor.supervisor import Supervisor, submit_collection
from tarrafa.errors import ConfigError, Locked, Unreachable
from tarrafa.frontier.address import (
    FRONTIER_VARIABLE,
    Address,
    PostgresServers,
    UnixSocket,
    connect,
    from_command_line,
    refuse_store_without_postgres,
    require_answer,
)
from tarrafa.frontier.api import Frontier
from tarrafa.frontier.clock_sync import sync_clock
from tarrafa.frontier.collection_status import expected_pages, has_failed, shown_state, time_left_s
from tarrafa.frontier.messages import CollectionStatus, FrontierOverview
from tarrafa.i18n import ENGLISH
from tarrafa.index import shards
from tarrafa.model import STATUS_MEANING, Status
from tarrafa.runtime.data_dir import DataDirectory
from tarrafa.runtime.heartbeat import is_supervised
from tarrafa.runtime.terminal import PLAIN_EVERY_S, counted, print_line, print_note
from tarrafa.runtime.token import load_token

if TYPE_CHECKING:
    from tarrafa.cli.output import LiveProgress

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,59}")
WATCH_EVERY_S = 0.5
FINISH_EVERY_S = 2.0  # how often workers look whether a collection on PostgreSQL is finished
SECOND_INTERRUPT_S = 0.2  # after the first
START_TIMEOUT_S = 10.0  # the process that owns the directory may still be starting
UNFINISHED_STATES = ("running", "paused")  # a paused collection may be resumed
INTERRUPTED = 130
ROOTS_SHOWN = 10
HINTS = {
    Status.HOST_GIVEN_UP: "hosts that did not answer were given up; the same command tries them again",
    Status.ADDRESS_REFUSED: "private addresses were refused; [network] allow_private = true allows them",
}

frontier_app = typer.Typer(no_args_is_help=True, help="Serve the frontier to workers elsewhere; reset its clock.")


def crawl(
    file: Annotated[Path, typer.Argument(help="Collection file (TOML); `tarrafa init` writes one.")],
    data: Data = DEFAULT_DATA,
    workers: Annotated[int, typer.Option(min=0, max=64, help="Worker processes; 0: only external crawlers fetch.")] = 2,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print no progress and no summary.")] = False,
    where: FrontierAddress = None,
    token_file: TokenFile = None,
    name: NodeName = None,
    listen: Listen = None,
    index_shards: IndexShards = None,
    store: Store = None,
) -> None:
    """Crawl a collection file; the same command resumes it.

    Pages are archived and indexed as they arrive. Exit status 0: no URL is left, or a limit of the collection is
    reached; 1: no root could be fetched, or the collection was stopped.

    If another Tarrafa process runs in the data directory, it takes the collection over, and Ctrl-C only detaches.

    With --frontier, this machine works for a remote frontier while the collection runs.
    """
    collection, address = load_collection(file), from_command_line(where, token_file)
    if collection.schedule != ScheduleConfig():
        print_note(f"{collection.name}: crawled now; its [schedule] is used only by `tarrafa node` and `tarrafa add`")

    async def to_its_end() -> int:
        directory = DataDirectory(data)
        supervisor = build_supervisor(
            directory,
            workers,
            address,
            token_file,
            name,
            listen,
            index_shards=index_shards,
            submitted=collection,
            store=store,
        )
        status = await show_progress(_watch(supervisor, collection), collection.name, quiet=quiet)
        if has_failed(status) and not quiet:
            await print_roots(directory, collection, address)
        return 0 if shown_state(status) == "finished" else 1

    raise typer.Exit(run_until_interrupted(to_its_end))


@frontier_app.command("serve")
def serve_frontier(
    listen: Annotated[
        str,
        typer.Option("--listen", metavar="HOST:PORT", help="Address to listen on; beyond loopback it needs a token."),
    ] = "127.0.0.1:8070",
    data: Data = DEFAULT_DATA,
    token_file: TokenFile = None,
    workers: Annotated[int, typer.Option(min=0, max=64, help="Worker processes on this machine.")] = 0,
) -> None:
    """Serve the frontier of a data directory to workers on other machines.

    It runs until Ctrl-C. Nothing is encrypted: use a private network, ssh or a VPN.
    """

    async def until_interrupted() -> None:
        directory = DataDirectory(data)
        supervisor = build_supervisor(directory, workers, None, token_file, listen=listen, lasting=True)
        try:
            async with supervisor:
                async for _ in supervisor.overviews():
                    pass
        except Locked:
            raise Locked(
                f"{directory.root}: another Tarrafa process runs here; stop it, or let it serve the frontier "
                f"itself: tarrafa crawl FILE --listen {listen}"
            ) from None

    raise typer.Exit(run_until_interrupted(until_interrupted))


@frontier_app.command("reset-clock")
def reset_frontier_clock(data: Data = DEFAULT_DATA) -> None:
    """Set the frontier's clock back to this machine's, if it was ahead.

    Use it after this machine's clock was wrong, with nothing running on the frontier. All times that lie in the future
    move back by the difference; delays are kept. Dates of archived records stay.
    """
    from tarrafa.frontier.store.clock_reset import reset_clock

    reset = reset_clock(existing_data(data).frontier, Clock.from_environment())
    said = f"frontier: its clock was set back by {reset.moved_s:,.0f} s"
    if not reset.moved_s:
        said = "frontier: its clock was not set back"
    if reset.still_ahead_s:
        said += f"; it is {reset.still_ahead_s:,.0f} s ahead of this machine's: a collection was deleted at that time"
    elif not reset.moved_s:
        said += ": it is not ahead of this machine's"
    print_line(said)


def worker(
    where: FrontierAddress = None,
    workers: Annotated[int, typer.Option(min=1, max=64, help="Worker processes.")] = 2,
    name: NodeName = None,
    data: Data = DEFAULT_DATA,
    token_file: TokenFile = None,
    index_shards: IndexShards = None,
    store: Store = None,
) -> None:
    """Run workers here for a frontier on another machine.

    They run until Ctrl-C, which returns all leases. Archive, link graph and index of the fetched pages stay on this
    machine. While the frontier is unreachable, the workers wait.
    """
    address = from_command_line(where, token_file)
    if address is None:
        raise ConfigError(
            f"--frontier ADDRESS is missing (or {FRONTIER_VARIABLE}); to crawl without one, use `tarrafa crawl`"
        )

    async def until_interrupted() -> None:
        joining = build_supervisor(
            DataDirectory(data), workers, address, name=name, index_shards=index_shards, store=store
        )
        async with joining as supervisor:
            first = f"{node_name(name)}1"
            several = f"{counted(workers, 'worker')}, {first} and so on," if workers > 1 else first
            print_note(f"{several} for {address}   (Ctrl-C stops)")
            try:
                if isinstance(address, PostgresServers):  # no frontier server finishes its collections
                    async for _ in supervisor.overviews(FINISH_EVERY_S):
                        pass
                else:
                    await supervisor.run_until_failure()
            except asyncio.CancelledError:
                print_note("returning leases to the frontier")
                raise

    raise typer.Exit(run_until_interrupted(until_interrupted))


def time_left_text(status: CollectionStatus) -> str:
    left_s = time_left_s(status, status.pages_per_s)
    if left_s is None:
        return "waiting for hosts to answer"
    return f"about {ENGLISH.span(left_s)} left" if left_s >= 1 else "nearly done"


def progress_line(status: CollectionStatus) -> str:
    """`407 pages, 31/s, 300 hosts, 6,913 in the queue, 3 failed, about 3 min 00 s left`."""
    if status.state == "paused":
        return f"{counted(status.fetched, 'page')}, {status.queue:,} in the queue, paused {status.reason}"
    return (
        f"{counted(status.fetched, 'page')}, {status.pages_per_s:,.0f}/s, {counted(status.hosts, 'host')}, "
        f"{status.queue:,} in the queue, {status.failed:,} failed, "
        f"{revisits_text(status) if status.keeps_fresh else time_left_text(status)}"
    )


def revisits_text(status: CollectionStatus) -> str:
    """Revisits so far; keeping a collection fresh has no end."""
    share = f" ({status.changes / status.revisits:.0%} had changed)" if status.revisits else ""
    return f"{counted(status.revisits, 'revisit')}{share}; Ctrl-C stops"


class CrawlProgress:
    """Shows the numbers of one collection while it is crawled. Use it in a `with`."""

    def __init__(self, name: str, *, quiet: bool = False) -> None:
        self._name, self._quiet, self._shown_at = name, quiet, 0.0
        self._live: LiveProgress | None = None

    def __enter__(self) -> "CrawlProgress":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if self._live is not None:
            self._live.stop()

    def show(self, status: CollectionStatus) -> None:
        if self._quiet:
            return
        if sys.stderr.isatty():
            self._draw(status)
        elif boottime() - self._shown_at >= PLAIN_EVERY_S:
            self._shown_at = boottime()
            print_note(f"{self._name}: {progress_line(status)}")

    def _draw(self, status: CollectionStatus) -> None:
        from tarrafa.cli.output import LiveProgress  # loads rich, for which the first request would wait

        self._live = self._live or LiveProgress(self._name)
        self._live.show(status.kept_by_run, max(1, expected_pages(status)), progress_line(status))


def node_name(name: str | None) -> str:
    """Prefix of the worker names of this machine."""
    if name is None:
        name = re.sub(r"[^A-Za-z0-9._-]+", "-", socket.gethostname()).strip("-._")[:50] or "node"
    if not NAME.fullmatch(name):
        raise ConfigError(f"--name: {name[:80]!r}: use at most 60 letters, digits, '.', '_' and '-'")
    return f"{name}-"


def build_supervisor(
    data: DataDirectory,
    workers: int,
    address: Address | None,
    token_file: Path | None = None,
    name: str | None = None,
    listen: str | None = None,
    *,
    lasting: bool = False,
    index_shards: str | None = None,
    submitted: Collection | None = None,
    store: str | None = None,
) -> Supervisor:
    """Supervisor for these options: of a remote frontier, or of the local one."""
    clock, is_remote = Clock.from_environment(), address is not None
    divided = None if index_shards is None else shards.parse_layout(index_shards, "--index-shards")
    link: FrontierLink | None = None
    refuse_store_without_postgres(address, store)
    if address is not None:
        if listen is not None:
            raise ConfigError(LISTEN_BESIDE_REMOTE)
        if isinstance(address, UnixSocket) and Path(address.path).resolve() == Path(data.socket).resolve():
            raise ConfigError(f"--frontier {address}: a remote frontier needs another data directory: --data")
        link = RemoteFrontierLink(address, clock)
    elif listen is not None:
        from tarrafa.frontier.rpc.frontier_server import parse_listen_address

        token = load_token(token_file)
        link = LocalFrontierLink(data, clock, parse_listen_address(listen, token), token)
    own_name = "w" if name is None and not is_remote else node_name(name)
    return Supervisor(
        data, workers, clock, frontier_link=link, name=own_name, lasting=lasting or is_remote, follows=not lasting,
        divided=divided, submitted=submitted, store=store,
    )  # fmt: skip


@contextlib.asynccontextmanager
async def connected(address: Address, **options: Any) -> AsyncIterator[Frontier]:
    """A connection to a frontier that answers, closed afterwards."""
    frontier = await connect(address, **options)
    try:
        await require_answer(frontier, address)
        yield frontier
    finally:
        await frontier.close()


async def frontier_time(address: Address | None) -> float:
    """Current time by the clock of the frontier."""
    own = Clock.from_environment()
    if address is None:
        return own.now()
    async with connected(address) as frontier:
        return (await sync_clock(frontier, own)).clock.now()


def run_until_interrupted(main: Callable[[], Coroutine[Any, Any, int | None]]) -> int:
    """Run; the exit status. Ctrl-C and SIGTERM cancel the task, so that all leases are returned before the process
    ends; a second one cancels that, too."""

    async def whole() -> int:
        loop, task = asyncio.get_running_loop(), asyncio.current_task()
        assert task is not None

        def interrupt() -> None:  # a second cancellation before the task has seen the first would be lost
            loop.call_later(SECOND_INTERRUPT_S if task.cancelling() else 0.0, task.cancel)

        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, interrupt)
        try:
            return await main() or 0
        except asyncio.CancelledError:
            return INTERRUPTED

    return asyncio.run(whole())


def status_of(overview: FrontierOverview, name: str) -> CollectionStatus:
    return next(one for one in overview.collections if one.name == name)


async def show_progress(
    overviews: AsyncGenerator[FrontierOverview, None], name: str, *, quiet: bool = False
) -> CollectionStatus:
    """Show the progress of a collection until the overviews end, then its summary; its last status."""
    started, status = boottime(), None
    with CrawlProgress(name, quiet=quiet) as progress:
        async with contextlib.aclosing(overviews):
            async for overview in overviews:
                status = status_of(overview, name)
                progress.show(status)
    assert status is not None
    if not quiet:
        print_summary(status, boottime() - started)
    return status


async def _watch(supervisor: Supervisor, collection: Collection) -> AsyncGenerator[FrontierOverview, None]:
    """Overviews until the crawl ends: it runs here, or in the process that owns this data directory."""
    name, is_remote = collection.name, isinstance(supervisor.frontier_link, RemoteFrontierLink)
    try:
        async with supervisor:
            async for overview in supervisor.overviews():
                yield overview
                if is_remote and status_of(overview, name).state not in UNFINISHED_STATES:
                    await supervisor.catch_up()
                    return
            return
    except asyncio.CancelledError:
        others = f"other machines of {supervisor.frontier_link.address} continue, and the same command rejoins"
        print_note(f"{name}: stopped; {others if is_remote else 'the same command goes on where it was'}")
        raise
    except Locked:
        print_note(f"{supervisor.data.root}: another process runs here and takes {name} over (Ctrl-C only detaches)")
    try:
        async with contextlib.aclosing(_watch_other_process(supervisor, collection)) as overviews:
            async for overview in overviews:
                yield overview
    except asyncio.CancelledError:
        print_note(f"{name}: detached; the crawl continues")
        raise


async def _watch_other_process(
    supervisor: Supervisor, collection: Collection
) -> AsyncGenerator[FrontierOverview, None]:
    """Submit the collection to the process that owns the frontier, and watch it. If that process ends, its file is read
    for the last numbers; a remote frontier may come back."""
    link = supervisor.frontier_link
    is_remote = isinstance(link, RemoteFrontierLink)
    if not isinstance(link, RemoteFrontierLink):
        link = RemoteFrontierLink(link.address, Clock.from_environment(), lambda line: None)
    try:
        async with asyncio.timeout(None if is_remote else START_TIMEOUT_S):
            await link.wait_until_reachable()
        await submit_collection(link.frontier, collection)
        while True:
            try:
                overview = await link.frontier.overview()
            except Unreachable:
                if not is_remote and not is_supervised(supervisor.data):
                    yield await fetch_overview(supervisor.data)
                    return
                await link.wait_until_reachable()
                continue
            yield overview
            if status_of(overview, collection.name).state not in UNFINISHED_STATES:
                return
            await asyncio.sleep(WATCH_EVERY_S)
    except TimeoutError:
        raise Unreachable(f"{link.address}: the process there does not respond; see its logs") from None
    finally:
        await link.close()


def format_statuses(status: CollectionStatus) -> str:
    """`200: 1,950 · 404: 12; without a visit: type not wanted: 40`, the most frequent first."""

    def listed(counts: dict[str, int]) -> str:
        ordered = sorted(counts.items(), key=lambda item: -item[1])
        return " · ".join(f"{STATUS_MEANING.get(int(code), code)}: {count:,}" for code, count in ordered if count)

    visits = listed({code: count - status.refused.get(code, 0) for code, count in status.statuses.items()})
    return visits + (f"; without a visit: {listed(status.refused)}" if status.refused else "")


def print_summary(status: CollectionStatus, elapsed_s: float) -> None:
    """Print the numbers of the crawl on stderr."""
    lines = (
        f"{status.name}: {shown_state(status)} ({status.reason}) in {ENGLISH.span(elapsed_s)}\n"
        f"  {counted(status.fetched, 'page')}; {counted(status.hosts, 'host')} and "
        f"{counted(status.known, 'URL')} known, {status.queue:,} in the queue, "
        f"{status.excluded:,} excluded by robots.txt, {status.too_deep:,} too deep, {status.failed:,} failed\n"
        + (
            f"  {counted(status.sites_chosen, 'site')} walked, {counted(status.passed_over, 'URL')} passed over\n"
            if status.sites_chosen
            else ""
        )
        + (f"  {status.requisites_text()}\n" if status.requisites else "")
        + (f"  visits: {format_statuses(status)}\n" if status.statuses else "")
        + "".join(f"  {hint}\n" for code, hint in HINTS.items() if str(int(code)) in status.statuses)
    )
    print_note(lines.rstrip("\n"))


async def print_roots(data: DataDirectory, collection: Collection, address: Address | None) -> None:
    """Print on stderr why each root could not be fetched, of the first roots."""
    from tarrafa.crawl.explain.explain import explain

    now = await frontier_time(address)
    for root in collection.roots[:ROOTS_SHOWN]:
        found = await explain(data, root, collection.name, now, address)
        url, trouble = found.collections[0], found.host.trouble if found.host is not None else ""
        status = f"{url.status} {url.meaning}".rstrip() if url.status is not None else url.next_visit
        print_note(f"  {root}: {status}{f'; {trouble}' if trouble else ''}")
    if len(collection.roots) > ROOTS_SHOWN:
        print_note(f"  and {len(collection.roots) - ROOTS_SHOWN:,} more")
