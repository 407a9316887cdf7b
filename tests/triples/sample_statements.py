"""Pages that state something, in an archive; and all that the store has made of them, to compare."""

import random
from collections import defaultdict
from collections.abc import Iterable
from typing import Any

import msgspec
from pyoxigraph import DefaultGraph, NamedNode, Store

from tarrafa.index import shards
from tarrafa.model import VisitRecord
from tarrafa.parse.rdf.entity import vocabularies
from tarrafa.parse.rdf.nquads import RDF, RDF_TYPE, StatementSet, iri, literal
from tarrafa.runtime.data_dir import DataDirectory
from tarrafa.runtime.sqlite import open_sqlite_readonly, rows
from tarrafa.triples import storage
from tarrafa.triples.snapshots import TripleSnapshot
from tests.graph.archived_web import FIRST_AT, a_record

SCHEMA, FOAF = "https://schema.org/", "http://xmlns.com/foaf/0.1/"
NAMES = ["João da Silva", "Maria Souza", "Ana Conceição", "Zé Ninguém", "Peter Parker"]

Said = tuple[str, list[str], list[tuple[str, str]]]


def term(text: str) -> str:
    """`_:x` and IRIs as they are; the rest are texts."""
    if text.startswith("_:"):
        return text
    written = iri(text) if text.startswith(("http:", "https:", "urn:")) else literal(text)
    assert written is not None
    return written


def states(*things: Said) -> str:
    """What a page says of things: subject, classes, properties."""
    found = StatementSet()
    for subject, classes, properties in things:
        for one in classes:
            found.add(term(subject), RDF_TYPE, term(one))
        for name, value in properties:
            found.add(term(subject), term(name), term(value))
    return found.to_nquads()


def a_page(url: str, visit: int = 1, *things: Said, text: str = "", **more: Any) -> VisitRecord:
    """A visit that found a page with these things on it."""
    record = a_record(url, visit, **more)
    if record.page is None:
        return record
    return msgspec.structs.replace(
        record, page=msgspec.structs.replace(record.page, statements=text or states(*things))
    )


def a_person(name: str, subject: str = "_:p", *, vocabulary: str = SCHEMA, **more: str) -> Said:
    properties = [(f"{vocabulary}{key}", value) for key, value in {"name": name, **more}.items()]
    return subject, [f"{vocabulary}Person"], properties


def lives(pages: int, visits: int, seed: int, collections: int = 2) -> list[VisitRecord]:
    """Pages that come, change, go and come again, in several collections, in the order of their visits."""
    rng, numbers, found = random.Random(seed), defaultdict[tuple[str, str], int](int), []
    for number in range(visits):
        url = f"http://h{rng.randrange(5)}.br.test/p{rng.randrange(pages)}"
        collection = f"c{rng.randrange(collections)}"
        numbers[url, collection] += 1
        visit, at = numbers[url, collection], FIRST_AT + number * 60
        fate = rng.random()
        if fate < 0.15:
            found.append(a_record(url, visit, status=404, collection=collection, at=at))
        elif fate < 0.25:
            found.append(a_record(url, visit, collection=collection, at=at))  # states nothing
        elif fate < 0.3:
            found.append(a_record(url, visit, status=503, collection=collection, at=at))
        else:
            things = _some_things(rng)
            modified = "Wed, 21 Oct 2015 07:28:00 GMT" if rng.random() < 0.5 else None
            found.append(a_page(url, visit, *things, collection=collection, at=at, last_modified=modified))
    return found


def _some_things(rng: random.Random) -> list[Said]:
    found: list[Said] = []
    for number in range(rng.randrange(1, 6)):
        shared = rng.random() < 0.4
        subject = f"http://coisas.test/{rng.randrange(8)}" if shared else f"_:n{number}"
        kind = rng.choice([f"{SCHEMA}Person", "http://schema.org/Person", f"{SCHEMA}Event", f"{FOAF}Person"])
        classes = [kind] if rng.random() < 0.8 else []
        properties = [(f"{SCHEMA}name", rng.choice(NAMES))]
        if rng.random() < 0.5:
            properties.append((f"{SCHEMA}startDate", f"2026-0{rng.randrange(1, 10)}-01"))
        if rng.random() < 0.3:
            properties += [(f"{FOAF}knows", f"http://coisas.test/{rng.randrange(8)}"), (f"{FOAF}knows", "_:n0")]
        found.append((subject, classes, properties))
    return found


# -- what there is -----------------------------------------------------------------------------------------------------


