"""Entity index in SQLite: the entities of a page, their labels, facts and searchable words.

An *entity* is the subject of statements. An entity with an IRI is the same on every page; a blank node belongs to its
page. Promises: the entries of a page can be removed completely; each value is found by its words, without accents, by
its number and by its date, if it is one; an IRI by the words in it. The number of entries is bounded: statements beyond
that are in the store, and not in the index. Knows nothing of the store.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import apsw

from tarrafa.parse.rdf.entity import NAME_PROPERTIES, vocabularies
from tarrafa.parse.rdf.nquads import RDF, XSD, Statement, iri_of, literal_value
from tarrafa.runtime.sqlite import rows
from tarrafa.triples.storage import PAGE_SHIFT, SAID_SHIFT
from tarrafa.triples.usage_counts import EntityUsage, PageUsage, TermNumbers, UsageChanges
from tarrafa.triples.values import date_range, parse_number

ENTITIES_PER_PAGE_MAX = (1 << PAGE_SHIFT) - 1  # of a page
FACTS_PER_ENTITY_MAX = (1 << SAID_SHIFT) - 1  # of an entity on a page
TERM_CHARS_MAX = 1_000  # that are shown; the store has the whole term
WORDS_CHARS_MAX = 4_000  # that are indexed
LABEL_CHARS_MAX = 200
TYPE_IRI = f"{RDF}type"

_rank = {name: place for place, name in enumerate(NAME_PROPERTIES)}
_BEGINNINGS = frozenset("0123456789+-.")  # first characters of numbers and dates
_BLIND = frozenset(f"{XSD}{name}" for name in ("base64Binary", "hexBinary"))


class EntityFact(NamedTuple):
    """One statement about an entity, as text."""

    property: str
    term: str
    inferred: bool


class EntityMention(NamedTuple):
    """The statements of a page about one entity."""

    key: str
    facts: list[EntityFact]


def page_entities(statements: Iterable[Statement], inferred: Iterable[Statement] = ()) -> list[EntityMention]:
    """The entities of a page, from its own statements and from inferred ones."""
    found: dict[str, EntityMention] = {}
    for guessed, some in ((False, statements), (True, inferred)):
        for one in some:
            thing = found.get(one.subject)
            if thing is None:
                if len(found) >= ENTITIES_PER_PAGE_MAX:
                    continue
                key = one.subject if one.subject.startswith("_:") else iri_of(one.subject)
                thing = found[one.subject] = EntityMention(key, [])
            if len(thing.facts) < FACTS_PER_ENTITY_MAX:
                thing.facts.append(EntityFact(iri_of(one.predicate), one.object, guessed))
    return list(found.values())


def label_of(facts: Sequence[EntityFact]) -> str:
    """The label of an entity: its name, its title; else its first text."""
    best, found = len(NAME_PROPERTIES) + 1, ""
    for fact in facts:
        rank = _rank.get(fact.property, len(NAME_PROPERTIES))
        if rank < best and not fact.inferred:
            literal = literal_value(fact.term)
            text = " ".join(literal.text[: 4 * LABEL_CHARS_MAX].split()) if literal is not None else ""
            if text:
                best, found = rank, text
    return found[:LABEL_CHARS_MAX]


class StatedPage(NamedTuple):
    """The statements of a page, under its number."""

    page: int
    statements: Sequence[Statement]
    inferred: Sequence[Statement]


class EntityIndex:
    """The writing side, on the connection that writes."""

    def __init__(self, connection: apsw.Connection) -> None:
        self._connection = connection
        self.names = TermNumbers(connection)
        self._next_thing: int = 1 + rows(connection, "SELECT ifnull(max(thing), 0) FROM things")[0][0]

    def replace(self, removed: Sequence[tuple[int, PageUsage]], added: Sequence[StatedPage]) -> list[PageUsage]:
        """Remove all entries of some pages, with their contributions to the usage counts, and write those of others,
        which have none yet; their contributions."""
        usage, mentions = UsageChanges(), Counter[int]()
        for number, share in removed:
            self._delete(number)
            usage.add(share, -1)
            mentions.subtract(part.thing for part in share.parts)
        pages = [(page, page_entities(page.statements, page.inferred)) for page in added]
        numbers, fresh = self._numbers({thing.key for _, things in pages for thing in things})
        shares = []
        for page, things in pages:
            parts = tuple(self._part(numbers[one.key], one) for one in things)
            shares.append(PageUsage(len(page.statements), len(page.inferred), parts))
            usage.add(shares[-1], 1)
            mentions.update(part.thing for part in parts)
        self._write_mentions(pages, numbers)
        usage.write(self._connection, set(fresh), self._write_things(mentions, fresh))
        return shares

    def _numbers(self, keys: set[str]) -> tuple[dict[str, int], dict[int, str]]:
        """The numbers of entities, and those of them that are new."""
        if not keys:
            return {}, {}
        sql = "SELECT key, thing FROM carray(?) one CROSS JOIN things ON key = one.value"
        numbers: dict[str, int] = dict(rows(self._connection, sql, (apsw.carray(tuple(sorted(keys))),)))
        fresh = dict(enumerate(sorted(keys - numbers.keys()), self._next_thing))
        self._next_thing += len(fresh)
        return numbers | {key: number for number, key in fresh.items()}, fresh

    def _write_things(self, mentions: Counter[int], fresh: dict[int, str]) -> int:
        """Write on how many more or fewer pages entities are, and delete those that are on none any more; the change of
        the number of entities."""
        many = self._connection.executemany
        many("INSERT INTO things VALUES (?, ?, ?)", [(number, key, mentions[number]) for number, key in fresh.items()])
        changes = [(by, number) for number, by in mentions.items() if by and number not in fresh]
        many("UPDATE things SET pages = pages + ? WHERE thing = ?", changes)
        gone = 0
        for by, number in changes:
            if by < 0:
                self._connection.execute("DELETE FROM things WHERE thing = ? AND pages = 0", (number,))
                gone += self._connection.changes()
        return len(fresh) - gone

    def _write_mentions(self, pages: list[tuple[StatedPage, list[EntityMention]]], numbers: dict[str, int]) -> None:
        placed = [(place, one) for page, things in pages for place, one in enumerate(things, page.page << PAGE_SHIFT)]
        self._connection.executemany(
            "INSERT INTO said VALUES (?, ?, ?)",
            [(place, numbers[one.key], label_of(one.facts)) for place, one in placed],
        )
        self._write((place, one.facts) for place, one in placed)

    def _write(self, several: Iterable[tuple[int, list[EntityFact]]]) -> None:
        written: list[tuple[object, ...]] = []
        words: list[tuple[int, str]] = []
        number_of = self.names.number
        for mention, facts in several:
            for place, fact in enumerate(facts, mention << SAID_SHIFT):
                text, number, moment = search_keys(fact)
                row = (place, number_of(fact.property), _shown(fact.term), number, moment, int(fact.inferred))
                written.append(row)
                if text:
                    words.append((place, text))
        self._connection.executemany("INSERT INTO facts VALUES (?, ?, ?, ?, ?, ?)", written)
        self._connection.executemany("INSERT INTO words (rowid, text) VALUES (?, ?)", words)

    def _part(self, thing: int, one: EntityMention) -> EntityUsage:
        number = self.names.number
        classes = [iri_of(fact.term) for fact in one.facts if _is_class(fact)]
        uses = Counter(fact.property for fact in one.facts if not _is_class(fact))
        spoken = vocabularies((*classes, *uses))
        return EntityUsage(
            thing,
            tuple(dict.fromkeys(map(number, classes))),
            tuple((number(name), times) for name, times in uses.items()),
            tuple(map(number, spoken)),
        )

    def _delete(self, page: int) -> None:
        run, mentions = self._connection.execute, (page << PAGE_SHIFT, (page + 1) << PAGE_SHIFT)
        facts = tuple(end << SAID_SHIFT for end in mentions)
        run("DELETE FROM words WHERE rowid >= ? AND rowid < ?", facts)
        run("DELETE FROM facts WHERE fact >= ? AND fact < ?", facts)
        run("DELETE FROM said WHERE said >= ? AND said < ?", mentions)


def _is_class(fact: EntityFact) -> bool:
    return fact.property == TYPE_IRI and fact.term.startswith("<")


def _shown(term: str) -> str:
    if len(term) <= TERM_CHARS_MAX:
        return term
    literal = literal_value(term)
    if literal is None:
        return term  # an IRI has its own bound
    cut = literal.text[: TERM_CHARS_MAX // 2].replace("\\", "\\\\").replace('"', '\\"')
    return '"' + cut.replace("\n", "\\n").replace("\r", "\\r") + '…"'


def search_keys(fact: EntityFact) -> tuple[str, float | None, float | None]:
    """The words, the number and the date by which a value is found."""
    if _is_class(fact) or fact.term.startswith("_:"):
        return "", None, None
    literal = literal_value(fact.term)
    if literal is None:
        return iri_of(fact.term), None, None
    if literal.datatype in _BLIND:
        return "", None, None
    text = literal.text[:WORDS_CHARS_MAX].strip()
    if text[:1] not in _BEGINNINGS:
        return text, None, None
    when = date_range(text)
    return text, parse_number(text), when[0] if when is not None else None
