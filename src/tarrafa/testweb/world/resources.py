"""Lists the resources of a host (pages, redirects, files, robots.txt) and maps them to paths and back.

Promises: a resource has exactly one canonical path and a path at most one resource; both directions take constant time.
A path that `resolve` does not know is a 404.
Knows nothing of links, HTML, HTTP or time.

The pages of a host are numbered. Those below `host.open` form a tree of links from the root (`page_links`), so that all
of them can be reached; the first `host.sections` of these are the fronts of sections. The rest, the tail, have roles in
turn: each role defines how an obedient crawler reaches the page, or why it does not (`PageRole`). Other resources
(print versions, redirects, files, missing pages) are owned by the open page whose bits say so, and carry its number.
"""

import re
from collections.abc import Iterator
from enum import StrEnum
from functools import lru_cache
from urllib.parse import quote, unquote

import msgspec

from tarrafa.testweb.world.change_model import rate_per_day
from tarrafa.testweb.world.hash_random import draw
from tarrafa.testweb.world.hosts import EN_PATH_WORDS, PT_PATH_WORDS, WebHost, World
from tarrafa.testweb.world.prose import HEADS, TAILS

HOPS = 4  # redirects in a chain; every other redirect leads directly to a page
LOOP = 2  # redirects in a loop
FILE_TYPES = {
    "png": "image/png",
    "pdf": "application/pdf",
    "txt": "text/plain; charset=utf-8",
    "zip": "application/zip",
}
FILE_EXTENSIONS = tuple(FILE_TYPES)
REDIRECT_STATUSES = (301, 302, 307, 308, 301, 302, 303, 301)
LINK_TARGETS_CACHED_MAX = 1 << 16

_PURPOSE_PAGE = 4
_PURPOSE_REDIRECT = 5


class ResourceKind(StrEnum):
    PAGE = "page"
    PRINT = "print"  # the same page without its links, canonical to it
    REDIRECT = "redirect"  # to a page on this or another host
    MOVED = "moved"  # the old URL of a tail page: the only way to it
    HOP = "hop"  # one redirect of a chain
    LOOP = "loop"  # one redirect of a loop
    FILE = "file"
    GONE = "gone"  # linked to, but missing: 404, on some hosts 410
    ROBOTS = "robots"
    SITEMAP = "sitemap"


REDIRECT_KINDS = (ResourceKind.REDIRECT, ResourceKind.MOVED, ResourceKind.HOP, ResourceKind.LOOP)


class PageRole(StrEnum):
    """Why an obedient crawler does or does not reach a page."""

    OPEN = "open"
    PRIVATE = "private"  # linked, in the directory that robots.txt (where there is one) disallows
    BEHIND_PRIVATE = "behind private"  # linked only from the private page before it
    EXCEPTION = "exception"  # linked, in the part of that directory that robots.txt allows again
    ORPHAN = "orphan"  # in the sitemap, linked from no page
    NOFOLLOW_ONLY = "shy"  # linked only with rel=nofollow
    DEAD_END = "dead end"  # linked, but says nofollow itself
    BEHIND_DEAD_END = "behind dead end"  # linked only from the dead end before it
    MOVED = "moved"  # linked only by its old URL, which redirects


TAIL_ROLES = tuple(PageRole)[1:]


class Resource(msgspec.Struct, frozen=True, gc=False):
    kind: ResourceKind
    no: int  # of the host
    n: int  # of the page, or of the owner page


class LinkTarget(msgspec.Struct, frozen=True, gc=False):
    """The facts that other pages need to link to a page, and its random bits."""

    path: str
    title: str
    bits: int
    link: str  # as usually written


