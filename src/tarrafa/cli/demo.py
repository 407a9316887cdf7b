"""Commands `demo` and `testweb`: crawl a synthetic Web and serve search page and console; only serve the Web.

The Web of the demo runs as a process of its own. After a crawl of the hostile hosts, their URLs in the frontier are
compared with the expected outcomes.
"""

import asyncio
import contextlib
import json
import os
import sys
import webbrowser
from collections import Counter
from collections.abc import AsyncGenerator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape
from rich.table import Table

from tarrafa.cli.crawl import UNFINISHED_STATES, run_until_interrupted, show_progress, status_of
from tarrafa.cli.output import print_table
from tarrafa.clock import Clock
from tarrafa.coordinator.node.coordinator_node import CoordinatorNode
from tarrafa.crawl.scope.collection_loader import load_collection
from tarrafa.errors import DataError, Locked, data_error_from_os
from tarrafa.frontier.messages import FrontierOverview, UrlFacts
from tarrafa.frontier.store.sqlite_frontier import read_statuses_by_host, read_url_lookup
from tarrafa.model import STATUS_MEANING
from tarrafa.parse.url import host_id, host_key, host_name, url_id
from tarrafa.runtime.data_dir import DataDirectory
from tarrafa.runtime.terminal import counted, print_line, print_note
from tarrafa.search.request import SearchRequest
from tarrafa.search.searcher import Searcher
from tarrafa.server.auth.authentication import Authenticator
from tarrafa.server.console.console import Console
from tarrafa.server.coordinator_site import serve_node_pages
from tarrafa.server.http_server import bind
from tarrafa.server.replay.replay_site import ReplaySite
from tarrafa.server.replay.wabac_package import load_package
from tarrafa.testweb import CA_FILE
from tarrafa.testweb.hostile import HOSTILE_HOSTS, SUFFIXES, HostileHost, hostile_host_of, hostile_roots
from tarrafa.testweb.http.web_process import WebProcess, start_process
from tarrafa.testweb.http.web_server import WebServer, run_web_server
from tarrafa.testweb.world.hosts import World

PAGES_PER_HOST, WORKERS = 40, 2
SEED = 1
EXAMPLES = ("pescador rede", '"da biblioteca"', "+festival -praia", "type:schema:Event>=2027")
COLLECTION = """\
# Written by `tarrafa demo`: a collection like any other.
name  = "demo"
roots = [{roots}]

[scope]
hosts = ["*.test"]{limits}
[politeness]
delay   = "50ms"     # a real crawl waits a second or more
contact = "https://example.org/tarrafa-demo"
{more}
[network]
connect_to = {{{connect_to}}}
suffixes   = ["br.test", "pt.test", "com.test", "corner.test", "tls.test", "six.test"]
"""
# Short timeouts for hosts that stall on purpose; a real crawl waits longer.
SHORT_TIMEOUTS = """\
delay_max = "1s"
backoff   = "500ms"

[fetch]
time_max = "5s"
connect_timeout = "2s"
stall_timeout   = "2s"
retries = 1
host_failures_max = 3
"""
HOST_LIMITS = """
host_pages_max = 300
site_hosts_max = 20
alike_max = 50
"""


REPLAY_URL = "http://replay.tarrafa.localhost:{port}"  # browsers find such names on this machine


def demo(
    pages: Annotated[int, typer.Option(min=1, help="Pages to crawl.")] = 2000,
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port of the search page; 0: any free port.")] = 8080,
    data: Annotated[Path, typer.Option("--data", help="Data directory of the demo.")] = Path("tarrafa-demo"),
    leave: Annotated[bool, typer.Option("--exit", help="Exit after the summary; do not keep serving.")] = False,
    hostile: Annotated[
        bool, typer.Option("--hostile", help="Add badly behaved hosts to the Web, and crawl them all.")
    ] = False,
) -> None:
    """Crawl and search a synthetic Web on this machine.

    Search page and console work while the crawl runs. Ctrl-C stops cleanly; the same command continues.
    """
    directory = DataDirectory(data)
    raise typer.Exit(run_until_interrupted(lambda: run_demo(directory, pages, port, leave=leave, hostile=hostile)))


