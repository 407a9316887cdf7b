"""Plans an entity query as SQL over the entity index.

One part of the query *drives*: it lists candidates in order, from the index with the fewest of them (words before dates
and numbers, these before a class, that before a vocabulary). Every other part is checked for one candidate at a time.
So the cost of a query grows with its result, and not with the size of the index: nothing is sorted, and counting ends
at a bound. Texts are always bound parameters, never part of the SQL. Knows nothing of how an entity is shown.
"""

import re
from dataclasses import dataclass
from typing import Literal, NamedTuple

import apsw
import msgspec

from tarrafa.errors import QueryError
from tarrafa.i18n import message
from tarrafa.parse.rdf.nquads import iri, literal
from tarrafa.parse.rdf.prefixes import normalize_iri
from tarrafa.runtime.sqlite import rows
from tarrafa.triples.usage_counts import ANY, CLASS, PROPERTY, VOCABULARY
from tarrafa.triples.values import date_range, parse_number


class EntityCondition(msgspec.Struct, frozen=True):
    """An entity has that property, with these words in one value of it. No words: any value; no property: any property.
    `=` compares a whole text, IRI, number or date; the other operators are for numbers and dates (2026, 2026-01-31...).
    """

    property: str = ""
    words: str = ""
    operator: Literal["words", "=", "<", "<=", ">", ">="] = "words"


class EntityQuery(msgspec.Struct, frozen=True, rename={"of_class": "class"}):
    """All conditions must hold. `not_class`: entities with classes, but not that one."""

    of_class: str = ""
    not_class: str = ""
    vocabulary: str = ""
    conditions: tuple[EntityCondition, ...] = ()
    collection: str = ""
    offset: int = 0
    n: int = 10


TERM_COUNTS_SQL = (
    "SELECT n.iri, c.things, c.pages, c.uses FROM counts c JOIN names n USING (name)"
    " WHERE c.kind = ?1 AND (?2 IS NULL OR n.vocabulary = (SELECT name FROM names WHERE iri = ?2))"
)
CLASS_PROPERTIES_SQL = (
    "SELECT n.iri, 0, t.pages, t.uses FROM together t JOIN names n ON n.name = t.property"
    " WHERE t.class = (SELECT name FROM names WHERE iri = ?1)"
    " AND (?2 IS NULL OR n.vocabulary = (SELECT name FROM names WHERE iri = ?2))"
)

# The tables of a fact: `f` is the fact, `s` its subject.
_BY_WORDS = (
    "SELECT DISTINCT s.thing AS thing FROM words w CROSS JOIN facts f ON f.fact = w.rowid"
    " CROSS JOIN said s ON s.said = f.fact >> 12 WHERE words MATCH ?"
)
_BY_NUMBER = (
    "SELECT DISTINCT s.thing AS thing FROM facts f INDEXED BY facts_by_number"
    " CROSS JOIN said s ON s.said = f.fact >> 12 WHERE f.number IS NOT NULL"
)
_BY_MOMENT = (
    "SELECT DISTINCT s.thing AS thing FROM facts f INDEXED BY facts_by_moment"
    " CROSS JOIN said s ON s.said = f.fact >> 12 WHERE f.moment IS NOT NULL"
)
_OF_THING = (
    "EXISTS (SELECT 1 FROM said s CROSS JOIN facts f ON f.fact >= s.said << 12 AND f.fact < (s.said + 1) << 12"
    " WHERE s.thing = t.thing"
)
_HAS = "SELECT thing FROM has WHERE kind = ? AND name = ?"
_IS = "EXISTS (SELECT 1 FROM has h WHERE h.kind = ? AND h.name = ? AND h.thing = t.thing)"
_IN_COLLECTION = (
    "EXISTS (SELECT 1 FROM said s JOIN pages p ON p.page = s.said >> 12 JOIN visits v ON v.id = p.id"
    " WHERE s.thing = t.thing AND v.collection = ? AND v.file IS NOT NULL)"
)
_word = re.compile(r"[^\W_]+\*?")

