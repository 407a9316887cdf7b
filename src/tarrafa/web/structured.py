"""What does a page say to machines?

Promises: part of the pages describe one thing (a person, an event, a product; by schema.org) in RDFa, JSON-LD or
microdata, well-formed and the same three times over: only the syntax differs. Open Graph comes on its own.
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


class Thing(NamedTuple):
    """A thing and its plain properties; `part` is one thing inside it."""

    type: str
    properties: tuple[tuple[str, str], ...]
    relation: str
    part: tuple[str, tuple[tuple[str, str], ...]]


def thing(luck: int, title: str) -> Thing:
    person = f"{FIRST_NAMES[luck >> 4 & 15]} {FAMILY_NAMES[luck >> 8 & 15]}"
    date = f"{2026 + (luck >> 12 & 1)}-{1 + (luck >> 13 & 15) % 12:02d}-{1 + (luck >> 17) % 28:02d}"
    kind = luck % 3
    about: tuple[tuple[str, str], ...]
    if kind == 0:
        about = (
            ("name", person),
            ("jobTitle", title.partition(" ")[0]),
            ("birthDate", f"19{60 + luck % 40}-{date[5:]}"),
        )
        return Thing("Person", about, "worksFor", ("Organization", (("name", title),)))
    if kind == 1:
        about = (("name", title), ("startDate", f"{date}T19:30"))
        return Thing("Event", about, "performer", ("Person", (("name", person),)))
    about = (("name", title), ("sku", f"T{luck & 0xFFFFF:06d}"))
    return Thing("Product", about, "offers", ("Offer", (("price", f"{luck % 900 + 1}.90"), ("priceCurrency", "BRL"))))


def rdfa(it: Thing) -> str:
    kind, properties = it.part
    inner = "".join(f'<span property="{name}">{value}</span> ' for name, value in properties)
    outer = "".join(f'<span property="{name}">{value}</span> ' for name, value in it.properties)
    return (
        f'<div class="ficha" vocab="{SCHEMA}" typeof="{it.type}">{outer}'
        f'<div property="{it.relation}" typeof="{kind}">{inner}</div></div>\n'
    )


def microdata(it: Thing) -> str:
    kind, properties = it.part
    inner = "".join(f'<span itemprop="{name}">{value}</span> ' for name, value in properties)
    outer = "".join(f'<span itemprop="{name}">{value}</span> ' for name, value in it.properties)
    return (
        f'<div class="ficha" itemscope itemtype="{SCHEMA}{it.type}">{outer}'
        f'<div itemprop="{it.relation}" itemscope itemtype="{SCHEMA}{kind}">{inner}</div></div>\n'
    )


def jsonld(it: Thing) -> str:
    kind, properties = it.part
    inner = ", ".join(f'"{name}": "{value}"' for name, value in properties)  # no value needs an escape
    outer = ", ".join(f'"{name}": "{value}"' for name, value in it.properties)
    return (
        f'<script type="application/ld+json">{{"@context": "{SCHEMA[:-1]}", "@type": "{it.type}", {outer}, '
        f'"{it.relation}": {{"@type": "{kind}", {inner}}}}}</script>\n'
    )


WRITERS = {"rdfa": rdfa, "microdata": microdata, "jsonld": jsonld}


def open_graph(title: str, url: str, locale: str) -> str:
    return (
        f'<meta property="og:title" content="{title}"><meta property="og:type" content="article">'
        f'<meta property="og:url" content="{url}"><meta property="og:locale" content="{locale.replace("-", "_")}">\n'
    )
