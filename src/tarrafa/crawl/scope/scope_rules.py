"""Scope of a collection: decides which URLs are admitted to the frontier, and which visits end without a request.

The links of a page are offered to the frontier: those that the page allows to follow, in scope, each one hop deeper
than the page. A URL whose extension shows an unwanted type, or that looks like a trap, is offered with its refusal: the
frontier knows it and does not fetch it.

A collection that names its languages also looks beyond its hosts: links of a kept page to other hosts are offered too,
unless they are excluded. Such a page is followed only if it is kept: by its language, first of all (`worker/outcome`).

A waiting URL may have been taken down or refused since it was admitted, and robots.txt and the traps of its host are
known to its session only: `visit_refusal_status` decides again, before each visit.
What a kept page needs to be shown (its requisites, keep = "faithful") is admitted from every host: the scope does not
hold for it, patterns in `exclude` and takedowns do. It leads to its own requisites only, a few steps far.

Promises: pure. A waiting URL of a taken-down host or site is finished with `Status.TAKEN_DOWN`, before its host is
contacted at all; `Status` names the other reasons.
"""

from collections.abc import Callable, Iterable, Iterator

from tarrafa.config import Collection
from tarrafa.crawl.scope.collection_loader import public_suffixes_of, url_identity_of
from tarrafa.crawl.scope.traps import trap_reason
from tarrafa.crawl.worker.host_memory import HostMemory
from tarrafa.frontier.messages import DiscoveredUrl
from tarrafa.model import DATA_SYNTAXES, HostId, Listing, Page, Status, UrlId, UrlRole, Visit
from tarrafa.parse.mime_types import mime_types_of
from tarrafa.parse.rdf.prefixes import is_open_graph
from tarrafa.parse.url import UrlIdentity, host_id, host_key, host_name, name_and_port, url_id
from tarrafa.takedown import NO_TAKEDOWNS, TakedownSet

HOSTS_CACHED_MAX = 100_000
URLS_REMEMBERED_MAX = 20_000  # some 8 MB
FOREIGN_SITEMAPS_MAX, SITEMAP_ENDINGS = 20, (".xml", ".gz", ".txt")


# What a collection makes of a URL, whatever links to it: host, host key, whether its host is in scope, whether the URL
# patterns exclude it (on any host), its id, and its refusal by shape or extension (0: none). Takedowns, which change,
# are not part of it. A plain tuple: one with names takes twice as long to unpack, for each link of each page.
UrlJudgement = tuple[HostId, str, bool, bool, UrlId, int]


