"""EntityReader: finds entities by vocabulary, class, property and words, with the pages that describe them.

For people who choose a vocabulary, a class (or *not* that class), properties and words, from the crawled pages.
Promises: reads committed data while the follower writes; every answer is bounded, in length and in time; counts are
exact, those of found entities up to `TOTAL_MAX`. An entity with an IRI on several pages is one entity (where the store
has several parts: in each of them); a blank node belongs to its page. Knows nothing of SPARQL.
"""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import apsw
import msgspec

from tarrafa.clock import boottime
from tarrafa.errors import QueryError
from tarrafa.i18n import message
from tarrafa.index import shards
from tarrafa.parse.rdf.prefixes import normalize_iri
from tarrafa.parse.url import url_id
from tarrafa.runtime.data_dir import DataDirectory
from tarrafa.runtime.sqlite import rows
from tarrafa.takedown import CurrentTakedowns
from tarrafa.triples import entity_query, entity_view, storage
from tarrafa.triples.entity_query import EntityCondition, EntityQuery
from tarrafa.triples.entity_view import EntityPageView, EntityValue, FoundEntity
from tarrafa.triples.usage_counts import CLASS, PROPERTY, VOCABULARY

NAMES_MAX = 1_000  # that are listed at once
ENTITIES_MAX = 100  # that are shown at once
OFFSET_MAX = 100_000
TOTAL_MAX = 10_000  # entities that are counted one by one
CONDITIONS_MAX = 10
TEXT_CHARS_MAX = 2_000  # of a search text
TIME_S_MAX = 5.0
STEPS = 20_000  # of SQLite, between two checks of the time limit

__all__ = [
    "EntityCondition",
    "EntityPageView",
    "EntityQuery",
    "EntityReader",
    "EntityResults",
    "EntityValue",
    "FoundEntity",
    "TermCount",
    "TermCounts",
]  # fmt: skip


class TermCount(msgspec.Struct, frozen=True):
    """A vocabulary, class or property: its number of entities and of pages; of a property also its number of uses."""

    iri: str
    things: int
    pages: int
    uses: int = 0


class TermCounts(msgspec.Struct, frozen=True):
    """Some of them, those on most pages first, and their total number."""

    total: int
    names: list[TermCount]


class EntityResults(msgspec.Struct, frozen=True):
    """`total` is exact unless `more`: then it is a lower bound."""

    total: int
    more: bool
    things: list[FoundEntity]