def contents(data: DataDirectory) -> set[str]:
    """All that is published; it is what the store itself holds, and no named graph is empty."""
    found: set[str] = set()
    for part in shards.parts(data):
        snapshot = TripleSnapshot.open_newest(part)
        assert snapshot is not None
        with snapshot:
            published = {str(quad) for quad in snapshot.store}
            graphs = set(snapshot.store.named_graphs())
            assert graphs == {quad.graph_name for quad in snapshot.store} - {DefaultGraph()}
        assert published == {str(quad) for quad in Store.read_only(str(storage.store_path(part)))}
        assert found.isdisjoint(published)
        found |= published
    return found


def statements(data: DataDirectory, graph: str) -> set[str]:
    """What stands in a graph."""
    suffix = f" <{graph}>"
    return {line.removesuffix(suffix) for line in contents(data) if line.endswith(suffix)}


LOOKED_AT = {
    "visits": "SELECT hex(id), collection, visit, (SELECT name FROM files f WHERE f.file = v.file), start, at, changed"
    " FROM visits v",
    "cursor": "SELECT file, offset FROM cursor",
    "pages": "SELECT hex(id), url, at, statements, inferred, hex(digest) FROM pages",
    "things": "SELECT key, pages FROM things",
    "facts": "SELECT p.url, t.key, s.label, n.iri, f.term, f.number, f.moment, f.inferred FROM facts f"
    " JOIN said s ON s.said = f.fact >> 12 JOIN pages p ON p.page = s.said >> 12 JOIN things t ON t.thing = s.thing"
    " JOIN names n ON n.name = f.property",
    "has": "SELECT kind, n.iri, t.key, h.pages FROM has h JOIN names n USING (name) JOIN things t USING (thing)",
    "counts": "SELECT kind, n.iri, things, pages, uses FROM counts c JOIN names n USING (name)",
    "together": "SELECT a.iri, b.iri, pages, uses FROM together t JOIN names a ON a.name = t.class"
    " JOIN names b ON b.name = t.property",
    "totals": "SELECT name, value FROM totals",
    "withheld": "SELECT kind, name FROM withheld",
    "words": "SELECT count(*) FROM words",
}


def books(part: DataDirectory) -> dict[str, list[tuple[Any, ...]]]:
    """All that is noted, with names for numbers, in an order that says nothing of how it came about."""
    connection = open_sqlite_readonly(storage.database_path(part))
    try:
        found = {table: sorted(rows(connection, sql), key=repr) for table, sql in LOOKED_AT.items()}
        facts = rows(connection, "SELECT count(*) FROM facts")[0][0]
        assert facts == len(found["facts"]), "a fact that is nobody's"
        assert rows(connection, "SELECT count(*) FROM said")[0][0] == sum(pages for _, pages in found["things"])
        return found
    finally:
        connection.close()


def counted(data: DataDirectory) -> dict[str, list[tuple[Any, ...]]]:
    """Counts as they are when everything is counted anew, from what the store holds."""
    things: dict[tuple[int, str], set[str]] = defaultdict(set)
    pages: dict[tuple[int, str], set[str]] = defaultdict(set)
    uses: dict[tuple[int, str], int] = defaultdict(int)
    pairs: dict[tuple[str, str], tuple[set[str], list[int]]] = defaultdict(lambda: (set(), [0]))
    snapshot = TripleSnapshot.open_newest(data)
    assert snapshot is not None
    with snapshot:
        for graph in snapshot.store.named_graphs():
            quads = list(snapshot.store.quads_for_pattern(None, None, None, graph))
            classes: dict[str, set[str]] = defaultdict(set)
            for quad in quads:
                if quad.predicate.value == f"{RDF}type" and isinstance(quad.object, NamedNode):
                    classes[str(quad.subject)].add(quad.object.value)
            for quad in quads:
                kind, name = 1, quad.predicate.value
                if name == f"{RDF}type":
                    assert isinstance(quad.object, NamedNode)
                    kind, name = 0, quad.object.value
                for key in ((kind, name), *((2, one) for one in vocabularies([name]))):
                    things[key].add(str(quad.subject))
                    pages[key].add(str(graph))
                if kind == 1:
                    uses[kind, name] += 1
                    for one in classes[str(quad.subject)]:
                        pairs[one, name][0].add(str(graph))
                        pairs[one, name][1][0] += 1
    return {
        "counts": sorted(((*key, len(things[key]), len(pages[key]), uses[key]) for key in things), key=repr),
        "together": sorted(((*key, len(where), times) for key, (where, [times]) in pairs.items()), key=repr),
    }


def urls(found: Iterable[str]) -> set[str]:
    """The pages that are spoken of in the default graph."""
    return {line.split(" ")[0].strip("<>") for line in found if "<urn:tarrafa:fetched>" in line}
