"""Command `tarrafa entities`: finds people, events, products and other entities that pages describe.

It has the same parameters as the page /data.
"""

from typing import Annotated

import typer

from tarrafa.cli.options import DEFAULT_DATA, CollectionFilter, Data, Json
from tarrafa.runtime.data_dir import DataDirectory

LIMIT_MAX, OFFSET_MAX = 1_000, 100_000


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
    from tarrafa.cli.output import entity_list, terminal
    from tarrafa.server.entities.params import EntityParams, parse_condition
    from tarrafa.server.entities.routes import find_entities, list_facet
    from tarrafa.triples.entity_reader import ENTITIES_MAX, EntityReader

    directory = DataDirectory(data)
    directory.check_version()
    reader, text = EntityReader(directory), _valid_text(" ".join(words or []))
    speaks, is_one, is_none = (_valid_text(name).strip() for name in (vocabulary, of_class, not_class))
    conditions = tuple(parse_condition(_valid_text(one)) for one in where or [] if one.strip())
    wanted = EntityParams("" if listed else text, speaks, is_one, is_none, conditions, _valid_text(collection or ""))
    if listed:
        offered = list_facet(reader, listed, wanted, limit, offset, text)
        terminal.print_json(offered) if as_json else entity_list.print_names(offered)
        return
    found = find_entities(reader, wanted, min(limit, ENTITIES_MAX), offset)
    terminal.print_json(found) if as_json else entity_list.print_entities(found, offset)


def _valid_text(text: str) -> str:
    """Arguments may hold bytes that are no text."""
    return text.encode("utf-8", "replace").decode()
