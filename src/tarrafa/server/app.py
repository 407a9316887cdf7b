"""Builds the web application: its routes, middleware and error handlers.

    /  /search.json  .csv  .rss  .atom     the search page, its results, and the same for programs (search/routes.py)
    /why  /help                            explanation of a score; how to search
    /suggest  /opensearch.xml              completions; how a browser adds this search
    /page  /site  /page.json  /site.json   all that is known of a page or a site (page_site_routes.py)
    /cdx                                   CDX server: which captures there are (captures/cdx_routes.py)
    /web/  /copy                           Memento, text and bytes of a capture (captures/memento_routes.py)
    /data  /thing  /data.json  /thing.json entities and their pages (entities/routes.py)
    /status  /status.json                  state of the crawl, if available, for local requests and signed-in users
    /queries.json                          the query log, for local requests
    /sparql                                SPARQL endpoint and editor (sparql_endpoint.py)
    /healthz                               health check
    (another host name)                    replay of archived pages (replay/replay_host.py), where enabled
    /api  /api/openapi.json                documentation of the REST API (api/)
    /console/  /api/v1/                    for operators, where there is a console
    /suggest-site                          public form to suggest a site, where it is enabled
    /static/                               style, script, logo
    /crawl/v1/                             for external crawlers (crawler_api/routes.py), where enabled
    /nodes/v1/                             for worker nodes (internal/node_endpoint.py)
    /shard/                                for searches of other nodes (internal/shard_endpoint.py), where enabled

Promises: the event loop never waits for a disk (search and graph run in threads or other processes); it only looks
whether a few small files have changed, before it takes a result from the cache.
"""

import logging
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import BaseRoute, Mount, Route

from tarrafa.captures.capture_access import CaptureStore
from tarrafa.clock import Clock
from tarrafa.coordinator.node.messages import NODES_PATH
from tarrafa.errors import DataError, TarrafaError
from tarrafa.frontier.address import Address
from tarrafa.frontier.messages import FrontierOverview
from tarrafa.i18n import Message, message
from tarrafa.runtime.data_dir import DataDirectory
from tarrafa.runtime.token import NO_TOKEN, Token
from tarrafa.search.remote_shard import PATH as SHARD_PATH
from tarrafa.search.result_cache import index_version
from tarrafa.search.searcher import Searcher
from tarrafa.server.assets import StaticAssets
from tarrafa.server.auth.authentication import Authenticator
from tarrafa.server.auth.request_origin import NO_PROXIES, TrustedProxies
from tarrafa.server.auth.required_role import AccessLevel, GuardedRoute
from tarrafa.server.auth.role_and_csrf_guard import ConsoleRequest, check_all_guarded, guard_routes
from tarrafa.server.captures.cdx_routes import CdxRoutes
from tarrafa.server.captures.memento_routes import WebRoutes
from tarrafa.server.console.console import Console, api_error_response
from tarrafa.server.crawler_api import PATH as CRAWLERS_PATH
from tarrafa.server.entities.routes import EntityRoutes
from tarrafa.server.error_status import API_PATH, Forbidden
from tarrafa.server.page_responses import PageResponses, json_response
from tarrafa.server.page_site_routes import PageSiteRoutes
from tarrafa.server.rate_limit import RateLimit, RateLimitMiddleware
from tarrafa.server.replay.replay_host import HostNameMiddleware, create_replay_app
from tarrafa.server.replay.replay_site import NO_REPLAY, ReplaySite, ReplayState
from tarrafa.server.replay.wabac_package import WabacPackage, load_package
from tarrafa.server.search.query_log import AskedQueries, QueryLog, query_report
from tarrafa.server.search.routes import SearchRoutes
from tarrafa.server.search.search_pool import SearchPool
from tarrafa.server.security_headers import SecurityHeadersMiddleware
from tarrafa.server.sparql_endpoint import SparqlEndpoint
from tarrafa.triples.sparql_pool import SparqlLimits, SparqlPool

log = logging.getLogger(__name__)

StatusSource = Callable[[], Awaitable[FrontierOverview]]


class StatusRoutes:
    """State of the crawl, query log and health check."""

    def __init__(
        self, data: DataDirectory, pages: PageResponses, status: StatusSource | None, authenticator: Authenticator
    ) -> None:
        self._data, self._pages, self._status, self._authenticator = data, pages, status, authenticator

    def routes(self) -> list[BaseRoute]:
        return [
            *(self._guarded_routes(self._status) if self._status is not None else []),
            Route("/queries.json", self.queries),
            Route("/healthz", self.health),
        ]

    def _guarded_routes(self, status: StatusSource) -> list[BaseRoute]:
        """The state of the crawl names people and machines: unlike the search, it is not public."""

        async def page(request: ConsoleRequest) -> Response:
            return self._pages.html(request.http, "crawl_status.html", overview=await status())

        async def as_json(request: ConsoleRequest) -> Response:
            return json_response(await status())

        routes = [
            GuardedRoute("GET", "/status", AccessLevel.VIEWER, page, here=True),
            GuardedRoute("GET", "/status.json", AccessLevel.VIEWER, as_json, here=True),
        ]
        return guard_routes(routes, self._authenticator, self._pages)

    def queries(self, request: Request) -> Response:
        if not self._authenticator.is_local(request):
            raise Forbidden(
                message("The query log is shown to local requests only: use “tarrafa query-log” on the server.")
            )
        return json_response(query_report(self._data, time.time()))

    def health(self, request: Request) -> Response:
        return PlainTextResponse("ok\n")


