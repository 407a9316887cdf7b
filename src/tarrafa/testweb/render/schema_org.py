"""Renders a schema.org entity as RDFa, JSON-LD or microdata, and Open Graph elements.

Promises: some pages describe one entity (a person, an event, a product; by schema.org) in RDFa, JSON-LD or microdata.
The three are well-formed and equivalent: only the syntax differs. Open Graph is separate.
Knows nothing of the rest of the page.
"""

from typing import NamedTuple


def _listed(text: str) -> tuple[str, ...]:
    return tuple(text.split())


SCHEMA = "https://schema.org/"
FIRST_NAMES = _listed(
    """Ana João Maria José Teresa Pedro Luísa António Beatriz Miguel Inês Rui Clara Tomás Rosa Davi"""
)
FAMILY_NAMES = _listed("""
Silva Santos Ferreira Pereira Oliveira Costa Rodrigues Martins Sousa Carvalho Almeida Barros Gonçalves
Araújo Falcão Mendonça""")


JOBS = _listed("""pescadora bibliotecário professora engenheiro médica jornalista cozinheira pedreiro""")
TOWNS = ("Olinda", "Paraty", "Ouro Preto", "Viana do Castelo", "Aveiro", "Belém", "Florianópolis", "Évora")

Properties = tuple[tuple[str, str], ...]


class SchemaOrgEntity(NamedTuple):
    """An entity and its plain properties; `parts` are nested entities, each with the property that links it."""

    type: str
    properties: Properties
    parts: tuple[tuple[str, str, Properties], ...]


def make_entity(luck: int, title: str, version: int = 0) -> SchemaOrgEntity:
    """The entity that a page describes. Every version of the page changes one fact: the price, the start
    date, the job.
    """
    person = f"{FIRST_NAMES[luck >> 4 & 15]} {FAMILY_NAMES[luck >> 8 & 15]}"
    date = f"{2026 + (luck >> 12 & 1)}-{1 + (luck >> 13 & 15) % 12:02d}-{1 + (luck >> 17) % 28:02d}"
    kind = luck % 3
    about: Properties
    if kind == 0:
        about = (
            ("name", person),
            ("jobTitle", JOBS[(luck + version) % len(JOBS)]),
            ("birthDate", f"19{60 + luck % 40}-{date[5:]}"),
        )
        return SchemaOrgEntity("Person", about, (("worksFor", "Organization", (("name", title),)),))
    if kind == 1:
        about = (("name", title), ("startDate", f"{date}T{10 + version % 12}:30"))
        place = ("location", "Place", (("name", TOWNS[luck >> 6 & 7]),))
        return SchemaOrgEntity("Event", about, (("performer", "Person", (("name", person),)), place))
    about = (("name", title), ("sku", f"T{luck & 0xFFFFF:06d}"))
    price = f"{(luck + version) % 900 + 1}.90"
    return SchemaOrgEntity("Product", about, (("offers", "Offer", (("price", price), ("priceCurrency", "BRL"))),))


def rdfa(it: SchemaOrgEntity) -> str:
    return (
        f'<div class="ficha" vocab="{SCHEMA}" typeof="{it.type}">{_spans("property", it.properties)}'
        + "".join(f'<div property="{to}" typeof="{kind}">{_spans("property", its)}</div>' for to, kind, its in it.parts)
        + "</div>\n"
    )


def microdata(it: SchemaOrgEntity) -> str:
    return (
        f'<div class="ficha" itemscope itemtype="{SCHEMA}{it.type}">{_spans("itemprop", it.properties)}'
        + "".join(
            f'<div itemprop="{to}" itemscope itemtype="{SCHEMA}{kind}">{_spans("itemprop", its)}</div>'
            for to, kind, its in it.parts
        )
        + "</div>\n"
    )


def _spans(attribute: str, properties: Properties) -> str:
    return "".join(f'<span {attribute}="{name}">{value}</span> ' for name, value in properties)


def jsonld(it: SchemaOrgEntity) -> str:
    parts = "".join(f', "{to}": {{"@type": "{kind}", {_pairs(its)}}}' for to, kind, its in it.parts)
    return (
        f'<script type="application/ld+json">{{"@context": "{SCHEMA[:-1]}", "@type": "{it.type}", '
        f"{_pairs(it.properties)}{parts}}}</script>\n"
    )


def _pairs(properties: Properties) -> str:
    return ", ".join(f'"{name}": "{value}"' for name, value in properties)  # no value needs an escape


WRITERS = {"rdfa": rdfa, "microdata": microdata, "jsonld": jsonld}


def open_graph(title: str, url: str, locale: str) -> str:
    return (
        f'<meta property="og:title" content="{title}"><meta property="og:type" content="article">'
        f'<meta property="og:url" content="{url}"><meta property="og:locale" content="{locale.replace("-", "_")}">\n'
    )
