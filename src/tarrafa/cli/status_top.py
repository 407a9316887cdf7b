"""Commands `status` and `top`: print the numbers of all collections and workers, once or live in the terminal.

`top` runs until `q` or Ctrl-C, and only reads. Outside a terminal it prints the same frames one after the other,
without colours and cursor movements; as JSON, one line a second. The frontier is read each time; index, link graph and
triple store every few seconds, in a thread, because that opens files. Drawing is pure: a frame fits the terminal from
80 columns and 24 rows on, shows running collections first, and counts those without room.
"""

import asyncio
import contextlib
import os
import sys
import termios
import tty
from collections import deque
from collections.abc import AsyncGenerator, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Annotated

import msgspec
import typer
from rich.console import Group
from rich.live import Live
from rich.markup import escape
from rich.text import Text

from tarrafa.cli.crawl import format_statuses, run_until_interrupted, time_left_text
from tarrafa.cli.options import DEFAULT_DATA, Data, FrontierAddress, Json, TokenFile
from tarrafa.cli.output import CleanConsole, console, new_table, print_document, print_json, print_table
from tarrafa.clock import Clock, boottime
from tarrafa.crawl.compaction.archive_status import ArchiveStatus, archive_status, measure_archive
from tarrafa.crawl.explain.frontier_lookup import fetch_overview
from tarrafa.crawl.verify.scrub import ScrubResult, read_scrub_result
from tarrafa.errors import DataError, TarrafaError
from tarrafa.frontier.address import Address, from_command_line
from tarrafa.frontier.collection_status import has_failed, shown_state
from tarrafa.frontier.messages import CollectionStatus, FrontierOverview, RegisteredWorker
from tarrafa.graph.follower import behind as graph_behind
from tarrafa.i18n import ENGLISH
from tarrafa.index.index_status import IndexStatus, KeptPages, count_kept_pages, index_status
from tarrafa.runtime.data_dir import DataDirectory
from tarrafa.runtime.terminal import counted
from tarrafa.triples.status import TriplesStatus, triples_status

FOLLOWERS_EVERY_S = 5.0
TREND_SAMPLES = 240
RATE_SAMPLES = 5  # of them
EVERY_S = 1.0
LAST_LINE = Text("q: quit", "dim")
STYLES = {"running": "green", "paused": "yellow", "failed": "red", "finished": "cyan", "stopped": "dim"}
ORDER = ("running", "failed", "paused", "waiting", "ready", "stopped", "finished")
BARS, PLAIN_BARS = "▁▂▃▄▅▆▇█", "_.:-=+*#"
WIDE = 120  # columns: from here on there is room for more numbers
NAME_MIN, NAME_MAX = 10, 32
WORKERS_MIN = 3
FIXED = 6  # rows: title, heads of two tables, two empty ones, and one for the caller
FOLLOWING = 5  # rows, where there is room: one empty

Lines = list[Text]


def status(
    data: Data = DEFAULT_DATA, as_json: Json = False, where: FrontierAddress = None, token_file: TokenFile = None
) -> None:
    """Show state and numbers of collections and workers.

    With the size of the index and of the triple store in this data directory. `tarrafa top` shows the same live.
    """
    directory = DataDirectory(data)
    found = asyncio.run(fetch_overview(directory, from_command_line(where, token_file)))
    try:
        index, trouble = index_status(directory), ""
    except DataError as error:  # of another version, or damaged: the rest is shown
        index, trouble = None, str(error)
    triples, pages, scrub = triples_status(directory), _kept_pages(found, index), read_scrub_result(directory)
    archive = archive_status(directory, Clock.from_environment().now())
    if as_json:
        fields = {"pages": pages, "index": index, "triples": triples, "archive": archive, "scrub": scrub}
        print_json(msgspec.to_builtins(ENGLISH.render_all(found)) | fields)
    else:
        _print_overview(found, pages)
        _print_index_state(index, trouble)
        _print_triples_state(triples)
        _print_archive(archive)
        _print_scrub(scrub)


