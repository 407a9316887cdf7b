"""The oracle: computes what exists in the synthetic Web, and which URLs an obedient crawler must request.

Promises: computed from the same facts as the pages (`world.resources`, `world.page_links`, `render.robots_sitemaps`),
never by reading a page. A crawl that differs from the oracle is wrong, or the synthetic Web is; tests/testweb compares
the two over a socket.
Knows nothing of HTTP, HTML or the crawler.

The obedient crawler: it requests robots.txt first and obeys it. It follows every link except those with rel=nofollow
and those on pages that say nofollow. It stays on the given hosts and within `depth_max` hops of its roots. A redirect
costs no hop; its target is requested under the rules of the target's host. A URL is requested once. Chains are at most
HOPS redirects long and only the loop never ends, so a crawler's limit on redirects plays no part.
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator

import msgspec

from tarrafa.testweb.http.web_response import gone_status, validators
from tarrafa.testweb.render.robots_sitemaps import announces_sitemap, is_allowed, sitemap_pages
from tarrafa.testweb.render.schema_org import SchemaOrgEntity, make_entity
from tarrafa.testweb.world.change_model import PageVersion, version_at
from tarrafa.testweb.world.hosts import BY_NAME, UrlForm, World
from tarrafa.testweb.world.page_links import outlinks
from tarrafa.testweb.world.resources import (
    FILE_TYPES,
    REDIRECT_KINDS,
    PageRole,
    Resource,
    ResourceKind,
    all_resources,
    file_extension,
    link_target,
    page_attributes,
    path_of,
    redirect_target,
    resolve,
    role_of,
    sitemap_parts,
)
from tarrafa.testweb.world.url_variants import canonical_url


class ReachableUrl(msgspec.Struct, frozen=True):
    """A URL that an obedient crawler requests."""

    url: str
    depth: int
    kind: ResourceKind
    status: int
    type: str  # without parameters; empty unless the status is 200
    no: int
    n: int


class TruthPage(msgspec.Struct, frozen=True, omit_defaults=True):
    """All facts about a URL at a given time."""

    url: str
    path: str
    kind: ResourceKind
    status: int
    type: str = ""
    location: str = ""  # of a redirect, canonical
    disallowed: bool = False
    role: str = ""
    title: str = ""
    language: str = ""
    charset: str = ""
    structured: str = ""
    thing: SchemaOrgEntity | None = None  # described by the page's structured data, in this version
    noindex: bool = False
    nofollow: bool = False
    noarchive: bool = False
    version: int = 0
    modified: int = 0  # when this version began
    etag: str = ""
    changes_per_day: float = 0.0


class TruthHost(msgspec.Struct, frozen=True):
    host: str
    root: str
    address: str  # its authority in the other form
    language: str
    pages: int
    crawl_delay_s: float
    robots: bool
    sitemap: bool


class ExpectedRequests(msgspec.Struct, frozen=True):
    """The requests that a crawl must make, and those that it may make."""

    kept: frozenset[str]  # respond 200 with an accepted type: each is fetched exactly once
    redirects: frozenset[str]
    missing: frozenset[str]
    unwanted: frozenset[str]  # other types: requested, or skipped by their extension
    robots_and_sitemaps: frozenset[str]  # robots.txt and sitemaps of the hosts that are visited

    @property
    def requests(self) -> frozenset[str]:
        """All permitted requests. Any other request is a mistake."""
        return self.kept | self.redirects | self.missing | self.unwanted | self.robots_and_sitemaps


def expected_response(world: World, resource: Resource) -> tuple[int, str]:
    """Status and content type."""
    kind = resource.kind
    if kind is ResourceKind.PAGE or kind is ResourceKind.PRINT:
        return 200, "text/html"
    if kind is ResourceKind.FILE:
        extension = file_extension(link_target(world, resource.no, resource.n).bits)
        return 200, FILE_TYPES[extension].partition(";")[0]
    if kind is ResourceKind.GONE:
        return gone_status(world.host(resource.no)), ""
    if kind is ResourceKind.ROBOTS:
        return (200, "text/plain") if world.host(resource.no).robots.present else (404, "")
    return (200, "application/xml") if kind is ResourceKind.SITEMAP else (redirect_target(world, resource)[0], "")


def reachable(
    world: World,
    roots: Iterable[str],
    *,
    depth_max: int | None = None,
    hosts: Callable[[str], bool] | None = None,
    form: UrlForm = BY_NAME,
    sitemaps: bool = False,
) -> dict[str, ReachableUrl]:
    """Every page, file, redirect and missing page that an obedient crawler requests, with its least depth. `hosts` is
    called with each host as it appears in a URL (`h0001.br.test`, `127.1.0.2:8090`). `sitemaps` also follows the
    sitemaps that robots.txt announces, as if the first page reached on a host linked to every listed page.
    """
    found: dict[Resource, int] = {}
    waiting: deque[tuple[Resource, int]] = deque((_resource(world, root, form), 0) for root in roots)
    visited: set[int] = set()
    while waiting:
        resource, depth = waiting.popleft()
        beyond = depth_max is not None and depth > depth_max
        outside = hosts is not None and not hosts(world.authority(resource.no, form))
        if resource in found or beyond or outside or not is_allowed(world, resource):
            continue
        found[resource] = depth
        if sitemaps and resource.no not in visited:
            visited.add(resource.no)
            waiting.extend((page, depth + 1) for page in _sitemap_entries(world, resource.no))
        if resource.kind in REDIRECT_KINDS:  # its target comes before anything deeper: depths never decrease
            waiting.appendleft((redirect_target(world, resource)[1], depth))
        else:
            waiting.extend((to, depth + 1) for to in _followed_links(world, resource))
    return {reached.url: reached for reached in _reachable_urls(world, found, form)}


def expected_requests(
    world: World,
    roots: Iterable[str],
    *,
    depth_max: int | None = None,
    hosts: Callable[[str], bool] | None = None,
    types: Iterable[str] = ("text/html",),
    form: UrlForm = BY_NAME,
    sitemaps: bool = False,
) -> ExpectedRequests:
    """The requests of a correct crawl. See `reachable` for the arguments; `types` are the collection's."""
    reached = reachable(world, roots, depth_max=depth_max, hosts=hosts, form=form, sitemaps=sitemaps)
    wanted = frozenset(types)
    kept, redirects, missing, unwanted, notices = (set[str]() for _ in range(5))
    for it in reached.values():
        if it.status == 200:
            (kept if it.type in wanted else unwanted).add(it.url)
        else:
            (redirects if it.status < 400 else missing).add(it.url)
    for no in {it.no for it in reached.values()}:
        notices.add(canonical_url(world, form, no, "/robots.txt"))
        for part in range(sitemap_parts(world.host(no)) + 1):
            notices.add(canonical_url(world, form, no, path_of(world, Resource(ResourceKind.SITEMAP, no, part))))
    return ExpectedRequests(*(frozenset(group) for group in (kept, redirects, missing, unwanted, notices)))


