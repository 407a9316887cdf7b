"""Who links to whom?

Promises: `links` is the one list from which the page is written *and* the truth is told, so the two cannot disagree;
every open page of a host can be reached from its root, and every host's root from the root of host 1, by links that
robots.txt and nofollow leave open. It never changes with time.
Knows nothing of how a link is written.

The tree: page n links to pages bn+1 ... bn+b (b the host's branching), as a heap does, and a host's root to the
roots of eight others in the same way. Over it lie random links by a power law (pages of low number and famous hosts
are linked to most), some of them shared by many pages (`shelf`), the navigation to the section fronts, and what the
page owns (site.py).
"""

from enum import IntEnum
from functools import lru_cache

import msgspec

from tarrafa.web.chance import shorts
from tarrafa.web.site import Kind, Resource, Role, card, owns, role
from tarrafa.web.world import CACHED_HOSTS, HOST_FANOUT, Host, World

INTERNAL_MIN, INTERNAL_SPREAD = 2, 8  # random links to the same host: 2 to 9
SHELVES, SHELF_LINKS = 4, 8
CACHED_SHELVES = 1 << 14
RELATIVE = (7, 8)  # spellings that depend on the page they stand in
EXTERNAL_SPREAD = 4  # random links to other hosts: 0 to 3

_PURPOSE_LINKS = 6
_PURPOSE_SHELF = 9
_FIRST_EXTERNAL = 2
_FIRST_INTERNAL = _FIRST_EXTERNAL + 4 * (EXTERNAL_SPREAD - 1)


class Place(IntEnum):
    """Where on the page a link stands."""

    MENU = 0
    TEXT = 1
    LIST = 2
    ELSEWHERE = 3
    FURNITURE = 4
    SHELF = 5


_PLACES = (Place.LIST, Place.TEXT, Place.TEXT, Place.TEXT)


class Link(msgspec.Struct, frozen=True, gc=False):
    to: Resource
    place: Place
    spelling: int = 0  # how its href is written, 0 to 15: spelling.py
    nofollow: bool = False


def links(world: World, source: Resource) -> list[Link]:
    """All ways out of a resource, in the order in which they stand on the page."""
    if source.kind is not Kind.PAGE:
        return own(world, source)
    shared = shelf(world, source.no, shelf_of(world, source))
    return [*menu(world, source.no), *own(world, source), *shared]


@lru_cache(maxsize=CACHED_HOSTS)
def menu(world: World, no: int) -> tuple[Link, ...]:
    """What every page of a host begins with: the root and the fronts of the sections."""
    return tuple(Link(Resource(Kind.PAGE, no, n), Place.MENU) for n in range(world.host(no).sections + 1))


@lru_cache(maxsize=CACHED_SHELVES)
def shelf(world: World, no: int, number: int) -> tuple[Link, ...]:
    """The "most read" of a host, one of four such lists that its pages share: what is the same need not be made anew,
    neither here nor in page.py. Spelled in any way but relative to the page."""
    host = world.host(no)
    luck = shorts(world.seed, _PURPOSE_SHELF, no, number)
    out = []
    for i in range(0, 2 * min(SHELF_LINKS, host.open - 1), 2):
        to = Resource(Kind.PAGE, no, _popular(luck[i], host.open))
        spelling = luck[i + 1] & 15
        out.append(Link(to, Place.SHELF, 0 if spelling in RELATIVE else spelling))
    return tuple(out)


def shelf_of(world: World, source: Resource) -> int:
    return card(world, source.no, source.n).bits >> 98 & (SHELVES - 1)