class PageAttributes(msgspec.Struct, frozen=True, gc=False):
    """The declarations of a page apart from its text."""

    role: PageRole
    charset: str  # one of CHARSETS
    structured: str  # "", "rdfa", "jsonld" or "microdata"
    social: bool  # Open Graph
    noindex: bool
    noarchive: bool
    nofollow: bool
    by_header: bool  # these three are declared by X-Robots-Tag, not by the page
    canonical: bool  # names its own URL as canonical
    based: bool  # has <base href>
    length: int  # 0 to 15
    changes_per_day: float

    @property
    def robots_directives(self) -> list[str]:
        flags = (("noindex", self.noindex), ("nofollow", self.nofollow), ("noarchive", self.noarchive))
        return [name for name, flag in flags if flag]


# How a page declares its charset: its codec (utf-8-sig has a byte order mark), the header, the meta element.
CHARSETS = {
    "utf-8": ("utf-8", "utf-8", ""),
    "utf-8 both": ("utf-8", "UTF-8", "utf-8"),
    "utf-8 meta": ("utf-8", "", "utf-8"),
    "utf-8 bom": ("utf-8-sig", "", ""),
    "latin-1 header": ("iso-8859-1", "ISO-8859-1", ""),
    "latin-1 meta": ("iso-8859-1", "", "iso-8859-1"),
    "windows-1252 header": ("windows-1252", "windows-1252", ""),
    "windows-1252 meta": ("windows-1252", "", "windows-1252"),
}
_CHARSET_OF = (*["utf-8"] * 12, *["utf-8 both"] * 12, "utf-8 meta", "utf-8 meta", "utf-8 bom", "latin-1 header",
               "latin-1 header", "latin-1 meta", "windows-1252 header", "windows-1252 meta")  # fmt: skip
_STRUCTURED_OF = ("rdfa", "rdfa", "rdfa", "jsonld", "jsonld", "microdata", "microdata", *[""] * 9)


def role_of(host: WebHost, n: int) -> PageRole:
    return PageRole.OPEN if n < host.open else TAIL_ROLES[(n - host.open + host.rotation) % len(TAIL_ROLES)]


@lru_cache(maxsize=LINK_TARGETS_CACHED_MAX)
def link_target(world: World, no: int, n: int) -> LinkTarget:
    """Page `n`'s path and title, from 128 bits: 13 + 13 title, 3 style, 8 date, then see `page_attributes` and
    `owned_kinds`.
    """
    host = world.host(no)
    bits = draw(world.seed, _PURPOSE_PAGE, no, n)
    head, tail = bits & (HEADS - 1), bits >> 13 & (TAILS - 1)
    title = f"{host.prose.heads[head]} {host.prose.tails[tail]}"
    if n == 0:
        place = "/"
    elif n <= host.sections:
        segment, label = host.path_words.sections[n - 1]
        place, title = f"/{segment}/", f"{label}: {title}"
    else:
        place = _page_path(host, n, bits, f"{host.prose.head_slugs[head]}-{host.prose.tail_slugs[tail]}")
    return LinkTarget(place, title, bits, f'<a href="{place}">{title}</a>')


def _page_path(host: WebHost, n: int, bits: int, slug: str) -> str:
    words = host.path_words
    part = role_of(host, n)
    if part is PageRole.PRIVATE:
        return f"/{words.private}/{slug}-{n}.html"
    if part is PageRole.EXCEPTION:
        return f"/{words.private}/{words.public}/{slug}-{n}.html"
    section = words.sections[n % (host.sections or 1)][0]
    style = bits >> 26 & 7
    if style == 7:
        return f"/{section}/{words.view}?id={n}-{slug}"
    year, month = 2010 + (bits >> 29 & 15), 1 + (bits >> 33 & 15) % 12
    dated = f"{year}/" if style == 5 else f"{year}/{month:02d}/" if style == 6 else ""
    return f"/{section}/{dated}{slug}-{n}.html"


