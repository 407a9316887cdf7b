"""Hostile hosts that are spider traps: calendars, session ids, growing paths, soft 404s, wildcard hosts.

Promises: endless sites, each of its own kind. Text and links of a page depend on its URL alone (a hash of it), so that
every crawl finds the same. `CrawlExpectation.requests_max` is what a crawler may spend: some dozens of requests where
the URL or the copies reveal the trap, little more than `host_pages_max` (300) where only that bound can end it.
Knows nothing of how a trap is recognised.
"""

import re
from html import escape

import xxhash

from tarrafa.model import Status
from tarrafa.testweb.hostile.hostile_host import CrawlExpectation, HostileExchange, register_host
from tarrafa.testweb.hostile.response_builders import html, moved, page
from tarrafa.testweb.http.web_response import HTML, typed
from tarrafa.testweb.world.lexicon import PT_FEMININE, PT_MASCULINE

HOST_PAGES_MAX, SITE_HOSTS_MAX = 300, 20  # as `CrawlExpectation` assumes
BOUNDED = HOST_PAGES_MAX + 20  # plus robots.txt and requests in flight
SEEN_THROUGH = 150  # copies and barren patterns are recognised after some dozens
BY_SIGHT = 20  # the URL itself reveals the trap
SESSION_PAGES = 5
FACETS = "abcdefgh"
FACET_TEXTS = 8
RANDOM_WORDS = 80
MIRRORS, MIRROR_PAGES = 3, 5
FLOOD = 10_000

_WORDS = PT_MASCULINE + PT_FEMININE
_LETTERS = "abcdefghijklmnopqrstuvwxyz"
_MONTH = re.compile(r"/(\d{1,9})/(\d{1,2})/(?:\d{1,2}\.html)?$")


def _luck(*about: object) -> int:
    number: int = xxhash.xxh3_128_intdigest(repr(about).encode())
    return number


