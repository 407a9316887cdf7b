"""Listens on a port and runs the web application under uvicorn until it is stopped.

Promises: a port that is not available is one `ListenError`, before anything else is started; `serve` runs inside the
caller's loop, touches no signal handlers, and returns when its stop event is set or it is cancelled; `run` is the same
for a process that does nothing else, until Ctrl-C. External crawlers are served only with a token. Knows nothing of
pages.
"""

import asyncio
import contextlib
import errno
import signal
import socket
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial

import uvicorn
import uvloop
from starlette.applications import Starlette

from tarrafa.crawl.supervisor.takedown_and_deletion_sync import takedown_and_deletion_sync_running
from tarrafa.errors import ListenError
from tarrafa.runtime.data_dir import DataDirectory
from tarrafa.search.scatter_gather import open_local_shard
from tarrafa.search.searcher import Searcher
from tarrafa.server.app import DEFAULT_SETTINGS, SiteSettings, create_app
from tarrafa.server.auth.request_origin import NO_PROXIES, TrustedProxies
from tarrafa.server.connection_limits import ConnectionTable, LimitedHttpProtocol
from tarrafa.server.internal.shard_endpoint import create_shard_app
from tarrafa.server.search.query_log import QueryLog
from tarrafa.server.search.search_pool import SearchPool
from tarrafa.triples.sparql_pool import SparqlPool

HOST, PORT = "127.0.0.1", 8080
BACKLOG = 512
GRACE_S = 3

OnReady = Callable[[str], None]


def bind(host: str = HOST, port: int = PORT) -> socket.socket:
    """Listen on a port; 0: any free one."""
    where = f"{host}:{port}"
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        listening = socket.create_server((host.strip("[]"), port), family=family, backlog=BACKLOG)
        # asyncio sets it on its own sockets only; without it each response waits 40 ms for an acknowledgement
        listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return listening
    except OverflowError:
        raise ListenError(f"{where}: a port is a number from 0 to 65535") from None
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            raise ListenError(f"{where}: the port is already in use; choose another with --port") from None
        if error.errno in (errno.EACCES, errno.EPERM):
            raise ListenError(f"{where}: not allowed to listen there; choose a --port above 1023") from None
        raise ListenError(f"{where}: cannot listen there ({error.strerror or error})") from None


class _UvicornServer(uvicorn.Server):
    """uvicorn without its signal handlers; calls `ready` when it listens."""

    def __init__(self, config: uvicorn.Config, ready: Callable[[], None]) -> None:
        super().__init__(config)
        self._ready = ready

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets=sockets)
        if self.started:
            self._ready()


async def serve(
    data: DataDirectory,
    settings: SiteSettings = DEFAULT_SETTINGS,
    host: str = HOST,
    port: int = PORT,
    stop: asyncio.Event | None = None,
    on_ready: OnReady | None = None,
    listening: socket.socket | None = None,
) -> None:
    """Serve until `stop` is set. `listening` is a socket from `bind`."""
    console = settings.console
    if console is not None:
        console.authenticator.check_listen_address(host)
    listening = listening or bind(host, port)
    async with contextlib.AsyncExitStack() as stack:
        queries = stack.enter_context(QueryLog(data)) if settings.logs_queries and data.version.exists() else None
        await stack.enter_async_context(takedown_and_deletion_sync_running(data, settings.address))
        crawlers = None
        if settings.crawler_token:
            from tarrafa.server.crawler_api.crawler_service import CrawlerService
            from tarrafa.server.crawler_api.routes import create_crawler_api_app

            service = await stack.enter_async_context(CrawlerService(data, settings.address))
            crawlers = create_crawler_api_app(service, settings.crawler_token.secret)
        to_others = settings.shard_token
        shard = None if to_others is None else create_shard_app(open_local_shard(data), to_others)
        sparql = stack.enter_context(SparqlPool(data, settings.sparql_limits))
        if console is not None:
            await console.authenticator.open()
        searcher = settings.searcher or Searcher.open(data)
        settings = replace(settings, searcher=searcher)
        pool = stack.enter_context(SearchPool(data, searcher, settings.search_processes))
        app = create_app(data, settings, crawlers, shard, queries, sparql, pool)

        def closing() -> None:
            sparql.close()
            if console is not None:
                console.closing()

        await run_app(app, host, listening, stop, on_ready, closing, settings.proxies)


async def run_app(
    app: Starlette,
    host: str,
    listening: socket.socket,
    stop: asyncio.Event | None,
    on_ready: OnReady | None,
    on_stop: Callable[[], None] = lambda: None,
    proxies: TrustedProxies = NO_PROXIES,
) -> None:
    """Serve an application on a socket from `bind`, until `stop` is set."""
    number = listening.getsockname()[1]
    address = f"http://{f'[{host}]' if ':' in host else host}:{number}/"
    config = uvicorn.Config(
        app,
        lifespan="off",
        log_config=None,
        log_level="warning",
        access_log=False,
        server_header=False,
        proxy_headers=False,
        ws="none",
        http=partial(LimitedHttpProtocol, table=ConnectionTable(proxies)),  # type: ignore[arg-type]
        timeout_graceful_shutdown=GRACE_S,
    )
    server = _UvicornServer(config, lambda: on_ready(address) if on_ready is not None else None)
    serving = asyncio.create_task(server.serve(sockets=[listening]))
    waiting = asyncio.create_task((stop or asyncio.Event()).wait())
    try:
        await asyncio.wait({serving, waiting}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        waiting.cancel()
        on_stop()  # ends long queries, so that they are not waited for
        server.should_exit = True
        await serving


def run(
    data: DataDirectory,
    settings: SiteSettings = DEFAULT_SETTINGS,
    host: str = HOST,
    port: int = PORT,
    on_ready: OnReady | None = None,
) -> None:
    """Serve in this process until Ctrl-C or SIGTERM."""
    listening = bind(host, port)

    async def until_signalled() -> None:
        stop, loop = asyncio.Event(), asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, stop.set)
        await serve(data, settings, host, stop=stop, on_ready=on_ready, listening=listening)

    uvloop.run(until_signalled())
