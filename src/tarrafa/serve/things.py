"""Which things do pages speak of, and who says so?

    /data           things: choose vocabulary, class (or not that class), properties, words; see who says so (wanted.py)
    /data?list=     a whole list of what can be chosen: vocabularies, classes, properties; `filter` by a part of a name
    /thing?key=     all that is said of a thing, page by page
    /data.json, /thing.json   the same for programs

Promises: the page and the JSON ask by the same parameters and the same function (`find`), which the command line calls
too; whatever pages say is shown as text. Where nothing with data has been crawled, a page says so.
"""

from datetime import UTC, datetime
from typing import Any

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from tarrafa.data import DataDirectory
from tarrafa.errors import DataError, QueryError
from tarrafa.graph.reader import GraphReader
from tarrafa.serve import panel
from tarrafa.serve.asked import page_number, whole
from tarrafa.serve.pages import PER_PAGE, Pager
from tarrafa.serve.panel import LISTED, LISTS
from tarrafa.serve.replies import NotKnown, Replies, json
from tarrafa.serve.wanted import QUOTED_CHARS_MAX, Wanted
from tarrafa.triples.reader import OFFSET_MAX, Counted, Counts, FoundThing, Shown, ThingQuery, ThingReader

KEY_CHARS_MAX = 4_000
FILTER_CHARS_MAX = 200


class ThingsTold(msgspec.Struct, frozen=True):
    """The things that were asked for; `query` with the IRIs that names were taken for. `total` is exact unless `more`:
    then there are more than that."""

    query: ThingQuery
    total: int
    more: bool
    things: list[FoundThing]


class NamesTold(msgspec.Struct, frozen=True, rename={"kind": "list"}):
    """What can be chosen: vocabularies, classes or properties (`list`), those on most pages first."""

    kind: str
    total: int
    names: list[Counted]


class Saying(msgspec.Struct, frozen=True):
    """What one page says of a thing."""

    url: str
    fetched: str
    label: str
    classes: list[str]
    properties: list[Shown]


class ThingTold(msgspec.Struct, frozen=True):
    """All that is said of a thing, by the pages fetched last; `pages_total` speak of it."""

    key: str
    label: str
    classes: list[str]
    pages_total: int
    said: list[Saying]


def find(reader: ThingReader, wanted: Wanted, n: int, offset: int) -> ThingsTold:
    """The things that somebody wants."""
    query = wanted.meant(reader).query(n, offset)
    found = reader.things(query)
    return ThingsTold(query, found.total, found.more, found.things)


def names(reader: ThingReader, kind: str, wanted: Wanted, n: int, offset: int, holding: str) -> NamesTold:
    """What can be chosen."""
    if kind not in LISTS:
        raise QueryError(f"list must be vocabularies, classes or properties, not {kind[:QUOTED_CHARS_MAX]!r}.")
    counts = panel.names(reader, kind, wanted.meant(reader), n, offset, holding[:FILTER_CHARS_MAX])
    return NamesTold(kind, counts.total, counts.names)


def tell(reader: ThingReader, key: str) -> ThingTold | None:
    """All that is said of a thing; None if nobody speaks of it."""
    found = reader.thing(key)
    if found is None:
        return None
    said = [
        Saying(view.url, _moment(view.at), view.label, view.classes, view.properties) for view in reader.said_of(key)
    ]
    return ThingTold(key, found.label, found.classes, found.pages_total, said)


class ThingPages:
    """The handlers."""

    def __init__(self, data: DataDirectory, replies: Replies) -> None:
        self._data, self._replies, self._reader = data, replies, ThingReader(data)
        self._graph: GraphReader | None = None

    def routes(self) -> list[Route]:
        return [
            Route("/data", self.data),
            Route("/data.json", self.data_json),
            Route("/thing", self.thing),
            Route("/thing.json", self.thing_json),
        ]

    def data(self, request: Request) -> Response:
        texts, given = self._replies.texts(request), request.query_params
        if not self._reader.vocabularies(n=0).total and not self._reader.properties(n=0).total:
            return self._replies.html(request, "nothing_yet.html")
        wanted, page = Wanted.of(given).meant(self._reader), page_number(given, "page")
        shared: dict[str, Any] = {
            "wanted": wanted,
            "sections": panel.sections(self._reader, wanted, texts),
            "chips": panel.chips(wanted, texts),
            "rows": panel.rows(wanted, texts),
            "comparisons": panel.comparisons(texts),
            "collections": panel.collections(self._collections(), wanted),
        }
        if given.get("list"):
            return self._list(request, wanted, given["list"], page, shared)
        if page > OFFSET_MAX // PER_PAGE:
            raise QueryError(f"Only the first {OFFSET_MAX:,} things can be paged through.")
        found = find(self._reader, wanted, PER_PAGE, (page - 1) * PER_PAGE)
        numbers = Pager.of(page, found.total, PER_PAGE, OFFSET_MAX)
        return self._replies.html(request, "data.html", found=found, numbers=numbers, **shared)

    def _list(self, request: Request, wanted: Wanted, kind: str, page: int, shared: dict[str, Any]) -> Response:
        held = request.query_params.get("filter", "").strip()[:FILTER_CHARS_MAX]
        if page > OFFSET_MAX // LISTED:
            raise QueryError(f"Only the first {OFFSET_MAX:,} names can be paged through.")
        found = names(self._reader, kind, wanted, LISTED, (page - 1) * LISTED, held)
        offers = panel.offers(kind, Counts(found.total, found.names), wanted, self._replies.texts(request))
        numbers = Pager.of(page, found.total, LISTED, OFFSET_MAX)
        return self._replies.html(
            request, "names.html", found=found, offers=offers, held=held, numbers=numbers, **shared
        )

    def data_json(self, request: Request) -> Response:
        given = request.query_params
        wanted, kind = Wanted.of(given), given.get("list", "")
        n, offset = whole(given, "n", LISTED if kind else PER_PAGE), whole(given, "offset", 0)
        if kind:
            return json(names(self._reader, kind, wanted, n, offset, given.get("filter", "")))
        return json(find(self._reader, wanted, n, offset))

    def thing(self, request: Request) -> Response:
        return self._replies.html(request, "thing.html", found=self._told(request), wanted=self._kept(request))

    def thing_json(self, request: Request) -> Response:
        return json(self._told(request))

    def _told(self, request: Request) -> ThingTold:
        key = request.query_params.get("key", "").strip()
        if not key:
            raise NotKnown("no_thing")
        found = tell(self._reader, key) if len(key) <= KEY_CHARS_MAX else None
        if found is None:
            raise NotKnown("unknown_thing")
        return found

    def _kept(self, request: Request) -> Wanted:
        """From one thing to others: the language goes with it, and the collection."""
        given = Wanted.of(request.query_params)
        return Wanted(collection=given.collection, hl=given.hl)

    def _collections(self) -> list[str]:
        try:
            if self._graph is None:
                self._graph = GraphReader(self._data)
            return self._graph.collections()
        except DataError:
            return []


def _moment(at: float) -> str:
    return datetime.fromtimestamp(int(at), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