def _print_archive(shown: ArchiveStatus) -> None:
    if shown.pairs:
        console.print(f"archive: {counted(shown.pairs, 'pair')} of files, {ENGLISH.size(shown.bytes)}")
    if shown.to_erase:
        console.print(f"{counted(shown.to_erase, 'order')} to erase: waiting")
    if shown.due:
        console.print(f"{counted(shown.due, 'order')} to erase: due; stop the crawl and run `tarrafa compact`")


def _print_scrub(shown: ScrubResult | None) -> None:
    if shown is None:
        return
    at = datetime.fromtimestamp(shown.at, UTC).strftime("%Y-%m-%d %H:%M UTC")
    found = "nothing wrong" if not shown.total else f"{counted(shown.total, 'finding')} (`tarrafa verify --deep`)"
    lost = f", {counted(shown.known_losses, 'visit')} known to be lost" if shown.known_losses else ""
    console.print(f"last check of all data: {at}, {found}{lost}")


def _kept_pages(overview: FrontierOverview, index: IndexStatus | None) -> list[KeptPages]:
    """Empty without an index here."""
    return [] if index is None else [count_kept_pages(one.name, one.fetched, index) for one in overview.collections]


def _print_overview(shown: FrontierOverview, pages: list[KeptPages]) -> None:
    headings = ("collection", "state", "pages", "pages/s", "known", "queue", "failed", "hosts")
    table = new_table(*headings, left=("collection", "state"))
    for one in shown.collections:
        figures = [f"{one.fetched:,}", f"{one.pages_per_s:,.1f}", f"{one.known:,}", f"{one.queue:,}"]
        table.add_row(one.name, shown_state(one), *figures, f"{one.failed:,}", f"{one.hosts:,}")
    print_table(table)
    _print_unkept(shown.collections)
    _print_kept_pages(pages)
    for one in shown.collections:
        if one.sites_chosen or one.table:
            sites = f"{counted(one.sites_chosen, 'site')} chosen, {one.table:,} in the table"
            console.print(f"{one.name} crawls in breadth order: {sites}; {counted(one.passed_over, 'URL')} passed over")
    for one in shown.collections:
        if one.revisits:
            share = f"{one.changes / one.revisits:.0%} found a change"
            console.print(f"{one.name} is kept fresh: {counted(one.revisits, 'revisit')}, {share}")
    for one in shown.collections:
        if one.reason:
            state = "has failed" if has_failed(one) else f"is {one.state}"
            console.print(f"{one.name} {state}: {escape(str(one.reason))}")
    for note in shown.notes:
        console.print(escape(str(note)))
    if shown.nodes:
        workers = ", ".join(f"{node.name} (pid {node.pid}, {counted(node.hosts, 'host')})" for node in shown.nodes)
        console.print(f"workers: {workers}")
        for node in shown.nodes:
            if node.note:
                console.print(f"{node.name}: {escape(str(node.note))}")


def _print_unkept(collections: list[CollectionStatus]) -> None:
    for one in collections:
        if one.requisites:
            console.print(f"{one.name}: {escape(str(one.requisites_text()))}")
        if one.unkept:
            urls = counted(sum(one.unkept.values()), "URL")
            console.print(f"{one.name}: {urls} visited or refused, and not kept: {escape(str(one.why_not_kept()))}")


def _print_kept_pages(pages: list[KeptPages]) -> None:
    for one in pages:
        if reasons := one.why_not_searchable():
            searchable = f"{one.searchable:,} of {counted(one.kept, 'page')} can be searched"
            console.print(f"{one.collection}: {searchable}; {reasons}")
        if notice := one.cut_notice():
            console.print(f"{one.collection}: {notice}")


def _print_index_state(shown: IndexStatus | None, trouble: str) -> None:
    if trouble:
        console.print(escape(trouble))
    if shown is None:
        return
    parts = "" if shown.shards == "1" else f" in shards ({shown.shards})"
    behind = "" if not shown.behind_bytes else f", {counted(shown.behind_bytes, 'byte')} of the archive behind"
    anew = "" if shown.settled else "; some in-link counts are still to be updated"
    console.print(f"index: {_index_size(shown)}{parts}{behind}{anew}")


