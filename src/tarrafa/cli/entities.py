"""Command `tarrafa entities`: finds people, events, products and other entities that pages describe.

It has the same parameters as the page /data.
"""

from typing import Annotated

import typer
from rich.markup import escape

from tarrafa.cli.options import DEFAULT_DATA, CollectionFilter, Data, Json, existing_data
from tarrafa.cli.output import console, print_result
from tarrafa.runtime.terminal import counted
from tarrafa.server.entities.display import display_iri, summarize_properties, truncate
from tarrafa.server.entities.params import EntityParams, parse_condition
from tarrafa.server.entities.routes import EntitySearchResponse, FacetListResponse, find_entities, list_facet
from tarrafa.triples.entity_reader import ENTITIES_MAX, EntityReader, EntityValue, FoundEntity

LIMIT_MAX, OFFSET_MAX = 1_000, 100_000
VALUE_CHARS_SHOWN = 120
FACET_NAMES = {"vocabularies": "vocabulary", "classes": "class", "properties": "property"}
PROPERTIES_SHOWN, VALUES_SHOWN, PAGES_SHOWN = 12, 5, 5


def entities(
    words: Annotated[
        list[str] | None, typer.Argument(help="Words in any property; with --list, part of a name.", show_default=False)
    ] = None,
    data: Data = DEFAULT_DATA,
    of_class: Annotated[
        str, typer.Option("--class", metavar="NAME", help="Only this class: schema:Event, Event, or its IRI.")
    ] = "",
    not_class: Annotated[str, typer.Option("--not", metavar="NAME", help="Exclude this class.")] = "",
    vocabulary: Annotated[str, typer.Option(metavar="NAME", help="Only this vocabulary: schema, or its IRI.")] = "",
    where: Annotated[
        list[str] | None,
        typer.Option(
            metavar="CONDITION",
            help="Condition on a property: 'startDate>=2026-01-01', 'price<50', 'name=Ana', 'name ana silva', 'email'.",
        ),
    ] = None,
    listed: Annotated[
        str, typer.Option("--list", metavar="WHICH", help="List vocabularies, classes or properties.")
    ] = "",
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, max=LIMIT_MAX, help="Number of results.")] = 10,
    offset: Annotated[int, typer.Option(min=0, max=OFFSET_MAX, help="Results to skip.")] = 0,
    collection: CollectionFilter = None,
    as_json: Json = False,
) -> None:
    """Find people, events, products and other entities.

    They come from the structured data of pages, and are shown with the pages that describe them. Works while the crawl
    runs.
    """
    reader, text = EntityReader(existing_data(data)), _valid_text(" ".join(words or []))
    vocabulary, of_class, not_class = (_valid_text(name).strip() for name in (vocabulary, of_class, not_class))
    conditions = tuple(parse_condition(_valid_text(one)) for one in where or [] if one.strip())
    wanted = EntityParams(
        "" if listed else text, vocabulary, of_class, not_class, conditions, _valid_text(collection or "")
    )
    if listed:
        print_result(list_facet(reader, listed, wanted, limit, offset, text), as_json, _print_names)
        return
    found = find_entities(reader, wanted, min(limit, ENTITIES_MAX), offset)
    print_result(found, as_json, lambda found: _print_entities(found, offset))


def _valid_text(text: str) -> str:
    """The argument without bytes that are not UTF-8."""
    return text.encode("utf-8", "replace").decode()


def _print_entities(found: EntitySearchResponse, offset: int) -> None:
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
            console.print(f"   [dim]and {counted(thing.pages_total - PAGES_SHOWN, 'more page')}[/]")


def _name(thing: FoundEntity) -> str:
    return truncate(thing.label, VALUE_CHARS_SHOWN) or display_iri(thing.key)


def _value(shown: EntityValue) -> str:
    inner = summarize_properties(shown.inside, shown.label, PROPERTIES_SHOWN, VALUES_SHOWN).properties
    inside = ", ".join(f"{display_iri(one.iri)} {_value(value)}" for one in inner for value in one.values)
    text = shown.text or shown.label or display_iri(shown.iri or shown.thing)
    return truncate(text, VALUE_CHARS_SHOWN) + (f" ({inside})" if inside else "")


def _print_names(found: FacetListResponse) -> None:
    console.print(counted(found.total, FACET_NAMES.get(found.kind, found.kind), found.kind))
    for one in found.names:
        count = counted(one.things, "entity", "entities") if one.things else counted(one.uses, "use")
        console.print(f"  {count:>16} on {counted(one.pages, 'page'):>15}  {escape(display_iri(one.iri))}")
