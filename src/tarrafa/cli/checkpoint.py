"""Taking a frontier out of a data directory, putting one in, making a lost one again, in front of a person."""

import sys
from collections.abc import AsyncIterator
from contextlib import ExitStack, asynccontextmanager, suppress
from pathlib import Path
from types import TracebackType

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeRemainingColumn

from tarrafa.archive.follow import behind
from tarrafa.archive.history import lengths, survey
from tarrafa.clock import Clock
from tarrafa.crawl.collection import load as read_collection
from tarrafa.crawl.rebuild import rebuild
from tarrafa.data import DataDirectory, replacing
from tarrafa.errors import ConfigError, DataError, FrontierError
from tarrafa.fetch.suffixes import bundled_list
from tarrafa.frontier.checkpoint import Contents, Summary, catalogue_of, inspect, load, write
from tarrafa.frontier.protocol import Frontier
from tarrafa.frontier.readable import lines
from tarrafa.frontier.remote import RemoteFrontier
from tarrafa.frontier.store.snapshot import Snapshot
from tarrafa.frontier.store.sqlite import SqliteFrontier
from tarrafa.graph.follower import tell_again
from tarrafa.graph.store import is_there

STDOUT = Path("-")


class Advance:
    """A bar in a terminal, nothing elsewhere. Use it in a `with`; call it with how much more is done."""

    def __init__(self, what: str, total: int) -> None:
        console = Console(stderr=True)
        columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.percentage:>3.0f} %"))
        self._progress = Progress(*columns, TimeRemainingColumn(), console=console, transient=True)
        self._progress.disable = not console.is_terminal
        self._task: TaskID = self._progress.add_task(what, total=max(1, total))

    def __enter__(self) -> "Advance":
        self._progress.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._progress.stop()

    def __call__(self, more: int) -> None:
        self._progress.advance(self._task, more)


async def take_out(data: DataDirectory, file: Path, only: str | None, form: str, *, force: bool) -> str:
    """Export; what to say of it."""
    data.check_version()
    if file == STDOUT and form != "jsonl":
        raise ConfigError("-: only --format jsonl can be written to the standard output")
    if file != STDOUT and file.exists() and not force:
        raise ConfigError(f"{file}: exists already; nothing was changed (--force replaces it)")
    if not data.frontier.exists():
        raise DataError(f"{data.frontier}: no frontier here; `tarrafa rebuild frontier` makes it from the archive")
    clock = Clock.from_environment()
    archive = lengths(data.archive)  # before the frontier: what it does not know yet is visited once more, not lost
    with Snapshot(data.frontier, clock) as snapshot, ExitStack() as stack:
        await catalogue_of(snapshot, only)  # or there is nothing to write
        tell = stack.enter_context(Advance("exporting", snapshot.known(only)))
        output = sys.stdout.buffer if file == STDOUT else stack.enter_context(replacing(file))
        if form != "jsonl":
            return _sentence(file, await write(snapshot, output, clock.now(), archive, only, tell))
        count = 0
        async for line in lines(snapshot, only):
            output.write(line)
            tell(1)
            count += 1
        return f"{file}: {count:,} URLs"


def _sentence(file: Path, found: Summary) -> str:
    fresh = f", {found.pages:,} pages kept fresh" if found.pages else ""
    return f"{file}: {found.hosts:,} hosts, {found.urls:,} URLs, {found.visits:,} visits remembered{fresh}"


async def put_in(data: DataDirectory, file: Path) -> str:
    """Import; what to say of it."""
    with Advance("looking through", file.stat().st_size if file.is_file() else 0) as tell:
        contents = inspect(file, tell)
    data.create()
    _check_archive(data, contents)
    async with _frontier(data, contents) as frontier:
        with Advance("importing", contents.summary.urls) as tell:
            names = await load(frontier, contents, tell)
    with suppress(DataError):  # it is being written: whoever does that goes on telling
        if is_there(data):
            tell_again(data)
    return f"{_sentence(file, contents.summary)}; collections: {', '.join(names) or 'none'}"


def _check_archive(data: DataDirectory, contents: Contents) -> None:
    """The numbers of visits that were archived since must not be given again: whoever follows would not see them."""
    header = contents.header
    if header.archive is None:
        return
    with Advance("looking through the archive", behind(data.archive, header.archive)) as tell:
        try:
            newer = survey(data.archive, tell, header.archive).visited
        except DataError:  # another machine's file of the same name: nothing in it is known
            newer = survey(data.archive, tell).visited
    if names := sorted(newer & {image.name for image in header.catalogue.collections}):
        raise DataError(
            f"{data.archive}: holds visits of {', '.join(names)} that {contents.path} does not know of; nothing was"
            f" changed (`tarrafa rebuild frontier --from {contents.path}` takes both)"
        )


def make_again(data: DataDirectory, files: list[Path], base: Path | None, *, force: bool) -> str:
    """Rebuild; what to say of it."""
    made = rebuild(data, [read_collection(file) for file in files], base, Advance, force=force)
    said = [
        f"frontier: made again from {made.visits:,} visits: {made.urls:,} URLs, {made.pages:,} pages,"
        f" {made.waiting:,} waiting"
    ]
    if made.aside is not None:
        said.append(f"the former one is kept as {made.aside}")
    return "\n".join([*said, *([made.warning] if made.warning else [])])


@asynccontextmanager
async def _frontier(data: DataDirectory, contents: Contents) -> AsyncIterator[Frontier]:
    """Whoever owns the frontier, else its file; a new one is made with the list that sites were found by."""
    try:
        remote = await RemoteFrontier.connect(data.socket)
    except FrontierError:
        remote = None
    if remote is not None:
        try:
            yield remote
        finally:
            await remote.close()
        return
    lock = data.try_lock()
    if lock is None:
        raise ConfigError(f"{data.root}: another Tarrafa process is starting or ending here; try again in a moment")
    with lock:
        suffixes = contents.header.catalogue.suffixes or bundled_list()
        local = SqliteFrontier(data.frontier, Clock.from_environment(), suffixes)
        try:
            yield local
        finally:
            await local.close()