Bindings = tuple[object, ...]


class EntityQueryPart(NamedTuple):
    """A part of a query: the SQL that lists its entities, and the SQL that checks one; the smaller `rank`, the fewer
    entities.
    """

    rank: int
    driver: str
    driving: Bindings
    test: str
    testing: Bindings
    things: int | None = None  # the number of its entities, if known


@dataclass(frozen=True, slots=True)
class EntityQueryPlan:
    """A query as SQL."""

    sql: str
    bindings: Bindings
    known: int | None

    @property
    def is_known(self) -> bool:
        """Whether the number of results is known without counting them."""
        return self.known is not None

    def count(self, connection: apsw.Connection, most: int) -> int:
        if self.known is not None:
            return self.known
        sql = f"SELECT count(*) FROM ({self.sql} LIMIT ?)"  # noqa: S608 (made of the texts above alone)
        return int(rows(connection, sql, (*self.bindings, most))[0][0])

    def keys(self, connection: apsw.Connection, offset: int, n: int) -> list[str]:
        sql = f"SELECT k.key FROM ({self.sql} LIMIT ? OFFSET ?) x JOIN things k ON k.thing = x.thing"  # noqa: S608
        return [key for (key,) in rows(connection, sql, (*self.bindings, n, offset))]


def plan_query(connection: apsw.Connection, query: EntityQuery) -> EntityQueryPlan | None:
    """The plan for one part of the store; None: there can be no result."""
    pieces: list[EntityQueryPart] = []
    for kind, text in ((CLASS, query.of_class), (VOCABULARY, query.vocabulary)):
        if text:
            name = _name(connection, text)
            if name is None:
                return None
            pieces.append(_member_part(connection, kind, name))
    for condition in query.conditions:
        piece = _condition_part(connection, condition)
        if piece is None:
            return None
        pieces.append(piece)
    unless = _name(connection, query.not_class) if query.not_class else None
    if query.not_class:
        pieces.append(_member_part(connection, CLASS, ANY))
    if not pieces:
        total = rows(connection, "SELECT value FROM totals WHERE name = 'things'")[0][0]
        pieces.append(EntityQueryPart(9, "SELECT thing FROM things", (), "1", (), total))
    pieces.sort(key=lambda piece: (piece.rank, piece.things or 0))
    return _joined(pieces, unless, query.collection)


def _joined(pieces: list[EntityQueryPart], unless: int | None, collection: str) -> EntityQueryPlan:
    tests = [(piece.test, piece.testing) for piece in pieces[1:]]
    if unless is not None:
        tests.append((f"NOT {_IS}", (CLASS, unless)))
    if collection:
        tests.append((_IN_COLLECTION, (collection,)))
    known = pieces[0].things if not tests else None
    where = " AND ".join(test for test, _ in tests) or "1"
    bindings = (*pieces[0].driving, *(value for _, several in tests for value in several))
    return EntityQueryPlan(f"SELECT t.thing AS thing FROM ({pieces[0].driver}) t WHERE {where}", bindings, known)  # noqa: S608


def _name(connection: apsw.Connection, text: str) -> int | None:
    found = rows(connection, "SELECT name FROM names WHERE iri = ?", (normalize_iri(text.strip()),))
    return found[0][0] if found else None


def _member_part(connection: apsw.Connection, kind: int, name: int) -> EntityQueryPart:
    found = rows(connection, "SELECT things FROM counts WHERE kind = ? AND name = ?", (kind, name))
    return EntityQueryPart(2, _HAS, (kind, name), _IS, (kind, name), found[0][0] if found else 0)


