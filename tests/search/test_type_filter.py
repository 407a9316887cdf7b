"""Pages are found by what their data says, and what it says is shown."""

import operator
import re

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tarrafa.errors import QueryError
from tarrafa.index import follower as index
from tarrafa.model import DeclaredEntity
from tarrafa.parse.rdf.nquads import RDF_TYPE, StatementSet, iri, literal
from tarrafa.search.query_builder import _days
from tarrafa.server.jinja_environment import type_query
from tarrafa.triples import ontology
from tests.graph.archived_web import a_record, new_data, write
from tests.search.sample_pages import Asker

SCHEMA = "http://schema.org/"


def event(day: str, name: str = "Festa", where: str = "Porto") -> str:
    said = StatementSet()
    thing, place = said.blank_node(), said.blank_node()
    for subject, name_, term in (
        (thing, "", iri(f"{SCHEMA}Event")),
        (thing, "name", literal(name)),
        (thing, "startDate", literal(day)),
        (thing, "location", place),
        (place, "", iri(f"{SCHEMA}Place")),
        (place, "name", literal(where)),
    ):
        said.add(subject, iri(f"{SCHEMA}{name_}") if name_ else RDF_TYPE, term)  # type: ignore[arg-type]
    return said.to_nquads()


def person(name: str) -> str:
    said = StatementSet()
    said.add("<http://a.br/#p>", RDF_TYPE, "<http://xmlns.com/foaf/0.1/Person>")
    said.add("<http://a.br/#p>", "<http://xmlns.com/foaf/0.1/name>", literal(name) or "")
    return said.to_nquads()


PAGES = {
    "january": event("2026-01-15T19:30"),
    "may": event("2026-05-02"),
    "last": event("2025-12-31"),
    "year": event("2027"),
    "silva": person("Ana Silva"),
    "plain": "",
    "urn": f"_:x {RDF_TYPE} <urn:x:Foo> .\n",
    "film": '<http://film.br/> <http://ogp.me/ns#type> "video.movie" .\n',
}


@pytest.fixture(scope="module")
def asker(tmp_path_factory):
    data = new_data(tmp_path_factory.mktemp("declared") / "data")
    records = []
    for name, statements in PAGES.items():
        record = a_record(f"http://{name}.br/", title=name, text="festa no mar")
        assert record.page is not None
        page = msgspec.structs.replace(record.page, statements=statements)
        records.append(msgspec.structs.replace(record, page=page))
    write(data, records)
    index.catch_up(data)
    return Asker(data)


EVENTS = {"january", "may", "last", "year"}
FOUND = {
    "type:schema:Event": EVENTS,
    "type:Event festa": EVENTS,
    "type:schema:event": EVENTS,
    'type:"https://schema.org/Event"': EVENTS,
    "type:schema:": EVENTS,
    "type:place": EVENTS,
    "type:foaf:Person": {"silva"},
    "type:schema:Person festa": set(),
    "festa -type:schema:Event": {"silva", "plain", "urn", "film"},
    "festa -type:schema: -type:foaf:": {"plain", "urn", "film"},
    "type:schema:Event>=2026-01-01": {"january", "may", "year"},
    "type:schema:Event>2026-01-15": {"may", "year"},
    "type:schema:Event>=2026-01-15": {"january", "may", "year"},
    "type:Event<2026": {"last"},
    "type:Event<=2026": {"last", "january", "may"},
    "type:Event>2026": {"year"},
    "type:Event=2026-05": {"may"},
    "type:Event>=2026-01 type:Event<2026-06": {"january", "may"},
    "type:Place>=2000": set(),
    "type:Event OR type:Person": {*EVENTS, "silva"},
    "type:urn:x:Foo": {"urn"},
    'type:"urn:x:Foo"': {"urn"},
    "type:og:video.movie": {"film"},
    "type:schema:a\u0301>=2026": set(),
    "type:schema:\U0001f389\u2013\u200d>=2026-01": set(),
    "type:schema:[a-z]+>=2026": set(),
}


@pytest.mark.parametrize("text", FOUND)
def test_pages_are_found_by_the_things_they_declare(asker, text):
    assert {hit.title for hit in asker.search(text, copies=True).hits} == FOUND[text]


def test_a_hit_shows_what_its_page_declares(asker):
    shown = {hit.title: hit.declared for hit in asker.search("festa", copies=True).hits}
    assert shown["may"] == (
        DeclaredEntity("schema:Event", "Festa", (("schema:startDate", "2026-05-02"), ("schema:location", "Porto"))),
    )
    assert shown["silva"] == (DeclaredEntity("foaf:Person", "Ana Silva"),)
    assert shown["plain"] == shown["film"] == shown["urn"] == (), "these state no facts"


DAYS = st.dates().map(str)
PARTS = st.one_of(DAYS, DAYS.map(lambda day: day[:7]), DAYS.map(lambda day: day[:4]))


@given(DAYS, PARTS, st.sampled_from(["<", "<=", "=", ">=", ">"]))
def test_days_compare_as_far_as_a_part_of_one_goes(day, part, compared):
    compare = {"<": operator.lt, "<=": operator.le, "=": operator.eq, ">=": operator.ge, ">": operator.gt}[compared]
    assert bool(re.fullmatch(f"{_days(compared, part)}.*", day)) is compare(day[: len(part)], part)


def test_a_day_is_written_in_our_digits(asker):
    with pytest.raises(QueryError, match="type: needs a class"):
        asker.search("type:schema:Event>=２０２６")


def test_what_a_hit_declares_leads_to_pages_that_declare_it(asker):
    for hit in asker.search("festa", copies=True).hits:
        for thing in hit.declared:
            assert hit.title in {found.title for found in asker.search(type_query(thing.kind), copies=True).hits}


TURTLE = """
@prefix rdfs: <http://www.w3.org/2000/01/rdf-schema#> .
@prefix s: <http://schema.org/> .
s:Event rdfs:subClassOf s:Thing . <http://xmlns.com/foaf/0.1/Person> rdfs:subClassOf s:Person .
s:Person rdfs:subClassOf s:Thing .
"""


def titles(asker: Asker, text: str) -> set[str]:
    return {hit.title for hit in asker.search(text, copies=True).hits}


@pytest.mark.parametrize(
    ("text", "found", "before"),
    [
        ("type:schema:Person", {"silva"}, set()),
        ("type:Thing", EVENTS | {"silva"}, set()),
        ("type:schema:Thing>=2026-05", {"may", "year"}, set()),
        ("festa -type:schema:Thing", PAGES.keys() - EVENTS - {"silva"}, PAGES.keys()),
        ("festa -type:schema:Person", PAGES.keys() - {"silva"}, PAGES.keys()),
        ("type:foaf:Person", {"silva"}, {"silva"}),
    ],
)
def test_a_type_is_also_every_class_below_it_by_the_ontology_in_force(asker, text, found, before):
    data = asker.data
    assert titles(asker, text) == before
    ontology.folder_of(data).mkdir(exist_ok=True)
    (ontology.folder_of(data) / "small.ttl").write_text(TURTLE)
    ontology.path_of(data).write_text("enabled = true")
    try:
        assert titles(asker, text) == found, "of pages that were indexed before the ontology"
    finally:
        ontology.path_of(data).unlink()
    assert titles(asker, text) == before