def page_attributes(world: World, no: int, n: int) -> PageAttributes:
    host = world.host(no)
    bits = link_target(world, no, n).bits
    part = role_of(host, n)
    robots = bits >> 47 & 31
    return PageAttributes(
        role=part,
        charset=_CHARSET_OF[bits >> 37 & 31],
        structured=_STRUCTURED_OF[bits >> 42 & 15],
        social=bits >> 46 & 1 == 1,
        noindex=robots == 1 and n > 0,
        noarchive=robots == 2,
        nofollow=part is PageRole.DEAD_END,
        by_header=bits >> 52 & 1 == 1,
        canonical=bits >> 53 & 3 == 0,
        based=bits >> 55 & 31 == 0,
        length=bits >> 60 & 15,
        changes_per_day=rate_per_day(world, bits >> 64 & 0xFF, front=n <= host.sections),
    )


def owned_kinds(host: WebHost, n: int, bits: int) -> tuple[ResourceKind, ...]:
    """The kinds of other resources that carry an open page's number: 1 in 16 each."""
    if n >= host.open:
        return (ResourceKind.MOVED,) if role_of(host, n) is PageRole.MOVED else ()
    luck = bits >> 72
    if luck & 0xF and luck & 0xF0 and luck & 0xF00 and luck & 0xF000:
        return ()
    kinds = (ResourceKind.PRINT, ResourceKind.REDIRECT, ResourceKind.FILE, ResourceKind.GONE)
    return tuple(
        kind for i, kind in enumerate(kinds) if not luck >> 4 * i & 0xF and (n or kind is not ResourceKind.PRINT)
    )


def path_of(world: World, resource: Resource) -> str:
    kind, no, n = resource.kind, resource.no, resource.n
    words = world.host(no).path_words
    if kind is ResourceKind.PAGE:
        return link_target(world, no, n).path
    if kind is ResourceKind.PRINT:
        plain = link_target(world, no, n).path
        return f"{plain}{'&' if '?' in plain else '?'}{words.print}=1"
    if kind in (ResourceKind.HOP, ResourceKind.LOOP, ResourceKind.ROBOTS, ResourceKind.SITEMAP):
        part = f"-{n}" if n else ""
        return {
            ResourceKind.HOP: f"/{words.hop}/{n}",
            ResourceKind.LOOP: f"/{words.loop}/{n}",
            ResourceKind.ROBOTS: "/robots.txt",
            ResourceKind.SITEMAP: f"/sitemap{part}.xml",
        }[kind]
    bits = link_target(world, no, n).bits
    if kind is ResourceKind.REDIRECT:
        return f"/{words.go}/{n}-{bits >> 112:04x}"
    slug = world.host(no).prose.head_slugs[bits & (HEADS - 1)]
    if kind is ResourceKind.FILE:
        return f"/{words.files}/{slug}-{n}.{file_extension(bits)}"
    return f"/{words.old if kind is ResourceKind.MOVED else words.lost}/{slug}-{n}.html"


_FRONTS = {
    language: {
        words.go: ResourceKind.REDIRECT,
        words.old: ResourceKind.MOVED,
        words.files: ResourceKind.FILE,
        words.lost: ResourceKind.GONE,
        words.hop: ResourceKind.HOP,
        words.loop: ResourceKind.LOOP,
    }
    for language, words in (("pt", PT_PATH_WORDS), ("en", EN_PATH_WORDS))
}
_NUMBERED = re.compile(r"/(\d{1,9})(?:-[0-9a-f]{4})?$|-(\d{1,9})\.[a-z]+(?:$|\?)|\?id=(\d{1,9})-")


def resolve(world: World, no: int, target: str) -> Resource | None:
    """The resource at a request's target; None if there is none."""
    if "%" in target:  # other spellings of the same path, RFC 3986 section 6.2.2
        target = quote(unquote(target), safe="/?&=-._~!$'()*+,;:@")
    host = world.host(no)
    if not target.endswith("/"):
        return _numbered(world, host, target)
    if target == "/":
        return Resource(ResourceKind.PAGE, no, 0)
    for n in range(1, host.sections + 1):
        if link_target(world, no, n).path == target:
            return Resource(ResourceKind.PAGE, no, n)
    return None


