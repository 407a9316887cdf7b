"""Scope of a collection: loads its file, and decides which URLs are admitted to the frontier.

A file becomes a `Collection` with canonical roots and a scope that names its hosts; a page's links become offers to
the frontier: those that the page lets us follow, in scope, each one hop deeper than the page. Those whose looks
already say that they are of no wanted type, or without end, are offered with their refusal: known, not fetched.

A collection that names its languages looks beyond its hosts: what a kept page links to outside of them is offered
too, unless it is excluded. Whether such a page is kept, and followed, its language decides (`visit.py`).
"""

import re
import ssl
from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from tarrafa import config
from tarrafa.config import COMPLAINTS_MAX, ROOTS_MAX, Collection, Complaint
from tarrafa.crawl.scope.traps import trap_reason
from tarrafa.errors import ConfigError
from tarrafa.fetch.suffix_list import bundled_suffix_list
from tarrafa.frontier.api import DiscoveredUrl
from tarrafa.i18n import joined, message
from tarrafa.model import HostId, Listing, Page, Status, UrlRole, Visit
from tarrafa.parse.mime_by_extension import mime_types_of
from tarrafa.parse.public_suffix import PublicSuffixes
from tarrafa.parse.rdf.entity import vocabulary_of
from tarrafa.parse.rdf.prefixes import PREFIXES, expand_prefix
from tarrafa.parse.text.language import CODES, code_from_name
from tarrafa.parse.url import DEFAULT_PORTS, UrlIdentity, host_id, host_key, host_name, split, url_id

HOSTS_CACHED_MAX = 100_000
FOREIGN_SITEMAPS_MAX, SITEMAP_ENDINGS = 20, (".xml", ".gz", ".txt")
HOST_PATTERN = re.compile(r"(?:[\w-]+(?:\.[\w-]+)+|localhost|\[[0-9a-fA-F:.]+\])(?::\d{1,5})?(?:[/?].*)?")


def load_collection(path: Path) -> Collection:
    """Read a collection file. A root may be a URL or a bare host name; hosts absent means exactly the roots' hosts."""
    read = config.read_collection_file(path)
    if read.collection is None:
        return _raise_complaints(None, read.complaints, str(path))
    network, wrong = read.collection.network, read.complaints
    if network.ca_file is not None:  # relative to the collection file, and there
        file = path.parent / network.ca_file
        wrong = config.merge_complaints(wrong, _check_ca_file(file))
        network = replace(network, ca_file=str(file.resolve()))
    whole, more = _complete_collection(replace(read.collection, network=network), read.roots)
    return _raise_complaints(whole, config.merge_complaints(wrong, more), str(path))


def complete_collection(table: dict[str, Any], where: str, before: Collection | None = None) -> Collection:
    """The same of a table without a file, as a form or a program has it. What names a file is refused: it would be one
    of this machine's; only what is in force `before`, and came from a file, may stay."""
    return _raise_complaints(*validate_table(table, before), where)


def validate_table(
    table: dict[str, Any], before: Collection | None = None
) -> tuple[Collection | None, list[Complaint]]:
    """The same with everything that is wrong, instead of the first; a collection only if nothing is."""
    collection, found = config.validate_table(table)
    if collection is not None:
        found = config.merge_complaints(found, _check_file_options(collection, before))
        collection, more = _complete_collection(collection, config.roots_with_locations(collection), before)
        found = config.merge_complaints(found, more)
    return (None if found else collection), found


def _raise_complaints(collection: Collection | None, wrong: list[Complaint], where: str) -> Collection:
    if wrong or collection is None:
        raise ConfigError(
            joined([message("{where}: {complaint}", where=where, complaint=one.message) for one in wrong], "\n")
        )
    return collection


def _check_file_options(collection: Collection, before: Collection | None) -> Iterator[Complaint]:
    if collection.roots_file is not None:
        yield Complaint(
            "",
            "roots_file",
            message("roots_file: only a collection file can name another file; give the roots themselves"),
        )
    ca_file = collection.network.ca_file
    if ca_file is not None and (before is None or ca_file != before.network.ca_file):
        yield Complaint(
            "network",
            "ca_file",
            message(
                "[network] ca_file: only a collection file on the crawler's own machine can name it "
                "(`tarrafa crawl FILE`)"
            ),
        )


