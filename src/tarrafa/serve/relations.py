"""Which page tells who links to whom?

    /page?url=    a page: what is known of it, who links to it, where it leads; /page.json the same for programs

Promises: any URL that a crawled page is or links to is known; both sides are paged, each by itself.
"""

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from tarrafa.data import DataDirectory
from tarrafa.graph.reader import GraphReader, Node
from tarrafa.model import Neighbour
from tarrafa.serve.asked import page_number, whole
from tarrafa.serve.pages import LINKS_PER_PAGE, Pager
from tarrafa.serve.replies import NotKnown, Replies, json


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


class RelationPages:
    """The handlers, and the graph that they share."""

    def __init__(self, data: DataDirectory, replies: Replies) -> None:
        self._data, self._replies = data, replies
        self._graph: GraphReader | None = None

    def routes(self) -> list[Route]:
        return [Route("/page", self.page), Route("/page.json", self.page_json)]

    def page(self, request: Request) -> Response:
        in_page, out_page = page_number(request.query_params, "in"), page_number(request.query_params, "out")
        found = self._relations(request, (in_page - 1) * LINKS_PER_PAGE, (out_page - 1) * LINKS_PER_PAGE)
        in_pager, out_pager = (
            Pager.of(page, total, LINKS_PER_PAGE)
            for page, total in ((in_page, found.in_total), (out_page, found.out_total))
        )
        return self._replies.html(request, "page.html", found=found, in_numbers=in_pager, out_numbers=out_pager)

    def page_json(self, request: Request) -> Response:
        offset = whole(request.query_params, "offset", 0)
        return json(self._relations(request, offset, offset))

    def _relations(self, request: Request, in_offset: int, out_offset: int) -> Relations:
        url, collection = request.query_params.get("url", "").strip(), request.query_params.get("collection") or None
        if not url:
            raise NotKnown("no_url")
        graph = self._graph = self._graph or GraphReader(self._data)
        nodes = graph.nodes(url, collection)
        if not nodes:
            raise NotKnown("unknown_url")
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
