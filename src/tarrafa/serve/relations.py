"""Which page tells what is known of a page, or of a site?

    /page?url=     a page: rank, visits, versions, words, who links to it, where it leads
    /site?name=    a site or a host: its pages, errors, robots.txt, the sites around it
    /page.json, /site.json   the same for programs

Promises: any URL that a crawled page is or links to is known; every list is paged by itself (`in`, `out`, `hosts`), the
JSON by `n` and `offset`. Where the machine keeps its files, and who works for it, is told to those who sit at it only.
"""

import asyncio
import contextlib
from typing import Any

from msgspec.structs import replace
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from tarrafa.clock import Clock
from tarrafa.crawl.about import PageTold, SiteTold, about_page, about_site
from tarrafa.data import DataDirectory
from tarrafa.errors import ConfigError, DataError, QueryError, ShardAway
from tarrafa.frontier.address import Address
from tarrafa.graph.sites import Paging
from tarrafa.graph.store import open_reader
from tarrafa.parse.url import canonical, host_name
from tarrafa.search.question import Question
from tarrafa.search.searcher import Searcher
from tarrafa.serve.asked import page_number, whole
from tarrafa.serve.pages import LINKS_PER_PAGE, Pager
from tarrafa.serve.replies import NotKnown, Replies, json
from tarrafa.serve.shields import is_on_this_machine

LISTED_MAX = 1_000  # per answer, as JSON
SILENT = "it does not answer"


class RelationPages:
    """The handlers. `address` is of a frontier elsewhere."""

    def __init__(self, data: DataDirectory, replies: Replies, searcher: Searcher, address: Address | None) -> None:
        self._data, self._replies, self._searcher, self._address = data, replies, searcher, address
        self._clock = Clock.from_environment()

    def routes(self) -> list[Route]:
        return [
            Route("/page", self.page),
            Route("/page.json", self.page_json),
            Route("/site", self.site),
            Route("/site.json", self.site_json),
        ]

    def page(self, request: Request) -> Response:
        found = self._page(request, _shown(request))
        pagers = _pagers(request, found.in_total, found.out_total, found.out_hosts_total)
        return self._replies.html(request, "page.html", found=found, **pagers)

    def page_json(self, request: Request) -> Response:
        return json(self._page(request, _listed(request)))

    def site(self, request: Request) -> Response:
        found = self._site(request, _shown(request))
        pagers = _pagers(request, found.in_total, found.out_total, found.hosts_total)
        return self._replies.html(request, "site.html", found=found, **pagers)

    def site_json(self, request: Request) -> Response:
        return json(self._site(request, _listed(request)))

    def _page(self, request: Request, paging: Paging) -> PageTold:
        url, collection = request.query_params.get("url", "").strip(), request.query_params.get("collection") or None
        if not url:
            raise NotKnown("no_url")
        self._check()
        asked = about_page(self._data, url, self._clock.now(), collection, paging, self._address)
        try:
            found = asyncio.run(asked)  # in this thread: the file of a frontier that does not run is read at once
        except ConfigError:
            raise NotKnown("unknown_url") from None
        return found if is_on_this_machine(request) or not found.frontier else replace(found, frontier=SILENT)

    def _site(self, request: Request, paging: Paging) -> SiteTold:
        name, collection = request.query_params.get("name", "").strip(), request.query_params.get("collection") or None
        if not name:
            raise NotKnown("no_site")
        self._check()
        try:
            found = asyncio.run(about_site(self._data, name, collection, paging, self._address))
        except ConfigError:
            raise NotKnown("unknown_site") from None
        found = replace(found, indexed=self._indexed(found, collection))
        if is_on_this_machine(request):
            return found
        states = [replace(state, worker="") for state in found.states]
        return replace(found, states=states, frontier=SILENT if found.frontier else "")

    def _check(self) -> None:
        """Without a graph there is nothing to tell."""
        open_reader(self._data).close()

    def _indexed(self, found: SiteTold, collection: str | None) -> int | None:
        """How many of its pages can be found; None where nobody can tell."""
        url = canonical(found.name if "://" in found.name else f"http://{found.name}/")
        if url is None:
            return None
        with contextlib.suppress(DataError, QueryError, ShardAway):
            return self._searcher.search(
                Question(f"{found.kind}:{host_name(url)}", 1, collection=collection, copies=True)
            ).total
        return None


def _shown(request: Request) -> Paging:
    places = [(page_number(request.query_params, name) - 1) * LINKS_PER_PAGE for name in ("in", "out", "hosts")]
    return Paging(LINKS_PER_PAGE, *places)


def _listed(request: Request) -> Paging:
    n, offset = whole(request.query_params, "n", LINKS_PER_PAGE), whole(request.query_params, "offset", 0)
    if n < 1 or n > LISTED_MAX or offset < 0:
        raise QueryError(f"n must be 1 to {LISTED_MAX:,}, and offset 0 or more.")
    return Paging(n, offset, offset, offset)


def _pagers(request: Request, in_total: int, out_total: int, hosts_total: int) -> dict[str, Any]:
    return {
        f"{name}_numbers": Pager.of(page_number(request.query_params, name), total, LINKS_PER_PAGE)
        for name, total in (("in", in_total), ("out", out_total), ("hosts", hosts_total))
    }
