"""Options that many commands share: --data, --json, --collection, --frontier, --token-file, --listen, --rate-limit."""

import getpass
import os
import socket
from pathlib import Path
from typing import Annotated

import typer

from tarrafa.runtime.data_dir import DataDirectory

DEFAULT_DATA = Path("tarrafa-data")
RATE_DEFAULT = "10/s"

Data = Annotated[Path, typer.Option("--data", help="Data directory.", envvar="TARRAFA_DATA", show_default=True)]
Json = Annotated[bool, typer.Option("--json", help="Print JSON, for programs.")]
CollectionFilter = Annotated[str | None, typer.Option("--collection", help="Only this collection. Default: all.")]
Language = Annotated[str, typer.Option("--language", help="Language of the output: en or pt.")]
FrontierAddress = Annotated[
    list[str] | None,
    typer.Option(
        "--frontier",
        metavar="ADDRESS",
        help="Address of a remote frontier: tcp://HOST:PORT or postgresql://USER@HOST/DB (repeat it for several "
        "servers, in order). Put an address with a password into the environment: TARRAFA_FRONTIER.",
        show_default=False,
    ),
]
TokenFile = Annotated[
    Path | None,
    typer.Option(
        "--token-file",
        help="File with the token that the machines share. Default: environment TARRAFA_TOKEN.",
        show_default=False,
    ),
]
Listen = Annotated[
    str | None, typer.Option("--listen", metavar="HOST:PORT", help="Also serve the frontier to other machines.")
]
LISTEN_BESIDE_REMOTE = (
    "--listen: a remote frontier cannot be served from here; leave out --frontier and TARRAFA_FRONTIER"
)
NodeName = Annotated[
    str | None, typer.Option("--name", help="Name of this machine; its workers are NAME-1, NAME-2… Default: host name.")
]
IndexShards = Annotated[
    str | None,
    typer.Option(
        "--index-shards",
        metavar="N",
        help="Divide a new index into N shards, one process each. 1,2/4: shards 1 and 2 of 4. owned/4: machines that "
        "share an archive divide the 4 among themselves, and take over from each other; owned/4x2: each is on two of "
        "them.",
        show_default=False,
    ),
]
Store = Annotated[
    str | None,
    typer.Option(
        "--store",
        metavar="URL",
        help="Object store for the archive of all machines, s3://BUCKET/PREFIX: for the first command on a new "
        "frontier in PostgreSQL; the others find it there.",
        envvar="TARRAFA_STORE",
        show_default=False,
    ),
]
PublicUrl = Annotated[
    str, typer.Option("--public-url", help="Public address of the pages, if a reverse proxy serves them.")
]
ReplayUrl = Annotated[
    str,
    typer.Option(
        "--replay-url",
        metavar="URL",
        help="Replay archived pages with images and styles under this address, whose host name serves nothing else: "
        "http://replay.localhost:8080, or https://… beside --public-url.",
        show_default=False,
    ),
]
RateLimitOption = Annotated[
    str,
    typer.Option("--rate-limit", metavar="N/s", help="Requests allowed per client address: 10/s, 90/min; 0: no limit."),
]
RateHere = Annotated[bool, typer.Option("--rate-limit-here", help="Limit clients on this machine, too.")]
SearchProcesses = Annotated[
    int | None,
    typer.Option(
        "--search-processes",
        min=0,
        max=64,
        help="Processes that answer searches where these overlap, 100 MB each. Default: one for each processor, at "
        "most 4, and none where there is only one.",
        show_default=False,
    ),
]
BehindProxy = Annotated[
    list[str] | None,
    typer.Option(
        "--behind-proxy",
        metavar="ADDRESS",
        help="IP address or network of a reverse proxy, such as 10.0.0.0/8 (repeatable): its X-Forwarded-For names the "
        "client.",
        show_default=False,
    ),
]


def existing_data(path: Path) -> DataDirectory:
    """The data directory, if there is one of this version."""
    directory = DataDirectory(path)
    directory.check_version()
    return directory


def current_user() -> str:
    """USER@HOST, for logs of who did something."""
    try:
        name = getpass.getuser()
    except (KeyError, OSError):  # a user without a name
        name = str(os.getuid())
    return f"{name}@{socket.gethostname()}"
