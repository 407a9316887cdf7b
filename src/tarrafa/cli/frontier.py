"""Commands for several machines: `frontier serve` serves the frontier, `worker` runs workers for a remote one."""

import asyncio
from typing import Annotated

import typer

from tarrafa.cli.options import DEFAULT_DATA, Data, FrontierAddress, IndexShards, NodeName, TokenFile
from tarrafa.errors import ConfigError, Locked
from tarrafa.runtime.data_dir import DataDirectory

app = typer.Typer(no_args_is_help=True)


@app.command("serve")
def serve(
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
                f"{directory.root}: another Tarrafa process runs here; stop it, or let it serve the frontier "
                f"itself: tarrafa crawl FILE --listen {listen}"
            ) from None
        return 0

    raise typer.Exit(run_until_interrupted(until_interrupted))


def worker(
    where: FrontierAddress = None,
    workers: Annotated[int, typer.Option(min=1, max=64, help="Worker processes.")] = 2,
    name: NodeName = None,
    data: Data = DEFAULT_DATA,
    token_file: TokenFile = None,
    index_shards: IndexShards = None,
) -> None:
    """Run workers here for a frontier on another machine.

    They run until Ctrl-C, which returns all leases. Archive, link graph and index of the fetched pages stay on this
    machine. While the frontier is unreachable, the workers wait.
    """
    from tarrafa.cli.crawl import build_supervisor, node_name, run_until_interrupted
    from tarrafa.crawl.supervisor.frontier_link import print_status_line
    from tarrafa.frontier.address import FRONTIER_VARIABLE, from_command_line

    address = from_command_line(where, token_file)
    if address is None:
        raise ConfigError(
            f"--frontier ADDRESS is missing (or {FRONTIER_VARIABLE}); to crawl without one, use `tarrafa crawl`"
        )

    async def until_interrupted() -> int:
        joining = build_supervisor(DataDirectory(data), workers, address, name=name, index_shards=index_shards)
        async with joining as supervisor:
            several = f"{workers} workers, {node_name(name)}1 and so on," if workers > 1 else f"{node_name(name)}1"
            print_status_line(f"{several} for {address}   (Ctrl-C stops)")
            try:
                await supervisor.run_until_failure()
            except asyncio.CancelledError:
                print_status_line("returning leases to the frontier")
                raise
        return 0

    raise typer.Exit(run_until_interrupted(until_interrupted))
