"""Command `tarrafa node`: runs a lasting node, or joins the node that coordinates.

tarrafa node              keep a crawl running on this machine: collections, their schedules, search page and console
tarrafa node --join URL   take part in the crawl that the node at URL coordinates
"""

from pathlib import Path
from typing import Annotated

import typer

from tarrafa.cli import users
from tarrafa.cli.frontier import FrontierAddress, IndexShards, Listen, NodeName
from tarrafa.runtime.data_dir import DataDirectory

JoinUrl = Annotated[
    str | None,
    typer.Option("--join", metavar="URL", help="Work for the node there, which coordinates.", show_default=False),
]
TokenFile = Annotated[
    Path | None,
    typer.Option("--token-file", help="A file with the coordinator's token; or environment TARRAFA_TOKEN."),
]


def node(
    join_url: JoinUrl = None,
    data: Annotated[Path, typer.Option("--data", help="Where everything is kept.", envvar="TARRAFA_DATA")] = Path(
        "tarrafa-data"
    ),
    workers: Annotated[int, typer.Option(min=0, max=64, help="Crawling processes, if nobody orders otherwise.")] = 2,
    name: NodeName = None,
    host: Annotated[str, typer.Option(help="Address that search page and console listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="Their port; 0: any free one.")] = 8080,
    listen: Listen = None,
    where: FrontierAddress = None,
    token_file: TokenFile = None,
    public: Annotated[
        str, typer.Option("--public-url", help="The address that others know the pages by, where a proxy is between.")
    ] = "",
    rate_limit: users.RateLimitOption = users.RATE_DEFAULT,
    behind_proxy: users.BehindProxy = False,
    index_shards: IndexShards = None,
) -> None:
    """Keep a crawl running: collections and their schedules, search page and console, until Ctrl-C.

    What runs when it ends runs again when it is started again. What dies is started again; while the disk is full, it
    pauses, and says so.

    With --join this machine takes part in the crawl that another one coordinates, and is told there what to do. While
    that one is away the work goes on.
    """
    directory = DataDirectory(data)
    if join_url is not None:
        raise typer.Exit(join_coordinator(join_url, directory, workers, name, token_file, index_shards))
    from tarrafa.cli.node_server import run_coordinating_node

    raise typer.Exit(
        run_coordinating_node(
            directory,
            workers,
            name,
            host,
            port,
            listen,
            where,
            token_file,
            public,
            index_shards,
            users.parse_rate_limit(rate_limit, False, behind_proxy),
        )
    )


def join_coordinator(
    url: str, data: DataDirectory, workers: int, name: str | None, token_file: Path | None, index_shards: str | None
) -> int:
    """Work for the coordinator at that address; the exit status."""
    from tarrafa.cli.crawl import node_name, run_until_interrupted
    from tarrafa.coordinator.node.coordinator_client import CoordinatorClient
    from tarrafa.coordinator.node.worker_node import WorkerNode
    from tarrafa.crawl.supervisor.frontier_link import print_status_line
    from tarrafa.index import shards
    from tarrafa.runtime.token import load_token

    caller = CoordinatorClient(url, load_token(token_file))
    divided = None if index_shards is None else shards.parse_layout(index_shards, "--index-shards")
    guest = WorkerNode(caller, data, node_name(name).removesuffix("-"), workers, print_status_line, divided)

    async def until_interrupted() -> int:
        await guest.run()
        return 0

    return run_until_interrupted(until_interrupted)
