"""People choose a vocabulary, a class, properties and words, and see things with the pages that say so."""

import pytest

from tarrafa.errors import QueryError
from tarrafa.index import shards
from tarrafa.runtime.data_dir import DataDirectory
from tarrafa.triples.entity_query import EntityCondition, EntityQuery
from tarrafa.triples.entity_reader import OPENED_MAX, EntityReader, TermCount
from tarrafa.triples.follower import catch_up
from tests.graph.archived_web import FIRST_AT, new_data, write
from tests.triples.sample_statements import FOAF, SCHEMA, Said, a_page, a_person, lives

A, B, C = (f"http://{name}.test/" for name in "abc")
ANA = "http://a.test/#ana"


def an_event(
    name: str, when: str, subject: str = "_:e", price: str = ""
) -> tuple[str, list[str], list[tuple[str, str]]]:
    prices = [(f"{SCHEMA}price", price)] if price else []
    place = [(f"{SCHEMA}location", "_:place")]
    return subject, [f"{SCHEMA}Event"], [(f"{SCHEMA}name", name), (f"{SCHEMA}startDate", when), *place, *prices]


PLACE = (
    "_:place",
    [f"{SCHEMA}Place"],
    [(f"{SCHEMA}name", "Praça da Estação"), (f"{SCHEMA}url", "http://praca.test/x")],
)


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> DataDirectory:
    data = new_data(tmp_path_factory.mktemp("things") / "data")
    write(
        data,
        [
            a_page(A, 1, a_person("Ana Conceição", ANA, jobTitle="pescadora"), a_person("João da Silva")),
            a_page(B, 1, a_person("Ana C.", ANA, url="http://ana.test/inicio"), at=FIRST_AT + 60, collection="outra"),
            a_page(
                C,
                1,
                an_event("Festival de redes", "2026-05-01T20:00:00-03:00", price="30"),
                PLACE,
                an_event("Feira velha", "2025-12-31", "http://c.test/#feira", price="2030.5"),
                a_person("Maria Silva", "_:m", vocabulary=FOAF),
                ("http://c.test/x", [], [(f"{FOAF}nick", "sem classe")]),
            ),
        ],
    )
    catch_up(data)
    return data


def labels(data: DataDirectory, **query: object) -> list[str]:
    found = EntityReader(data).entities(EntityQuery(**query))  # type: ignore[arg-type]
    assert found.total == len(found.things)
    return sorted(thing.label for thing in found.things)


def such(name: str, words: str = "", operator: str = "words", vocabulary: str = SCHEMA) -> tuple[EntityCondition, ...]:
    return (EntityCondition(f"{vocabulary}{name}" if name else "", words, operator),)  # type: ignore[arg-type]


def test_vocabularies_classes_and_properties_are_those_that_were_crawled_with_their_counts(data):
    reader = EntityReader(data)
    assert reader.vocabularies().names == [TermCount(SCHEMA, 5, 3), TermCount(FOAF, 2, 1)]
    assert reader.classes(SCHEMA).names == [
        TermCount(f"{SCHEMA}Person", 2, 2),
        TermCount(f"{SCHEMA}Event", 2, 1),
        TermCount(f"{SCHEMA}Place", 1, 1),
    ]
    assert reader.classes().total == 4
    assert reader.classes("http://schema.org/", 1, 1).names == [TermCount(f"{SCHEMA}Event", 2, 1)]
    of_people = {one.iri: (one.pages, one.uses) for one in reader.properties(f"{SCHEMA}Person").names}
    assert of_people == {f"{SCHEMA}name": (2, 3), f"{SCHEMA}jobTitle": (1, 1), f"{SCHEMA}url": (1, 1)}
    assert TermCount(f"{SCHEMA}name", 5, 3, 6) in reader.properties().names
    assert [one.iri for one in reader.properties("", FOAF).names] == [f"{FOAF}name", f"{FOAF}nick"]
    assert reader.properties(f"{SCHEMA}Person", FOAF).names == []