def _word(luck: int, length: int = 10) -> str:
    """Letters only: no digits that a trap detector could count."""
    return "".join(_LETTERS[luck // 26**place % 26] for place in range(length))


def _host(name: str) -> str:
    return f"http://{name}.corner.test/"


def _trap(name: str, requests_max: int, **more: tuple[str, ...]) -> CrawlExpectation:
    """The root is kept; any other page may be."""
    root = _host(name)
    never = tuple(root + path for path in more.get("never", ()))
    return CrawlExpectation({root: (200,)}, frozenset({root}), requests_max, never, (root,))


@register_host(
    "calendar",
    "a calendar without end: every month links to its days, to the month before and to the one after",
    _trap("calendar", BOUNDED),
)
async def calendar(exchange: HostileExchange) -> None:
    match = _MONTH.match(exchange.request.target)
    months = int(match[1]) * 12 + int(match[2]) - 1 if match else 2026 * 12
    year, month = divmod(months, 12)
    links = [f"/{(months + step) // 12}/{(months + step) % 12 + 1:02d}/" for step in (-1, 1) if months + step >= 0]
    links += [f"/{year}/{month + 1:02d}/{day:02d}.html" for day in range(1, 29)]
    items = "".join(f'<li><a href="{link}">{link}</a></li>' for link in links)
    title = f"{exchange.request.target}: {month + 1:02d}/{year}"
    exchange.reply(typed(200, HTML, f"<!DOCTYPE html><title>{escape(title)}</title><ul>{items}</ul>".encode()))


@register_host(
    "session", "five pages, but every link to them has a session number of its own", _trap("session", SEEN_THROUGH)
)
async def session(exchange: HostileExchange) -> None:
    target = exchange.request.target
    number = int(found[1]) if (found := re.match(r"/p(\d)\?", target)) else 0
    sids = [_luck(target, other) % 10**9 for other in range(SESSION_PAGES)]
    links = "".join(f'<li><a href="/p{other}?sid={sid}">Página {other}</a>' for other, sid in enumerate(sids))
    exchange.reply(page(f"Sessão: página {number}", body=f"<ul>{links}</ul>"))


@register_host(
    "growing", "paths that grow for ever, /a/b/a/b and so on",
    _trap("growing", BY_SIGHT, never=("a/b/a/b/a/b/a/b/",)),
)  # fmt: skip
async def growing(exchange: HostileExchange) -> None:
    depth = exchange.request.target.count("/") - 1
    exchange.reply(page(f"Cada vez mais fundo: {depth}", "b/" if depth % 2 else "a/"))


@register_host(
    "relative", "a relative link that is below every page that it stands on",
    _trap("relative", BY_SIGHT, never=("sub/sub/sub/sub/",)),
)  # fmt: skip
async def relative(exchange: HostileExchange) -> None:
    exchange.reply(page(f"Uma pasta dentro da outra: {exchange.request.target.count('/')}", "sub/page.html"))


@register_host(
    "soft404", "any path is a page, always with the same text, and links to more", _trap("soft404", SEEN_THROUGH)
)
async def soft404(exchange: HostileExchange) -> None:
    links = "".join(
        f'<li><a href="/{_word(_luck(exchange.request.target, number))}">Tente aqui</a>' for number in range(5)
    )
    exchange.reply(page("Página não encontrada", body=f"<ul>{links}</ul>"))


@register_host(
    "facets", "a shop with eight filters, in any number and order, and eight lists of goods", _trap("facets", BOUNDED)
)
async def facets(exchange: HostileExchange) -> None:
    query = exchange.request.target.partition("?")[2]
    more = [f"{letter}={1 + _luck(query, letter) % 9}" for letter in FACETS]
    links = "".join(f'<li><a href="/?{escape(f"{query}&{facet}" if query else facet)}">Filtro</a>' for facet in more)
    exchange.reply(page(f"Loja: lista {_luck(query) % FACET_TEXTS}", body=f"<ul>{links}</ul>"))


@register_host(
    "babel", "pages of random words that link to more of them; only a bound on a host ends it", _trap("babel", BOUNDED)
)
async def babel(exchange: HostileExchange) -> None:
    target = exchange.request.target
    words = [_WORDS[_luck(target, place) % len(_WORDS)] for place in range(RANDOM_WORDS)]
    links = [f"/{words[place]}/{_word(_luck(target, 'link', place))}.html" for place in range(4)]
    items = "".join(f'<li><a href="{link.encode("ascii", "ignore").decode()}">{words[0]}</a>' for link in links)
    exchange.reply(page(" ".join(words[:4]).capitalize(), body=f"<p>{' '.join(words)}.</p><ul>{items}</ul>"))


_LOGIN = "http://login.corner.test/"


@register_host(
    "login",
    "every URL redirects to a login that remembers it, and the login links to more",
    CrawlExpectation(
        {_LOGIN: (302,), f"{_LOGIN}login?next=/": (200,)}, frozenset({f"{_LOGIN}login?next=/"}), SEEN_THROUGH,
        may_keep=(f"{_LOGIN}login?next=",),
    ),
)  # fmt: skip
async def login(exchange: HostileExchange) -> None:
    target = exchange.request.target
    if not target.startswith("/login?"):
        exchange.reply(moved(302, f"/login?next={target}"))
        return
    links = "".join(f'<li><a href="/{_word(_luck(target, number))}">Minha conta</a>' for number in range(3))
    exchange.reply(page("Entre para continuar", body=f"<form action=/login><input name=user></form><ul>{links}</ul>"))


def _mirror(number: int) -> None:
    base = f"http://mirror{number}.corner.test/"
    urls = [base, *(f"{base}{other}.html" for other in range(1, MIRROR_PAGES))]
    expects = CrawlExpectation(dict.fromkeys(urls, (200,)), frozenset(urls), MIRROR_PAGES + 3)

    @register_host(f"mirror{number}", "the same five pages as on two other hosts", expects)
    async def mirror(exchange: HostileExchange) -> None:
        target = exchange.request.target
        links = [f"/{other}.html" for other in range(1, MIRROR_PAGES)]
        known = target in ("/", *links)
        exchange.reply(page(f"Espelho: {target}", "/", *links) if known else typed(404, HTML, html("Nada aqui")))


for _number in range(1, MIRRORS + 1):
    _mirror(_number)

_WILD = "http://www.wild.test/"


@register_host(
    "*.wild.test",
    "every name below wild.test is a host whose page links to two new names",
    CrawlExpectation({_WILD: (200,)}, frozenset({_WILD}), 2 * SITE_HOSTS_MAX + 20, may_keep=("http://",)),
    roots=(_WILD,),
)
async def wild(exchange: HostileExchange) -> None:
    name = exchange.request.authority.lower()
    links = [f"http://{_word(_luck(name, number))}.wild.test/" for number in range(2)]
    exchange.reply(page(f"Bem-vindos a {name}", *links))


_FLOODED = "http://h{}.flood.test/"


@register_host(
    "flood",
    "a page that links to ten thousand hosts",
    CrawlExpectation({_host("flood"): (200,)}, frozenset({_host("flood")}), 4),
)
async def flood(exchange: HostileExchange) -> None:
    exchange.reply(page("Dez mil casas", *(_FLOODED.format(number) for number in range(FLOOD))))


@register_host(
    "*.flood.test",
    "ten thousand hosts, all of one site, that have no page at all",
    CrawlExpectation({_FLOODED.format(0): (404, Status.HOST_FULL)}, requests_max=2 * SITE_HOSTS_MAX + 20),
    roots=(),
    robots=None,
)
async def flooded(exchange: HostileExchange) -> None:
    exchange.reply(typed(404, HTML, b"<!DOCTYPE html><title>404</title>"))
