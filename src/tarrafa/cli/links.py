"""Commands `links`, `explain`, `page` and `site`: links, crawl state and details of a URL or a site."""

import asyncio
from typing import Annotated

import typer
from msgspec.structs import replace

from tarrafa.cli.options import DEFAULT_DATA, CollectionFilter, Data, FrontierAddress, Json, TokenFile
from tarrafa.errors import ConfigError
from tarrafa.runtime.data_dir import DataDirectory

OFFSET_MAX = 1_000_000_000

Url = Annotated[str, typer.Argument(help="URL of a crawled or linked page.")]
Limit = Annotated[int, typer.Option("--limit", "-n", min=1, max=10_000, help="Length of each list.")]
Offset = Annotated[int, typer.Option("--offset", min=0, max=OFFSET_MAX, help="Entries to skip in each list.")]


def links(
    url: Url,
    data: Data = DEFAULT_DATA,
    incoming: Annotated[bool, typer.Option("--in", help="Only links to the URL.")] = False,
    outgoing: Annotated[bool, typer.Option("--out", help="Only links from the URL.")] = False,
    limit: Limit = 50,
    offset: Offset = 0,
    collection: CollectionFilter = None,
    as_json: Json = False,
) -> None:
    """List the links to and from a URL, with anchor texts."""
    from tarrafa.cli.output import terminal
    from tarrafa.graph.reader import GraphReader

    directory = DataDirectory(data)
    directory.check_version()
    reader = GraphReader(directory)
    if reader.node(url, collection) is None:
        raise ConfigError(f"{url}: not crawled, and no crawled page links to it")
    found = reader.neighbours(url, collection, limit, offset)
    both = incoming == outgoing
    if as_json:
        found = found if both else replace(found, **({"outgoing": []} if incoming else {"incoming": []}))
        terminal.print_json(found)
    else:
        terminal.print_neighbours(found, offset, incoming=incoming or both, outgoing=outgoing or both)


def explain(
    url: Annotated[str, typer.Argument(help="URL.")],
    data: Data = DEFAULT_DATA,
    collection: CollectionFilter = None,
    as_json: Json = False,
    where: FrontierAddress = None,
    token_file: TokenFile = None,
) -> None:
    """Explain a URL: scope rule, robots.txt, visits, next visit.

    It answers the questions of a webmaster: why was this fetched, and when will it be again?
    """
    from tarrafa.cli.crawl import frontier_time
    from tarrafa.cli.output import explanation, terminal
    from tarrafa.crawl.explain.explain import Explanation
    from tarrafa.crawl.explain.explain import explain as explain_url
    from tarrafa.frontier.address import from_command_line

    address = from_command_line(where, token_file)

    async def asked() -> Explanation:
        return await explain_url(DataDirectory(data), url, collection, await frontier_time(address), address)

    found = asyncio.run(asked())
    if as_json:
        terminal.print_json(found)
    else:
        explanation.print_explanation(found)


def page(
    url: Url,
    data: Data = DEFAULT_DATA,
    limit: Limit = 10,
    offset: Offset = 0,
    collection: CollectionFilter = None,
    as_json: Json = False,
    where: FrontierAddress = None,
    token_file: TokenFile = None,
) -> None:
    """Show a page: rank, visits, versions, change rate, words, links."""
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
    name: Annotated[str, typer.Argument(help="Site (usp.br) or host (www.usp.br, https://www.usp.br).")],
    data: Data = DEFAULT_DATA,
    limit: Limit = 10,
    offset: Offset = 0,
    collection: CollectionFilter = None,
    as_json: Json = False,
    where: FrontierAddress = None,
    token_file: TokenFile = None,
) -> None:
    """Show a site or host: pages, errors, robots.txt, linked sites."""
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