class Admission:
    """Decides for one collection. Fast: each host is matched once, and the links of a site, which are on all of its
    pages, are remembered. A changed collection has a new `Admission`."""

    def __init__(self, collection: Collection, takedowns: Callable[[], TakedownSet] = lambda: NO_TAKEDOWNS) -> None:
        self._collection, self._takedowns = collection, takedowns
        self._identity = url_identity_of(collection)
        self._hosts: dict[str, tuple[HostId, str, bool]] = {}
        self._judged: dict[str, UrlJudgement] = {}
        self._needed: dict[str, tuple[HostId, UrlId, str] | None] = {}  # requisites; None: excluded

    @property
    def identity(self) -> UrlIdentity:
        return self._identity

    def is_taken_down(self, url: str) -> bool:
        return self._takedowns().covers(url)

    def wants_data_of(self, page: Page) -> bool:
        """Whether the page carries the structured data that the collection requires, if it requires any."""
        scope = self._collection.scope
        if scope.keep != "structured":
            return True
        used = set(page.vocabularies)
        if len(set(scope.syntaxes)) < len(DATA_SYNTAXES):
            used = {name for use in page.syntaxes if use.syntax in scope.syntaxes for name in use.vocabularies}
        if scope.vocabularies:
            return not used.isdisjoint(scope.vocabularies)
        return bool(used) if scope.open_graph else not all(map(is_open_graph, used))

    def admit(
        self,
        url: str,
        depth: int,
        redirects: int = 0,
        *,
        beyond: bool = False,
        announced: float = 0.0,
        parent: bytes = b"",
        is_linked: bool = False,
    ) -> DiscoveredUrl | None:
        """A canonical URL as the frontier takes it; None: out of scope. `beyond`: the linking page may lead out of
        scope, if the collection looks there."""
        host, key, has_host, is_excluded, id_, refusal = self._judged.get(url) or self._judge(url)
        if is_excluded or not (has_host or (beyond and self._collection.explores_outside_hosts)):
            return None
        status = Status.TAKEN_DOWN if self._takedowns().covers(url) else refusal
        return DiscoveredUrl(host, id_, url, key, depth, redirects, UrlRole.PAGE, status, announced, parent, is_linked)

    def _judge(self, url: str) -> UrlJudgement:
        if len(self._judged) >= URLS_REMEMBERED_MAX:
            self._judged.clear()
        judged = (*self._host(url), self._is_excluded(url), url_id(url), self._shape_refusal(url))
        self._judged[url] = judged
        return judged

    def has_host(self, url: str) -> bool:
        """Whether its host is in scope, whatever the URL patterns say."""
        return self._host(url)[2]

    def is_in_scope(self, url: str) -> bool:
        return self._host(url)[2] and not self._is_excluded(url)

    def may_fetch(self, url: str) -> bool:
        """Whether a linked page may be requested, in scope or beyond."""
        return (self._host(url)[2] or self._collection.explores_outside_hosts) and not self._is_excluded(url)

    def is_outside_hosts(self, url: str) -> bool:
        """Whether the URL is on none of the collection's hosts and is no root: then its language decides."""
        return not self._host(url)[2] and url not in self._collection.root_set

    def url_refusal_status(self, url: str) -> int:
        """Why a URL in scope is not requested, by its shape, its extension or a takedown; 0 if it may be requested."""
        return Status.TAKEN_DOWN if self.is_taken_down(url) else self._shape_refusal(url)

    def takedown_or_dismissal_status(self, visit: Visit) -> int:
        """The status of a visit that needs no contact with its host; 0: it needs one."""
        if visit.dismissed:  # for a better page, or because its run has found no way to it
            return Status.REPLACED if self._collection.keeps_fresh else Status.NOT_FOUND_AGAIN
        return Status.TAKEN_DOWN if self.is_taken_down(visit.url) else 0

    def visit_refusal_status(self, visit: Visit, memory: HostMemory, robots_allows: Callable[[str], bool]) -> int:
        """Why no request may be made: scope, robots.txt, traps; 0: one may. Takedowns and dismissals come before
        this."""
        if visit.role == UrlRole.REQUISITE:
            return self._requisite_refusal(visit, robots_allows)
        limit = self._collection.scope.depth_max
        if visit.depth and visit.role == UrlRole.PAGE:  # roots (depth 0), sitemaps and feeds are always in scope
            if not self.may_fetch(visit.url) or (limit is not None and visit.depth > limit):
                return Status.OUT_OF_SCOPE
            if refusal := self.url_refusal_status(visit.url):
                return refusal
        if not robots_allows(visit.url):
            return Status.ROBOTS
        if memory.is_hostile:
            return Status.HOSTILE
        return Status.TRAP if visit.content_id is None and memory.traps.is_barren(visit.url) else 0

    def _requisite_refusal(self, visit: Visit, robots_allows: Callable[[str], bool]) -> int:
        collection = self._collection
        if not collection.is_faithful or self._need(visit.url) is None:
            return Status.OUT_OF_SCOPE
        if visit.redirects > collection.requisites.steps_max:
            return Status.REDIRECTS_EXCEEDED
        return 0 if collection.requisites.robots == "ignore" or robots_allows(visit.url) else Status.ROBOTS

    def _shape_refusal(self, url: str) -> int:
        types = mime_types_of(url)
        if types and not any(map(self._collection.wants_type, types)):
            return Status.TYPE_NOT_WANTED
        return Status.TRAP if trap_reason(url) else 0

    def _is_excluded(self, url: str) -> bool:
        """Whether the exclude patterns for URLs match, on any host."""
        excluded, included = self._collection.excluded, self._collection.included
        if excluded is not None and excluded.match(url) is not None:
            return True
        return included is not None and included.match(url) is None and url not in self._collection.root_set

    def _host(self, url: str) -> tuple[HostId, str, bool]:
        """Id and key of a host, and whether it is in scope."""
        origin = url[: url.index("/", 8)]
        try:
            return self._hosts[origin]
        except KeyError:
            return self._match_host(origin, url)

    def _match_host(self, origin: str, url: str) -> tuple[HostId, str, bool]:
        if len(self._hosts) >= HOSTS_CACHED_MAX:
            self._hosts.clear()
        key, inside = host_key(url), self._collection.host_matcher.matches(*name_and_port(url))
        self._hosts[origin] = (host_id(key), key, inside)
        return self._hosts[origin]

    def count_external_links(self, page: Page, visit: Visit) -> int:
        """Number of different URLs of other sites that the page links to without nofollow, in scope or not, for the
        order of breadth. This machine's public suffix list is used: one newer than the frontier's may split or join a
        few sites."""
        if self._collection.strategy.order != "breadth" or page.robots.nofollow:
            return 0
        site = public_suffixes_of(self._collection).site
        own = site(host_name(visit.url))
        return len({link.url for link in page.links if link.is_followed and site(host_name(link.url)) != own})

    def admit_links(self, page: Page, visit: Visit, instead: str = "", *, kept: bool = False) -> list[DiscoveredUrl]:
        """The links of a page that may be followed, except the page that it redirects its readers to `instead`; none if
        the page says nofollow. A `kept` page leads beyond the scope too. (`admit` for each link would take twice the
        time: a page has dozens, nearly all of them known.)"""
        if page.robots.nofollow:
            return []
        parent, segments = bytes.fromhex(page.content_id[:16]), visit.url.count("/")
        origin, depth = visit.url[: visit.url.index("/", 8) + 1], visit.depth + 1
        found: list[DiscoveredUrl] = []
        if self._collection.fetch.feeds:
            found += (discovered_url(url, visit.depth, UrlRole.FEED) for url in page.feeds if self.is_in_scope(url))
        judged, takedowns, role = self._judged, self._takedowns(), int(UrlRole.PAGE)
        covers = takedowns.covers if takedowns else None
        beyond = kept and self._collection.explores_outside_hosts
        for link in page.links:
            url = link.url
            if (link.rel and not link.is_followed) or url == instead:
                continue
            host, key, has_host, is_excluded, id_, status = judged.get(url) or self._judge(url)
            if is_excluded or not (has_host or beyond):
                continue
            if covers is not None and covers(url):
                status = Status.TAKEN_DOWN
            above = parent if url.startswith(origin) and url.count("/") > segments else b""
            found.append(DiscoveredUrl(host, id_, url, key, depth, 0, role, status, 0.0, above, kept))
        return found

    def admit_requisites(self, urls: Iterable[str], visit: Visit, changed_at: float = 0.0) -> Iterator[DiscoveredUrl]:
        """The requisites of a kept page, or of a requisite, which is a step nearer to the last. `changed_at`: when the
        page was seen to have changed: then they are looked at again."""
        depth, redirects = visit.depth + 1, 0
        if visit.role == UrlRole.REQUISITE:
            depth, redirects = visit.depth, visit.redirects + 1
        if not self._collection.is_faithful or redirects > self._collection.requisites.steps_max:
            return
        role, takedowns = int(UrlRole.REQUISITE), self._takedowns()
        for url in urls:
            need = self._needed[url] if url in self._needed else self._need(url)
            if need is not None and not takedowns.covers(url):
                host, id_, key = need
                yield DiscoveredUrl(host, id_, url, key, depth, redirects, role, 0, changed_at)

    def _need(self, url: str) -> tuple[HostId, UrlId, str] | None:
        """Host, id and host key of a requisite; None: it is excluded."""
        if len(self._needed) >= URLS_REMEMBERED_MAX:
            self._needed.clear()
        excluded = self._collection.excluded
        host, key, _ = self._host(url)
        is_excluded = excluded is not None and excluded.match(url) is not None
        need = self._needed[url] = None if is_excluded else (host, url_id(url), key)
        return need

    def admit_redirect(self, location: str, visit: Visit) -> DiscoveredUrl | None:
        """The target of a redirect, with the role of its source."""
        if visit.role == UrlRole.REQUISITE:
            return next(self.admit_requisites([location], visit), None)
        if visit.role == UrlRole.PAGE:
            return self.admit(location, visit.depth, visit.redirects + 1, beyond=True)
        if visit.role == UrlRole.FEED and not self.is_in_scope(location):
            return None
        return discovered_url(location, visit.depth, visit.role, visit.redirects + 1)

    def admit_listing(self, listing: Listing, visit: Visit) -> Iterator[DiscoveredUrl]:
        """The URLs of a sitemap or feed. Further sitemaps must be on its own host, as the sitemap protocol requires."""
        for entry in listing.sitemaps:
            if visit.role == UrlRole.SITEMAP and host_key(entry.url) == host_key(visit.url):
                yield discovered_url(entry.url, visit.depth, UrlRole.SITEMAP)
        for entry in listing.entries:
            offer = self.admit(entry.url, visit.depth + 1, announced=entry.changed)
            if offer is not None:
                yield offer

    def admit_sitemaps(self, urls: Iterable[str], key: str, depth: int) -> Iterator[DiscoveredUrl]:
        """The sitemaps that a host's robots.txt names, in scope or not. On other hosts only a few, and only URLs that
        look like sitemaps: no host may turn another host's pages into sitemaps."""
        limit, foreign = self._collection.scope.depth_max, 0
        if not self._collection.fetch.sitemaps or (limit is not None and depth >= limit):
            return
        for text in urls:
            url = self._identity.canonicalize(text)
            if url is None:
                continue
            if host_key(url) != key:
                foreign += 1
                if foreign > FOREIGN_SITEMAPS_MAX or not url.partition("?")[0].endswith(SITEMAP_ENDINGS):
                    continue
            yield discovered_url(url, depth, UrlRole.SITEMAP)

    def admit_roots(self) -> Iterable[DiscoveredUrl]:
        """The roots, in scope or not: a root is always wanted."""
        for url in self._collection.roots:
            yield discovered_url(url, 0)


def discovered_url(url: str, depth: int, role: int = UrlRole.PAGE, redirects: int = 0) -> DiscoveredUrl:
    key = host_key(url)
    return DiscoveredUrl(host_id(key), url_id(url), url, key, depth, redirects, role)
