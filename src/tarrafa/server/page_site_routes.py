"""Routes that show all that is known of a page or a site (/page, /site, and as JSON).

    /page?url=     a page: rank, visits, versions, words, entities, in-links, links
    /site?name=    a site or a host: its pages, errors, robots.txt, linked sites
    /page.json, /site.json   the same for programs

Promises: every URL that a crawled page has or links to is known; every list is paged by itself (`in`, `out`, `hosts`),
the JSON by `n` and `offset`. Paths of files and names of workers are shown to clients on the same machine only.
"""

import asyncio
import contextlib
from typing import Any

from msgspec.structs import replace
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from tarrafa.clock import Clock
from tarrafa.crawl.explain.page_and_site import PageDetails, SiteDetails, describe_page, describe_site
from tarrafa.errors import ConfigError, DataError, QueryError
from tarrafa.frontier.address import Address
from tarrafa.graph.reader import GraphReader
from tarrafa.graph.sites import SitePaging, SiteReader
from tarrafa.i18n import ENGLISH, message
from tarrafa.runtime.data_dir import DataDirectory
from tarrafa.search.searcher import Searcher
from tarrafa.server.auth.request_origin import is_local_request
from tarrafa.server.entities.params import EntityParams
from tarrafa.server.error_status import UnknownResource
from tarrafa.server.jinja_environment import LINKS_PER_PAGE, Pager
from tarrafa.server.page_responses import NO_URL, PageResponses, json_response
from tarrafa.server.search.params import integer_param, page_number_param
from tarrafa.triples.entity_reader import EntityReader, FoundEntity

LIST_ITEMS_MAX = 1_000  # per JSON response
FRONTIER_UNREACHABLE = "it does not answer"
ENTITIES_SHOWN = 20  # of those a page declares


class PageSiteRoutes:
    """The handlers, and the readers that they keep open. `address`: of a frontier on another machine."""

    def __init__(
        self, data: DataDirectory, responses: PageResponses, searcher: Searcher, address: Address | None
    ) -> None:
        self._data, self._responses, self._searcher, self._address = data, responses, searcher, address
        self._clock = Clock.from_environment()
        self._graph: GraphReader | None = None
        self._sites = SiteReader(data)
        self._declared = EntityReader(data)

    def routes(self) -> list[Route]:
        return [
            Route("/page", self.page),
            Route("/page.json", self.page_json),
            Route("/site", self.site),
            Route("/site.json", self.site_json),
        ]

    async def page(self, request: Request) -> Response:
        found = await self._page(request, _page_paging(request))
        pagers = _pagers(request, found.in_total, found.out_total, found.out_hosts_total)
        things = await asyncio.to_thread(self._entities, found.url)
        given = request.query_params
        return self._responses.html(
            request,
            "page_details.html",
            found=found,
            things=things[:ENTITIES_SHOWN],
            things_more=len(things) > ENTITIES_SHOWN,
            wanted=EntityParams(collection=given.get("collection", ""), hl=given.get("hl", "")),
            **pagers,
        )

    async def page_json(self, request: Request) -> Response:
        return json_response(ENGLISH.render_all(await self._page(request, _json_paging(request))))

    async def site(self, request: Request) -> Response:
        found = await self._site(request, _page_paging(request))
        pagers = _pagers(request, found.in_total, found.out_total, found.hosts_total)
        return self._responses.html(request, "site_details.html", found=found, **pagers)

    async def site_json(self, request: Request) -> Response:
        return json_response(ENGLISH.render_all(await self._site(request, _json_paging(request))))

    async def _page(self, request: Request, paging: SitePaging) -> PageDetails:
        url, collection = request.query_params.get("url", "").strip(), request.query_params.get("collection") or None
        if not url:
            raise UnknownResource(NO_URL)
        graph, now = await self._open_graph(), self._clock.now()
        try:
            found = await describe_page(self._data, url, now, collection, paging, self._address, graph)
        except ConfigError:
            raise UnknownResource(message("This URL is not known here: no crawled page links to it.")) from None
        if is_local_request(request) or not found.frontier:
            return found
        return replace(found, frontier=FRONTIER_UNREACHABLE)

    async def _site(self, request: Request, paging: SitePaging) -> SiteDetails:
        name, collection = request.query_params.get("name", "").strip(), request.query_params.get("collection") or None
        if not name:
            raise UnknownResource(message("Which site? The address needs ?name= with a domain or a host."))
        await self._open_graph()
        try:
            found = await describe_site(
                self._data, name, self._clock.now(), collection, paging, self._address, self._searcher.count_indexed,
                self._sites,
            )  # fmt: skip
        except ConfigError:
            raise UnknownResource(
                message(
                    "No URL of this site or host is known; the numbers of sites come with the next survey of the links."
                )
            ) from None
        if is_local_request(request):
            return found
        states = [replace(state, worker="") for state in found.states]
        return replace(found, states=states, frontier=FRONTIER_UNREACHABLE if found.frontier else "")

    async def _open_graph(self) -> GraphReader:
        """The graph, opened once; it raises if there is none."""
        if self._graph is None:
            self._graph = await asyncio.to_thread(GraphReader, self._data)
        return self._graph

    def _entities(self, url: str) -> list[FoundEntity]:
        """The entities of the page, one more than is shown; none if they are not known."""
        with contextlib.suppress(DataError, QueryError):
            return self._declared.entities_of_page(url, ENTITIES_SHOWN + 1)
        return []


def _page_paging(request: Request) -> SitePaging:
    places = [(page_number_param(request.query_params, name) - 1) * LINKS_PER_PAGE for name in ("in", "out", "hosts")]
    return SitePaging(LINKS_PER_PAGE, *places)


def _json_paging(request: Request) -> SitePaging:
    n, offset = (integer_param(request.query_params, *one) for one in (("n", LINKS_PER_PAGE), ("offset", 0)))
    if not 1 <= n <= LIST_ITEMS_MAX or offset < 0:
        raise QueryError(message("n must be 1 to {most}, and offset 0 or more.", most=LIST_ITEMS_MAX))
    return SitePaging(n, offset, offset, offset)


def _pagers(request: Request, in_total: int, out_total: int, hosts_total: int) -> dict[str, Any]:
    return {
        f"{name}_numbers": Pager.of(page_number_param(request.query_params, name), total, LINKS_PER_PAGE)
        for name, total in (("in", in_total), ("out", out_total), ("hosts", hosts_total))
    }
