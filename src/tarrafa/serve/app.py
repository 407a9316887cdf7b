"""Which address answers what?

    /  /search.json  .csv  .rss  .atom     the search page, its results, and the same for programs (searching.py)
    /why  /help                            why a result; how to search
    /suggest  /opensearch.xml              how a text may go on; how a browser adds this search
    /page  /site  /page.json  /site.json   all that is known of a page or a site (relations.py)
    /data  /thing  /data.json  /thing.json what pages say of things, and who says it (things.py)
    /status  /status.json                  the crawl, if somebody can tell
    /queries.json                          what people ask, for those on this machine
    /sparql                                what pages state, asked by SPARQL, and an editor (sparql.py)
    /healthz                               for those who watch the process
    /static/                               style, script, logo
    /crawl/v1/                             for crawlers elsewhere (crawlers/app.py), where they are served
    /shard/                                for those who search over several machines (shard.py), where it is served

Promises: the loop never waits for a disk (search and graph run in threads).
"""

import time
from collections.abc import Awaitable, Callable

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Mount, Route

from tarrafa.data import DataDirectory
from tarrafa.errors import TarrafaError
from tarrafa.frontier.address import Address
from tarrafa.frontier.protocol import Overview
from tarrafa.search.conversation import PATH as SHARD_PATH
from tarrafa.search.searcher import Searcher
from tarrafa.serve.answers import moment_of
from tarrafa.serve.assets import Assets
from tarrafa.serve.crawlers import PATH as CRAWLERS_PATH
from tarrafa.serve.queries import QueryLog, report
from tarrafa.serve.relations import RelationPages
from tarrafa.serve.replies import Forbidden, Replies, json
from tarrafa.serve.searching import SearchPages
from tarrafa.serve.shields import Shields, is_on_this_machine
from tarrafa.serve.sparql import SparqlPages
from tarrafa.serve.things import ThingPages
from tarrafa.triples.asking import Asking

StatusSource = Callable[[], Awaitable[Overview]]


class Rest:
    """What is neither search nor relations: the crawl's state, what people ask, whether we live."""

    def __init__(self, data: DataDirectory, replies: Replies, status: StatusSource | None) -> None:
        self._data, self._replies, self._status = data, replies, status

    def routes(self) -> list[Route]:
        return [
            Route("/status", self.status),
            Route("/status.json", self.status_json),
            Route("/queries.json", self.queries),
            Route("/healthz", self.healthy),
        ]

    async def status(self, request: Request) -> Response:
        return self._replies.html(request, "status.html", overview=await self._overview())

    async def status_json(self, request: Request) -> Response:
        return json(await self._overview())

    def queries(self, request: Request) -> Response:
        if not is_on_this_machine(request):
            raise Forbidden("only_here")
        return json(report(self._data, time.time()))

    def healthy(self, request: Request) -> Response:
        return PlainTextResponse("ok\n")

    async def _overview(self) -> Overview:
        if self._status is None:
            raise HTTPException(404)
        return await self._status()


def create_app(
    data: DataDirectory,
    status: StatusSource | None = None,
    crawlers: Starlette | None = None,
    searcher: Searcher | None = None,
    shard: Starlette | None = None,
    queries: QueryLog | None = None,
    public: str = "",
    address: Address | None = None,
    asking: Asking | None = None,
) -> Starlette:
    """The whole site. `status` tells the crawl's state, where somebody can; `crawlers` answers crawlers elsewhere,
    `shard` those who search over several machines; `searcher` is by default over the index that is here; `queries`
    notes what is asked; `public` is the address that the site is known by, `address` that of a frontier elsewhere;
    `asking` asks the triple store, and is closed by whoever gave it."""
    searcher = searcher or Searcher.at(data)
    replies = Replies(data, status is not None, public)
    note = queries.note if queries is not None else None
    search = SearchPages(searcher, replies, lambda: moment_of(data), note, time.time)
    routes = [
        *search.routes(),
        *ThingPages(data, replies).routes(),
        *RelationPages(data, replies, searcher, address).routes(),
        *SparqlPages(data, replies, asking or Asking(data)).routes(),
        *Rest(data, replies, status).routes(),
        Mount("/static", Assets()),
        *([Mount(CRAWLERS_PATH, crawlers)] if crawlers is not None else []),
        *([Mount(SHARD_PATH, shard)] if shard is not None else []),
    ]
    kinds: tuple[type[Exception], ...] = (HTTPException, TarrafaError, Exception)
    return Starlette(
        routes=routes,
        middleware=[Middleware(Shields)],
        exception_handlers=dict.fromkeys(kinds, replies.trouble),
    )
