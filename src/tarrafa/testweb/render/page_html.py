"""Renders the HTML of a page of the synthetic Web.

Promises: the same page, form and version give the same characters. The page holds exactly the links of
`world.page_links`. A new version changes its text (a paragraph of news, the date) and nothing else.
Knows nothing of charsets on the wire, HTTP or the clock.

No text is composed word by word here: sentences and titles are picked from the blocks of `world.prose`, some 60 us a
page.
"""

from collections.abc import Iterable
from datetime import date, timedelta
from functools import lru_cache

from tarrafa.testweb.render.schema_org import WRITERS, make_entity, open_graph
from tarrafa.testweb.world.change_model import PageVersion
from tarrafa.testweb.world.hash_random import draw, draw_shorts
from tarrafa.testweb.world.hosts import CACHED_HOSTS, UrlForm, WebHost, World
from tarrafa.testweb.world.page_links import (
    POPULAR_LISTS_CACHED_MAX,
    LinkPosition,
    WebLink,
    menu_links,
    own_links,
    popular_links,
    popular_list_of,
)
from tarrafa.testweb.world.prose import FRAMES, PARAGRAPHS, Prose
from tarrafa.testweb.world.resources import (
    CHARSETS,
    PageAttributes,
    Resource,
    ResourceKind,
    link_target,
    path_of,
    redirect_target,
)
from tarrafa.testweb.world.url_variants import canonical_url, write_href

LENGTHS = (2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 15, 18, 26, 46)  # paragraphs
BEYOND_LATIN_1 = frozenset({"utf-8 meta", "windows-1252 header", "windows-1252 meta"})
RELS = (' rel="nofollow"', ' rel="external NoFollow"')
STYLE = "body{font:16px/1.5 serif;max-width:46em;margin:auto}nav a{margin-right:1em}.data{color:#666}"

_PURPOSE_TEXT = 7
_PURPOSE_NEWS = 8


def render_page(world: World, resource: Resource, form: UrlForm, about: PageAttributes, version: PageVersion) -> str:
    """The HTML of a page or of its print version."""
    no, n = resource.no, resource.n
    host = world.host(no)
    its = link_target(world, no, n)
    ways = _render_links(world, form, own_links(world, resource), no, "/" if about.based else its.path)
    luck = draw_shorts(world.seed, _PURPOSE_TEXT, no, n)[: LENGTHS[about.length]]
    parts = [_head(world, resource, form, about, host, version)]
    if resource.kind is ResourceKind.PAGE:
        parts.append(_header(world, no))
    parts.append(
        f"<main>\n<h1>{its.title}</h1>\n<p class=data>{host.prose.interface.updated} {_time(version.since)}</p>\n"
    )
    if about.structured in ("rdfa", "microdata"):
        parts.append(WRITERS[about.structured](make_entity(its.bits >> 84, its.title, version.number)))
    subject = its.title.rpartition(": ")[2]
    subject = subject[0].lower() + subject[1:]
    parts.append(_news(world, resource, host.prose, subject, version.number))
    parts += _text(host.prose, luck, ways[LinkPosition.TEXT], subject)
    if resource.kind is ResourceKind.PAGE:
        parts.append(_popular_list(world, form, no, popular_list_of(world, resource)))
    parts.append(_ending(host, ways, about))
    return "".join(parts)


def _render_links(world: World, form: UrlForm, out: Iterable[WebLink], no: int, place: str) -> list[list[str]]:
    """The links as HTML, grouped by position, for a page at path `place` of host `no`."""
    ways: list[list[str]] = [[] for _ in LinkPosition]
    page = ResourceKind.PAGE
    for link in out:
        to = link.to
        if to.kind is page:
            its = link_target(world, to.no, to.n)
            if not link.variant and not link.nofollow and to.no == no:  # most links
                ways[link.position].append(its.link)
                continue
            target, words = its.path, its.title
        else:
            target, words = path_of(world, to), link_words(world, to)
        rel = RELS[link.variant & 1] if link.nofollow else ""
        ways[link.position].append(f'<a href="{write_href(world, form, link, target, no, place)}"{rel}>{words}</a>')
    return ways


@lru_cache(maxsize=POPULAR_LISTS_CACHED_MAX)
def _popular_list(world: World, form: UrlForm, no: int, number: int) -> str:
    ways = _render_links(world, form, popular_links(world, no, number), no, "/")[LinkPosition.POPULAR]
    return f"<h2>{world.host(no).prose.interface.popular}</h2>\n{_list(ways)}" if ways else ""


@lru_cache(maxsize=CACHED_HOSTS)
def _header(world: World, no: int) -> str:
    """The menu, the same on every page of a host and in every form."""
    labels = [world.host(no).prose.interface.home, *(label for _, label in world.host(no).path_words.sections)]
    items = zip(menu_links(world, no), labels, strict=False)
    ways = " ".join(f'<a href="{path_of(world, link.to)}">{label}</a>' for link, label in items)
    return f"<header><nav>{ways}</nav></header>\n"


