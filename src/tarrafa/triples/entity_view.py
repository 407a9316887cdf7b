"""Entity view: label, classes, values and source pages of one entity.

An entity's name, its classes, its properties with their values, and its pages, those fetched last first. Promises: the
view has a bounded size; the statements of a blank node are shown inside, one level deep, and a value that is an entity
itself carries its label. Inferred statements are not shown: no page states them. Knows nothing of queries.
"""

from datetime import UTC, datetime

import apsw
import msgspec

from tarrafa.model import UrlId
from tarrafa.parse.rdf.nquads import XSD_STRING, LiteralValue, iri_of, literal_value
from tarrafa.runtime.sqlite import rows
from tarrafa.triples.entity_index import TYPE_IRI

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


def page_views(connection: apsw.Connection, key: str) -> list[EntityPageView]:
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
        EntityPageView(url, at, label, *_facts(connection, said, opened), pages)
        for said, label, url, at, pages in found
    ]


def entity_keys_of_page(connection: apsw.Connection, page: UrlId, n: int) -> list[str]:
    """The entities of a page, in page order."""
    found = rows(
        connection,
        "SELECT t.key FROM pages p JOIN said s ON s.said >= p.page << 12 AND s.said < (p.page + 1) << 12"
        " JOIN things t ON t.thing = s.thing WHERE p.id = ? ORDER BY s.said LIMIT ?",
        (page, n),
    )
    return [key for (key,) in found]


def _facts(connection: apsw.Connection, said: int, opened: list[str]) -> tuple[list[str], list[EntityValue]]:
    classes: list[str] = []
    properties: list[EntityValue] = []
    for name, term in _terms(connection, said, VALUES_MAX):
        if name == TYPE_IRI and term.startswith("<"):
            classes.append(iri_of(term))
        else:
            properties.append(_shown(connection, name, term, said >> 12, opened))
    return classes, properties


def _terms(connection: apsw.Connection, said: int, most: int) -> list[tuple[str, str]]:
    return rows(
        connection,
        "SELECT n.iri, f.term FROM facts f JOIN names n ON n.name = f.property"
        " WHERE f.fact >= ?1 << 12 AND f.fact < (?1 + 1) << 12 AND NOT f.inferred LIMIT ?2",
        (said, most),
    )


def _shown(connection: apsw.Connection, name: str, term: str, page: int, opened: list[str]) -> EntityValue:
    said = literal_value(term)
    if said is not None:
        return _literal(name, said)
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
    said = literal_value(term)
    if said is None and term.startswith("_:"):
        labels = rows(
            connection, "SELECT s.label FROM things t JOIN said s ON s.thing = t.thing WHERE t.key = ? LIMIT 1", (term,)
        )
        return EntityValue(name, thing=term, label=labels[0][0] if labels else "")
    if said is None:
        return EntityValue(name, iri=iri_of(term))
    return _literal(name, said)


def _literal(name: str, said: LiteralValue) -> EntityValue:
    plain = said.language or said.datatype == XSD_STRING
    return EntityValue(name, said.text, language=said.language, datatype="" if plain else said.datatype)


def merge_views(key: str, parts: list[list[EntityPageView]]) -> FoundEntity:
    """One entity, from the statements of all pages, in all parts of the store."""
    several = sorted((view for views in parts for view in views), key=lambda view: (-view.at, view.url))
    classes = dict.fromkeys(name for view in several for name in view.classes)
    properties = dict.fromkeys(shown for view in several for shown in view.properties)
    label = next((view.label for view in several if view.label), "")
    pages = [EntitySource(view.url, _moment(view.at)) for view in several[:PAGES_MAX]]
    total = sum(views[0].pages for views in parts)
    return FoundEntity(key, label, list(classes), list(properties)[:VALUES_MAX], pages, total)


def _moment(at: float) -> str:
    return datetime.fromtimestamp(int(at), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