def testweb(
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port to listen on; 0: any free port.")] = 8090,
    hosts: Annotated[int, typer.Option(min=1, help="Number of hosts.")] = 40,
    pages: Annotated[int, typer.Option(min=1, help="Number of pages, on all hosts.")] = 2000,
    seed: Annotated[int, typer.Option(help="Seed; another seed gives another Web.")] = 1,
    addresses: Annotated[
        bool, typer.Option("--addresses", help="Also serve each host on its own 127.x.y.z, for other crawlers.")
    ] = False,
    latency: Annotated[float, typer.Option(min=0, help="Mean response time in seconds.")] = 0.0,
    crawl_delay: Annotated[float, typer.Option(min=0, help="Crawl-delay in robots.txt, in seconds.")] = 1.0,
    crawl_delay_share: Annotated[
        float, typer.Option(min=0, max=1, help="Share of hosts whose robots.txt has a Crawl-delay.")
    ] = 0.0,
    changes: Annotated[float, typer.Option(min=0, help="Factor on the change rate of pages.")] = 1.0,
    hostile: Annotated[bool, typer.Option("--hostile", help="Add the badly behaved hosts.")] = False,
    speed: Annotated[float, typer.Option(min=0.001, help="Factor on the speed of its clock.")] = 1.0,
    log: Annotated[Path | None, typer.Option(help="Append every request to this file as a JSON line.")] = None,
) -> None:
    """Serve a synthetic Web, for tests and benchmarks.

    It listens on loopback. Pages are generated from their URL and the seed; `/__truth__` on any host tells the true
    state of its pages.
    """
    world = World(seed, hosts, pages, crawl_delay, crawl_delay_share, changes, hostile=hostile)

    def ready(server: WebServer) -> None:
        size = f"{counted(hosts, 'host')}, {counted(pages, 'page')}"
        print_line(f'{size}. The collection file needs:\n\nroots = ["{world.root(1)}"]\n')
        targets = ", ".join(f'"{name}" = "{target}"' for name, target in server.connections.items())
        print_line(f"[network]\nconnect_to = {{{targets}}}")
        print_line(f"suffixes = {json.dumps(['br.test', 'pt.test', 'com.test', *(SUFFIXES if hostile else ())])}\n")
        if hostile:
            print_line(f"The badly behaved hosts, as roots: {json.dumps(hostile_roots())}\n")
            print_line(f"The certificate of good.tls.test is valid with ca_file = {json.dumps(str(CA_FILE))}\n")
        if addresses:
            print_line(f"Root for any other crawler: {world.root(1, server.form)}\n")
        print_line("Ctrl-C stops.")

    clock = Clock.scaled(speed) if speed != 1.0 else Clock.from_environment()
    server = WebServer(world, port=port, addresses=addresses, log_path=log, clock=clock, latency_s=latency)
    stats = run_web_server(server, ready)
    print_note(f"{stats.sentence()}")