class EntityReader:
    """Reads the entity index; for any number of threads."""

    def __init__(self, data: DataDirectory) -> None:
        self._data = data
        self._taken_down = CurrentTakedowns(data)

    def vocabularies(self, offset: int = 0, n: int = 100, holding: str = "") -> TermCounts:
        """The vocabularies of the pages; `holding`: those with a text in their IRI."""
        return self._named(entity_query.TERM_COUNTS_SQL, (VOCABULARY, None), offset, n, holding)

    def classes(self, vocabulary: str = "", offset: int = 0, n: int = 100, holding: str = "") -> TermCounts:
        """The classes of the entities, in one vocabulary or in all."""
        return self._named(entity_query.TERM_COUNTS_SQL, (CLASS, normalize_iri(vocabulary) or None), offset, n, holding)

    def properties(
        self, of_class: str = "", vocabulary: str = "", offset: int = 0, n: int = 100, holding: str = ""
    ) -> TermCounts:
        """The properties of the entities; of one class, or of all."""
        wanted = normalize_iri(vocabulary) or None
        if of_class:
            return self._named(entity_query.CLASS_PROPERTIES_SQL, (normalize_iri(of_class), wanted), offset, n, holding)
        return self._named(entity_query.TERM_COUNTS_SQL, (PROPERTY, wanted), offset, n, holding)

    def _named(self, sql: str, bindings: tuple[object, ...], offset: int, n: int, holding: str) -> TermCounts:
        offset, n = _bounded(offset, n, NAMES_MAX)
        letters = holding.strip().casefold()
        sums: dict[str, TermCount] = {}
        with self._reading() as parts:
            for iri, things, pages, uses in (row for part in parts for row in rows(part, sql, bindings)):
                if letters not in iri.casefold():
                    continue
                known = sums.get(iri, TermCount(iri, 0, 0))
                sums[iri] = TermCount(iri, known.things + things, known.pages + pages, known.uses + uses)
        ordered = sorted(sums.values(), key=lambda one: (-one.pages, -one.things, one.iri))
        return TermCounts(len(ordered), ordered[offset : offset + n])

    def entities(self, query: EntityQuery) -> EntityResults:
        """The entities that match a query."""
        offset, n = _bounded(query.offset, query.n, ENTITIES_MAX)
        _check(query)
        total, more, keys = 0, False, list[str]()
        with self._reading() as parts:
            for part in parts:
                question = entity_query.plan_query(part, query)
                if question is None:
                    continue
                count = question.count(part, TOTAL_MAX + 1)
                more = more or (count > TOTAL_MAX and not question.is_known)
                keys += question.keys(part, max(0, offset - total), n - len(keys)) if len(keys) < n else []
                total += count if question.is_known else min(count, TOTAL_MAX)
            found = [self._described(parts, key) for key in dict.fromkeys(keys)]
        return EntityResults(total, more, [one for one in found if one is not None])

    def entity(self, key: str) -> FoundEntity | None:
        """An entity with its statements and pages; None if it is unknown. The key is its IRI, or a blank node's."""
        with self._reading() as parts:
            return self._described(parts, key)

    def page_views(self, key: str) -> list[EntityPageView]:
        """The statements of each page about an entity, the page fetched last first."""
        with self._reading() as parts:
            several = [view for some in self._views(parts, key) for view in some]
        return sorted(several, key=lambda view: (-view.at, view.url))

    def entities_of_page(self, url: str, n: int = 20) -> list[FoundEntity]:
        """The first entities of a page."""
        _, n = _bounded(0, n, ENTITIES_MAX)
        with self._reading() as parts:
            keys = [key for part in parts for key in entity_view.entity_keys_of_page(part, url_id(url), n)]
            found = [self._described(parts, key) for key in dict.fromkeys(keys)]
        return [one for one in found if one is not None]

    def _described(self, parts: list[apsw.Connection], key: str) -> FoundEntity | None:
        views = self._views(parts, key)
        return entity_view.merge_views(key, views) if views else None

    def _views(self, parts: list[apsw.Connection], key: str) -> list[list[EntityPageView]]:
        """Taken-down pages are left out, even before the follower has removed them."""
        orders = self._taken_down.now()
        found = [[view for view in entity_view.page_views(part, key) if not orders.covers(view.url)] for part in parts]
        return [some for some in found if some]

    @contextmanager
    def _reading(self) -> Iterator[list[apsw.Connection]]:
        """One consistent state of each part, up to the time limit."""
        until = boottime() + TIME_S_MAX
        with ExitStack() as stack:
            try:
                parts = [part for part in shards.parts(self._data) if storage.exists(part)]
                yield [stack.enter_context(_opened(part, until)) for part in parts]
            except apsw.InterruptError:
                raise QueryError(
                    message("this takes longer than {seconds:g} s; ask for something narrower", seconds=TIME_S_MAX)
                ) from None


@contextmanager
def _opened(part: DataDirectory, until: float) -> Iterator[apsw.Connection]:
    connection = storage.database_file(part).open_readonly()
    try:
        connection.set_progress_handler(lambda: boottime() > until, STEPS)
        with connection:
            yield connection
    finally:
        connection.close()


def _bounded(offset: int, n: int, most: int) -> tuple[int, int]:
    if not 0 <= offset <= OFFSET_MAX:
        raise QueryError(message("offset must be from 0 to {most}, got {got}", most=OFFSET_MAX, got=offset))
    if not 0 <= n <= most:
        raise QueryError(message("n must be from 0 to {most}, got {got}", most=most, got=n))
    return offset, n


def _check(query: EntityQuery) -> None:
    if len(query.conditions) > CONDITIONS_MAX:
        raise QueryError(
            message(
                "at most {most} conditions, got {count}",
                most=CONDITIONS_MAX,
                count=len(query.conditions),
            )
        )
    texts = [query.of_class, query.not_class, query.vocabulary, query.collection]
    for one in query.conditions:
        texts += [one.property, one.words]
        if one.operator != "words" and not one.words.strip():
            raise QueryError(
                message(
                    "{property} {operator} what? Say a number, a date or a text",
                    property=one.property or message("a property"),
                    operator=one.operator,
                )
            )
    if any(len(text) > TEXT_CHARS_MAX for text in texts):
        raise QueryError(message("longer than the {most} characters allowed", most=TEXT_CHARS_MAX))
