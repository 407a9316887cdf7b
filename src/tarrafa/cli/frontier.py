"""Commands `frontier serve` and `worker` for several machines, and start, pause, resume, stop and delete.

tarrafa frontier serve   the URL server for other machines
tarrafa worker           crawl for a frontier that is elsewhere
tarrafa pause NAME       let a collection rest; resume NAME goes on, stop NAME ends it
tarrafa delete NAME      delete a collection; what was archived stays archived
"""

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tarrafa.errors import ConfigError, Locked
from tarrafa.runtime.data_dir import DataDirectory

if TYPE_CHECKING:
    from tarrafa.coordinator.node.local_control import ControlAction

FrontierAddress = Annotated[
    list[str] | None,
    typer.Option(
        "--frontier",
        metavar="ADDRESS",
        help="Where the frontier is, if it is elsewhere: tcp://HOST:PORT or postgresql://USER@HOST/DB (several of them "
        "in order). With a password only in the environment: TARRAFA_FRONTIER.",
        show_default=False,
    ),
]
TokenFile = Annotated[
    Path | None,
    typer.Option(
        "--token-file",
        help="A file with the token that a URL server and its workers share; or environment TARRAFA_TOKEN.",
        show_default=False,
    ),
]
Listen = Annotated[
    str | None, typer.Option("--listen", metavar="HOST:PORT", help="Serve the frontier to other machines, too.")
]
NodeName = Annotated[
    str | None,
    typer.Option("--name", help="Of this machine's workers, as others see them; by default its host name."),
]

IndexShards = Annotated[
    str | None,
    typer.Option(
        "--index-shards",
        metavar="N",
        help="Keep a new index in so many parts, each followed by a process of its own; 1,2/4: of four, these two.",
        show_default=False,
    ),
]


app = typer.Typer(help="The URL server for other machines; the servers of PostgreSQL.", no_args_is_help=True)


@app.command("serve")
def serve(
    listen: Annotated[
        str, typer.Option("--listen", metavar="HOST:PORT", help="Where to answer; beyond loopback with a token only.")
    ] = "127.0.0.1:8070",
    data: Annotated[Path, typer.Option("--data", help="Where the frontier is kept.", envvar="TARRAFA_DATA")] = Path(
        "tarrafa-data"
    ),
    token_file: TokenFile = None,
    workers: Annotated[int, typer.Option(min=0, max=64, help="Crawling processes of this machine.")] = 0,
) -> None:
    """Serve the frontier of a data directory to workers on other machines, until Ctrl-C.

    Nothing is encrypted: use it on a private network, or through ssh or a VPN.
    """
    from tarrafa.cli.crawl import build_supervisor, run_until_interrupted

    async def until_interrupted() -> int:
        directory = DataDirectory(data)
        supervisor = build_supervisor(directory, workers, None, token_file, listen=listen, lasting=True)
        try:
            async with supervisor:
                async for _ in supervisor.overviews():
                    pass
        except Locked:
            raise Locked(
                f"{directory.root}: another Tarrafa process is working here; stop it, or let it serve the frontier "
                f"itself: tarrafa crawl FILE --listen {listen}"
            ) from None
        return 0

    raise typer.Exit(run_until_interrupted(until_interrupted))


def worker(
    where: FrontierAddress = None,
    workers: Annotated[int, typer.Option(min=1, max=64, help="Crawling processes.")] = 2,
    name: NodeName = None,
    data: Annotated[
        Path, typer.Option("--data", help="Where this machine keeps its archive.", envvar="TARRAFA_DATA")
    ] = Path("tarrafa-data"),
    token_file: TokenFile = None,
    index_shards: IndexShards = None,
) -> None:
    """Crawl for a frontier that is elsewhere, until Ctrl-C, which hands everything back.

    Archive, link graph and index of what this machine fetches stay here. While the frontier is away, it waits.
    """
    from tarrafa.cli.crawl import build_supervisor, node_name, run_until_interrupted
    from tarrafa.crawl.supervisor.frontier_link import print_status_line
    from tarrafa.frontier.address import FRONTIER_VARIABLE, from_command_line

    address = from_command_line(where, token_file)
    if address is None:
        raise ConfigError(f"--frontier ADDRESS is wanted, or {FRONTIER_VARIABLE}; on this machine use `tarrafa crawl`")

    async def until_interrupted() -> int:
        joining = build_supervisor(DataDirectory(data), workers, address, name=name, index_shards=index_shards)
        async with joining as supervisor:
            several = f"{workers} workers, {node_name(name)}1 and so on," if workers > 1 else f"{node_name(name)}1"
            print_status_line(f"{several} for {address}   (Ctrl-C stops)")
            try:
                await supervisor.run_until_failure()
            except asyncio.CancelledError:
                print_status_line("handing back what is under way")
                raise
        return 0

    raise typer.Exit(run_until_interrupted(until_interrupted))


CollectionName = Annotated[str, typer.Argument(metavar="NAME", help="A collection; `tarrafa status` lists them.")]
Data = Annotated[Path, typer.Option("--data", help="Where everything is kept.", envvar="TARRAFA_DATA")]


def pause(
    name: CollectionName, data: Data = Path("tarrafa-data"), where: FrontierAddress = None, token_file: TokenFile = None
) -> None:
    """Let a collection rest: nothing more is handed out; what is under way is brought home. Between two runs its
    schedule rests."""
    _control("pause", name, "by `tarrafa pause`; `tarrafa resume` goes on", data, where, token_file)


def resume(
    name: CollectionName, data: Data = Path("tarrafa-data"), where: FrontierAddress = None, token_file: TokenFile = None
) -> None:
    """Let a collection that was paused or stopped go on."""
    _control("resume", name, "", data, where, token_file)


def start(
    name: CollectionName, data: Data = Path("tarrafa-data"), where: FrontierAddress = None, token_file: TokenFile = None
) -> None:
    """Start a collection that the node here knows; one that is finished is visited again from its roots."""
    _control("start", name, "by `tarrafa start`", data, where, token_file)


def stop(
    name: CollectionName, data: Data = Path("tarrafa-data"), where: FrontierAddress = None, token_file: TokenFile = None
) -> None:
    """End the crawl of a collection; nothing is lost, and `tarrafa crawl FILE`, or `tarrafa resume` where a node works,
    goes on where it was."""
    _control("stop", name, "by `tarrafa stop`; `tarrafa crawl FILE` goes on", data, where, token_file)


def delete(
    name: CollectionName,
    data: Data = Path("tarrafa-data"),
    where: FrontierAddress = None,
    token_file: TokenFile = None,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask whether that is meant.")] = False,
) -> None:
    """Delete a collection that does not run: what is known of its URLs, and its pages in search, graph and statements.

    Its name is free afterwards. What was archived stays archived. Interrupted, the same command goes on.
    """
    from tarrafa.cli.collection_control import delete_collection as delete_it
    from tarrafa.frontier.address import from_command_line

    directory, address = DataDirectory(data), from_command_line(where, token_file)
    if not yes:
        typer.confirm(f"Delete the collection {name} and all its pages in search?", abort=True)
    typer.echo(delete_it(directory, address, name))


def _control(
    action: "ControlAction", name: str, reason: str, data: Path, where: list[str] | None, token_file: Path | None
) -> None:
    from tarrafa.cli.collection_control import control_collection
    from tarrafa.frontier.address import from_command_line

    directory, address = DataDirectory(data), from_command_line(where, token_file)
    if address is None:
        directory.check_version()
    typer.echo(f"{name}: {asyncio.run(control_collection(directory, address, action, name, reason))}")
