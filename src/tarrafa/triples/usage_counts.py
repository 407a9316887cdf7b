"""Usage counts of vocabularies, classes and properties by pages and entities.

Per vocabulary, class and property: the number of pages, entities and uses; and the properties that are used with each
class. Promises: the numbers equal a complete recount, whatever pages come, go and come again: the contribution of a
page (its `PageUsage`) is stored with its row, and subtracted when the page is removed or replaced. An entity on many
pages counts once. Rows with a count of zero are deleted. Knows nothing of statements: names are already numbers.
"""

from collections import Counter, defaultdict
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


Membership = tuple[int, int, int]  # kind, name, entity


class UsageChanges:
    """The changes of the counts by a batch of pages, gathered and then written together."""

    def __init__(self) -> None:
        self._having: Counter[Membership] = Counter()  # pages
        self._counts: defaultdict[tuple[int, int], list[int]] = defaultdict(lambda: [0, 0])  # pages and uses
        self._together: defaultdict[tuple[int, int], list[int]] = defaultdict(lambda: [0, 0])
        self._totals: Counter[str] = Counter()

    def add(self, share: PageUsage, sign: int) -> None:
        """Add the contribution of a page (1), or subtract it (-1)."""
        terms: set[tuple[int, int]] = set()
        pairs: set[tuple[int, int]] = set()
        for part in share.parts:
            for kind, name in part.memberships():
                self._having[kind, name, part.thing] += sign
                terms.add((kind, name))
            for name, times in part.properties:
                self._counts[PROPERTY, name][1] += sign * times
                for one in part.classes:
                    self._together[one, name][1] += sign * times
                    pairs.add((one, name))
        for term in terms:
            self._counts[term][0] += sign
        for pair in pairs:
            self._together[pair][0] += sign
        self._totals["pages"] += sign
        self._totals["statements"] += sign * share.statements
        self._totals["inferred"] += sign * share.inferred

    def write(self, connection: apsw.Connection, fresh: set[int], things: int) -> None:
        """Write all changes. `fresh`: the entities that are new in this batch; `things`: by how much their number has
        changed."""
        turned = self._write_memberships(connection, fresh)
        many = connection.executemany
        many(
            "INSERT INTO counts VALUES (?, ?, ?, ?, ?) ON CONFLICT (kind, name) DO UPDATE SET"
            " things = things + excluded.things, pages = pages + excluded.pages, uses = uses + excluded.uses",
            [(*term, turned[term], pages, uses) for term, (pages, uses) in self._counts.items()],
        )
        many(
            "INSERT INTO together VALUES (?, ?, ?, ?) ON CONFLICT (class, property)"
            " DO UPDATE SET pages = pages + excluded.pages, uses = uses + excluded.uses",
            [(*pair, pages, uses) for pair, (pages, uses) in self._together.items()],
        )
        fewer = [term for term, (pages, _) in self._counts.items() if pages <= 0]
        many("DELETE FROM counts WHERE kind = ? AND name = ? AND pages = 0", fewer)
        fewer = [pair for pair, (pages, _) in self._together.items() if pages <= 0]
        many("DELETE FROM together WHERE class = ? AND property = ? AND pages = 0", fewer)
        self._totals["things"] += things
        many(
            "INSERT INTO totals VALUES (?, ?) ON CONFLICT (name) DO UPDATE SET value = value + excluded.value",
            list(self._totals.items()),
        )

    def _write_memberships(self, connection: apsw.Connection, fresh: set[int]) -> Counter[tuple[int, int]]:
        """The number of entities that each term has gained."""
        new = [(*one, pages) for one, pages in self._having.items() if one[2] in fresh]
        connection.executemany("INSERT INTO has VALUES (?, ?, ?, ?)", new)
        turned = Counter((kind, name) for kind, name, _, _ in new)
        gone: list[Membership] = []
        for one, change in self._having.items():
            if one[2] in fresh or not change:
                continue
            [(pages,)] = rows(
                connection,
                "INSERT INTO has VALUES (?, ?, ?, ?) ON CONFLICT (kind, name, thing)"
                " DO UPDATE SET pages = pages + excluded.pages RETURNING pages",
                (*one, change),
            )
            turned[one[:2]] += (pages > 0) - (pages > change)
            if pages == 0:
                gone.append(one)
        connection.executemany("DELETE FROM has WHERE kind = ? AND name = ? AND thing = ?", gone)
        return turned
