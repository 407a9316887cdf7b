"""EntityReader: finds entities by vocabulary, class, property and words, and shows what their pages state.

For people who choose a vocabulary, a class (or *not* that class), properties and words, from the crawled pages.
Promises: reads committed data while the follower writes; every answer is bounded, in length and in time; counts are
exact, those of found entities up to `TOTAL_MAX`. An entity with an IRI on several pages is one entity (where the store
has several parts: in each of them); a blank node belongs to its page. The view of an entity has a bounded size; the
statements of a blank node are shown inside, one level deep, and a value that is an entity itself carries its label.
Inferred statements are not shown: no page states them. Knows nothing of SPARQL.
"""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime

import apsw
import msgspec

from tarrafa.clock import boottime
from tarrafa.errors import QueryError
from tarrafa.i18n import message
from tarrafa.index import shards
from tarrafa.model import UrlId
from tarrafa.parse.rdf.nquads import XSD_STRING, LiteralValue, iri_of, literal_value
from tarrafa.parse.rdf.prefixes import normalize_iri
from tarrafa.parse.url import url_id
from tarrafa.runtime.data_dir import DataDirectory
from tarrafa.runtime.sqlite import rows
from tarrafa.takedown import CurrentTakedowns
from tarrafa.triples import entity_query, storage
from tarrafa.triples.entity_index import TYPE_IRI
from tarrafa.triples.entity_query import EntityQuery
from tarrafa.triples.usage_counts import CLASS, PROPERTY, VOCABULARY

NAMES_MAX = 1_000  # that are listed at once
ENTITIES_MAX = 100  # that are shown at once
OFFSET_MAX = 100_000
TOTAL_MAX = 10_000  # entities that are counted one by one
CONDITIONS_MAX = 10
TEXT_CHARS_MAX = 2_000  # of a search text
TIME_S_MAX = 5.0
STEPS = 20_000  # of SQLite, between two checks of the time limit
PAGES_MAX = 20  # of an entity, that are read: those fetched last
PAGES_COMPARED_MAX = 1_000  # of an entity, to find these; of more, the newest in the index
VALUES_MAX = 60  # of an entity
INSIDE_MAX = 12  # of a blank node among these
OPENED_MAX = 60  # blank nodes that are expanded, for one entity


class EntityValue(msgspec.Struct, frozen=True, omit_defaults=True):
    """A value of a property. `thing` is the key of the entity that it leads to, `label` its name; `inside`, the
    statements of a blank node.
    """

    property: str
    text: str = ""
    iri: str = ""
    language: str = ""
    datatype: str = ""
    thing: str = ""
    label: str = ""
    inside: tuple["EntityValue", ...] = ()


class EntitySource(msgspec.Struct, frozen=True):
    """A page with statements about an entity, and when it was fetched."""

    url: str
    fetched: str


class FoundEntity(msgspec.Struct, frozen=True):
    """An entity; `key` requests it again."""

    key: str
    label: str
    classes: list[str]
    properties: list[EntityValue]
    pages: list[EntitySource]
    pages_total: int


class EntityPageView(msgspec.Struct, frozen=True):
    """The statements of one page about an entity."""

    url: str
    at: float
    label: str
    classes: list[str]
    properties: list[EntityValue]
    pages: int  # of its part, with statements about it


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
            keys = [key for part in parts for key in _entity_keys_of_page(part, url_id(url), n)]
            found = [self._described(parts, key) for key in dict.fromkeys(keys)]
        return [one for one in found if one is not None]

    def _described(self, parts: list[apsw.Connection], key: str) -> FoundEntity | None:
        views = self._views(parts, key)
        return _merge_views(key, views) if views else None

    def _views(self, parts: list[apsw.Connection], key: str) -> list[list[EntityPageView]]:
        """Taken-down pages are left out, even before the follower has removed them."""
        orders = self._taken_down.now()
        found = [[view for view in _page_views(part, key) if not orders.covers(view.url)] for part in parts]
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
            message("at most {most} conditions, got {count}", most=CONDITIONS_MAX, count=len(query.conditions))
        )
    texts = [query.of_class, query.not_class, query.vocabulary, query.collection]
    for one in query.conditions:
        texts += [one.property, one.words]
        if one.operator != "words" and not one.words.strip():
            raise QueryError(
                message(
                    "{property} {operator}: the value is missing; give a number, a date or a text",
                    property=one.property or message("a property"),
                    operator=one.operator,
                )
            )
    if (count := max(map(len, texts), default=0)) > TEXT_CHARS_MAX:
        raise QueryError(
            message("too long: {count} characters, at most {most} are read", count=count, most=TEXT_CHARS_MAX)
        )


# -- one entity --------------------------------------------------------------------------------------------------------


