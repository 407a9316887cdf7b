"""Commands `links`, `page` and `site`: links and details of a page or a site.

tarrafa links URL   who links to a page, and where it leads
tarrafa page URL    all that is known of a page
tarrafa site NAME   all that is known of a site or a host
"""

import asyncio
from typing import Annotated

import typer
from msgspec.structs import replace

from tarrafa.cli import frontier
from tarrafa.cli.options import DEFAULT_DATA, CollectionFilter, Data, Json
from tarrafa.errors import ConfigError
from tarrafa.runtime.data_dir import DataDirectory

OFFSET_MAX = 1_000_000_000

Url = Annotated[str, typer.Argument(help="Any URL that was crawled or linked to.")]
Limit = Annotated[int, typer.Option("--limit", "-n", min=1, max=10_000, help="How many of each list.")]
Offset = Annotated[int, typer.Option("--offset", min=0, max=OFFSET_MAX, help="Skip so many of each list.")]


def links(
    url: Url,
    data: Data = DEFAULT_DATA,
    incoming: Annotated[bool, typer.Option("--in", help="Only who links here.")] = False,
    outgoing: Annotated[bool, typer.Option("--out", help="Only where it leads.")] = False,
    limit: Limit = 50,
    offset: Offset = 0,
    collection: CollectionFilter = None,
    as_json: Json = False,
) -> None:
    """Show who links to a URL, and where it leads, with anchor texts."""
    from msgspec.structs import replace

    from tarrafa.cli.output import terminal
    from tarrafa.graph.reader import GraphReader

    directory = DataDirectory(data)
    directory.check_version()
    reader = GraphReader(directory)
    if reader.node(url, collection) is None:
        raise ConfigError(f"{url}: no crawled page is or links to this URL")
    found = reader.neighbours(url, collection, limit, offset)
    both = incoming == outgoing
    if as_json:
        found = found if both else replace(found, **({"outgoing": []} if incoming else {"incoming": []}))
        terminal.print_json(found)
    else:
        terminal.print_neighbours(found, offset, incoming=incoming or both, outgoing=outgoing or both)


def page(
    url: Url,
    data: Data = DEFAULT_DATA,
    limit: Limit = 10,
    offset: Offset = 0,
    collection: CollectionFilter = None,
    as_json: Json = False,
    where: frontier.FrontierAddress = None,
    token_file: frontier.TokenFile = None,
) -> None:
    """Show all that is known of a page: rank, visits, versions, how often it changes, words, links."""
    from tarrafa.cli.crawl import frontier_time
    from tarrafa.cli.output import page_site, terminal
    from tarrafa.crawl.explain.page_and_site import PageDetails, describe_page
    from tarrafa.frontier.address import from_command_line
    from tarrafa.graph.sites import SitePaging

    address, directory = from_command_line(where, token_file), DataDirectory(data)
    directory.check_version()

    async def asked() -> PageDetails:
        paging = SitePaging(limit, offset, offset, offset)
        return await describe_page(directory, url, await frontier_time(address), collection, paging, address)

    found = asyncio.run(asked())
    if as_json:
        terminal.print_json(found)
    else:
        page_site.print_page(found)


def site(
    name: Annotated[str, typer.Argument(help="A site (usp.br) or a host (www.usp.br, https://www.usp.br).")],
    data: Data = DEFAULT_DATA,
    limit: Limit = 10,
    offset: Offset = 0,
    collection: CollectionFilter = None,
    as_json: Json = False,
    where: frontier.FrontierAddress = None,
    token_file: frontier.TokenFile = None,
) -> None:
    """Show all that is known of a site: its pages, errors, hosts, robots.txt and delays, and the sites around it."""
    from tarrafa.cli.output import page_site, terminal
    from tarrafa.crawl.explain.page_and_site import describe_site
    from tarrafa.frontier.address import from_command_line
    from tarrafa.graph.sites import SitePaging
    from tarrafa.search.searcher import Searcher

    address, directory = from_command_line(where, token_file), DataDirectory(data)
    directory.check_version()
    paging = SitePaging(limit, offset, offset, offset)
    found = asyncio.run(describe_site(directory, name, collection, paging, address))
    found = replace(found, indexed=Searcher.open(directory).count_indexed(found.kind, found.name, collection))
    if as_json:
        terminal.print_json(found)
    else:
        page_site.print_site(found)