ASKED = [
    ({"of_class": f"{SCHEMA}Person"}, ["Ana C.", "João da Silva"]),
    ({"of_class": "http://schema.org/Person"}, ["Ana C.", "João da Silva"]),
    ({"of_class": "http://nobody.test/Person"}, []),
    ({"not_class": f"{SCHEMA}Person"}, ["Feira velha", "Festival de redes", "Maria Silva", "Praça da Estação"]),
    ({"not_class": f"{SCHEMA}Event", "vocabulary": SCHEMA}, ["Ana C.", "João da Silva", "Praça da Estação"]),
    ({"vocabulary": FOAF}, ["Maria Silva", "sem classe"]),
    ({"conditions": such("name", "SILVA")}, ["João da Silva"]),
    ({"conditions": such("", "silva")}, ["João da Silva", "Maria Silva"]),
    ({"conditions": such("name", "conceicao ana")}, ["Ana C."]),
    ({"conditions": such("name", "conce*")}, ["Ana C."]),
    ({"conditions": such("name", "conce")}, []),
    ({"conditions": such("name", "ana NOT * \" ( conceicao")}, []),
    ({"conditions": such("name", "+-*/")}, []),
    ({"conditions": such("jobTitle")}, ["Ana C."]),
    ({"conditions": (*such("jobTitle", "pescadora"), *such("url", "ana.test inicio"))}, ["Ana C."]),
    ({"conditions": such("url", "http://ana.test/inicio", "=")}, ["Ana C."]),
    ({"conditions": such("url", "http://ana.test/", "=")}, []),
    ({"conditions": such("name", "João da Silva", "=")}, ["João da Silva"]),
    ({"conditions": such("name", "João da", "=")}, []),
    ({"conditions": such("startDate", "2026-01-01", ">=")}, ["Festival de redes"]),
    ({"conditions": such("startDate", "2025", ">=")}, ["Feira velha", "Festival de redes"]),
    ({"conditions": such("startDate", "2025", ">")}, ["Festival de redes"]),
    ({"conditions": such("startDate", "2025-12-31", "<=")}, ["Feira velha"]),
    ({"conditions": such("startDate", "2025-12-31", "<")}, []),
    ({"conditions": such("startDate", "2026-05", "=")}, ["Festival de redes"]),
    ({"conditions": such("startDate", "2026-05-01T23:00:00Z", "=")}, ["Festival de redes"]),
    ({"conditions": such("price", "30", "=")}, ["Festival de redes"]),
    ({"conditions": such("price", "2026", ">")}, ["Feira velha"]),
    ({"conditions": (*such("price", "10", ">"), *such("startDate", "2026", ">="))}, ["Festival de redes"]),
    ({"conditions": such("", "30", "=")}, ["Festival de redes"]),
    ({"of_class": f"{SCHEMA}Event", "conditions": such("name", "velha")}, ["Feira velha"]),
    ({"of_class": f"{SCHEMA}Person", "conditions": such("name", "velha")}, []),
    ({"collection": "outra"}, ["Ana C."]),
    ({"collection": "outra", "of_class": f"{SCHEMA}Person"}, ["Ana C."]),
    ({"collection": "nenhuma"}, []),
]  # fmt: skip


@pytest.mark.parametrize(("query", "found"), ASKED)
def test_things_are_found_by(data, query, found):
    assert labels(data, **query) == found


def test_without_a_question_everything_is_there_page_by_page(data):
    reader = EntityReader(data)
    keys = [reader.entities(EntityQuery(offset=number, n=1)).things[0].key for number in range(7)]
    assert len(set(keys)) == 7
    assert reader.entities(EntityQuery(offset=7)).things == []
    assert reader.entities(EntityQuery()).total == 7


def test_a_thing_that_several_pages_speak_of_is_one_and_the_latest_names_it(data):
    thing = EntityReader(data).entity(ANA)
    assert thing is not None
    assert (thing.label, thing.classes, thing.pages_total) == ("Ana C.", [f"{SCHEMA}Person"], 2)
    assert [(page.url, page.fetched) for page in thing.pages] == [
        (B, "2026-09-21T14:14:20Z"),
        (A, "2026-09-21T14:13:20Z"),
    ]
    assert [shown.text or shown.iri for shown in thing.properties] == [
        "Ana C.",
        "http://ana.test/inicio",
        "Ana Conceição",
        "pescadora",
    ]
    assert EntityReader(data).entity("http://nobody.test/") is None


def test_what_stands_in_a_blank_node_is_shown_inside(data):
    [event] = EntityReader(data).entities(EntityQuery(conditions=such("name", "festival"))).things
    [place] = [shown for shown in event.properties if shown.property == f"{SCHEMA}location"]
    assert place.label == "Praça da Estação"
    assert "http://praca.test/x" in {shown.iri for shown in place.inside}
    inner = EntityReader(data).entity(place.thing)
    assert inner is not None
    assert inner.classes == [f"{SCHEMA}Place"]


