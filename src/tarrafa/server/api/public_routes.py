"""Describes the public search, page and entity routes for the OpenAPI document.

These routes are served by `server/app.py`; their parameters are described here a second time, for the document at
/api/openapi.json. A test requests every one of them as the document says.
"""

from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from tarrafa.crawl.explain.page_and_site import PageDetails, SiteDetails
from tarrafa.frontier.messages import FrontierOverview
from tarrafa.i18n import message
from tarrafa.model import SearchResult
from tarrafa.search.request import HITS_MAX, RESULT_DEPTH_MAX
from tarrafa.server.api.api_route import DocumentedRoute
from tarrafa.server.auth.required_role import AccessLevel
from tarrafa.server.entities.routes import EntityResponse, EntitySearchResponse, FacetListResponse
from tarrafa.server.page_site_routes import LIST_ITEMS_MAX
from tarrafa.server.search.feeds import SUGGESTIONS_TYPE
from tarrafa.server.search.query_log import QueryReport

SwitchParam = Annotated[Literal["", "0", "1"], Meta(description=str(message("1: on")))]
OffsetParam = Annotated[int, Meta(ge=0, le=1_000_000, description=str(message("how many to skip")))]
HitCount = Annotated[int, Meta(ge=1, le=HITS_MAX, description=str(message("how many")))]
ListCount = Annotated[int, Meta(ge=1, le=LIST_ITEMS_MAX, description=str(message("how many of each list")))]
TextParam = Annotated[str, Meta(max_length=1_000)]
CollectionParam = Annotated[str, Meta(max_length=100, description=str(message("only this collection")))]


class DocumentedSearchParams(msgspec.Struct, frozen=True):
    """A search: docs/search-api.md."""

    q: Annotated[str, Meta(max_length=1_000, description=str(message("the search, in the query language")))]
    n: HitCount = 10
    offset: Annotated[int, Meta(ge=0, le=RESULT_DEPTH_MAX, description=str(message("how many to skip")))] = 0
    all: SwitchParam = ""
    natural: SwitchParam = ""
    expand: SwitchParam = ""
    recent: SwitchParam = ""
    sort: Literal["", "relevance", "date", "links"] = ""
    lang: Annotated[str, Meta(max_length=20, description=str(message("pt, en, …")))] = ""
    time: Literal["", "day", "week", "month", "year"] = ""
    after: Annotated[str, Meta(max_length=10, description=str(message("a date: changed from it on")))] = ""
    before: Annotated[str, Meta(max_length=10, description=str(message("a date: changed before it")))] = ""
    collection: CollectionParam = ""
    copies: SwitchParam = ""
    crowded: SwitchParam = ""
    like: Annotated[TextParam, Meta(description=str(message("a URL: only it and its copies")))] = ""
    related: Annotated[TextParam, Meta(description=str(message("a URL: pages that say similar things")))] = ""


class DocumentedSuggestParams(msgspec.Struct, frozen=True):
    """Completions of a text."""

    q: TextParam


class DocumentedPageParams(msgspec.Struct, frozen=True):
    """A page."""

    url: TextParam
    collection: CollectionParam = ""
    n: ListCount = 50
    offset: OffsetParam = 0


class DocumentedSiteParams(msgspec.Struct, frozen=True):
    """A site or a host."""

    name: TextParam
    collection: CollectionParam = ""
    n: ListCount = 50
    offset: OffsetParam = 0


class DocumentedEntitiesParams(
    msgspec.Struct, frozen=True, rename={"of_class": "class", "not_class": "not", "kind": "list"}
):
    """Entities, or with `list` their facets: docs/entities.md."""

    q: Annotated[TextParam, Meta(description=str(message("words in any property")))] = ""
    vocabulary: TextParam = ""
    of_class: TextParam = ""
    not_class: TextParam = ""
    where: Annotated[list[TextParam], Meta(max_length=8, description=str(message("a condition: price<50")))] = []
    collection: CollectionParam = ""
    kind: Literal["", "vocabularies", "classes", "properties"] = ""
    filter: Annotated[str, Meta(max_length=200, description=str(message("with `list`: a part of a name")))] = ""
    n: HitCount = 10
    offset: OffsetParam = 0


class DocumentedEntityParams(msgspec.Struct, frozen=True):
    """An entity, by its key."""

    key: Annotated[str, Meta(max_length=4_000)]


def documented_routes(has_status: bool) -> list[DocumentedRoute]:
    """All public routes. The crawl's state is included where it is available."""
    suggestions: Any = tuple[str, list[str]]
    found = [
        DocumentedRoute(
            "/search.json",
            message("Search the pages that were crawled"),
            DocumentedSearchParams,
            SearchResult,
            codes=(400, 503),
        ),
        DocumentedRoute(
            "/suggest",
            message("Completions of a text"),
            DocumentedSuggestParams,
            suggestions,
            SUGGESTIONS_TYPE,
            codes=(503,),
        ),
        DocumentedRoute(
            "/page.json",
            message("All that is known of a page"),
            DocumentedPageParams,
            PageDetails,
            codes=(400, 404, 503),
        ),
        DocumentedRoute(
            "/site.json",
            message("All that is known of a site"),
            DocumentedSiteParams,
            SiteDetails,
            codes=(400, 404, 503),
        ),
        DocumentedRoute(
            "/data.json",
            message("Search entities"),
            DocumentedEntitiesParams,
            (EntitySearchResponse, FacetListResponse),
            codes=(400, 503),
        ),
        DocumentedRoute(
            "/thing.json",
            message("An entity and its statements"),
            DocumentedEntityParams,
            EntityResponse,
            codes=(400, 404, 503),
        ),
        DocumentedRoute("/queries.json", message("The query log"), None, QueryReport, codes=(403, 503)),
        DocumentedRoute("/healthz", message("Health check"), None, None, "text/plain; charset=utf-8", codes=()),
    ]
    if has_status:
        state = DocumentedRoute(
            "/status.json", message("The crawl's state"), None, FrontierOverview, codes=(503,), need=AccessLevel.VIEWER
        )
        found.append(state)
    return found
