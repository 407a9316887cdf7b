"""Which address answers what?

    /              the search page and its results        /search.json   the same as JSON
    /page?url=     a page's relations                     /page.json     the same as JSON
    /status        the crawl, if somebody can tell        /status.json   the same as JSON
    /healthz       for those who watch the process        /static/       style, script, logo
    /crawl/v1/     for crawlers elsewhere (crawlers/app.py), where they are served

Promises: a search that cannot be understood is 400 and one sentence, an unknown URL 404, one that was taken down 451,
nothing indexed yet 503; the loop never waits for a disk (search and graph run in threads).
"""

import logging
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

from tarrafa.data import DataDirectory
from tarrafa.errors import DataError, FrontierError, QueryError, TarrafaError, Withheld
from tarrafa.frontier.protocol import Overview
from tarrafa.graph.reader import GraphReader, Node
from tarrafa.index import schema as index
from tarrafa.model import Neighbour, SearchResult
from tarrafa.search.searcher import Searcher
from tarrafa.serve.crawlers import PATH as CRAWLERS_PATH
from tarrafa.serve.pages import LINKS_PER_PAGE, PER_PAGE, Drawing, Pager, results_pager, shown_hits
from tarrafa.serve.shields import Shields

StatusSource = Callable[[], Awaitable[Overview]]
log = logging.getLogger(__name__)
PAGE_NUMBER_MAX = 1_000_000


class Asked(msgspec.Struct, frozen=True):
    """What the search box holds."""

    query: str
    all_words: bool
    collection: str
    copies: bool  # each by itself
    like: str  # a URL: only its copies

    @classmethod
    def of(cls, request: Request) -> "Asked":
        given = request.query_params
        words, like = given.get("q", "").strip(), given.get("like", "").strip()
        return cls(words, given.get("all") == "1", given.get("collection", ""), given.get("copies") == "1", like)


class Relations(msgspec.Struct, frozen=True, rename={"incoming": "in", "outgoing": "out"}):
    """A page and its neighbours: `links --json`, and what is known of the page itself."""

    url: str
    title: str
    status: int | None
    depth: int | None
    visited_at: float | None
    in_total: int
    out_total: int
    incoming: list[Neighbour]
    outgoing: list[Neighbour]
    collections: list[Node]


class NotKnown(TarrafaError):
    """A URL that nobody linked to."""


