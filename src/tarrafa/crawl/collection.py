"""What belongs to the collection?

A file becomes a `Collection` with canonical roots and a scope that names its hosts; a page's links become offers to the
frontier: those that the page lets us follow, in scope, each one hop deeper than the page. Those whose looks already say
that they are of no wanted type, or without end, are offered with their refusal: known, not fetched.

A collection that names its languages looks beyond its hosts: what a kept page links to outside of them is offered too,
unless it is excluded. Whether such a page is kept, and followed, its language decides (`visit.py`).
"""

import re
import ssl
from collections.abc import Callable, Iterable, Iterator
from functools import cached_property, lru_cache
from pathlib import Path

from msgspec.structs import replace

from tarrafa import config
from tarrafa.config import Collection
from tarrafa.crawl.traps import endless
from tarrafa.errors import ConfigError
from tarrafa.fetch.suffixes import bundled_list
from tarrafa.frontier.protocol import Offer
from tarrafa.model import HostId, Listing, Page, Role, Status, Visit
from tarrafa.parse.extensions import types_of
from tarrafa.parse.prefixes import PREFIXES, expand
from tarrafa.parse.site import Suffixes
from tarrafa.parse.things import vocabulary_of
from tarrafa.parse.url import DEFAULT_PORTS, Identity, host_id, host_key, host_name, split, url_id

HOSTS_CACHED_MAX = 100_000
FOREIGN_SITEMAPS_MAX, SITEMAP_ENDINGS = 20, (".xml", ".gz", ".txt")
HOST_TEXT = re.compile(r"(?:[\w-]+(?:\.[\w-]+)+|localhost|\[[0-9a-fA-F:.]+\])(?::\d{1,5})?(?:[/?].*)?")


def load(path: Path) -> Collection:
    """Read a collection file. A root may be a URL or a bare host name; hosts absent means exactly the roots' hosts."""
    collection, roots = config.read(path)
    identity = identity_of(collection)
    urls: dict[str, None] = {}
    for root, where in roots:
        text = f"http://{root}" if HOST_TEXT.fullmatch(root) else root
        url = identity.of(text) if "://" in text else None
        if url is None:
            raise ConfigError(f"{where}: not an http(s) URL or a host name: {root[:200]!r}")
        urls[url] = None
    network, scope = collection.network, collection.scope
    if network.ca_file is not None:  # relative to the collection file, and there
        network = replace(network, ca_file=str(_certificates(path.parent / network.ca_file, path)))
    named = tuple(_vocabulary(name, path) for name in scope.vocabularies)
    scope = replace(scope, vocabularies=named)
    if scope.hosts is None:
        scope = replace(scope, hosts=tuple(dict.fromkeys(_host_pattern(url) for url in urls)))
    return replace(collection, roots=tuple(urls), roots_file=None, scope=scope, network=network)


def _certificates(file: Path, where: Path) -> Path:
    try:
        ssl.create_default_context(cafile=file)
    except (OSError, ssl.SSLError) as error:
        why = "it holds no certificates in PEM" if isinstance(error, ssl.SSLError) else error.strerror
        raise ConfigError(f"{where}: [network] ca_file: {file} cannot be used ({why})") from None
    return file.resolve()


def _vocabulary(name: str, where: Path) -> str:
    """`schema`, `schema:` or `https://schema.org/`."""
    address = expand(name if ":" in name else f"{name}:")
    if address is None or address != vocabulary_of(address):
        raise ConfigError(
            f"{where}: [scope] vocabularies: {name!r} is neither the address of a vocabulary, such as "
            f"http://xmlns.com/foaf/0.1/, nor one of the short names {', '.join(PREFIXES)}"
        )
    return address


def identity_of(collection: Collection) -> Identity:
    return Identity(collection.identity.fold_case, collection.identity.strip_slash)


def _host_pattern(url: str) -> str:
    parts = split(url)
    return parts.host if parts.port == DEFAULT_PORTS[parts.scheme] else f"{parts.host}:{parts.port}"


@lru_cache(maxsize=16)
def _suffixes(extra: tuple[str, ...]) -> Suffixes:
    return Suffixes(bundled_list(), extra)