@dataclass(frozen=True, slots=True, kw_only=True)
class SiteSettings:
    """What a site offers beside the pages of its data directory.

    `status` returns the crawl's state, where available; `searcher` is by default over the local index; `public` is the
    public URL of the site, `address` that of a remote frontier; `console` is for operators; `rate` limits the requests
    of others; `nodes` lets worker nodes join. With `crawler_token`, external crawlers may crawl for the frontier at
    `address`, by default that of the data directory; with `shard_token`, other machines may search the local index (an
    empty token: without a check). `replay` is where archived pages are replayed. `search_processes`: see
    `SearchPool`.
    """

    status: StatusSource | None = None
    searcher: Searcher | None = None
    public: str = ""
    address: Address | None = None
    console: Console | None = None
    rate: RateLimit | None = None
    nodes: Starlette | None = None
    crawler_token: Token = NO_TOKEN
    shard_token: Token | None = None
    logs_queries: bool = True
    sparql_limits: SparqlLimits | None = None
    replay: ReplaySite | None = None
    search_processes: int | None = None

    @property
    def proxies(self) -> TrustedProxies:
        return self.rate.proxies if self.rate is not None else NO_PROXIES


DEFAULT_SETTINGS = SiteSettings()


def create_app(
    data: DataDirectory,
    settings: SiteSettings = DEFAULT_SETTINGS,
    crawlers: Starlette | None = None,
    shard: Starlette | None = None,
    queries: QueryLog | None = None,
    sparql: SparqlPool | None = None,
    pool: SearchPool | None = None,
) -> Starlette:
    """The whole site. `crawlers` serves external crawlers, `shard` searches over several machines; `queries` logs
    queries; `sparql` queries the triple store, and `pool` searches (without it, threads do); their owner closes them.
    """
    status, console, rate, public = settings.status, settings.console, settings.rate, settings.public
    searcher = settings.searcher or Searcher.open(data)
    now = Clock.from_environment().now
    site = console or Console(Authenticator(data, now, public=public, proxies=settings.proxies, signs_in=False))
    authenticator = site.authenticator
    pages = PageResponses(data, authenticator.may_be_signed_in if status is not None else None, public, site.suggests)
    record = queries.record if queries is not None else None
    asked = AskedQueries(data) if queries is not None else None
    search = SearchRoutes(
        searcher,
        pool or SearchPool(data, searcher, 0),
        pages,
        lambda: (searcher.present_shards, index_version(data)),
        record,
        time.time,
        asked,
    )
    captures = CaptureStore(data)
    replay, by_host_name = _replay(settings, captures)
    mounted = {CRAWLERS_PATH: crawlers, SHARD_PATH: shard, NODES_PATH: settings.nodes}
    routes = [
        *search.routes(),
        *EntityRoutes(data, pages).routes(),
        *CdxRoutes(captures).routes(),
        *WebRoutes(captures, pages, replay).routes(),
        *PageSiteRoutes(data, pages, searcher, settings.address).routes(),
        *SparqlEndpoint(
            data, pages, sparql or SparqlPool(data), authenticator.client_address_of, searcher.matching_pages
        ).routes(),
        *StatusRoutes(data, pages, status, authenticator).routes(),
        *site.routes(pages, status is not None, bare=console is None),
        Mount("/static", StaticAssets()),
        *(Mount(path, app) for path, app in mounted.items() if app is not None),
    ]
    check_all_guarded(routes)

    async def error_response(request: Request, error: Exception) -> Response:
        """A path with a line end in it matches no mount, and is still a request of a program."""
        for_programs = request.url.path.startswith(f"{API_PATH}/")
        return await (api_error_response if for_programs else pages.error_response)(request, error)

    kinds: tuple[type[Exception], ...] = (HTTPException, TarrafaError, Exception)
    throttle = (
        [Middleware(RateLimitMiddleware, limit=rate, exempt=authenticator.has_valid_token)] if rate is not None else []
    )
    return Starlette(
        routes=routes,
        middleware=[
            *by_host_name,
            Middleware(SecurityHeadersMiddleware, secure=public.startswith("https://")),
            *throttle,
        ],
        exception_handlers=dict.fromkeys(kinds, error_response),
    )


def _replay(settings: SiteSettings, captures: CaptureStore) -> tuple[ReplayState, list[Middleware]]:
    """Whether there is a replay, and what gives it its host name. That name serves nothing else, also while wabac.js
    is missing."""
    if settings.replay is None:
        return NO_REPLAY, []
    package: WabacPackage | None = None
    missing: Message | str = ""
    try:
        package = load_package()
    except DataError as error:
        missing = error.message
        log.warning("replay is off: %s", error)
    replay = create_replay_app(settings.replay, captures, package, settings.rate)
    return ReplayState(settings.replay, missing), [
        Middleware(HostNameMiddleware, replay=replay, name=settings.replay.name)
    ]
