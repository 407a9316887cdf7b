"""How is a query said to the index?

Promises: a word asks for all its readings (the language of a query's words is unknown), and they weigh alike: each is
boosted to the rarity that the readings have together. Without that, three French pages would stand above ten thousand
Portuguese ones, because *their* spelling of the word is rare. Readings that no page holds are left out.
Ranking, as measured (DESIGN section 5): BM25 of the catch-all field, plus 0.3 of the title's.
Knows nothing of hits or snippets.
"""

from collections.abc import Iterable
from math import log

import tantivy
from tantivy import Occur
from tantivy import Query as Said

from tarrafa.index import schema
from tarrafa.index.analysis import readings, words
from tarrafa.index.documents import halves
from tarrafa.index.reader import Snapshot
from tarrafa.model import UrlId
from tarrafa.search.query import Filter, Query

TITLE_SHARE = 0.3
FIELDS = {"site": schema.SITE, "host": schema.HOST, "lang": schema.LANGUAGE}


def matching(query: Query, snapshot: Snapshot, collection: str | None) -> Said:
    """The query that finds and scores the documents."""
    parts: list[tuple[Occur, Said]] = []
    for text in query.must:
        parts.append((Occur.Must, _content(text, snapshot) or Said.empty_query()))
    some = [found for text in query.some if (found := _content(text, snapshot)) is not None]
    if query.some:
        parts.append((Occur.Should if query.must else Occur.Must, _any(some)))
    if query.sought:
        titles = [found for text in query.sought for found in _title(text, snapshot)]
        parts.extend((Occur.Should, Said.boost_query(found, TITLE_SHARE)) for found in titles)
    for text in query.never:
        found = _content(text, snapshot)
        if found is not None:
            parts.append((Occur.MustNot, found))
    parts.extend(map(_filter, query.filters))
    if collection is not None:
        parts.append(_required(schema.COLLECTION, collection))
    return Said.boolean_query(parts)


def of_page(key: UrlId, collection: str | None) -> Said:
    """The documents of a URL, and of others whose id begins as its does: there may be some, in theory."""
    return _exactly(schema.ID_HIGH, [halves(key)[0]], collection)


def saying(contents: Iterable[int], collection: str | None) -> Said:
    """The documents with one of these contents."""
    return _exactly(schema.CONTENT, list(contents), collection)


def _exactly(field: str, numbers: list[int], collection: str | None) -> Said:
    found = [(Occur.Must, Said.term_set_query(schema.SCHEMA, field, numbers))]
    return Said.boolean_query(found if collection is None else [*found, _required(schema.COLLECTION, collection)])


def wanted(query: Query) -> frozenset[str]:
    """All terms that speak for a page, in any language: what a snippet marks."""
    return frozenset(term for text in query.sought for reading in readings(text) for term in reading)


def _content(text: str, snapshot: Snapshot) -> Said | None:
    """Pages with this word or phrase anywhere; None when there is none."""
    weighed = _weighed(schema.ALL, readings(text), snapshot)
    said = [_boosted(_reading(terms), boost) for terms, boost in weighed]
    return _any(said) if said else None


def _title(text: str, snapshot: Snapshot) -> list[Said]:
    """The same word in the title alone. Of a phrase, each word: titles are short enough."""
    weighed = [found for word in words(text) for found in _weighed(schema.TITLE, readings(word), snapshot)]
    return [_boosted(Said.term_query(schema.SCHEMA, schema.TITLE, terms[0]), boost) for terms, boost in weighed]


def _weighed(
    field: str, alternatives: list[tuple[str, ...]], snapshot: Snapshot
) -> list[tuple[tuple[str, ...], float]]:
    """The readings that occur, each with the boost that lifts or lowers its rarity to that of all together."""
    counted = [(terms, [snapshot.frequency(field, term) for term in terms]) for terms in alternatives if terms]
    present = [(terms, counts) for terms, counts in counted if all(counts)]
    if len(present) < 2:
        return [(terms, 1.0) for terms, _ in present]
    together = [sum(counts) for counts in zip(*(counts for _, counts in present), strict=False)]
    common = _rarity(together, snapshot.documents)
    return [(terms, common / _rarity(counts, snapshot.documents)) for terms, counts in present]


def _rarity(counts: list[int], documents: int) -> float:
    """BM25's inverse document frequency, summed over the words of a phrase as tantivy does it."""
    return sum(log(1 + max(documents - count + 0.5, 0.5) / (count + 0.5)) for count in counts)


def _reading(terms: tuple[str, ...]) -> Said:
    if len(terms) == 1:
        return Said.term_query(schema.SCHEMA, schema.ALL, terms[0])
    return Said.phrase_query(schema.SCHEMA, schema.ALL, list(terms))


def _boosted(said: Said, boost: float) -> Said:
    return said if boost == 1.0 else Said.boost_query(said, boost)


def _any(said: list[Said]) -> Said:
    if len(said) == 1:
        return said[0]
    return Said.boolean_query([(Occur.Should, one) for one in said]) if said else Said.empty_query()


def _filter(known: Filter) -> tuple[Occur, Said]:
    occur, said = _required(FIELDS[known.field], known.value)
    return (Occur.MustNot, said) if known.negated else (occur, said)


def _required(field: str, value: str) -> tuple[Occur, Said]:
    """A condition that adds nothing to the score."""
    return Occur.Must, Said.const_score_query(tantivy.Query.term_query(schema.SCHEMA, field, value), 0.0)