def _numbered(world: World, host: WebHost, target: str) -> Resource | None:
    """Read the number, guess the kind, and compare the true path of this resource with the target."""
    if target in ("/robots.txt", "/sitemap.xml"):
        return Resource(ResourceKind.ROBOTS if target == "/robots.txt" else ResourceKind.SITEMAP, host.no, 0)
    words = host.path_words
    front = target[1:].partition("/")[0]
    printed = target.endswith(f"{words.print}=1")
    if printed and target[:-1].endswith(f"/?{words.print}="):
        n = next((n for n in range(1, host.sections + 1) if target.startswith(link_target(world, host.no, n).path)), -1)
    else:
        match = _NUMBERED.search(target)
        n = int(match[1] or match[2] or match[3]) if match else -1
    kind = _FRONTS[host.language].get(
        front,
        ResourceKind.PRINT if printed else ResourceKind.SITEMAP if front.startswith("sitemap-") else ResourceKind.PAGE,
    )
    resource = Resource(kind, host.no, n)
    return resource if exists(world, resource) and path_of(world, resource) == target else None


def exists(world: World, resource: Resource) -> bool:
    kind, no, n = resource.kind, resource.no, resource.n
    host = world.host(no)
    if kind is ResourceKind.HOP:
        return host.hops and 1 <= n <= HOPS
    if kind is ResourceKind.LOOP:
        return host.loop and 1 <= n <= LOOP
    if kind is ResourceKind.SITEMAP:
        return n == 0 or n <= sitemap_parts(host)
    if kind is ResourceKind.ROBOTS:
        return True
    if not 0 <= n < host.pages:
        return False
    return kind is ResourceKind.PAGE or kind in owned_kinds(host, n, link_target(world, no, n).bits)


SITEMAP_URLS_MAX = 1000


def sitemap_parts(host: WebHost) -> int:
    """The number of files of the sitemap; 0 if one file holds all pages."""
    return 0 if host.pages <= SITEMAP_URLS_MAX else -(-host.pages // SITEMAP_URLS_MAX)


def file_extension(bits: int) -> str:
    return FILE_EXTENSIONS[bits >> 96 & 3]


def redirect_target(world: World, resource: Resource) -> tuple[int, Resource]:
    """The status and target of a redirect."""
    kind, no, n = resource.kind, resource.no, resource.n
    host = world.host(no)
    if kind is ResourceKind.MOVED:
        return 301, Resource(ResourceKind.PAGE, no, n)
    luck = draw(world.seed, _PURPOSE_REDIRECT, no, n, 1 if kind is ResourceKind.REDIRECT else 2)
    status = REDIRECT_STATUSES[luck & 7]
    if kind is ResourceKind.LOOP:
        return status, Resource(ResourceKind.LOOP, no, n % LOOP + 1)
    if kind is ResourceKind.HOP and n < HOPS:
        return status, Resource(ResourceKind.HOP, no, n + 1)
    if luck >> 3 & 3 == 0:
        other = world.famous[(luck >> 5 & 0xFFFFFFFF) % world.hosts]
        return status, Resource(ResourceKind.PAGE, other, (luck >> 40 & 0xFFFF) % world.host(other).open)
    return status, Resource(ResourceKind.PAGE, no, (luck >> 56 & 0xFFFF) % host.open)


def all_resources(world: World, no: int) -> Iterator[Resource]:
    """All resources of a host, robots.txt and sitemaps included."""
    host = world.host(no)
    yield Resource(ResourceKind.ROBOTS, no, 0)
    for part in range(sitemap_parts(host) + 1):
        yield Resource(ResourceKind.SITEMAP, no, part)
    for hop in range(1, HOPS + 1 if host.hops else 1):
        yield Resource(ResourceKind.HOP, no, hop)
    for turn in range(1, LOOP + 1 if host.loop else 1):
        yield Resource(ResourceKind.LOOP, no, turn)
    for n in range(host.pages):
        yield Resource(ResourceKind.PAGE, no, n)
        for kind in owned_kinds(host, n, link_target(world, no, n).bits):
            yield Resource(kind, no, n)
