"""Pages that say what they mean: people, events, products; some in two vocabularies, some in bad faith."""

from pathlib import Path

from tarrafa.graph import follower as graph
from tarrafa.graph.ranking_process import compute_rankings
from tarrafa.index import follower as index
from tarrafa.model import Link, VisitRecord
from tarrafa.parse.rdf.nquads import StatementSet, iri, literal
from tarrafa.runtime.data_dir import DataDirectory
from tarrafa.triples import follower as triples
from tests.graph.archived_web import FIRST_AT, new_data, write
from tests.server.conftest import HOSTILE
from tests.triples.sample_statements import FOAF, SCHEMA, Said, a_page, a_person, term

ANA = "http://gente.test/#ana"
OWN = "http://vocabulario.test/ns#"
LONG_VALUE = "comprido " * 1_200
TURNED = "\u202egnp.exe\u202c abc"
NAMES = ("Festival de redes", "Feira do peixe", "Encontro de pescadores", "Noite das canoas", "Mostra de música")
CITIES = ("Belo Horizonte", "Recife", "Porto Alegre", "Belém")


def an_event(number: int) -> list[Said]:
    """With a place and a price inside."""
    name = f"{NAMES[number % len(NAMES)]} {number}"
    when = f"2026-{number % 12 + 1:02}-{number % 28 + 1:02}T20:00:00-03:00"
    event, place, offer, address = (f"_:{kind}{number}" for kind in ("e", "l", "o", "a"))
    return [
        (
            event,
            [f"{SCHEMA}Event"],
            [
                (f"{SCHEMA}name", name),
                (f"{SCHEMA}startDate", when),
                (f"{SCHEMA}location", place),
                (f"{SCHEMA}offers", offer),
                (f"{SCHEMA}performer", ANA),
            ],
        ),
        (place, [f"{SCHEMA}Place"], [(f"{SCHEMA}name", "Praça da Estação"), (f"{SCHEMA}address", address)]),
        (address, [f"{SCHEMA}PostalAddress"], [(f"{SCHEMA}addressLocality", CITIES[number % len(CITIES)])]),
        (offer, [f"{SCHEMA}Offer"], [(f"{SCHEMA}price", str(number * 10)), (f"{SCHEMA}priceCurrency", "BRL")]),
    ]


def a_product(number: int) -> Said:
    subject = f"http://loja.test/produto/{number}"
    facts = [("name", f"Tarrafa nº {number}"), ("price", str(number * 7)), ("availability", f"{SCHEMA}InStock")]
    return subject, [f"{SCHEMA}Product"], [(f"{SCHEMA}{name}", value) for name, value in facts]


def hostile_statements() -> str:
    """Everything that must stay a text."""
    found = StatementSet()
    subject = term("http://mau.test/#coisa")
    found.add(subject, term("http://www.w3.org/1999/02/22-rdf-syntax-ns#type"), term(f"{SCHEMA}CreativeWork"))
    odd = iri('javascript:alert("class")')
    assert odd is not None
    found.add(subject, term("http://www.w3.org/1999/02/22-rdf-syntax-ns#type"), odd)
    for name, text in (("name", HOSTILE), ("description", LONG_VALUE), ("alternateName", TURNED)):
        written = literal(text)
        assert written is not None
        found.add(subject, term(f"{SCHEMA}{name}"), written)
    for name, address in (
        ("url", "javascript:alert(1)"),
        ("sameAs", "data:text/html,<script>alert(3)</script>"),
        ("image", "http://mau.test/\u202egnp.exe"),
        ("logo", "http://mau.test/?a=%22%3E%3Cscript%3E&b='\"><img>"),
    ):
        written = iri(address)
        assert written is not None
        found.add(subject, term(f"{SCHEMA}{name}"), written)
    marked = iri("http://mau.test/ns#<script>alert(4)</script>")
    assert marked is not None
    found.add(subject, marked, term("um valor"))
    found.add(subject, marked, subject)
    turned = literal(TURNED)
    assert turned is not None
    found.add("_:virado", term("http://www.w3.org/1999/02/22-rdf-syntax-ns#type"), term(f"{SCHEMA}CreativeWork"))
    found.add("_:virado", term(f"{SCHEMA}name"), turned)
    return found.to_nquads()


def records() -> list[VisitRecord]:
    people = [a_person(f"Pessoa {number} da Silva", f"http://gente.test/#p{number}") for number in range(15)]
    return [
        a_page(
            "http://gente.test/",
            1,
            a_person("Ana Conceição", ANA, jobTitle="pescadora", birthDate="1980-05-01"),
            a_person("Maria Souza", "_:m", vocabulary=FOAF),
            *people,
            title="Gente da pesca",
            links=[Link("http://agenda.test/", "agenda")],
        ),
        a_page(
            "http://outra.test/",
            1,
            a_person("Ana C.", ANA, url="http://ana.test/inicio"),
            at=FIRST_AT + 86_400,
            collection="outra",
            title="Outra página sobre Ana",
        ),
        *(
            a_page(f"http://agenda.test/{number or ''}", 1, *an_event(number), title=f"Agenda {number}")
            for number in range(24)
        ),
        *(a_page(f"http://loja.test/{number}", 1, a_product(number), title=f"Loja {number}") for number in range(1, 6)),
        a_page("http://mau.test/", 1, text=hostile_statements(), title="Página de má-fé"),
        a_page(
            "http://muito.test/",
            1,
            *((f"_:k{n}", [f"{OWN}Kind{n:03}"], [(f"{OWN}prop{n:03}", f"valor {n}")]) for n in range(300)),
            title="Muitas classes",
        ),
    ]


def crawled_entity_pages(folder: Path, some: list[VisitRecord] | None = None) -> DataDirectory:
    """All of it, or some, followed by graph, index and store."""
    data = new_data(folder)
    write(data, records() if some is None else some)
    graph.catch_up(data, lambda name, weights: None)
    compute_rankings(data)
    index.catch_up(data)
    triples.catch_up(data)
    return data
