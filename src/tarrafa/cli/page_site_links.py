"""Commands `page`, `site` and `links`: details and links of a page or a site."""

import asyncio
from collections.abc import Sequence
from typing import Annotated

import typer
from msgspec.structs import replace
from rich.markup import escape

from tarrafa.cli.crawl import frontier_time
from tarrafa.cli.explain import told_rate
from tarrafa.cli.options import DEFAULT_DATA, CollectionFilter, Data, FrontierAddress, Json, TokenFile, existing_data
from tarrafa.cli.output import console, print_field, print_json, print_result
from tarrafa.crawl.explain.explain import format_time
from tarrafa.crawl.explain.page_and_site import HostDetails, PageDetails, SiteDetails, describe_page, describe_site
from tarrafa.errors import ConfigError
from tarrafa.frontier.address import from_command_line
from tarrafa.graph.reader import GraphReader
from tarrafa.graph.sites import LinkedSite, SitePaging
from tarrafa.model import InAndOutLinks, LinkedPage
from tarrafa.runtime.terminal import counted
from tarrafa.search.searcher import Searcher

OFFSET_MAX = 1_000_000_000
Linked = tuple[str, str]  # the verb for one, and for several
IN_LINKS: Linked = ("links here", "link here")
OUT_LINKS: Linked = ("is linked from here", "are linked from here")
VISITS_SHOWN, WORDS_SHOWN = 10, 20

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
    reader = GraphReader(existing_data(data))
    if reader.node(url, collection) is None:
        raise ConfigError(f"{url}: not crawled, and no crawled page links to it")
    found = reader.neighbours(url, collection, limit, offset)
    both = incoming == outgoing
    if as_json:
        found = found if both else replace(found, **({"outgoing": []} if incoming else {"incoming": []}))
        print_json(found)
    else:
        _print_neighbours(found, offset, incoming=incoming or both, outgoing=outgoing or both)


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
    address, directory = from_command_line(where, token_file), existing_data(data)
    paging = SitePaging(limit, offset, offset, offset)

    async def details() -> PageDetails:
        return await describe_page(directory, url, await frontier_time(address), collection, paging, address)

    print_result(asyncio.run(details()), as_json, print_page)


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
    address, directory = from_command_line(where, token_file), existing_data(data)
    paging = SitePaging(limit, offset, offset, offset)
    count_indexed = Searcher.open(directory).count_indexed

    async def details() -> SiteDetails:
        now = await frontier_time(address)
        return await describe_site(directory, name, now, collection, paging, address, count_indexed)

    print_result(asyncio.run(details()), as_json, print_site)


def _print_neighbours(shown: InAndOutLinks, offset: int, *, incoming: bool, outgoing: bool) -> None:
    for wanted, title, links, total in (
        (incoming, IN_LINKS, shown.incoming, shown.in_total),
        (outgoing, OUT_LINKS, shown.outgoing, shown.out_total),
    ):
        if not wanted:
            continue
        first = f", {offset + 1:,} to {offset + len(links):,}" if 0 < len(links) < total else ""
        console.print(f"[bold]{_count_linked('page', title, total)}[/]{first}:")
        _print_links(links)


def print_page(found: PageDetails) -> None:
    console.print(f"[bold]{escape(found.title or found.url)}[/]")
    print_field("url", found.url)
    print_field("collection", ", ".join(found.collections))
    if found.status is not None:
        print_field("status", f"{found.status} {found.meaning}".rstrip())
    print_field("rank", f"{found.rank:.3g} times the mean; {_count_linked('page', IN_LINKS, found.in_total)}")
    for name, at in (
        ("known since", found.first_seen_at),
        ("visited", found.visited_at),
        ("changed", found.changed_at),
    ):
        if at:
            print_field(name, format_time(at))
    _changes(found)
    if found.frontier:
        print_field("frontier", str(found.frontier))
    if found.words:
        words = ", ".join(f"{one.word} {one.count}" for one in found.words[:WORDS_SHOWN])
        print_field("words", f"{words} ({counted(found.words_total, 'different word')})")
    _neighbours(IN_LINKS, found.incoming, found.in_total)
    _neighbours(OUT_LINKS, found.outgoing, found.out_total)
    _related("host", OUT_LINKS, found.out_hosts, found.out_hosts_total)


