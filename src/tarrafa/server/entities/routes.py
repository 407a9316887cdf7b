"""Routes of entity search: entities found in structured data, their facets, and one entity with its sources.

    /data           entities by vocabulary, class (or not that class), properties, words (params.py)
    /data?list=     a whole facet: vocabularies, classes, properties; `filter` by a part of a name
    /thing?key=     all statements about an entity, page by page
    /data.json, /thing.json   the same for programs

Promises: the page, the JSON and the command line use the same parameters and function (`find_entities`); whatever pages
say is shown as text. Without any crawled data, the page says so.
"""

from typing import Any

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from tarrafa.errors import DataError, QueryError
from tarrafa.graph.reader import GraphReader
from tarrafa.i18n import message
from tarrafa.runtime.data_dir import DataDirectory
from tarrafa.server.entities import facets
from tarrafa.server.entities.facets import FACET_KINDS, FACET_TITLES, FACET_VALUES_PER_PAGE
from tarrafa.server.entities.params import EntityParams, quoted
from tarrafa.server.error_status import UnknownResource
from tarrafa.server.jinja_environment import PER_PAGE, Pager
from tarrafa.server.page_responses import PageResponses, json_response
from tarrafa.server.search.params import integer_param, page_number_param
from tarrafa.triples.entity_query import EntityQuery
from tarrafa.triples.entity_reader import OFFSET_MAX, EntityReader, EntityValue, FoundEntity, TermCount, iso_time

KEY_CHARS_MAX = 4_000
FILTER_CHARS_MAX = 200


class EntitySearchResponse(msgspec.Struct, frozen=True):
    """The entities found; `query` has resolved names. `total` is exact unless `more`: then it is a lower bound."""

    query: EntityQuery
    total: int
    more: bool
    things: list[FoundEntity]


class FacetListResponse(msgspec.Struct, frozen=True, rename={"kind": "list"}):
    """A facet: vocabularies, classes or properties (`list`), those on most pages first."""

    kind: str
    total: int
    names: list[TermCount]


class EntityDetailsResponse(msgspec.Struct, frozen=True):
    """The statements of one page about an entity."""

    url: str
    fetched: str
    label: str
    classes: list[str]
    properties: list[EntityValue]


class EntityResponse(msgspec.Struct, frozen=True):
    """All statements about an entity, by the pages fetched last; `pages_total` pages describe it."""

    key: str
    label: str
    classes: list[str]
    pages_total: int
    said: list[EntityDetailsResponse]


def find_entities(reader: EntityReader, wanted: EntityParams, n: int, offset: int) -> EntitySearchResponse:
    """The entities that match the parameters."""
    query = wanted.resolve_names(reader).entity_query(n, offset)
    found = reader.entities(query)
    return EntitySearchResponse(query, found.total, found.more, found.things)


def list_facet(
    reader: EntityReader, kind: str, wanted: EntityParams, n: int, offset: int, holding: str
) -> FacetListResponse:
    if kind not in FACET_KINDS:
        raise QueryError(message("list must be vocabularies, classes or properties, not {got}.", got=quoted(kind)))
    counts = facets.facet_names(reader, kind, wanted.resolve_names(reader), n, offset, holding[:FILTER_CHARS_MAX])
    return FacetListResponse(kind, counts.total, counts.names)


def describe_entity(reader: EntityReader, key: str) -> EntityResponse | None:
    """All statements about an entity; None if it is unknown."""
    found = reader.entity(key)
    if found is None:
        return None
    said = [
        EntityDetailsResponse(view.url, iso_time(view.at), view.label, view.classes, view.properties)
        for view in reader.page_views(key)
    ]
    return EntityResponse(key, found.label, found.classes, found.pages_total, said)