def _complete_collection(
    collection: Collection, roots: list[tuple[str, str]], before: Collection | None = None
) -> tuple[Collection, list[Complaint]]:
    """Roots canonical, hosts and vocabularies written out, as far as that can be done; and why it cannot."""
    canonical = frozenset[str]()
    if before is not None and before.identity == collection.identity:
        canonical = before.root_set
    urls, wrong = _canonical_roots(collection, roots, canonical)
    scope, named = collection.scope, list[str]()
    for name in scope.vocabularies:
        address = _vocabulary(name)
        if address is not None:
            named.append(address)
            continue
        said = message(
            "[scope] vocabularies: {name!r} is neither the address of a vocabulary, such as "
            "http://xmlns.com/foaf/0.1/, nor one of the short names {known}",
            name=name,
            known=", ".join(PREFIXES),
        )
        wrong.append(Complaint("scope", "vocabularies", said))
    for name in scope.languages:
        if name not in CODES:
            said = message(
                "[scope] languages: {name!r} is no language that can be told; write the two letters of its code, "
                "such as {code}",
                name=name[:40],
                code=code_from_name(name) or "pt",
            )
            wrong.append(Complaint("scope", "languages", said))
    if collection.network.suffixes:
        try:
            public_suffixes_of(collection)
        except ConfigError as error:
            wrong.append(config.complaint_from_message(error.message))
    hosts = host_patterns_of(urls) if scope.hosts is None else scope.hosts
    scope = replace(scope, hosts=hosts, vocabularies=tuple(named))
    return replace(collection, roots=urls, roots_file=None, scope=scope), wrong


def _canonical_roots(
    collection: Collection, roots: list[tuple[str, str]], canonical: frozenset[str]
) -> tuple[tuple[str, ...], list[Complaint]]:
    """Those that are `canonical` already, as most are where one of many is added, are not looked at again."""
    if not roots:
        return (), [Complaint("", "roots", message("roots: at least one URL or host name is needed (or roots_file)"))]
    if len(roots) > ROOTS_MAX:
        return (), [
            Complaint(
                "",
                "roots",
                message("roots: {count} are more than the {roots_max} allowed", count=len(roots), roots_max=ROOTS_MAX),
            )
        ]
    identity, urls, wrong = url_identity_of(collection), dict[str, None](), list[Complaint]()
    for root, place in roots:
        url = root if root in canonical else parse_root(root, identity)
        if url is not None:
            urls[url] = None
        elif len(wrong) < COMPLAINTS_MAX:
            wrong.append(
                Complaint(
                    "",
                    "roots",
                    message("{place}: not an http(s) URL or a host name: {root!r}", place=place, root=root[:200]),
                )
            )
    return tuple(urls), wrong


def parse_root(text: str, identity: UrlIdentity) -> str | None:
    """What somebody wrote for a URL, as one of this collection's; None if it is neither that nor a host's name."""
    text = f"http://{text}" if HOST_PATTERN.fullmatch(text) else text
    return identity.canonicalize(text) if "://" in text else None


def host_patterns_of(urls: Iterable[str]) -> tuple[str, ...]:
    """The patterns of exactly these URLs' hosts."""
    return tuple(dict.fromkeys(_host_pattern(url) for url in urls))


def _check_ca_file(file: Path) -> Iterator[Complaint]:
    """What is wrong with certificates."""
    try:
        ssl.create_default_context(cafile=file)
    except (OSError, ssl.SSLError) as error:
        why = "it holds no certificates in PEM" if isinstance(error, ssl.SSLError) else error.strerror
        yield Complaint(
            "network",
            "ca_file",
            message("[network] ca_file: {file} cannot be used ({why})", file=str(file), why=str(why)),
        )


def _vocabulary(name: str) -> str | None:
    """`schema`, `schema:` or `https://schema.org/`."""
    address = expand_prefix(name if ":" in name else f"{name}:")
    return None if address is None or address != vocabulary_of(address) else address


def url_identity_of(collection: Collection) -> UrlIdentity:
    return UrlIdentity(collection.identity.fold_case, collection.identity.strip_slash)


def _host_pattern(url: str) -> str:
    authority = url.split("/", 3)[2]
    if ":" not in authority and "@" not in authority:
        return authority
    parts = split(url)
    return parts.host if parts.port == DEFAULT_PORTS[parts.scheme] else f"{parts.host}:{parts.port}"


def public_suffixes_of(collection: Collection) -> PublicSuffixes:
    """The public suffix list of this machine with what the collection adds to it."""
    return _suffixes(collection.network.suffixes)


@lru_cache(maxsize=16)
def _suffixes(extra: tuple[str, ...]) -> PublicSuffixes:
    return PublicSuffixes(bundled_suffix_list(), extra)


