"""What a page declares, in short."""

import pytest

from tarrafa.model import DeclaredEntity
from tarrafa.parse.rdf.entity import (
    SUMMARIES_MAX,
    PageEntity,
    collect_entities,
    entity_day,
    searchable_kinds,
    summarize_entities,
    vocabularies,
)
from tarrafa.parse.rdf.nquads import parse_nquads
from tarrafa.parse.rdf.prefixes import PREFIXES, expand_prefix, normalize_iri, shorten_iri
from tarrafa.parse.structured import extract

TYPE = "<http://www.w3.org/1999/02/22-rdf-syntax-ns#type>"


def page(*lines: str) -> list[PageEntity]:
    """`s p o` each, with short names for IRIs; `a` is the class."""
    written = []
    for line in lines:
        subject, name, term = line.split(" ", 2)
        known = TYPE if name == "a" else f"<{expand_prefix(name)}>"
        term = term if term[0] in '"_' else f"<{expand_prefix(term)}>"
        written.append(f"_:{subject} {known} {term} .")
    return collect_entities(parse_nquads("\n".join(written)))


CASES = {
    "a product and what it costs": (
        ["p a schema:Product", 'p schema:name "Rede"', "p schema:offers _:o", "o a schema:Offer",
         'o schema:price "3.90"', 'o schema:priceCurrency "BRL"', "o schema:availability schema:InStock"],
        (DeclaredEntity("schema:Product", "Rede", (("schema:offers", "3.90 BRL"),)),),
    ),
    "a place two steps away": (
        ["e a schema:Event", "e schema:location _:l", "l schema:address _:a", 'a schema:addressLocality "Olinda"'],
        (DeclaredEntity("schema:Event", "", (("schema:location", "Olinda"),)),),
    ),
    "only what every page of a system says of itself": (["w a schema:WebPage", 'w schema:name "x"'], ()),
    "a thing before the page that speaks of it": (
        ["w a schema:WebPage", "w schema:mainEntity _:p", "p a schema:Person", 'p schema:name "Ana"'],
        (DeclaredEntity("schema:Person", "Ana"),),
    ),
    "for those who share it": (
        ['s og:type "video.movie"', 's og:title "O Mar"'],
        (DeclaredEntity("og:video.movie", "O Mar"),),
    ),
    "for those who share it, but nothing to tell": (['s og:type "website"'], ()),
    "a ring": (["a a schema:Person", "b a schema:Person", "a schema:author _:b", "b schema:author _:a"],
        (DeclaredEntity("schema:Person"), DeclaredEntity("schema:Person"))),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_a_page_declares(case):
    lines, expected = CASES[case]
    assert summarize_entities(page(*lines)) == expected


def test_of_many_things_a_few_are_told():
    assert len(summarize_entities(page(*(f"t{number} a schema:Thing" for number in range(20))))) == SUMMARIES_MAX


def test_kinds_are_asked_for_by_address_bare_name_vocabulary_and_day():
    found = searchable_kinds(page("e a schema:Event", 'e schema:startDate "2026-05"', 'e foaf:name "x"'))
    assert found == [
        "https://schema.org/event", "https://schema.org/event@2026-05-01", ":event", ":event@2026-05-01",
        "https://schema.org/", "http://xmlns.com/foaf/0.1/",
    ]  # fmt: skip


DAYS = {
    "2026-05-02T10:00Z": "2026-05-02",
    "2026-05": "2026-05-01",
    "2026": "2026-01-01",
    "amanhã": "",
    "12/05/2026": "",
}


@pytest.mark.parametrize("said", DAYS)
def test_the_day_of_a_thing(said):
    assert entity_day(page(f'e schema:startDate "{said}"')[0]) == DAYS[said]


def test_schema_org_is_one_vocabulary_however_it_is_spelt():
    spelt = ("http://schema.org/", "https://schema.org/", "http://www.schema.org/", "HTTP://Schema.org/")
    said = "\n".join(f'_:s{n} {TYPE} <{one}Person> .\n_:s{n} <{one}name> "x" .' for n, one in enumerate(spelt))
    found = collect_entities(parse_nquads(said))
    assert {(*thing.classes, thing.properties[0][0]) for thing in found} == {
        ("https://schema.org/Person", "https://schema.org/name")
    }
    assert vocabularies(name for thing in found for name in thing.classes) == ("https://schema.org/",)


SPELLINGS = {
    "https://ogp.me/ns#title": "http://ogp.me/ns#title",
    "http://ogp.me/ns#title": "http://ogp.me/ns#title",
    "https://ogp.me/ns/article#author": "http://ogp.me/ns/article#author",
    "http://opengraphprotocol.org/schema/title": "http://ogp.me/ns#title",
    "https://www.schema.org/name": "https://schema.org/name",
    "http://schema.org.evil.br/name": "http://schema.org.evil.br/name",
    "http://ogp.me.evil.br/ns#title": "http://ogp.me.evil.br/ns#title",
}


@pytest.mark.parametrize("spelt", SPELLINGS)
def test_what_people_spell_in_several_ways_is_asked_for_in_one(spelt):
    assert normalize_iri(spelt) == SPELLINGS[spelt]


def test_what_only_says_how_something_is_said_is_no_vocabulary_of_the_page():
    said = page("p xhv:next _:q", "p rdfa:usesVocabulary schema:", "q rdf:first _:p")
    assert vocabularies(name for thing in said for name, _ in thing.properties) == ()


@pytest.mark.parametrize("prefix", PREFIXES)
def test_a_short_name_and_its_address_are_the_same(prefix):
    assert expand_prefix(shorten_iri(f"{PREFIXES[prefix]}Name")) == f"{PREFIXES[prefix]}Name"


def test_what_has_no_short_name_keeps_its_own():
    assert shorten_iri("http://a.br/x/Y") == "http://a.br/x/Y"
    assert shorten_iri("https://schema.org/a/b c") == "https://schema.org/a/b c"
    assert expand_prefix("nobody:X") is None
    assert expand_prefix("http://www.schema.org/X") == "https://schema.org/X"


def test_open_graph_is_one_vocabulary_where_its_prefixes_are_not_declared():
    names = "og:title article:author product:price.amount video:duration music:song"
    metas = "".join(f'<meta property="{name}" content="x">' for name in names.split())
    [thing] = collect_entities(parse_nquads(extract(metas.encode(), "http://a.br/", "text/html")))
    assert [shorten_iri(name) for name, _ in thing.properties] == names.split()
    assert all(expand_prefix(shorten_iri(name)) == name for name, _ in thing.properties)