def _page_views(connection: apsw.Connection, key: str) -> list[EntityPageView]:
    """The statements of the pages about an entity, the page fetched last first."""
    found = rows(
        connection,
        "SELECT x.said, x.label, p.url, p.at, x.pages FROM (SELECT s.said, s.label, t.pages FROM things t JOIN said s"
        " ON s.thing = t.thing WHERE t.key = ? ORDER BY s.said DESC LIMIT ?) x"
        " JOIN pages p ON p.page = x.said >> 12 ORDER BY p.at DESC, p.url LIMIT ?",
        (key, PAGES_COMPARED_MAX, PAGES_MAX),
    )
    opened: list[str] = []
    return [
        EntityPageView(url, at, label, *_facts(connection, mention, opened), pages)
        for mention, label, url, at, pages in found
    ]


def _entity_keys_of_page(connection: apsw.Connection, page: UrlId, n: int) -> list[str]:
    """The entities of a page, in page order."""
    found = rows(
        connection,
        "SELECT t.key FROM pages p JOIN said s ON s.said >= p.page << 12 AND s.said < (p.page + 1) << 12"
        " JOIN things t ON t.thing = s.thing WHERE p.id = ? ORDER BY s.said LIMIT ?",
        (page, n),
    )
    return [key for (key,) in found]


def _facts(connection: apsw.Connection, mention: int, opened: list[str]) -> tuple[list[str], list[EntityValue]]:
    classes: list[str] = []
    properties: list[EntityValue] = []
    for name, term in _terms(connection, mention, VALUES_MAX):
        if name == TYPE_IRI and term.startswith("<"):
            classes.append(iri_of(term))
        else:
            properties.append(_shown(connection, name, term, mention >> 12, opened))
    return classes, properties


def _terms(connection: apsw.Connection, mention: int, most: int) -> list[tuple[str, str]]:
    return rows(
        connection,
        "SELECT n.iri, f.term FROM facts f JOIN names n ON n.name = f.property"
        " WHERE f.fact >= ?1 << 12 AND f.fact < (?1 + 1) << 12 AND NOT f.inferred LIMIT ?2",
        (mention, most),
    )


def _shown(connection: apsw.Connection, name: str, term: str, page: int, opened: list[str]) -> EntityValue:
    value = literal_value(term)
    if value is not None:
        return _literal(name, value)
    key = iri_of(term) or term
    of_thing = "SELECT s.said, s.label FROM things t JOIN said s ON s.thing = t.thing WHERE t.key = ?"
    # without sorting: every page may describe the same publisher
    here = " AND s.said >= ? << 12 AND s.said < (? + 1) << 12"
    other = rows(connection, f"{of_thing}{here} LIMIT 1", (key, page, page))
    other = other or rows(connection, f"{of_thing} ORDER BY s.said LIMIT 1", (key,))
    number, label = other[0] if other else (None, "")
    if key != term:
        return EntityValue(name, iri=key, thing=key if other else "", label=label)
    opens = number is not None and len(opened) < OPENED_MAX
    if opens:
        opened.append(key)
    facts = _terms(connection, number, INSIDE_MAX) if opens else []
    inside = tuple(_plain(connection, *fact) for fact in facts)
    return EntityValue(name, thing=key, label=label, inside=inside)


def _plain(connection: apsw.Connection, name: str, term: str) -> EntityValue:
    """The statements of a blank node; a further one inside it is shown by its name."""
    value = literal_value(term)
    if value is None and term.startswith("_:"):
        labels = rows(
            connection, "SELECT s.label FROM things t JOIN said s ON s.thing = t.thing WHERE t.key = ? LIMIT 1", (term,)
        )
        return EntityValue(name, thing=term, label=labels[0][0] if labels else "")
    if value is None:
        return EntityValue(name, iri=iri_of(term))
    return _literal(name, value)


def _literal(name: str, value: LiteralValue) -> EntityValue:
    plain = value.language or value.datatype == XSD_STRING
    return EntityValue(name, value.text, language=value.language, datatype="" if plain else value.datatype)


def _merge_views(key: str, parts: list[list[EntityPageView]]) -> FoundEntity:
    """One entity, from the statements of all pages, in all parts of the store."""
    several = sorted((view for views in parts for view in views), key=lambda view: (-view.at, view.url))
    classes = dict.fromkeys(name for view in several for name in view.classes)
    properties = dict.fromkeys(shown for view in several for shown in view.properties)
    label = next((view.label for view in several if view.label), "")
    pages = [EntitySource(view.url, iso_time(view.at)) for view in several[:PAGES_MAX]]
    total = sum(views[0].pages for views in parts)
    return FoundEntity(key, label, list(classes), list(properties)[:VALUES_MAX], pages, total)


def iso_time(at: float) -> str:
    return datetime.fromtimestamp(int(at), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