def _index_size(shown: IndexStatus) -> str:
    """A URL in two collections is one page that can be searched, and two documents."""
    several = "" if shown.documents == shown.urls else f" in {counted(shown.documents, 'document')}"
    return counted(shown.urls, "page") + several


def _print_triples_state(shown: TriplesStatus | None) -> None:
    if shown is None:
        return
    inferred = f" and {shown.inferred:,} inferred" if shown.inferred else ""
    behind = "" if not shown.behind_bytes else f", {counted(shown.behind_bytes, 'byte')} of the archive behind"
    where = f"{counted(shown.pages, 'page')}, of {counted(shown.things, 'entity', 'entities')}"
    what = f"{counted(shown.statements, 'statement')}{inferred} on {where}"
    console.print(f"triple store: {what}{behind}")
    if shown.outdated:
        console.print(
            f"the ontology has changed: {shown.outdated:,} of {counted(shown.pages, 'page')} still to be processed"
            " again (a running `tarrafa crawl` or `tarrafa node` does so)"
        )


def top(
    data: Data = DEFAULT_DATA,
    once: Annotated[bool, typer.Option("--once", help="Print one frame and exit.")] = False,
    as_json: Json = False,
    where: FrontierAddress = None,
    token_file: TokenFile = None,
) -> None:
    """Watch collections and workers live in the terminal.

    With the lag of index, link graph and triple store. q or Ctrl-C exits; the crawl continues. With --json, one line a
    second.
    """
    directory, address = DataDirectory(data), from_command_line(where, token_file)
    place = str(directory.root) if address is None else str(address)
    run_until_interrupted(lambda: _watch(TopReader(directory, address), place, once=once, as_json=as_json))


class FollowerStates(msgspec.Struct, frozen=True):
    """How far index, triple store and link graph are behind the archive; None: there is none here."""

    index: IndexStatus | None = None
    triples: TriplesStatus | None = None
    graph_behind_bytes: int = 0
    archive_bytes: int = 0
    pages: list[KeptPages] = []


class TopSnapshot(msgspec.Struct, frozen=True):
    """All numbers of one moment. `trouble`: why they are not current."""

    at: float
    overview: FrontierOverview
    followers: FollowerStates
    bytes_per_s: float | None = None  # growth of the archive; None: unknown after one sample
    trouble: str = ""

    def to_json_line(self) -> bytes:
        """One line: the fields of `tarrafa status --json`, and more."""
        fields = msgspec.to_builtins(ENGLISH.render_all(self.overview)) | {
            "at": self.at, "bytes_per_s": self.bytes_per_s, "trouble": self.trouble,
        } | msgspec.to_builtins(self.followers)  # fmt: skip
        return msgspec.json.encode(fields)


class TopReader:
    """Reads snapshots, and keeps the latest rates of each collection."""

    def __init__(self, data: DataDirectory, address: Address | None) -> None:
        self._data, self._address = data, address
        self._followers, self._looked = FollowerStates(), 0.0
        self._sizes: deque[tuple[float, int]] = deque(maxlen=RATE_SAMPLES)
        self.trends: dict[str, deque[float]] = {}

    async def read(self, now: float) -> TopSnapshot:
        overview = await fetch_overview(self._data, self._address)
        trouble = ""
        if boottime() - self._looked >= FOLLOWERS_EVERY_S:
            try:
                self._followers = await asyncio.to_thread(_followers_of, self._data, overview)
            except DataError as error:
                trouble = str(error)
            self._looked = boottime()
        for one in overview.collections:
            self.trends.setdefault(one.name, deque(maxlen=TREND_SAMPLES)).append(one.pages_per_s)
        return TopSnapshot(now, overview, self._followers, self._growth(), trouble)

    def _growth(self) -> float | None:
        """Bytes a second, over the last samples."""
        self._sizes.append((boottime(), measure_archive(self._data)[1]))
        (first, before), (last, size) = self._sizes[0], self._sizes[-1]
        return round(max(0, size - before) / (last - first)) if last > first else None