def own(world: World, source: Resource) -> list[Link]:
    """The links that a page shares with no other."""
    kind, no, n = source.kind, source.no, source.n
    if kind is Kind.PRINT:
        return [Link(Resource(Kind.PAGE, no, n), Place.FURNITURE)]
    if kind is not Kind.PAGE:
        return []
    host = world.host(no)
    luck = shorts(world.seed, _PURPOSE_LINKS, no, n)
    out = _internal(host, luck)
    first = host.branching * n + 1
    for child in range(first, min(first + host.branching, host.open)):
        out.append(Link(Resource(Kind.PAGE, no, child), Place.LIST, _spelling(luck, child)))
    out += _special(host, n, luck)
    for owned in owns(host, n, card(world, no, n).bits) if n < host.open else ():
        out.append(Link(Resource(owned, no, n), Place.FURNITURE, _spelling(luck, n)))
    out += _external(world, luck)
    if n == 0:
        out += _of_root(world, host, luck)
    return out


def _popular(luck: int, pages: int) -> int:
    """A page by its popularity: the third power of 16 bits of luck."""
    return (luck * luck * luck * pages) >> 48


def _spelling(luck: tuple[int, ...], i: int) -> int:
    how = luck[63 - i % 8] + 16 * i
    return how >> 4 & 15 if how & 3 == 0 else 0


def _internal(host: Host, luck: tuple[int, ...]) -> list[Link]:
    count = min(INTERNAL_MIN + luck[0] % INTERNAL_SPREAD, 2 * (host.open - 1))
    no, size, page, places = host.no, host.open, Kind.PAGE, _PLACES
    out = []
    for i in range(_FIRST_INTERNAL, _FIRST_INTERNAL + 2 * count, 2):
        where, how = luck[i], luck[i + 1]
        to = Resource(page, no, _popular(where, size))
        out.append(Link(to, places[how >> 4 & 3], 0 if how & 0xC0 else how & 15, not how >> 11))
    return out


def _external(world: World, luck: tuple[int, ...]) -> list[Link]:
    out = []
    for i in range(_FIRST_EXTERNAL, _FIRST_EXTERNAL + 4 * (luck[1] % EXTERNAL_SPREAD), 4):
        fame = luck[i] << 16 | luck[i + 1]
        no = world.famous[(fame * fame * fame * world.hosts) >> 96]
        depth, how = luck[i + 2], luck[i + 3]
        n = 0 if how & 0xC0 else _popular(depth, world.host(no).open)
        out.append(Link(Resource(Kind.PAGE, no, n), Place.ELSEWHERE, how & 15, not how >> 12))
    return out


def _special(host: Host, n: int, luck: tuple[int, ...]) -> list[Link]:
    """The links that give the pages of the tail their roles."""
    tail = host.pages - host.open
    if not tail:
        return []
    if n >= host.open:
        behind = {Role.PRIVATE: Role.BEHIND_PRIVATE, Role.DEAD_END: Role.BEHIND_DEAD_END}.get(role(host, n))
        if behind and n + 1 < host.pages and role(host, n + 1) is behind:
            return [Link(Resource(Kind.PAGE, host.no, n + 1), Place.LIST, _spelling(luck, n))]
        return []
    owned, rest = divmod(n, host.open // tail)
    if rest or owned >= tail:
        return []
    special = host.open + owned
    part = role(host, special)
    if part in (Role.ORPHAN, Role.BEHIND_PRIVATE, Role.BEHIND_DEAD_END):
        return []
    kind = Kind.MOVED if part is Role.MOVED else Kind.PAGE
    return [Link(Resource(kind, host.no, special), Place.LIST, _spelling(luck, n), part is Role.SHY)]


def _of_root(world: World, host: Host, luck: tuple[int, ...]) -> list[Link]:
    first = HOST_FANOUT * (host.no - 1) + 2
    out = [
        Link(Resource(Kind.PAGE, no, 0), Place.ELSEWHERE, _spelling(luck, no))
        for no in range(first, min(first + HOST_FANOUT, world.hosts + 1))
    ]
    if host.hops:
        out.append(Link(Resource(Kind.HOP, host.no, 1), Place.FURNITURE))
    if host.loop:
        out.append(Link(Resource(Kind.LOOP, host.no, 1), Place.FURNITURE))
    return out
