"""The dry run of a collection: scope check of URLs and estimate, without any request to a site.

Promises: nothing is changed; the rules of the scope are those of the crawl itself (`crawl/explain/scope_explanation`);
a line that is no URL gets its verdict like the others. An estimate reads much, so ESTIMATES_AT_ONCE are made at a time,
outside the event loop; the others wait.
"""

import asyncio
from collections.abc import Callable, Iterable

import msgspec

from tarrafa.config import Collection
from tarrafa.config.sections import ScopeConfig
from tarrafa.coordinator.dry_run.crawl_estimate import CrawlEstimate, estimate
from tarrafa.coordinator.dry_run.estimate_inputs import gather_estimate_inputs
from tarrafa.crawl.explain.scope_explanation import ScopeExplainer
from tarrafa.crawl.scope.collection_loader import parse_root, url_identity_of
from tarrafa.errors import ConfigError
from tarrafa.fetch.dns import is_refused_by_name
from tarrafa.frontier.address import Address
from tarrafa.i18n import Message, message
from tarrafa.parse.rdf.prefixes import shorten_iri
from tarrafa.parse.url import host_name
from tarrafa.runtime.data_dir import DataDirectory
from tarrafa.takedown import CurrentTakedowns

ESTIMATES_AT_ONCE = 2
URLS_MAX = 10_000
URL_CHARS_SHOWN = 2_048
NOT_A_URL, ADDRESS_REFUSED = "no url", "address"
SYNTAX_NAMES = {"rdfa": "RDFa", "microdata": "microdata", "jsonld": "JSON-LD"}
REFUSED_REASON = message(
    "its address is not on the public Internet, so it is refused; [network] allow_private = true allows it"
)


class ScopeVerdict(msgspec.Struct, frozen=True):
    """The verdict on one line. `rule` is the rule's name, `what` the pattern, host or type in the sentence."""

    url: str
    canonical: str
    inside: bool
    rule: str
    what: str
    sentence: Message | str


class ScopeCheckResponse(msgspec.Struct, frozen=True):
    """A verdict for each line, and what no dry run can know."""

    verdicts: list[ScopeVerdict]
    unknown: list[Message | str]


class DryRun:
    """Dry runs in one data directory. `address`: of its frontier, if that is on another machine."""

    def __init__(self, data: DataDirectory, address: Address | None) -> None:
        self._data, self._address = data, address
        self._places = asyncio.Semaphore(ESTIMATES_AT_ONCE)

    async def check_scope(self, collection: Collection, urls: Iterable[str]) -> ScopeCheckResponse:
        verdicts = await asyncio.to_thread(lambda: check_urls(collection, urls, CurrentTakedowns(self._data).covers))
        return ScopeCheckResponse(verdicts, unknown_before_crawl(collection) if verdicts else [])

    async def estimate(self, collection: Collection) -> CrawlEstimate:
        async with self._places:
            known = await gather_estimate_inputs(self._data, collection, address=self._address)
            return await asyncio.to_thread(estimate, collection, known)


def check_urls(
    collection: Collection,
    urls: Iterable[str],
    is_taken_down: Callable[[str], bool] = lambda url: False,
) -> list[ScopeVerdict]:
    """One verdict for each line that is not empty, in their order."""
    rules, identity = ScopeExplainer(collection, is_taken_down), url_identity_of(collection)
    verdicts: list[ScopeVerdict] = []
    for text in filter(None, map(str.strip, urls)):
        if len(verdicts) == URLS_MAX:
            raise ConfigError(message("more than {urls_max} URLs; check them in parts", urls_max=URLS_MAX))
        shown, url = text[:URL_CHARS_SHOWN], parse_root(text, identity)
        if url is None:
            verdicts.append(ScopeVerdict(shown, "", False, NOT_A_URL, "", message("it is no http(s) URL or host name")))
            continue
        found = rules.decide(url)
        if found.inside and _is_refused(collection, url):
            verdicts.append(ScopeVerdict(shown, url, False, ADDRESS_REFUSED, "", REFUSED_REASON))
            continue
        verdicts.append(ScopeVerdict(shown, url, found.inside, found.rule.value, found.what, found.reason))
    return verdicts


def _is_refused(collection: Collection, url: str) -> bool:
    """Whether the address guard will certainly refuse the URL: that can be told of a literal address only."""
    name, network = host_name(url), collection.network
    is_connected = network.allow_private or network.proxy or collection.connect_target(name) is not None
    return not is_connected and is_refused_by_name(name)


def unknown_before_crawl(collection: Collection) -> list[Message | str]:
    """What no dry run can know of this collection."""
    scope, found = collection.scope, list[Message | str]()
    if collection.politeness.robots == "obey":
        found.append(message("robots.txt is not fetched in a dry run: it may still forbid a page"))
    else:
        found.append(message("robots.txt is not obeyed in this collection"))
    if scope.depth_max is not None:
        text = message(
            "how deep a URL lies is not known before the crawl: beyond depth_max = {depth} it is out",
            depth=scope.depth_max,
        )
        found.append(text)
    limits = {"pages_max": scope.pages_max, "requests_max": scope.requests_max, "host_pages_max": scope.host_pages_max}
    shown = ", ".join(f"{key} = {value}" for key, value in limits.items() if value)
    found.append(message("once the limits are reached ({limits}) nothing more is fetched, in or out", limits=shown))
    if scope.languages:
        found.append(
            message("whether a page is kept depends on its language: {languages}", languages=", ".join(scope.languages))
        )
    if collection.render.when != "never":
        found.append(message("what scripts make of a page, and the links in it, is not known before the crawl"))
    if scope.keep == "structured":
        found.append(message("whether a page is kept depends on its structured data: {data}", data=_kept_data(scope)))
    return found


def _kept_data(scope: ScopeConfig) -> Message:
    """Which structured data a page must have."""
    syntaxes = ", ".join(SYNTAX_NAMES[one] for one in scope.syntaxes)
    if scope.vocabularies:
        names = ", ".join(map(shorten_iri, scope.vocabularies))
        return message("{syntaxes}, with one of the vocabularies {names}", syntaxes=syntaxes, names=names)
    if scope.open_graph or "rdfa" not in scope.syntaxes:
        return message("{syntaxes}, with any vocabulary", syntaxes=syntaxes)
    return message("{syntaxes}, with any vocabulary except Open Graph alone", syntaxes=syntaxes)