def _followers_of(data: DataDirectory, overview: FrontierOverview) -> FollowerStates:
    if not data.version.exists():
        return FollowerStates()
    index, archive_bytes = index_status(data), measure_archive(data)[1]
    pages = _kept_pages(overview, index)
    return FollowerStates(index, triples_status(data), graph_behind(data), archive_bytes, pages)


def draw_frame(
    snapshot: TopSnapshot,
    trends: Mapping[str, Sequence[float]],
    width: int,
    height: int,
    *,
    where: str = "",
    plain: bool = False,
) -> Lines:
    """Draw a frame. `where` is shown in its title; `plain`: ASCII only."""
    collections = sorted(snapshot.overview.collections, key=_urgency)
    workers = snapshot.overview.nodes
    remarks = [line for line in (snapshot.trouble, *snapshot.overview.notes) if line][: height // 4]
    room = max(3, height - FIXED - len(remarks))
    least = min(len(workers), WORKERS_MIN, room - 2)
    following = FOLLOWING if 3 * len(collections) + len(workers) + FOLLOWING <= room else 1
    each = next((rows for rows in (3, 2) if rows * len(collections) + least + following <= room), 1)
    for_workers = min(len(workers), max(least, room - following - each * len(collections)))
    title = _title(snapshot, where)
    lines = [title if len(title) <= width else _title(snapshot, ""), Text(), _head(width, collections)]
    bars = PLAIN_BARS if plain else BARS
    lines += _rows(collections, trends, width, max(1, room - following - for_workers), each, bars)
    lines += [Text(), *_workers(workers, for_workers)]
    lines += _following(snapshot) if following > 1 else [_following_briefly(snapshot.followers)]
    lines += [Text(str(line), "yellow") for line in remarks]
    return [_fitted(line, width) for line in lines]


def sparkline(values: Sequence[float], width: int, bars: str = BARS) -> str:
    """The last `width` values as a curve, one character each."""
    shown = list(values)[-width:] if width > 0 else []
    top = max(shown, default=0.0)
    if top <= 0:
        return bars[0] * len(shown)
    return "".join(bars[min(len(bars) - 1, int(value / top * len(bars)))] for value in shown)


def progress_text(status: CollectionStatus) -> str:
    """Progress in words: time left, or why the collection does not run."""
    if status.state != "running":
        return str(status.reason)
    if status.keeps_fresh:
        share = f", {status.changes / status.revisits:.0%} had changed" if status.revisits else ""
        return f"kept fresh: {counted(status.revisits, 'revisit')}{share}"
    return time_left_text(status) + (f" ({status.reason})" if status.reason else "")


def _urgency(status: CollectionStatus) -> tuple[int, str]:
    state = shown_state(status)
    place = ORDER.index(state) if state in ORDER else len(ORDER)
    return place, status.name


def _title(snapshot: TopSnapshot, where: str) -> Text:
    collections = snapshot.overview.collections
    clock = datetime.fromtimestamp(snapshot.at, UTC).astimezone().strftime("%H:%M:%S")
    running = sum(one.state == "running" for one in collections)
    pages, rate = sum(one.fetched for one in collections), sum(one.pages_per_s for one in collections)
    kinds = f"{len(collections)} {'collection' if len(collections) == 1 else 'collections'}, {running} running"
    facts = f" {clock} · {kinds} · {counted(pages, 'page')} · {rate:,.1f}/s"
    facts += f" · {ENGLISH.size(snapshot.bytes_per_s)}/s" if snapshot.bytes_per_s is not None else ""
    return Text.assemble(("Tarrafa", "bold cyan"), facts, (f"  {where}" if where else "", "dim"))


def _columns(status: CollectionStatus, width: int) -> dict[str, str]:
    shown = {
        "pages": f"{status.fetched:,}",
        "pages/s": f"{status.pages_per_s:,.1f}",
        "queue": f"{status.queue:,}",
        "known": f"{status.known:,}",
        "failed": f"{status.failed:,}",
        "hosts": f"{status.hosts:,}",
    }
    if width >= WIDE:
        shown |= {
            "pending": f"{status.pending:,}",
            "out": f"{status.handed_out:,}",
            "visits": f"{status.visits:,}",
            "robots": f"{status.excluded:,}",
            "too deep": f"{status.too_deep:,}",
            "dropped": f"{status.dropped:,}",
        }
    return shown


COLUMN = {"known": 11, "queue": 10, "pages": 10, "pending": 11, "visits": 11, "too deep": 10}  # signs; others have 8


def _head(width: int, collections: Sequence[CollectionStatus]) -> Text:
    names = _columns(collections[0], width) if collections else {}
    if not names:
        return Text("No collection yet; `tarrafa crawl FILE` starts one.", "dim")
    cells = "".join(f"{name:>{COLUMN.get(name, 8)}}" for name in names)
    return Text(f"{'collection':<{_name_width(width, collections)}} {'state':<9}{cells}", "bold")


def _name_width(width: int, collections: Sequence[CollectionStatus]) -> int:
    longest = max((len(one.name) for one in collections), default=NAME_MIN)
    return max(NAME_MIN, min(longest, NAME_MAX if width >= WIDE else NAME_MIN + 4))


def _rows(
    collections: Sequence[CollectionStatus],
    trends: Mapping[str, Sequence[float]],
    width: int,
    room: int,
    each: int,
    bars: str,
) -> Lines:
    """`each` lines per collection; a last line counts those without room."""
    lines: Lines = []
    fitting = len(collections) if each * len(collections) <= room else max(0, room - 1)
    names = _name_width(width, collections)
    for status in collections[:fitting]:
        cells = "".join(f"{value:>{COLUMN.get(name, 8)}}" for name, value in _columns(status, width).items())
        name = status.name
        name = name if len(name) <= names else name[: names - 1] + "…"
        state = shown_state(status)
        style = STYLES.get(state, "")
        lines.append(Text.assemble((f"{name:<{names}} ", "bold"), (f"{state:<9}", style), cells))
        lines += _details(status, trends.get(status.name, ()), width, bars)[: each - 1]
    if fitting < len(collections):
        lines.append(Text(f"… and {counted(len(collections) - fitting, 'more collection')}", "dim"))
    return lines


def _details(status: CollectionStatus, trend: Sequence[float], width: int, bars: str) -> Lines:
    """Progress, and visits by status."""
    line = Text("  ")
    if status.state == "running":
        line.append(sparkline(trend, max(10, width // 4), bars) + "  ", "green")
    line.append(progress_text(status))
    return [line, Text(f"  {format_statuses(status)}", "dim")]


def _workers(workers: Sequence[RegisteredWorker], room: int) -> Lines:
    if not workers:
        return [Text("no worker is running", "dim")]
    name_width = max(6, min(24, max(len(one.name) for one in workers)))
    lines = [Text(f"{'worker':<{name_width}}{'hosts':>7}{'pid':>9}  note", "bold")]
    fitting = len(workers) if len(workers) <= room else max(0, room - 1)
    for one in workers[:fitting]:
        name = one.name[:name_width]
        lines.append(Text.assemble((f"{name:<{name_width}}", "bold"), f"{one.hosts:>7,}{one.pid:>9}  ",
                                   (str(one.note), "dim")))  # fmt: skip
    if fitting < len(workers):
        hosts = sum(one.hosts for one in workers[fitting:])
        more = counted(len(workers) - fitting, "more worker")
        lines.append(Text(f"… and {more} with {counted(hosts, 'host')}", "dim"))
    return lines


def _following(snapshot: TopSnapshot) -> Lines:
    shown, lines = snapshot.followers, [Text()]
    if shown.index is not None:
        lines.append(_follower("index", _index_size(shown.index), shown.index.behind_bytes))
    lines.append(_follower("graph", "links", shown.graph_behind_bytes))
    if shown.triples is not None:
        lines.append(_follower("triples", counted(shown.triples.statements, "statement"), shown.triples.behind_bytes))
    lines.append(Text.assemble((f"{'archive':<9}", "cyan"), ENGLISH.size(shown.archive_bytes)))
    return lines


def _follower(name: str, what: str, behind_bytes: int) -> Text:
    lag = f"{ENGLISH.size(behind_bytes)} behind the archive" if behind_bytes else "up to date"
    return Text.assemble((f"{name:<9}", "cyan"), f"{what:<32}", (lag, "yellow" if behind_bytes else "dim"))


def _following_briefly(shown: FollowerStates) -> Text:
    parts = []
    if shown.index is not None:
        parts.append(f"index {shown.index.urls:,}{_lag(shown.index.behind_bytes)}")
    parts.append(f"graph{_lag(shown.graph_behind_bytes) or ' up to date'}")
    if shown.triples is not None:
        parts.append(f"triples {shown.triples.statements:,}{_lag(shown.triples.behind_bytes)}")
    return Text(" · ".join(parts), "cyan")


def _lag(behind_bytes: int) -> str:
    return f" ({ENGLISH.size(behind_bytes)} behind)" if behind_bytes else ""


def _fitted(line: Text, width: int) -> Text:
    line.no_wrap = True
    line.truncate(width, overflow="ellipsis")
    return line


async def _watch(reader: TopReader, place: str, *, once: bool, as_json: bool) -> None:
    console, clock = CleanConsole(highlight=False), Clock.from_environment()
    first = await reader.read(clock.now())  # an error at the start is reported like that of any command
    if once or as_json or not console.is_terminal:
        await _print(reader, first, clock, console, place, once=once, as_json=as_json)
        return
    with _single_keys() as keys, Live(console=console, screen=True, auto_refresh=False, redirect_stderr=False) as live:
        async with contextlib.aclosing(_snapshots(reader, first, clock, keys)) as snapshots:
            async for snapshot in snapshots:
                live.update(Group(*_frame(reader, snapshot, console, place), LAST_LINE), refresh=True)


async def _print(
    reader: TopReader, first: TopSnapshot, clock: Clock, console: CleanConsole, place: str, *, once: bool, as_json: bool
) -> None:
    async with contextlib.aclosing(_snapshots(reader, first, clock, None)) as snapshots:
        async for snapshot in snapshots:
            if as_json:
                print_document(snapshot.to_json_line())
            else:
                with console.capture() as captured:  # rich would exit with status 1 when the pipe is closed
                    console.print(Group(*_frame(reader, snapshot, console, place), *([] if once else [Text()])))
                sys.stdout.write(captured.get())
            sys.stdout.flush()
            if once:
                return


def _frame(reader: TopReader, snapshot: TopSnapshot, console: CleanConsole, place: str) -> Lines:
    ascii_only = console.options.ascii_only
    return draw_frame(snapshot, reader.trends, console.width, console.height, where=place, plain=ascii_only)


async def _snapshots(
    reader: TopReader, first: TopSnapshot, clock: Clock, keys: asyncio.Event | None
) -> AsyncGenerator[TopSnapshot, None]:
    """One a second, until q is pressed. While the frontier is unreachable, the old numbers stay."""
    snapshot = first
    while True:
        yield snapshot
        if await _pressed(keys, EVERY_S):
            return
        try:
            snapshot = await reader.read(clock.now())
        except TarrafaError as error:
            snapshot = TopSnapshot(clock.now(), snapshot.overview, snapshot.followers, None, f"old numbers: {error}")


async def _pressed(keys: asyncio.Event | None, wait_s: float) -> bool:
    if keys is None:
        await asyncio.sleep(wait_s)
        return False
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(wait_s):
            await keys.wait()
    return keys.is_set()


@contextlib.contextmanager
def _single_keys() -> Iterator[asyncio.Event]:
    """Event that is set when q is pressed; restores the terminal afterwards."""
    pressed, loop = asyncio.Event(), asyncio.get_running_loop()
    if not sys.stdin.isatty():
        yield pressed
        return
    descriptor = sys.stdin.fileno()
    before = termios.tcgetattr(descriptor)

    def read() -> None:
        content = os.read(descriptor, 64)
        if not content or b"q" in content.lower():  # nothing: the terminal is gone
            pressed.set()

    try:
        tty.setcbreak(descriptor)
        loop.add_reader(descriptor, read)
        yield pressed
    finally:
        loop.remove_reader(descriptor)
        termios.tcsetattr(descriptor, termios.TCSADRAIN, before)