def link_words(world: World, to: Resource) -> str:
    """The anchor text of a link outside the menu: its target's title, or its interface label."""
    kind, no, n = to.kind, to.no, to.n
    words = world.host(no).prose.interface
    if kind is ResourceKind.PRINT:
        return words.print
    if kind is ResourceKind.LOOP:
        return words.about
    if kind in (ResourceKind.REDIRECT, ResourceKind.HOP):
        there = redirect_target(world, to)[1]
        return link_target(world, there.no, there.n).title if there.kind is ResourceKind.PAGE else words.about
    title = link_target(world, no, n).title
    return f"{words.archive}: {title}" if kind is ResourceKind.FILE else title


def _head(
    world: World, resource: Resource, form: UrlForm, about: PageAttributes, host: WebHost, version: PageVersion
) -> str:
    no, n = resource.no, resource.n
    its = link_target(world, no, n)
    place, title = its.path, its.title
    declared = CHARSETS[about.charset][2]
    directives = [] if about.by_header else about.robots_directives
    parts = [f'<!DOCTYPE html>\n<html lang="{host.locale}">\n<head>\n']
    if declared:
        parts.append(f'<meta charset="{declared}">\n')
    parts.append(f"<title>{title}</title>\n<style>{STYLE}</style>\n")
    if about.based:
        parts.append(f'<base href="{canonical_url(world, form, no, "/")}">\n')
    if directives:
        parts.append(f'<meta name="robots" content="{", ".join(directives)}">\n')
    if about.canonical or resource.kind is ResourceKind.PRINT:
        parts.append(f'<link rel="canonical" href="{canonical_url(world, form, no, place)}">\n')
    if about.social:
        parts.append(open_graph(title, canonical_url(world, form, no, place), host.locale))
    if about.structured == "jsonld":
        parts.append(WRITERS["jsonld"](make_entity(its.bits >> 84, title, version.number)))
    parts.append("</head>\n<body>\n")
    return "".join(parts)


def _time(moment: int) -> str:
    days, seconds = divmod(moment, 86_400)
    written = f"{_date(days)} {seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}"
    return f'<time datetime="{written}Z">{written}</time>'


@lru_cache(maxsize=1 << 12)
def _date(days: int) -> str:
    return (date(1970, 1, 1) + timedelta(days)).isoformat()


def _news(world: World, resource: Resource, prose: Prose, subject: str, number: int) -> str:
    """The paragraph that differs between versions."""
    luck = draw(world.seed, _PURPOSE_NEWS, resource.no, resource.n, number)
    frame = prose.frames[luck >> 16 & (FRAMES - 1)] % subject
    return f"<p class=news>{prose.paragraphs[luck & (PARAGRAPHS - 1)]} {frame}</p>\n"


def _text(prose: Prose, luck: tuple[int, ...], inline: list[str], subject: str) -> list[str]:
    """Paragraphs, one for each number in `luck`, with the inline links distributed among them; every third has a
    heading and a sentence on the page's subject.
    """
    paragraphs = prose.paragraphs
    count = len(luck)
    parts = []
    for number, pick in enumerate(luck):
        mentioned = ""
        if number % 3 == 0:
            level = 3 if number & 1 else 2
            heading = f"{prose.heads[pick >> 3]} {prose.tails[luck[number - 1] >> 3]}"
            parts.append(f'<h{level} id="p{number}">{heading}</h{level}>\n')
            mentioned = f" {prose.frames[pick >> 6] % subject}"
        if number < len(inline):
            mentioned += "".join([f" {link}." for link in inline[number::count]])
        parts += "<p>", paragraphs[pick & (PARAGRAPHS - 1)], mentioned, "</p>\n"
    return parts


def _ending(host: WebHost, ways: list[list[str]], about: PageAttributes) -> str:
    """Lists of links and the page footer, with the links that no crawler can follow."""
    words = host.prose.interface
    # Characters beyond Latin-1 only where they tell charsets apart: one such character makes Python's strings twice as
    # wide.
    price = "“10 €” – " if about.charset in BEYOND_LATIN_1 else ""
    parts = [
        f"<h2>{words.related}</h2>\n{_list(ways[LinkPosition.LIST])}" if ways[LinkPosition.LIST] else "",
        "</main>\n",
    ]
    if ways[LinkPosition.EXTERNAL]:
        parts.append(f"<aside><h3>{words.elsewhere}</h3>\n{_list(ways[LinkPosition.EXTERNAL])}</aside>\n")
    parts.append(f"<footer><p>{' | '.join(ways[LinkPosition.FOOTER])}</p>\n")
    parts.append(
        f'<p>© {host.name} &amp; café. {price}<a href="mailto:redacao@{host.name}">{words.about}</a> '
        '<a href="javascript:history.back()">«</a> <a href="tel:+558132710000">+55</a></p></footer>\n</body>\n</html>\n'
    )
    return "".join(parts)


def _list(items: list[str]) -> str:
    return "<ul>\n<li>" + "</li>\n<li>".join(items) + "</li>\n</ul>\n"
