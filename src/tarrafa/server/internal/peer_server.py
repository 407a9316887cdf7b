"""Process of a node that serves other nodes: index shard searches and parts of reports.

`python -m tarrafa.server.internal.peer_server`: started by the supervisor of a node with the role `search`. It serves
the Shard protocol (`shard_endpoint`) and parts of reports (`report_part_endpoint`) and nothing else, to clients with
the token, which is in its environment; it writes its address into a given file, for the node's heartbeats. Before
anything is indexed it finds nothing.
"""

import asyncio
import contextlib
import os
from pathlib import Path

from starlette.applications import Starlette
from starlette.routing import Mount

from tarrafa.errors import ConfigError
from tarrafa.report.distributed import part_wire
from tarrafa.runtime.child_process import on_sigterm, run_child
from tarrafa.runtime.data_dir import DataDirectory, write_atomically
from tarrafa.runtime.heartbeat import ProcessHeartbeat, send_heartbeats
from tarrafa.runtime.token import TOKEN_VARIABLE, load_token
from tarrafa.search.remote_shard import PATH
from tarrafa.search.scatter_gather import open_local_shard
from tarrafa.server.http_server import bind, run_app
from tarrafa.server.internal.report_part_endpoint import ReportPartCounter, create_report_part_app
from tarrafa.server.internal.shard_endpoint import create_shard_app


async def _serve_peers(data: DataDirectory, host: str, port: int, address_file: Path) -> None:
    token = load_token(None)
    if not token:
        raise ConfigError(f"{TOKEN_VARIABLE} is not set: this process is started by a supervisor")
    stop = asyncio.Event()
    on_sigterm(stop.set)
    listening = bind(host, port)
    counter = ReportPartCounter(data)
    app = Starlette(
        routes=[
            Mount(PATH, create_shard_app(open_local_shard(data, or_nothing=True), token)),
            Mount(part_wire.PATH, create_report_part_app(counter, token)),
        ]
    )

    def ready(address: str) -> None:
        write_atomically(address_file, address.rstrip("/").encode(), durable=False)

    heartbeats = asyncio.create_task(send_heartbeats(data, lambda: ProcessHeartbeat("search", os.getpid())))
    try:
        await run_app(app, host, listening, stop, ready, counter.close)
    finally:
        heartbeats.cancel()
        with contextlib.suppress(OSError):
            address_file.unlink(missing_ok=True)


def main(data: DataDirectory, host: str, address_file: Path, port: int = 0) -> None:
    """`address_file`: where the process writes its address. Port 0: any free one."""
    asyncio.run(_serve_peers(data, host, port, address_file))


if __name__ == "__main__":
    run_child(main)