class Admission:
    """Decides for one collection, quickly: hosts are judged once."""

    def __init__(self, collection: Collection, is_taken_down: Callable[[str], bool] = lambda url: False) -> None:
        self._collection, self.is_taken_down = collection, is_taken_down
        self._identity = identity_of(collection)
        self._hosts: dict[str, tuple[HostId, str, bool]] = {}

    @property
    def identity(self) -> Identity:
        return self._identity

    def wants_data_of(self, page: Page) -> bool:
        """Whether it carries the data for the sake of which pages are kept, if that is what they are kept for."""
        scope = self._collection.scope
        return scope.keep == "all" or not (
            set(page.vocabularies).isdisjoint(scope.vocabularies) if scope.vocabularies else not page.vocabularies
        )

    @cached_property
    def _roots(self) -> frozenset[str]:
        return frozenset(self._collection.roots)

    def offer(self, url: str, depth: int, redirects: int = 0, *, beyond: bool = False) -> Offer | None:
        """A canonical URL as the frontier takes it, or None: out of scope. `beyond`: whoever led here may lead out of
        it, if the collection looks there."""
        host = self._host(url)
        if not (host[2] or (beyond and self._collection.looks_beyond)) or self._is_excluded(url):
            return None
        return Offer(host[0], url_id(url), url, host[1], depth, redirects, status=self.refusal(url))

    def is_inside(self, url: str) -> bool:
        return self._host(url)[2] and not self._is_excluded(url)

    def admits(self, url: str) -> bool:
        """Whether a page that somebody led to may be asked for, inside or beyond."""
        return (self._host(url)[2] or self._collection.looks_beyond) and not self._is_excluded(url)

    def is_beyond(self, url: str) -> bool:
        """It is on none of the collection's hosts, nor a root: its language must speak for it."""
        return not self._host(url)[2] and url not in self._roots

    def refusal(self, url: str) -> int:
        """Why a URL in scope is not worth a request, by its looks alone, or must not be made; 0 if it may."""
        if self.is_taken_down(url):
            return Status.TAKEN_DOWN
        types = types_of(url)
        if types and not any(map(self._collection.wants_type, types)):
            return Status.TYPE_NOT_WANTED
        return Status.TRAP if endless(url) else 0

    def _is_excluded(self, url: str) -> bool:
        excluded = self._collection.excluded
        return excluded is not None and excluded.match(url) is not None

    def _host(self, url: str) -> tuple[HostId, str, bool]:
        """Id and key of a host, and whether it is in scope."""
        origin = url[: url.index("/", 8)]
        try:
            return self._hosts[origin]
        except KeyError:
            return self._judge(origin, url)

    def _judge(self, origin: str, url: str) -> tuple[HostId, str, bool]:
        if len(self._hosts) >= HOSTS_CACHED_MAX:
            self._hosts.clear()
        parts, key = split(url), host_key(url)
        port = "" if parts.port == DEFAULT_PORTS[parts.scheme] else parts.port
        inside = self._collection.host_matcher.matches(parts.host, port)
        self._hosts[origin] = (host_id(key), key, inside)
        return self._hosts[origin]

    def external(self, page: Page, visit: Visit) -> int:
        """How many different URLs of other sites the page vouches for, in scope or not: breadth asks for it. The list
        of suffixes is this machine's: a newer one than the frontier's may count a few sites apart or together."""
        if self._collection.strategy.order != "breadth" or page.robots.nofollow:
            return 0
        site = _suffixes(self._collection.network.suffixes).site
        own = site(host_name(visit.url))
        return len({link.url for link in page.links if link.is_followed and site(host_name(link.url)) != own})

    def links_of(self, page: Page, visit: Visit, instead: str = "", *, kept: bool = False) -> Iterator[Offer]:
        """Where a page leads, the page that it sends its readers to `instead` aside; nothing if it asks for that. What
        is `kept` leads beyond the scope too."""
        if page.robots.nofollow:
            return
        parent, segments = bytes.fromhex(page.content_id[:16]), visit.url.count("/")
        if self._collection.fetch.feeds:
            for url in page.feeds:
                if self.is_inside(url):
                    yield _offer(url, visit.depth, Role.FEED)
        for link in page.links:
            if not link.is_followed or link.url == instead:
                continue
            offer = self.offer(link.url, visit.depth + 1, beyond=kept)
            if offer is not None:
                deeper = parent and offer.host == visit.host and link.url.count("/") > segments
                yield replace(offer, parent=parent) if deeper else offer

    def moved(self, location: str, visit: Visit) -> Offer | None:
        """Where a redirect leads: to the same kind of thing."""
        if visit.role == Role.PAGE:
            return self.offer(location, visit.depth, visit.redirects + 1, beyond=True)
        if visit.role == Role.FEED and not self.is_inside(location):
            return None
        return replace(_offer(location, visit.depth, Role(visit.role)), redirects=visit.redirects + 1)

    def listed(self, listing: Listing, visit: Visit) -> Iterator[Offer]:
        """Where a sitemap or feed leads. Further sitemaps must be on its own host, as the protocol has it."""
        for entry in listing.sitemaps:
            if visit.role == Role.SITEMAP and host_key(entry.url) == host_key(visit.url):
                yield _offer(entry.url, visit.depth, Role.SITEMAP)
        for entry in listing.entries:
            offer = self.offer(entry.url, visit.depth + 1)
            if offer is not None:
                yield replace(offer, announced=entry.changed)

    def sitemaps(self, urls: Iterable[str], key: str, depth: int) -> Iterator[Offer]:
        """Those that a host's robots.txt announces, in scope or not. On other hosts only a few, and only what looks
        like one: nobody may turn another host's pages into sitemaps."""
        limit, foreign = self._collection.scope.depth_max, 0
        if not self._collection.fetch.sitemaps or (limit is not None and depth >= limit):
            return
        for text in urls:
            url = self._identity.of(text)
            if url is None:
                continue
            if host_key(url) != key:
                foreign += 1
                if foreign > FOREIGN_SITEMAPS_MAX or not url.partition("?")[0].endswith(SITEMAP_ENDINGS):
                    continue
            yield _offer(url, depth, Role.SITEMAP)

    def roots(self) -> Iterable[Offer]:
        """The roots, in scope or not: whoever names a root means it."""
        for url in self._collection.roots:
            yield _offer(url, 0)


def _offer(url: str, depth: int, role: Role = Role.PAGE) -> Offer:
    key = host_key(url)
    return Offer(host_id(key), url_id(url), url, key, depth, role=role)