async def run_demo(data: DataDirectory, pages: int, port: int, *, leave: bool, hostile: bool = False) -> int:
    """Exit status 0: the crawl is finished, and its pages are searchable."""
    _refuse_second_demo(data)
    world = World(SEED, hosts=max(4, pages // PAGES_PER_HOST), pages=max(20, pages + pages // 4), hostile=hostile)
    listening = bind(port=port)  # a port in use is reported before anything else starts
    clock, replay = Clock.from_environment(), ReplaySite.parse(REPLAY_URL.format(port=listening.getsockname()[1]))
    with start_process(world) as web:
        collection = load_collection(_collection_file(data, world, pages, web))
        home = CoordinatorNode(data, "demo", WORKERS, clock, lambda line: None, submitted=collection)
        async with (
            home,
            serve_node_pages(
                home, Console(Authenticator(data, clock.now)), listening=listening, replay=replay
            ) as address,
        ):
            print_note(
                f"synthetic Web: {counted(world.hosts, 'host')}, {counted(world.pages, 'page')} on {web.connect_to}"
            )
            print_note(f"search page:   {address}  (works while the crawl runs)")
            print_note(f"console:       {address}console")
            shown = _print_replay(replay) or address
            status = await show_progress(_overviews(home, collection.name), collection.name)
            good = await asyncio.to_thread(_print_examples, data, address)
            if hostile:
                good = await asyncio.to_thread(_print_hostile_results, data) and good
            _open(shown, leave=leave)
            if not leave:
                print_note("Ctrl-C stops.")
                await home.run()
            return 0 if good and status.state == "finished" else 1


async def _overviews(home: CoordinatorNode, name: str) -> AsyncGenerator[FrontierOverview, None]:
    """Overviews until the collection has ended and its pages are searchable."""
    async with contextlib.aclosing(home.overviews()) as overviews:
        async for overview in overviews:
            yield overview
            if status_of(overview, name).state not in UNFINISHED_STATES:
                break
    await home.supervisor.catch_up()


def _print_replay(replay: ReplaySite) -> str:
    """Say where archived copies are shown as they looked; that address, or nothing if wabac.js is missing."""
    try:
        load_package()
    except DataError as error:
        print_note(f"replay:        off: {error}")
        return ""
    print_note(f"with replay:   {replay.framed_by[0]}/  (archived copies as they looked)")
    return f"{replay.framed_by[0]}/"


def _refuse_second_demo(data: DataDirectory) -> None:
    """Refuse a data directory in use: a second demo would replace the Web of the first."""
    if not data.root.exists():
        return
    lock = data.try_lock()
    if lock is None:
        raise Locked(f"{data.root}: a demo or crawl runs here already; wait for it, or choose another --data")
    lock.close()


def _collection_file(data: DataDirectory, world: World, pages: int, web: WebProcess) -> Path:
    """Write the collection file of the demo. With hostile hosts there is no `pages_max`, so that all are visited."""
    data.create()
    path = data.root / "demo.toml"
    roots = ", ".join(f'"{root}"' for root in [world.root(1), *(hostile_roots() if world.hostile else [])])
    limits = HOST_LIMITS if world.hostile else f"\npages_max = {pages}\n"
    connect_to = ", ".join(f'"{name}" = "{target}"' for name, target in web.connections.items())
    more = SHORT_TIMEOUTS if world.hostile else ""
    try:
        path.write_text(COLLECTION.format(roots=roots, limits=limits, connect_to=connect_to, more=more))
    except OSError as error:
        raise data_error_from_os(error, path) from None
    return path


def _print_examples(data: DataDirectory, address: str) -> bool:
    """Print example searches with their numbers of results; whether any page is indexed."""
    searcher = Searcher.open(data)
    print_line(f"\nSearch it: {address}")
    for query in EXAMPLES:
        result = searcher.search(SearchRequest(query))
        print_line(f"  {query:24} {counted(result.total, 'page'):>12} in {result.time_s * 1000:.1f} ms")
    print_line(f"Entities in the pages: {address}data, and by SPARQL: {address}sparql")
    print_line(f"The collection file is {data.root / 'demo.toml'}.")
    print_line("(Hosts that end in .test exist only for the crawler; open the Relations of a result instead.)")
    return searcher.count_urls() > 0


def _print_hostile_results(data: DataDirectory) -> bool:
    """Print the outcomes of the hostile hosts; whether all are as expected."""
    found = verdicts(data, "demo")
    show_verdicts(found)
    wrong = sum(bool(verdict.wrong) for verdict in found)
    print_line(f"{len(found)} badly behaved hosts, {wrong} with an unexpected outcome.")
    return not wrong


def _open(address: str, *, leave: bool) -> None:
    """Open the page in a browser, if there is a terminal and a display."""
    if not leave and sys.stdout.isatty() and (os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")):
        webbrowser.open(address)


@dataclass(slots=True)
class HostileVerdict:
    """One hostile host, and the outcomes of its URLs."""

    host: HostileHost
    statuses: Counter[int | None] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)


def verdicts(data: DataDirectory, name: str) -> list[HostileVerdict]:
    """Verdicts on all hostile hosts, after the crawl."""
    found = {host.name: _verdict(data, name, host) for host in HOSTILE_HOSTS.values()}
    for key, status, count in read_statuses_by_host(data.frontier, name):
        host = hostile_host_of(host_name(f"{key}/"))
        if host is not None:
            found[host.name].statuses[status] += count
    return list(found.values())


def _verdict(data: DataDirectory, name: str, host: HostileHost) -> HostileVerdict:
    verdict, expects = HostileVerdict(host), host.expects
    for url in sorted({*expects.statuses, *expects.kept}):
        known = _known(data, name, url)
        status, kept = (known.status, known.state == "fetched") if known else (None, False)
        right = expects.statuses.get(url)
        if right is not None and status not in right:
            verdict.wrong.append(f"{url}: {status}, not {' or '.join(map(str, right))}")
        if kept if not expects.may_be_kept(url) else not kept and url in expects.kept:
            verdict.wrong.append(f"{url}: {'kept' if kept else 'not kept'} ({status})")
    return verdict


def _known(data: DataDirectory, name: str, url: str) -> UrlFacts | None:
    facts = read_url_lookup(data.frontier, host_id(host_key(url)), url_id(url))
    return next((one for one in facts.urls if one.collection == name), None)


def show_verdicts(found: list[HostileVerdict]) -> None:
    table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 2))
    for title in ("host", "behaviour", "outcome"):
        table.add_column(title, overflow="fold")
    for verdict in found:
        fates = ", ".join(
            f"{STATUS_MEANING.get(status, str(status)) if status is not None else 'not visited'}"
            + (f" x{count:,}" if count > 1 else "")
            for status, count in verdict.statuses.most_common()
        )
        mark = "" if not verdict.wrong else f" [red]unexpected: {escape('; '.join(verdict.wrong[:3]))}[/]"
        table.add_row(escape(verdict.host.name), escape(verdict.host.about), escape(fates) + mark)
    print_table(table)