def _condition_part(connection: apsw.Connection, condition: EntityCondition) -> EntityQueryPart | None:
    name: int | None = None
    if condition.property:
        name = _name(connection, condition.property)
        if name is None:
            return None
    text = condition.words.strip()
    if condition.operator != "words":
        return _compared(name, condition.operator, text)
    if not text:
        return _member_part(connection, PROPERTY, name) if name is not None else _member_part(connection, CLASS, ANY)
    words = _word.findall(text)
    if not words:
        return None
    match = " ".join(f'"{word[:-1]}"*' if word.endswith("*") else f'"{word}"' for word in words)
    return _matched(name, match)


def _matched(name: int | None, match: str, more: str = "", bound: Bindings = ()) -> EntityQueryPart:
    """Words are looked up once for all candidates, whichever part drives."""
    of = " AND f.property = ?" if name is not None else ""
    driver, driving = f"{_BY_WORDS}{of}{more}", (match, *(() if name is None else (name,)), *bound)
    return EntityQueryPart(0, driver, driving, f"t.thing IN ({driver})", driving)


_MOMENTS = {"<": ("<", 0), "<=": ("<", 1), ">": (">=", 1), ">=": (">=", 0)}


def _compared(name: int | None, operator: str, text: str) -> EntityQueryPart:
    """Compare a number with numbers, a date with dates; a year with both."""
    number, when = parse_number(text), date_range(text)
    if number is None and when is None:
        if operator == "=":
            return _equal(name, text)
        raise QueryError(
            message(
                "{operator} {text}: must be a number, or a date such as 2026-01-31",
                operator=operator,
                text=repr(text[:80]),
            )
        )
    if operator != "=" and name is None:
        raise QueryError(message("{operator} {text}: of which property?", operator=operator, text=text[:80]))
    tests: list[str] = []
    bound: list[object] = []
    if number is not None:
        tests.append(f"f.number {operator} ?")
        bound.append(number)
    if when is not None:
        if operator == "=":
            tests.append("(f.moment >= ? AND f.moment < ?)")
            bound += when
        else:
            sign, end = _MOMENTS[operator]
            tests.append(f"f.moment {sign} ?")
            bound.append(when[end])
    of, whose = ("f.property = ? AND ", (name,)) if name is not None else ("", ())
    test = " OR ".join(tests)
    # + : not by an index over all entities
    looked_up = f"{_OF_THING} AND {of}({test}))".replace("f.property", "+f.property")
    looked_up = looked_up.replace("f.number", "+f.number").replace("f.moment", "+f.moment")
    if len(tests) == 1 and name is not None:
        driver = f"{_BY_NUMBER if when is None else _BY_MOMENT} AND {of}{tests[0]}"
    elif name is not None:
        return _either(of, tests, (name,), bound, looked_up)
    else:
        every = "SELECT thing FROM things t WHERE " + looked_up  # noqa: S608 (values are bound)
        return EntityQueryPart(9, every, tuple(bound), looked_up, tuple(bound))
    return EntityQueryPart(1, driver, (*whose, *bound), looked_up, (*whose, *bound))


def _either(of: str, tests: list[str], whose: Bindings, bound: list[object], looked_up: str) -> EntityQueryPart:
    """A value that may be a number or a date: both indexes are used."""
    driver = f"{_BY_NUMBER} AND {of}{tests[0]} UNION {_BY_MOMENT} AND {of}{tests[1]}"
    return EntityQueryPart(1, driver, (*whose, bound[0], *whose, *bound[1:]), looked_up, (*whose, *bound))


def _equal(name: int | None, text: str) -> EntityQueryPart:
    """The whole text, in any language; or the whole IRI."""
    words = _word.findall(text)
    if not words:
        raise QueryError(message("= {text}: there is no word in it", text=repr(text[:80])))
    match = '"' + " ".join(word.rstrip("*") for word in words) + '"'
    quoted, named = literal(text) or '""', iri(text) or ""
    return _matched(name, match, " AND (f.term = ? OR substr(f.term, 1, length(?)) = ?)", (named, quoted, quoted))
