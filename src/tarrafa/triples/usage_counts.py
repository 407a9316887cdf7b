"""Usage counts of vocabularies, classes and properties by pages and entities.

Per vocabulary, class and property: the number of pages, entities and uses; and the properties that are used with each
class. Promises: the numbers equal a complete recount, whatever pages come, go and come again: the contribution of a
page (its `PageUsage`) is stored with its row, and subtracted when the page is removed or replaced. An entity on many
pages counts once. Rows with a count of zero are deleted. Knows nothing of statements: names are already numbers.
"""

from collections import Counter
from collections.abc import Iterator

import apsw
import msgspec

from tarrafa.parse.rdf.prefixes import vocabulary_of
from tarrafa.runtime.sqlite import rows

NAMES_CACHED_MAX = 100_000
CLASS, PROPERTY, VOCABULARY = range(3)
ANY = 0  # the term of all classes: every entity with a class has it


class EntityUsage(msgspec.Struct, frozen=True, array_like=True):
    """The statements of a page about one entity, as numbers. `properties` with their counts."""

    thing: int
    classes: tuple[int, ...]
    properties: tuple[tuple[int, int], ...]
    vocabularies: tuple[int, ...]

    def memberships(self) -> Iterator[tuple[int, int]]:
        if self.classes:
            yield CLASS, ANY
        for name in self.classes:
            yield CLASS, name
        for name, _ in self.properties:
            yield PROPERTY, name
        for name in self.vocabularies:
            yield VOCABULARY, name


class PageUsage(msgspec.Struct, frozen=True, array_like=True):
    """The contribution of a page to the counts."""

    statements: int = 0
    inferred: int = 0
    parts: tuple[EntityUsage, ...] = ()


encode = msgspec.msgpack.Encoder().encode
decode = msgspec.msgpack.Decoder(PageUsage).decode


class TermNumbers:
    """Numbers for classes, properties and vocabularies; a number is never reused."""

    def __init__(self, connection: apsw.Connection) -> None:
        self._connection = connection
        self._known: dict[str, int] = {}

    def number(self, iri: str) -> int:
        known = self._known.get(iri)
        if known is None:
            if len(self._known) >= NAMES_CACHED_MAX:
                self._known.clear()
            found = rows(self._connection, "SELECT name FROM names WHERE iri = ?", (iri,))
            known = self._known[iri] = found[0][0] if found else self._new(iri)
        return known

    def _new(self, iri: str) -> int:
        above = vocabulary_of(iri)
        vocabulary = self.number(above) if above and above != iri else None
        self._connection.execute("INSERT INTO names (iri, vocabulary) VALUES (?, ?)", (iri, vocabulary))
        return self._connection.last_insert_rowid()


def apply_usage(connection: apsw.Connection, share: PageUsage, sign: int, alone: frozenset[int]) -> None:
    """Add the contribution of a page (1), or subtract it (-1). `alone`: the entities that no other page describes."""
    having = [(kind, name, part.thing) for part in share.parts for kind, name in part.memberships()]
    turned = _update_memberships(connection, having, sign, alone)
    uses, together = _uses(share)
    named = dict.fromkeys((kind, name) for kind, name, _ in having)
    connection.executemany(
        "INSERT INTO counts VALUES (?, ?, ?, ?, ?) ON CONFLICT (kind, name) DO UPDATE SET"
        " things = things + excluded.things, pages = pages + excluded.pages, uses = uses + excluded.uses",
        [(*one, sign * turned[one], sign, sign * (uses[one[1]] if one[0] == PROPERTY else 0)) for one in named],
    )
    connection.executemany(
        "INSERT INTO together VALUES (?, ?, ?, ?) ON CONFLICT (class, property)"
        " DO UPDATE SET pages = pages + excluded.pages, uses = uses + excluded.uses",
        [(*pair, sign, sign * times) for pair, times in together.items()],
    )
    if sign < 0:
        connection.executemany("DELETE FROM counts WHERE kind = ? AND name = ? AND pages = 0", named)
        connection.executemany("DELETE FROM together WHERE class = ? AND property = ? AND pages = 0", together)
    sums = {"pages": 1, "statements": share.statements, "inferred": share.inferred, "things": len(alone)}
    connection.executemany(
        "INSERT INTO totals VALUES (?, ?) ON CONFLICT (name) DO UPDATE SET value = value + excluded.value",
        [(name, sign * number) for name, number in sums.items()],
    )


def _uses(share: PageUsage) -> tuple[Counter[int], Counter[tuple[int, int]]]:
    """The number of uses of each property, and with which class."""
    uses: Counter[int] = Counter()
    together: Counter[tuple[int, int]] = Counter()
    for part in share.parts:
        for name, times in part.properties:
            uses[name] += times
            for one in part.classes:
                together[one, name] += times
    return uses, together


Membership = tuple[int, int, int]  # kind, name, entity


def _update_memberships(
    connection: apsw.Connection, having: list[Membership], sign: int, alone: frozenset[int]
) -> Counter[tuple[int, int]]:
    """Update the memberships of entities; the number of entities that gained or lost each term."""
    own = [one for one in having if one[2] in alone]
    if sign > 0:
        connection.executemany("INSERT INTO has VALUES (?, ?, ?, 1)", own)
    else:
        connection.executemany("DELETE FROM has WHERE kind = ? AND name = ? AND thing = ?", own)
    turned = Counter((kind, name) for kind, name, _ in own)
    for one in having:
        if one[2] in alone:
            continue
        [(pages,)] = rows(
            connection,
            "INSERT INTO has VALUES (?, ?, ?, ?) ON CONFLICT (kind, name, thing)"
            " DO UPDATE SET pages = pages + excluded.pages RETURNING pages",
            (*one, sign),
        )
        if pages == 0:
            connection.execute("DELETE FROM has WHERE kind = ? AND name = ? AND thing = ?", one)
        if pages == (1 if sign > 0 else 0):
            turned[one[:2]] += 1
    return turned