class Admission:
    """Decides for one collection, quickly: hosts are judged once."""

    def __init__(self, collection: Collection, is_taken_down: Callable[[str], bool] = lambda url: False) -> None:
        self._collection, self.is_taken_down = collection, is_taken_down
        self._identity = url_identity_of(collection)
        self._hosts: dict[str, tuple[HostId, str, bool]] = {}

    @property
    def identity(self) -> UrlIdentity:
        return self._identity

    def wants_data_of(self, page: Page) -> bool:
        """Whether it carries the data for the sake of which pages are kept, if that is what they are kept for."""
        scope = self._collection.scope
        return scope.keep == "all" or not (
            set(page.vocabularies).isdisjoint(scope.vocabularies) if scope.vocabularies else not page.vocabularies
        )

    def admit(self, url: str, depth: int, redirects: int = 0, *, beyond: bool = False) -> DiscoveredUrl | None:
        """A canonical URL as the frontier takes it, or None: out of scope. `beyond`: whoever led here may lead out of
        it, if the collection looks there."""
        host = self._host(url)
        if not (host[2] or (beyond and self._collection.explores_outside_hosts)) or self._is_excluded(url):
            return None
        return DiscoveredUrl(host[0], url_id(url), url, host[1], depth, redirects, status=self.refusal_status(url))

    def has_host(self, url: str) -> bool:
        """Whether its host belongs, whatever is said of the URL."""
        return self._host(url)[2]

    def is_in_scope(self, url: str) -> bool:
        return self._host(url)[2] and not self._is_excluded(url)

    def may_fetch(self, url: str) -> bool:
        """Whether a page that somebody led to may be asked for, inside or beyond."""
        return (self._host(url)[2] or self._collection.explores_outside_hosts) and not self._is_excluded(url)

    def is_outside_hosts(self, url: str) -> bool:
        """It is on none of the collection's hosts, nor a root: its language must speak for it."""
        return not self._host(url)[2] and url not in self._collection.root_set

    def refusal_status(self, url: str) -> int:
        """Why a URL in scope is not worth a request, by its looks alone, or must not be made; 0 if it may."""
        if self.is_taken_down(url):
            return Status.TAKEN_DOWN
        types = mime_types_of(url)
        if types and not any(map(self._collection.wants_type, types)):
            return Status.TYPE_NOT_WANTED
        return Status.TRAP if trap_reason(url) else 0

    def _is_excluded(self, url: str) -> bool:
        """By the patterns for URLs, on whatever host."""
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
        parts, key = split(url), host_key(url)
        port = "" if parts.port == DEFAULT_PORTS[parts.scheme] else parts.port
        inside = self._collection.host_matcher.matches(parts.host, port)
        self._hosts[origin] = (host_id(key), key, inside)
        return self._hosts[origin]

    def count_external_links(self, page: Page, visit: Visit) -> int:
        """How many different URLs of other sites the page vouches for, in scope or not: breadth asks for it. The list
        of suffixes is this machine's: a newer one than the frontier's may count a few sites apart or together."""
        if self._collection.strategy.order != "breadth" or page.robots.nofollow:
            return 0
        site = public_suffixes_of(self._collection).site
        own = site(host_name(visit.url))
        return len({link.url for link in page.links if link.is_followed and site(host_name(link.url)) != own})

    def admit_links(
        self, page: Page, visit: Visit, instead: str = "", *, kept: bool = False
    ) -> Iterator[DiscoveredUrl]:
        """Where a page leads, the page that it sends its readers to `instead` aside; nothing if it asks for that. What
        is `kept` leads beyond the scope too."""
        if page.robots.nofollow:
            return
        parent, segments = bytes.fromhex(page.content_id[:16]), visit.url.count("/")
        if self._collection.fetch.feeds:
            for url in page.feeds:
                if self.is_in_scope(url):
                    yield _discovered_url(url, visit.depth, UrlRole.FEED)
        for link in page.links:
            if not link.is_followed or link.url == instead:
                continue
            offer = self.admit(link.url, visit.depth + 1, beyond=kept)
            if offer is not None:
                deeper = parent and offer.host == visit.host and link.url.count("/") > segments
                yield replace(offer, parent=parent) if deeper else offer

    def admit_redirect(self, location: str, visit: Visit) -> DiscoveredUrl | None:
        """Where a redirect leads: to the same kind of thing."""
        if visit.role == UrlRole.PAGE:
            return self.admit(location, visit.depth, visit.redirects + 1, beyond=True)
        if visit.role == UrlRole.FEED and not self.is_in_scope(location):
            return None
        return replace(_discovered_url(location, visit.depth, UrlRole(visit.role)), redirects=visit.redirects + 1)

    def admit_listing(self, listing: Listing, visit: Visit) -> Iterator[DiscoveredUrl]:
        """Where a sitemap or feed leads. Further sitemaps must be on its own host, as the protocol has it."""
        for entry in listing.sitemaps:
            if visit.role == UrlRole.SITEMAP and host_key(entry.url) == host_key(visit.url):
                yield _discovered_url(entry.url, visit.depth, UrlRole.SITEMAP)
        for entry in listing.entries:
            offer = self.admit(entry.url, visit.depth + 1)
            if offer is not None:
                yield replace(offer, announced=entry.changed)

    def admit_sitemaps(self, urls: Iterable[str], key: str, depth: int) -> Iterator[DiscoveredUrl]:
        """Those that a host's robots.txt announces, in scope or not. On other hosts only a few, and only what looks
        like one: nobody may turn another host's pages into sitemaps."""
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
            yield _discovered_url(url, depth, UrlRole.SITEMAP)

    def admit_roots(self) -> Iterable[DiscoveredUrl]:
        """The roots, in scope or not: whoever names a root means it."""
        for url in self._collection.roots:
            yield _discovered_url(url, 0)


def _discovered_url(url: str, depth: int, role: UrlRole = UrlRole.PAGE) -> DiscoveredUrl:
    key = host_key(url)
    return DiscoveredUrl(host_id(key), url_id(url), url, key, depth, role=role)