def test_names_are_found_by_a_part_of_them_whatever_the_case(data):
    reader = EntityReader(data)
    assert [one.iri for one in reader.classes(holding="pers").names] == [f"{SCHEMA}Person", f"{FOAF}Person"]
    assert reader.classes(SCHEMA, 0, 0, "PERS").total == 1
    assert [one.iri for one in reader.properties(f"{SCHEMA}Event", holding="date").names] == [f"{SCHEMA}startDate"]
    assert reader.vocabularies(holding="foaf").total == 1


def test_what_a_page_speaks_of_comes_in_its_order(data):
    reader = EntityReader(data)
    assert [thing.label for thing in reader.entities_of_page(C)][:3] == [
        "Festival de redes",
        "Praça da Estação",
        "Feira velha",
    ]
    assert [thing.key for thing in reader.entities_of_page(A, 1)] == [ANA]
    assert reader.entities_of_page("http://nobody.test/") == []


def test_who_says_what_of_a_thing_is_told_page_by_page(data):
    said = EntityReader(data).page_views(ANA)
    assert [(view.url, view.label) for view in said] == [(B, "Ana C."), (A, "Ana Conceição")]
    assert [shown.text for shown in said[1].properties] == ["Ana Conceição", "pescadora"]
    assert EntityReader(data).page_views("http://nobody.test/") == []


REFUSED = [
    (EntityQuery(n=101), "n must be"),
    (EntityQuery(offset=-1), "offset must be"),
    (EntityQuery(conditions=such("name", "", ">")), "give a number, a date or a text"),
    (EntityQuery(conditions=such("startDate", "amanhã", ">")), "must be a number, or a date"),
    (EntityQuery(conditions=such("", "3", ">")), "of which property"),
    (EntityQuery(conditions=such("name", "x") * 11), "at most 10 conditions"),
    (EntityQuery(of_class="x" * 2001), "too long: 2,001 characters"),
]


@pytest.mark.parametrize(("query", "why"), REFUSED)
def test_what_cannot_be_meant_is_said_in_one_line(data, query, why):
    with pytest.raises(QueryError, match=why) as caught:
        EntityReader(data).entities(query)
    assert "\n" not in str(caught.value)


def test_where_nothing_is_there_nothing_is_found(tmp_path):
    reader = EntityReader(new_data(tmp_path / "data"))
    assert (reader.vocabularies().total, reader.entities(EntityQuery()).total, reader.entity(ANA)) == (0, 0, None)


def test_several_parts_answer_as_one(tmp_path):
    one, three = new_data(tmp_path / "one"), new_data(tmp_path / "three")
    for target in (one, three):
        write(target, [record for record in lives(30, 100, 4) if "coisas" not in str(record.page)])
    shards.set_layout(three, shards.parse_layout("3", "test"))
    found = []
    for target in (one, three):
        catch_up(target)
        reader, query = EntityReader(target), EntityQuery(of_class=f"{SCHEMA}Person", n=4)
        keys: list[str] = []
        for offset in range(0, 40, 4):
            page = reader.entities(EntityQuery(of_class=query.of_class, offset=offset, n=4))
            keys += [thing.key for thing in page.things]
        found.append((reader.classes(), reader.properties(), page.total, sorted(keys)))
    assert found[0] == found[1]
    assert len(set(found[0][3])) == found[0][2] > 5


def test_a_thing_is_shown_as_the_pages_fetched_last_have_it(tmp_path):
    data = new_data(tmp_path / "data")
    several = [a_page(f"http://h{n}.test/", 1, a_person(f"Ana {n}", ANA), at=FIRST_AT + n) for n in range(30)]
    write(data, several)
    catch_up(data)
    reader = EntityReader(data)
    found = reader.entity(ANA)
    assert found is not None
    assert (found.label, found.pages_total) == ("Ana 29", 30)
    assert [page.url for page in found.pages] == [f"http://h{n}.test/" for n in range(29, 9, -1)]
    assert [view.label for view in reader.page_views(ANA)] == [f"Ana {n}" for n in range(29, 9, -1)]


def test_of_what_lies_in_blank_nodes_so_much_is_shown_and_no_more(tmp_path):
    data = new_data(tmp_path / "data")
    nested: Said = ("_:n", [], [(f"{SCHEMA}q{n}", "x") for n in range(3)])
    things = ("http://x.test/", [f"{SCHEMA}Thing"], [(f"{SCHEMA}p{n}", "_:n") for n in range(50)]), nested
    write(data, [a_page(f"http://h{n}.test/", 1, *things, at=FIRST_AT + n) for n in range(3)])
    catch_up(data)
    views = EntityReader(data).page_views("http://x.test/")
    assert [sum(bool(shown.inside) for shown in view.properties) for view in views] == [50, OPENED_MAX - 50, 0]
