"""What must be known of the synthetic Web, by its own facts and by which pages were fetched."""

from collections.abc import Iterable

from benchmarks.fault_injection.vanishing_web import VanishPlan
from tarrafa.testweb.oracle import expected_requests
from tarrafa.testweb.render.robots_sitemaps import is_allowed
from tarrafa.testweb.world.hosts import BY_NAME, World
from tarrafa.testweb.world.page_links import outlinks
from tarrafa.testweb.world.resources import (
    FILE_TYPES,
    REDIRECT_KINDS,
    PageRole,
    Resource,
    ResourceKind,
    path_of,
    redirect_target,
    resolve,
    role_of,
)
from tarrafa.testweb.world.url_variants import canonical_url

TYPES = ("text/html", "application/xhtml+xml", "text/plain")
UNWANTED_ENDINGS = tuple(f".{ending}" for ending, kind in FILE_TYPES.items() if kind.partition(";")[0] not in TYPES)


class WebTruth:
    """The Web at a moment when no page vanishes any more."""

    def __init__(self, world: World, plan: VanishPlan) -> None:
        self.world, self.plan = world, plan
        truth = expected_requests(world, [world.root(1)], types=TYPES, sitemaps=True)
        self.reachable_pages = truth.kept
        self._permitted = truth.requests

    def resource(self, url: str) -> Resource | None:
        host, slash, rest = url.removeprefix("http://").partition("/")
        found = self.world.find(host, 80)
        return resolve(self.world, found[0], slash + rest) if found else None

    def is_gone(self, url: str) -> bool:
        """Whether it was a page, and vanished."""
        found = self.resource(url)
        return found is not None and self.plan.vanishes_at(self.world, found) <= self.plan.end

    def in_links(self, fetched: Iterable[str]) -> dict[str, set[str]]:
        """Which of these URLs link to a URL: pages that are there, and redirects."""
        sources: dict[str, set[str]] = {}
        for url in fetched:
            for target in self._targets(url) - {url}:
                sources.setdefault(target, set()).add(url)
        return sources

    def undiscovered(self, fetched: set[str], seen: set[str]) -> set[str]:
        """URLs that a fetched page or redirect leads to, which are to be requested, and are not among those `seen`."""
        missing = set[str]()
        for url in fetched:
            resource = self.resource(url)
            if resource is None:
                continue
            for to in self._followed(resource):
                target = self._url(to)
                if target not in seen and is_allowed(self.world, to) and not target.endswith(UNWANTED_ENDINGS):
                    missing.add(target)
        return missing

    def not_permitted(self, requested: Iterable[str]) -> set[str]:
        return set(requested) - self._permitted

    def _targets(self, url: str) -> set[str]:
        resource = self.resource(url)
        if resource is None or self.is_gone(url):
            return set()
        if resource.kind in REDIRECT_KINDS:
            return {self._url(redirect_target(self.world, resource)[1])}
        return {self._url(link.to) for link in outlinks(self.world, resource)}

    def _followed(self, resource: Resource) -> list[Resource]:
        if resource.kind in REDIRECT_KINDS:
            is_endless = resource.kind is ResourceKind.LOOP
            return [] if is_endless else [redirect_target(self.world, resource)[1]]
        if role_of(self.world.host(resource.no), resource.n) is PageRole.DEAD_END:
            return []
        return [link.to for link in outlinks(self.world, resource) if not link.nofollow]

    def _url(self, resource: Resource) -> str:
        return canonical_url(self.world, BY_NAME, resource.no, path_of(self.world, resource))