class Site:
    """The handlers, and what they share: one searcher, one graph reader, the templates."""

    def __init__(self, data: DataDirectory, status: StatusSource | None) -> None:
        self._data = data
        self._status = status
        self._searcher = Searcher(data)
        self._graph: GraphReader | None = None
        self._drawing = Drawing()
        self._texts = self._drawing.texts

    # -- search ----------------------------------------------------------------------------------------------------

    def search(self, request: Request) -> Response:
        asked, page = Asked.of(request), self._page_number(request, "page")
        if not asked.query:
            return self._html(request, "home.html", documents=self._documents())
        offset = (page - 1) * PER_PAGE
        result = self._answer(asked, PER_PAGE, offset)
        hits, numbers = shown_hits(result, offset), results_pager(page, result.total)
        return self._html(request, "results.html", result=result, hits=hits, numbers=numbers)

    def search_json(self, request: Request) -> Response:
        asked, n, offset = Asked.of(request), self._whole(request, "n", PER_PAGE), self._whole(request, "offset", 0)
        return _json(self._answer(asked, n, offset))

    def _answer(self, asked: Asked, n: int, offset: int) -> SearchResult:
        where = asked.collection or None
        return self._searcher.search(asked.query, n, offset, where, asked.all_words, asked.copies, asked.like)

    def _documents(self) -> int:
        try:
            return self._searcher.documents
        except DataError:
            return 0

    # -- relations -------------------------------------------------------------------------------------------------

    def page(self, request: Request) -> Response:
        in_page, out_page = self._page_number(request, "in"), self._page_number(request, "out")
        found = self._relations(request, (in_page - 1) * LINKS_PER_PAGE, (out_page - 1) * LINKS_PER_PAGE)
        in_pager, out_pager = (
            Pager.of(page, total, LINKS_PER_PAGE)
            for page, total in ((in_page, found.in_total), (out_page, found.out_total))
        )
        return self._html(request, "page.html", found=found, in_numbers=in_pager, out_numbers=out_pager)

    def page_json(self, request: Request) -> Response:
        offset = self._whole(request, "offset", 0)
        return _json(self._relations(request, offset, offset))

    def _relations(self, request: Request, in_offset: int, out_offset: int) -> Relations:
        url, collection = request.query_params.get("url", "").strip(), request.query_params.get("collection") or None
        if not url:
            raise NotKnown(self._texts.no_url)
        graph = self._graph = self._graph or GraphReader(self._data)
        nodes = graph.nodes(url, collection)
        if not nodes:
            raise NotKnown(self._texts.unknown_url)
        incoming, in_total = graph.incoming(url, collection, LINKS_PER_PAGE, in_offset)
        outgoing, out_total = graph.outgoing(url, collection, LINKS_PER_PAGE, out_offset)
        last = nodes[0]
        return Relations(
            last.url,
            next((node.title for node in nodes if node.title), ""),
            last.status,
            min((node.depth for node in nodes if node.depth is not None), default=None),
            last.visited_at,
            in_total,
            out_total,
            incoming,
            outgoing,
            nodes,
        )

    # -- the crawl -------------------------------------------------------------------------------------------------

    async def status(self, request: Request) -> Response:
        return self._html(request, "status.html", overview=await self._overview())

    async def status_json(self, request: Request) -> Response:
        return _json(await self._overview())

    async def _overview(self) -> Overview:
        if self._status is None:
            raise HTTPException(404)
        return await self._status()

    # -- what goes wrong -------------------------------------------------------------------------------------------

    async def trouble(self, request: Request, error: Exception) -> Response:
        """Every error ends here, as a page or as JSON."""
        code, sentence = self._explained(error)
        if request.url.path.endswith(".json"):
            return _json({"error": sentence}, code)
        return self._html(request, "problem.html", code, sentence=sentence)

    def _explained(self, error: Exception) -> tuple[int, str]:
        if isinstance(error, HTTPException):
            return error.status_code, self._texts.no_such_page if error.status_code == 404 else error.detail
        if isinstance(error, QueryError):
            return 400, str(error)
        if isinstance(error, NotKnown | Withheld):
            return (404, str(error)) if isinstance(error, NotKnown) else (451, self._texts.taken_down)
        if isinstance(error, DataError) and not index.exists(self._data):
            return 503, self._texts.not_yet
        if isinstance(error, DataError | FrontierError):
            log.error("%s", error)
            return 503, str(error)
        log.error("unexpected", exc_info=error)
        return 500, self._texts.internal

    def _whole(self, request: Request, name: str, default: int) -> int:
        value = request.query_params.get(name, "").strip()
        if not value:
            return default
        if not (value.isascii() and value.removeprefix("-").isdigit() and len(value) < 10):
            raise QueryError(self._texts.bad_number.format(name=name, value=value[:20]))
        return int(value)

    def _page_number(self, request: Request, name: str) -> int:
        """A page of a list; what is no number is the first."""
        try:
            return min(max(1, self._whole(request, name, 1)), PAGE_NUMBER_MAX)
        except QueryError:
            return 1

    def _html(self, request: Request, template: str, code: int = 200, **values: Any) -> Response:
        drawn = self._drawing.draw(template, **values, asked=Asked.of(request), has_status=self._status is not None)
        return HTMLResponse(drawn, code)


def _json(value: object, code: int = 200) -> Response:
    return Response(msgspec.json.encode(value), code, media_type="application/json")


def _healthy(request: Request) -> Response:
    return PlainTextResponse("ok\n")


def create_app(data: DataDirectory, status: StatusSource | None = None, crawlers: Starlette | None = None) -> Starlette:
    """The whole site. `status` tells the crawl's state, where somebody can; `crawlers` answers crawlers elsewhere."""
    site = Site(data, status)
    routes = [
        Route("/", site.search),
        Route("/search.json", site.search_json),
        Route("/page", site.page),
        Route("/page.json", site.page_json),
        Route("/status", site.status),
        Route("/status.json", site.status_json),
        Route("/healthz", _healthy),
        Mount("/static", StaticFiles(packages=[("tarrafa.serve", "static")])),
        *([Mount(CRAWLERS_PATH, crawlers)] if crawlers is not None else []),
    ]
    kinds: tuple[type[Exception], ...] = (HTTPException, TarrafaError, Exception)
    return Starlette(
        routes=routes,
        middleware=[Middleware(Shields)],
        exception_handlers=dict.fromkeys(kinds, site.trouble),
    )
