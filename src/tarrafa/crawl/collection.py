"""What belongs to the collection?

A file becomes a `Collection` with canonical roots and a scope that names its hosts; a page's links become offers to the
frontier: those that the page lets us follow, in scope, each one hop deeper than the page.
"""

import re
from collections.abc import Iterable, Iterator
from pathlib import Path

import msgspec

from tarrafa import config
from tarrafa.config import Collection
from tarrafa.errors import ConfigError
from tarrafa.frontier.protocol import Offer
from tarrafa.model import HostId, Page
from tarrafa.parse.url import DEFAULT_PORTS, Identity, host_id, host_key, split, url_id

HOSTS_CACHED_MAX = 100_000
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
    scope = collection.scope
    if scope.hosts is None:
        scope = msgspec.structs.replace(scope, hosts=tuple(dict.fromkeys(_host_pattern(url) for url in urls)))
    return msgspec.structs.replace(collection, roots=tuple(urls), roots_file=None, scope=scope)


def identity_of(collection: Collection) -> Identity:
    return Identity(collection.identity.fold_case, collection.identity.strip_slash)


def _host_pattern(url: str) -> str:
    parts = split(url)
    return parts.host if parts.port == DEFAULT_PORTS[parts.scheme] else f"{parts.host}:{parts.port}"


class Admission:
    """Decides for one collection, quickly: hosts are judged once."""

    def __init__(self, collection: Collection) -> None:
        self._collection = collection
        self._identity = identity_of(collection)
        self._hosts: dict[str, tuple[HostId, str] | None] = {}

    @property
    def identity(self) -> Identity:
        return self._identity

    def offer(self, url: str, depth: int, redirects: int = 0) -> Offer | None:
        """A canonical URL as the frontier takes it, or None: out of scope."""
        origin = url[: url.index("/", 8)]
        try:
            host = self._hosts[origin]
        except KeyError:
            host = self._judge(origin, url)
        if host is None:
            return None
        excluded = self._collection.excluded
        if excluded is not None and excluded.match(url):
            return None
        return Offer(host[0], url_id(url), url, host[1], depth, redirects)

    def _judge(self, origin: str, url: str) -> tuple[HostId, str] | None:
        if len(self._hosts) >= HOSTS_CACHED_MAX:
            self._hosts.clear()
        parts, key = split(url), host_key(url)
        port = "" if parts.port == DEFAULT_PORTS[parts.scheme] else parts.port
        inside = self._collection.host_matcher.matches(parts.host, port)
        self._hosts[origin] = (host_id(key), key) if inside else None
        return self._hosts[origin]

    def links_of(self, page: Page, depth: int) -> Iterator[Offer]:
        """Where a page leads: nothing if it asks not to be followed."""
        if page.robots.nofollow:
            return
        for link in page.links:
            offer = self.offer(link.url, depth + 1) if link.is_followed else None
            if offer is not None:
                yield offer

    def roots(self) -> Iterable[Offer]:
        """The roots, in scope or not: whoever names a root means it."""
        for url in self._collection.roots:
            key = host_key(url)
            yield Offer(host_id(key), url_id(url), url, key, 0)
