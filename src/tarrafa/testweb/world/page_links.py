"""Computes the outlinks of every page of the synthetic Web.

Promises: `outlinks` is the single list from which both the page and the oracle are computed, so the two cannot
disagree. Every open page of a host can be reached from its root, and every host's root from the root of host 1, by
links that robots.txt and nofollow leave open. The links never change with time.
Knows nothing of how a link is written.

The tree: page n links to pages bn+1 ... bn+b (b is the host's branching), like a heap, and a host's root links to the
roots of eight others in the same way. On top of the tree are random links by a power law (pages of low number and
popular hosts get the most links), some of them shared by many pages (`popular_links`), the menu of section fronts, and
the resources that the page owns (`resources`).
"""

from enum import IntEnum
from functools import lru_cache

import msgspec

from tarrafa.testweb.world.hash_random import draw_shorts
from tarrafa.testweb.world.hosts import CACHED_HOSTS, HOST_FANOUT, WebHost, World
from tarrafa.testweb.world.resources import PageRole, Resource, ResourceKind, link_target, owned_kinds, role_of

INTERNAL_MIN, INTERNAL_SPREAD = 2, 8  # random links to the same host: 2 to 9
POPULAR_LISTS, POPULAR_LIST_LINKS = 4, 8
POPULAR_LISTS_CACHED_MAX = 1 << 14
RELATIVE_VARIANTS = (7, 8)  # variants that depend on the page that contains them
EXTERNAL_SPREAD = 4  # random links to other hosts: 0 to 3

_PURPOSE_LINKS = 6
_PURPOSE_POPULAR = 9
_FIRST_EXTERNAL = 2
_FIRST_INTERNAL = _FIRST_EXTERNAL + 4 * (EXTERNAL_SPREAD - 1)


class LinkPosition(IntEnum):
    """The position of a link on the page."""

    MENU = 0
    TEXT = 1
    LIST = 2
    EXTERNAL = 3
    FOOTER = 4
    POPULAR = 5


_PLACES = (LinkPosition.LIST, LinkPosition.TEXT, LinkPosition.TEXT, LinkPosition.TEXT)


class WebLink(msgspec.Struct, frozen=True, gc=False):
    to: Resource
    position: LinkPosition
    variant: int = 0  # how its href is written, 0 to 15: `url_variants`
    nofollow: bool = False


def outlinks(world: World, source: Resource) -> list[WebLink]:
    """All links of a resource, in page order."""
    if source.kind is not ResourceKind.PAGE:
        return own_links(world, source)
    shared = popular_links(world, source.no, popular_list_of(world, source))
    return [*menu_links(world, source.no), *own_links(world, source), *shared]


@lru_cache(maxsize=CACHED_HOSTS)
def menu_links(world: World, no: int) -> tuple[WebLink, ...]:
    """The links at the top of every page of a host: the root and the fronts of the sections."""
    return tuple(
        WebLink(Resource(ResourceKind.PAGE, no, n), LinkPosition.MENU) for n in range(world.host(no).sections + 1)
    )


@lru_cache(maxsize=POPULAR_LISTS_CACHED_MAX)
def popular_links(world: World, no: int, number: int) -> tuple[WebLink, ...]:
    """The "most read" links of a host, one of four such lists that its pages share, so that neither this module nor
    `render.page_html` makes them again for each page. Never written relative to the page.
    """
    host = world.host(no)
    luck = draw_shorts(world.seed, _PURPOSE_POPULAR, no, number)
    out = []
    for i in range(0, 2 * min(POPULAR_LIST_LINKS, host.open - 1), 2):
        to = Resource(ResourceKind.PAGE, no, _popular(luck[i], host.open))
        spelling = luck[i + 1] & 15
        out.append(WebLink(to, LinkPosition.POPULAR, 0 if spelling in RELATIVE_VARIANTS else spelling))
    return tuple(out)


def popular_list_of(world: World, source: Resource) -> int:
    return link_target(world, source.no, source.n).bits >> 98 & (POPULAR_LISTS - 1)