class EntityRoutes:
    """The handlers."""

    def __init__(self, data: DataDirectory, responses: PageResponses) -> None:
        self._data, self._responses, self._reader = data, responses, EntityReader(data)
        self._graph: GraphReader | None = None

    def routes(self) -> list[Route]:
        return [
            Route("/data", self.search_page),
            Route("/data.json", self.search_json),
            Route("/thing", self.entity_page),
            Route("/thing.json", self.entity_json),
        ]

    def search_page(self, request: Request) -> Response:
        _, given = self._responses.translator(request), request.query_params
        if not self._reader.vocabularies(n=0).total and not self._reader.properties(n=0).total:
            return self._responses.html(request, "entities_empty.html")
        wanted, page = EntityParams.from_query(given).resolve_names(self._reader), page_number_param(given, "page")
        shared: dict[str, Any] = {
            "wanted": wanted,
            "sections": facets.facets(self._reader, wanted, _),
            "chips": facets.active_filters(wanted, _),
            "rows": facets.condition_rows(wanted, _),
            "comparisons": facets.comparison_choices(_),
            "collections": facets.collection_choices(self._collections(), wanted),
        }
        if given.get("list"):
            return self._facet_page(request, wanted, given["list"], page, shared)
        if page > OFFSET_MAX // PER_PAGE:
            raise QueryError(message("Only the first {most} things can be paged through.", most=OFFSET_MAX))
        found = find_entities(self._reader, wanted, PER_PAGE, (page - 1) * PER_PAGE)
        numbers = Pager.of(page, found.total, PER_PAGE, OFFSET_MAX)
        return self._responses.html(request, "entity_results.html", found=found, numbers=numbers, **shared)

    def _facet_page(
        self, request: Request, wanted: EntityParams, kind: str, page: int, shared: dict[str, Any]
    ) -> Response:
        held = request.query_params.get("filter", "").strip()[:FILTER_CHARS_MAX]
        if page > OFFSET_MAX // FACET_VALUES_PER_PAGE:
            raise QueryError(message("Only the first {most} names can be paged through.", most=OFFSET_MAX))
        found = list_facet(self._reader, kind, wanted, FACET_VALUES_PER_PAGE, (page - 1) * FACET_VALUES_PER_PAGE, held)
        _ = self._responses.translator(request)
        shared |= {"title": _.render(FACET_TITLES[kind]), "offers": facets.facet_values(kind, found.names, wanted, _)}
        numbers = Pager.of(page, found.total, FACET_VALUES_PER_PAGE, OFFSET_MAX)
        return self._responses.html(
            request, "entity_facet_list.html", found=found, held=held, numbers=numbers, **shared
        )

    def search_json(self, request: Request) -> Response:
        given = request.query_params
        wanted, kind = EntityParams.from_query(given), given.get("list", "")
        n = integer_param(given, "n", FACET_VALUES_PER_PAGE if kind else PER_PAGE)
        offset = integer_param(given, "offset", 0)
        if kind:
            return json_response(list_facet(self._reader, kind, wanted, n, offset, given.get("filter", "")))
        return json_response(find_entities(self._reader, wanted, n, offset))

    def entity_page(self, request: Request) -> Response:
        given = EntityParams.from_query(request.query_params)
        wanted = EntityParams(collection=given.collection, hl=given.hl)  # links to other entities keep these
        found = self._requested_entity(request)
        return self._responses.html(request, "entity_details.html", found=found, wanted=wanted)

    def entity_json(self, request: Request) -> Response:
        return json_response(self._requested_entity(request))

    def _requested_entity(self, request: Request) -> EntityResponse:
        key = request.query_params.get("key", "").strip()
        if not key:
            raise UnknownResource(message("Which thing? The address needs ?key= with its IRI."))
        found = describe_entity(self._reader, key) if len(key) <= KEY_CHARS_MAX else None
        if found is None:
            raise UnknownResource(message("No crawled page describes such a thing."))
        return found

    def _collections(self) -> list[str]:
        try:
            if self._graph is None:
                self._graph = GraphReader(self._data)
            return self._graph.collections()
        except DataError:
            return []
