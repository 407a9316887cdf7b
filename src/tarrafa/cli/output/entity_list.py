"""Prints entities, classes and properties on the terminal."""

from rich.markup import escape

from tarrafa.cli.output.terminal import console, printable
from tarrafa.server.entities.display import display_iri, summarize_properties, truncate
from tarrafa.server.entities.routes import EntitySearchResponse, FacetListResponse
from tarrafa.triples.entity_reader import EntityValue, FoundEntity

VALUE_CHARS_SHOWN = 120
PROPERTIES_SHOWN, VALUES_SHOWN, PAGES_SHOWN = 12, 5, 5


def print_entities(found: EntitySearchResponse, offset: int) -> None:
    if not found.things:
        console.print("No such entity found." if not found.total else f"There are only {found.total:,}.")
        return
    many = "more than " if found.more else ""
    console.print(f"{many}{found.total:,} entit{'y' if found.total == 1 else 'ies'}")
    for place, thing in enumerate(found.things, offset + 1):
        kinds = " ".join(display_iri(iri) for iri in thing.classes)
        console.print(f"\n[bold]{place}. {escape(_name(thing))}[/]  [cyan]{escape(kinds)}[/]")
        shown = summarize_properties(thing.properties, thing.label, PROPERTIES_SHOWN, VALUES_SHOWN)
        for one in shown.properties:
            texts = "; ".join(_value(value) for value in one.values) + (f" … {one.more} more" if one.more else "")
            console.print(f"   {escape(display_iri(one.iri)):24} {escape(texts)}")
        for page in thing.pages[:PAGES_SHOWN]:
            console.print(f"   [green]{escape(page.url)}[/] [dim]{page.fetched[:10]}[/]")
        if thing.pages_total > PAGES_SHOWN:
            console.print(f"   [dim]and {thing.pages_total - PAGES_SHOWN:,} more pages[/]")


def _name(thing: FoundEntity) -> str:
    return truncate(printable(thing.label), VALUE_CHARS_SHOWN) or display_iri(thing.key)


def _value(shown: EntityValue) -> str:
    inner = summarize_properties(shown.inside, shown.label, PROPERTIES_SHOWN, VALUES_SHOWN).properties
    inside = ", ".join(f"{display_iri(one.iri)} {_value(value)}" for one in inner for value in one.values)
    text = printable(shown.text or shown.label) or display_iri(shown.iri or shown.thing)
    return truncate(text, VALUE_CHARS_SHOWN) + (f" ({inside})" if inside else "")


def print_names(found: FacetListResponse) -> None:
    console.print(f"{found.total:,} {found.kind}")
    for one in found.names:
        count = f"{one.things:,} entities" if one.things else f"{one.uses:,} uses"
        console.print(f"  {count:>16} on {one.pages:>9,} pages  {escape(display_iri(one.iri))}")