def _changes(found: PageDetails) -> None:
    for visit in found.history[-VISITS_SHOWN:]:
        seen = {True: ", changed", False: ", unchanged", None: ""}[visit.changed]
        print_field(f"visit {visit.number}", f"{format_time(visit.at)}  {visit.status} {visit.meaning}".rstrip() + seen)
    if found.versions:
        print_field("versions", f"{len(found.versions):,} in the last {counted(len(found.history), 'visit')}")
    if found.changes is not None:
        page = found.changes
        print_field("changes", told_rate(page))


def _neighbours(linked: Linked, some: Sequence[LinkedPage], total: int) -> None:
    _head(_count_linked("page", linked, total), len(some), total)
    _print_links(some)


def _print_links(links: Sequence[LinkedPage]) -> None:
    for one in links:
        rel = f" [dim]({escape(one.rel)})[/]" if one.rel else ""
        console.print(f"  [green]{escape(one.url)}[/]  {escape(one.anchor)}{rel}")


def _related(what: str, linked: Linked, some: Sequence[LinkedSite], total: int) -> None:
    _head(_count_linked(what, linked, total), len(some), total)
    for one in some:
        console.print(f"  {one.links:>9,}  [green]{escape(one.name)}[/]")


def _count_linked(what: str, linked: Linked, total: int) -> str:
    """`1 page links here`, `2 pages link here`."""
    return f"{counted(total, what)} {linked[total != 1]}"


def _head(title: str, shown: int, total: int) -> None:
    part = f", {shown:,} of them" if total > shown else ""
    console.print(f"[bold]{title}[/]{part}{':' if shown else ''}")


def print_site(found: SiteDetails) -> None:
    console.print(f"[bold]{escape(found.name)}[/]  ({found.kind}, as of {format_time(found.as_of)})")
    print_field("collection", found.collection)
    for counts in sorted(found.by_collection, key=lambda one: one.collection != found.collection):
        searchable = f", {counts.indexed:,} searchable" if counts.indexed is not None else ""
        is_own = counts.collection == found.collection
        errors = f", {counted(found.errors, 'error')}" if is_own else ""
        print_field(
            "URLs" if is_own else f"in {counts.collection}",
            f"{counts.known:,} known, {counts.visited:,} visited, {counts.fetched:,} answered 200{searchable}{errors}",
        )
    print_field("rank", f"{found.rank:,.3g} in all, {found.rank / max(1, found.known):.3g} times the mean")
    for one in found.statuses:
        print_field("", f"{one.urls:>9,}  {one.status} {one.meaning}".rstrip())
    if found.frontier:
        print_field("frontier", str(found.frontier))
    of_site = "of the site" if found.kind == "site" else "of its site"
    _head(f"{counted(found.hosts_total, 'host')} {of_site}", len(found.hosts), found.hosts_total)
    for host in found.hosts:
        console.print(f"  [green]{escape(host.host)}[/]  {host.known:,} known, {host.visited:,} visited")
    for state in found.states:
        _print_host_state(state)
    _related(found.kind, IN_LINKS, found.incoming, found.in_total)
    _related(found.kind, OUT_LINKS, found.outgoing, found.out_total)


def _print_host_state(state: HostDetails) -> None:
    console.print(f"[bold]{escape(state.host)}[/]")
    print_field(
        "politeness",
        f"delay {state.delay_s:g} s; {counted(state.visits, 'visit')} made, "
        f"{counted(state.waiting, 'URL')} in the queue",
    )
    if state.trouble or state.failures:
        print_field("trouble", f"{state.trouble} ({counted(state.failures, 'failure')} in a row)")
    if state.robots_status is None:
        print_field("robots.txt", "not fetched yet")
        return
    lines = state.robots.strip().splitlines()
    print_field("robots.txt", f"status {state.robots_status}, valid until {format_time(state.robots_expires_at)}")
    for line in lines[:VISITS_SHOWN]:
        print_field("", line[:120])
    if len(lines) > VISITS_SHOWN:
        print_field("", f"… {counted(len(lines) - VISITS_SHOWN, 'more line')}")