def describe(world: World, resource: Resource, now: float, form: UrlForm = BY_NAME) -> TruthPage:
    """The facts about one resource at a given time."""
    kind, no, n = resource.kind, resource.no, resource.n
    status, content_type = expected_response(world, resource)
    its_path = path_of(world, resource)
    base = TruthPage(canonical_url(world, form, no, its_path), its_path, kind, status, content_type)
    if kind in REDIRECT_KINDS:
        to = redirect_target(world, resource)[1]
        return msgspec.structs.replace(base, location=canonical_url(world, form, to.no, path_of(world, to)))
    base = msgspec.structs.replace(base, disallowed=not is_allowed(world, resource))
    if kind is not ResourceKind.PAGE and kind is not ResourceKind.PRINT:
        return base
    about, its = page_attributes(world, no, n), link_target(world, no, n)
    at = version_at(world, no, n, about.changes_per_day, now)
    host = world.host(no)
    return msgspec.structs.replace(
        base,
        role=about.role.value,
        title=its.title,
        language=host.language,
        charset=about.charset,
        structured=about.structured,
        thing=make_entity(its.bits >> 84, its.title, at.number) if about.structured else None,
        noindex=about.noindex,
        nofollow=about.nofollow,
        noarchive=about.noarchive,
        version=at.number,
        modified=at.since,
        etag=validators(host, resource, its.bits, at)[0],
        changes_per_day=about.changes_per_day,
    )


def describe_host(world: World, no: int, now: float, form: UrlForm = BY_NAME) -> Iterator[TruthPage]:
    """All resources of a host, reachable or not."""
    return (describe(world, resource, now, form) for resource in all_resources(world, no))


def describe_hosts(world: World, port: int, form: UrlForm = BY_NAME) -> Iterator[TruthHost]:
    for no in range(1, world.hosts + 1):
        host = world.host(no)
        other = world.authority(no, UrlForm(port) if form == BY_NAME else BY_NAME)
        yield TruthHost(host.name, world.root(no, form), other, host.language, host.pages, host.robots.crawl_delay_s,
                        host.robots.present, announces_sitemap(host))  # fmt: skip


def rate_of_url(world: World, address: str, form: UrlForm = BY_NAME) -> float:
    """How often a page changes, per day of the Web's clock."""
    resource = _resource(world, address, form)
    return page_attributes(world, resource.no, resource.n).changes_per_day


def version_of_url(world: World, address: str, now: float, form: UrlForm = BY_NAME) -> PageVersion:
    """The version of a page, by its URL."""
    resource = _resource(world, address, form)
    return version_at(
        world, resource.no, resource.n, page_attributes(world, resource.no, resource.n).changes_per_day, now
    )


def _resource(world: World, address: str, form: UrlForm) -> Resource:
    authority, slash, rest = address.removeprefix("http://").partition("/")
    found = world.find(authority, form.port)
    resource = resolve(world, found[0], slash + rest or "/") if found else None
    if found is None or resource is None:
        raise ValueError(f"{address}: nothing there in this world")
    return resource


def _followed_links(world: World, resource: Resource) -> Iterator[Resource]:
    if role_of(world.host(resource.no), resource.n) is PageRole.DEAD_END:
        return iter(())
    return (link.to for link in outlinks(world, resource) if not link.nofollow)


def _sitemap_entries(world: World, no: int) -> Iterator[Resource]:
    host = world.host(no)
    if announces_sitemap(host):
        for part in range(min(1, sitemap_parts(host)), sitemap_parts(host) + 1):
            for n in sitemap_pages(host, part):
                yield Resource(ResourceKind.PAGE, no, n)


def _reachable_urls(world: World, found: dict[Resource, int], form: UrlForm) -> Iterator[ReachableUrl]:
    for resource, depth in found.items():
        status, content_type = expected_response(world, resource)
        place = canonical_url(world, form, resource.no, path_of(world, resource))
        yield ReachableUrl(place, depth, resource.kind, status, content_type, resource.no, resource.n)