def own_links(world: World, source: Resource) -> list[WebLink]:
    """The links that a page shares with no other page."""
    kind, no, n = source.kind, source.no, source.n
    if kind is ResourceKind.PRINT:
        return [WebLink(Resource(ResourceKind.PAGE, no, n), LinkPosition.FOOTER)]
    if kind is not ResourceKind.PAGE:
        return []
    host = world.host(no)
    luck = draw_shorts(world.seed, _PURPOSE_LINKS, no, n)
    out = _internal(host, luck)
    first = host.branching * n + 1
    for child in range(first, min(first + host.branching, host.open)):
        out.append(WebLink(Resource(ResourceKind.PAGE, no, child), LinkPosition.LIST, _variant(luck, child)))
    out += _tail_links(host, n, luck)
    for owned in owned_kinds(host, n, link_target(world, no, n).bits) if n < host.open else ():
        out.append(WebLink(Resource(owned, no, n), LinkPosition.FOOTER, _variant(luck, n)))
    out += _external(world, luck)
    if n == 0:
        out += _root_links(world, host, luck)
    return out


def _popular(luck: int, pages: int) -> int:
    """A page number by popularity: the third power of 16 random bits."""
    return (luck * luck * luck * pages) >> 48


def _variant(luck: tuple[int, ...], i: int) -> int:
    how = luck[63 - i % 8] + 16 * i
    return how >> 4 & 15 if how & 3 == 0 else 0


def _internal(host: WebHost, luck: tuple[int, ...]) -> list[WebLink]:
    count = min(INTERNAL_MIN + luck[0] % INTERNAL_SPREAD, 2 * (host.open - 1))
    no, size, page, places = host.no, host.open, ResourceKind.PAGE, _PLACES
    out = []
    for i in range(_FIRST_INTERNAL, _FIRST_INTERNAL + 2 * count, 2):
        where, how = luck[i], luck[i + 1]
        to = Resource(page, no, _popular(where, size))
        out.append(WebLink(to, places[how >> 4 & 3], 0 if how & 0xC0 else how & 15, not how >> 11))
    return out


def _external(world: World, luck: tuple[int, ...]) -> list[WebLink]:
    out = []
    for i in range(_FIRST_EXTERNAL, _FIRST_EXTERNAL + 4 * (luck[1] % EXTERNAL_SPREAD), 4):
        fame = luck[i] << 16 | luck[i + 1]
        no = world.famous[(fame * fame * fame * world.hosts) >> 96]
        depth, how = luck[i + 2], luck[i + 3]
        n = 0 if how & 0xC0 else _popular(depth, world.host(no).open)
        out.append(WebLink(Resource(ResourceKind.PAGE, no, n), LinkPosition.EXTERNAL, how & 15, not how >> 12))
    return out


def _tail_links(host: WebHost, n: int, luck: tuple[int, ...]) -> list[WebLink]:
    """The links that give the tail pages their roles."""
    tail = host.pages - host.open
    if not tail:
        return []
    if n >= host.open:
        behind = {PageRole.PRIVATE: PageRole.BEHIND_PRIVATE, PageRole.DEAD_END: PageRole.BEHIND_DEAD_END}.get(
            role_of(host, n)
        )
        if behind and n + 1 < host.pages and role_of(host, n + 1) is behind:
            return [WebLink(Resource(ResourceKind.PAGE, host.no, n + 1), LinkPosition.LIST, _variant(luck, n))]
        return []
    owned, rest = divmod(n, host.open // tail)
    if rest or owned >= tail:
        return []
    special = host.open + owned
    part = role_of(host, special)
    if part in (PageRole.ORPHAN, PageRole.BEHIND_PRIVATE, PageRole.BEHIND_DEAD_END):
        return []
    kind = ResourceKind.MOVED if part is PageRole.MOVED else ResourceKind.PAGE
    return [
        WebLink(Resource(kind, host.no, special), LinkPosition.LIST, _variant(luck, n), part is PageRole.NOFOLLOW_ONLY)
    ]


def _root_links(world: World, host: WebHost, luck: tuple[int, ...]) -> list[WebLink]:
    first = HOST_FANOUT * (host.no - 1) + 2
    out = [
        WebLink(Resource(ResourceKind.PAGE, no, 0), LinkPosition.EXTERNAL, _variant(luck, no))
        for no in range(first, min(first + HOST_FANOUT, world.hosts + 1))
    ]
    if host.hops:
        out.append(WebLink(Resource(ResourceKind.HOP, host.no, 1), LinkPosition.FOOTER))
    if host.loop:
        out.append(WebLink(Resource(ResourceKind.LOOP, host.no, 1), LinkPosition.FOOTER))
    return out
